"""Anomalies and clean windows wherever a result is shown: by class, the worst in words, and nothing cut silently."""

from __future__ import annotations

import shutil
from copy import deepcopy
from io import StringIO
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from rich.console import Console

from latlab.evaluation.run import make_result
from latlab.recordings.run_folder import RunFolder
from latlab.report.anomalies import (
    HEADINGS,
    TITLE,
    WINDOW_HEADINGS,
    anomaly_rows,
    class_rows,
    cut_lines,
    uncut_text,
    window_rows,
)
from latlab.report.build import write_report
from latlab.report.document import Lines
from latlab.report.markdown import escaped, result_markdown
from latlab.report.sections import Shown, parts_of
from latlab.report.terminal import print_result
from latlab.result.store import typed
from latlab.result.types import Result
from support.results import partial

SLOW_NS = 400_000


@pytest.fixture(scope="module")
def analysed(tmp_path_factory: pytest.TempPathFactory, pristine_run: Path) -> dict[str, Any]:
    """What is found of a run in whose first cell all that is launched in the first twentieth after the warm-up comes
    400 µs later.
    """
    folder = RunFolder(shutil.copytree(pristine_run, tmp_path_factory.mktemp("slow") / pristine_run.name))
    make_result(folder)
    cell = next(one for one in folder.cells() if one.cell().status == "ok")
    packets = pl.read_parquet(cell.packets_path)
    slow = ~pl.col("warmup") & (
        pl.col("launch_tai_ns") < packets.filter(~pl.col("warmup"))["launch_tai_ns"].quantile(1 / 20)
    )
    stamps = [pl.col(name) + slow.cast(pl.Int64) * SLOW_NS for name in ("rx_soft_tai_ns", "rx_user_tai_ns")]
    metadata = pl.read_parquet_metadata(cell.packets_path)
    kept = {key: value for key, value in metadata.items() if key.startswith("latlab.")}
    packets.with_columns(stamps).write_parquet(cell.packets_path, metadata=kept)
    return make_result(folder).document()


@pytest.fixture
def slow_at_first(analysed: dict[str, Any]) -> dict[str, Any]:
    """The same, to change."""
    return deepcopy(analysed)


def test_a_stall_is_a_class_of_its_own_with_its_length_in_words(result: dict[str, Any]) -> None:
    rows = [dict(zip(HEADINGS, row.texts, strict=True)) for row in anomaly_rows(typed(result))]
    stalls = [row for row in rows if row["class"] == "Stall"]
    # The other stream's packets come further apart than the stall is long.
    assert {row["stream"] for row in stalls} == {"control"}
    for row in stalls:
        assert "flood1" in row["cell"] and int(row["episodes"]) >= 1 <= int(row["packets"])
        assert "ms" in row["the worst"]
    told = [line for row in anomaly_rows(typed(result)) if row.texts[3] == "Stall" for line in row.episodes]
    assert all(line.startswith("at ") for line in told)


def test_each_class_has_its_counts_and_its_worst_episodes_of_all_streams(result: dict[str, Any]) -> None:
    blocks = [block for cell in result["cells"] for block in cell["streams"].values() if block["anomalies"] is not None]
    stalls = [block["anomalies"]["stall"] for block in blocks if "stall" in block["anomalies"]]
    (row,) = [row for row in class_rows(typed(result)) if row[0] == "Stall"]
    packets, episodes = (sum(one[name] for one in stalls) for name in ("packets", "episodes"))
    assert row[1:4] == (f"{len(stalls)} of {len(blocks)}", str(packets), str(episodes))
    worst = max(stalls, key=lambda one: max(episode["severity"] for episode in one["shown"]))
    assert row[4].startswith("loads flood1, repeat ") and row[4].endswith(f", control: {worst['worst']}")


def test_what_is_cut_stands_with_its_reason_and_both_sides_whole(slow_at_first: dict[str, Any]) -> None:
    result = slow_at_first
    found = [dict(zip(WINDOW_HEADINGS, row.texts, strict=True)) for row in window_rows(typed(result))]
    blocks = [block for cell in result["cells"] for block in cell["streams"].values() if block["windows"]["cuts"]]
    assert len(found) == 2 * len(blocks) > 0
    assert [len(row.cuts) for row in window_rows(typed(result))][1::2] == [
        len(one["windows"]["cuts"]) for one in blocks
    ]
    for whole, clean, block in zip(found[::2], found[1::2], blocks, strict=True):
        packets, sides = block["windows"]["packets"], block["windows"]["metrics"]["latency"]
        assert (whole["of"], clean["of"]) == ("whole run", "clean windows")
        assert clean["cut because"].startswith(f"{packets['cut']} of {packets['whole']} packets are cut: at ")
        assert packets["kept"] + packets["cut"] == packets["whole"]
        assert sides["whole"]["max"] == block["metrics"]["latency"]["max"]
        for row, side in ((whole, sides["whole"]), (clean, sides["clean"])):
            assert row["n"] == str(side["n"])
            for heading, name in (("min", "min"), ("p50", "p50"), ("p99.9", "p99_9"), ("max", "max")):
                shown = "" if side[name] is None else f"{side[name] / 1000:.1f}"
                assert row[heading].split(" (")[0] == shown


def test_what_several_cuts_have_in_common_is_said_once_with_their_times() -> None:
    """57 times the same throttling, and another: two sentences, and no column of the terminal has them. By how much
    its length is not quite the same each time makes it no other.
    """

    def throttled(number: int) -> str:
        return f"throttled for {'50.01 ms' if number % 7 == 6 else '50 ms'}"

    cuts = [
        {"from_tai_ns": number * 10**9, "text": "a clock step" if number == 3 else throttled(number)}
        for number in range(1, 59)
    ]
    windows = {"cuts": cuts, "kept": [], "packets": {"whole": 100, "kept": 42, "cut": 58}, "metrics": {}}
    cell = {"cell": {}, "slug": "all", "repeat": 1, "start_tai_ns": 500_000_000}
    cell["streams"] = {"control": {"start_tai_ns": None, "windows": windows, "metrics": {}}}
    (line,) = cut_lines(partial(Result, {"cells": [cell]}))
    assert line.endswith(
        "repeat 1, control: 58 of 100 packets are cut: at 500 ms, 1.5 s, 3.5 s, 4.5 s and 53 more times: throttled for "
        "50 ms; at 2.5 s: a clock step"
    )


def test_what_was_cut_stands_below_the_table(slow_at_first: dict[str, Any]) -> None:
    result = slow_at_first
    lines = [
        line
        for part in parts_of("anomalies", Shown(typed(result), []))
        if isinstance(part, Lines)
        for line in part.lines
    ]
    assert set(cut_lines(typed(result))) <= set(lines)


def test_both_sides_have_their_own_intervals(slow_at_first: dict[str, Any]) -> None:
    result = slow_at_first
    block = next(one for cell in result["cells"] for one in cell["streams"].values() if one["windows"]["cuts"])
    clean = block["windows"]["metrics"]["latency"]["clean"]
    found = clean["confidence"]["p50"]
    assert found["value"] == clean["p50"] and found["low"] <= clean["p50"] <= found["high"]
    whole, kept = (dict(zip(WINDOW_HEADINGS, row.texts, strict=True)) for row in list(window_rows(typed(result)))[:2])
    assert kept["p50"] == f"{clean['p50'] / 1000:.1f} ({found['low'] / 1000:.1f} … {found['high'] / 1000:.1f})"
    assert "(" not in kept["max"] + whole["max"]  # of a maximum there is no interval


def test_of_how_many_streams_nothing_is_cut_is_said(slow_at_first: dict[str, Any], result: dict[str, Any]) -> None:
    assert uncut_text(typed(result)).startswith("No packet is cut from any stream: ")
    streams = [block["windows"] for cell in slow_at_first["cells"] for block in cell["streams"].values()]
    uncut = sum(not one["cuts"] for one in streams)
    assert uncut_text(typed(slow_at_first)).startswith(f"No packet is cut from {uncut} of {len(streams)} streams: ")


def test_terminal_markdown_and_page_tell_the_same(result: dict[str, Any], reported_run: Path) -> None:
    with Console(width=240, record=True, file=StringIO()) as console:
        print_result(typed(result), console)
    text, page = console.export_text(), write_report(RunFolder(reported_run), formats=()).read_text()
    markdown = result_markdown(typed(result), ["latency"])
    assert TITLE in text and TITLE in markdown and TITLE in page and '<a href="#anomalies">' in page
    for row in anomaly_rows(typed(result)):
        worst = row.texts[-1]
        assert worst in " ".join(text.split()) and escaped(worst) in markdown and worst in page


def test_times_count_from_the_streams_own_start_as_those_of_its_series_do(slow_at_first: dict[str, Any]) -> None:
    apart_ns = 1_086_000_000
    result = slow_at_first
    before = [row.episodes for row in anomaly_rows(typed(result)) if row.episodes and row.texts[2] == "control"]
    for cell in result["cells"]:
        assert {block["start_tai_ns"] for block in cell["streams"].values()} <= {cell["start_tai_ns"]}
        for block in cell["streams"].values():
            block["start_tai_ns"] -= apart_ns
            for one in (episode for found in block["anomalies"].values() for episode in found["shown"]):
                one["from_tai_ns"] -= apart_ns
    assert [row.episodes for row in anomaly_rows(typed(result)) if row.episodes and row.texts[2] == "control"] == before
