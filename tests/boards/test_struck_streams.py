"""What happens to gates and streams while they are measured: a clock is stepped, an interface goes down."""

from __future__ import annotations

import re
import sys
from typing import Any

import polars as pl

from support.boards.place import STRUCK_LAB, BoardPlace, assert_left_within
from support.command import Ended, cells_of, read

HOSTS: dict[str, Any] = {
    "board1": {"kind": "board", "time": "virtual"},
    "sensor": {"kind": "netns", "on": "board1"},
    "ecu": {"kind": "netns", "on": "board1"},
}
WINDOW_NS, CYCLE_NS = 200_000, 500_000
GATES = {
    "kind": "taprio",
    "mode": "software",
    "map": {7: 0, 5: 2},
    "rest": 1,
    "gates": [{"open": [0, 2], "for": f"{WINDOW_NS}ns"}, {"open": [1, 2], "for": f"{CYCLE_NS - WINDOW_NS}ns"}],
}
STREAM = {"talker": "sensor", "listener": "ecu", "period": "1ms", "size": "64B", "transport": "ethernet"}
"""Raw frames: an interface that goes down forgets its neighbours, and ARP would have to pass a separate gate."""
STREAMS = {
    # launched while its gate is closed
    "gated": STREAM | {"priority": 7, "offset": "300us"},
    # its gate never closes
    "free": STREAM | {"priority": 5, "offset": "100us"},
}
PACKETS = 1000
"""Of each stream."""


def struck(place: BoardPlace, command: str) -> tuple[Ended, dict[str, Any], dict[str, Any]]:
    """What came of a run whose board had the command done in the midst of its streams; its cell, and that as judged."""
    before = place.trace()
    path = place.board_scenario(
        hosts=HOSTS,
        links=[{"ends": ["sensor.eth0", "ecu.eth0"], "queues": 4}],
        streams=STREAMS,
        shapers={"sensor.eth0": GATES},
    )
    ended = place.latlab("run", path, before=(sys.executable, str(STRUCK_LAB), f"sleep 0.5; {command}"))
    assert place.trace() == before
    folder = place.only_run()
    (cell,) = cells_of(folder).values()
    (judged,) = read(folder / "result.json")["cells"]
    return ended, cell, judged | {"reasons": {one["id"]: one for one in read(folder / "result.json")["reasons"]}}


def test_a_clock_that_is_stepped_is_reported_and_nothing_measured_across_it_is_trusted(place: BoardPlace) -> None:
    ended, cell, judged = struck(place, 'date -s "@$(($(date +%s) + 100))"')
    assert (ended.status, cell["status"], judged["verdict"]) == (4, "ok", "untrusted")
    told = judged["reasons"]["clock-stepped"]
    assert re.match(r"a step of (99(\.\d+)?|100) s\b", told["actual"]), told


def test_an_interface_that_goes_down_loses_what_is_sent_meanwhile_and_its_gates_stand_still_from_then_on(
    place: BoardPlace,
) -> None:
    ns = "$(ip netns list | grep -o 'latlab-[^ ]*-sensor')"
    down = f"ip -n {ns} link set dev eth0 down; sleep 0.1; ip -n {ns} link set dev eth0 up"
    ended, cell, judged = struck(place, down)
    assert (ended.status, cell["status"], judged["verdict"]) == (0, "ok", "suspect")
    assert [one["ok"] for one in cell["rechecks"] if "taprio" in one["title"]] == [True]
    refused = {}
    for name in STREAMS:
        counts = judged["streams"][name]["counts"]
        refused[name] = counts["send_errors"]
        assert counts["received"] + counts["send_errors"] + counts["lost"] == PACKETS
        assert refused[name] >= 100
    assert judged["reasons"]["link-up"]["actual"] == "it changed 2 times"
    told = judged["reasons"]["sends-succeeded"]["actual"]
    assert told in {f"{count} of {PACKETS} packets: Network is down (100): {count}" for count in refused.values()}

    (table,) = place.only_run().glob("cells/all/r1/packets.parquet")
    rows = pl.read_parquet(table)
    streams = {one["name"]: rows.filter(pl.col("stream") == one["stream"]).sort("sequence") for one in cell["streams"]}
    gated, free = streams["gated"], streams["free"]
    back = max(free.filter(pl.col("send_error") != 0)["launch_tai_ns"])
    later = pl.col("launch_tai_ns") > back + 10_000_000
    # The interface is back: what no gate ever holds back leaves by it.
    assert free.filter(later)["rx_soft_tai_ns"].null_count() == 0 < len(free.filter(later))
    # Gates held until then; taprio has the schedule still, but its timer has stopped (docs/reference/scenario.md).
    left = gated["tx_soft_tai_ns"].drop_nulls()
    assert len(left) > 100
    assert_left_within([(0, WINDOW_NS)], left.to_numpy(), CYCLE_NS)
    assert gated.filter(later)["tx_soft_tai_ns"].drop_nulls().is_empty()
    assert "timestamps-there" in judged["reasons"]
