"""A port of PTP's: where it is, what it is, how its ptp4l is asked, and what counts as locked."""

from __future__ import annotations

import json
from dataclasses import dataclass

from latlab.scenario import End, Scenario
from latlab.scenario.guests import takes_all
from latlab.scenario.network import uplink_of
from latlab.scenario.parts import parse_end
from latlab.scenario.ptp import Ptp, Timestamps
from latlab.scenario.units import format_duration
from latlab.testbed.ptp.profiles import Role, transport_specific
from latlab.testbed.site import Site
from latlab.testbed.step import Argv, Check

LOCKED = "locked"
SYNCS = 3
"""So many that follow one another have to agree."""
SPAN_NS = 2_500_000_000
"""Two peer delays are measured in it, each second one (logMinPdelayReqInterval 0). Until the first, ptp4l says of its
offset that it is 0, whatever it is (clock_synchronize in linuxptp's clock.c), and in the automotive profile it is SLAVE
from its first moment on."""
GAP_NS = 4_000_000_000
"""Between two Syncs of any profile here; a clock that was stepped jumps by more."""
MASTER = "MASTER"
SLAVE = "SLAVE"
FOLLOWING = ("SLAVE", "UNCALIBRATED")
"""States of a port that receives from a master. Where ptp4l turns no clock (free_running) only the second."""
REMEDY = (
    "see ptp4l's log; `wait` is how long locking may take, `limit` how far a slave may be off, and `timestamps: "
    "software` works with cards that do not stamp"
)
SILENT_REMEDY = (
    "it answers only requests with its `domain` and its transportSpecific, which is 1 with `profile: automotive` or "
    "gptp and 0 with `profile: default`; its socket is at its uds_address"
)
"""Of one that runs already."""


@dataclass(frozen=True)
class Port:
    """One port.

    role: of the ptp4l that is started there; None where one is observed. site: the cell's place on its machine.
    socket: where its ptp4l is asked. free_running: its ptp4l turns no clock, as it is the master, or has the master's.
    system_follows: the system's clock of its machine is to follow the card's, the first of those that are slaves there.
    limit_ns: the offset within which it is locked.
    """

    end: End
    role: Role | None
    ptp: Ptp
    site: Site
    socket: str
    timestamps: Timestamps
    free_running: bool
    system_follows: bool
    limit_ns: int

    @property
    def in_hardware(self) -> bool:
        """Whether its card stamps, and its card's clock is turned."""
        return self.timestamps == "hardware"

    @property
    def turns_the_system(self) -> bool:
        """Whether its machine's own clock is adjusted by what it receives."""
        return self.system_follows or (self.role == "slave" and not self.in_hardware and not self.free_running)

    @property
    def folder(self) -> str:
        """Of the sockets of what is started."""
        return ptp_folder(self.site)

    @property
    def transport_specific(self) -> int:
        """What its management messages begin with: a ptp4l answers no others."""
        return transport_specific(self.ptp.profile)

    @property
    def ask(self) -> Argv:
        """What prints its state, as JSON."""
        words = ("--domain", str(self.ptp.domain), "--transport-specific", str(self.transport_specific))
        return (self.site.agent, "ptp", "--once", self.socket, *words)

    def locked(self, span_ns: int = SPAN_NS) -> Check:
        """That it follows its master, within the limit, for that long."""
        read = Locking(self.limit_ns, span_ns, free_running=self.free_running)
        return Check(self.ask, LOCKED, read, within_ms=self.ptp.wait // 1_000_000, remedy=REMEDY)

    @property
    def leads(self) -> Check:
        """That it is a master."""
        return Check(self.ask, MASTER, lambda output: str(json.loads(output)["state"]), within_ms=20_000)


def ptp_ports(scenario: Scenario, site: Site) -> list[Port]:
    """Every port of the scenario at which a ptp4l is started, then those that are observed, each in its order."""
    ptp = scenario.clock.ptp
    if ptp is None:
        return []
    absent = {name for name in ptp.ports if absent_because(scenario, parse_end(name))}
    started = [_started(scenario, site, name) for name in ptp.ports if name not in absent]
    return [*started, *(_observed(scenario, site, name) for name in ptp.observed)]


def absent_ports(scenario: Scenario, site: Site) -> list[tuple[Port, str]]:
    """The ports at which the scenario wants a ptp4l, and none is started: each with why.

    A card that VFIO hands to a guest is that guest's, and of what AF_XDP takes the kernel sees nothing.
    """
    ports = scenario.clock.ptp.ports if scenario.clock.ptp else ()
    whys = {name: absent_because(scenario, parse_end(name)) for name in ports}
    return [(_started(scenario, site, name), why) for name, why in whys.items() if why]


def absent_because(scenario: Scenario, end: End) -> str | None:
    """Why no ptp4l there would get a packet."""
    on_it = {name: guest for name, guest in scenario.guests.items() if uplink_of(guest) == end}
    whys = (f"{guest.bridge}, for {name}: {why}" for name, guest in on_it.items() if (why := takes_all(guest)))
    return next(whys, None)


def _started(scenario: Scenario, site: Site, name: str) -> Port:
    ptp = scenario.clock.ptp
    assert ptp
    end, role = parse_end(name), ptp.ports[name]
    there, timestamps = site.on(scenario.machine_of(end.host)), scenario.ptp_timestamps(end)
    one_clock = has_its_masters_clock(scenario, end)
    return Port(
        end,
        role,
        ptp,
        there,
        socket=f"{ptp_folder(there)}/{end}",
        timestamps=timestamps,
        free_running=role == "master" or (timestamps == "software" and one_clock),
        system_follows=_leads_the_system(scenario, end),
        limit_ns=ptp.limit_ns(timestamps),
    )


def has_its_masters_clock(scenario: Scenario, end: End) -> bool:
    """Whether the master of a slave, at the other end of its link, is on the same machine."""
    master = scenario.ptp_master_of(end)
    return master is not None and scenario.machine_of(master.host) == scenario.machine_of(end.host)


def _leads_the_system(scenario: Scenario, end: End) -> bool:
    """Whether its machine's system clock is to follow the card there: the first slave's that has another's time."""
    ptp = scenario.clock.ptp
    assert ptp
    machine = scenario.machine_of(end.host)
    slaves = [parse_end(name) for name, role in ptp.ports.items() if role == "slave"]
    leading = (
        slave
        for slave in slaves
        if scenario.machine_of(slave.host) == machine
        and scenario.ptp_timestamps(slave) == "hardware"
        and not has_its_masters_clock(scenario, slave)
        and not absent_because(scenario, slave)
    )
    return next(leading, None) == end


def _observed(scenario: Scenario, site: Site, name: str) -> Port:
    ptp = scenario.clock.ptp
    assert ptp
    end = parse_end(name)
    there, timestamps = site.on(scenario.machine_of(end.host)), scenario.ptp_timestamps(end)
    return Port(end, None, ptp, there, ptp.observed[name], timestamps, False, False, ptp.limit_ns(timestamps))


def ptp_folder(site: Site) -> str:
    """The folder of the sockets of a machine's ptp4l."""
    return f"{site.state}-ptp"


class Locking:
    """How what `latlab-agent ptp --once` prints is read, time after time: LOCKED, or in words what it is instead.

    A slave is locked when Syncs that followed one another, over `span_ns` of its clock, all found it within the limit.
    """

    def __init__(self, limit_ns: int, span_ns: int, *, free_running: bool) -> None:
        self._limit_ns = limit_ns
        self._span_ns = span_ns
        self._following = FOLLOWING if free_running else (SLAVE,)
        self._syncs: list[int] = []
        """When each came in, by the slave's clock."""

    def __call__(self, output: str) -> str:
        said = json.loads(output)
        state, offset, sync = said["state"], said["offset_ns"], said["ingress_ns"]
        if state not in self._following or offset is None or sync is None or abs(offset) > self._limit_ns:
            self._syncs = []
            return state if offset is None else f"{state}, offset {format_duration(offset)}"
        if self._syncs and not 0 <= sync - self._syncs[-1] <= GAP_NS:
            self._syncs = []
        if not self._syncs or sync != self._syncs[-1]:
            self._syncs.append(sync)
        if len(self._syncs) >= SYNCS and self._syncs[-1] - self._syncs[0] >= self._span_ns:
            return LOCKED
        return f"{state}, offset {format_duration(offset)}, within the limit for {len(self._syncs)} Syncs"
