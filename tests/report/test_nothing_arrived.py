"""A stream of which every packet was lost stands in every table, and reports it."""

from __future__ import annotations

import csv
import io
import shutil
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import polars as pl
import pytest
from rich.console import Console

from latlab.analysis.evidence import Evidence
from latlab.analysis.summary import JudgedCell, summarise_cell
from latlab.analysis.trust import judge
from latlab.evaluation.run import judged_result
from latlab.recordings.run_folder import RunFolder
from latlab.report.build import write_report
from latlab.report.junit import result_junit
from latlab.report.markdown import result_markdown
from latlab.report.terminal import print_result
from latlab.result.store import typed

METRICS = ("latency", "latency_user")
IDLE = ("loads=none", 1)
ALL = (IDLE, ("loads=none", 2), ("loads=flood1", 1), ("loads=flood1", 2))
SENT = 7951
"""Packets of `control` after the warm-up."""
SAID = f"untrusted, nothing arrived: {SENT} lost"


def lose(run: Path, cells: Collection[tuple[str, int]]) -> dict[str, Any]:
    """The run's result, judged by the trust checks, once every packet of `control` was lost in these cells."""
    folder = RunFolder(run)
    documents = []
    for one in folder.cells():
        cell, packets = one.cell(), one.packets() if one.packets_path.exists() else None
        if packets is not None and (one.slug, one.repeat) in cells:
            arrived = [name for name in packets.columns if name.startswith("rx_") or name == "arrival"]
            gone = [pl.when(pl.col("stream") != 1).then(pl.col(name)).alias(name) for name in arrived]
            packets = packets.with_columns(gone)
            packets.write_parquet(one.packets_path)
        found = summarise_cell(cell, packets)
        documents.append(JudgedCell.of(found, judge(Evidence(cell, found.streams))))
    result = judged_result(folder.run(), documents, {"control.latency.max": 500_000}).document()
    folder.write_result(result)
    return result


@pytest.fixture(scope="module", params=[(IDLE,), ALL], ids=["in one cell", "in every cell"])
def lost(
    request: pytest.FixtureRequest, shared_run: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, dict[str, Any]]:
    run = shutil.copytree(shared_run, tmp_path_factory.mktemp("runs") / shared_run.name)
    return run, lose(run, request.param)


def test_the_terminal_and_markdown_say_how_many_were_lost(lost: tuple[Path, dict[str, Any]]) -> None:
    _, result = lost
    terminal = io.StringIO()
    print_result(typed(result), Console(file=terminal, width=200))
    for text in (terminal.getvalue(), result_markdown(typed(result), METRICS)):
        assert SAID in text
        assert "no such timestamps" not in text


def test_the_page_and_the_figures_have_its_rows(lost: tuple[Path, dict[str, Any]]) -> None:
    run, result = lost
    expected = sum("packets-arrived" in {one["id"] for one in _of(result, cell)} for cell in ALL)
    page = write_report(run, formats=()).read_text()
    summary = page.split('<section id="summary">')[1]
    assert summary.count(f">{SAID}<") == len(METRICS) * expected
    with (run / "figures.csv").open(newline="") as file:
        found = [row for row in csv.DictReader(file) if row["metric"] == "latency" and row["n"] == "0"]
    assert [(row["stream"], row["lost"]) for row in found] == [("control", str(SENT))] * expected


def test_its_cell_is_untrusted_and_fails_in_junit(lost: tuple[Path, dict[str, Any]]) -> None:
    _, result = lost
    (reason,) = (one for one in _of(result, IDLE) if one["id"] == "packets-arrived")
    assert reason["where"] == "loads=none/r1: stream control"
    root = ET.fromstring(result_junit(typed(result)))
    suite = next(one for one in root if one.get("name") == "first: loads=none/r1")
    failed = {case.get("name") for case in suite.findall("testcase") if case.find("failure") is not None}
    assert "trust: packets-arrived" in failed


@pytest.mark.slow
def test_a_stream_that_lost_only_some_says_nothing_of_it(new_run: Callable[..., Path]) -> None:
    result = lose(new_run(), ())
    assert "packets-arrived" not in {one["id"] for one in result["reasons"]}


def _of(result: dict[str, Any], cell: tuple[str, int]) -> list[dict[str, Any]]:
    """The reasons of one cell."""
    return [one for one in result["reasons"] if one["where"].startswith(f"{cell[0]}/r{cell[1]}")]
