"""Values in bins: histograms and the exact tail, a value over time, and what can be said of counts alone."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import ceil

import numpy as np
import polars as pl
from numpy.typing import NDArray

from latlab.model.statistics import PERCENTILES, smallest_n

# How often each value occurs: histograms on edges common to all cells, and the exact tail (CCDF).


@dataclass(frozen=True)
class Histogram:
    """Counts between integer edges, ns: count[i] of edge_ns[i] ≤ value < edge_ns[i + 1].

    The last bin includes its upper edge. below, above: how many values lie outside the edges. Two of the same
    edges add up exactly.
    """

    edge_ns: NDArray[np.int64]
    count: NDArray[np.int64]
    below: int = 0
    above: int = 0

    def merged(self, other: Histogram) -> Histogram:
        """The histogram of both samples together. ValueError: the edges differ."""
        if not np.array_equal(self.edge_ns, other.edge_ns):
            raise ValueError("only histograms on the same edges can be merged")
        return Histogram(self.edge_ns, self.count + other.count, self.below + other.below, self.above + other.above)


@dataclass(frozen=True)
class Ccdf:
    """The share of samples at or above a value: value_ns int64 [m] ascending, share float64 [m] falling."""

    value_ns: NDArray[np.int64]
    share: NDArray[np.float64]


def histogram(value_ns: NDArray[np.int64], edge_ns: NDArray[np.int64]) -> Histogram:
    """The histogram of int64 values [n] on `edge_ns`, exact at every edge."""
    bins = len(edge_ns) - 1
    place = np.searchsorted(edge_ns, value_ns, side="right")
    place[value_ns == edge_ns[-1]] = bins
    count = np.bincount(place, minlength=bins + 2)
    return Histogram(edge_ns, count[1 : bins + 1], below=int(count[0]), above=int(count[bins + 1]))


def ccdf(value_ns: NDArray[np.int64], points: int = 2000) -> Ccdf:
    """P(X ≥ x) at no more than `points` (2 or more) of the values, both extremes among them, each exact.

    Points are kept at ranks counted from the largest value, equally spaced in the logarithm: the tail whole,
    the bulk thinned.
    """
    n = len(value_ns)
    if n == 0:
        return Ccdf(np.empty(0, np.int64), np.empty(0, np.float64))
    ordered = np.sort(value_ns)
    from_top = np.unique(np.rint(np.geomspace(1, n, min(points, n))).astype(np.int64))
    kept = np.unique(ordered[n - from_top])
    at_or_above = n - np.searchsorted(ordered, kept, side="left")
    return Ccdf(kept, at_or_above / n)


# How a value goes over time: minimum, maximum and count in bins of equal length.


def binned(
    at_tai_ns: NDArray[np.int64],
    value_ns: NDArray[np.int64],
    bins: int,
    *,
    span_tai_ns: tuple[int, int] | None = None,
) -> pl.DataFrame:
    """A row for each of `bins` bins that has any value: `bin` (its number, from 0), `at_tai_ns` (its beginning),
    `min_ns`, `max_ns`, `count`.

    at_tai_ns int64 [n] ascending, value_ns int64 [n]. span_tai_ns: first and last instant, both included; by
    default the data's own; values outside are left out.
    """
    if span_tai_ns is None:
        span_tai_ns = (int(at_tai_ns[0]), int(at_tai_ns[-1])) if len(at_tai_ns) else (0, 0)
    begin = beginnings(*span_tai_ns, bins)
    place = np.searchsorted(at_tai_ns, begin, side="left")
    count = np.diff(place)
    filled = np.flatnonzero(count)
    inside, first = value_ns[: place[-1]], place[filled]
    return pl.DataFrame(
        {
            "bin": filled,
            "at_tai_ns": begin[filled],
            "min_ns": np.minimum.reduceat(inside, first) if len(filled) else inside[:0],
            "max_ns": np.maximum.reduceat(inside, first) if len(filled) else inside[:0],
            "count": count[filled],
        }
    )


@lru_cache(maxsize=8)
def beginnings(first: int, last: int, bins: int) -> NDArray[np.int64]:
    """Where each bin begins, and where the last one ends; of every cell of a picture they are the same."""
    length = last - first + 1
    return np.array([first + length * i // bins for i in range(bins + 1)], np.int64)


# What can be said of values of which only the counts in bins are left.


@dataclass(frozen=True)
class Tally:
    """count[i] values v with from_ns[i] ≤ v < to_ns[i]; int64 [m], bins ascending, apart, none of them empty of ns.

    below, above: values outside all bins, of which no more is known than on which side they lie.
    """

    from_ns: NDArray[np.int64]
    to_ns: NDArray[np.int64]
    count: NDArray[np.int64]
    below: int = 0
    above: int = 0

    @property
    def n(self) -> int:
        """How many values there were."""
        return int(self.count.sum()) + self.below + self.above

    @property
    def width_ns(self) -> int:
        """The widest bin that holds a value; 0 where none does."""
        held = self.count > 0
        return int((self.to_ns - self.from_ns)[held].max()) if held.any() else 0


def bin_of_percentiles(tally: Tally) -> dict[str, tuple[int, int] | None]:
    """{percentile: (from_ns, to_ns)}: the bin in which the ⌈p·n⌉-th smallest value lies, so from ≤ it < to.

    Exact, as counts are. None where n is too small for the percentile (`smallest_n`), or where that value lies outside
    all bins.
    """
    up_to = tally.below + np.cumsum(tally.count)
    found: dict[str, tuple[int, int] | None] = {}
    for name, p in PERCENTILES.items():
        rank = ceil(p * tally.n)
        place = int(np.searchsorted(up_to, rank, side="left"))
        known = tally.n >= smallest_n(p) and tally.below < rank and place < len(up_to)
        found[name] = (int(tally.from_ns[place]), int(tally.to_ns[place])) if known else None
    return found


def bin_of_extremes(tally: Tally) -> tuple[tuple[int, int] | None, tuple[int, int] | None]:
    """The bins of the smallest and the largest value; None where it lies outside all bins, or there is no value."""
    held = np.flatnonzero(tally.count)
    if not len(held):
        return None, None
    least, most = ((int(tally.from_ns[i]), int(tally.to_ns[i])) for i in (held[0], held[-1]))
    return (None if tally.below else least), (None if tally.above else most)
