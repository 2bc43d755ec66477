"""What happened to single packets: named, with the figures that show it, and told in a sentence."""

from __future__ import annotations

import numpy as np
import pytest

from latlab.analysis.anomalies import CODE
from latlab.synthetic.description import (
    Duplicates,
    LateWakes,
    Losses,
    MissedSlots,
    Periodic,
    PeriodicStalls,
    Reorders,
    Spikes,
    Stall,
    SyntheticGates,
    Throttling,
    Where,
)
from support.analysis.anomalies import PERIOD_NS, SECOND, episodes, found, only, stream


@pytest.mark.parametrize(
    ("where", "hardware", "said", "told"),
    [
        ("talker", False, "talker", "the talker, before it submitted them"),
        ("qdisc", False, "qdisc", "the qdisc"),
        ("path", False, "path", "the path"),
        ("path", True, "path", "the path"),
        ("kernel", True, "kernel", "the listener's kernel"),
        ("kernel", False, "path", "the path"),
        ("application", False, "application", "the listener, between its kernel and its application"),
    ],
)
def test_a_stall_is_told_by_where_it_held_how_many_and_for_how_long(
    where: Where, hardware: bool, said: str, told: str
) -> None:
    episode = only(found(stream(Stall(5 * SECOND, 6_300_000, where), hardware=hardware)))
    assert (episode.class_, episode.packets, episode.evidence["where"]) == ("stall", 7, said)
    # The first packet came to it up to 0.1 ms after it began.
    assert 6_200_000 < episode.evidence["length_ns"] < 6_310_000
    assert episode.evidence["slope"] == pytest.approx(-1, abs=0.02)
    assert episode.evidence["within_ns"] < 30_000
    assert (
        episode.text.startswith("stall of 6.") and f"ms: 7 packets queued in {told}, all arrived within" in episode.text
    )


def test_an_episode_says_from_which_packet_to_which_and_when() -> None:
    synthetic = stream(Stall(5 * SECOND, 6_300_000))
    episode = only(found(synthetic))
    assert (episode.from_sequence, episode.to_sequence) == (5_000, 5_006)
    launch = synthetic.packets["launch_tai_ns"]
    assert (episode.from_tai_ns, episode.to_tai_ns) == (launch[5_000], launch[5_007])


def test_two_stalls_right_after_one_another_are_two() -> None:
    both = found(stream(Stall(5 * SECOND, 20_000_000), Stall(5 * SECOND + 20_500_000, 9_000_000)))
    assert [one.packets for one in episodes(both, "stall")] in ([20, 9], [21, 9], [20, 10])


def test_a_stall_longer_than_a_second_is_one_stall() -> None:
    episode = only(found(stream(Stall(5 * SECOND, 1_500_000_000))))
    assert episode.class_ == "stall" and episode.packets == pytest.approx(1_500, abs=2)
    assert episode.text.startswith("stall of 1.5 s: 150")


def test_one_late_packet_is_no_stall() -> None:
    assert only(found(stream(Spikes((5_000,), 500_000)))).class_ == "unexplained"


def test_packets_that_always_come_in_bursts_are_not_stalled() -> None:
    # Eight packets a cycle wait for one window: that is how this path works.
    anomalies = found(stream(gates=SyntheticGates(8 * PERIOD_NS, 500_000), drain_ns=5_000))
    assert not episodes(anomalies, "stall")


def test_gaps_of_50_ms_in_every_second_are_throttling() -> None:
    anomalies = found(stream(Throttling(3 * SECOND, "talker")), rt_throttled=False)
    throttled = episodes(anomalies, "throttled")
    assert len(throttled) == 17 and not episodes(anomalies, "stall")
    first = throttled[0]
    assert first.evidence["own_thread"] and first.evidence["every_ns"] == SECOND
    assert first.evidence["length_ns"] == pytest.approx(50_000_000, rel=0.03)
    assert first.text.endswith("as every 1 s, 17 times")


def test_two_gaps_are_throttling_only_if_the_kernel_says_so() -> None:
    twice = stream(Throttling(3 * SECOND, "path", active_ns=1_500_000_000))
    assert len(episodes(found(twice, rt_throttled=False), "stall")) == 2
    told = episodes(found(twice, rt_throttled=True), "throttled")
    assert len(told) == 2 and not told[0].evidence["own_thread"]


def test_the_same_gaps_are_stalls_where_throttling_is_off_or_another() -> None:
    gaps = stream(Throttling(3 * SECOND, "path"))
    for runtime_us in (-1, 700_000):
        anomalies = found(gaps, rt_runtime_us=runtime_us)
        assert not episodes(anomalies, "throttled")
        assert all(one.evidence["every_ns"] == pytest.approx(SECOND) for one in episodes(anomalies, "stall"))


def test_a_missed_slot_is_seen_by_the_schedule_or_by_the_cycle() -> None:
    for known in (True, False):
        gates = SyntheticGates(400_000, 300_000, schedule_known=known)
        synthetic = stream(MissedSlots((4_000,), 2), gates=gates)
        episode = only(found(synthetic))
        assert (episode.class_, episode.from_sequence) == ("missed_slot", 4_000)
        assert episode.evidence["windows_late" if known else "cycles_late"] == 2
        words = "windows" if known else "cycles"
        assert episode.text.startswith(f"1 packet missed its slot and left 2 {words} later, after ")
        assert only(found(synthetic, port=None, flow=None, cycle_ns=None)).class_ == "unexplained"


def test_late_wakes_and_late_submissions_are_the_talkers() -> None:
    woke = only(found(stream(LateWakes((4_000,), 200_000))))
    assert woke.class_ == "late_sender"
    assert woke.evidence["wake_ns"] == pytest.approx(200_000, abs=5_000)
    assert woke.text.startswith(("the talker woke 20", "the talker woke 19"))
    submitted = only(found(stream(LateWakes((4_000,), 200_000, submit=True))))
    assert "the talker submitted" in submitted.text and submitted.evidence["wake_ns"] < 5_000


def test_a_late_wake_that_a_gate_makes_up_for_is_no_late_packet() -> None:
    gates = SyntheticGates(1_000_000, 200_000, shift_ns=700_000)
    assert not found(stream(LateWakes((4_000,), 200_000), gates=gates)).episodes


def test_losses_in_a_row_are_a_burst_and_single_ones_are_not() -> None:
    anomalies = found(stream(Losses(0.001, ((4_000, 6),))))
    episode = only(anomalies)
    assert (episode.class_, episode.packets, episode.from_sequence) == ("loss_burst", 6, 4_000)
    assert episode.evidence["single_losses"] > 10
    assert episode.text == "loss burst of 6 ms: 6 packets in a row never arrived"
    assert np.flatnonzero(anomalies.class_of).tolist() == list(range(4_000, 4_006))


def test_where_losses_are_frequent_a_burst_has_to_be_longer() -> None:
    anomalies = found(stream(Losses(0.2, ((4_000, 12),))))
    assert only(anomalies).evidence["least"] > 6


def test_losses_until_the_end_are_told_to_be() -> None:
    assert only(found(stream(Losses(0.0, ((19_990, 10),))))).text.endswith("never arrived, the last of the stream")


def test_an_overtaken_packet_is_reordered_and_not_late() -> None:
    episode = only(found(stream(Reorders((4_000,), 3))))
    assert (episode.class_, episode.evidence["extent"]) == ("reorder", 3)
    assert episode.text == "1 packet overtaken by up to 3 packets"


def test_of_duplicates_there_is_a_count_and_no_packet() -> None:
    anomalies = found(stream(Duplicates(7)))
    episode = only(anomalies)
    assert (episode.class_, episode.packets) == ("duplicate", 7)
    assert not anomalies.class_of.any()
    assert "it was not recorded of which packets" in episode.text


def test_spikes_at_regular_intervals_tell_their_interval() -> None:
    by_count = only(found(stream(Periodic(300_000, every_packets=250))))
    assert (by_count.class_, by_count.packets, by_count.evidence["every_packets"]) == ("periodic", 80, 250)
    assert by_count.text.startswith("every 250 ms (250 packets) a packet was late in the path, by 30")
    by_time = only(found(stream(Periodic(300_000, every_ns=1_234_567_890, jitter_ns=3_000_000))))
    assert by_time.evidence["every_ns"] == pytest.approx(1_234_567_890, rel=0.001)
    assert by_time.evidence["every_packets"] is None


def test_late_packets_without_any_order_stay_unexplained() -> None:
    at = (1_003, 1_790, 3_500, 4_777, 9_001, 11_500, 12_345, 18_000)
    anomalies = found(stream(Spikes(at, 300_000)))
    assert np.flatnonzero(anomalies.class_of == CODE["unexplained"]).tolist() == list(at)
    assert anomalies.episodes[0].evidence["where"] == "path"
    assert "later than usual, in the path" in anomalies.episodes[0].text


def test_spikes_that_are_no_part_of_the_comb_are_left_out_of_it() -> None:
    anomalies = found(stream(Periodic(300_000, every_packets=500), Spikes((777, 4_321, 13_131), 300_000)))
    (comb,) = episodes(anomalies, "periodic")
    assert comb.packets == 40
    assert [one.from_sequence for one in episodes(anomalies, "unexplained")] == [777, 4_321, 13_131]


def test_stalls_at_regular_intervals_stay_stalls_and_learn_their_interval() -> None:
    anomalies = found(stream(PeriodicStalls(6_000_000, 3 * SECOND, SECOND)))
    stalls = episodes(anomalies, "stall")
    assert len(stalls) == 7 and all(one.evidence["every_ns"] == pytest.approx(3e9, rel=1e-3) for one in stalls)
    (comb,) = episodes(anomalies, "periodic")
    assert comb.packets == 0 and comb.evidence["of"] == {"stall": 7}
    assert comb.text.startswith("every 3 s (3000 packets) there was a stall in the path, of ")
