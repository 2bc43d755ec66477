"""What is known of a stream next to its packets, for those who look for anomalies in them."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from latlab.analysis.anomalies.host_records import HostRecord, Throttle
from latlab.analysis.gate_port import Port
from latlab.analysis.promise import Flow


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
    port: Port | None = None
    flow: Flow | None = None
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
