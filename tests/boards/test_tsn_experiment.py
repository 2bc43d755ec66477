"""The ready-made scenario of the TSN article's experiment: one of its cells, whole, on a board in virtual time."""

from __future__ import annotations

from pathlib import Path

from board_place import BoardPlace, received
from latlab_command import cells_of, read

SCENARIO = Path(__file__).parents[2] / "scenarios" / "tsn-bridges.yaml"
PACKETS = 995
CYCLE_NS = 503_000


def test_a_guest_behind_a_bridge_is_measured_through_gates_with_ptp_and_in_its_vlan(place: BoardPlace) -> None:
    whole, _ = SCENARIO.read_text().split("\nmatrix:\n")
    path = place.folder / SCENARIO.name
    path.write_text(f"{whole}\nmatrix:\n  guests.vm1.bridge: [tap]\n  loads: [none]\n")
    before = place.trace()
    ended = place.latlab("run", path)
    assert ended.status == 0, ended.err + ended.out
    assert place.trace() == before
    folder = place.only_run()
    (cell,) = cells_of(folder).values()
    assert (cell["status"], cell["label"], received(cell)) == ("ok", "virtual time", [PACKETS])
    (stream,) = cell["streams"]
    assert (stream["vlan"], stream["priority"], stream["period_ns"]) == (5, 7, 2 * CYCLE_NS)
    assert cell["start_tai_ns"] % CYCLE_NS == 0

    (judged,) = read(folder / "result.json")["cells"]
    gates = judged["streams"]["control"]["gates"]
    assert (gates["interface"], gates["traffic_class"], gates["promised"]["latest_ns"]) == ("sensor.eth0", 0, 0)
    # Packets that missed their slot are a class of their own: a cycle later, and not in the latency of the others.
    kept = gates["in_slot"]["latency"]
    assert kept["n"] == judged["streams"]["control"]["metrics"]["latency"]["n"] - gates["missed"]
    assert kept["max"] < CYCLE_NS
    ports = {port["port"]: port for port in judged["ptp"]}
    assert [ports[name]["unlocked"] for name in ("sensor.eth0", "ecu.eth1")] == [[], []]
    assert ports["ecu.eth1"]["checked"]["apart"] == 0
    assert all(one["ok"] for one in cell["rechecks"])
