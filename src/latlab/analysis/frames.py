"""How large a packet is on the wire, and how long it takes (IEEE 802.3 clauses 3 and 4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from latlab.model.units import SECOND_NS

UDP_HEADERS = 8 + 20
"""UDP (RFC 768), IPv4 without options (RFC 791)."""
ETHERNET_HEADER = 14
"""Two addresses, length or type (802.3 3.2.3 to 3.2.6)."""
VLAN_TAG = 4
"""802.1Q 9.6."""
FCS = 4
"""Frame check sequence (802.3 3.2.9)."""
FRAME_MIN = 64
"""minFrameSize, from destination address to frame check sequence (802.3 4.4.2)."""
PREAMBLE = 8
"""Preamble and start frame delimiter (802.3 3.2.1, 3.2.2)."""
GAP = 12
"""interPacketGap, 96 bits (802.3 4.4.2)."""

Transport = Literal["udp", "ethernet"]


@dataclass(frozen=True)
class FrameSize:
    """A frame by what the kernel hands over, in bytes: from the destination address on, without checksum and padding.

    That is the length of the socket buffer, by which taprio judges whether it fits (net/sched/sch_taprio.c,
    length_to_duration of qdisc_pkt_len). beside: bytes of a tag that a VLAN interface has noted next to the buffer, and
    that are put in behind the qdisc (net/8021q/vlan_dev.c; validate_xmit_vlan in net/core/dev.c).
    """

    handed_over: int
    beside: int = 0

    @classmethod
    def of(cls, payload: int, transport: Transport, *, vlan: bool = False, beside: bool = False) -> FrameSize:
        """That of a packet with this payload: of UDP over IPv4, or of a raw frame.

        vlan: it is written with a tag in it. beside: a VLAN interface tags it.
        """
        headers = ETHERNET_HEADER + (VLAN_TAG if vlan else 0) + (UDP_HEADERS if transport == "udp" else 0)
        return cls(payload + headers, VLAN_TAG if beside else 0)

    @classmethod
    def largest(cls, mtu: int, *, vlan: bool = False, beside: bool = False) -> FrameSize:
        """The largest one of a link: an IP packet of mtu bytes. vlan, beside: as of `of`."""
        return cls(mtu + ETHERNET_HEADER + (VLAN_TAG if vlan else 0), VLAN_TAG if beside else 0)

    @property
    def size(self) -> int:
        """From the destination address to the frame check sequence, padded: what 802.3 calls its size."""
        return max(FRAME_MIN, self.handed_over + self.beside + FCS)

    @property
    def sent(self) -> int:
        """With its preamble: from the first to the last bit on the wire. This is what has to end before a gate does."""
        return self.size + PREAMBLE

    @property
    def occupied(self) -> int:
        """With the gap behind it: as long as the next frame has to wait."""
        return self.sent + GAP

    def serialisation_ns(self, speed_bps: int) -> int:
        """From its first to its last bit on the wire, rounded up."""
        return wire_ns(self.sent, speed_bps)

    def occupied_ns(self, speed_bps: int) -> int:
        """How long it keeps the wire from others, rounded up."""
        return wire_ns(self.occupied, speed_bps)

    def kernel_ns(self, speed_bps: int) -> int:
        """How long taprio thinks that it takes: picos_per_byte is whole, and so is the result, both rounded down.

        Source: taprio_set_picos_per_byte and length_to_duration in net/sched/sch_taprio.c.
        """
        picos_per_byte = 8 * 10**6 // max(1, speed_bps // 10**6)
        return self.handed_over * picos_per_byte // 1000

    def guard_ns(self, speed_bps: int) -> int:
        """The time to the end of its window that a packet needs at most: of the wire, and by the kernel's reckoning.

        The kernel (6.3 and newer) asks for an end before the gate closes, not as it does: one nanosecond more.
        """
        return max(self.serialisation_ns(speed_bps), self.kernel_ns(speed_bps) + 1)


def wire_ns(size: int, speed_bps: int) -> int:
    """How long that many bytes take, rounded up to nanoseconds."""
    return -(-size * 8 * SECOND_NS // speed_bps)
