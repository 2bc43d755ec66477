"""A port of PTP's: where it is, what it is, how its ptp4l is asked, and what counts as locked."""

from __future__ import annotations

import json
from dataclasses import dataclass

from latlab.lab.ptp.profiles import Role, transport_specific
from latlab.lab.site import Site
from latlab.lab.step import Argv, Check
from latlab.scenario import End, Scenario
from latlab.scenario.network import uplink_of
from latlab.scenario.parts import parse_end
from latlab.scenario.ptp import Ptp, Timestamps
from latlab.scenario.units import format_duration

LOCKED = "locked"
SYNCS = 3
"""So many that follow one another have to agree."""
SPAN_NS = 2_500_000_000
"""Two peer delays are measured in it, each second one (logMinPdelayReqInterval 0). Until the first, ptp4l says of its
offset that it is 0, whatever it is (clock_synchronize in linuxptp's clock.c), and in the automotive profile it is SLAVE
from its first moment on."""
GAP_NS = 4_000_000_000
"""Between two Syncs of any profile here; a clock that was stepped jumps by more."""
TAKEN_BY = ("vfio", "ovs-afxdp")
"""Bridges that leave ptp4l no packet on their uplink."""
MASTER = "MASTER"
SLAVE = "SLAVE"
FOLLOWING = ("SLAVE", "UNCALIBRATED")
"""What a port is that hears a master. One whose ptp4l turns no clock (free_running) never gets beyond the second."""
REMEDY = (
    "see what ptp4l says in its log; `wait` is how long it may take, `limit` how far a slave may be off, and "
    "`timestamps: software` works where a card stamps nothing"
)
SILENT_REMEDY = (
    "it answers only who knows its `domain` and its transportSpecific, which is 1 with `profile: automotive` or gptp "
    "and 0 with `profile: default`; its socket is what its uds_address says"
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
        """Whether its machine's own clock is turned by what it hears."""
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
        words = Locking(self.limit_ns, span_ns, free_running=self.free_running)
        return Check(self.ask, LOCKED, words, within_ms=self.ptp.wait // 1_000_000, remedy=REMEDY)

    @property
    def leads(self) -> Check:
        """That it is a master."""
        return Check(self.ask, MASTER, lambda output: str(json.loads(output)["state"]), within_ms=20_000)


def ptp_ports(scenario: Scenario, site: Site) -> list[Port]:
    """Every port of the scenario, in its order; those that are started first.

    A card that VFIO hands to a guest is that guest's, and of what AF_XDP takes the kernel sees nothing: nothing is
    started there.
    """
    ptp = scenario.clock.ptp
    if ptp is None:
        return []
    handed = {uplink_of(guest) for guest in scenario.guests.values() if guest.bridge in TAKEN_BY}
    masters = {scenario.machine_of(parse_end(name).host) for name, role in ptp.ports.items() if role == "master"}
    found = []
    turned: set[str | None] = set()
    for name, role in ptp.ports.items():
        end = parse_end(name)
        if end in handed:
            continue
        machine = scenario.machine_of(end.host)
        timestamps = scenario.ptp_timestamps(end)
        one_clock = machine in masters
        there = site.on(machine)
        follows = role == "slave" and timestamps == "hardware" and not one_clock and machine not in turned
        turned |= {machine} if follows else set()
        found.append(
            Port(
                end,
                role,
                ptp,
                there,
                socket=f"{ptp_folder(there)}/{end}",
                timestamps=timestamps,
                free_running=role == "master" or (timestamps == "software" and one_clock),
                system_follows=follows,
                limit_ns=ptp.limit_ns(timestamps),
            )
        )
    for name, socket in ptp.observed.items():
        end = parse_end(name)
        timestamps = scenario.ptp_timestamps(end)
        there, limit = site.on(scenario.machine_of(end.host)), ptp.limit_ns(timestamps)
        found.append(Port(end, None, ptp, there, socket, timestamps, False, False, limit))
    return found


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
