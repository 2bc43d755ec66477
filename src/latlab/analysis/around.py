"""What a kernel did around late packets, by the windows of its trace that a flight recorder kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

import polars as pl

from latlab.analysis.interrupts import ASLEEP, IRQ_ENTRY, IRQ_EXIT, LOST, SOFTIRQ_ENTRY, SOFTIRQ_EXIT, SWITCH, WAKING
from latlab.recordings.cell import FlightWindow, ThreadTime

MOST: Final = 20
"""So many windows are described, the longest ones."""
_NAMED: Final = 3
"""So many threads of each."""
_IDLE: Final = 0


def kept_windows(trace: pl.DataFrame, tasks: pl.DataFrame, kept: pl.DataFrame) -> list[FlightWindow]:
    """The longest windows, in order of time. trace, tasks, kept: as recorded."""
    names = dict(zip(tasks["pid"].to_list(), tasks["comm"].to_list(), strict=True))
    longest = (
        joined(kept).sort(pl.col("to_tai_ns") - pl.col("from_tai_ns"), descending=True).head(MOST).sort("from_tai_ns")
    )
    found = []
    for begin, end, whole in longest.select("from_tai_ns", "to_tai_ns", "whole").iter_rows():
        inside = trace.filter(pl.col("tai_ns").is_between(begin, end) & (pl.col("event") != LOST)).sort("tai_ns")
        ran, waited = _threads(inside, begin, end)
        found.append(
            FlightWindow(
                from_tai_ns=begin,
                to_tai_ns=end,
                whole=whole,
                events=inside.height,
                ran=_most(ran, names),
                waited=_most(waited, names),
                interrupts_ns=_served_ns(inside, IRQ_ENTRY, IRQ_EXIT, begin, end),
                softirqs_ns=_served_ns(inside, SOFTIRQ_ENTRY, SOFTIRQ_EXIT, begin, end),
            )
        )
    return found


def joined(kept: pl.DataFrame) -> pl.DataFrame:
    """The windows in order of time, of which parts that meet are one: whole if all of them are."""
    rows = kept.sort("from_tai_ns")
    apart = (pl.col("from_tai_ns") > pl.col("to_tai_ns").cum_max().shift(1) + 1).fill_null(True)
    return (
        rows.group_by(apart.cum_sum().alias("window"), maintain_order=True)
        .agg(pl.col("from_tai_ns").min(), pl.col("to_tai_ns").max(), pl.col("whole").all())
        .drop("window")
    )


def _most(times: Counter[int], names: dict[int, str | None]) -> list[ThreadTime]:
    return [ThreadTime(comm=names.get(pid), ns=ns) for pid, ns in times.most_common(_NAMED) if ns]


def _threads(events: pl.DataFrame, begin: int, end: int) -> tuple[Counter[int], Counter[int]]:
    """How long each thread ran, and how long it was ready and did not run, ns, from `begin` to `end`.

    Whoever was ready before the window, and not preempted or woken in it, is not known to have been.
    """
    ran, waited = Counter[int](), Counter[int]()
    running: dict[int, tuple[int, int]] = {}
    ready: dict[int, int] = {}
    columns = ("tai_ns", "cpu", "event", "pid", "subject", "detail")
    for at, cpu, event, pid, subject, detail in events.select(columns).iter_rows():
        # Of a CPU's first event the thread has run since before.
        running.setdefault(cpu, (pid, begin))
        if event == WAKING and subject not in (one for one, _ in running.values()):
            ready.setdefault(subject, at)
        elif event == SWITCH and subject is not None:
            before, since = running[cpu]
            ran[before] += at - since
            running[cpu] = subject, at
            if detail is not None and not detail & ASLEEP:
                ready[before] = at
            if subject in ready:
                waited[subject] += at - ready.pop(subject)
    for pid, since in running.values():
        ran[pid] += end - since
    for pid, since in ready.items():
        waited[pid] += end - since
    del ran[_IDLE], waited[_IDLE]
    return ran, waited


def _served_ns(events: pl.DataFrame, entry: int, exit_: int, begin: int, end: int) -> int:
    """How long interrupts or softirqs were served on all CPUs together."""
    return sum(until - since for since, until in _served(events, entry, exit_, begin, end))


def _served(events: pl.DataFrame, entry: int, exit_: int, begin: int, end: int) -> Iterator[tuple[int, int]]:
    since: dict[int, int] = {}
    known = set[int]()
    chosen = events.filter(pl.col("event").is_in((entry, exit_)))
    for at, cpu, event in chosen.select("tai_ns", "cpu", "event").iter_rows():
        if event == entry:
            since[cpu] = at
        elif cpu in since:
            yield since.pop(cpu), at
        elif cpu not in known:
            yield begin, at
        known.add(cpu)
    yield from ((at, end) for at in since.values())
