"""A port of PTP's: where it is, what it is, how its ptp4l is asked, and what counts as locked."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from latlab.model.units import MILLISECOND_NS, SECOND_NS
from latlab.scenario import End, Scenario
from latlab.scenario.guests import takes_all
from latlab.scenario.network import uplink_of
from latlab.scenario.parts import parse_end
from latlab.scenario.ptp import Ptp, Timestamps
from latlab.scenario.units import format_duration
from latlab.testbed.site import Site
from latlab.testbed.step import Argv, Check

# ptp4l's options for each profile, by ptp4l's names (ptp4l(8); linuxptp's configs/ has the same).


Settings = dict[str, str]
Role = Literal["master", "slave"]

GPTP: Settings = {
    "gmCapable": "1",
    "priority1": "248",
    "priority2": "248",
    "logSyncInterval": "-3",
    "syncReceiptTimeout": "3",
    "neighborPropDelayThresh": "800",
    "min_neighbor_prop_delay": "-20000000",
    "assume_two_step": "1",
    "path_trace_enabled": "1",
    "follow_up_info": "1",
    "transportSpecific": "0x1",
    "ptp_dst_mac": "01:80:C2:00:00:0E",
    "network_transport": "L2",
    "delay_mechanism": "P2P",
}
"""IEEE 802.1AS, as linuxptp's gPTP.cfg has it."""

AUTOMOTIVE: Settings = GPTP | {"BMCA": "noop", "inhibit_announce": "1", "asCapable": "true"}
"""Avnu's automotive profile: the master is known, and there are no Announce messages."""

PROFILES: Mapping[str, Mapping[Role, Settings]] = {
    "automotive": {
        "master": AUTOMOTIVE | {"masterOnly": "1", "inhibit_delay_req": "1"},
        "slave": AUTOMOTIVE
        | {
            "slaveOnly": "1",
            "ignore_source_id": "1",
            "step_threshold": "1",
            "operLogSyncInterval": "0",
            "operLogPdelayReqInterval": "2",
            "msg_interval_request": "1",
            "servo_offset_threshold": "30",
            "servo_num_offset_values": "10",
        },
    },
    "gptp": {"master": GPTP | {"masterOnly": "1"}, "slave": GPTP | {"slaveOnly": "1", "step_threshold": "1"}},
    "default": {
        "master": {"network_transport": "L2", "delay_mechanism": "E2E", "masterOnly": "1"},
        "slave": {"network_transport": "L2", "delay_mechanism": "E2E", "slaveOnly": "1", "step_threshold": "1"},
    },
}
"""Profile → role → settings. What linuxptp 4 calls serverOnly and clientOnly it takes by these names too."""

SOFTWARE_DELAY_NS = "20000000"
"""Software timestamps have the stack's time in them: by 802.1AS's 800 ns no such neighbour is capable of it."""


def settings(profile: str, role: Role, *, software: bool) -> dict[str, str]:
    """ptp4l's options for the profile. software: its timestamps are the kernel's."""
    found = dict(PROFILES[profile][role])
    if software and "neighborPropDelayThresh" in found:
        found["neighborPropDelayThresh"] = SOFTWARE_DELAY_NS
    return found


def longest_sync_interval_ns(profile: str) -> int:
    """The longest interval between two Syncs there may be: as the master begins, or as a slave asks once it is locked.

    What is not said is 2^0 s (linuxptp's config.c).
    """
    told = PROFILES[profile]
    logs = [int(told["master"].get("logSyncInterval", "0"))]
    if told["slave"].get("msg_interval_request") == "1":
        logs.append(int(told["slave"].get("operLogSyncInterval", "0")))
    return round(2.0 ** max(logs) * SECOND_NS)


def transport_specific(profile: str) -> int:
    """The upper half of a message's first byte (1588-2008 13.3.2.1), which management messages have to match."""
    return int(PROFILES[profile]["slave"].get("transportSpecific", "0"), 16)


# A port of PTP's: where it is, what it is, how its ptp4l is asked, and what counts as locked.


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
class ClockPort:
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
        return Check(self.ask, LOCKED, read, within_ms=self.ptp.wait // MILLISECOND_NS, remedy=REMEDY)

    @property
    def leads(self) -> Check:
        """That it is a master."""
        return Check(self.ask, MASTER, lambda output: str(json.loads(output)["state"]), within_ms=20_000)


def ptp_ports(scenario: Scenario, site: Site) -> list[ClockPort]:
    """Every port of the scenario at which a ptp4l is started, then those that are observed, each in its order."""
    ptp = scenario.clock.ptp
    if ptp is None:
        return []
    absent = {name for name in ptp.ports if absent_because(scenario, parse_end(name))}
    started = [_started(scenario, site, name) for name in ptp.ports if name not in absent]
    return [*started, *(_observed(scenario, site, name) for name in ptp.observed)]


def absent_ports(scenario: Scenario, site: Site) -> list[tuple[ClockPort, str]]:
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


def _started(scenario: Scenario, site: Site, name: str) -> ClockPort:
    ptp = scenario.clock.ptp
    assert ptp
    end, role = parse_end(name), ptp.ports[name]
    there, timestamps = site.on(scenario.machine_of(end.host)), scenario.ptp_timestamps(end)
    one_clock = has_its_masters_clock(scenario, end)
    return ClockPort(
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


def _observed(scenario: Scenario, site: Site, name: str) -> ClockPort:
    ptp = scenario.clock.ptp
    assert ptp
    end = parse_end(name)
    there, timestamps = site.on(scenario.machine_of(end.host)), scenario.ptp_timestamps(end)
    return ClockPort(end, None, ptp, there, ptp.observed[name], timestamps, False, False, ptp.limit_ns(timestamps))


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


# What linuxptp needs of a machine where it is started: programs, and what the kernel allows only to some.


@dataclass(frozen=True)
class Needs:
    """Of one port. in_hardware: its card must have a clock, and stamp."""

    end: End
    tools: frozenset[str]
    capabilities: frozenset[str]
    in_hardware: bool


def ptp_needs(scenario: Scenario, hosts: Collection[str]) -> Iterator[Needs]:
    """What each port needs that is started at one of these hosts, by what is turned there."""
    ptp = scenario.clock.ptp
    for name, role in ptp.ports.items() if ptp else ():
        assert ptp
        end = parse_end(name)
        if end.host not in hosts or absent_because(scenario, end):
            continue
        in_hardware = scenario.ptp_timestamps(end) == "hardware"
        others = role == "slave" and not has_its_masters_clock(scenario, end)
        tools = {"ptp4l", "setpriv", "grep"}
        tools |= {"chrt"} if ptp.fifo else set()
        tools |= {"taskset"} if ptp.cpus else set()
        tools |= {"phc_ctl", "sed"} if in_hardware or others else set()
        tools |= {"ethtool", "hwstamp_ctl"} if in_hardware else set()
        tools |= {"phc2sys"} if in_hardware and (role == "master" or others) else set()
        # Its packets are raw frames.
        capabilities = {"CAP_NET_RAW"}
        capabilities |= {"CAP_SYS_NICE"} if ptp.fifo else set()
        capabilities |= {"CAP_SYS_TIME"} if in_hardware or others else set()
        yield Needs(end, frozenset(tools), frozenset(capabilities), in_hardware)
