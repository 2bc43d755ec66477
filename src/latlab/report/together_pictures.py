"""All repetitions of a cell together, as a picture: the page's histograms, in a file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, cast

import matplotlib as mpl
from matplotlib.figure import Figure

from latlab.report.repeat_pictures import repeated
from latlab.report.repeats import drawn
from latlab.report.sheet import EDGE, GRID, HEAD_IN, SIDE_IN, TITLE_PT, WIDTH_IN, Sheet
from latlab.report.style import QUIET, STYLE, save_all
from latlab.report.tail_view import value_ticks
from latlab.report.together import BINS, HEADINGS, HEIGHT, Together, together
from latlab.report.view import View
from latlab.result.types import Result

_NAME_IN: Final = 0.24
_FIGURES_IN: Final = 0.18
_HISTOGRAM_IN: Final = 0.5
_GAP_IN: Final = 0.16
_AXIS_IN: Final = 0.55
_SMALL_PT: Final = 7.6
_KEY: Final = (
    "All repetitions as one sample, counts on a log scale; percentiles exact to 0.8 %. It does not show how much "
    "deployments differ."
)


def write_together_picture(
    result: Result, shown: View, folder: Path, *, caption: str, formats: Sequence[str] = ("png",)
) -> list[Path]:
    """The files written for one metric of one stream: STREAM-METRIC-together.png; none where no cell was repeated.

    formats: of png, svg, pdf.
    """
    found = together(repeated(result, shown), drawn(shown))
    if not found:
        return []
    with mpl.rc_context(cast(Any, STYLE)):
        return save_all(
            together_figure(shown, found, caption), folder, f"{shown.stream}-{shown.metric}-together", formats
        )


def together_figure(shown: View, found: Sequence[Together], caption: str) -> Figure:
    """A figure with a histogram for each configuration, below each other, all on the view's axis."""
    row_in = _NAME_IN + _FIGURES_IN + _HISTOGRAM_IN + _GAP_IN
    top_in = HEAD_IN + 0.15
    bottom = top_in + row_in * len(found)
    title = f"{shown.stream}: all repetitions of {shown.metric} together"
    sheet = Sheet(bottom + _AXIS_IN, title=title, caption=caption)
    sheet.text(SIDE_IN, HEAD_IN - 0.17, _KEY, colour=QUIET, va="top")
    left, width = SIDE_IN + 0.1, WIDTH_IN - 2 * SIDE_IN - 0.2
    for number, one in enumerate(found):
        top = top_in + number * row_in
        sheet.text(SIDE_IN, top, one.name, size=TITLE_PT, weight="bold", va="top")
        told = "   ".join(f"{name} {text}" for name, text in zip(HEADINGS, one.figures, strict=True) if text)
        sheet.text(
            SIDE_IN, top + _NAME_IN, f"{one.repeats} repetitions, µs: {told}", size=_SMALL_PT, colour=QUIET, va="top"
        )
        foot = top + row_in - _GAP_IN
        sheet.lines([[(left, foot), (left + width, foot)]], GRID)
        sheet.area(_outline(one.heights, left, foot, width), QUIET, gid="together")
    for at, text in value_ticks(shown.axis):
        sheet.lines([[(left + at * width, bottom), (left + at * width, bottom + 0.04)]], EDGE)
        sheet.text(left + at * width, bottom + 0.06, text, size=_SMALL_PT, colour=QUIET, ha="center", va="top")
    sheet.lines([[(left, bottom), (left + width, bottom)]], EDGE)
    kind = {"log": "µs, log", "linear": "µs"}.get(shown.axis.kind, f"µs, {shown.axis.told()}")
    sheet.text(left + width / 2, bottom + 0.24, f"{shown.label} [{kind}]", ha="center", va="top")
    return sheet.figure


def _outline(heights: Sequence[int], left: float, foot: float, width: float) -> list[tuple[float, float]]:
    """The steps of a histogram, from its foot on the left to that on the right."""
    steps = [
        (left + (number + side) * width / BINS, foot - height / HEIGHT * _HISTOGRAM_IN)
        for number, height in enumerate(heights)
        for side in (0, 1)
    ]
    return [(left, foot), *steps, (left + width, foot)]
