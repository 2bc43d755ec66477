"""A link between two hosts, its VLANs, and their networks."""

from __future__ import annotations

from ipaddress import IPv4Network
from typing import Annotated

from pydantic import BeforeValidator, Field, Strict

from latlab.scenario.findings import shown, wrong
from latlab.scenario.parts import EndText, Part
from latlab.scenario.subnets import Subnet
from latlab.scenario.vlans import VLAN_NETWORK, VLANS_MAX, Vlan, VlanIdKey


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
        default=1, ge=1, le=16, description="receive and transmit queues of each end of a veth, or of emulated cards"
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
