"""Statistics are exact, and blank where the sample cannot support them."""

from __future__ import annotations

from fractions import Fraction
from math import ceil, isqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from latlab.analysis.statistics import NAMES, ranked, statistics
from latlab.model.statistics import HEADINGS, KEYS, LOW_PERCENTILES, PERCENTILES, STATISTICS, smallest_n
from latlab.result.metrics import LowPercentiles
from latlab.result.types import Statistics

INT64 = st.integers(-(2**63), 2**63 - 1)


def of(values: list[int]) -> Statistics:
    return statistics(np.array(values, np.int64), np.arange(100, 100 + len(values), dtype=np.uint64))


def test_a_known_sample_has_the_known_statistics() -> None:
    known = {"n": 8, "min": 2, "mean": 5.0, "p50": 4, "max": 9, "stddev": 2.0, "pk_pk": 7}
    known |= {"min_sequence": 100, "max_sequence": 107}
    assert of([2, 4, 4, 4, 5, 5, 7, 9]).document() == dict.fromkeys(NAMES) | known


def test_nothing_measured_is_blank_everywhere() -> None:
    nothing = dict.fromkeys(NAMES) | {"n": 0}
    assert of([]).document() == nothing


def test_extremes_are_of_the_first_packets_that_have_them() -> None:
    found = of([3, 1, 9, 1, 9])
    assert (found.min_sequence, found.max_sequence) == (101, 102)


def test_a_percentile_is_a_value_that_was_measured_at_the_nearest_rank() -> None:
    found = of(list(range(1000, 0, -1)))
    assert (found.p50, found.p90, found.p99, found.p99_9) == (500, 900, 990, None)


@pytest.mark.parametrize(("name", "n"), [("p50", 6), ("p90", 36), ("p99", 368), ("p99_9", 3688), ("p99_99", 36887)])
def test_a_percentile_is_given_from_the_smallest_sample_that_supports_it(name: str, n: int) -> None:
    assert smallest_n(PERCENTILES[name]) == n
    assert getattr(of(list(range(n))), name) is not None
    assert getattr(of(list(range(n - 1))), name) is None


@given(st.fractions(Fraction(1, 100), Fraction(99, 100), max_denominator=100))
def test_support_is_symmetric_and_no_smaller_sample_has_it(p: Fraction) -> None:
    q, n = max(p, 1 - p), smallest_n(p)
    assert n == smallest_n(1 - p)
    assert 1 - q**n >= Fraction(975, 1000)
    assert n == 1 or 1 - q ** (n - 1) < Fraction(975, 1000)


@given(st.lists(INT64, min_size=1, max_size=400))
def test_integers_are_those_of_exact_arithmetic_over_all_of_int64(values: list[int]) -> None:
    found, ordered = of(values), sorted(values)
    assert (found.min, found.max, found.pk_pk) == (ordered[0], ordered[-1], ordered[-1] - ordered[0])
    assert found.mean == sum(values) / len(values)
    assert found.min_sequence == 100 + values.index(ordered[0])
    for name, p in PERCENTILES.items():
        rank = ceil(p * len(values))
        expected = ordered[rank - 1] if len(values) >= smallest_n(p) else None
        assert getattr(found, name) == expected


@given(st.integers(-(2**62), 2**62), st.lists(st.integers(-(2**61), 2**61), min_size=1, max_size=300))
def test_stddev_loses_nothing_to_a_large_common_offset(offset: int, deviations: list[int]) -> None:
    values = [offset + deviation for deviation in deviations]
    n, total = len(values), sum(values)
    variance = Fraction(sum((n * value - total) ** 2 for value in values), n**3)
    exact = isqrt(int(variance * 10**12)) / 10**6
    assert of(values).stddev == pytest.approx(exact, rel=1e-12, abs=1e-5)


def test_a_sample_of_many_pieces_is_summed_exactly() -> None:
    values = np.arange(300_001, dtype=np.int64) + 2**62
    found = statistics(values, np.arange(300_001, dtype=np.uint64))
    assert found.mean == float(2**62 + 150_000)
    assert found.stddev == pytest.approx(((300_001**2 - 1) / 12) ** 0.5, rel=1e-12)


@pytest.mark.parametrize("different", [1, 2, 5, 300, 10**6])
def test_few_different_values_are_ordered_like_many(different: int) -> None:
    values = np.random.default_rng(different).integers(0, different, 20_000)
    ranks = [0, 17, 10_000, 19_998, 19_999]
    ordered = ranked(values, ranks)
    assert [int(ordered[rank]) for rank in ranks] == [int(np.sort(values)[rank]) for rank in ranks]
    assert ranked(values, []) is values


def test_what_is_computed_of_a_metric_is_what_is_declared_and_a_scenario_writes_it_so() -> None:
    assert {one.key for one in STATISTICS} == set(NAMES) - {"n", "min_sequence", "max_sequence"}
    written = ("min", "mean", "p50", "p90", "p99", "p99.9", "p99.99", "max", "stddev", "pk_pk")
    assert tuple(KEYS) == written
    assert {one.written: one.smallest_n for one in STATISTICS if one.share} == {
        "p50": 6,
        "p90": 36,
        "p99": 368,
        "p99.9": 3_688,
        "p99.99": 36_887,
    }
    assert set(LOW_PERCENTILES) < set(LowPercentiles.model_fields)
    assert (HEADINGS["p0_01"], HEADINGS["pk_pk"]) == ("p0.01", "pk-pk")
