"""How large a packet may be to go in one frame, by what carries it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from latlab.scenario.flows import Flow
from latlab.scenario.models import Scenario
from latlab.scenario.probes import DdsProbe
from latlab.scenario.streams import UDP_OVERHEAD

TCP_HEADERS: Final = 52
"""IPv4, TCP, and TCP's timestamps, which Linux sends (net.ipv4.tcp_timestamps)."""
RTPS_HEADERS: Final = 20 + 4 + 20 + 4
"""The least that DDS sends with a sample: the header of the message, that of its Data submessage, what all of these
begin with, and the header of the payload (DDSI-RTPS 2.5, sections 9.4.4, 9.4.5.1, 9.4.5.4 and 10.2).
"""
SEQUENCE_LENGTH: Final = 4
"""A sequence of octets begins with its length, which the size of `dds` does not count and ddsperf's does."""


@dataclass(frozen=True)
class Room:
    """What goes in one frame of a link.

    mtu: bytes of an IP packet in a frame. largest: the largest size, as the scenario has it, that may: each one beyond
    goes in several frames. is_exact: no smaller one does; over DDS some may, by what it sends with a sample.
    """

    mtu: int
    largest: int
    is_exact: bool = True


def room(scenario: Scenario, name: str) -> Room | None:
    """That of the packets of a stream, of a probe, or of one of its legs; None of what sends none."""
    flow = scenario.flows.get(name) or scenario.flows.get(f"{name}.up")
    if flow is None:
        return None
    mtu = scenario.route(flow.name).segment.mtu
    return Room(mtu, mtu - _headers(scenario, flow), flow.transport != "dds")


def _headers(scenario: Scenario, flow: Flow) -> int:
    """Bytes of an IP packet that are not counted in the flow's size."""
    if flow.transport != "dds":
        return {"udp": UDP_OVERHEAD, "tcp": TCP_HEADERS, "ethernet": 0}[flow.transport]
    length = SEQUENCE_LENGTH if isinstance(scenario.probes[flow.probe or ""], DdsProbe) else 0
    return UDP_OVERHEAD + RTPS_HEADERS + length
