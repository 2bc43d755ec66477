"""A stream: periodic probes from a talker to a listener."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, WithJsonSchema

from latlab.model.limits import LIMITS
from latlab.model.units import MICROSECOND_NS
from latlab.scenario.findings import Raw, shown, wrong
from latlab.scenario.links import Pcp, VlanId
from latlab.scenario.parts import EndText, Part, Priority, Reference
from latlab.scenario.units import DURATION, SIZE, Duration, Size, within

UDP_OVERHEAD = 28
"""IPv4 header without options, UDP header."""
CLOCK_PORT = 5556
"""UDP port of both ends of a clock exchange."""
FIRST_PORT = 5557
PAIR: Final = "pair"
"""What follows the name of a PRP pair's stream by LAN A in the name of the pair: of each frame its first copy."""
_OWN_OF_A_COPY: Final = ("via", "prp")
_MAC: Final = re.compile("^[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}$")


@dataclass(frozen=True)
class Carrier:
    """A protocol whose frames carry a stream's probes: its EtherType, sizes that a probe may have there, in bytes, and
    bytes that stand before it at most, behind the EtherType (agent/wire/src/iec61850.rs).
    """

    ether_type: int
    sizes: tuple[int, int]
    overhead: int


PROBE: Final = "probe"
CARRIERS: Final[Mapping[str, Carrier]] = {
    "iec61850-sv": Carrier(0x88BA, (LIMITS.samples_bytes, LIMITS.samples_bytes), 44),
    "iec61850-goose": Carrier(0x88B8, (LIMITS.probe_bytes, LIMITS.goose_bytes), LIMITS.goose_prefix_bytes),
}
"""By the `payload` of a stream."""


class LaunchTime(Part):
    """The kernel or the NIC sends each packet at its launch time (SO_TXTIME)."""

    lead: Duration = Field(default=300_000, description="how long before its launch a packet is handed over")
    clock: Literal["tai", "monotonic", "realtime"] = Field(
        default="tai", description="clock in which the launch time is handed over: tai for etf, monotonic for fq"
    )
    deadline: bool = Field(default=False, description="the launch time is a deadline: sending earlier is allowed")
    batch: int = Field(default=1, ge=1, le=LIMITS.batch, description="packets handed over in one call")
    late: Literal["report", "drop", "send"] = Field(
        default="report",
        description="a packet whose launch time has passed at hand-over: report: hand it over unchanged, and the "
        "kernel decides; drop: do not hand it over; send: give it a new launch time shortly after now",
    )
    allowed_lateness: Duration = Field(
        default=0, description="late: send only: a packet that is later is not handed over"
    )
    margin: Duration = Field(
        default=50_000, description="late: send only: how far ahead of now a late packet's launch time is set"
    )


def _switch(value: object) -> object:
    """`false` is no launch time, `true` one with every default."""
    if isinstance(value, bool):
        return {} if value else None
    return value


def _written(value: LaunchTime | None) -> object:
    return False if value is None else value.model_dump(mode="json")


_SWITCHED = BeforeValidator(_switch, json_schema_input_type=bool | LaunchTime)


def _transport(given: Raw) -> Literal["udp", "ethernet"]:
    is_frame = any(given.get(key) is not None for key in ("vlan", "group")) or given.get("payload", PROBE) != PROBE
    return "ethernet" if is_frame else "udp"


def _ethertype(given: Raw) -> int:
    carrier = CARRIERS.get(given.get("payload", PROBE))
    return carrier.ether_type if carrier else 0x88B5


def default_pcp(given: Raw) -> int | None:
    """The priority in the tag of frames that have one: the socket's, as far as there is room."""
    return None if given.get("vlan") is None else min(given["priority"], 7)


def _group(text: str) -> str:
    """A group has the lowest bit of its first byte set (IEEE 802, 8.2.2); all bits set: all stations."""
    if not _MAC.fullmatch(text):
        raise wrong(f"{shown(text)} is not a MAC address", "one such as 01:0c:cd:04:00:01")
    if not int(text[:2], 16) & 1 or text.lower() == "ff:ff:ff:ff:ff:ff":
        raise wrong(f"{shown(text)} is not a group's address", "an odd first byte, as of 01:0c:cd:04:00:01")
    return text.lower()


Group = Annotated[str, AfterValidator(_group), WithJsonSchema({"type": "string", "pattern": _MAC.pattern})]


class Stream(Part):
    """Packet n leaves at start + offset + n × period. Fields that depend on others come after them."""

    talker: Reference = Field(description="the host or guest that sends")
    listener: Reference = Field(description="the host or guest that receives")
    via: EndText | None = Field(default=None, description="the talker's host.interface, if several links join the two")
    period: Annotated[Duration, within(DURATION, MICROSECOND_NS)] = Field(
        description="time between packets, such as 1006us"
    )
    offset: Duration = Field(
        default=0, description="launch of the first packet after the common start; less than the period"
    )
    size: Annotated[Size, within(SIZE, LIMITS.probe_bytes, LIMITS.payload_bytes)] = Field(
        description="bytes of the probe, headers not counted, such as 64B"
    )
    priority: Priority = Field(default=0, description="socket priority (SO_PRIORITY), 0 to 15")
    payload: Literal["probe", "iec61850-sv", "iec61850-goose"] = Field(
        default="probe",
        description="content of a packet: a probe alone, or a frame of IEC 61850 that carries it: sampled values (one "
        "sample a period, 64 bytes), or GOOSE",
    )
    group: Group | None = Field(
        default=None,
        description="Ethernet group address that frames are sent to, such as 01:0c:cd:04:00:01; the listener's own "
        "address if not given; ethernet only",
    )
    prp: Reference | None = Field(
        default=None,
        description="the stream that goes by LAN A of a PRP pair (IEC 62439-3); this one is its copy by LAN B: the "
        "same frames, with another via",
    )
    vlan: VlanId | None = Field(default=None, description="VLAN id, in the frame; ethernet only")
    pcp: Pcp | None = Field(
        default_factory=default_pcp,
        description="priority in the VLAN tag; the socket priority, at most 7, if not given",
    )
    transport: Literal["udp", "ethernet"] = Field(
        default_factory=_transport,
        description="udp, or ethernet for raw frames; ethernet where a vlan, a group or another payload is "
        "given, else udp",
    )
    port: Annotated[int, Field(ge=1, le=65535)] | None = Field(
        default=None, description=f"UDP port of the listener; {FIRST_PORT} + the stream's index if not given"
    )
    ethertype: int = Field(
        default_factory=_ethertype,
        ge=0x600,
        le=0xFFFF,
        description="EtherType of raw frames; the payload's, or 0x88b5: local experimental",
    )
    launch_time: Annotated[LaunchTime | None, _SWITCHED, PlainSerializer(_written, when_used="json")] = Field(
        default=None,
        description="false, true, or its settings: let the kernel or NIC send at the launch time",
    )


def copied_otherwise(first: Stream, second: Stream) -> list[str]:
    """The keys in which a stream differs from its copy of a PRP pair, and must not."""
    keys = (key for key in Stream.model_fields if key not in _OWN_OF_A_COPY)
    return [key for key in keys if getattr(first, key) != getattr(second, key)]


def beside_the_probe(streams: Mapping[str, Stream], name: str) -> int:
    """Bytes of a frame behind the EtherType that are not the probe: what carries it, at most, and PRP's trailer.

    Both LANs' frames have the trailer, although only one of the two streams says what it is a copy of.
    """
    carrier = CARRIERS.get(streams[name].payload)
    is_of_a_pair = streams[name].prp is not None or any(one.prp == name for one in streams.values())
    return (carrier.overhead if carrier else 0) + (LIMITS.prp_trailer_bytes if is_of_a_pair else 0)


def launches_between(offset: int, period: int, begin: int, end: int) -> int:
    """How many packets are launched in [begin, end) ns after the start."""
    return max(0, -((offset - end) // period)) - max(0, -((offset - begin) // period))


def packet_count(stream: Stream, duration: int) -> int:
    """The number of packets launched before start + duration (ns)."""
    return launches(stream.offset, stream.period, duration)


def launches(offset: int, period: int, duration: int) -> int:
    """How many launches at offset + n × period are before duration: ceil((duration − offset) / period). All ns."""
    return max(0, -((offset - duration) // period))
