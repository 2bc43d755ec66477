"""The usual latency around each packet: a line through medians of short intervals, broken off where they jump."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from latlab.analysis.anomalies.blocks import (
    block_quantiles,
    filled,
    members,
    running_quantile,
    runs,
    scatter_about_line,
    spread_over,
    through_middles,
)
from latlab.analysis.anomalies.thresholds import Thresholds

Int64 = NDArray[np.int64]
Float64 = NDArray[np.float64]
Bools = NDArray[np.bool_]

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
    latency: Float64, end: Int64, launch: Int64, size: int, period_ns: int, bursts: Bools, thresholds: Thresholds
) -> Bools | None:
    """Packets that look held: those in bursts, and those much later than others around, and close to the next or the
    last. None: there are none.

    They would bend the level. bursts: bool [n], in which packets came together (`bursts.together`): what is usual
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
