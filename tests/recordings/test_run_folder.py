"""A run folder is made once, found again, and never half written."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from latlab.analysis import summary
from latlab.model.errors import LabError, UsageError
from latlab.recordings.run_folder import RESULT_FORMAT, RunFolder, list_runs, write_json

NOON = datetime(2026, 11, 21, 12, 0, 5, tzinfo=UTC)


def test_a_new_run_is_named_after_its_time_and_scenario(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path / "runs", "tsn bridges", now=NOON)
    assert run.id.startswith("20261121-120005-tsn-bridges-")
    assert run.run().name == "tsn bridges"
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


@pytest.mark.parametrize("name", ["run", "cell", "result"])
def test_a_document_of_another_format_or_half_of_one_is_an_error_with_its_name(tmp_path: Path, name: str) -> None:
    run = RunFolder.create(tmp_path, "x")
    cell = run.add_cell("loads=none", 1)
    path = (cell.path if name == "cell" else run.path) / f"{name}.json"
    read = {"run": run.run, "cell": cell.cell, "result": run.result}[name]
    path.write_text(json.dumps({"format": f"latlab.{name}/9"}))
    with pytest.raises(LabError, match=rf"{name}\.json: has another format: expected latlab\.{name}/1, found latlab"):
        read()
    path.write_text("{}")
    with pytest.raises(LabError, match=rf"{name}\.json: is incomplete: it has no '.*'.* \(.+\)"):
        read()


STREAM = {"name": "control", "stream": 1, "talker": "sensor", "listener": "ecu", "period_ns": 1}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"streams": None}, "streams: Input should be a valid list"),
        ({"agents": None}, "agents: Input should be a valid list"),
        ({"streams": [7]}, r"streams\.0: Input should be a valid dictionary"),
        ({"streams": [STREAM, STREAM | {"period_ns": 0}]}, r"streams\.1\.period_ns: Input should be greater than 0"),
        ({"streams": [STREAM | {"period_ns": "x"}]}, r"streams\.0\.period_ns: Input should be a valid integer"),
        ({"streams": [STREAM | {"period_ns": True}]}, r"streams\.0\.period_ns: Input should be a valid integer"),
        ({"streams": [{}]}, r"streams\.0\.name: Field required"),
        ({"cell": [1]}, "cell: Input should be a valid dictionary"),
        (
            {"clocks": [{"from": "a", "to": "b", "windows": [{}]}]},
            r"clocks\.0\.windows\.0\.reference_tai_ns: ",
        ),
    ],
)
def test_a_cell_of_another_shape_is_an_error_with_its_name(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    cell = RunFolder.create(tmp_path, "x").add_cell("loads=none", 1)
    whole = {"cell": {}, "slug": "loads=none", "repeat": 1, "status": "ok", "agents": []}
    whole |= {"streams": [STREAM | {"name": "other", "stream": 2, "period_ns": None}, STREAM], "of a later version": 1}
    cell.write_cell(whole)
    assert cell.cell().document() == whole
    cell.write_cell(whole | change)
    with pytest.raises(LabError, match=rf"cell\.json: is incomplete: {said}.* \(restore a complete copy"):
        cell.cell()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"order": [{"slug": "all"}]}, r"order\.0\.repeat: Field required"),
        ({"versions": "0.2.0"}, "versions: Input should be a valid dictionary"),
        ({"exit_status": "none"}, "exit_status: Input should be a valid integer"),
    ],
)
def test_a_run_of_another_shape_is_an_error_with_its_name_and_is_listed_anyway(
    tmp_path: Path, change: dict[str, Any], said: str
) -> None:
    run = RunFolder.create(tmp_path, "x", now=NOON)
    whole = run.run().document() | {"order": [], "status": "ended", "versions": {"of": 1}, "of a later version": 1}
    write_json(run.path / "run.json", whole)
    assert run.run().document() == whole
    write_json(run.path / "run.json", whole | change)
    with pytest.raises(LabError, match=rf"run\.json: is incomplete: {said}.* \(restore a complete copy"):
        run.run()
    assert [(found.name, found.status, found.exit_status) for found in list_runs(tmp_path)] == [("x", "ended", None)]


def test_the_format_of_results_that_is_read_is_the_one_that_is_written() -> None:
    assert summary.RESULT_FORMAT == RESULT_FORMAT


@pytest.mark.parametrize("mode", [0o1777, 0o755])
def test_runs_are_not_kept_in_another_user_s_folder_where_all_may_write(tmp_path: Path, mode: int) -> None:
    runs = tmp_path / "runs"
    runs.mkdir()
    os.chown(runs, 12345, 12345)
    tmp_path.chmod(mode)
    if mode == 0o755:
        assert RunFolder.create(runs, "x").path.parent == runs
        return
    with pytest.raises(UsageError, match=rf"{runs} belongs to user 12345, in a world-writable folder .*--runs"):
        RunFolder.create(runs, "x")
    assert list(runs.iterdir()) == []


def test_what_is_started_again_finds_no_lines_of_before_in_its_logs(tmp_path: Path) -> None:
    cell = RunFolder.create(tmp_path, "x").add_cell("all", 1)
    cell.begin_logs_anew(keep=True)
    cell.logs_path.mkdir(exist_ok=True)
    for attempt in ("first", "second"):
        (cell.logs_path / "bridge.log").write_text(attempt)
        cell.begin_logs_anew(keep=True)
        assert [path.name for path in cell.logs_path.iterdir()] == ["earlier"]
        assert (cell.logs_path / "earlier" / "bridge.log").read_text() == attempt
    (cell.logs_path / "bridge.log").write_text("third")
    cell.begin_logs_anew(keep=False)
    assert list(cell.logs_path.iterdir()) == []
