"""A synthetic run does what its description says, to the nanosecond where nothing is random."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray

from latlab.analysis.anomalies import CODE
from latlab.model.errors import UsageError
from latlab.recordings.packets import PACKET_COLUMNS
from latlab.synthetic import Description, Synthetic, generate
from latlab.synthetic.description import (
    Drift,
    Duplicates,
    Ingredient,
    LateWakes,
    Losses,
    MissedSlots,
    Noise,
    PathChange,
    Periodic,
    Reorders,
    Spikes,
    Stall,
    Step,
    Swing,
    SyntheticGates,
    Throttling,
    WarmUp,
    Where,
)

PERIOD_NS = 1_000_000
LEAST_NS = (4_000, 1_500, 1_000, 1_000, 2_000, 15_000, 5_000, 8_000)
USUAL_NS = 4_000 + 1_500 + 1_000 + 1_000 + 15_000 + 8_000
QUIET = Noise(spread_ns=0)
SECOND = 1_000_000_000


def run(*ingredients: Ingredient, packets: int = 3_000, **changes: object) -> Synthetic:
    """A run without any noise, so that everything in it can be reckoned by hand."""
    plain = Description(seed=5, packets=packets, period_ns=PERIOD_NS, noise=QUIET, least_ns=LEAST_NS, drain_ns=1_000)
    return generate(replace(plain, **{"ingredients": ingredients, **changes}))  # type: ignore[arg-type]


def latency(synthetic: Synthetic, end: str = "rx_user") -> NDArray[np.float64]:
    rows = synthetic.packets
    return (rows[f"{end}_tai_ns"] - rows["launch_tai_ns"]).cast(pl.Float64).to_numpy()


def classes(synthetic: Synthetic, name: str) -> list[int]:
    return np.flatnonzero(synthetic.truth.class_of == CODE[name]).tolist()


def test_the_same_description_gives_the_same_run() -> None:
    description = Description(
        seed=3, packets=2_000, period_ns=PERIOD_NS, ingredients=(Losses(0.1), Periodic(10_000, every_packets=9))
    )
    once, again = generate(description), generate(description)
    assert once.packets.equals(again.packets)
    assert not once.packets.equals(generate(replace(description, seed=4)).packets)


def test_the_table_has_the_columns_and_types_of_a_packet_table() -> None:
    rows = run(Losses(0.1)).packets
    assert rows.columns == list(PACKET_COLUMNS)
    for name, kind in PACKET_COLUMNS.items():
        assert rows[name].dtype == pl.Series(np.zeros(1, kind)).dtype, name


def test_without_ingredients_and_noise_every_packet_takes_the_same() -> None:
    assert set(latency(run())) == {USUAL_NS}


@pytest.mark.parametrize(
    ("where", "late", "punctual"),
    [
        ("talker", "wake", None),
        ("qdisc", "tx_soft", "tx_sched"),
        ("path", "rx_hard", "tx_hard"),
        ("kernel", "rx_soft", "rx_hard"),
        ("application", "rx_user", "rx_soft"),
    ],
)
def test_a_stall_holds_packets_there_and_latency_falls_as_fast_as_launches_rise(
    where: Where, late: str, punctual: str | None
) -> None:
    synthetic = run(Stall(SECOND, 6_300_000, where), hardware=True)
    held = classes(synthetic, "stall")
    assert held[0] in (1_000, 1_001) and len(held) in (6, 7)
    # Each a period less than the one before, but for the 1 µs by which packets follow one another (a batch wakes once).
    assert set(np.diff(latency(synthetic)[held])) == {1_000.0 - PERIOD_NS}
    rows = synthetic.packets
    assert rows[f"{late}_tai_ns"][held[0]] - rows["launch_tai_ns"][held[0]] > 5_000_000
    if punctual:
        assert rows[f"{punctual}_tai_ns"][held[0]] - rows["launch_tai_ns"][held[0]] < 100_000
    assert latency(synthetic)[held[-1] + 1] == pytest.approx(latency(synthetic)[0], abs=PERIOD_NS)


def test_without_hardware_timestamps_the_listeners_kernel_is_part_of_the_path() -> None:
    (episode,) = run(Stall(SECOND, 6_300_000, "kernel")).truth.episodes
    assert (episode.class_, episode.where) == ("stall", "path")


def test_a_spike_longer_than_a_period_is_a_stall_and_a_shorter_one_is_not() -> None:
    both = run(Spikes((500,), 300_000), Spikes((800,), 2_500_000))
    assert classes(both, "unexplained") == [500]
    assert classes(both, "stall") == [800, 801, 802]


def test_a_late_wake_up_is_the_talkers_wherever_it_shows() -> None:
    synthetic = run(LateWakes((500,), 300_000))
    assert classes(synthetic, "late_sender") == [500]
    assert latency(synthetic)[500] == USUAL_NS + 300_000
    assert synthetic.packets["wake_tai_ns"][500] - synthetic.packets["launch_tai_ns"][500] == 304_000


def test_clocks_move_what_the_listener_stamped_and_nothing_else() -> None:
    swing = Swing(SECOND, SECOND, 40_000)
    synthetic = run(swing, Step(2_500_000_000, -9_000, compared=True), packets=4_000)
    moved = latency(synthetic) - USUAL_NS
    assert moved[1_500] == pytest.approx(40_000, abs=100)
    assert moved[1_250] == pytest.approx(20_000, abs=100)
    assert not moved[:999].any() and set(moved[2_501:]) == {-9_000}
    # Of two levels that of fewer packets is the wrong one: here the later one.
    assert classes(synthetic, "clock_step")[-1] == 3_999
    assert (synthetic.packets["tx_soft_tai_ns"] - synthetic.packets["launch_tai_ns"]).n_unique() == 1


def test_a_drift_grows_all_the_time() -> None:
    moved = latency(run(Drift(2_000.0))) - USUAL_NS
    assert moved[-1] == pytest.approx(6_000, abs=2)
    assert set(np.diff(moved)) == {2.0}


def test_what_the_path_does_is_no_clock() -> None:
    synthetic = run(PathChange(SECOND, SECOND, 30_000, sudden=True))
    assert classes(synthetic, "path_change")
    assert not classes(synthetic, "clock_step")
    assert set(latency(synthetic)) == {USUAL_NS, USUAL_NS + 30_000}


def test_losses_have_no_arrival_and_single_ones_no_class() -> None:
    synthetic = run(Losses(0.0, ((100, 5), (300, 1))))
    assert classes(synthetic, "loss_burst") == [100, 101, 102, 103, 104]
    lost = synthetic.packets.filter(pl.col("arrival").is_null())
    assert lost["sequence"].to_list() == [100, 101, 102, 103, 104, 300]
    assert lost["rx_user_tai_ns"].null_count() == 6
    assert synthetic.packets["arrival"].drop_nulls().to_list() == list(range(2_994))


def test_an_overtaken_packet_arrives_right_behind_the_last_that_overtook_it() -> None:
    synthetic = run(Reorders((100,), 3))
    assert classes(synthetic, "reorder") == [100]
    assert synthetic.packets["arrival"][100] == 103
    assert synthetic.packets["arrival"][101] == 100


def test_spikes_come_as_often_as_was_said() -> None:
    by_count = run(Periodic(300_000, every_packets=250, first_ns=100 * PERIOD_NS, scatter=0))
    assert classes(by_count, "periodic") == list(range(100, 3_000, 250))
    assert by_count.truth.periods == [("periodic", 250 * PERIOD_NS)]
    by_time = run(Periodic(300_000, every_ns=333_333_333, scatter=0))
    assert classes(by_time, "periodic") == [0, 334, 667, 1_000, 1_334, 1_667, 2_000, 2_334, 2_667]


def test_throttling_leaves_a_gap_in_every_second() -> None:
    synthetic = run(Throttling(500_500_000), packets=4_000)
    throttled = classes(synthetic, "throttled")
    assert {number % 1_000 for number in throttled} <= set(range(500, 551))
    assert len(throttled) == 4 * 50
    assert synthetic.throttled


def test_a_packet_that_misses_its_slot_leaves_a_cycle_later() -> None:
    gates = SyntheticGates(500_000, 200_000)
    synthetic = run(MissedSlots((700,)), gates=gates)
    assert classes(synthetic, "missed_slot") == [700]
    waited = synthetic.packets["tx_soft_tai_ns"] - synthetic.packets["launch_tai_ns"]
    assert waited[700] - waited[699] == 500_000 - waited[699] + waited[699]


def test_gates_hold_packets_until_they_open() -> None:
    synthetic = run(gates=SyntheticGates(500_000, 200_000, shift_ns=100_000))
    assert set(synthetic.packets["tx_soft_tai_ns"] - synthetic.packets["launch_tai_ns"]) == {100_000}


def test_a_warm_up_begins_with_the_first_packet_that_counts() -> None:
    synthetic = run(WarmUp(400_000, 50_000_000), warmup=200)
    assert classes(synthetic, "warm_up")[0] == 200
    assert synthetic.packets["warmup"].sum() == 200
    assert set(latency(synthetic)[:200]) == {USUAL_NS}
    assert 200_000 <= latency(synthetic)[200] - USUAL_NS <= 600_000


def test_records_of_the_clocks_tell_what_they_are_to_tell() -> None:
    told = Swing(SECOND, SECOND, 40_000, "hump", ptp=True, compared=True)
    synthetic = run(told, ptp=True, clock_bound_ns=300)
    assert synthetic.ptp is not None and synthetic.clocks is not None
    assert synthetic.ptp["offset_ns"].max() > 39_000  # type: ignore[operator]
    widths = synthetic.clocks["upper_ns"] - synthetic.clocks["lower_ns"]
    assert set(widths) == {600}
    silent = run(replace(told, ptp=False, compared=False), ptp=True, clock_bound_ns=300)
    assert silent.ptp is not None and silent.ptp["offset_ns"].abs().max() < 1_000  # type: ignore[operator]


def test_copies_are_counted_and_not_recorded() -> None:
    synthetic = run(Duplicates(7))
    assert synthetic.duplicated == 7
    assert synthetic.packets.equals(run().packets)


def test_a_lattice_is_the_timestamps_resolution() -> None:
    rows = run(noise=Noise(3_000, lattice_ns=1_000)).packets
    assert set(rows["rx_user_tai_ns"] % 1_000) == {0}


def test_what_is_smaller_than_the_rule_says_is_excused_and_no_truth() -> None:
    noisy = Noise(10_000)
    least = tuple(60_000 for _ in LEAST_NS)
    small = run(Spikes((500,), 30_000), noise=noisy, least_ns=least)
    large = run(Spikes((500,), small.truth.packet_limit_ns + 5_000), noise=noisy, least_ns=least)
    assert not small.truth.class_of.any() and small.truth.excused[500]
    assert classes(large, "unexplained") == [500]
    # Four times as far out as one packet in ten thousand lies, of a gaussian with a standard deviation of 11.1 µs.
    assert small.truth.packet_limit_ns == pytest.approx(4 * 3.6 * 11_100, rel=0.15)


@pytest.mark.parametrize(
    ("changes", "where"),
    [
        ({"packets": 0}, "packets"),
        ({"warmup": 4_000}, "warmup"),
        ({"drain_ns": PERIOD_NS}, "drain_ns"),
        ({"least_ns": (1, 2)}, "least_ns"),
        ({"gates": SyntheticGates(500_000, 100)}, "gates"),
        ({"warmup": 3_000}, "warmup"),
        ({"noise": Noise(modes=((0.7, 5), (0.6, 9)), shape="modes")}, "noise.modes"),
        ({"noise": Noise(modes=((0.7, -5),), shape="modes")}, "noise.modes"),
        ({"noise": Noise(shape="pink")}, "noise.shape"),  # type: ignore[arg-type]
        ({"noise": Noise(-1)}, "noise.spread_ns"),
        ({"noise": Noise(shape="lognormal", sigma=float("nan"))}, "noise.sigma"),
        ({"clock_bound_ns": -1}, "clock_bound_ns"),
        ({"ingredients": (WarmUp(400_000, 50_000_000, "kernel"),)}, "ingredients[0], WarmUp"),  # type: ignore[arg-type]
        ({"ingredients": (Spikes((5,), -400_000),)}, "ingredients[0], Spikes"),
        ({"ingredients": (Duplicates(-1),)}, "ingredients[0], Duplicates"),
        ({"ingredients": (Periodic(5, every_packets=-9),)}, "ingredients[0], Periodic"),
        ({"ingredients": (Spikes((3_000,), 5),)}, "ingredients[0], Spikes"),
        ({"ingredients": (Duplicates(1), Periodic(5, every_ns=9))}, "ingredients[1], Periodic"),
        ({"ingredients": (Periodic(5),)}, "ingredients[0], Periodic"),
        ({"ingredients": (MissedSlots((5,)),)}, "ingredients[0], MissedSlots"),
        ({"ingredients": (Losses(0.0, ((2_999, 2),)),)}, "ingredients[0], Losses"),
    ],
)
def test_a_description_that_cannot_be_made_is_one_clear_error(changes: dict[str, object], where: str) -> None:
    with pytest.raises(UsageError) as error:
        run(**{"packets": 3_000, **changes})  # type: ignore[arg-type]
    assert error.value.where == where and error.value.remedy


def test_modes_may_be_all_packets() -> None:
    modes = ((0.2, 5_000), (0.4, 10_000), (0.3, 15_000), (0.1, 20_000))
    assert np.array([share for share, _ in modes]).sum() > 1
    found = run(noise=Noise(0, "modes", modes=modes))
    assert set((latency(found) - USUAL_NS).tolist()) == {offset for _, offset in modes}


@pytest.mark.parametrize(
    "noise",
    [
        Noise(10**9, "lognormal", sigma=3, rho=0.999),
        Noise(10**9, "heavy", degrees=1),
        Noise(10**9, slow_ns=10**9, slow_correlation_ns=3_000_000_000),
    ],
)
def test_the_widest_noise_makes_no_packet_early(noise: Noise) -> None:
    assert latency(run(noise=noise)).min() >= USUAL_NS


def test_several_errors_are_reported_at_once() -> None:
    with pytest.raises(UsageError) as error:
        run(Spikes((9_000,), 5), Periodic(5))
    assert [part.where for part in error.value.parts] == ["ingredients[0], Spikes", "ingredients[1], Periodic"]
