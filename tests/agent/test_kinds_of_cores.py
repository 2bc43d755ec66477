"""A thread that may run on several kinds of cores records on which it ran, and no other does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.agent.process import Agent
from support.agent.streams import ORDINARY
from support.agent.timers import timer_spec, waited

CPUS = "/sys/devices/system/cpu"
ON = ("unshare", "--mount", "sh", "-ec", f'mount --bind "$0" {CPUS}; exec "$@"')


@pytest.fixture
def started() -> Iterator[list[Agent]]:
    """Agents that end with the test."""
    agents: list[Agent] = []
    yield agents
    for agent in agents:
        agent.kill()


def cores(folder: Path, capacities: dict[int, int]) -> Path:
    """A folder that describes CPUs as the kernel of a board with these capacities does."""
    for cpu, capacity in capacities.items():
        (folder / f"cpu{cpu}").mkdir(parents=True)
        (folder / f"cpu{cpu}" / "cpu_capacity").write_text(f"{capacity}\n")
    for name in ("online", "possible"):
        (folder / name).write_text(Path(CPUS, name).read_text())
    return folder


def said(started: list[Agent], folder: Path, capacities: dict[int, int], cpus: list[int]) -> list[dict[str, Any]]:
    """What a timer that may run on these CPUs of such a board said of its cores before its end."""
    spec = timer_spec(folder, realtime={**ORDINARY, "cpus": cpus})
    started.append(Agent((*ON, str(cores(folder / "cpus", capacities))), "timer", spec))
    run = waited(started[-1], spec)
    names = [event["event"] for event in run.events]
    assert names[-1] == "done"
    return run.said("cores")


def test_every_row_is_counted_on_the_cpu_it_was_recorded_on(started: list[Agent], tmp_path: Path) -> None:
    (found,) = said(started, tmp_path, {0: 446, 1: 1024}, [0, 1])
    assert set(found["rows"]) <= {"0", "1"}
    assert sum(found["rows"].values()) == 300


def test_cores_that_are_alike_are_not_watched(started: list[Agent], tmp_path: Path) -> None:
    assert said(started, tmp_path, {0: 1024, 1: 1024}, [0, 1]) == []


def test_a_thread_that_is_bound_to_one_kind_is_not_watched(started: list[Agent], tmp_path: Path) -> None:
    assert said(started, tmp_path, {0: 446, 1: 1024}, [0]) == []
