"""What a verdict on a cell rests on, and where the lines are drawn."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol

import polars as pl

from latlab.model.facts import Facts, ThreadFacts, fact, threads_in
from latlab.model.labels import MEASURED
from latlab.model.thresholds import DEFAULTS, Thresholds
from latlab.recordings.cell import RecordedCell, RecordedStream, Totals
from latlab.result.types import Metric, PtpPort, Stage, Stream


class ImpossibleSeen(Protocol):
    """Timestamps of one kind that cannot be."""

    @property
    def stream(self) -> int:
        """The stream's number."""

    @property
    def stamp(self) -> str:
        """Which timestamp."""

    @property
    def why(self) -> str:
        """As `before it was due`."""

    @property
    def count(self) -> int:
        """Of how many packets."""

    @property
    def first_sequence(self) -> int:
        """The first of them."""

    @property
    def left_out(self) -> bool:
        """They are not in any figure."""


class GapSeen(Protocol):
    """Rows of one recording that are damaged or missing."""

    @property
    def batch(self) -> int:
        """The number of the first batch that is, from 1."""

    @property
    def first_row(self) -> int:
        """The first row, from 1."""

    @property
    def rows(self) -> int | None:
        """How many; None: all up to the end."""


class RecordingSeen(Protocol):
    """What the join of the packet table saw of one recording."""

    @property
    def rows(self) -> int:
        """How many were read."""

    @property
    def stated(self) -> int | None:
        """How many its agent counted; None: it did not say."""

    @property
    def present(self) -> bool:
        """There is such a file."""

    @property
    def complete(self) -> bool:
        """The end of the recording was there."""

    @property
    def gaps(self) -> Sequence[GapSeen]:
        """What of it is damaged."""

    @property
    def stray(self) -> int:
        """Rows that belong to no packet, or to one that had such a row already."""

    @property
    def launch_mismatched(self) -> int:
        """Rows whose launch time is not the schedule's."""

    @property
    def unconverted(self) -> int:
        """Software timestamps without recorded clocks to convert them by."""

    @property
    def impossible(self) -> Sequence[ImpossibleSeen]:
        """Timestamps that cannot be."""


@dataclass(frozen=True)
class Evidence:
    """All that the checks of one cell look at.

    cell: cell.json. streams, ptp: the result's. findings: {`talker-HOST.sent`: what the join saw}.
    clocks: {`talker-HOST`: its clocks table}. facts_before, facts_after: {host: facts}. What is missing is
    left empty. thresholds: where the lines are drawn.
    """

    cell: RecordedCell
    streams: Mapping[str, Stream] = field(default_factory=dict)
    ptp: Sequence[PtpPort] = ()
    findings: Mapping[str, RecordingSeen] = field(default_factory=dict)
    clocks: Mapping[str, pl.DataFrame] = field(default_factory=dict)
    facts_before: Facts = field(default_factory=dict)
    facts_after: Facts = field(default_factory=dict)
    thresholds: Thresholds = DEFAULTS


@dataclass(frozen=True)
class Broken:
    """One place where a check is broken: host, recording, stream or metric.

    remedy: what to do there; empty: what the rule says.
    """

    where: str
    expected: str
    actual: str
    remedy: str = ""


Check = Callable[[Evidence], Iterator[Broken]]
"""Yields every place that breaks its rule; evidence that is not there breaks nothing."""

CHECKS: Final[dict[str, Check]] = {}
"""{id of a rule in `latlab.model.rules`: its check}."""


def checks(rule: str) -> Callable[[Check], Check]:
    """Make a function the check of the rule with this id."""

    def note(check: Check) -> Check:
        CHECKS[rule] = check
        return check

    return note


# What checks of the trust table read out of a cell's evidence.


SENDING: Final = ("talk", "ping", "pong")
RECEIVING: Final = ("listen", "ping", "pong")
MEASURING: Final = ("talk", "listen", "ping", "pong", "timer")
"""The verbs whose threads packets wait for."""


def totals(evidence: Evidence, *verbs: str) -> Iterator[tuple[str, Totals]]:
    """Each agent that ended on its own, and what it reported then; of these verbs, or of any."""
    for agent in evidence.cell.agents:
        if agent.done and (not verbs or agent.verb in verbs):
            yield agent.name, agent.done


def said_sent(evidence: Evidence) -> Iterator[tuple[str, str, int]]:
    """(agent, stream, packets sent or refused) by the agents' own counters; of a probe's agents, its legs."""
    names = {stream.stream: stream.name for stream in evidence.cell.streams}
    for agent in evidence.cell.agents:
        done = agent.done
        if not done or agent.verb not in SENDING:
            continue
        if agent.verb == "talk":
            for said in done.streams or ():
                if said.stream in names:
                    yield agent.name, names[said.stream], (said.sent or 0) + (said.send_errors or 0)
        else:
            sent, leg = (done.sent, "up") if agent.verb == "ping" else (done.answered, "down")
            yield agent.name, f"{agent.probe}.{leg}", (sent or 0) + (done.send_errors or 0)


def said_received(evidence: Evidence) -> Iterator[tuple[str, str, int]]:
    """(agent, stream, packets received, each once) by the agents' own counters; of a probe's agents, its legs."""
    names = {stream.stream: stream.name for stream in evidence.cell.streams}
    for agent in evidence.cell.agents:
        done = agent.done
        if not done or agent.verb not in RECEIVING:
            continue
        if agent.verb == "listen":
            for said in done.streams or ():
                if said.stream in names and said.received is not None:
                    yield agent.name, names[said.stream], said.received
        elif done.received is not None:
            leg = "down" if agent.verb == "ping" else "up"
            yield agent.name, f"{agent.probe}.{leg}", done.received


def said_of_some(evidence: Evidence) -> Iterator[tuple[str, str, str, int]]:
    """(agent, stream, which of its packets, how many by the agent's own counters), as the result's counts name them."""
    names = {stream.stream: stream.name for stream in evidence.cell.streams}
    for agent in evidence.cell.agents:
        if not agent.done or agent.verb not in (*SENDING, *RECEIVING):
            continue
        which = ("unsent_late", "launch_late", "launch_moved") if agent.verb == "talk" else ("reordered",)
        leg = f"{agent.probe}.{'up' if agent.verb == 'pong' else 'down'}"
        for said in agent.done.each:
            name = names.get(said.stream or 0) if agent.done.streams is not None else leg
            for one in which:
                if name is not None and (count := getattr(said, one)) is not None:
                    yield agent.name, name, one, count


def untagged(evidence: Evidence) -> Iterator[tuple[str, str, int]]:
    """(host, stream, frames that came in there without their VLAN tag) where there were any; of a probe, its leg."""
    names = {stream.stream: stream.name for stream in evidence.cell.streams}
    for agent in evidence.cell.agents:
        done = agent.done
        if not done or agent.verb not in RECEIVING:
            continue
        leg = f"{agent.probe}.{'up' if agent.verb == 'pong' else 'down'}"
        for said in done.each:
            if count := said.untagged:
                yield agent.host, names.get(said.stream or 0, leg), count


def metrics(evidence: Evidence, *names: str) -> Iterator[tuple[str, str, str, Metric]]:
    """(where, stream, metric, figures) of every stream that has one of these metrics."""
    for stream, measured in evidence.streams.items():
        for name in names:
            if name in measured.metrics:
                yield f"{stream}.{name}", stream, name, measured.metrics[name]


def counts_of(evidence: Evidence, stream: str) -> dict[str, int] | None:
    """What the result counts of a stream, 0 where that is not known; None: it has no such stream."""
    found = evidence.streams.get(stream)
    return None if found is None else defaultdict(int, {name: count or 0 for name, count in found.counts.items()})


def counters(evidence: Evidence, *path: str) -> Iterator[tuple[str, int, int]]:
    """(host, before, after) of a counter, for every host that has it both times."""
    for host, facts in evidence.facts_before.items():
        before, after = fact(facts, *path), fact(evidence.facts_after.get(host, {}), *path)
        if before is not None and after is not None:
            yield host, before, after


def same_kernel(evidence: Evidence, host: str) -> frozenset[str]:
    """The hosts whose facts are of the same kernel as this one's, itself included."""
    boot = fact(evidence.facts_before.get(host, {}), "kernel", "boot_id")
    return frozenset(
        other
        for other, facts in evidence.facts_before.items()
        if other == host or (boot is not None and fact(facts, "kernel", "boot_id") == boot)
    )


@dataclass(frozen=True)
class Pinned:
    """A measured thread that may run on some of its machine's CPUs only.

    name: as `talk on sensor`, or `CPU 0/KVM` of a guest. priority: SCHED_FIFO's, 0 of an ordinary thread.
    """

    name: str
    cpus: frozenset[int]
    priority: int


def pinned(evidence: Evidence, host: str) -> list[Pinned]:
    """Talkers, listeners and virtual CPUs on the host's kernel that are bound to some of its CPUs."""
    facts = evidence.facts_before.get(host, {})
    online = frozenset(fact(facts, "cpu", "online") or ())
    alike = same_kernel(evidence, host)
    found = []
    for agent in evidence.cell.agents:
        realtime = agent.realtime
        if agent.host in alike and agent.verb in MEASURING and realtime.cpus:
            found.append(Pinned(agent.name, frozenset(realtime.cpus), realtime.priority or 0))
    for name, thread in vcpus(evidence, host):
        if bound := thread.get("cpus"):
            found.append(Pinned(name, frozenset(bound), thread.get("priority") or 0))
    return [one for one in found if one.cpus < online]


def vcpus(evidence: Evidence, host: str) -> Iterator[tuple[str, ThreadFacts]]:
    """(name, thread) of the virtual CPUs that KVM runs on the host, by its facts; where the lab knows which are the
    guests', only theirs.
    """
    guests = [guest for guest in evidence.cell.guests if guest.host in same_kernel(evidence, host)]
    known = [guest.vcpu_threads for guest in guests]
    ids = {thread for each in known for thread in (each or {}).values()}
    for name, thread in threads_in(evidence.facts_before.get(host)).items():
        if guests and name.endswith("/KVM") and (thread.get("id") in ids or not all(known)):
            yield name, thread


def elapsed_ns(evidence: Evidence, host: str) -> int | None:
    """The time between the host's facts before and after, ns; None without both."""
    found = (after - before for name, before, after in counters(evidence, "taken_tai_ns") if name == host)
    return next(found, None)


def listed(cpus: Iterable[int]) -> str:
    """CPUs as people write them: "CPU 3", "CPUs 0, 2-5"."""
    numbers = sorted(set(cpus))
    ranges: list[list[int]] = []
    for cpu in numbers:
        if ranges and cpu == ranges[-1][-1] + 1:
            ranges[-1].append(cpu)
        else:
            ranges.append([cpu])
    text = ", ".join(f"{one[0]}-{one[-1]}" if len(one) > 1 else str(one[0]) for one in ranges)
    return f"CPU{'s' if len(numbers) > 1 else ''} {text}"


# Which streams had late packets, and where the latest lost its time: on which side, and on which hosts.


Side = Literal["talker", "way", "listener"]


_LATENCIES: Final = ("latency_user", "latency")
_USUAL: Final[Mapping[Side, str]] = {"talker": "lateness", "way": "path", "listener": "delivery"}
"""What a packet usually loses on each side: the median of this metric."""


@dataclass(frozen=True)
class LatestPacket:
    """The latest packet of a stream, where it is late.

    above_ns: how far it is above its stream's median. side: where it lost more than usual: before it left its host
    (waking, sending, the qdisc), between the two kernels (NICs, cable, bridges), or after the listener's kernel got it.
    hosts: the machines that had to do with it there, VM hosts of guests among them.
    """

    stream: str
    sequence: int
    above_ns: int
    side: Side
    hosts: frozenset[str]

    @property
    def where(self) -> str:
        """As in a reason. Without the packet's number, so that a place is the same in every cell."""
        return f"late: {self.stream}"


def speed_counts(evidence: Evidence) -> bool:
    """Whether the figures say how fast these machines are: not in emulation, and not where a clock counts instructions.

    There the tuning of a machine is not a reason.
    """
    return bool(evidence.cell.label == MEASURED)


def late_packets(evidence: Evidence) -> list[LatestPacket]:
    """The latest packet of every stream that had one further above its median latency than `late`; the latest first.

    None where the figures say nothing about speed.
    """
    if not speed_counts(evidence):
        return []
    found = (_late(evidence, stream) for stream in evidence.cell.streams)
    return sorted((late for late in found if late is not None), key=lambda late: -late.above_ns)


def held_up(evidence: Evidence) -> dict[str, LatestPacket]:
    """Host → the latest of the late packets that it had to do with."""
    hosts: dict[str, LatestPacket] = {}
    for late in late_packets(evidence):
        for host in sorted(late.hosts):
            hosts.setdefault(host, late)
    return hosts


def vm_hosts(evidence: Evidence, names: Iterable[str]) -> frozenset[str]:
    """The hosts of those of the names that are guests."""
    hosts = {guest.name: guest.host for guest in evidence.cell.guests}
    return frozenset(hosts[name] for name in names if name in hosts)


def _late(evidence: Evidence, stream: RecordedStream) -> LatestPacket | None:
    measured = evidence.streams[stream.name].metrics if stream.name in evidence.streams else {}
    names = ("wakeup",) if stream.timer is not None else _LATENCIES
    figures = next((measured[name] for name in names if name in measured), None)
    if figures is None or figures.max is None or figures.p50 is None:
        return None
    above = figures.max - figures.p50
    if above <= evidence.thresholds.late_ns:
        return None
    side = _side(figures.worst.intervals if figures.worst else (), measured)
    ends = (stream.talker, stream.listener)
    near: Mapping[Side, tuple[str, ...]] = {"talker": ends[:1], "way": ends, "listener": ends[1:]}
    hosts = frozenset(near[side]) | vm_hosts(evidence, near[side])
    return LatestPacket(stream.name, figures.max_sequence or 0, above, side, hosts)


def _side(intervals: Iterable[Stage], measured: Mapping[str, Metric]) -> Side:
    """On which side a packet lost most beyond what is usual there.

    intervals: of the packet's latency, as `worst` has them. A side that nothing is known of loses what is left.
    """
    lost: dict[Side, int] = {"talker": 0, "way": 0, "listener": 0}
    for interval in intervals:
        lost[_side_of(interval.from_, interval.to)] += interval.ns
    usual = {side: (metric in measured and measured[metric].p50) or 0 for side, metric in _USUAL.items()}
    return max(lost, key=lambda side: lost[side] - usual[side])


def _side_of(start: str, end: str) -> Side:
    if end == "rx_user" and start.startswith("rx_"):
        return "listener"
    return "way" if end.startswith("rx_") else "talker"
