"""Tuning that leaves a machine's ordinary threads no CPU is a warning."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from latlab.run import matrix as measure
from latlab.scenario import load_scenario
from latlab.testbed.machine import Machine
from latlab.testbed.preflight import warnings
from latlab.testbed.tuning.cpus import starving
from support.testbed.tuning import tuned

FILES: dict[str, str] = {}
HERE = Machine(frozenset(), frozenset({0, 1}), frozenset({"lo"}), lambda tool: True, read=FILES.get)
BOARD = """\
name: x
hosts:
  board1: {{kind: board, time: virtual, {board}}}
  sensor: {{kind: netns, on: board1}}
  ecu: {{kind: netns, on: board1}}
links:
  - {{ends: [sensor.lat0, ecu.lat0]}}
guests:
  vm1: {{host: ecu, uplink: lat0, vcpus: {vcpus}}}
streams:
  control: {{talker: sensor, listener: vm1, period: 1ms, size: 64B}}
tuning:
  ecu:
    guests:
      vm1:
        vcpus: {threads}
duration: 1s
"""
WHERE = "scenario.yaml:16: tuning.ecu.guests.vm1.vcpus.fifo"
ALL_OF_ONE = (
    f"{WHERE}: while vm1's vCPUs are busy, nothing else runs on board1: they are at SCHED_FIFO on CPU 0, which is all "
    "that ordinary threads have (leave out `fifo`; or `cpus: 2` of board1, and a CPU for the vCPUs alone)"
)
ALL_OF_TWO = (
    f"{WHERE}: while vm1's vCPUs are busy, nothing else runs on board1: they are at SCHED_FIFO on CPUs 0-1, which are "
    "all that ordinary threads have (leave out `fifo`; or `cpus: 3` of board1, and a CPU for the vCPUs alone)"
)


def scenario_file(folder: Path, board: str, threads: str, vcpus: int = 1) -> Path:
    path = folder / "scenario.yaml"
    path.write_text(BOARD.format(board=board, threads=threads, vcpus=vcpus))
    return path


@pytest.mark.parametrize(
    ("board", "vcpus", "threads", "expected"),
    [
        ("cpus: 1", 1, "{fifo: 1}", ALL_OF_ONE),
        ("cpus: 1", 1, "{fifo: 1, cpus: [0]}", ALL_OF_ONE),
        ("cpus: 1", 2, "{fifo: 1}", ALL_OF_ONE),
        ("cpus: 1", 1, "{}", ""),
        ("cpus: 2", 1, "{fifo: 1}", ""),
        ("cpus: 2", 2, "{fifo: 1}", ALL_OF_TWO),
        ("cpus: 2", 2, "{fifo: 1, cpus: [0, 1]}", ALL_OF_TWO),
        ("cpus: 2", 2, "{fifo: 1, cpus: [1]}", ""),
        ('cpus: 2, append: "isolcpus=nohz,domain,managed_irq,1"', 1, "{fifo: 1, cpus: [1]}", ""),
        ('cpus: 2, append: "isolcpus=nohz,domain,managed_irq,1"', 1, "{fifo: 1, cpus: [0]}", ALL_OF_ONE),
    ],
)
def test_vcpus_in_front_on_every_cpu_that_a_board_has_for_others(
    tmp_path: Path, board: str, vcpus: int, threads: str, expected: str
) -> None:
    loaded = load_scenario(scenario_file(tmp_path, board, threads, vcpus))
    found = [str(warning).removeprefix(f"{tmp_path}/") for warning in warnings(loaded, HERE)]
    if expected and "append" in board:
        expected = expected.replace("cpus: 2", "cpus: 3")
    assert found == ([expected] if expected else [])


def test_a_plan_begins_with_the_warning(tmp_path: Path) -> None:
    text = measure.plan(load_scenario(scenario_file(tmp_path, "cpus: 1", "{fifo: 1}")))
    assert any(line.startswith("# warning: ") and "nothing else runs on board1" in line for line in text.splitlines())


@pytest.mark.parametrize(
    ("isolated", "vcpus", "cpus", "starves"),
    [("", 2, None, True), ("", 1, None, False), ("1", 1, [0], True), ("1", 1, [1], False)],
)
def test_this_machine_is_looked_at_as_it_is(isolated: str, vcpus: int, cpus: list[int] | None, starves: bool) -> None:
    FILES["/sys/devices/system/cpu/isolated"] = isolated
    guest: dict[str, Any] = {"host": "ecu", "vcpus": vcpus, "uplink": "lat0"}
    found = list(starving(tuned(guest, guests={"vm1": {"vcpus": {"fifo": 1, "cpus": cpus}}}), HERE))
    assert [place for place, _ in found] == [("tuning", "ecu", "guests", "vm1", "vcpus", "fifo")] * starves
    assert all("this machine" in warning.what and "isolcpus=" in warning.remedy for _, warning in found)
