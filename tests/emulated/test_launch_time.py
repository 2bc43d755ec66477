"""Launch times that a kernel's qdisc keeps, refuses and misses: every packet is accounted for."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import polars as pl
import pytest

from latlab.analysis.counts import silent_drops
from latlab.result.types import Silent
from support.emulated.hosts import MS, Found, Hosts, Stream, launched
from support.emulated.machine import AGENT, Machine

INVALID, MISSED = 3, 4
"""Kinds of rows in the stamps recording."""

DELTA_NS = 20 * MS
ETF = f"qdisc replace dev eth0 root etf clockid CLOCK_TAI delta {DELTA_NS}"


def assert_all_accounted_for(found: Found) -> None:
    """Each packet arrived or is said by the kernel to be dropped; the counts, the recording and the table agree."""
    invalid, missed = found.total("launch_invalid"), found.total("launch_missed")
    assert found.total("received") + invalid + missed == found.total("sent") == found.packets.height
    assert dict(found.stamps["kind"].value_counts().rows()) == {
        kind: count
        for kind, count in {
            0: found.total("tx_sched"),
            1: found.total("tx_soft"),
            INVALID: invalid,
            MISSED: missed,
        }.items()
        if count
    }
    assert found.total("stray_stamps") == 0
    assert silent_drops(found.packets) is None
    assert found.arrived["launch_error"].to_list() == [0] * found.total("received")
    assert found.lost["launch_error"].sort().to_list() == [1] * invalid + [2] * missed


@pytest.mark.parametrize("batch", [1, 4])
def test_no_packet_leaves_before_its_launch_time_less_the_qdiscs_delta(hosts: Hosts, batch: int) -> None:
    hosts.tc("sensor", ETF)
    found = hosts.measure(Stream(batch=batch, launch_time=launched(200 * MS)))
    assert_all_accounted_for(found)
    arrived = found.arrived
    assert arrived.height > 0
    early = arrived.filter(pl.col("rx_soft_tai_ns") < pl.col("launch_tai_ns") - DELTA_NS)
    assert early.is_empty(), early
    assert arrived.filter(pl.col("submit_tai_ns") < pl.col("launch_tai_ns") - DELTA_NS).height > 0
    hand_ins = found.packets["wake_due_tai_ns"].n_unique()
    assert hand_ins == -(-found.packets.height // batch)


def test_packets_handed_in_out_of_order_leave_in_the_order_of_their_launch_times(hosts: Hosts) -> None:
    hosts.tc("sensor", ETF)
    far = Stream(1, launch_time=launched(300 * MS))
    near = Stream(2, offset_ns=5 * MS, launch_time=launched(150 * MS))
    found = hosts.measure(far, near)
    assert_all_accounted_for(found)
    arrived = found.arrived
    assert set(arrived["stream"]) == {1, 2}
    launches = pl.col("launch_tai_ns")
    assert not arrived.sort("submit_tai_ns").select(launches.is_sorted()).item()
    assert arrived.sort("rx_soft_tai_ns")["launch_tai_ns"].is_sorted()


def test_a_launch_time_that_has_passed_is_an_invalid_one_and_the_packet_is_lost(hosts: Hosts) -> None:
    hosts.tc("sensor", ETF)
    found = hosts.measure(Stream(count=100, launch_time=launched(100 * MS)), start_after_ns=-250 * MS)
    assert_all_accounted_for(found)
    assert found.total("launch_invalid") >= 25
    assert found.arrived.height > 0
    passed = found.packets.filter(pl.col("launch_tai_ns") < pl.col("submit_tai_ns"))
    assert passed.height >= 25
    assert set(passed["launch_error"]) == {1}
    invalid = found.stamps.filter(pl.col("kind") == INVALID)
    refused = found.packets.filter(pl.col("launch_error") == 1)
    assert sorted(invalid["stamp_ns"]) == refused["launch_tai_ns"].to_list()
    assert refused["tx_soft_tai_ns"].null_count() == refused.height


def test_a_qdisc_without_any_time_to_spare_misses_every_launch(hosts: Hosts) -> None:
    hosts.tc("sensor", "qdisc replace dev eth0 root etf clockid CLOCK_TAI delta 0")
    found = hosts.measure(Stream(launch_time=launched(200 * MS)))
    assert_all_accounted_for(found)
    assert found.total("launch_missed") > 0
    missed = found.stamps.filter(pl.col("kind") == MISSED)
    lost = found.packets.filter(pl.col("launch_error") == 2)
    assert sorted(missed["stamp_ns"]) == lost["launch_tai_ns"].to_list()


def test_a_deadline_lets_packets_leave_at_once(hosts: Hosts) -> None:
    hosts.tc("sensor", f"{ETF} deadline_mode")
    # On a busy machine the emulated one may wait for a CPU for a fifth of a second.
    found = hosts.measure(Stream(launch_time=launched(1_000 * MS, deadline=True)))
    assert_all_accounted_for(found)
    assert found.arrived.filter(pl.col("rx_soft_tai_ns") < pl.col("launch_tai_ns") - DELTA_NS).height > 0


def test_a_deadline_that_the_qdisc_does_not_expect_is_an_invalid_launch_time(hosts: Hosts) -> None:
    hosts.tc("sensor", ETF)
    found = hosts.measure(Stream(launch_time=launched(200 * MS, deadline=True)))
    assert_all_accounted_for(found)
    assert found.total("launch_invalid") == found.total("sent") == 50


def test_what_fq_drops_beyond_its_horizon_is_lost_without_a_word(hosts: Hosts) -> None:
    hosts.tc("sensor", "qdisc replace dev eth0 root fq")
    found = hosts.measure(Stream(count=10, launch_time=launched(200 * MS)))
    assert (found.total("sent"), found.total("received"), found.lost.height) == (10, 0, 10)
    assert set(found.lost["launch_error"]) == {0}
    assert silent_drops(found.packets) == Silent(count=10, first_sequence=0, last_sequence=9)
    [fq] = hosts.facts("sensor")["interfaces"]["eth0"]["qdiscs"]
    assert (fq["kind"], fq["horizon_drops"]) == ("fq", 10)


LATE, MOVED, DROPPED = 1, 2, 3
"""What `late` of the packet table says."""


def late_ones(found: Found, kind: int) -> pl.DataFrame:
    """The packets that were so late."""
    return found.packets.filter(pl.col("late") == kind)


def assert_launches_are_scheduled(found: Found) -> None:
    """The packets say themselves when they were meant to leave, as sent and as received."""
    for name in ("talker-sensor.sent", "listener-ecu.received"):
        assert found.findings[name].rows > 0
        assert found.findings[name].launch_mismatched == 0


def test_packets_late_at_hand_over_are_reported_where_they_are_left_to_the_qdisc(hosts: Hosts) -> None:
    hosts.tc("sensor", ETF)
    found = hosts.measure(Stream(count=100, launch_time=launched(150 * MS)), start_after_ns=-250 * MS)
    assert_all_accounted_for(found)
    late = late_ones(found, LATE)
    assert late.height == found.total("launch_late") >= 25
    assert set(late["launch_error"]) == {1}
    assert (late["submit_tai_ns"] > late["launch_tai_ns"]).all()


def test_packets_late_at_hand_over_are_not_handed_over_where_they_are_to_be_dropped(hosts: Hosts) -> None:
    hosts.tc("sensor", ETF)
    found = hosts.measure(Stream(count=100, launch_time=launched(150 * MS, late="drop")), start_after_ns=-250 * MS)
    dropped = late_ones(found, DROPPED)
    assert dropped.height == found.total("unsent_late")
    assert dropped["sequence"].to_list()[:25] == list(range(25))
    assert found.total("sent") + dropped.height == found.packets.height
    assert dropped["send_error"].null_count() == dropped["submit_tai_ns"].null_count() == dropped.height
    assert dropped["wake_tai_ns"].null_count() == 0
    assert (found.packets["submit_tai_ns"] <= found.packets["launch_tai_ns"]).all()
    assert found.total("tx_sched") == found.total("sent")
    assert found.arrived.height > 0
    assert_launches_are_scheduled(found)


def test_packets_late_at_hand_over_are_sent_as_long_as_they_are_not_later_than_allowed(hosts: Hosts) -> None:
    hosts.tc("sensor", ETF)
    allowed_ns, margin_ns = 200 * MS, 250 * MS
    policy: dict[str, Any] = {"late": "send", "allowed_lateness_ns": allowed_ns, "margin_ns": margin_ns}
    found = hosts.measure(Stream(count=100, launch_time=launched(300 * MS, **policy)), start_after_ns=-300 * MS)
    dropped, moved = late_ones(found, DROPPED), late_ones(found, MOVED)
    assert dropped.height == found.total("unsent_late") >= 10
    assert moved.height == found.total("launch_moved") >= 20
    assert dropped.height + found.total("sent") == found.packets.height
    lateness = moved["submit_tai_ns"] - moved["launch_tai_ns"]
    assert lateness.is_between(-margin_ns, allowed_ns).all()
    # The qdisc took every launch time, and kept the later one.
    assert (found.total("launch_invalid"), found.total("launch_late")) == (0, 0)
    came = moved.filter(pl.col("arrival").is_not_null())
    assert came.height > 0
    assert (came["rx_soft_tai_ns"] >= came["submit_tai_ns"] + margin_ns - DELTA_NS).all()
    assert_launches_are_scheduled(found)


def test_fq_keeps_launch_times_in_its_own_clock_unless_a_packet_is_of_priority_7(hosts: Hosts) -> None:
    hosts.tc("sensor", "qdisc replace dev eth0 root fq")
    launch = launched(200 * MS, clock="monotonic")
    found = hosts.measure(Stream(1, priority=6, launch_time=launch), Stream(2, priority=7, launch_time=launch))
    assert found.arrived.height == found.total("sent") == 100
    kept, at_once = (found.packets.filter(pl.col("stream") == number) for number in (1, 2))
    assert (kept["tx_soft_tai_ns"] >= kept["launch_tai_ns"] - READING_NS).all()
    for one in (kept, at_once):
        assert (one["submit_tai_ns"] < one["launch_tai_ns"] - 100 * MS).any()
    assert (at_once["tx_soft_tai_ns"] < at_once["launch_tai_ns"] - 50 * MS).any()
    assert_launches_are_scheduled(found)


def test_fq_drops_without_a_word_what_is_beyond_its_horizon_in_its_own_clock(hosts: Hosts) -> None:
    hosts.tc("sensor", "qdisc replace dev eth0 root fq horizon 300ms horizon_drop")
    near = Stream(1, count=10, launch_time=launched(150 * MS, clock="monotonic"))
    far = Stream(2, count=10, launch_time=launched(600 * MS, clock="monotonic"))
    found = hosts.measure(near, far, start_after_ns=1000 * MS)
    silent = {number: silent_drops(found.packets.filter(pl.col("stream") == number)) for number in (1, 2)}
    assert silent == {1: None, 2: Silent(count=10, first_sequence=0, last_sequence=9)}
    assert set(found.arrived["stream"]) == {1}
    [fq] = hosts.facts("sensor")["interfaces"]["eth0"]["qdiscs"]
    assert fq["horizon_drops"] == 10


@pytest.mark.parametrize("clock", ["monotonic", "realtime"])
def test_an_etf_refuses_every_launch_time_in_another_clock_than_its_own(
    hosts: Hosts, tai_ahead: int, clock: str
) -> None:
    hosts.tc("sensor", ETF)
    found = hosts.measure(Stream(count=20, launch_time=launched(200 * MS, clock=clock)))
    assert_all_accounted_for(found)
    assert found.total("launch_invalid") == found.total("sent") == 20
    asked = found.stamps.filter(pl.col("kind") == INVALID).sort("sequence")["stamp_ns"]
    wrong_ns = found.packets["launch_tai_ns"] - asked - ahead_ns(found, tai_ahead, clock)
    assert max(wrong_ns.abs()) <= (0 if clock == "realtime" else READING_NS)


READING_NS = 200_000
"""How long an emulated machine takes to read two clocks, at most: so sharp is the difference between them."""


def ahead_ns(found: Found, tai_ahead: int, clock: str) -> int:
    """By how much the talker's CLOCK_TAI was ahead of a clock."""
    if clock == "realtime":
        return tai_ahead * 10**9
    sharpest = found.clocks.sort("bracket_ns").row(0, named=True)
    return int(sharpest["tai_ns"] - sharpest["monotonic_ns"])


@pytest.fixture
def tai_ahead(machine: Machine) -> Iterator[int]:
    """TAI − UTC of the machine, s, while the test runs; then 0 again, as it booted."""
    told = json.loads(machine.run(AGENT, "tai", "--set", "37"))
    yield told["tai_offset_s"]
    machine.run(AGENT, "tai", "--set", "0")


def test_the_tai_offset_is_what_it_is_set_to_and_moves_tai_by_it(machine: Machine, tai_ahead: int) -> None:
    assert tai_ahead == 37
    told = json.loads(machine.run(AGENT, "tai"))
    assert told["tai_offset_s"] == 37
    assert 0 <= told["real_ns"] + 37 * 10**9 - told["tai_ns"] < 10**9
    machine.run(AGENT, "tai", "--set", "0")
    told = json.loads(machine.run(AGENT, "tai"))
    assert told["tai_offset_s"] == 0
    assert 0 <= told["real_ns"] - told["tai_ns"] < 10**9
