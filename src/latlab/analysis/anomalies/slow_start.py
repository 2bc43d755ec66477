"""How far into a stream its beginning is slower than the rest, by medians alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from latlab.analysis.anomalies.blocks import robust_scale, running_median, shorth
from latlab.analysis.anomalies.thresholds import Thresholds

Float64 = NDArray[np.float64]

SCALES: Final = (2048, 512, 128, 32, 8)
"""Packets in an interval: the beginning is examined with each of these lengths."""
SAMPLES: Final = 400
SAMPLES_LEAST: Final = 24
NEARLY_ALL: Final = 0.97
BACK_SCATTER, BACK_SPREAD = 2.5, 0.3
AROUND: Final = 4
POINT_LEAST: Final = 20
POINTS_LEAST: Final = 16
REACH: Final = 2
"""Points on either side that a level is the median of: what goes within two seconds stays noise."""
MONOTONE: Final = 0.9
STEADY: Final = 0.5
"""Of the slope of a drift: over shorter times it is at least that steep, too."""


@dataclass(frozen=True)
class Scale:
    """Medians over `size` packets in the rest of the stream: their scatter, and what hardly any exceeds, ns."""

    size: int
    scatter: float
    nearly_all: float


@dataclass(frozen=True)
class Slowly:
    """How the level goes over the stream in many seconds: clocks that move are no slow start.

    at_ns, level: float64 [points]: instants and levels; in the first part, which is judged, that of
    most of it, and as the rest drifts.
    """

    at_ns: Float64
    level: Float64

    def at(self, at_ns: Float64) -> Float64:
        """The level at these instants, float64."""
        return np.interp(at_ns, self.at_ns, self.level)


def find_slow_start(
    latency: Float64, launch_ns: NDArray[np.int64], spread_ns: float, period_ns: int, thresholds: Thresholds
) -> tuple[int, float]:
    """How many packets the slow beginning has, 0 for none; and the usual latency after it, ns.

    latency, launch_ns: [n], of packets that follow one another; spread_ns: how wide they lie. The median of the first
    packets is compared with those of as many packets that follow one another, all through the stream after its first
    part: so noise that is correlated over such times raises no alarm.
    """
    n = len(latency)
    most = int(thresholds.warm_up_most * n)
    sizes = [size for size in SCALES if n - most >= SAMPLES_LEAST * size and most >= 2 * size]
    if not sizes:
        return 0, 0.0
    at_ns = (launch_ns - launch_ns[0]).astype(np.float64)
    slowly = _slowly(latency, at_ns, most, max(POINT_LEAST, thresholds.level_ns // period_ns))
    first = latency[:most] - slowly.at(at_ns[:most])
    scales = [_rest(latency, at_ns, most, size, slowly) for size in sizes]
    slow = [one for one in scales if _is_slow(first, one, spread_ns, thresholds)]
    usual = float(slowly.at(at_ns[:1])[0])
    if not slow:
        return 0, usual
    return _end(first, [one for one in scales if one.size <= slow[0].size], spread_ns), usual


def _slowly(latency: Float64, at_ns: Float64, most: int, size: int) -> Slowly:
    """The level over the stream; a point is `size` packets, or fewer where that leaves too few points."""
    size = max(1, min(size, len(latency) // POINTS_LEAST))
    points = len(latency) // size
    medians = np.median(latency[: points * size].reshape(points, size), axis=1)
    at = at_ns[size // 2 : points * size : size]
    judged = -(-most // size)
    rest, at_rest = medians[judged:], at[judged:]
    slope = drift(rest, at_rest)
    level = np.concatenate((np.empty(judged), running_median(rest, REACH)))
    # Most packets of the first part are not slow any more.
    level[:judged] = shorth(medians[:judged] - slope * at[:judged]) + slope * at[:judged]
    return Slowly(np.concatenate(([0.0], at)), np.concatenate(([level[0] - slope * at[0]], level)))


def drift(level: Float64, at_ns: Float64) -> float:
    """How levels drift all the time, ns per ns; 0 where they do not: a step is no drift.

    Half of the time apart nearly all have moved the same way; a quarter of it apart, most of them by their part. Of a
    level that steps at its middle the first is true as well, and the second is not.
    """
    far, near = (
        (level[lag:] - level[: len(level) - lag]) / (at_ns[lag:] - at_ns[: len(level) - lag])
        for lag in (len(level) // 2, len(level) // 4)
    )
    slope = float(np.median(far))
    alike = np.mean(np.sign(far) == np.sign(slope)) >= MONOTONE
    return slope if alike and float(np.median(near)) * np.sign(slope) >= STEADY * abs(slope) else 0.0


def _rest(latency: Float64, at_ns: Float64, most: int, size: int, slowly: Slowly) -> Scale:
    count = min(SAMPLES, (len(latency) - most) // size)
    begins = most + (np.arange(count) * ((len(latency) - most - size) / max(count - 1, 1))).astype(np.int64)
    medians = np.median(latency[begins[:, np.newaxis] + np.arange(size)], axis=1)
    medians -= slowly.at(at_ns[begins + size // 2])
    return Scale(size, robust_scale(medians), float(np.quantile(medians, NEARLY_ALL)))


def _is_slow(first: Float64, scale: Scale, spread_ns: float, thresholds: Thresholds) -> bool:
    off = float(np.median(first[: scale.size]))
    least = max(thresholds.warm_up_scatter * scale.scatter, spread_ns, thresholds.level_least_ns)
    return off > least and off > thresholds.warm_up_beyond * scale.nearly_all


def _end(first: Float64, scales: list[Scale], spread_ns: float) -> int:
    """Where the level is back, from coarse to fine; 0 if it never is in this part."""
    end = 0
    for scale in scales:
        size = scale.size
        begin = max(0, end - AROUND * size) if end else 0
        last = min(len(first), end + AROUND * size) if end else len(first)
        blocks = (last - begin) // size
        medians = np.median(first[begin : begin + blocks * size].reshape(blocks, size), axis=1)
        back = max(BACK_SCATTER * scale.scatter, BACK_SPREAD * spread_ns, scale.nearly_all)
        slow = medians >= back
        if not end:
            if slow.all():
                return 0
            end = int(np.argmin(slow)) * size
        elif slow.any():
            end = begin + (int(np.flatnonzero(slow)[-1]) + 1) * size
    return end
