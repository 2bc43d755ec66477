"""Timers: how many of their instants were later than the threshold, in all and in the worst window."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from latlab.analysis.words import duration
from latlab.report import rows
from latlab.report.document import bad_if
from latlab.report.places import cell_title
from latlab.report.text import microseconds
from latlab.result.types import Cell, Result, Stream, Timer, TimerHandler, TimerWindow

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


def waits(block: Stream) -> bool:
    """Whether a stream's block of the result is of one host that waits for instants: a timer, ours or a tool's."""
    return block.probe is not None and block.talker == block.listener


def any_waits(result: Result) -> bool:
    """Whether any of a result's cells has such a block."""
    return any(waits(block) for cell in result.cells for block in cell.streams.values())


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
                    f"{window.from_ns / 1e9:g} s",
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
    """Whether the kernel told of the timer's interrupts."""
    if not timer.traced:
        return NOT_ASKED if timer.trace_problem is None else "not traced"
    return f"{block.counts['untold']} not traced" if block.counts["untold"] else "traced"
