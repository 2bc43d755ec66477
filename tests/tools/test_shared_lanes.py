"""Which tests each lane takes: those that wait for nothing are the spare lane's, and whatever is left is taken."""

from __future__ import annotations

from collections import OrderedDict
from unittest.mock import Mock

from support.suite.lanes import COMPUTING, EMULATING, LANES, TESTS, UNHURRIED, Sharing, runs_alone

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
    assert taken(0, LANES + 1) == "tests/agent/test_a.py"
    assert taken(0, LANES + 1, FILES[1:3]) == "tests/analysis/test_b.py"
    assert taken(0, LANES + 1, ()) is None


def test_every_second_lane_begins_with_tests_that_emulate_machines_and_the_others_with_the_rest() -> None:
    emulates, waits, alone = "tests/boards/test_e.py", "tests/testbed/test_f.py", "tests/boards/test_cables.py"
    computes = "tests/analysis/test_b.py"
    both = (computes, alone, waits, emulates)
    assert (taken(0, LANES + 1, both), taken(1, LANES + 1, both)) == (emulates, waits)
    for lane in (0, 1):
        assert taken(lane, LANES + 1, (computes, alone, waits)) == waits
        assert taken(lane, LANES + 1, (computes, alone, emulates)) == emulates
        assert taken(lane, LANES + 1, (computes, alone)) == alone
    assert taken(0, LANES + 1, FILES) == "tests/agent/test_a.py"


def test_while_one_lane_has_tests_that_run_alone_the_others_compute() -> None:
    alone, others = "tests/boards/test_cables.py", ("tests/whole/test_irq_latency.py", "tests/analysis/test_b.py")
    assert taken(1, LANES + 1, others, {alone: False}) == others[1]
    assert taken(1, LANES + 1, others, {alone: True}) == others[0]
    assert taken(1, LANES + 1, others[:1], {alone: False}) == others[0]
    assert taken(1, LANES + 1, (*others, "tests/testbed/test_f.py"), {alone: False}) == "tests/testbed/test_f.py"


def test_what_lanes_look_for_is_there() -> None:
    files = [str(path.relative_to(TESTS.parent)) for path in TESTS.rglob("test_*.py")]
    assert all(any(file.startswith(one) for file in files) for one in (*EMULATING, *UNHURRIED, *COMPUTING))
    assert any(map(runs_alone, files))
    assert runs_alone("tests/boards/test_cables.py") and not runs_alone("tests/boards/test_arm_board.py")


def test_the_spare_lane_takes_what_is_long_first_and_never_what_sends() -> None:
    assert taken(LANES, LANES + 1) == "tests/packages/test_c.py"
    assert taken(LANES, LANES + 1, FILES[:2]) == "tests/analysis/test_b.py"
    assert taken(LANES, LANES + 1, (FILES[0], FILES[3])) is None


def test_without_a_spare_lane_every_file_is_taken_by_another() -> None:
    assert taken(0, LANES, FILES[1:3]) == "tests/packages/test_c.py"
    assert taken(0, LANES, FILES[1:2]) == "tests/analysis/test_b.py"
