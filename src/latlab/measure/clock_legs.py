"""By which legs the clocks of two hosts are joined: a chain of pairs, each of which something bounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from latlab.errors import LabError
from latlab.host import Host
from latlab.lab.guests.qemu import CLOCK_PAGE
from latlab.lab.site import Site
from latlab.measure.specs import CLOCK_PERIOD_NS, PAGE_PERIOD_NS, clock_specs, page_specs
from latlab.scenario import Route, Scenario

SPARE_NS = 60_000_000_000

Source = Literal["one kernel", "shared page", "exchange"]


@dataclass(frozen=True)
class Leg:
    """Two hosts whose clocks are compared directly. Of a shared page, `here` writes it and `there` reads it."""

    here: str
    there: str
    source: Source

    @property
    def recorder(self) -> str:
        """The host that records the comparison: who asks, or who reads the page."""
        return self.here if self.source == "exchange" else self.there


Told = tuple[str, Mapping[str, Any]]
"""A host, and what its agent is told."""


def needed_legs(scenario: Scenario, hosts: Mapping[str, Host]) -> list[Leg]:
    """Every leg that is needed, once, whichever way it is gone. LabError: sync is shared, and a pair shares none."""
    sync = scenario.clock.sync
    kernels = {name: hosts[name].shared_kernel for name in (*scenario.hosts, *scenario.guests)}
    pages = {name: guest.host for name, guest in scenario.guests.items() if guest.domain is None}
    found: dict[frozenset[str], Leg] = {}
    for talker, listener in _routes(scenario):
        legs = joining_legs(talker, listener, kernels, pages, always_exchange=sync == "exchange")
        if legs is None and sync == "shared":
            raise LabError(
                f"{talker} and {listener} run different kernels and share no page, so they share no clock",
                where="clock.sync",
                remedy="say `clock: {sync: auto}`",
            )
        for leg in legs if legs is not None else [Leg(talker, listener, "exchange")]:
            found.setdefault(frozenset((leg.here, leg.there)), leg)
    return list(found.values())


def leg_specs(scenario: Scenario, site: Site, leg: Leg, run_id: str, recording: Path | str) -> tuple[Told, Told]:
    """Who answers and who asks on a leg that is measured, in the order to start them, each with what it is told."""
    needed_ns = scenario.duration + SPARE_NS
    if leg.source == "exchange":
        route, count = _routes(scenario)[leg.here, leg.there], needed_ns // CLOCK_PERIOD_NS
        asks, answers = clock_specs(route, run_id, recording, count)
        return (leg.there, answers), (leg.here, asks)
    page = f"{site.guest_state(leg.there)}/{CLOCK_PAGE}"
    writes, reads = page_specs(page, run_id, recording, needed_ns // PAGE_PERIOD_NS)
    return (leg.here, writes), (leg.there, reads)


def joining_legs(
    talker: str, listener: str, kernels: Mapping[str, str], pages: Mapping[str, str], *, always_exchange: bool
) -> Sequence[Leg] | None:
    """The shortest chain from the talker to the listener; None where only an exchange could join them.

    kernels: host → the kernel it runs on. pages: guest → the host that shares a page with it.
    """
    if always_exchange:
        return [Leg(talker, listener, "exchange")]
    chains: dict[str, tuple[Leg, ...]] = {talker: ()}
    queue = [talker]
    while queue and listener not in chains:
        here = queue.pop(0)
        for leg, there in _from(here, kernels, pages, last=listener):
            if there not in chains:
                chains[there] = (*chains[here], leg)
                queue.append(there)
    return chains.get(listener)


def _from(here: str, kernels: Mapping[str, str], pages: Mapping[str, str], last: str) -> list[tuple[Leg, str]]:
    same = [name for name, kernel in kernels.items() if kernel == kernels[here] and name != here]
    # The listener itself first: hosts on one kernel need nobody between them.
    same.sort(key=lambda name: name != last)
    found = [(Leg(here, name, "one kernel"), name) for name in same]
    found += [(Leg(here, guest, "shared page"), guest) for guest, host in pages.items() if host == here]
    if here in pages:
        found.append((Leg(pages[here], here, "shared page"), pages[here]))
    return found


def _routes(scenario: Scenario) -> dict[tuple[str, str], Route]:
    """Each two hosts once, whichever of them talks: a bound holds in both directions."""
    pairs: dict[tuple[str, str], Route] = {}
    for name, stream in scenario.streams.items():
        if (stream.listener, stream.talker) not in pairs:
            pairs.setdefault((stream.talker, stream.listener), scenario.route(name))
    return pairs
