"""A link between two hosts, its VLANs with their priority maps (IEEE 802.1Q), and the networks of both."""

from __future__ import annotations

import re
from ipaddress import AddressValueError, IPv4Interface, IPv4Network, NetmaskValueError
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, PlainValidator, Strict, WithJsonSchema
from pydantic_core import PydanticCustomError

from latlab.scenario.findings import shown, wrong
from latlab.scenario.parts import End, EndText, KeyNumber, Part, Priority, PriorityKey

# The IPv4 networks that a scenario gives its links and VLANs.


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

# VLAN interfaces on the ends of a link, and their priority maps (IEEE 802.1Q).


QUEUES_MAX = 16
"""Of an end of a link that is made, and of an emulated card."""
VLANS_MAX = 16
"""Of one link: as many networks are set aside for each."""
VLAN_NETWORK = IPv4Network("10.80.0.0/12")
"""Of VLANs without a configured subnet: room for sixteen of each of 256 links."""

VLAN_ID = "^([1-9]|[1-9][0-9]{1,2}|[1-3][0-9]{3}|40[0-8][0-9]|409[0-4])$"


def _no_vlan(value: object) -> PydanticCustomError:
    return wrong(f"{shown(value)} is not a VLAN id", "1 to 4094")


def _id(value: int) -> int:
    if not 1 <= value <= 4094:
        raise _no_vlan(value)
    return value


def _id_of_key(value: object) -> object:
    """A key in YAML is text: the id it is written as."""
    if isinstance(value, str):
        if not re.fullmatch(VLAN_ID, value):
            raise _no_vlan(value)
        return int(value)
    return value


VlanId = Annotated[int, AfterValidator(_id), WithJsonSchema({"type": "integer", "minimum": 1, "maximum": 4094})]
"""A VLAN id (802.1Q 9.6: 0 is no VLAN, 4095 is reserved)."""
VlanIdKey = Annotated[
    int, BeforeValidator(_id_of_key), AfterValidator(_id), WithJsonSchema({"type": "string", "pattern": VLAN_ID})
]
"""The same as the key of a mapping."""
Pcp = Annotated[int, Field(ge=0, le=7)]
"""The priority in a VLAN tag (802.1Q 9.6)."""
PcpKey = Annotated[KeyNumber, Field(ge=0, le=7), WithJsonSchema({"type": "string", "pattern": "^[0-7]$"})]
"""The same as the key of a mapping."""


def _identity() -> dict[int, int]:
    return {priority: priority for priority in range(8)}


class Vlan(Part):
    """A VLAN of a link: at each end an interface named by the end's and the id, whose frames bear the tag.

    Priorities that a map does not name are 0, as the kernel has it (net/8021q/vlan_dev.c).
    """

    egress: dict[PriorityKey, Pcp] = Field(
        default_factory=_identity,
        description="socket priority, 0 to 15 → the priority in the tag (PCP) of packets that leave; if not "
        "given, 0 to 7 are unchanged",
    )
    ingress: dict[PcpKey, Priority] = Field(
        default_factory=_identity,
        description="the priority in the tag (PCP) → the packet's priority at arrival; if not given, 0 "
        "to 7 are unchanged",
    )
    subnet: Subnet | None = Field(
        default=None,
        description="its network; ends get .1 and .2, guests .11 and up; "
        "10.80.<16 × index of the link + place among its VLANs>.0/24 if not given",
    )


def vlan_end(end: End, vlan: int) -> End:
    """The VLAN interface on an end of a link: `sensor.eth0`, 5 → `sensor.eth0.5`."""
    return End(end.host, f"{end.interface}.{vlan}")


# A link between two hosts, its VLANs, and their networks.


def _pair(value: object) -> object:
    if isinstance(value, list | tuple) and len(value) != 2:
        raise wrong(f"a link has two ends, this one {len(value)}", "[host.interface, host.interface]")
    return value


def _plain_bytes(value: object) -> object:
    if isinstance(value, str):
        raise wrong(f"{shown(value)} is text", "a plain number of bytes, such as 1500")
    return value


Ends = Annotated[tuple[EndText, EndText], Strict(False), BeforeValidator(_pair)]


class Link(Part):
    """A cable: made as a veth pair where an end is on a host made for the run, else there already."""

    ends: Ends = Field(description="the two interfaces it joins: [host.interface, host.interface]")
    queues: int = Field(
        default=1,
        ge=1,
        le=QUEUES_MAX,
        description="receive and transmit queues of each end of a veth, or of emulated cards",
    )
    mtu: Annotated[int, BeforeValidator(_plain_bytes)] = Field(
        default=1500, ge=68, le=65535, description="bytes of an IP packet that fit into one frame"
    )
    subnet: Subnet | None = Field(
        default=None,
        description="its network; ends get .1 and .2, guests .11 and up; 10.78.<index of the link>.0/24 if not given",
    )
    vlans: Annotated[dict[VlanIdKey, Vlan], Field(max_length=VLANS_MAX)] = Field(
        default_factory=dict,
        description="VLAN id, 1 to 4094 → the interface of it that each end gets, as eth0.5, and its priority maps",
    )


def subnet_of(index: int, link: Link) -> IPv4Network:
    """The link's network: its own, or 10.78.<index>.0/24. index: 0 to 255, its place in the list."""
    return link.subnet or IPv4Network((f"10.78.{index}.0", 24))


def vlan_subnet_of(index: int, link: Link, vlan: int) -> IPv4Network:
    """The network of one of the link's VLANs: its own, or 10.80.<16 × index + its place among the VLANs>.0/24.

    index: 0 to 255, the link's place in the list; the last of its sixteen /24 networks is then within 10.80.0.0/12.
    vlan: the id. ValueError: the link has no such VLAN.
    """
    place = index * VLANS_MAX + list(link.vlans).index(vlan)
    return link.vlans[vlan].subnet or IPv4Network((int(VLAN_NETWORK.network_address) + (place << 8), 24))
