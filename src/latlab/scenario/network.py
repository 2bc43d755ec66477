"""Which interfaces reach each other: links, their VLANs, and the guests that virtual bridges join to their ends."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Interface, IPv4Network

from latlab.model.bridges import KINDS
from latlab.scenario.findings import Path
from latlab.scenario.guests import Guest, facts_of
from latlab.scenario.links import Link, subnet_of, vlan_end, vlan_subnet_of
from latlab.scenario.parts import End, UnknownError

FIRST_GUEST = 11
"""Guests get .11, .12, … of their segment's network, in the scenario's order; the ends of links have .1, .2, …"""

INNER_NETWORK = IPv4Network("10.79.0.0/16")
INNER_MTU = 1500
INNER = "inner"
"""Stands for the host's own interface on a segment without a link: the bridge itself."""

USER_NETWORK = IPv4Network("10.0.2.0/24")
USER_GUEST = IPv4Interface("10.0.2.15/24")
USER_GATEWAY = IPv4Interface("10.0.2.2/24")
"""QEMU's user network (qemu(1), -netdev user): the guest's address, and the one that stands for its host."""


@dataclass(frozen=True)
class Segment:
    """Interfaces that reach each other in one hop.

    number: its link's place in the list; of segments without a link (link None) 0, 1, … separately. ends: hosts'
    interfaces: its link's, or those of every link that switches join, of which link is the first. guests: the guest's
    interface → the guest. vlan: the id, of one of the link's VLANs; its ends are then the VLAN interfaces, in the same
    order. ports: the switches' interfaces, which have no address.
    """

    number: int
    link: Link | None
    ends: tuple[End, ...]
    guests: Mapping[End, Guest]
    vlan: int | None = None
    ports: tuple[End, ...] = ()

    @property
    def network(self) -> IPv4Network:
        """Its link's, or its VLAN's; 10.79.<number>.0/24 without either."""
        if self.link is None:
            return inner_network(self.number)
        return (
            subnet_of(self.number, self.link)
            if self.vlan is None
            else vlan_subnet_of(self.number, self.link, self.vlan)
        )

    @property
    def path(self) -> Path:
        """Where it stands in the scenario: its link, or its VLAN. Only of segments with a link."""
        return ("links", self.number) if self.vlan is None else ("links", self.number, "vlans", str(self.vlan))

    @property
    def mtu(self) -> int:
        """Bytes of an IP packet that fit into one frame."""
        return self.link.mtu if self.link else INNER_MTU

    @property
    def first_guest(self) -> int:
        """The place in the network of the first guest's address."""
        return max(FIRST_GUEST, 1 + len(self.ends))

    @property
    def members(self) -> tuple[End, ...]:
        """Every interface with an address on it: hosts' first."""
        return (*self.ends, *self.guests)

    def members_of(self, name: str) -> list[End]:
        """The interfaces that a host or a guest has on it."""
        return [member for member in self.members if member.host == name]

    def address(self, end: End) -> IPv4Interface:
        """The address of a member; of a guest behind user NAT, the one it has behind it."""
        if end in self.guests and KINDS[self.guests[end].bridge].translates:
            return USER_GUEST
        place = 1 + self.ends.index(end) if end in self.ends else self.first_guest + list(self.guests).index(end)
        return IPv4Interface((int(self.network.network_address) + place, self.network.prefixlen))

    def guests_at(self, end: End) -> dict[End, Guest]:
        """The guests joined to one of the hosts' interfaces."""
        return {member: guest for member, guest in self.guests.items() if uplink_of(guest) == end}


@dataclass(frozen=True)
class Route:
    """The segment that packets take, and its members in their direction: talker_end sends, listener_end receives."""

    segment: Segment
    talker_end: End
    listener_end: End

    @property
    def back(self) -> Route:
        """The same way in the other direction."""
        return Route(self.segment, self.listener_end, self.talker_end)

    @property
    def is_translated(self) -> bool:
        """True where an end is a guest behind user NAT: its packets change their addresses on the way."""
        return any(self._behind_nat(end) for end in (self.talker_end, self.listener_end))

    @property
    def source(self) -> IPv4Address:
        """The address the talker sends from."""
        return self.segment.address(self.talker_end).ip

    @property
    def listen(self) -> IPv4Address:
        """The address the listener receives on."""
        return self.segment.address(self.listener_end).ip

    @property
    def destination(self) -> IPv4Address:
        """The address the talker sends to: of a guest behind user NAT, its host's, which forwards."""
        return self.segment.address(self.entered or self.listener_end).ip

    @property
    def entered(self) -> End | None:
        """The host's interface whose address the packets are sent to; None where it is a guest's own."""
        if self._behind_nat(self.listener_end):
            return uplink_of(self.segment.guests[self.listener_end])
        return None if self.listener_end in self.segment.guests else self.listener_end

    def _behind_nat(self, end: End) -> bool:
        return end in self.segment.guests and KINDS[self.segment.guests[end].bridge].translates


@dataclass(frozen=True)
class SwitchedLinks:
    """Links that switches join: their places in the list, the ends beyond the switches, and the switches' ports."""

    links: tuple[int, ...]
    ends: tuple[End, ...]
    ports: tuple[End, ...]


def joined(ends: Mapping[int, Sequence[End]], switches: Collection[Sequence[End]]) -> list[SwitchedLinks]:
    """All links, each alone that no switch joins to another, in the order of the first. ends: of each link.

    switches: the ports of each.
    """
    groups = {index: {index} for index in ends}
    for ports in switches:
        group = {other for index in ends if {*ends[index]} & {*ports} for other in groups[index]}
        groups |= dict.fromkeys(group, group)
    is_port = {port for ports in switches for port in ports}
    found = []
    for links in dict.fromkeys(tuple(sorted(group)) for group in groups.values()):
        of_all = [end for index in links for end in ends[index]]
        beyond = tuple(end for end in of_all if end not in is_port)
        found.append(SwitchedLinks(links, beyond, tuple(end for end in of_all if end in is_port)))
    return found


def segments(
    links: Mapping[int, Link], guests: Mapping[str, Guest], switches: Collection[Sequence[End]]
) -> list[Segment]:
    """Every segment: each link's in order, its VLANs' behind it, then one for each host with guests without uplink.

    Links that a switch joins are one, with the VLANs of all.
    """
    found = []
    for one in joined({index: link.ends for index, link in links.items()}, switches):
        first = one.links[0]
        found.append(Segment(first, links[first], one.ends, _guests_on(one.ends, guests), ports=one.ports))
        for index in one.links:
            for vlan in vlans_of(links[index]):
                ends = tuple(vlan_end(end, vlan) for end in one.ends)
                found.append(Segment(index, links[index], ends, _guests_on(ends, guests), vlan))
    hosts = dict.fromkeys(guest.host for guest in guests.values() if guest.uplink is None)
    for number, host in enumerate(hosts):
        end = End(host, INNER)
        found.append(Segment(number, None, (end,), _guests_on((end,), guests)))
    return found


def vlans_of(link: Link) -> tuple[int, ...]:
    """The ids of the link's VLANs, as far as they are known."""
    try:
        return tuple(link.vlans)
    except UnknownError:
        return ()


def vlan_parents(
    ends: Mapping[int, Sequence[End]], links: Mapping[int, Link], switches: Collection[Sequence[End]]
) -> Mapping[End, End]:
    """Each VLAN interface → the end of a link that it is on, by whose queues its packets go. ends: of each link."""
    return {
        vlan_end(end, vlan): end
        for one in joined(ends, switches)
        for index in one.links
        if index in links
        for vlan in vlans_of(links[index])
        for end in one.ends
    }


def inner_network(number: int) -> IPv4Network:
    """The network of a segment without a link."""
    return IPv4Network((int(INNER_NETWORK.network_address) + (number << 8), 24))


def routes(found: list[Segment], sender: str, receiver: str, via: End | None) -> list[Route]:
    """Every route in one hop from sender to receiver, in the segments' order; `via` keeps the one that leaves there."""
    return [
        Route(segment, here, there)
        for segment in found
        for here in segment.members_of(sender)
        for there in segment.members_of(receiver)
        if here != there and via in (None, here)
    ]


@dataclass(frozen=True)
class Leaving:
    """A port by whose queues packets leave, and their priority there. is_sockets: the one that the scenario gives."""

    port: End
    priority: int
    is_sockets: bool = True


def ports_of(route: Route, priority: int, parent_of: Callable[[End], End]) -> list[Leaving]:
    """The ports by which packets of a socket priority leave: the sender's own, and of a guest also its host's uplink.

    Of its priority the host knows nothing. parent_of: of a VLAN interface the port that it is on.
    """
    found = [Leaving(parent_of(route.talker_end), priority)]
    if (guest := route.segment.guests.get(route.talker_end)) and facts_of(guest).passes_queues:
        other = route.segment.guests.get(route.listener_end)
        # Guests on one uplink, and the host itself, are reached without it.
        if (uplink_of(other) if other else route.listener_end) != uplink_of(guest):
            found.append(Leaving(parent_of(uplink_of(guest)), 0, is_sockets=False))
    return found


def _guests_on(ends: tuple[End, ...], guests: Mapping[str, Guest]) -> dict[End, Guest]:
    return {End(name, guest.interface): guest for name, guest in guests.items() if uplink_of(guest) in ends}


def uplink_of(guest: Guest) -> End:
    """The host's interface that the guest is joined to."""
    return End(guest.host, guest.uplink or INNER)
