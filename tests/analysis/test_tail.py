"""A tail is extrapolated where a generalized Pareto distribution fits its peaks, else there is a reason."""

from __future__ import annotations

import json
from math import expm1, log, log1p
from typing import Any

import numpy as np
import pytest
from scipy import stats

from latlab.analysis.extremes import (
    Clusters,
    Pareto,
    Refits,
    anderson_darling,
    fitted,
    level_interval,
    quantile,
    refitted,
)
from latlab.analysis.tail import DRAWS, Fit, drift, refusal, tail_of
from support.analysis.series import UNIT_NS, Ints, clustered, exponential

Floats = np.ndarray[Any, np.dtype[np.float64]]


def pareto(shape: float, n: int, seed: int) -> Ints:
    """Generalized Pareto values of scale 1 ms."""
    share = 1 - np.random.default_rng(seed).random(n)
    return np.floor(UNIT_NS / shape * np.expm1(-shape * np.log(share))).astype(np.int64)


def truth(shape: float, packets: int) -> float:
    return UNIT_NS / shape * expm1(shape * log(packets))


def test_a_fit_by_hand() -> None:
    """Excesses 1, 2, 6: b₀ = 3, b₁ = (0·1 + 1·2 + 2·6) / 6 = 7/3, λ₂ = 5/3, k = 9/5 − 2, scale = 3 (1 + k)."""
    shape, scale = fitted(np.array([[1.0, 2.0, 6.0]]))
    assert (shape[0], scale[0]) == pytest.approx((0.2, 2.4))


@pytest.mark.parametrize("shape", [-0.4, -0.1, 0.0, 0.2, 0.4])
def test_many_excesses_give_back_their_distribution(shape: float) -> None:
    excess = np.sort(stats.genpareto.rvs(shape, scale=5000, size=(4, 50_000), random_state=1), axis=1)
    found, scale = fitted(excess)
    assert found == pytest.approx(shape, abs=0.03)
    assert scale == pytest.approx(5000, rel=0.05)


@pytest.mark.parametrize("shape", [-0.4, 0.0, 0.3])
def test_levels_are_the_distribution_s(shape: float) -> None:
    share = np.array([0.5, 0.01, 1e-6])
    found = quantile(share, np.array(shape), np.array(5.0))
    assert found == pytest.approx(stats.genpareto.isf(share, shape, scale=5.0), rel=1e-6)


@pytest.mark.parametrize("shape", [-0.2, 0.0, 0.3])
def test_the_shape_s_error_is_how_much_it_varies(shape: float) -> None:
    excess = np.sort(stats.genpareto.rvs(shape, size=(2000, 300), random_state=2), axis=1)
    assert fitted(excess)[0].std() == pytest.approx(Pareto(300, shape, 1.0).shape_error, rel=0.1)


def test_a_shape_of_a_half_has_no_error_to_state() -> None:
    assert Pareto(300, 0.5, 1.0).shape_error == float("inf")


def test_anderson_and_darling_s_sum_by_hand() -> None:
    """Exponential excesses: F = 1 − e^−y."""
    y = [0.1, 0.7, 2.5]
    log_below, log_above = [log1p(-np.exp(-x)) for x in y], [-x for x in y]
    expected = -3 - sum((2 * i + 1) * (log_below[i] + log_above[2 - i]) for i in range(3)) / 3
    assert anderson_darling(np.array([y]), np.array([0.0]), np.array([1.0]))[0] == pytest.approx(expected, rel=1e-6)


def test_p_values_of_what_fits_are_spread_evenly_and_of_what_does_not_are_small() -> None:
    random = np.random.default_rng(3)
    fits = [refitted(np.sort(random.exponential(size=100)), 199, random).p_value for _ in range(150)]
    assert stats.kstest(fits, "uniform").pvalue > 1e-3
    two_kinds = np.sort(np.concatenate((random.exponential(1.0, 300), random.normal(12, 0.5, 60))))
    assert refitted(two_kinds, 199, random).p_value < 0.01


def test_values_on_a_lattice_are_judged_as_such() -> None:
    random = np.random.default_rng(4)
    excess = (np.floor(np.sort(random.exponential(10.0, 2000))) + 0.5).astype(np.float64)
    assert refitted(excess, 199, random, step=1.0).p_value > 0.01


@pytest.mark.slow
@pytest.mark.parametrize("shape", [-0.25, 0.0, 0.3])
def test_intervals_of_levels_hold_the_truth(shape: float) -> None:
    """Of 60 of which 93 to 99.5 % hold it."""
    random = np.random.default_rng(5)
    expected, held = 500.0, 0
    for excess in np.sort(stats.genpareto.rvs(shape, size=(60, 80), random_state=6), axis=1):
        low, high = level_interval(excess, expected, 199, random)
        held += bool(low <= stats.genpareto.isf(1 / expected, shape) <= high)
    assert held >= stats.binom.ppf(0.0005, 60, 0.93)


def test_an_exponential_tail_is_found_and_its_levels_are_right() -> None:
    found = tail_of(exponential(0, 100_000, seed=7)[0]).document()
    assert found["why"] is None
    assert found["fit"]["shape_low"] < 0 < found["fit"]["shape_high"]
    assert found["fit"]["scale_ns"] == pytest.approx(UNIT_NS, rel=0.15)
    for level in found["levels"]:
        assert level["low_ns"] <= log(level["packets"]) * UNIT_NS <= level["high_ns"]
        assert level["low_ns"] <= level["value_ns"] <= level["high_ns"]
    assert [level["beyond"] for level in found["levels"]] == [0.1, 1.0, 10.0]


def test_levels_of_what_comes_in_clusters_are_of_episodes() -> None:
    """An episode begins where a new value is the largest; in m packets one is above −log(1/m)."""
    found = tail_of(clustered(10, 200_000, seed=8)).document()
    assert found["why"] is None
    assert found["fit"]["extremal_index"] == pytest.approx(0.1, rel=0.3)
    assert found["fit"]["clusters"] < 0.25 * found["fit"]["exceedances"]
    for level in found["levels"][1:]:
        assert level["low_ns"] <= log(level["packets"]) * UNIT_NS <= level["high_ns"]


def test_the_stability_of_the_shape_is_reported_for_every_threshold() -> None:
    found = tail_of(pareto(0.2, 50_000, seed=9)).document()
    rows = found["stability"]
    assert found["fit"] in rows
    assert [row["threshold_ns"] for row in rows] == sorted(row["threshold_ns"] for row in rows)
    assert all(50 <= row["clusters"] <= 1000 for row in rows)
    row = rows[0]
    assert row["modified_scale_ns"] == pytest.approx(row["scale_ns"] - row["shape"] * row["threshold_ns"], rel=1e-3)
    assert sum(row["shape_low"] <= 0.2 <= row["shape_high"] for row in rows) >= len(rows) - 2
    assert found["level_packets"] == 100_000
    assert sum(row["level_low_ns"] <= truth(0.2, 100_000) <= row["level_high_ns"] for row in rows) >= len(rows) - 2
    assert all(row["level_low_ns"] <= row["level_ns"] <= row["level_high_ns"] for row in rows)


def test_thresholds_below_the_chosen_one_are_those_that_do_not_fit() -> None:
    """Above 3 ms of noise lies a separate tail, of one value in a hundred."""
    random = np.random.default_rng(15)
    noise = random.normal(2 * UNIT_NS, UNIT_NS / 10, 50_000)
    values = np.where(np.arange(50_000) % 100 == 0, 3 * UNIT_NS + random.exponential(UNIT_NS, 50_000), noise)
    found = tail_of(values.astype(np.int64)).document()
    fits = [row["fits"] for row in found["stability"]]
    assert fits == sorted(fits)
    assert not fits[0]
    assert fits[-1]
    assert found["fit"] == found["stability"][fits.index(True)]


def test_where_no_threshold_fits_none_is_told_to_fit() -> None:
    found = tail_of(TWO_KINDS.astype(np.int64)).document()
    assert not any(row["fits"] for row in found["stability"])
    assert found["fit"] == found["stability"][-1]


def test_the_peaks_stand_next_to_the_fit_they_have() -> None:
    """All of them are counted, and the largest is one in as many packets as there are; a good fit is close to all."""
    n = 100_000
    found = tail_of(exponential(0, n, seed=7)[0]).document()
    peaks, chosen = found["peaks"], found["fit"]
    value, share = np.array(peaks["value_ns"]), np.array(peaks["share"])
    assert len(value) <= 40
    assert (np.diff(value) > 0).all()
    assert share[0] == pytest.approx(chosen["clusters"] / n)
    assert share[-1] == pytest.approx(1 / n)
    above = (1 + chosen["shape"] * (value - chosen["start_ns"]) / chosen["scale_ns"]) ** (-1 / chosen["shape"])
    apart = np.abs(above * chosen["clusters"] / n - share)
    assert apart.max() < 2 * chosen["clusters"] ** 0.5 / n


@pytest.mark.slow
def test_it_says_that_it_is_extrapolated_and_how_far() -> None:
    found = tail_of(exponential(0, 200_000, seed=10)[0]).document()
    assert found["words"].startswith("Extrapolated, not a bound: from ")
    assert "5 times as many packets as were measured" in found["words"]
    assert json.loads(json.dumps(found, allow_nan=False)) == found


def test_nothing_is_said_of_more_than_ten_times_the_packets() -> None:
    found = tail_of(exponential(0, 20_000, seed=11)[0]).document()
    assert found["why"] is None
    far = found["levels"][2]
    assert (far["packets"], far["value_ns"], far["beyond"]) == (1_000_000, None, 50.0)
    assert far["why"] == "more than 10 times the 20,000 packets that were measured"


def test_levels_below_the_threshold_are_the_percentiles_to_tell() -> None:
    level = tail_of(exponential(0, 100_000, seed=7)[0], packets=(10,)).document()["levels"][0]
    assert (level["value_ns"], level["why"]) == (None, "below the threshold: see the percentiles")


RANDOM = np.random.default_rng(12)
NOISE = RANDOM.exponential(UNIT_NS, 40_000)
TWO_KINDS = NOISE + np.where(np.arange(40_000) % 400 < 1, UNIT_NS * RANDOM.choice([30, 40], 40_000), 0)


@pytest.mark.parametrize(
    ("values", "why"),
    [
        (NOISE[:900], "fewer than 50 episodes"),
        (np.full(40_000, 7.0), "fewer than 50 episodes"),
        (np.empty(0), "fewer than 50 episodes"),
        (NOISE // 300_000 * 300_000, "apart, too coarse for excesses of some"),
        (UNIT_NS * RANDOM.pareto(1.0, 40_000), "the tail is too heavy: shape "),
        (NOISE * np.linspace(1, 3, 40_000), "the episodes are not spread over the run"),
        (TWO_KINDS, "does not fit the peaks"),
        (UNIT_NS * RANDOM.random(40_000), "the tail ends too abruptly: shape −"),
    ],
    ids=["few", "equal", "none", "coarse", "heavy", "uneven", "two kinds", "abrupt"],
)
def test_a_tail_that_does_not_fit_is_refused_with_the_reason(values: Floats, why: str) -> None:
    found = tail_of(values.astype(np.int64)).document()
    assert why in found["why"]
    assert (found["levels"], found["words"]) == ([], None)


def test_stalls_of_one_length_are_no_tail_and_their_fit_is_called_degenerate() -> None:
    """57 peaks of 50 ms but for two: the shape is minus hundreds, and its error would reach any mean."""
    threshold_ns, step = 37_086_500, 500
    peak_ns = np.array([50_000_000] * 55 + [50_000_500, 50_080_000])
    excess = (peak_ns - threshold_ns - step / 2).astype(np.float64)
    shape, scale = (float(one[0]) for one in fitted(excess[None]))
    assert shape < -500
    found = Clusters(threshold_ns, 57, 1.0, 0, np.linspace(0, 59_000, 57).astype(np.int64), peak_ns)
    refits = Refits(0.3, np.empty(0), np.empty(0))
    degenerate = Fit(found, threshold_ns + step / 2, Pareto(57, shape, scale), refits, excess)
    assert degenerate.pareto.shape + 1.96 * degenerate.pareto.shape_error > 1
    assert refusal([degenerate], degenerate, step, 59_500) == (
        "the tail ends too abruptly: the middle half of the 57 peaks above 37.09 ms lies within 500 ns, at 50 ms, so "
        f"that the fit is degenerate (shape −{-shape:.0f})"
    )


def test_of_a_single_threshold_that_does_not_fit_one_p_value_is_reported() -> None:
    found = Clusters(100, 57, 1.0, 0, np.arange(57), np.full(57, 200))
    fits = [
        Fit(found, 100.0, Pareto(57, 0.1, 50.0), Refits(p, np.empty(0), np.empty(0)), np.ones(57))
        for p in (0.002, 0.002, 0.1)
    ]
    said = "a generalized Pareto distribution does not fit the peaks: p "
    assert refusal(fits[:1], None, 1, 40_000) == f"{said}0.002 at its only threshold"
    assert refusal(fits[:2], None, 1, 40_000) == f"{said}0.002 over 2 thresholds"
    assert refusal(fits, None, 1, 40_000) == f"{said}0.002 to 0.100 over 3 thresholds"


@pytest.mark.filterwarnings("error")
def test_a_fit_of_values_that_are_almost_alike_is_as_exact_as_any() -> None:
    """λ₂ of n − 1 zeros and one 1 is 1 / n, wherever they begin; beside 10¹² it is a small difference of large sums."""
    n, start = 100, 1e12
    excess = np.full(n, start)
    excess[-1] += 1
    shape, scale = fitted(excess[None])
    k = (start + 1 / n) * n - 2
    assert (shape[0], scale[0]) == pytest.approx((-k, (1 + k) * (start + 1 / n)), rel=1e-9)


@pytest.mark.filterwarnings("error")
def test_draws_that_the_lattice_leaves_no_spread_are_reckoned_with() -> None:
    """All but one of 100 excesses lie on one point: draws of their fit lie there as a whole, and have no fit."""
    excess = np.array([50.0] * 99 + [150.0])
    found = refitted(excess, 199, np.random.default_rng(14), step=100.0)
    assert 0 < found.p_value < 0.1
    assert len(found.shape) < 199


LATTICES = {
    "a threshold off the lattice": np.choose(
        (np.arange(5000) % 40 == 0) + 1 * (np.arange(5000) % 800 == 0), (0, 1, 1000)
    ),
    "two points": np.where(np.arange(3000) % 23 == 0, 5001, 5000) + np.where(np.arange(3000) % 460 == 0, 1, 0),
    "steps far above the scale": RANDOM.exponential(100.0, 20_000) // 1000 * 1000,
    "almost alike": np.round(1e6 * RANDOM.random(20_000) ** 0.01),
    "without a mean": np.minimum(RANDOM.pareto(0.05, 20_000) * 1000, 2e18),
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("values", LATTICES.values(), ids=LATTICES.keys())
def test_what_no_distribution_fits_is_refused_without_leaving_the_numbers(values: Floats) -> None:
    """No logarithm, quotient or power outside its domain on the way, and every threshold has its excesses above 0."""
    found = tail_of(values.astype(np.int64)).document()
    assert found["why"]
    assert all(row["shape"] < 1 and row["scale_ns"] > 0 and 0 < row["p_value"] <= 1 for row in found["stability"])


def fit(shape: float, n: int) -> Fit:
    refits = Refits(0.5, np.empty(0), np.empty(0))
    return Fit(
        Clusters(0, n, 1.0, 0, np.empty(0, np.int64), np.empty(0, np.int64)),
        0.0,
        Pareto(n, shape, 1.0),
        refits,
        np.empty(0),
    )


def test_a_shape_that_differs_higher_up_by_more_than_chance_is_not_stable() -> None:
    """200 of 800 peaks show the shape to about ±0.08: 0.1 may be chance, 0.6 is not."""
    chosen, alike, other = fit(0.0, 800), fit(0.1, 200), fit(0.6, 100)
    assert drift(chosen, [alike])[0] > 0.1
    assert drift(chosen, [alike, other]) == (1 / (DRAWS + 1), other)


def test_the_same_values_have_the_same_tail() -> None:
    values = pareto(0.1, 20_000, seed=13)
    assert tail_of(values).document() == tail_of(values.copy()).document()
