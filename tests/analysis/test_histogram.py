"""Histograms on common edges add up exactly; a thinned CCDF keeps both extremes and only true points."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from latlab.analysis.axis import common_axis
from latlab.analysis.bins import ccdf, histogram

VALUES = st.lists(st.integers(-(10**12), 10**12), min_size=1, max_size=200)


def array(values: list[int]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(values, np.int64)


def test_bins_are_half_open_but_for_the_last() -> None:
    found = histogram(array([0, 9, 10, 19, 20, 30, 31, -1]), array([0, 10, 20, 30]))
    assert (found.count.tolist(), found.below, found.above) == ([2, 2, 2], 1, 1)


@given(VALUES, VALUES)
def test_the_histogram_of_two_samples_is_the_sum_of_theirs(left: list[int], right: list[int]) -> None:
    edge_ns = common_axis([array(left), array(right)]).edges(50)
    merged = histogram(array(left), edge_ns).merged(histogram(array(right), edge_ns))
    together = histogram(array(left + right), edge_ns)
    assert merged.count.tolist() == together.count.tolist()
    assert together.count.sum() == len(left + right)
    assert (together.below, together.above) == (0, 0)


def test_histograms_on_other_edges_are_not_merged() -> None:
    with pytest.raises(ValueError, match="same edges"):
        histogram(array([1]), array([0, 2])).merged(histogram(array([1]), array([0, 3])))


def test_a_small_ccdf_is_whole() -> None:
    found = ccdf(array([5, 1, 5, 9]))
    assert found.value_ns.tolist() == [1, 5, 9]
    assert found.share.tolist() == [1.0, 0.75, 0.25]


@given(VALUES, st.integers(2, 50))
def test_a_thinned_ccdf_keeps_the_extremes_and_only_true_points(values: list[int], points: int) -> None:
    found = ccdf(array(values), points)
    assert len(found.value_ns) <= points
    assert (found.value_ns[0], found.value_ns[-1]) == (min(values), max(values))
    for value, share in zip(found.value_ns.tolist(), found.share.tolist(), strict=True):
        assert share == sum(other >= value for other in values) / len(values)


def test_a_thinned_ccdf_keeps_the_tail() -> None:
    found = ccdf(np.arange(1_000_000, dtype=np.int64), 2000)
    assert len(found.value_ns) <= 2000
    assert found.value_ns[-5:].tolist() == [999_995, 999_996, 999_997, 999_998, 999_999]
