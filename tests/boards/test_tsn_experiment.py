"""The ready-made scenario of the TSN article's experiment: two of its cells, whole, on a board in virtual time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl

from support.boards.place import BoardPlace, received
from support.command import cells_of, read

SCENARIO = Path(__file__).parents[2] / "scenarios" / "tsn-bridges.yaml"
"""It boots a guest in emulation within emulation, and waits for PTP."""
PACKETS = 995
CYCLE_NS = 503_000
IDLE, LOADED = "guests.vm1.bridge=xdp,loads=none", "guests.vm1.bridge=xdp,loads=load-same"


def test_a_guest_behind_a_bridge_is_measured_through_gates_with_ptp_and_in_its_vlan_idle_and_loaded(
    place: BoardPlace,
) -> None:
    whole, _ = SCENARIO.read_text().split("\nmatrix:\n")
    path = place.folder / SCENARIO.name
    path.write_text(f"{whole}\nmatrix:\n  guests.vm1.bridge: [xdp]\n  loads: [none, load-same]\n")
    before = place.trace()
    ended = place.start("run", path).ended()
    assert ended.status == 0, ended.err + ended.out
    assert place.trace() == before
    folder = place.only_run()
    result = read(folder / "result.json")
    assert (result["verdict"], result["reasons"]) == ("trusted", [])
    cells = cells_of(folder)
    assert [judged["slug"] for judged in result["cells"]] == [IDLE, LOADED]
    for judged in result["cells"]:
        _check_settings(cells[f"{judged['slug']}/r1"])
        _check_slots(folder, judged)
        ports = {port["port"]: port for port in judged["ptp"]}
        assert [ports[name]["unlocked"] for name in ("sensor.eth0", "ecu.eth1")] == [[], []]
        assert ports["ecu.eth1"]["checked"]["apart"] == 0
    idle, loaded = result["cells"]
    assert idle["streams"]["control"]["gates"]["missed"] == 0
    (load,) = loaded["loads"]
    assert idle["loads"] == [] and load["received_bps"] > 0.9 * load["asked_bps"]


def _check_settings(cell: dict[str, Any]) -> None:
    """All of the stream came, as it was asked for, and what was set up stayed so."""
    assert (cell["status"], cell["label"], received(cell)) == ("ok", "virtual time", [PACKETS])
    (stream,) = cell["streams"]
    assert (stream["vlan"], stream["priority"], stream["period_ns"]) == (5, 7, 2 * CYCLE_NS)
    assert cell["start_tai_ns"] % CYCLE_NS == 0
    assert all(one["ok"] for one in cell["rechecks"])


def _check_slots(folder: Path, judged: dict[str, Any]) -> None:
    """Packets that missed their slot are a separate class: a cycle later, and not in the latency of the others."""
    gates = judged["streams"]["control"]["gates"]
    assert (gates["interface"], gates["traffic_class"], gates["promised"]["latest_ns"]) == ("sensor.eth0", 0, 0)
    latency = judged["streams"]["control"]["metrics"]["latency"]
    kept = gates["in_slot"]["latency"] if gates["missed"] else latency
    assert kept["n"] == latency["n"] - gates["missed"]
    assert kept["max"] < CYCLE_NS
    rows = pl.read_parquet(folder / "cells" / judged["slug"] / "r1" / "packets.parquet").filter(~pl.col("warmup"))
    late = rows.filter(pl.col("tx_soft_tai_ns") - pl.col("launch_tai_ns") >= CYCLE_NS)
    assert len(late) == gates["missed"]
