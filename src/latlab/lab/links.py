"""The steps that lay the scenario's links: veth pairs to make, cables to find in place.

A pair is made with one command that puts both ends where they belong, so a crash never leaves a half in the
wrong place. Our mark on it is the hardware address, which that same command sets, made from the run's tag.
"""

from __future__ import annotations

import json
from typing import Any

from latlab.host import MACHINE
from latlab.lab.bridges.base import Neighbour
from latlab.lab.bridges.joints import neighbours
from latlab.lab.bridges.table import BRIDGES
from latlab.lab.hardware import hardware_address
from latlab.lab.namespaces import ipv6_off, namespace_name
from latlab.lab.site import Site
from latlab.lab.step import Argv, Check, Step
from latlab.scenario import End, Link, Scenario

UP_WITHIN_MS = 5000  # the kernel's link watch settles the state up to a second after both ends are up


def link_steps(scenario: Scenario, site: Site) -> list[Step]:
    """The steps for each link, in the scenario's order."""
    steps: list[Step] = []
    for number, link in enumerate(scenario.links):
        if scenario.link_is_created(link):
            steps += _veth(scenario, link, number, site.tag)
        else:
            steps += [_cable(end) for end in link.ends]
    return steps


def link_mark(tag: str, link: int) -> str:
    """The alternative name that shows, on an end outside our namespaces, whose link it is."""
    return f"latlab-{tag}-{link}"


def _veth(scenario: Scenario, link: Link, number: int, tag: str) -> list[Step]:
    left, right = link.ends
    addresses = [hardware_address(tag, number, end) for end in (0, 1)]
    queues = ("numtxqueues", str(link.queues), "numrxqueues", str(link.queues))
    names = [(end.interface, *_in_namespace(scenario, end, tag)) for end in (left, right)]
    halves = [
        (*name, *queues, "mtu", str(link.mtu), "address", address)
        for name, address in zip(names, addresses, strict=True)
    ]
    inside = _exec(scenario, left, tag)
    steps = [
        Step(
            host=MACHINE,
            title=f"lay the link {left} to {right}",
            do=("ip", "link", "add", "name", *halves[0], "type", "veth", "peer", "name", *halves[1]),
            undo=(*_ip(scenario, left, tag), "link", "del", "dev", left.interface),
            present=(*inside, "grep", "-qx", addresses[0], f"/sys/class/net/{left.interface}/address"),
        )
    ]
    for end in (left, right):
        if scenario.hosts[end.host].kind == "local":
            steps += _marked(end, link_mark(tag, number))
    for end in (left, right):
        steps += _addressed(scenario, end, tag)
    for end in (left, right):
        if not is_bridged(scenario, end):
            found = neighbours(scenario, tag, scenario.segment_of(end), end)
            steps += [_neighbour(scenario, end, neighbour, tag) for neighbour in found]
    steps += [_is_up(scenario, end, tag) for end in (left, right)]
    return steps


def _marked(end: End, mark: str) -> list[Step]:
    named = Step(
        host=MACHINE,
        title=f"mark {end} as ours",
        do=("ip", "link", "property", "add", "dev", end.interface, "altname", mark),
    )
    return [named, ipv6_off(MACHINE, end.interface)]


def _addressed(scenario: Scenario, end: End, tag: str) -> list[Step]:
    ip, address = _ip(scenario, end, tag), str(scenario.address(end))
    addressed = Step(
        host=MACHINE,
        title=f"give {end} its address",
        do=(*ip, "addr", "add", address, "dev", end.interface),
        check=_address_check(ip, end, address),
    )
    up = Step(
        host=MACHINE,
        title=f"bring {end} up",
        do=(*ip, "link", "set", "dev", end.interface, "up"),
    )
    return [up] if is_bridged(scenario, end) else [addressed, up]


def is_bridged(scenario: Scenario, end: End) -> bool:
    """True for an interface that becomes the port of a bridge: the host's address is then on the bridge."""
    guests = scenario.segment_of(end).guests_at(end).values()
    return any(BRIDGES[guest.bridge].takes_uplink for guest in guests)


def _neighbour(scenario: Scenario, end: End, peer: Neighbour, tag: str) -> Step:
    ip, address, hardware = _ip(scenario, end, tag), str(peer.address.ip), peer.mac
    return Step(
        host=MACHINE,
        title=f"tell {end} the hardware address of {peer.end}, so that no ARP gets between the packets",
        do=(*ip, "neigh", "replace", address, "lladdr", hardware, "dev", end.interface, "nud", "permanent"),
        check=Check(
            (*ip, "-j", "neigh", "show", address, "dev", end.interface),
            expected=f"{hardware} PERMANENT",
            read=_neighbour_state,
        ),
    )


def _is_up(scenario: Scenario, end: End, tag: str) -> Step:
    return Step(
        host=MACHINE,
        title=f"wait until {end} is up",
        do=(),
        check=_state_check(_ip(scenario, end, tag), end),
    )


def _cable(end: End) -> Step:
    # Between two interfaces of one machine only raw frames take the cable: it needs no addresses.
    return Step(host=end.host, title=f"{end} is up", do=(), check=_state_check(("ip",), end))


def _state_check(ip: Argv, end: End) -> Check:
    argv = (*ip, "-j", "link", "show", "dev", end.interface)
    return Check(argv, expected="UP", read=_operstate, within_ms=UP_WITHIN_MS)


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


def _namespace(scenario: Scenario, end: End, tag: str) -> str | None:
    return namespace_name(tag, end.host) if scenario.hosts[end.host].kind == "netns" else None


def _in_namespace(scenario: Scenario, end: End, tag: str) -> Argv:
    namespace = _namespace(scenario, end, tag)
    return ("netns", namespace) if namespace else ()


def _ip(scenario: Scenario, end: End, tag: str) -> Argv:
    namespace = _namespace(scenario, end, tag)
    return ("ip", "-n", namespace) if namespace else ("ip",)


def _exec(scenario: Scenario, end: End, tag: str) -> Argv:
    namespace = _namespace(scenario, end, tag)
    return ("ip", "netns", "exec", namespace) if namespace else ()
