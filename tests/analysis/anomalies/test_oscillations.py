"""An oscillation has its period and amplitude, and hides no late packet, whatever is lost meanwhile."""

from __future__ import annotations

import numpy as np
import pytest

from latlab.analysis.words import duration
from latlab.synthetic import Synthetic
from latlab.synthetic.description import Drift, Ingredient, Losses, Noise, Oscillation, Periodic, Spikes
from support.analysis.anomalies import episodes, found, stream

PACKETS = 32_000
GAUSSIAN, EXPONENTIAL = Noise(15_000), Noise(15_000, "exponential")
LATE = [8, 9]
"""Codes of `periodic` and `unexplained`."""


def made(noise: Noise, pk_pk_ns: int, every_ns: int, *more: Ingredient, clock_bound_ns: int | None = 0) -> Synthetic:
    """A stream of this noise with the sine on its path, and more."""
    ingredients = (Oscillation(pk_pk_ns, every_ns), *more)
    return stream(*ingredients, packets=PACKETS, noise=noise, clock_bound_ns=clock_bound_ns, seed=6)


@pytest.mark.parametrize("pk_pk_ns", [60_000, 1_000_000])
@pytest.mark.parametrize("every_ns", [200_000_000, 370_000_000, 8_000_000_000])
def test_period_and_amplitude_are_those_of_the_sine(pk_pk_ns: int, every_ns: int) -> None:
    (one,) = episodes(found(made(Noise(5_000), pk_pk_ns, every_ns)), "oscillation")
    assert one.evidence["period_ns"] == pytest.approx(every_ns, rel=0.005)
    assert one.evidence["pk_pk_ns"] == pytest.approx(pk_pk_ns, rel=0.02)


@pytest.mark.parametrize("lost", [Losses(0.05), Losses(0.0, ((9_000, 3_333),))], ids=["single", "a burst of 3.3 s"])
def test_lost_packets_do_not_shorten_the_period(lost: Losses) -> None:
    (one,) = episodes(found(made(GAUSSIAN, 60_000, 500_000_000, lost)), "oscillation")
    assert one.evidence["period_ns"] == pytest.approx(500_000_000, rel=0.002)
    assert one.evidence["pk_pk_ns"] == pytest.approx(60_000, rel=0.03)


def test_a_drift_next_to_it_changes_neither() -> None:
    anomalies = found(made(GAUSSIAN, 60_000, 1_000_000_000, Drift(2_000.0), clock_bound_ns=None))
    (one,) = episodes(anomalies, "oscillation")
    assert one.evidence["pk_pk_ns"] == pytest.approx(60_000, rel=0.02)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("pk_pk_ns", "every_ns"), [(200_000, 200_000_000), (1_000_000, 200_000_000), (1_000_000, 1_000_000_000)]
)
def test_late_packets_in_a_fast_oscillation_are_found(pk_pk_ns: int, every_ns: int) -> None:
    comb = np.zeros(PACKETS, np.bool_)
    comb[::33] = True
    at_random = np.random.default_rng(7).random(PACKETS) < 0.02
    spikes = Spikes(tuple(np.flatnonzero(at_random).tolist()), 280_000)
    for chosen, noise, late in (
        (comb, GAUSSIAN, Periodic(140_000, every_packets=33)),
        (at_random, EXPONENTIAL, spikes),
    ):
        anomalies = found(made(noise, pk_pk_ns, every_ns, late))
        said = np.isin(anomalies.class_of, LATE)
        assert np.count_nonzero(said & chosen) >= 0.99 * np.count_nonzero(chosen)
        assert np.count_nonzero(said & chosen) >= 0.99 * np.count_nonzero(said)
        assert len(episodes(anomalies, "oscillation")) == 1


@pytest.mark.slow
def test_a_fast_oscillation_alone_makes_no_packet_late() -> None:
    anomalies = found(made(GAUSSIAN, 1_000_000, 200_000_000))
    assert {one.class_ for one in anomalies.episodes} == {"oscillation"}


def test_several_waves_at_once_are_one_oscillation_that_names_them_all() -> None:
    anomalies = found(made(GAUSSIAN, 100_000, 900_000_000, Oscillation(80_000, 3_100_000_000)))
    (one,) = episodes(anomalies, "oscillation")
    (other,) = one.evidence["others"]
    periods = [wave["period_ns"] for wave in (one.evidence, other)]
    assert periods == [pytest.approx(900_000_000, rel=0.005), pytest.approx(3_100_000_000, rel=0.005)]
    assert other["pk_pk_ns"] == pytest.approx(80_000, rel=0.03)
    for wave in (one.evidence, other):
        assert f"every {duration(wave['period_ns'])} by {duration(wave['pk_pk_ns'])}" in one.text


def test_a_level_that_wanders_without_a_line_is_no_oscillation() -> None:
    for seed in range(3):
        slow = Noise(8_000, slow_ns=60_000, slow_correlation_ns=500_000_000)
        assert not episodes(found(stream(noise=slow, packets=PACKETS, seed=seed, clock_bound_ns=0)), "oscillation")
