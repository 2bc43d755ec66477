"""A machine over ssh where no program may be run, whose clock stands at 1970, or that has no agent: each is named."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest

from latlab.hosts import RemoteHost
from latlab.model.errors import LabError
from latlab.testbed.agent_binary import AGENT, find_agent
from latlab.testbed.machines.ssh import SshMachine
from latlab.testbed.site import Site
from latlab.testbed.ssh_steps import THE_TIME, agent_put, agent_runs, clock_shows_the_time
from latlab.testbed.step import Argv, Step
from support.machine import scenario

MOUNTED = 'mount -t tmpfs -o "$1" tmpfs "$2"; cp "$3" "$2/agent"; shift 3; exec "$@"'
STARTED_S = 90


def on_a_tmpfs(options: str, folder: Path, *command: str) -> str:
    """What the command prints where a tmpfs with those options is mounted on the folder, and our agent is in it."""
    argv = ("unshare", "--mount", "sh", "-ec", MOUNTED, "sh", options, str(folder), str(find_agent()), *command)
    return subprocess.run(argv, capture_output=True, text=True, check=True, timeout=60).stdout


def check_of(step: Step) -> tuple[Argv, str]:
    """What is asked there, and the right answer."""
    assert step.check
    return step.check.argv, step.check.expected


def judged(step: Step, said: str) -> str:
    """What the step makes of that answer."""
    assert step.check
    return step.check.read(said)


def test_a_folder_that_is_mounted_noexec_is_named_with_what_to_do(tmp_path: Path) -> None:
    step = agent_runs(RemoteHost("board1", "board1", agent=f"{tmp_path}/agent"))
    command, right = check_of(step)
    assert judged(step, on_a_tmpfs("exec", tmp_path, *command)) == right == AGENT
    with pytest.raises(LabError) as caught:
        judged(step, on_a_tmpfs("noexec", tmp_path, *command))
    assert caught.value.what == f"{tmp_path}/agent cannot be run: {tmp_path} is mounted noexec"
    assert caught.value.where == "board1"
    assert caught.value.remedy == f"`mount -o remount,exec {tmp_path}` there"


@pytest.mark.parametrize(
    ("architecture", "says"),
    [("armv7l", "which is 32-bit ARM"), ("aarch64_be", "which is big-endian"), ("armv7b", "which is big-endian")],
)
def test_a_board_without_an_agent_is_refused_before_anything_is_put_there(architecture: str, says: str) -> None:
    site = Site("t1", agent=str(find_agent()))
    first, *others = agent_put(RemoteHost("board1", "board1", agent="/var/lib/latlab/agents/agent"), site)
    assert first.do == () and check_of(first)[0] == ("uname", "-m")
    assert any(step.do for step in others)
    with pytest.raises(LabError) as caught:
        judged(first, f"{architecture}\n")
    assert f"it is {architecture}, {says}" in caught.value.what
    assert caught.value.where == "board1" and caught.value.remedy


def test_a_clock_that_stands_at_1970_is_a_finding_and_the_run_goes_on() -> None:
    step = clock_shows_the_time("board1")
    assert step.optional and step.do == ()
    found = judged(step, f"{STARTED_S}\n")
    assert found.startswith("1970-01-01 00:01:30 UTC, ")
    assert "s before here: set it, by chrony, ntpd or `date -s`" in found
    assert judged(step, f"{time.time() + 5:.0f}\n") == THE_TIME == check_of(step)[1]


def test_every_machine_over_ssh_is_asked_for_its_clock_and_tries_its_agent() -> None:
    made = scenario(
        {"board1": "ssh", "board2": "ssh"}, [{"ends": ["board1.eth0", "board2.eth0"], "subnet": "10.78.0.0/24"}]
    )
    steps = [step for step in SshMachine().steps(made, "board1", Site("t1")) if isinstance(step, Step)]
    titles = [step.title for step in steps]
    assert "the clock of board1 shows the time, to 60 s" in titles
    runs, folder = (next(n for n, one in enumerate(titles) if words in one) for words in ("can be run", "recordings"))
    assert runs < folder
