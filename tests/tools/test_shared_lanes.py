"""Which tests each lane takes: those that wait for nothing are the spare lane's, and whatever is left is taken."""

from __future__ import annotations

from collections import OrderedDict
from unittest.mock import Mock

import pytest
from lanes import (
    ALL_LANES,
    COMPUTING,
    DOOR,
    EMULATING,
    HELPERS,
    LANES,
    LONG,
    SHARED_CPUS,
    UNHURRIED,
    Sharing,
    _place,
    runs_alone,
)

FILES = ("tests/agent/test_a.py", "tests/analysis/test_b.py", "tests/packages/test_c.py", "tests/whole/test_d.py")


def taken(lane: int, lanes: int, files: tuple[str, ...] = FILES, others: dict[str, bool] | None = None) -> str | None:
    """The file that a lane takes next of these. others: a file that another lane has → whether it is done."""
    sharing = Sharing.__new__(Sharing)
    sharing.workqueue, sharing.numnodes = OrderedDict((file, {}) for file in files), lanes
    node, other = (Mock(gateway=Mock(id=f"gw{number}")) for number in (lane, lane + 1))
    had = {file: {f"{file}::test": done} for file, done in (others or {}).items()}
    sharing.assigned_work = OrderedDict([(node, {}), (other, had)])
    return sharing._fitting(node)


def test_a_lane_with_a_cpu_takes_what_sends_first_and_then_helps_the_spare_lane() -> None:
    assert taken(0, ALL_LANES) == "tests/agent/test_a.py"
    assert taken(0, ALL_LANES, FILES[1:3]) == "tests/analysis/test_b.py"
    assert taken(0, ALL_LANES, ()) is None


def test_every_second_lane_begins_with_tests_that_emulate_machines_and_the_others_with_the_rest() -> None:
    emulates, waits, alone = "tests/boards/test_e.py", "tests/testbed/test_f.py", "tests/boards/test_cables.py"
    computes = "tests/analysis/test_b.py"
    both = (computes, alone, waits, emulates)
    assert (taken(0, ALL_LANES, both), taken(1, ALL_LANES, both)) == (emulates, waits)
    for lane in (0, 1):
        assert taken(lane, ALL_LANES, (computes, alone, waits)) == waits
        assert taken(lane, ALL_LANES, (computes, alone, emulates)) == emulates
        assert taken(lane, ALL_LANES, (computes, alone)) == alone
    assert taken(0, ALL_LANES, FILES) == "tests/agent/test_a.py"


def test_long_files_are_begun_first() -> None:
    others = ("tests/boards/test_a.py", "tests/boards/test_b.py")
    assert taken(0, ALL_LANES, (*others, LONG[0])) == LONG[0]
    assert taken(1, ALL_LANES, (*others, LONG[0])) == LONG[0]
    assert taken(1, ALL_LANES, (*others, LONG[0], "tests/faults/test_c.py")) == "tests/faults/test_c.py"


@pytest.mark.skipif(not HELPERS, reason="with one CPU there is no helper")
def test_a_helper_takes_what_waits_and_what_emulates_but_no_board_and_nothing_that_runs_alone() -> None:
    board, emulates, waits = "tests/boards/test_e.py", "tests/faults/test_g.py", "tests/testbed/test_f.py"
    assert taken(LANES, ALL_LANES, (board, emulates, waits)) == waits
    assert taken(LANES, ALL_LANES, (board, emulates)) == emulates
    assert taken(LANES, ALL_LANES, (board, "tests/analysis/test_b.py")) == "tests/analysis/test_b.py"
    assert taken(LANES, ALL_LANES, (board, "tests/whole/test_irq_latency.py")) is None
    assert _place("gw1", ALL_LANES) == _place(f"gw{LANES}", ALL_LANES) == 1


def test_while_one_lane_has_tests_that_run_alone_the_others_compute() -> None:
    alone, others = "tests/boards/test_cables.py", ("tests/whole/test_irq_latency.py", "tests/analysis/test_b.py")
    assert taken(1, ALL_LANES, others, {alone: False}) == others[1]
    assert taken(1, ALL_LANES, others, {alone: True}) == others[0]
    assert taken(1, ALL_LANES, others[:1], {alone: False}) == others[0]
    assert taken(1, ALL_LANES, (*others, "tests/testbed/test_f.py"), {alone: False}) == "tests/testbed/test_f.py"


def test_what_lanes_look_for_is_there() -> None:
    files = [str(path.relative_to(DOOR.parent)) for path in DOOR.rglob("test_*.py")]
    assert all(any(file.startswith(one) for file in files) for one in (*EMULATING, *UNHURRIED, *COMPUTING, *LONG))
    assert all(path.is_dir() for path in SHARED_CPUS) and len(SHARED_CPUS) >= HELPERS
    assert any(map(runs_alone, files))
    assert runs_alone("tests/boards/test_cables.py") and not runs_alone("tests/boards/test_arm_board.py")


def test_the_spare_lane_takes_what_is_long_first_and_never_what_sends() -> None:
    assert taken(ALL_LANES - 1, ALL_LANES) == "tests/packages/test_c.py"
    assert taken(ALL_LANES - 1, ALL_LANES, FILES[:2]) == "tests/analysis/test_b.py"
    assert taken(ALL_LANES - 1, ALL_LANES, (FILES[0], FILES[3])) is None


def test_without_a_spare_lane_every_file_is_taken_by_another() -> None:
    assert taken(0, LANES, FILES[1:3]) == "tests/packages/test_c.py"
    assert taken(0, LANES, FILES[1:2]) == "tests/analysis/test_b.py"
