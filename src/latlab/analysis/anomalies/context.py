"""What is known of a stream next to its packets, for those who look for anomalies in them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import polars as pl

from latlab.analysis.gate_port import GatePort
from latlab.analysis.promise import GatedStream
from latlab.analysis.words import duration
from latlab.model.facts import Facts, fact
from latlab.model.timestamps import APPLICATION, DRIVER, KERNEL, PATH, QDISC, SOCKET, TALKER
from latlab.model.units import MICROSECOND_NS
from latlab.recordings.cell import RecordedCell, RecordedStream

# What facts say of the hosts on which a stream's packets may have been held: throttling, and CPU time stolen.


SENDING: Final = frozenset({TALKER, SOCKET, QDISC, DRIVER, PATH})
RECEIVING: Final = frozenset({PATH, KERNEL, APPLICATION})
"""Where a talker's and a listener's host, or the machine that their guest runs on, may hold packets."""


@dataclass(frozen=True)
class Throttle:
    """How a kernel holds real-time threads back: for gap_ns of each every_ns. setting: what says so, as it is read."""

    gap_ns: int
    every_ns: int
    setting: str

    @classmethod
    def of_bandwidth(cls, runtime_us: int, period_us: int) -> Throttle:
        """What real-time threads are left of each period (Documentation/scheduler/sched-rt-group.rst, 2.1)."""
        setting = f"sched_rt_runtime_us {runtime_us} of sched_rt_period_us {period_us}"
        return cls((period_us - runtime_us) * MICROSECOND_NS, period_us * MICROSECOND_NS, setting)

    @classmethod
    def of_fair_server(cls, runtime_ns: int, period_ns: int) -> Throttle:
        """What Linux 6.12 and newer keep for ordinary threads (kernel/sched/deadline.c, dl_server)."""
        setting = f"fair_server runtime {duration(runtime_ns)} of {duration(period_ns)}"
        return cls(runtime_ns, period_ns, setting)


@dataclass(frozen=True)
class HostRecord:
    """One host. places: those of `timestamps.PLACES` that are on it. throttles: how its kernel holds threads back.

    throttled: whether its log said so between the facts before and after; None: it had said so before, and says it once
    a boot, or it cannot be read. stolen_ns: CPU time that its hypervisor gave to others in between; None: unknown.
    """

    host: str
    places: frozenset[str]
    throttles: tuple[Throttle, ...]
    throttled: bool | None = None
    stolen_ns: int | None = None

    @property
    def log(self) -> str:
        """What its kernel's log says of throttling, in words."""
        return {
            True: "its kernel's log reports throttling in that time",
            False: "its kernel's log does not report it",
            None: "its kernel's log does not show whether it was in that time",
        }[self.throttled]


def host_records(cell: RecordedCell, stream: RecordedStream, before: Facts, after: Facts) -> tuple[HostRecord, ...]:
    """The talker's host, the listener's, and those that their guests run on, as far as there are facts of them.

    cell, stream: cell.json and its entry of the stream. before, after: {host: facts}.
    """
    machines = {guest.name: guest.host for guest in cell.guests}
    places: dict[str, frozenset[str]] = {}
    for end, where in ((stream.talker, SENDING), (stream.listener, RECEIVING)):
        for host in filter(None, (end, machines.get(end))):
            places[host] = places.get(host, frozenset()) | where
    return tuple(
        HostRecord(
            host=host,
            places=where,
            throttles=_throttles(before[host]),
            throttled=_throttled(before[host], after.get(host)),
            stolen_ns=_grown(before[host], after.get(host), "cpu", "steal_ns"),
        )
        for host, where in places.items()
        if fact(before.get(host), "scheduler") is not None
    )


def _throttles(facts: Any) -> tuple[Throttle, ...]:
    """What the facts of a kernel say: of one that has fair servers only those, as it throttles in no other way."""
    if servers := fact(facts, "scheduler", "fair_servers"):
        times = ([fact(servers, cpu, f"{name}_ns") for name in ("runtime", "period")] for cpu in servers)
        known = dict.fromkeys((int(runtime), int(period)) for runtime, period in times if runtime and period)
        return tuple(Throttle.of_fair_server(*one) for one in known)
    runtime, period = (fact(facts, "scheduler", f"rt_{name}_us") for name in ("runtime", "period"))
    if runtime is None or not period or runtime < 0 or runtime >= period:
        return ()
    return (Throttle.of_bandwidth(runtime, period),)


def _throttled(before: Any, after: Any) -> bool | None:
    then, now = (fact(facts, "scheduler", "rt_throttled_count") for facts in (before, after))
    if then is None or now is None or (then and now == then):
        return None
    return bool(now > then)


def _grown(before: Any, after: Any, *path: str) -> int | None:
    then, now = fact(before, *path), fact(after, *path)
    return None if then is None or now is None else int(now - then)


# What is known of a stream next to its packets, for those who look for anomalies in them.


@dataclass(frozen=True)
class ClockStep:
    """A host's clock jumped by by_ns against one that is never set, between two readings, TAI."""

    host: str
    from_tai_ns: int
    to_tai_ns: int
    by_ns: int


@dataclass(frozen=True)
class Context:
    """All durations in ns. What is None or empty is not known, and explains nothing.

    period_ns: of the stream. port, flow: the gates its packets leave by. cycle_ns: the length of a gate cycle, where
    that is all that is known of them. ptp: what PTP itself says that the clock that stamps arrivals is ahead of the
    talker's (tai_ns, offset_ns; perhaps state, as in the table `ptp`); ptp_of: the port whose record that is.
    clocks: at_tai_ns, lower_ns, upper_ns: between these lies, by our own comparison, what the listener's clock is ahead
    of the talker's and the timestamps were not corrected by; None: packets' clock_bound_ns says it, either way.
    taken_off: the same three of what the timestamps were corrected by. clocks_of: what compared the two.
    steps: of the two hosts' clocks, as their readings show.
    hosts: what facts say of the hosts. rt_runtime_us, rt_period_us: of those that facts say nothing of, what real-time
    threads may run of each period (sched_rt_runtime_us; −1: all). rt_throttled: whether their kernel said that it
    throttled any while the stream ran. duplicated: copies that the listener counted.
    """

    period_ns: int
    port: GatePort | None = None
    flow: GatedStream | None = None
    cycle_ns: int | None = None
    ptp: pl.DataFrame | None = None
    ptp_of: str = ""
    clocks: pl.DataFrame | None = None
    taken_off: pl.DataFrame | None = None
    clocks_of: str = ""
    steps: tuple[ClockStep, ...] = ()
    hosts: tuple[HostRecord, ...] = ()
    rt_runtime_us: int = 950_000
    rt_period_us: int = 1_000_000
    rt_throttled: bool = False
    duplicated: int = 0

    def hosts_at(self, place: str) -> tuple[HostRecord, ...]:
        """The hosts that packets may have been held on at one of `timestamps.PLACES`, as far as facts name any."""
        return tuple(one for one in self.hosts if place in one.places)

    def throttles_at(self, place: str) -> tuple[Throttle, ...]:
        """How kernels may hold real-time threads back there; where facts name no host, as rt_runtime_us says."""
        if known := self.hosts_at(place):
            return tuple(dict.fromkeys(rule for host in known for rule in host.throttles))
        if self.rt_runtime_us < 0:
            return ()
        return (Throttle.of_bandwidth(self.rt_runtime_us, self.rt_period_us),)

    def throttled_at(self, place: str) -> bool:
        """Whether a kernel there said that it throttled meanwhile."""
        known = self.hosts_at(place)
        return any(host.throttled is True for host in known) if known else self.rt_throttled
