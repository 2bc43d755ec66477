"""Which streams had late packets, and where the latest lost its time: on which side, and on which hosts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from latlab.analysis.evidence import Evidence
from latlab.recordings.cell import RecordedStream
from latlab.result.types import Metric, Stage

Side = Literal["talker", "way", "listener"]

MEASURED: Final = "measured"
"""The label of a cell whose figures say how fast its machines are."""

_LATENCIES: Final = ("latency_user", "latency")
_USUAL: Final[Mapping[Side, str]] = {"talker": "lateness", "way": "path", "listener": "delivery"}
"""What a packet usually loses on each side: the median of this metric."""


@dataclass(frozen=True)
class Late:
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


def late_packets(evidence: Evidence) -> list[Late]:
    """The latest packet of every stream that had one further above its median latency than `late`; the latest first.

    None where the figures say nothing about speed.
    """
    if not speed_counts(evidence):
        return []
    found = (_late(evidence, stream) for stream in evidence.cell.streams)
    return sorted((late for late in found if late is not None), key=lambda late: -late.above_ns)


def held_up(evidence: Evidence) -> dict[str, Late]:
    """Host → the latest of the late packets that it had to do with."""
    hosts: dict[str, Late] = {}
    for late in late_packets(evidence):
        for host in sorted(late.hosts):
            hosts.setdefault(host, late)
    return hosts


def vm_hosts(evidence: Evidence, names: Iterable[str]) -> frozenset[str]:
    """The hosts of those of the names that are guests."""
    hosts = {guest.name: guest.host for guest in evidence.cell.guests}
    return frozenset(hosts[name] for name in names if name in hosts)


def _late(evidence: Evidence, stream: RecordedStream) -> Late | None:
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
    return Late(stream.name, figures.max_sequence or 0, above, side, hosts)


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
