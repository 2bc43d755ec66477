"""A timer's instants: how late its thread woke for them, in all and in each window, and how many it missed."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Final

import numpy as np
import polars as pl

from latlab.analysis.counts import SENDING, unknown
from latlab.analysis.statistics import statistics
from latlab.recordings.cell import Ready, RecordedCell, RecordedStream, TimerSettings
from latlab.result.types import Timer, TimerHandler, TimerWindow

WINDOWS_MOST: Final = 1_000
"""So many windows stand in the result one by one; of a finer division none does."""

_LATE: Final = pl.col("wake_tai_ns") - pl.col("wake_due_tai_ns")
_HANDLED: Final = pl.col("irq_tai_ns") - pl.col("wake_due_tai_ns")
_CAME: Final = pl.col("wake_tai_ns").is_not_null()


def timer_counts(stream: RecordedStream, rows: pl.DataFrame) -> dict[str, int]:
    """What became of a timer's instants, over its whole length, warm-up included.

    scheduled: due; came: those that its thread woke for; unknown: those of which the recording, which is not all there,
    does not say; unrecorded: the others; overdue: those that had passed when it
    was done with the one before, for which no timer was set; above: later than the threshold; untold: those that a
    timer was set for and of whose interrupt nothing was reported, where interrupts are reported at all, else 0.
    send_errors: none, as nothing is sent.
    """
    traced = rows["irq_tai_ns"].null_count() < rows.height
    waited = _CAME & ~pl.col("overdue")
    said = rows.select(
        _CAME.sum().alias("came"),
        pl.col("overdue").fill_null(False).sum().alias("overdue"),
        (stream.asked.threshold_ns < _LATE).sum().alias("above"),
        (waited & pl.col("irq_tai_ns").is_null()).sum().alias("untold"),
        (unknown(rows, SENDING) & ~_CAME).sum().alias("unknown"),
    ).row(0, named=True)
    return {
        "scheduled": rows.height,
        "warmup": int(rows["warmup"].sum()),
        "came": int(said["came"]),
        "unrecorded": rows.height - int(said["came"]) - int(said["unknown"]),
        "unknown": int(said["unknown"]),
        "overdue": int(said["overdue"]),
        "above": int(said["above"]),
        "untold": int(said["untold"]) if traced else 0,
        "send_errors": 0,
    }


def timer_figures(cell: RecordedCell, stream: RecordedStream, rows: pl.DataFrame) -> Timer:
    """How late a timer's thread woke for its instants, in all and in each window, warm-up left out.

    window_ns: as it was asked for, or the whole schedule where that is shorter. n, above: instants that the thread came
    to, and those later than the threshold. interrupt: the same of the interrupt's handler; None where no interrupt is
    reported. windows: of the instants due in each, as the agent reports them while it measures; None: there are more
    than WINDOWS_MOST. traced, trace_problem: whether the kernel reports its interrupts, and why not although requested.
    """
    asked = stream.asked
    first_ns = cell.start_of(stream) + stream.offset_ns
    counted = rows.filter(_CAME & ~pl.col("warmup"))
    handled = counted.filter(pl.col("irq_tai_ns").is_not_null())
    agents = (agent for agent in cell.agents if agent.verb == "timer" and agent.probe == (stream.probe or stream.name))
    ready = next((agent.said for agent in agents), Ready())
    return Timer(
        threshold_ns=asked.threshold_ns,
        window_ns=min(asked.window_ns, (stream.count or 0) * (stream.period_ns or 0)),
        **vars(_lateness(counted.with_columns(late=_LATE), first_ns, asked)),
        interrupt=_lateness(handled.with_columns(late=_HANDLED), first_ns, asked) if handled.height else None,
        traced=ready.timer is not None and ready.timer.traced,
        trace_problem=ready.trace_problem,
    )


def _lateness(rows: pl.DataFrame, first_ns: int, asked: TimerSettings) -> TimerHandler:
    """Of instants and their lateness, `late`, ns."""
    late_ns = rows["late"].to_numpy()
    place = (rows["wake_due_tai_ns"].to_numpy() - first_ns) // asked.window_ns
    windows = _windows(place, late_ns, rows["sequence"].to_numpy(), asked)
    return TimerHandler(n=len(late_ns), above=int((late_ns > asked.threshold_ns).sum()), windows=windows)


def _windows(place: Any, late_ns: Any, sequence: Any, asked: TimerSettings) -> list[TimerWindow] | None:
    """place: int64 [n], which window each instant is in, ascending."""
    # As instants come in order, a window is an interval of them.
    begins = np.flatnonzero(np.diff(place, prepend=-1))
    if len(begins) > WINDOWS_MOST:
        return None
    windows = []
    for begin, end in pairwise([*begins.tolist(), len(place)]):
        found = statistics(late_ns[begin:end], sequence[begin:end])
        windows.append(
            TimerWindow(
                from_ns=int(place[begin]) * asked.window_ns,
                n=end - begin,
                mean=found.mean,
                stddev=found.stddev,
                min=found.min,
                max=found.max,
                above=int((late_ns[begin:end] > asked.threshold_ns).sum()),
            )
        )
    return windows
