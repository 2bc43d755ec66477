"""What moves all packets for a moment: for longer than a stall, and for less long than a level is looked at.

The usual latency around a packet follows whatever lasts for an interval, so that no packet of it is late on its own;
the course of the level begins at `level_length_ns`. Between the two are shifts.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from math import exp, inf, log
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from latlab.analysis.anomalies.blocks import (
    block_quantiles,
    filled,
    lagged_products,
    running_median,
    runs,
    scatter_about_line,
)
from latlab.analysis.anomalies.classes import NONE
from latlab.analysis.anomalies.found import Claimed, FoundEpisode
from latlab.analysis.anomalies.levels import Course, Moved, one_way_ns, told
from latlab.analysis.anomalies.limit import Ordered, lattice_ns, tail_limit
from latlab.analysis.anomalies.thresholds import AnomalyThresholds

Int64 = NDArray[np.int64]
Float64 = NDArray[np.float64]

STRETCH_LEAST: Final = 16
"""Packets: half of those whose median the usual latency is, so that one that lasts as long has a whole one anywhere."""
SHORTEST: Final = 2
"""So many times as long as a shift may be the stream is at least."""
SCATTER_OF_ALL: Final = 1.4826
"""Of a gaussian the standard deviation over the median distance from 0."""
BESIDE: Final = 5
"""The number of intervals on either side that show the level before and after: half of the longest shift at least."""
STILL, STILL_SCATTER = 0.35, 3.0
"""Before and after the level goes by at most this share of the shift, or so many times its scatter."""
BACK: Final = 0.35
"""And after it is off from before by this share at most."""
LATTICE: Final = 2
"""Medians of what comes in steps jump by one or two of them by chance."""
MIDDLE: Final = 0.5
"""Of the way."""
FOOT: Final = 2.0
"""So many spreads above the usual level few packets lie by chance."""
CORRELATED, LAGS_MOST = 0.05, 4_096
OTHERS_REACH: Final = 2.0
"""So many times as far as the tail of all other intervals goes no noise brings a level, however dependent it is."""
OTHERS_LEAST: Final = 50
"""Of fewer intervals no tail is known."""
BENT: Final = 4
"""So many of its intervals, two of those whose median the usual latency is."""


@dataclass(frozen=True)
class ShiftSearch:
    """A stream as shifts are looked for in it.

    course: of half intervals. off_ns, fast_ns float64 [intervals]: how far the level, and the fastest packets, were off
    from those within `level_length_ns`. one_way_ns, above_ns float64 [n]: of each judged packet, and beyond that level;
    latency_ns: to its last timestamp. scatter_ns: of off_ns, as noise has it; tolerance_ns: what may be noise. reach:
    intervals in `level_length_ns`; side: as many on either side show the level before and after. dependent: so many
    packets in a row say as much as one alone.
    """

    course: Course
    off_ns: Float64
    fast_ns: Float64
    one_way_ns: Float64
    above_ns: Float64
    latency_ns: Float64
    scatter_ns: float
    tolerance_ns: float
    reach: int
    side: int
    dependent: float

    @cached_property
    def above_sorted(self) -> Float64:
        """What is known of `above_ns`, ascending."""
        return np.sort(self.above_ns[~np.isnan(self.above_ns)])

    @cached_property
    def off_sorted(self) -> dict[int, Float64]:
        """{side: off_ns to that side of the usual level (1: later, −1: earlier), in their scatter, ascending}."""
        return {side: np.sort(side * self.off_ns / self.scatter_ns) for side in (1, -1)}


def find_shifts(seen: Claimed) -> Iterator[FoundEpisode]:
    """Shifts of all packets that last from half an interval to `level_length_ns`, and end where they began.

    And sudden ones at either end of the stream, of which one side is all there is.
    """
    look = None if seen.oscillation else _look(seen)
    if look is None:
        return
    # Of a slow beginning something is left.
    first = -(-seen.started // look.course.size) + look.side if seen.started else 0
    n = len(look.off_ns)
    for begin, end in _off(look.off_ns, look.tolerance_ns):
        if first <= begin and begin > 0 and end < n and end - begin < look.reach and _between_equals(look, begin, end):
            yield from _told(seen, look, begin, end)
    at_ends = _from_inside(look)
    for begin, end in _off(at_ends.off_ns, look.tolerance_ns):
        if (
            first <= begin
            and (begin == 0) != (end == n)
            and end - begin < look.reach
            and _beside_still(look, begin, end)
        ):
            yield from _told(seen, at_ends, begin, end)


def _from_inside(look: ShiftSearch) -> ShiftSearch:
    """The same, compared with the last level that has `level_length_ns` on either side of it: near an end of the stream
    the level itself may be most of what there is."""

    def beyond(off: Float64, level: Float64) -> Float64:
        base = level - off
        base[:reach], base[-reach:] = base[reach], base[-reach - 1]
        return level - base

    reach, course = look.reach, look.course
    off = beyond(look.off_ns, course.fine)
    above = look.above_ns + np.repeat(off - look.off_ns, course.size)[: len(look.above_ns)]
    return replace(look, off_ns=off, fast_ns=beyond(look.fast_ns, course.fast), above_ns=above)


def _beside_still(look: ShiftSearch, begin: int, end: int) -> bool:
    """Whether the level next to one that reaches to an end of the stream stays the same."""
    fine, side = look.course.fine, look.side
    beside = fine[end + 1 : end + 1 + side] if begin == 0 else fine[max(0, begin - 1 - side) : begin - 1]
    peak = float(abs(np.median(fine[begin:end]) - np.median(beside))) if len(beside) else 0.0
    return len(beside) == side and _is_still(beside, max(STILL * peak, STILL_SCATTER * look.scatter_ns))


def _is_still(levels: Float64, most: float) -> bool:
    half = len(levels) // 2
    return 2 * abs(float(np.median(levels[half:]) - np.median(levels[:half]))) <= most


def _look(seen: Claimed) -> ShiftSearch | None:
    """None of a stream that is too short."""
    one_way = one_way_ns(seen)
    course = _course(seen, one_way)
    if course is None:
        return None
    thresholds = seen.signals.thresholds
    reach = course.per * thresholds.level_length_ns // thresholds.level_ns
    base = running_median(course.fine, reach)
    off = course.fine - base
    # Of noise that wanders slowly neighbours differ little, and only all of them together show its extent.
    scatter = max(course.scatter_ns, SCATTER_OF_ALL * float(np.median(np.abs(off))))
    tolerance = max(
        thresholds.level_spread * course.spread_ns, thresholds.shift_scatter * scatter, thresholds.level_least_ns
    ) + (LATTICE * course.lattice_ns if course.lattice_ns > 1 else 0)
    return ShiftSearch(
        course,
        off,
        course.fast - running_median(course.fast, reach),
        one_way,
        one_way - np.repeat(base, course.size)[: len(one_way)],
        seen.signals.level_ns + seen.signals.late_ns,
        scatter,
        tolerance,
        reach,
        max(BESIDE, reach // 2),
        _dependence(one_way - np.repeat(base, course.size)[: len(one_way)], np.abs(off) > tolerance, course.size),
    )


def _told(seen: Claimed, look: ShiftSearch, begin: int, end: int) -> Iterator[FoundEpisode]:
    """The shift in these intervals, if it is one: long enough, of packets that nothing else happened to, no chance."""
    course, thresholds, off = look.course, seen.signals.thresholds, look.off_ns[begin:end]
    peak = float(off[np.argmax(np.abs(off))])
    beside = _beside(look, begin, end)
    usual = float(np.nanmedian(look.above_ns[beside]))
    foot = max(look.tolerance_ns, FOOT * course.spread_ns)
    first, last, sudden = _places(look.above_ns, usual, peak, foot, course.size, begin, end)
    is_at_end = begin == 0 or end == len(look.off_ns)
    if last - first < course.size // 2 or (is_at_end and not sudden):
        return
    first, last = first if begin else 0, last if end < len(look.off_ns) else len(look.above_ns)
    latency = float(np.median(look.latency_ns[beside]))
    rows = _free(seen, look.latency_ns[first:last] - latency - max(peak, 0.0), first, last)
    if len(rows) < max(course.size // 2, (last - first) // 2):
        return
    if (
        abs(peak) <= OTHERS_REACH * _others_reach(look, begin, end, peak, thresholds)
        and _by_chance(look, usual, peak, first, last) > thresholds.chance
    ):
        return
    # The usual latency's line is bent by the shift on either side of it.
    for low, high in ((first - BENT * course.size, first), (last, last + BENT * course.size)):
        bent = slice(max(0, low), high)
        seen.usual[bent] |= look.latency_ns[bent] - latency <= seen.signals.limit_ns[bent]
    moved = Moved(begin, end, off, "step" if sudden else "swing")
    yield told(seen, course, moved, (first, last), look.one_way_ns, look.fast_ns, rows)


def _others_reach(look: ShiftSearch, begin: int, end: int, peak: float, thresholds: AnomalyThresholds) -> float:
    """How far the levels of all other intervals may be off on that side by chance, ns: as far as their tail goes."""
    side = 1 if peak > 0 else -1
    own = side * look.off_ns[max(0, begin - 1) : end + 1] / look.scatter_ns
    others = Ordered.without(look.off_sorted[side], own)
    if len(others) < OTHERS_LEAST:
        return inf
    return look.scatter_ns * tail_limit(others, thresholds, len(look.off_ns))


def _beside(look: ShiftSearch, begin: int, end: int) -> Int64:
    """The places of the packets before and after these intervals, but for those next to them."""
    size, side = look.course.size, look.side
    before = np.arange(max(0, begin - 1 - side) * size, (begin - 1) * size)
    after = np.arange((end + 1) * size, min((end + 1 + side) * size, len(look.one_way_ns)))
    return np.concatenate((before, after))


def _course(seen: Claimed, one_way: Float64) -> Course | None:
    """The level of intervals half as long as usual, without what was held; None of a stream that is too short."""
    signals, thresholds = seen.signals, seen.signals.thresholds
    size = max(STRETCH_LEAST, signals.size // 2)
    per = max(1, round(thresholds.level_ns / (size * signals.context.period_ns)))
    if len(one_way) * signals.context.period_ns < SHORTEST * thresholds.level_length_ns:
        return None
    shares = (0.1, 0.25, 0.5, 0.75, 0.9)
    quantiles = [filled(one) for one in block_quantiles(one_way, size, shares, left_out=signals.held)]
    begun = -(-seen.started // size)
    for one in quantiles:
        one[:begun] = np.median(one[begun : begun + per])
    low, quarter, middle, three_quarters, high = quantiles
    fine = min((middle, quarter, low), key=scatter_about_line)
    spread = float(np.median(np.minimum((three_quarters - quarter) / 1.349, (high - low) / 2.563)))
    scatter = max(scatter_about_line(fine), 1.25 * spread / np.sqrt(size))
    return Course(size, per, fine, low, fine, scatter, spread, lattice_ns(one_way))


def _off(off: Float64, tolerance: float) -> Iterator[tuple[int, int]]:
    """Intervals begin to end (excluded) that are off to one side."""
    for side in (1, -1):
        for begin, end in zip(*runs(side * off > tolerance), strict=True):
            yield int(begin), int(end)


def _between_equals(look: ShiftSearch, begin: int, end: int) -> bool:
    """Whether the level was the same before and after, and still: else it is the top of a slower movement."""
    fine, side = look.course.fine, look.side
    peak, noise = float(np.max(np.abs(look.off_ns[begin:end]))), STILL_SCATTER * look.scatter_ns
    still = max(STILL * peak, noise)
    # The intervals next to it may have a part of it.
    before, after = fine[max(0, begin - 1 - side) : begin - 1], fine[end + 1 : end + 1 + side]
    if min(len(before), len(after)) < 2:
        return False
    if not (_is_still(before, still) and _is_still(after, still)):
        return False
    return abs(float(np.median(after) - np.median(before))) <= max(BACK * peak, noise)


def _places(
    above_ns: Float64, usual: float, peak: float, foot: float, size: int, begin: int, end: int
) -> tuple[int, int, bool]:
    """The judged packets from which and to which (excluded) it goes, and whether it comes and goes at once.

    Where it does, the packets beyond the middle of the way lie as far apart as those beyond its foot.
    """
    first = max(0, (begin - 2) * size)
    near = (above_ns[first : (end + 2) * size] - usual) * np.sign(peak)
    begin, end = _densest(near, MIDDLE * abs(peak))
    foot_begin, foot_end = _densest(near, min(foot, MIDDLE * abs(peak)))
    sudden = (foot_end - foot_begin) - (end - begin) <= max(size // 2, (end - begin) // 10)
    if not sudden:
        begin, end = foot_begin, foot_end
    return first + begin, first + end, sudden


def _densest(values: Float64, beyond: float) -> tuple[int, int]:
    """The interval begin to end (excluded) in which values beyond it outnumber the others by most."""
    total = np.concatenate(([0], np.cumsum(np.where(values > beyond, 1, -1))))
    rise = total - np.minimum.accumulate(total)
    end = int(np.argmax(rise))
    return int(np.argmin(total[: end + 1])), end


def _dependence(values: Float64, off: NDArray[np.bool_], size: int) -> float:
    """The integrated autocorrelation time of noise, in packets, 1 or more: 1 + 2 Σ ρ, to the first below CORRELATED.

    off: the intervals of `size` values that may be shifted: they are left out. Values further out than four times the
    median distance count as those.
    """
    # The intervals next to one that is off may have a part of it.
    off = np.convolve(off, np.ones(3), "same") > 0
    values = np.where(np.repeat(off, size)[: len(values)] | np.isnan(values), np.nan, values)
    values = values - np.nanmedian(values)
    most = 4 * float(np.nanmedian(np.abs(values)))
    values = np.nan_to_num(np.clip(values, -most, most))
    correlation = lagged_products(values - values.mean(), LAGS_MOST)
    if correlation[0] <= 0:
        return 1.0
    correlation /= correlation[0]
    low = np.flatnonzero(correlation < CORRELATED)
    return 1 + 2 * float(correlation[1 : low[0] if len(low) else None].sum())


def _by_chance(look: ShiftSearch, usual: float, peak: float, first: int, last: int) -> float:
    """How many intervals like this one the stream would have at most, were packets beyond so often by chance.

    usual: what is above the level usually next to it.

    Of packets that have several ways, many in a row take another one now and then. Chernoff's bound, of so many that
    are beyond among so many packets, from any packet on.
    """
    n, known, side = len(look.above_ns), look.above_sorted, np.sign(peak)

    def is_beyond(above: Any) -> Any:
        return (above - usual) * side > MIDDLE * abs(peak)

    beyond = bisect_left(range(len(known)), True, key=lambda at: bool(is_beyond(known[at]) == (side > 0)))
    share = (len(known) - beyond if side > 0 else beyond) / n
    inside = float(np.mean(is_beyond(look.above_ns[first:last])))
    if inside <= share:
        return inf
    divergence = inside * log(inside / share) + ((1 - inside) * log((1 - inside) / (1 - share)) if inside < 1 else 0.0)
    return n / look.dependent * exp(-(last - first) / look.dependent * divergence)


def _free(seen: Claimed, above_shift: Float64, first: int, last: int) -> Int64:
    """The rows of these packets that have no class yet, but for those that are late within the shift.

    above_shift: how much longer than the shifted level each of them took, float64 ns [last − first].
    """
    signals = seen.signals
    rows, late = signals.row[first:last], above_shift > signals.limit_ns[first:last]
    free: Int64 = rows[(seen.class_of[rows] == NONE) & ~late]
    return free
