"""What every picture looks like: type, inks, grid; and how wide a text will be."""

from __future__ import annotations

from typing import Any

from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path

INK = "#1a1a1a"
QUIET = "#5a5a5a"
STYLE: dict[str, Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 9.0,
    "axes.titlesize": 9.0,
    "axes.labelsize": 9.0,
    "axes.edgecolor": "#8a8a8a",
    "axes.linewidth": 0.7,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.color": "#e2e2e2",
    "grid.linewidth": 0.6,
    "xtick.color": QUIET,
    "ytick.color": QUIET,
    "xtick.labelsize": 8.5,
    "ytick.labelsize": 8.5,
    "figure.dpi": 100,
    "savefig.dpi": 150,
    "svg.hashsalt": "latlab",
    "svg.fonttype": "none",
    "pdf.fonttype": 42,
}
# Without these, each file would carry the moment it was written and no two would be equal.
METADATA: dict[str, dict[str, Any]] = {
    "png": {"Software": None},
    "svg": {"Date": None},
    "pdf": {"CreationDate": None, "Producer": None, "Creator": None},
}


def text_in(text: str, size_pt: float, weight: str = "normal") -> float:
    """How wide the text is in inches."""
    if not text.strip():
        return 0.0
    prop = FontProperties(size=size_pt, weight=weight)
    return float(text_to_path.get_text_width_height_descent(text, prop, ismath=False)[0]) / 72
