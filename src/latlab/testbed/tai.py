"""Gates, launch times and cards' clocks are in TAI: the kernel must know how far that is from UTC (ADJ_TAI)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

from latlab.scenario import Scenario
from latlab.scenario.parts import parse_end
from latlab.scenario.shapers import Classes, Etf, Shaper, Taprio
from latlab.testbed.site import Site
from latlab.testbed.step import Check, Step

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
        yield from _counts_tai(scenario, there, known_exactly if there.name in exact else known)


def _keeps_time(shaper: Shaper) -> bool:
    children = shaper.children.values() if isinstance(shaper, Classes) else ()
    return isinstance(shaper, Taprio | Etf) or any(isinstance(child, Etf) for child in children)


def _counts_tai(scenario: Scenario, site: Site, read: Callable[[str], str]) -> Iterator[Step]:
    """An emulated board, which is latlab's, gets it set; for any other machine it is an error if it is not known."""
    host = scenario.hosts.get(site.name)
    agent = (site.agent, "tai")
    if host is not None and host.is_emulated:
        yield Step(
            host=site.name,
            title=f"set {site.name}'s TAI offset",
            do=(*agent, "--set", TAI_MINUS_UTC_S),
            check=Check(agent, expected=f"{TAI_MINUS_UTC_S} s", read=lambda output: f"{offset_s(output)} s"),
        )
        return
    yield Step(
        host=site.name,
        title="the kernel has the TAI offset",
        do=(),
        check=Check(agent, expected=KNOWN, read=read, remedy=remedy(site)),
    )


def remedy(site: Site) -> str:
    """What to do on the machine: its agent is not on the PATH there."""
    return (
        "run a program that sets it: ptp4l with phc2sys (linuxptp), or chrony with `leapsectz right/UTC`; or set it on "
        f"{site.name} until its next boot: `{site.agent} tai --set {TAI_MINUS_UTC_S}`"
    )


def offset_s(output: str) -> int:
    """TAI − UTC in seconds, as `latlab-agent tai` printed it."""
    return int(json.loads(output)["tai_offset_s"])


def known(output: str) -> str:
    """Whether the kernel's offset has been set: until then it is 0."""
    return KNOWN if offset_s(output) else UNKNOWN


def known_exactly(output: str) -> str:
    """The same where a card's clock is set by it: cards are given today's difference."""
    there = offset_s(output)
    if str(there) in ("0", TAI_MINUS_UTC_S):
        return known(output)
    return f"{there} s, and cards are set {TAI_MINUS_UTC_S} s ahead"
