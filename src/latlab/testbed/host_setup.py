"""The steps that get hosts ready before anything is laid: namespaces, the kernel's TAI offset, its tracing."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

from latlab.scenario import Scenario
from latlab.scenario.parts import parse_end
from latlab.scenario.shapers import Shaper
from latlab.testbed.site import Site
from latlab.testbed.step import Check, Step

# The steps that make the hosts of kind netns.


# What a killed lab left running inside would keep the namespace alive without its name.
REMOVE = 'ip netns pids "$0" | xargs -r kill -KILL; ip netns del "$0"'


def namespace_name(tag: str, host: str) -> str:
    """The name of a host's namespace: ours by its `latlab-`, this run's by its tag."""
    return f"latlab-{tag}-{host}"


def namespace_steps(scenario: Scenario, site: Site) -> list[Step]:
    """The steps that make each namespace, in the order of the scenario's hosts."""
    return [
        step
        for name, host in scenario.hosts.items()
        if host.is_namespace
        for step in _steps(name, namespace_name(site.tag, name), site.on(scenario.machine_of(name)).name)
    ]


def _steps(host: str, namespace: str, machine: str) -> list[Step]:
    return [
        Step(
            host=machine,
            title=f"make {host}'s namespace",
            do=("ip", "netns", "add", namespace),
            undo=("sh", "-c", REMOVE, namespace),
            present=("test", "-e", f"/run/netns/{namespace}"),
        ),
        Step(
            host=machine,
            title=f"bring {host}'s loopback up",
            do=("ip", "-n", namespace, "link", "set", "lo", "up"),
        ),
        ipv6_off(host, "all"),
    ]


def ipv6_off(host: str, interface: str) -> Step:
    """The step that keeps IPv6 off an interface, or off all there are and will be ("all").

    Router solicitations and duplicate address detection would send additional packets in the measured path.
    """
    key = f"net.ipv6.conf.{interface.replace('.', '/')}.disable_ipv6"
    return Step(
        host=host,
        title="no IPv6 traffic of the kernel on the measured path",
        do=("sysctl", "-qew", f"{key}=1"),
        # A kernel without IPv6 has no such key: -e passes over it, and the read-back is empty.
        check=Check(("sysctl", "-ne", key), expected="1", read=lambda output: output.strip() or "1"),
    )


# Gates, launch times and cards' clocks are in TAI: the kernel must know how far that is from UTC (ADJ_TAI).


TAI_MINUS_UTC_S = "37"
"""Since 2017-01-01 (IERS Bulletin C)."""
UNKNOWN = "0 s: the kernel's TAI offset is not set"
KNOWN = "known"


def tai_steps(scenario: Scenario, site: Site) -> Iterator[Step]:
    """Every machine with gates, launch times or a card's clock that PTP turns counts TAI."""
    ends = [parse_end(name) for name, shaper in scenario.shapers.items() if _keeps_time(shaper)]
    turned = [parse_end(name) for name in (scenario.clock.ptp.ports if scenario.clock.ptp else ())]
    turned = [end for end in turned if scenario.ptp_timestamps(end) == "hardware"]
    exact = {site.on(scenario.machine_of(end.host)).name for end in turned}
    machines = [site.on(scenario.machine_of(end.host)) for end in (*ends, *turned)]
    for there in {machine.name: machine for machine in machines}.values():
        yield from _counts_tai(scenario, there, exact_tai if there.name in exact else known_tai)


def _keeps_time(shaper: Shaper) -> bool:
    return shaper.in_tai or any(child.in_tai for child in shaper.beneath.values())


def _counts_tai(scenario: Scenario, site: Site, read: Callable[[str], str]) -> Iterator[Step]:
    """An emulated board, which is latlab's, gets it set; for any other machine it is an error if it is not known."""
    host = scenario.hosts.get(site.name)
    agent = (site.agent, "tai")
    if host is not None and host.is_emulated:
        yield Step(
            host=site.name,
            title=f"set {site.name}'s TAI offset",
            do=(*agent, "--set", TAI_MINUS_UTC_S),
            check=Check(agent, expected=f"{TAI_MINUS_UTC_S} s", read=lambda output: f"{tai_offset_s(output)} s"),
        )
        return
    yield Step(
        host=site.name,
        title="the kernel has the TAI offset",
        do=(),
        check=Check(agent, expected=KNOWN, read=read, remedy=tai_remedy(site)),
    )


def tai_remedy(site: Site) -> str:
    """What to do on the machine: its agent is not on the PATH there."""
    return (
        "run a program that sets it: ptp4l with phc2sys (linuxptp), or chrony with `leapsectz right/UTC`; or set it on "
        f"{site.name} until its next boot: `{site.agent} tai --set {TAI_MINUS_UTC_S}`"
    )


def tai_offset_s(output: str) -> int:
    """TAI − UTC in seconds, as `latlab-agent tai` printed it."""
    return int(json.loads(output)["tai_offset_s"])


def known_tai(output: str) -> str:
    """Whether the kernel's offset has been set: until then it is 0."""
    return KNOWN if tai_offset_s(output) else UNKNOWN


def exact_tai(output: str) -> str:
    """The same where a card's clock is set by it: cards are given today's difference."""
    there = tai_offset_s(output)
    if str(there) in ("0", TAI_MINUS_UTC_S):
        return known_tai(output)
    return f"{there} s, and cards are set {TAI_MINUS_UTC_S} s ahead"


# The kernel's tracing, of which an agent that traces makes an instance that stays when the agent is killed.
#
# Instances carry our name and an agent's process id, `latlab-PID`; of agents that live none is removed.


def tracing_steps(scenario: Scenario, site: Site) -> Iterator[Step]:
    """A step for each machine with a timer or a receiver that is traced: what killed agents left is removed, before
    and after. It is the machine's: a namespace may be gone by then.

    A guest's kernel ends with the guest; on one that is reached by ssh the next agent that traces removes it.
    """
    traced = (timer.on for timer in scenario.timers.values() if timer.trace)
    vm_hosts = (scenario.guests[name].host for name in scenario.entered)
    hosts = (host for host in (*traced, *scenario.traced, *vm_hosts) if host not in scenario.guests)
    for machine in dict.fromkeys(scenario.machine_of(host) for host in hosts):
        there = site.on(machine)
        clear = (there.agent, "timer", "--clear-traces")
        yield Step(there.name, "remove the tracing of killed agents", clear, undo=clear)
