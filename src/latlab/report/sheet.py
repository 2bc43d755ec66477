"""A picture drawn in inches, as on paper: few calls for many small panels, which axes of their own would make slow."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from latlab.report.style import INK, QUIET, Style, text_in

WIDTH_IN: Final = 10.0
SIDE_IN: Final = 0.16
HEAD_IN: Final = 0.78
TEXT_PT: Final = 8.5
TITLE_PT: Final = 9.0
EDGE: Final = "#8a8a8a"
GRID: Final = "#e2e2e2"

Point = tuple[float, float]


class Sheet:
    """A figure of WIDTH_IN by `height_in`; places in inches from its upper left corner, downwards."""

    def __init__(self, height_in: float, *, title: str, caption: str) -> None:
        """title: in bold at the top; caption: below it."""
        self.figure = Figure(figsize=(WIDTH_IN, height_in))
        self._axes = self.figure.add_axes((0, 0, 1, 1))
        self._axes.set_axis_off()
        self._axes.set_xlim(0, WIDTH_IN)
        self._axes.set_ylim(height_in, 0)
        self.text(SIDE_IN, 0.12, title, size=13, weight="bold", va="top")
        self.text(SIDE_IN, 0.41, caption, size=8.8, colour=QUIET, va="top")

    def text(
        self, x: float, y: float, text: str, *, size: float = TEXT_PT, colour: str = INK, weight: str = "normal",
        ha: str = "left", va: str = "center_baseline", rotation: float = 0,
    ) -> None:  # fmt: skip
        """Nothing; the text stands there, as it is: nothing in it is a formula."""
        style: Style = {"ha": ha, "va": va, "rotation": rotation, "parse_math": False}
        self._axes.text(x, y, text, fontsize=size, color=colour, fontweight=weight, **style)

    def lines(self, points: Iterable[Sequence[Point]], colour: str, width: float = 0.7, **style: Any) -> None:
        """Nothing; lines through these points. style: as LineCollection has it, `gid` or `linestyles`."""
        self._axes.add_collection(
            LineCollection([list(one) for one in points], colors=colour, linewidths=width, **style), autolim=False
        )

    def marks(self, points: Sequence[Point], marker: str, size: float, colour: str, **style: Any) -> None:
        """Nothing; a marker of `size` points at each of these. style: as Line2D has it."""
        if points:
            x, y = np.array(points).T
            self._axes.plot(x, y, linestyle="none", marker=marker, markersize=size, color=colour, **style)

    def box(self, left: float, top: float, width: float, height: float, **style: Any) -> None:
        """Nothing; a rectangle. style: as Rectangle has it."""
        self._axes.add_artist(Rectangle((left, top), width, height, **style))

    def area(self, points: Sequence[Point], colour: str, **style: Any) -> None:
        """Nothing; what lies within these points is filled."""
        x, y = np.array(points).T
        self._axes.fill(x, y, color=colour, linewidth=0, **style)


def wrapped(text: str, width_in: float, size_pt: float = TEXT_PT) -> list[str]:
    """The text in lines of this width, broken between words. Words are measured one by one: most are known by then."""
    space_in = text_in("a a", size_pt) - 2 * text_in("a", size_pt)
    lines: list[str] = []
    filled_in = 0.0
    for word in text.split():
        word_in = text_in(word, size_pt)
        if lines and filled_in + space_in + word_in <= width_in:
            lines[-1] += f" {word}"
            filled_in += space_in + word_in
        else:
            lines.append(word)
            filled_in = word_in
    return lines
