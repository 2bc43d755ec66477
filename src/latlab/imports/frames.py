"""What of a frame stays the same on its way: its payload, without MAC addresses, VLAN tags and what routers change."""

from __future__ import annotations

import struct
from ipaddress import ip_address
from typing import Final, NamedTuple

_VLAN: Final = frozenset({b"\x81\x00", b"\x88\xa8", b"\x91\x00"})
_IPV4, _IPV6 = b"\x08\x00", b"\x86\xdd"
_UDP: Final = 17
_LINKS: Final = {1: (12, 14), 113: (14, 16), 276: (0, 20)}
"""{link type: (where its EtherType is, how long its header)} but for raw IP, which has none."""
_LEAST_PAYLOAD: Final = 46
"""An Ethernet frame's payload is padded to that; one that was not sent yet may be shorter."""


class Found(NamedTuple):
    """Of one frame: bytes that tell it apart beside its payload, which flow it is of, where its payload lies, how long
    that is, and how much of it was captured. padded: it may end in padding, so its length says nothing.
    """

    mark: bytes
    flow: bytes
    first: int
    length: int
    captured: int
    padded: bool = False


def find_payload(data: memoryview, first: int, captured: int, wire: int, link: int) -> Found | None:
    """The payload of the frame in data[first : first + captured]; None if its headers were not captured whole.

    UDP: what follows its header, told apart by both ports. Other IP, and fragments: what follows the IP header, told
    apart by addresses, protocol and identification. Anything else: what follows EtherType.
    """
    end = first + captured
    at, header = _LINKS.get(link, (0, 0))
    place = first + header
    if place > end or not captured:
        return None
    kind = bytes(data[first + at : first + at + 2])
    if not header:  # raw IP
        kind = _IPV6 if data[first] >> 4 == 6 else _IPV4
    while header and kind in _VLAN and place + 4 <= end:
        kind = bytes(data[place + 2 : place + 4])
        place += 4
    if kind == _IPV4 and end - place >= 20 and data[place] >> 4 == 4:
        return _ipv4(data, place, end)
    if kind == _IPV6 and end - place >= 40 and data[place] >> 4 == 6:
        return _ipv6(data, place, end)
    left = max(wire - (place - first), end - place)
    return Found(kind, b"\x00" + kind, place, left, end - place, padded=True)


def _ipv4(data: memoryview, place: int, end: int) -> Found | None:
    header = (data[place] & 0x0F) * 4
    (total, identification, fragment) = struct.unpack_from(">HHH", data, place + 2)
    addresses = bytes(data[place + 12 : place + 20])
    if header < 20 or total < header or place + header > end:
        return None
    protocol = data[place + 9]
    if protocol == _UDP and not fragment & 0x3FFF:
        return _udp(data, place + header, end, addresses)
    mark = bytes([4, protocol]) + addresses + struct.pack(">HH", identification, fragment & 0x1FFF)
    captured = min(end, place + total) - (place + header)
    return Found(mark, bytes([4, protocol]) + addresses, place + header, total - header, captured)


def _ipv6(data: memoryview, place: int, end: int) -> Found | None:
    (length,) = struct.unpack_from(">H", data, place + 4)
    following, addresses = data[place + 6], bytes(data[place + 8 : place + 40])
    if following == _UDP:
        return _udp(data, place + 40, end, addresses)
    mark = bytes([6, following]) + addresses
    return Found(mark, mark, place + 40, length, min(end, place + 40 + length) - (place + 40))


def _udp(data: memoryview, place: int, end: int, addresses: bytes) -> Found | None:
    if end - place < 8:
        return None
    ports, (length,) = bytes(data[place : place + 4]), struct.unpack_from(">H", data, place + 4)
    if length < 8:
        return None
    captured = min(end, place + length) - (place + 8)
    return Found(b"\x11" + ports, b"\x11" + ports + addresses, place + 8, length - 8, captured)


def payload_of(data: memoryview, found: Found, at_most: int | None) -> bytes:
    """What is hashed: mark, length and payload, of which no more than `at_most` bytes count."""
    payload = bytes(data[found.first : found.first + found.captured])
    if found.padded:
        payload = payload.ljust(_LEAST_PAYLOAD, b"\x00")
        return found.mark + payload[:at_most]
    return found.mark + found.length.to_bytes(4, "big") + payload[:at_most]


def flow_text(flow: bytes) -> str:
    """A flow for people: "UDP 10.0.0.1:5000 → 10.0.0.2:5001", "EtherType 88f7"."""
    kind, rest = flow[0], flow[1:]
    if kind == 0:
        return f"EtherType {rest.hex()}"
    if kind == _UDP and len(rest) > 8:
        source, destination = struct.unpack(">HH", rest[:4])
        half = len(rest[4:]) // 2
        left, right = (_address(rest[4:][part]) for part in (slice(half), slice(half, None)))
        return f"UDP {left}:{source} → {right}:{destination}"
    half = (len(rest) - 1) // 2
    left, right = (_address(rest[1:][part]) for part in (slice(half), slice(half, None)))
    return f"IP protocol {rest[0]}, {left} → {right}"


def _address(raw: bytes) -> str:
    text = str(ip_address(raw))
    return f"[{text}]" if ":" in text else text
