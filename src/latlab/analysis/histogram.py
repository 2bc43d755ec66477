"""How often each value occurs: histograms on edges common to all cells, and the exact tail (CCDF)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


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
