"""By which legs the clocks of two hosts are joined: a chain of pairs, each of which something bounds."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

from latlab.hosts import Host
from latlab.model.clock_sources import EXCHANGE, ONE_KERNEL, PTP_KVM, SHARED_PAGE, ClockSource
from latlab.model.errors import LabError
from latlab.run.specs import CLOCK_PERIOD_NS, PAGE_PERIOD_NS, PTP_PERIOD_NS, clock_specs, page_specs, ptp_spec
from latlab.scenario import Route, Scenario
from latlab.testbed.guests.qemu import CLOCK_PAGE, doorbell_address
from latlab.testbed.site import Site
from latlab.testbed.step import Spec

SPARE_NS = 600_000_000_000
"""More than agents need to start, wherever they do: these are stopped, and what ends sooner bounds no packet."""


@dataclass(frozen=True)
class Leg:
    """Two hosts whose clocks are compared directly.

    Between a guest and its host, `here` is the host, which shows its clock on a shared page or is shown by KVM, and
    `there` is the guest, which reads it.
    """

    here: str
    there: str
    source: ClockSource

    @property
    def recorder(self) -> str:
        """The host that records the comparison: who asks, or who reads the other's clock."""
        return self.here if self.source.sends_packets else self.there


Told = tuple[str, Spec]
"""A host, and its agent's spec."""
TaiOffset = Callable[[str], int | str]
"""A host's TAI − UTC, s; in a plan, what it is."""


def needed_legs(
    scenario: Scenario, site: Site, hosts: Mapping[str, Host], with_kvm_clock: Collection[str]
) -> list[Leg]:
    """Every leg that is needed, once, in either direction. LabError: sync is shared, and a pair shares none.

    with_kvm_clock: the guests that have KVM's PTP clock.
    """
    sync = scenario.clock.sync
    kernels = {name: hosts[name].shared_kernel for name in (*scenario.hosts, *scenario.guests)}
    guests = guest_legs(scenario, site, with_kvm_clock)
    found: dict[frozenset[str], Leg] = {}
    for talker, listener in _routes(scenario):
        legs = joining_legs(talker, listener, kernels, guests, always_exchange=sync == "exchange")
        if legs is None and sync == "shared":
            raise _nothing_shared(talker, listener, [name for name in scenario.guests if name not in guests])
        for leg in legs if legs is not None else [Leg(talker, listener, EXCHANGE)]:
            found.setdefault(frozenset((leg.here, leg.there)), leg)
    for here, there in _watched_pairs(scenario, kernels):
        # Where nothing else joins them, hosts are compared by what streams and probes do between them already.
        exchanges = [leg for leg in found.values() if leg.source.sends_packets]
        own = {} if sync == "exchange" else guests
        chain = joining_legs(here, there, kernels, own, exchanges=exchanges)
        if chain is None and sync != "shared" and (more := _exchange_between(scenario, kernels, here, there)):
            chain = joining_legs(here, there, kernels, own, exchanges=[*exchanges, more])
        for leg in chain or ():
            found.setdefault(frozenset((leg.here, leg.there)), leg)
    return list(found.values())


def _exchange_between(scenario: Scenario, kernels: Mapping[str, str], here: str, there: str) -> Leg | None:
    """The exchange of two hosts that one link joins, one on either's kernel; None where there are no such two."""
    near, far = ([name for name, kernel in kernels.items() if kernel == kernels[end]] for end in (here, there))
    pairs = ((one, other) for one in near for other in far if scenario.route_between(one, other))
    return next((Leg(one, other, EXCHANGE) for one, other in pairs), None)


def _watched_pairs(scenario: Scenario, kernels: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Each two hosts of different kernels between which flows are watched: of each kernel the first one."""
    for flow in scenario.watched.values():
        first: dict[str, str] = {}
        for point in flow.at:
            host = scenario.watched_on(point)
            first.setdefault(kernels[host], host)
        yield from combinations(first.values(), 2)


def guest_legs(scenario: Scenario, site: Site, with_kvm_clock: Collection[str]) -> dict[str, Leg]:
    """Guest → the leg that joins it and its host: over a page, if latlab starts it where pages are shared, else by
    KVM's clock. A guest that has neither is not in it.
    """
    legs: dict[str, Leg] = {}
    for name, guest in scenario.guests.items():
        if guest.domain is None and site.on(scenario.machine_of(name)).shares_pages:
            legs[name] = Leg(guest.host, name, SHARED_PAGE)
        elif name in with_kvm_clock:
            legs[name] = Leg(guest.host, name, PTP_KVM)
    return legs


def leg_specs(
    scenario: Scenario, site: Site, leg: Leg, run_id: str, recording: Path | str, tai_offset_s: TaiOffset
) -> tuple[Told, ...]:
    """Whose agents compare the clocks of a leg that is measured, each with its spec, in the order to start them.

    The last one asks, and records.
    """
    needed_ns = scenario.duration + SPARE_NS
    if leg.source.sends_packets:
        route, count = _route_of(scenario, leg), needed_ns // CLOCK_PERIOD_NS
        asks, answers = clock_specs(route, run_id, recording, count)
        return (leg.there, answers), (leg.here, asks)
    if leg.source is PTP_KVM:
        count = needed_ns // PTP_PERIOD_NS
        return ((leg.there, ptp_spec(run_id, recording, count, tai_offset_s(leg.here))),)
    folder = site.guest_state(leg.there)
    page, address = f"{folder}/{CLOCK_PAGE}", doorbell_address(folder)
    writes, reads = page_specs(page, address, run_id, recording, needed_ns // PAGE_PERIOD_NS)
    return (leg.here, writes), (leg.there, reads)


def joining_legs(
    talker: str,
    listener: str,
    kernels: Mapping[str, str],
    guests: Mapping[str, Leg],
    *,
    always_exchange: bool = False,
    exchanges: Sequence[Leg] = (),
) -> Sequence[Leg] | None:
    """The shortest chain from the talker to the listener; None where only an exchange could join them.

    kernels: host → the kernel it runs on. guests: guest → the leg that joins it and its host. exchanges: those that
    there are in any case.
    """
    if always_exchange:
        return [Leg(talker, listener, EXCHANGE)]
    chains: dict[str, tuple[Leg, ...]] = {talker: ()}
    queue = [talker]
    while queue and listener not in chains:
        here = queue.pop(0)
        for leg, there in _from(here, kernels, guests, exchanges, last=listener):
            if there not in chains:
                chains[there] = (*chains[here], leg)
                queue.append(there)
    return chains.get(listener)


def _from(
    here: str, kernels: Mapping[str, str], guests: Mapping[str, Leg], exchanges: Sequence[Leg], last: str
) -> list[tuple[Leg, str]]:
    same = [name for name, kernel in kernels.items() if kernel == kernels[here] and name != here]
    # The listener itself first: hosts on one kernel need no host between them.
    same.sort(key=lambda name: name != last)
    found = [(Leg(here, name, ONE_KERNEL), name) for name in same]
    found += [(leg, leg.there) for leg in guests.values() if leg.here == here]
    if here in guests:
        found.append((guests[here], guests[here].here))
    for leg in exchanges:
        found += [(leg, end) for start, end in ((leg.here, leg.there), (leg.there, leg.here)) if start == here]
    return found


def _nothing_shared(talker: str, listener: str, domains: Sequence[str]) -> LabError:
    """domains: the guests that are joined to their host by nothing."""
    alone = [name for name in (talker, listener) if name in domains]
    load = f", or `modprobe ptp_kvm` in {' and '.join(alone)}: a guest of KVM has the clock then" if alone else ""
    return LabError(
        f"{talker} and {listener} run different kernels, with neither a shared clock page nor KVM's PTP clock between "
        "them",
        where="clock.sync",
        remedy=f"set `clock: {{sync: auto}}`{load}",
    )


def _route_of(scenario: Scenario, leg: Leg) -> Route:
    """The one of the stream or probe that needs the leg, else any."""
    route = _routes(scenario).get((leg.here, leg.there)) or scenario.route_between(leg.here, leg.there)
    assert route, f"{leg.here} and {leg.there} are not joined"
    return route


def _routes(scenario: Scenario) -> dict[tuple[str, str], Route]:
    """Each two hosts once, whichever of them talks: a bound holds in both directions."""
    pairs: dict[tuple[str, str], Route] = {}
    for name, flow in scenario.recorded.items():
        if (flow.receiver, flow.sender) not in pairs:
            pairs.setdefault((flow.sender, flow.receiver), scenario.route(name))
    return pairs
