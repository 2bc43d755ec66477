"""Between an instant and the thread that comes to it the kernel's timer interrupt is reported, where it can be."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from latlab.testbed.agent_binary import find_agent
from support.agent.process import Agent, tai_ns
from support.agent.streams import MS, ORDINARY, recording
from support.agent.timers import Waited, assert_all_recorded, over, timer_spec, waited
from support.machine import run

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif("tracefs" not in Path("/proc/filesystems").read_text(), reason="this kernel has no tracefs"),
]

WAYS = ("nanosleep", "timerfd")
UNPRIVILEGED = ("setpriv", "--bounding-set", "-sys_admin,-perfmon")

Start = Callable[..., Agent]


@pytest.fixture
def timer() -> Iterator[Start]:
    """Starts agents, which end with the test. before: a command that starts it, as setpriv."""
    started = []

    def start(spec: Any, before: tuple[str, ...] = ()) -> Agent:
        started.append(Agent(before, "timer", spec))
        return started[-1]

    yield start
    for agent in started:
        agent.kill()


def traced_spec(folder: Path, **changes: Any) -> dict[str, Any]:
    folder.mkdir(exist_ok=True)
    return timer_spec(folder, trace=True, **changes)


def assert_every_interrupt_told(run: Waited) -> None:
    """Every instant a timer was set for has an interrupt, not before it, and not after the thread woke."""
    assert_all_recorded(run)
    assert run.ready["timer"]["traced"] and run.ready["trace_problem"] is None
    waited_for = run.rows.filter(~pl.col("overdue"))
    assert run.done["trace_lost"] == waited_for["irq_tai_ns"].null_count() == 0
    assert (waited_for["irq_tai_ns"] >= waited_for["due_tai_ns"]).all()
    assert (waited_for["irq_tai_ns"] <= waited_for["woke_tai_ns"]).all()
    assert run.rows.filter("overdue")["irq_tai_ns"].null_count() == run.done["overdue"]
    assert waited_for.height > 0


@pytest.mark.parametrize("how", WAYS)
def test_the_interrupt_is_between_the_instant_and_the_waking(timer: Start, tmp_path: Path, how: str) -> None:
    spec = traced_spec(tmp_path, how=how)
    assert_every_interrupt_told(waited(timer(spec), spec))


def test_it_is_told_of_a_real_time_thread_on_its_cpu(timer: Start, tmp_path: Path) -> None:
    realtime = {"fifo": 42, "cpus": [0], "lock_memory": True, "cpu_dma_latency_us": None, "timer_slack_ns": 1}
    spec = traced_spec(tmp_path, realtime=realtime)
    assert_every_interrupt_told(waited(timer(spec), spec))


def test_a_timer_with_slack_is_reported_by_its_instant(timer: Start, tmp_path: Path) -> None:
    # Slack lets the kernel run it later than the instant: it is armed for a range, which begins there.
    spec = traced_spec(tmp_path, realtime=ORDINARY | {"timer_slack_ns": 400_000})
    found = waited(timer(spec), spec)
    assert_every_interrupt_told(found)
    assert found.ready["realtime"]["timer_slack_ns"] == 400_000


def test_each_finds_its_own_among_others_timers(timer: Start, tmp_path: Path) -> None:
    # Many sleepers at once, and timers for the very same instants.
    quiet = threading.Event()

    def sleep() -> None:
        while not quiet.is_set():
            time.sleep(0.000_5)

    sleepers = [threading.Thread(target=sleep) for _ in range(4)]
    for sleeper in sleepers:
        sleeper.start()
    try:
        specs = [traced_spec(tmp_path / f"{number}", how=how) for number, how in enumerate((*WAYS, *WAYS))]
        agents = [timer(spec) for spec in specs]
        for agent in agents:
            agent.until("ready")
        start = tai_ns() + 100 * MS
        for agent in agents:
            agent.tell(start_tai_ns=start)
        for agent, spec in zip(agents, specs, strict=True):
            assert_every_interrupt_told(over(agent, spec, start))
    finally:
        quiet.set()
        for sleeper in sleepers:
            sleeper.join()


def test_after_it_was_held_up_the_instants_that_had_passed_have_no_interrupt(timer: Start, tmp_path: Path) -> None:
    spec = traced_spec(tmp_path, count=600)
    agent = timer(spec)
    agent.until("ready")
    start = agent.begin()
    while tai_ns() < start + 100 * MS:
        time.sleep(0.005)
    agent.signal(signal.SIGSTOP)
    agent.wait_until_stopped()
    time.sleep(0.3)
    agent.signal(signal.SIGCONT)
    found = over(agent, spec, start)
    assert_every_interrupt_told(found)
    assert found.done["overdue"] >= 298


def test_a_long_wait_before_the_start_costs_no_interrupt(timer: Start, tmp_path: Path) -> None:
    # What another's timers tell meanwhile is more than fits into the memory; it is emptied before the first instant.
    spec = traced_spec(tmp_path / "waits")
    agent = timer(spec)
    agent.until("ready")
    (tmp_path / "other").mkdir()
    other = timer_spec(tmp_path / "other", period_ns=50_000, count=30_000)
    waited(timer(other), other)
    assert_every_interrupt_told(over(agent, spec, agent.begin()))


def test_it_is_reported_where_nothing_has_mounted_tracefs(timer: Start, tmp_path: Path) -> None:
    # As in a network namespace, whose /sys is another one.
    script = 'mount -t tmpfs tmpfs /sys/kernel && exec "$@"'
    spec = traced_spec(tmp_path)
    agent = timer(spec, before=("unshare", "--mount", "sh", "-c", script, "sh"))
    assert_every_interrupt_told(waited(agent, spec))


@pytest.mark.alone
def test_rows_that_a_ring_has_no_room_for_are_counted_and_their_interrupts_not_missed(
    timer: Start, tmp_path: Path
) -> None:
    # A thread that is behind waits for room, and so is behind again: one that is from the start loses nothing. Few are.
    ring_full = 0
    for folder in (tmp_path / str(attempt) for attempt in range(10)):
        spec = traced_spec(folder, period_ns=1_000_000, count=200, ring_records=1)
        found = waited(timer(spec), spec)
        clocks = recording(folder, "timer-irq.clocks").table.height
        assert found.done["recorded"] + found.done["ring_full"] == spec["count"] + clocks
        waited_for = found.rows.filter(~pl.col("overdue"))
        assert found.done["trace_lost"] == waited_for["irq_tai_ns"].null_count() == 0
        assert (waited_for["irq_tai_ns"] <= waited_for["woke_tai_ns"]).all()
        if ring_full := found.done["ring_full"]:
            break
    assert ring_full > 0


def instances() -> set[str]:
    """The kernel's tracing instances that are agents'."""
    script = "T=/sys/kernel/tracing; mountpoint -q $T || mount -t tracefs tracefs $T; ls $T/instances"
    return {name for name in run("unshare", "--mount", "sh", "-c", script).split() if name.startswith("latlab-")}


def test_it_leaves_nothing_in_the_kernel_and_removes_what_a_killed_one_left(timer: Start, tmp_path: Path) -> None:
    killed, living = timer(traced_spec(tmp_path / "killed")), timer(traced_spec(tmp_path / "living"))
    for agent in (killed, living):
        agent.until("ready")
    assert instances() >= {f"latlab-{killed.pid}", f"latlab-{living.pid}"}
    killed.signal(signal.SIGKILL)
    killed.ended()
    spec = traced_spec(tmp_path / "next")
    agent = timer(spec)
    agent.until("ready")
    found = instances()
    assert f"latlab-{killed.pid}" not in found
    assert found >= {f"latlab-{living.pid}", f"latlab-{agent.pid}"}
    # The living one has been left alone: it gets every interrupt, as the next one does.
    assert_every_interrupt_told(over(agent, spec, agent.begin()))
    assert_every_interrupt_told(over(living, traced_spec(tmp_path / "living"), living.begin()))
    assert not instances() & {f"latlab-{one.pid}" for one in (killed, living, agent)}


def test_what_a_killed_one_left_is_removed_when_it_is_asked_for(timer: Start, tmp_path: Path) -> None:
    killed, living = timer(traced_spec(tmp_path / "killed")), timer(traced_spec(tmp_path / "living"))
    for agent in (killed, living):
        agent.until("ready")
    killed.signal(signal.SIGKILL)
    killed.ended()
    said = run(str(find_agent()), "timer", "--clear-traces").split()
    assert f"latlab-{killed.pid}" in said
    assert f"latlab-{living.pid}" not in said
    found = instances()
    assert f"latlab-{killed.pid}" not in found
    assert f"latlab-{living.pid}" in found


def test_a_trace_that_may_not_be_read_is_an_error_that_says_what_to_do(timer: Start, tmp_path: Path) -> None:
    agent = timer(traced_spec(tmp_path), before=UNPRIVILEGED)
    assert agent.ended() == 1
    (error,) = agent.events
    assert (error["event"], error["errno"]) == ("error", 1)
    assert error["where"] and error["what"]
    assert "CAP_SYS_ADMIN" in error["remedy"]


def test_where_it_is_wanted_only_if_it_can_be_had_the_reason_is_reported_and_the_rest_goes_on(
    timer: Start, tmp_path: Path
) -> None:
    spec = traced_spec(tmp_path) | {"trace": "auto"}
    found = waited(timer(spec, before=UNPRIVILEGED), spec)
    assert_all_recorded(found)
    assert not found.ready["timer"]["traced"]
    problem = found.ready["trace_problem"]
    assert set(problem) == {"what", "where", "remedy", "errno"}
    assert "CAP_SYS_ADMIN" in problem["remedy"]
    assert found.rows["irq_tai_ns"].null_count() == spec["count"]
    assert found.done["trace_lost"] is None


def test_where_it_can_be_had_it_is(timer: Start, tmp_path: Path) -> None:
    spec = traced_spec(tmp_path) | {"trace": "auto"}
    assert_every_interrupt_told(waited(timer(spec), spec))
