"""A link between two hosts, and which links join two hosts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Interface, IPv4Network, NetmaskValueError
from typing import Annotated

from pydantic import BeforeValidator, Field, PlainSerializer, PlainValidator, Strict, WithJsonSchema

from latlab.scenario.findings import shown, wrong
from latlab.scenario.parts import End, EndText, Part

_SUBNET = "an IPv4 network with room for two hosts, such as 10.78.0.0/24"


def _pair(value: object) -> object:
    if isinstance(value, list | tuple) and len(value) != 2:
        raise wrong(f"a link has two ends, this one {len(value)}", "[host.interface, host.interface]")
    return value


def _plain_bytes(value: object) -> object:
    if isinstance(value, str):
        raise wrong(f"{shown(value)} is text", "a plain number of bytes, such as 1500")
    return value


def parse_subnet(value: object) -> IPv4Network:
    """The network, from /8 to /30, whose addresses a link's ends can carry."""
    if not isinstance(value, str) or "/" not in value:
        raise wrong(f"{shown(value)} is not a network", _SUBNET)
    try:
        network = IPv4Network(value, strict=False)
    except (AddressValueError, NetmaskValueError, ValueError):
        raise wrong(f"{shown(value)} is not a network", _SUBNET) from None
    if IPv4Interface(value).ip != network.network_address:
        raise wrong(f"{shown(value)} is an address within a network", str(network))
    if not 8 <= network.prefixlen <= 30:
        raise wrong(f"/{network.prefixlen} is no prefix a link can use", "/8 to /30")
    first = network.network_address
    if first.is_loopback or first.is_multicast or first.is_reserved or first in IPv4Network("0.0.0.0/8"):
        raise wrong(f"hosts cannot carry addresses of {network}", _SUBNET)
    return network


Subnet = Annotated[
    IPv4Network,
    PlainValidator(parse_subnet),
    WithJsonSchema({"type": "string", "pattern": r"^[0-9]{1,3}(\.[0-9]{1,3}){3}\/[0-9]{1,2}$"}),
    PlainSerializer(str, return_type=str, when_used="json"),
]
Ends = Annotated[tuple[EndText, EndText], Strict(False), BeforeValidator(_pair)]


class Link(Part):
    """A cable: made as a veth pair where an end is on a host made for the run, else there already."""

    ends: Ends = Field(description="the two interfaces it joins: [host.interface, host.interface]")
    queues: int = Field(default=1, ge=1, le=16, description="receive and transmit queues of each end of a veth")
    mtu: Annotated[int, BeforeValidator(_plain_bytes)] = Field(
        default=1500, ge=68, le=65535, description="bytes of an IP packet that fit into one frame"
    )
    subnet: Subnet | None = Field(
        default=None,
        description="its network; the ends get .1 and .2; 10.78.<index of the link>.0/24 if not given",
    )


@dataclass(frozen=True)
class Route:
    """The link that packets take and its ends in their direction: talker_end sends, listener_end receives."""

    link: Link
    talker_end: End
    listener_end: End


def candidates(links: Mapping[int, Link], sender: str, receiver: str, via: End | None) -> list[Route]:
    """Every route over one link from sender to receiver, in the links' order; `via` keeps the one named."""
    found = []
    for link in links.values():
        for here, there in (link.ends, link.ends[::-1]):
            if (here.host, there.host) == (sender, receiver) and via in (None, here):
                found.append(Route(link, here, there))
    return found


def subnet_of(index: int, link: Link) -> IPv4Network:
    """The link's network: its own, or 10.78.<index>.0/24. index: 0 to 255, its place in the list."""
    return link.subnet or IPv4Network((f"10.78.{index}.0", 24))


def address_of(index: int, link: Link, end: End) -> IPv4Interface:
    """The address of one end of the link: the network's first for the first end, its second for the other."""
    network = subnet_of(index, link)
    return IPv4Interface((int(network.network_address) + 1 + link.ends.index(end), network.prefixlen))
