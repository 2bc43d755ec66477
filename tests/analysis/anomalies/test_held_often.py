"""Where many packets are held, or for seconds: each stall is named with its length, and what is usual stays so."""

from __future__ import annotations

import numpy as np
import pytest

from latlab.analysis.anomalies import Anomalies, find_anomalies
from latlab.analysis.anomalies.blocks import members
from latlab.analysis.anomalies.held import slopes_of
from latlab.analysis.anomalies.signals import find_bursts, together
from latlab.analysis.anomalies.thresholds import THRESHOLDS
from latlab.synthetic import Synthetic, generate, random_description
from latlab.synthetic.description import LateWakes, PeriodicStalls, Spikes, Stall, SyntheticGates
from latlab.synthetic.score import score
from support.analysis.anomalies import PERIOD_NS, SECOND, episodes, found, stream

MS = 1_000_000


def usual_is_what_packets_took(synthetic: Synthetic, anomalies: Anomalies) -> bool:
    assert anomalies.limits is not None
    packets = synthetic.packets
    latency = (packets["rx_user_tai_ns"] - packets["launch_tai_ns"]).drop_nulls().to_numpy()
    usual = anomalies.limits.usual_ns
    return bool(latency.min() <= usual.least <= usual.greatest <= np.median(latency) + 20_000)


@pytest.mark.parametrize("every_ms", [250, 190, 100, 75])
def test_every_stall_is_named_however_many_packets_are_held(every_ms: int) -> None:
    """30 ms of every 250 to 75 ms: 12 to 40 % of all packets, and one of 160 ms among them."""
    regular = PeriodicStalls(30 * MS, every_ms * MS, 2 * SECOND, where="path")
    synthetic = stream(regular, Stall(15 * SECOND, 160 * MS, "path"), packets=30_000)
    anomalies = found(synthetic)
    scored = score(synthetic, anomalies)
    stalls = scored.episodes["stall"]
    assert stalls.right >= 0.9 * 28_000 / every_ms and (stalls.missed, stalls.wrong) == (0, 0)
    assert not episodes(anomalies, "path_change") and not episodes(anomalies, "unexplained")
    longest = max(episodes(anomalies, "stall"), key=lambda one: one.severity)
    assert longest.evidence["length_ns"] == pytest.approx(160 * MS, abs=2 * PERIOD_NS + 30 * MS)
    assert longest.evidence["held"] * PERIOD_NS == pytest.approx(longest.evidence["length_ns"], abs=2 * PERIOD_NS)
    assert usual_is_what_packets_took(synthetic, anomalies)
    bursts = anomalies.limits.bursts if anomalies.limits else None
    if every_ms == 250:
        assert bursts is None
    else:
        assert bursts is not None and bursts.regular and not bursts.usual
        assert bursts.every_ns == pytest.approx(every_ms * MS, rel=0.02)


@pytest.mark.parametrize("length_ms", [300, 2_500, 9_000])
def test_a_stall_of_seconds_is_a_stall_and_no_change_of_the_path(length_ms: int) -> None:
    long = Stall(8 * SECOND, length_ms * MS, "path")
    synthetic = stream(long, Stall(25 * SECOND, 160 * MS, "path"), packets=30_000)
    anomalies = found(synthetic)
    first, second = anomalies.episodes
    assert [one.class_ for one in anomalies.episodes] == ["stall", "stall"]
    assert first.evidence["length_ns"] == pytest.approx(length_ms * MS, abs=2 * PERIOD_NS)
    assert second.evidence["length_ns"] == pytest.approx(160 * MS, abs=2 * PERIOD_NS)
    assert first.evidence["slope"] == pytest.approx(-1, abs=0.01)
    assert usual_is_what_packets_took(synthetic, anomalies)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["frequent_stalls", "long_stalls"])
def test_no_stall_is_shorter_than_its_packets_waited_for_one_another(kind: str) -> None:
    told = 0
    for seed in range(12):
        synthetic = generate(random_description(seed, (kind,), packets_most=10_000))
        period = synthetic.description.period_ns
        for one in episodes(find_anomalies(synthetic.packets, synthetic.context()), "stall"):
            evidence = one.evidence
            # A packet is launched a period after the last; the level moves by less than a part of one meanwhile.
            assert evidence["length_ns"] + evidence["within_ns"] > (evidence["held"] - 1.2) * period, one.text
            assert 0 < evidence["share"] <= 1 and -1.001 <= evidence["slope"] <= -THRESHOLDS.crowd
            told += 1
    assert told > 20


def test_a_path_on_which_nearly_all_packets_come_in_bursts_is_said_to_be_one() -> None:
    anomalies = found(stream(gates=SyntheticGates(8 * PERIOD_NS, 500_000), drain_ns=5_000))
    assert not episodes(anomalies, "stall")
    assert anomalies.limits is not None and anomalies.limits.bursts is not None
    bursts = anomalies.limits.bursts
    assert bursts.usual and bursts.regular and bursts.size == 8
    assert bursts.every_ns == pytest.approx(8 * PERIOD_NS, rel=0.01)
    assert bursts.share > 0.95 and anomalies.limits.document()["bursts"]["times"] == bursts.times


def test_bursts_are_told_by_the_order_of_arrivals_alone() -> None:
    launch = np.arange(100, dtype=np.int64) * PERIOD_NS
    end = launch + 50_000
    for begin in (10, 30, 70, 90):
        end[begin : begin + 6] = launch[begin + 5] + 60_000 + np.arange(6) * 1_000
    spans = together((end - launch).astype(np.float64), end, launch, PERIOD_NS, THRESHOLDS)
    assert [one.tolist() for one in spans] == [[10, 30, 70, 90], [16, 36, 76, 96]]
    assert np.count_nonzero(members(spans, 100)) == 24
    bursts = find_bursts(spans, end, THRESHOLDS)
    assert bursts is not None
    assert (bursts.packets, bursts.of, bursts.times, bursts.size) == (24, 100, 4, 6)
    # Four, with gaps of 20, 40 and 20 periods, are no rule; and of all packets they are the smaller part.
    assert bursts.every_ns == 20 * PERIOD_NS and not bursts.regular and not bursts.usual
    two = tuple(one[:2] for one in spans)
    assert find_bursts((two[0], two[1]), end, THRESHOLDS) is None


def test_latency_falls_by_a_period_a_packet_where_all_arrived_at_once() -> None:
    launch = np.arange(8, dtype=np.int64) * PERIOD_NS
    end = np.concatenate((np.full(5, 9 * PERIOD_NS), launch[5:] + 1_000))
    assert slopes_of(launch, end, np.array([0, 5])) == pytest.approx([-1, 0])


def test_the_worst_late_sender_is_the_one_with_the_largest_figure_told() -> None:
    # The path was late with the second as well: it was later in all, and its talker less late.
    late = LateWakes((4_000,), 300_000), LateWakes((6_000,), 250_000), Spikes((6_000,), 150_000, "path")
    told = episodes(found(stream(*late)), "late_sender")
    assert [one.from_sequence for one in told] == [4_000, 6_000]
    assert told[0].evidence["late_ns"] < told[1].evidence["late_ns"]
    worst = sorted(told, key=lambda one: -one.severity)
    figures = [max(one.evidence["wake_ns"], one.evidence["submit_ns"]) for one in worst]
    assert worst[0] is told[0] and figures == sorted(figures, reverse=True)
    assert [one.severity for one in worst] == pytest.approx(figures, abs=1)


def test_stalls_that_come_four_times_a_second_are_no_throttling_though_some_are_a_second_apart() -> None:
    synthetic = stream(PeriodicStalls(50 * MS, 250 * MS, 2 * SECOND, where="path"))
    anomalies = found(synthetic, rt_throttled=False)
    assert not episodes(anomalies, "throttled")
    assert len(episodes(anomalies, "stall")) == 72
