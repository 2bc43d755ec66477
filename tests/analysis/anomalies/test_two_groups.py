"""Late packets that are no tail of the noise: however many there are, a gap, a stage or their regularity shows them."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from latlab.analysis.anomalies import CODE, Anomalies, find_anomalies
from latlab.analysis.anomalies.limit import find_gap
from latlab.analysis.anomalies.thresholds import THRESHOLDS
from latlab.synthetic import Synthetic
from latlab.synthetic.description import (
    Drift,
    LateWakes,
    Losses,
    Noise,
    Oscillation,
    PathChange,
    Periodic,
    Spikes,
    Stall,
    Step,
)
from support.analysis.anomalies import SECOND, episodes, found, only, stream

pytestmark = pytest.mark.slow

NOISES = {
    "gaussian": Noise(15_000),
    "lognormal": Noise(15_000, "lognormal"),
    "exponential": Noise(15_000, "exponential"),
    "bimodal": Noise(6_000, "modes", modes=((0.3, 30_000),)),
    "autocorrelated": Noise(15_000, "exponential", rho=0.97),
}
REACH_NS = 100_000
"""Farther from its median hardly a packet of these noises is."""


def drawn(share: float, packets: int = 20_000) -> tuple[int, ...]:
    return tuple(np.flatnonzero(np.random.default_rng(7).random(packets) < share).tolist())


def recall_and_precision(anomalies: Anomalies, late: tuple[int, ...] | range) -> tuple[float, float]:
    said, true = anomalies.class_of > 0, np.zeros(len(anomalies.class_of), np.bool_)
    true[list(late)] = True
    right = np.count_nonzero(said & true)
    return right / len(late), right / max(int(np.count_nonzero(said)), 1)


def wide(noise: Noise, *ingredients: object, **changes: object) -> Synthetic:
    return stream(*ingredients, noise=noise, least_ns=(90_000,) * 8, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("share", [0.001, 0.015, 0.05, 0.2, 0.3])
def test_late_packets_beyond_a_gap_are_found_whatever_their_share(noise: str, share: float) -> None:
    late = drawn(share)
    recall, precision = recall_and_precision(found(wide(NOISES[noise], Spikes(late, 4 * REACH_NS))), late)
    assert recall >= 0.95 and precision >= 0.95


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("every", [50, 25, 10, 4])
def test_a_comb_is_periodic_and_no_noise(noise: str, every: int) -> None:
    late = range(0, 10_000, every)
    synthetic = wide(NOISES[noise], Periodic(4 * REACH_NS, every_packets=every), packets=10_000)
    anomalies = found(synthetic)
    recall, precision = recall_and_precision(anomalies, late)
    assert recall >= 0.95 and precision >= 0.95
    (episode, *_) = episodes(anomalies, "periodic")
    assert episode.evidence["every_packets"] == every and episode.packets >= 0.95 * len(late)


@pytest.mark.parametrize("every_ns", [7_300_000, 33_370_000])
def test_a_comb_between_the_periods_has_its_own_interval(every_ns: int) -> None:
    episode = only(found(wide(NOISES["lognormal"], Periodic(4 * REACH_NS, every_ns=every_ns))))
    assert (episode.class_, episode.evidence["every_ns"]) == ("periodic", pytest.approx(every_ns, rel=1e-3))


def test_a_comb_of_which_a_fifth_is_lost_is_one() -> None:
    synthetic = wide(NOISES["lognormal"], Periodic(4 * REACH_NS, every_packets=50), Losses(share=0.2))
    episode = only(found(synthetic))
    assert (episode.class_, episode.evidence["every_packets"]) == ("periodic", 50)


@pytest.mark.parametrize("length_ns", [3 * SECOND, SECOND * 2 // 5])
def test_a_path_change_in_autocorrelated_noise_is_found_once(length_ns: int) -> None:
    change = PathChange(10 * SECOND, length_ns, 400_000, sudden=True)
    episode = only(found(wide(Noise(20_000, "lognormal", rho=0.97), change, clock_bound_ns=0)))
    assert (episode.class_, episode.from_sequence) == ("path_change", 10_000)
    assert episode.packets == length_ns // 1_000_000


def test_two_steps_of_a_clock_are_two() -> None:
    steps = Step(10 * SECOND, 300_000, read=True), Step(25 * SECOND, -700_000, read=True)
    told = episodes(found(stream(*steps, packets=40_000, clock_bound_ns=0)), "clock_step")
    assert [[one["by_ns"] for one in episode.evidence["steps"]] for episode in told] == [[300_000], [-700_000]]


def test_a_relay_that_holds_each_fiftieth_packet_is_named() -> None:
    anomalies = found(stream(Periodic(3_000_000, every_packets=50, scatter=0.02), packets=5_000, period_ns=5_000_000))
    episode = only(anomalies)
    assert (episode.class_, episode.packets) == ("periodic", 100)
    assert anomalies.limits is not None and anomalies.limits.above_ns.middle < 100_000


def test_a_talker_that_is_late_with_one_packet_in_fifty_is_a_late_sender() -> None:
    late = drawn(0.02)
    anomalies = found(stream(LateWakes(late, 500_000)))
    assert np.flatnonzero(anomalies.class_of == CODE["late_sender"]).tolist() == list(late)


def test_the_result_says_where_the_two_groups_part() -> None:
    late = drawn(0.05)
    limits = found(wide(NOISES["lognormal"], Spikes(late, 400_000))).limits
    assert limits is not None and limits.parted is not None
    assert limits.parted.packets == pytest.approx(len(late), abs=2) and limits.parted.of == 20_000
    assert limits.parted.ends_ns < limits.above_ns.middle < limits.parted.begins_ns
    assert limits.document()["parted"]["begins_ns"] == limits.parted.begins_ns


def test_noise_has_no_gap_and_a_second_group_has() -> None:
    rng, place, chance = np.random.default_rng(3), np.arange(5_000), THRESHOLDS.chance
    for values in (rng.normal(0, 1, 5_000), rng.exponential(1, 5_000), np.exp(0.8 * rng.normal(0, 1, 5_000))):
        assert find_gap(values, place, THRESHOLDS, chance) is None
    values = rng.normal(0, 1, 5_000)
    values[::5] += 10
    gap = find_gap(values, place, THRESHOLDS, chance)
    assert gap is not None and gap.beyond == 1_000 and 3 < gap.ends < gap.far < gap.begins < 8


@pytest.mark.parametrize("shape", ["exponential", "lognormal"])
def test_four_packets_of_twenty_thousand_are_found_half_as_far_again_as_the_latest_of_the_noise(shape: str) -> None:
    """So few say nothing alone; the tail below them does."""
    late = (1_234, 5_678, 11_111, 17_171)
    rng = np.random.default_rng(11)
    drawn = rng.exponential(1, 20_000) if shape == "exponential" else np.exp(0.5 * rng.normal(size=20_000))
    far = 1.5 * float(drawn.max())
    values = drawn.copy()
    values[list(late)] = far + rng.exponential(0.1, 4)
    gap = find_gap(values, None, THRESHOLDS, THRESHOLDS.false_alarms)
    assert gap is not None and gap.beyond == 4 and drawn.max() <= gap.ends < gap.begins == pytest.approx(far, rel=0.1)
    assert find_gap(drawn, None, THRESHOLDS, THRESHOLDS.false_alarms) is None


def test_four_late_packets_of_a_run_are_found_three_spreads_late() -> None:
    late = (1_234, 5_678, 11_111, 17_171)
    anomalies = found(wide(NOISES["exponential"], Spikes(late, 290_000)))
    assert recall_and_precision(anomalies, late) == (1, 1)


def test_heavy_tails_of_few_or_many_packets_have_no_gap_before_their_last_ones() -> None:
    rng = np.random.default_rng(12)
    found_in = Counter[str]()
    for packets in (2_000, 20_000):
        for _ in range(40):
            for name, values in {
                "exponential": rng.exponential(1, packets),
                "lognormal": np.exp(0.8 * rng.normal(size=packets)),
                "t, 3 degrees": np.abs(rng.standard_t(3, packets)),
                "pareto, 2.4": rng.pareto(2.4, packets),
                "pareto, 1.5": rng.pareto(1.5, packets),
            }.items():
                found_in[name] += find_gap(values, None, THRESHOLDS, THRESHOLDS.false_alarms) is not None
    assert max(found_in.values()) <= 6 and sum(found_in.values()) <= 12, found_in


def test_a_group_is_whole_though_more_packets_of_it_are_a_tail_by_themselves() -> None:
    rng = np.random.default_rng(1)
    values = rng.uniform(-1, 1, 20_000) + rng.normal(0, 0.05, 20_000)
    values[rng.choice(20_000, 411, replace=False)] += 3.1
    gap = find_gap(values, None, THRESHOLDS, THRESHOLDS.false_alarms)
    assert gap is not None and gap.beyond == 411 and gap.ends < 1.2 < 1.9 < gap.begins


@pytest.mark.parametrize("share", [0.002, 0.021, 0.1, 0.3])
@pytest.mark.parametrize("period_ns", [1_000_000, 2_500_000])
def test_late_packets_of_noise_without_a_tail_are_found(share: float, period_ns: int) -> None:
    """Such noise reaches as far as its spread: late packets of three spreads begin hardly beyond it."""
    width_ns, late = 30_000, drawn(share)
    synthetic = stream(noise=Noise(0), period_ns=period_ns)
    extra = np.random.default_rng(9).integers(0, width_ns, 20_000)
    extra[list(late)] += 3 * width_ns // 2
    columns = ("rx_soft_tai_ns", "rx_user_tai_ns")
    rows = synthetic.packets.with_columns((synthetic.packets[name] + extra).alias(name) for name in columns)
    recall, precision = recall_and_precision(find_anomalies(rows, synthetic.context()), late)
    assert recall >= 0.95 and precision >= 0.95


@pytest.mark.parametrize(("steps", "found_there"), [(1, 0), (2, 160)])
def test_the_next_point_of_a_lattice_is_no_other_group(steps: int, found_there: int) -> None:
    """Timestamps are multiples of 10 µs: some packets that take hardly longer than the others are on the next one."""
    synthetic = stream(noise=Noise(0))
    rows, late = synthetic.packets, np.zeros(20_000, np.int64)
    late[5] = 10_000
    late[np.random.default_rng(3).choice(np.arange(10, 20_000), 160, replace=False)] = steps * 10_000
    launch = rows["launch_tai_ns"].to_numpy()
    columns = {f"{name}_tai_ns": launch + 50_000 + late for name in ("rx_soft", "rx_user")}
    found_in = find_anomalies(rows.with_columns(**columns), synthetic.context())
    assert np.count_nonzero(found_in.class_of) == found_there


def test_packets_in_a_row_beyond_a_gap_are_one_cluster() -> None:
    """Each of them alone would be proof; together they may be one excursion of correlated noise."""
    values = np.random.default_rng(4).exponential(1, 5_000)
    values[1_000:1_040] += 16
    assert find_gap(values, np.arange(5_000), THRESHOLDS, THRESHOLDS.chance) is None
    values[1_000:1_040] -= 16
    values[::125] += 16
    assert find_gap(values, np.arange(5_000), THRESHOLDS, THRESHOLDS.chance) is not None


def test_a_stage_is_compared_with_its_own_usual_time() -> None:
    """The talker's wake-ups vary by more than the bridge's delay is late by."""
    synthetic = stream(noise=Noise(100))
    rng = np.random.default_rng(5)
    woken = np.abs(rng.standard_t(3, 20_000) * 150_000).astype(np.int64)
    late = rng.choice(20_000, 40, replace=False)
    held = np.zeros(20_000, np.int64)
    held[late] = 800_000
    sent, received = ("wake", "submit", "tx_sched", "tx_soft"), ("rx_soft", "rx_user")
    moved = {f"{name}_tai_ns": woken for name in sent} | {f"{name}_tai_ns": woken + held for name in received}
    rows = synthetic.packets.with_columns((synthetic.packets[name] + by).alias(name) for name, by in moved.items())
    anomalies = find_anomalies(rows, synthetic.context())
    assert (anomalies.class_of[late] > 0).all()
    told = [one for one in episodes(anomalies, "unexplained") if one.evidence["where"] == "path"]
    assert len(told) >= 35 and all(700_000 < one.evidence["late_ns"] < 3_000_000 for one in told)
    assert all(one.evidence["limit_ns"] < 50_000 for one in told)


@pytest.mark.parametrize(("pk_pk_ns", "every_ns"), [(60_000, SECOND // 5), (60_000, 8 * SECOND), (10**6, SECOND)])
@pytest.mark.parametrize("where", ["path", "talker"])
def test_an_oscillation_has_its_period_amplitude_and_place(pk_pk_ns: int, every_ns: int, where: str) -> None:
    anomalies = found(stream(Oscillation(pk_pk_ns, every_ns, where), packets=40_000, noise=Noise(5_000)))  # type: ignore[arg-type]
    episode = only(anomalies)
    assert (episode.class_, episode.evidence["where"], episode.packets) == ("oscillation", where, 40_000)
    assert episode.evidence["period_ns"] == pytest.approx(every_ns, rel=0.02)
    assert episode.evidence["pk_pk_ns"] == pytest.approx(pk_pk_ns, rel=0.1)


@pytest.mark.parametrize("share", [0.02, 0.2])
def test_late_packets_of_an_oscillating_stream_are_late(share: float) -> None:
    late = drawn(share)
    anomalies = found(stream(Oscillation(60_000, SECOND), Spikes(late, 500_000), noise=Noise(5_000)))
    recall, precision = recall_and_precision_of("unexplained", anomalies, late)
    assert recall >= 0.95 and precision >= 0.95
    assert len(episodes(anomalies, "oscillation")) == 1


def recall_and_precision_of(name: str, anomalies: Anomalies, late: tuple[int, ...]) -> tuple[float, float]:
    said = set(np.flatnonzero(anomalies.class_of == CODE[name]).tolist())
    return len(said & set(late)) / len(late), len(said & set(late)) / max(len(said), 1)


def test_a_late_talker_of_an_oscillating_stream_is_a_late_sender() -> None:
    late = drawn(0.02)
    anomalies = found(stream(Oscillation(60_000, SECOND), LateWakes(late, 500_000), noise=Noise(5_000)))
    assert np.flatnonzero(anomalies.class_of == CODE["late_sender"]).tolist() == list(late)


def test_a_stream_that_oscillates_and_drifts_does_both() -> None:
    anomalies = found(stream(Oscillation(60_000, SECOND), Drift(5_000.0), packets=40_000, noise=Noise(5_000)))
    assert [one.class_ for one in anomalies.episodes] == ["oscillation", "drift"]
    assert anomalies.episodes[1].evidence["fastest_ppb"] == pytest.approx(5_000, rel=0.02)


@pytest.mark.parametrize("shape", ["exponential", "lognormal"])
@pytest.mark.parametrize("rho", [0.9, 0.97, 0.99])
def test_autocorrelated_noise_makes_no_level_shift(shape: str, rho: float) -> None:
    for seed in range(6):
        assert not found(wide(Noise(20_000, shape, rho=rho), seed=seed, clock_bound_ns=0)).episodes  # type: ignore[arg-type]


@pytest.mark.parametrize("by_ns", [300_000, 5_000_000, SECOND])
@pytest.mark.parametrize("length_ns", [None, 9 * SECOND])
def test_a_step_that_readings_show_is_the_clocks_on_one_kernel_too(by_ns: int, length_ns: int | None) -> None:
    step = Step(20 * SECOND, by_ns, length_ns, read=True)
    episode = only(found(stream(step, packets=60_000, clock_bound_ns=0)))
    assert episode.class_ == "clock_step" and "as its readings show" in episode.text
    assert episode.evidence["steps"][0] == {"host": "listener", "by_ns": by_ns}


@pytest.mark.parametrize(("at_ms", "first", "last"), [(1_200, 0, 1_199), (19_400, 19_400, 19_999)])
def test_a_step_that_readings_show_near_an_end_is_found_to_the_packet(at_ms: int, first: int, last: int) -> None:
    """Too little is left of the stream for a level that lasts."""
    episode = only(found(stream(Step(at_ms * SECOND // 1000, 500_000, read=True), clock_bound_ns=0)))
    assert (episode.class_, episode.from_sequence, episode.to_sequence) == ("clock_step", first, last)
    assert "all latencies jumped by +5" in episode.text or "all latencies jumped by +499" in episode.text


def test_readings_of_a_step_that_the_packets_do_not_show_explain_nothing() -> None:
    steps = stream(Step(19_400 * SECOND // 1000, 500_000, read=True)).context().steps
    assert steps and not found(stream(clock_bound_ns=0), steps=steps).episodes


def test_a_step_behind_a_stall_is_the_clocks_too() -> None:
    """As when a machine was suspended, and its clock set right as it went on."""
    stall = Stall(9_500 * SECOND // 1000, 3 * SECOND // 2)
    anomalies = found(stream(Step(10 * SECOND, 500_000, read=True), stall, clock_bound_ns=0))
    (episode,) = episodes(anomalies, "clock_step")
    assert not episodes(anomalies, "path_change") and "clock was set by +500 µs" in episode.text


def test_a_step_of_another_size_explains_nothing() -> None:
    synthetic = stream(Step(20 * SECOND, 300_000, 9 * SECOND), packets=40_000, clock_bound_ns=0)
    other = stream(Step(20 * SECOND, 5_000_000, 9 * SECOND, read=True), packets=40_000).context().steps
    assert only(found(synthetic, steps=other)).class_ == "path_change"


def test_a_small_last_group_of_noise_is_not_taken_for_late_with_what_lies_far_behind_it() -> None:
    chance = np.random.default_rng(0)
    values = chance.choice([-1.2, -0.4, 0.4, 1.2], 12_000, p=[0.34, 0.33, 0.315, 0.015])
    values += chance.normal(scale=0.05, size=12_000)
    late = chance.random(12_000) < 0.05
    values[late] += chance.uniform(8, 38, np.count_nonzero(late))
    gap = find_gap(values, None, THRESHOLDS, THRESHOLDS.chance)
    assert gap is not None and gap.beyond == np.count_nonzero(late)
