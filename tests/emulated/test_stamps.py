"""Transmit timestamps on a kernel that takes no ids with packets (before Linux 6.13)."""

from __future__ import annotations

from itertools import pairwise

import polars as pl
import pytest

from support.emulated.hosts import Hosts, Stream, Transport, ethernet, udp


@pytest.mark.parametrize("transport", [udp(), ethernet(vlan=5, pcp=6)], ids=["udp", "ethernet"])
def test_stamps_find_their_packets_by_the_packet_itself(hosts: Hosts, transport: Transport) -> None:
    streams = [
        Stream(1, size=64, transport=transport),
        Stream(2, size=1400, period_ns=7_000_000, count=70, transport=transport),
    ]
    found = hosts.measure(*streams)
    assert found.ready["stamp_key"] == "payload"
    counters = (
        "sent",
        "tx_sched",
        "tx_soft",
        "received",
        "stray_stamps",
        "send_errors",
        "repeated",
        "reordered",
    )
    assert {counter: found.total(counter) for counter in counters} == {
        **dict.fromkeys(("sent", "tx_sched", "tx_soft", "received"), 120),
        **dict.fromkeys(("stray_stamps", "send_errors", "repeated", "reordered"), 0),
    }
    order = [
        "wake_tai_ns",
        "submit_tai_ns",
        "tx_sched_tai_ns",
        "tx_soft_tai_ns",
        "rx_soft_tai_ns",
        "rx_user_tai_ns",
    ]
    for before, after in pairwise(order):
        wrong = found.packets.filter((pl.col(before) <= pl.col(after)).fill_null(False).not_())
        assert wrong.is_empty(), f"{before} is not before {after}: {wrong}"


def test_ids_are_refused_with_what_to_ask_instead(hosts: Hosts) -> None:
    with hosts.agent("sensor", "talk", hosts.talk_spec(Stream(), key="id")) as talk:
        error = talk.hear("error")
    assert (error["where"], error["errno"]) == ("stamps.key", None)
    assert "SCM_TS_OPT_ID" in error["what"]
    assert "auto or payload" in error["remedy"]
