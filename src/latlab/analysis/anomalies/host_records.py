"""What facts say of the hosts on which a stream's packets may have been held: throttling, and CPU time stolen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from latlab.analysis.trust_readings import fact
from latlab.analysis.words import duration
from latlab.model.part import Facts
from latlab.model.timestamps import APPLICATION, DRIVER, KERNEL, PATH, QDISC, SOCKET, TALKER
from latlab.recordings.cell import RecordedCell, RecordedStream

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
        return cls((period_us - runtime_us) * 1_000, period_us * 1_000, setting)

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
