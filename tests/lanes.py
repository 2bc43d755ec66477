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
"""Lanes with a CPU each."""
HELPERS = LANES // 2
"""Lanes that share the CPU of every second of these, whose tests mostly wait."""
ALL_LANES = LANES + HELPERS + 1
"""With the spare lane, the last, which takes what time the others leave."""
COMPUTING = tuple(
    f"tests/{folder}/"
    for folder in ("analysis", "cli", "docs", "imports", "recordings", "report", "scenario", "synthetic", "tools")
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
"""Tests that emulate machines. Most others wait more than they compute."""
BOARDS = "tests/boards/"
"""Of them those whose machines leave nothing of a CPU to others: in virtual time they are real-time threads."""
LONG = ("tests/boards/test_experiments_in_short.py", "tests/boards/test_arm_board.py")
"""Files of many minutes: they are begun first, so that none is left over for one lane at the end."""

ROOM = Path(__file__)
"""Held by every test while it runs: shared, or by one that runs alone."""
DOOR = ROOM.parent
"""Held by one that waits for the room to be empty, so that no other enters."""
SHARED_CPUS = (DOOR / "boards", DOOR / "emulated")
"""One for each CPU that two lanes have: held by a test on a board, which needs it whole, or shared by others."""


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
        if item.nodeid.startswith(COMPUTING) and _lanes() == ALL_LANES:
            with _idle():
                return (yield)
        if not self._alone:
            self._alone = item.get_closest_marker("alone") is not None
            self._kept.enter_context(_alone() if self._alone else _among_others())
            if not self._alone:
                self._kept.enter_context(_on_its_cpu(item.nodeid))
        try:
            return (yield)
        finally:
            if not (self._alone and nextitem and nextitem.get_closest_marker("alone")):
                self._alone = False
                self._kept.close()


class Sharing(LoadFileScheduling):
    """Hands out tests, a file at a time, in the order of the folders; those that only compute come last.

    The spare lane has only such, from the beginning, and before them those that take their time: the others leave a CPU
    idle now and then, and its tests wait for none of them. What it does not get to the other lanes do at the end. Of
    those with a CPU every second begins with tests that emulate machines, the longest first, and the others with the
    rest: each of these has a helper, as while one waits the other computes. Boards come last there. Tests that run
    alone come after all that, in one lane: the others compute meanwhile. Helpers take neither.
    """

    def _assign_work_unit(self, node: WorkerController) -> None:
        fitting = self._fitting(node)
        if fitting is None:
            node.shutdown()
            return
        self.workqueue.move_to_end(fitting, last=False)
        super()._assign_work_unit(node)

    def _fitting(self, node: WorkerController) -> str | None:
        lane = node.gateway.id
        computing = [scope for scope in self.workqueue if scope.startswith(COMPUTING)]
        unhurried = [scope for scope in self.workqueue if scope.startswith(UNHURRIED)]
        if _is_spare(lane, self.numnodes):
            return next(iter((*unhurried, *computing)), None)
        others = [scope for scope in self.workqueue if not scope.startswith((*COMPUTING, *UNHURRIED))]
        if _is_helper(lane, self.numnodes):
            # Next to boards that take minutes, a test that is to run alone would keep all from going on.
            others = [scope for scope in others if not (scope.startswith(BOARDS) or runs_alone(scope))]
        if _number(lane) % 2 or _is_helper(lane, self.numnodes):
            others.sort(key=lambda scope: (scope.startswith(EMULATING), scope.startswith(BOARDS), scope not in LONG))
        else:
            others.sort(key=lambda scope: (not scope.startswith(EMULATING), scope not in LONG))
        alone = [scope for scope in others if runs_alone(scope)]
        others = [scope for scope in others if scope not in alone]
        spare = unhurried if self.numnodes != ALL_LANES else []
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
    path = DOOR.parent / scope
    return path.exists() and "mark.alone" in path.read_text(encoding="utf-8")


def own_cpu() -> None:
    """Nothing; this process, and all that it starts from now on, runs on one CPU, or where no other process runs.

    A machine that is emulated, or a real-time thread, then takes its CPU from no other test.
    """
    if _is_spare(LANE, _lanes()):
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    else:
        os.sched_setaffinity(0, {CPUS[_place(LANE, _lanes()) % len(CPUS)]})


def _lanes() -> int:
    return int(os.environ["PYTEST_XDIST_WORKER_COUNT"])


def _number(lane: str) -> int:
    return int(lane.removeprefix("gw"))


def _is_spare(lane: str, lanes: int) -> bool:
    return lanes == ALL_LANES and _number(lane) == ALL_LANES - 1


def _is_helper(lane: str, lanes: int) -> bool:
    return lanes == ALL_LANES and LANES <= _number(lane) < ALL_LANES - 1


def _place(lane: str, lanes: int) -> int:
    """The number of the lane whose CPU this one has: its own, or that of the one that it helps."""
    number = _number(lane)
    return 2 * (number - LANES) + 1 if _is_helper(lane, lanes) else number


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
def _on_its_cpu(test: str) -> Iterator[None]:
    """Inside, a test on a board has the CPU of its lane without that lane's helper."""
    lanes = _lanes()
    place = _place(LANE, lanes)
    if lanes != ALL_LANES or _is_spare(LANE, lanes) or place % 2 == 0:
        yield
        return
    with _held(SHARED_CPUS[place // 2], fcntl.LOCK_EX if test.startswith(BOARDS) else fcntl.LOCK_SH):
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
