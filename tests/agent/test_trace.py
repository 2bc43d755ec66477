"""What tracepoints show is recorded as it was asked for, with all that was lost counted, and nothing is left behind."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from latlab.analysis.interrupt_way import breakdown, packets_passage, timers_passage
from latlab.analysis.interrupts import LOST, SWITCH, WAKING
from latlab.testbed.agent_binary import find_agent
from support.agent.bed import Bed
from support.agent.process import Agent, tai_ns
from support.agent.streams import Measurement, Stream, recording
from support.agent.timers import over, timer_spec
from support.agent.traces import NET_RX, THREADS, Traced, finished, trace_spec, tracing
from support.busy import Napping
from support.machine import run

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif("tracefs" not in Path("/proc/filesystems").read_text(), reason="this kernel has no tracefs"),
]

UNPRIVILEGED = ("setpriv", "--bounding-set", "-sys_admin,-perfmon")
OTHERS_PIDS = ("unshare", "--pid", "--fork", "--mount-proc")
NOT_OF_X86 = "kvm:vgic_update_irq_pending"


def assert_all_recorded(traced: Traced) -> None:
    """Every event that the kernel gave is a row, in order on each CPU, and it lost none."""
    events = traced.rows.filter(pl.col("event") != LOST)
    counted = {cpu["cpu"]: cpu["events"] for cpu in traced.done["cpus"] if cpu["events"]}
    assert dict(events.group_by("cpu").len().iter_rows()) == counted
    assert (traced.done["events"], traced.done["lost"], traced.done["ring_full"]) == (events.height, 0, 0)
    for rows in events.partition_by("cpu"):
        assert rows["tai_ns"].is_sorted()


def test_each_packets_way_to_its_reader_is_reported(bed: Bed, tmp_path: Path) -> None:
    measurement = Measurement(bed, tmp_path / "cell", [Stream(count=300)])
    reader = next(event for event in measurement.listener.events if event["event"] == "ready")["realtime"]["tid"]
    with tracing(trace_spec(tmp_path, threads=[reader])) as agent:
        agent.until("ready")
        measurement.begin()
        packets = measurement.end().packets
        traced = finished(agent, tmp_path)
    assert_all_recorded(traced)
    assert set(traced.rows.filter(pl.col("event") == WAKING)["subject"]) == {reader}
    found, told = packets_passage(packets.sort("arrival"), traced.rows, reader)
    # A reader that is still busy with the packet before is not woken: on a loaded machine some are.
    woken = told["why"].is_null().to_numpy()
    assert woken.sum() > 200
    ends = [found.stops.index(name) for name in ("rx_soft", "rx_user")]
    assert found.passed[:, ends].all()
    assert (found.interval_ns >= 0).all()
    between_ns = found.at_ns[:, ends[1]] - found.at_ns[:, ends[0]]
    assert between_ns.tolist() == (packets["rx_user_tai_ns"] - packets["rx_soft_tai_ns"]).to_list()
    # Between namespaces a packet waits in a backlog, for a softirq that its sender has asked for; one that was at work
    # already takes it as well.
    backlog = found.stops.index("backlog")
    assert found.passed[woken, backlog].mean() > 0.9
    assert told["irq_tai_ns"].null_count() == told.height
    document = breakdown(found, told, traced.tasks).document()
    assert document["told"] == int(woken.sum())
    assert "latlab-agent" in {one["comm"] for one in document["raised_by"]}


def test_a_timers_interrupt_and_what_it_interrupted_is_reported(tmp_path: Path) -> None:
    events = ["irq_vectors:local_timer_entry", "irq_vectors:local_timer_exit", *THREADS]
    if os.uname().machine != "x86_64":
        events[:2] = ["irq:irq_handler_entry", "irq:irq_handler_exit"]
    spec = timer_spec(tmp_path, trace=True)
    timer = Agent((), "timer", spec)
    try:
        thread = timer.until("ready")["realtime"]["tid"]
        with tracing(trace_spec(tmp_path, events=events, threads=[thread])) as agent:
            agent.until("ready")
            instants = over(timer, spec, timer.begin()).rows.filter(~pl.col("overdue"))
            traced = finished(agent, tmp_path)
    finally:
        timer.kill()
    assert_all_recorded(traced)
    names = {"due_tai_ns": "wake_due_tai_ns", "woke_tai_ns": "wake_tai_ns"}
    found, told = timers_passage(instants.rename(names), traced.rows, thread)
    # One whose time came before the thread had gone to sleep wakes no thread.
    assert told["why"].null_count() > 0.9 * told.height > 0
    assert (found.interval_ns >= 0).all()
    assert found.whole_ns.tolist() == instants["late_ns"].to_list()
    # The timer's agent has it from the timer's own clock, read in that handler.
    both = pl.DataFrame({"trace": told["irq_tai_ns"], "own": instants["irq_tai_ns"]}).drop_nulls()
    assert both.height > 0.9 * told.height
    assert (both["own"] >= both["trace"]).all()
    assert told["interrupted"].null_count() < told.height


def test_only_what_was_asked_for_is_recorded(tmp_path: Path) -> None:
    with Napping() as naps, tracing(trace_spec(tmp_path, events=[*THREADS], threads=[naps.pid], cpus=[0])) as agent:
        ready = agent.until("ready")
        naps.takes(100)
        naps.takes(100, cpu=0)
        traced = finished(agent, tmp_path)
    assert_all_recorded(traced)
    assert traced.rows.height > 0
    assert set(traced.rows["cpu"]) == {0}
    woken = traced.rows.filter(pl.col("event") == WAKING)
    assert set(woken["subject"]) == {naps.pid}
    switched = traced.rows.filter(pl.col("event") == SWITCH)
    assert ((switched["subject"] == naps.pid) | (switched["pid"] == naps.pid)).all()
    assert traced.rows.height == woken.height + switched.height
    assert ready["events"][0] == {
        "event": "sched:sched_waking",
        "subject": "pid",
        "detail": "target_cpu",
        "filter": f"pid == {naps.pid}",
    }
    assert (ready["clock"], ready["absent"]) == ("CLOCK_TAI", [])


def test_instants_are_of_clock_tai(tmp_path: Path) -> None:
    with Napping() as naps, tracing(trace_spec(tmp_path, events=list(THREADS), threads=[naps.pid])) as agent:
        before = tai_ns()
        agent.until("ready")
        naps.takes(100)
        traced = finished(agent, tmp_path)
        after = tai_ns()
    assert before <= min(traced.rows["tai_ns"]) <= max(traced.rows["tai_ns"]) <= after


def test_threads_are_named(tmp_path: Path) -> None:
    with Napping() as naps, tracing(trace_spec(tmp_path, events=[*NET_RX, *THREADS], softirqs=None)) as agent:
        agent.until("ready")
        naps.takes(100)
        name = Path(f"/proc/{naps.pid}/comm").read_text().strip()
        traced = finished(agent, tmp_path)
    known = {row["pid"]: row for row in traced.tasks.to_dicts()}
    assert (known[naps.pid]["comm"], known[naps.pid]["kernel"]) == (name, False)
    assert any(row["kernel"] for row in known.values())
    named = set(traced.rows["pid"]) | set(traced.rows.filter(pl.col("event").is_in([WAKING, SWITCH]))["subject"])
    assert named - {0} == set(known)
    assert traced.tasks.height == len(known)


def test_an_overrun_is_reported_with_how_many(tmp_path: Path) -> None:
    with Napping() as naps, tracing(trace_spec(tmp_path, events=list(THREADS), buffer_kib=4)) as agent:
        agent.until("ready")
        agent.signal(signal.SIGSTOP)
        agent.wait_until_stopped()
        naps.takes(2_000)
        agent.signal(signal.SIGCONT)
        traced = finished(agent, tmp_path)
    lost = traced.rows.filter(pl.col("event") == LOST)
    assert traced.done["lost"] > 0
    assert traced.done["lost"] == sum(cpu["lost"] for cpu in traced.done["cpus"])
    # A page that is full to the brim has no room for how many were lost before it: its row stands without a number.
    counted = lost["subject"].drop_nulls()
    assert lost.height > 0
    assert (counted > 0).all()
    if counted.len() == lost.height:
        assert counted.sum() == traced.done["lost"]
    else:
        assert counted.sum() < traced.done["lost"]
    assert traced.done["events"] == traced.rows.height - lost.height
    assert traced.done["ring_full"] == 0


def test_all_that_the_kernel_does_not_have_is_named_with_what_to_do(tmp_path: Path) -> None:
    if os.uname().machine != "x86_64":
        pytest.skip("this machine has the tracepoint of arm64")
    with tracing(trace_spec(tmp_path, events=[NOT_OF_X86, "sched:sched_waking"])) as agent:
        assert agent.ended() == 1
        (error,) = agent.events
    assert error["event"] == "error"
    assert f"{NOT_OF_X86} (when an interrupt is pending for a guest (arm64))" in error["what"]
    assert "sched_waking" not in error["what"]
    assert "leave it out" in error["remedy"]


def test_what_the_kernel_does_not_have_is_left_out_where_that_is_asked_for(tmp_path: Path) -> None:
    if os.uname().machine != "x86_64":
        pytest.skip("this machine has the tracepoint of arm64")
    spec = trace_spec(tmp_path, events=[NOT_OF_X86, "sched:sched_waking"], absent="skip")
    with tracing(spec) as agent:
        ready = agent.until("ready")
        finished(agent, tmp_path)
    assert [one["event"] for one in ready["absent"]] == [NOT_OF_X86]
    assert [one["event"] for one in ready["events"]] == ["sched:sched_waking"]
    with tracing(spec | {"events": [NOT_OF_X86]}) as agent:
        assert agent.ended() == 1


def test_without_the_privilege_it_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    with tracing(trace_spec(tmp_path), UNPRIVILEGED) as agent:
        assert agent.ended() == 1
        (error,) = agent.events
    assert (error["event"], error["errno"]) == ("error", 1)
    assert "CAP_SYS_ADMIN" in error["remedy"]


def test_threads_that_have_other_numbers_in_the_kernel_are_not_taken_for_them(tmp_path: Path) -> None:
    with tracing(trace_spec(tmp_path, threads=[1]), OTHERS_PIDS) as agent:
        assert agent.ended() == 1
        (error,) = agent.events
    assert error["where"] == "threads"
    with Napping() as naps, tracing(trace_spec(tmp_path, events=list(THREADS)), OTHERS_PIDS) as agent:
        agent.until("ready")
        naps.takes(10)
        traced = finished(agent, tmp_path)
    assert traced.tasks["comm"].null_count() == traced.tasks.height > 0


def instances() -> set[str]:
    """The kernel's tracing instances that are agents'."""
    script = "T=/sys/kernel/tracing; mountpoint -q $T || mount -t tracefs tracefs $T; ls $T/instances"
    return {name for name in run("unshare", "--mount", "sh", "-c", script).split() if name.startswith("latlab-")}


def test_it_leaves_nothing_in_the_kernel_and_what_a_killed_one_left_is_removed(tmp_path: Path) -> None:
    with tracing(trace_spec(tmp_path)) as agent:
        agent.until("ready")
        assert f"latlab-{agent.pid}" in instances()
        finished(agent, tmp_path)
        assert f"latlab-{agent.pid}" not in instances()
    with tracing(trace_spec(tmp_path)) as agent:
        agent.until("ready")
        agent.signal(signal.SIGKILL)
        agent.ended()
        assert f"latlab-{agent.pid}" in run(str(find_agent()), "timer", "--clear-traces").split()
        assert f"latlab-{agent.pid}" not in instances()


def test_it_ends_with_its_lab_and_its_recordings_are_whole(tmp_path: Path) -> None:
    with tracing(trace_spec(tmp_path)) as agent:
        agent.until("ready")
        agent.until("progress")
        agent.hang_up()
        agent.until("done")
        assert agent.ended() == 0
    for table in ("trace", "tasks", "clocks"):
        assert recording(tmp_path, f"trace-ecu.{table}").complete


@pytest.mark.parametrize(
    ("changes", "where"),
    [({"events": []}, "events"), ({"events": ["irq:none"]}, "events[0]"), ({"threads": []}, "threads")],
)
def test_what_cannot_be_asked_for_is_named(tmp_path: Path, changes: dict[str, Any], where: str) -> None:
    with tracing(trace_spec(tmp_path, **changes)) as agent:
        assert agent.ended() == 1
        (error,) = agent.events
    assert (error["event"], error["where"]) == ("error", where)
