"""How late noise makes packets: the local spread, times as far out as the tail of all of them goes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log10
from typing import Final

import numpy as np
from numpy.typing import NDArray

from latlab.analysis.anomalies.blocks import (
    GOLDEN,
    block_quantiles,
    block_spreads,
    filled,
    in_spreads,
    running_median,
    spread_over,
)
from latlab.analysis.anomalies.gap import REACH, find_gap
from latlab.analysis.anomalies.thresholds import Thresholds
from latlab.analysis.anomalies.usual import usual_ns

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
    def of(cls, taken: Float64, size: int, held: Bools | None, thresholds: Thresholds, chance: float) -> Usual:
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

    def limit_ns(
        self, aside: Bools | None, slow_start: int, thresholds: Thresholds, false_alarms: float, beyond: float = 1.0
    ) -> NDArray[np.float32]:
        """From where on no noise makes a packet late, at each packet, float32 [n]: see `limits_ns`."""
        limits = self.limits_ns(aside, slow_start, thresholds, false_alarms, beyond)
        return spread_over(limits, self.size, len(self.late_ns))

    def limits_ns(
        self, aside: Bools | None, slow_start: int, thresholds: Thresholds, false_alarms: float, beyond: float = 1.0
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
    late: Float64, spreads: Float64, size: int, held: Bools | None, step_ns: int, thresholds: Thresholds, chance: float
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


def _is_far(late: Float64, beyond: Bools, step_ns: int, thresholds: Thresholds) -> bool:
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


def tail_limit(values: Float64 | Ordered, thresholds: Thresholds, n: int, false_alarms: float | None = None) -> float:
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
