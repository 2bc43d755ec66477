"""Ends of PRP and HSR among watched points: which copies are of one frame, and what came by one way only."""

from __future__ import annotations

import struct
from collections.abc import Iterable

import polars as pl
import pytest

from latlab.imports.numbering import numbers_of
from latlab.imports.numbering.base import frame_of
from latlab.imports.redundant_ends import FORGET_NS, CopyWay, RedundantEnd, Watching, redundant_ends, way_of
from support.imports.captures import ethernet
from support.imports.frames import hsr

A, B = CopyWay("PRP", 0xA), CopyWay("PRP", 0xB)
US, MS = 1_000, 1_000_000


def copy(number: int, lan: CopyWay, content: int | None = None) -> bytes:
    """A frame with its number as its content, and as its number in the trailer."""
    body = struct.pack(">Q", number if content is None else content) + bytes(40)
    return ethernet(body + struct.pack(">HHH", number % 65536, lan.number << 12 | len(body) + 6, 0x88FB), 0x88BA)


def seen(name: str, frames: Iterable[tuple[int, bytes]], direction: str = "in", place: str = "ied.") -> Watching:
    columns = {"tai_ns": pl.Int64, "ethernet": pl.Boolean, "length": pl.UInt32, "bytes": pl.Binary}
    rows = [(at_ns, True, len(frame), frame) for at_ns, frame in frames]
    return Watching(f"{place}{name}:{direction}", place, direction, 0, pl.DataFrame(rows, schema=columns, orient="row"))


def end_of(a: Iterable[tuple[int, bytes]], b: Iterable[tuple[int, bytes]]) -> RedundantEnd:
    (end,) = redundant_ends([seen("eth0", a), seen("eth1", b)])
    return end


def test_the_first_copy_of_each_frame_is_kept_whatever_lan_it_came_by() -> None:
    a = [(n * MS, copy(n, A)) for n in range(10) if n != 4]
    b = [(n * MS + (30 if n % 2 else -20) * US, copy(n, B)) for n in range(10) if n not in (5, 6)]
    end = end_of(a, b)
    assert (end.name, end.both, end.alone) == ("ied.prp:in", 7, {A: 2, B: 1})
    firsts = [(n * MS if n % 2 or n == 6 else n * MS - 20 * US) for n in range(10)]
    assert end.rows["tai_ns"].to_list() == firsts
    assert sorted(end.later_ns.tolist()) == [20 * US] * 3 + [30 * US] * 4
    assert end.note == (
        "ied.prp:in: PRP, of 10 frames 7 passed in both copies, 2 by LAN A only and 1 by LAN B only; second copies "
        "passed 30.0 µs (median) to 30.0 µs after the first"
    )


def test_what_neither_lan_brought_is_missing_by_the_numbers_of_the_trailers() -> None:
    a = [(n * MS, copy(n, A)) for n in range(20) if n not in (3, 7, 11)]
    b = [(n * MS + US, copy(n, B)) for n in range(20) if n not in (3, 8, 12)]
    frames = [frame_of(data, len(data), ethernet=True) for data in end_of(a, b).rows["bytes"]]
    found = numbers_of(frames)
    assert found
    assert (found.numbering.name, found.sources, found.gaps.lost, found.gaps.duplicated) == ("prp", 1, 1, 0)


def test_with_one_lan_cut_every_frame_is_there_and_the_note_says_by_which() -> None:
    end = end_of([(n * MS, copy(n, A)) for n in range(50)], [(n * MS + US, copy(n, B)) for n in range(10)])
    assert (end.rows.height, end.both, end.alone) == (50, 10, {A: 40, B: 0})
    end = end_of([(0, copy(0, A))], [(MS, copy(1, B))])
    assert end.note == "ied.prp:in: PRP, of 2 frames 0 passed in both copies, 1 by LAN A only and 1 by LAN B only"


@pytest.mark.parametrize(("after_ns", "frames"), [(FORGET_NS, 1), (FORGET_NS + 1, 2)])
def test_the_same_number_long_after_is_another_frame(after_ns: int, frames: int) -> None:
    assert end_of([(0, copy(7, A))], [(after_ns, copy(7, B))]).rows.height == frames


def test_frames_of_one_number_with_other_content_are_two() -> None:
    assert end_of([(0, copy(7, A, content=1))], [(US, copy(7, B, content=2))]).rows.height == 2


def test_an_end_is_one_point_of_each_lan_at_one_place_in_one_direction() -> None:
    a, b = [(0, copy(0, A))], [(0, copy(0, B))]
    assert list(redundant_ends([seen("eth0", a), seen("eth1", b, "out")])) == []
    assert list(redundant_ends([seen("eth0", a), seen("eth1", b, place="mu.")])) == []
    assert list(redundant_ends([seen("eth0", a), seen("eth1", a)])) == []
    assert list(redundant_ends([seen("eth0", [*a, *b]), seen("eth1", b)])) == []
    assert [one.name for one in redundant_ends([seen("eth0", a), seen("br0", []), seen("eth1", b)])] == ["ied.prp:in"]


def test_a_trailer_is_read_of_frames_that_were_kept_whole() -> None:
    frame = copy(1, B)
    assert way_of(frame, len(frame), True) == (B, len(frame) - 4)
    assert way_of(frame, len(frame) + 1, True) is way_of(frame, len(frame), False) is None
    assert way_of(frame[:-1] + b"\0", len(frame), True) is way_of(b"", 0, True) is None


def test_of_hsr_the_first_copy_that_came_round_the_ring_is_kept() -> None:
    one, other = 4, 5
    a = [(n * MS, hsr(n, one)) for n in range(20) if n not in (3, 7)]
    b = [(n * MS + 40 * US, hsr(n, other)) for n in range(20) if n not in (3, 8, 9)]
    end = end_of(b, a)
    assert (end.name, end.both, end.ways) == ("ied.hsr:in", 16, (CopyWay("HSR", one), CopyWay("HSR", other)))
    assert end.note == (
        "ied.hsr:in: HSR, of 19 frames 16 passed in both copies, 2 by path 4 only and 1 by path 5 only; second copies "
        "passed 40.0 µs (median) to 40.0 µs after the first"
    )
    assert end.rows["tai_ns"].to_list() == [n * MS + 40 * US * (n == 7) for n in range(20) if n != 3]
    found = numbers_of([frame_of(data, len(data), ethernet=True) for data in end.rows["bytes"]])
    assert found
    assert (found.numbering.name, found.sources, found.gaps.lost) == ("hsr", 1, 1)
    # Rings that are joined have other paths, and one port's frames are no pair.
    assert list(redundant_ends([seen("eth0", [(0, hsr(0, 5))]), seen("eth1", [(0, hsr(0, 6))])])) == []


def test_a_tag_of_hsr_is_found_behind_one_of_a_vlan_and_in_a_part_of_a_frame() -> None:
    frame = hsr(1, 3)
    tagged = frame[:12] + b"\x81\0\0\5" + frame[12:]
    assert way_of(frame[:30], len(frame), True) == (CopyWay("HSR", 3), 14)
    assert way_of(tagged, len(tagged), True) == (CopyWay("HSR", 3), 18)
