"""Real-time settings: those asked for are in force on the thread that measures, and what cannot be is reported."""

from __future__ import annotations

import os
import re
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest

from support.agent.bed import Bed
from support.agent.process import Agent, tai_ns
from support.agent.ptp import Ptp4l
from support.agent.streams import ECU, MS, ORDINARY, SENSOR, Stream, listen_spec, new_run_id, talk_spec
from support.agent.timers import timer_spec

pytestmark = pytest.mark.real

ASKED = {"fifo": 42, "cpus": [0], "lock_memory": True, "cpu_dma_latency_us": None, "timer_slack_ns": 1}
NO_NICE = ("setpriv", "--bounding-set", "-sys_nice")
NO_LOCK = ("prlimit", "--memlock=65536:65536", "setpriv", "--bounding-set", "-ipc_lock")
STREAM = Stream(period_ns=MS, count=3_600_000)
SAMPLES = 400


def clock_spec(folder: Path) -> dict[str, Any]:
    """Of one that asks, and is not answered."""
    ends = {"source": f"{SENSOR}:5600", "peer": f"{ECU}:5600", "period_ns": MS, "count": STREAM.count}
    recording = {"run_id": new_run_id(), "recording": str(folder / "clock")}
    return {"role": "initiator", **ends, **recording, "realtime": ASKED}


def ptp_spec(folder: Path, observed: Path) -> dict[str, Any]:
    asked = {"socket": str(observed), "domain": 0, "transport_specific": 0, "period_ns": MS, "count": STREAM.count}
    recording = {"run_id": new_run_id(), "recording": str(folder / "ptp")}
    return {**asked, "clock": None, **recording, "realtime": ASKED}


def spec(verb: str, folder: Path, **realtime: Any) -> dict[str, Any]:
    make = {"talk": talk_spec, "listen": listen_spec}[verb]
    return make(new_run_id(), folder, STREAM, realtime=ORDINARY | realtime)


def status(path: str, field: str) -> int:
    found = re.search(rf"^{field}:\s+(\d+)", Path(path).read_text(), re.MULTILINE)
    assert found
    return int(found[1])


def error_of(agent: Agent) -> dict[str, Any]:
    """The one event of an agent that could not begin."""
    assert agent.ended() == 1
    (event,) = agent.events
    assert event["event"] == "error"
    return event


@pytest.mark.parametrize(("verb", "namespace"), [("talk", "sensor"), ("listen", "ecu")])
def test_what_was_asked_for_is_in_force_on_the_measuring_thread_and_only_there(
    bed: Bed, tmp_path: Path, verb: str, namespace: str
) -> None:
    runs_as_asked(bed.agent(namespace, verb, spec(verb, tmp_path, **ASKED)))


def test_a_clock_is_compared_by_the_measuring_thread_and_recorded_by_another(bed: Bed, tmp_path: Path) -> None:
    runs_as_asked(bed.agent("sensor", "clock", clock_spec(tmp_path)))


def test_a_ptp4l_is_observed_by_the_measuring_thread_and_recorded_by_another(bed: Bed, tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="ptp") as folder:
        clock = Ptp4l(Path(folder), "ecu", "sensor")
        try:
            clock.until(lambda _: True)
            runs_as_asked(bed.agent("ecu", "ptp", ptp_spec(tmp_path, clock.socket)))
        finally:
            clock.kill()


@pytest.mark.parametrize("trace", [False, "auto"])
def test_instants_are_waited_for_by_the_measuring_thread_and_recorded_by_another(
    bed: Bed, tmp_path: Path, trace: bool | str
) -> None:
    runs_as_asked(bed.agent("sensor", "timer", timer_spec(tmp_path, realtime=ASKED, trace=trace)))


def runs_as_asked(agent: Agent) -> None:
    """Nothing; one thread of the agent's runs as ASKED, and each of the others as any thread does."""
    said = agent.until("ready")["realtime"]
    hot = agent.hot_thread()
    assert os.sched_getparam(hot).sched_priority == 42
    assert os.sched_getaffinity(hot) == {0}
    assert int(Path(f"/proc/{hot}/timerslack_ns").read_text()) in (0, 1)  # under SCHED_FIFO the kernel says 0
    assert status(f"/proc/{agent.pid}/status", "VmLck") > 0
    assert said == {
        "tid": hot,
        "policy": "SCHED_FIFO",
        "priority": 42,
        "cpus": [0],
        "memory_locked": True,
        "cpu_dma_latency_us": None,
        "timer_slack_ns": said["timer_slack_ns"],
        "problems": [],
    }
    others = [tid for tid in agent.threads() if tid != hot]
    assert {os.sched_getscheduler(tid) for tid in others} == {os.SCHED_OTHER}
    assert all(os.sched_getaffinity(tid) == os.sched_getaffinity(0) for tid in others)


def test_what_was_not_asked_for_is_left_as_it_is(bed: Bed, tmp_path: Path) -> None:
    agent = bed.agent("ecu", "listen", spec("listen", tmp_path, timer_slack_ns=None))
    said = agent.until("ready")["realtime"]
    assert (said["policy"], said["memory_locked"]) == ("SCHED_OTHER", False)
    assert set(said["cpus"]) == os.sched_getaffinity(0)
    assert status(f"/proc/{agent.pid}/status", "VmLck") == 0


REFUSED: dict[str, tuple[tuple[str, ...], dict[str, Any], str]] = {
    "a priority without the privilege": (NO_NICE, {"fifo": 42}, "realtime.fifo 42"),
    "memory that may not be locked": (NO_LOCK, {"lock_memory": True}, "realtime.lock_memory"),
    "a CPU that does not exist": ((), {"cpus": [4095]}, "realtime.cpus [4095]"),
}


@pytest.mark.parametrize(("before", "realtime", "where"), REFUSED.values(), ids=REFUSED)
@pytest.mark.parametrize("verb", ["talk", "listen"])
def test_a_setting_that_is_refused_ends_the_agent_before_it_sends_anything(
    bed: Bed, tmp_path: Path, verb: str, before: tuple[str, ...], realtime: dict[str, Any], where: str
) -> None:
    namespace = {"talk": "sensor", "listen": "ecu"}[verb]
    error = error_of(bed.agent(namespace, verb, spec(verb, tmp_path, **realtime), before=before))
    assert error["where"] == where
    assert error["what"] and error["remedy"] and error["errno"]
    assert bed.sent("sensor", "ecu") == 0


def test_in_steady_state_the_talker_sleeps_only_for_its_next_packet(bed: Bed, tmp_path: Path) -> None:
    agent = bed.agent("sensor", "talk", spec("talk", tmp_path, fifo=42, lock_memory=True))
    agent.until("ready")
    agent.begin()
    time.sleep(0.2)
    path = f"/proc/{agent.hot_thread()}"
    begun, before = tai_ns(), status(f"{path}/status", "voluntary_ctxt_switches")
    calls = set()
    for _ in range(SAMPLES):
        calls.add(Path(f"{path}/syscall").read_text().split()[0])
        time.sleep(0.001)
    slept = status(f"{path}/status", "voluntary_ctxt_switches") - before
    # Once a packet, at most; a lock, a page fault from disk or a print would show as more, or as another call.
    assert 0 < slept <= (tai_ns() - begun) // STREAM.period_ns + 2
    asleep = calls - {"running"}
    assert len(asleep) == 1, f"system calls {asleep}"
