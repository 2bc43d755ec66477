"""Whether packets fall into two groups, with next to none in between: those beyond the gap are late.

A tail thins out towards its end. Where the number of packets hardly falls over an interval that should lose most of
them, what is beyond is no tail of the noise, however many packets that is.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from typing import Final

import numpy as np
from numpy.typing import NDArray

from latlab.analysis.anomalies.blocks import shorth_of
from latlab.analysis.anomalies.thresholds import Thresholds
from latlab.analysis.clusters import extremal_index

Int64 = NDArray[np.int64]
Float64 = NDArray[np.float64]

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
class Gap:
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


def find_gap(values: Float64, place: Int64 | None, thresholds: Thresholds, chance: float) -> Gap | None:
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
    best: tuple[float, Gap] | None = None
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


def _whole(x: Float64, gap: Gap, most: int, thresholds: Thresholds) -> Gap | None:
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


def _gap(x: Float64, beyond: int, edge: int, thresholds: Thresholds) -> Gap | None:
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
    return Gap(ends, begins, (ends + begins) / 2, cut, len(x), reach)
