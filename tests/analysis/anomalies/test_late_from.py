"""From where on single packets are late: the nearer part of the tail, the talker's noise, and the report of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from latlab.analysis.anomalies import Context, find_anomalies
from latlab.analysis.anomalies.find import OF_EXPONENTIAL, exponential_limit_ns
from latlab.analysis.anomalies.limit import tail_limit
from latlab.analysis.anomalies.signals import drift, make_signals
from latlab.analysis.anomalies.thresholds import THRESHOLDS
from latlab.synthetic import Synthetic
from latlab.synthetic.description import LateWakes, Noise, Stall
from support.analysis.anomalies import PERIOD_NS, SECOND, episodes, found, only, stream

Rng = np.random.Generator
HEAVY: dict[str, Callable[[Rng, int], NDArray[np.float64]]] = {
    "lognormal": lambda rng, n: np.exp(0.8 * rng.normal(0, 1, n)),
    "pareto 4": lambda rng, n: rng.pareto(4, n),
    "pareto 2.4": lambda rng, n: rng.pareto(2.4, n),
}
WIDE = Noise(40_000, "lognormal", sigma=0.8)
"""Its single packets are late from more than a millisecond on."""


@pytest.mark.slow
@pytest.mark.parametrize("name", HEAVY)
@pytest.mark.parametrize("packets", [5_000, 50_000])
def test_heavy_tails_are_beyond_their_limit_in_hardly_a_run(name: str, packets: int) -> None:
    """`false_alarms` allows 2 packets in 100 runs; Pareto's tails with an index down to 2.4 are not to have more."""
    beyond = 0
    for seed in range(100):
        values = HEAVY[name](np.random.default_rng([seed, 5]), packets)
        values -= np.median(values)
        beyond += int((values > tail_limit(values, THRESHOLDS, packets)).sum())
    assert beyond <= 2


@pytest.mark.parametrize("share", [0.005, 0.01, 0.015])
def test_where_one_packet_in_a_hundred_is_something_else_the_limit_stays_near(share: float) -> None:
    rng = np.random.default_rng(6)
    values = rng.normal(0, 1, 20_000)
    alone = tail_limit(values, THRESHOLDS, len(values))
    values[rng.choice(20_000, int(share * 20_000), replace=False)] = 5 + rng.exponential(10, int(share * 20_000))
    assert alone < tail_limit(values, THRESHOLDS, len(values)) < 5 * alone


def test_a_train_does_not_move_the_limit_of_single_packets() -> None:
    plain = found(stream(noise=WIDE)).limits
    held = found(stream(Stall(5 * SECOND, 2_400_000), noise=WIDE)).limits
    assert plain is not None and held is not None
    assert held.above_ns.middle == pytest.approx(plain.above_ns.middle, rel=0.01)


def quiet_talker(*sequences: int, by_ns: int, noise: Noise = WIDE) -> Synthetic:
    """A wide path behind a talker that is exact to a microsecond, but woke late for these packets."""
    synthetic = stream(noise=noise)
    rows = synthetic.packets
    launch = rows["launch_tai_ns"].to_numpy()
    rng = np.random.default_rng(12)
    wake = launch + 8_000 + np.abs(rng.normal(0, 1_000, len(launch))).astype(np.int64)
    moved = np.zeros(len(launch), np.int64)
    moved[list(sequences)] = by_ns
    gone = wake + 3_000 - rows["submit_tai_ns"].to_numpy()
    columns = {"wake_tai_ns": wake + moved, "submit_tai_ns": wake + 3_000 + moved}
    for name in ("tx_sched", "tx_soft", "rx_soft", "rx_user"):
        columns[f"{name}_tai_ns"] = rows[f"{name}_tai_ns"].to_numpy() + gone + moved
    return replace(synthetic, packets=rows.with_columns(**columns))


def test_a_late_wake_is_named_by_the_talkers_own_noise_where_the_path_hides_it() -> None:
    synthetic = quiet_talker(4_000, 9_000, by_ns=700_000)
    anomalies = found(synthetic)
    assert [(one.class_, one.from_sequence) for one in anomalies.episodes] == [
        ("late_sender", 4_000),
        ("late_sender", 9_000),
    ]
    assert anomalies.limits and anomalies.limits.sender_ns
    assert anomalies.limits.sender_ns.middle < 100_000 < 700_000 < anomalies.limits.above_ns.middle
    one = anomalies.episodes[0]
    assert one.evidence["limit_ns"] == pytest.approx(anomalies.limits.sender_ns.middle, rel=0.2)
    assert one.evidence["wake_ns"] == pytest.approx(700_000, abs=10_000)


def test_trains_of_late_wake_ups_do_not_hide_a_single_one() -> None:
    # 60 times the talker slept through four packets: 1.2 % of all, each late on its own as well.
    rows = quiet_talker(by_ns=0, noise=Noise(2_000)).packets
    late = np.zeros(rows.height, np.int64)
    for first in range(1_000, 19_000, 300):
        late[first : first + 4] = 3_500_000 - PERIOD_NS * np.arange(4)
    late[777] = 60_000
    columns = [f"{name}_tai_ns" for name in ("wake", "submit", "tx_sched", "tx_soft", "rx_soft", "rx_user")]
    rows = rows.with_columns((rows[name] + late).alias(name) for name in columns)
    anomalies = find_anomalies(rows, Context(PERIOD_NS))
    assert anomalies.limits and anomalies.limits.sender_ns
    assert anomalies.limits.sender_ns.middle < 60_000
    assert [one.from_sequence for one in episodes(anomalies, "late_sender")] == [777]
    stalls = episodes(anomalies, "stall")
    assert [one.from_sequence for one in stalls] == list(range(1_000, 19_000, 300))
    assert {one.evidence["where"] for one in stalls} == {"talker"}


def test_a_wake_that_the_packet_was_not_late_for_is_nobodys() -> None:
    synthetic = quiet_talker(by_ns=0)
    rows = synthetic.packets
    moved = np.zeros(rows.height, np.int64)
    moved[4_000] = 700_000
    # It left, and arrived, when it would have anyway.
    rows = rows.with_columns((rows[name] + moved).alias(name) for name in ("wake_tai_ns", "submit_tai_ns"))
    assert not find_anomalies(rows, synthetic.context()).episodes


def test_a_stream_without_the_talkers_timestamps_has_no_limit_of_its_own() -> None:
    rows = stream(LateWakes((4_000,), 200_000)).packets
    none = rows["wake_tai_ns"] * None
    rows = rows.with_columns(none.alias("wake_tai_ns"), none.alias("submit_tai_ns"), none.alias("tx_sched_tai_ns"))
    anomalies = find_anomalies(rows, Context(PERIOD_NS))
    assert anomalies.limits is not None and anomalies.limits.sender_ns is None
    assert only(anomalies).class_ == "unexplained"


def test_the_result_says_whether_a_heavy_tail_puts_the_limit_where_it_is() -> None:
    heavy, plain = found(stream(noise=WIDE)).limits, found(stream()).limits
    assert heavy is not None and plain is not None
    assert heavy.exponential_ns is not None and plain.exponential_ns is not None
    assert heavy.heavy and heavy.exponential_ns < heavy.above_ns.middle
    assert not plain.heavy and plain.exponential_ns >= plain.above_ns.middle
    document = heavy.document()
    assert json.loads(json.dumps(document)) == document
    assert document["heavy"] and document["above_ns"]["least"] <= document["above_ns"]["middle"]
    assert find_anomalies(stream().packets.head(0), Context(PERIOD_NS)).limits is None


def test_a_limit_beyond_all_that_was_measured_is_said_to_be_where_the_tail_is_heavy() -> None:
    synthetic = stream(packets=5_000, noise=Noise(2_000))
    rng = np.random.default_rng(15)
    extra = np.minimum(rng.pareto(0.9, 5_000) * 5_000, 2_000_000).astype(np.int64)
    columns = ("rx_soft_tai_ns", "rx_user_tai_ns")
    rows = synthetic.packets.with_columns((synthetic.packets[name] + extra).alias(name) for name in columns)
    limits = find_anomalies(rows, synthetic.context()).limits
    plain = found(synthetic).limits
    assert limits is not None and plain is not None
    assert limits.largest_ns == (rows["rx_user_tai_ns"] - rows["launch_tai_ns"]).max()
    assert limits.out_of_reach and limits.document()["out_of_reach"]
    assert limits.from_ns.middle > limits.largest_ns
    # Noise alone is nearer than its limit too: what lies between the two would not be called late either.
    assert plain.from_ns.middle > plain.largest_ns and plain.out_of_reach and not plain.heavy


def test_an_exponential_tail_is_reckoned_from_its_spread() -> None:
    # 50,000 packets, two in a hundred runs: a share of 4e-7; ln 100 − ln 2 to the last percentile, then twice on.
    by_hand = (np.log(50) + 2 * (np.log(2.5e6) - np.log(100))) * 10_000 / OF_EXPONENTIAL
    assert exponential_limit_ns(10_000, 50_000, THRESHOLDS) == pytest.approx(by_hand)
    synthetic = stream(noise=Noise(0))
    rng = np.random.default_rng(13)
    rows, columns = synthetic.packets, ("rx_soft_tai_ns", "rx_user_tai_ns")
    extra = rng.exponential(20_000, rows.height).astype(np.int64)
    rows = rows.with_columns((rows[name] + extra).alias(name) for name in columns)
    spread_ns = make_signals(rows, synthetic.context(), THRESHOLDS).spread_ns
    assert spread_ns == pytest.approx(OF_EXPONENTIAL * 20_000, rel=0.05)


def test_a_step_is_no_drift_and_a_line_is_one() -> None:
    at = np.arange(60, dtype=np.float64) * 1e9
    noise = np.random.default_rng(14).normal(0, 100, 60)
    assert drift(1e-5 * at + noise, at) == pytest.approx(1e-5, rel=0.05)
    assert drift(-1e-5 * at + noise, at) == pytest.approx(-1e-5, rel=0.05)
    for place in (20, 30, 40):
        assert drift(np.where(at >= at[place], 2e6, 0) + noise, at) == 0
