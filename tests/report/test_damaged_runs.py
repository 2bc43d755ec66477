"""A run folder whose files are damaged is reported, or is one error that names the file or its folder."""

from __future__ import annotations

import io
import json
import os
import random
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from rich.console import Console

import latlab
import latlab.cli
from latlab.evaluation.run import make_result
from latlab.listing import print_runs
from latlab.model.errors import EXIT_LAB, EXIT_USAGE, LatlabError, making_sense_of
from latlab.recordings.run_folder import RunFolder, list_runs
from latlab.report.build import write_report
from latlab.synthetic import Description, generate, write_run
from latlab.synthetic.description import Stall, SyntheticGates

DESCRIPTION = Description(
    seed=5,
    packets=300,
    period_ns=1_000_000,
    warmup=10,
    gates=SyntheticGates(500_000, 200_000),
    ptp=True,
    ingredients=(Stall(10**8, 6_000_000),),
)
CELL = "cells/all/r1"
DOCUMENTS = ("run.json", f"{CELL}/cell.json", f"{CELL}/facts-before.json", "result.json")
VALUES: tuple[Any, ...] = (None, -1, 0, 2**70, 1.5, "x", "", [], {}, [None], {"a": None}, True, 1e308)
CHANGES = 6


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write_run(generate(DESCRIPTION), tmp_path_factory.mktemp("runs") / "whole")
    make_result(RunFolder(folder))
    return folder


@pytest.fixture
def run(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "runs" / "damaged"))


def paths(document: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in a JSON document, as the keys that lead there."""
    items = (
        document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    )
    for key, value in items:
        yield (*at, key)
        yield from paths(value, (*at, key))


def change(path: Path, chance: random.Random) -> str:
    """What was changed in a JSON document: one value is another, or gone."""
    document = json.loads(path.read_text())
    *way, last = chance.choice(list(paths(document)))
    holder = document
    for key in way:
        holder = holder[key]
    if isinstance(holder, dict) and chance.random() < 0.3:
        del holder[last]
    else:
        holder[last] = chance.choice(VALUES)
    path.write_text(json.dumps(document))
    return f"{path.name}: {(*way, last)}"


def read_everything(run: Path) -> list[LatlabError]:
    """What reading the run in every way that there is came to, where it was an error."""
    found = []

    def tables() -> None:
        loaded = latlab.load(run)
        assert loaded.cells.height and loaded.packets().height and loaded.metrics.height

    for read in (
        lambda: write_report(RunFolder(run), formats=()),
        tables,
        lambda: make_result(RunFolder(run)).document(),
        lambda: write_report(RunFolder(run), formats=()),
        lambda: print_runs(list_runs(run.parent), run.parent, Console(file=io.StringIO())),
    ):
        try:
            read()
        except LatlabError as error:
            found.append(error)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(CHANGES))
@pytest.mark.parametrize("document", DOCUMENTS)
def test_a_document_of_another_shape_is_read_or_is_one_error_that_says_where(
    run: Path, document: str, seed: int
) -> None:
    changed = change(run / document, random.Random(f"{document} {seed}"))
    for error in read_everything(run):
        assert error.exit_code == EXIT_LAB, changed
        assert error.where.startswith(str(run)), changed
        assert error.remedy, changed


@pytest.mark.parametrize("name", ["packets.parquet", "classes.parquet"])
def test_a_table_with_a_flipped_bit_is_read_or_is_one_error_that_names_it(run: Path, name: str) -> None:
    path = run / CELL / name
    data, chance = path.read_bytes(), random.Random(name)
    for _ in range(100):
        flipped = bytearray(data)
        flipped[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        path.write_bytes(flipped)
        try:
            latlab.load(run).packets()
        except LatlabError as error:
            assert error.where == str(path) or error.where == str(path.parent)


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def a_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def without_an_end(path: Path) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


@pytest.mark.parametrize("damage", [emptied, a_folder, a_pipe, without_an_end])
@pytest.mark.parametrize("name", ["scenario.yaml", *(f"{CELL}/{one}" for one in ("cell.json", "packets.parquet"))])
def test_a_file_that_is_empty_or_no_file_is_one_error(
    run: Path, name: str, damage: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Else a pipe is waited for ten seconds, each time that the run is read.
    monkeypatch.setattr("latlab.scenario.load.PIPE_S", 0)
    damage(run / name)
    said = read_everything(run)
    assert {(error.where, error.exit_code) for error in said} == {(str(run / name), EXIT_LAB)}
    assert all(error.remedy for error in said)


@pytest.mark.parametrize("name", ["run.json", "result.json", f"{CELL}/facts-before.json", f"{CELL}/classes.parquet"])
def test_nothing_waits_for_a_pipe_that_lies_in_the_folder(run: Path, name: str) -> None:
    write_report(RunFolder(run), formats=())
    a_pipe(run / name)
    for error in read_everything(run):
        assert (error.where, error.exit_code) in {(str(run / name), EXIT_LAB), (str(run), EXIT_USAGE)}


@pytest.mark.parametrize(
    ("name", "check", "actual"),
    [
        ("cell.json", "cell-ended", "not run: the run has no cell.json of this cell"),
        ("packets.parquet", "recordings-whole", "absent: there is no such file"),
    ],
)
def test_a_file_that_is_gone_is_a_reason(run: Path, name: str, check: str, actual: str) -> None:
    (run / CELL / name).unlink()
    result = make_result(RunFolder(run)).document()
    assert result["verdict"] == "untrusted"
    assert actual in [reason["actual"] for reason in result["reasons"] if reason["id"] == check]


@pytest.mark.parametrize("name", ["packets.parquet", "cell.json"])
def test_a_file_of_another_run_contradicts_what_the_agents_counted(run: Path, tmp_path: Path, name: str) -> None:
    other = write_run(generate(replace(DESCRIPTION, seed=6, packets=200)), tmp_path / "other")
    shutil.copy(other / CELL / name, run / CELL / name)
    result = make_result(RunFolder(run)).document()
    said = [reason["actual"] for reason in result["reasons"] if reason["id"] == "counts-agree"]
    counted = 300 if name == "packets.parquet" else 200
    assert said == [f"{counted}, by the {end}'s own counters" for end in ("talker", "listener")]


@pytest.mark.parametrize("copy", ["cells/all/r2", "cells/all/r01", "cells/other/r1"])
def test_a_measurement_that_was_copied_does_not_count_twice(run: Path, copy: str) -> None:
    shutil.copytree(run / CELL, run / copy)
    with pytest.raises(LatlabError, match=r"a copy: .* is repetition 1 of all, too \(remove the one") as told:
        make_result(RunFolder(run))
    assert told.value.where in {str(run / one) for one in (CELL, copy)}


@pytest.mark.parametrize(("change", "said"), [({"name": "other"}, "number 1"), ({"stream": 2}, "name control")])
def test_streams_that_cannot_be_told_apart_are_an_error(run: Path, change: dict[str, Any], said: str) -> None:
    cell = json.loads((run / CELL / "cell.json").read_text())
    cell["streams"].append(cell["streams"][0] | change)
    (run / CELL / "cell.json").write_text(json.dumps(cell))
    with pytest.raises(LatlabError, match=f"streams: .*two have the {said}") as told:
        make_result(RunFolder(run))
    assert told.value.where == str(run / CELL / "cell.json")


def test_what_is_wrong_in_the_program_itself_says_where_it_came_from(tmp_path: Path) -> None:
    with pytest.raises(LatlabError) as told, making_sense_of(tmp_path):
        RunFolder(tmp_path).cell(None, 1).slug.upper()  # type: ignore[arg-type]
    assert str(told.value).startswith(f"{tmp_path}: is damaged, or not a file that latlab writes: TypeError: ")
    assert "(run_folder.py, line " in str(told.value)


def test_a_panic_of_a_library_is_never_taken_for_a_limit_that_was_exceeded(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def panics() -> None:
        raise pl.exceptions.PanicException("index out of bounds")

    monkeypatch.setattr("latlab.cli.start.app", panics)
    monkeypatch.setattr("sys.argv", ["latlab", "list"])
    with pytest.raises(SystemExit) as ended:
        latlab.cli.main()
    assert ended.value.code == EXIT_LAB
    assert "an internal error of latlab: PanicException: index out of bounds" in capsys.readouterr().err
    with (
        pytest.raises(LatlabError, match="is damaged, or not a file that latlab writes: PanicException"),
        making_sense_of(tmp_path),
    ):
        panics()
