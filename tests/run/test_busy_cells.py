"""A timer, idle and next to a busy process on its CPU: the native mock-up, in cells of a real test bed."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from rich.console import Console

from latlab.evaluation.run import make_result
from latlab.recordings.run_folder import RunFolder
from latlab.report.build import write_report
from latlab.report.markdown import result_markdown
from latlab.report.sections import default_metrics
from latlab.report.terminal import print_result
from latlab.result.store import typed
from latlab.run.matrix import run
from latlab.scenario import load_scenario
from latlab.testbed.agent_binary import find_agent
from support.machine import dump

pytestmark = [pytest.mark.real, pytest.mark.usefixtures("machine")]

BASE: dict[str, Any] = {
    "name": "busy",
    "hosts": {"ecu": {"kind": "netns"}},
    "probes": {"native": {"probe": "timer", "on": "ecu", "period": "5ms", "trace": False}},
    "loads": {
        "calls": {"kind": "busy", "on": "ecu", "what": "calls"},
        "compute": {"kind": "stress-ng", "on": "ecu", "what": "cpu"},
    },
    "tuning": {"ecu": {"talker": {"cpus": [0]}, "load": {"cpus": [0]}}},
    "duration": "500ms",
    "seed": 1,
}


def measured(tmp_path: Path, **parts: Any) -> RunFolder:
    path = tmp_path / "s.yaml"
    path.write_text(yaml.safe_dump(BASE | parts, sort_keys=False))
    before = dump()
    folder = asyncio.run(run(load_scenario(path), tmp_path / "runs"))
    assert dump() == before
    return folder


def by_slug(folder: RunFolder) -> dict[str, dict[str, Any]]:
    return {cell.cell().slug: cell.cell().document() for cell in folder.cells()}


def test_idle_and_busy_are_cells_of_one_run_and_a_missing_tool_takes_its_own_only(
    tmp_path: Path, journals: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    which = shutil.which
    monkeypatch.setattr(shutil, "which", lambda tool, *rest: None if tool == "stress-ng" else which(tool, *rest))
    folder = measured(tmp_path, matrix={"loads": ["none", "calls", "compute"]})
    cells = by_slug(folder)
    assert {slug: cell["status"] for slug, cell in cells.items()} == {
        "loads=none": "ok",
        "loads=calls": "ok",
        "loads=compute": "unavailable",
    }
    assert "apt install stress-ng" in cells["loads=compute"]["reason"]["remedy"]
    assert cells["loads=none"]["loads"] == []
    (load,) = cells["loads=calls"]["loads"]
    assert (load["name"], load["kind"], load["on"]) == ("calls", "busy", "ecu")
    assert load["work_per_s"]["calls"] > 0
    # It ran from before the first instant until after the last.
    assert load["detail"]["elapsed_ns"] > 500_000_000
    result = make_result(folder).document()
    for cell in result["cells"]:
        if cell["status"] == "ok":
            assert cell["streams"]["native"]["metrics"]["wakeup"]["n"] == 100
    with (tmp_path / "said.txt").open("w") as file:
        print_result(typed(result), Console(file=file, width=250), default_metrics(typed(result)))
    page = write_report(folder, formats=()).read_text(encoding="utf-8")
    for text in (
        (tmp_path / "said.txt").read_text(),
        result_markdown(typed(result), default_metrics(typed(result))),
        page,
    ):
        assert "on ecu" in text
        assert "calls: calls " in text
    assert list(journals.iterdir()) == []


def test_a_load_that_dies_while_it_is_needed_fails_its_cell_with_one_error(
    tmp_path: Path, journals: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mortal, said = tmp_path / "latlab-agent", tmp_path / "said"
    os.mkfifo(said)
    # It dies as soon as it has done something, however long that takes.
    mortal.write_text(
        f"""#!/bin/sh
[ "$1" = busy ] || exec {find_agent()} "$@"
exec 3<&0
{find_agent()} "$@" <&3 >{said} &
while read -r line; do
    echo "$line"
    case $line in *progress*) kill -KILL $!; exit 4 ;; esac
done <{said}
"""
    )
    mortal.chmod(0o755)
    monkeypatch.setenv("LATLAB_AGENT", str(mortal))
    folder = measured(tmp_path, matrix={"loads": ["calls"]}, duration="3s")
    (cell,) = by_slug(folder).values()
    assert cell["status"] == "failed"
    assert cell["reason"]["where"] == "ecu"
    assert "load calls: " in cell["reason"]["what"]
    assert "ended early" in cell["reason"]["what"]
    assert list(journals.iterdir()) == []
