"""Histograms that merge exactly: buckets whose edges no data decides, as wide as their values are large."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import Final

import numpy as np
from numpy.typing import NDArray

from latlab.result import types

FORMAT: Final = "latlab.buckets/1"

BITS: Final = 7
"""Significant bits: 128 buckets for each power of two."""

RELATIVE_WIDTH: Final = Fraction(1, 1 << BITS)
"""The most that a bucket is wide, as a part of the value in it nearest to 0: 0.78 %. Up to ±255 ns it is one value."""

_LINEAR: Final = 1 << BITS
_LAST: Final = ((63 - BITS) << BITS) + _LINEAR
_PIECE: Final = 1 << 20


@dataclass(frozen=True)
class BucketCounts:
    """How many of n int64 values lie in each bucket.

    index int64 [m], ascending: the buckets that are not empty; count int64 [m]. min_ns and max_ns are exact, None when
    n is 0. Two of these, of any runs, merge to exactly what all their values together give.
    """

    index: NDArray[np.int64]
    count: NDArray[np.int64]
    min_ns: int | None
    max_ns: int | None

    @property
    def n(self) -> int:
        """How many values there are."""
        return int(self.count.sum())

    def merged(self, other: BucketCounts) -> BucketCounts:
        """The buckets of both samples together."""
        index, place = np.unique(np.concatenate((self.index, other.index)), return_inverse=True)
        count = np.zeros(len(index), np.int64)
        np.add.at(count, place, np.concatenate((self.count, other.count)))
        least = [value for value in (self.min_ns, other.min_ns) if value is not None]
        largest = [value for value in (self.max_ns, other.max_ns) if value is not None]
        return BucketCounts(index, count, min(least, default=None), max(largest, default=None))

    def percentile(self, p: Fraction) -> tuple[int, int] | None:
        """The smallest and the largest value, ns, that the exact percentile can be; None when n is 0.

        The exact one is the nearest-rank percentile of `statistics`, the ⌈p·n⌉-th smallest of the n values, 0 < p ≤ 1.
        The two differ by less than `RELATIVE_WIDTH` of either.
        """
        if self.min_ns is None or self.max_ns is None:
            return None
        place = int(np.searchsorted(np.cumsum(self.count), ceil(p * self.n)))
        low, high = bucket_range(int(self.index[place]))
        return max(low, self.min_ns), min(high, self.max_ns)

    def as_result(self) -> types.Buckets:
        """The buckets, those not empty, as the result has them.

        `buckets` is a text of two numbers for each, in ascending order: how much further its index is than the one
        before (the first from 0), and its count.
        """
        steps = np.column_stack((np.diff(self.index, prepend=np.int64(0)), self.count))
        return types.Buckets(
            format=FORMAT,
            bits=BITS,
            n=self.n,
            min_ns=self.min_ns,
            max_ns=self.max_ns,
            buckets=" ".join(map(str, steps.ravel().tolist())),
        )


def buckets(value_ns: NDArray[np.int64]) -> BucketCounts:
    """The buckets of int64 values [n], any of them.

    As in HdrHistogram (Tene), with both signs: a value of e + 8 significant bits falls into one of 128 buckets that
    are 2^e wide.
    """
    if len(value_ns) == 0:
        return BucketCounts(np.empty(0, np.int64), np.empty(0, np.int64), None, None)
    count = np.zeros(2 * _LAST + 1, np.int64)
    for start in range(0, len(value_ns), _PIECE):
        place = bucket_index(value_ns[start : start + _PIECE]) + _LAST
        count += np.bincount(place, minlength=len(count))
    index = np.flatnonzero(count)
    return BucketCounts(index - _LAST, count[index], int(value_ns.min()), int(value_ns.max()))


def bucket_index(value_ns: NDArray[np.int64]) -> NDArray[np.int64]:
    """Each value's bucket: ascending with the values, 0 for 0, −i for −v if i is v's."""
    sign = value_ns >> 63
    size = ((value_ns ^ sign) - sign).view(np.uint64)
    exponent = np.maximum(_significant_bits(size) - (BITS + 1), 0)
    index = (exponent << BITS) + (size >> exponent.view(np.uint64)).view(np.int64)
    result: NDArray[np.int64] = (index ^ sign) - sign
    return result


def bucket_range(index: int) -> tuple[int, int]:
    """The smallest and the largest value, ns, of a bucket."""
    if index < 0:
        low, high = bucket_range(-index)
        return -high, -low
    exponent = max(0, (index >> BITS) - 1)
    first = index - (exponent << BITS)
    return first << exponent, ((first + 1) << exponent) - 1


def from_result(kept: types.Buckets) -> BucketCounts:
    """The buckets that `as_result` wrote. ValueError: it is another format, or of another precision."""
    if kept.format != FORMAT or kept.bits != BITS:
        raise ValueError(
            f"buckets are {kept.format!r} with {kept.bits} bits, not {FORMAT!r} with {BITS}: "
            "analyse the run again with this latlab"
        )
    steps = np.array(kept.buckets.split(), np.int64).reshape(-1, 2)
    return BucketCounts(np.cumsum(steps[:, 0]), steps[:, 1], kept.min_ns, kept.max_ns)


def _significant_bits(size: NDArray[np.uint64]) -> NDArray[np.int64]:
    """How many bits each number has, without leading zeros."""
    # Without its lower bits a number that would be rounded up to the next power of two keeps its exponent.
    cleared = size & ~(size >> np.uint64(2))
    return np.frexp(cleared.astype(np.float64))[1].astype(np.int64)
