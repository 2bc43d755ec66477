"""How far a run's mean, deviation and percentiles may be off by chance, for values that depend on each other.

Blocks of values are drawn with replacement (circular block bootstrap: Politis & Romano, 1992), so that what depends on
its neighbours stays next to them; how long blocks are is the data's own (`dependence`). docs/explanation/statistics.md
says what the intervals mean, where they are left blank, and how often they hold what they claim.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from math import ceil, exp, floor, log, log10, sqrt
from statistics import NormalDist
from typing import Final

import numpy as np
from numpy.typing import NDArray

from latlab.analysis.extremes import Pareto, fitted
from latlab.analysis.statistics import ranked
from latlab.model.statistics import HEADINGS, PERCENTILES
from latlab.result.types import Confidence, Interval, LargestValue, Statistics

CONFIDENCE: Final = 0.95
DRAWS: Final = 2000
SEED: Final = 2004

BEYOND: Final = 10
"""Independent values that must lie beyond a percentile for its interval."""

FEWEST: Final = 100
"""Independent values that any interval needs."""

FEWEST_FOR_STDDEV: Final = 1000

TOO_FEW: Final = "too few independent values"
TOO_SHORT: Final = "the run is too short: "
"""How a reason begins where the dependence has no end within the run."""
HEAVY: Final = "the tail is too heavy"
"""How a reason begins where a few of the largest values dominate."""
TOO_HEAVY: Final = f"{HEAVY}: a few of the largest values dominate, and no interval is valid"

_TAIL: Final = 20
_FAR_TAIL: Final = 100
"""One value in so many, of those farthest from the mean, is its tail, and what is far out in it."""
_FEWEST_FAR: Final = 10
"""Values from which a tail's shape can be estimated."""
_NO_ERROR: Final = 0.1
"""Draws whose own standard error is below this share of the usual one have next to none: blocks that are all alike."""
_WIDEST: Final = log(10_000)
"""Of a variance's logarithm: where draws without a few values make it so much smaller, it cannot be estimated."""

_NORMAL: Final = NormalDist()


@dataclass(frozen=True)
class Estimate:
    """A 95 % interval for a statistic of the process the values are a sample of; low and high are None where blank.

    inflation: the variance of the estimate as a multiple of that from as many independent values; None where it is not
    known. block: the blocks' length, values. needs: how many values like these it would take; why: what is missing.
    """

    low: float | None
    high: float | None
    inflation: float | None = None
    block: int | None = None
    needs: int | None = None
    why: str | None = None

    def mapped(self, function: Callable[[float], float]) -> Estimate:
        """The interval for an increasing function of the statistic."""
        if self.low is None or self.high is None:
            return self
        return replace(self, low=function(self.low), high=function(self.high))


def confidence_of(value_ns: NDArray[np.int64], found: Statistics) -> Confidence:
    """The statistics `found` of int64 values [n], in order of sequence, with an interval for each.

    effective_n, at most n, is the number of independent values that would be as precise. low and high are None where n
    is too small: why has the reason in words, needs_n the number of values with this dependence that it needs, None if
    unknown. max: with 95 % confidence less than share_above of the process's values is above it, None where the
    dependence is not known.
    """
    n = found.n or 0
    estimates = {**moment_intervals(value_ns), **percentile_intervals(value_ns)}
    figures = {name: _entry(getattr(found, name), estimates[name], n) for name in ("mean", "stddev", *PERCENTILES)}
    return Confidence(
        n=n,
        confidence=CONFIDENCE,
        method=f"circular block bootstrap, {DRAWS} draws",
        **figures,
        max=_maximum(found, [estimates[name] for name in PERCENTILES]),
        supports=_supports(n, figures),
    )


def effective_needed(p: Fraction) -> int:
    """How many independent values a percentile's interval needs: 100, 100, 1000, 10000, 100000 for p50 to p99.99."""
    return max(FEWEST, ceil(BEYOND / min(p, 1 - p)))


def moment_intervals(value_ns: NDArray[np.int64]) -> dict[str, Estimate]:
    """The intervals of the `mean` and the population's `stddev` of values [n], by the bootstrap-t.

    Each draw's deviation is divided by its own standard error, which makes the interval right for skewed values too
    (Götze & Künsch, Second-order correctness of the blockwise bootstrap for stationary observations, Annals of
    Statistics 24, 1996). stddev: the same for the squared deviations, on the scale of the variance's logarithm.
    Where that error says nothing, the mean's is between drawn means (`_between_draws`): never outside the values.
    """
    n, cell = len(value_ns), cell_size(len(value_ns))
    if n == 0:
        return {"mean": _too_few(FEWEST), "stddev": _too_few(FEWEST_FOR_STDDEV)}
    low = int(value_ns.min())
    deviation = (value_ns.view(np.uint64) - np.int64(low).view(np.uint64)).astype(np.float64)
    mean = float(deviation.mean())
    deviation -= mean
    sums = cell_sums(deviation, cell)
    tail = _tail(deviation, _TAIL)
    far = _tail(deviation, _FAR_TAIL) if n >= 10 * _FAR_TAIL else tail
    farthest = float(deviation.min()), float(deviation.max())
    variance = float(np.square(deviation, out=deviation).mean())
    deviation /= variance or 1.0
    deviation -= float(variance > 0)
    squared = cell_sums(deviation, cell)
    spread = float(np.square(deviation, out=deviation).mean())
    return {
        "mean": _moment(
            # Stalls make a tail that looks heavy where they begin and is not, far out: the interval serves for those.
            sums,
            variance,
            n,
            FEWEST,
            heavy=min(tail.shape, far.shape) >= 1 / 2,
            within=farthest,
        ).mapped(lambda x: low + (mean + x)),
        "stddev": _moment(squared, spread, n, FEWEST_FOR_STDDEV, heavy=tail.shape + tail.shape_error >= 1 / 4).mapped(
            lambda x: sqrt(variance) * exp(x / 2)
        ),
    }


def percentile_intervals(
    value_ns: NDArray[np.int64], percentiles: Mapping[str, Fraction] = PERCENTILES
) -> dict[str, Estimate]:
    """The interval of each percentile of values [n], between two of the values; `percentiles` from the middle outwards.

    Woodruff (Confidence intervals for medians and other position measures, JASA 47, 1952): of the values above the
    sample's percentile the share is known, and how much it varies by chance is the block bootstrap's to say; the
    limits are the order statistics that far from it. Blocks are no shorter, and the dependence no weaker, than for the
    percentiles before, which more values determine.
    """
    n = len(value_ns)
    found: dict[str, Estimate] = {}
    ranks: dict[str, tuple[int, int]] = {}
    ordered = ranked(value_ns, [ceil(p * n) - 1 for p in percentiles.values() if n >= effective_needed(p)])
    inflation, block = 1.0, 1
    short: str | None = None
    for name, p in percentiles.items():
        needed = effective_needed(p)
        if n < needed:
            found[name] = Estimate(None, None, why=short) if short else _too_few(ceil(needed * inflation))
            continue
        if short:
            found[name] = Estimate(None, None, why=short)
            continue
        known = _above(value_ns, int(ordered[ceil(p * n) - 1]), p, block)
        if isinstance(known, TooShort):
            short = _too_short(known)
            found[name] = Estimate(None, None, why=short)
            continue
        block = max(block, known.block)
        inflation = max(inflation, known.variance / float(p * (1 - p)))
        within = _numbers_above(known, n * float(1 - p)) if n >= needed * inflation else None
        if within is None or not 0 < within[0] <= within[1] < n:
            found[name] = replace(_too_few(ceil(needed * inflation)), inflation=inflation, block=known.block)
            continue
        fewest, most = within
        ranks[name] = (n - 1 - most, n - fewest)
        found[name] = Estimate(None, None, inflation, known.block)
    ordered = ranked(ordered, [rank for pair in ranks.values() for rank in pair])
    limits = {name: (int(ordered[low]), int(ordered[high])) for name, (low, high) in ranks.items()}
    return {
        name: replace(interval, low=limits[name][0], high=limits[name][1]) if name in limits else interval
        for name, interval in found.items()
    }


def _tail(deviation: Floats, one_in: int) -> Pareto:
    """The generalized Pareto distribution, by L-moments, of the one in so many deviations that is farthest from 0.

    From a shape of 1/2 on the variance of such values is infinite, from 1/4 on that of their squares. Where all but a
    few values are alike, it is not known how far others would reach: the shape is that of a tail without a mean.
    """
    distance = np.abs(deviation)
    rank = len(distance) - 1 - len(distance) // one_in
    threshold = ranked(distance, [rank])[rank]
    excess = np.sort(distance[distance > threshold]) - threshold
    if 0 < len(excess) < _FEWEST_FAR:
        return Pareto(len(excess), 1.0, float(excess[-1]))
    if not len(excess) or excess[0] == excess[-1]:
        return Pareto(len(deviation), 0.0, 0.0)
    shape, scale = fitted(excess[None])
    return Pareto(len(excess), float(shape[0]), float(scale[0]))


def _moment(
    sums: Floats, variance: float, n: int, needed: int, *, heavy: bool, within: tuple[float, float] | None = None
) -> Estimate:
    """The interval of a mean about its estimate, from sums of deviations over cells.

    within: the least and the largest deviation, beyond which no mean lies. None: it is of 1 + the mean, in the
    logarithm.
    """
    if n < needed:
        return _too_few(needed)
    if variance == 0:
        return Estimate(0.0, 0.0, 1.0, 1)
    known = dependence(sums, cell_size(n))
    if isinstance(known, TooShort):
        return Estimate(None, None, why=_too_short(known))
    inflation = max(1.0, known.variance / variance)
    if n < needed * inflation:
        return replace(_too_few(ceil(needed * inflation)), inflation=inflation, block=known.block)
    if heavy:
        return Estimate(None, None, inflation, known.block, why=TOO_HEAVY)
    drawn = known.sums[_draws(len(known.sums), known.count)] / known.block
    shift = drawn.mean(axis=1)
    spread = np.einsum("ij,ij->i", drawn, drawn) / known.count - np.square(shift)
    error = np.sqrt(np.maximum(spread, 0.0) / known.count)
    if within is not None and np.mean(error < _NO_ERROR * np.median(error)) >= (1 - CONFIDENCE) / 4:
        # They would be the limits: half of what lies beyond one.
        return Estimate(*_between_draws(known, shift), inflation, known.block)
    if within is None:
        shift = np.maximum(shift, -0.99)
        shift, error = np.log1p(shift), error / (1 + shift)
    ratio = np.divide(shift, error, out=np.zeros_like(shift), where=error > 0)
    low, high = np.quantile(ratio, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    scale = sqrt(known.variance / n)
    if within is None and -low * scale > _WIDEST:
        return Estimate(None, None, inflation, known.block, why=TOO_HEAVY)
    first, last = float(-high) * scale, float(-low) * scale
    if within is not None and not within[0] <= first <= last <= within[1]:
        first, last = _between_draws(known, shift)
    return Estimate(first, last, inflation, known.block)


def _between_draws(known: Dependence, shift: Floats) -> tuple[float, float]:
    """The means `shift` of draws between which the mean lies, as many to either side as `_beyond` says.

    For blocks of which most are alike, as those of a process with a stall at regular intervals: most draws have no
    error then, and their ratio to it has no bounds.
    """
    tail = _beyond(known)
    low, high = np.quantile(shift, [tail, 1 - tail])
    return float(low), float(high)


def _above(value_ns: NDArray[np.int64], value: int, p: Fraction, shortest: int) -> Dependence | TooShort:
    """The dependence of being above the sample's percentile.

    Of values equal to it as much counts as makes the share above exactly 1 − p, so that ties move nothing.
    """
    n, cell = len(value_ns), cell_size(len(value_ns))
    above, equal = cell_sums(value_ns > value, cell), cell_sums(value_ns == value, cell)
    weight = (n * float(1 - p) - above.sum()) / equal.sum()
    sizes = np.full(len(above), float(cell))
    sizes[-1] = n - cell * (len(above) - 1)
    return dependence(above + weight * equal - float(1 - p) * sizes, cell, shortest)


def _numbers_above(known: Dependence, expected: float) -> tuple[int, int]:
    """The fewest and the most values above the true percentile that chance accounts for, of `expected` ones.

    Numbers of few values are drawn at mid-P.
    """
    if not known.sums.any():
        return round(expected), round(expected)
    tail = _beyond(known)
    drawn = known.sums[_draws(len(known.sums), known.count)].sum(axis=1) + expected
    number, times = np.unique(drawn.round(6), return_counts=True)
    middle = (np.cumsum(times) - times / 2) / DRAWS
    fewest, most = np.interp([tail, 1 - tail], middle, number)
    return ceil(fewest - 1e-9), floor(most + 1e-9)


def _beyond(known: Dependence) -> float:
    """What share of the draws lies beyond either limit. The blocks' sums are not all 0.

    Expanded percentiles (Hesterberg, What teachers should know about the bootstrap, American Statistician 69, 2015,
    §5.3): those of a normal distribution at Student's t, as the variance is known from few blocks only, and at what
    blocks cut off. Its degrees of freedom are by the fourth moment of the blocks' sums (Satterthwaite), so that a few
    blocks with most of what there is count as few.
    """
    squares = np.square(known.sums)
    excess = (float(np.square(squares).mean()) / float(squares.mean()) ** 2 - 1) / known.count
    freedom = min(known.count - 1.0, 2 / excess) if excess > 0 else known.count - 1.0
    wider = sqrt(known.stretch * known.count / (known.count - 1))
    return _NORMAL.cdf(-_student((1 + CONFIDENCE) / 2, freedom) * wider)


@lru_cache(maxsize=8)
def _draws(cells: int, count: int) -> NDArray[np.int32]:
    """Which blocks are drawn [DRAWS, count]: the same whenever there are as many."""
    return np.random.default_rng(SEED).integers(cells, size=(DRAWS, count), dtype=np.int32)


def _student(p: float, freedom: float) -> float:
    """Student's t quantile, to 1 %: Abramowitz & Stegun 26.7.5. Fewer degrees of freedom than 3 count as 3."""
    x, f = _NORMAL.inv_cdf(p), max(3.0, freedom)
    return (
        x
        + (x**3 + x) / 4 / f
        + (5 * x**5 + 16 * x**3 + 3 * x) / 96 / f**2
        + (3 * x**7 + 19 * x**5 + 17 * x**3 - 15 * x) / 384 / f**3
        + (79 * x**9 + 776 * x**7 + 1482 * x**5 - 1920 * x**3 - 945 * x) / 92160 / f**4
    )


def _too_few(needs: int) -> Estimate:
    return Estimate(None, None, needs=needs, why=TOO_FEW)


def _too_short(found: TooShort) -> str:
    """What is known: over how many values they depend on each other at least. Whether they drift is not."""
    stretches = f"{found.count} such intervals" if found.count > 1 else "one such interval"
    return f"{TOO_SHORT}values are correlated over {found.reach:,} of them or more, and it has only {stretches}"


def _is_short(why: str | None) -> bool:
    return why is not None and why.startswith(TOO_SHORT)


def _entry(value: float | None, estimate: Estimate, n: int) -> Interval:
    return Interval(
        value=value,
        low=estimate.low,
        high=estimate.high,
        effective_n=_effective(n, estimate.inflation),
        block=estimate.block,
        needs_n=estimate.needs,
        why=estimate.why,
    )


def _effective(n: int, inflation: float | None) -> int | None:
    return None if inflation is None else floor(n / max(1.0, inflation))


def _maximum(found: Statistics, percentiles: list[Estimate]) -> LargestValue:
    """What the largest of n values says of the share above it.

    P(all n ≤ x) = (share ≤ x)^(effective n): were the share above x more than 1 − 0.05^(1 / effective n), fewer than
    one run in twenty would have no value above x.
    For values that come in clusters effective n is n × the extremal index (Leadbetter, Lindgren & Rootzén, Extremes,
    1983, §3.7), which is no less than n / inflation.
    """
    known = [interval.inflation for interval in percentiles if interval.inflation is not None]
    short = any(_is_short(interval.why) for interval in percentiles)
    effective = None if short or not known else _effective(found.n or 0, max(known))
    share = None if not effective else 1 - (1 - CONFIDENCE) ** (1 / effective)
    return LargestValue(value=found.max, share_above=share, effective_n=effective)


def _supports(n: int, figures: Mapping[str, Interval]) -> str:
    """What n can and cannot support, in words."""
    told = {HEADINGS[name]: figure for name, figure in figures.items()}
    given = [name for name, figure in told.items() if figure.low is not None]
    lacking = [f"{name} {figure.needs_n:,}" for name, figure in told.items() if figure.needs_n is not None]
    short: dict[str, list[str]] = {}
    for name, figure in told.items():
        if figure.why and _is_short(figure.why):
            short.setdefault(figure.why, []).append(name)
    worth = figures["mean"].effective_n
    values = "1 value" if n == 1 else f"{n:,} values"
    said = [values if worth is None else f"for the mean {values} are as precise as {worth:,} independent ones"]
    said.append(f"intervals are given for {', '.join(given)}" if given else "no interval is given")
    if lacking:
        said.append(f"values needed: {', '.join(lacking)}")
    said += [f"{', '.join(names)}: {why}" for why, names in short.items()]
    return "; ".join(said) + "."


# How far values depend on the ones before them: the length of blocks that do not, and the effective sample size.


Floats = NDArray[np.float64]

CELLS: Final = 1 << 15
"""A longer series is summed to at most so many cells first: dependence shorter than a cell needs no finer look."""

MOST_BLOCKS: Final = 128
"""More and shorter blocks would make intervals no narrower (Student's t: 1.979 with 128 blocks, 1.960 with any number),
only blinder to dependence over long times."""

FEWEST_BLOCKS: Final = 10
"""Schmeiser (Batch size effects in the analysis of simulation output, Operations Research 30, 1982): 10 to 30."""

MOST_STRETCH: Final = 2.0
"""The most by which the variance of a sum is raised for what blocks cut off: beyond that they are too short for an
estimate.
"""

_IN_A_ROW: Final = 5


@dataclass(frozen=True)
class Dependence:
    """The dependence of a stationary series of n values with mean 0.

    sums [cells]: over each circular block, one starting at each cell. block: its length in values; count = n / block,
    rounded. cell: values a cell. variance: n × the variance of the series' mean, the long-run variance. interval ≥ 1:
    how much of it is what the blocks' edges cut off.
    """

    sums: Floats
    block: int
    count: int
    cell: int
    variance: float
    stretch: float


@dataclass(frozen=True)
class TooShort:
    """A series in which sums of blocks of `reach` values still depend on those next to them, and which has `count` of
    these at most: too few for longer ones, and so to decide whether it drifts or is only slow.
    """

    reach: int
    count: int


def cell_size(n: int) -> int:
    """How many values are summed to one cell."""
    return max(1, ceil(n / CELLS))


def cell_sums(value: NDArray[np.generic], cell: int) -> Floats:
    """Sums [⌈n / cell⌉] of each `cell` values that follow one another, the last of what is left."""
    if cell == 1:
        return value.astype(np.float64)
    whole = len(value) // cell * cell
    table = value[:whole].reshape(-1, cell)
    sums = np.count_nonzero(table, axis=1) if value.dtype == np.bool_ else table.sum(axis=1)
    rest = value[whole:].sum(dtype=np.float64) if whole < len(value) else None
    return sums.astype(np.float64) if rest is None else np.append(sums.astype(np.float64), rest)


def block_length(series: Floats) -> float:
    """The length of circular blocks, in cells, 1 or more, which estimates the variance of a mean best.

    Politis & White (Automatic block-length selection for the dependent bootstrap, Econometric Reviews 23, 2004), §3.2,
    with the constant of Patton, Politis & White's correction (28, 2009): b = (2 G² / D)^⅓ N^⅓ with D = 4/3 · g(0)², g
    and G by the flat-top window of width M = 2 m, m the first of 5 lags in a row whose correlations stay below
    2 √(log₁₀N / N), as in the authors' own program. At most min(3 √N, N / 3). A series that does not vary: 1.
    """
    n = len(series)
    farthest = ceil(sqrt(n)) + _IN_A_ROW
    covariance = _autocovariance(series, max(1, min(n - 1, farthest + _IN_A_ROW)))
    if n <= _IN_A_ROW or covariance[0] <= 0:
        return 1.0
    small = np.abs(covariance[1:]) < 2 * sqrt(log10(n) / n) * covariance[0]
    runs = np.flatnonzero(np.convolve(small, np.ones(_IN_A_ROW), "valid") >= _IN_A_ROW)
    large = np.flatnonzero(~small)
    reach = int(runs[0]) + 1 if len(runs) else int(large[-1]) + 1 if len(large) else 1
    width = min(2 * reach, farthest, len(covariance) - 1)
    lag = np.arange(1, width + 1)
    window = np.minimum(1.0, 2 * (1 - lag / width))
    spectrum = covariance[0] + 2 * float(window @ covariance[1 : width + 1])
    if spectrum <= 0:
        return 1.0
    curvature = 2 * float((window * lag) @ covariance[1 : width + 1])
    length = (1.5 * (curvature / spectrum) ** 2 * n) ** (1 / 3)
    return float(max(1.0, min(length, ceil(min(3 * sqrt(n), n / 3)))))


def dependence(sums: Floats, cell: int, shortest: int = 1) -> Dependence | TooShort:
    """How values depend, from the sums of their deviations from the mean over cells; or how far they do at least.

    shortest: the least block length, in values. Blocks are as long as `block_length` says, longer where more than
    `MOST_BLOCKS` would fit, and twice as long again as long as neighbours' sums are correlated by more than two
    standard errors (2 / √blocks) of uncorrelated ones. Too short: that would leave fewer than `FEWEST_BLOCKS`, as with
    values that drift through the whole run, and with such as change slowly next to its length.
    """
    cells = len(sums)
    length = min(cells, ceil(max(block_length(sums), cells / MOST_BLOCKS, shortest / cell)))
    reach = length
    while cells / length >= FEWEST_BLOCKS:
        blocks = _circular_sums(sums, length)
        if not _adjoin(blocks[::length][: cells // length]):
            break
        reach, length = length, length * 2
    else:
        return TooShort(reach * cell, max(1, cells // reach))
    count = round(cells / length)
    variance = float(np.square(blocks).mean()) / (length * cell)
    stretch = _stretch(sums, length, cell, variance)
    return Dependence(blocks, length * cell, count, cell, variance * stretch, stretch)


def _stretch(sums: Floats, length: int, cell: int, variance: float) -> float:
    """What the variance from blocks has to be multiplied by, at least 1, for the covariances their edges cut off.

    The loss falls as 1 / length, so twice the figure less that of half as long blocks has none to first order: the
    flat-top window of Politis & Romano (Bias-corrected nonparametric spectral estimation, 1995).
    """
    if length < 2 or variance <= 0:
        return 1.0
    half = length // 2
    halved = float(np.square(_circular_sums(sums, half)).mean()) / (half * cell)
    slope = (variance - halved) / (1 / half - 1 / length)
    return min(MOST_STRETCH, max(1.0, 1 + slope / length / variance))


def _adjoin(sums: Floats) -> bool:
    """Whether the sums of neighbouring blocks are correlated."""
    total = float(sums @ sums)
    return total > 0 and float(sums[:-1] @ sums[1:]) / total > 2 / sqrt(len(sums))


def _circular_sums(sums: Floats, length: int) -> Floats:
    """Sums of `length` cells from each one on, the first following the last (Politis & Romano, 1992)."""
    total = np.concatenate(([0.0], np.cumsum(np.concatenate((sums, sums[: length - 1])))))
    return total[length:] - total[:-length]


def _autocovariance(series: Floats, lags: int) -> Floats:
    """The autocovariances [lags + 1], each divided by n, by the fast Fourier transform."""
    n = len(series)
    if n == 0:
        return np.zeros(1)
    padded = 1 << (n + lags).bit_length()
    spectrum = np.fft.rfft(series - series.mean(), padded)
    return np.fft.irfft(spectrum * np.conj(spectrum), padded)[: lags + 1] / n
