"""All timers of a run on one axis: how late the interrupt's handler and the thread began, as ranges."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from math import ceil, floor, log10
from typing import Final

from latlab.analysis.words import duration
from latlab.report import rows
from latlab.report.charts import sheet as on
from latlab.report.charts.sheet import Drawing, Sheet
from latlab.report.palette import COLOURS
from latlab.report.places import cell_title
from latlab.report.text import microseconds
from latlab.report.timers import HANDLER, METRICS, where
from latlab.result.types import Metric, Result

TITLE: Final = "Timers on one axis: natively, on a host with guests, in guests"
KEY: Final = "Thin: minimum to maximum. Thick: median to p99, or to the maximum where n supports no p99. Point: mean."


@dataclass(frozen=True)
class Range:
    """One timer's handler or thread; places are % of the axis, which is logarithmic.

    name: what and where. point: of the mean. told: its figures in words.
    """

    name: str
    cell: str
    repeat: int
    of: str
    least: float
    most: float
    low: float
    high: float
    point: float
    told: str


@dataclass(frozen=True)
class Ranges:
    """Ranges on one axis. ticks: (place, µs as text). threshold: its place, if all timers have the same one."""

    rows: tuple[Range, ...]
    ticks: tuple[tuple[float, str], ...]
    threshold: float | None
    threshold_told: str


def timer_ranges(result: Result) -> Ranges | None:
    """Those of a result; None if it has no two to put side by side."""
    found = []
    thresholds = set()
    for cell in rows.ordered_cells(result):
        for name, block in cell.streams.items():
            if not (timer := block.timer):
                continue
            thresholds.add(timer.threshold_ns)
            for of, metric in METRICS.items():
                figures = block.metrics.get(metric)
                if figures and figures.n and figures.p50 is not None:
                    what = f"{name}, {block.talker}: {of} ({where(cell, block.talker)})"
                    found.append((what, cell_title(cell), cell.repeat, of, figures))
    if len(found) < 2:
        return None
    ends = [max(float(end or 0), 1.0) for *_, one in found for end in (one.min, one.max)]
    first, last = floor(log10(min(ends))), max(ceil(log10(max(ends))), floor(log10(min(ends))) + 1)

    def place(ns: float) -> float:
        return round(100 * (log10(max(ns, 10.0**first)) - first) / (last - first), 2)

    ticks = tuple((place(10.0**power), f"{10.0 ** (power - 3):g}") for power in range(first, last + 1))
    only = next(iter(thresholds)) if len(thresholds) == 1 else None
    inside = only is not None and 10.0**first <= only <= 10.0**last
    return Ranges(
        tuple(_range(*one, place) for one in found),
        ticks,
        place(only) if only is not None and inside else None,
        f"threshold {duration(only)}" if only is not None and inside else "",
    )


def _range(what: str, cell: str, repeat: int, of: str, figures: Metric, place: Callable[[float], float]) -> Range:
    named = {one: getattr(figures, one) for one in ("min", "p50", "mean", "p99", "max")}
    known = {name: value for name, value in named.items() if value is not None}
    told = ", ".join(f"{name} {microseconds(value)}" for name, value in known.items())
    return Range(
        what,
        cell,
        repeat,
        of,
        place(known["min"]),
        place(known["max"]),
        place(known["p50"]),
        place(known.get("p99", known["max"])),
        place(known["mean"]),
        f"{what}, {cell}, repeat {repeat}: {told} µs",
    )


# As a chart

_ROW_IN: Final = 0.36
_BARS_IN: Final = 0.24
"""What the bars of a row's repetitions share."""
_NAMES_IN: Final = 3.7


def timer_chart(found: Ranges) -> Drawing:
    """A row for each handler and thread of each cell, all on one axis; repetitions share a row."""
    line = f" Line: {found.threshold_told}." if found.threshold_told else ""
    return Drawing("timers", TITLE, partial(_pieces, found), (f"µs, log. {KEY}{line}",))


def _pieces(found: Ranges, width_in: float) -> Iterator[Sheet]:
    drawn: dict[tuple[str, str], list[Range]] = {}
    for one in found.rows:
        drawn.setdefault((one.name, one.cell), []).append(one)
    beside = width_in >= on.BESIDE_IN
    left = on.SIDE_IN + (_NAMES_IN if beside else 0.1)
    place = partial(_at, left, width_in - on.SIDE_IN - 0.2 - left)
    for (name, cell), repeats in drawn.items():
        sheet = Sheet(width_in, told="; ".join(one.told for one in repeats))
        names_in = _NAMES_IN if beside else width_in - 2 * on.SIDE_IN
        top = 0.04
        for text, colour in ((name, on.INK), (cell, on.QUIET)):
            for row in on.wrapped(text, names_in - 0.15, on.SMALL_PT):
                sheet.text(on.SIDE_IN, top, row, size=on.SMALL_PT, colour=colour, va="top")
                top += 0.15
        sheet.height_in = max(_ROW_IN, top + 0.03) if beside else top + _ROW_IN
        _row(sheet, found, repeats, place, sheet.height_in / 2 if beside else top + _ROW_IN / 2)
        yield sheet
    sheet = Sheet(width_in, 0.5)
    sheet.lines([[(place(0), 0), (place(100), 0)]], on.EDGE)
    for at, text in found.ticks:
        sheet.text(place(at), 0.06, text, size=on.SMALL_PT, colour=on.QUIET, ha="center", va="top")
    sheet.text(place(50), 0.24, "after the instant [µs, log]", size=on.SMALL_PT, ha="center", va="top")
    yield sheet


def _at(left: float, width: float, place: float) -> float:
    return left + width * place / 100


def _row(sheet: Sheet, found: Ranges, repeats: list[Range], place: Callable[[float], float], middle: float) -> None:
    sheet.lines([[(place(at), 0), (place(at), sheet.height_in)] for at, _ in found.ticks], on.GRID)
    if found.threshold is not None:
        x = place(found.threshold)
        sheet.lines([[(x, 0), (x, sheet.height_in)]], on.QUIET, dash=(3, 2), name="threshold")
    step = _BARS_IN / len(repeats)
    for number, one in enumerate(repeats):
        y = middle + step * (number - (len(repeats) - 1) / 2)
        colour = COLOURS[0 if one.of == HANDLER else 1]
        with sheet.about(one.told):
            sheet.lines([[(place(one.least), y), (place(one.most), y)]], colour, 0.9, name="range")
            sheet.lines([[(place(one.low), y), (place(one.high), y)]], colour, min(4.0, 50 * step))
            sheet.marks([(place(one.point), y)], "o", min(5.0, 70 * step), colour)
