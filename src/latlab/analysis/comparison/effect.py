"""How far apart two groups of repetitions are: one figure of each repetition in, their difference with its error out.

A repetition (a deployment) is the unit: the packets within one share what that deployment happened to be like, so a
million of them are one observation of it (docs/explanation/comparing.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import atan2, cos, fsum, hypot, pi, sin, sqrt
from statistics import fmean
from typing import Final

ALPHA: Final = 0.05
"""How often a difference may be shown where there is none; intervals hold with 1 − ALPHA."""


@dataclass(frozen=True)
class Effect:
    """B − A of one figure, in the figure's unit (ns).

    a, b: the mean of each side's repetitions. error: the standard error of b − a over repetitions, with `freedom`
    degrees of freedom; None where a side has a single repetition, so that it is unknown. clocks: by how much clocks
    may make the difference wrong, either way, in every repetition alike; None: nothing bounds that, and it is in no
    interval.
    """

    a: float
    b: float
    error: float | None
    freedom: int
    clocks: int | None = 0

    @property
    def difference(self) -> float:
        """B − A."""
        return self.b - self.a

    @property
    def exact(self) -> bool:
        """Whether every repetition said the same, so that the interval is as wide as the clocks' ± only."""
        return self.error == 0

    @property
    def p(self) -> float | None:
        """How likely a difference as large is, in either direction, if there is none; None where that is unknown.

        What clocks may have added is taken off the difference first: it is the largest of the p values of all that
        they allow.
        """
        if self.error is None:
            return None
        beyond = abs(self.difference) - (self.clocks or 0)
        if beyond <= 0:
            return 1.0
        return two_sided(beyond / self.error, self.freedom) if self.error else 0.0

    def half(self, alpha: float = ALPHA) -> float | None:
        """Half the width of the interval that holds with 1 − alpha, the clocks' ± included.

        It is also the smallest difference that has p ≤ alpha.
        """
        if self.error is None:
            return None
        return (critical(alpha, self.freedom) * self.error if self.error else 0.0) + (self.clocks or 0)

    @property
    def interval(self) -> tuple[float, float] | None:
        """The two ends of the interval that holds with 1 − ALPHA."""
        half = self.half()
        return None if half is None else (self.difference - half, self.difference + half)


def paired(a: Sequence[float], b: Sequence[float], clocks: int | None = 0) -> Effect:
    """The effect where a[i] and b[i], [n] each, are of one block: repetition i of one run, which holds every cell once.

    Student's t of the n differences, n − 1 degrees of freedom: exact whatever the two sides' own variances are, and
    whatever a block adds to both. Source: the paired comparison of a randomized complete block design (Box, Hunter,
    Hunter, *Statistics for Experimenters*, 2nd ed., §3.2).
    """
    if len(a) != len(b):
        raise ValueError(f"{len(a)} figures against {len(b)}: they cannot be paired")
    n = len(a)
    differences = [y - x for x, y in zip(a, b, strict=True)]
    error = _stdev(differences) / sqrt(n) if n > 1 else None
    return Effect(fmean(a), fmean(b), error, n - 1, clocks)


def unpaired(a: Sequence[float], b: Sequence[float], clocks: int | None = 0) -> Effect:
    """The effect where nothing joins a's repetitions, [n], to b's, [m], as between two runs.

    The standard error is Welch's, √(s²a/n + s²b/m); its degrees of freedom are the smaller side's, min(n, m) − 1.
    With these the level is kept for normal figures whatever the two variances are (Mickey & Brown, Annals of
    Mathematical Statistics 37, 1966, pp. 639-642). Welch's own, estimated degrees of freedom do not keep it with so
    few repetitions.
    """
    n, m = len(a), len(b)
    known = n > 1 and m > 1
    error = hypot(_stdev(a) / sqrt(n), _stdev(b) / sqrt(m)) if known else None
    return Effect(fmean(a), fmean(b), error, min(n, m) - 1, clocks)


def over_repetitions(values: Sequence[float]) -> tuple[float, float]:
    """Return the mean of one figure of n ≥ 2 repetitions, and half of its 95 % interval, in the figure's unit.

    Student's t with n − 1 degrees of freedom: it holds for figures that repetitions spread normally.
    """
    return fmean(values), critical(ALPHA, len(values) - 1) * _stdev(values) / sqrt(len(values))


def _stdev(values: Sequence[float]) -> float:
    """The sample's standard deviation; exactly 0 for equal values, whatever their mean is rounded to."""
    if min(values) == max(values):
        return 0.0
    mean = fmean(values)
    return sqrt(fsum((value - mean) ** 2 for value in values) / (len(values) - 1))


# Student's t distribution, for whole degrees of freedom.


def two_sided(t: float, freedom: int) -> float:
    """P(|T| ≥ |t|) for `freedom` ≥ 1 degrees of freedom, good to an absolute 1e-14; t may be infinite.

    The finite sums of Abramowitz & Stegun, *Handbook of Mathematical Functions*, 26.7.3 (odd) and 26.7.4 (even).
    """
    if freedom < 1:
        raise ValueError(f"{freedom} degrees of freedom")
    angle = atan2(abs(t), freedom**0.5)
    square = cos(angle) ** 2
    odd = freedom % 2
    term = total = cos(angle) if odd else 1.0
    for k in range(2 if odd else 1, freedom - 1, 2):
        term *= square * k / (k + 1)
        total += term
    series = sin(angle) * total
    inside = 2 / pi * (angle + (series if freedom > 1 else 0.0)) if odd else series
    return min(1.0, max(0.0, 1.0 - inside))


@cache
def critical(alpha: float, freedom: int) -> float:
    """The t with P(|T| ≥ t) = alpha, 0 < alpha < 1: 4.303 for 5 % and 2 degrees of freedom."""
    if not 0 < alpha < 1:
        raise ValueError(f"alpha = {alpha}")
    low, high = 0.0, 1.0
    while two_sided(high, freedom) > alpha:
        low, high = high, 2 * high
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if two_sided(middle, freedom) > alpha else (low, middle)
    return high
