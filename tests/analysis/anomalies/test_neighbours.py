"""Single packets that stand out of those next to them, in noise that changes little from one to the next."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from latlab.analysis.anomalies import CODE
from latlab.analysis.anomalies.limit import Usual
from latlab.analysis.anomalies.parts import SIDE, Neighbours, beside_neighbours
from latlab.analysis.anomalies.thresholds import THRESHOLDS
from latlab.synthetic import Synthetic
from latlab.synthetic.description import LateWakes, Noise, Spikes
from support.analysis.anomalies import found, stream

Float64 = NDArray[np.float64]
CORRELATED = Noise(15_000, "exponential", rho=0.97)


def correlated(*ingredients: object, seed: int = 1) -> Synthetic:
    return stream(*ingredients, noise=CORRELATED, seed=seed, clock_bound_ns=0, least_ns=(120_000,) * 8)  # type: ignore[arg-type]


def beside(late: Float64) -> Neighbours | None:
    usual = Usual.of(late.copy(), 100, None, THRESHOLDS, THRESHOLDS.false_alarms)
    return beside_neighbours(usual, None, 0, THRESHOLDS, THRESHOLDS.false_alarms)


def wandering(seed: int, n: int = 20_000) -> Float64:
    """An autoregressive process of first order, with a correlation of 0.97 and a deviation of 1 µs."""
    steps = np.random.default_rng(seed).normal(0, 1_000 * (1 - 0.97**2) ** 0.5, n)
    values = np.zeros(n)
    for at in range(1, n):
        values[at] = 0.97 * values[at - 1] + steps[at]
    return values


@pytest.mark.parametrize("seed", range(1, 7))
def test_a_few_late_packets_are_found_that_excursions_of_the_noise_hide(seed: int) -> None:
    """Ten of 20,000; noise reaches up to two thirds of their lateness, in excursions of tens of packets."""
    late = tuple(np.sort(np.random.default_rng(seed).choice(np.arange(2_000, 20_000), 10, replace=False)).tolist())
    anomalies = found(correlated(Spikes(late, 230_000), seed=seed))
    assert np.flatnonzero(anomalies.class_of).tolist() == list(late)
    limits = anomalies.limits
    assert limits is not None and limits.beside_ns is not None and limits.beside_ns.middle < 150_000
    for one in anomalies.episodes:
        assert one.evidence["limit_ns"] < one.evidence["late_ns"]


@pytest.mark.slow
def test_the_noise_itself_has_nobody_who_stands_out() -> None:
    for seed in range(20):
        assert not found(correlated(seed=seed + 100)).episodes


def test_a_talker_that_wakes_late_in_it_is_a_late_sender() -> None:
    late = (3_000, 7_001, 12_345)
    anomalies = found(correlated(LateWakes(late, 230_000), seed=3))
    assert np.flatnonzero(anomalies.class_of == CODE["late_sender"]).tolist() == list(late)


def test_excursions_that_a_gap_takes_in_are_left_out() -> None:
    """Late packets part from most of the noise; some of its excursions lie beyond the gap, less late than they are."""
    chosen = np.random.default_rng([2, 5]).random(20_000) < 0.002
    anomalies = found(correlated(Spikes(tuple(np.flatnonzero(chosen).tolist()), 311_000), seed=2))
    said = anomalies.class_of > 0
    assert (said & chosen).sum() == chosen.sum() and (said & ~chosen).sum() <= 0.05 * chosen.sum()


def test_of_packets_that_have_nothing_to_do_with_the_next_ones_no_neighbours_are_asked() -> None:
    rng = np.random.default_rng(3)
    assert beside(rng.exponential(1_000, 20_000)) is None
    assert beside(np.where(rng.random(20_000) < 0.3, 5_000.0, 0.0)) is None
    assert beside(np.zeros(20_000)) is None
    assert beside(wandering(1, 3 * SIDE)) is None
    # Beside independent noise an eighth as wide.
    assert beside(wandering(1) + rng.normal(0, 125, 20_000)) is not None


def test_a_packet_is_compared_with_the_later_of_its_sides() -> None:
    late = wandering(2)
    late[5_000] += 8_000
    late[7_000:7_002] += 8_000
    late[9_000:9_200] += 8_000
    one = beside(late)
    assert one is not None
    # Of many in a row each has late ones on one side: they are the usual level's to judge.
    assert one.late.tolist() == [5_000, 7_000, 7_001]
    assert (one.limit_ns(one.late) < one.late_ns[one.late]).all()
    before, after = np.median(one.late_ns[4_997:5_000]), np.median(one.late_ns[5_001:5_004])
    assert one.above_ns[5_000] == pytest.approx(one.late_ns[5_000] - max(before, after))


def test_rows_that_begin_without_a_step_are_excursions_where_most_begin_with_one() -> None:
    late = np.zeros(1_000)
    late[100:110] = 9_000.0
    late[[300, 400, 500]] = 10_000.0, 8_000.0, 9_000.0
    slope = np.concatenate((np.arange(1, 21), np.arange(20, 0, -1))) * 250.0
    late[600:640] = slope
    late[800:840] = 4 * slope
    flat = np.full(10, 3_000.0, np.float32)
    one = Neighbours(late, late, flat, flat, 100)
    which = np.flatnonzero(late > 4_000)
    # The one that is as late as they are may be something else, and stays.
    assert set(which) - set(one.without_excursions(which)) == set(np.flatnonzero(late[:640] > 4_000)[13:])
    steep = replace(one, steps=np.full(10, 20_000, np.float32))
    assert steep.without_excursions(which).tolist() == which.tolist()
    assert one.without_excursions(np.empty(0, np.int64)).tolist() == []


def test_the_ends_of_a_stream_have_one_side() -> None:
    late = wandering(4)
    late[[0, 1, -1]] += 9_000
    one = beside(late)
    assert one is not None and not np.isnan(one.above_ns).any()
    assert one.late.tolist() == [0, 1, len(late) - 1]
