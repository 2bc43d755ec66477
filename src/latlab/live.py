"""A cell while it is measured, figures of the last second: what its agents say once a second, and how it is written."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from rich.table import Table

from latlab.recordings.cell import ClockEdge
from latlab.recordings.clock_offset import offset_between
from latlab.report.text import bound, microseconds
from latlab.run.events import ClockBound, Followed, Latencies, Packets, Seen

NS_PER_S = 1_000_000_000
UNKNOWN = "–"
RAW = "raw clocks"
SENDING = ("talk", "ping")
"""Who counts what was sent; the others count what came."""
COLUMNS = ("last second", "packets/s", "p50 µs", "p99 µs", "max µs", "lost so far", "clock ± µs", "steal %")


@dataclass(frozen=True)
class Row:
    """What is known of a stream, of round trips or of a timer. None: it is not known.

    per_s: packets or instants. latencies: by one clock where the offset is known, which is off by clock_ns at most;
    else by both clocks as they are. lost: so far. steal: for what share of the time the hypervisor kept CPUs of its
    hosts waiting, all CPUs of a host together, the larger one of two hosts.
    """

    name: str
    per_s: float | None
    latencies: Latencies | None
    lost: int | None
    clock_ns: int | None
    steal: float | None

    def figures(self) -> tuple[str, ...]:
        """The row of the table, in the order of its columns."""
        late = self.latencies
        latencies = [microseconds(ns) for ns in (late.p50_ns, late.p99_ns, late.max_ns)] if late else [UNKNOWN] * 3
        return (
            self.name,
            _or_unknown(self.per_s, ".0f"),
            *latencies,
            _or_unknown(self.lost, "d"),
            RAW if self.clock_ns is None else bound(self.clock_ns),
            _or_unknown(None if self.steal is None else 100 * self.steal, ".0f"),
        )

    def line(self) -> str:
        """As "control latency: 1000/s, p50 12.3 µs, p99 15.0 µs, max 31.2 µs, lost 0, clock ± 0.1 µs, steal 0 %"."""
        name, per_s, p50, p99, most, lost, clock, steal = self.figures()
        clock = clock if clock == RAW else f"clock ± {clock} µs"
        late = f"p50 {p50} µs, p99 {p99} µs, max {most} µs"
        return f"{name}: {per_s}/s, {late}, lost {lost}, {clock}, steal {steal} %"


class LiveCell:
    """What is known of a cell by now, from its events."""

    def __init__(self, followed: Sequence[Followed]) -> None:
        self.followed = followed
        self._sent: dict[int, list[int]] = {}
        """By the number of who sends: what the two latest reports counted, the latest last."""
        self._heard: dict[int, tuple[Packets, float | None]] = {}
        """By the number of who receives: the latest report, and the time since the one before, s."""
        self._steal: dict[str, float] = {}
        self._before: dict[tuple[str, str, str | None], Packets] = {}
        self._clocks: dict[tuple[str, str], ClockBound] = {}

    def take(self, event: Packets | ClockBound) -> list[Row]:
        """The rows of which the event says more."""
        if isinstance(event, ClockBound):
            self._clocks[event.from_, event.to] = event
            return []
        who = event.host, event.verb, event.probe
        before = self._before.get(who)
        self._before[who] = event
        seconds = (event.tai_ns - before.tai_ns) / NS_PER_S if before else None
        if seconds and before and event.steal_ns is not None and before.steal_ns is not None:
            self._steal[event.host] = (event.steal_ns - before.steal_ns) / NS_PER_S / seconds
        if event.verb in SENDING:
            for number, count in event.streams.items():
                self._sent[number] = [*self._sent.get(number, [])[-1:], count]
        for number in event.seen:
            self._heard[number] = event, seconds
        return [self._row(one) for one in self.followed if one.stream in event.seen]

    def rows(self) -> list[Row]:
        """All of them, in the order in which they are followed."""
        return [self._row(one) for one in self.followed]

    def _row(self, one: Followed) -> Row:
        known, clock_ns = self._on_one_clock(one)
        steals = [self._steal[host] for host in (one.sender, one.receiver) if host in self._steal]
        name, steal = f"{one.name} {one.what}", max(steals, default=None)
        if one.stream not in self._heard:
            return Row(name, None, None, None, clock_ns, steal)
        event, seconds = self._heard[one.stream]
        seen, late = event.seen[one.stream], event.seen[one.stream].latencies
        per_s = (late.n if late else 0) / seconds if seconds else None
        moved = late and Latencies(late.n, late.p50_ns - known, late.p99_ns - known, late.max_ns - known)
        return Row(name, per_s, moved, self._lost(one, seen, event.streams[one.stream]), clock_ns, steal)

    def _lost(self, one: Followed, seen: Seen, received: int) -> int | None:
        """Packets with a later one before them, or that had been sent a report before the latest and have not come."""
        if one.sent is None:
            return None
        reports = self._sent.get(one.sent, [])
        overdue = reports[0] - received if len(reports) > 1 else 0
        return max(seen.missing, overdue)

    def _on_one_clock(self, one: Followed) -> tuple[int, int | None]:
        """How far the receiver's clock is ahead of the sender's, ns, and how far off that may be (None: not known)."""
        clocks = [
            ClockEdge(from_=known.from_, to=known.to, lower_ns=known.lower_ns, upper_ns=known.upper_ns)
            for known in self._clocks.values()
        ]
        offset = offset_between(clocks, one.receiver, one.sender, np.zeros(1, np.int64))
        if offset is None or not offset.known[0]:
            return 0, None
        return int(offset.estimate_ns[0]), int(offset.half_ns[0])


def live_table(rows: Iterable[Row]) -> Table:
    """The rows under their titles."""
    table = Table(box=None, pad_edge=False)
    for number, title in enumerate(COLUMNS):
        table.add_column(title, justify="right" if number else "left", no_wrap=True)
    for row in rows:
        table.add_row(*row.figures())
    return table


def _or_unknown(value: float | None, form: str) -> str:
    return UNKNOWN if value is None else format(value, form)
