"""Local quantiles, levels and limits against what they are computed by hand, or by the whole distribution."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from latlab.analysis.anomalies.blocks import (
    block_quantiles,
    block_spreads,
    filled,
    lagged_products,
    robust_scale,
    running_median,
    runs,
    scatter_about_line,
    shorth,
    through_middles,
)
from latlab.analysis.anomalies.limit import change_point, lattice_ns, tail_limit, usual_ns
from latlab.analysis.anomalies.thresholds import THRESHOLDS


@given(st.lists(st.integers(-1_000, 1_000), min_size=1, max_size=200), st.integers(1, 40))
def test_block_quantiles_are_those_of_each_interval(values: list[int], size: int) -> None:
    found = block_quantiles(np.array(values, np.int64), size, (0.0, 0.5, 1.0))
    for number, first in enumerate(range(0, len(values), size)):
        stretch = sorted(values[first : first + size])
        if len(stretch) * 4 < min(size, len(values)):
            assert np.isnan(found[:, number]).all()
        else:
            middle = stretch[max(0, -(-len(stretch) // 2) - 1)]
            assert found[:, number].tolist() == [stretch[0], middle, stretch[-1]]


def test_what_is_left_out_counts_in_no_quantile() -> None:
    values = np.array([1.0, 2.0, 3.0, 1e9, 5.0, 6.0, 7.0, 8.0])
    found = block_quantiles(values, 4, (1.0,), left_out=values > 1e6)
    assert found.tolist() == [[3.0, 8.0]]


@given(st.lists(st.booleans(), max_size=60))
def test_runs_are_where_flags_are_set(flags: list[bool]) -> None:
    begins, ends = runs(np.array(flags, np.bool_))
    again = np.zeros(len(flags), np.bool_)
    for begin, end in zip(begins, ends, strict=True):
        assert again[begin:end].size and not again[begin:end].any()
        again[begin:end] = True
    assert again.tolist() == flags
    assert (begins[1:] > ends[:-1]).all()


def test_spreads_are_the_standard_deviation_of_gaussians() -> None:
    values = np.random.default_rng(1).normal(50, 7, 400 * 500)
    assert np.median(block_spreads(values, 400)) == pytest.approx(7, rel=0.03)


def test_gaps_are_filled_along_a_line() -> None:
    assert filled(np.array([np.nan, 1, np.nan, 3, np.nan])).tolist() == [1, 1, 2, 3, 3]
    assert filled(np.array([np.nan, np.nan])).tolist() == [0, 0]


def test_a_running_median_passes_over_single_values() -> None:
    assert running_median(np.array([1.0, 1, 9, 1, 1, 1]), 1).tolist() == [1, 1, 1, 1, 1, 1]


def test_a_curve_goes_through_the_middles() -> None:
    curve = through_middles(np.array([10.0, 20.0, 30.0]), 10, 30)
    assert curve[0] == 10 and curve[-1] == 30
    assert curve[14] + curve[15] == pytest.approx(40)


def test_scales_are_those_of_gaussians() -> None:
    values = np.random.default_rng(2).normal(0, 5, 20_000)
    assert robust_scale(values) == pytest.approx(5, rel=0.03)
    slope = np.arange(20_000) * 3.0
    assert scatter_about_line(values + slope) == pytest.approx(5, rel=0.05)


def test_the_shorth_is_where_most_values_are() -> None:
    assert shorth(np.array([0.0, 0.1, 0.2, 0.1, 50.0, 60.0, 70.0])) == pytest.approx(0.1, abs=0.06)


@pytest.mark.parametrize(("n", "lags"), [(1, 3), (50, 7), (200_003, 500)])
def test_lagged_products_are_those_of_the_whole_series(n: int, lags: int) -> None:
    values = np.random.default_rng(1).normal(0, 1, n)
    whole = [float(values[: n - lag] @ values[lag:]) if lag < n else 0.0 for lag in range(lags + 1)]
    assert lagged_products(values, lags) == pytest.approx(whole, abs=1e-6)


def test_a_jump_is_found_to_the_packet_and_a_slope_is_none() -> None:
    rng = np.random.default_rng(3)
    values = rng.normal(0, 1, 300)
    values[170:] += 12
    assert change_point(values) == 170
    assert change_point(rng.normal(0, 1, 300) + np.arange(300) * 0.1) is None


def test_the_level_follows_what_is_slow_and_jumps_with_what_jumps() -> None:
    rng = np.random.default_rng(4)
    true = np.linspace(0, 5_000, 20_000) + np.where(np.arange(20_000) >= 8_050, 3_000, 0)
    level = usual_ns(true + rng.normal(0, 50, 20_000), 100, None)
    off = np.abs(level - true)
    assert np.median(off) < 10 and off[7_900:8_200].max() < 80


DISTRIBUTIONS = {
    "gaussian": lambda rng, n: rng.normal(0, 1, n),
    "exponential": lambda rng, n: rng.exponential(1, n),
    "lognormal": lambda rng, n: np.exp(0.6 * rng.normal(0, 1, n)),
    "student": lambda rng, n: np.abs(rng.standard_t(5, n)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_a_limit_lies_beyond_the_noise_and_not_far_beyond(name: str) -> None:
    """Beyond all of 100,000 values in nearly each of 50 samples; less than four times as far as the largest."""
    reached = []
    for seed in range(50):
        values = DISTRIBUTIONS[name](np.random.default_rng([seed, 5]), 100_000)
        values -= np.median(values)
        reached.append(tail_limit(values, THRESHOLDS, len(values)) / values.max())
    assert np.mean(np.array(reached) > 1) >= 0.96
    assert np.median(reached) < 4


def test_a_limit_is_hardly_moved_by_what_is_looked_for() -> None:
    rng = np.random.default_rng(6)
    values = rng.normal(0, 1, 100_000)
    alone = tail_limit(values, THRESHOLDS, len(values))
    values[rng.choice(100_000, 2_000, replace=False)] = 300
    assert tail_limit(values, THRESHOLDS, len(values)) < 1.2 * alone


def test_a_lattice_is_the_largest_step_that_all_have() -> None:
    assert lattice_ns(np.array([5, 105, 905, 305], np.int64)) == 100
    assert lattice_ns(np.array([5, 105, 906], np.int64)) == 1
    assert lattice_ns(np.array([7, 7, 7], np.int64)) == 1
    assert lattice_ns(np.empty(0, np.int64)) == 1
