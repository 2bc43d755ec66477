"""One capture as a matcher needs it: of each packet when it was seen, a hash of its payload, and its flow."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from latlab.imports.capture import Capture
from latlab.imports.frames import Found, find_payload, payload_of, untranslated
from latlab.recordings.cell import LeftOut

_LEAST_PAYLOAD: Final = 16
"""Packets cut by a snap length are told apart by what is left of their payloads, if that is so many bytes."""
_COOKED: Final = 113
"""Of `-i any`, which does not say the interface; its successor does."""


@dataclass(frozen=True)
class Point:
    """What one capture says, in the order of the file: when each packet was seen, int64 ns [n]; a hash of its payload,
    uint64 [n], by which packets are told apart; its flow, an index into `flows`, int64 [n]; its bytes up to the end of
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
    paths: Sequence[Path], names: Sequence[str], captures: Sequence[Capture]
) -> tuple[list[Point], list[LeftOut]]:
    """A point for each capture, all hashed alike, and what is in none of them.

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
                (short, f"of which less than {_LEAST_PAYLOAD} bytes of payload were captured"),
            )
            if count
        ]
    return points, left_out


def _cut_lengths(capture: Capture) -> Iterator[tuple[bytes, int]]:
    """The kind, and how much there is of the payload, of each packet of which not all but enough was captured."""
    view = memoryview(capture.data)
    cut = np.flatnonzero(np.array(capture.captured) < np.array(capture.wire))
    for place in cut.tolist():
        found = _find(view, capture, place)
        if found and found.captured < found.length and found.captured >= _LEAST_PAYLOAD:
            yield found.kind, found.captured


def _find(view: memoryview, capture: Capture, place: int) -> Found | None:
    return find_payload(view, capture.first[place], capture.captured[place], capture.wire[place], capture.link[place])


def _point(path: Path, name: str, capture: Capture, at_most: Mapping[bytes, int]) -> tuple[Point, int, int]:
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
            bare.append(_hash(left) if len(left := untranslated(view, found, most)) >= _LEAST_PAYLOAD else 0)
    cooked = _COOKED in capture.link
    point = Point(
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
