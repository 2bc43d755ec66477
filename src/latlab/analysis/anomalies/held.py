"""Stalls: packets that were held somewhere, and passed all at once."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from latlab.analysis.anomalies.blocks import runs
from latlab.analysis.anomalies.comb import find_combs
from latlab.analysis.anomalies.found import Found, Hold, Seen, packets
from latlab.analysis.anomalies.host_records import HostRecord
from latlab.analysis.anomalies.signals import Signals
from latlab.analysis.anomalies.stages import APPLICATION, PLACES, TALKER
from latlab.analysis.anomalies.trains import Spans
from latlab.analysis.words import duration

Int64 = NDArray[np.int64]
Float64 = NDArray[np.float64]

FIRST: Final = 8
MOSTLY: Final = 0.6
"""Of the stalls of its length meanwhile, throttling is at least this part: of those that come several times a second
some are a second apart as well."""


def find_holds(signals: Signals) -> list[Hold]:
    """Every hold of at least two packets, in order of time.

    A hold begins with a late packet; those behind it arrived with it, much closer together than they were launched, so
    that each is less late than the one before by the time between their launches. It ends where one came in its own
    time, or was hardly late. A train is a hold by its shape, whatever the limit.
    """
    late = signals.late_ns
    begins, ends = runs(late > signals.limit_ns * np.float32(signals.thresholds.weak))
    several = np.flatnonzero(ends - begins >= 2)
    at = np.searchsorted(signals.late, begins[several])
    strong = at < len(signals.late)
    strong[strong] = signals.late[at[strong]] < ends[several][strong]
    spans: list[tuple[int, int]] = []
    for begin, end in zip(begins[several][strong].tolist(), ends[several][strong].tolist(), strict=True):
        # Where lateness rises again, another hold may begin.
        rises = np.flatnonzero(np.diff(late[begin:end]) > signals.limit_ns[begin : end - 1]) + begin + 1
        for first, last in pairwise([begin, *rises.tolist(), end]):
            spans += _held_in(signals, first, last)
    least = _usual_at_first(signals)
    return [
        hold
        for hold in _holds(signals, _with_trains(spans, signals.trains))
        if (hold.begin >= signals.slow_start or hold.length_ns > least)
        and _slope(signals, hold) <= -signals.thresholds.crowd
    ]


def _with_trains(spans: list[tuple[int, int]], trains: Spans) -> list[tuple[int, int]]:
    """The holds by the limit, and the trains, ascending: of two that overlap the one with more packets."""
    taken: list[tuple[int, int]] = []
    for span in sorted((*spans, *trains)):
        if not taken or span[0] >= taken[-1][1]:
            taken.append(span)
        elif span[1] - span[0] > taken[-1][1] - taken[-1][0]:
            taken[-1] = span
    return taken


def _usual_at_first(signals: Signals) -> float:
    """How late packets may be in a slow beginning without having been held, ns.

    Twice what the first ones were as a rule; or twice what the latest of the first that do not look held was, where
    that is less: by these alone a beginning is slow.
    """
    if not signals.slow_start:
        return 0.0
    late = signals.level_ns[: signals.slow_start] + signals.late_ns[: signals.slow_start] - signals.usual_ns
    free = late if signals.held is None else late[~signals.held[: signals.slow_start]]
    return 2 * min(float(np.median(late[:FIRST])), float(np.max(free[:FIRST])))


def _held_in(signals: Signals, begin: int, end: int) -> Iterator[tuple[int, int]]:
    """The holds in a stretch of packets that are all somewhat late, each hardly later than the one before."""
    while end - begin >= 2:
        first = begin + int(np.argmax(signals.late_ns[begin:end]))
        if signals.late_ns[first] <= signals.limit_ns[first]:
            return
        behind = signals.end_ns[first:end] - signals.end_ns[first]
        meant = signals.launch_ns[first:end] - signals.launch_ns[first]
        apart = behind > signals.thresholds.crowd * meant + 2 * signals.spread_ns
        held = int(np.argmax(apart)) if apart.any() else end - first
        # Of two packets the second one may be somewhat late by itself: it has to be plainly so.
        if held > 2 or (held == 2 and signals.late_ns[first + 1] > signals.limit_ns[first + 1]):
            yield first, first + held
        begin = first + max(held, 1)


def _holds(signals: Signals, spans: list[tuple[int, int]]) -> list[Hold]:
    """What is known of the packets of each span: those of all are looked up at once."""
    if not spans:
        return []
    begins, ends = np.array(spans, np.int64).T
    firsts = np.cumsum(ends - begins) - (ends - begins)
    places = np.arange((ends - begins).sum()) - np.repeat(firsts - begins, ends - begins)
    excess = signals.stages.by_place(signals.excess_ns(places))
    names = list(excess)
    sums = np.array([np.add.reduceat(excess[name], firsts) for name in names])
    late, end = signals.late_ns[places], signals.end_ns[places]
    # Parts in which they made up for some of it take nothing from what the others were late by.
    whole = np.maximum(sums, 0).sum(axis=0)
    longest, last = np.maximum.reduceat(late, firsts), np.maximum.reduceat(end, firsts)
    most = sums.argmax(axis=0)
    return [
        Hold(
            begin=begin,
            end=stop,
            length_ns=float(longest[n]),
            released_ns=int(end[firsts[n]]),
            within_ns=int(last[n] - end[firsts[n]]),
            where=names[most[n]],
            share=float(sums[most[n], n] / whole[n]) if whole[n] > 0 else 0.0,
        )
        for n, (begin, stop) in enumerate(spans)
    ]


def find_throttled(seen: Seen) -> Iterator[Found]:
    """Holds of the length that throttling has, at its intervals, where a kernel may have throttled."""
    context = seen.signals.context
    rules: dict[tuple[int, int], set[str]] = {}
    for where in {hold.where for hold in seen.holds}:
        for rule in context.throttles_at(where):
            rules.setdefault((rule.gap_ns, rule.every_ns), set()).add(where)
    for (gap_ns, every_ns), places in sorted(rules.items()):
        yield from _throttled(seen, gap_ns, every_ns, places)


def _throttled(seen: Seen, gap_ns: int, every_ns: int, places: Collection[str]) -> Iterator[Found]:
    """Those at these places that one rule explains: gap_ns of each every_ns."""
    context, thresholds = seen.signals.context, seen.signals.thresholds
    tolerance = thresholds.throttled_tolerance
    alike = [
        hold
        for hold in seen.holds
        if hold.where in places
        and gap_ns * (1 - tolerance) - context.period_ns <= hold.length_ns <= gap_ns * (1 + tolerance)
    ]
    said = any(context.throttled_at(where) for where in places)
    for comb in find_combs(
        np.array([hold.released_ns for hold in alike], np.int64),
        context.period_ns,
        thresholds,
        repeats=2 if said else thresholds.throttled_repeats,
        every_ns=every_ns,
    ):
        among = comb.members[-1] - comb.members[0] + 1
        if not said and len(comb.members) < MOSTLY * among:
            continue
        for number in comb.members:
            hold = alike[number]
            hosts = [one for one in context.hosts_at(hold.where) if _has(one, gap_ns, every_ns)]
            evidence = _evidence(seen, hold) | {
                "gap_ns": gap_ns,
                "every_ns": every_ns,
                "times": len(comb.members),
                "kernel_says_so": context.throttled_at(hold.where),
                "own_thread": hold.where in (TALKER, APPLICATION),
                "settings": [_setting(one, gap_ns, every_ns) for one in hosts],
            }
            text = (
                f"throttled for {duration(hold.length_ns)}: {packets(hold.packets)} held in {PLACES[hold.where]}, "
                f"as every {duration(every_ns)}, {len(comb.members)} times"
            )
            told = [f"{one['host']} has {one['setting']}, and {one['log']}" for one in evidence["settings"]]
            yield _found(seen, "throttled", hold, evidence, "; ".join((text, *told)))


def _has(host: HostRecord, gap_ns: int, every_ns: int) -> bool:
    return any((rule.gap_ns, rule.every_ns) == (gap_ns, every_ns) for rule in host.throttles)


def _setting(host: HostRecord, gap_ns: int, every_ns: int) -> dict[str, str]:
    """What a host's kernel was set to, and what its log says of it."""
    rule = next(one for one in host.throttles if (one.gap_ns, one.every_ns) == (gap_ns, every_ns))
    return {"host": host.host, "setting": rule.setting, "log": host.log}


def find_stalls(seen: Seen) -> Iterator[Found]:
    """Every hold that was no throttling."""
    for hold in seen.holds:
        rows = seen.signals.row[hold.begin : hold.end]
        if seen.class_of[rows].any():
            continue
        text = (
            f"stall of {duration(hold.length_ns)}: {packets(hold.packets)} held in {PLACES[hold.where]}, "
            f"all arrived within {duration(hold.within_ns)}"
        )
        stolen = _stolen(seen, hold)
        # Less than the stall lasted cannot have been its reason.
        told = [
            f"{duration(ns)} of CPU time were stolen from {host} in all of the cell"
            for host, ns in stolen.items()
            if ns >= hold.length_ns
        ]
        evidence = _evidence(seen, hold) | ({"stolen_ns": stolen} if stolen else {})
        yield _found(seen, "stall", hold, evidence, "; ".join((text, *told)))


def _stolen(seen: Seen, hold: Hold) -> dict[str, int]:
    """{host: CPU time that was stolen from it in the whole cell, ns}, of those that may have held the packets."""
    return {one.host: one.stolen_ns for one in seen.signals.context.hosts_at(hold.where) if one.stolen_ns}


def _evidence(seen: Seen, hold: Hold) -> dict[str, Any]:
    signals = seen.signals
    return {
        "length_ns": round(hold.length_ns),
        "held": hold.packets,
        "where": hold.where,
        "share": round(hold.share, 3),
        "within_ns": hold.within_ns,
        "slope": round(_slope(signals, hold), 3),
        "limit_ns": round(float(signals.limit_ns[hold.begin])),
    }


def _slope(signals: Signals, hold: Hold) -> float:
    """How latency went with launch time, ns per ns, by least squares: −1 where all arrived at one instant."""
    return slope_of(signals.launch_ns[hold.begin : hold.end], signals.end_ns[hold.begin : hold.end])


def slope_of(launch_ns: Int64, end_ns: Int64) -> float:
    """Of packets' latencies over their launches, ns per ns, by least squares. int64 ns [2 or more]."""
    launch = (launch_ns - launch_ns[0]).astype(np.float64)
    latency = (end_ns - launch_ns).astype(np.float64)
    launch -= launch.mean()
    return float((launch * (latency - latency.mean())).sum() / (launch**2).sum())


def _found(seen: Seen, name: str, hold: Hold, evidence: dict[str, Any], text: str) -> Found:
    rows = seen.signals.row[hold.begin : hold.end]
    return Found(name, int(rows[0]), int(rows[-1]), rows, hold.length_ns, evidence, text)
