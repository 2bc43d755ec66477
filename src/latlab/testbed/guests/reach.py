"""Each way that a stream takes to or from a guest is tried once before anything is measured on it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from latlab.scenario import Route, Scenario
from latlab.testbed.site import Site
from latlab.testbed.step import Check, Step

REACHED_MS = 15_000
"""A user-space switch sets a guest's port up again for over a second after its driver has started."""


def reach_steps(scenario: Scenario, site: Site) -> Iterator[Step]:
    """One for each two interfaces; none through user NAT, which answers pings itself."""
    routes = {
        frozenset((route.talker_end, route.listener_end)): route
        for route in (scenario.route(name) for name in scenario.flows)
    }
    for route in routes.values():
        if not route.is_translated and {route.talker_end, route.listener_end} & set(route.segment.guests):
            yield _reach(route)


def _reach(route: Route) -> Step:
    address = str(route.segment.address(route.listener_end).ip)
    return Step(
        host=route.talker_end.host,
        title=f"{route.talker_end} reaches {route.listener_end}",
        do=(),
        check=Check(("ping", "-c", "1", "-W", "1", address), "1 received", _received, REACHED_MS),
    )


def _received(output: str) -> str:
    # iputils: "1 received"; busybox: "1 packets received"
    found = re.search(r"(\d+) (?:packets )?received", output)
    return f"{found[1]} received" if found else output.strip()
