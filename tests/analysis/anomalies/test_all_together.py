"""What moved all packets: clocks or the path, distinguished by what is on record of the clocks."""

from __future__ import annotations

import numpy as np
import pytest

from latlab.analysis.anomalies import CODE, find_anomalies
from latlab.synthetic.description import Drift, Noise, PathChange, Spikes, Stall, Step, Swing, WarmUp
from support.analysis.anomalies import PERIOD_NS, SECOND, episodes, found, only, stream

LONG = 60_000


@pytest.mark.parametrize("shape", ["triangle", "wave", "hump"])
@pytest.mark.parametrize("amplitude_ns", [-60_000, 25_000])
def test_a_clock_that_is_steered_away_and_back_is_a_swing(shape: str, amplitude_ns: int) -> None:
    swing = Swing(20 * SECOND, 20 * SECOND, amplitude_ns, shape, compared=True)  # type: ignore[arg-type]
    anomalies = found(stream(swing, packets=LONG))
    assert {one.class_ for one in anomalies.episodes} == {"clock_swing"}
    moved = np.flatnonzero(anomalies.class_of == CODE["clock_swing"])
    assert moved[0] == pytest.approx(20_000, abs=2_500) and moved[-1] == pytest.approx(40_000, abs=2_500)
    assert max(abs(one.evidence["peak_ns"]) for one in anomalies.episodes) == pytest.approx(abs(amplitude_ns), rel=0.1)


def test_packets_that_arrive_before_they_left_are_counted() -> None:
    episode = only(found(stream(Swing(20 * SECOND, 20 * SECOND, -60_000, compared=True), packets=LONG)))
    assert episode.evidence["below_zero"] > 5_000
    assert episode.evidence["peak_ns"] == pytest.approx(-60_000, rel=0.04)
    assert episode.text.startswith("all latencies moved by up to −")
    assert "packets arrived before leaving, as if a clock was slewed" in episode.text


@pytest.mark.parametrize(
    ("swing", "context", "name", "ptp", "comparison"),
    [
        ({"ptp": True}, {"ptp": True}, "clock_swing", "agrees", "no record"),
        ({"compared": True}, {}, "clock_swing", "no record", "agrees"),
        ({}, {"ptp": True}, "unexplained", "shows nothing", "no record"),
        ({}, {"clock_bound_ns": 40_000}, "unexplained", "no record", "allows"),
        ({}, {"ptp": True, "clock_bound_ns": 40_000}, "unexplained", "shows nothing", "allows"),
        ({}, {}, "unexplained", "no record", "no record"),
    ],
)
def test_a_swing_is_the_clocks_if_a_record_of_them_shows_it(
    swing: dict[str, bool], context: dict[str, object], name: str, ptp: str, comparison: str
) -> None:
    synthetic = stream(Swing(20 * SECOND, 20 * SECOND, 50_000, "hump", **swing), packets=LONG, **context)
    episode = only(found(synthetic))
    assert (episode.class_, episode.evidence["ptp"], episode.evidence["comparison"]) == (name, ptp, comparison)
    assert (", because of the clocks or of the path: no clock's record shows it" in episode.text) is (
        name == "unexplained"
    )


def test_clocks_that_are_bounded_more_narrowly_did_not_swing() -> None:
    slow = PathChange(20 * SECOND, 20 * SECOND, 50_000)
    for bound_ns in (0, 5_000):
        episode = only(found(stream(slow, packets=LONG, clock_bound_ns=bound_ns)))
        assert (episode.class_, episode.evidence["comparison"]) == ("path_change", "excludes")
    assert only(found(stream(slow, packets=LONG, clock_bound_ns=30_000))).class_ == "unexplained"


@pytest.mark.parametrize("record", [{"ptp": True}, {"compared": True}])
@pytest.mark.parametrize("lattice_ns", [0, 4_000])
def test_a_step_is_the_clocks_if_a_record_of_them_shows_one_as_large(record: dict[str, bool], lattice_ns: int) -> None:
    """Two courses of one level each have no correlation: their levels are compared."""
    step, noise = Step(20 * SECOND, 80_000, 9 * SECOND, **record), Noise(2_000, lattice_ns=lattice_ns)
    synthetic = stream(step, packets=LONG, ptp=True, noise=noise)
    assert only(found(synthetic)).class_ == "clock_step"
    other = stream(Step(20 * SECOND, 20_000, 9 * SECOND, **record), packets=LONG, ptp=True)
    episode = only(found(synthetic, ptp=other.ptp, clocks=other.context().clocks))
    # PTP's record of a smaller step leaves it open; our own comparison bounds it.
    name = "unexplained" if "ptp" in record else "path_change"
    assert (episode.class_, episode.evidence["kind"]) == (name, "step")


def test_a_drift_is_told_by_its_rate() -> None:
    episode = only(found(stream(Drift(-800.0, compared=True), packets=LONG)))
    assert (episode.class_, episode.evidence["kind"], episode.packets) == ("clock_swing", "drift", LONG)
    assert episode.evidence["fastest_ppb"] == pytest.approx(800, rel=0.1)
    assert "drifted by −4" in episode.text and "as with clocks of different rates" in episode.text


@pytest.mark.parametrize(("at", "cut"), [(15, (0, 15)), (45, (45, 60))])
def test_after_a_step_the_side_with_fewer_packets_is_off(at: int, cut: tuple[int, int]) -> None:
    episode = only(found(stream(Step(at * SECOND, 30_000, compared=True), packets=LONG)))
    assert episode.class_ == "clock_step"
    assert episode.from_sequence == pytest.approx(cut[0] * 1_000, abs=1)
    assert episode.to_sequence + 1 == pytest.approx(cut[1] * 1_000, abs=1)
    assert abs(episode.evidence["peak_ns"]) == pytest.approx(30_000, rel=0.1)


def test_a_step_there_and_back_is_found_to_the_packet() -> None:
    episode = only(found(stream(Step(20 * SECOND, -40_000, 9 * SECOND, compared=True), packets=LONG)))
    assert (episode.class_, episode.from_sequence, episode.packets) == ("clock_step", 20_000, 9_000)
    assert "jumped by −40" in episode.text or "jumped by −39." in episode.text


def test_a_late_packet_within_a_swing_is_late_and_no_swing() -> None:
    swing = Swing(20 * SECOND, 20 * SECOND, 60_000, compared=True)
    anomalies = found(stream(swing, Spikes((30_000,), 300_000), packets=LONG))
    assert anomalies.class_of[30_000] == CODE["unexplained"]
    (late,) = episodes(anomalies, "unexplained")
    assert late.evidence["late_ns"] == pytest.approx(300_000, abs=15_000)
    assert anomalies.class_of[30_001] == CODE["clock_swing"]


def test_more_noise_alone_moves_nothing() -> None:
    assert not found(stream(packets=LONG, noise=Noise(30_000), least_ns=(250_000,) * 8)).episodes


def test_a_slow_beginning_is_a_warm_up_until_it_is_over() -> None:
    anomalies = found(stream(WarmUp(300_000, 400_000_000), warmup=500))
    episode = only(anomalies)
    assert (episode.class_, episode.from_sequence) == ("warm_up", 500)
    # The level is back within its spread after some five times the decay.
    assert 500 + 1_500 < episode.to_sequence < 500 + 3_200
    assert not anomalies.class_of[:500].any()
    assert "the stream was up to" in episode.text and episode.evidence["where"] == "path"


def test_a_stall_in_a_slow_beginning_says_nothing_of_how_slow_it_was() -> None:
    slow = WarmUp(300_000, 400_000_000)
    plain, held = (
        episodes(found(stream(slow, *stalls, warmup=500)), "warm_up")
        for stalls in ((), (Stall(700 * 1_000_000, 4_300_000, "path"), Stall(900 * 1_000_000, 9_300_000, "talker")))
    )
    (alone,), (beside,) = plain, held
    assert beside.evidence["most_ns"] == pytest.approx(alone.evidence["most_ns"], rel=0.01)
    assert beside.severity == pytest.approx(beside.evidence["most_ns"], abs=1)
    assert 300_000 < beside.evidence["most_ns"] < 470_000
    assert beside.evidence["where"] == "path"


def test_a_clock_that_soon_is_stepped_back_for_a_while_leaves_no_slow_beginning() -> None:
    """What comes before the step is as most of the stream is, whatever comes next."""
    episode = only(found(stream(Step(6 * SECOND, -40_000, 20 * SECOND, compared=True), packets=LONG)))
    assert (episode.class_, episode.from_sequence, episode.packets) == ("clock_step", 6_000, 20_000)


def test_the_same_beginning_is_nothing_if_the_warm_up_lasts_longer() -> None:
    late = stream(WarmUp(300_000, 40_000_000))
    rows = late.packets.with_columns((late.packets["sequence"] < 1_000).alias("warmup"))
    assert not find_anomalies(rows, late.context()).episodes


def test_a_clock_that_settles_at_the_beginning_is_no_warm_up() -> None:
    settling = Step(0, 80_000, 6 * SECOND, compared=True)
    episode = only(found(stream(settling, packets=LONG)))
    assert episode.class_ == "clock_step"
    assert episode.to_sequence + 1 == pytest.approx(6 * SECOND // PERIOD_NS, abs=1)
