"""Gates, launch times and credit, by the real kernel's qdiscs: what they promise is what is measured."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from support.boards.place import BoardPlace, Window, assert_left_within, received
from support.command import cells_of, read

HOSTS: dict[str, Any] = {
    "board1": {"kind": "board", "time": "virtual"},
    "sensor": {"kind": "netns", "on": "board1"},
    "ecu": {"kind": "netns", "on": "board1"},
}
LINKS = [{"ends": ["sensor.eth0", "ecu.eth0"], "queues": 4}]
STREAM = {"talker": "sensor", "listener": "ecu", "period": "1ms", "size": "64B"}
GATES = [((0, 1), 101_000), ((1,), 103_000), ((1, 2), 109_000), ((1, 3), 190_000)]
CYCLE_NS = 503_000
TAPRIO = {
    "kind": "taprio",
    "mode": "software",
    "map": {7: 0, 5: 1, 4: 2},
    "rest": 3,
    "gates": [{"open": list(classes), "for": f"{length}ns"} for classes, length in GATES],
}
PRIORITIES = {0: 7, 1: 5, 2: 4, 3: 0}
"""Of a stream of each class."""
GUARD_NS = 95
"""Of 118 bytes, preamble and checksum among them, at 10 Gbit/s."""
FRAME_BITS = (64 + 8 + 20 + 14) * 8
"""What the kernel counts of a 64-byte probe: UDP, IPv4 and Ethernet headers."""


def all_packets_of(folder: Path, slug: str) -> pl.DataFrame:
    """The packets of a cell, in their order."""
    (path,) = folder.glob(f"cells/{slug}/packets.parquet")
    return pl.read_parquet(path).sort("stream", "sequence")


def packets_of(folder: Path, slug: str) -> pl.DataFrame:
    """The packets of a cell after its warm-up, in their order."""
    return all_packets_of(folder, slug).filter(~pl.col("warmup"))


def windows(traffic_class: int) -> list[Window]:
    """When the gate of a class opens and closes within the cycle, ns; neighbours joined."""
    found: list[Window] = []
    begin = 0
    for classes, length in GATES:
        if traffic_class in classes:
            if found and found[-1][1] == begin:
                found[-1] = (found[-1][0], begin + length)
            else:
                found.append((begin, begin + length))
        begin += length
    return found


def missed_slots(packets: pl.DataFrame, opened: list[Window]) -> int:
    """How many packets left in a later window than the first with room for them after their launch."""
    missed = 0
    for launch, left in packets.select("launch_tai_ns", "tx_soft_tai_ns").iter_rows():
        begin = launch // CYCLE_NS * CYCLE_NS
        later = [
            (begin + n * CYCLE_NS + opens, begin + n * CYCLE_NS + closes) for n in range(4) for opens, closes in opened
        ]
        own = next(number for number, (_, closes) in enumerate(later) if launch + GUARD_NS <= closes)
        missed += left >= later[own + 1][0]
    return missed


def longest_wait_ns(traffic_class: int) -> int:
    """From the close of the class's one window to its next opening: launches are at each microsecond, and just before
    the close there is less than one without room for a packet."""
    ((opens, closes),) = windows(traffic_class)
    return CYCLE_NS - (closes - opens)


def test_each_class_leaves_in_its_windows_only(place: BoardPlace) -> None:
    before = place.trace()
    # 1013 µs go through all phases of the cycle, which is 503 µs.
    streams = {
        f"class{number}": STREAM | {"period": "1013us", "priority": priority, "offset": f"{150 * number}us"}
        for number, priority in PRIORITIES.items()
    }
    path = place.board_scenario(
        hosts=HOSTS, links=LINKS, streams=streams, shapers={"sensor.eth0": TAPRIO}, warmup="50ms"
    )
    ended = place.latlab("run", path, "--picture", "none")
    assert ended.status == 0, ended.err + ended.out
    assert place.trace() == before
    folder = place.only_run()
    (cell,) = cells_of(folder).values()
    assert received(cell) == [-(-(10**9 - 150_000 * number) // 1_013_000) for number in PRIORITIES]
    assert cell["start_tai_ns"] % CYCLE_NS == 0
    steps = {step["title"]: step for step in cell["steps"]}
    assert steps["taprio shapes sensor.eth0"]["ok"] and steps["the gates of sensor.eth0 are in force"]["ok"]
    assert steps["set board1's TAI offset"]["actual"] == "37 s"
    assert [one["ok"] for one in cell["rechecks"] if "taprio" in one["title"]] == [True]
    everything = all_packets_of(folder, "all/r1")
    assert everything["warmup"].any()
    packets = everything.filter(~pl.col("warmup"))
    (judged,) = read(folder / "result.json")["cells"]
    for number in PRIORITIES:
        gates = judged["streams"][f"class{number}"]["gates"]
        if number == 1:  # its gate never closes
            assert gates["missed"] == gates["promised"]["latest_ns"] == 0
        else:
            # Launches just before the gate closes reach it too late.
            missed = missed_slots(packets.filter(pl.col("stream") == number + 1), windows(number))
            assert gates["missed"] == missed > 0
            assert gates["promised"]["latest_ns"] == longest_wait_ns(number)
        mine = everything.filter(pl.col("stream") == number + 1)
        assert_left_within(windows(number), mine["tx_soft_tai_ns"].to_numpy(), CYCLE_NS)
        # They came at every phase of the cycle, so those that came to a closed gate have waited.
        launched = np.unique(
            packets.filter(pl.col("stream") == number + 1)["launch_tai_ns"].to_numpy() % CYCLE_NS // 50_300
        )
        assert len(launched) == 10


def test_launch_times_are_kept_where_sleeping_is_not_and_credit_spaces_frames(place: BoardPlace) -> None:
    shaper = {
        "kind": "mqprio",
        "map": {7: 0, 6: 1},
        "rest": 2,
        "children": {0: {"kind": "etf", "delta": "200us"}, 1: {"kind": "cbs", "idle_slope": "1Mbit/s"}},
    }
    ordinary = {"fifo": None, "timer_slack": None}
    matrix = {
        "streams": [
            {"sleeping": STREAM | {"priority": 5}},
            {"launched": STREAM | {"priority": 7, "launch_time": {"lead": "5ms"}}},
            {"spaced": STREAM | {"priority": 6, "period": "700us"}},
        ]
    }
    path = place.board_scenario(
        hosts=HOSTS,
        links=LINKS,
        streams={"sleeping": STREAM},
        shapers={"sensor.eth0": shaper},
        tuning={"sensor": {"talker": ordinary}},
        matrix=matrix,
        warmup="50ms",
    )
    ended = place.latlab("run", path, "--picture", "none")
    assert ended.status == 0, ended.err + ended.out
    folder = place.only_run()
    left, came = dict[str, float](), dict[str, float]()
    for cell in read(folder / "result.json")["cells"]:
        ((name, stream),) = cell["streams"].items()
        left[name], came[name] = (stream["metrics"][of]["stddev"] for of in ("lateness", "arrival_offset"))
    # A launch time says when a packet leaves. By the board's ticks the receiver's kernel takes it in some microseconds
    # sooner or later.
    assert left["launched"] < 1_000 < 2_000 < left["sleeping"]
    assert came["launched"] < came["sleeping"] / 4
    launched = packets_of(folder, "streams=launched/r1")
    early = (launched["tx_soft_tai_ns"] - launched["launch_tai_ns"]).to_numpy()
    # A software etf hands the packet over from its delta before the launch on.
    assert early.min() >= -200_000 and np.median(early) < -150_000
    arrivals = packets_of(folder, "streams=spaced/r1")["rx_soft_tai_ns"].to_numpy()
    theory_ns = FRAME_BITS * 10**9 / 10**6
    # Frames come faster than the slope allows: they leave as the credit is earned.
    assert np.median(np.diff(arrivals)) == pytest.approx(theory_ns, rel=0.01)
    assert np.mean(np.diff(arrivals)) == pytest.approx(theory_ns, rel=0.01)


def test_a_stream_in_its_own_window_keeps_its_latency_under_a_flood(place: BoardPlace) -> None:
    # The board's one CPU moves every packet: what passes in 5 µs of a cycle it has dealt with before the next begins.
    gates = [{"open": [0], "for": "300us"}, {"open": [1], "for": "5us"}, {"open": [], "for": "695us"}]
    gated = {"sensor.eth0": {"kind": "taprio", "mode": "software", "map": {7: 0}, "rest": 1, "gates": gates}}
    path = place.board_scenario(
        hosts=HOSTS,
        links=LINKS,
        streams={"control": STREAM | {"priority": 7, "offset": "50us"}},
        loads={"bulk": {"kind": "flood", "from": "sensor", "to": "ecu", "size": "1000B", "rate": "80Mbit/s"}},
        matrix={"shapers": [{}, gated], "loads": ["none", "bulk"]},
        duration="2s",
        warmup="50ms",
    )
    ended = place.latlab("run", path, "--picture", "none")
    assert ended.status == 0, ended.err + ended.out
    folder = place.only_run()
    tail = {}
    for slug, cell in cells_of(folder).items():
        found = packets_of(folder, slug)
        latency = np.sort((found["rx_soft_tai_ns"] - found["launch_tai_ns"]).to_numpy())
        shaped = any("taprio" in step["title"] for step in cell["steps"])
        tail[shaped, bool(cell["loads"])] = int(latency[int(np.ceil(len(latency) * 0.999)) - 1])
    assert len(tail) == 4
    assert abs(tail[True, True] - tail[True, False]) <= 1_000, tail
    assert tail[False, True] - tail[False, False] > 1_000, tail


CARDS: dict[str, Any] = {
    "board1": {"kind": "board", "nics": 2, "cpus": 2},
    "sensor": {"kind": "netns", "on": "board1", "cards": ["eth0"]},
    "ecu": {"kind": "netns", "on": "board1", "cards": ["eth1"]},
}


@pytest.mark.long
def test_what_a_card_refuses_is_reported_with_the_kernels_answer_and_what_would_work(place: BoardPlace) -> None:
    offloaded = {
        "kind": "taprio",
        "mode": "offload",
        "map": {7: 0},
        "rest": 1,
        "gates": [{"open": [0, 1], "for": "1ms"}],
    }
    path = place.board_scenario(
        hosts=CARDS,
        links=[{"ends": ["sensor.eth0", "ecu.eth1"], "queues": 2}],
        streams={"control": STREAM | {"period": "5ms"}},
        shapers={"sensor.eth0": offloaded},
        matrix={
            "shapers.sensor.eth0": [
                offloaded,
                {"kind": "mqprio", "map": {7: 0}, "rest": 1, "children": {0: {"kind": "etf", "offload": True}}},
                offloaded | {"mode": "txtime-assist", "delta": "100ms"},
            ]
        },
    )
    ended = place.latlab("run", path, "--picture", "none")
    assert ended.status == 3, ended.err + ended.out
    cells = cells_of(place.only_run())
    why = {slug: json.dumps(cell.get("reason"), ensure_ascii=False) for slug, cell in cells.items()}
    assert sorted(cell["status"] for cell in cells.values()) == ["failed", "failed", "ok"], why
    (gates,) = [text for text in why.values() if "taprio offload" in text]
    (launches,) = [text for text in why.values() if "ETF" in text]
    assert "Device failed to setup taprio offload." in gates
    assert "Specified device failed to setup ETF hardware offload." in launches
    for text in (gates, launches):
        assert "eth0: driver igb" in text and "2 transmit queues, PTP clock 0, kernel " in text
    assert "mode: txtime-assist or mode: software works" in gates
    assert "offload: false works with any NIC" in launches
