"""Which interfaces reach each other: links, their VLANs, and the guests that virtual bridges join to their ends."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Interface, IPv4Network

from latlab.scenario.findings import Path
from latlab.scenario.guests import Guest
from latlab.scenario.links import Link, subnet_of, vlan_subnet_of
from latlab.scenario.parts import End, UnknownError
from latlab.scenario.vlans import vlan_end

FIRST_GUEST = 11
"""Guests get .11, .12, … of their segment's network, in the scenario's order; the ends of a link have .1 and .2."""

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

    number: its link's place in the list; of segments without a link (link None) 0, 1, … by themselves. ends: hosts'
    interfaces. guests: the guest's interface → the guest. vlan: the id, of one of the link's VLANs; its ends are then
    the VLAN interfaces, in the order of the link's.
    """

    number: int
    link: Link | None
    ends: tuple[End, ...]
    guests: Mapping[End, Guest]
    vlan: int | None = None

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
    def members(self) -> tuple[End, ...]:
        """Every interface on it: hosts' first."""
        return (*self.ends, *self.guests)

    def members_of(self, name: str) -> list[End]:
        """The interfaces that a host or a guest has on it."""
        return [member for member in self.members if member.host == name]

    def address(self, end: End) -> IPv4Interface:
        """The address of a member; of a guest behind user NAT, the one it has behind it."""
        if end in self.guests and self.guests[end].bridge == "user":
            return USER_GUEST
        place = 1 + self.ends.index(end) if end in self.ends else FIRST_GUEST + list(self.guests).index(end)
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
        return end in self.segment.guests and self.segment.guests[end].bridge == "user"


def segments(links: Mapping[int, Link], guests: Mapping[str, Guest]) -> list[Segment]:
    """Every segment: each link's in order, its VLANs' behind it, then one for each host with guests without uplink."""
    found = []
    for index, link in links.items():
        found.append(Segment(index, link, link.ends, _guests_on(link.ends, guests)))
        for vlan in vlans_of(link):
            ends = tuple(vlan_end(end, vlan) for end in link.ends)
            found.append(Segment(index, link, ends, _guests_on(ends, guests), vlan))
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


def vlan_parents(ends: Iterable[tuple[End, Link]]) -> Mapping[End, End]:
    """Each VLAN interface → the end of a link that it is on, by whose queues its packets go. ends: with their links."""
    return {vlan_end(end, vlan): end for end, link in ends for vlan in vlans_of(link)}


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


def _guests_on(ends: tuple[End, ...], guests: Mapping[str, Guest]) -> dict[End, Guest]:
    return {End(name, guest.interface): guest for name, guest in guests.items() if uplink_of(guest) in ends}


def uplink_of(guest: Guest) -> End:
    """The host's interface that the guest is joined to."""
    return End(guest.host, guest.uplink or INNER)
