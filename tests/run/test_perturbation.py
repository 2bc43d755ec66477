"""What differs between repetitions in virtual time, and how many cells are measured at once."""

from __future__ import annotations

import os
from itertools import permutations

import pytest

from latlab.model.errors import UsageError
from latlab.run import matrix
from latlab.run.beds import RANGE_NS, Perturbation
from latlab.scenario import MatrixCell, Scenario, parse, runs


def small(**hosts: dict[str, object]) -> Scenario:
    stream = {"talker": "sensor", "listener": "ecu", "period": "1ms", "size": "64B"}
    link = {"ends": ["sensor.eth0", "ecu.eth0"]}
    parsed = parse({"name": "s", "hosts": hosts, "links": [link], "streams": {"s": stream}, "duration": "1s"})
    assert parsed.scenario, parsed.findings
    return parsed.scenario


VIRTUAL = small(
    board1={"kind": "board", "time": "virtual", "memory": "1GiB"},
    sensor={"kind": "netns", "on": "board1"},
    ecu={"kind": "netns", "on": "board1"},
)
REAL = small(sensor={"kind": "netns"}, ecu={"kind": "netns"})


def cell(of: Scenario, slug: str = "all") -> MatrixCell:
    return MatrixCell({}, slug, of)


def test_a_seed_gives_the_same_phases_each_time_and_another_seed_others() -> None:
    several = [Perturbation.of(seed) for seed in range(1, 50)]
    assert several == [Perturbation.of(seed) for seed in range(1, 50)]
    starts = [one.start_ns for one in several]
    assert len(set(starts)) > 45
    assert 0 <= min(starts) < RANGE_NS / 4 and RANGE_NS * 3 / 4 < max(starts) < RANGE_NS
    instances = {several[0].load_ns(load, number) for load in ("down", "up") for number in range(3)}
    assert len(instances) == 6


@pytest.mark.parametrize(
    ("within_ns", "repetitions", "apart_ns"), [(RANGE_NS, 20, 503_000), (4_000_000, 8, 300_000)], ids=["gates", "tick"]
)
def test_no_two_repetitions_begin_alike(within_ns: int, repetitions: int, apart_ns: int) -> None:
    # In one cycle of a schedule they would be copies of each other, and almost alike against the timer's tick.
    for first in (1, 40):
        starts = [Perturbation.of(seed).start_ns % within_ns for seed in range(first, first + repetitions)]
        turned = [(one - other) % within_ns for one, other in permutations(starts, 2)]
        assert min(turned) >= apart_ns


def test_repetitions_in_virtual_time_count_on_from_the_scenarios_seed() -> None:
    def seeds(of: Scenario, *, copies: bool = False) -> list[int | None]:
        return [one.seed for one in runs([cell(of)], 3, 7, copies=copies)]

    assert seeds(VIRTUAL) == [1, 2, 3]
    assert seeds(VIRTUAL.model_copy(update={"seed": 40})) == [40, 41, 42]
    assert seeds(VIRTUAL, copies=True) == [1, 1, 1]
    assert seeds(REAL) == [None] * 3


def test_cells_in_virtual_time_are_measured_side_by_side_where_cpus_and_memory_allow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3})
    for gib, at_once in ((64, 4), (6, 3), (1, 1)):
        monkeypatch.setattr(matrix, "available_memory", lambda gib=gib: gib * 2**30)
        assert matrix.at_once([cell(VIRTUAL)] * 9, None) == at_once
        assert matrix.at_once([cell(VIRTUAL)] * 9, 2) == 2
        assert matrix.at_once([cell(VIRTUAL), cell(REAL)], None) == 1


def test_only_cells_in_virtual_time_are_to_be_equal() -> None:
    matrix.check_comparable([cell(VIRTUAL)])
    with pytest.raises(UsageError, match="in real time no repetition is equal") as refused:
        matrix.check_comparable([cell(VIRTUAL), cell(REAL)])
    assert refused.value.where == "--check-repeat"


def test_cells_that_would_disturb_each_other_are_measured_one_by_one() -> None:
    assert matrix.at_once([cell(REAL)], 1) == 1
    with pytest.raises(UsageError, match="would disturb each other") as refused:
        matrix.at_once([cell(REAL)], 2)
    assert refused.value.where == "--jobs"
