"""The statistics of one metric: exact where the numbers are, blank where the sample cannot support them."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from math import ceil, fsum, sqrt
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from latlab.model.statistics import PERCENTILES, smallest_n
from latlab.result.types import Statistics

_PIECE: Final = 1 << 17

_Number = TypeVar("_Number", bound=np.generic)
_SAMPLE: Final = 4096
_FEW: Final = 16
"""Values are few where so many of a sample are one value, on average."""

NAMES: Final[tuple[str, ...]] = tuple(Statistics.model_fields)
"""Every statistic's name, n first."""


def statistics(value_ns: NDArray[np.int64], sequence: NDArray[np.uint64]) -> Statistics:
    """The statistics of int64 values [n], with the sequence numbers [n] they belong to, in that order.

    All but n is None when n is 0, and a percentile also when n is too small for it. stddev is the population's (divided
    by n). pk_pk = max − min. min_sequence and max_sequence: of the first packets that have those values.
    Integers are exact over the whole int64 range; the mean is the exact one, rounded once; stddev is good to
    a relative 1e-12.
    """
    n = len(value_ns)
    if n == 0:
        return Statistics(**dict.fromkeys(NAMES[1:]), n=0)
    first_min, first_max = int(value_ns.argmin()), int(value_ns.argmax())
    low, high = int(value_ns[first_min]), int(value_ns[first_max])
    total_above_low = _sum_above(value_ns, low)
    return Statistics(
        n=n,
        min=low,
        mean=(low * n + total_above_low) / n,
        **_percentiles(value_ns),
        max=high,
        stddev=_stddev(value_ns, low, total_above_low),
        pk_pk=high - low,
        min_sequence=int(sequence[first_min]),
        max_sequence=int(sequence[first_max]),
    )


def _percentiles(value_ns: NDArray[np.int64]) -> dict[str, int | None]:
    """Nearest-rank percentiles: the ⌈p·n⌉-th smallest value (Hyndman & Fan, 1996, type 1), or None.

    Each is a value that was measured; n decides which are supported.
    """
    n = len(value_ns)
    rank = {name: ceil(p * n) - 1 for name, p in PERCENTILES.items() if n >= smallest_n(p)}
    ordered = ranked(value_ns, rank.values())
    return {name: int(ordered[rank[name]]) if name in rank else None for name in PERCENTILES}


def ranked(values: NDArray[_Number], ranks: Iterable[int]) -> NDArray[_Number]:
    """The values with those of these ranks, from 0, in their places.

    numpy.partition takes 25 times as long for two values only as for values that differ; such are sorted, which is
    faster the fewer there are.
    """
    places = sorted(set(ranks))
    if not places:
        return values
    sample = values[:: max(1, len(values) // _SAMPLE)]
    if len(np.unique(sample)) * _FEW < len(sample):
        return np.sort(values)
    return np.partition(values, places)


def _above(value_ns: NDArray[np.int64], low: int) -> NDArray[np.uint64]:
    """value − low as uint64: wraps round to the right answer even where the difference exceeds int64."""
    return value_ns.view(np.uint64) - np.int64(low).view(np.uint64)


def _sum_above(value_ns: NDArray[np.int64], low: int) -> int:
    """Σ(value − low), exactly: the halves of each difference are summed apart, where they cannot overflow."""
    total = 0
    for start in range(0, len(value_ns), _PIECE):
        above = _above(value_ns[start : start + _PIECE], low)
        total += (int((above >> np.uint64(32)).sum()) << 32) + int((above & np.uint64(0xFFFFFFFF)).sum())
    return total


def _stddev(value_ns: NDArray[np.int64], low: int, total_above_low: int) -> float:
    """√(Σ(value − mean)² / n), by the second pass of the corrected two-pass algorithm.

    Chan, Golub, LeVeque (1983), eq. 1.7: deviations are taken from the mean to the nearest ns, in integers,
    so nothing is lost to a large common offset; the last term takes out what rounding the mean put in.
    """
    n = len(value_ns)
    mean_above_low = (2 * total_above_low + n) // (2 * n)
    squares: list[float] = []
    for start in range(0, n, _PIECE):
        above = _above(value_ns[start : start + _PIECE], low)
        deviation = np.where(
            above >= mean_above_low,
            (above - np.uint64(mean_above_low)).astype(np.float64),
            -(np.uint64(mean_above_low) - above).astype(np.float64),
        )
        squares.append(float(np.square(deviation, out=deviation).sum()))
    rounding = float(Fraction(total_above_low, n) - mean_above_low)
    return sqrt(max(0.0, fsum(squares) / n - rounding**2))
