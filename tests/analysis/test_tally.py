"""Percentiles from bins are where the values' own lie; what lies outside all bins is not made up."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from latlab.analysis.bins import Tally, bin_of_extremes, bin_of_percentiles
from latlab.analysis.statistics import statistics

VALUES = st.lists(st.integers(0, 5_000), min_size=1, max_size=500)


def tally(counts: dict[int, int], width: int = 1, **beyond: int) -> Tally:
    low = np.array(sorted(counts), np.int64)
    return Tally(low, low + width, np.array([counts[int(one)] for one in low], np.int64), **beyond)


def binned(values: list[int], width: int, least: int, most: int) -> Tally:
    """As a tool would count them: below `least` and from `most` on apart."""
    inside = [value for value in values if least <= value < most]
    counts: dict[int, int] = {}
    for value in inside:
        counts[value // width * width] = counts.get(value // width * width, 0) + 1
    below = sum(value < least for value in values)
    return tally(counts, width, below=below, above=len(values) - len(inside) - below)


@given(VALUES, st.sampled_from([1, 7, 100]))
def test_a_percentile_lies_in_its_bin(values: list[int], width: int) -> None:
    exact = statistics(np.array(values, np.int64), np.arange(len(values), dtype=np.uint64))
    for name, found in bin_of_percentiles(binned(values, width, 0, 10_000)).items():
        own = getattr(exact, name)
        assert (found is None) == (own is None), name
        assert found is None or found[0] <= own < found[1]


@given(VALUES, st.integers(0, 3_000))
def test_a_percentile_beyond_the_bins_is_none_and_the_others_stay(values: list[int], most: int) -> None:
    exact = statistics(np.array(values, np.int64), np.arange(len(values), dtype=np.uint64))
    for name, found in bin_of_percentiles(binned(values, 1, 0, most)).items():
        own = getattr(exact, name)
        assert (found is None) == (own is None or own >= most), name


def test_extremes_are_unknown_only_on_the_side_where_values_lie_outside() -> None:
    assert bin_of_extremes(tally({3: 1, 9: 2, 12: 0})) == ((3, 4), (9, 10))
    assert bin_of_extremes(tally({3: 1}, above=1)) == ((3, 4), None)
    assert bin_of_extremes(tally({3: 1}, below=1)) == (None, (3, 4))
    assert bin_of_extremes(tally({3: 0})) == (None, None)


def test_the_width_is_that_of_the_widest_bin_with_a_value() -> None:
    wide = Tally(np.array([0, 10], np.int64), np.array([10, 1000], np.int64), np.array([1, 0], np.int64))
    assert wide.width_ns == 10
