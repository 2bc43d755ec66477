"""Shipped scenarios on boards of 64-bit ARM: the key `arch: arm64` is all that changes, and cells repeat there, too."""

from __future__ import annotations

from typing import Any

import pytest

from support.boards.place import BoardPlace
from support.boards.short import run_short, shipped
from support.command import cells_of, read

pytestmark = pytest.mark.long

ARCHITECTURE = "aarch64"
Cells = dict[str, dict[str, Any]]


def repeated(place: BoardPlace, name: str, matrix: dict[str, Any], **parts: Any) -> Cells:
    """Each cell of the scenario on an ARM board, by its slug; it was measured twice, and both are equal."""
    hosts = shipped(name)["hosts"]
    hosts["board1"]["arch"] = "arm64"
    result = run_short(place, name, matrix, "--check-repeat", hosts=hosts, **parts)
    folder = place.only_run()
    machines = [facts for path in folder.glob("cells/*/*/facts-before.json") for facts in read(path).values()]
    assert {facts["kernel"]["architecture"] for facts in machines} == {ARCHITECTURE}
    apart = {one["slug"]: (one["repetitions"], one["only_in_one"], one["largest_ns"]) for one in result["repeats"]}
    assert apart == {cell["slug"]: (2, 0, 0) for cell in result["cells"]}, result["repeats"]
    compared = {one["slug"]: one["packets"] for one in result["repeats"]}
    for cell in result["cells"]:
        counts = [block["counts"] for block in cell["streams"].values()]
        assert compared[cell["slug"]] == sum(one["sent"] for one in counts if "received" in one)
    return {cell["slug"]: cell for cell in result["cells"]}


def test_a_sleeping_sender_and_launch_times_are_compared_and_every_cell_repeats(arm_place: BoardPlace) -> None:
    whole = shipped("txtime")
    cells = repeated(arm_place, "txtime", whole["matrix"], exclude=whole["exclude"], duration="1100ms")
    assert len(cells) == 4
    mean = {tuple(cell["cell"].values()): cell["streams"]["s"]["metrics"]["latency"]["mean"] for cell in cells.values()}
    # etf hands a packet on its delta, 200 us, before the launch time.
    for period in ("1 ms", "250 us"):
        assert -200_000 < mean[f"SO_TXTIME {period}", "ordinary"] < 0
    assert 0 < mean["plain 1 ms", "SCHED_FIFO"] < mean["plain 1 ms", "ordinary"] / 2


def test_a_virtual_machine_asks_and_answers_through_vfio_and_every_cell_repeats(arm_place: BoardPlace) -> None:
    matrix = {"guests.vm1.bridge": ["vfio"], "probes": ["as-sensor", "as-ecu"], "loads": ["none", "load-down"]}
    exclude = [{"probes": "as-sensor", "loads": "load-down"}]
    cells = repeated(arm_place, "two-way-board", matrix, exclude=exclude, duration="300ms")
    assert len(cells) == 3
    typical = {
        leg: block["metrics"]["latency_user"]["p50"]
        for slug, cell in cells.items()
        for leg, block in cell["streams"].items()
        if "loads=none" in slug and "latency_user" in block["metrics"]
    }
    # Questions by questions, answers by answers: what arrives in the virtual machine waits for an interrupt and a vCPU.
    assert typical["as-sensor.up"] < typical["as-ecu.up"]
    assert typical["as-ecu.down"] < typical["as-sensor.down"]
    (loaded,) = (cell for slug, cell in cells.items() if "loads=load-down" in slug)
    (load,) = loaded["loads"]
    assert load["received_bps"] > 0


def test_kernel_bridges_behind_gates_with_ptp_and_load_lose_nothing_and_repeat(arm_place: BoardPlace) -> None:
    matrix = {"guests.vm1.bridge": ["macvtap", "ovs"], "loads": ["load-same", "load-opposite"]}
    exclude = [
        {"guests.vm1.bridge": "macvtap", "loads": "load-same"},
        {"guests.vm1.bridge": "ovs", "loads": "load-opposite"},
    ]
    # The overrides are user NAT's.
    cells = repeated(arm_place, "tsn-bridges", matrix, exclude=exclude, overrides=[], duration="500ms")
    assert {cell["bridges"][0]["kind"] for cell in cells_of(arm_place.only_run()).values()} == {"macvtap", "ovs"}
    assert len(cells) == 2
    for cell in cells.values():
        ports = {port["port"]: port for port in cell["ptp"]}
        assert [ports[name]["unlocked"] for name in ("sensor.eth0", "ecu.eth1")] == [[], []]
        assert ports["ecu.eth1"]["checked"]["apart"] == 0
        (load,) = cell["loads"]
        assert load["received_bps"] > 0.9 * load["asked_bps"]
        gates = cell["streams"]["control"]["gates"]
        assert gates["early"] == 0 and gates["missed"] < gates["left"]
