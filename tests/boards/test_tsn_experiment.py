"""The ready-made scenario of the TSN article's experiment: one of its cells, whole, on a board in virtual time."""

from __future__ import annotations

from pathlib import Path

import polars as pl
from board_place import BoardPlace, received
from latlab_command import cells_of, read

SCENARIO = Path(__file__).parents[2] / "scenarios" / "tsn-bridges.yaml"
"""It boots a guest in emulation within emulation, and waits for PTP."""
PACKETS = 995
CYCLE_NS, WINDOW_NS, TICK_NS = 503_000, 101_000, 4_000_000
MISSED_MAX = 42
"""Something that comes each 4 ms, as a tick of 250 Hz does, keeps the board's one CPU longer than the stream's window
is open. The stream's period slides through that by 24 µs with each fourth packet: each 168 ms three or four packets
miss their slots by it. 19 and 21 of 895 were counted; twice as many would mean that it takes some 84 µs more."""
OTHERS_MAX = 10
"""Of those counted 3 and 1 came at other times: at that rate a run has more than ten once in 100,000."""


def test_a_guest_behind_a_bridge_is_measured_through_gates_with_ptp_and_in_its_vlan(place: BoardPlace) -> None:
    whole, _ = SCENARIO.read_text().split("\nmatrix:\n")
    path = place.folder / SCENARIO.name
    path.write_text(f"{whole}\nmatrix:\n  guests.vm1.bridge: [tap]\n  loads: [none]\n")
    before = place.trace()
    ended = place.start("run", path).ended()
    assert ended.status == 0, ended.err + ended.out
    assert place.trace() == before
    folder = place.only_run()
    (cell,) = cells_of(folder).values()
    assert (cell["status"], cell["label"], received(cell)) == ("ok", "virtual time", [PACKETS])
    (stream,) = cell["streams"]
    assert (stream["vlan"], stream["priority"], stream["period_ns"]) == (5, 7, 2 * CYCLE_NS)
    assert cell["start_tai_ns"] % CYCLE_NS == 0

    result = read(folder / "result.json")
    assert (result["verdict"], result["reasons"]) == ("trusted", [])
    (judged,) = result["cells"]
    gates = judged["streams"]["control"]["gates"]
    assert (gates["interface"], gates["traffic_class"], gates["promised"]["latest_ns"]) == ("sensor.eth0", 0, 0)
    # Packets that missed their slot are a separate class: a cycle later, and not in the latency of the others.
    latency = judged["streams"]["control"]["metrics"]["latency"]
    kept = gates["in_slot"]["latency"] if gates["missed"] else latency
    assert kept["n"] == latency["n"] - gates["missed"]
    assert kept["max"] < CYCLE_NS
    assert gates["missed"] <= MISSED_MAX
    (table,) = folder.glob("cells/*/r1/packets.parquet")
    rows = pl.read_parquet(table).filter(~pl.col("warmup"))
    late = rows.filter(pl.col("tx_soft_tai_ns") - pl.col("launch_tai_ns") >= CYCLE_NS)["launch_tai_ns"].to_numpy()
    assert len(late) == gates["missed"]
    # Those that the tick made late were launched in one part of it, no longer than a window.
    by_the_tick = max((int(((late - first) % TICK_NS < WINDOW_NS).sum()) for first in late), default=0)
    assert len(late) - by_the_tick <= OTHERS_MAX
    ports = {port["port"]: port for port in judged["ptp"]}
    assert [ports[name]["unlocked"] for name in ("sensor.eth0", "ecu.eth1")] == [[], []]
    assert ports["ecu.eth1"]["checked"]["apart"] == 0
    assert all(one["ok"] for one in cell["rechecks"])
