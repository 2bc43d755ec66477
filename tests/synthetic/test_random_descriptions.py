"""What is drawn at random is broad, repeats, and makes what it is called for."""

from __future__ import annotations

import numpy as np
import pytest

from latlab.analysis.anomalies import CODE
from latlab.synthetic import CLASS_OF, KINDS, generate, random_description, random_mix
from latlab.synthetic.choose import ALL_TOGETHER, BY_THEMSELVES, PERIOD_NS, SPREAD_NS
from latlab.synthetic.description import Noise, Stall, Swing


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_makes_its_class_now_and_then_and_the_same_seed_the_same(kind: str) -> None:
    descriptions = [random_description(seed, (kind,), packets_most=5_000) for seed in range(8)]
    assert descriptions[3] == random_description(3, (kind,), packets_most=5_000)
    runs = [generate(description) for description in descriptions]
    if kind in CLASS_OF:
        assert any((run.truth.class_of == CODE[CLASS_OF[kind]]).any() for run in runs)
    elif kind == "duplicate":
        assert all(run.duplicated for run in runs)
    else:
        assert not any(run.truth.class_of.any() for run in runs)


def test_periods_and_noise_fill_the_ranges_they_are_drawn_from() -> None:
    drawn = [random_description(seed, ("clean",), packets_most=20_000) for seed in range(300)]
    periods = np.array([one.period_ns for one in drawn])
    spreads = np.array([one.noise.spread_ns for one in drawn])
    assert periods.min() < 1.3 * PERIOD_NS[0] and periods.max() > 0.9 * PERIOD_NS[1]
    assert spreads.min() < 1.2 * SPREAD_NS[0] and spreads.max() > 0.8 * SPREAD_NS[1]
    assert {one.noise.shape for one in drawn} == {"gaussian", "lognormal", "heavy", "modes"}
    assert any(one.noise.slow_ns for one in drawn) and any(one.noise.lattice_ns for one in drawn)
    assert {one.hardware for one in drawn} == {True, False}


def test_stalls_and_swings_are_short_and_long() -> None:
    stalls = [
        one.length_ns
        for seed in range(200)
        for one in random_description(seed, ("stall",), packets_most=30_000).ingredients
        if isinstance(one, Stall)
    ]
    assert min(stalls) < 2_500_000 and max(stalls) > 150_000_000
    swings = [
        one
        for seed in range(200)
        for one in random_description(seed, ("clock_swing",), packets_most=60_000).ingredients
        if isinstance(one, Swing)
    ]
    sizes = [abs(one.amplitude_ns) for one in swings]
    assert min(sizes) < 6_000 and max(sizes) > 180_000
    assert min(one.length_ns for one in swings) < 11e9 and max(one.length_ns for one in swings) > 150e9


@pytest.mark.parametrize("kind", ["gaussian", "lognormal", "heavy", "modes", "slow", "lattice"])
def test_a_kind_of_noise_can_be_asked_for(kind: str) -> None:
    noise = random_description(1, ("clean",), noise=kind).noise
    told = {"slow": noise.slow_ns > 0, "lattice": noise.lattice_ns > 0}
    assert told.get(kind, noise.shape == kind)
    assert noise != Noise()


def test_a_mix_has_several_kinds_and_moves_all_packets_in_one_way_at_most() -> None:
    mixes = [random_mix(seed) for seed in range(100)]
    assert all(len(mix) >= 2 and len(set(mix)) == len(mix) for mix in mixes)
    assert all(sum(kind in ALL_TOGETHER for kind in mix) <= 1 for mix in mixes)
    assert set().union(*mixes) >= set(KINDS) - set(BY_THEMSELVES)
