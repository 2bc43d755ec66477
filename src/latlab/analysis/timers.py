"""A timer's instants: how late its thread came to them, in all and in each window, and how many were passed by."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Final

import numpy as np
import polars as pl

from latlab.analysis.counts import SENDING, unknown
from latlab.analysis.metrics import METRICS_BY_NAME, TIMER_METRICS, Metric
from latlab.analysis.statistics import statistics
from latlab.analysis.way import WAKEUP_WAY
from latlab.recordings.cell import Ready, RecordedCell, RecordedStream, TimerSettings

TIMED: Final[tuple[Metric, ...]] = (METRICS_BY_NAME["wakeup"], *TIMER_METRICS)
"""The metrics of a timer: the whole, then its parts."""

WINDOWS_MOST: Final = 1_000
"""So many windows stand in the result one by one; of a finer division none does."""

_LATE: Final = pl.col("wake_tai_ns") - pl.col("wake_due_tai_ns")
_HANDLED: Final = pl.col("irq_tai_ns") - pl.col("wake_due_tai_ns")
_CAME: Final = pl.col("wake_tai_ns").is_not_null()


def timer_counts(stream: RecordedStream, rows: pl.DataFrame) -> dict[str, int]:
    """What became of a timer's instants, over its whole length, warm-up included.

    scheduled: due; came: those that its thread came to; unknown: those of which the recording, which is not all there,
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


def timer_worst(rows: pl.DataFrame, sequence: int) -> dict[str, Any]:
    """{"sequence", "intervals": [{"from", "to", "ns"}, …]} of one instant: they add up to its lateness."""
    one = rows.row(sequence, named=True)
    passed = [name for name in WAKEUP_WAY if one[f"{name}_tai_ns"] is not None]
    return {
        "sequence": sequence,
        "intervals": [
            {"from": start, "to": end, "ns": one[f"{end}_tai_ns"] - one[f"{start}_tai_ns"]}
            for start, end in pairwise(passed)
        ],
    }


def traced_by(cell: RecordedCell, probe: str) -> dict[str, Any]:
    """{"traced", "trace_problem"}: whether the kernel reports its interrupts, and why it does not though asked."""
    agents = (agent for agent in cell.agents if agent.verb == "timer" and agent.probe == probe)
    ready = next((agent.said for agent in agents), Ready())
    problem = ready.trace_problem
    return {
        "traced": ready.timer is not None and ready.timer.traced,
        "trace_problem": problem and problem.document(),
    }


def windows_of(stream: RecordedStream, rows: pl.DataFrame, start_ns: int) -> dict[str, Any]:
    """{"threshold_ns", "window_ns", "n", "above", "windows": […] or None, "interrupt"}: warm-up left out.

    window_ns: as it was asked for, or the whole schedule where that is shorter.
    n, above: instants that the thread came to, and those later than the threshold. interrupt: {"n", "above",
    "windows"}, the same of the interrupt's handler; None where no interrupt is reported. Each window has `from_ns`,
    after the first instant, `n`, `mean`, `stddev` (of the population), `min`, `max`, `above`: of the instants due in
    it, as the agent tells them while it measures. None: there are more than WINDOWS_MOST.
    """
    asked = stream.asked
    first_ns = start_ns + stream.offset_ns
    counted = rows.filter(_CAME & ~pl.col("warmup"))
    handled = counted.filter(pl.col("irq_tai_ns").is_not_null())
    return {
        "threshold_ns": asked.threshold_ns,
        "window_ns": min(asked.window_ns, (stream.count or 0) * (stream.period_ns or 0)),
        **_lateness(counted.with_columns(late=_LATE), first_ns, asked),
        "interrupt": _lateness(handled.with_columns(late=_HANDLED), first_ns, asked) if handled.height else None,
    }


def _lateness(rows: pl.DataFrame, first_ns: int, asked: TimerSettings) -> dict[str, Any]:
    """{"n", "above", "windows"} of instants and their lateness, `late`, ns."""
    late_ns = rows["late"].to_numpy()
    place = (rows["wake_due_tai_ns"].to_numpy() - first_ns) // asked.window_ns
    return {
        "n": len(late_ns),
        "above": int((late_ns > asked.threshold_ns).sum()),
        "windows": _windows(place, late_ns, rows["sequence"].to_numpy(), asked),
    }


def _windows(place: Any, late_ns: Any, sequence: Any, asked: TimerSettings) -> list[dict[str, Any]] | None:
    """place: int64 [n], which window each instant is in, ascending."""
    # As instants come in order, a window is an interval of them.
    begins = np.flatnonzero(np.diff(place, prepend=-1))
    if len(begins) > WINDOWS_MOST:
        return None
    windows = []
    for begin, end in pairwise([*begins.tolist(), len(place)]):
        found = statistics(late_ns[begin:end], sequence[begin:end])
        windows.append(
            {
                "from_ns": int(place[begin]) * asked.window_ns,
                **{name: getattr(found, name) for name in ("n", "mean", "stddev", "min", "max")},
                "above": int((late_ns[begin:end] > asked.threshold_ns).sum()),
            }
        )
    return windows
