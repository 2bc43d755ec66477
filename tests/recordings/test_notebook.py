"""A run opens in a notebook as polars tables."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

import latlab
from latlab.evaluation.run import make_result
from latlab.model.errors import LabError, UsageError
from latlab.recordings.packets import build_packets
from latlab.recordings.run_folder import RunFolder
from latlab.result.store import schema_text
from support.recordings import cell_document, stream_of, write_cell

LAUNCH = [1_000_000 + n * 1000 for n in range(10)]
SENT = [(1, n, launch, launch, launch + 7, launch + 9, 0, 0) for n, launch in enumerate(LAUNCH)]


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    """A run of one cell that was measured and one that could not be."""
    run = RunFolder.create(tmp_path, "first")
    streams = [stream_of(1, name="control")]
    measured = cell_document(streams, slug="loads=a+b", cell={"loads": ["a", "b"], "guests.vm1.vcpus": 2})
    folder = write_cell(run.cell("loads=a+b", 1).path, measured, sent=SENT)
    missing = cell_document(streams, slug="loads=c", cell={"loads": ["c"]}, status="unavailable", start_tai_ns=0)
    run.add_cell("loads=c", 1).write_cell(missing)
    build_packets(folder)
    make_result(run)
    return run


def test_cells_have_a_column_for_each_axis(run: RunFolder) -> None:
    cells = latlab.load(run.path).cells
    assert cells.select("slug", "repeat", "status", "label", "loads", "guests.vm1.vcpus").rows() == [
        ("loads=a+b", 1, "ok", "measured", "a+b", "2"),
        ("loads=c", 1, "unavailable", "measured", "c", None),
    ]


def test_packets_say_which_cell_and_stream_they_are_of(run: RunFolder) -> None:
    packets = latlab.load(run.path).packets()
    assert packets.height == 10
    assert packets.select("cell", "repeat", "stream_name", "stream").unique().rows() == [("loads=a+b", 1, "control", 1)]
    assert (packets["wake_tai_ns"] - packets["launch_tai_ns"]).to_list() == [7] * 10


def test_packets_of_a_run_cut_short_come_from_the_recordings(run: RunFolder) -> None:
    built = latlab.load(run.path).packets("loads=a+b", 1)
    run.cell("loads=a+b", 1).packets_path.unlink()
    assert latlab.load(run.path).packets("loads=a+b", 1).equals(built)


def test_a_cell_that_is_not_in_the_run_is_named_with_those_that_are(run: RunFolder) -> None:
    with pytest.raises(UsageError, match=r"loads=zzz.*loads=a\+b/r1, loads=c/r1"):
        latlab.load(run.path).packets("loads=zzz")


def test_metrics_are_a_row_for_each_cell_stream_and_metric(run: RunFolder) -> None:
    metrics = latlab.load(run.path).metrics
    wakeup = metrics.filter(pl.col("metric") == "wakeup").row(0, named=True)
    assert (wakeup["cell"], wakeup["stream"], wakeup["n"], wakeup["max"], wakeup["p99"]) == (
        "loads=a+b",
        "control",
        8,
        7,
        None,
    )
    # Nothing was recorded as received, so columns of received packets are empty.
    assert metrics.select("metric", "n").rows() == [("wakeup", 8), ("lateness", 8), ("latency", 0), ("latency_user", 0)]


def test_the_result_is_the_result_document(run: RunFolder) -> None:
    result = latlab.load(run.path).result
    assert result.run == run.id
    assert [cell.slug for cell in result.cells] == ["loads=a+b", "loads=c"]
    assert result.cells[0].streams["control"].metrics["wakeup"].n == 8
    assert result.document() == run.result()


def test_a_result_of_another_shape_is_an_error_that_says_what_to_do(run: RunFolder) -> None:
    run.result_path.write_text(json.dumps(run.result() | {"colour": "red"}))
    with pytest.raises(LabError, match=r"colour: .*latlab report .* writes it again"):
        latlab.load(run.path).result  # noqa: B018 (it is read here)


def test_the_schema_of_results_is_what_the_types_say() -> None:
    shipped = Path(__file__).parents[2] / "docs" / "reference" / "result.schema.json"
    assert shipped.read_text(encoding="utf-8") == schema_text()


def test_importing_latlab_does_not_import_the_tables(tmp_path: Path) -> None:
    program = "import sys, latlab; print('polars' in sys.modules, 'numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]
