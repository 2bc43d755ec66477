"""How long blocks have to be, and the effective sample size of dependent values."""

from __future__ import annotations

import numpy as np
import pytest

from latlab.analysis.confidence import (
    CELLS,
    FEWEST_BLOCKS,
    MOST_BLOCKS,
    Dependence,
    TooShort,
    block_length,
    cell_size,
    cell_sums,
    dependence,
)
from support.analysis.series import normal


def test_cells_sum_every_value_once() -> None:
    value = np.arange(10, dtype=np.int64)
    assert cell_sums(value, 4).tolist() == [0 + 1 + 2 + 3, 4 + 5 + 6 + 7, 8 + 9]
    assert cell_sums(value % 2 == 0, 5).tolist() == [3, 2]
    assert cell_sums(value, 1).tolist() == value.tolist()


@pytest.mark.parametrize("n", [1, CELLS, CELLS + 1, 10_000_000])
def test_there_are_at_most_so_many_cells(n: int) -> None:
    assert -(-n // cell_size(n)) <= CELLS


def test_block_lengths_are_those_of_the_authors_method() -> None:
    """As optimal_block_length of arch 8.0.0 says (its column `circular`)."""
    i = np.arange(1000)
    waves = np.sin(i * i * 0.7) + np.sin(i * 0.05)
    assert block_length(waves) == pytest.approx(54.65828)
    series, state = np.empty(1000), 12345
    for k in range(1000):
        state = state * 16807 % 2147483647
        series[k] = state / 2147483647 - 0.5 + (0.7 * series[k - 1] if k else 0)
    assert block_length(series) == pytest.approx(26.383221331)


def test_what_does_not_vary_has_no_blocks_to_speak_of() -> None:
    assert block_length(np.zeros(100)) == 1
    assert block_length(np.array([1.0, 2.0])) == 1
    assert block_length(np.empty(0)) == 1


@pytest.mark.parametrize(("phi", "inflation"), [(0.0, 1.0), (0.5, 3.0), (0.9, 19.0)])
def test_the_variance_of_a_mean_is_that_of_the_process(phi: float, inflation: float) -> None:
    """(1 + φ) / (1 − φ) for an autoregressive process of variance 1."""
    found = []
    for series in normal(phi, 20_000, rows=20, seed=3):
        known = dependence(series - series.mean(), 1)
        assert isinstance(known, Dependence)
        found.append(known.variance)
    assert np.mean(found) == pytest.approx(inflation, rel=0.08)


def test_the_same_is_found_when_values_are_summed_to_cells() -> None:
    series = normal(0.9, 2 * CELLS, seed=4)[0]
    cell = cell_size(len(series))
    assert cell > 1
    known = dependence(cell_sums(series - series.mean(), cell), cell)
    assert isinstance(known, Dependence)
    assert known.variance == pytest.approx(19, rel=0.25)
    assert known.count <= MOST_BLOCKS
    assert known.block * known.count == pytest.approx(len(series), rel=0.02)


def test_blocks_get_longer_until_neighbours_are_alike_no_more() -> None:
    """A level of ±0.35 that flips once in 600 values, beneath noise of deviation 1: variance 1 + 0.35² · 600 = 74.5.
    The method of the block's length stops at 3 √n, which is too short here.
    """
    random = np.random.default_rng(0)
    level = np.where(np.cumsum(random.random(40_000) < 1 / 600) % 2, 0.35, -0.35)
    series = level + random.standard_normal(40_000)
    series -= series.mean()
    known = dependence(series, 1)
    assert isinstance(known, Dependence)
    assert known.block == 2 * block_length(series) == 2 * 3 * 200
    assert known.variance == pytest.approx(74.5, rel=0.3)


def test_of_values_that_drift_through_the_whole_run_or_change_slowly_it_says_over_how_many_they_depend() -> None:
    """A trend, a step, and a level that flips once in 2000 of 5000 values: which of them it is, no block shows."""
    random = np.random.default_rng(5)
    level = np.where(np.cumsum(random.random(5000) < 1 / 2000) % 2, 1.0, -1.0)
    trend = np.linspace(-1, 1, 5000) + normal(0, 5000, seed=6)[0] * 0.1
    step = np.where(np.arange(5000) < 2500, 0.0, 1.0) + normal(0, 5000, seed=7)[0]
    for series in (trend, step, level + random.standard_normal(5000)):
        found = dependence(series - series.mean(), 1)
        assert isinstance(found, TooShort)
        assert found.reach > 5000 / (2 * FEWEST_BLOCKS)
        assert found.count == 5000 // found.reach


def test_what_it_reaches_over_is_in_values_where_they_are_summed_to_cells() -> None:
    n = 2 * CELLS
    trend = np.linspace(-1, 1, n) + normal(0, n, seed=8)[0]
    found = dependence(cell_sums(trend - trend.mean(), 2), 2)
    assert isinstance(found, TooShort)
    assert found.reach > n / (2 * FEWEST_BLOCKS)
    assert found.count == n // found.reach
