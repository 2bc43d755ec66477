"""Repetitions in virtual time that are one measurement are a reason not to trust their intervals."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from latlab.evaluation.run import make_result
from latlab.recordings.run_folder import RunFolder
from latlab.synthetic import Description, generate, write_run


def changed(path: Path, **parts: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | parts))


@pytest.fixture
def twice(tmp_path: Path) -> RunFolder:
    """A run whose only cell, of virtual time, was measured twice, with the same figures."""
    description = Description(seed=3, packets=2_000, period_ns=1_000_000, warmup=100, clock_bound_ns=10_000_000)
    run = RunFolder(write_run(generate(description), tmp_path / "run"))
    (cell,) = run.cells()
    copy = cell.path.with_name(cell.path.name.replace("1", "2"))
    shutil.copytree(cell.path, copy)
    changed(cell.path / "cell.json", instructions_per_ns=1, label="virtual time")
    changed(copy / "cell.json", instructions_per_ns=1, label="virtual time", repeat=2)
    return run


def test_equal_repetitions_are_a_reason_of_the_later_one(twice: RunFolder) -> None:
    result = make_result(twice)
    (reason,) = (one for one in result.reasons if one.id == "repetitions-distinct")
    (name,) = result.cells[0].streams
    assert reason.where == f"{result.cells[1].key}: stream {name}"
    assert (reason.actual, result.cells[1].verdict) == ("those of repetition 1", "suspect")


def test_repetitions_that_are_asked_to_be_equal_are_no_finding(twice: RunFolder) -> None:
    changed(twice.path / "run.json", check_repeat=True)
    assert "repetitions-distinct" not in {one.id for one in make_result(RunFolder(twice.path)).reasons}
