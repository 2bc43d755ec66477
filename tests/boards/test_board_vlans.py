"""VLAN interfaces by the real kernel: its parent's queues gate what leaves by one, and its maps tag it."""

from __future__ import annotations

import json
import sys
from typing import Any

import polars as pl

from support.boards.place import BoardPlace, assert_left_within, received
from support.command import cells_of, read
from support.programs import PROGRAMS

WITNESS = PROGRAMS / "witnessed_lab.py"
HOSTS: dict[str, Any] = {
    "board1": {"kind": "board", "time": "virtual"},
    "sensor": {"kind": "netns", "on": "board1"},
    "ecu": {"kind": "netns", "on": "board1"},
}
MAPS = {5: {}, 6: {"egress": {7: 3, 5: 5}, "ingress": {3: 7}}}
LINKS = [{"ends": ["sensor.eth0", "ecu.eth0"], "queues": 2, "vlans": MAPS}]
# 1013 µs go through all phases of the cycle, which is 503 µs.
STREAM = {"talker": "sensor", "listener": "ecu", "period": "1013us", "size": "64B"}
STREAMS: dict[str, Any] = {
    "bulk": STREAM | {"via": "sensor.eth0.5", "priority": 0, "offset": "300us"},
    "control": STREAM | {"via": "sensor.eth0.5", "priority": 7},
    "frames": STREAM | {"via": "sensor.eth0.5", "priority": 7, "offset": "450us", "transport": "ethernet"},
    "plain": STREAM | {"via": "sensor.eth0", "priority": 7, "offset": "600us"},
    "remapped": STREAM | {"via": "sensor.eth0.6", "priority": 7, "offset": "750us"},
}
CYCLE_NS = 503_000
DURATION_NS = 400_000_000
WINDOWS = {0: (0, 200_000), 1: (200_000, CYCLE_NS)}
"""Of each class."""
TAPRIO = {
    "kind": "taprio",
    "mode": "software",
    "map": {7: 0},
    "rest": 1,
    "gates": [{"open": [number], "for": f"{end - start}ns"} for number, (start, end) in WINDOWS.items()],
}
CLASSES = {"bulk": 1, "control": 0, "frames": 0, "plain": 0, "remapped": 0}
FRAME_BYTES = {"control": 114, "bulk": 114, "frames": 86, "plain": 110, "remapped": 114}
"""Of 64 bytes: a VLAN tag is four more."""


def packets(streams: dict[str, Any]) -> dict[str, int]:
    """How many each stream sends."""
    offsets = {name: int(stream.get("offset", "0us").removesuffix("us")) * 1_000 for name, stream in streams.items()}
    return {name: -(-(DURATION_NS - offset) // 1_013_000) for name, offset in offsets.items()}


def test_streams_by_a_vlan_interface_are_gated_by_its_parent_and_tagged_by_their_priority(place: BoardPlace) -> None:
    before, counts = place.trace(), packets(STREAMS)
    tags = f"5/0: {counts['bulk']}, 5/7: {counts['control'] + counts['frames']}, 6/3: {counts['remapped']}"
    path = place.board_scenario(
        hosts=HOSTS, links=LINKS, streams=STREAMS, shapers={"sensor.eth0": TAPRIO}, duration="400ms"
    )
    shown = json.loads(place.latlab("gates", path, "--json").out)
    ended = place.start(
        *("run", path, "--picture", "none"),
        # Filters of the kernel count the tags that come in at the other end; VLAN 6 maps priority 7 to PCP 3.
        before=(sys.executable, str(WITNESS), tags),
    ).ended()
    assert ended.status == 0, ended.err + ended.out
    assert place.trace() == before
    folder = place.only_run()
    (cell,) = cells_of(folder).values()
    assert received(cell) == list(counts.values())

    again = {one["title"]: one for one in cell["rechecks"]}
    assert again["tags by priority"]["actual"] == again["tags by priority"]["expected"] == tags
    identity = " ".join(f"{number}:{number}" for number in range(1, 8))
    for end in ("sensor.eth0", "ecu.eth0"):
        five, six = (again[f"make the VLAN interface {end}.{number}"] for number in (5, 6))
        assert five["ok"] and five["actual"] == f"VLAN 5 of eth0; egress {identity}; ingress {identity}"
        assert six["ok"] and six["actual"] == "VLAN 6 of eth0; egress 5:5 7:3; ingress 3:7"
    assert [(one["interface"], one["port"], one["vlan"]) for one in cell["streams"]] == [
        *[("eth0.5", "eth0", 5)] * 3,
        ("eth0", "eth0", None),
        ("eth0.6", "eth0", 6),
    ]

    (table,) = folder.glob("cells/all/r1/packets.parquet")
    table_rows = pl.read_parquet(table)
    for stamp in ("submit_tai_ns", "tx_sched_tai_ns", "tx_soft_tai_ns", "rx_soft_tai_ns", "rx_user_tai_ns"):
        assert table_rows[stamp].null_count() == 0, stamp
    (judged,) = read(folder / "result.json")["cells"]
    for number, (name, traffic_class) in enumerate(CLASSES.items(), start=1):
        gates = judged["streams"][name]["gates"]
        assert (gates["interface"], gates["traffic_class"]) == ("sensor.eth0", traffic_class)
        left = table_rows.filter(pl.col("stream") == number)["tx_soft_tai_ns"].to_numpy()
        assert_left_within([WINDOWS[traffic_class]], left, CYCLE_NS)

    (port,) = shown["schedules"][0]["ports"]
    assert port["interface"] == "sensor.eth0"
    assert {stream["name"]: stream["frame_bytes"] for stream in port["streams"]} == FRAME_BYTES
