"""How a value goes over time: minimum, maximum and count in bins of equal length."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray


def binned(
    at_tai_ns: NDArray[np.int64],
    value_ns: NDArray[np.int64],
    bins: int,
    *,
    span_tai_ns: tuple[int, int] | None = None,
) -> pl.DataFrame:
    """`bins` rows: `at_tai_ns` (the bin's beginning), `min_ns`, `max_ns` (null if empty), `count`.

    at_tai_ns int64 [n] ascending, value_ns int64 [n]. span_tai_ns: first and last instant, both included; by
    default the data's own; values outside are left out. No data and no span gives no rows.
    """
    if span_tai_ns is None:
        if len(at_tai_ns) == 0:
            return _table(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, int))
        span_tai_ns = int(at_tai_ns[0]), int(at_tai_ns[-1])
    first, last = span_tai_ns
    length = last - first + 1
    begin = np.array([first + length * i // bins for i in range(bins + 1)], np.int64)
    place = np.searchsorted(at_tai_ns, begin, side="left")
    count = np.diff(place)
    low, high = np.zeros(bins, np.int64), np.zeros(bins, np.int64)
    filled = np.flatnonzero(count)
    if len(filled):
        inside = value_ns[: place[-1]]
        low[filled] = np.minimum.reduceat(inside, place[filled])
        high[filled] = np.maximum.reduceat(inside, place[filled])
    return _table(begin[:-1], low, high, count)


def _table(
    at_tai_ns: NDArray[np.int64],
    min_ns: NDArray[np.int64],
    max_ns: NDArray[np.int64],
    count: NDArray[np.int64],
) -> pl.DataFrame:
    table = pl.DataFrame({"at_tai_ns": at_tai_ns, "min_ns": min_ns, "max_ns": max_ns, "count": count})
    return table.with_columns(pl.when(pl.col("count") > 0).then(pl.col("min_ns", "max_ns")))
