"""One capture as a matcher needs it: of each packet when it was seen, a hash of its payload, and its flow."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from latlab.imports.base import LeftOut
from latlab.imports.capture import Capture
from latlab.imports.frames import Found, find_payload, payload_of

_LEAST_PAYLOAD: Final = 16
"""Packets cut by a snap length are told apart by what is left of their payloads, if that is so many bytes."""


@dataclass(frozen=True)
class Point:
    """What one capture says, in the order of the file: when each packet was seen, int64 ns [n]; a hash of its payload,
    uint64 [n], by which packets are told apart; its flow, an index into `flows`, int64 [n].
    """

    path: Path
    seen_ns: NDArray[np.int64]
    key: NDArray[np.uint64]
    flow: NDArray[np.int64]
    flows: list[bytes]

    @property
    def alone(self) -> NDArray[np.bool_]:
        """The packets whose hash no other of this capture has, bool [n]."""
        _, inverse, count = np.unique(self.key, return_inverse=True, return_counts=True)
        alone: NDArray[np.bool_] = count[inverse] == 1
        return alone


def points_of(paths: Sequence[Path], captures: Sequence[Capture]) -> tuple[list[Point], list[LeftOut]]:
    """A point for each capture, all hashed alike, and what is in none of them.

    Where packets were cut by a snap length, no more of any payload counts than what the shortest of these kept.
    """
    at_most = min((length for capture in captures for length in _cut_lengths(capture)), default=None)
    points, left_out = [], []
    for path, capture in zip(paths, captures, strict=True):
        point, headless, short = _point(path, capture, at_most)
        points.append(point)
        left_out += [
            LeftOut(f"packets of {path.name}", count, why)
            for count, why in (
                (capture.unstamped, "they have no timestamp (simple packet blocks)"),
                (capture.odd, "of an unknown interface, or at a time that cannot be"),
                (headless, "their headers were not captured whole"),
                (short, f"less than {_LEAST_PAYLOAD} bytes of their payload were captured"),
            )
            if count
        ]
    return points, left_out


def _cut_lengths(capture: Capture) -> Iterator[int]:
    """How much there is of the payload of each packet of which not all but enough was captured."""
    view = memoryview(capture.data)
    cut = np.flatnonzero(np.array(capture.captured) < np.array(capture.wire))
    for place in cut.tolist():
        found = _find(view, capture, place)
        if found and found.captured < found.length and found.captured >= _LEAST_PAYLOAD:
            yield found.captured


def _find(view: memoryview, capture: Capture, place: int) -> Found | None:
    return find_payload(view, capture.first[place], capture.captured[place], capture.wire[place], capture.link[place])


def _point(path: Path, capture: Capture, at_most: int | None) -> tuple[Point, int, int]:
    """The point, how many packets lack their headers, and how many have too little of their payload."""
    view = memoryview(capture.data)
    numbers: dict[bytes, int] = {}
    seen, flow, keys = array("q"), array("q"), bytearray()
    headless = short = 0
    for place in range(len(capture)):
        found = _find(view, capture, place)
        if found is None:
            headless += 1
        elif found.captured < found.length and (at_most is None or found.captured < at_most):
            short += 1
        else:
            seen.append(capture.seen_ns[place])
            flow.append(numbers.setdefault(found.flow, len(numbers)))
            keys += blake2b(payload_of(view, found, at_most), digest_size=8).digest()
    arrays = np.array(seen, np.int64), np.frombuffer(bytes(keys), np.uint64), np.array(flow, np.int64)
    return Point(path, *arrays, list(numbers)), headless, short
