"""Whether a tail's fit is stable, as a picture: a row a cell, shape, level and the tail itself side by side."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, cast

import matplotlib as mpl
from matplotlib.figure import Figure

from latlab.report.palette import COLOURS
from latlab.report.sheet import EDGE, GRID, HEAD_IN, SIDE_IN, TEXT_PT, TITLE_PT, WIDTH_IN, Point, Sheet, wrapped
from latlab.report.style import INK, QUIET, STYLE, save_all, text_in
from latlab.report.tail_view import CHOSEN, FITS, UNFIT, WARNING, Curve, Mark, TailCell, TailView, Ticks

REFUSED: Final = "#8a8a8a"
_PANEL_IN: Final = 1.2
_NAME_IN: Final = 0.24
_LINE_IN: Final = 0.17
_BELOW_IN: Final = 0.56
_BETWEEN_IN: Final = 0.62
_GAP_IN: Final = 0.3
_TOP_IN: Final = HEAD_IN + 0.5
_KEY: Final = ((CHOSEN, "chosen threshold"), (FITS, "a higher one"), (UNFIT, "one that does not fit"))
_TICK_PT: Final = 7.6


def write_tail_picture(shown: TailView, folder: Path, *, caption: str, formats: Sequence[str] = ("png",)) -> list[Path]:
    """The files written for one metric of one stream: STREAM-METRIC-tail.png. formats: of png, svg, pdf."""
    with mpl.rc_context(cast(Any, STYLE)):
        return save_all(tail_figure(shown, caption), folder, f"{shown.stream}-{shown.metric}-tail", formats)


def tail_figure(shown: TailView, caption: str) -> Figure:
    """A figure with three panels for each cell; below it the cells that have no fit, and why."""
    room_in = WIDTH_IN - 2 * SIDE_IN
    told = [wrapped(cell.told, room_in) for cell in shown.cells]
    without = [line for text in shown.without for line in wrapped(text, room_in)]
    rows_in = sum(_NAME_IN + _LINE_IN * len(lines) + _PANEL_IN + _GAP_IN for lines in told)
    height = _TOP_IN + rows_in + _BELOW_IN + _LINE_IN * len(without) + (0.1 if without else 0)
    sheet = Sheet(
        height, title=f"{shown.stream}: the tail of {shown.metric}, and whether it is stable", caption=caption
    )
    _key(sheet)
    left_in = SIDE_IN + 0.55
    width_in = (WIDTH_IN - left_in - SIDE_IN - 0.08 - 2 * _BETWEEN_IN) / 3
    panels = [_Panel(sheet, left_in + number * (width_in + _BETWEEN_IN), width_in) for number in range(3)]
    names = ("shape", f"level of {shown.level} [µs]", "share of packets with a peak at or above")
    for panel, name in zip(panels, names, strict=True):
        panel.above(_TOP_IN, name)
    top = _TOP_IN
    for cell, lines in zip(shown.cells, told, strict=True):
        sheet.text(SIDE_IN, top, cell.name, size=TITLE_PT, weight="bold", va="top")
        for number, line in enumerate(lines):
            sheet.text(SIDE_IN, top + _NAME_IN - 0.05 + number * _LINE_IN, line, colour=QUIET, va="top")
        top += _NAME_IN + _LINE_IN * len(lines)
        last = cell is shown.cells[-1]
        _shapes(panels[0].framed(top, shown.exceedances, shown.shapes, labelled=last), cell, shown.limits)
        panels[1].framed(top, shown.exceedances, cell.values, labelled=last).marks(cell.level, _colour(cell))
        _tail(panels[2].framed(top, cell.values, shown.shares, labelled=True), cell)
        top += _PANEL_IN + _GAP_IN
    above = "values above the threshold"
    for panel, name in zip(panels, (above, above, "peak of an episode [µs]"), strict=True):
        panel.below(top - _GAP_IN, name)
    for number, line in enumerate(without):
        sheet.text(SIDE_IN, top + _BELOW_IN - _GAP_IN + number * _LINE_IN, line, colour=QUIET, va="top")
    return sheet.figure


class _Panel:
    """A column of panels. Whatever is drawn goes into the one that `framed` has begun."""

    def __init__(self, sheet: Sheet, left: float, width: float) -> None:
        self.sheet, self._left, self._width, self._top = sheet, left, width, 0.0

    def framed(self, top: float, across: Ticks, up: Ticks, *, labelled: bool) -> _Panel:
        """Itself, with a panel that begins at `top`: its grid and edges, and figures up, and across if labelled."""
        self._top = top
        right, bottom = self._left + self._width, top + _PANEL_IN
        grid = [self.line(at, 0, at, 1) for at, _ in across] + [self.line(0, at, 1, at) for at, _ in up]
        self.sheet.lines(grid, GRID, 0.6, zorder=0.5)
        self.sheet.lines([[(self._left, top), (self._left, bottom), (right, bottom)]], EDGE, zorder=0.6)
        for at, text in up:
            x, y = self.point(0, at)
            self.sheet.text(x - 0.06, y, text, size=_TICK_PT, colour=QUIET, ha="right")
        for at, text in across if labelled else ():
            x, _ = self.point(at, 0)
            self.sheet.text(x, bottom + 0.06, text, size=_TICK_PT, colour=QUIET, ha="center", va="top")
        return self

    def above(self, top: float, name: str) -> None:
        """Write what the upward axis is, over all the cells."""
        self.sheet.text(self._left, top - 0.08, name, size=_TICK_PT, va="bottom")

    def below(self, bottom: float, name: str) -> None:
        """Write what the axis across is, under all the cells."""
        self.sheet.text(self._left + self._width / 2, bottom + 0.24, name, ha="center", va="top")

    def point(self, at: float, up: float) -> Point:
        return self._left + at * self._width, self._top + (1 - up) * _PANEL_IN

    def line(self, *places: float) -> list[Point]:
        """A line through (at, up), (at, up), …"""
        return [self.point(at, up) for at, up in zip(places[::2], places[1::2], strict=True)]

    def curve(self, points: Curve) -> list[Point]:
        return [self.point(*one) for one in points]

    def marks(self, marks: Sequence[Mark], own: str) -> None:
        """Draw figures with their intervals upwards."""
        for kind in (UNFIT, FITS, CHOSEN):
            those = [one for one in marks if one.kind == kind]
            colour = REFUSED if kind == UNFIT else own
            lines = [self.line(one.at, one.low, one.at, one.high) for one in those]
            self.sheet.lines(lines, colour, 1.1, gid="interval")
            for marker, end, cut in (("v", 0.0, "cut_low"), ("^", 1.0, "cut_high")):
                points = [self.point(one.at, end) for one in those if getattr(one, cut)]
                self.sheet.marks(points, marker, 4.0, colour, gid="beyond-axis")
            _points(self.sheet, [self.point(one.at, one.value) for one in those if not one.beyond], kind, colour)


def _points(sheet: Sheet, points: Sequence[Point], kind: str, colour: str) -> None:
    marker, size = ("s", 3.6) if kind == UNFIT else ("o", 5.2 if kind == CHOSEN else 4.4)
    inside = colour if kind == CHOSEN else "white"
    sheet.marks(points, marker, size, colour, markerfacecolor=inside, markeredgewidth=1.0, zorder=3, gid=kind)


def _shapes(panel: _Panel, cell: TailCell, limits: Sequence[float]) -> None:
    for at in limits:
        panel.sheet.lines([panel.line(0, at, 1, at)], EDGE, 0.7, linestyles=[(0, (3, 2))], gid="limit")
    panel.marks(cell.shape, _colour(cell))


def _colour(cell: TailCell) -> str:
    return REFUSED if cell.refused else COLOURS[cell.colour]


def _tail(panel: _Panel, cell: TailCell) -> None:
    colour = _colour(cell)
    x, y = panel.point(1, 1)
    panel.sheet.text(x, y + 0.02, cell.axis, size=_TICK_PT, colour=QUIET, ha="right", va="top")
    panel.sheet.marks(panel.curve(cell.measured), "o", 2.4, INK, zorder=2, gid="measured")
    panel.sheet.lines([panel.curve(cell.fitted)], colour, 1.2, zorder=2.5, gid="fitted")
    if cell.beyond:
        dashes: Any = [(0, (4, 2))]
        panel.sheet.lines([panel.curve(cell.beyond)], colour, 1.2, linestyles=dashes, zorder=2.5, gid="beyond")
    panel.sheet.lines([panel.line(one.low, one.at, one.high, one.at) for one in cell.levels], colour, 1.1, gid="told")
    _points(panel.sheet, [panel.point(one.value, one.at) for one in cell.levels], CHOSEN, colour)


def _key(sheet: Sheet) -> None:
    left, y = SIDE_IN, 0.68
    for kind, text in _KEY:
        _points(sheet, [(left + 0.05, y)], kind, REFUSED if kind == UNFIT else INK)
        sheet.text(left + 0.16, y, text, colour=QUIET)
        left += 0.16 + text_in(text, TEXT_PT) + 0.22
    sheet.marks([(left + 0.05, y)], "o", 2.4, INK)
    sheet.text(
        left + 0.16,
        y,
        "a measured peak; line: the fit, dashed beyond; bars: 95 %; arrows: beyond the axis",
        colour=QUIET,
    )
    sheet.text(SIDE_IN, y + 0.21, WARNING, colour=INK)
