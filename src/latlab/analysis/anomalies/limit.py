"""How late noise makes packets: the local spread, times as far out as the tail of all of them goes."""

from __future__ import annotations

from collections.abc import Sequence
from math import log10
from typing import Final

import numpy as np
from numpy.typing import NDArray

from latlab.analysis.anomalies.blocks import block_spreads, filled, running_median, spread_over
from latlab.analysis.anomalies.thresholds import Thresholds

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
GOLDEN: Final = 0.6180339887498949
"""Its multiples, modulo 1, lie evenly and never repeat."""


def lattice_ns(latency: Int64 | Float64) -> int:
    """Of what all latencies differ by multiples; 1 of timestamps that are to the nanosecond, or that are all alike."""
    known = latency[~np.isnan(latency)][:LATTICE_SAMPLE]
    if len(known) == 0:
        return 1
    return max(1, int(np.gcd.reduce((known - known[0]).astype(np.int64))))


def local_spreads(late: Float64, size: int, held: Bools | None, step_ns: int) -> Float64:
    """How wide packets lie in each stretch, float64 [stretches]."""
    if not len(late):
        return np.empty(0)
    spreads = running_median(filled(block_spreads(late, size, left_out=held)), SPREAD_REACH)
    return np.maximum(spreads, max(SPREAD_LEAST_NS, step_ns / 2))


def local_limits(
    late: Float64,
    spreads: Float64,
    size: int,
    held: Bools | None,
    slow_start: int,
    step_ns: int,
    thresholds: Thresholds,
) -> NDArray[np.float32]:
    """How late noise makes packets at each packet, float32 [n]; what was held, or slow at first, is no noise."""
    n = len(late)
    if n == 0:
        return np.empty(0, np.float32)
    every = max(1, n // SAMPLE)
    number = np.arange((n - slow_start) // every)
    # One in each stretch of `every`, never at the same place: what is periodic is not met too often, nor too seldom.
    sample = slow_start + number * every + (number * GOLDEN % 1 * every).astype(np.int64)
    if held is not None:
        sample = sample[~held[sample]]
    # Timestamps on a coarse lattice tie; between its points they are spread evenly.
    between = (sample * GOLDEN % 1 - 0.5) * step_ns
    scaled = (late[sample] + between) / spreads[sample // size]
    far = tail_limit(scaled, thresholds, n)
    return spread_over(np.maximum(spreads * far, thresholds.least_ns), size, n)


def tail_limit(values: Float64, thresholds: Thresholds, n: int) -> float:
    """How far out at most `false_alarms` of n packets are by noise alone; values: what lies about 0, in spreads.

    Values that one in ten thousand would not reach, by a nearer part of the tail, are left aside first: if there are
    more of them, they are what is looked for.
    """
    far = _fall(values, TAIL[:-1], AT_FIRST, AT_FIRST_SAFETY, thresholds.tail_spreads)
    kept, share = values[values <= far], thresholds.false_alarms / n
    # Where one packet in a hundred is something else, the part next to it tells how noise goes on.
    return min(
        _fall(kept, tail, share, thresholds.tail_safety, thresholds.tail_spreads) for tail in (TAIL[:-1], TAIL[1:])
    )


def _fall(values: Float64, tail: Sequence[float], share: float, safety: float, least: float) -> float:
    """Where the tail comes down to a share, as it falls over the shares of `tail`, each half a decade after the other.

    Half a decade further out it is wider by the same factor each time: 1 for an exponential tail, less for a gaussian
    one, 10^(1/2α) for Pareto's with the index α. safety: times as far as that; least: at least so much further.
    """
    q = np.quantile(values, [1 - one for one in tail])
    *_, near, width, wider = np.diff(q)
    steps = max(0.0, 2 * log10(tail[-1] / share))
    # Of packets that have several ways, a rare one makes one step wide: that is no tail.
    growth = min(np.sqrt(wider / near), ONE_STEP * wider / width) if near > 0 and width > 0 else 1.0
    growth = float(np.clip(growth, *TAIL_GROWTH))
    sum_of = steps if abs(growth - 1) < 1e-6 else growth * (1 - growth**steps) / (1 - growth)
    return float(q[-1] + max(safety * wider * sum_of, width, least))
