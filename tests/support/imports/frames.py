"""Frames of protocols that number their packets, field by field as the standards have them."""

from __future__ import annotations

import struct

from support.imports.captures import ethernet, ipv4, udp

GOOD = 0x35
"""A data status of PROFINET: primary, valid, running, no problem."""
PROFINET_CYCLE = 32
"""1 ms in units of 31.25 µs."""


def ber(tag: int, value: bytes) -> bytes:
    length = bytes([len(value)]) if len(value) < 128 else b"\x82" + struct.pack(">H", len(value))
    return bytes([tag]) + length + value


def integer(value: int) -> bytes:
    """An INTEGER of BER, as short as it can be (X.690, 8.3.2)."""
    return value.to_bytes(value.bit_length() // 8 + 1, "big")


def reference_time(utc_ns: int, quality: int) -> bytes:
    """A UtcTime: seconds, 2^-24 s rounded down, quality (IEC 61850-8-1)."""
    seconds, ns = divmod(utc_ns, 1_000_000_000)
    return struct.pack(">I", seconds) + (ns * 2**24 // 1_000_000_000).to_bytes(3, "big") + bytes([quality])


def sampled(
    number: int, *, period: int = 4000, in_each: int = 1, vlan: int | None = 10, reference: bytes = b""
) -> bytes:
    """Samples with smpCnt, and refrTm if one is given (IEC 61850-9-2)."""
    asdus = b"".join(
        ber(
            0x30,
            ber(0x80, b"MU01")
            + ber(0x82, struct.pack(">H", (number * in_each + n) % period))
            + (ber(0x83, b"\0\0\0\1") + ber(0x84, reference) + ber(0x85, b"\2") if reference else b"")
            + ber(0x87, bytes(64)),
        )
        for n in range(in_each)
    )
    apdu = ber(0x60, ber(0x80, bytes([in_each])) + ber(0xA2, asdus))
    return ethernet(struct.pack(">HHHH", 0x4000, 8 + len(apdu), 0, 0) + apdu, 0x88BA, vlan=vlan)


def goose(state: int, sequence: int, *, allowed_ms: int = 2000, name: str = "IED1/LLN0$GO$gcb1") -> bytes:
    """A state or its repetition, with one value in its data set (IEC 61850-8-1, 18.2.3)."""
    parts = (
        ber(0x80, name.encode()),
        ber(0x81, integer(allowed_ms)),
        ber(0x82, b"IED1/LLN0$set1"),
        ber(0x84, reference_time(1_763_830_000_000_000_000, 0x0A)),
        ber(0x85, integer(state)),
        ber(0x86, integer(sequence)),
        ber(0x87, b"\0"),
        ber(0x88, integer(1)),
        ber(0x89, b"\0"),
        ber(0x8A, integer(1)),
        ber(0xAB, ber(0x83, b"\1")),
    )
    apdu = ber(0x61, b"".join(parts))
    return ethernet(struct.pack(">HHHH", 1, 8 + len(apdu), 0, 0) + apdu, 0x88B8)


def profinet(number: int, *, frame_id: int = 0x8001, data: int = 40, status: int = GOOD, transfer: int = 0) -> bytes:
    """A cyclic frame: frame id, data, cycle counter, data status, transfer status (IEC 61158-6-10, 4.7)."""
    counter = number * PROFINET_CYCLE % 65536
    body = struct.pack(">H", frame_id) + bytes(data) + struct.pack(">HBB", counter, status, transfer)
    return ethernet(body, 0x8892, vlan=0)


def hsr(number: int, path: int = 1) -> bytes:
    """A frame with HSR's tag: path and size, number, EtherType (IEC 62439-3, 5.7)."""
    inner = bytes(46)
    tag = struct.pack(">HHH", path << 12 | len(inner) + 6, number % 65536, 0x88B5)
    return ethernet(tag + inner, 0x892F)


def avtp(number: int, subtype: int = 0x02, stream: int = 1) -> bytes:
    """A frame of a stream: AAF, or another with the common stream header (IEEE 1722-2016, 4.4.4)."""
    sequence = number % 256
    identity = struct.pack(">Q", 0x02_00_00_00_00_01_00_00 + stream)
    if subtype == 0x82:  # NTSCF has another one (4.4.5.4), with an ACF message behind it
        message = struct.pack(">HHIIII", 0x02 << 9 | 4, 0, 0, 0, 5, 0)[:16]
        return ethernet(struct.pack(">BBBB", subtype, 0x80, len(message), sequence) + identity + message, 0x22F0)
    head = struct.pack(">BBBB", subtype, 0x81, sequence, 0) + identity + struct.pack(">I", 125_000 * number % 2**32)
    if subtype == 0x04:  # CRF: type, frequency, length of its data, interval
        head = head[:3] + b"\x01" + identity + struct.pack(">IHH", 48_000, 8, 160)
        return ethernet(head + struct.pack(">Q", 125_000 * number), 0x22F0)
    # AAF: 16-bit samples of 2 channels at 48 kHz
    return ethernet(head + struct.pack(">BBBBHBB", 0x04, 0x50, 0x02, 16, 24, 0, 0) + bytes(24), 0x22F0)


def some_ip_message(session: int, *, method: int = 0x0102, client: int = 9, kind: int = 2, size: int = 8) -> bytes:
    """A notification, or another message (AUTOSAR PRS_SOMEIPProtocol, 4.1.2)."""
    return struct.pack(">HHIHHBBBB", 0x1234, method, 8 + size, client, session, 1, 1, kind, 0) + bytes(size)


def some_ip(number: int, **options: int) -> bytes:
    """A datagram with one message; session ids begin again at 1."""
    return ethernet(ipv4(udp(some_ip_message(number % 65535 + 1, **options), 30490, 30491)))


RTPS_PREFIX = bytes(range(1, 13))
HEARTBEAT = 0x07


def rtps_submessage(kind: int, content: bytes, order: str = "<") -> bytes:
    """Id, flags (E, and of DATA D), length, content (DDSI-RTPS 2.5, 9.4.5)."""
    flags = (order == "<") | (0x04 if kind == 0x15 else 0)
    return struct.pack(f"{order}BBH", kind, flags, len(content)) + content


def rtps_data(number: int, writer: int = 0x103, order: str = "<", size: int = 12) -> bytes:
    """DATA: a sample of a writer."""
    head = struct.pack(f"{order}HH", 0, 16) + bytes(4) + struct.pack(">I", writer)
    content = b"\0\1\0\0" if order == "<" else b"\0\0\0\0"
    return rtps_submessage(
        0x15, head + struct.pack(f"{order}II", number >> 32, number & 0xFFFFFFFF) + content + bytes(size), order
    )


def rtps_heartbeat(last: int, writer: int = 0x103) -> bytes:
    """What a writer has."""
    content = bytes(4) + struct.pack(">I", writer) + struct.pack("<IIIII", 0, 1, last >> 32, last & 0xFFFFFFFF, 1)
    return rtps_submessage(HEARTBEAT, content)


def rtps_message(*submessages: bytes) -> bytes:
    """A datagram of one participant."""
    head = b"RTPS\2\3\1\x10" + RTPS_PREFIX
    stamp = rtps_submessage(0x09, struct.pack("<II", 1_700_000_000, 0))
    return ethernet(ipv4(udp(head + stamp + b"".join(submessages), 7400, 7411)))


def rtps(number: int) -> bytes:
    """A sample."""
    return rtps_message(rtps_data(number + 1))
