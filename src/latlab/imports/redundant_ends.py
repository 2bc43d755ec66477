"""Ends of PRP and HSR in watched packets: where frames pass that go by two ways, the copy of each that passed first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from latlab.analysis.words import counted
from latlab.imports.numbering import hsr, prp
from latlab.imports.numbering.base import frame_of

FORGET_NS: Final = 400_000_000
"""After so long a copy is taken for a new frame (EntryForgetTime, IEC 62439-3, table 8)."""
_TRAILER_LAN: Final = 4
"""Where in PRP's trailer, from its end, the LAN stands."""
_ETHER_TYPE: Final = 12
_VLAN_TAG: Final = 4


class CopyWay(NamedTuple):
    """One of the two ways of copies: of `PRP` the LAN, of `HSR` the path identifier, whose last bit is the port."""

    protocol: str
    number: int

    @property
    def other(self) -> CopyWay:
        """The way of the other copy."""
        lans = sum(prp.LANS)
        return self._replace(number=lans - self.number if self.protocol == "PRP" else self.number ^ 1)

    def __str__(self) -> str:
        return f"LAN {self.number:X}" if self.protocol == "PRP" else f"path {self.number}"


@dataclass(frozen=True)
class Watching:
    """What one point and direction saw, and where: its host or namespace, empty where that has no name."""

    name: str
    place: str
    direction: str
    kernel: int
    rows: pl.DataFrame

    @cached_property
    def ways(self) -> frozenset[CopyWay]:
        """The ways that its frames name."""
        found = (way_of(*one) for one in self.rows.select("bytes", "length", "ethernet").iter_rows())
        return frozenset(way for way, _ in filter(None, found))


@dataclass(frozen=True)
class RedundantEnd:
    """Where both ways begin or end. rows: of each frame the copy that passed first, in order, as if all went one way.

    ways: the two. both, alone: how many frames passed in both copies, and by one way only. later_ns: by how much second
    copies passed after the first, int64 [both].
    """

    name: str
    kernel: int
    rows: pl.DataFrame
    ways: tuple[CopyWay, CopyWay]
    both: int
    alone: Mapping[CopyWay, int]
    later_ns: NDArray[np.int64]

    @property
    def note(self) -> str:
        """What is said of it, for people."""
        first, second = self.ways
        text = (
            f"{self.name}: {first.protocol}, of {counted(self.rows.height, 'frame')} {self.both} passed in both "
            f"copies, {self.alone[first]} by {first} only and {self.alone[second]} by {second} only"
        )
        if not self.both:
            return text
        middle, most = np.median(self.later_ns) / 1000, self.later_ns.max() / 1000
        return f"{text}; second copies passed {middle:.1f} µs (median) to {most:.1f} µs after the first"


def way_of(data: bytes, length: int, ethernet: bool) -> tuple[CopyWay, int] | None:
    """The way that a frame's HSR tag or PRP trailer names, and at which byte, in its upper half; None: it has neither,
    or its trailer was not kept.
    """
    frame = frame_of(data, length, ethernet=True) if ethernet else None
    if frame is None:
        return None
    if tagged := hsr.read(frame):
        at = _ETHER_TYPE
        while data[at : at + 2] != hsr.ETHER_TYPE:
            at += _VLAN_TAG
        return CopyWay("HSR", tagged.source[0]), at + 2
    if trailed := prp.read(frame):
        return CopyWay("PRP", trailed.source[0]), len(data) - _TRAILER_LAN
    return None


def redundant_ends(points: Sequence[Watching]) -> Iterator[RedundantEnd]:
    """Those among the points: at one place, in one direction, one point of each of two ways."""
    found: dict[tuple[int, str, str], dict[CopyWay, list[Watching]]] = {}
    for point in points:
        if len(point.ways) == 1:
            (way,) = point.ways
            found.setdefault((point.kernel, point.place, point.direction), {}).setdefault(way, []).append(point)
    for (kernel, place, direction), by_way in found.items():
        for way in sorted(by_way):
            ones = by_way[way], by_way.get(way.other, [])
            if way < way.other and all(len(one) == 1 for one in ones):
                name = f"{place}{way.protocol.lower()}:{direction}"
                yield _end(name, kernel, (way, way.other), [one.rows for (one,) in ones])


def _end(name: str, kernel: int, ways: tuple[CopyWay, CopyWay], by_way: Sequence[pl.DataFrame]) -> RedundantEnd:
    rows = pl.concat(by_way).sort("tai_ns", maintain_order=True)
    waits: dict[bytes, tuple[int, CopyWay]] = {}
    kept, frames, later = list[int](), list[bytes](), list[int]()
    alone = dict.fromkeys(ways, 0)
    for place, (at_ns, *frame) in enumerate(rows.select("tai_ns", "bytes", "length", "ethernet").iter_rows()):
        found, data = way_of(*frame), frame[0]
        if not found:
            continue
        way, at = found
        # As if it went the first way: copies are alike then.
        alike = data[:at] + bytes([data[at] & 0x0F | ways[0].number << 4]) + data[at + 1 :]
        since_ns, other = waits.get(alike, (0, way))
        if other != way and at_ns - since_ns <= FORGET_NS:
            del waits[alike]
            later.append(at_ns - since_ns)
            alone[other] -= 1
            continue
        waits[alike] = at_ns, way
        alone[way] += 1
        kept.append(place)
        frames.append(alike)
    firsts = rows[kept].with_columns(pl.Series("bytes", frames, pl.Binary))
    return RedundantEnd(name, kernel, firsts, ways, len(later), alone, np.array(later, np.int64))
