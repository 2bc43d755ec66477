"""A time series in bins keeps every minimum, maximum and count."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from latlab.analysis.bins import binned


def test_bins_hold_minimum_maximum_and_count_and_empty_ones_are_left_out() -> None:
    table = binned(np.array([0, 1, 2, 9]), np.array([5, -3, 7, 4]), bins=5)
    assert table.rows() == [(0, 0, -3, 5, 2), (1, 2, 7, 7, 1), (4, 8, 4, 4, 1)]


def test_a_given_span_is_common_to_series_of_other_lengths() -> None:
    table = binned(np.array([3, 5, 12]), np.array([1, 2, 3]), bins=2, span_tai_ns=(4, 11))
    assert table.rows() == [(0, 4, 2, 2, 1)]


def test_no_data_gives_no_rows() -> None:
    assert binned(np.array([], np.int64), np.array([], np.int64), bins=10).height == 0


@given(
    st.lists(st.tuples(st.integers(0, 10**6), st.integers(-(2**62), 2**62)), min_size=1, max_size=80),
    st.integers(1, 40),
)
def test_no_point_is_lost_or_moved(points: list[tuple[int, int]], bins: int) -> None:
    points.sort()
    at, value = (np.array(column, np.int64) for column in zip(*points, strict=True))
    table = binned(at, value, bins)
    first, length = points[0][0], points[-1][0] - points[0][0] + 1
    begin = [first + length * i // bins for i in range(bins + 1)]
    expected = []
    for number, (low, high) in enumerate(pairwise(begin)):
        if inside := [v for t, v in points if low <= t < high]:
            expected.append((number, low, min(inside), max(inside), len(inside)))
    assert table.rows() == expected
