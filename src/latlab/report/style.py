"""What every picture looks like: type, inks, grid; and how wide a text will be."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from matplotlib.artist import Artist
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path

from latlab.report.own_pictures import file_stem

INK = "#1a1a1a"
QUIET = "#5a5a5a"
Style = dict[str, Any]
"""What matplotlib takes by name."""

STYLE: Style = {
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
METADATA: dict[str, Style] = {
    "png": {"Software": None},
    "svg": {"Date": None},
    "pdf": {"CreationDate": None, "Producer": None, "Creator": None},
}

_OWN: dict[str, Style] = {"png": {"pil_kwargs": {"compress_level": 3}}}
"""Pillow's level takes a third of the default's time."""


def save(figure: Figure, path: Path, kind: str) -> None:
    """Nothing; the figure is written. kind: png, svg or pdf."""
    figure.savefig(path, format=kind, metadata=METADATA[kind], **_OWN.get(kind, {}))


def save_all(figure: Figure, folder: Path, stem: str, formats: Sequence[str]) -> list[Path]:
    """The files written: STEM.KIND for each of `formats`, of png, svg, pdf. What a file's name cannot have is "_"."""
    folder.mkdir(parents=True, exist_ok=True)
    name = file_stem(stem)
    paths = [folder / f"{name}.{kind}" for kind in formats]
    for path, kind in zip(paths, formats, strict=True):
        save(figure, path, kind)
    return paths


def legend_below(figure: Figure, handles: Sequence[Artist], columns: int, left_in: float, size_pt: float) -> None:
    """Nothing; the figure has a legend at its foot, from left_in on, its entries row by row in so many columns."""
    width_in, height_in = figure.get_size_inches()
    figure.legend(
        # matplotlib fills column by column.
        handles=[one for column in range(columns) for one in handles[column::columns]],
        loc="lower left",
        bbox_to_anchor=(left_in / width_in, 0.08 / height_in),
        ncol=columns,
        frameon=False,
        borderpad=0,
        borderaxespad=0,
        fontsize=size_pt,
        columnspacing=1.6,
        handletextpad=0.6,
    )


@cache
def text_in(text: str, size_pt: float, weight: str = "normal") -> float:
    """How wide the text is in inches."""
    if not text.strip():
        return 0.0
    prop = FontProperties(size=size_pt, weight=weight)
    return float(text_to_path.get_text_width_height_descent(text, prop, ismath=False)[0]) / 72
