"""How often each value occurs: histograms on edges common to all cells, and the exact tail (CCDF)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

LINEAR_CORE_NS: Final = 1000
"""Below this distance from zero bins are nearly equally wide; above it, equally wide in the logarithm."""


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


def common_range(*series: NDArray[np.int64]) -> tuple[int, int] | None:
    """The smallest and the largest value of all the series, ns; None if every one is empty."""
    filled = [values for values in series if len(values)]
    if not filled:
        return None
    return min(int(values.min()) for values in filled), max(int(values.max()) for values in filled)


def edges(low: int, high: int, bins: int = 200) -> NDArray[np.int64]:
    """At most `bins` + 1 ascending integer edges from `low` to `high`, ns; low = high gives one bin.

    Equally spaced in asinh(value / core): the logarithm far from zero, linear near it, and defined for
    negative values, which signed metrics have. Edges that fall on the same nanosecond are one.
    """
    if high < low:
        raise ValueError(f"the range is empty: {low} to {high}")
    if low == high:
        return np.array([low, low + 1], np.int64)
    scaled = np.linspace(_scale(low), _scale(high), bins + 1)[1:-1]
    inner = np.rint(np.sinh(scaled) * LINEAR_CORE_NS).astype(np.int64)
    inner = inner[(inner > low) & (inner < high)]
    return np.unique(np.concatenate(([low], inner, [high])).astype(np.int64))


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


def _scale(value_ns: int) -> float:
    return float(np.arcsinh(value_ns / LINEAR_CORE_NS))
