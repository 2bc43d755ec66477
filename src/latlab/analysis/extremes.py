"""Extreme values: clusters of those above a threshold, and the generalized Pareto distribution of their peaks."""

from __future__ import annotations

from dataclasses import dataclass
from math import floor, log, sqrt
from typing import Final

import numpy as np
from numpy.typing import NDArray

from latlab.analysis.statistics import ranked

# Which values above a threshold belong together: the extremal index, and the peak of each cluster.


@dataclass(frozen=True)
class Clusters:
    """The values above a threshold, in clusters.

    exceedances: how many there are. extremal_index: 1 / the mean number of a cluster, by the intervals estimator. run:
    values in a row at or below the threshold that end a cluster, more than. place, peak_ns int64 [clusters]: where the
    largest value of each cluster is among all values, the first if there are several; and the value.
    """

    threshold_ns: int
    exceedances: int
    extremal_index: float
    run: int
    place: NDArray[np.int64]
    peak_ns: NDArray[np.int64]


def clusters(value_ns: NDArray[np.int64], place: NDArray[np.int64], threshold_ns: int) -> Clusters:
    """The clusters of int64 values [m] above the threshold, `place` [m] being where each is in the series.

    Runs method: values further apart than `run` belong to two clusters. The run's length is the data's own (Ferro &
    Segers, Inference for clusters of extreme values, J. R. Statist. Soc. B 65, 2003, §4): of the m − 1 times between
    them the largest ⌊extremal index × m⌋ separate clusters.
    """
    gap = np.diff(place)
    index = extremal_index(gap)
    run = _run(gap, index)
    first = np.concatenate(([0], np.flatnonzero(gap > run) + 1)) if len(place) else np.empty(0, np.int64)
    peak = np.maximum.reduceat(value_ns, first) if len(place) else value_ns
    number = np.repeat(np.arange(len(first)), np.diff(np.append(first, len(place))))
    highest = np.flatnonzero(value_ns == peak[number])
    where = highest[np.unique(number[highest], return_index=True)[1]]
    return Clusters(threshold_ns, len(place), index, run, place[where], peak)


def extremal_index(gap: NDArray[np.int64]) -> float:
    """The extremal index by the times [m − 1] between exceedances: the intervals estimator, between 0 and 1.

    Ferro & Segers, 2003, eq. 5 and 6: 2 (ΣT)² / (N ΣT²), of T − 1 and T − 2 where any T is above 2. 1 for fewer than
    two.
    """
    if len(gap) == 0:
        return 1.0
    time = gap.astype(np.float64)
    if gap.max() <= 2:
        upper, lower = float(time.sum()) ** 2, float(np.square(time).sum())
    else:
        upper, lower = float((time - 1).sum()) ** 2, float(((time - 1) * (time - 2)).sum())
    return min(1.0, 2 * upper / (len(gap) * lower))


def _run(gap: NDArray[np.int64], index: float) -> int:
    """The longest time between two values of one cluster: the largest that is not among those between clusters."""
    between = min(len(gap), floor(index * (len(gap) + 1)))
    if between == len(gap):
        return 0
    return int(ranked(gap, [len(gap) - 1 - between])[len(gap) - 1 - between])


# The generalized Pareto distribution: its fit by L-moments, whether it fits, and intervals of its levels.
#
# P(Y > y) = (1 + shape · y / scale)^(−1 / shape) for excesses y > 0 over a threshold; shape 0 is the exponential
# distribution.


Floats = NDArray[np.float64]

LEAST_SHAPE: Final = -0.5
"""Below it the likelihood has no maximum to go by (Smith, Maximum likelihood estimation in nonregular cases, 1985)."""

_DEVIANCE: Final = 3.841
"""The 95th percentile of χ² with one degree of freedom."""

_NEXT_TO_ZERO: Final = 1e-9
"""A shape of 0 is taken to be this, so that one formula serves all."""


@dataclass(frozen=True)
class Pareto:
    """A fitted distribution of `n` excesses; scale in ns."""

    n: int
    shape: float
    scale: float

    @property
    def shape_error(self) -> float:
        """The standard error of the shape by L-moments, for many excesses.

        Hosking & Wallis (Parameter and quantile estimation for the generalized Pareto distribution, Technometrics 29,
        1987), §3, in their k = −shape; infinite for shapes of 0.5 and more.
        """
        k = -self.shape
        if k <= -0.5:
            return float("inf")
        return sqrt((1 + k) * (2 + k) ** 2 * (1 + k + 2 * k * k) / ((1 + 2 * k) * (3 + 2 * k)) / self.n)


def fitted(excess: Floats) -> tuple[Floats, Floats]:
    """(shape, scale) [rows] by L-moments of sorted excesses [rows, n], not all of a row alike.

    Hosking (L-moments, J. R. Statist. Soc. B 52, 1990), table 2: k = λ₁ / λ₂ − 2, scale = (1 + k) λ₁, shape = −k; λ₁
    and λ₂ = 2 b₁ − b₀ by the unbiased b₀ and b₁. λ₂ is 0 of excesses that are all alike, which no such distribution
    has; of all others it is above 0, and computed as such: it does not change where all excesses grow by as much, so
    the least is taken off first, and what is summed is not the small difference of two large sums.
    """
    n = excess.shape[-1]
    mean = excess.mean(axis=-1)
    second = (excess - excess[..., :1]) @ (2.0 * np.arange(n) - (n - 1)) / (n * (n - 1))
    k = mean / second - 2
    return -k, (1 + k) * mean


def quantile(above: Floats, shape: Floats, scale: Floats) -> Floats:
    """The excess that a share `above` exceeds."""
    shape = np.where(np.abs(shape) < _NEXT_TO_ZERO, _NEXT_TO_ZERO, shape)
    result: Floats = scale / shape * np.expm1(-shape * np.log(above))
    return result


def anderson_darling(excess: Floats, shape: Floats, scale: Floats) -> Floats:
    """A² [rows] of sorted excesses [rows, n] and the distributions (shape, scale) [rows].

    Anderson & Darling, 1954; it weighs the tail more than Cramér & von Mises do. An excess beyond a distribution's end
    counts as one next to it.
    """
    n = excess.shape[-1]
    shape = np.where(np.abs(shape) < _NEXT_TO_ZERO, _NEXT_TO_ZERO, shape)[..., None]
    inside = np.maximum(1 + shape * excess / scale[..., None], 1e-300)
    log_above = np.clip(-np.log(inside) / shape, -46.0, -1e-15)
    log_below = np.log(-np.expm1(log_above))
    weight = 2 * np.arange(1, n + 1) - 1
    result: Floats = -n - (weight * (log_below + log_above[..., ::-1])).sum(axis=-1) / n
    return result


@dataclass(frozen=True, eq=False)
class Refits:
    """Whether a distribution fits, and what samples of it have for their own fits.

    p_value: of the excesses being from it. shape, scale float64 [draws, or fewer]: of each sample that has a fit.
    """

    p_value: float
    shape: Floats
    scale: Floats


def refitted(excess: Floats, draws: int, random: np.random.Generator, step: float = 0.0) -> Refits:
    """The p-value of sorted excesses [n] being from a generalized Pareto distribution, by A² and a bootstrap.

    The tables of Choulakian & Stephens (Technometrics 43, 2001) are for fits by maximum likelihood; the distribution
    of A² by L-moments is drawn instead: samples of the fitted distribution, each fitted again (Stute, González Manteiga
    & Presedo Quindimil, Metrika 40, 1993). step: of the lattice the excesses lie on; draws are put on the same. A draw
    that lies on a single point of it is what its own fit, that point, gives: its A² is the least there is.
    """
    shape, scale = fitted(excess[None])
    found = anderson_darling(excess[None], shape, scale)[0]
    drawn = quantile(1 - random.random((draws, len(excess))), shape, scale)
    if step:
        drawn = (np.floor(drawn / step) + 0.5) * step
    drawn.sort(axis=1)
    spread = drawn[drawn[:, -1] > drawn[:, 0]]
    shapes, scales = fitted(spread)
    others = anderson_darling(spread, shapes, scales)
    return Refits(float((1 + (others >= found).sum()) / (draws + 1)), shapes, scales)


def level_interval(excess: Floats, expected: float, draws: int, random: np.random.Generator) -> tuple[float, float]:
    """The 95 % interval of the excess that one of `expected` clusters exceeds, by the sorted excesses [n] of n.

    The wider, at each end, of two: profile likelihood (Coles, An Introduction to Statistical Modeling of Extreme
    Values, 2001, §4.3.3), as a bootstrap's intervals are too short where the tail is heavy; and percentiles of a
    parametric bootstrap of the fit by L-moments, as that is the less certain one where the tail ends. How many
    clusters are expected is known to within chance only, too, √n of n. The upper end is infinite where 30 times the
    estimate is likely.
    """
    likely, drawn = _likely_levels(excess, expected), _drawn_levels(excess, expected, draws, random)
    return min(likely[0], drawn[0]), max(likely[1], drawn[1])


def _drawn_levels(excess: Floats, expected: float, draws: int, random: np.random.Generator) -> tuple[float, float]:
    """The middle 95 % of the levels of samples of the fitted distribution, each fitted again."""
    n = len(excess)
    drawn = quantile(1 - random.random((draws, n)), *fitted(excess[None]))
    drawn.sort(axis=1)
    counts = np.maximum(expected * random.poisson(n, draws) / n, 1.0)
    low, high = np.quantile(quantile(1 / counts, *fitted(drawn)), [0.025, 0.975])
    return float(low), float(high)


def _likely_levels(excess: Floats, expected: float) -> tuple[float, float]:
    """The ends of the levels whose likelihood, at the best shape and rate, is within half of χ² of the largest."""
    n = len(excess)
    level = float(quantile(np.array(1 / expected), *fitted(excess[None]))[0])
    theta = _thetas(excess)
    summed = np.array([np.log1p(each * excess).sum() for each in theta])
    levels = level * np.geomspace(1 / 30, 30, 401)
    part = np.multiply.outer(levels, theta)
    # Nothing is above the distribution's end, where 1 + θ level is 0: its logarithm is −∞ there, and so is the shape.
    decay = np.log1p(part, out=np.full_like(part, -np.inf), where=part > -1)
    profile = _Profile(decay, theta, summed, n)
    best = np.full(len(levels), -np.inf)
    for rate in 1 + np.linspace(-2, 2, 5) / sqrt(n):
        if expected * rate > 1:
            of_count = n * (log(rate) - rate + 1)
            best = np.maximum(best, profile.largest(log(expected * rate)) + of_count)
    lacking = best.max() - _DEVIANCE / 2 - best
    inside = np.flatnonzero(lacking <= 0)
    ends = (_crossing(levels, lacking, int(inside[0]), -1), _crossing(levels, lacking, int(inside[-1]), 1))
    return ends[0], ends[1] if inside[-1] < len(levels) - 1 else float("inf")


def _crossing(levels: Floats, lacking: Floats, last: int, step: int) -> float:
    """Where between the last level inside and the next one the likelihood gets too small."""
    beyond = min(max(last + step, 0), len(levels) - 1)
    if beyond == last or not np.isfinite(lacking[beyond]):
        return float(levels[last])
    part = -lacking[last] / (lacking[beyond] - lacking[last])
    return float(levels[last] * (levels[beyond] / levels[last]) ** part)


class _Profile:
    """The log likelihood of n excesses at each level and each θ = shape / scale (Grimshaw, Technometrics 35, 1993).

    It is −n log scale − (1 + 1 / shape) Σ log(1 + θ excess). At θ a level that one of m clusters exceeds fixes the
    shape: decay / log m, decay = log(1 + θ level). Both have θ's sign, so that scale and logarithm are real.
    """

    def __init__(self, decay: Floats, theta: Floats, summed: Floats, n: int) -> None:
        """decay: [levels, θ], −∞ where the level is beyond the end; theta: [θ]; summed: Σ log(1 + θ excess) [θ]."""
        self._decay, self._summed, self._n = decay, summed, n
        self._log_part = np.log(decay / theta)
        self._reciprocal = 1 / decay

    def largest(self, log_m: float) -> Floats:
        """That of each level's best θ [levels]; −∞ where every shape is below `LEAST_SHAPE`."""
        log_scale = self._log_part - log(log_m)
        likelihood = -self._n * log_scale - (1 + log_m * self._reciprocal) * self._summed
        likelihood[self._decay < LEAST_SHAPE * log_m] = -np.inf
        row, best = np.arange(len(likelihood)), likelihood.argmax(axis=1)
        result: Floats = likelihood[row, best]
        # A parabola through the best point and its neighbours finds what lies between the points of the grid.
        last = likelihood.shape[1] - 1
        before, after = (likelihood[row, np.clip(best + step, 0, last)] for step in (-1, 1))
        inside = np.flatnonzero(np.isfinite(before) & np.isfinite(after) & (before < result) & (after < result))
        low, top, high = before[inside], result[inside], after[inside]
        rise = np.square(high - low) / (8 * (2 * top - low - high))
        result[inside] += np.where(rise < 1, rise, 0.0)
        return result


def _thetas(excess: Floats) -> Floats:
    """A grid of shape / scale, ascending, from next to where the largest excess ends the distribution, without 0."""
    mean, largest = float(excess.mean()), float(excess.max())
    middle = min(0.1 / mean, 0.5 / largest)
    ending = -(1 - np.geomspace(1e-6, 1 - middle * largest, 200, endpoint=False)) / largest
    near = np.geomspace(1e-6 / mean, middle, 100)
    return np.concatenate((ending, -near[::-1], near, np.geomspace(middle, 100 / mean, 200)[1:]))
