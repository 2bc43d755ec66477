"""How an interrupt got to the VM host's thread that forwards it into a guest: from the VM host's own interrupt on.

Of a packet that is the thread which asked for the guest's interrupt: vhost's, or QEMU's. Of a vCPU's own timer it is
the vCPU's, which takes the interrupt itself. It had gone to sleep, and the VM host's tracepoints show how it was woken,
as those of any host show it of who receives there (analysis/interrupts.py).

A thread that had sent another interrupt on since it was woken, or had run its guest, was not woken for this one; nor
one that the guest itself had woken, as it does to send: nothing is reported then.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from latlab.analysis.entry import Events, Instants
from latlab.analysis.interrupt_way import HOST_WAY
from latlab.analysis.interrupts import ACCEPT, ENTRY, GSI, MSI, TIMER_ENTRY, WAKING, wakings

_UNKNOWN: Final = -1
_TOLD: Final = tuple(f"{stop.removeprefix('host_')}_tai_ns" for stop in HOST_WAY)
"""What `wakings` calls them."""
_WHOM: Final = ("interrupted", "interrupted_flags")


@dataclass(frozen=True)
class HostWays:
    """at_ns: int64 [n, 4], when the interrupt's handler and its softirq began on the VM host, and when the thread that
    sent the guest's interrupt on was woken and ran, by the CLOCK_TAI of the trace. interrupted, flags: int64 [n], the
    thread that this handler interrupted, and the state of the CPU. −1 where that is unknown.
    """

    at_ns: NDArray[np.int64]
    interrupted: NDArray[np.int64]
    flags: NDArray[np.int64]


def host_ways(
    asked_ns: Instants, accepted_ns: Instants, trace: pl.DataFrame, handlers: Mapping[int, int] | None = None
) -> HostWays:
    """How each of a guest's interrupts got to the thread of the VM host that forwarded it.

    asked_ns, accepted_ns: when the guest's interrupt was asked for and taken, int64 [n], −1 if it was not asked for, or
    is unknown. trace: the VM host's. handlers: its `handler_threads`.
    """
    at_ns = np.where(asked_ns >= 0, asked_ns, accepted_ns)
    sent, taken, entered = Events.of(trace, MSI, GSI), Events.of(trace, ACCEPT), Events.of(trace, ENTRY)
    threads = np.where(asked_ns >= 0, _threads(asked_ns, sent), _threads(accepted_ns, taken))
    found = np.full((len(at_ns), len(HOST_WAY)), _UNKNOWN, np.int64)
    whom = np.full((len(at_ns), len(_WHOM)), _UNKNOWN, np.int64)
    woken = Events.of(trace, WAKING)
    for thread in np.unique(threads[threads >= 0]).tolist():
        own = woken.where(woken.subject == thread)
        deeds = np.sort(np.concatenate([events.tai_ns[events.pid == thread] for events in (sent, taken, entered)]))
        rows = np.flatnonzero(threads == thread)
        last = np.searchsorted(own.tai_ns, at_ns[rows], side="right") - 1
        rows, last = rows[last >= 0], last[last >= 0]
        from_ns, to_ns = own.tai_ns[last], at_ns[rows]
        first = np.searchsorted(deeds, from_ns) == np.searchsorted(deeds, to_ns)
        rows, last = rows[first], last[first]
        waits = pl.DataFrame({"from_tai_ns": from_ns[first], "to_tai_ns": to_ns[first]})
        every = wakings(waits, trace, thread, handlers).select(
            pl.col(*_TOLD, *_WHOM).cast(pl.Int64).fill_null(_UNKNOWN)
        )
        told = every.select(_TOLD).to_numpy()
        # In no interrupt and no softirq, by a vCPU: the guest's own kick.
        kicked = np.isin(own.pid[last], entered.pid) & (told[:, :2] < 0).all(axis=1)
        found[rows] = np.where(kicked[:, None], _UNKNOWN, told)
        whom[rows] = np.where(kicked[:, None], _UNKNOWN, every.select(_WHOM).to_numpy())
    _own_timers(found, whom, threads, np.where(asked_ns < 0, accepted_ns, _UNKNOWN), trace)
    return HostWays(found, *whom.T)


def _own_timers(
    found: NDArray[np.int64],
    whom: NDArray[np.int64],
    threads: NDArray[np.int64],
    accepted_ns: Instants,
    trace: pl.DataFrame,
) -> None:
    """Put into found and whom the VM host's timer interrupt that made a vCPU leave its guest, which then took its own.

    It is the only one that interrupted the vCPU's thread since it had last entered its guest. accepted_ns: of guests'
    timers; −1 elsewhere.
    """
    turns = Events.of(trace, ENTRY, TIMER_ENTRY)
    rows = np.flatnonzero((found < 0).all(axis=1) & (accepted_ns >= 0) & (threads >= 0))
    for thread in np.unique(threads[rows]).tolist():
        own = turns.where(turns.pid == thread)
        timers = np.flatnonzero(own.event == TIMER_ENTRY)
        of_thread = rows[threads[rows] == thread]
        last = np.searchsorted(own.tai_ns, accepted_ns[of_thread], side="right") - 1
        alone = (last >= 1) & np.isin(last, timers) & ~np.isin(last - 1, timers)
        found[of_thread[alone], 0] = own.tai_ns[last[alone]]
        whom[of_thread[alone], 0] = thread
        whom[of_thread[alone], 1] = 0


def _threads(at_ns: Instants, events: Events) -> NDArray[np.int64]:
    """Whose each of these events is, by its instant; −1 where it is none's, or two have the same."""
    begin, end = (np.searchsorted(events.tai_ns, at_ns, side=side) for side in ("left", "right"))
    alone = end == begin + 1
    pids = events.pid[np.where(alone, begin, 0)].astype(np.int64) if len(events.pid) else np.full(len(at_ns), -1)
    return np.where(alone, pids, _UNKNOWN)
