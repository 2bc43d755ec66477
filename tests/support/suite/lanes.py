"""Processes that run tests side by side: who has which CPU and which tests, and when one has the machine to itself."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path

import pytest
from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

LANE = os.environ.get("PYTEST_XDIST_WORKER", "")
"""The process, gw0 and so on; empty where there is only one."""
CPUS = sorted(os.sched_getaffinity(0))
LANES = min(len(CPUS), 4)
"""Lanes with a CPU each. One more, if it is there, takes what time these leave."""
COMPUTING = tuple(
    f"tests/{folder}/"
    for folder in (
        "analysis",
        "cli",
        "docs",
        "evaluation",
        "imports",
        "recordings",
        "report",
        "result",
        "scenario",
        "synthetic",
        "tools",
    )
)
"""Tests that send nothing and start no machine: when they run, and how fast, is all one."""
UNHURRIED = ("tests/packages/", "tests/images/test_building.py")
"""Tests that are whole minutes at work in one file, and wait for nothing but that."""
EMULATING = tuple(
    f"tests/{beginning}"
    for beginning in (
        *("boards/", "emulated/", "faults/", "guest/", "guest_ssh/", "images/"),
        *("whole/test_guests_", "whole/test_irq_", "whole/test_ready_made_", "whole/test_tools_in_"),
    )
)
"""Tests that keep a CPU busy, as they emulate machines. Most others wait more than they compute."""

TESTS = Path(__file__).parents[2]
ROOM = Path(__file__)
"""Held by every test while it runs: shared, or by one that runs alone."""
DOOR = ROOM.parent
"""Held by one that waits for the room to be empty, so that no other enters."""


class Lane:
    """Decides when this process's next test may run."""

    def __init__(self) -> None:
        self._kept = ExitStack()
        self._alone = False

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
        """Tests marked `alone` have all CPUs, and no other test runs until those of them that follow are done.

        Those that only compute run next to them, with what time they leave.
        """
        if item.nodeid.startswith(COMPUTING):
            with _idle():
                return (yield)
        if not self._alone:
            self._alone = item.get_closest_marker("alone") is not None
            self._kept.enter_context(_alone() if self._alone else _among_others())
        try:
            return (yield)
        finally:
            if not (self._alone and nextitem and nextitem.get_closest_marker("alone")):
                self._alone = False
                self._kept.close()


class Sharing(LoadFileScheduling):  # type: ignore[misc]  # pytest-xdist has no types
    """Hands out tests, a file at a time, in the order of the folders; those that only compute come last.

    A lane beyond those with a CPU has only such, from the beginning, and before them those that take their time:
    machines that are emulated leave a CPU idle now and then, and their tests wait for none of its. What it does not get
    to the other lanes do at the end. Of those with a CPU every second begins with tests that emulate machines, and the
    others with the rest: while these wait, the lane beyond has their CPU. Tests that run alone come after both, in one
    lane: the others compute meanwhile.
    """

    def _assign_work_unit(self, node: WorkerController) -> None:
        fitting = self._fitting(node)
        if fitting is None:
            node.shutdown()
            return
        self.workqueue.move_to_end(fitting, last=False)
        super()._assign_work_unit(node)

    def _fitting(self, node: WorkerController) -> str | None:
        computing = [scope for scope in self.workqueue if scope.startswith(COMPUTING)]
        unhurried = [scope for scope in self.workqueue if scope.startswith(UNHURRIED)]
        if _is_spare(node.gateway.id, self.numnodes):
            return next(iter((*unhurried, *computing)), None)
        others = [scope for scope in self.workqueue if not scope.startswith((*COMPUTING, *UNHURRIED))]
        emulates = _number(node.gateway.id) % 2 == 0
        others.sort(key=lambda scope: scope.startswith(EMULATING) != emulates)
        alone = [scope for scope in others if runs_alone(scope)]
        others = [scope for scope in others if scope not in alone]
        spare = unhurried if self.numnodes <= LANES else []
        if self._has_one_alone(node):
            return next(iter((*others, *spare, *computing, *alone)), None)
        return next(iter((*others, *alone, *spare, *computing)), None)

    def _has_one_alone(self, node: WorkerController) -> bool:
        """Whether another lane has tests that run alone."""
        return any(
            runs_alone(scope) and not all(tests.values())
            for other, scopes in self.assigned_work.items()
            for scope, tests in scopes.items()
            if other is not node
        )


@cache
def runs_alone(scope: str) -> bool:
    """Whether the file has tests that run alone."""
    path = TESTS.parent / scope
    return path.exists() and "mark.alone" in path.read_text(encoding="utf-8")


def own_cpu() -> None:
    """Nothing; this process, and all that it starts from now on, runs on one CPU, or where no other process runs.

    A machine that is emulated, or a real-time thread, then takes its CPU from no other test.
    """
    if _is_spare(LANE, int(os.environ["PYTEST_XDIST_WORKER_COUNT"])):
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    else:
        os.sched_setaffinity(0, {CPUS[_number(LANE) % len(CPUS)]})


def _number(lane: str) -> int:
    return int(lane.removeprefix("gw"))


def _is_spare(lane: str, lanes: int) -> bool:
    return lanes == LANES + 1 and lane == f"gw{LANES}"


@contextmanager
def all_cpus() -> Iterator[None]:
    """Inside, this process, and all that it starts, may run on every CPU."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, CPUS)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@contextmanager
def _idle() -> Iterator[None]:
    """Inside, this process, and all that it starts, runs where no other process does."""
    policy, parameters = os.sched_getscheduler(0), os.sched_getparam(0)
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    try:
        yield
    finally:
        os.sched_setscheduler(0, policy, parameters)


@contextmanager
def _among_others() -> Iterator[None]:
    with ExitStack() as held:
        with _held(DOOR, fcntl.LOCK_SH):
            held.enter_context(_held(ROOM, fcntl.LOCK_SH))
        yield


@contextmanager
def _alone() -> Iterator[None]:
    with _held(DOOR, fcntl.LOCK_EX), _held(ROOM, fcntl.LOCK_EX), all_cpus():
        yield


@contextmanager
def _held(path: Path, how: int) -> Iterator[None]:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, how)
        yield
    finally:
        os.close(descriptor)
