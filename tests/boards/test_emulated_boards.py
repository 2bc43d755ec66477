"""Whole runs on boards that QEMU emulates: their own kernel, namespaces and guests on them."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

from board_place import BoardPlace, received
from lab_machine import alive
from latlab_command import cells_of

from latlab.lab.agent_binary import find_agent

PACKETS = 200


def test_namespaces_on_a_board_are_measured_with_its_kernel(place: BoardPlace) -> None:
    before = place.trace()
    ended = place.latlab("run", place.board_scenario())
    assert ended.status == 0, ended.err + ended.out
    (cell,) = cells_of(place.only_run()).values()
    assert received(cell) == [PACKETS]
    assert cell["label"] == "functional only"
    (facts,) = place.only_run().glob("cells/*/*/facts-before.json")
    assert "PREEMPT_RT" in facts.read_text()
    assert place.trace() == before


def test_a_guest_nested_in_a_board_is_measured_through_vhost(place: BoardPlace) -> None:
    path = place.board_scenario(
        guests={"vm1": {"host": "ecu", "uplink": "eth0", "bridge": "tap", "acceleration": "kvm", "vhost": "on"}},
        streams={"control": {"talker": "sensor", "listener": "vm1", "period": "20ms", "size": "64B"}},
    )
    ended = place.latlab("run", path)
    assert ended.status == 0, ended.err + ended.out
    (cell,) = cells_of(place.only_run()).values()
    assert received(cell) == [50]
    (bridge,) = cell["bridges"]
    assert "vhost-net" in bridge["detail"]
    assert {clock["source"] for clock in cell["clocks"]} == {"one kernel", "ptp_kvm"}


def test_a_board_whose_kernel_panics_fails_its_cell_with_its_last_words_and_the_others_go_on(place: BoardPlace) -> None:
    before = place.trace()
    lab = place.start("run", place.board_scenario(duration="6s", repeat=2), "--verbose")
    lab.until("measuring")
    (ports,) = Path("/run/latlab").glob("*-ways/board1")
    crash = ("sh", "-c", "echo c >/proc/sysrq-trigger")
    subprocess.run((find_agent(), "in", ports, *crash), capture_output=True, check=False)
    ended = lab.ended()
    assert ended.status == 3
    first, second = sorted(cells_of(place.only_run()).values(), key=lambda cell: cell["order"])
    assert (first["status"], second["status"]) == ("failed", "ok")
    assert "start board1" in first["reason"]["what"]
    assert "its kernel panicked" in first["reason"]["what"]
    assert "the last lines of its console" in first["reason"]["what"]
    assert place.trace() == before


def test_a_board_that_is_killed_fails_its_cell_and_the_others_go_on(place: BoardPlace) -> None:
    before = place.trace()
    lab = place.start("run", place.board_scenario(duration="6s", repeat=2), "--verbose")
    lab.until("measuring")
    os.kill(board_pid(place), signal.SIGKILL)
    assert lab.ended().status == 3
    first, second = sorted(cells_of(place.only_run()).values(), key=lambda cell: cell["order"])
    assert (first["status"], second["status"]) == ("failed", "ok")
    assert "start board1: `qemu-system-x86_64` was ended by signal 9" in first["reason"]["what"]
    assert place.trace() == before


def test_a_killed_lab_leaves_no_board_running(place: BoardPlace) -> None:
    before = place.trace()
    lab = place.start("run", place.board_scenario(duration="20s"), "--verbose")
    lab.until("measuring")
    pid = board_pid(place)
    lab.signal(signal.SIGKILL)
    lab.ended()
    assert place.latlab("clean").status == 0
    assert not alive(pid)
    assert place.trace() == before


def board_pid(place: BoardPlace) -> int:
    """The board's QEMU."""
    (pid,) = Path("/run/latlab").glob("*-ways/board1/pid")
    return int(pid.read_text())
