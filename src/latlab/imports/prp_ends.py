"""Ends of PRP in watched packets: where frames pass that go by two LANs, the copy of each that passed first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from latlab.analysis.words import counted
from latlab.imports.numbering.base import frame_of
from latlab.imports.numbering.prp import LANS, SUFFIX, TRAILER, read

FORGET_NS: Final = 400_000_000
"""After so long a copy is taken for a new frame (EntryForgetTime, IEC 62439-3, table 8)."""
_LAN_AT: Final = 4
"""Where in a trailer, from its end, the LAN stands."""


@dataclass(frozen=True)
class Watching:
    """What one point and direction saw, and where: its host or namespace, empty where that has no name."""

    name: str
    place: str
    direction: str
    kernel: int
    rows: pl.DataFrame

    @cached_property
    def lans(self) -> frozenset[int]:
        """The LANs that trailers of its frames name."""
        found = {lan_of(*one) for one in self.rows.select("bytes", "length", "ethernet").iter_rows()}
        return frozenset(found - {0})


@dataclass(frozen=True)
class PrpEnd:
    """Where both LANs begin or end. rows: of each frame the copy that passed first, in order, as if all were of LAN A.

    both, alone: how many frames passed in both copies, and by one LAN only. later_ns: by how much second copies passed
    after the first, int64 [both].
    """

    name: str
    kernel: int
    rows: pl.DataFrame
    both: int
    alone: Mapping[int, int]
    later_ns: NDArray[np.int64]

    @property
    def note(self) -> str:
        """What is said of it, for people."""
        first, second = (self.alone[lan] for lan in LANS)
        text = (
            f"{self.name}: PRP, of {counted(self.rows.height, 'frame')} {self.both} passed in both copies, {first} by "
            f"LAN A only and {second} by LAN B only"
        )
        if not self.both:
            return text
        middle, most = np.median(self.later_ns) / 1000, self.later_ns.max() / 1000
        return f"{text}; second copies passed {middle:.1f} µs (median) to {most:.1f} µs after the first"


def lan_of(data: bytes, length: int, ethernet: bool) -> int:
    """The LAN that a frame's trailer names; 0: it has none, or was not kept whole."""
    if not ethernet or data[-2:] != SUFFIX or len(data) != length:
        return 0
    frame = frame_of(data, length, ethernet=True)
    number = read(frame) if frame else None
    return number.source[0] if number else 0


def prp_ends(points: Sequence[Watching]) -> Iterator[PrpEnd]:
    """Those among the points: at one place, in one direction, one point of LAN A and one of LAN B."""
    found: dict[tuple[int, str, str], dict[int, list[Watching]]] = {}
    for point in points:
        if len(point.lans) == 1:
            (lan,) = point.lans
            found.setdefault((point.kernel, point.place, point.direction), {}).setdefault(lan, []).append(point)
    for (kernel, place, direction), by_lan in found.items():
        if all(len(by_lan.get(lan, ())) == 1 for lan in LANS):
            yield _end(f"{place}prp:{direction}", kernel, [by_lan[lan][0].rows for lan in LANS])


def _end(name: str, kernel: int, by_lan: Sequence[pl.DataFrame]) -> PrpEnd:
    rows = pl.concat(by_lan).sort("tai_ns", maintain_order=True)
    waits: dict[tuple[bytes, bytes], tuple[int, int]] = {}
    kept, frames, later = list[int](), list[bytes](), list[int]()
    alone = dict.fromkeys(LANS, 0)
    for place, (at_ns, *frame) in enumerate(rows.select("tai_ns", "bytes", "length", "ethernet").iter_rows()):
        lan, data = lan_of(*frame), frame[0]
        if not lan:
            continue
        key = data[:-TRAILER], data[-TRAILER:-_LAN_AT]
        since_ns, other = waits.get(key, (0, 0))
        if other and other != lan and at_ns - since_ns <= FORGET_NS:
            del waits[key]
            later.append(at_ns - since_ns)
            alone[other] -= 1
            continue
        waits[key] = at_ns, lan
        alone[lan] += 1
        kept.append(place)
        size = data[-_LAN_AT] & 0x0F | LANS[0] << 4
        frames.append(data[:-_LAN_AT] + bytes([size]) + data[1 - _LAN_AT :])
    firsts = rows[kept].with_columns(pl.Series("bytes", frames, pl.Binary))
    return PrpEnd(name, kernel, firsts, len(later), alone, np.array(later, np.int64))
