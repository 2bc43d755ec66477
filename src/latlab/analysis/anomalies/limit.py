"""The usual latency around each packet, and how late noise makes packets: beyond that limit they are late."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log, log10
from typing import Final

import numpy as np
from numpy.typing import NDArray

from latlab.analysis.anomalies.blocks import (
    GOLDEN,
    block_quantiles,
    block_spreads,
    filled,
    in_spreads,
    members,
    running_median,
    running_quantile,
    runs,
    scatter_about_line,
    shorth_of,
    spread_over,
    through_middles,
)
from latlab.analysis.anomalies.thresholds import AnomalyThresholds
from latlab.analysis.extremes import extremal_index

Int64 = NDArray[np.int64]
Float64 = NDArray[np.float64]
Bools = NDArray[np.bool_]

TAIL: Final = (0.5, 0.1**0.5, 0.1, 0.1**1.5, 0.01)
"""Half a decade apart, but for the first: what is rarer may be what is looked for."""
AT_FIRST, AT_FIRST_SAFETY = 1e-4, 2.0
TAIL_GROWTH: Final = (0.5, 1.6)
"""Half a decade further out a tail is wider by a factor between these; the larger is that of Pareto's with α = 2.4."""
ONE_STEP: Final = 1.3
SPREAD_LEAST_NS: Final = 100.0
SPREAD_REACH: Final = 12
SAMPLE: Final = 1_000_000
LATTICE_SAMPLE: Final = 4_096
GAPS_MOST: Final = 3
"""Late packets may be late by several amounts."""
LOWER_OF_GAUSSIAN: Final = 1.2816
"""From the 10th percentile to the median."""
NEXT_POINT: Final = 1.5
"""Steps of a lattice that are more than one, however the usual latency lies between its points."""
RARE, NEAREST = 0.01, 0.2
MIXED: Final = 0.001
"""Of the packets beyond a gap so many may lie in it, or below."""


def lattice_ns(latency: Int64 | Float64) -> int:
    """Of what all latencies differ by multiples; 1 of timestamps that are to the nanosecond, or that are all alike."""
    known = latency[~np.isnan(latency)][:LATTICE_SAMPLE]
    if len(known) == 0:
        return 1
    return max(1, int(np.gcd.reduce((known - known[0]).astype(np.int64))))


@dataclass(frozen=True)
class Usual:
    """What is usual of a duration around each packet, and how late each packet is beyond that.

    level_ns, late_ns float64 [n]. spreads float64 [intervals]: how wide packets lie. apart: those that lie beyond a
    gap, and say nothing of what is usual, bool [n]; None: there are none. held: packets that were held, likewise.
    """

    level_ns: Float64
    late_ns: Float64
    spreads: Float64
    size: int
    step_ns: int
    apart: Bools | None
    held: Bools | None

    @classmethod
    def of(cls, taken: Float64, size: int, held: Bools | None, thresholds: AnomalyThresholds, chance: float) -> Usual:
        """The usual of what each packet took, ns [n]; size: packets in an interval. `taken` is overwritten."""
        step = lattice_ns(taken)
        first = usual_ns(taken, size, held)
        late = taken - first
        apart = _apart(late, _lower_spreads(late, size, held, step), size, held, step, thresholds, chance)
        level = first if apart is None else usual_ns(taken, size, either(held, apart))
        np.subtract(taken, level, out=taken)
        return cls(level, taken, local_spreads(taken, size, either(held, apart), step), size, step, apart, held)

    @property
    def spread_ns(self) -> float:
        """How wide packets lie, over the whole stream."""
        return float(np.median(self.spreads)) if len(self.spreads) else 0.0

    def limits_ns(
        self,
        aside: Bools | None,
        slow_start: int,
        thresholds: AnomalyThresholds,
        false_alarms: float,
        beyond: float = 1.0,
    ) -> NDArray[np.float32]:
        """From where on no noise makes a packet late, in each interval, float32 [intervals].

        aside: further packets that say nothing of noise, bool [n]; so do the first slow_start. beyond: times as far as
        the tail goes. A gap is no farther off than it is.
        """
        n = len(self.late_ns)
        if n == 0:
            return np.empty(0, np.float32)
        left_out = either(aside, either(self.held, self.apart))
        far = beyond * tail_limit(self._scaled(left_out, slow_start), thresholds, n, false_alarms)
        if self.apart is not None:
            far = min(far, self._gap(slow_start, far))
        found: NDArray[np.float32] = np.maximum(self.spreads * far, thresholds.least_ns).astype(np.float32)
        return found

    def _scaled(self, left_out: Bools | None, slow_start: int) -> Float64:
        """How late a sample of the packets is, in spreads."""
        n = len(self.late_ns)
        every = max(1, n // SAMPLE)
        number = np.arange((n - slow_start) // every)
        # One in each interval of `every`, never at the same place: what is periodic is not met too often, nor too
        # seldom.
        sample = slow_start + number * every + (number * GOLDEN % 1 * every).astype(np.int64)
        if left_out is not None:
            sample = sample[~left_out[sample]]
        between = (sample * GOLDEN % 1 - 0.5) * self.step_ns
        scaled: Float64 = (self.late_ns[sample] + between) / self.spreads[sample // self.size]
        return scaled

    def _gap(self, slow_start: int, tail: float) -> float:
        """The middle of the gap, in spreads of the packets below it.

        Where few packets are beyond it and most of them beyond the tail too, the tail decides: some of the nearest are
        its own.
        """
        assert self.apart is not None
        scaled = self.late_ns / spread_over(self.spreads, self.size, len(self.late_ns))
        below = ~self.apart if self.held is None else ~self.apart & ~self.held
        below[:slow_start] = False
        if not below.any():
            return float("inf")
        rare = np.count_nonzero(self.apart) < RARE * len(scaled)
        if rare and tail <= float(np.quantile(scaled[self.apart], NEAREST)):
            return tail
        begins = float(np.quantile(scaled[self.apart], MIXED))
        nearer = scaled[below & (scaled < begins)]
        ends = float(nearer.max()) if len(nearer) else begins
        return (ends + begins) / 2


def either(one: Bools | None, other: Bools | None) -> Bools | None:
    """Packets that are in one of the two, bool [n]; None stands for none."""
    if one is None or other is None:
        return other if one is None else one
    return one | other


def _apart(
    late: Float64,
    spreads: Float64,
    size: int,
    held: Bools | None,
    step_ns: int,
    thresholds: AnomalyThresholds,
    chance: float,
) -> Bools | None:
    """The packets beyond the gap that is nearest to the bulk, bool [n]; None without a gap."""
    if not len(late):
        return None
    scaled = in_spreads(late, spreads, size, step_ns)
    # None: all of them.
    free = None if held is None else np.flatnonzero(~held)
    apart: Bools | None = None
    for _ in range(GAPS_MOST):
        values, lateness = (scaled, late) if free is None else (scaled[free], late[free])
        gap = find_gap(values, free, thresholds, chance)
        if gap is None:
            break
        beyond = values > gap.far
        apart = np.zeros(len(late), np.bool_) if apart is None else apart
        if not _is_far(lateness, beyond, step_ns, thresholds):
            break
        # With more of them it is not known which of the two groups is the usual one.
        if np.count_nonzero(apart) + np.count_nonzero(beyond) > thresholds.gap_share * len(late):
            break
        outer, free = (np.flatnonzero(one) if free is None else free[one] for one in (beyond, ~beyond))
        apart[outer] = True
    return apart if apart is not None and apart.any() else None


def _is_far(late: Float64, beyond: Bools, step_ns: int, thresholds: AnomalyThresholds) -> bool:
    """Whether those beyond a gap are another group in ns too, however wide packets lie around each.

    The next point of a lattice is none: whatever lies between the two is on one of them.
    """
    below = late[~beyond]
    middle, reach = np.quantile(below, (0.5, REACH))
    far = max(thresholds.gap_reaches * (reach - middle), NEXT_POINT * step_ns)
    return bool(np.median(late[beyond]) - middle >= far)


def _lower_spreads(late: Float64, size: int, held: Bools | None, step_ns: int) -> Float64:
    """How wide the earlier packets of each interval lie, float64 [intervals]: late ones hardly change it."""
    if not len(late):
        return np.empty(0)
    low, middle = block_quantiles(late, size, (0.1, 0.5), left_out=held)
    spreads = running_median(filled((middle - low) / LOWER_OF_GAUSSIAN), SPREAD_REACH)
    return np.maximum(spreads, max(SPREAD_LEAST_NS, step_ns / 2))


def local_spreads(late: Float64, size: int, held: Bools | None, step_ns: int) -> Float64:
    """How wide packets lie in each interval, float64 [intervals]."""
    if not len(late):
        return np.empty(0)
    spreads = running_median(filled(block_spreads(late, size, left_out=held)), SPREAD_REACH)
    return np.maximum(spreads, max(SPREAD_LEAST_NS, step_ns / 2))


@dataclass(frozen=True)
class Ordered:
    """Values in ascending order without some of them, for what is asked of many samples that differ by a few.

    values float64 [n]; left_out float64 [m], ascending: some of them.
    """

    values: Float64
    left_out: Float64

    @classmethod
    def of(cls, values: Float64) -> Ordered:
        """All values of a sample, in any order."""
        return cls(np.sort(values), np.empty(0))

    @classmethod
    def without(cls, values: Float64, left_out: Float64) -> Ordered:
        """Ascending values without some of them, in any order."""
        return cls(values, np.sort(left_out))

    def __len__(self) -> int:
        return len(self.values) - len(self.left_out)

    def up_to(self, most: float) -> Ordered:
        """Those that are not larger."""
        sizes = (int(np.searchsorted(one, most, side="right")) for one in (self.values, self.left_out))
        return Ordered(*(one[:size] for one, size in zip((self.values, self.left_out), sizes, strict=True)))

    def quantiles(self, shares: Sequence[float]) -> Float64:
        """Their quantiles, float64 [shares], as those of numpy.quantile (Hyndman & Fan, 1996, type 7)."""
        place = np.array(shares) * (len(self) - 1)
        before = np.floor(place).astype(np.int64)
        weight = place - before
        low, high = self._ranked(before), self._ranked(np.minimum(before + 1, len(self) - 1))
        between = high - low
        # As numpy does, from the nearer of the two.
        found: Float64 = np.where(weight < 0.5, low + between * weight, high - between * (1 - weight))
        return found

    def _ranked(self, rank: Int64) -> Float64:
        """The values of these ranks, from 0."""
        found: Float64
        if not len(self.left_out):
            found = self.values[rank]
            return found
        # Of equal values any may be the ones that are left out: the first.
        new = np.append(True, self.left_out[1:] != self.left_out[:-1])
        number = np.arange(len(new))
        place = np.searchsorted(self.values, self.left_out) + number - np.maximum.accumulate(np.where(new, number, 0))
        found = self.values[rank + np.searchsorted(place - number, rank, side="right")]
        return found


def tail_limit(
    values: Float64 | Ordered, thresholds: AnomalyThresholds, n: int, false_alarms: float | None = None
) -> float:
    """How far out at most `false_alarms` of n packets are by noise alone; values: what lies about 0, in spreads.

    false_alarms: by default that of the thresholds.

    Values that one in ten thousand would not reach, by a nearer part of the tail, are left aside first: if there are
    more of them, they are what is looked for.
    """
    every = values if isinstance(values, Ordered) else Ordered.of(values)
    far = _fall(every, TAIL[:-1], AT_FIRST, AT_FIRST_SAFETY, thresholds.tail_spreads)
    kept, share = every.up_to(far), (false_alarms or thresholds.false_alarms) / n
    # Where one packet in a hundred is something else, the part next to it shows how noise continues.
    return min(
        _fall(kept, tail, share, thresholds.tail_safety, thresholds.tail_spreads) for tail in (TAIL[:-1], TAIL[1:])
    )


def _fall(values: Ordered, tail: Sequence[float], share: float, safety: float, least: float) -> float:
    """Where the tail comes down to a share, as it falls over the shares of `tail`, each half a decade after the other.

    Half a decade further out it is wider by the same factor each time: 1 for an exponential tail, less for a gaussian
    one, 10^(1/2α) for Pareto's with the index α. safety: times as far as that; least: at least so much further.
    """
    q = values.quantiles([1 - one for one in tail])
    *_, near, width, wider = np.diff(q)
    steps = max(0.0, 2 * log10(tail[-1] / share))
    # Of packets that have several ways, a rare one makes one step wide: that is no tail.
    growth = min(np.sqrt(wider / near), ONE_STEP * wider / width) if near > 0 and width > 0 else 1.0
    growth = float(np.clip(growth, *TAIL_GROWTH))
    sum_of = steps if abs(growth - 1) < 1e-6 else growth * (1 - growth**steps) / (1 - growth)
    return float(q[-1] + max(safety * wider * sum_of, width, least))


# The usual latency around each packet: a line through medians of short intervals, broken off where they jump.


REACH_NS: Final = 2_500_000_000
AROUND: Final = 0.25
"""Of the medians within REACH_NS on either side: where packets are held for seconds, most of them are high."""
JUMP: Final = 8.0
"""So many times the scatter of levels is no chance any more."""
JUMP_LEAST_NS: Final = 100.0
JUMPS_MOST: Final = 2_000
SIDE_LEAST: Final = 4
PARTED: Final = 1.6
AT_ONCE: Final = 0.7
SLOWLY: Final = 0.5


def crowded(
    latency: Float64, end: Int64, launch: Int64, size: int, period_ns: int, bursts: Bools, thresholds: AnomalyThresholds
) -> Bools | None:
    """Packets that look held: those in bursts, and those much later than others around, and close to the next or the
    last. None: there are none.

    They would bend the level. bursts: bool [n], in which packets came together (`signals.together`): what is usual
    around is estimated from the others. Where that leaves too few, nothing is left out.
    """
    if len(latency) < 2:
        return None
    medians = filled(block_quantiles(latency, size, (0.5,), left_out=bursts)[0])
    reach = max(1, min(REACH_NS // (size * period_ns), len(medians) // 2))
    around = running_quantile(medians, reach, AROUND)
    late = latency - spread_over(around, size, len(latency)) > period_ns * (1 + thresholds.crowd)
    close = np.diff(end) < thresholds.crowd * np.diff(launch)
    beside = np.zeros(len(latency), np.bool_)
    beside[:-1] |= close
    beside[1:] |= close
    held = late & beside
    begins, ends = runs(held)
    # The last ones were held for less than a period: too little to show alone.
    held = bursts | members((begins, np.minimum(ends + 2, len(held))), len(held))
    return held if 0 < np.count_nonzero(held) <= thresholds.bursts_most * len(latency) else None


def usual_ns(latency: Float64, size: int, held: Bools | None) -> Float64:
    """The usual latency at each packet, float64 [n].

    It goes as that quantile of the intervals which scatters least, the median or a lower one (where packets have
    several ways, medians jump from one to the other), and lies where the medians lie on the whole.
    """
    n = len(latency)
    if n == 0:
        return np.empty(0)
    quantiles = [filled(one) for one in block_quantiles(latency, size, (0.5, 0.25, 0.1), left_out=held)]
    scatter = [scatter_about_line(one) for one in quantiles]
    chosen = int(np.argmin(scatter))
    levels = quantiles[chosen] + np.median(quantiles[0] - quantiles[chosen])
    level = through_middles(levels, size, n)
    candidates = _candidates(levels, scatter[chosen])
    known = latency
    if len(candidates) or held is not None:
        free = np.arange(n) if held is None else np.flatnonzero(~held)
        for at in _jumps(latency, free, levels, candidates, size):
            _break_off(level, latency, free, at, size)
        known = latency[free]
    # A line that is drawn on beyond the packets it goes through leads nowhere: usual is what some packets took.
    return np.clip(level, known.min(), known.max(), out=level)


def _candidates(levels: Float64, scatter: float) -> Int64:
    """The intervals at which two intervals' levels are apart, from those beyond, the widest first."""
    beyond = np.abs(levels[2:] - levels[:-2]) if len(levels) >= 4 else np.empty(0)
    found = np.flatnonzero(beyond > JUMP * scatter + JUMP_LEAST_NS)
    return found[np.argsort(-beyond[found], kind="stable")][:JUMPS_MOST] + 1


def _jumps(latency: Float64, free: Int64, levels: Float64, candidates: Int64, size: int) -> list[int]:
    """The packets before which the level jumps: two intervals' levels apart, and at once between them."""
    taken: list[int] = []
    for block in candidates.tolist():
        begin, end = np.searchsorted(free, ((block - 1) * size, (block + 2) * size))
        change = change_point(latency[free[begin:end]], float(abs(levels[block + 1] - levels[block - 1])))
        if change is None:
            continue
        at = int(free[begin + change])
        if all(abs(at - other) > size for other in taken):
            taken.append(at)
    return sorted(taken)


def change_point(values: Float64, least: float = 0.0) -> int | None:
    """Where values jump from one level to another; None where the jump is not at once, or hardly half of `least`.

    The place that parts them best: where the sum of their signs against the middle of both ends is largest. Around it
    most of the change must be covered, and neither side may cover a part of it slowly.
    """
    third = len(values) // 3
    if third < SIDE_LEAST:
        return None
    before, after = np.median(values[:third]), np.median(values[-third:])
    way = abs(float(after - before))
    if way <= 0.5 * least:
        return None
    signs = np.sign(values - (before + after) / 2) * np.sign(after - before)
    at = int(np.argmin(np.cumsum(signs))) + 1
    if not SIDE_LEAST <= at <= len(values) - SIDE_LEAST:
        return None
    near = max(SIDE_LEAST, len(values) // 12)
    left, right = values[:at], values[at:]
    jump = abs(float(np.median(right[:near]) - np.median(left[-near:])))
    slowly = max(abs(float(np.median(side[:near]) - np.median(side[-near:]))) for side in (left, right))
    parted = np.mean(signs[:at] <= 0) + np.mean(signs[at:] >= 0)
    return at if parted > PARTED and jump > AT_ONCE * way and slowly < SLOWLY * jump else None


def _break_off(level: Float64, latency: Float64, free: Int64, at: int, size: int) -> None:
    """Let the level jump before packet `at`: up to an interval and a half away the line through the intervals is bent.

    There each side goes as two half intervals next to the jump go, of packets that were not held.
    """
    reach, half = size + size // 2, size // 2
    middle = int(np.searchsorted(free, at))
    for side, span in ((-1, slice(max(0, at - reach), at)), (1, slice(at, min(at + reach, len(level))))):
        near = free[middle - half : middle] if side < 0 else free[middle : middle + half]
        far = free[middle - size : middle - half] if side < 0 else free[middle + half : middle + size]
        if not len(near):
            continue
        middles = [float(np.median(latency[one])) for one in (near, far) if len(one)]
        slope = side * (middles[1] - middles[0]) / half if len(middles) == 2 else 0.0
        place = np.arange(span.start, span.stop)
        level[span] = middles[0] + slope * (place - (at + side * half / 2))


# Whether packets fall into two groups, with next to none in between: those beyond the gap are late.
#
# A tail thins out towards its end. Where the number of packets hardly falls over an interval that should lose most of
# them, what is beyond is no tail of the noise, however many packets that is.


BETWEEN: Final = (0.0, 1 / 16, 1 / 8, 1 / 4)
"""So many packets may lie in a gap, of those beyond it."""
REACH: Final = 0.995
"""A quantile: so far from its median noise is said to reach."""
STEEPNESS: Final = 0.9
"""Of Hill's estimate of the tail index, so that noise falls at least this steeply."""
TAIL_SHARE, TAIL_PACKETS = 0.05, (10, 500)
"""Of the packets below the gap Hill's estimate is taken from the upper ones: this share, and so many."""
INDEX: Final = (2.0, 8.0)
"""The tail index that is taken lies between these; a tail heavier than the first is too heavy to judge by."""
TAIL_MOST: Final = 0.02
"""Of all packets: no more than these are the tail, whose index Hill's estimate is."""
PACKETS_LEAST: Final = 100
GROUP_LEAST: Final = 20
"""So many packets beyond a gap may be a group that belongs to those below it."""
FEW: Final = 5
"""Of so many packets of the tail one may be beyond a gap for the tail below it to say how far it goes."""
FEW_CHANCE: Final = log(len(BETWEEN) ** 2 / 2)
"""Half of all false gaps may be of this kind: the two others have the other half, for each of BETWEEN."""
SHAPES: Final = np.concatenate(([0.0], np.geomspace(1e-3, 30, 48)))
"""Shape by scale, in medians of the tail, of what a tail is compared with: exponential distributions, and heavier."""
EVERY: Final = 2_000
"""Of so many packets beyond each number is tried, of more as many on a geometric scale."""


@dataclass(frozen=True)
class SpreadGap:
    """Where packets part, in spreads.

    ends, begins: the last packet below and the first beyond. far: where late begins, between the two. beyond: how many
    packets are beyond, of `of`. reach: how far from its median the group below reaches.
    """

    ends: float
    begins: float
    far: float
    beyond: int
    of: int
    reach: float


def find_gap(values: Float64, place: Int64 | None, thresholds: AnomalyThresholds, chance: float) -> SpreadGap | None:
    """The gap that noise is least likely to make, with at most `gap_share` of the packets beyond it; None without one.

    values: how late packets were, in spreads [n]; place: their places in the stream, ascending [n], None if they are
    all of it; chance: how many gaps a stream of noise may have. Three things are no chance: next to no packets where a
    density that only falls has at least as many as in the next interval as wide; far out, too many beyond it for a tail
    that falls like Pareto's with the index α, which leaves r^(−α) of its packets beyond r times as far (Hill 1975
    estimates α from the packets below the gap); and a few beyond it, too far for a tail of any shape that the others
    allow (`_too_far`). A cluster of late packets counts as one (the extremal index). What is beyond is another group if
    its median is at least `gap_reaches` times as far as the group below reaches.
    """
    n = len(values)
    if n < PACKETS_LEAST:
        return None
    ordered = np.sort(values)
    x, middle = ordered[::-1], shorth_of(ordered)
    most = int(thresholds.gap_share * n)
    most = min(most, int(np.count_nonzero(x[: most + 2] - middle > 1)) - 1)
    if most < 1:
        return None
    # Nothing further in is looked at.
    head = x[: most + int(BETWEEN[-1] * most) + TAIL_PACKETS[1] + 1]
    logs = np.log(np.maximum(head - middle, 1.0))
    summed = np.concatenate(([0.0], np.cumsum(logs)))
    outer = None
    allowed = log(len(BETWEEN) ** 2) + log(np.pi**2 / 6 / chance)
    best: tuple[float, SpreadGap] | None = None
    few = _too_far(head[: int(np.clip(n * TAIL_SHARE, *TAIL_PACKETS)) + 1]) + FEW_CHANCE
    # Of many packets beyond a few more or less make no other gap, as some may lie in it.
    every = np.unique(np.geomspace(1, most, EVERY).astype(np.int64))
    tried = np.concatenate((np.arange(1, min(most, EVERY) + 1), every[every > EVERY]))
    for share in BETWEEN:
        beyond = tried
        edge = beyond + (share * beyond).astype(np.int64)
        possible = (edge < n // 2) & ((edge > beyond) | (share == 0))
        beyond, edge = beyond[possible], edge[possible]
        surprise = _surprise(x, logs, summed, beyond, edge)
        if share == 0:
            surprise[: len(few)] = np.maximum(surprise[: len(few)], few[: len(surprise)])
        score = surprise - 2 * np.log(np.maximum(beyond, 1)) - allowed
        # Of as many beyond, to a tenth, the best: those next to it are the same gap.
        order = np.argsort(-score, kind="stable")
        order = order[: np.count_nonzero(score > (best[0] if best else 0.0))]
        alike = (10 * np.log(beyond[order])).astype(np.int64)
        for one in order[np.sort(np.unique(alike, return_index=True)[1])].tolist():
            gap = _gap(x, int(beyond[one]), int(edge[one]), thresholds)
            if gap is None:
                continue
            if outer is None:
                outer = np.flatnonzero(values > head[-1])
            late = outer[values[outer] > gap.far]
            last = n - 1 if place is None else int(place[-1])
            late = late if place is None else place[late]
            # The last is followed by the first again: otherwise packets in a row would seem to be alone.
            apart = np.diff(late, append=late[0] + last + 1)
            clusters = max(1.0, extremal_index(apart) * len(late))
            if surprise[one] * clusters / len(late) > 2 * log(clusters) + allowed:
                best = float(score[one]), gap
                break
    if best is None:
        return None
    whole = _whole(x, best[1], most, thresholds)
    if whole is None:
        return best[1]
    cut = np.array([whole.beyond])
    return whole if _surprise(x, logs, summed, cut, cut)[0] > allowed else best[1]


def _whole(x: Float64, gap: SpreadGap, most: int, thresholds: AnomalyThresholds) -> SpreadGap | None:
    """The gap below this one that is more than twice as wide: what is beyond is a part of what is beyond that."""
    inside = x[gap.beyond - 1 : min(2 * gap.beyond, most) + 1]
    widths = inside[:-1] - inside[1:]
    if len(widths) < 2 or widths.max() <= 2 * (gap.begins - gap.ends):
        return None
    cut = gap.beyond + int(np.argmax(widths))
    return _gap(x, cut, cut, thresholds)


def _surprise(x: Float64, logs: Float64, summed: Float64, beyond: Int64, edge: Int64) -> Float64:
    """−log of the chance of each gap, the greater of two bounds (Chernoff's)."""
    return np.maximum(_no_valley(x, beyond, edge), _no_tail(logs, summed, beyond, edge, len(x)))


def _no_valley(x: Float64, beyond: Int64, edge: Int64) -> Float64:
    """That of so few packets in it next to those in as wide an interval beyond it, of a density that nowhere rises."""
    begins = x[beyond - 1]
    last = len(x) - np.searchsorted(x[::-1], 2 * begins - x[edge], side="right")
    inside = (edge - beyond).astype(np.float64)
    behind = np.maximum(beyond - last, 1).astype(np.float64)
    share = inside / (inside + behind)
    found = behind * np.log(2 * (1 - share)) + inside * np.log(np.maximum(2 * share, 1e-300))
    return np.where(share < 0.5, found, 0.0)


def _no_tail(logs: Float64, summed: Float64, beyond: Int64, edge: Int64, n: int) -> Float64:
    """That of so many packets beyond it, of a tail that is as steep as it was before the gap; 0 of what is no tail."""
    tail = np.clip(((n - edge) * TAIL_SHARE).astype(np.int64), *TAIL_PACKETS)
    tail = np.minimum(tail, n - 1 - edge)
    spread = (summed[edge + tail] - summed[edge]) / tail - logs[edge + tail]
    index = np.clip(STEEPNESS / np.maximum(spread, 1e-9), *INDEX)
    left = np.exp(-index * (logs[beyond - 1] - logs[edge]))
    share = beyond / edge
    left = np.minimum(left, share)
    found: Float64 = beyond * np.log(share / left)
    inside = share < 1
    found[inside] += (edge - beyond)[inside] * np.log((1 - share[inside]) / (1 - left[inside]))
    return np.where(edge <= TAIL_MOST * n, found, 0.0)


def _too_far(head: Float64) -> Float64:
    """−log of the chance of a gap with 1, 2, 3… packets beyond it and none in it, of a tail of any shape, float64 [k].

    head: the largest values and one more, descending [m + 1]. Their excesses over the last one are generalized Pareto
    (Pickands 1975), exponential or heavier. Two likelihoods are compared, each of the shape and scale that fit best:
    the packets beyond are known to be beyond the near end of the gap, or to be beyond its far end, too. So the tail is
    as heavy as the packets below the gap allow.
    """
    excess = head[:-1] - head[-1]
    middle = float(excess[len(excess) // 2])
    if middle <= 0:
        return np.empty(0)
    excess /= middle
    beyond = np.arange(1, len(excess) // FEW + 1)
    below = len(excess) - beyond
    shape = SHAPES[1:, np.newaxis]
    logs = np.log1p(shape * excess)
    # Without the shape, of an exponential tail, an excess is as far as it is.
    lengths = np.concatenate((excess[np.newaxis], logs))
    sums = (lengths.sum(axis=1, keepdims=True) - np.cumsum(lengths, axis=1))[:, beyond - 1]
    rest = np.concatenate((np.zeros((1, len(beyond))), below * np.log(shape) - sums[1:]))

    def likelihood(ends: Int64) -> Float64:
        found: Float64 = rest - below * np.log((sums + beyond * lengths[:, ends]) / below)
        return found.max(axis=0)  # type: ignore[no-any-return]

    return likelihood(beyond) - likelihood(beyond - 1)


def _gap(x: Float64, beyond: int, edge: int, thresholds: AnomalyThresholds) -> SpreadGap | None:
    """The widest gap between these two; None where what is beyond is too near to be another group.

    So is its nearest part before a gap that is more than twice as wide: the last one of several groups of noise.
    """
    inside = x[beyond - 1 : edge + 1]
    cut = beyond + int(np.argmax(inside[:-1] - inside[1:]))
    begins, ends, below = float(x[cut - 1]), float(x[cut]), x[cut:]
    middle = float(below[len(below) // 2])
    reach = float(below[int((1 - REACH) * len(below))]) - middle
    if float(x[cut // 2]) - middle < thresholds.gap_reaches * reach:
        return None
    nearest = x[:cut][::-1]
    wider = GROUP_LEAST + np.flatnonzero(np.diff(nearest[GROUP_LEAST - 1 :]) > 2 * (begins - ends))
    if len(wider) and float(nearest[wider[0] // 2]) - middle < thresholds.gap_reaches * reach:
        return None
    return SpreadGap(ends, begins, (ends + begins) / 2, cut, len(x), reach)
