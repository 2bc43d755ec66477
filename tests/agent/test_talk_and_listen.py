"""A talker and a listener: every packet sent, received and stamped at every point, in the order of its way."""

from __future__ import annotations

import errno
import os
import signal
import struct
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from support.agent.bed import PACKET_AUXDATA, SOL_PACKET, Bed, reject
from support.agent.process import tai_ns
from support.agent.streams import ETHERTYPE, MS, Measured, Measurement, Stream, measure, new_run_id, talk_spec
from support.machine import run

pytestmark = pytest.mark.real

TP_STATUS_VLAN_VALID = 1 << 4
TP_STATUS_VLAN_TPID_VALID = 1 << 6

UDP = Stream()
ETHERNET = Stream(vlan=5, pcp=6, priority=6)
MODES: dict[str, dict[str, Any]] = {
    "block": {"mode": "block"},
    "spin": {"mode": "spin"},
    "busy-poll": {"mode": "busy-poll", "busy_poll_us": 50},
}
KERNEL = tuple(int(part) for part in os.uname().release.split(".")[:2])
KEYS = [
    "payload",
    pytest.param("id", marks=pytest.mark.skipif(KERNEL < (6, 13), reason="SCM_TS_OPT_ID came with Linux 6.13")),
]
WAY = ["launch", "submit", "tx_sched", "tx_soft", "rx_soft", "rx_user"]


def stamps(key: str) -> dict[str, Any]:
    return {"stamps": {"sched": True, "software": True, "hardware": False, "key": key}}


def assert_whole(measured: Measured, *streams: Stream) -> None:
    """Every packet of every stream was sent once and received once, with all its timestamps, and nothing else was."""
    total = sum(stream.count for stream in streams)
    for stream, talked, listened in zip(streams, measured.talked["streams"], measured.listened["streams"], strict=True):
        every = stream.count
        stamped = {"tx_sched": every, "tx_soft": every, "tx_hard": 0, "stray_stamps": 0}
        launched = dict.fromkeys(("launch_invalid", "launch_missed", "launch_late", "launch_moved", "unsent_late"), 0)
        launched["rejected"] = 0
        assert talked == {"stream": stream.number, "sent": every, "send_errors": 0, **stamped, **launched}
        counted = {"received": every, "repeated": 0, "reordered": 0, "out_of_range": 0, "untagged": 0}
        assert listened == {"stream": stream.number, **counted}
        assert measured.stream(stream.number)["arrival"].to_list() == list(range(every))
    refused = ("foreign", "truncated", "other_run", "unknown_stream", "socket_drops", "ring_full")
    assert {name: measured.listened[name] for name in refused} == dict.fromkeys(refused, 0)
    assert measured.talked["ring_full"] == 0
    assert measured.talked["cpu_ns"] > 0 and measured.talked["wakeups"] > 0
    assert measured.packets.height == total


def assert_in_order(packets: pl.DataFrame, way: list[str] = WAY) -> None:
    """No packet was at a place of its way before it was at the place before."""
    for before, after in pairwise(way):
        took = packets[f"{after}_tai_ns"] - packets[f"{before}_tai_ns"]
        assert took.null_count() == 0, f"{before} to {after}"
        assert took.min() >= 0, f"{before} to {after}"  # type: ignore[operator]
    assert (packets["wake_tai_ns"] >= packets["wake_due_tai_ns"]).all()


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("stream", [UDP, ETHERNET], ids=["udp", "ethernet"])
def test_every_packet_is_stamped_at_every_point_of_its_way(bed: Bed, tmp_path: Path, stream: Stream, key: str) -> None:
    measured = measure(bed, tmp_path, stream, talk=stamps(key))
    assert_whole(measured, stream)
    assert_in_order(measured.packets)
    assert measured.folder.cell().document()["agents"][0]["ready"]["stamp_key"] == key


@pytest.mark.parametrize("mode", ["spin", "busy-poll"])
@pytest.mark.parametrize("stream", [UDP, ETHERNET], ids=["udp", "ethernet"])
def test_however_the_listener_waits_it_receives_every_packet(
    bed: Bed, tmp_path: Path, stream: Stream, mode: str
) -> None:
    measured = measure(bed, tmp_path, stream, listen=MODES[mode])
    assert_whole(measured, stream)
    assert_in_order(measured.packets)


@pytest.mark.parametrize("mode", MODES)
def test_streams_that_differ_in_everything_share_a_talker_and_a_listener(bed: Bed, tmp_path: Path, mode: str) -> None:
    streams = (
        Stream(1, period_ns=1 * MS, count=300, size=64, priority=6),
        Stream(2, period_ns=3 * MS, count=100, size=1400, offset_ns=250_000),
        Stream(3, period_ns=2 * MS, count=150, size=200, priority=7, vlan=5, pcp=7),
        Stream(4, period_ns=5 * MS, count=60, size=40, offset_ns=2 * MS, priority=2, vlan=9, pcp=0),
        Stream(5, period_ns=4 * MS, count=75, size=100, raw=True),
    )
    measured = measure(bed, tmp_path, *streams, listen=MODES[mode])
    assert_whole(measured, *streams)
    # In a VLAN or in none, frames of one EtherType reach the socket of their own stream only.
    assert {measured.listened[kind] for kind in ("foreign", "truncated", "other_run", "unknown_stream")} == {0}
    assert_in_order(measured.packets)
    for stream in streams:
        launch = measured.stream(stream.number)["launch_tai_ns"]
        assert (launch.diff().drop_nulls() == stream.period_ns).all()


@pytest.mark.parametrize("firewall", [False, True], ids=["closed port", "firewall"])
def test_packets_that_are_rejected_are_sent_and_the_answers_of_their_host_are_counted(
    bed: Bed, tmp_path: Path, firewall: bool
) -> None:
    if firewall:
        reject("ecu")
    talker = bed.agent("sensor", "talk", talk_spec(new_run_id(), tmp_path, UDP))
    talker.until("ready")
    talker.begin()
    assert talker.ended() == 0
    (talked,) = talker.events[-1]["streams"]
    assert (talked["sent"], talked["send_errors"]) == (UDP.count, 0)
    assert 0 < talked["rejected"] < UDP.count
    assert talked["rejected_errno"] == (errno.EHOSTUNREACH if firewall else errno.ECONNREFUSED)


def test_packets_that_no_interface_takes_are_not_sent_and_not_taken_for_rejected(bed: Bed, tmp_path: Path) -> None:
    talker = bed.agent("sensor", "talk", talk_spec(new_run_id(), tmp_path, UDP))
    talker.until("ready")
    run("ip", "-n", "sensor", "link", "set", "ecu", "down")
    talker.begin()
    assert talker.ended() == 0
    (talked,) = talker.events[-1]["streams"]
    assert (talked["sent"], talked["send_errors"], talked["rejected"]) == (0, UDP.count, 0)


def test_a_busy_wait_wakes_early_and_still_sends_nothing_before_its_launch(bed: Bed, tmp_path: Path) -> None:
    measured = measure(bed, tmp_path, UDP, talk={"busy_wait_ns": 200_000})
    assert_whole(measured, UDP)
    assert_in_order(measured.packets)
    planned = measured.packets["launch_tai_ns"] - measured.packets["wake_due_tai_ns"]
    assert planned.unique().to_list() == [200_000]


def test_the_vlan_tag_and_its_priority_are_in_every_frame_on_the_wire(bed: Bed, tmp_path: Path) -> None:
    tap = bed.tap("ecu", "sensor")
    measured = measure(bed, tmp_path, ETHERNET)
    tags = set()
    for _ in range(ETHERNET.count):
        frame, beside, _, _ = tap.recvmsg(2048, 256)
        assert int.from_bytes(frame[12:14], "big") == ETHERTYPE
        assert (frame[14:18], len(frame)) == (b"LATL", 14 + ETHERNET.size)
        ((_, _, said),) = [entry for entry in beside if entry[:2] == (SOL_PACKET, PACKET_AUXDATA)]
        status, _, _, _, _, tci, tpid = struct.unpack("IIIHHHH", said)
        assert status & TP_STATUS_VLAN_VALID and status & TP_STATUS_VLAN_TPID_VALID
        tags.add((tpid, tci >> 13, tci & 0xFFF))
    assert tags == {(0x8100, 6, 5)}
    tap.setblocking(False)
    with pytest.raises(BlockingIOError):
        tap.recv(2048)
    assert_whole(measured, ETHERNET)


def test_a_talker_held_up_sends_every_packet_that_came_due_and_counts_from_its_launch(bed: Bed, tmp_path: Path) -> None:
    stream = Stream(count=700)
    measurement = Measurement(bed, tmp_path, [stream])
    measurement.begin()
    while tai_ns() < measurement.start_tai_ns + 100 * MS:
        time.sleep(0.005)
    measurement.talker.signal(signal.SIGSTOP)
    measurement.talker.wait_until_stopped()
    stopped = tai_ns()
    time.sleep(0.3)
    released = tai_ns()
    measurement.talker.signal(signal.SIGCONT)
    measured = measurement.end()

    assert_whole(measured, stream)
    assert_in_order(measured.packets)
    held = measured.packets.filter(pl.col("launch_tai_ns").is_between(stopped, released))
    assert held.height in (299, 300, 301) or released - stopped > 301 * MS
    assert (held["submit_tai_ns"] >= released).all()
    latency = (held["rx_soft_tai_ns"] - held["launch_tai_ns"]).to_numpy()
    assert (latency >= released - held["launch_tai_ns"].to_numpy()).all()
    # All left at once, so each one's latency is a period less than that of the one before: slope −1 against the launch.
    assert (np.diff(latency) >= -stream.period_ns).all()
    slope = np.polyfit((held["launch_tai_ns"] - stopped).to_numpy(), latency, 1)[0]
    assert -1.0 <= slope < -0.9
    assert held["wake_tai_ns"].n_unique() == 1
