"""Buckets hold every int64 value, merge exactly, and say how far a percentile may be off."""

from __future__ import annotations

from fractions import Fraction
from math import ceil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from latlab.analysis.buckets import BITS, RELATIVE_WIDTH, bucket_index, bucket_range, buckets, from_result
from latlab.result.types import Buckets as Kept

INT64 = st.integers(-(2**63), 2**63 - 1)
VALUES = st.lists(st.one_of(INT64, st.integers(-300, 300), st.integers(-(10**7), 10**7)), min_size=1, max_size=200)
SHARES = st.fractions(Fraction(1, 1000), Fraction(1), max_denominator=10_000)


def array(values: list[int]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(values, np.int64)


def test_small_values_have_a_bucket_each() -> None:
    values = list(range(-255, 256))
    assert bucket_index(array(values)).tolist() == values
    assert all(bucket_range(value) == (value, value) for value in values)


def test_buckets_by_hand() -> None:
    """From 256 on they are 2 wide, from 512 on 4: 1000 = 1111101000b is in the 122nd of 128 from 512 on."""
    assert bucket_range(256) == (256, 257)
    assert bucket_range(383) == (510, 511)
    assert bucket_range(384) == (512, 515)
    assert bucket_index(array([1000, -1000])).tolist() == [384 + 122, -384 - 122]
    assert bucket_range(-384) == (-515, -512)


@given(INT64)
def test_every_value_lies_in_its_bucket_which_is_narrow(value: int) -> None:
    low, high = bucket_range(int(bucket_index(array([value]))[0]))
    assert low <= value <= high
    assert high - low <= RELATIVE_WIDTH * min(abs(low), abs(high))


@given(st.lists(INT64, min_size=2, max_size=100))
def test_buckets_are_in_the_order_of_their_values(values: list[int]) -> None:
    assert (np.diff(bucket_index(array(sorted(values)))) >= 0).all()


@pytest.mark.parametrize("bits", range(BITS + 1, 63))
def test_powers_of_two_begin_a_bucket(bits: int) -> None:
    first, last = 2**bits, 2**bits - 1
    index = bucket_index(array([last, first]))
    assert index[1] == index[0] + 1
    assert bucket_range(int(index[1]))[0] == first


@given(VALUES, VALUES)
def test_merged_buckets_are_those_of_all_values(left: list[int], right: list[int]) -> None:
    merged = buckets(array(left)).merged(buckets(array(right)))
    together = buckets(array(left + right))
    assert merged.as_result() == together.as_result()
    assert merged.n == len(left) + len(right)


def test_merging_with_nothing_changes_nothing() -> None:
    some, none = buckets(array([1, -5, 10**9])), buckets(array([]))
    assert none.merged(some).as_result() == some.as_result() == some.merged(none).as_result()
    assert (none.n, none.min_ns, none.percentile(Fraction(1, 2))) == (0, None, None)


@given(VALUES, SHARES)
def test_the_exact_percentile_is_within_what_is_said(values: list[int], p: Fraction) -> None:
    found = buckets(array(values)).percentile(p)
    exact = sorted(values)[ceil(p * len(values)) - 1]
    assert found is not None
    assert found[0] <= exact <= found[1]
    assert found[1] - found[0] <= RELATIVE_WIDTH * abs(exact)


def test_extremes_are_exact() -> None:
    found = buckets(array([-123_456_789, 5, 987_654_321]))
    assert (found.min_ns, found.max_ns) == (-123_456_789, 987_654_321)
    largest = found.percentile(Fraction(1))
    assert largest is not None and largest[1] == 987_654_321


@given(VALUES)
def test_they_come_back_from_json_as_they_were(values: list[int]) -> None:
    found = buckets(array(values))
    written = Kept.model_validate_json(found.as_result().model_dump_json())
    again = from_result(written)
    assert again.as_result() == written
    assert again.index.tolist() == found.index.tolist()
    assert written.n == len(values)
    assert len(written.buckets.split()) <= 2 * len(values)


def test_the_document_by_hand() -> None:
    """Each bucket's index counts from the one before: −5, 1 = −5 + 6, 506 = 1 + 505."""
    written = buckets(array([1000, 1, -5, 1])).as_result()
    assert written.buckets == "-5 1 6 2 505 1"
    assert (written.n, written.min_ns, written.max_ns) == (4, -5, 1000)


def test_none_at_all_come_back_too() -> None:
    assert from_result(buckets(array([])).as_result()).n == 0


@pytest.mark.parametrize("change", [{"format": "latlab.buckets/2"}, {"bits": 8}])
def test_another_format_or_precision_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="analyse the run again"):
        from_result(buckets(array([1])).as_result().model_copy(update=change))


def test_a_large_sample_is_counted_whole() -> None:
    values = np.random.default_rng(1).lognormal(10, 1, 2_500_000).astype(np.int64)
    assert buckets(values).n == len(values)
