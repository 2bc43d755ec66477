"""Captures: every byte order, resolution, interface and section is read to the nanosecond it was written in."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from latlab.imports.capture import read_capture
from latlab.imports.frames import FoundPayload, find_payload, flow_text, payload_of
from latlab.model.errors import UsageError
from support.imports.captures import (
    MAC_A,
    block,
    enhanced,
    ethernet,
    interface,
    ipv4,
    ipv6,
    pcap,
    pcapng,
    probe,
    section,
    udp,
)

T = 1_700_000_000 * 10**9 + 123_456_789


def seen(tmp_path: Path, file: bytes) -> list[int]:
    path = tmp_path / "capture"
    path.write_bytes(file)
    return list(read_capture(path).seen_ns)


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize(("nano", "expected"), [(True, T), (False, T // 1000 * 1000)])
def test_pcap_of_either_byte_order_and_resolution(tmp_path: Path, order: str, nano: bool, expected: int) -> None:
    assert seen(tmp_path, pcap([(T, probe(1)), (T + 5000, probe(2))], nano=nano, order=order)) == [
        expected,
        expected + 5000,
    ]


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("resolution", [3, 6, 9, 12, 0x80 | 10, 0x80 | 32], ids=lambda one: f"{one:#x}")
def test_pcapng_of_either_byte_order_and_any_resolution(tmp_path: Path, order: str, resolution: int) -> None:
    at_ns = T % 10**15  # 64 bits of picoseconds are 213 days
    tick_ns = 10**9 / (2 ** (resolution & 0x7F) if resolution & 0x80 else 10**resolution)
    (found,) = seen(tmp_path, pcapng([(at_ns, probe(1))], order, resolution))
    assert 0 <= found - at_ns <= tick_ns


def test_pcapng_counts_microseconds_where_it_says_nothing_and_adds_its_offset(tmp_path: Path) -> None:
    ticks = 5_000_007
    plain = section() + interface() + enhanced(ticks, probe(1))
    shifted = section() + interface(offset_s=-3) + enhanced(ticks, probe(1))
    assert seen(tmp_path, plain) == [5_000_007_000]
    assert seen(tmp_path, shifted) == [2_000_007_000]


def test_interfaces_have_their_own_resolution_and_sections_their_own_interfaces(tmp_path: Path) -> None:
    file = (
        section()
        + interface(resolution=9)
        + interface(resolution=3)
        + enhanced(7, probe(1), 0)
        + enhanced(7, probe(2), 1)
    )
    file += section(">") + interface(">", resolution=0) + enhanced(7, probe(3), 0, ">")
    assert seen(tmp_path, file) == [7, 7_000_000, 7_000_000_000]


def test_what_has_no_timestamp_or_no_interface_is_counted(tmp_path: Path) -> None:
    path = tmp_path / "capture"
    simple = block(3, struct.pack("<I", 60) + bytes(60))
    old = block(2, struct.pack("<HHIIII", 0, 0, 0, 9, 60, 60) + bytes(60))
    others = block(5, bytes(8)) + block(0x0BAD, b"what is this")
    path.write_bytes(section() + interface(resolution=9) + simple + old + others + enhanced(7, probe(1), 4))
    capture = read_capture(path)
    assert (list(capture.seen_ns), capture.unstamped, capture.odd, capture.cut) == ([9], 1, 1, "")


@pytest.mark.parametrize("make", [pcap, pcapng])
def test_a_file_that_was_cut_is_read_as_far_as_it_goes(tmp_path: Path, make) -> None:  # type: ignore[no-untyped-def]
    whole = make([(T + n, probe(n)) for n in range(4)])
    path = tmp_path / "capture"
    for missing in (1, 30, 70):
        path.write_bytes(whole[:-missing])
        capture = read_capture(path)
        assert len(capture) == 3
        assert capture.cut


@pytest.mark.parametrize(
    ("file", "said"),
    [
        (pcap([(T, probe(1))])[:4] + struct.pack("<HH", 3, 0) + bytes(16), r"version 3\.0: latlab reads pcap 2\.4"),
        (section(version=(2, 0)), r"pcapng version 2\.0"),
        (b"\x34\xcd\xb2\xa1" + bytes(40), "modified pcap"),
        (pcap([(T, probe(1))], link=105), "link type 105"),
        (section() + interface(link=127) + enhanced(7, probe(1)), "link type 127"),
        (pcap([]), "no packet with a timestamp"),
        (pcap([])[:20], "empty"),
        (b"what is this, and is it long enough?", "not a capture"),
    ],
)
def test_what_cannot_be_read_is_reported(tmp_path: Path, file: bytes, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        seen(tmp_path, file)


def found(frame: bytes, link: int = 1, captured: int | None = None) -> FoundPayload | None:
    length = len(frame) if captured is None else captured
    return find_payload(memoryview(frame + bytes(100)), 0, length, len(frame), link)


def key(frame: bytes, link: int = 1, at_most: int | None = None) -> bytes:
    place = found(frame, link)
    assert place is not None
    return payload_of(memoryview(frame), place, at_most)


@pytest.mark.parametrize(
    "other",
    [
        ethernet(ipv4(udp(b"hello")), to=MAC_A, by=MAC_A),
        ethernet(ipv4(udp(b"hello")), vlan=5),
        ethernet(ethernet(ipv4(udp(b"hello")), vlan=7)[12:], 0x88A8),
        ethernet(ipv4(udp(b"hello"), ttl=63)),
        ethernet(ipv4(udp(b"hello"))) + bytes(17),
    ],
    ids=["other MACs", "a VLAN tag", "two VLAN tags", "a router's TTL", "padding"],
)
def test_what_a_path_changes_changes_no_key(other: bytes) -> None:
    if other[12:14] == b"\x88\xa8":
        other = other[:12] + b"\x88\xa8" + struct.pack(">H", 3) + other[14:]
    assert key(other) == key(ethernet(ipv4(udp(b"hello"))))


@pytest.mark.parametrize(
    "other",
    [
        ethernet(ipv4(udp(b"hellp"))),
        ethernet(ipv4(udp(b"hello", 6000, 5000))),
        ethernet(ipv4(udp(b"hello\0"))),
        ethernet(ipv4(udp(b"hello"), protocol=6)),
        ethernet(b"hello", 0x88B5),
    ],
    ids=["payload", "ports", "length", "protocol", "no IP"],
)
def test_what_another_packet_has_changes_the_key(other: bytes) -> None:
    assert key(other) != key(ethernet(ipv4(udp(b"hello"))))


def test_other_frames_go_by_all_behind_their_ethertype_and_padding_does_not_count() -> None:
    short = ethernet(b"abc", 0x88B5)
    assert key(short) == key(short + bytes(43)) == key(ethernet(b"abc", 0x88B5, vlan=9) + bytes(39))
    assert key(short) != key(ethernet(b"abd", 0x88B5))
    ends = "02:00:00:00:00:01 → 02:00:00:00:00:02"
    assert flow_text(found(short).flow) == f"EtherType 88b5, {ends}"  # type: ignore[union-attr]


def test_cooked_and_raw_captures_have_the_same_keys() -> None:
    packet = ipv4(udp(b"hello"))
    wire = key(ethernet(packet))
    assert key(bytes(14) + b"\x08\x00" + packet, 113) == wire
    assert key(b"\x08\x00" + bytes(18) + packet, 276) == wire
    assert key(packet, 101) == wire
    six = ipv6(udp(b"hello"))
    assert key(six, 101) == key(six, 229) == key(ethernet(six, 0x86DD))


@pytest.mark.parametrize("captured", range(0, 60, 3))
def test_headers_that_were_not_captured_whole_are_no_payload(captured: int) -> None:
    place = found(probe(1), captured=captured)
    assert place is None or place.first + place.captured <= captured


def test_flows_are_named_for_people() -> None:
    assert flow_text(found(probe(1)).flow) == "UDP 10.0.0.1:5000 → 10.0.0.2:6000"  # type: ignore[union-attr]
    six = ethernet(ipv6(udp(b"x")), 0x86DD)
    assert flow_text(found(six).flow) == "UDP [fd00::1]:5000 → [fd00::2]:6000"  # type: ignore[union-attr]
    tcp = ethernet(ipv4(bytes(20), protocol=6))
    assert flow_text(found(tcp).flow) == "TCP 10.0.0.1:0 → 10.0.0.2:0"  # type: ignore[union-attr]
