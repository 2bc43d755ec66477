"""The steps that lay the scenario's links: veth pairs to make, cables to find in place.

A pair is made with one command that puts both ends where they belong, so a crash never leaves a half in the
wrong place. Our mark on it is the hardware address, which that same command sets, made from the run's tag.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from latlab.model.bridges import KINDS
from latlab.scenario import End, Link, Scenario
from latlab.testbed.bridges.base import Neighbour
from latlab.testbed.bridges.joints import neighbours
from latlab.testbed.cards import as_it_is_to_be, is_handed_on
from latlab.testbed.hardware import hardware_address
from latlab.testbed.namespaces import ipv6_off, namespace_name
from latlab.testbed.site import Site
from latlab.testbed.step import Argv, Check, Step

UP_WITHIN_MS = 5000  # the kernel's link watch settles the state up to a second after both ends are up
CARD_UP_WITHIN_MS = 30_000  # an emulated card negotiates its link by the driver's timers, on a CPU that is slow


def link_steps(scenario: Scenario, site: Site) -> list[Step]:
    """The steps for each link, in the scenario's order."""
    steps: list[Step] = []
    for number, link in enumerate(scenario.links):
        if scenario.link_is_created(link):
            steps += _veth(scenario, link, number, site)
        else:
            halves = [half_of(scenario, end, site) for end in link.ends]
            steps += [step for half in halves for step in _card(scenario, half, link, site)]
            steps += [step for half in halves for step in _cable(scenario, half)]
    return steps


def link_mark(tag: str, link: int) -> str:
    """The alternative name that shows, on an end outside our namespaces, whose link it is."""
    return f"latlab-{tag}-{link}"


def is_bridged(scenario: Scenario, end: End) -> bool:
    """True for an interface that becomes the port of a bridge: the host's address, if any, is then on the bridge."""
    segment = scenario.segment_of(end)
    guests = segment.guests_at(end).values()
    return end in segment.ports or any(KINDS[guest.bridge].takes_uplink for guest in guests)


@dataclass(frozen=True)
class Half:
    """An interface as its machine reaches it. machine: the machine's host; namespace: None in its own."""

    end: End
    machine: str
    namespace: str | None

    @property
    def ip(self) -> Argv:
        return ("ip", "-n", self.namespace) if self.namespace else ("ip",)

    @property
    def inside(self) -> Argv:
        return ("ip", "netns", "exec", self.namespace) if self.namespace else ()

    @property
    def name(self) -> Argv:
        return (self.end.interface, *(("netns", self.namespace) if self.namespace else ()))


def _veth(scenario: Scenario, link: Link, number: int, site: Site) -> list[Step]:
    left, right = halves = [half_of(scenario, end, site) for end in link.ends]
    addresses = [hardware_address(site.tag, number, end) for end in (0, 1)]
    queues = ("numtxqueues", str(link.queues), "numrxqueues", str(link.queues))
    options = [(*queues, "mtu", str(link.mtu), "address", address) for address in addresses]
    # The kernel looks the first name up where the command runs: there it must be free, whatever the machine has. Only
    # the second can be put into another namespace by its name; the machine's own has none.
    made = sorted(zip(halves, options, strict=True), key=lambda one: one[0].namespace is not None)
    steps = [
        Step(
            host=left.machine,
            title=f"connect {left.end} and {right.end}",
            do=(
                *(*made[0][0].ip, "link", "add", "name", made[0][0].end.interface, *made[0][1]),
                *("type", "veth", "peer", "name", *made[1][0].name, *made[1][1]),
            ),
            undo=(*left.ip, "link", "del", "dev", left.end.interface),
            present=(*left.inside, "grep", "-qx", addresses[0], f"/sys/class/net/{left.end.interface}/address"),
        )
    ]
    for half in halves:
        if half.namespace is None:
            steps += _marked(half, link_mark(site.tag, number))
    for half in halves:
        steps += addressed(scenario, half)
    for half in halves:
        if not is_bridged(scenario, half.end):
            found = neighbours(scenario, site.tag, scenario.segment_of(half.end), half.end)
            steps += [neighbour_step(half, neighbour) for neighbour in found]
    return [*steps, *(is_up(half) for half in halves)]


def half_of(scenario: Scenario, end: End, site: Site) -> Half:
    """The interface of a host, as its machine reaches it."""
    namespace = namespace_name(site.tag, end.host) if scenario.hosts[end.host].is_namespace else None
    return Half(end, site.on(scenario.machine_of(end.host)).name, namespace)


def _marked(half: Half, mark: str) -> list[Step]:
    named = Step(
        host=half.machine,
        title=f"mark {half.end} as latlab's",
        do=("ip", "link", "property", "add", "dev", half.end.interface, "altname", mark),
    )
    return [named, ipv6_off(half.machine, half.end.interface)]


def addressed(scenario: Scenario, half: Half) -> list[Step]:
    """It has its address, unless a bridge it is a port of has that, or none, and is up."""
    end = half.end
    up = Step(
        host=half.machine,
        title=f"bring {end} up",
        do=(*half.ip, "link", "set", "dev", end.interface, "up"),
    )
    if is_bridged(scenario, end):
        return [up]
    address = str(scenario.address(end))
    has_address = Step(
        host=half.machine,
        title=f"give {end} its address",
        do=(*half.ip, "addr", "add", address, "dev", end.interface),
        check=_address_check(half.ip, end, address),
    )
    return [has_address, up]


def neighbour_step(half: Half, peer: Neighbour) -> Step:
    """The hardware address of an interface on the same segment is known, and stays so."""
    end, address, hardware = half.end, str(peer.address.ip), peer.mac
    return Step(
        host=half.machine,
        title=f"add the neighbour entry of {peer.end} on {end}, so that no ARP is sent between packets",
        do=(*half.ip, "neigh", "replace", address, "lladdr", hardware, "dev", end.interface, "nud", "permanent"),
        check=Check(
            (*half.ip, "-j", "neigh", "show", address, "dev", end.interface),
            expected=f"{hardware} PERMANENT",
            read=_neighbour_state,
        ),
    )


def is_up(half: Half, within_ms: int = UP_WITHIN_MS) -> Step:
    """Packets can pass it."""
    return Step(
        host=half.machine,
        title=f"wait until {half.end} is up",
        do=(),
        check=_state_check(half.ip, half.end, within_ms),
    )


def _card(scenario: Scenario, half: Half, link: Link, site: Site) -> list[Step]:
    """An emulated board's card is ours to set up. Nothing for any other: it is its machine's."""
    end, segment = half.end, scenario.segment_of(half.end)
    if not scenario.is_emulated(end):
        return []
    steps = list(as_it_is_to_be(scenario, end, link, site))
    if not is_handed_on(scenario, end):
        steps += addressed(scenario, half)
        if not is_bridged(scenario, end):
            steps += [neighbour_step(half, neighbour) for neighbour in neighbours(scenario, site.tag, segment, end)]
    return steps


def _cable(scenario: Scenario, half: Half) -> list[Step]:
    """What an existing cable must have. Nothing is changed: between machines it has its addresses already; within one
    only raw frames take it."""
    end = half.end
    if scenario.is_emulated(end):
        return [] if is_handed_on(scenario, end) else [is_up(half, CARD_UP_WITHIN_MS)]
    there = Step(host=end.host, title=f"{end} is up", do=(), check=_state_check(("ip",), end))
    machines = {scenario.machine_of(one.host) for one in scenario.segment_of(end).ends}
    if len(machines) == 1 or is_bridged(scenario, end):
        return [there]
    address = str(scenario.address(end))
    has_address = Step(
        host=end.host,
        title=f"{end} has the address {address}: `ip addr add {address} dev {end.interface}`, or give the link the "
        "`subnet` that it has",
        do=(),
        check=_address_check(("ip",), end, address),
    )
    return [there, has_address]


def _state_check(ip: Argv, end: End, within_ms: int = UP_WITHIN_MS) -> Check:
    argv = (*ip, "-j", "link", "show", "dev", end.interface)
    return Check(argv, expected="UP", read=_operstate, within_ms=within_ms)


def _address_check(ip: Argv, end: End, address: str) -> Check:
    def read(output: str) -> str:
        found = _addresses(output)
        return address if address in found else ", ".join(found) or "no IPv4 address"

    return Check((*ip, "-j", "addr", "show", "dev", end.interface), expected=address, read=read)


def _operstate(output: str) -> str:
    return str(json.loads(output)[0]["operstate"])


def _addresses(output: str) -> list[str]:
    listed: list[dict[str, Any]] = json.loads(output)[0]["addr_info"]
    return [f"{entry['local']}/{entry['prefixlen']}" for entry in listed if entry["family"] == "inet"]


def _neighbour_state(output: str) -> str:
    entry = json.loads(output)[0]
    return f"{entry['lladdr']} {' '.join(entry['state'])}"
