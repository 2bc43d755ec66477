"""What linuxptp needs of a machine where it is started: programs, and what the kernel allows only to some."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from latlab.scenario import End, Scenario
from latlab.scenario.parts import parse_end
from latlab.testbed.ptp.port import absent_because, has_its_masters_clock


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
