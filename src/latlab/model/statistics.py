"""The statistics of a metric: what each is called, and how many values it needs.

How they are computed is in latlab.analysis.statistics. `accept`, baselines, comparisons and tables have those that
stand here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from math import ceil, log, log1p
from typing import Final

CONFIDENCE: Final = Fraction(975, 1000)
"""One side of a two-sided 95 % interval."""

_ROUNDING: Final = 1e-6
"""More than floating point is off by in the number of values that a percentile needs, up to p99.9999."""


@cache
def smallest_n(p: Fraction) -> int:
    """How many values a percentile needs: 6, 36, 368, 3688, 36887 for p50, p90, p99, p99.9, p99.99.

    The smallest n with 1 − q^n ≥ 0.975, q = max(p, 1 − p): the largest (for p < 0.5 the smallest) value then
    lies beyond the true percentile with 97.5 % confidence whatever the distribution, so that a two-sided 95 %
    interval of order statistics exists (Conover, Practical Nonparametric Statistics, §3.2).
    """
    exact = log(1 - CONFIDENCE) / log1p(-float(min(p, 1 - p)))
    if abs(exact - round(exact)) > _ROUNDING:
        return max(1, ceil(exact))
    # Floating point cannot decide on which side of a whole number it is; powers of fractions can, but are slow.
    q, n = max(p, 1 - p), max(1, round(exact) - 1)
    while 1 - q**n < CONFIDENCE:
        n += 1
    return n


@dataclass(frozen=True)
class Statistic:
    """One statistic. key: in result.json; written: in scenarios and on the command line; heading: of its column.

    share: of the values that a percentile is not exceeded by; None: it is no percentile.
    """

    key: str
    written: str
    heading: str
    share: Fraction | None = None

    @property
    def smallest_n(self) -> int:
        """How many values it needs to be in a result."""
        return smallest_n(self.share) if self.share else 1


def _plain(key: str) -> Statistic:
    return Statistic(key, key, key)


def _percentile(share: Fraction) -> Statistic:
    written = f"p{float(100 * share):g}"
    return Statistic(written.replace(".", "_"), written, written, share)


_PERCENTILES: Final = tuple(
    _percentile(Fraction(above, of)) for above, of in ((50, 100), (90, 100), (99, 100), (999, 1000), (9999, 10_000))
)
_LOW: Final = tuple(_percentile(Fraction(1, of)) for of in (10_000, 1000, 100, 10))
STATISTICS: Final[tuple[Statistic, ...]] = (
    _plain("min"),
    _plain("mean"),
    *_PERCENTILES,
    _plain("max"),
    _plain("stddev"),
    Statistic("pk_pk", "pk_pk", "pk-pk"),
)
"""Those of every metric, in nanoseconds."""
KEYS: Final[Mapping[str, str]] = {one.written: one.key for one in STATISTICS}
"""As a scenario writes it → its key in results."""
WRITTEN: Final[Mapping[str, str]] = {one.key: one.written for one in STATISTICS}
HEADINGS: Final[Mapping[str, str]] = {one.key: one.heading for one in (*STATISTICS, *_LOW)}
"""Key → the heading of its column."""
PERCENTILES: Final[dict[str, Fraction]] = {one.key: one.share for one in _PERCENTILES if one.share}
LOW_PERCENTILES: Final[dict[str, Fraction]] = {one.key: one.share for one in _LOW if one.share}
"""Those of `PERCENTILES` seen from below: delay variation between neighbours (IPDV) has two tails."""
