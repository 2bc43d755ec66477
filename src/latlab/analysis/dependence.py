"""How far values depend on the ones before them: the length of blocks that do not, and the effective sample size."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, log10, sqrt
from typing import Final

import numpy as np
from numpy.typing import NDArray

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


def dependence(sums: Floats, cell: int, n: int, shortest: int = 1) -> Dependence | TooShort:
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
