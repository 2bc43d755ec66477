"""A run folder is made once, found again, and never half written."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from latlab.data.run_folder import RunFolder, list_runs, write_json
from latlab.errors import LabError, UsageError

NOON = datetime(2026, 11, 21, 12, 0, 5, tzinfo=UTC)


def test_a_new_run_is_named_after_its_time_and_scenario(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path / "runs", "tsn bridges", now=NOON)
    assert run.id.startswith("20261121-120005-tsn-bridges-")
    assert run.run()["name"] == "tsn bridges"
    assert RunFolder.open(run.path).path == run.path
    assert RunFolder.open(run.id, root=tmp_path / "runs").path == run.path


def test_runs_begun_in_one_second_are_two_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    endings = iter(["aaaa", "aaaa", "bbbb"])
    monkeypatch.setattr("secrets.token_hex", lambda size: next(endings))
    first = RunFolder.create(tmp_path, "first", now=NOON)
    second = RunFolder.create(tmp_path, "first", now=NOON)
    assert (first.id[-4:], second.id[-4:]) == ("aaaa", "bbbb")


def test_runs_are_listed_newest_first(tmp_path: Path) -> None:
    ids = [RunFolder.create(tmp_path, "x", now=NOON + timedelta(seconds=s)).id for s in (2, 0, 1)]
    assert [run.run for run in list_runs(tmp_path)] == [ids[0], ids[2], ids[1]]


def test_a_run_of_which_run_json_is_broken_is_still_listed(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path, "x", now=NOON)
    (run.path / "run.json").write_text("{")
    assert [(found.run, found.name) for found in list_runs(tmp_path)] == [(run.id, None)]


def test_no_folder_means_no_runs(tmp_path: Path) -> None:
    assert list_runs(tmp_path / "nowhere") == []


def test_a_folder_without_run_json_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"expected a folder that holds run\.json"):
        RunFolder.open(tmp_path)


def test_cells_are_those_with_a_cell_json_by_name_and_repeat(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path, "x")
    for slug, repeat in (("loads=none", 10), ("loads=none", 2), ("loads=flood", 1)):
        run.add_cell(slug, repeat).write_cell({"slug": slug})
    run.add_cell("loads=never", 1)
    assert [(cell.slug, cell.repeat) for cell in run.cells()] == [
        ("loads=flood", 1),
        ("loads=none", 2),
        ("loads=none", 10),
    ]


def test_recordings_are_named_after_agent_and_table(tmp_path: Path) -> None:
    cell = RunFolder.create(tmp_path, "x").add_cell("loads=none", 1)
    assert cell.recording("talk", "sensor", "sent").name == "talker-sensor.sent.arrow"
    assert cell.recording("listen", "a.b", "clocks").name == "listener-a.b.clocks.arrow"
    assert cell.prefix("listen", "ecu").name == "listener-ecu"


def test_facts_that_were_never_taken_are_empty(tmp_path: Path) -> None:
    cell = RunFolder.create(tmp_path, "x").add_cell("loads=none", 1)
    cell.write_facts("before", {"ecu": {"kernel": {}}})
    assert cell.facts("before") == {"ecu": {"kernel": {}}}
    assert cell.facts("after") == {}


def test_a_write_that_fails_leaves_the_old_document(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "cell.json"
    write_json(path, {"status": "ok"})

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_json(path, {"status": "failed"})
    assert json.loads(path.read_text()) == {"status": "ok"}


@pytest.mark.parametrize("content", ["", "[]", "{"])
def test_a_broken_document_is_an_error_with_its_name(tmp_path: Path, content: Any) -> None:
    run = RunFolder.create(tmp_path, "x")
    run.result_path.write_text(content)
    with pytest.raises(LabError, match=r"result\.json"):
        run.result()
