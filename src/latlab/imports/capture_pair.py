"""Two captures of the same packets at two points: how long each took from the first point to the second."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from latlab.errors import UsageError
from latlab.imports.base import Format, Given, Imported, LeftOut, PacketStream, Problem, Stamps, cut_short
from latlab.imports.capture import Capture, is_capture, read_capture
from latlab.imports.capture_points import Point, points_of
from latlab.imports.frames import flow_text
from latlab.imports.packets import clock_problems, in_order_of, shifted_ns, usual_gap_ns, went_back_ns

LATENCY: Final = (
    "one way, from the first capture point to the second: what lies before and behind the two is in no figure, and "
    "nothing is known of when packets were meant to leave"
)
MOST_FLOWS: Final = 16
"""The largest flows are streams of their own; more would fill a page."""


def recognises(head: bytes, path: Path) -> float:
    """1 for a pcap or pcapng file."""
    return 1.0 if is_capture(head) else 0.0


def read(paths: Sequence[Path], given: Given) -> Imported:
    """A stream a flow, at most MOST_FLOWS of them. UsageError: not two captures, or no packet is in both."""
    if len(paths) != 2:
        raise UsageError(
            f"{len(paths)} capture{'s' * (len(paths) != 1)}: two are needed, of the same packets at two points",
            where=", ".join(map(str, paths)),
            remedy="latlab import FIRST SECOND, in the order in which packets pass them",
        )
    captures = [read_capture(path) for path in paths]
    points, left_out = points_of(paths, captures)
    _refuse_one_point(*points)
    streams, more = _streams(_match(*points))
    return Imported(
        "captures",
        "pcap 2.4 or pcapng 1",
        LATENCY,
        streams=tuple(streams),
        notes=(
            "the files do not say whether a network card or the kernel took their timestamps",
            *(f"{stream.name} goes from {stream.talker} to {stream.listener}" for stream in streams),
        ),
        left_out=(*left_out, *more),
        problems=tuple(_problems(paths, captures, points, streams)),
        facts={"packets": [len(capture) for capture in captures]},
    )


def _refuse_one_point(first: Point, second: Point) -> None:
    """Nothing. UsageError: the two are one file, or one capture under two names: all of it would take no time."""
    same = first.path.samefile(second.path)
    alike = np.array_equal(first.seen_ns, second.seen_ns) and np.array_equal(first.key, second.key)
    if not same and not (alike and len(first.key)):
        return
    what = "the same file twice" if same else "the same capture twice: the same packets at the same nanoseconds"
    raise UsageError(
        f"{what}, so that every packet would have taken no time",
        where=str(first.path) if same else f"{first.path} and {second.path}",
        remedy="give the captures of two points: latlab import FIRST SECOND, in the order in which packets pass them",
    )


@dataclass(frozen=True)
class _Matched:
    """Two captures beside each other.

    names: what they are called. usable: the first one's packets that can be told apart, int64. match: of each packet of
    the first the one of the second, or −1. lone: the second one's packets that can be told apart and the first has not.
    """

    first: Point
    second: Point
    names: tuple[str, str]
    usable: NDArray[np.int64]
    match: NDArray[np.int64]
    lone: NDArray[np.int64]
    ambiguous: tuple[int, int]


def _match(first: Point, second: Point) -> _Matched:
    """What is in both. A packet that one capture saw twice cannot be told apart in the other either."""
    doubled = np.union1d(first.key[~first.alone], second.key[~second.alone])
    left, right = (np.flatnonzero(~np.isin(point.key, doubled)) for point in (first, second))
    _, at_left, at_right = np.intersect1d(first.key[left], second.key[right], assume_unique=True, return_indices=True)
    ambiguous = len(first.key) - len(left), len(second.key) - len(right)
    if not len(at_left):
        raise UsageError(
            f"no packet of {first.path.name} can be found in it: {len(left)} and {len(right)} can be told apart, and "
            f"none of these is in both; {ambiguous[0]} and {ambiguous[1]} cannot, having the payload of others",
            where=str(second.path),
            remedy="capture the same packets at both points, with payloads that differ, such as sequence numbers",
        )
    match = np.full(len(first.key), -1, np.int64)
    match[left[at_left]] = right[at_right]
    same = first.path.name == second.path.name
    names = ("first", "second") if same else (first.path.name, second.path.name)
    return _Matched(first, second, names, left, match, np.delete(right, at_right), ambiguous)


def _streams(pair: _Matched) -> tuple[list[PacketStream], list[LeftOut]]:
    """The largest flows of what is in both, and what is left out."""
    left_out = [
        LeftOut(f"packets of {name}", count, "several have the same payload: they cannot be told apart")
        for name, count in zip(pair.names, pair.ambiguous, strict=True)
        if count
    ]
    common = pair.first.flow[pair.match >= 0]
    sizes = np.bincount(common, minlength=len(pair.first.flows))
    largest = [int(flow) for flow in np.argsort(-sizes, kind="stable") if sizes[flow]]
    streams, lonely = [], len(pair.lone)
    for number, flow in enumerate(largest[:MOST_FLOWS], start=1):
        stream, more, lost = _flow(pair, number, flow)
        streams.append(stream)
        left_out += more
        lonely -= lost
    rest = int(sizes[largest[MOST_FLOWS:]].sum())
    left_out += [LeftOut("packets", rest, f"of flows beyond the {MOST_FLOWS} largest")] if rest else []
    if lonely > 0:
        why = f"{pair.names[0]} has not seen them: other packets, or lost or not captured there"
        left_out.append(LeftOut(f"packets of {pair.names[1]}", lonely, why))
    return streams, left_out


def _flow(pair: _Matched, number: int, flow: int) -> tuple[PacketStream, list[LeftOut], int]:
    """One flow's stream, what is left out of it, and how many of its packets the second capture alone has seen.

    Where most of its packets were seen at the second point first, it comes from there.
    """
    rows = pair.usable[pair.first.flow[pair.usable] == flow]
    both = rows[pair.match[rows] >= 0]
    seen = pair.first.seen_ns[both], pair.second.seen_ns[pair.match[both]]
    turned = bool(np.median(seen[1] - seen[0]) < 0)
    if turned:
        theirs = np.bincount(pair.second.flow[pair.match[both]]).argmax()
        alone = pair.second.seen_ns[pair.lone[pair.second.flow[pair.lone] == theirs]]
        seen, unseen = seen[::-1], len(rows) - len(both)
    else:
        alone, unseen = pair.first.seen_ns[rows[pair.match[rows] < 0]], 0
    names = pair.names[::-1] if turned else pair.names
    text = flow_text(pair.first.flows[flow])
    left_out = [LeftOut(f"packets of {names[1]}", unseen, f"{text}: {names[0]}, from where they come, has them not")]
    starts = np.concatenate([seen[0], alone])
    ends = np.concatenate([seen[1], np.zeros(len(alone), np.int64)])
    there = np.arange(len(starts)) < len(both)
    order = np.argsort(starts, kind="stable")
    # Beyond the first and the last common packet the other capture may not have been running.
    common = np.flatnonzero(there[order])
    inside = order[common[0] : common[-1] + 1]
    why = f"{text}: before the first or after the last packet that both have"
    left_out.append(LeftOut(f"packets of {names[0]}", len(order) - len(inside), why))
    starts, ends, there = starts[inside], ends[inside], there[inside]
    gap_ns = usual_gap_ns(starts)
    return (
        PacketStream(
            name=f"flow-{number}",
            talker=names[0],
            listener=names[1],
            described=f"{text} · {names[0]} → {names[1]} · a packet every {gap_ns / 1000:g} µs (median)",
            stamps={"first_point": Stamps(starts, np.ones(len(starts), np.bool_)), "second_point": Stamps(ends, there)},
            metrics=("transit",),
            sent=np.ones(len(starts), np.bool_),
            arrived=there,
            arrival=in_order_of(ends, there),
            period_ns=gap_ns,
            two_clocks=True,
        ),
        [one for one in left_out if one.count],
        len(alone) if turned else 0,
    )


def _problems(
    paths: Sequence[Path], captures: Sequence[Capture], points: Sequence[Point], streams: Sequence[PacketStream]
) -> list[Problem]:
    found = []
    for path, capture, point in zip(paths, captures, points, strict=True):
        if capture.cut:
            found.append(cut_short(path.name, f"{len(capture)} packets, then {capture.cut}"))
        found += clock_problems(path.name, went_back_ns(point.seen_ns), 0)
    for stream in streams:
        there = stream.stamps["second_point"].there
        start, end = stream.stamps["first_point"].ns[there], stream.stamps["second_point"].ns[there]
        found += clock_problems(stream.name, 0, shifted_ns(start, end))
    return found


FORMAT: Final = Format("pcap", "two captures (pcap, pcapng) of the same packets at two points", 2, recognises, read)
