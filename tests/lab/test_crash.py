"""What a lab that was killed leaves, and that cleaning up takes all of it away and nothing else."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from lab_machine import dump, run

from latlab.host import MACHINE, LocalHost
from latlab.lab.apply import TestBed
from latlab.lab.journal import Journal, stale_journals
from latlab.lab.process import start_time
from latlab.lab.undo import clean_stale

pytestmark = [pytest.mark.real, pytest.mark.usefixtures("machine")]

KILLED_LAB = Path(__file__).with_name("killed_lab.py")


def lab_killed(when: str, at: int) -> bool:
    """Whether the lab was killed at that change; False when it had fewer."""
    lab = subprocess.run([sys.executable, KILLED_LAB, "t1", when, str(at)], capture_output=True, text=True)
    assert lab.returncode in (0, -signal.SIGKILL), lab.stderr
    return lab.returncode != 0


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_lab_killed_at_any_change_is_cleaned_up(when: str, journals: Path) -> None:
    run("ip", "netns", "add", "mininet-h1")
    before = dump()
    at = 0
    while lab_killed(when, at := at + 1):
        asyncio.run(clean_stale())
        assert dump() == before, f"killed {when} change {at}"
        assert list(journals.iterdir()) == []
    assert dump() == before
    assert at > 10


def test_cleaning_up_says_what_it_undid() -> None:
    assert lab_killed("after", 5)
    words = asyncio.run(clean_stale())
    assert words == [
        f"run t1: {MACHINE}: lay the link sensor.eth0 to ecu.lat0",
        f"run t1: {MACHINE}: make sensor's namespace",
    ]
    assert asyncio.run(clean_stale()) == []


def test_what_cannot_be_cleaned_stays_in_its_journal(journals: Path) -> None:
    journal = Journal.create("old")
    journal.record(LocalHost(MACHINE), "impossible", ("false",), None)
    journal.record(LocalHost(MACHINE), "possible", ("true",), None)
    journal.close()
    with pytest.raises(Exception, match="false"):
        asyncio.run(clean_stale())
    (left,) = stale_journals()
    assert [record.title for record in left.pending()] == ["impossible"]


def test_a_process_of_a_killed_lab_is_ended_even_if_it_ignores_sigterm() -> None:
    async def leave_a_process() -> int:
        here = LocalHost(MACHINE)
        bed = TestBed("t1", {MACHINE: here})
        script = "trap '' TERM; echo trapped; while :; do sleep 1; done"
        process = await here.spawn(("sh", "-c", script))
        assert process.stdout
        await process.stdout.readline()
        await bed.track(here, "a stubborn process", process)
        bed._journal.close()
        words = await clean_stale()
        assert words == [f"run t1: {MACHINE}: a stubborn process"]
        return await process.wait()

    assert asyncio.run(leave_a_process()) == -signal.SIGKILL


def test_a_pid_that_is_another_process_by_now_is_left_alone() -> None:
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as other:
        here = LocalHost(MACHINE)
        started = asyncio.run(start_time(here, other.pid))
        assert started is not None
        journal = Journal.create("old")
        journal.record_process(here, "gone long ago", other.pid, started - 1)
        journal.close()
        assert asyncio.run(clean_stale()) == []
        assert other.poll() is None
        other.kill()


def test_a_process_of_an_earlier_boot_is_left_alone(journals: Path) -> None:
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as other:
        here = LocalHost(MACHINE)
        started = asyncio.run(start_time(here, other.pid))
        assert started is not None
        journal = Journal.create("old")
        journal.record_process(here, "before the reboot", other.pid, started)
        journal.close()
        path = journals / "old.jsonl"
        path.write_text(path.read_text().replace(here.shared_kernel, "another-boot"))
        assert asyncio.run(clean_stale()) == []
        assert other.poll() is None
        other.kill()


def test_a_line_torn_by_the_crash_is_passed_over_and_does_not_spoil_what_follows(journals: Path) -> None:
    run("ip", "link", "add", "other0", "type", "veth", "peer", "name", "other0p")
    journal = Journal.create("old")
    journal.record(LocalHost(MACHINE), "failing", ("false",), None)
    journal.record(LocalHost(MACHINE), "other", ("ip", "link", "del", "other0"), None)
    journal.close()
    path = journals / "old.jsonl"
    with path.open("a") as file:
        file.write('{"do":{"n":2,"undo":["rm')
    with pytest.raises(Exception, match="false"):
        asyncio.run(clean_stale())
    assert "other0" not in run("ip", "link")
    assert [json.loads(line) for line in path.read_text().splitlines()][-1] == {"undone": 1}


def test_the_journal_of_a_living_run_is_not_stale() -> None:
    living = Journal.create("living")
    living.record(LocalHost(MACHINE), "mine", ("true",), None)
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
