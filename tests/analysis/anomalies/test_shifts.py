"""What moves all packets for a moment: longer than a stall, and less long than a level is looked at."""

from __future__ import annotations

import numpy as np
import pytest

from latlab.analysis.anomalies import CODE
from latlab.synthetic.description import Noise, PathChange, Spikes, Stall, Step, Swing
from support.analysis.anomalies import SECOND, found, only, stream

LONG = 40_000
MS = 1_000_000
AT_NS, FIRST = 20 * SECOND + 37 * MS, 20_037


@pytest.mark.slow
@pytest.mark.parametrize("noise", [Noise(2_000), Noise(6_000, "lognormal", sigma=0.6), Noise(2_000, lattice_ns=1_000)])
@pytest.mark.parametrize("length_ms", [100, 150, 300, 700, 1_000, 1_500, 1_900])
@pytest.mark.parametrize("amplitude_ns", [200_000, -30_000])
def test_a_path_that_takes_longer_for_a_moment_is_one_episode(noise: Noise, length_ms: int, amplitude_ns: int) -> None:
    shift = PathChange(AT_NS, length_ms * MS, amplitude_ns, sudden=True)
    episode = only(found(stream(shift, packets=LONG, noise=noise, clock_bound_ns=0)))
    assert (episode.class_, episode.evidence["kind"]) == ("path_change", "step")
    assert episode.evidence["peak_ns"] == pytest.approx(amplitude_ns, rel=0.25)
    assert episode.from_sequence == pytest.approx(FIRST, abs=3)
    assert episode.packets == pytest.approx(length_ms, abs=5)
    assert "all latencies jumped by " in episode.text


def test_one_that_comes_and_goes_slowly_is_found_too() -> None:
    episode = only(found(stream(PathChange(AT_NS, 800 * MS, 100_000), packets=LONG, clock_bound_ns=0)))
    assert (episode.class_, episode.evidence["kind"]) == ("path_change", "swing")
    assert 600 < episode.packets < 800


def test_without_a_record_of_the_clocks_it_may_be_they() -> None:
    for moved in (PathChange(AT_NS, 300 * MS, 200_000, sudden=True), Step(AT_NS, 200_000, 300 * MS)):
        episode = only(found(stream(moved, packets=LONG)))
        assert (episode.class_, episode.packets) == ("unexplained", 300)
        assert "because of the clocks or of the path" in episode.text


def test_a_late_packet_within_it_is_late_by_itself() -> None:
    shift = PathChange(AT_NS, 300 * MS, 200_000, sudden=True)
    anomalies = found(stream(shift, Spikes((FIRST + 100,), 400_000), packets=LONG, clock_bound_ns=0))
    assert anomalies.class_of[FIRST + 100] == CODE["unexplained"]
    assert (anomalies.class_of == CODE["path_change"]).sum() == 299


def test_stalls_are_no_shifts() -> None:
    held = [Stall(at * SECOND, length * MS, "kernel") for at, length in ((8, 150), (16, 300), (24, 900), (32, 1_500))]
    assert {one.class_ for one in found(stream(*held, packets=LONG, clock_bound_ns=0)).episodes} == {"stall"}


def test_the_top_of_a_slow_movement_is_no_shift_of_its_own() -> None:
    swing = Swing(10 * SECOND, 12 * SECOND, 150_000, compared=True)
    assert {one.class_ for one in found(stream(swing, packets=LONG)).episodes} == {"clock_swing"}


def test_packets_that_have_several_ways_take_another_one_many_times_in_a_row() -> None:
    """16 packets have a interval's median at a period of 3 ms: that it is the other way's now and then is chance."""
    noise = Noise(1_000, modes=((0.25, 30_000), (0.25, 33_000)), shape="modes")
    for seed in range(5):
        synthetic = stream(packets=LONG, noise=noise, period_ns=3 * MS, clock_bound_ns=0, seed=seed)
        assert not found(synthetic).episodes


def test_noise_that_wanders_as_slowly_is_none() -> None:
    slow = Noise(1_000, slow_ns=10_000, slow_correlation_ns=300 * MS)
    plain = stream(packets=LONG, noise=slow, clock_bound_ns=0, least_ns=(90_000,) * 8)
    assert not found(plain).episodes
    assert np.ptp((plain.packets["rx_soft_tai_ns"] - plain.packets["tx_soft_tai_ns"]).to_numpy()) > 60_000


@pytest.mark.parametrize("at_s", [12, 28])
def test_a_level_that_changes_once_stays_and_does_not_jump_back(at_s: int) -> None:
    """Whichever of the two levels is longer: by it the other one is reported."""
    step = Step(at_s * SECOND, 5 * MS, None, compared=True)
    episode = only(found(stream(step, packets=LONG)))
    assert "all latencies jumped by +5 ms" in episode.text
    assert ", and stayed" in episode.text
    assert ", for " not in episode.text


@pytest.mark.parametrize("noise", [Noise(2_000), Noise(6_000, "lognormal", sigma=0.6)])
@pytest.mark.parametrize("length_ms", [150, 600, 1_200, 1_900])
@pytest.mark.parametrize("amplitude_ns", [200_000, -30_000])
def test_a_level_that_changes_shortly_before_the_end_is_found(noise: Noise, length_ms: int, amplitude_ns: int) -> None:
    shift = PathChange((LONG - length_ms) * MS, 10 * SECOND, amplitude_ns, sudden=True)
    episode = only(found(stream(shift, packets=LONG, noise=noise, clock_bound_ns=0)))
    assert (episode.class_, episode.evidence["kind"]) == ("path_change", "step")
    assert episode.evidence["peak_ns"] == pytest.approx(amplitude_ns, rel=0.25)
    assert episode.packets == pytest.approx(length_ms, abs=5)
    assert ", and stayed" in episode.text


@pytest.mark.parametrize("length_ms", [150, 600, 1_200, 1_900])
def test_a_level_that_changes_shortly_after_the_beginning_is_found(length_ms: int) -> None:
    shift = PathChange(0, length_ms * MS, -30_000, sudden=True)
    episode = only(found(stream(shift, packets=LONG, clock_bound_ns=0)))
    assert episode.class_ == "path_change"
    assert episode.packets == pytest.approx(length_ms, abs=5)
    assert "jumped by +" in episode.text and " after " in episode.text
