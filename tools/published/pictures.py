"""Pictures that pages draw themselves: what the author compares, in the author's terms."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from latlab.model.part import Keys
from latlab.report.charts import sheet as on
from latlab.report.charts.files import Charts
from latlab.report.charts.sheet import COLOURS, Drawing, Sheet, text_in
from latlab.report.charts.sweep import StatisticReach, Sweep, SweepLine, SweepPoint, sweep_chart
from latlab.report.charts.sweeps import FrameRooms, sweeps
from latlab.report.charts.tail import value_ticks
from latlab.report.charts.timers import timer_chart, timer_ranges
from latlab.report.repeats import Strip, drawn
from latlab.report.view import View
from published.claims import Figures, is_one
from published.experiment import Drawn

Named = Sequence[tuple[str, str]]
"""(a name on the page, the cells of that name: conditions as of `Of`)."""


def caption(figures: Figures) -> str:
    """What stands below a picture's title."""
    return Charts(figures.run.folder, figures.run.result).caption


# Half of round trips over their size


def halves_by_size(named: Mapping[str, str]) -> Drawn:
    """Half of round trips over the payload, as the report draws whole ones. named: line in the report → on the page."""

    def draw(figures: Figures) -> Drawing | None:
        every = sweeps(figures.run.result, FrameRooms(figures.run.folder).of)
        whole = next((one for one in every if (one.metric, one.heading) == ("round_trip", "size")), None)
        return sweep_chart(_halved(whole, named)) if whole else None

    return draw


def _halved(whole: Sweep, named: Mapping[str, str]) -> Sweep:
    def line(one: SweepLine) -> SweepLine:
        points = tuple(replace(point, reaches=_half_of(point)) for point in one.points)
        return replace(one, name=named.get(one.name, one.name), points=points)

    axis = whole.y_axis
    return replace(
        whole,
        title="half of the round trip",
        label="half of (answered − launch)",
        y_axis=replace(axis, low_ns=axis.low_ns / 2, high_ns=axis.high_ns / 2),
        # The page's table has other figures than the report's.
        notes=tuple(one for one in whole.notes if "table" not in one),
        panels=tuple(replace(panel, lines=tuple(map(line, panel.lines))) for panel in whole.panels),
    )


def _half_of(point: SweepPoint) -> dict[str, StatisticReach]:
    return {
        figure: StatisticReach(one.low_ns // 2, one.high_ns // 2, None if one.line_ns is None else one.line_ns // 2)
        for figure, one in point.reaches.items()
    }


# Timers


def timers(named: Named) -> Drawn:
    """Ranges of handler and thread, these cells alone, in this order."""

    def draw(figures: Figures) -> Drawing | None:
        ranges = timer_ranges(figures.run.result)
        cells = {cell.slug: cell.cell for cell in figures.run.result.cells}
        rows = [
            replace(one, name=f"{name}: {one.of}", cell="")
            for name, conditions in named
            for one in (ranges.rows if ranges else ())
            if is_one(cells[one.slug], conditions)
        ]
        return timer_chart(replace(ranges, rows=tuple(rows))) if ranges and rows else None

    return draw


# Repetitions

_STRIP_IN: Final = 0.075
_HIGH_IN: Final = 0.05
_APART_IN: Final = 0.1
_NONE: Final = "not measured"
_KEY: Final = "A bar a repetition: the middle 90 % of its packets, with the median; tick: its maximum."


def repetitions(stream: str, metric: str, groups: Iterable[tuple[str, Named]]) -> Drawn:
    """A row for each of these cells with a bar a repetition, in groups, so that what is compared is side by side."""
    listed = tuple(groups)

    def draw(figures: Figures) -> Drawing | None:
        result = figures.run.result
        shown = Charts(figures.run.folder, result).view(stream, metric)
        strips = drawn(shown).of
        cells = {cell.slug: cell.cell for cell in result.cells}
        rows = [
            (title, [(name, strips.get(_slug(cells, conditions), ())) for name, conditions in named])
            for title, named in listed
        ]
        stem, title = f"{stream}-{metric}", f"{stream}: {metric}"
        return Drawing(stem, title, partial(_groups, shown, rows), (_KEY,)) if strips else None

    return draw


def _slug(cells: Mapping[str, Keys], conditions: str) -> str:
    return next((slug for slug, cell in cells.items() if is_one(cell, conditions)), "")


Group = tuple[str, Sequence[tuple[str, Sequence[Strip]]]]
"""(title, its rows: name, repetitions)."""


def _groups(shown: View, groups: Sequence[Group], width_in: float) -> Iterator[Sheet]:
    names_in = max(text_in(name, on.TEXT_PT) for _, rows in groups for name, _ in rows)
    left = on.SIDE_IN + names_in + 0.2
    width = width_in - on.SIDE_IN - 0.2 - left
    ticks = [(left + at * width, text) for at, text in value_ticks(shown.axis)]
    for title, rows in groups:
        sheet = Sheet(width_in, told=f"{title}: {'; '.join(_told(*row) for row in rows)}")
        sheet.text(on.SIDE_IN, 0.08, title, size=on.TITLE_PT, weight="bold", va="top")
        top = 0.34
        heights = [_STRIP_IN * max(len(strips), 2) for _, strips in rows]
        sheet.height_in = top + sum(heights) + _APART_IN * len(rows)
        sheet.lines([[(at, top), (at, sheet.height_in)] for at, _ in ticks], on.GRID, 0.6)
        for (name, strips), height in zip(rows, heights, strict=True):
            sheet.text(on.SIDE_IN, top + height / 2, name)
            if not strips:
                sheet.text(left, top + height / 2, _NONE, size=on.SMALL_PT, colour=on.QUIET)
            for number, strip in enumerate(strips):
                _strip(sheet, strip, top + (number + 0.5) * _STRIP_IN, left, width)
            top += height + _APART_IN
        yield sheet
    sheet = Sheet(width_in, 0.5)
    sheet.lines([[(left, 0), (left + width, 0)]], on.EDGE)
    for at, text in ticks:
        sheet.text(at, 0.06, text, size=on.SMALL_PT, colour=on.QUIET, ha="center", va="top")
    kind = {"log": "µs, log", "linear": "µs"}.get(shown.axis.kind, f"µs, {shown.axis.told()}")
    sheet.text(left + width / 2, 0.24, f"{shown.label} [{kind}]", size=on.SMALL_PT, ha="center", va="top")
    yield sheet


def _told(name: str, strips: Sequence[Strip]) -> str:
    return f"{name}, {', '.join(one.told for one in strips) or _NONE}"


def _strip(sheet: Sheet, strip: Strip, y: float, left: float, width: float) -> None:
    low, middle, high, largest = (
        left + width * place / 100 for place in (strip.low, strip.middle, strip.high, strip.largest)
    )
    colour, top, bottom = COLOURS[strip.look.colour], y - _HIGH_IN / 2, y + _HIGH_IN / 2
    sheet.box(low, top, high - low, _HIGH_IN, colour, alpha=0.45, name="range")
    sheet.lines([[(middle, top), (middle, bottom)]], on.INK, 1.4, name="middle")
    sheet.lines([[(largest, top), (largest, bottom)]], colour, 1.6, name="largest")
