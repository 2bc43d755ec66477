"""What a tool wrote is read, or refused where it is not what the tool was told to write."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from latlab.model.errors import LabError
from latlab.recordings.run_folder import CellFolder
from latlab.run.probes import tool_figures
from latlab.testbed.loads.base import LoadProcess, Output
from latlab.testbed.probes.base import ToolPlan
from latlab.testbed.probes.runner import ToolRan

PLAN = ToolPlan(
    name="wake", kind="cyclictest", asker="ecu", answerer="ecu", period_ns=1_000_000, seconds=1, log="wake.json"
)
RAN = ToolRan(
    PLAN, "2.4", ("cyclictest",), Output(LoadProcess("source", "ecu", ("cyclictest",), ending="itself"), "", "")
)
THREAD = {"cycles": 3, "min": 2, "avg": 3.0, "max": 5, "cpu": 0, "histogram": {"2": 1, "3": 1, "5": 1}}


def document(**changes: Any) -> str:
    """cyclictest's JSON of one thread, with these changes of it."""
    head = {"file_version": 1, "cmdline:": "cyclictest -q", "rt_test_version:": "2.40", "resolution_in_ns": 0}
    return json.dumps(head | {"thread": {"0": THREAD | changes}})


def test_a_histogram_of_cyclictests_gives_percentiles(tmp_path: Path) -> None:
    log = tmp_path / "wake.json"
    log.write_text(document())
    (figures,) = tool_figures(RAN, 1, log, CellFolder(tmp_path)).found.figures
    assert (figures.n, figures.max) == (3, 5_000)


@pytest.mark.parametrize("changes", [{"histogram": None}, {"histogram": {}}])
def test_a_cyclictest_that_wrote_no_histogram_is_an_error(tmp_path: Path, changes: dict[str, Any]) -> None:
    log = tmp_path / "wake.json"
    log.write_text(document(**changes))
    with pytest.raises(LabError, match="printed none in a known format") as caught:
        tool_figures(RAN, 1, log, CellFolder(tmp_path))
    assert caught.value.where == "probes.wake"
    assert "wake.json" in caught.value.remedy
