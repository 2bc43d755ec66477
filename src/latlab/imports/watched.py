"""What `latlab watch` recorded, read as two captures are: every packet from each point to each other one, and gaps."""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from latlab import __version__
from latlab.analysis.around import kept_windows
from latlab.analysis.counts import NOT_MEANT, placed
from latlab.analysis.words import counted
from latlab.imports.base import PacketStream, ReadFiles, Stamps
from latlab.imports.capture import Capture, CapturePoint, points_of
from latlab.imports.capture_pair import MOST_FLOWS, Matched, flows_of, match_points, stream_of, unmatched
from latlab.imports.frames import ends_connection, find_payload, flow_text
from latlab.imports.numbering import NextFrameDue, Numbered, numbers_of
from latlab.imports.numbering.base import Frame, UtcTime, frame_of
from latlab.imports.packets import clock_problems, usual_gap_ns, went_back_ns
from latlab.imports.redundant_ends import CopyWay, RedundantEnd, Watching, redundant_ends
from latlab.model.directions import IN, OUT, READ
from latlab.model.errors import LabError
from latlab.model.reasons import Reason, reason_of
from latlab.model.rules import SMALLER_SAMPLE
from latlab.model.units import MILLISECOND_NS, SECOND_NS
from latlab.recordings.arrow import no_recording, read_recording
from latlab.recordings.cell import (
    ClockEdge,
    JudgedPackets,
    KeptAround,
    LeftOut,
    OtherFlow,
    PointTotals,
    Watched,
    WatchedBy,
    WatchedFlow,
    WatchedLosses,
    WatchedPoint,
    WatchReady,
)
from latlab.recordings.clock_offset import offset_between

TOOL: Final = "latlab watch"
LATENCY: Final = (
    "one way, from the first point to the second, as the kernel saw the packet at each: what lies before and after the "
    "two is not in any figure, and the schedule of the packets is not known"
)
_MOST_UNJUDGED: Final = 0.01
"""Of the packets at the last point."""
_PUBLISHER: Final = "publisher"
_ETHERNET: Final = 1
_FREED: Final = ("", "NOT_SPECIFIED", "QUEUE_PURGE")
"""Reasons that kernels give, or none, where they free what TCP has read."""
_RAW_IP: Final = 101


@dataclass(frozen=True)
class _Seen:
    """One point and direction: its name, the kernel it is of, and what it saw: packets, and their first bytes.
    segments: how many packets of the wire each packet of the capture stands for. host: by whose name the kernel's clock
    is known. until_ns: packets that it saw later might still have been in flight when watching ended. ways: those of
    PRP and HSR that its frames name. end: where both begin or end, of which it has the first copies; None: it is no
    such. tai_offset_s: TAI − UTC as its kernel has it; None: unknown.
    """

    name: str
    kernel: int
    host: str
    point: CapturePoint
    capture: Capture
    segments: NDArray[np.int64]
    until_ns: int
    ways: frozenset[CopyWay] = frozenset()
    end: RedundantEnd | None = None
    tai_offset_s: int | None = None

    @property
    def short(self) -> str:
        """Its name as part of a stream's."""
        return re.sub(r"[^A-Za-z0-9._]+", "-", self.name).strip("-")


@dataclass(frozen=True)
class _Dropped:
    """Packets that a kernel dropped: rows of its recording, with `host`, in whose network namespace each was, and
    `watcher`; and what they are matched by.
    """

    kernel: int
    rows: pl.DataFrame
    point: CapturePoint


class NothingSeenError(LabError):
    """No packet of the flow was seen at any point."""


def read_watched(watch: Watched, folder: Path, clocks: Sequence[ClockEdge] | None = None) -> ReadFiles:
    """What the points saw: a stream for each flow between two points, and one for each flow at a point.

    folder: where the recordings are. clocks: cell.json's, by which the clocks of two kernels are put on one; None: they
    are taken as they are, and differ by `clock_bound_ns` at most. NothingSeenError lists what was there instead.
    LabError: a recording is damaged.
    """
    seen, dropped, left_out, problems = _seen(watch, folder)
    if not any(len(one.point.seen_ns) for one in seen):
        raise _nothing_seen(watch)
    streams, notes = list[PacketStream](), list[str]()
    ambiguous = Counter[str]()
    onward = {one.name: np.zeros(len(one.point.key), np.bool_) for one in seen}
    for first, other in _pairs(seen):
        if not _may_pass_both(first, other):
            continue
        second, bound_ns = _by_clock_of(first, other, watch, clocks)
        pair = match_points(first.point, second.point, translated=True)
        if not (pair.match >= 0).any():
            continue
        for point, count in zip(pair.points, pair.ambiguous, strict=True):
            ambiguous[point.name] = max(ambiguous[point.name], count)
        found, more, doubtful = _between((first, other), second, pair, bound_ns, dropped)
        for stream in found:
            onward[stream.points[0]][stream.places] = True
        streams += found
        left_out += more
        problems += doubtful
    alike = {one.name: int((~one.point.alone).sum()) for one in seen}
    if not streams and len(seen) > 1:
        ambiguous.update(alike)
        problems.append(_nothing_between(seen))
    problems += _told_apart(ambiguous, seen)
    left_out += [
        LeftOut(f"packets at {name}", count, "identical to another one: they cannot be distinguished")
        for name, count in ambiguous.items()
        if count
    ]
    for one in seen if watch.sample == 1 else ():
        # In a scenario no clock is compared with a publisher's.
        found, said = _at(one, watch.clock_bound_ns if clocks is None else None, onward[one.name], dropped)
        streams += found
        notes += [*said, *_single_drops(one, onward[one.name], dropped)]
    flights = list[KeptAround]()
    for flight, ended in _flights(watch, folder):
        flights.append(flight)
        problems += filter(None, (ended, _overran(flight), _unjudged(flight)))
    notes += [_judged_text(one.trigger, one.judged) for one in flights if one.judged]
    return ReadFiles(
        TOOL,
        __version__,
        LATENCY,
        # Where one bound was stated for all clocks, it is no packet's own.
        streams=tuple(replace(one, bound_ns=None, hosts=("", "")) if clocks is None else one for one in streams),
        notes=(*_notes(watch, seen), *notes),
        left_out=tuple(left_out),
        problems=tuple(problems),
        facts={"packets": {one.name: len(one.point.seen_ns) for one in seen}, "flow": watch.flow},
        by_latlab=True,
        flights=tuple(flights),
    )


def _pairs(seen: Sequence[_Seen]) -> list[tuple[_Seen, _Seen]]:
    """All pairs of points: from each to the next first, from the first to the last at the end."""
    return [pair for distance in range(1, len(seen)) for pair in zip(seen, seen[distance:], strict=False)]


def _may_pass_both(first: _Seen, second: _Seen) -> bool:
    """Whether a frame may pass the one and the other: no frame of PRP's LAN A comes to LAN B, it is another copy."""
    if (first.end is None) != (second.end is None):
        return False
    return not (first.ways and second.ways) or not first.ways.isdisjoint(second.ways)


def _by_clock_of(
    first: _Seen, second: _Seen, watch: Watched, clocks: Sequence[ClockEdge] | None
) -> tuple[_Seen, int | None]:
    """The second point with its instants on the first one's clock, and by how much these may be off, ±; None: nothing
    bounds it, and they are as its own clock has them.
    """
    if first.kernel == second.kernel:
        return second, 0
    if clocks is None:
        return second, watch.clock_bound_ns
    seen_ns = second.point.seen_ns
    offset = offset_between(clocks, second.host, first.host, seen_ns)
    if offset is None or not offset.known.all():
        return second, None
    point = replace(second.point, seen_ns=seen_ns - offset.estimate_ns)
    until_ns = second.until_ns - int(offset.estimate_ns[-1])
    return replace(second, point=point, until_ns=until_ns), int(offset.half_ns.max())


def _seen(watch: Watched, folder: Path) -> tuple[list[_Seen], list[_Dropped], list[LeftOut], list[Reason]]:
    """Every point and direction that saw a packet, what kernels dropped, what is in neither, and what is doubtful."""
    points, captures, problems = list[Watching](), list[Capture](), list[Reason]()
    drops = [one for one in (_drops(watch, number, folder) for number in range(len(watch.kernels))) if one]
    for number, kernel in enumerate(watch.kernels):
        path = folder / f"{kernel.recording}.watched.arrow"
        recording = read_recording(path, "watched", run_id=watch.run_id)
        table, said = recording.table, kernel.said
        if said:
            # One program is attached after the other, and one agent after the other.
            since_ns = said.tai_ns if kernel.from_tai_ns is None else kernel.from_tai_ns
            table = table.filter(pl.col("tai_ns") >= since_ns)
        lost = _not_recorded(kernel)
        for point in (one for one in watch.points if one.kernel == number):
            for name, direction in zip(point.each, point.directions, strict=True):
                rows = table.filter((pl.col("point") == point.number) & (pl.col("out") == (direction != IN)))
                # A send call is recorded when its packet is queued: of two threads the later one may be first.
                if not (point.is_sockets and direction == OUT):
                    problems += clock_problems(name, went_back_ns(rows["tai_ns"].to_numpy()), 0)
                rows = rows.sort("tai_ns", maintain_order=True)
                unread = _totals(watch, point).unread if direction == IN else 0
                captures.append(_capture(name, rows, lost + unread))
                problems += _of_sockets(name, unread)
                points.append(Watching(name, _place_of(point.name, watch), direction, number, rows))
        problems += _of_recording(kernel.host, lost, complete=recording.complete, gaps=bool(recording.gaps))
    ends = list(redundant_ends(points))
    captures += [_capture(end.name, end.rows, _not_recorded(watch.kernels[end.kernel])) for end in ends]
    own: list[tuple[Watching | RedundantEnd, frozenset[CopyWay], RedundantEnd | None]] = [
        *((point, point.ways, None) for point in points),
        *((end, frozenset(end.ways), end) for end in ends),
    ]
    names = [one.name for one, _, _ in own]
    of_drops = [_capture("", rows, 0) for _, rows in drops]
    found, left_out = points_of([folder] * len(names), names, captures, of_drops)
    dropped = [_Dropped(kernel, rows, point) for (kernel, rows), point in zip(drops, found[len(names) :], strict=True)]
    found = found[: len(names)]
    until_ns = _until_ns(watch, [(one.kernel, point) for (one, _, _), point in zip(own, found, strict=True)])
    kept = [
        _Seen(
            name=one.name,
            kernel=one.kernel,
            host=watch.kernels[one.kernel].host,
            point=point,
            capture=capture,
            segments=one.rows["segments"].to_numpy().astype(np.int64),
            until_ns=until_ns[one.kernel],
            ways=ways,
            end=end,
            tai_offset_s=said.tai_offset_s if (said := watch.kernels[one.kernel].said) else None,
        )
        for (one, ways, end), point, capture in zip(own, found, captures, strict=True)
    ]
    problems += (*_gone(watch), *_unseen(watch, kept))
    return [one for one in kept if len(one.point.seen_ns)], dropped, left_out, problems


def _drops(watch: Watched, number: int, folder: Path) -> tuple[int, pl.DataFrame] | None:
    """The place of a kernel, and what it dropped of the flow; None: that was not recorded."""
    kernel = watch.kernels[number]
    path = folder / f"{kernel.recording}.dropped.arrow"
    if not (kernel.said.drops and kernel.said.drops.watched and path.exists()):
        return None
    rows = read_recording(path, "dropped", run_id=watch.run_id).table
    # The agent runs in its machine's own namespace.
    hosts = {kernel.said.netns: kernel.host} | {
        point.netns: _host_of(point, watch) or kernel.host for point in watch.points if point.kernel == number
    }
    known = {inode: host for inode, host in hosts.items() if inode}
    host = pl.col("netns").replace_strict(known, default=None, return_dtype=pl.String)
    return number, rows.with_columns(host=host, watcher=pl.lit(kernel.host))


def _losses(stream: PacketStream, talker: _Seen, dropped: Sequence[_Dropped]) -> WatchedLosses | None:
    """Where lost packets of a stream were dropped; None: no drops were watched, or how many are lost is unknown.

    A drop is of the packet that has the same payload, ports and identification; where address translation has changed
    these, the same payload. Of one kernel a packet is dropped after it was seen.
    """
    if not dropped or stream.places is None or stream.counts.get("lost", 0) is None:
        return None
    lost = np.flatnonzero(stream.sent & ~stream.arrived)
    return _placed(np.arange(len(lost)), _drops_of(talker, stream.places[lost], dropped))


def _dropped_after(one: _Seen, rows: NDArray[np.int64], dropped: Sequence[_Dropped]) -> WatchedLosses | None:
    """Where packets were dropped behind the last point that saw them; None: no kernel that was watched dropped one.

    rows: which of the point's packets these are. Of those that were not dropped it is unknown whether another point had
    to see them: they are no losses. Of packets to many there are copies, and that one was dropped says nothing of the
    others; nor does a drop of what packet sockets have had before. The kernel frees a FIN as if it were dropped once
    TCP has read it (sk_stream_kill_queues() in net/core/stream.c, tcp_v4_rcv()).
    """
    if not dropped or not len(rows) or _is_to_many(one, rows[0]):
        return None
    reason = pl.col("reason").fill_null("")
    drops = _drops_of(one, rows, dropped).filter(~reason.is_in(NOT_MEANT))
    ends = pl.Series([_ends_connection(one, rows[at]) for at in drops["sequence"]], dtype=pl.Boolean)
    drops = drops.filter(~(ends & drops.select(reason.is_in(_FREED)).to_series()))
    return _placed(drops["sequence"].unique().to_numpy(), drops) if drops.height else None


def _single_drops(one: _Seen, onward: NDArray[np.bool_], dropped: Sequence[_Dropped]) -> Iterator[str]:
    """Where flows were dropped of which a point saw one packet, which is no stream. onward: as in `_at`."""
    sizes = np.bincount(one.point.flow, minlength=len(one.point.flows))
    single = np.flatnonzero((sizes[one.point.flow] == 1) & ~onward).tolist() if dropped else []
    rows = [row for row in single if not _is_to_many(one, row)]
    if losses := _dropped_after(one, np.array(rows, np.int64), dropped):
        told = ", ".join(
            f"{place.packets} {place.place} ({place.reason or place.function or 'no reason given'})"
            for place in losses.places
        )
        yield f"{one.name}: {counted(losses.lost, 'flow')} of a single packet dropped: {told}"


def _ends_connection(one: _Seen, row: int) -> bool:
    capture, place = one.capture, one.point.place[row]
    view = memoryview(capture.data)
    found = find_payload(view, capture.first[place], capture.captured[place], capture.wire[place], capture.link[place])
    return found is not None and ends_connection(view, found)


def _is_to_many(one: _Seen, row: int) -> bool:
    """Whether a packet is to a group or to all."""
    place = one.point.place[row]
    first = one.capture.first[place]
    if one.capture.link[place] == _ETHERNET:
        return bool(one.capture.data[first] & 1)
    version = one.capture.data[first] >> 4
    return bool(one.capture.data[first + (24 if version == 6 else 16)] >= (0xFF if version == 6 else 0xE0))


def _placed(lost: NDArray[np.integer[Any]], drops: pl.DataFrame) -> WatchedLosses:
    """lost: the packets, as `drops` names them in `sequence`."""
    missing = pl.DataFrame({"stream": np.zeros(len(lost), np.uint16), "sequence": lost.astype(np.uint64)})
    return WatchedLosses.model_validate(placed(missing, drops).document())


def _drops_of(talker: _Seen, places: NDArray[np.int64], dropped: Sequence[_Dropped]) -> pl.DataFrame:
    """The drops of some of a point's packets, with `sequence`: which of `places` it is."""
    found = list[pl.DataFrame]()
    for one in dropped:
        sequences = np.full(len(one.rows), -1, np.int64)
        for name in ("key", "numbered", "bare"):
            own, theirs = getattr(talker.point, name), getattr(one.point, name)
            values, count = np.unique(own, return_counts=True)
            is_one = (count[np.searchsorted(values, own[places])] == 1) & (own[places] != 0)
            sequence_of = dict(zip(own[places][is_one].tolist(), np.flatnonzero(is_one).tolist(), strict=True))
            for row, value in zip(one.point.place.tolist(), theirs.tolist(), strict=True):
                if sequences[row] < 0:
                    sequences[row] = sequence_of.get(value, -1)
        rows = one.rows.with_columns(stream=pl.lit(0, pl.UInt16), sequence=pl.Series(sequences))
        rows = rows.filter(pl.col("sequence") >= 0).cast({"sequence": pl.UInt64})
        if one.kernel == talker.kernel:
            since_ns = talker.point.seen_ns[places[rows["sequence"].to_numpy()]]
            rows = rows.filter(pl.col("tai_ns") >= pl.Series(since_ns, dtype=pl.Int64))
        found.append(rows)
    return pl.concat(found)


def _flights(watch: Watched, folder: Path) -> Iterator[tuple[KeptAround, Reason | None]]:
    """What was kept of each kernel around late packets, and why not all of it was; nothing without a trigger."""
    for kernel in watch.kernels:
        if watch.trigger is None or (agent := kernel.trace) is None:
            continue
        why = agent.error.what if agent.error else "" if agent.done else "it reported no end"
        tables = list[pl.DataFrame]()
        for table in ("trace", "tasks", "kept"):
            path = folder / f"{kernel.recording}.{table}.arrow"
            try:
                tables.append(read_recording(path, table, run_id=watch.run_id).table)
            except LabError as error:
                why = why or f"{path.name}: {error.what}"
                tables.append(no_recording(table).table)
        flight = KeptAround(
            host=kernel.host,
            trigger=watch.trigger,
            judged=kernel.totals.judged,
            kept=agent.totals.kept,
            windows=kept_windows(*tables),
        )
        yield flight, _ended_early(kernel.host, why) if why else None


def _ended_early(host: str, why: str) -> Reason:
    return reason_of("trace-whole", host, "a trace from the beginning to the end", why, case="ended")


def _judged_text(trigger: str, judged: JudgedPackets) -> str:
    """What is said of packets that were judged while they passed."""
    return (
        f"{trigger}: {judged.late} of {judged.judged} packets late from the first point to the last, "
        f"{judged.unjudged} not judged (`latlab show stages`)"
    )


def _overran(flight: KeptAround) -> Reason | None:
    """What is doubtful of what was kept: windows without all of their events."""
    if not (flight.kept and flight.kept.overran):
        return None
    return reason_of(
        "trace-whole",
        flight.host,
        "every window whole",
        f"{flight.kept.overran} of {counted(flight.kept.windows, 'window')} incomplete",
        case="overran",
    )


def _unjudged(flight: KeptAround) -> Reason | None:
    """What is doubtful of late packets that were found: others, of packets that were not judged, may be missing."""
    if not (judged := flight.judged):
        return None
    total = judged.judged + judged.unjudged
    if judged.judged and judged.unjudged <= total * _MOST_UNJUDGED:
        return None
    return reason_of(
        "trace-whole",
        flight.host,
        f"at least {1 - _MOST_UNJUDGED:.0%} of the packets at the last point judged",
        f"{judged.unjudged} of {total} not judged" if total else "no packet reached the last point",
        case="unjudged",
    )


def _not_recorded(kernel: WatchedBy) -> int:
    """Packets for which its ring or its recording had no room."""
    return (kernel.totals.lost or 0) + kernel.totals.ring_full


def _host_of(point: WatchedPoint, watch: Watched) -> str:
    """In whose network namespace a point is; empty: the agent's own."""
    of_scenario = point.host if isinstance(watch, WatchedFlow) else ""
    return of_scenario or _place_of(point.name, watch).rstrip("/.")


def _place_of(name: str, watch: Watched) -> str:
    """Where a point's interface is, as it stands before the interface's name: a host, or a machine and a namespace."""
    if isinstance(watch, WatchedFlow):
        host, dot, _ = name.partition(".")
        return host + dot
    place, slash, _ = name.rpartition("/")
    return place + slash


def _capture(name: str, rows: pl.DataFrame, lost: int) -> Capture:
    """These rows of a recording, in order, as the packets of a capture file."""
    bytes_of = rows["bytes"].to_list()
    sizes = np.array([len(one) for one in bytes_of], np.int64)
    links = np.where(rows["ethernet"].to_numpy(), _ETHERNET, _RAW_IP).astype(np.uint16)
    # A tag that the kernel keeps next to the frame is no part of it: what is left out of a frame is in no length.
    return Capture(
        b"".join(bytes_of),
        array("q", rows["tai_ns"].to_list()),
        array("q", (np.cumsum(sizes) - sizes).tolist()),
        array("q", sizes.tolist()),
        array("q", rows["length"].to_list()),
        array("H", links.tolist()),
        array("q", [0] * rows.height),
        [name],
        dropped={(0, 0): lost} if lost else {},
    )


def _of_recording(host: str, lost: int, *, complete: bool, gaps: bool) -> Iterator[Reason]:
    if lost:
        yield reason_of(
            "ring-full",
            host,
            "a record of every packet",
            f"{counted(lost, 'record')} lost: their packets are not in any figure, and how many are lost on the path "
            "is not known",
            case="watched",
        )
    if gaps or not complete:
        yield reason_of(
            "recordings-whole",
            host,
            "the complete recording",
            "it is damaged: rows are missing" if gaps else "it ends early, as after an agent was killed",
            case="watched",
        )


def _gone(watch: Watched) -> Iterator[Reason]:
    """Points whose interface was not at the end what it was at the beginning."""
    for point in watch.points:
        if point.became:
            yield reason_of(
                "points-stayed",
                point.name,
                "each interface present until the end, under its name",
                f"{point.became}: packets are those of the original interface, as long as it existed",
            )


def _unseen(watch: Watched, every: Sequence[_Seen]) -> Iterator[Reason]:
    """Points that saw no packet of the flow in any direction that was asked for, and what they saw instead."""
    for point in watch.points:
        if any(len(one.point.seen_ns) for one in every if one.name in point.each):
            continue
        if passed := sum(_passed(watch, point)):
            yield reason_of(
                "packets-arrived", point.name, f"one packet in {watch.sample}", _not_sampled(passed), case="sample"
            )
            continue
        yield reason_of(
            "packets-arrived",
            point.name,
            f"packets of {watch.flow!r}",
            "; ".join(("none", *(_busiest(name, flows) for name, flows in _others(watch, [point]) if flows))),
            case="point",
        )


def _passed(watch: Watched, point: WatchedPoint) -> tuple[int, ...]:
    """How many packets of the flow passed a point, recorded or not, in each of its directions; 0: unknown."""
    totals = _totals(watch, point)
    return tuple(totals.passed_in if direction == IN else totals.passed_out for direction in point.directions)


def _totals(watch: Watched, point: WatchedPoint) -> PointTotals:
    points = watch.kernels[point.kernel].totals.points
    return points[point.number] if point.number < len(points) else PointTotals()


def _missing(watch: Watched) -> Iterator[str]:
    """What of sockets a kernel does not show, and why."""
    for kernel in watch.kernels:
        yield from (f"{kernel.host}: {line}" for line in (kernel.said.watch or WatchReady()).missing)


def _of_sockets(name: str, unread: int) -> Iterator[Reason]:
    if unread:
        yield reason_of(
            "events-seen",
            name,
            "a record of every packet",
            f"{counted(unread, 'packet')} without a record: how many are lost on the path is not known",
            case="unread",
        )


def _not_sampled(passed: int) -> str:
    return (
        f"{counted(passed, 'packet')} of the flow passed, none of the sample: too few, or their payloads are equal, "
        "which are all in it or all not"
    )


def _nothing_seen(watch: Watched) -> NothingSeenError:
    if passed := sum(sum(_passed(watch, point)) for point in watch.points):
        return NothingSeenError(f"{watch.flow!r}: {_not_sampled(passed)}", remedy=SMALLER_SAMPLE)
    lines = [_busiest(name, flows, "\n    ") for name, flows in _others(watch, watch.points)]
    what = "\n  ".join((f"no packet of {watch.flow!r} was seen at any point", *lines, *_missing(watch)))
    return NothingSeenError(what, remedy="correct the flow, or watch other interfaces")


def _others(watch: Watched, points: Sequence[WatchedPoint]) -> Iterator[tuple[str, list[OtherFlow]]]:
    """(name of a point with its direction, what was seen there instead, the busiest flow first)."""
    for point in points:
        others = watch.kernels[point.kernel].totals.others
        for name, direction in zip(point.each, point.directions, strict=True):
            yield name, [one for one in others if one.point == point.number and one.out == (direction != IN)]


def _busiest(name: str, flows: Sequence[OtherFlow], between: str = ", ") -> str:
    if not flows:
        return f"{name}: no other packets either"
    told = [f"{counted(flow.packets, 'packet')} of {other_text(flow)}" for flow in flows]
    return f"{name}, the busiest flows:{between if between != ', ' else ' '}{between.join(told)}"


_PROTOCOLS: Final = {1: "ICMP", 6: "TCP", 17: "UDP", 58: "ICMPv6", 132: "SCTP"}


def other_text(flow: OtherFlow) -> str:
    """A flow that no rule fitted, for people: "UDP 10.0.0.1:5000 → 10.0.0.2:5001, VLAN 10"."""
    if flow.protocol is None:
        text = f"EtherType {flow.ether_type:#06x}"
    else:
        ends = [f"[{end}]" if ":" in end else end for end in (str(flow.source), str(flow.destination))]
        if flow.ports:
            ends = [f"{end}:{port}" for end, port in zip(ends, flow.ports, strict=True)]
        name = _PROTOCOLS.get(flow.protocol, f"IP protocol {flow.protocol}")
        text = f"{name} {' → '.join(ends)}"
        if flow.dscp:
            text += f", DSCP {flow.dscp}"
    if flow.tag:
        text += f", VLAN {flow.tag[0]} PCP {flow.tag[1]}"
    return text


def _until_ns(watch: Watched, points: Sequence[tuple[int, CapturePoint]]) -> list[int]:
    """By kernel: packets seen later might still have been in flight when a point was watched no more.

    points: each with its kernel. Of a lab that was killed the last record says until when its agents watched at least.
    """
    found = []
    for number, kernel in enumerate(watch.kernels):
        last_ns = max((int(one.seen_ns.max(initial=0)) for at, one in points if at == number), default=0)
        found.append(last_ns - watch.grace_ns if kernel.until_tai_ns is None else kernel.until_tai_ns)
    return found


def _is_turned(first: _Seen, second: _Seen, median_ns: float, bound_ns: int | None) -> bool:
    """Whether packets come to the second point first.

    By one clock it is seen. On two kernels packets leave the one and come in at the other; where both points are of one
    direction only a difference beyond the clocks' bound says it.
    """
    if first.kernel == second.kernel:
        return median_ns < 0
    leaves = [one.name.endswith(":out") for one in (first, second)]
    if leaves[0] != leaves[1]:
        return leaves[1]
    return bound_ns is not None and median_ns < -bound_ns


def _between(
    points: tuple[_Seen, _Seen], second: _Seen, pair: Matched, bound_ns: int | None, dropped: Sequence[_Dropped]
) -> tuple[list[PacketStream], list[LeftOut], list[Reason]]:
    """The flows of what both points saw, what is left out, and what is doubtful. second: on the first one's clock."""
    first, other = points
    streams, left_out, problems = list[PacketStream](), list[LeftOut](), list[Reason]()
    one_clock = first.kernel == second.kernel
    flows = flows_of(pair)
    shown = set[int](), set[int]()
    for place, flow in enumerate(flows[:MOST_FLOWS], start=1):
        turned = _is_turned(first, second, flow.median_ns, bound_ns)
        ends = (second.short, first.short) if turned else (first.short, second.short)
        name = "-to-".join(ends) + (f".flow-{place}" if len(flows) > 1 else "")
        stream, more, doubtful = stream_of(
            pair,
            name,
            flow,
            turned=turned,
            one_clock=one_clock,
            until_ns=(second if turned else first).until_ns,
        )
        if len(stream.sent):
            hosts = (second.host, first.host) if turned else (first.host, second.host)
            losses = _losses(stream, other if turned else first, dropped)
            way = (second.name, first.name) if turned else (first.name, second.name)
            streams.append(replace(stream, bound_ns=bound_ns, hosts=hosts, losses=losses, points=way))
        left_out += more
        problems += doubtful
        shown[0].update(flow.ours_alone.tolist())
        shown[1].update(flow.theirs_alone.tolist())
    left_out += unmatched(pair, shown)
    rest = sum(len(flow.both) for flow in flows[MOST_FLOWS:])
    if rest:
        where = f"between {first.name} and {second.name}"
        left_out.append(LeftOut(f"packets {where}", rest, f"of flows beyond the {MOST_FLOWS} largest"))
    return streams, left_out, problems


def _at(
    one: _Seen, bound_ns: int | None, onward: NDArray[np.bool_], dropped: Sequence[_Dropped]
) -> tuple[list[PacketStream], list[str]]:
    """The largest flows of one point: how long after the one before it each packet came, and what numbers say that
    their senders gave them, which is a note, too; and publishers that were silent for too long: what is watched is not
    right then, the figures are. bound_ns: by how much other clocks may be off; None: nothing bounds it. onward:
    which of its packets are of streams that begin here. Of the others the losses are said here.
    """
    sizes = np.bincount(one.point.flow, minlength=len(one.point.flows))
    largest = [number for number in np.argsort(-sizes, kind="stable").tolist() if sizes[number] > 1]
    streams, notes = list[PacketStream](), list[str]()
    for place, number in enumerate(largest[:MOST_FLOWS], start=1):
        rows = np.flatnonzero((one.point.flow == number) & (one.point.seen_ns <= one.until_ns))
        seen_ns = one.point.seen_ns[rows]
        if len(seen_ns) < 2:
            continue
        flow = f".flow-{place}" if len(largest) > 1 else ""
        name = f"at-{one.short}{flow}"
        counts: dict[str, int | None] = {"lost": None, "duplicated": None, "reordered": None}
        every = np.ones(len(seen_ns) - 1, np.bool_)
        stamps = {"previous": Stamps(seen_ns[:-1], every), "first_point": Stamps(seen_ns[1:], every)}
        sampled = None
        if found := numbers_of([_frame(one.capture, at) for at in one.point.place[rows].tolist()]):
            gaps = found.gaps
            lost = None if found.numbering.of_node else gaps.lost
            counts = {"lost": lost, "duplicated": gaps.duplicated, "reordered": gaps.reordered}
            notes.append(f"{name}: {_numbers_text(found)}")
            if found.counted:
                stamps["counted"] = _counted(found, seen_ns)
            if found.sampled:
                sampled = None if bound_ns is None else _sampled(one, flow, found.sampled, seen_ns)
                notes.append(_sampled_text(name, found.sampled, is_shown=sampled is not None))
            # A record that was lost is no silence.
            if not one.capture.dropped:
                notes += [f"{name}: {told}" for told in _silences(found.promises, seen_ns)]
                notes += _silent_now(one, found.promises, seen_ns)
        gap_ns = usual_gap_ns(seen_ns)
        text = flow_text(one.point.flows[number])
        streams.append(
            PacketStream(
                name=name,
                talker=one.name,
                listener=one.name,
                described=f"{text} · {one.name} · a packet every {gap_ns / 1000:g} µs (median)",
                stamps=stamps,
                metrics=("interarrival", "jitter") if "counted" in stamps else ("interarrival",),
                sent=every,
                arrived=every,
                arrival=np.arange(len(every), dtype=np.int64),
                period_ns=gap_ns,
                two_clocks=False,
                counts=counts,
                bound_ns=0,
                hosts=(one.host, one.host),
                losses=_dropped_after(one, rows[~onward[rows]], dropped),
                points=(one.name,),
            )
        )
        streams += [sampled] if sampled else []
    return streams, notes


def _sampled(
    one: _Seen, flow: str, sampled: Sequence[UtcTime | None], seen_ns: NDArray[np.int64]
) -> PacketStream | None:
    """How long after its sample each frame came; None: it is not known what this kernel's clock shows of UTC."""
    if one.tai_offset_s is None:
        return None
    n = len(seen_ns)
    there = np.array([instant is not None for instant in sampled], np.bool_)
    utc_ns = np.array([instant.ns if instant else 0 for instant in sampled], np.int64)
    every = np.ones(n, np.bool_)
    return PacketStream(
        name=f"sampled-to-{one.short}{flow}",
        talker=_PUBLISHER,
        listener=one.name,
        described=f"refrTm of sampled values · {one.name}",
        stamps={"sampled": Stamps(utc_ns + one.tai_offset_s * SECOND_NS, there), "first_point": Stamps(seen_ns, every)},
        metrics=("sample_latency",),
        sent=every,
        arrived=every,
        arrival=np.arange(n, dtype=np.int64),
        period_ns=usual_gap_ns(seen_ns),
        two_clocks=True,
        counts={"lost": None, "duplicated": None, "reordered": None},
    )


def _sampled_text(name: str, sampled: Sequence[UtcTime | None], *, is_shown: bool) -> str:
    """What is said of the times of samples, and of the clock that they are by."""
    there = [instant for instant in sampled if instant]
    bits = [instant.accuracy_bits for instant in there if instant.accuracy_bits is not None]
    stated = f"; it states ± {2 ** -min(bits) * 1e6:.3g} µs at worst" if bits else ""
    if len(bits) < len(there):
        stated += f"; {len(there) - len(bits)} do not state its accuracy"
    shown = (
        "± is --clock-bound" if is_shown else "no latency from there: how far that clock may be off is not known here"
    )
    return (
        f"{name}: {len(there)} of {counted(len(sampled), 'frame')} have a usable refrTm, the time of the sample by the "
        f"publisher's clock{stated}; {shown}"
    )


def _silences(promises: Sequence[NextFrameDue], seen_ns: NDArray[np.int64]) -> list[str]:
    """Of each source that came later than it had promised: how often, how late, and how often frames were missing."""
    by_source: dict[bytes, list[tuple[NextFrameDue, int]]] = {}
    for one in promises:
        if one.following is not None and (gap_ns := int(seen_ns[one.following] - seen_ns[one.place])) > one.ns:
            by_source.setdefault(one.source, []).append((one, gap_ns))
    told = []
    for source, found in by_source.items():
        worst, gap_ns = max(found, key=lambda row: row[1] - row[0].ns)
        missing = sum(not one.whole for one, _ in found)
        told.append(
            f"{_source_text(source)}: {counted(len(found), 'silence')} longer than its timeAllowedToLive, the worst "
            f"{gap_ns / MILLISECOND_NS:g} ms of {worst.ns / MILLISECOND_NS:g} ms; in {missing} of them frames are "
            "missing by their numbers"
        )
    return told


def _silent_now(one: _Seen, promises: Sequence[NextFrameDue], seen_ns: NDArray[np.int64]) -> list[str]:
    """Sources of which nothing came until the end although it was due: they may have been stopped."""
    return [
        f"{one.name}: {_source_text(last.source)}: no frame in the last "
        f"{(one.until_ns - seen_ns[last.place]) / MILLISECOND_NS:g} ms, timeAllowedToLive is "
        f"{last.ns / MILLISECOND_NS:g} ms: the publisher has stopped, or its frames do not come here"
        for last in promises
        if last.following is None and one.until_ns - seen_ns[last.place] > last.ns
    ]


def _source_text(source: bytes) -> str:
    return source.decode("ascii", "backslashreplace")


def _numbers_text(found: Numbered) -> str:
    """What the numbers of senders say, for people."""
    gaps = found.gaps
    every = "".join(f", one every {ns / 1000:g} µs," for ns in found.periods_ns)
    every += "".join(f", {rate} samples/s," for rate in sorted(set(found.rates)))
    said = "".join(f"; {count} with: {what}" for what, count in sorted(found.said.items()))
    missing = "that all packets of a node share," if found.numbering.of_node else f"{gaps.lost} are missing here,"
    return (
        f"by the {found.numbering.title} of {counted(found.sources, 'source')}{every} {missing} "
        f"{gaps.duplicated} came again and {gaps.reordered} late{said}"
    )


def _counted(found: Numbered, seen_ns: NDArray[np.int64]) -> Stamps:
    """When each packet but the first would have come, had it taken as long as the one before it of its source."""
    due_ns, there = np.zeros(len(seen_ns), np.int64), np.zeros(len(seen_ns), np.bool_)
    for place, since in enumerate(found.counted):
        if since:
            due_ns[place], there[place] = seen_ns[since.before] + since.ns, True
    return Stamps(due_ns[1:], there[1:])


def _frame(capture: Capture, place: int) -> Frame | None:
    first = capture.first[place]
    data = bytes(capture.data[first : first + capture.captured[place]])
    return frame_of(data, capture.wire[place], ethernet=capture.link[place] == _ETHERNET)


def _nothing_between(seen: Sequence[_Seen]) -> Reason:
    alike = [f"{int((~one.point.alone).sum())} of {len(one.point.seen_ns)} at {one.name}" for one in seen]
    return reason_of(
        "packets-distinct",
        "",
        "packets that pass two points and can be distinguished",
        f"none; packets identical to others: {', '.join(alike)}",
        case="nowhere",
    )


def _told_apart(ambiguous: Mapping[str, int], seen: Sequence[_Seen]) -> Iterator[Reason]:
    total = {one.name: len(one.point.seen_ns) for one in seen}
    told = [f"{count} of {total[name]} at {name}" for name, count in ambiguous.items() if count]
    if told and any(ambiguous.values()):
        yield reason_of(
            "packets-distinct",
            "",
            "each packet differs from all others, by its payload or by an unchanged IPv4 identification",
            f"{', '.join(told)}: they are not counted in latencies or losses",
        )


def _superpackets(one: _Seen) -> str | None:
    """What is said of packets that stand for several of the wire; None: there are none."""
    large = one.segments > 1
    if not large.any():
        return None
    number = int(large.sum())
    return (
        f"{one.name}: of {counted(len(large), 'packet')} {number} {'stands' if number == 1 else 'stand'} for "
        f"{int(one.segments[large].sum())} of the wire (segmentation offload, GRO); each is one packet here"
    )


def _fragments(one: _Seen) -> int:
    return sum(frame is not None and frame.fragment for frame in map(partial(_frame, one.capture), one.point.place))


def _sample_notes(watch: Watched, seen: Sequence[_Seen]) -> Iterator[str]:
    recorded = {one.name: len(one.point.seen_ns) for one in seen}
    parts = [
        f"{recorded.get(name, 0)} of {passed} at {name}"
        for point in watch.points
        for name, passed in zip(point.each, _passed(watch, point), strict=True)
        if passed
    ]
    yield (
        f"a sample: of {watch.sample} packets one is recorded, by a digest of its payload, the same ones at every point"
        f"{': ' if parts else ''}{', '.join(parts)}; latencies and losses are of the sample, and the time between "
        "packets is not measured"
    )
    if not all((kernel.said.watch or WatchReady()).reads_pages for kernel in watch.kernels):
        yield (
            "on kernels older than Linux 6.12 the digest is of the linear part of a packet: where the points have "
            "different parts in it, packets of the sample appear as lost"
        )


def _notes(watch: Watched, seen: Sequence[_Seen]) -> Iterator[str]:
    is_alone = not isinstance(watch, WatchedFlow)
    if is_alone:
        yield f"watched: {watch.flow}; nothing was sent and nothing was changed"
        yield (
            "`in` is where the kernel receives a packet (tracepoint netif_receive_skb), `out` where it hands it to a "
            "driver (net_dev_start_xmit)"
        )
    if any(READ in point.directions for point in watch.points):
        yield "`read` is where vhost-net or a program, such as QEMU, reads the packet from a tap or macvtap"
    if any(point.is_sockets for point in watch.points):
        yield (
            "`socket:out` is where a program calls send, `socket:in` where its receive call has copied the packet; TCP "
            "is not recorded there"
        )
        yield from _missing(watch)
    if is_alone and len({one.kernel for one in seen}) == 1:
        yield "all points are in one kernel: one clock, ± 0"
    elif is_alone:
        # What compares clocks, the page that a guest shares with its host or an exchange, is of a run's test bed.
        stated = "± is --clock-bound" if watch.clock_bound_ns is not None else "without --clock-bound there is no ±"
        yield (
            f"the points are in {len({one.kernel for one in seen})} kernels, and `latlab watch` does not compare their "
            f"clocks: between them {stated}; a scenario with `flows` compares them, also a guest's with its VM host's"
        )
    if is_alone:
        yield "the verdict is on the recordings alone: CPUs, interrupts and settings of the machines were not checked"
    if watch.sample > 1:
        yield from _sample_notes(watch, seen)
    yield from (one.end.note for one in seen if one.end)
    yield from filter(None, map(_superpackets, (one for one in seen if not one.end)))
    if fragments := sum(_fragments(one) for one in seen if not one.end):
        yield (
            f"{counted(fragments, 'record')} of fragments of IP packets: each counts as a packet here, and only the "
            "first fragment has ports"
        )
    if not all((kernel.said.watch or WatchReady()).reads_pages for kernel in watch.kernels):
        yield "on kernels older than Linux 6.12 only the linear part of a packet, with its headers, was read"
    for kernel in watch.kernels:
        yield from (f"{kernel.host}: {line}" for line in (kernel.said.drops.missing if kernel.said.drops else ()))
    yield f"a packet counts as lost if it has not come within {watch.grace_ns // 1_000_000} ms before the end"
    yield from watch.notes
