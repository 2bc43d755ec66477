"""VLAN interfaces on the ends of a link, and their priority maps (IEEE 802.1Q)."""

from __future__ import annotations

import re
from ipaddress import IPv4Network
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

from latlab.scenario.findings import shown, wrong
from latlab.scenario.parts import End, KeyNumber, Part, Priority, PriorityKey
from latlab.scenario.subnets import Subnet

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
