"""Series whose truth is known, for what is said about them by chance."""

from __future__ import annotations

from math import erfc, log, sqrt

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

UNIT_NS = 1_000_000


def normal(phi: float, n: int, rows: int = 1, seed: int = 0) -> Floats:
    """Standard normal series [rows, n] with correlation phi^lag."""
    series = np.random.default_rng(seed).standard_normal((n, rows))
    for i in range(1, n):
        series[i] *= sqrt(1 - phi * phi)
        series[i] += phi * series[i - 1]
    return np.ascontiguousarray(series.T)


def exponential(phi: float, n: int, rows: int = 1, seed: int = 0) -> Ints:
    """Exponential series [rows, n] of mean 1 ms, in the order of `normal`'s; its p-quantile −log(1 − p) ms."""
    z = np.linspace(-9, 9, 20_001)
    above = np.array([log(erfc(x / sqrt(2)) / 2) for x in z])
    return np.asarray(np.floor(-np.interp(normal(phi, n, rows, seed), z, above) * UNIT_NS), np.int64)


def clustered(width: int, n: int, seed: int = 0) -> Ints:
    """The largest of each `width` exponential values in a row: what is large comes in clusters of `width`."""
    single = np.random.default_rng(seed).exponential(UNIT_NS, n + width - 1)
    return np.asarray(np.lib.stride_tricks.sliding_window_view(single, width).max(axis=1), np.int64)
