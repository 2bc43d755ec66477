"""The kernel's timestamps by BPF programs: of the same packets as the socket's, or the socket's instead."""

from __future__ import annotations

import json
import shutil
import signal
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from support.agent.bed import Bed
from support.agent.rounds import Pair, Trips, assert_legs_follow, assert_whole, trip
from support.agent.streams import MS, Measured, Measurement, Stream, measure, new_run_id, recording, talk_spec
from support.machine import run, until_it_is

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(
        not Path("/sys/kernel/btf/vmlinux").exists(),
        reason="this kernel has no BTF, so no BPF program takes timestamps",
    ),
]

UDP = Stream()
ETHERNET = Stream(raw=True)
TAGGED = Stream(vlan=5, pcp=6)
WAY = ["launch", "submit", "tx_sched", "tx_soft", "rx_soft", "rx_user"]
UNPRIVILEGED = ("setpriv", "--bounding-set", "-sys_admin,-bpf,-perfmon")
"""Without what BPF programs take; CAP_NET_ADMIN and CAP_NET_RAW stay."""
NO_BTF = ("unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /sys/kernel/btf && exec "$@"', "sh")
FAR_NS = 1_000_000


def by(source: str) -> dict[str, dict[str, Any]]:
    """The talker's and the listener's specs for timestamps from there."""
    stamps = {"sched": True, "software": True, "hardware": False, "key": "auto", "by": source}
    return {"talk": {"stamps": stamps}, "listen": {"stamps_by": source}}


def assert_stamped_once(measured: Measured, *streams: Stream) -> None:
    """Every packet has every timestamp, once and in order, and nothing else was stamped."""
    for stream, talked in zip(streams, measured.talked["streams"], strict=True):
        assert (talked["tx_sched"], talked["tx_soft"], talked["stray_stamps"]) == (stream.count, stream.count, 0)
    assert (measured.talked["ring_full"], measured.listened["ring_full"]) == (0, 0)
    for before, after in pairwise(WAY):
        took = measured.packets[f"{after}_tai_ns"] - measured.packets[f"{before}_tai_ns"]
        assert took.null_count() == 0, f"{before} to {after}"
        assert took.min() >= 0, f"{before} to {after}"  # type: ignore[operator]
    stamps = recording(measured.folder.path, "talker-sensor.stamps").table
    assert stamps.height == stamps.unique(["stream", "sequence", "kind"]).height == 2 * measured.packets.height


@pytest.mark.parametrize("stream", [UDP, ETHERNET, TAGGED], ids=["udp", "ethernet", "vlan"])
def test_every_packet_is_stamped_by_programs_at_every_stage(bed: Bed, tmp_path: Path, stream: Stream) -> None:
    measured = measure(bed, tmp_path, stream, **by("ebpf"))
    assert_stamped_once(measured, stream)
    talker, listener = (agent["ready"]["stamps_by"] for agent in measured.folder.cell().document()["agents"])
    assert (talker["tx_sched"], talker["tx_soft"], talker["rx_soft"]) == ("ebpf", "ebpf", None)
    assert (listener["tx_sched"], listener["tx_soft"], listener["rx_soft"]) == (None, None, "ebpf")
    assert talker["missing"] == listener["missing"] == []
    assert measured.talked["stages"] == measured.listened["stages"] == {"lost": 0}


def test_several_streams_of_one_agent_are_told_apart(bed: Bed, tmp_path: Path) -> None:
    streams = [Stream(number=1), Stream(number=2, period_ns=2 * MS, count=100), Stream(number=3, raw=True)]
    assert_stamped_once(measure(bed, tmp_path, *streams, **by("ebpf")), *streams)


def test_over_an_interface_that_stands_on_another_each_packet_is_stamped_once_and_last_at_the_lower(
    bed: Bed, tmp_path: Path
) -> None:
    for namespace, lower, address in (("sensor", "ecu", "10.79.0.1"), ("ecu", "sensor", "10.79.0.2")):
        run("ip", "-n", namespace, "link", "add", "name", "upper", "type", "bridge")
        run("ip", "-n", namespace, "link", "set", lower, "master", "upper")
        run("ip", "-n", namespace, "addr", "add", f"{address}/24", "dev", "upper")
        run("ip", "-n", namespace, "link", "set", "upper", "up")
    for namespace in ("sensor", "ecu"):
        until_it_is("upper", namespace=namespace)
    upper = Stream(source="10.79.0.1", target="10.79.0.2", sink="10.79.0.2", talks_by="upper", heard_by="upper")
    both = measure(bed, tmp_path, upper, **by("both"))
    assert_stamped_once(both, upper)
    assert_close(both)
    assert {one["n"] for done in (both.talked, both.listened) for one in done["stages"]["compared"]} == {upper.count}


def assert_close(both: Measured) -> None:
    """Programs and the socket stamp the same packets, in the order in which the kernel comes to them."""
    found = {one["stamp"]: one for done in (both.talked, both.listened) for one in done["stages"]["compared"]}
    assert set(found) == {"tx_sched", "tx_soft", "rx_soft"}
    for one in found.values():
        assert one["min_ns"] <= one["p1_ns"] <= one["p50_ns"] <= one["p99_ns"] <= one["max_ns"]
        assert abs(one["p50_ns"]) < FAR_NS
    # __dev_queue_xmit and the driver's transmit function: the socket's are taken first, and last.
    assert found["tx_sched"]["p50_ns"] >= 0
    assert found["tx_soft"]["p50_ns"] <= 0
    assert found["rx_soft"]["p50_ns"] >= 0


@pytest.mark.parametrize("stream", [UDP, ETHERNET], ids=["udp", "ethernet"])
def test_both_at_once_are_of_the_same_packets_and_close_together(bed: Bed, tmp_path: Path, stream: Stream) -> None:
    both = measure(bed, tmp_path, stream, **by("both"))
    assert_stamped_once(both, stream)
    assert_close(both)
    assert {one["n"] for done in (both.talked, both.listened) for one in done["stages"]["compared"]} == {stream.count}


@pytest.mark.parametrize(
    ("kind", "count"), [("udp", 200), ("udp", None), ("ethernet", 200)], ids=["open", "closed", "ethernet"]
)
def test_both_legs_of_round_trips_are_stamped_by_programs(
    bed: Bed, tmp_path: Path, kind: str, count: int | None
) -> None:
    stamps = by("ebpf")["talk"]
    tripped = trip(bed, tmp_path, Trips(kind=kind, count=count), ping=stamps, pong=stamps)
    for done, side in ((tripped.ping, "ping"), (tripped.pong, "pong")):
        sent = tripped.table(f"{side}.sent").height
        assert (done["tx_sched"], done["tx_soft"], done["stages"]["lost"]) == (sent, sent, 0)
        assert tripped.table(f"{side}.stamps").height == 2 * sent
        assert tripped.table(f"{side}.received")["rx_soft_real_ns"].null_count() == 0


@pytest.mark.parametrize(
    ("before", "why"),
    [(UNPRIVILEGED, "it takes root, or CAP_BPF and CAP_PERFMON"), (NO_BTF, "this kernel has no BTF")],
    ids=["unprivileged", "no-btf"],
)
def test_where_the_kernel_refuses_the_socket_takes_them_and_one_line_says_why(
    bed: Bed, tmp_path: Path, before: tuple[str, ...], why: str
) -> None:
    spec = talk_spec(new_run_id(), tmp_path, UDP, **by("auto")["talk"])
    agent = bed.agent("sensor", "talk", spec, before=before)
    found = agent.until("ready")["stamps_by"]
    assert (found["tx_sched"], found["tx_soft"], found["clock"]) == ("socket", "socket", None)
    (line,) = found["missing"]
    assert line.startswith(f"no tx_sched, tx_soft by eBPF: {why}")
    agent.begin()
    (talked,) = agent.until("done")["streams"]
    assert (talked["tx_sched"], talked["tx_soft"]) == (UDP.count, UDP.count)
    asked = talk_spec(new_run_id(), tmp_path, UDP, **by("ebpf")["talk"])
    refused = bed.agent("sensor", "talk", asked, before=before)
    assert refused.ended() == 1
    assert why in refused.events[-1]["what"]
    assert refused.events[-1]["event"] == "error"


def test_datagrams_that_come_in_fragments_are_stamped_by_the_socket_and_one_line_says_why(
    bed: Bed, tmp_path: Path
) -> None:
    large = Stream(size=4000)
    measured = measure(bed, tmp_path, large, **by("auto"))
    assert measured.packets["rx_soft_tai_ns"].null_count() == 0
    talker, listener = (agent["ready"]["stamps_by"] for agent in measured.folder.cell().document()["agents"])
    assert (talker["tx_soft"], listener["rx_soft"]) == ("ebpf", "socket")
    assert "comes in fragments" in listener["missing"][0]


@pytest.mark.parametrize(("size", "source"), [(15_000, "ebpf"), (17_000, "socket")])
def test_datagrams_that_the_kernel_keeps_in_pages_are_stamped_by_the_socket(
    bed: Bed, tmp_path: Path, size: int, source: str
) -> None:
    for here, there in (("sensor", "ecu"), ("ecu", "sensor")):
        run("ip", "-n", here, "link", "set", there, "mtu", "65535")
    measured = measure(bed, tmp_path, Stream(size=size), **by("auto"))
    talker = measured.folder.cell().document()["agents"][0]["ready"]["stamps_by"]
    assert (talker["tx_sched"], talker["tx_soft"]) == (source, source)
    assert all("not in one piece in memory" in line for line in talker["missing"])
    assert {measured.packets[f"{stage}_tai_ns"].null_count() for stage in ("tx_sched", "tx_soft")} == {0}


def test_what_the_ring_has_no_room_for_is_counted(bed: Bed, tmp_path: Path) -> None:
    stream = Stream(period_ns=50_000, count=6000)
    told = by("ebpf")
    measurement = Measurement(bed, tmp_path, [stream], told["talk"], told["listen"] | {"ring_records": 2048})
    measurement.listener.signal(signal.SIGSTOP)
    measurement.listener.wait_until_stopped()
    measurement.begin()
    measurement.all_sent()
    measurement.listener.signal(signal.SIGCONT)
    listened = measurement.end().listened
    assert listened["streams"][0]["received"] == stream.count
    assert 0 < listened["stages"]["lost"] <= listened["ring_full"]


@pytest.mark.skipif(shutil.which("bpftool") is None, reason="bpftool lists the programs")
def test_nothing_stays_in_the_kernel_after_the_agent_was_killed(bed: Bed, tmp_path: Path) -> None:
    before = programs()
    agent = bed.agent("sensor", "talk", talk_spec(new_run_id(), tmp_path, UDP, **by("ebpf")["talk"]))
    agent.until("ready")
    own = programs() - before
    assert len(own) >= 2
    agent.signal(signal.SIGKILL)
    agent.ended()
    deadline = time.monotonic() + 10
    while own & programs() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not own & programs()


def programs() -> set[int]:
    """The numbers of the programs that are in the kernel and take timestamps."""
    found = json.loads(run("bpftool", "--json", "prog", "show"))
    return {one["id"] for one in found if one.get("name", "").startswith("stage_")}


TCP = {"stamps": {"sched": True, "software": True, "hardware": False, "key": "auto", "by": "ebpf"}}


@pytest.mark.parametrize("size", [40, 64, 1448, 1449, 65507])
@pytest.mark.parametrize("loop", [{"count": 200}, {"count": None}], ids=["open", "closed"])
def test_messages_over_tcp_are_stamped_with_the_segment_that_has_their_last_byte(
    bed: Bed, tmp_path: Path, loop: dict[str, Any], size: int
) -> None:
    tripped = trip(bed, tmp_path, Trips(kind="tcp", size=size, **loop), ping=TCP, pong=TCP)
    assert [done.pop("stages") for done in (tripped.ping, tripped.pong)] == [{"lost": 0}] * 2
    assert_whole(tripped, stamped=True)
    assert_legs_follow(tripped, kernel=True)
    legs, clocks = tripped.legs(), tripped.table("ping.clocks")
    # Whole seconds: the instants of a row are read one after the other.
    offset = round((clocks["tai_ns"][0] - clocks["real_ns"][0]) / 1e9) * 10**9
    for side, submitted, arrived in (
        ("ping", "submit_tai_ns", "rx_soft_real_ns"),
        ("pong", "submit_tai_ns_down", "rx_soft_real_ns_back"),
    ):
        stamps = tripped.table(f"{side}.stamps").pivot("kind", index="sequence", values="stamp_ns").sort("sequence")
        sched, soft = stamps["0"], stamps["1"]
        assert (legs[submitted] <= sched + offset).all() and (sched <= soft).all() and (soft <= legs[arrived]).all()
    assert (legs["rx_soft_real_ns"] + offset <= legs["rx_user_tai_ns"]).all()
    assert (legs["rx_soft_real_ns_back"] + offset <= legs["rx_user_tai_ns_back"]).all()


def test_the_socket_has_no_timestamps_of_messages_over_tcp(bed: Bed, tmp_path: Path) -> None:
    asked = {"stamps": TCP["stamps"] | {"by": "socket"}}
    pair = Pair(bed, tmp_path, Trips(kind="tcp"), ping=asked, pong=asked)
    for agent in (pair.ping, pair.pong):
        found = agent.events[0]["stamps_by"]
        assert [found.get(stamp) for stamp in ("tx_sched", "tx_soft", "rx_soft")] == [None] * 3
        assert found["missing"] != []
    pair.begin()
    assert_whole(pair.end(), stamped=False)


def test_of_messages_over_tcp_programs_and_socket_cannot_be_compared(bed: Bed, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="are of bytes, not of messages"):
        Pair(bed, tmp_path, Trips(kind="tcp"), ping={"stamps": TCP["stamps"] | {"by": "both"}})
