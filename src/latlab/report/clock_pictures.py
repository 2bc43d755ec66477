"""How clocks went while cells were measured, as a picture: the page's charts below each other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final, cast

import matplotlib as mpl
from matplotlib.figure import Figure

from latlab.report.clock_series import HEIGHT, WIDTH, ClockChart, Points
from latlab.report.palette import COLOURS
from latlab.report.sheet import EDGE, HEAD_IN, SIDE_IN, WIDTH_IN, Point, Sheet, wrapped
from latlab.report.style import QUIET, STYLE, save_all

MOST: Final = 30
"""Charts in one file; more of them go on in the next."""
_CHART_IN: Final = 0.75
_LINE_IN: Final = 0.17
_GAP_IN: Final = 0.3
_LEFT_IN: Final = SIDE_IN + 0.8
_SMALL_PT: Final = 7.6


def write_clock_pictures(
    charts: Iterable[ClockChart], folder: Path, *, caption: str, formats: Sequence[str] = ("png",)
) -> list[Path]:
    """The files written: clocks.png, and clocks-2.png and so on where there are many. formats: of png, svg, pdf."""
    found, written = list(charts), []
    with mpl.rc_context(cast(Any, STYLE)):
        for number, at in enumerate(range(0, len(found), MOST), start=1):
            figure = clocks_figure(found[at : at + MOST], caption)
            written += save_all(figure, folder, "clocks" if number == 1 else f"clocks-{number}", formats)
    return written


def clocks_figure(charts: Sequence[ClockChart], caption: str) -> Figure:
    """A figure with the charts below each other, each on its own axes: value up, time to the right."""
    titles = [wrapped(f"{one.cell}, repeat {one.repeat}: {one.title}", WIDTH_IN - 2 * SIDE_IN) for one in charts]
    height = HEAD_IN + sum(_LINE_IN * len(lines) + _CHART_IN + _GAP_IN for lines in titles)
    sheet = Sheet(height, title="Clocks over time", caption=caption)
    top = HEAD_IN
    for chart, lines in zip(charts, titles, strict=True):
        for number, line in enumerate(lines):
            sheet.text(SIDE_IN, top + number * _LINE_IN, line, va="top")
        top += _LINE_IN * len(lines) + 0.05
        _chart(sheet, chart, top)
        top += _CHART_IN + _GAP_IN - 0.05
    return sheet.figure


def _chart(sheet: Sheet, chart: ClockChart, top: float) -> None:
    width = WIDTH_IN - SIDE_IN - _LEFT_IN

    def placed(points: Points) -> list[Point]:
        return [(_LEFT_IN + width * x / WIDTH, top + _CHART_IN * y / HEIGHT) for x, y in points]

    sheet.box(_LEFT_IN, top, width, _CHART_IN, fill=False, edgecolor=EDGE, linewidth=0.7)
    if chart.band:
        sheet.area(placed(chart.band), COLOURS[1], alpha=0.35, gid="band")
        sheet.lines([placed(chart.band)], COLOURS[1], 0.7)
    if chart.line:
        sheet.lines([placed(chart.line)], COLOURS[0], 0.9, gid="line")
    sheet.text(_LEFT_IN - 0.07, top + 0.02, chart.high, size=_SMALL_PT, colour=QUIET, ha="right", va="top")
    sheet.text(_LEFT_IN - 0.07, top + _CHART_IN, chart.low, size=_SMALL_PT, colour=QUIET, ha="right", va="bottom")
    sheet.text(
        WIDTH_IN - SIDE_IN, top + _CHART_IN + 0.04, chart.span, size=_SMALL_PT, colour=QUIET, ha="right", va="top"
    )
