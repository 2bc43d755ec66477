"""Trains: stalls of known packets, beneath what single ones are late by, and noise that has none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from latlab.analysis.anomalies import find_anomalies
from latlab.analysis.anomalies.limit import tail_limit
from latlab.analysis.anomalies.parts import NO_TRAINS, Spans, find_trains, reported, with_trains
from latlab.analysis.anomalies.thresholds import THRESHOLDS
from latlab.synthetic.description import Noise, Stall
from support.analysis.anomalies import PERIOD_NS, SECOND, found, only, stream

Float64 = NDArray[np.float64]
Rng = np.random.Generator
PACKETS = 20_000
SPREAD_NS = 10_000

NOISES: dict[str, Callable[[Rng, int], Float64]] = {
    "gaussian": lambda rng, n: rng.normal(0, 1, n),
    "lognormal": lambda rng, n: np.exp(0.8 * rng.normal(0, 1, n)),
    "student": lambda rng, n: np.abs(rng.standard_t(3, n)),
    "pareto": lambda rng, n: rng.pareto(1.5, n),
}


def noise_ns(name: str, seed: int) -> Float64:
    values = NOISES[name](np.random.default_rng([seed, 11]), PACKETS)
    return np.asarray((values - np.median(values)) * SPREAD_NS)


def pairs(spans: Spans) -> tuple[tuple[int, int], ...]:
    return tuple(zip(*(one.tolist() for one in spans), strict=True))


def trains(late: Float64, spread_ns: float = SPREAD_NS) -> tuple[tuple[int, int], ...]:
    """Those of packets a millisecond apart; who was overtaken is left out, as in a stream."""
    launch = np.arange(len(late), dtype=np.int64) * PERIOD_NS
    end = launch + late.astype(np.int64)
    kept = end >= np.maximum.accumulate(end)
    return pairs(find_trains(late[kept], end[kept], launch[kept], spread_ns, THRESHOLDS))


def quiet(*late_ns: float, at: int = 5_000) -> Float64:
    """Gaussian noise, and these packets late by so much."""
    late = noise_ns("gaussian", 0)
    late[at : at + len(late_ns)] = late_ns
    return late


def test_packets_that_came_at_once_are_a_train_to_the_packet() -> None:
    assert trains(quiet(3_300_000, 2_300_500, 1_301_000, 301_500)) == ((5_000, 5_004),)


def test_a_train_is_found_far_beneath_the_limit_of_single_packets() -> None:
    for seed in range(20):
        late = noise_ns("pareto", seed)
        late[7_000:7_003] = (2_400_000, 1_400_300, 400_600)
        assert tail_limit(late / SPREAD_NS, THRESHOLDS, len(late)) * SPREAD_NS > 5 * 2_400_000
        launch = np.arange(len(late), dtype=np.int64) * PERIOD_NS
        end = launch + late.astype(np.int64)
        kept = np.flatnonzero(end >= np.maximum.accumulate(end))
        spans = pairs(find_trains(late[kept], end[kept], launch[kept], SPREAD_NS, THRESHOLDS))
        first = int(np.searchsorted(kept, 7_000))
        assert (first, first + 3) in spans


def test_who_would_have_come_as_close_in_its_own_time_was_not_held() -> None:
    # The first is late by hardly more than a period, so the second comes right behind it whatever happens to it.
    assert trains(quiet(1_090_000, 90_000)) == ()
    assert trains(quiet(1_500_000, 500_500)) == ((5_000, 5_002),)
    assert trains(quiet(2_050_000, 1_050_500, 51_000)) == ((5_000, 5_002),)


def test_packets_that_are_late_one_after_the_other_but_apart_are_no_train() -> None:
    assert trains(quiet(2_000_000, 1_900_000, 1_800_000)) == ()


@pytest.mark.parametrize("name", NOISES)
def test_noise_in_which_nobody_holds_another_has_no_trains(name: str) -> None:
    """By `chance` one run in a hundred may have one: of 200 there are 6 or fewer in all but one in 200 such tests."""
    assert sum(bool(trains(noise_ns(name, seed))) for seed in range(200)) <= 6


def test_a_path_on_which_packets_always_come_like_this_has_none() -> None:
    late = noise_ns("gaussian", 1)
    for first in range(0, PACKETS, 5):
        late[first : first + 4] = (3_600_000, 2_600_500, 1_601_000, 601_500)
    assert trains(late) == ()
    seldom = noise_ns("gaussian", 1)
    for first in range(0, PACKETS - 20, 20):
        seldom[first : first + 2] = (1_600_000, 600_500)
    assert len(trains(seldom)) == 999
    often = noise_ns("gaussian", 1)
    for first in range(0, PACKETS - 10, 10):
        often[first : first + 4] = (3_600_000, 2_600_500, 1_601_000, 601_500)
    # Two in five packets are no rule: who came alone shows what is usual.
    assert len(trains(often)) == 1_999


def test_as_many_are_reported_as_chance_makes_only_a_share_of() -> None:
    # By hand: 0.005 < 0.01 and 0.015 < 0.02; 0.031 is not < 0.03, but 0.035 < 0.04, and with it all before are
    # reported.
    assert reported(np.array([0.035, 0.005, 0.031, 0.015, 0.9]), 0.01).tolist() == [True, True, True, True, False]
    assert reported(np.array([0.02]), 0.01).tolist() == [False]
    assert reported(np.empty(0), 0.01).tolist() == []


def test_trains_are_left_out_with_what_was_held() -> None:
    held = np.array([True, False, False, False])
    assert with_trains(None, NO_TRAINS, 4) is None
    one = np.array([2]), np.array([4])
    with_held, alone = with_trains(held, one, 4), with_trains(None, one, 4)
    assert with_held is not None and alone is not None and with_held is not held
    assert np.flatnonzero(with_held).tolist() == [0, 2, 3]
    assert np.flatnonzero(alone).tolist() == [2, 3]
    assert held.tolist() == [True, False, False, False]


def test_short_streams_have_none() -> None:
    for n in (0, 1, 2, 3):
        assert trains(np.zeros(n)) == ()


def test_a_stall_beneath_the_limit_is_named_with_its_packets_and_its_slope() -> None:
    """A lognormal path whose single packets are late from farther out on; a stall of 2.4 ms in it."""
    wide = Noise(40_000, "lognormal", sigma=0.8)
    synthetic = stream(Stall(5 * SECOND, 2_400_000), noise=wide)
    episode = only(found(synthetic))
    assert (episode.class_, episode.from_sequence, episode.to_sequence) == ("stall", 5_000, 5_002)
    assert episode.evidence["length_ns"] < episode.evidence["limit_ns"]
    assert episode.evidence["slope"] == pytest.approx(-1, abs=0.1)
    # By the limit of single packets nothing would be said of it.
    assert not find_anomalies(synthetic.packets, synthetic.context(), replace(THRESHOLDS, tight=0.0)).episodes
