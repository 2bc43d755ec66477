"""Repetitions taken together are what all their packets together give."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from latlab.analysis.buckets import RELATIVE_WIDTH, buckets
from latlab.analysis.repetitions import pooled
from latlab.analysis.statistics import statistics
from latlab.model.statistics import PERCENTILES
from latlab.result.types import Metric
from support.results import partial


def samples() -> list[Any]:
    """Three repetitions of other lengths and levels, one of which has the worst packets."""
    rng = np.random.default_rng(7)
    return [(rng.lognormal(10, spread, n) + shift).astype(np.int64) for n, spread, shift in
            ((4_000, 0.2, 0), (2_500, 0.3, 9_000), (900, 1.0, -40_000))]  # fmt: skip


def figures(values: Any, **others: Any) -> Metric:
    shared = {"from": "launch", "to": "rx_soft", "buckets": buckets(values).as_result().model_dump()}
    return partial(Metric, shared | others)


def test_counts_and_extremes_are_those_of_all_packets() -> None:
    found, every = pooled([figures(one) for one in samples()]), np.concatenate(samples())
    assert found
    assert (found.repeats, found.buckets.n) == (3, len(every))
    assert (found.buckets.min_ns, found.buckets.max_ns) == (every.min(), every.max())
    assert found.buckets.as_result() == buckets(every).as_result()


@pytest.mark.parametrize("name", PERCENTILES)
def test_the_exact_percentile_of_all_packets_is_within_what_is_reported(name: str) -> None:
    found, every = pooled([figures(one) for one in samples()]), np.concatenate(samples())
    exact = getattr(statistics(every, np.arange(len(every), dtype=np.uint64)), name)
    assert found
    if exact is None:
        assert found.percentile(name) is None
        return
    low, high = found.percentile(name) or (0, -1)
    assert low <= exact <= high
    assert high - low <= RELATIVE_WIDTH * abs(exact)


def test_together_repetitions_support_what_none_does_alone() -> None:
    rng = np.random.default_rng(8)
    parts = [rng.integers(0, 10**6, 2_000) for _ in range(2)]
    assert all(statistics(one, np.arange(2_000, dtype=np.uint64)).p99_9 is None for one in parts)
    found = pooled([figures(one) for one in parts])
    assert found and found.percentile("p99_9") is not None
    assert found.percentile("p99_99") is None


@pytest.mark.parametrize(
    "other",
    [
        {"to": "rx_hard"},
        {"buckets": {**buckets(np.array([1])).as_result().model_dump(), "format": "latlab.buckets/0"}},
        {"kept": "histogram", "buckets": None},
    ],
)
def test_what_is_no_more_of_the_same_is_not_taken_together(other: dict[str, Any]) -> None:
    first, second = figures(np.array([1, 2])), figures(np.array([3]), **other)
    assert pooled([first, second]) is None
    assert pooled([]) is None


def test_half_of_all_packets_are_below_the_median() -> None:
    found = pooled([figures(np.arange(0, 100)), figures(np.arange(100, 200))])
    assert found and found.percentile("p50") == (99, 99)
    assert PERCENTILES["p50"] == Fraction(1, 2)
