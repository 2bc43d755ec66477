"""The bridges that a cell's guests need: guests of one host, uplink and kind share one."""

from __future__ import annotations

from collections.abc import Iterator, Set

from latlab.model.bridges import KINDS
from latlab.scenario import End, Guest, Scenario, Segment
from latlab.scenario.network import uplink_of
from latlab.testbed.bridges.base import GuestPort, Joint, Neighbour
from latlab.testbed.site import board_address, guest_address, hardware_address, inner_address


def joints(scenario: Scenario, tag: str) -> list[Joint]:
    """Every bridge of the cell, in the order of its first guest."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for name, guest in scenario.guests.items():
        alone = "" if KINDS[guest.bridge].joins_guests else name
        groups.setdefault((guest.host, guest.uplink or "", guest.bridge, alone), []).append(name)
    return [_joint(scenario, tag, number, names) for number, names in enumerate(groups.values())]


def mac_of(scenario: Scenario, tag: str, segment: Segment, end: End) -> str:
    """The hardware address an interface of the test bed is made with; empty where it is there already.

    An emulated board's cards are made with the board. A VLAN interface has the address of the one that it is on.
    """
    if end.host in scenario.guests:
        return guest_address(tag, list(scenario.guests).index(end.host))
    if segment.link is None:
        return inner_address(tag, segment.number)
    port, number = scenario.parent_of(end), scenario.link_number_of(end)
    if not scenario.link_is_created(scenario.links[number]):
        there = scenario.on_machine(port)
        board = scenario.boards.get(there.host)
        if board is None:
            return ""
        return board_address(list(scenario.hosts).index(there.host), board.cards.index(there.interface))
    return hardware_address(tag, number, scenario.links[number].ends.index(port))


def neighbours(scenario: Scenario, tag: str, segment: Segment, end: End) -> Iterator[Neighbour]:
    """The other interfaces that an interface reaches by their own addresses, where their MACs are known."""
    for other in segment.members:
        translated = other in segment.guests and KINDS[segment.guests[other].bridge].translates
        mac = mac_of(scenario, tag, segment, other)
        if other != end and mac and not translated:
            yield Neighbour(other, segment.address(other), mac)


def _joint(scenario: Scenario, tag: str, number: int, names: list[str]) -> Joint:
    guests = [scenario.guests[name] for name in names]
    first = guests[0]
    end, segment = _uplink(scenario, first)
    ports = tuple(_port(scenario, tag, segment, name) for name in names)
    here = {end, *(port.end for port in ports)}
    link = segment.link and scenario.links[scenario.link_number_of(end)]
    made = link is None or scenario.link_is_created(link)
    return Joint(
        number=number,
        host=first.host,
        uplink=first.uplink,
        kind=first.bridge,
        segment=segment,
        ports=ports,
        made=made,
        mac=mac_of(scenario, tag, segment, end),
        address=segment.address(end),
        end=end,
        local=scenario.hosts[first.host].is_here,
        beside=tuple(_beside(scenario, first)),
        peers=tuple(_made(scenario, segment, end)) if link else (),
        queues=link.queues if link and (made or scenario.is_emulated(end)) else None,
        tagged=segment.vlan is not None,
        tags=_tags(scenario, segment, here),
        is_namespace=scenario.hosts[first.host].is_namespace,
        card=scenario.parent_of(end).interface if first.uplink else None,
        vlan=_vlan(segment),
        functions=tuple(_functions(scenario, end)) if KINDS[first.bridge].takes_functions else (),
        others=tuple(one for one in neighbours(scenario, tag, segment, end) if one.end not in here),
    )


def _made(scenario: Scenario, segment: Segment, end: End) -> Iterator[End]:
    """The other interfaces on a segment that are made for the run, switches' ports among them."""
    for other in (*segment.ends, *segment.ports):
        if other != end and scenario.link_is_created(scenario.links[scenario.link_number_of(other)]):
            yield other


def _tags(scenario: Scenario, segment: Segment, here: Set[End]) -> bool:
    """Whether streams of frames that have a VLAN tag pass the uplink, to or from a guest here or its host."""
    routes = (scenario.route(name) for name, flow in scenario.flows.items() if flow.vlan is not None)
    return any(route.segment == segment and len({route.talker_end, route.listener_end} & here) == 1 for route in routes)


def _vlan(segment: Segment) -> tuple[int, int] | None:
    """The VLAN that a segment is, and the priority in the tag of packets that have no priority."""
    if segment.vlan is None or segment.link is None:
        return None
    return segment.vlan, segment.link.vlans[segment.vlan].egress.get(0, 0)


def _functions(scenario: Scenario, end: End) -> Iterator[str]:
    """The guests that get virtual functions of the card at that end, or below it, in their order."""
    card = scenario.parent_of(end)
    for name, guest in scenario.guests.items():
        if KINDS[guest.bridge].takes_functions and scenario.parent_of(uplink_of(guest)) == card:
            yield name


def _beside(scenario: Scenario, first: Guest) -> list[str]:
    """The kinds of the other bridges on the same host."""
    found = dict.fromkeys((guest.host, guest.uplink, guest.bridge) for guest in scenario.guests.values())
    here = (first.uplink, first.bridge)
    return [bridge for host, uplink, bridge in found if host == first.host and (uplink, bridge) != here]


def _port(scenario: Scenario, tag: str, segment: Segment, name: str) -> GuestPort:
    guest = scenario.guests[name]
    end = End(name, guest.interface)
    number = list(scenario.guests).index(name)
    mac, address = mac_of(scenario, tag, segment, end), segment.address(end)
    return GuestPort(name, end, guest, number, mac, address, scenario.in_virtual_time)


def _uplink(scenario: Scenario, guest: Guest) -> tuple[End, Segment]:
    for segment in scenario.segments():
        for end in segment.ends:
            if guest in segment.guests_at(end).values():
                return end, segment
    raise KeyError(f"{guest.host}.{guest.uplink} is not on any segment")
