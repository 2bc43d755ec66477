"""The load that is no traffic: what it does is counted, and it ends on request."""

from __future__ import annotations

import re
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from support.agent.bed import Bed
from support.agent.process import Agent, tai_ns
from support.agent.streams import ECU, SENSOR

pytestmark = pytest.mark.real

VIRTUAL = re.search(r"^flags\b.*\bhypervisor\b", Path("/proc/cpuinfo").read_text(), re.MULTILINE) is not None
SPEC: dict[str, Any] = {"what": "calls", "workers": 1, "duration_ns": 60_000_000_000, "realtime": {}}


def started(bed: Bed, **changes: Any) -> Agent:
    agent = bed.agent("ecu", "busy", SPEC | changes)
    agent.until("ready")
    agent.begin()
    return agent


def threads(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/task").iterdir()))


@pytest.mark.parametrize(
    "what",
    ["calls", pytest.param("exits", marks=pytest.mark.skipif(not VIRTUAL, reason="no hypervisor runs this machine"))],
)
def test_what_it_did_is_counted_over_the_time_it_took(bed: Bed, what: str) -> None:
    begun = time.monotonic()
    agent = started(bed, what=what, workers=2)
    time.sleep(0.3)
    assert threads(agent.pid) >= 4, "two that work, one that hears, one that watches"
    agent.tell(stop=True)
    done = agent.until("done")
    assert agent.ended() == 0
    assert done["what"] == what
    assert done["count"] > 0
    assert 100_000_000 < done["elapsed_ns"] < (time.monotonic() - begun) * 1e9
    assert done["per_s"] == pytest.approx(done["count"] * 1e9 / done["elapsed_ns"])
    assert (done["hypervisor"] is None) == (not VIRTUAL)


def test_it_ends_by_itself_when_its_time_is_over(bed: Bed) -> None:
    agent = bed.agent("ecu", "busy", SPEC | {"duration_ns": 50_000_000})
    agent.until("ready")
    start = agent.begin()
    assert agent.until("done")["count"] > 0
    assert tai_ns() >= start + 50_000_000
    assert agent.ended() == 0


def test_it_does_not_outlive_its_lab(bed: Bed) -> None:
    agent = started(bed)
    agent.hang_up()
    agent.until("done")
    assert agent.ended() == 0


def test_told_to_stop_before_it_began_it_has_done_nothing(bed: Bed) -> None:
    agent = bed.agent("ecu", "busy", SPEC)
    agent.until("ready")
    agent.tell(stop=True)
    done = agent.until("done")
    assert (done["count"], done["per_s"]) == (0, 0.0)


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"workers": 0}, "workers"),
        ({"workers": 65}, "workers"),
        ({"duration_ns": 0}, "duration_ns"),
        ({"what": "naps"}, "spec of busy, the first line of standard input"),
        ({"realtime": {"cpus": [1000]}}, "realtime.cpus [1000]"),
    ],
)
def test_what_cannot_be_done_is_one_error(bed: Bed, change: dict[str, Any], where: str) -> None:
    agent = bed.agent("ecu", "busy", SPEC | change)
    error = agent.until("error")
    assert error["where"] == where
    assert error["remedy"]
    assert agent.ended() == 1


SOURCE = {
    "role": "source",
    "source": f"{ECU}:0",
    "destination": f"{SENSOR}:9",
    "flows": 1,
    "size": 64,
    "rate_bps": 1_000_000,
    "priority": 0,
    "duration_ns": 10**9,
    "realtime": {},
}


@pytest.mark.parametrize("how", ["hang up", "SIGTERM", "stop"])
@pytest.mark.parametrize(("verb", "spec"), [("busy", SPEC), ("flood", SOURCE)], ids=["busy", "flood"])
def test_a_load_that_waits_for_its_start_ends_when_it_is_told_to(bed: Bed, verb: str, spec: Any, how: str) -> None:
    agent = bed.agent("ecu", verb, spec)
    agent.until("ready")
    agent.tell(start_tai_ns=tai_ns() + 3600 * 10**9)
    if how == "stop":
        agent.tell(stop=True)
    elif how == "SIGTERM":
        agent.signal(signal.SIGTERM)
    else:
        agent.hang_up()
    done = agent.until("done")
    assert agent.ended() == 0
    assert done.get("count", done.get("packets")) == 0
