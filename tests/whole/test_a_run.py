"""A run from its scenario to its report: complete, exact, and without a trace on the machine."""

from __future__ import annotations

import re
import shutil
from itertools import pairwise
from pathlib import Path

import polars as pl
import pytest

import latlab
from latlab.analysis.statistics import NAMES
from latlab.model.metrics import METRICS
from latlab.recordings.arrow import read_recording
from support.command import PACKETS, WARMUP, FinishedRun, cells_of, read
from support.report.page import body, charts, opened

pytestmark = pytest.mark.real

CELLS = {"loads=none": [], "loads=flood1": ["flood1"]}
RECORDINGS = {
    *("talker-sensor.sent.arrow", "talker-sensor.stamps.arrow", "talker-sensor.clocks.arrow"),
    *("listener-ecu.received.arrow", "listener-ecu.clocks.arrow"),
}
# Hardware timestamps are the only ones a virtual cable has none of.
WAY = [
    *("launch_tai_ns", "wake_due_tai_ns", "wake_tai_ns", "submit_tai_ns"),
    *("tx_sched_tai_ns", "tx_soft_tai_ns", "rx_soft_tai_ns", "rx_user_tai_ns"),
]


def test_a_run_ends_well_and_prints_its_result(finished: FinishedRun) -> None:
    assert finished.ended.status == 0
    assert finished.ended.document == read(finished.folder / "result.json")
    assert read(finished.folder / "run.json")["exit_status"] == 0


def test_the_machine_is_as_it_was_before(finished: FinishedRun) -> None:
    assert finished.after == finished.before
    assert finished.after["agents"] == {} and finished.after["journals"] == []


def test_the_run_folder_is_complete(finished: FinishedRun) -> None:
    folder = finished.folder
    assert {path.name for path in folder.iterdir()} == {
        *("run.json", "scenario.yaml", "plan.txt", "result.json", "report.html", "figures.csv", "pictures", "cells"),
    }
    assert (folder / "scenario.yaml").read_text() == (finished.place.folder / "small.yaml").read_text()
    for slug in CELLS:
        names = {path.name for path in (folder / "cells" / slug / "r1").iterdir()}
        tables = {"packets.parquet", "classes.parquet", "drops-ecu.drops.arrow"}
        assert names == RECORDINGS | tables | {"cell.json", "facts-before.json", "facts-after.json"}
    pictures = {path.name for path in (folder / "pictures").iterdir()}
    ways = ["", "-ccdf", "-chain", "-comparison"]
    if any(
        cell["streams"]["control"]["metrics"]["latency"]["tail"]["fit"] for cell in finished.ended.document["cells"]
    ):
        ways.append("-tail")  # a thousand real packets may have a tail, and may not
    assert pictures == {f"control-latency{way}.png" for way in ways}


def test_every_recording_is_whole_and_of_its_cell(finished: FinishedRun) -> None:
    for key, cell in cells_of(finished.folder).items():
        for name in RECORDINGS:
            found = read_recording(finished.folder / "cells" / key / name, name.split(".")[1], run_id=cell["run_id"])
            assert found.complete, (key, name)
            assert found.table.height > 0, (key, name)


def test_the_counts_are_exact_and_nothing_is_lost(finished: FinishedRun) -> None:
    result = finished.ended.document
    assert [cell["slug"] for cell in result["cells"]] == list(CELLS)
    for cell in result["cells"]:
        assert (cell["status"], cell["repeat"]) == ("ok", 1)
        counts = cell["streams"]["control"]["counts"]
        whole = dict.fromkeys(counts, 0) | dict.fromkeys(("scheduled", "sent", "received"), PACKETS)
        assert counts == whole | {"warmup": WARMUP}


def test_every_metric_has_every_statistic_in_nanoseconds(finished: FinishedRun) -> None:
    for cell in finished.ended.document["cells"]:
        metrics = cell["streams"]["control"]["metrics"]
        assert list(metrics) == [metric.name for metric in METRICS]
        for name, figures in metrics.items():
            assert set(NAMES) <= set(figures)
            assert (figures["n"], figures["lost"], figures["missing"]) == (PACKETS - WARMUP, 0, 0), name
            assert (figures["duplicated"], figures["reordered"], figures["uncertainty_ns"]) == (0, 0, 0), name
            ordered = [figures[key] for key in ("min", "p50", "p90", "p99", "max")]
            assert ordered == sorted(ordered) and all(isinstance(value, int) for value in ordered), name
            assert figures["p99_99"] is None, "1300 packets say nothing of one in ten thousand"
            assert figures["pk_pk"] == figures["max"] - figures["min"]
            assert {WARMUP <= figures[key] < PACKETS for key in ("min_sequence", "max_sequence")} == {True}
        assert metrics["latency"]["min"] > 0
        assert metrics["latency_user"]["min"] >= metrics["latency"]["min"]


def test_the_packet_table_has_every_timestamp_in_the_order_of_the_way(finished: FinishedRun) -> None:
    for slug in CELLS:
        packets = latlab.load(finished.folder).packets(slug)
        assert packets["sequence"].to_list() == list(range(PACKETS))
        assert packets["arrival"].to_list() == list(range(PACKETS))
        assert packets["warmup"].sum() == WARMUP
        assert all(packets[name].null_count() == 0 for name in WAY)
        for before, after in pairwise(WAY[3:]):
            assert (packets[before] <= packets[after]).all(), f"{slug}: {before} to {after}"
        assert (packets["wake_due_tai_ns"] <= packets["wake_tai_ns"]).all()
        assert (packets["launch_tai_ns"] <= packets["submit_tai_ns"]).all()
        assert packets["launch_tai_ns"].diff().drop_nulls().unique().to_list() == [1_000_000]


def test_the_cell_says_what_ran_and_how(finished: FinishedRun) -> None:
    for key, cell in cells_of(finished.folder).items():
        assert (cell["status"], cell["reason"], cell["label"]) == ("ok", None, "measured")
        assert [(agent["host"], agent["verb"], agent["error"]) for agent in cell["agents"]] == [
            ("ecu", "listen", None),
            ("sensor", "talk", None),
        ]
        for agent, fifo in zip(cell["agents"], (80, 90), strict=True):
            assert agent["ready"]["realtime"]["policy"] == "SCHED_FIFO"
            assert agent["ready"]["realtime"]["priority"] == fifo
            assert agent["done"]["ring_full"] == 0
        assert cell["clocks"] == [
            {"from": "sensor", "to": "ecu", "source": "one kernel", "lower_ns": 0, "upper_ns": 0, "windows": []}
        ]
        assert cell["steps"] and all(step["ok"] for step in cell["steps"])
        assert [load["name"] for load in cell["loads"]] == CELLS[key.split("/")[0]]
        for when in ("before", "after"):
            facts = read(finished.folder / "cells" / key / f"facts-{when}.json")
            assert set(facts) == {"sensor", "ecu"}


def test_the_load_s_achieved_rate_is_in_the_result(finished: FinishedRun) -> None:
    _, loaded = finished.ended.document["cells"]
    (load,) = loaded["loads"]
    assert (load["kind"], load["from"], load["to"], load["asked_bps"]) == ("flood", "sensor", "ecu", 20_000_000)
    assert load["sent_bps"] == pytest.approx(20_000_000, rel=0.1)
    assert load["detail"]["received"]["packets"] == load["detail"]["sent"]["packets"] > 0
    assert len(load["commands"]) == 2


def test_progress_is_reported_line_by_line_and_leaves_standard_output_to_the_document(finished: FinishedRun) -> None:
    lines = finished.ended.err.splitlines()
    assert lines[0].startswith(f"runs/{finished.folder.name}: 2 cells, in an order shuffled with seed ")
    assert lines[-1] == "drawing the report"
    order = [one["slug"] for one in read(finished.folder / "run.json")["order"]]
    started = [f"[{number}/2] {slug}" for number, slug in enumerate(order, start=1)]
    ends = [(f"{title}, 1.5 s", f"{title}: {PACKETS} sent, {PACKETS} received") for title in started]
    assert lines[1:-1] == [line for pair in ends for line in pair]


def test_the_report_draws_every_packet_of_the_packet_table(finished: FinishedRun) -> None:
    dom = opened(finished.folder / "report.html")
    assert body(dom)["data-ready"] == "true"
    drawn = {chart["data-cell"]: int(chart["data-points"]) for chart in charts(dom) if chart["data-chart"] == "series"}
    expected = {}
    for slug in CELLS:
        packets = pl.read_parquet(finished.folder / "cells" / slug / "r1" / "packets.parquet")
        counted = packets.filter(~pl.col("warmup") & pl.col("rx_soft_tai_ns").is_not_null())
        expected[f"{slug}/r1"] = counted.height
    assert drawn == expected == dict.fromkeys(expected, PACKETS - WARMUP)


def copied(finished: FinishedRun, into: Path) -> Path:
    """A copy of the run's folder under its own name."""
    return Path(shutil.copytree(finished.folder, into / finished.folder.name))


def test_the_recordings_alone_give_the_same_result_and_a_table_with_a_row_a_cell(
    finished: FinishedRun, tmp_path: Path
) -> None:
    run = copied(finished, tmp_path)
    for gone in (run / "result.json", run / "report.html", *run.glob("cells/*/*/packets.parquet")):
        gone.unlink()
    shutil.rmtree(run / "pictures")
    again = finished.place.latlab("report", run.name, "--runs", tmp_path, "--metric", "latency")
    assert (again.status, again.err) == (0, "")
    assert (run / "result.json").read_bytes() == (finished.folder / "result.json").read_bytes()
    assert (run / "report.html").exists()
    assert not (run / "pictures").exists(), "none are asked for"
    assert again.out.split("\n\n")[1].split()[:2] == ["idle", "flood1"]
    assert f"Report: {run}/report.html" in again.out


def test_every_metric_is_drawn_where_a_format_is_asked_for(finished: FinishedRun, tmp_path: Path) -> None:
    run = copied(finished, tmp_path)
    again = finished.place.latlab("report", run.name, "--runs", tmp_path, "--picture", "svg", pictures=True)
    assert (again.status, again.err) == (0, "")
    drawn = {path.name for path in (run / "pictures").glob("*.svg")}
    assert drawn >= {f"control-{metric.name}.svg" for metric in METRICS}


def test_the_plan_names_every_command_that_was_run(finished: FinishedRun) -> None:
    plan = finished.place.latlab("plan", "small.yaml")
    assert (plan.status, plan.err) == (0, "")
    assert plan.out == (finished.folder / "plan.txt").read_text()
    commands = {step["command"] for cell in cells_of(finished.folder).values() for step in cell["steps"]}
    assert len(commands) > 10
    for command in commands:
        assert _without_tag(command) in {_without_tag(line.partition("  # ")[0]) for line in plan.out.splitlines()}
    for verb in ("talk", "listen", "flood"):
        assert f"latlab-agent {verb}" in plan.out
    assert [f"Cell {slug}" in plan.out for slug in CELLS] == [True, True]


def _without_tag(command: str) -> str:
    """The command without what is each run's own: the tag in its namespaces' names, and the MAC addresses it gives."""
    return re.sub(r"latlab-[^-/ ]+-(?=\w)|02(:[0-9a-f]{2}){5}", "*", command)


def test_the_list_shows_the_run(finished: FinishedRun) -> None:
    (one,) = finished.place.latlab("list", "--json").document
    verdict = finished.ended.document["verdict"]
    assert (one["run"], one["name"], one["exit_status"]) == (finished.folder.name, "small", 0)
    assert one["verdict"] == verdict
    assert finished.folder.name in finished.place.latlab("list").out
