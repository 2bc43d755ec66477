"""What a lab that was killed leaves, and that cleaning up takes all of it away and nothing else."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from latlab.hosts import MACHINE, LocalMachine, NamespaceHost
from latlab.model.errors import LabError
from latlab.testbed.apply import TestBed
from latlab.testbed.journal import Journal, stale_journals
from latlab.testbed.undo import MARK, PASSING_POLLS, clean_stale
from support.machine import alive, dump, run
from support.programs import PROGRAMS

pytestmark = [pytest.mark.real, pytest.mark.usefixtures("machine")]

KILLED_LAB = PROGRAMS / "killed_lab.py"
KILLED_WITH_ITS_PROCESS = PROGRAMS / "killed_with_its_process.py"
PATIENCE_S = 60.0
OURS = "0123456789abcdef"


@contextmanager
def labs_killed(when: str) -> Iterator[Callable[[int], bool]]:
    """A function that has one lab after the other killed at that change; it returns False when the lab had fewer."""
    argv: list[str | Path] = [sys.executable, KILLED_LAB, "t1", when]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as labs:

        def killed(at: int) -> bool:
            assert labs.stdin and labs.stdout
            print(at, file=labs.stdin, flush=True)
            status = int(labs.stdout.readline())
            assert status in (0, -signal.SIGKILL)
            return status != 0

        yield killed


def lab_killed(when: str, at: int) -> bool:
    """Whether the lab was killed at that change; False when it had fewer."""
    with labs_killed(when) as killed:
        return killed(at)


def killed_with_its_process(what: str, where: str) -> int:
    """The pid of what the killed lab had started."""
    argv: list[str | Path] = [sys.executable, KILLED_WITH_ITS_PROCESS, "t1", what, where]
    lab = subprocess.run(argv, capture_output=True, text=True)
    assert lab.returncode == -signal.SIGKILL, lab.stderr
    return int(lab.stdout)


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_lab_killed_at_any_change_is_cleaned_up(when: str, journals: Path) -> None:
    run("ip", "netns", "add", "mininet-h1")
    before = dump()
    at = 0
    with labs_killed(when) as killed:
        while killed(at := at + 1):
            asyncio.run(clean_stale())
            assert dump() == before, f"killed {when} change {at}"
            assert list(journals.iterdir()) == []
    assert dump() == before
    assert at > 10


def test_cleaning_up_says_what_it_undid() -> None:
    assert lab_killed("after", 5)
    words = asyncio.run(clean_stale())
    assert words == [
        f"run t1: {MACHINE}: connect sensor.eth0 and ecu.lat0",
        f"run t1: {MACHINE}: make sensor's namespace",
    ]
    assert asyncio.run(clean_stale()) == []


def test_what_cannot_be_cleaned_stays_in_its_journal(journals: Path) -> None:
    journal = Journal.create("old")
    journal.record(LocalMachine(MACHINE), "impossible", ("false",), None)
    journal.record(LocalMachine(MACHINE), "possible", ("true",), None)
    journal.close()
    with pytest.raises(Exception, match="false"):
        asyncio.run(clean_stale())
    (left,) = stale_journals()
    assert [record.title for record in left.pending()] == ["impossible"]


def test_what_was_changed_in_a_namespace_is_gone_with_it(journals: Path) -> None:
    run("ip", "netns", "add", "latlab-t1-sensor")
    journal = Journal.create("old")
    journal.record(NamespaceHost("sensor", "latlab-t1-sensor"), "fails in it", ("false",), None)
    journal.close()
    with pytest.raises(LabError, match="false"):
        asyncio.run(clean_stale())
    run("ip", "netns", "del", "latlab-t1-sensor")
    assert asyncio.run(clean_stale()) == []
    assert list(journals.iterdir()) == []


def test_a_process_of_a_killed_lab_is_ended_even_if_it_ignores_sigterm() -> None:
    async def leave_a_process() -> int:
        here = LocalMachine(MACHINE)
        bed = TestBed("t1", {MACHINE: here})
        script = "trap '' TERM; echo trapped; while :; do sleep 1; done"
        process = await bed.spawn(here, "a stubborn process", ("sh", "-c", script))
        await process.stdout.readline()
        bed._journal.close()
        words = await clean_stale()
        assert words == [f"run t1: {MACHINE}: a stubborn process"]
        return await process.wait()

    assert asyncio.run(leave_a_process()) == -signal.SIGKILL


def test_the_children_of_a_killed_lab_s_process_end_with_it_whatever_became_of_their_parent() -> None:
    async def leave_an_orphan() -> int:
        here = LocalMachine(MACHINE)
        bed = TestBed("t1", {MACHINE: here})
        process = await bed.spawn(here, "a parent", ("setsid", "sh", "-c", "sleep 60 >&- 2>&- & echo $!"))
        said, _ = await process.communicate()
        assert alive(int(said))
        bed._journal.close()
        assert await clean_stale() == [f"run t1: {MACHINE}: a parent"]
        return int(said)

    assert not alive(asyncio.run(leave_an_orphan()))


@pytest.mark.parametrize("run_in", ["local", "netns"])
def test_a_process_whose_lab_was_killed_as_soon_as_it_began_is_ended(run_in: str, journals: Path) -> None:
    before = dump()
    pid = killed_with_its_process("bare", run_in)
    words = asyncio.run(clean_stale())
    assert f"run t1: {'sensor' if run_in == 'local' else MACHINE}: a server" in words
    assert not alive(pid)
    assert dump() == before
    assert list(journals.iterdir()) == []


@pytest.mark.parametrize("run_in", ["local", "netns"])
@pytest.mark.parametrize("what", ["step", "endless"])
def test_a_command_that_was_running_as_its_lab_was_killed_is_over_before_its_step_is_undone(
    what: str, run_in: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("latlab.testbed.undo.PASSING_POLLS", PASSING_POLLS if what == "step" else 5)
    before = dump()
    pid = killed_with_its_process(what, run_in)
    words = asyncio.run(clean_stale())
    assert ("run t1: sensor: a slow step" in words) == (what == "step")
    assert not alive(pid)
    assert dump() == before


@pytest.mark.parametrize("run_in", ["local", "netns"])
def test_a_load_s_tool_ends_with_its_lab(run_in: str) -> None:
    before = dump()
    pid = killed_with_its_process("load", run_in)
    deadline = time.monotonic() + PATIENCE_S
    while alive(pid):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    asyncio.run(clean_stale())
    assert dump() == before


def test_a_process_that_was_announced_and_never_began_is_nothing_to_undo(journals: Path) -> None:
    journal = Journal.create("old")
    journal.record_process(LocalMachine(MACHINE), "never begun", OURS)
    journal.close()
    assert asyncio.run(clean_stale()) == []
    assert list(journals.iterdir()) == []


SOMEBODY_ELSE_S: dict[str, dict[str, str]] = {
    "no mark": {},
    "another mark": {MARK: "fedcba9876543210"},
    "a longer mark": {MARK: f"{OURS}0"},
    "a variable that ends alike": {f"MY_{MARK}": OURS},
    "the mark within another variable": {"NOTE": f"see {MARK}={OURS}"},
    "the mark in a line of another variable": {"NOTE": f"see\n{MARK}={OURS}\n"},
}


@pytest.mark.parametrize("environment", SOMEBODY_ELSE_S.values(), ids=SOMEBODY_ELSE_S)
def test_a_process_that_does_not_carry_the_very_mark_is_left_alone(environment: dict[str, str]) -> None:
    argv = ["sh", "-c", "while :; do sleep 1; done", f"{MARK}={OURS}"]
    with subprocess.Popen(argv, env=os.environ | environment, start_new_session=True) as other:
        journal = Journal.create("old")
        journal.record_process(LocalMachine(MACHINE), "gone long ago", OURS)
        journal.close()
        assert asyncio.run(clean_stale()) == []
        assert other.poll() is None
        os.killpg(other.pid, signal.SIGKILL)


def test_a_line_torn_by_the_crash_is_passed_over_and_does_not_spoil_what_follows(journals: Path) -> None:
    run("ip", "link", "add", "other0", "type", "veth", "peer", "name", "other0p")
    journal = Journal.create("old")
    journal.record(LocalMachine(MACHINE), "failing", ("false",), None)
    journal.record(LocalMachine(MACHINE), "other", ("ip", "link", "del", "other0"), None)
    journal.close()
    path = journals / "old.jsonl"
    with path.open("a") as file:
        file.write('{"do":{"n":2,"undo":["rm')
    with pytest.raises(Exception, match="false"):
        asyncio.run(clean_stale())
    assert "other0" not in run("ip", "link")
    assert [json.loads(line) for line in path.read_text().splitlines()][-1] == {"undone": 1}


def test_a_record_that_a_full_disk_tore_is_taken_back_and_the_next_one_is_whole(journals: Path) -> None:
    journals.mkdir(exist_ok=True)
    run("mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", str(journals))
    journal = Journal.create("old")
    filler = journals / "filler"
    filler.write_bytes(bytes(8 << 10))
    with pytest.raises(LabError, match=r"No space left on device .*free space"):
        journal.record(LocalMachine(MACHINE), "too long", ("echo", "x" * (12 << 10)), None)
    filler.unlink()
    journal.record(LocalMachine(MACHINE), "short", ("true",), None)
    journal.close()
    assert asyncio.run(clean_stale()) == [f"run old: {MACHINE}: short"]
    assert list(journals.iterdir()) == []


def test_a_record_after_one_that_was_torn_on_the_same_line_is_undone(journals: Path) -> None:
    journal = Journal.create("old")
    with journal.path.open("a") as file:
        file.write('{"do":{"n":0,"undo":["rm","{\\"do\\":')
    journal.record(LocalMachine(MACHINE), "whole", ("true",), None)
    journal.close()
    assert asyncio.run(clean_stale()) == [f"run old: {MACHINE}: whole"]
    assert list(journals.iterdir()) == []


DAMAGED: dict[str, bytes] = {
    "no JSON": b"\xff\xfe\n",
    "a number": b"5\n",
    "a record without an undo": b'{"do":{"n":7,"host":{},"title":"t"}}\n',
    "an undo that is no command": b'{"do":{"n":7,"host":{},"title":"t","undo":"rm -r /","present":null}}\n',
    "a host that is none": b'{"do":{"n":7,"host":5,"title":"t","undo":["true"],"present":null}}\n',
    "another format": b'{"format":"latlab.journal/9"}\n',
    "brackets without end": b"[" * 100_000 + b"\n",
}


@pytest.mark.parametrize("line", DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_journal_keeps_nothing_else_from_being_undone_and_is_named(line: bytes, journals: Path) -> None:
    for name in ("damaged", "whole"):
        journal = Journal.create(name)
        journal.record(LocalMachine(MACHINE), f"what {name} says", ("true",), None)
        journal.close()
    with (journals / "damaged.jsonl").open("ab") as file:
        file.write(line)
    with pytest.raises(LabError, match=r"damaged\.jsonl: line 3 is not a record of latlab\.journal/1"):
        asyncio.run(clean_stale())
    assert [path.name for path in journals.iterdir()] == ["damaged.jsonl"]
    (left,) = stale_journals()
    assert left.pending() == []
    left.close()
    (said,) = asyncio.run(clean_stale(leave_unreached=True))
    assert "undo those of these lines manually, then delete the file" in said


NO_JOURNALS: dict[str, tuple[Callable[[Path], None], str]] = {
    "a link": (lambda path: path.symlink_to("/etc/passwd"), "cannot open the journal"),
    "a folder": (lambda path: path.mkdir(), "it is a folder, a pipe or a device"),
    "a pipe": (os.mkfifo, "it is a folder, a pipe or a device"),
}


@pytest.mark.parametrize("kind", NO_JOURNALS)
def test_a_journal_that_cannot_be_opened_keeps_no_other_from_being_undone(kind: str, journals: Path) -> None:
    make, said = NO_JOURNALS[kind]
    journal = Journal.create("whole")
    make(journals / "another.jsonl")
    journal.record(LocalMachine(MACHINE), "whole", ("true",), None)
    journal.close()
    with pytest.raises(LabError, match=rf"another\.jsonl: .*{said}"):
        asyncio.run(clean_stale())
    assert [path.name for path in journals.iterdir()] == ["another.jsonl"]


def test_the_journal_of_a_living_run_is_not_stale() -> None:
    living = Journal.create("living")
    living.record(LocalMachine(MACHINE), "mine", ("true",), None)
    assert stale_journals() == []
    living.close()
    assert [journal.run for journal in stale_journals()] == ["living"]


def test_the_undo_is_on_disk_before_the_step_is_done(journals: Path) -> None:
    assert lab_killed("before", 1)
    lines = [json.loads(line) for line in (journals / "t1.jsonl").read_text().splitlines()]
    assert lines[1]["do"]["undo"][-1] == "latlab-t1-sensor"
    assert not os.path.exists("/run/netns/latlab-t1-sensor")
    asyncio.run(clean_stale())


def test_what_still_runs_in_a_dead_lab_s_namespace_does_not_keep_it_alive() -> None:
    assert lab_killed("after", 1)
    name = "latlab-t1-sensor"
    with subprocess.Popen(["ip", "netns", "exec", name, "sleep", "60"]) as inside:
        while "sleep" not in Path(f"/proc/{inside.pid}/comm").read_text():
            pass
        asyncio.run(clean_stale())
        assert inside.wait() == -signal.SIGKILL
    assert name not in dump()
