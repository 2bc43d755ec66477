"""The IPv4 networks that a scenario gives its links and VLANs."""

from __future__ import annotations

from ipaddress import AddressValueError, IPv4Interface, IPv4Network, NetmaskValueError
from typing import Annotated

from pydantic import PlainSerializer, PlainValidator, WithJsonSchema

from latlab.scenario.findings import shown, wrong

_SUBNET = "an IPv4 network with room for two hosts, such as 10.78.0.0/24"


def parse_subnet(value: object) -> IPv4Network:
    """The network, from /8 to /30, whose addresses a link's ends can carry."""
    if not isinstance(value, str) or "/" not in value:
        raise wrong(f"{shown(value)} is not a network", _SUBNET)
    try:
        network = IPv4Network(value, strict=False)
    except (AddressValueError, NetmaskValueError, ValueError):
        raise wrong(f"{shown(value)} is not a network", _SUBNET) from None
    if IPv4Interface(value).ip != network.network_address:
        raise wrong(f"{shown(value)} is an address, not a network", str(network))
    if not 8 <= network.prefixlen <= 30:
        raise wrong(f"/{network.prefixlen} is not a prefix for a link", "/8 to /30")
    first = network.network_address
    if first.is_loopback or first.is_multicast or first.is_reserved or first in IPv4Network("0.0.0.0/8"):
        raise wrong(f"hosts cannot have addresses of {network}", _SUBNET)
    return network


Subnet = Annotated[
    IPv4Network,
    PlainValidator(parse_subnet),
    WithJsonSchema({"type": "string", "pattern": r"^[0-9]{1,3}(\.[0-9]{1,3}){3}\/[0-9]{1,2}$"}),
    PlainSerializer(str, return_type=str, when_used="json"),
]
