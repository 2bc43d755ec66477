"""A synthetic run is a run folder like any other, but for its label and the truth that lies next to it."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from latlab.evaluation.run import make_result
from latlab.notebook import load
from latlab.recordings.run_folder import RunFolder
from latlab.report.build import write_report
from latlab.synthetic import Description, generate, write_run
from latlab.synthetic.description import Duplicates, MissedSlots, Stall, Swing, SyntheticGates, Throttling

DESCRIPTION = Description(
    seed=11,
    packets=5_000,
    period_ns=1_000_000,
    warmup=100,
    gates=SyntheticGates(500_000, 200_000),
    clock_bound_ns=400,
    ptp=True,
    ingredients=(Stall(10**9, 6_000_000), MissedSlots((3_000,)), Duplicates(4), Swing(3 * 10**9, 10**9, 300, ptp=True)),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_run(generate(DESCRIPTION), tmp_path_factory.mktemp("runs") / "made-up")


def test_its_result_and_page_are_made_as_of_a_measured_one(folder: Path) -> None:
    result = make_result(RunFolder.open(folder)).document()
    (cell,) = result["cells"]
    stream = cell["streams"]["control"]
    assert (result["label"], cell["status"]) == ("synthetic", "ok")
    assert stream["counts"]["scheduled"] == 5_000
    assert stream["counts"]["duplicated"] == 4
    assert stream["metrics"]["latency"]["max"] > 5_000_000
    assert stream["metrics"]["latency"]["uncertainty_ns"] == 400
    # The scenario next to it has its gates, so that the packet that missed its slot is reported.
    assert stream["gates"]["missed"] == 1
    assert cell["ptp"][0]["states"] == {"SLAVE": 11}
    write_report(RunFolder.open(folder), formats=())
    assert "synthetic" in (folder / "report.html").read_text(encoding="utf-8")


def test_its_packets_are_loaded_as_of_a_measured_one(folder: Path) -> None:
    packets = load(folder).packets("all")
    assert packets.drop("cell", "repeat", "stream_name").equals(generate(DESCRIPTION).packets)


def test_the_truth_lies_next_to_it(folder: Path) -> None:
    cell = folder / "cells" / "all" / "r1"
    truth = generate(DESCRIPTION).truth
    table = pl.read_parquet(cell / "truth.parquet")
    assert table["class"].to_list() == truth.class_of.tolist()
    told = json.loads((cell / "truth.json").read_text())
    assert [episode["class_"] for episode in told["episodes"]] == [one.class_ for one in truth.episodes]
    described = json.loads((cell / "description.json").read_text())
    assert [one["kind"] for one in described["ingredients"]] == ["Stall", "MissedSlots", "Duplicates", "Swing"]


def test_the_facts_say_that_it_was_throttled(tmp_path: Path) -> None:
    description = Description(seed=1, packets=3_000, period_ns=1_000_000, ingredients=(Throttling(0),))
    folder = RunFolder.open(write_run(generate(description), tmp_path / "throttled"))
    findings = [reason["finding"] for reason in make_result(folder).document()["reasons"]]
    assert "real-time threads have been throttled" in findings


def test_a_folder_that_is_there_is_left_alone(folder: Path) -> None:
    with pytest.raises(FileExistsError):
        write_run(generate(DESCRIPTION), folder)
