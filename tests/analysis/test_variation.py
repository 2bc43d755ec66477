"""Delay variation is RFC 5481's: lost packets have none, and PDV counts from the least delay."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from math import ceil

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from latlab.analysis.metrics import ipdv, pdv, variation_of
from latlab.analysis.statistics import NAMES, statistics
from latlab.model.statistics import LOW_PERCENTILES


def test_each_packet_s_ipdv_is_its_delay_less_the_one_s_before_it() -> None:
    """Packets 2, 5 and 6 were lost: 3 has no predecessor, nor has 7."""
    sequence = np.array([0, 1, 3, 4, 7, 8], np.uint64)
    later, found = ipdv(sequence, np.array([10, 14, 90, 85, 20, 20]))
    assert later.tolist() == [1, 4, 8]
    assert found.tolist() == [4, -5, 0]


def test_the_pair_across_a_loss_is_undefined_and_counted() -> None:
    sequence = np.array([0, 1, 3, 4, 7, 8], np.uint64)
    document = variation_of(sequence, np.array([10, 14, 90, 85, 20, 20])).document()
    assert (document["ipdv"]["n"], document["ipdv"]["undefined"]) == (3, 2)
    assert (document["ipdv"]["min"], document["ipdv"]["max"], document["ipdv"]["min_sequence"]) == (-5, 4, 4)
    assert (document["pdv"]["n"], document["pdv"]["min"], document["pdv"]["max"]) == (6, 0, 80)


def test_a_stall_that_drains_is_one_jump_up_and_many_small_ones_down() -> None:
    """RFC 5481 §6: what was queued arrives at once, each packet one period less late than the one before it."""
    delay = np.concatenate((np.full(500, 100), np.arange(5100, 100, -50), np.full(500, 100)))
    found = variation_of(np.arange(len(delay), dtype=np.uint64), delay).document()["ipdv"]
    assert (found["max"], found["min"], found["p99"], found["p1"]) == (5000, -50, 0, -50)


def test_a_constant_offset_of_the_clocks_is_in_neither() -> None:
    sequence, delay = np.arange(500, dtype=np.uint64), np.random.default_rng(1).integers(0, 1000, 500)
    assert variation_of(sequence, delay).document() == variation_of(sequence, delay + 10**15).document()


@given(st.lists(st.integers(-(2**40), 2**40), min_size=1, max_size=500))
def test_pdv_s_percentiles_are_the_delay_s_less_the_minimum(delays: list[int]) -> None:
    value_ns, sequence = np.array(delays, np.int64), np.arange(len(delays), dtype=np.uint64)
    delay = statistics(value_ns, sequence)
    variation = statistics(pdv(value_ns), sequence)
    for name in ("p50", "p90", "p99"):
        whole, part = getattr(delay, name), getattr(variation, name)
        assert part == (None if whole is None else whole - min(delays))


@given(st.lists(st.integers(-1000, 1000), min_size=2, max_size=800))
def test_low_percentiles_are_nearest_ranks_where_n_supports_them(delays: list[int]) -> None:
    found = variation_of(np.arange(len(delays), dtype=np.uint64), np.array(delays, np.int64)).document()["ipdv"]
    ordered = sorted(later - earlier for earlier, later in pairwise(delays))
    for name, p, n in (("p10", Fraction(1, 10), 36), ("p1", Fraction(1, 100), 368)):
        assert found[name] == (ordered[ceil(p * len(ordered)) - 1] if len(ordered) >= n else None)


def test_ipdv_has_every_statistic_of_a_metric_and_its_lower_tail() -> None:
    found = variation_of(np.arange(3, dtype=np.uint64), np.array([1, 2, 4])).document()
    assert set(found["ipdv"]) == {*NAMES, *LOW_PERCENTILES, "undefined"}
    assert set(found["pdv"]) == set(NAMES)


def test_no_packets_and_one_packet_have_no_variation() -> None:
    empty = variation_of(np.empty(0, np.uint64), np.empty(0, np.int64)).document()
    assert (empty["ipdv"]["n"], empty["ipdv"]["undefined"], empty["pdv"]["n"]) == (0, 0, 0)
    one = variation_of(np.array([5], np.uint64), np.array([7])).document()
    assert (one["ipdv"]["n"], one["ipdv"]["undefined"], one["pdv"]["max"]) == (0, 0, 0)
