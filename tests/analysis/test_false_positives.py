"""How often a difference is shown where there is none: by simulation, at the level that is stated.

Each bound is the stated 5 % and 3.3 standard errors of the simulation: one run in some thousand would exceed it by
chance, and the seeds are fixed.
"""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt
from typing import Final

import numpy as np
import pytest
from numpy.typing import NDArray

from latlab.analysis.comparison.compare import compared
from latlab.analysis.comparison.effect import ALPHA, Effect, paired, unpaired
from support.results import configuration

pytestmark = pytest.mark.slow

Draw = Callable[[np.random.Generator, tuple[int, int]], NDArray[np.float64]]
Method = Callable[[list[float], list[float]], Effect]

TIMES: Final = 6_000

SPREADS: Final[dict[str, Draw]] = {
    "normal": lambda rng, size: rng.normal(size=size),
    "heavy tails": lambda rng, size: rng.standard_t(3, size=size),
    "largest values": lambda rng, size: rng.gumbel(size=size),
    "skewed": lambda rng, size: rng.lognormal(size=size),
    "two modes": lambda rng, size: (rng.random(size) < 0.5) + rng.normal(size=size) / 50,
}


def share_shown(method: Method, a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    """How many of the rows of a and b, [times, repetitions], have p ≤ ALPHA."""
    effects = (method(x, y) for x, y in zip(a.tolist(), b.tolist(), strict=True))
    return sum((one.p or 0.0) <= ALPHA for one in effects) / len(a)


def allowed(level: float, times: int) -> float:
    return level + 3.3 * sqrt(level * (1 - level) / times)


@pytest.mark.parametrize("method", [paired, unpaired])
@pytest.mark.parametrize("repeats", [3, 5, 10])
@pytest.mark.parametrize("spread", SPREADS)
def test_alike_sides_differ_as_seldom_as_stated(method: Method, repeats: int, spread: str) -> None:
    rng = np.random.default_rng([repeats, *spread.encode()])
    a, b = (SPREADS[spread](rng, (TIMES, repeats)) for _ in range(2))
    assert share_shown(method, a, b) <= allowed(ALPHA, TIMES)


@pytest.mark.parametrize("method", [paired, unpaired])
@pytest.mark.parametrize("repeats", [3, 5, 10])
@pytest.mark.parametrize("wider", [2.0, 5.0, 50.0])
def test_sides_that_are_spread_otherwise_differ_as_seldom_as_stated(method: Method, repeats: int, wider: float) -> None:
    rng = np.random.default_rng([repeats, int(wider)])
    a, b = rng.normal(size=(TIMES, repeats)), wider * rng.normal(size=(TIMES, repeats))
    assert share_shown(method, a, b) <= allowed(ALPHA, TIMES)


@pytest.mark.parametrize(("few", "many"), [(3, 10), (3, 5), (5, 10)])
@pytest.mark.parametrize("wider", [0.2, 1.0, 5.0])
def test_sides_of_unequal_numbers_differ_as_seldom_as_stated(few: int, many: int, wider: float) -> None:
    rng = np.random.default_rng([few, many, int(10 * wider)])
    a, b = rng.normal(size=(TIMES, few)), wider * rng.normal(size=(TIMES, many))
    assert share_shown(unpaired, a, b) <= allowed(ALPHA, TIMES)


@pytest.mark.parametrize("method", [paired, unpaired])
@pytest.mark.parametrize("repeats", [2, 3, 4])
def test_two_modes_pass_for_a_difference_as_often_as_is_reported(method: Method, repeats: int) -> None:
    """What a correction for many comparisons does not help against: each side in a different mode, by chance."""
    rng = np.random.default_rng(repeats)
    a, b = ((rng.random((TIMES, repeats)) < 0.5) + rng.normal(size=(TIMES, repeats)) / 1e6 for _ in range(2))
    effects = [method(x, y) for x, y in zip(a.tolist(), b.tolist(), strict=True)]
    share = sum(abs(one.difference) > 0.9 and (one.p or 0.0) < 1e-4 for one in effects) / TIMES
    expected = 2 / 4**repeats
    assert share == pytest.approx(expected, abs=3.3 * sqrt(expected / TIMES))


@pytest.mark.parametrize("repeats", [3, 5, 10])
def test_paired_is_no_more_cautious_than_stated_however_the_machine_drifts(repeats: int) -> None:
    rng = np.random.default_rng(repeats)
    drift = 3 * rng.normal(size=(TIMES, repeats))
    a, b = drift + rng.normal(size=(TIMES, repeats)), drift + 5 * rng.normal(size=(TIMES, repeats))
    share = share_shown(paired, a, b)
    assert 2 * ALPHA - allowed(ALPHA, TIMES) <= share <= allowed(ALPHA, TIMES)


@pytest.mark.parametrize("method", [paired, unpaired])
@pytest.mark.parametrize("repeats", [3, 5, 10])
def test_the_interval_holds_the_true_difference_as_often_as_stated(method: Method, repeats: int) -> None:
    rng = np.random.default_rng(repeats)
    a, b = rng.normal(size=(TIMES, repeats)), 4.0 + 2 * rng.normal(size=(TIMES, repeats))
    effects = (method(x, y) for x, y in zip(a.tolist(), b.tolist(), strict=True))
    missed = sum(not one.interval[0] <= 4.0 <= one.interval[1] for one in effects if one.interval)
    assert missed / TIMES <= allowed(ALPHA, TIMES)


@pytest.mark.parametrize("runs", [("r", "r"), ("r", "s")], ids=["one run", "two runs"])
@pytest.mark.parametrize("repeats", [3, 5, pytest.param(10, marks=pytest.mark.long)])
def test_a_whole_family_shows_anything_as_seldom_as_stated(repeats: int, runs: tuple[str, str]) -> None:
    """Six cells × four statistics that hang together, of which nothing differs but the spread."""
    times, cells, statistics = 500, 6, ("p50", "p99_9", "max", "stddev")
    rng = np.random.default_rng([repeats, len(set(runs))])
    wrong = 0
    for _ in range(times):
        pairs = []
        for cell in range(cells):
            sides = []
            for run, scale in zip(runs, (1.0, 6.0), strict=True):
                shared = rng.normal(size=(repeats, 1))
                drawn = 1e5 + 1e3 * scale * (shared + 0.5 * rng.normal(size=(repeats, len(statistics))))
                figures = {n: dict(zip(statistics, row, strict=True)) for n, row in enumerate(drawn.tolist(), start=1)}
                sides.append(configuration(f"{run}{cell}", figures, run=run))
            pairs.append((sides[0], sides[1]))
        found = compared(pairs, [("latency", one) for one in statistics])
        wrong += any(one.shown for one in found)
    assert wrong / times <= allowed(ALPHA, times)


@pytest.mark.parametrize(
    ("repeats", "distance", "least"), [(3, 4.0, 0.65), (5, 2.0, 0.60), (5, 4.0, 0.98), (10, 2.0, 0.95)]
)
def test_a_difference_of_some_standard_deviations_is_shown(repeats: int, distance: float, least: float) -> None:
    rng = np.random.default_rng(repeats)
    drift = 5 * rng.normal(size=(2_000, repeats))
    a, b = drift + rng.normal(size=drift.shape), drift + distance + rng.normal(size=drift.shape)
    assert share_shown(paired, a, b) >= least


def test_more_repetitions_show_smaller_differences() -> None:
    rng = np.random.default_rng(1)
    halves = []
    for repeats in (3, 5, 10):
        effects = (unpaired(*rng.normal(size=(2, repeats)).tolist()) for _ in range(500))
        halves.append(float(np.median([one.half() or 0.0 for one in effects])))
    assert halves == sorted(halves, reverse=True)
    assert halves[0] > 1.5 * halves[1] > 1.5 * 1.5 * halves[2]
