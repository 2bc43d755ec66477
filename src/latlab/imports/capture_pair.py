"""Two captures of the same packets at two points: how long each took from the first point to the second."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from latlab.analysis.words import counted, duration, plural
from latlab.imports.base import Format, Given, PacketStream, ReadFiles, Stamps, cut_short
from latlab.imports.capture import Capture, CapturePoint, is_capture, points_of, read_capture
from latlab.imports.frames import ends_of, flow_text, is_group, tunnel_of
from latlab.imports.packets import clock_problems, in_order_of, shifted_ns, usual_gap_ns, went_back_ns
from latlab.model.errors import UsageError
from latlab.model.reasons import Reason, reason_of
from latlab.model.rules import NO_OFFLOAD
from latlab.model.units import in_us
from latlab.recordings.cell import LeftOut

LATENCY: Final = (
    "one way, from the first capture point to the second: what lies before and after the two is not in any figure, and "
    "the schedule of the packets is not known"
)
MOST_FLOWS: Final = 16
"""The number of largest flows that are separate streams; more would fill a page."""
_NAMED_FLOWS: Final = 8
"""So many flows that one capture alone has seen are named; of the others the packets are counted."""
_FRAME: Final = 1_600
"""A packet of more bytes is larger than a frame of Ethernet, unless the network has jumbo frames."""
_OTHER_SIDE: Final = "lost, or not captured there"


def recognises(head: bytes, path: Path) -> float:
    """1 for a pcap or pcapng file."""
    return 1.0 if is_capture(head) else 0.0


def read(paths: Sequence[Path], given: Given) -> ReadFiles:
    """A stream a flow, at most MOST_FLOWS of them. UsageError: not two captures, or no packet is in both."""
    one_file = len(paths) == 1
    if one_file:
        paths, names, captures = _both_in_one(paths[0])
    elif len(paths) == 2:
        captures = [read_capture(path) for path in paths]
        same = paths[0].name == paths[1].name
        names = ["first", "second"] if same else [path.name for path in paths]
    else:
        raise _two_needed(paths, f"{len(paths)} captures: two are needed, of the same packets at two points")
    points, left_out = points_of(paths, names, captures)
    if not one_file:
        _refuse_one_point(*points)
    pair = _match(points[0], points[1], left_out)
    if one_file and _median_ns(pair, pair.match >= 0) < 0:
        points.reverse()
        captures = captures[::-1]
        pair = _match(points[0], points[1], left_out)
    streams, more, problems = _streams(pair, given.clock_bound_ns, one_clock=one_file)
    return ReadFiles(
        "captures",
        "pcap 2.4 or pcapng 1",
        LATENCY,
        streams=tuple(streams),
        notes=(
            "the files do not record whether a network card or the kernel took their timestamps",
            *(["both points are in one file: one clock, if the kernel took the timestamps"] if one_file else []),
            *(f"{stream.name} goes from {stream.talker} to {stream.listener}" for stream in streams),
        ),
        left_out=(*left_out, *more),
        problems=(*_problems(captures, points, streams), *problems),
        facts={"packets": [len(capture) for capture in captures]},
    )


def _two_needed(paths: Sequence[Path], what: str) -> UsageError:
    remedy = "latlab import FIRST SECOND, in the order in which packets pass them"
    return UsageError(what, where=", ".join(map(str, paths)), remedy=remedy)


def _both_in_one(path: Path) -> tuple[list[Path], list[str], list[Capture]]:
    """Both points of a file that two interfaces are in. UsageError: one is, or more than two are."""
    capture = read_capture(path)
    number = len(capture.names)
    if number == 2:
        return [path, path], list(capture.names), [capture.of_interface(0), capture.of_interface(1)]
    if number == 1:
        raise _two_needed([path], "1 capture: two are needed, of the same packets at two points")
    raise UsageError(
        f"packets of {number} interfaces: {', '.join(capture.names)}; two points are needed",
        where=str(path),
        remedy=(
            "write the packets of each point to a separate file: tshark -r FILE -Y 'frame.interface_name == \"eth0\"' "
            "-w FIRST"
        ),
    )


def _refuse_one_point(first: CapturePoint, second: CapturePoint) -> None:
    """Do nothing. UsageError: the two are one file, or one capture under two names: all of it would take no time."""
    same = first.path.samefile(second.path)
    alike = np.array_equal(first.seen_ns, second.seen_ns) and np.array_equal(first.key, second.key)
    if not same and not (alike and len(first.key)):
        return
    what = "the same file twice" if same else "the same capture twice: the same packets at the same nanoseconds"
    raise UsageError(
        f"{what}, so every packet would have taken 0 ns",
        where=str(first.path) if same else f"{first.path} and {second.path}",
        remedy="give the captures of two points: latlab import FIRST SECOND, in the order in which packets pass them",
    )


@dataclass(frozen=True)
class Matched:
    """Two captures side by side.

    usable: the first one's packets that can be distinguished, int64. match: of each packet of the first the one of the
    second, or −1. lone: the second one's packets that can be distinguished and the first has not. ambiguous: how many
    packets of each cannot be distinguished.
    """

    first: CapturePoint
    second: CapturePoint
    usable: NDArray[np.int64]
    match: NDArray[np.int64]
    lone: NDArray[np.int64]
    ambiguous: tuple[int, int]

    @property
    def points(self) -> tuple[CapturePoint, CapturePoint]:
        """The first and the second."""
        return self.first, self.second


def match_points(first: CapturePoint, second: CapturePoint, *, translated: bool = False) -> Matched:
    """What is in both. A packet that one capture saw twice cannot be distinguished in the other either.

    Of packets with the same payload those are distinguished whose flow keeps its addresses and IPv4 identifications
    from one point to the other: at least one packet of it has the same at both. translated: packets of flows of which
    nothing is in both by their ports are looked for by their payloads alone, as behind address translation.
    """
    doubled = np.union1d(first.key[~first.alone], second.key[~second.alone])
    left, right = (np.flatnonzero(~np.isin(point.key, doubled)) for point in (first, second))
    match = np.full(len(first.key), -1, np.int64)
    _, at_left, at_right = np.intersect1d(first.key[left], second.key[right], assume_unique=True, return_indices=True)
    match[left[at_left]] = right[at_right]
    more_left, more_right = _numbered_alike(first, second, doubled)
    _, at_left, at_right = np.intersect1d(
        first.numbered[more_left], second.numbered[more_right], assume_unique=True, return_indices=True
    )
    match[more_left[at_left]] = more_right[at_right]
    left, right = np.concatenate([left, more_left]), np.concatenate([right, more_right])
    if translated:
        left, right = _match_bare(first, second, match, left, right)
    left, right = np.sort(left), np.sort(right)
    ambiguous = len(first.key) - len(left), len(second.key) - len(right)
    return Matched(first, second, left, match, np.setdiff1d(right, match), ambiguous)


def _numbered_alike(
    first: CapturePoint, second: CapturePoint, doubled: NDArray[np.uint64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Of packets whose payload others have (`doubled`) those that differ by their identification, of each point."""
    both = [np.flatnonzero(np.isin(point.key, doubled) & (point.numbered != 0)) for point in (first, second)]
    again = [_not_alone(point.numbered[places]) for point, places in zip((first, second), both, strict=True)]
    left, right = (
        places[~np.isin(point.numbered[places], np.union1d(*again))]
        for point, places in zip((first, second), both, strict=True)
    )
    _, at_left, at_right = np.intersect1d(
        first.numbered[left], second.numbered[right], assume_unique=True, return_indices=True
    )
    # A flow whose numbers are changed on the path has no packet with the same at both: nothing is known of it then.
    return (
        left[np.isin(first.flow[left], first.flow[left[at_left]])],
        right[np.isin(second.flow[right], second.flow[right[at_right]])],
    )


def _match_bare(
    first: CapturePoint,
    second: CapturePoint,
    match: NDArray[np.int64],
    left: NDArray[np.int64],
    right: NDArray[np.int64],
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Enter into `match` what translation has changed; the packets of each that can be distinguished then.

    left, right: those that could be so far.
    """
    strangers = []
    for point, known in ((first, np.flatnonzero(match >= 0)), (second, match[match >= 0])):
        places = np.flatnonzero(~np.isin(point.flow, point.flow[known]) & (point.bare != 0))
        strangers.append(places)
    again = np.union1d(
        *(_not_alone(point.bare[places]) for point, places in zip((first, second), strangers, strict=True))
    )
    ours, theirs = (
        places[~np.isin(point.bare[places], again)] for point, places in zip((first, second), strangers, strict=True)
    )
    _, at_ours, at_theirs = np.intersect1d(
        first.bare[ours], second.bare[theirs], assume_unique=True, return_indices=True
    )
    match[ours[at_ours]] = theirs[at_theirs]
    apart = []
    for point, before, own, at in ((first, left, ours, at_ours), (second, right, theirs, at_theirs)):
        flows = np.unique(point.flow[own[at]])
        # Of these flows the payload alone says which packets are alike.
        others = before[~np.isin(point.flow[before], flows)]
        apart.append(np.concatenate([others, own[np.isin(point.flow[own], flows)]]))
    return apart[0], apart[1]


def _not_alone(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Those that are there more than once."""
    found, count = np.unique(values, return_counts=True)
    return found[count > 1]


def _match(first: CapturePoint, second: CapturePoint, left_out: Sequence[LeftOut]) -> Matched:
    """What is in both. UsageError: nothing is. left_out: what is in neither, which the error names."""
    pair = match_points(first, second)
    if not (pair.match >= 0).any():
        left, right, ambiguous = pair.usable, len(second.key) - pair.ambiguous[1], pair.ambiguous
        everywhere = [point.why_ambiguous for point in (first, second) if point.interfaces != 1 and any(ambiguous)]
        raise UsageError(
            f"no packet of {first.name} can be found in it: {len(left)} and {right} packets have unique payloads, and "
            f"none of these is in both; {ambiguous[0]} and {ambiguous[1]} share their payload with others"
            + (f" ({everywhere[0]})" if everywhere else "")
            + "".join(f"; {one.count} {one.what} {one.why}" for one in left_out)
            + "".join(_in_tunnels(point) for point in (first, second)),
            where=str(second.path),
            remedy="capture the same packets at both points, with payloads that differ, such as sequence numbers"
            + (", and more of each (tcpdump -s 128)" if any("captured" in one.why for one in left_out) else ""),
        )
    return pair


def _in_tunnels(point: CapturePoint) -> str:
    """How many of its packets are in a tunnel, which the other point may have seen before or behind it."""
    kinds = [tunnel_of(flow) for flow in point.flows]
    found = sorted({kind for kind in kinds if kind})
    if not found:
        return ""
    packets = plural(int(np.isin(point.flow, [n for n, kind in enumerate(kinds) if kind]).sum()), "packet")
    return f"; {packets} of {point.name} in {' and '.join(found)}: capture inside of it at both points, or at neither"


def _median_ns(pair: Matched, rows: NDArray[np.bool_]) -> float:
    """How much later the second point saw these packets of the first, ns, in the middle. rows: matched ones."""
    return float(np.median(pair.second.seen_ns[pair.match[rows]] - pair.first.seen_ns[rows]))


@dataclass(frozen=True)
class SharedFlow:
    """One flow that both have seen: its place among the first point's, and among the second's; its packets of both,
    int64 places in the first; those that each alone has seen; and the middle of the differences, ns.
    """

    number: int
    theirs: int
    text: str
    both: NDArray[np.int64]
    ours_alone: NDArray[np.int64]
    theirs_alone: NDArray[np.int64]
    median_ns: float


def flows_of(pair: Matched) -> list[SharedFlow]:
    """Every flow of which a packet is in both, the largest first."""
    matched = pair.match >= 0
    sizes = np.bincount(pair.first.flow[matched], minlength=len(pair.first.flows))
    found = []
    for number in np.argsort(-sizes, kind="stable").tolist():
        if not sizes[number]:
            break
        rows = pair.usable[pair.first.flow[pair.usable] == number]
        both = rows[pair.match[rows] >= 0]
        theirs = int(np.bincount(pair.second.flow[pair.match[both]]).argmax())
        alone = pair.lone[pair.second.flow[pair.lone] == theirs]
        middle = float(np.median(pair.second.seen_ns[pair.match[both]] - pair.first.seen_ns[both]))
        text = flow_text(pair.first.flows[number])
        found.append(SharedFlow(number, theirs, text, both, rows[pair.match[rows] < 0], alone, middle))
    return found


def _streams(
    pair: Matched, bound_ns: int | None, *, one_clock: bool
) -> tuple[list[PacketStream], list[LeftOut], list[Reason]]:
    """The largest flows of what is in both, what is left out, and what is doubtful of them."""
    left_out = [
        LeftOut(f"packets of {point.name}", count, point.why_ambiguous)
        for point, count in zip(pair.points, pair.ambiguous, strict=True)
        if count
    ]
    flows = flows_of(pair)
    opposite = _opposites(pair, flows)
    signs = [flow.median_ns * opposite[flow.number] for flow in flows if flow.number in opposite]
    # Where the two directions of what is answered differ in sign, clocks are closer than the path is long.
    signs_tell = bool(signs) and max(signs) < 0
    streams, problems = list[PacketStream](), list[Reason]()
    shown = set[int](), set[int]()
    for place, flow in enumerate(flows[:MOST_FLOWS], start=1):
        back = opposite.get(flow.number)
        # A sign alone may be the clocks': a flow comes from the second point only where its opposite, or if it has
        # none, everything that has one, shows that signs are directions.
        turned = flow.median_ns < 0 and (signs_tell if back is None else back > 0)
        stream, more, offload = stream_of(pair, f"flow-{place}", flow, turned=turned, one_clock=one_clock)
        streams.append(stream)
        left_out += more
        problems += offload
        shown[0].update(flow.ours_alone.tolist())
        shown[1].update(flow.theirs_alone.tolist())
        if back is None and flow.median_ns < 0 and not turned and bound_ns is None and not one_clock:
            problems.append(_comes_early(pair, stream.name, flow))
    problems += _one_way_both(pair, flows, opposite, bound_ns)
    rest = sum(len(flow.both) for flow in flows[MOST_FLOWS:])
    left_out += [LeftOut("packets", rest, f"of flows beyond the {MOST_FLOWS} largest")] if rest else []
    left_out += unmatched(pair, shown)
    return streams, left_out, problems


def _opposites(pair: Matched, flows: Sequence[SharedFlow]) -> dict[int, float]:
    """{flow's number: middle of the differences of what goes the other way}, ns, where there is such: what is sent to
    whom the flow comes from, or by whom it goes to."""
    ends = {flow.number: ends_of(pair.first.flows[flow.number]) for flow in flows}
    sent_by: dict[bytes, list[SharedFlow]] = {}
    sent_to: dict[bytes, list[SharedFlow]] = {}
    for flow in flows:
        whence, whither = ends[flow.number]
        if whence and whence != whither:
            sent_by.setdefault(whence, []).append(flow)
            sent_to.setdefault(whither, []).append(flow)
    found: dict[int, float] = {}
    for flow in flows:
        whence, whither = ends[flow.number]
        back = {one.number: one for one in (*sent_by.get(whither, ()), *sent_to.get(whence, ()))}
        if not back and is_group(whither):
            # Of those who send to all of a group, some may be at the other end: those seen the other way round are.
            back = {one.number: one for one in sent_to[whither] if one.median_ns * flow.median_ns < 0}
        if back and whence != whither:
            both = np.concatenate([one.both for one in back.values()])
            found[flow.number] = float(np.median(pair.second.seen_ns[pair.match[both]] - pair.first.seen_ns[both]))
    return found


def _comes_early(pair: Matched, stream: str, flow: SharedFlow) -> Reason:
    return reason_of(
        "points-in-order",
        stream,
        "the files in the order in which packets pass their points, and clocks that agree",
        f"{flow.text}: half of them {duration(-flow.median_ns)} or more before",
        first=pair.first.name,
        second=pair.second.name,
    )


def _one_way_both(
    pair: Matched, flows: Sequence[SharedFlow], opposite: dict[int, float], bound_ns: int | None
) -> Iterator[Reason]:
    """What is said of conversations whose two directions seem to go the same way: that is the clocks, beyond a bound.

    If both directions take as long, half of the sum of the two is what the clocks differ by.
    """
    said = set[frozenset[bytes]]()
    for flow in flows:
        back, ends = opposite.get(flow.number), frozenset(ends_of(pair.first.flows[flow.number]))
        if back is None or ends in said or flow.median_ns * back <= 0:
            continue
        if max(abs(flow.median_ns), abs(back)) <= (bound_ns or 0):
            continue
        said.add(ends)
        apart = (flow.median_ns + back) / 2
        yield reason_of(
            "directions-opposite",
            "",
            f"packets of one direction at {pair.first.name} first, of the other at {pair.second.name}",
            f"{flow.text}: {duration(flow.median_ns)} later at {pair.second.name}, the other direction "
            f"{duration(back)}: the clock of {pair.second.name} is some {duration(abs(apart))} "
            f"{'ahead' if apart > 0 else 'behind'}, if both directions take equally long",
        )


def stream_of(
    pair: Matched, name: str, flow: SharedFlow, *, turned: bool, one_clock: bool, until_ns: int | None = None
) -> tuple[PacketStream, list[LeftOut], list[Reason]]:
    """One flow's stream, what is left out of it, and what is doubtful of it.

    until_ns: both points were watched from before the first packet on, and so long behind this instant that what the
    talker's had seen by then would have come; None: beyond the first and the last common packet that is not known.
    """
    talker, listener = pair.points[::-1] if turned else pair.points
    seen = pair.first.seen_ns[flow.both], pair.second.seen_ns[pair.match[flow.both]]
    alone, unseen = (flow.theirs_alone, flow.ours_alone) if turned else (flow.ours_alone, flow.theirs_alone)
    left_out, problems = list[LeftOut](), list[Reason]()
    counts: dict[str, int | None] = {}
    lone_ns = talker.seen_ns[alone]
    if turned:
        seen = seen[::-1]
    if large := _segments(talker, alone, listener, unseen):
        why = f"{flow.text}: unmatched, as are {large} larger than a frame: segmentation offload, not loss"
        left_out += [
            LeftOut(f"packets of {point.name}", len(places), why)
            for point, places in ((talker, alone), (listener, unseen))
        ]
        problems.append(_offload_problem(name, flow, large, len(alone) + len(unseen)))
        lone_ns, counts = lone_ns[:0], {"lost": None}
    else:
        why = f"{flow.text}: not seen by {talker.name}, where they come from"
        left_out.append(LeftOut(f"packets of {listener.name}", len(unseen), why))
    starts = np.concatenate([seen[0], lone_ns])
    ends = np.concatenate([seen[1], np.zeros(len(lone_ns), np.int64)])
    there = np.arange(len(starts)) < len(flow.both)
    both = pair.match[flow.both] if turned else flow.both
    places = np.concatenate([both, alone[: len(lone_ns)]])
    order = np.argsort(starts, kind="stable")
    if until_ns is None:
        # Beyond the first and the last common packet the other capture may not have been running.
        common = np.flatnonzero(there[order])
        inside = order[common[0] : common[-1] + 1]
        why = f"{flow.text}: before the first or after the last packet that both have"
    else:
        inside = order[starts[order] <= until_ns]
        why = f"{flow.text}: seen at the end of the capture, possibly still in flight"
    left_out.append(LeftOut(f"packets of {talker.name}", len(order) - len(inside), why))
    starts, ends, there = starts[inside], ends[inside], there[inside]
    if listener.dropped and not there.all():
        counts = {"lost": None}
    gap_ns = usual_gap_ns(starts)
    return (
        PacketStream(
            name=name,
            talker=talker.name,
            listener=listener.name,
            described=f"{flow.text} · {talker.name} → {listener.name} · a packet every {in_us(gap_ns)} (median)",
            stamps={"first_point": Stamps(starts, np.ones(len(starts), np.bool_)), "second_point": Stamps(ends, there)},
            metrics=("transit",),
            sent=np.ones(len(starts), np.bool_),
            arrived=there,
            arrival=in_order_of(ends, there),
            period_ns=gap_ns,
            two_clocks=not one_clock,
            counts=counts,
            places=places[inside],
        ),
        [one for one in left_out if one.count],
        problems,
    )


def _segments(one: CapturePoint, alone: NDArray[np.int64], other: CapturePoint, unseen: NDArray[np.int64]) -> int:
    """How many of what each of two points alone has seen are segments that a card cuts, or puts together.

    Such are larger than a frame, and the other point has seen what they were cut into. What is lost the other has
    nothing of.
    """
    if not len(alone) or not len(unseen):
        return 0
    return int((one.size[alone] > _FRAME).sum() + (other.size[unseen] > _FRAME).sum())


def _offload_problem(name: str, flow: SharedFlow, large: int, unmatched: int) -> Reason:
    return reason_of(
        "offload-off",
        name,
        "frames as on the wire at both points",
        f"{flow.text}: {large} larger than a frame; {len(flow.both)} match, {unmatched} do not, and how many are lost "
        "is not known",
    )


def unmatched(pair: Matched, shown: tuple[set[int], set[int]]) -> Iterator[LeftOut]:
    """What one capture alone has seen, of flows that are no stream, by flow: the largest by name."""
    ours = pair.usable[pair.match[pair.usable] < 0]
    rest = []
    for (point, other), places, told in zip((pair.points, pair.points[::-1]), (ours, pair.lone), shown, strict=True):
        kept = np.array([place for place in places.tolist() if place not in told], np.int64)
        rest.append((point, other, kept, np.bincount(point.flow[kept], minlength=len(point.flows))))
    for (point, other, kept, sizes), (_, _, others_kept, others_sizes) in zip(rest, rest[::-1], strict=True):
        largest = [at for at in np.argsort(-sizes, kind="stable").tolist() if sizes[at]]
        for at in largest[:_NAMED_FLOWS]:
            flow = point.flows[at]
            here, there = kept[point.flow[kept] == at], np.empty(0, np.int64)
            if flow in other.flows and others_sizes[other.flows.index(flow)]:
                there = others_kept[other.flow[others_kept] == other.flows.index(flow)]
            segments = _segments(point, here, other, there)
            why = f"segmentation offload: {NO_OFFLOAD}" if segments else _OTHER_SIDE
            yield LeftOut(
                f"packets of {point.name}", int(sizes[at]), f"{flow_text(flow)}: {other.name} did not see them: {why}"
            )
        more = int(sizes[largest[_NAMED_FLOWS:]].sum())
        if more:
            why = (
                f"of {counted(len(largest) - _NAMED_FLOWS, 'flows')} more that {other.name} did not see: {_OTHER_SIDE}"
            )
            yield LeftOut(f"packets of {point.name}", more, why)


def _problems(
    captures: Sequence[Capture], points: Sequence[CapturePoint], streams: Sequence[PacketStream]
) -> list[Reason]:
    found = []
    for capture, point in zip(captures, points, strict=True):
        if capture.cut:
            found.append(cut_short(point.name, f"{len(capture)} packets, then {capture.cut}"))
        if capture.questioned:
            found.append(
                reason_of(
                    "unit-possible",
                    point.name,
                    "packets spread over whole seconds",
                    capture.questioned,
                    "find out which program wrote its first bytes, which indicate nanoseconds; d4 c3 b2 a1 (or a1 b2 "
                    "c3 d4) indicate microseconds",
                    case="perhaps",
                )
            )
        if point.dropped:
            found.append(
                reason_of(
                    "capture-whole",
                    point.name,
                    "no packet dropped by the capture itself",
                    f"{point.dropped}, as its interface statistics say: packets missing in it may not be lost",
                )
            )
        found += clock_problems(point.name, went_back_ns(point.seen_ns), 0)
    for stream in streams:
        there = stream.stamps["second_point"].there
        start, end = stream.stamps["first_point"].ns[there], stream.stamps["second_point"].ns[there]
        found += clock_problems(stream.name, 0, shifted_ns(start, end))
    return found


FORMAT: Final = Format("pcap", "two captures (pcap, pcapng) of the same packets at two points", 2, recognises, read)
