"""Where there is no tracefs a trace ends with what is missing, and a timer measures on if it may do without."""

from __future__ import annotations

import platform
import sys
from pathlib import Path
from typing import Any

import pytest

from latlab.testbed.agent_binary import find_agent
from support.agent.process import Agent
from support.agent.timers import Waited, assert_all_recorded, timer_spec, waited
from support.agent.traces import trace_spec, tracing
from support.machine import run

pytestmark = pytest.mark.real

ENODEV, ENOSYS = 19, 38
FSOPEN = 430
MOUNT = {"x86_64": 165, "aarch64": 40}[platform.machine()]
# A filter (seccomp(2)) has fsopen(2) and mount(2) fail with the errno that is the first argument, and allows all else.
REFUSING = f"""
import ctypes, os, struct, sys
failing = 0x00050000 | int(sys.argv[1])
code = [(0x20, 0, 0, 0), (0x15, 1, 0, {FSOPEN}), (0x15, 0, 1, {MOUNT}), (0x06, 0, 0, failing), (0x06, 0, 0, 0x7FFF0000)]
filter = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *one) for one in code))
program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(code), ctypes.addressof(filter)))
assert ctypes.CDLL(None).prctl(38, 1, 0, 0, 0) == 0 == ctypes.CDLL(None).prctl(22, 2, program)
os.execv(sys.argv[2], sys.argv[2:])
"""
COVERED = "mount -t tmpfs tmpfs /sys/kernel"
MOUNTED = "T=/sys/kernel/tracing; mountpoint -q $T || mount -t tracefs tracefs $T || true"
ERRNOS = (ENODEV, ENOSYS)
"""As in a kernel without tracefs, and in one before Linux 5.2."""


def refused(errno: int, place: str = COVERED) -> tuple[str, ...]:
    """What starts an agent that can mount no file system. place: what is done first to where tracefs is mounted."""
    mounts = ("unshare", "--mount", "sh", "-c", f'{place}\nexec "$@"', "sh")
    return (*mounts, sys.executable, "-c", REFUSING, str(errno))


def assert_told(problem: dict[str, Any], errno: int) -> None:
    """It says what is missing, where, and what to do."""
    told = {key: problem[key] for key in ("what", "where", "remedy", "errno")}
    assert (told["where"], told["errno"]) == ("tracefs", errno)
    assert told["what"].startswith("the kernel's tracepoints cannot be heard: fsopen tracefs")
    assert ("mount -t tracefs" if errno == ENOSYS else "CONFIG_EVENT_TRACING") in told["remedy"]
    # Privileges would not help.
    assert "CAP_SYS_ADMIN" not in told["remedy"]


def assert_refused(agent: Agent, errno: int) -> None:
    """The only word of the agent is the error."""
    assert agent.ended() == 1
    (error,) = agent.events
    assert error["event"] == "error"
    assert_told(error, errno)


@pytest.mark.parametrize("errno", ERRNOS)
@pytest.mark.parametrize("absent", ["error", "skip"])
def test_a_trace_is_one_error_whatever_may_be_left_out(tmp_path: Path, absent: str, errno: int) -> None:
    # Without tracefs there is no tracepoint that would be left.
    with tracing(trace_spec(tmp_path, absent=absent), refused(errno)) as agent:
        assert_refused(agent, errno)


@pytest.mark.parametrize("errno", ERRNOS)
def test_a_timer_that_is_to_be_traced_is_an_error(tmp_path: Path, errno: int) -> None:
    agent = Agent(refused(errno), "timer", timer_spec(tmp_path, trace=True))
    try:
        assert_refused(agent, errno)
    finally:
        agent.kill()


def measured(command: tuple[str, ...], spec: dict[str, Any]) -> Waited:
    """What came of a timer, started so."""
    agent = Agent(command, "timer", spec)
    try:
        return waited(agent, spec)
    finally:
        agent.kill()


@pytest.mark.parametrize("errno", ERRNOS)
@pytest.mark.parametrize("how", ["nanosleep", "timerfd"])
def test_a_timer_that_may_do_without_measures_and_says_why_it_has_no_trace(
    tmp_path: Path, how: str, errno: int
) -> None:
    spec = timer_spec(tmp_path, trace="auto", how=how)
    found = measured(refused(errno), spec)
    assert_all_recorded(found)
    problem = found.ready["trace_problem"]
    assert set(problem) == {"what", "where", "remedy", "errno"}
    assert_told(problem, errno)
    assert not found.ready["timer"]["traced"]
    assert found.rows["irq_tai_ns"].null_count() == spec["count"]
    assert found.done["trace_lost"] is None


def test_a_timer_that_asks_for_no_trace_has_no_problem(tmp_path: Path) -> None:
    spec = timer_spec(tmp_path)
    found = measured(refused(ENODEV), spec)
    assert_all_recorded(found)
    assert (found.ready["timer"]["traced"], found.ready["trace_problem"]) == (False, None)


def test_the_one_that_is_mounted_is_used_where_no_other_can_be(tmp_path: Path) -> None:
    spec = timer_spec(tmp_path, trace="auto")
    found = measured(refused(ENOSYS, MOUNTED), spec)
    assert_all_recorded(found)
    has = "tracefs" in Path("/proc/filesystems").read_text()
    assert found.ready["timer"]["traced"] == (found.ready["trace_problem"] is None) == has
    assert found.done["trace_lost"] == (0 if has else None)


def test_there_is_nothing_to_clear() -> None:
    assert run(*refused(ENODEV), str(find_agent()), "timer", "--clear-traces") == ""
