"""How a thread was woken: from the interrupt to its running, and what was interrupted, as tracepoints show it.

A thread waits for something: a packet, an instant. Its waking is the first `sched_waking` of it after that came, and
what caused it is found by going back on the CPU where it was made: the softirq that was being served there, who had
asked for that softirq, and the interrupt whose handler that was. Nothing is looked for by time alone: a softirq that
had ended by then woke no thread, and an interrupt whose handler had returned raised nothing. Where events were lost on
the way it is unknown.

Columns of `trace` and `tasks` are those of the recordings (docs/reference/run-folder.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

LOST: Final = 0
IRQ_ENTRY: Final = 1
IRQ_EXIT: Final = 2
TIMER_ENTRY: Final = 3
TIMER_EXIT: Final = 4
SOFTIRQ_RAISE: Final = 5
SOFTIRQ_ENTRY: Final = 6
SOFTIRQ_EXIT: Final = 7
WAKING: Final = 11
SWITCH: Final = 12
MSI: Final = 13
GSI: Final = 14
ACCEPT: Final = 15
INJECT: Final = 16
ENTRY: Final = 17
EXIT: Final = 18
PENDING: Final = 19

AWAKE: Final = "awake"
"""It had not been woken since: it ran, or was about to, when that came."""
EVENTS_LOST: Final = "events-lost"
"""The kernel lost events of that time."""
NO_WAKING: Final = "no-waking"
"""It had gone to sleep, and nothing reports that it was woken, as on kernels that leave out events without counting
them (docs/explanation/decisions.md).
"""

# include/linux/trace_events.h, enum trace_flag_type: in an interrupt's handler, a softirq was being served.
_HANDLER: Final = 0x08
_SERVING: Final = 0x10
# include/trace/events/sched.h, `prev_state`: in one of these a thread goes to sleep; in others it would run on.
ASLEEP: Final = 0xFF

_Places = NDArray[np.intp]


@dataclass(frozen=True)
class _Trace:
    """The events CPU by CPU, in the order of each: `place` is a row here. All arrays are of one length."""

    tai_ns: NDArray[np.int64]
    cpu: NDArray[np.uint16]
    event: NDArray[np.uint8]
    pid: NDArray[np.int32]
    subject: NDArray[np.int64]
    detail: NDArray[np.int64]
    flags: NDArray[np.uint8]

    @classmethod
    def of(cls, trace: pl.DataFrame) -> _Trace:
        """What was recorded, in any order of CPUs."""
        by_cpu = trace.sort("cpu", maintain_order=True)
        columns = {name: by_cpu[name].to_numpy() for name in ("tai_ns", "cpu", "event", "pid", "flags")}
        missing = {name: by_cpu[name].fill_null(-1).to_numpy() for name in ("subject", "detail")}
        return cls(**missing, **columns)

    def places(self, *events: int, subject: int | None = None) -> _Places:
        """Where these events are, of this subject if one is given; ascending."""
        found = np.isin(self.event, events)
        return np.flatnonzero(found if subject is None else found & (self.subject == subject))

    def last_before(self, places: _Places, before: _Places) -> _Places:
        """Of `places`, ascending, for each row of `before` the last one before it on its CPU; −1: there is none."""
        nearest = np.searchsorted(places, before) - 1
        found = np.where(nearest >= 0, places[nearest] if len(places) else -1, -1)
        return self._on_cpu(found, before)

    def first_after(self, places: _Places, after: _Places) -> _Places:
        """Of `places`, ascending, for each row of `after` the first one after it; −1: there is none."""
        nearest = np.searchsorted(places, after, side="right")
        there = nearest < len(places)
        return np.where(there, places[np.where(there, nearest, 0)] if len(places) else -1, -1)

    def going_on(self, entries: _Places, exits: _Places, at: _Places) -> _Places:
        """For each row of `at` the entry of what had begun on its CPU, in its thread, and not ended; −1: nothing had.

        exits: where it ends, and where events were lost, after which it is unknown.
        """
        known = np.where(at >= 0, at, 0)
        entry = self.last_before(entries, known)
        ended = self.last_before(exits, known) > entry
        other = self.pid[np.where(entry >= 0, entry, 0)] != self.pid[known]
        return np.where((at < 0) | ended | other, -1, entry)

    def lost_between(self, from_ns: NDArray[np.int64], to_ns: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether any CPU's events were lost in some of the time from one instant to the other, both int64 [n]."""
        begins, ends = self.gaps()
        if not len(begins):
            return np.zeros(len(from_ns), np.bool_)
        latest = np.searchsorted(begins, to_ns, side="right") - 1
        lost: NDArray[np.bool_] = (latest >= 0) & (ends[latest] >= from_ns)
        return lost

    def gaps(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """(begins, ends): intervals of time of which events of a CPU were lost, by their beginnings; an end is the
        latest of those so far.
        """
        lost = self.places(LOST)
        if not len(lost):
            return np.empty(0, np.int64), np.empty(0, np.int64)
        has_earlier = (lost > 0) & (self.cpu[lost - 1] == self.cpu[lost])
        begins = np.where(has_earlier, self.tai_ns[lost - 1], np.iinfo(np.int64).min)
        order = np.argsort(begins, kind="stable")
        return begins[order], np.maximum.accumulate(self.tai_ns[lost][order])

    def _on_cpu(self, found: _Places, rows: _Places) -> _Places:
        there = found >= 0
        same = self.cpu[np.where(there, found, 0)] == self.cpu[rows]
        return np.where(there & same, found, -1)


def lost_between(trace: pl.DataFrame, from_ns: NDArray[np.int64], to_ns: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether any CPU's events were lost in some of the time from one instant to the other, both int64 [n]."""
    return _Trace.of(trace).lost_between(from_ns, to_ns)


def handler_threads(tasks: pl.DataFrame) -> dict[int, int]:
    """{thread: the interrupt's number} of the threads in which handlers run, `irq/36-eth0` (kernel/irq/manage.c)."""
    named = tasks.select("pid", irq=pl.col("comm").str.extract(r"^irq/(\d+)-").cast(pl.Int64)).drop_nulls()
    return dict(zip(named["pid"].to_list(), named["irq"].to_list(), strict=True))


def wakings(
    waits: pl.DataFrame, trace: pl.DataFrame, thread: int, handlers: Mapping[int, int] | None = None
) -> pl.DataFrame:
    """How the thread was woken for what it waited for: a row for each row of `waits`, in its order.

    waits: `from_tai_ns`, when that came, and `to_tai_ns`, when the thread had it, both by the CLOCK_TAI of the trace's
    host. handlers: `handler_threads`. Columns, null where they are unknown:

    | column | |
    |---|---|
    | `waking_tai_ns`, `waking_cpu` | it was woken, on that CPU |
    | `run_tai_ns`, `run_cpu` | it began to run |
    | `before` | the thread that had run there until then |
    | `softirq_tai_ns`, `softirq` | the softirq began in which it was woken; its number |
    | `raised_by` | the thread that asked for that softirq, if it was no interrupt and no other softirq |
    | `irq_tai_ns` | the handler began of the interrupt that woke it, or that (or whose thread) asked for that softirq |
    | `irq`, `irq_cpu` | that interrupt's number, or of x86's timer its vector; on which CPU |
    | `interrupted`, `interrupted_flags` | the thread that this interrupted, and the state of the CPU |
    | `shared` | how many of the rows before it have the same waking |
    | `why` | why it is not known how it was woken: AWAKE, EVENTS_LOST, NO_WAKING |
    """
    found = _Trace.of(trace)
    from_ns, to_ns = waits["from_tai_ns"].to_numpy(), waits["to_tai_ns"].to_numpy()
    lost = found.lost_between(from_ns, to_ns)
    waking = _first_between(found, found.places(WAKING, subject=thread), from_ns, to_ns)
    waking[lost] = -1
    begun_ns = np.where(waking >= 0, found.tai_ns[waking], 0) if len(found.tai_ns) else from_ns
    run = _first_between(found, found.places(SWITCH, subject=thread), begun_ns, to_ns)
    run[waking < 0] = -1
    softirq, raised, irq = _causes(found, waking, handlers or {})
    slept = np.where(_asleep(found, thread, from_ns), NO_WAKING, AWAKE)
    unknown = np.where(lost, EVENTS_LOST, slept).tolist()
    why = [None if known else reason for known, reason in zip(waking >= 0, unknown, strict=True)]
    rows = pl.DataFrame(
        {
            "waking_tai_ns": _of(found.tai_ns, waking, pl.Int64),
            "waking_cpu": _of(found.cpu, waking, pl.UInt16),
            "run_tai_ns": _of(found.tai_ns, run, pl.Int64),
            "run_cpu": _of(found.cpu, run, pl.UInt16),
            "before": _of(found.pid, run, pl.Int32),
            "softirq_tai_ns": _of(found.tai_ns, softirq, pl.Int64),
            "softirq": _of(found.subject, softirq, pl.Int64),
            "raised_by": _of(found.pid, np.where(_by_a_thread(found, raised), raised, -1), pl.Int32),
            "irq_tai_ns": _of(found.tai_ns, irq, pl.Int64),
            "irq": _of(found.subject, irq, pl.Int64),
            "irq_cpu": _of(found.cpu, irq, pl.UInt16),
            "interrupted": _of(found.pid, irq, pl.Int32),
            "interrupted_flags": _of(found.flags, irq, pl.UInt8),
            "why": pl.Series(why, dtype=pl.String),
        }
    )
    nth = pl.int_range(pl.len()).over("waking_tai_ns").cast(pl.UInt32)
    return rows.with_columns(shared=pl.when(pl.col("waking_tai_ns").is_not_null()).then(nth))


def _causes(found: _Trace, waking: _Places, handlers: Mapping[int, int]) -> tuple[_Places, _Places, _Places]:
    """(softirq, raised, irq) of each waking: where its softirq began and was asked for, and its interrupt began."""
    if not len(found.tai_ns):
        return waking, waking, waking
    lost = found.places(LOST)
    irqs = found.places(IRQ_ENTRY, TIMER_ENTRY)
    irqs_end = np.union1d(found.places(IRQ_EXIT, TIMER_EXIT), lost)
    own_irq = found.going_on(irqs, irqs_end, waking)
    entries = found.places(SOFTIRQ_ENTRY)
    softirq = found.going_on(entries, np.union1d(found.places(SOFTIRQ_EXIT), lost), waking)
    softirq[own_irq >= 0] = -1
    raised = np.full(len(waking), -1)
    for number in np.unique(found.subject[softirq[softirq >= 0]]).tolist():
        of_it = np.flatnonzero((softirq >= 0) & (found.subject[np.where(softirq >= 0, softirq, 0)] == number))
        raised[of_it] = _raised(found, number, softirq[of_it], lost)
    irq = np.where(own_irq >= 0, own_irq, found.going_on(irqs, irqs_end, raised))
    for pid, number in handlers.items():
        of_thread = np.flatnonzero((irq < 0) & (raised >= 0) & (found.pid[np.where(raised >= 0, raised, 0)] == pid))
        irq[of_thread] = _threaded(found, pid, number, raised[of_thread], lost)
    return softirq, raised, irq


def _threaded(found: _Trace, pid: int, number: int, raised: _Places, lost: _Places) -> _Places:
    """Where the interrupt began whose handler's thread asked for a softirq: the last one of that number on the CPU, if
    the thread has asked for nothing else since. −1: that is unknown.
    """
    asked = found.places(SOFTIRQ_RAISE)
    earlier = found.last_before(np.union1d(asked[found.pid[asked] == pid], lost), raised)
    irq = found.last_before(found.places(IRQ_ENTRY, subject=number), raised)
    return np.where(irq > earlier, irq, -1)


def _by_a_thread(found: _Trace, raised: _Places) -> NDArray[np.bool_]:
    """Whether each of these was asked for by a thread itself, in its own context."""
    if not len(found.flags):
        return np.zeros(len(raised), bool)
    own: NDArray[np.bool_] = (found.flags[np.where(raised >= 0, raised, 0)] & (_HANDLER | _SERVING)) == 0
    return own


def _asleep(found: _Trace, thread: int, at_ns: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether at each of these instants the last event of the thread is that it went to sleep; not where events
    were lost since.
    """
    switches = found.places(SWITCH)
    left = switches[found.pid[switches] == thread]
    gone = (found.detail[left] > 0) & ((found.detail[left] & ASLEEP) > 0)
    come = (found.places(event, subject=thread) for event in (WAKING, SWITCH))
    slept, roused = left[gone], np.concatenate((left[~gone], *come, found.places(LOST)))

    def latest_ns(places: _Places) -> NDArray[np.int64]:
        sorted_ns = np.concatenate(([np.iinfo(np.int64).min], np.sort(found.tai_ns[places])))
        nearest: NDArray[np.int64] = sorted_ns[np.searchsorted(sorted_ns, at_ns, side="right") - 1]
        return nearest

    asleep: NDArray[np.bool_] = latest_ns(slept) > latest_ns(roused)
    return asleep


def _raised(found: _Trace, number: int, softirq: _Places, lost: _Places) -> _Places:
    """Where these softirqs were first asked for: after the one before had begun. −1: that is unknown."""
    earlier = found.last_before(np.union1d(found.places(SOFTIRQ_ENTRY, subject=number), lost), softirq)
    # Before the first that is recorded on a CPU, all that is recorded there.
    first_of_cpu = np.searchsorted(found.cpu, found.cpu[softirq]) - 1
    raised = found.first_after(found.places(SOFTIRQ_RAISE, subject=number), np.maximum(earlier, first_of_cpu))
    # What asked for it first may be among what was lost.
    unknown = (earlier >= 0) & (found.event[np.where(earlier >= 0, earlier, 0)] == LOST)
    return np.where((raised < softirq) & ~unknown, raised, -1)


def _first_between(found: _Trace, places: _Places, from_ns: NDArray[np.int64], to_ns: NDArray[np.int64]) -> _Places:
    """Of these places, for each pair of instants the first event between them, both included; −1: there is none."""
    if not len(places):
        return np.full(len(from_ns), -1)
    in_time = places[np.argsort(found.tai_ns[places], kind="stable")]
    at_ns = found.tai_ns[in_time]
    nearest = np.searchsorted(at_ns, from_ns)
    there = nearest < len(at_ns)
    nearest[~there] = 0
    return np.where(there & (at_ns[nearest] <= to_ns), in_time[nearest], -1)


def _of(values: NDArray[np.generic], places: _Places, dtype: type[pl.DataType]) -> pl.Series:
    """The values at these places, null where the place is −1."""
    there = places >= 0
    taken = values[np.where(there, places, 0)] if len(values) else np.zeros(len(places), values.dtype)
    return pl.select(pl.when(pl.Series(there)).then(pl.Series(taken).cast(dtype))).to_series()
