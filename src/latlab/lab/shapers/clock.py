"""Gates and launch times are in TAI: the kernel must know how far that is from UTC (adjtimex(2), ADJ_TAI)."""

from __future__ import annotations

import json
from collections.abc import Iterator

from latlab.lab.shapers.base import Place
from latlab.lab.step import Check, Step
from latlab.scenario import Scenario

TAI_MINUS_UTC_S = "37"
"""Since 2017-01-01 (IERS Bulletin C)."""
UNKNOWN = "0 s: nothing has told the kernel"
KNOWN = "known"
REMEDY = (
    "start what tells it: ptp4l with phc2sys (linuxptp), or chrony with `leapsectz right/UTC`; or tell it yourself, "
    f"until the next boot: `latlab-agent tai --set {TAI_MINUS_UTC_S}`"
)


def clock_steps(scenario: Scenario, place: Place) -> Iterator[Step]:
    """An emulated board, which is ours, is told; of any other machine it is an error if it does not know."""
    site = place.site
    host = scenario.hosts.get(site.name)
    agent = (site.agent, "tai")
    if host is not None and host.kind == "board":
        yield Step(
            host=site.name,
            title=f"tell {site.name} how far TAI is from UTC",
            do=(*agent, "--set", TAI_MINUS_UTC_S),
            check=Check(agent, expected=f"{TAI_MINUS_UTC_S} s", read=lambda output: f"{offset_s(output)} s"),
        )
        return
    yield Step(
        host=site.name,
        title="the kernel knows how far TAI is from UTC",
        do=(),
        check=Check(agent, expected=KNOWN, read=known, remedy=REMEDY),
    )


def offset_s(output: str) -> int:
    """TAI − UTC in seconds, as `latlab-agent tai` printed it."""
    return int(json.loads(output)["tai_offset_s"])


def known(output: str) -> str:
    """Whether the kernel has been told: until then its offset is 0."""
    return KNOWN if offset_s(output) else UNKNOWN
