"""Captures: where the packets of a pcap or pcapng file lie, and when they were seen, in ns.

pcap: draft-ietf-opsawg-pcap; pcapng: draft-ietf-opsawg-pcapng, sections 3.1, 4.1 to 4.4, A.
"""

from __future__ import annotations

import mmap
import struct
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from latlab.imports.base import not_what_it_says, nothing_in, unknown_version
from latlab.imports.frames import FoundPayload, find_payload, payload_of, untranslated
from latlab.model.errors import UsageError
from latlab.model.limits import LIMITS
from latlab.model.units import MICROSECOND_NS, SECOND_NS
from latlab.recordings.cell import LeftOut

CLASSIC: Final = {
    b"\xd4\xc3\xb2\xa1": ("<", MICROSECOND_NS),
    b"\xa1\xb2\xc3\xd4": (">", MICROSECOND_NS),
    b"\x4d\x3c\xb2\xa1": ("<", 1),
    b"\xa1\xb2\x3c\x4d": (">", 1),
}
"""{the first four bytes: (byte order, ns a tick)}."""

MODIFIED: Final = (b"\x34\xcd\xb2\xa1", b"\xa1\xb2\xcd\x34")
NEXT_GENERATION: Final = b"\x0a\x0d\x0d\x0a"
LINKS: Final = {
    1: "Ethernet",
    101: "raw IP",
    113: "Linux cooked",
    228: "raw IPv4",
    229: "raw IPv6",
    276: "Linux cooked 2",
}

_INT64: Final = 2**63
_MANY, _HALF_OF_US = 50, 500_000
"""Of so many packets in several seconds one has a fraction of a second beyond this, if it is microseconds; if it is
nanoseconds, they all lie in the first thousandth of their seconds."""
_COOKED_2, _COOKED_2_HEADER = 276, 20


@dataclass(frozen=True)
class Interface:
    """One interface of a section: link type, ticks a second, what is added to them, in seconds; its name, "" without
    one; and how many bytes of frame check sequence end each frame.
    """

    link: int
    ticks_a_second: int = 10**6
    offset_s: int = 0
    name: str = ""
    check_bytes: int = 0

    def ns(self, ticks: int) -> int:
        """When that is, rounded down to ns."""
        return ticks * SECOND_NS // self.ticks_a_second + self.offset_s * SECOND_NS


@dataclass
class Capture:
    """What a capture file holds, in the order of the file.

    data: the file. Of each packet: seen_ns; first, its first byte in the file; captured and wire, how many bytes of it
    there are and were, without a frame check sequence; link, its link type; interface, its place in `names`.
    unstamped: packets without a timestamp. odd: packets of an unknown interface, or at an impossible time. unread:
    {link type: packets} of those that are not read here. dropped: {(section, interface): packets} that the capture says
    it dropped. cut: what was left when the file ended or made no sense any more; empty if it did not.
    questioned: why its timestamps are doubtful; empty if they are not.
    """

    data: mmap.mmap | bytes
    seen_ns: array[int] = field(default_factory=lambda: array("q"))
    first: array[int] = field(default_factory=lambda: array("q"))
    captured: array[int] = field(default_factory=lambda: array("q"))
    wire: array[int] = field(default_factory=lambda: array("q"))
    link: array[int] = field(default_factory=lambda: array("H"))
    interface: array[int] = field(default_factory=lambda: array("q"))
    names: list[str] = field(default_factory=list)
    unstamped: int = 0
    odd: int = 0
    unread: dict[int, int] = field(default_factory=dict)
    dropped: dict[tuple[int, int], int] = field(default_factory=dict)
    cut: str = ""
    questioned: str = ""

    def __len__(self) -> int:
        return len(self.seen_ns)

    def add(self, seen_ns: int, first: int, captured: int, wire: int, interface: Interface, name: str = "") -> None:
        """Add a packet of the interface. name: what that is called among all of the file's."""
        if interface.link not in LINKS:
            self.unread[interface.link] = self.unread.get(interface.link, 0) + 1
            return
        if interface.link == _COOKED_2 and captured >= _COOKED_2_HEADER:
            name = f"interface index {int.from_bytes(self.data[first + 4 : first + 8], 'big')}"
        if name not in self.names:
            self.names.append(name)
        whole = max(0, wire - interface.check_bytes)
        self.seen_ns.append(seen_ns)
        self.first.append(first)
        self.captured.append(min(captured, whole))
        self.wire.append(whole)
        self.link.append(interface.link)
        self.interface.append(self.names.index(name))

    def of_interface(self, place: int) -> Capture:
        """Its packets that one interface saw. What is said of the complete file stays with the first."""
        mine = [at for at, number in enumerate(self.interface) if number == place]
        part = Capture(self.data, names=[self.names[place]])
        for whole, own in (
            (self.seen_ns, part.seen_ns),
            (self.first, part.first),
            (self.captured, part.captured),
            (self.wire, part.wire),
            (self.link, part.link),
        ):
            own.extend(whole[at] for at in mine)
        part.interface.extend([0] * len(mine))
        if place == 0:
            part.unstamped, part.odd, part.unread = self.unstamped, self.odd, self.unread
            part.dropped, part.cut, part.questioned = self.dropped, self.cut, self.questioned
        return part


def is_capture(head: bytes) -> bool:
    """Whether these are the first bytes of a pcap or pcapng file, read here or not."""
    return head[:4] in CLASSIC or head[:4] in MODIFIED or head[:4] == NEXT_GENERATION


def read_capture(path: Path) -> Capture:
    """The packets of the file. UsageError: another version, a link type that is not read, or an empty file."""
    if path.stat().st_size < 24:
        raise nothing_in(path, "whole header", "capture again: tcpdump -w writes it at its start")
    with path.open("rb") as file:
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    head = data[:4]
    if head in CLASSIC:
        capture = _read_classic(path, data, *CLASSIC[head])
    elif head == NEXT_GENERATION:
        capture = _read_next_generation(path, data)
    elif head in MODIFIED:
        raise unknown_version(path, "a modified pcap of an old kernel patch", "pcap 2.4 and pcapng 1")
    else:
        raise not_what_it_says(path, "not a capture: the header is neither pcap's nor pcapng's")
    if not len(capture) and capture.unread:
        raise _unread(path, capture.unread)
    if not len(capture) and capture.odd:
        raise UsageError(
            f"all of its {capture.odd} packets are of an unknown interface, or at an impossible time",
            where=str(path),
            remedy=(
                "check which program wrote the unit of its timestamps (if_tsresol): 9 is nanoseconds, 6 microseconds"
            ),
        )
    if not len(capture):
        raise nothing_in(path, "packet with a timestamp", "check whether the capture's filter passes packets")
    return capture


def _unread(path: Path, found: Iterable[int]) -> UsageError:
    known = ", ".join(f"{number} {name}" for number, name in LINKS.items())
    links = ", ".join(map(str, found))
    return UsageError(f"packets of link type {links}", where=str(path), remedy=f"capture on a link of type {known}")


def _read_classic(path: Path, data: mmap.mmap, order: str, tick_ns: int) -> Capture:
    major, minor, _, _, _, network = struct.unpack_from(f"{order}HHiIII", data, 4)
    if (major, minor) != (2, 4):
        raise unknown_version(path, f"pcap version {major}.{minor}", "pcap 2.4 and pcapng 1")
    # Bits 28 to 31: how long the frame check sequence is, in 16 bit words, where bit 26 says that they say it.
    interface = Interface(network & 0xFFFF, check_bytes=(network >> 28) * 2 if network & 1 << 26 else 0)
    if interface.link not in LINKS:
        raise _unread(path, [interface.link])
    capture = Capture(data)
    record, size, place = struct.Struct(f"{order}IIII"), len(data), 24
    beyond = most = 0
    at_s = set[int]()
    while place + 16 <= size:
        if data[place : place + 4] == data[:4] and data[place + 4 : place + 8] == data[4:8]:
            raise UsageError(
                f"two captures in one file: another one begins at byte {place}",
                where=str(path),
                remedy="give each capture as its own file, or join those of one point with mergecap",
            )
        seconds, ticks, captured, wire = record.unpack_from(data, place)
        place += 16
        if captured > size - place:
            capture.cut = f"a packet of {captured} bytes at byte {place} of {size}"
            break
        if ticks * tick_ns >= SECOND_NS:
            beyond += 1
        else:
            capture.add(seconds * SECOND_NS + ticks * tick_ns, place, captured, wire, interface)
            most = max(most, ticks)
            at_s.add(seconds)
        place += captured
    if place < size and not capture.cut:
        capture.cut = f"{size - place} bytes at its end, less than a packet's header"
    if beyond > len(capture) and tick_ns > 1:
        raise UsageError(
            f"its first bytes indicate microseconds, but {beyond} of its {beyond + len(capture)} packets have more "
            "than a second's worth: they are nanoseconds",
            where=str(path),
            remedy="check which program wrote its first bytes: for nanoseconds they are 4d 3c b2 a1 (or a1 b2 3c 4d)",
        )
    capture.odd += beyond
    if tick_ns == 1 and len(at_s) > 1 and len(capture) >= _MANY and _HALF_OF_US < most < 10**6:
        capture.questioned = f"all {len(capture)} packets in the first {most} ns of {len(at_s)} seconds"
    return capture


def _read_next_generation(path: Path, data: mmap.mmap) -> Capture:
    capture = Capture(data)
    interfaces: list[Interface] = []
    section = 0
    for order, kind, first, length in _blocks(path, capture):
        if kind == _SECTION:
            interfaces, section = [], section + 1
        elif kind == _INTERFACE and length >= 8:
            interfaces.append(_interface(data, order, first, length))
        elif kind == _SIMPLE:
            capture.unstamped += 1
        elif kind == _STATISTICS and length >= 12:
            _note_dropped(capture, section, order, first, length)
        elif kind in (_ENHANCED, _OLD) and length >= 20:
            layout = f"{order}IIIII" if kind == _ENHANCED else f"{order}HxxIIII"
            number, high, low, captured, wire = struct.unpack_from(layout, data, first)
            at_ns = interfaces[number].ns((high << 32) | low) if number < len(interfaces) else _INT64
            if captured > length - 20 or not -_INT64 <= at_ns < _INT64:
                capture.odd += 1
            else:
                name = interfaces[number].name or f"interface {number}"
                capture.add(at_ns, first + 20, captured, wire, interfaces[number], name)
    return capture


def _note_dropped(capture: Capture, section: int, order: str, first: int, length: int) -> None:
    """Keep what an interface's statistics say of packets dropped, by it and by the system; the last ones count."""
    (number,) = struct.unpack_from(f"{order}I", capture.data, first)
    capture.dropped[section, number] = sum(
        struct.unpack_from(f"{order}Q", capture.data, place)[0]
        for code, place, long in _options(capture.data, order, first + 12, first + length)
        if code in (_IF_DROP, _OS_DROP) and long == 8
    )


def _options(data: mmap.mmap | bytes, order: str, place: int, end: int) -> Iterator[tuple[int, int, int]]:
    """(code, first byte of the value, its length) of each option."""
    while place + 4 <= end:
        code, long = struct.unpack_from(f"{order}HH", data, place)
        place += 4
        if code == 0 or place + long > end:
            return
        yield code, place, long
        place += (long + 3) & ~3


_SECTION, _INTERFACE, _OLD, _SIMPLE, _STATISTICS, _ENHANCED = 0x0A0D0D0A, 1, 2, 3, 5, 6
_NAME, _RESOLUTION, _CHECK_LENGTH, _OFFSET = 2, 9, 13, 14
_IF_DROP, _OS_DROP = 5, 7
_ORDER_MAGIC: Final = {b"\x1a\x2b\x3c\x4d": ">", b"\x4d\x3c\x2b\x1a": "<"}


def _blocks(path: Path, capture: Capture) -> Iterator[tuple[str, int, int, int]]:
    """(byte order, type, first byte of the body, length of the body) of every block, as far as the file goes."""
    data, place, order = capture.data, 0, "<"
    size = len(data)
    while place + 12 <= size:
        if data[place : place + 4] == NEXT_GENERATION:
            found = _ORDER_MAGIC.get(data[place + 8 : place + 12])
            if found is None:
                capture.cut = f"a section without its byte order at byte {place}"
                return
            order = found
        kind, total = struct.unpack_from(f"{order}II", data, place)
        if total < 12 or total % 4 or total > size - place:
            capture.cut = f"a block of {total} bytes at byte {place} of {size}"
            return
        if kind == _SECTION:
            _check_section(path, capture, order, place, total)
        yield order, kind, place + 8, total - 12
        place += total
    if place < size:
        capture.cut = f"{size - place} bytes at its end, less than a block"


def _check_section(path: Path, capture: Capture, order: str, place: int, total: int) -> None:
    major, minor = struct.unpack_from(f"{order}HH", capture.data, place + 12) if total >= 28 else (0, 0)
    if (major, minor) not in ((1, 0), (1, 2)):
        raise unknown_version(path, f"pcapng version {major}.{minor}", "pcap 2.4 and pcapng 1")


def _interface(data: mmap.mmap, order: str, first: int, length: int) -> Interface:
    """An interface with its if_name, if_tsresol (10⁻⁶ s without one), if_tsoffset and if_fcslen (0 without them)."""
    (link,) = struct.unpack_from(f"{order}H", data, first)
    ticks_a_second, offset_s, name, check_bytes = 10**6, 0, "", 0
    for code, place, long in _options(data, order, first + 8, first + length):
        if code == _RESOLUTION and long == 1:
            resolution = data[place]
            ticks_a_second = 2 ** (resolution & 0x7F) if resolution & 0x80 else 10**resolution
        elif code == _OFFSET and long == 8:
            (offset_s,) = struct.unpack_from(f"{order}q", data, place)
        elif code == _NAME:
            name = data[place : place + long].rstrip(b"\0").decode("utf-8", "replace")
        elif code == _CHECK_LENGTH and long == 1:
            # The draft does not say whether it counts bits or bytes: 32 and 4 are both the CRC-32 of Ethernet.
            check_bytes = data[place] // 8 if data[place] >= 16 else data[place]
    return Interface(link, ticks_a_second, offset_s, name, check_bytes)


# One capture as a matcher needs it: of each packet when it was seen, a hash of its payload, and its flow.


_COOKED: Final = 113
"""Of `-i any`, which does not say the interface; its successor does."""


@dataclass(frozen=True)
class CapturePoint:
    """What one capture says, in the order of the file: when each packet was seen, int64 ns [n]; a hash of its payload,
    uint64 [n], which distinguishes packets; its flow, an index into `flows`, int64 [n]; its bytes up to the end of
    its payload, int64 [n]. numbered: a hash of payload, flow and IPv4 identification, uint64 [n], by which packets with
    the same payload are distinguished by it if it is unchanged on the path; 0 where there is no identification. bare: a
    hash of what address translation leaves alone, uint64 [n]: the payload without ports; 0 where that is too short to
    say much. place: which of the capture's packets it is, int64 [n].

    name: of its file or interface. dropped: packets that the capture says it dropped. interfaces: how many of them saw
    its packets; None where that is not in the file (-i any).
    """

    path: Path
    name: str
    seen_ns: NDArray[np.int64]
    key: NDArray[np.uint64]
    flow: NDArray[np.int64]
    flows: list[bytes]
    size: NDArray[np.int64]
    dropped: int
    interfaces: int | None
    numbered: NDArray[np.uint64]
    bare: NDArray[np.uint64]
    place: NDArray[np.int64]

    @property
    def alone(self) -> NDArray[np.bool_]:
        """The packets whose hash no other of this capture has, bool [n]."""
        _, inverse, count = np.unique(self.key, return_inverse=True, return_counts=True)
        alone: NDArray[np.bool_] = count[inverse] == 1
        return alone

    @property
    def why_ambiguous(self) -> str:
        """Why several of its packets may have the same payload."""
        if self.interfaces is None:
            return "the same payload several times, as in a capture on all interfaces: capture on one (-i NAME)"
        if self.interfaces > 1:
            return f"the same payload several times; {self.interfaces} interfaces are in the file: capture on one"
        return "the same payload several times: they cannot be distinguished"


def points_of(
    paths: Sequence[Path], names: Sequence[str], captures: Sequence[Capture], also: Sequence[Capture] = ()
) -> tuple[list[CapturePoint], list[LeftOut]]:
    """A point for each capture, all hashed alike, and what is in none of them. also: more captures, whose points come
    last: what is missing of their packets has no effect on the others, and is not among what is left out.

    Where packets were cut by a snap length, no more of any payload of their kind counts than what the shortest of
    these kept.
    """
    at_most: dict[bytes, int] = {}
    for capture in captures:
        for kind, length in _cut_lengths(capture):
            at_most[kind] = min(length, at_most.get(kind, length))
    points, left_out = [], []
    for path, name, capture in zip(paths, names, captures, strict=True):
        point, headless, short = _point(path, name, capture, at_most)
        points.append(point)
        unread = sum(capture.unread.values())
        left_out += [
            LeftOut(f"packets of {name}", count, why)
            for count, why in (
                (capture.unstamped, "without a timestamp (simple packet blocks)"),
                (capture.odd, "of an unknown interface, or at an impossible time"),
                (unread, f"of link type {', '.join(map(str, capture.unread))}, which is not supported"),
                (headless, "with headers that were not captured completely"),
                (short, f"of which less than {LIMITS.distinct_bytes} bytes of payload were captured"),
            )
            if count
        ]
    points += [_point(Path(), "", capture, at_most)[0] for capture in also]
    return points, left_out


def _cut_lengths(capture: Capture) -> Iterator[tuple[bytes, int]]:
    """The kind, and how much there is of the payload, of each packet of which not all but enough was captured."""
    view = memoryview(capture.data)
    cut = np.flatnonzero(np.array(capture.captured) < np.array(capture.wire))
    for place in cut.tolist():
        found = _find(view, capture, place)
        if found and found.captured < found.length and found.captured >= LIMITS.distinct_bytes:
            yield found.kind, found.captured


def _find(view: memoryview, capture: Capture, place: int) -> FoundPayload | None:
    return find_payload(view, capture.first[place], capture.captured[place], capture.wire[place], capture.link[place])


def _point(path: Path, name: str, capture: Capture, at_most: Mapping[bytes, int]) -> tuple[CapturePoint, int, int]:
    """The point, how many packets are without their headers, and how many have too little of their payload."""
    view = memoryview(capture.data)
    numbers: dict[bytes, int] = {}
    seen, flow, size, keys = array("q"), array("q"), array("q"), bytearray()
    numbered, bare, places = array("Q"), array("Q"), array("q")
    headless = short = 0
    for place in range(len(capture)):
        found = _find(view, capture, place)
        most = at_most.get(found.kind) if found else None
        if found is None:
            headless += 1
        elif found.captured < found.length and (most is None or found.captured < most):
            short += 1
        else:
            places.append(place)
            seen.append(capture.seen_ns[place])
            flow.append(numbers.setdefault(found.flow, len(numbers)))
            size.append(found.first - capture.first[place] + found.length)
            payload = payload_of(view, found, most)
            keys += blake2b(payload, digest_size=8).digest()
            numbered.append(_hash(found.identification + found.flow + payload) if found.identification else 0)
            bare.append(_hash(left) if len(left := untranslated(view, found, most)) >= LIMITS.distinct_bytes else 0)
    cooked = _COOKED in capture.link
    point = CapturePoint(
        path,
        name,
        np.array(seen, np.int64),
        np.frombuffer(bytes(keys), np.uint64),
        np.array(flow, np.int64),
        list(numbers),
        np.array(size, np.int64),
        sum(capture.dropped.values()),
        None if cooked else len(capture.names),
        np.array(numbered, np.uint64),
        np.array(bare, np.uint64),
        np.array(places, np.int64),
    )
    return point, headless, short


def _hash(data: bytes) -> int:
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "little")
