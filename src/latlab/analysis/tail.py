"""What lies beyond the largest values: a tail fitted to the peaks over a threshold, or why none can be.

Never a bound: levels are extrapolated, by a model, from what one run showed. docs/explanation/statistics.md has the
method and its limits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, inf, isfinite, log, sqrt
from typing import Final

import numpy as np
from numpy.typing import NDArray

from latlab.analysis.bins import ccdf
from latlab.analysis.extremes import (
    LEAST_SHAPE,
    Clusters,
    Floats,
    Pareto,
    Refits,
    clusters,
    fitted,
    level_interval,
    quantile,
    refitted,
)
from latlab.analysis.statistics import ranked
from latlab.analysis.words import duration
from latlab.result.types import Peaks, Tail, TailFit, TailLevel

PACKETS: Final = (10_000, 100_000, 1_000_000)
"""Levels are those that an episode exceeds once in so many packets."""

FEWEST_CLUSTERS: Final = 50
MOST_CLUSTERS: Final = 1000
"""More would bring in what is not tail any more."""

FARTHEST: Final = 10
"""Levels are given up to this many times as many packets as there are."""

REJECTED: Final = 0.2
"""The share of thresholds called unfit by mistake that choosing one allows: a refusal costs less than a wrong level."""

UNSTABLE: Final = 0.05
UNEVEN: Final = 0.01
"""The least p-values of a shape that is one, and of episodes that are spread over the run."""

LARGEST_SHAPE: Final = 0.5
"""From there on the variance is infinite, and L-moments have no error to state (Hosking & Wallis, 1987)."""

ALIKE: Final = 0.1
"""Where the middle half of the peaks spans less than this part of their mean excess, they are one value and no tail."""

COARSEST: Final = 0.1
"""The largest step of values, in scales, that still passes for continuous."""

DRAWS: Final = 499
SEED: Final = 1987
_TAIL: Final = 20
"""The lowest threshold leaves one value in so many above."""

PEAKS: Final = 40
"""Of the peaks at most so many stand in the result, at ranks from the largest equally spaced in the logarithm."""

_STEP: Final = sqrt(2)
_SIDE: Final = 1.96
_MIDDLE: Final = (0.025, 0.975)


@dataclass(frozen=True, eq=False)
class Fit:
    """A threshold's clusters and the distribution of their peaks' excesses.

    start_ns: what excesses count from, the threshold and half a step of the lattice that values lie on. excess float64
    [clusters]: sorted, ns.
    """

    clusters: Clusters
    start_ns: float
    pareto: Pareto
    refits: Refits
    excess: Floats


def tail_of(value_ns: NDArray[np.int64], packets: Sequence[int] = PACKETS) -> Tail:
    """The tail of int64 values [n], in order of sequence.

    why: the reason there are no levels. fit: the chosen threshold's, that of the highest one where none fits; None if
    there were too few clusters at any threshold. stability: the same of every threshold looked at, from the lowest;
    `fits` is whether the goodness of fit leaves it, and the level is that of level_packets, the most of `packets` that
    levels are given for. peaks: of the fit's clusters the share of packets whose episode has a peak at or above.
    levels: of each of `packets`; None as values where its why says so. words: what the levels are.
    """
    n = len(value_ns)
    fits, step = _fits(value_ns)
    unfit = _unfit(fits)
    chosen = fits[unfit] if unfit < len(fits) else None
    why = refusal(fits, chosen, step, n)
    shown = min(unfit, len(fits) - 1)
    far = max((m for m in packets if m <= FARTHEST * n), default=min(packets))
    rows = [_row(fit, far, n, fits=number >= unfit) for number, fit in enumerate(fits)]
    levels = [] if why or chosen is None else [_level(chosen, m, n) for m in packets]
    return Tail(
        n=n,
        why=why,
        fit=rows[shown] if fits else None,
        stability=rows,
        level_packets=far if fits else None,
        peaks=_peaks(fits[shown], n) if fits else None,
        levels=levels,
        words=_words(chosen, levels, n) if chosen and any(level.value_ns is not None for level in levels) else None,
    )


def _fits(value_ns: NDArray[np.int64]) -> tuple[list[Fit], int]:
    """A fit for each threshold that leaves 50 to 1000 clusters, from the lowest, and the step of the values above it.

    Thresholds leave a twentieth of the values above, and each √2 fewer than the one before.
    """
    n = len(value_ns)
    if n < _TAIL * FEWEST_CLUSTERS:
        return [], 0
    above = float(n // _TAIL)
    lowest = ranked(value_ns, [n - 1 - int(above)])[n - 1 - int(above)]
    place = np.flatnonzero(value_ns > lowest)
    tail = value_ns[place]
    ordered = np.sort(tail)
    # The lowest threshold, too: off the lattice of the values above it, half a step could be more than an excess.
    step = int(np.gcd.reduce(np.diff(ordered, prepend=lowest)))
    random = np.random.default_rng(SEED)
    fits: list[Fit] = []
    threshold = int(lowest)
    while len(place) >= FEWEST_CLUSTERS:
        found = clusters(tail, place, threshold)
        if FEWEST_CLUSTERS <= len(found.peak_ns) <= MOST_CLUSTERS and found.peak_ns.max() > found.peak_ns.min():
            fits.append(_fit(found, step, random))
        above /= _STEP
        if above < FEWEST_CLUSTERS:
            break
        threshold = max(threshold, int(ordered[-1 - min(int(above), len(ordered) - 1)]))
        kept = tail > threshold
        place, tail = place[kept], tail[kept]
    return fits, step


def _fit(found: Clusters, step: int, random: np.random.Generator) -> Fit:
    """A value on a lattice stands for all within half a step of it: so does the threshold."""
    excess = np.sort(found.peak_ns - found.threshold_ns).astype(np.float64) - step / 2
    shape, scale = fitted(excess[None])
    pareto = Pareto(len(excess), float(shape[0]), float(scale[0]))
    return Fit(found, found.threshold_ns + step / 2, pareto, refitted(excess, DRAWS, random, step), excess)


def _unfit(fits: Sequence[Fit]) -> int:
    """How many thresholds, from the lowest, leave more than tail; the next one is chosen, if there is one.

    Bader, Yan & Zhang (Automated threshold selection for extreme value analysis via ordered goodness-of-fit tests with
    adjustment for false discovery rate, Annals of Applied Statistics 12, 2018): thresholds from the lowest are unfit
    up to the last one at which the mean of −log(1 − p) so far is at most `REJECTED` (ForwardStop, G'Sell et al.,
    2016).
    """
    unfit, total = 0, 0.0
    for number, fit in enumerate(fits, start=1):
        total -= log(max(1 - fit.refits.p_value, 1e-12))
        if total / number <= REJECTED:
            unfit = number
    return unfit


def refusal(fits: Sequence[Fit], chosen: Fit | None, step: int, n: int) -> str | None:
    """Why the tail cannot be extrapolated; None if it can."""
    if not fits:
        return f"fewer than {FEWEST_CLUSTERS} episodes above any threshold: {n:,} values are too few or too similar"
    scale = fits[-1].pareto.scale
    if step > COARSEST * scale:
        return f"values are {duration(step)} apart, too coarse for excesses of some {duration(scale)}"
    if chosen is None:
        p_values = [fit.refits.p_value for fit in fits]
        ends = " to ".join(dict.fromkeys(f"{p:.3f}" for p in (min(p_values), max(p_values))))
        span = f"p {ends} over {len(fits)} thresholds" if len(fits) > 1 else f"p {ends} at its only threshold"
        return f"a generalized Pareto distribution does not fit the peaks: {span}"
    shape, error = chosen.pareto.shape, chosen.pareto.shape_error
    if shape < LEAST_SHAPE:  # first, as no error is known there
        return _abrupt(chosen, step)
    if shape >= LARGEST_SHAPE:
        return f"the tail is too heavy: shape {shape:.2f}; from {LARGEST_SHAPE} on the variance is infinite"
    if shape + _SIDE * error >= 1:
        return f"the mean may be infinite: shape {_signed(shape)} ± {_SIDE * error:.2f}"
    higher = fits[fits.index(chosen) + 1 :]
    p_value, other = drift(chosen, higher) if higher else (1.0, chosen)
    if p_value < UNSTABLE:
        low, high = (duration(fit.clusters.threshold_ns) for fit in (chosen, other))
        return f"the shape is not stable: {_signed(shape)} above {low}, {_signed(other.pareto.shape)} above {high}"
    if _evenness(chosen.clusters.place, n) < UNEVEN:
        return "the episodes are not spread over the run: the tail at its beginning differs from the tail at its end"
    return None


def _abrupt(chosen: Fit, step: int) -> str:
    """Why a tail of a shape below `LEAST_SHAPE` is refused.

    The density does not fall to 0 at the tail's end, from a shape of −1 on it is largest there. Peaks that are all but
    one value, as those of stalls of one length are, fit such a shape of any size: it is no figure to go by.
    """
    shape = _signed(chosen.pareto.shape)
    low, middle, high = np.quantile(chosen.excess, (0.25, 0.5, 0.75))
    if high - low < ALIKE * chosen.excess.mean():
        return (
            f"the tail ends too abruptly: the middle half of the {chosen.pareto.n} peaks above "
            f"{duration(chosen.clusters.threshold_ns)} lies within {duration(max(float(high - low), step))}, at "
            f"{duration(chosen.start_ns + middle)}, so that the fit is degenerate (shape {shape})"
        )
    least = _signed(LEAST_SHAPE)
    return f"the tail ends too abruptly: shape {shape}, for which no interval is known below {least}"


def _signed(shape: float) -> str:
    """Two digits, fewer of large ones, with a minus sign."""
    return f"{shape:.2f}".replace("-", "−") if abs(shape) < 100 else f"{shape:.0f}".replace("-", "−")


def drift(chosen: Fit, higher: Sequence[Fit]) -> tuple[float, Fit]:
    """(p-value of the shape being one and the same above the chosen threshold, the fit that differs most).

    The largest difference from the chosen shape, each in standard deviations of such a difference; both by a parametric
    bootstrap: samples of the chosen fit, the largest ones fitted again, as many as higher thresholds leave.
    """
    n = chosen.pareto.n
    counts = [min(fit.pareto.n, n - 1) for fit in higher]
    random = np.random.default_rng(SEED)
    shape, scale = np.array(chosen.pareto.shape), np.array(chosen.pareto.scale)
    drawn = np.sort(quantile(1 - random.random((DRAWS, n)), shape, scale), axis=1)
    whole = fitted(drawn)[0]
    parts = np.array([fitted(drawn[:, -count:] - drawn[:, -count - 1, None])[0] - whole for count in counts])
    deviation = parts.std(axis=1)
    found = np.array([fit.pareto.shape - chosen.pareto.shape for fit in higher]) / deviation
    chance = np.abs(parts / deviation[:, None]).max(axis=0)
    most = int(np.abs(found).argmax())
    return float((1 + (chance >= abs(found[most])).sum()) / (DRAWS + 1)), higher[most]


def _evenness(place: NDArray[np.int64], n: int) -> float:
    """The p-value of the clusters being spread evenly over n values (Kolmogorov, with Stephens' correction, 1974)."""
    number = len(place)
    at = (place + 0.5) / n
    steps = np.arange(number + 1) / number
    distance = float(max(np.abs(at - steps[:-1]).max(), np.abs(at - steps[1:]).max()))
    x = distance * (sqrt(number) + 0.12 + 0.11 / sqrt(number))
    return min(1.0, 2 * sum((-1.0) ** (k - 1) * exp(-2 * k * k * x * x) for k in range(1, 101)))


def _level(fit: Fit, packets: int, n: int) -> TailLevel:
    """The level that the peak of one cluster in so many packets exceeds.

    Coles, 2001, eq. 4.12 and §5.3.3: threshold + scale / shape · ((m ζ)^shape − 1), ζ = clusters / n.
    """
    expected, beyond = packets * fit.pareto.n / n, packets / n

    def without(why: str) -> TailLevel:
        return TailLevel(packets=packets, value_ns=None, low_ns=None, high_ns=None, beyond=beyond, why=why)

    if packets > FARTHEST * n:
        return without(f"more than {FARTHEST} times the {n:,} packets that were measured")
    if expected <= 2:
        return without("below the threshold: see the percentiles")
    level = float(quantile(np.array(1 / expected), np.array(fit.pareto.shape), np.array(fit.pareto.scale)))
    low, high = level_interval(fit.excess, expected, DRAWS, np.random.default_rng(SEED))
    if high == inf:
        return without("its interval has no upper limit")
    value_ns, low_ns, high_ns = (fit.start_ns + one for one in (level, low, high))
    return TailLevel(packets=packets, value_ns=value_ns, low_ns=low_ns, high_ns=high_ns, beyond=beyond, why=None)


def _row(fit: Fit, packets: int, n: int, *, fits: bool) -> TailFit:
    """A threshold's figures; the modified scale, scale − shape × threshold, is one for all that fit (Coles, §4.3.4)."""
    shape, error = fit.pareto.shape, _SIDE * fit.pareto.shape_error
    level_ns, level_low_ns, level_high_ns = _drawn_level(fit, packets, n)
    return TailFit(
        threshold_ns=fit.clusters.threshold_ns,
        start_ns=fit.start_ns,
        exceedances=fit.clusters.exceedances,
        extremal_index=fit.clusters.extremal_index,
        run=fit.clusters.run,
        clusters=fit.pareto.n,
        shape=shape,
        shape_low=shape - error if isfinite(error) else None,
        shape_high=shape + error if isfinite(error) else None,
        scale_ns=fit.pareto.scale,
        modified_scale_ns=fit.pareto.scale - shape * fit.start_ns,
        p_value=fit.refits.p_value,
        fits=fits,
        level_ns=level_ns,
        level_low_ns=level_low_ns,
        level_high_ns=level_high_ns,
    )


def _drawn_level(fit: Fit, packets: int, n: int) -> tuple[float | None, float | None, float | None]:
    """The level of one episode in so many packets by this threshold, and the middle 95 % of those of its refits.

    As many clusters are expected as chance leaves open, too. None where the level is below the threshold. It is to see
    how the level depends on the threshold: that of the chosen one has an interval by the likelihood as well (`_level`).
    """
    expected = packets * fit.pareto.n / n
    refits = fit.refits
    if expected <= 2 or not len(refits.shape):
        return None, None, None
    level = float(quantile(np.array(1 / expected), np.array(fit.pareto.shape), np.array(fit.pareto.scale)))
    counted = np.random.default_rng(SEED).poisson(fit.pareto.n, len(refits.shape)) / fit.pareto.n
    low, high = np.quantile(quantile(1 / np.maximum(expected * counted, 1.0), refits.shape, refits.scale), _MIDDLE)
    return fit.start_ns + level, fit.start_ns + min(float(low), level), fit.start_ns + max(float(high), level)


def _peaks(fit: Fit, n: int) -> Peaks:
    """The peaks of the fit's clusters, ascending, and the share of n packets whose episode has one at or above."""
    found = ccdf(fit.clusters.peak_ns, PEAKS)
    share = found.share * (len(fit.clusters.peak_ns) / n)
    return Peaks(value_ns=found.value_ns.tolist(), share=share.tolist())


def _words(fit: Fit, levels: Sequence[TailLevel], n: int) -> str:
    """What the levels are, and how far beyond the data."""
    threshold = duration(fit.clusters.threshold_ns)
    start = (
        f"Extrapolated, not a bound: from {fit.pareto.n:,} episodes above {threshold} in {n:,} packets of one run, by "
        "a generalized Pareto distribution fitted to them"
    )
    said = [
        f"once per {one.packets:,} packets an episode's worst exceeds {duration(one.value_ns)} (95 %: "
        f"{duration(one.low_ns)} to {duration(one.high_ns)}), {_beyond(one.beyond)}"
        for one in levels
        if one.value_ns is not None and one.low_ns is not None and one.high_ns is not None
    ]
    return "; ".join([start, *said]) + "."


def _beyond(times: float) -> str:
    return f"{times:.2g} times as many packets as were measured" if times > 1 else "within the measured range"
