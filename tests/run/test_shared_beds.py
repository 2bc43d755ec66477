"""Cells in virtual time that share a test bed: which do, in what order they are measured, and what is kept for them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from latlab.hosts.turns import Turn, Turns
from latlab.model.errors import LabError
from latlab.run import beds
from latlab.run.beds import Beds, SharedBed
from latlab.scenario import MatrixRun, cells, load_scenario, runs
from latlab.testbed.guests.start import planned_site

TEXT = """\
name: shared
hosts:
  board1: {kind: board, time: virtual, cpus: 2, nics: 2}
  sensor: {kind: netns, on: board1, cards: [eth0]}
  ecu: {kind: netns, on: board1, cards: [eth1]}
links:
  - {ends: [sensor.eth0, ecu.eth1]}
guests:
  vm1: {host: ecu, uplink: eth1, acceleration: kvm}
streams:
  down: {talker: sensor, listener: vm1, period: 1ms, size: 64B}
loads:
  udp: {kind: iperf3, from: sensor, to: vm1, rate: 10Mbit/s}
duration: 1s
matrix:
  guests.vm1.bridge: [tap, macvtap]
  loads: [none, udp]
repeat: 2
"""


def order_of(tmp_path: Path, text: str = TEXT) -> list[MatrixRun]:
    path = tmp_path / "shared.yaml"
    path.write_text(text)
    loaded = load_scenario(path)
    return runs(cells(loaded), loaded.scenario.repeat, seed=5)


def shared(order: Sequence[MatrixRun], jobs: int = 2) -> Beds:
    return Beds(order, planned_site(order[0].cell.scenario), jobs)


def test_cells_that_differ_in_their_loads_and_repetitions_share_a_test_bed_and_those_of_other_bridges_do_not(
    tmp_path: Path,
) -> None:
    order = order_of(tmp_path)
    assert len(order) == 8
    found = shared(order)
    by_bed: dict[int, list[tuple[object, int]]] = {}
    for one in order:
        bed = found.of(one)
        assert bed and bed.left == 4 and bed.with_agents
        by_bed.setdefault(id(bed), []).append((one.cell.label["guests.vm1.bridge"], one.seed or 0))
    assert len(by_bed) == 2
    for several in by_bed.values():
        assert len({bridge for bridge, _ in several}) == 1 and sorted(seed for _, seed in several) == [1, 1, 2, 2]


PERIODS = TEXT.replace("matrix:\n", "matrix:\n  streams.down.period: [1ms, 2ms]\n")


def test_where_agents_are_told_different_things_what_is_kept_with_them_goes_on_from_one_without(tmp_path: Path) -> None:
    found = shared(order := order_of(tmp_path, PERIODS))
    by_agents: dict[int, list[object]] = {}
    bases = set()
    for one in order:
        bed = found.of(one)
        assert bed and bed.left == 4 and bed.with_agents
        assert bed.base and bed.base.left == 8 and not bed.base.with_agents
        by_agents.setdefault(id(bed), []).append(one.cell.label["streams.down.period"])
        bases.add(id(bed.base))
    assert (len(bases), len(by_agents)) == (2, 4)
    assert all(len(set(periods)) == 1 for periods in by_agents.values())
    grouped = [id(found.of(one)) for one in found.in_groups(order, 1)]
    assert [len(set(grouped[at : at + 4])) for at in range(0, 16, 4)] == [1] * 4
    # Both are needed until the last cell that goes on from them.
    bed = found.of(order[0])
    assert bed and bed.base
    for _ in range(4):
        bed.ended()
    assert (bed.left, bed.base.left) == (0, 4)


def test_a_cell_whose_agents_alone_are_told_something_goes_on_from_what_is_kept_without_them(tmp_path: Path) -> None:
    text = PERIODS.replace("loads: [none, udp]", "loads: [udp]").replace("repeat: 2", "repeat: 1")
    found = shared(order := order_of(tmp_path, text))
    beds_found = [found.of(one) for one in order]
    assert all(bed and bed.left == 2 and not bed.with_agents and bed.base is None for bed in beds_found)


def test_they_are_measured_one_after_the_other_next_to_those_of_another(tmp_path: Path) -> None:
    order = order_of(tmp_path)
    found = shared(order)
    grouped = found.in_groups(order, 2)
    assert sorted(map(id, grouped)) == sorted(map(id, order))
    in_order = [id(found.of(one)) for one in grouped]
    for at in range(0, len(in_order), 4):
        first, second, third, fourth = in_order[at : at + 4]
        assert first == third != second == fourth
    assert [id(found.of(one)) for one in found.in_groups(order, 1)] == [
        bed for bed in dict.fromkeys(id(found.of(one)) for one in order) for _ in range(4)
    ]


def test_no_group_is_set_up_while_nobody_else_has_anything_to_measure(tmp_path: Path) -> None:
    order = order_of(tmp_path, TEXT.replace("[tap, macvtap]", "[tap, macvtap, xdp, ovs, ovs-afxdp]"))
    found = shared(order)
    grouped = [id(found.of(one)) for one in found.in_groups(order, 2)]
    assert sorted(grouped) == sorted(id(found.of(one)) for one in order)
    assert [len(set(grouped[:8])), len(set(grouped[8:]))] == [2, 3]
    assert len(set(grouped[8:11])) == len(set(grouped[-3:])) == 3


def test_a_cell_with_a_test_bed_of_its_own_keeps_none(tmp_path: Path) -> None:
    order = order_of(tmp_path, TEXT.replace("loads: [none, udp]", "loads: [udp]").replace("repeat: 2", "repeat: 1"))
    found = shared(order)
    assert [found.of(one) for one in order] == [None] * 2
    assert found.in_groups(order, 2) == order


def test_a_board_whose_card_shares_out_its_functions_is_kept_for_no_other_cell(tmp_path: Path) -> None:
    order = order_of(tmp_path, TEXT.replace("[tap, macvtap]", "[tap, vf]"))
    found = shared(order)
    kept = {one.cell.label["guests.vm1.bridge"]: found.of(one) is not None for one in order}
    assert kept == {"tap": True, "vf": False}
    grouped = found.in_groups(order, 2)
    assert sorted(map(id, grouped)) == sorted(map(id, order))


@pytest.mark.slow
def test_nothing_is_kept_where_there_is_no_room_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    order = order_of(tmp_path)
    board = order[0].cell.scenario.hosts["board1"]
    memory = board.model_dump()["memory"]
    monkeypatch.setattr(beds, "available_memory", lambda: 6 * memory - 1)
    assert {shared(order).of(one) for one in order} == {None}
    monkeypatch.setattr(beds, "available_memory", lambda: 6 * memory)
    assert all(shared(order).of(one) for one in order)
    order = order_of(tmp_path, PERIODS)
    assert {shared(order).of(one) for one in order} == {None}
    monkeypatch.setattr(beds, "available_memory", lambda: 8 * memory)
    assert all(shared(order).of(one) for one in order)


class _Kept:
    def __init__(self, folder: Path) -> None:
        self.turns = Turns("board1", str(folder))
        self.turns.kept.append(Turn(b"heard", 1000, b"said"))


def test_what_is_kept_is_there_until_the_last_cell_has_been_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def move_out(socket: str, path: Path) -> None:
        assert socket.endswith("/board1/qmp.sock")
        path.write_bytes(b"all of it")

    monkeypatch.setattr(beds, "move_out", move_out)
    bed, site = SharedBed(left=2), planned_site(order_of(tmp_path)[0].cell.scenario)
    assert bed.machine is None
    asyncio.run(bed.keep(_Kept(tmp_path).turns, site))
    kept = bed.machine
    assert kept and kept.read_bytes() == b"all of it" and bed.turns == (Turn(b"heard", 1000, b"said"),)
    bed.ended()
    assert bed.machine == kept and kept.exists()
    bed.ended()
    assert bed.machine is None and not kept.exists()


def test_each_cell_sets_up_its_own_where_the_machine_could_not_be_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def move_out(socket: str, path: Path) -> None:
        raise LabError("no memory is left", where=socket)

    monkeypatch.setattr(beds, "move_out", move_out)
    bed, site = SharedBed(left=2), planned_site(order_of(tmp_path)[0].cell.scenario)
    asyncio.run(bed.keep(_Kept(tmp_path).turns, site))
    assert bed.refused and bed.machine is None
