"""classes.parquet says of every packet what is the matter with it, row by row next to the packet table."""

from __future__ import annotations

import shutil
from pathlib import Path

import polars as pl
import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest

from latlab.analysis.anomalies import NAMES
from latlab.evaluation.cell import write_classes
from latlab.evaluation.run import make_result
from latlab.model.errors import LabError
from latlab.recordings.run_folder import CellFolder, RunFolder


@pytest.fixture(scope="module")
def run(shared_run: Path, tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    path = tmp_path_factory.mktemp("runs") / shared_run.name
    shutil.copytree(shared_run, path)
    make_result(RunFolder(path))
    return RunFolder(path)


def measured(run: RunFolder) -> list[CellFolder]:
    return [cell for cell in run.cells() if cell.cell().status == "ok"]


def test_it_has_a_row_for_each_packet_in_the_packet_tables_order(run: RunFolder) -> None:
    assert len(measured(run)) == 4
    for cell in measured(run):
        found = pl.read_parquet(cell.classes_path)
        assert found.columns == ["stream", "sequence", "class", "episode"]
        assert found.select("stream", "sequence").equals(cell.packets().select("stream", "sequence"))
        assert (found["class"].is_null() == found["episode"].is_null()).all()
        assert found.filter(cell.packets()["warmup"])["class"].null_count() == cell.packets()["warmup"].sum()


def test_its_classes_and_episodes_are_those_of_the_result(run: RunFolder) -> None:
    told = 0
    for outcome in run.result()["cells"]:
        cell = run.cell(outcome["slug"], outcome["repeat"])
        numbers = {one.name: one.stream for one in cell.cell().streams}
        for name, block in outcome["streams"].items():
            found = pl.read_parquet(cell.classes_path).filter(pl.col("stream") == numbers[name])
            counts = dict(found["class"].drop_nulls().cast(pl.String).value_counts().iter_rows())
            assert counts == {kind: one["packets"] for kind, one in block["anomalies"].items() if one["packets"]}
            for kind, one in block["anomalies"].items():
                for episode in one["shown"]:
                    rows = found.filter(pl.col("episode") == episode["number"])
                    assert rows.height == episode["packets"] and set(rows["class"].cast(pl.String)) <= {kind}
                    told += rows.height
    assert told > 0


def test_other_programs_read_its_classes_as_text(run: RunFolder) -> None:
    table = pq.read_table(measured(run)[0].classes_path)
    assert set(table["class"].to_pylist()) - {None} <= set(NAMES)


def test_a_folder_that_cannot_be_written_is_reported_with_what_to_do(run: RunFolder) -> None:
    gone = CellFolder(run.path / "cells" / "none" / "r1")
    with pytest.raises(LabError, match=r"cannot be written: .*latlab report RUN"):
        write_classes(gone, pl.DataFrame({"stream": [1]}))
