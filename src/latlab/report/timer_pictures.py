"""All timers of a run on one axis, as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, cast

import matplotlib as mpl
from matplotlib.figure import Figure

from latlab.report.palette import COLOURS
from latlab.report.sheet import EDGE, GRID, HEAD_IN, SIDE_IN, WIDTH_IN, Sheet
from latlab.report.style import QUIET, STYLE, save_all
from latlab.report.timer_ranges import KEY, TITLE, Range, Ranges
from latlab.report.timers import HANDLER

FILE: Final = "timers"
_ROW_IN: Final = 0.34
_BARS_IN: Final = 0.24
"""What the bars of a row's repetitions share."""
_NAMES_IN: Final = 3.7
_AXIS_IN: Final = 0.55
_SMALL_PT: Final = 7.6


def write_timer_picture(found: Ranges, folder: Path, *, caption: str, formats: Sequence[str] = ("png",)) -> list[Path]:
    """The files written: timers.png. formats: of png, svg, pdf."""
    with mpl.rc_context(cast(Any, STYLE)):
        return save_all(timer_figure(found, caption), folder, FILE, formats)


def timer_figure(found: Ranges, caption: str) -> Figure:
    """A figure with a row for each handler and thread of each cell, all on one axis; repetitions share a row."""
    drawn: dict[tuple[str, str], list[Range]] = {}
    for one in found.rows:
        drawn.setdefault((one.name, one.cell), []).append(one)
    top = HEAD_IN + 0.1
    bottom = top + _ROW_IN * len(drawn)
    sheet = Sheet(bottom + _AXIS_IN, title=TITLE, caption=caption)
    sheet.text(SIDE_IN, HEAD_IN - 0.17, KEY, colour=QUIET, va="top")
    left = SIDE_IN + _NAMES_IN
    width = WIDTH_IN - SIDE_IN - 0.2 - left

    def at(place: float) -> float:
        return left + width * place / 100

    for place, text in found.ticks:
        sheet.lines([[(at(place), top), (at(place), bottom)]], GRID)
        sheet.text(at(place), bottom + 0.06, text, size=_SMALL_PT, colour=QUIET, ha="center", va="top")
    if found.threshold is not None:
        sheet.lines([[(at(found.threshold), top), (at(found.threshold), bottom)]], EDGE, linestyles="dashed")
        sheet.text(at(found.threshold), top - 0.04, found.threshold_told, size=_SMALL_PT, colour=QUIET, ha="center")
    for number, ((name, cell), repeats) in enumerate(drawn.items()):
        middle = top + _ROW_IN * (number + 0.5)
        sheet.text(SIDE_IN, middle - 0.07, name, size=_SMALL_PT)
        sheet.text(SIDE_IN, middle + 0.09, cell, size=_SMALL_PT - 1, colour=QUIET)
        step = _BARS_IN / len(repeats)
        for place, one in enumerate(repeats):
            y = middle + step * (place - (len(repeats) - 1) / 2)
            colour = COLOURS[0 if one.of == HANDLER else 1]
            sheet.lines([[(at(one.least), y), (at(one.most), y)]], colour, 0.9, gid="range")
            sheet.lines([[(at(one.low), y), (at(one.high), y)]], colour, min(4.0, 50 * step))
            sheet.marks([(at(one.point), y)], "o", min(5.0, 70 * step), colour)
    sheet.lines([[(left, bottom), (left + width, bottom)]], EDGE)
    sheet.text(left + width / 2, bottom + 0.24, "after the instant [µs, log]", ha="center", va="top")
    return sheet.figure
