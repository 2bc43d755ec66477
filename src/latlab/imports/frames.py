"""What of a frame stays the same on its path: its payload, without MAC addresses, VLAN tags and what routers change."""

from __future__ import annotations

import struct
from ipaddress import ip_address
from typing import Final, NamedTuple
from zlib import crc32

_TAGS: Final = {
    b"\x81\x00": 4,  # VLAN
    b"\x88\xa8": 4,
    b"\x91\x00": 4,
    b"\x92\x00": 4,
    b"\xf1\xc1": 6,  # R-TAG, IEEE 802.1CB
    b"\x89\x2f": 6,  # HSR, IEC 62439-3
}
"""{EtherType of a tag: its length with the EtherType that follows}."""
_IPV4, _IPV6 = b"\x08\x00", b"\x86\xdd"
_TCP, _UDP = 6, 17
_ETHERNET: Final = 1
_LINKS: Final = {_ETHERNET: (12, 14), 113: (14, 16), 276: (0, 20)}
"""{link type: (where its EtherType is, how long its header)} but for raw IP, which has none."""
_LEAST_PAYLOAD: Final = 46
"""An Ethernet frame's payload is padded to that; one that was not sent yet may be shorter."""
_CHECK: Final = 4
"""Bytes of Ethernet's frame check sequence, which some cards hand on, and no header mentions."""
_TRAILER: Final = 6
"""Bytes of PRP's redundancy control trailer, IEC 62439-3."""
_CHECKSUMS: Final = {1: (2, 2), _TCP: (16, 2), _UDP: (6, 2), 58: (2, 2), 132: (8, 4), 136: (6, 2)}
"""{IP protocol: (where its checksum is, how long)}: a card may put it in behind the first point, and NAT changes it."""
_OTHER, _PORTS, _ADDRESSES = 0, 1, 2


class FoundPayload(NamedTuple):
    """Of one frame: bytes that identify it in addition to its payload, which flow it is of, where its payload lies, how
    long that is, and how much of it was captured. padded: it may end in padding, so its length says nothing. checksum:
    where in the payload a checksum lies that does not count, (0, 0) without one. identification: of IPv4, by which
    packets with the same payload differ; empty: it has none, or 0.
    """

    mark: bytes
    flow: bytes
    first: int
    length: int
    captured: int
    padded: bool = False
    checksum: tuple[int, int] = (0, 0)
    identification: bytes = b""

    @property
    def kind(self) -> bytes:
        """What it has in common with packets of which as much was kept: ports do not change, addresses may."""
        return self.flow[:6] if self.flow[0] == _PORTS else self.flow[:3]


def find_payload(data: memoryview, first: int, captured: int, wire: int, link: int) -> FoundPayload | None:
    """The payload of the frame in data[first : first + captured]; None if its headers were not captured whole.

    UDP: what follows its header, distinguished by both ports. Other IP, and fragments: what follows the IP header but
    for its checksum, distinguished by addresses, protocol and identification. Anything else: what follows EtherType,
    without a frame check sequence and PRP's trailer.
    """
    end = first + captured
    at, header = _LINKS.get(link, (0, 0))
    place = first + header
    if place > end or not captured:
        return None
    kind = bytes(data[first + at : first + at + 2])
    if not header:  # raw IP
        kind = _IPV6 if data[first] >> 4 == 6 else _IPV4
    while header and (long := _TAGS.get(kind, 0)) and place + long <= end:
        place += long
        kind = bytes(data[place - 2 : place])
    if kind == _IPV4 and end - place >= 20 and data[place] >> 4 == 4:
        return _ipv4(data, place, end, first + wire)
    if kind == _IPV6 and end - place >= 40 and data[place] >> 4 == 6:
        return _ipv6(data, place, end, first + wire)
    if link == _ETHERNET and captured == wire and _ends_in_check(data[first:end]):
        end, wire = end - _CHECK, wire - _CHECK
    if end - first == wire and _ends_in_trailer(data[place:end]):
        end, wire = end - _TRAILER, wire - _TRAILER
    left = max(wire - (place - first), end - place)
    ends = bytes(data[first + 6 : first + 12]) + bytes(data[first : first + 6]) if link == _ETHERNET else b""
    return FoundPayload(kind, bytes([_OTHER]) + kind + ends, place, left, end - place, padded=True)


def _ends_in_check(frame: memoryview) -> bool:
    """Whether the last bytes are the CRC-32 of all before them."""
    return len(frame) > 14 + _CHECK and crc32(frame[:-_CHECK]).to_bytes(_CHECK, "little") == frame[-_CHECK:]


def _ends_in_trailer(payload: memoryview) -> bool:
    """Whether the last bytes are the redundancy trailer of PRP: a sequence number, LAN A or B, its size, its suffix."""
    if len(payload) < _TRAILER:
        return False
    _, size, suffix = struct.unpack_from(">HHH", payload, len(payload) - _TRAILER)
    return suffix == 0x88FB and size >> 12 in (0xA, 0xB) and size & 0xFFF == len(payload)


def _ipv4(data: memoryview, place: int, end: int, wire_end: int) -> FoundPayload | None:
    header = (data[place] & 0x0F) * 4
    (total, identification, fragment) = struct.unpack_from(">HHH", data, place + 2)
    total = total or wire_end - place  # segments of 64 KiB and more have no length in the header
    addresses = bytes(data[place + 12 : place + 20])
    if header < 20 or total < header or place + header > end:
        return None
    protocol = data[place + 9]
    if protocol == _UDP and not fragment & 0x3FFF:
        return _udp(data, place + header, end, addresses, identification)
    mark = bytes([4, protocol]) + addresses + struct.pack(">HH", identification, fragment & 0x1FFF)
    return _other_ip(data, place + header, place + total, end, mark, protocol, addresses, fragment & 0x3FFF)


def _ipv6(data: memoryview, place: int, end: int, wire_end: int) -> FoundPayload | None:
    (length,) = struct.unpack_from(">H", data, place + 4)
    following, addresses = data[place + 6], bytes(data[place + 8 : place + 40])
    if following == _UDP:
        return _udp(data, place + 40, end, addresses)
    last = place + 40 + length if length else wire_end
    return _other_ip(data, place + 40, last, end, bytes([6, following]) + addresses, following, addresses, 0)


def _other_ip(
    data: memoryview, place: int, last: int, end: int, mark: bytes, protocol: int, addresses: bytes, fragment: int
) -> FoundPayload:
    """What follows the IP header at place, and ends at `last`. fragment: 0 for a whole packet."""
    flow = bytes([_ADDRESSES, protocol]) + addresses
    if protocol == _TCP and not fragment and end - place >= 4:
        flow = bytes([_PORTS, protocol]) + bytes(data[place : place + 4]) + addresses
    checksum = (0, 0) if fragment & 0x1FFF else _CHECKSUMS.get(protocol, (0, 0))
    return FoundPayload(mark, flow, place, last - place, min(end, last) - place, checksum=checksum)


def _udp(data: memoryview, place: int, end: int, addresses: bytes, identification: int = 0) -> FoundPayload | None:
    if end - place < 8:
        return None
    ports, (length,) = bytes(data[place : place + 4]), struct.unpack_from(">H", data, place + 4)
    if length < 8:
        return None
    captured = min(end, place + length) - (place + 8)
    flow = bytes([_PORTS, _UDP]) + ports + addresses
    number = struct.pack(">H", identification) if identification else b""
    return FoundPayload(b"\x11" + ports, flow, place + 8, length - 8, captured, identification=number)


def payload_of(data: memoryview, found: FoundPayload, at_most: int | None) -> bytes:
    """What is hashed: mark, length and payload, of which no more than `at_most` bytes count."""
    payload = bytes(data[found.first : found.first + found.captured])
    at, long = found.checksum
    if long:
        payload = payload[:at] + bytes(len(payload[at : at + long])) + payload[at + long :]
    if found.padded:
        payload = payload.ljust(_LEAST_PAYLOAD, b"\x00")
        return found.mark + payload[:at_most]
    return found.mark + found.length.to_bytes(4, "big") + payload[:at_most]


def ends_connection(data: memoryview, found: FoundPayload) -> bool:
    """Whether it is a TCP segment with FIN and without payload (RFC 9293, 3.1): all that it says is in its header."""
    if found.flow[:2] != bytes([_PORTS, _TCP]) or found.captured < 14:
        return False
    header, flags = (data[found.first + 12] >> 4) * 4, data[found.first + 13]
    return bool(flags & 1) and header >= found.length


def untranslated(data: memoryview, found: FoundPayload, at_most: int | None) -> bytes:
    """What address and port translation (RFC 3022) leaves of a TCP or UDP packet; empty of any other.

    Of UDP what follows its header. Of TCP what follows the ports, without the checksum.
    """
    if found.flow[0] != _PORTS:
        return b""
    payload = payload_of(data, found, at_most)[len(found.mark) :]
    return payload if found.flow[1] == _UDP else payload[:4] + payload[8:]


_PROTOCOLS: Final = {1: "ICMP", _TCP: "TCP", _UDP: "UDP", 58: "ICMPv6", 132: "SCTP"}


_UDP_TUNNELS: Final = {4789: "VXLAN", 8472: "VXLAN", 6081: "Geneve", 2152: "GTP-U"}
_IP_TUNNELS: Final = {4: "IP in IP", 41: "IPv6 in IPv4", 47: "GRE or ERSPAN", 50: "ESP"}
_ETHERNET_TUNNELS: Final = {
    0x8847: "MPLS",
    0x8864: "PPPoE",
    0x88E5: "MACsec",
    0x88E7: "provider backbone bridges",
}


def tunnel_of(flow: bytes) -> str:
    """What the flow's packets are in that hides their own headers; empty: nothing that is known by its number."""
    if flow[0] == _OTHER:
        return _ETHERNET_TUNNELS.get(int.from_bytes(flow[1:3]), "")
    if flow[0] == _PORTS and flow[1] == _UDP:
        return _UDP_TUNNELS.get(int.from_bytes(flow[4:6]), "")
    return _IP_TUNNELS.get(flow[1], "")


def is_group(address: bytes) -> bool:
    """Whether an IP or MAC address is of many receivers: multicast or broadcast."""
    if len(address) == 4:
        return address[0] >> 4 == 0xE or address == b"\xff" * 4
    return address[:1] == b"\xff" if len(address) == 16 else bool(address[:1] and address[0] & 1)


def ends_of(flow: bytes) -> tuple[bytes, bytes]:
    """Whence and whither: IP addresses, else MAC addresses; both empty where neither is known."""
    rest = flow[{_PORTS: 6, _ADDRESSES: 2, _OTHER: 3}[flow[0]] :]
    half = len(rest) // 2
    return rest[:half], rest[half:]


def flow_text(flow: bytes) -> str:
    """A flow for people: "UDP 10.0.0.1:5000 → 10.0.0.2:5001", "EtherType 88f7"."""
    whence, whither = ends_of(flow)
    if flow[0] == _OTHER:
        ends = f", {whence.hex(':')} → {whither.hex(':')}" if whence else ""
        return f"EtherType {flow[1:3].hex()}{ends}"
    left, right = _address(whence), _address(whither)
    name = _PROTOCOLS.get(flow[1], f"IP protocol {flow[1]}")
    if flow[0] == _PORTS:
        source, destination = struct.unpack(">HH", flow[2:6])
        return f"{name} {left}:{source} → {right}:{destination}"
    return f"{name} {left} → {right}" if flow[1] in _PROTOCOLS else f"{name}, {left} → {right}"


def _address(raw: bytes) -> str:
    text = str(ip_address(raw))
    return f"[{text}]" if ":" in text else text
