"""Launch times that a kernel's qdisc keeps, refuses and misses: every packet is accounted for."""

from __future__ import annotations

import polars as pl
import pytest
from two_hosts import MS, Found, Hosts, Stream, launched

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
    found = hosts.measure(Stream(launch_time=launched(200 * MS, deadline=True)))
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
    [fq] = hosts.facts("sensor")["interfaces"]["eth0"]["qdiscs"]
    assert (fq["kind"], fq["horizon_drops"]) == ("fq", 10)
