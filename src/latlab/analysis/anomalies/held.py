"""Stalls: packets that were held somewhere, and passed all at once."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from latlab.analysis.anomalies.blocks import first_beyond, ranges, reached, runs
from latlab.analysis.anomalies.classes import NONE
from latlab.analysis.anomalies.context import Context, HostRecord
from latlab.analysis.anomalies.found import Claimed, FoundEpisode, Holds, Several, Told, packets
from latlab.analysis.anomalies.regular import find_combs
from latlab.analysis.anomalies.signals import Signals
from latlab.analysis.words import duration
from latlab.model.timestamps import APPLICATION, PLACES, TALKER
from latlab.result.types import Evidence

Int64 = NDArray[np.int64]
Float64 = NDArray[np.float64]

FIRST: Final = 8
_PIECE: Final = 1 << 20
"""Packets that are looked up at a time."""
MOSTLY: Final = 0.6
"""Of the stalls of its length meanwhile, throttling is at least this part: of those that come several times a second
some are a second apart as well."""


def find_holds(signals: Signals) -> Holds:
    """Every hold of at least two packets, in order of time.

    A hold begins with a late packet; those behind it arrived with it, much closer together than they were launched, so
    that each is less late than the one before by the time between their launches. It ends where one came in its own
    time, or was hardly late. A train is a hold by its shape, whatever the limit.
    """
    begins, ends = of_overlapping(*held_in(signals, *_stretches(signals)), *signals.trains)
    found = _holds(signals, begins, ends)
    least = _usual_at_first(signals)
    taken = ((found.begin >= signals.slow_start) | (found.length_ns > least)) & (
        found.slope <= -signals.thresholds.crowd
    )
    return found.taken(taken)


def _stretches(signals: Signals) -> tuple[Int64, Int64]:
    """Where packets that are all somewhat late, each hardly later than the one before, begin and end (excluded): of
    two at least, with a late one among those that lateness rises or falls to."""
    late, limit = signals.late_ns, signals.limit_ns
    begins, ends = runs(late > limit * np.float32(signals.thresholds.weak))
    several = ends - begins >= 2
    begins, ends = begins[several], ends[several]
    at = np.searchsorted(signals.late, begins)
    strong = at < len(signals.late)
    strong[strong] = signals.late[at[strong]] < ends[strong]
    begins, ends = begins[strong], ends[strong]
    place, starts = ranges(begins, ends)
    # Where lateness rises again, another hold may begin.
    new = np.zeros(len(place), np.bool_)
    new[1:] = late[place[1:]] - late[place[:-1]] > limit[place[:-1]]
    new[starts] = True
    starts = np.flatnonzero(new)
    begins = place[starts]
    ends = begins + np.diff(starts, append=len(place))
    whole = ends - begins >= 2
    return begins[whole], ends[whole]


def held_in(signals: Signals, begins: Int64, ends: Int64) -> tuple[Int64, Int64]:
    """The holds in such intervals, where they begin and end (excluded), ascending.

    In each the latest packet is looked for, and who came with it; then the same behind these.
    """
    place, starts = ranges(begins, ends)
    stops = np.repeat(starts + (ends - begins), ends - begins)
    late, limit = signals.late_ns[place], signals.limit_ns[place]
    latest = _latest_from_here(late, starts)
    firsts = np.flatnonzero((latest == np.arange(len(place))) & (late > limit))
    held = np.zeros(len(place), np.int64)
    arrived, due = signals.end_ns[place], signals.launch_ns[place]
    # A packet this much later than the first of them, beyond a share of the time between, was not part of the group.
    own = (arrived - arrived[:1]) - signals.thresholds.crowd * (due - due[:1])
    held[firsts] = first_beyond(own, firsts, stops[firsts], own[firsts] + 2 * signals.spread_ns) - firsts
    behind = latest + held[latest]
    behind[(held[latest] == 0) | (behind + 2 > stops)] = len(place)
    first = latest[reached(starts, behind)]
    size = held[first]
    # Of two packets the second one may be somewhat late on its own: it must be clearly late.
    second = np.minimum(first + 1, len(place) - 1)
    first = first[(size > 2) | ((size == 2) & (late[second] > limit[second]))]
    return place[first], place[first] + held[first]


def _latest_from_here(late: Float64, starts: Int64) -> Int64:
    """Of each packet, where the latest of those from it on is, the first of equal ones; intervals begin at `starts`."""
    n = len(late)
    order = n - 1 - np.argsort(late[::-1], kind="stable")
    rank = np.empty(n, np.int64)
    rank[order] = np.arange(n)
    # Nothing of an interval reaches into the one before: that one's numbers are all larger.
    before = np.repeat(np.arange(len(starts))[::-1] * n, np.diff(starts, append=n))
    largest = np.maximum.accumulate((rank + before)[::-1])[::-1] - before
    found: Int64 = order[largest]
    return found


def of_overlapping(begins: Int64, ends: Int64, train_begins: Int64, train_ends: Int64) -> tuple[Int64, Int64]:
    """The holds by the limit, and the trains, ascending: of two that overlap the one with more packets."""
    if not len(train_begins):
        return begins, ends
    begins, ends = np.append(begins, train_begins), np.append(ends, train_ends)
    order = np.lexsort((ends, begins))
    begins, ends = begins[order], ends[order]
    new = np.append(True, (begins[1:] != begins[:-1]) | (ends[1:] != ends[:-1]))
    begins, ends = begins[new], ends[new]
    reach = np.maximum.accumulate(ends)
    overlaps = np.concatenate(([False], begins[1:] < reach[:-1]))
    taken = np.ones(len(begins), np.bool_)
    for first, last in zip(*runs(np.append(overlaps[1:], False) | overlaps), strict=True):
        taken[first:last] = False
        kept = -1
        for number in range(first, last):
            if kept < 0 or begins[number] >= ends[kept]:
                kept = number
                taken[kept] = True
            elif ends[number] - begins[number] > ends[kept] - begins[kept]:
                taken[kept], taken[number] = False, True
                kept = number
    return begins[taken], ends[taken]


def _usual_at_first(signals: Signals) -> float:
    """How late packets may be in a slow beginning without having been held, ns.

    Twice what the first ones were usually; or twice what the latest of the first that do not look held was, where
    that is less: by these alone a beginning is slow.
    """
    if not signals.slow_start:
        return 0.0
    late = signals.level_ns[: signals.slow_start] + signals.late_ns[: signals.slow_start] - signals.usual_ns
    free = late if signals.held is None else late[~signals.held[: signals.slow_start]]
    return 2 * min(float(np.median(late[:FIRST])), float(np.max(free[:FIRST])))


def _holds(signals: Signals, begins: Int64, ends: Int64) -> Holds:
    """What is known of the packets of each hold."""
    if not len(begins):
        return Holds.none()
    edges = np.searchsorted(np.cumsum(ends - begins), np.arange(0, int((ends - begins).sum()) + _PIECE, _PIECE))
    pieces = [_piece(signals, begins[a:b], ends[a:b]) for a, b in pairwise(np.unique(edges).tolist()) if a < b]
    return Holds.joined(pieces)


def _piece(signals: Signals, begins: Int64, ends: Int64) -> Holds:
    """The same, of so many that all their packets are looked up at once."""
    places, firsts = ranges(begins, ends)
    excess = signals.stages.by_place(signals.excess_ns(places))
    sums = np.array([np.add.reduceat(one, firsts) for one in excess.values()])
    late, end = signals.late_ns[places], signals.end_ns[places]
    # Parts in which they made up for some of it take nothing from what the others were late by.
    whole = np.maximum(sums, 0).sum(axis=0)
    most = sums.argmax(axis=0)
    longest = sums[most, np.arange(len(begins))]
    return Holds(
        begin=begins,
        end=ends,
        length_ns=np.maximum.reduceat(late, firsts),
        released_ns=end[firsts],
        within_ns=np.maximum.reduceat(end, firsts) - end[firsts],
        places=tuple(excess),
        where=most,
        share=np.divide(longest, whole, out=np.zeros(len(begins)), where=whole > 0),
        slope=slopes_of(signals.launch_ns[places], end, firsts),
    )


def find_throttled(seen: Claimed) -> Iterator[FoundEpisode]:
    """Holds of the length that throttling has, at its intervals, where a kernel may have throttled."""
    context = seen.signals.context
    rules: dict[tuple[int, int], set[str]] = {}
    for where in (seen.holds.places[number] for number in np.unique(seen.holds.where).tolist()):
        for rule in context.throttles_at(where):
            rules.setdefault((rule.gap_ns, rule.every_ns), set()).add(where)
    for (gap_ns, every_ns), places in sorted(rules.items()):
        yield from _throttled(seen, gap_ns, every_ns, places)


def _throttled(seen: Claimed, gap_ns: int, every_ns: int, places: Collection[str]) -> Iterator[FoundEpisode]:
    """Those at these places that one rule explains: gap_ns of each every_ns."""
    context, thresholds, holds = seen.signals.context, seen.signals.thresholds, seen.holds
    tolerance = thresholds.throttled_tolerance
    alike = np.flatnonzero(
        np.isin(holds.where, [number for number, where in enumerate(holds.places) if where in places])
        & (gap_ns * (1 - tolerance) - context.period_ns <= holds.length_ns)
        & (holds.length_ns <= gap_ns * (1 + tolerance))
    )
    said = any(context.throttled_at(where) for where in places)
    for comb in find_combs(
        holds.released_ns[alike],
        context.period_ns,
        thresholds,
        repeats=2 if said else thresholds.throttled_repeats,
        every_ns=every_ns,
    ):
        among = comb.members[-1] - comb.members[0] + 1
        if not said and len(comb.members) < MOSTLY * among:
            continue
        for number in alike[comb.members].tolist():
            where = holds.place(number)
            hosts = [one for one in context.hosts_at(where) if _has(one, gap_ns, every_ns)]
            evidence = _evidence(holds, number, float(seen.signals.limit_ns[holds.begin[number]])) | {
                "gap_ns": gap_ns,
                "every_ns": every_ns,
                "times": len(comb.members),
                "kernel_says_so": context.throttled_at(where),
                "own_thread": where in (TALKER, APPLICATION),
                "settings": [_setting(one, gap_ns, every_ns) for one in hosts],
            }
            length_ns = float(holds.length_ns[number])
            text = (
                f"throttled for {duration(length_ns)}: {packets(evidence['held'])} queued in {PLACES[where]}, as every "
                f"{duration(every_ns)}, {len(comb.members)} times"
            )
            told = [f"{one['host']} has {one['setting']}, and {one['log']}" for one in evidence["settings"]]
            rows = seen.signals.row[holds.begin[number] : holds.end[number]]
            text = "; ".join((text, *told))
            yield FoundEpisode("throttled", int(rows[0]), int(rows[-1]), rows, length_ns, evidence, text)


def _has(host: HostRecord, gap_ns: int, every_ns: int) -> bool:
    return any((rule.gap_ns, rule.every_ns) == (gap_ns, every_ns) for rule in host.throttles)


def _setting(host: HostRecord, gap_ns: int, every_ns: int) -> dict[str, str]:
    """What a host's kernel was set to, and what its log says of it."""
    rule = next(one for one in host.throttles if (one.gap_ns, one.every_ns) == (gap_ns, every_ns))
    return {"host": host.host, "setting": rule.setting, "log": host.log}


def find_stalls(seen: Claimed) -> Iterator[Several]:
    """Every hold that was no throttling."""
    holds = seen.holds
    if not len(holds):
        return
    places, starts = ranges(holds.begin, holds.end)
    free = np.flatnonzero(np.maximum.reduceat(seen.class_of[seen.signals.row[places]], starts) == NONE)
    if not len(free):
        return
    places, starts = ranges(holds.begin[free], holds.end[free])
    context, limit_ns = seen.signals.context, seen.signals.limit_ns[holds.begin]

    def tell(one: int) -> Told:
        number = int(free[one])
        return _stall(holds, number, float(limit_ns[number]), context)

    rows, length_ns, where = seen.signals.row[places], holds.length_ns[free], holds.where[free]
    yield Several("stall", rows, starts, length_ns, tell, holds.places, where)


def _stall(holds: Holds, number: int, limit_ns: float, context: Context) -> Told:
    """What is said of a hold that is a stall."""
    evidence = _evidence(holds, number, limit_ns)
    length_ns = float(holds.length_ns[number])
    text = (
        f"stall of {duration(length_ns)}: {packets(evidence['held'])} queued in {PLACES[evidence['where']]}, all "
        f"arrived within {duration(evidence['within_ns'])}"
    )
    stolen = _stolen(context, evidence["where"])
    # Less than the stall lasted cannot have been its reason.
    told = [
        f"{duration(ns)} of CPU time were stolen from {host} in the whole cell"
        for host, ns in stolen.items()
        if ns >= length_ns
    ]
    return evidence | ({"stolen_ns": stolen} if stolen else {}), "; ".join((text, *told))


def _stolen(context: Context, where: str) -> dict[str, int]:
    """{host: CPU time that was stolen from it in the whole cell, ns}, of those that may have held packets there."""
    return {one.host: one.stolen_ns for one in context.hosts_at(where) if one.stolen_ns}


def _evidence(holds: Holds, number: int, limit_ns: float) -> Evidence:
    return {
        "length_ns": round(float(holds.length_ns[number])),
        "held": int(holds.end[number] - holds.begin[number]),
        "where": holds.place(number),
        "share": round(float(holds.share[number]), 3),
        "within_ns": int(holds.within_ns[number]),
        "slope": round(float(holds.slope[number]), 3),
        "limit_ns": round(limit_ns),
    }


def slopes_of(launch_ns: Int64, end_ns: Int64, starts: Int64) -> Float64:
    """How packets' latencies go with their launches, ns per ns, by least squares, float64 [k].

    int64 ns, of all parts one after the other; starts [k]: where each part, of two packets or more, begins.
    """
    sizes = np.diff(starts, append=len(launch_ns))
    launch = (launch_ns - np.repeat(launch_ns[starts], sizes)).astype(np.float64)
    latency = (end_ns - launch_ns).astype(np.float64)
    launch -= np.repeat(np.add.reduceat(launch, starts) / sizes, sizes)
    latency -= np.repeat(np.add.reduceat(latency, starts) / sizes, sizes)
    latency *= launch
    found: Float64 = np.add.reduceat(latency, starts) / np.add.reduceat(np.square(launch, out=launch), starts)
    return found
