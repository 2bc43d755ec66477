"""Whole runs on boards that QEMU emulates: their own kernel, namespaces on them, and what becomes of one that fails."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest

from latlab.scenario import load_scenario
from latlab.testbed.agent_binary import find_agent
from latlab.testbed.guests.start import planned_site
from latlab.testbed.images import is_whole
from latlab.testbed.machines import machine_snapshots
from support.boards.place import HANG, BoardPlace, received
from support.command import cells_of

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


@pytest.mark.long
def test_a_board_that_hangs_fails_its_cell_with_its_last_words_and_the_others_go_on(place: BoardPlace) -> None:
    why = place.struck(HANG)
    assert why.startswith("start board1: `qemu-system-x86_64` runs, but board1 is lost: it has not answered for 5 s")
    assert why.endswith("Kernel panic - not syncing: sysrq triggered crash")


def test_a_board_that_is_killed_fails_its_cell_and_the_others_go_on(place: BoardPlace) -> None:
    before = place.trace()
    lab = place.start("run", place.board_scenario(duration="6s", repeat=2), "--verbose")
    _, second = place.killed(lab)
    assert second["status"] == "ok"
    assert place.trace() == before


@pytest.mark.long
def test_a_snapshot_of_another_qemu_is_made_again(place: BoardPlace) -> None:
    before = place.trace()
    scenario = place.board_scenario()
    path = snapshot_of(scenario)
    path.parent.mkdir(exist_ok=True)
    # The beginning of a stream, which says what machine it is of (migration/savevm.c in QEMU), and its last bytes.
    path.write_bytes(b"QEVM\x00\x00\x00\x03\x07\x00\x00\x00\x0apc-q35-2.4" + b"]}")
    ended = place.latlab("run", scenario, "--verbose")
    assert ended.status == 0, ended.err + ended.out
    assert f"starting again without the snapshot {path.name}, which failed" in ended.out
    assert is_whole(path) and path.stat().st_size > 2**20
    assert place.trace() == before


@pytest.mark.long
def test_two_labs_that_make_the_same_snapshot_at_once_both_end_well(place: BoardPlace) -> None:
    before = place.trace()
    hosts = {
        "board1": {"kind": "board", "append": "made.twice"},
        "sensor": {"kind": "netns", "on": "board1"},
        "ecu": {"kind": "netns", "on": "board1"},
    }
    scenario = place.board_scenario(hosts=hosts)
    path = snapshot_of(scenario)
    path.unlink(missing_ok=True)
    labs = [place.start("run", scenario) for _ in range(2)]
    for ended in [lab.ended() for lab in labs]:
        assert ended.status == 0, ended.err + ended.out
    assert is_whole(path)
    assert [part.name for part in path.parent.iterdir() if part.name.startswith(".")] == []
    path.unlink()
    assert place.trace() == before


def test_a_lab_killed_while_its_board_starts_leaves_none_running(place: BoardPlace) -> None:
    before = place.trace()
    lab = place.start("run", place.board_scenario(), "--verbose")
    lab.until("setting up")
    while not (found := list(Path("/run/latlab").glob("*-ways/board1/pid"))) or not found[0].read_text():
        assert lab.process.poll() is None
    pid = place.board_pid()
    lab.signal(signal.SIGKILL)
    lab.ended()
    place.until_gone(pid)
    assert place.latlab("clean").status == 0
    assert place.trace() == before


def test_a_killed_lab_leaves_no_board_running(place: BoardPlace) -> None:
    place.killed_lab_leaves_nothing(duration="20s")


def snapshot_of(scenario: Path) -> Path:
    """What the scenario's board resumes from."""
    (cell,) = load_scenario(scenario).combinations
    (path,) = machine_snapshots(cell.scenario, planned_site(cell.scenario)).values()
    return path
