"""Captures and frames, written field by field (draft-ietf-opsawg-pcap, draft-ietf-opsawg-pcapng)."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Sequence
from typing import Any

Packet = tuple[int, bytes]
"""(when it was seen, ns; the frame)."""

MAC_A, MAC_B, MAC_C = (bytes([2, 0, 0, 0, 0, number]) for number in (1, 2, 3))


def ethernet(
    payload: bytes, kind: int = 0x0800, *, to: bytes = MAC_B, by: bytes = MAC_A, vlan: int | None = None
) -> bytes:
    """An Ethernet frame, tagged if it has a VLAN."""
    tag = b"" if vlan is None else struct.pack(">HH", 0x8100, 5 << 13 | vlan)
    return to + by + tag + struct.pack(">H", kind) + payload


def ipv4(
    payload: bytes,
    protocol: int = 17,
    *,
    ttl: int = 64,
    identification: int = 7,
    flags: int = 0,
    ends: tuple[int, int] = (1, 2),
) -> bytes:
    """An IPv4 packet from 10.0.0.1 to 10.0.0.2, or other such ends."""
    return (
        struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(payload), identification, flags, ttl, protocol, 0)
        + bytes([10, 0, 0, ends[0], 10, 0, 0, ends[1]])
        + payload
    )


def ipv6(payload: bytes, following: int = 17) -> bytes:
    """An IPv6 packet from fd00::1 to fd00::2."""
    addresses = (b"\xfd" + bytes(14) + bytes([number]) for number in (1, 2))
    return struct.pack(">IHBB", 6 << 28, len(payload), following, 64) + b"".join(addresses) + payload


def udp(payload: bytes, source: int = 5000, destination: int = 6000) -> bytes:
    """A UDP datagram."""
    return struct.pack(">HHHH", source, destination, 8 + len(payload), 0) + payload


def tcp(payload: bytes, sequence: int, checksum: int = 0) -> bytes:
    """A TCP segment."""
    return struct.pack(">HHIIBBHHH", 5000, 6000, sequence, 1, 0x50, 0x18, 502, checksum, 0) + payload


def checked(frame: bytes) -> bytes:
    """The frame, padded, with its frame check sequence."""
    padded = frame.ljust(60, b"\0")
    return padded + zlib.crc32(padded).to_bytes(4, "little")


def probe(number: int, **options: Any) -> bytes:
    """The UDP frame of a sequence number."""
    return ethernet(ipv4(udp(struct.pack("<Q", number) + bytes(32)), **options))


def pcap(packets: Iterable[Packet], *, nano: bool = True, order: str = "<", link: int = 1, snap: int = 262144) -> bytes:
    """A pcap file; frames are cut at `snap` bytes."""
    magic, tick = (0xA1B23C4D, 1) if nano else (0xA1B2C3D4, 1000)
    file = struct.pack(f"{order}IHHiIII", magic, 2, 4, 0, 0, snap, link)
    for at_ns, frame in packets:
        kept = frame[:snap]
        file += struct.pack(f"{order}IIII", at_ns // 10**9, at_ns % 10**9 // tick, len(kept), len(frame)) + kept
    return file


def block(kind: int, body: bytes, order: str = "<") -> bytes:
    """A pcapng block, padded."""
    body += bytes(-len(body) % 4)
    length = struct.pack(f"{order}I", 12 + len(body))
    return struct.pack(f"{order}I", kind) + length + body + length


def option(code: int, value: bytes, order: str = "<") -> bytes:
    """A pcapng option, padded."""
    return struct.pack(f"{order}HH", code, len(value)) + value + bytes(-len(value) % 4)


def section(order: str = "<", version: tuple[int, int] = (1, 0)) -> bytes:
    """A section header block."""
    return block(0x0A0D0D0A, struct.pack(f"{order}IHHq", 0x1A2B3C4D, *version, -1), order)


def statistics(number: int = 0, *, dropped: int = 0, by_system: int = 0, order: str = "<") -> bytes:
    """An interface statistics block, with isb_ifdrop and isb_osdrop."""
    options = option(5, struct.pack(f"{order}Q", dropped), order) + option(
        7, struct.pack(f"{order}Q", by_system), order
    )
    return block(5, struct.pack(f"{order}III", number, 0, 0) + options + option(0, b"", order), order)


def interface(
    order: str = "<",
    *,
    link: int = 1,
    resolution: int | None = None,
    offset_s: int | None = None,
    name: str = "",
    check_bytes: int | None = None,
) -> bytes:
    """An interface description block."""
    options = option(2, name.encode(), order) if name else b""
    if check_bytes is not None:
        options += option(13, bytes([check_bytes]), order)
    if resolution is not None:
        options += option(9, bytes([resolution]), order)
    if offset_s is not None:
        options += option(14, struct.pack(f"{order}q", offset_s), order)
    return block(
        1, struct.pack(f"{order}HHI", link, 0, 0) + (options + option(0, b"", order) if options else b""), order
    )


def enhanced(ticks: int, frame: bytes, number: int = 0, order: str = "<") -> bytes:
    """An enhanced packet block."""
    head = struct.pack(f"{order}IIIII", number, ticks >> 32, ticks & 0xFFFFFFFF, len(frame), len(frame))
    return block(6, head + frame, order)


def pcapng(packets: Sequence[Packet], order: str = "<", resolution: int = 9) -> bytes:
    """A pcapng file of one section and one interface, in nanoseconds unless told otherwise."""
    per_s = 2 ** (resolution & 0x7F) if resolution & 0x80 else 10**resolution
    return (
        section(order)
        + interface(order, resolution=resolution)
        + b"".join(enhanced(-(-at_ns * per_s // 10**9), frame, order=order) for at_ns, frame in packets)
    )
