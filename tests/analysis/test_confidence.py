"""Intervals hold what they claim for values that depend on each other, and are blank where n cannot support them."""

from __future__ import annotations

import json
import re
from fractions import Fraction
from functools import cache
from math import log, sqrt
from typing import Any

import numpy as np
import pytest
from scipy import stats

from latlab.analysis import confidence
from latlab.analysis.confidence import (
    TOO_FEW,
    TOO_HEAVY,
    TOO_SHORT,
    Dependence,
    Estimate,
    Floats,
    confidence_of,
    effective_needed,
    moment_intervals,
    percentile_intervals,
)
from latlab.analysis.statistics import statistics
from latlab.model.statistics import PERCENTILES
from support.analysis.series import UNIT_NS, Ints, exponential, normal

TRUTH = {name: -log(1 - p) * UNIT_NS for name, p in PERCENTILES.items()} | {"mean": UNIT_NS, "stddev": UNIT_NS}


def document(value_ns: Ints) -> dict[str, Any]:
    return confidence_of(value_ns, statistics(value_ns, np.arange(len(value_ns), dtype=np.uint64))).document()


def intervals(value_ns: Ints) -> dict[str, Estimate]:
    return {**moment_intervals(value_ns), **percentile_intervals(value_ns)}


@cache
def held(phi: float, n: int, rows: int, step: int = 1) -> dict[str, tuple[int, int]]:
    """Of each statistic (intervals that hold the truth, intervals given); values are rounded down to multiples."""
    right, given = dict.fromkeys(TRUTH, 0), dict.fromkeys(TRUTH, 0)
    for value_ns in exponential(phi, n, rows, seed=1) // step * step:
        for name, found in intervals(value_ns).items():
            if found.low is not None and found.high is not None:
                given[name] += 1
                right[name] += found.low <= TRUTH[name] // step * step <= found.high
    return {name: (right[name], given[name]) for name in TRUTH}


def as_claimed(right: int, given: int) -> bool:
    """Whether so many right ones of those given may be chance where between 93 and 97 % are right, but once in 1000."""
    return bool(stats.binom.ppf(0.0005, given, 0.93) <= right <= stats.binom.ppf(0.9995, given, 0.97))


@pytest.mark.slow
@pytest.mark.parametrize("statistic", ["mean", "stddev", "p50", "p90", "p99"])
def test_of_independent_values_95_per_cent_hold_the_truth(statistic: str) -> None:
    right, given = held(0, 3000, rows=150)[statistic]
    assert given >= 140
    assert as_claimed(right, given)


@pytest.mark.slow
@pytest.mark.parametrize("statistic", ["mean", "p50", "p90"])
def test_of_values_that_depend_on_each_other_they_do_too(statistic: str) -> None:
    right, given = held(0.9, 4000, rows=150)[statistic]
    assert given >= 145
    assert as_claimed(right, given)


def independent(sums: Floats, cell: int, shortest: int = 1) -> Dependence:
    """What `dependence` would be if each value were drawn independently."""
    return Dependence(sums, cell, len(sums), cell, float(np.square(sums).mean()) / cell, 1.0)


def test_drawing_values_one_by_one_would_not_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of values of which ten say as much as one, such intervals are a third as long as they have to be."""
    monkeypatch.setattr(confidence, "dependence", independent)
    monkeypatch.setattr(confidence, "DRAWS", 500)
    found = held.__wrapped__(0.9, 1001, 50)
    for statistic in ("mean", "p50", "p90"):
        right, given = found[statistic]
        assert given == 50
        assert right < 0.75 * given
        assert not as_claimed(right, given)


def test_ties_only_make_intervals_hold_more_often() -> None:
    right, given = held(0.9, 4000, rows=100, step=UNIT_NS // 5)["p90"]
    assert given >= 95
    assert right >= stats.binom.ppf(0.0005, given, 0.93)


@pytest.mark.parametrize(("p", "n"), [(0.1, 1000), (0.5, 1000), (0.9, 1000), (0.99, 5000)])
def test_of_independent_values_the_limits_are_about_the_exact_order_statistics(p: float, n: int) -> None:
    """Those of the binomial distribution (Conover, §3.2), a quarter of their distance apart at the most."""
    rank = np.random.default_rng(4).permutation(n)
    found = percentile_intervals(rank, {"one": Fraction(str(p))})["one"]
    exact = stats.binom.ppf([0.025, 0.975], n, p)
    assert found.low is not None
    assert found.high is not None
    assert [found.low, found.high] == pytest.approx(exact, abs=0.25 * (exact[1] - exact[0]))


def test_of_independent_values_the_mean_s_interval_is_student_s() -> None:
    values = (normal(0, 2000, seed=5)[0] * 1e6).astype(np.int64)
    found = moment_intervals(values)["mean"]
    assert found.low is not None
    assert found.high is not None
    expected = stats.t.interval(0.95, 1999, values.mean(), values.std(ddof=1) / sqrt(2000))
    assert (found.low, found.high) == pytest.approx(expected, abs=0.2 * (expected[1] - expected[0]))


@pytest.mark.parametrize("freedom", [3, 5, 12.5, 127])
def test_student_s_t_is_close_enough(freedom: float) -> None:
    assert confidence._student(0.975, freedom) == pytest.approx(stats.t.ppf(0.975, freedom), rel=0.01)


def test_limits_of_percentiles_were_measured() -> None:
    values = exponential(0.5, 5000, seed=6)[0]
    found = percentile_intervals(values)["p90"]
    assert {found.low, found.high} <= set(values.tolist())


def test_the_same_values_have_the_same_intervals_wherever_they_lie() -> None:
    values = exponential(0.5, 3000, seed=7)[0]
    here, again, far = document(values), document(values.copy()), document(values + 2**61)
    assert here == again
    for name in ("p50", "p90", "p99"):
        assert far[name]["low"] - 2**61 == here[name]["low"]
        assert far[name]["high"] - 2**61 == here[name]["high"]
    assert far["stddev"]["high"] == pytest.approx(here["stddev"]["high"])


def test_the_statistic_lies_in_its_interval() -> None:
    found = document(exponential(0.5, 30_000, seed=8)[0])
    for name in ("mean", "stddev", "p50", "p90", "p99"):
        assert found[name]["low"] < found[name]["value"] < found[name]["high"]


def test_what_each_percentile_needs() -> None:
    assert [effective_needed(p) for p in PERCENTILES.values()] == [100, 100, 1000, 10_000, 100_000]


def test_n_that_is_too_small_is_said_and_how_many_it_would_take() -> None:
    """Values of which ten say as much as one need about ten times as many; so many have the interval."""
    found = document(exponential(0.9, 5000, seed=9)[0])
    assert (found["p99"]["low"], found["p99"]["why"]) == (None, TOO_FEW)
    assert 8000 < found["p99"]["needs_n"] < 25_000
    assert found["p99_9"]["needs_n"] == pytest.approx(10 * found["p99"]["needs_n"], rel=1e-3)
    assert found["p99"]["value"] is not None
    enough = document(exponential(0.9, 2 * found["p99"]["needs_n"], seed=10)[0])
    assert enough["p99"]["low"] is not None
    assert enough["p99"]["needs_n"] is None


@pytest.mark.parametrize("n", [0, 1, 2, 50, 99])
def test_few_values_have_no_interval_and_no_error(n: int) -> None:
    found = document(exponential(0, max(n, 1), seed=11)[0][:n])
    for name in ("mean", "stddev", *PERCENTILES):
        assert (found[name]["low"], found[name]["high"], found[name]["why"]) == (None, None, TOO_FEW)
    assert found["mean"]["needs_n"] == 100
    assert found["max"]["share_above"] is None


def test_values_that_are_all_equal_leave_nothing_to_chance() -> None:
    found = document(np.full(2000, 7))
    assert (found["mean"]["low"], found["mean"]["high"]) == (7, 7)
    assert (found["stddev"]["low"], found["stddev"]["high"]) == (0, 0)
    assert (found["p99"]["low"], found["p99"]["high"]) == (7, 7)


def test_a_run_in_which_dependence_has_no_end_has_no_intervals_and_says_over_how_much_it_reaches() -> None:
    """20,000 values that rise all the time: no interval of which there are ten is apart from the next one."""
    found = document(exponential(0, 20_000, seed=12)[0] + np.arange(20_000) * 500)
    for name in ("mean", "p50", "p90", "p99", "p99_9"):
        assert (found[name]["low"], found[name]["needs_n"]) == (None, None)
        told = re.fullmatch(
            rf"{TOO_SHORT}values are .* over ([\d,]+) of them or more, and it has only (\d+) such.*", found[name]["why"]
        )
        assert told is not None
        reach, count = int(told[1].replace(",", "")), int(told[2])
        assert reach > 1000
        assert count == 20_000 // reach
    assert found["max"]["share_above"] is None
    assert f"p50, p90, p99, p99.9, p99.99: {found['p50']['why']}" in found["supports"]


def test_a_tail_without_a_variance_has_no_interval_of_the_deviation() -> None:
    values = (np.random.default_rng(13).pareto(2.5, 20_000) * 1e6).astype(np.int64)
    found = document(values)
    assert (found["stddev"]["low"], found["stddev"]["why"]) == (None, TOO_HEAVY)
    assert found["mean"]["low"] is not None
    values = (np.random.default_rng(14).pareto(1.1, 20_000) * 1e6).astype(np.int64)
    assert document(values)["mean"]["why"] == TOO_HEAVY


@pytest.mark.parametrize("first", [0, 300, 5000])
def test_of_regular_stalls_the_mean_s_interval_is_one_that_a_mean_can_have(first: int) -> None:
    """50 ms in each second from the packet `first` on: blocks hold one stall more or less, or are all alike."""
    n, rng = 59_000, np.random.default_rng(17)
    after = np.arange(n) - first
    level = np.where(after >= 0, np.maximum(50 - after % 1000, 0), 0)
    values = (level * UNIT_NS + 25_000 + 4000 * rng.lognormal(0, 0.5, n)).astype(np.int64)
    found = moment_intervals(values)["mean"]
    assert found.low is not None
    assert found.high is not None
    assert values.min() <= found.low < values.mean() < found.high
    assert found.high - found.low < values.mean() / 2
    everywhere = 50 * 51 / 2 / 1000 * UNIT_NS + 25_000 + 4000 * np.exp(0.125)
    assert found.low <= everywhere <= found.high


@pytest.mark.parametrize("far", [1, 2, 9])
@pytest.mark.parametrize("jitter_ns", [0, 1])
def test_where_a_few_values_are_all_of_the_deviation_nothing_is_said_of_it(far: int, jitter_ns: int) -> None:
    values = np.full(40_000, 5000) + np.arange(40_000) % 2 * jitter_ns
    values[:: 40_000 // far][:far] += 100_000_000_000
    found = document(values)
    assert (found["stddev"]["low"], found["stddev"]["high"], found["stddev"]["why"]) == (None, None, TOO_HEAVY)


def test_the_largest_value_bounds_the_share_above_it() -> None:
    """Of n independent values: with 95 % confidence less than 3 / n are above all of them."""
    found = document(exponential(0, 5000, seed=15)[0])["max"]
    assert found["share_above"] == pytest.approx(3 / found["effective_n"], rel=0.01)
    assert 3000 < found["effective_n"] <= 5000


def test_what_n_supports_is_said_in_words_and_all_of_it_is_json() -> None:
    found = document(exponential(0.5, 4000, seed=16)[0])
    assert found["supports"].startswith("for the mean 4,000 values are as precise as ")
    assert "p99.9 " in found["supports"] and "p99_9" not in found["supports"]
    assert json.loads(json.dumps(found, allow_nan=False)) == found
