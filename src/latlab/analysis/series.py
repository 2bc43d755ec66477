"""How a value goes over time: minimum, maximum and count in bins of equal length."""

from __future__ import annotations

from functools import lru_cache

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
