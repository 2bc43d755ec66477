"""A link between two hosts, and its network."""

from __future__ import annotations

from ipaddress import AddressValueError, IPv4Interface, IPv4Network, NetmaskValueError
from typing import Annotated

from pydantic import BeforeValidator, Field, PlainSerializer, PlainValidator, Strict, WithJsonSchema

from latlab.scenario.findings import shown, wrong
from latlab.scenario.parts import EndText, Part

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
    queues: int = Field(
        default=1, ge=1, le=16, description="receive and transmit queues of each end of a veth, or of emulated cards"
    )
    mtu: Annotated[int, BeforeValidator(_plain_bytes)] = Field(
        default=1500, ge=68, le=65535, description="bytes of an IP packet that fit into one frame"
    )
    subnet: Subnet | None = Field(
        default=None,
        description="its network; ends get .1 and .2, guests .11 and on; 10.78.<index of the link>.0/24 if not given",
    )


def subnet_of(index: int, link: Link) -> IPv4Network:
    """The link's network: its own, or 10.78.<index>.0/24. index: 0 to 255, its place in the list."""
    return link.subnet or IPv4Network((f"10.78.{index}.0", 24))
