"""All timers of a run on one axis: how late the interrupt's handler and the thread began, as ranges."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from math import ceil, floor, log10
from typing import Final

from latlab.analysis.words import duration
from latlab.model.units import SECOND_NS
from latlab.report import rows
from latlab.report.charts import sheet as on
from latlab.report.charts.sheet import COLOURS, Drawing, Sheet
from latlab.report.document import bad_if
from latlab.report.text import microseconds
from latlab.result.places import cell_title, matrix_title
from latlab.result.types import Cell, Metric, Result, Stream, Timer, TimerHandler, TimerWindow

CHART_TITLE: Final = "Timers on one axis: natively, on a host with guests, in guests"
KEY: Final = "Thin: minimum to maximum. Thick: median to p99, or to the maximum where n supports no p99. Point: mean."


@dataclass(frozen=True)
class TimerRange:
    """One timer's handler or thread; places are % of the axis, which is logarithmic.

    name: what and where. cell: what else its cell is, which has this slug; may be empty. point: of the mean. told: its
    figures in words.
    """

    name: str
    slug: str
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

    rows: tuple[TimerRange, ...]
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
                    found.append((what, cell, _else(cell, name), of, figures))
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


def _else(cell: Cell, timer: str) -> str:
    """The cell's name without the timer's, where the matrix has that it is the one that is measured."""
    others = {key: value for key, value in cell.cell.items() if value not in (timer, [timer])}
    return matrix_title(others) if others else ""


def _range(what: str, cell: Cell, others: str, of: str, figures: Metric, place: Callable[[float], float]) -> TimerRange:
    named = {one: getattr(figures, one) for one in ("min", "p50", "mean", "p99", "max")}
    known = {name: value for name, value in named.items() if value is not None}
    told = ", ".join(f"{name} {microseconds(value)}" for name, value in known.items())
    return TimerRange(
        what,
        cell.slug,
        others,
        cell.repeat,
        of,
        place(known["min"]),
        place(known["max"]),
        place(known["p50"]),
        place(known.get("p99", known["max"])),
        place(known["mean"]),
        f"{', '.join(filter(None, (what, others, f'repeat {cell.repeat}')))}: {told} µs",
    )


# As a chart

_ROW_IN: Final = 0.36
_BARS_IN: Final = 0.24
"""What the bars of a row's repetitions share."""
_NAMES_IN: Final = 3.7


def timer_chart(found: Ranges) -> Drawing:
    """A row for each handler and thread of each cell, all on one axis; repetitions share a row."""
    line = f" Line: {found.threshold_told}." if found.threshold_told else ""
    return Drawing("timers", CHART_TITLE, partial(_pieces, found), (f"µs, log. {KEY}{line}",))


def _pieces(found: Ranges, width_in: float) -> Iterator[Sheet]:
    drawn: dict[tuple[str, str], list[TimerRange]] = {}
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
        _draw_row(sheet, found, repeats, place, sheet.height_in / 2 if beside else top + _ROW_IN / 2)
        yield sheet
    sheet = Sheet(width_in, 0.5)
    sheet.lines([[(place(0), 0), (place(100), 0)]], on.EDGE)
    for at, text in found.ticks:
        sheet.text(place(at), 0.06, text, size=on.SMALL_PT, colour=on.QUIET, ha="center", va="top")
    sheet.text(place(50), 0.24, "after the instant [µs, log]", size=on.SMALL_PT, ha="center", va="top")
    yield sheet


def _at(left: float, width: float, place: float) -> float:
    return left + width * place / 100


def _draw_row(
    sheet: Sheet, found: Ranges, repeats: list[TimerRange], place: Callable[[float], float], middle: float
) -> None:
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


# As a table


TITLE = "Timers: how late the interrupt's handler and the thread began, µs, warm-up left out"
WINDOWS_TITLE = "Each window of each timer, µs, warm-up left out"
WINDOW_HEADINGS = ("cell", "repeat", "timer", "of", "from", "n", "mean", "stddev", "min", "max", "later", "share")
WINDOW_FIGURES = range(5, len(WINDOW_HEADINGS))
"""Which of them are numbers."""
NOT_ASKED = "not requested"
HEADINGS = (
    *("cell", "repeat", "timer", "where", "of", "min", "mean", "stddev", "max", "later than the threshold"),
    *("windows", "their means", "most later in one", "overdue", "interrupts"),
)
HANDLER, THREAD = "handler", "thread"
"""What begins late: the interrupt's handler (`interrupt`), and the thread (`wakeup`)."""
METRICS = {HANDLER: "interrupt", THREAD: "wakeup"}
NATIVE, BESIDE, GUEST = "native", "host with guests", "guest"
"""Where a timer runs: on a host without guests, on one whose guests run too, in a guest."""


def timer_rows(result: Result) -> Iterator[Sequence[str]]:
    """How late each timer had its handler, where interrupts are reported, and its thread, in the summary's order."""
    for cell in rows.ordered_cells(result):
        for name, block in cell.streams.items():
            if timer := block.timer:
                for of, late in _lates(timer):
                    yield _row(cell, name, block, of, timer, late)


def window_rows(result: Result) -> Iterator[Sequence[str]]:
    """A row for each window of each timer, in their order; none of timers that had too many."""
    for cell in rows.ordered_cells(result):
        for name, block in cell.streams.items():
            for of, window in _every_window(block.timer):
                yield (
                    cell_title(cell),
                    str(cell.repeat),
                    f"{name}, {block.talker}",
                    of,
                    f"{window.from_ns / SECOND_NS:g} s",
                    str(window.n),
                    *map(microseconds, (window.mean, window.stddev, window.min, window.max)),
                    str(window.above),
                    f"{100 * window.above / window.n:.3g} %",
                )


def where(cell: Cell, host: str) -> str:
    """Where a timer on this host or guest runs: NATIVE, BESIDE, GUEST."""
    guests = [one.name for one in cell.guests]
    return GUEST if host in guests else BESIDE if guests else NATIVE


def _lates(timer: Timer) -> Iterator[tuple[str, TimerHandler]]:
    """(HANDLER or THREAD, its `n`, `above` and `windows`)."""
    if interrupt := timer.interrupt:
        yield HANDLER, interrupt
    yield THREAD, timer


def _every_window(timer: Timer | None) -> Iterator[tuple[str, TimerWindow]]:
    for of, late in _lates(timer) if timer else ():
        for window in late.windows or ():
            yield of, window


def _row(cell: Cell, name: str, block: Stream, of: str, timer: Timer, late: TimerHandler) -> Sequence[str]:
    counts = block.counts
    told = _interrupts(block, timer)
    return (
        cell_title(cell),
        str(cell.repeat),
        f"{name}, {block.talker}",
        where(cell, block.talker),
        of,
        *(_figure(block, METRICS[of], statistic) for statistic in ("min", "mean", "stddev", "max")),
        _above(late, timer.threshold_ns),
        *_windows(late, timer.window_ns),
        bad_if(counts["overdue"], str(counts["overdue"] or "none")),
        bad_if(told not in ("traced", NOT_ASKED), told),
    )


def _above(late: TimerHandler, threshold_ns: int) -> str:
    """How many were later, of how many, which share that is, and later than what: "3 of 400 (0.75 %), 30 µs"."""
    share = f" ({100 * late.above / late.n:.3g} %)" if late.n else ""
    return f"{late.above} of {late.n}{share}, {duration(threshold_ns)}"


def _figure(block: Stream, metric: str, statistic: str) -> str:
    return microseconds(getattr(block.metrics.get(metric), statistic, None))


def _windows(late: TimerHandler, window_ns: int) -> tuple[str, str, str]:
    """How many, of which length; from which mean to which; how many were later than the threshold in the worst."""
    windows = late.windows
    if windows is None:
        return f"too many of {duration(window_ns)}", "", ""
    if not windows:
        return "", "", ""
    means = sorted(one.mean for one in windows if one.mean is not None)
    ends = dict.fromkeys((duration(means[0]), duration(means[-1])))
    most = max(windows, key=lambda one: one.above)
    worst = f"{most.above} of {most.n}, from {duration(most.from_ns)} on" if most.above else "none"
    return f"{len(windows)} of {duration(window_ns)}", " to ".join(ends), worst


def _interrupts(block: Stream, timer: Timer) -> str:
    """Whether the kernel reported the timer's interrupts."""
    if not timer.traced:
        return NOT_ASKED if timer.trace_problem is None else "not traced"
    return f"{block.counts['untold']} not traced" if block.counts["untold"] else "traced"
