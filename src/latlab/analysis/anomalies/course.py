"""The course of the level: how long packets usually take between the two hosts, over the stream."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from latlab.analysis.anomalies.blocks import block_quantiles, filled, running_median, scatter_about_line
from latlab.analysis.anomalies.found import Seen
from latlab.analysis.anomalies.limit import lattice_ns
from latlab.analysis.anomalies.stages import one_way_stamps

Float64 = NDArray[np.float64]

POINTS_LEAST = 8
FEW_POINTS = 4.0
"""Of so few points the scatter is known within a half; of many it is known well."""
LAG = 3
"""Second differences say how much a level scatters, whatever it slowly does: of neighbours, and over so many points."""
CORRELATED = 1.5
"""Of noise that is correlated over a second neighbours differ by so much less; what is beyond that is no noise."""
LATTICE = 1.2
"""Medians of what comes in steps jump by one of them at the least change."""


@dataclass(frozen=True)
class Course:
    """The level of one-way delays over the stream: medians of intervals of `size` packets, and of `per` intervals.

    fine: float64 [intervals], a quantile of the one-way delay: of the median, the 25th and the 10th percentile the one
    that scatters least (where packets have several ways, medians jump from one to the other). fast: the 10th. coarse:
    float64 [points], medians of `per` of `fine`. scatter_ns: of coarse, as noise has it. spread_ns: of packets.
    lattice_ns: of what delays are multiples.
    """

    size: int
    per: int
    fine: Float64
    fast: Float64
    coarse: Float64
    scatter_ns: float
    spread_ns: float
    lattice_ns: int

    def stretch(self, point: int) -> int:
        """The first interval of a point."""
        return point * self.per


def one_way_ns(seen: Seen) -> Float64:
    """Each judged packet's delay between the two hosts, float64 [n], NaN where it is unknown: by NICs, else by kernels.

    Without timestamps of leaving, from the launch on.
    """
    signals = seen.signals
    rows = signals.rows
    pair = one_way_stamps(rows)
    if pair is None:
        return signals.level_ns + signals.late_ns
    start, end = (rows[f"{name}_tai_ns"] for name in pair)
    values = (end - start).cast(float).to_numpy()  # null becomes NaN
    return values if len(signals.row) == rows.height else values[signals.row]


def course_of(seen: Seen, one_way: Float64) -> Course | None:
    """The course of the level; None for a stream that is too short to have one."""
    signals = seen.signals
    size = signals.size
    per = max(1, round(signals.thresholds.level_ns / (size * signals.context.period_ns)))
    if len(one_way) < POINTS_LEAST * per * size:
        return None
    late = np.zeros(len(signals.row), np.bool_)
    late[signals.late] = True
    late[: seen.started] = True
    shares = (0.1, 0.25, 0.5, 0.75, 0.9)
    quantiles = [filled(one) for one in block_quantiles(one_way, size, shares, left_out=late)]
    if seen.started:
        begun = -(-seen.started // size) + 1
        for one in quantiles:
            one[:begun] = np.median(one[begun : begun + per])
    points = len(quantiles[0]) // per

    def point_medians(fine: Float64) -> Float64:
        return np.median(fine[: points * per].reshape(points, per), axis=1)

    def scatter(fine: Float64) -> float:
        # Of points at every interval, not only of those that are kept: in short streams there are few.
        levels = running_median(fine, per // 2)
        near, far = (scatter_about_line(levels, lag * per) for lag in (1, LAG))
        return max(near, min(far, CORRELATED * near)) * (1 + FEW_POINTS / points)

    fine = min((quantiles[number] for number in (2, 1, 0)), key=scatter)
    low, quarter, _, three_quarters, high = quantiles
    spread = float(np.median(np.minimum((three_quarters - quarter) / 1.349, (high - low) / 2.563)))
    least = 1.25 * spread / np.sqrt(per * size)
    return Course(size, per, fine, low, point_medians(fine), max(scatter(fine), least), spread, lattice_ns(one_way))


def tolerance_ns(seen: Seen, course: Course) -> float:
    """How far off a level may be by noise."""
    thresholds = seen.signals.thresholds
    return max(
        thresholds.level_spread * course.spread_ns,
        thresholds.level_scatter * course.scatter_ns,
        thresholds.level_least_ns,
    ) + (LATTICE * course.lattice_ns if course.lattice_ns > 1 else 0)
