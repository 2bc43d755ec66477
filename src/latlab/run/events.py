"""What happens during a run, as it happens: the console, a log and tests listen to the same events."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from latlab.recordings.cell import RecordedCell


@dataclass(frozen=True)
class Cleaned:
    """What an earlier run had left behind was undone, in words."""

    undone: tuple[str, ...]


@dataclass(frozen=True)
class RunStarted:
    """The run's folder is there; `runs` runs of `cells` cells follow. warnings: what may keep them from their end."""

    folder: Path
    cells: int
    runs: int
    seed: int
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Followed:
    """What is shown live of a cell: a stream, the round trips of a probe, or the instants of a timer.

    stream: the number by which whoever receives says how late it was. sent: the number by which whoever sends counts;
    None: of instants. sender, receiver: hosts, by whose clocks latencies are taken; of round trips and timers one host.
    """

    name: str
    stream: int
    sent: int | None
    sender: str
    receiver: str

    @property
    def what(self) -> str:
        """What it is that takes long."""
        if self.sent is None:
            return "lateness"
        return "latency" if self.sent == self.stream else "round trip"


@dataclass(frozen=True)
class CellStarted:
    """The run's `order`-th cell begins: repetition `repeat` of `repeats`. followed: what is shown live of it."""

    order: int
    slug: str
    repeat: int
    repeats: int
    duration_ns: int
    followed: tuple[Followed, ...] = ()


@dataclass(frozen=True)
class Phase:
    """What a cell does now: waiting, setting up, loading, measuring, tearing down, joining. order: which cell."""

    name: str
    order: int = 0


@dataclass(frozen=True)
class Waiting:
    """What a cell waits for, and for how many seconds by now: of what takes long, again and again. order: as Phase."""

    what: str
    seconds: float
    order: int = 0


@dataclass(frozen=True)
class Latencies:
    """How late packets were, ns, by the clocks of their hosts as they are: how many, two percentiles, the latest."""

    n: int
    p50_ns: int
    p99_ns: int
    max_ns: int


@dataclass(frozen=True)
class Seen:
    """What an agent says of a stream that it receives.

    missing: packets that have not come, of those before the last that has. latencies: of what came since it said so
    before; None: nothing came.
    """

    missing: int
    latencies: Latencies | None


@dataclass(frozen=True)
class Packets:
    """How many packets an agent has counted, {stream number: packets}; of a timer's how many instants.

    probe: whose agent it is, where it is a probe's. order: the cell's in the run. tai_ns: its host's CLOCK_TAI. In a
    run that is shown live, seen: {stream number: what it says of it}; steal_ns: how long the hypervisor has kept CPUs
    of its host waiting since boot, all together; offset_ns: of who compares clocks, what the offset lies between.
    """

    host: str
    verb: str
    streams: Mapping[int, int]
    probe: str | None = None
    order: int = 0
    tai_ns: int = 0
    seen: Mapping[int, Seen] = field(default_factory=dict)
    steal_ns: int | None = None
    offset_ns: tuple[int, int] | None = None


@dataclass(frozen=True)
class ClockBound:
    """What the latest comparisons say of two hosts' clocks: `to`'s − `from_`'s lies between these, ns."""

    from_: str
    to: str
    lower_ns: int
    upper_ns: int
    order: int = 0


Interval = tuple[int, int]
"""From an instant until another, both included: CLOCK_TAI of a host, ns."""


@dataclass(frozen=True)
class LatePackets:
    """A listener had late packets: the intervals, by its host's clock, of which the kernel's events are to be kept."""

    host: str
    windows: tuple[Interval, ...]


@dataclass(frozen=True)
class TimerWindowEnded:
    """What a timer's agent said of one interval of time: of the n instants due in [from_tai_ns, to_tai_ns).

    Lateness in ns: mean and population standard deviation, least, largest, and how many were above threshold_ns.
    overdue: such among them that had passed when their turn came.
    tick_ns: the period of the counter that its timers are counted by, None where that is not known.
    """

    host: str
    probe: str
    from_tai_ns: int
    to_tai_ns: int
    n: int
    mean_ns: float
    stddev_ns: float
    min_ns: int
    max_ns: int
    above: int
    threshold_ns: int
    overdue: int = 0
    tick_ns: float | None = None
    order: int = 0


@dataclass(frozen=True)
class CellEnded:
    """The cell is over; `cell` is its cell.json."""

    order: int
    cell: RecordedCell


Event = (
    Cleaned
    | RunStarted
    | CellStarted
    | Phase
    | Waiting
    | Packets
    | ClockBound
    | LatePackets
    | TimerWindowEnded
    | CellEnded
)
Listener = Callable[[Event], None]


def ignore(_event: Event) -> None:
    """Do nothing: for callers that want no events."""
