"""Guests behind bridges, both ways and several times: what the tables and the page report of them."""

from __future__ import annotations

import copy
import io
import re
import shutil
from collections.abc import Callable
from math import sqrt
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np
import polars as pl
import pytest
from rich.console import Console

from latlab.analysis.described import clock_source
from latlab.analysis.metrics import metric_values
from latlab.analysis.summary import JudgedCell
from latlab.evaluation.run import exit_code, judged_result
from latlab.model.metrics import METRICS_BY_NAME
from latlab.recordings.cell import ClockEdge
from latlab.recordings.run import RecordedRun
from latlab.recordings.run_folder import RunFolder
from latlab.report import repeats
from latlab.report.html import render
from latlab.report.payload import PAGE_BYTES
from latlab.report.published import headline_tables
from latlab.report.rows import summaries
from latlab.report.terminal import print_result
from latlab.report.testbed import label_reasons
from latlab.result.store import typed
from latlab.result.types import Cell
from support.report.matrix import REPEATS, slug
from support.report.page import Elements, acted, opened

RUN = RecordedRun(run="20261121-205152-bridges-3f9a", name="bridges")


def printed(result: dict[str, Any], width: int) -> list[str]:
    file = io.StringIO()
    print_result(typed(result), Console(file=file, width=width, force_terminal=True, color_system=None))
    return file.getvalue().splitlines()


def words(markup: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", markup).split())


def section(page: str, beginning: str, end: str) -> str:
    return page.split(beginning, 1)[1].split(end, 1)[0]


def edge(begin: str, end: str, source: str, half_ns: int | None = 0) -> ClockEdge:
    lower = None if half_ns is None else -half_ns
    return ClockEdge(from_=begin, to=end, source=source, lower_ns=lower, upper_ns=half_ns)


@pytest.fixture(scope="module")
def page(matrix_run: Path) -> str:
    return (matrix_run / "report.html").read_text()


@pytest.fixture
def new_matrix_page(matrix_run: Path, tmp_path: Path) -> Callable[[dict[str, Any]], str]:
    """The page of another result of the same run."""

    def make(result: dict[str, Any]) -> str:
        folder = RunFolder(shutil.copytree(matrix_run, tmp_path / matrix_run.name))
        folder.write_result(result)
        return render(folder, {}).before

    return make


@pytest.mark.parametrize("width", [80, 100, 120])
def test_each_direction_has_a_table_of_bridges_and_loads_that_fits(matrix: dict[str, Any], width: int) -> None:
    lines = printed(matrix, width)
    assert max(map(len, lines)) <= width
    begin = next(number for number, line in enumerate(lines) if line.startswith("up, vm1 → sensor: latency = "))
    table = lines[begin:]
    head = next(number for number, line in enumerate(table) if line.startswith("bridge "))
    assert table[head].split()[:7] == ["bridge", "loads", "repeat", "min", "mean", "max", "stddev"]
    labels = [tuple(line.split()[:3]) for line in table[head + 2 : head + 2 + 27]]
    loads = ("none", "load-down", "load-up")
    assert labels == [(b, load, str(r)) for b in ("tap", "macvtap", "xdp") for load in loads for r in (1, 2, 3)]


def test_what_this_machine_cannot_build_is_reported_once_and_is_in_no_other_table(matrix: dict[str, Any]) -> None:
    text = "\n".join(printed(matrix, 200))
    (line,) = [line for line in text.splitlines() if line.startswith("bridge vfio")]
    assert "no IOMMU is in use" in line
    assert "boot the kernel with intel_iommu=on" in line
    assert text.count("vfio") == 2, "its name, and the place in the scenario"
    assert "27 of 27 limits kept" in text


def judged(cells: list[dict[str, Any]]) -> list[JudgedCell]:
    """The cells, trusted."""
    return [JudgedCell(Cell.model_validate(cell)) for cell in cells]


def test_unavailable_cells_change_neither_verdict_nor_exit_code(matrix: dict[str, Any]) -> None:
    there = [cell for cell in matrix["cells"] if cell["status"] == "ok"]
    gone = [cell for cell in matrix["cells"] if cell["status"] == "unavailable"]
    assert len(gone) == 3 * REPEATS
    limits = {"down.latency.max": 10**12}
    whole = judged_result(RUN, judged(matrix["cells"]), limits).document()
    without = judged_result(RUN, judged(there), limits).document()
    assert exit_code(typed(whole)) == exit_code(typed(without)) == 0
    assert {key: whole[key] for key in ("verdict", "label", "reasons", "accept")} == {
        key: without[key] for key in ("verdict", "label", "reasons", "accept")
    }


def test_where_every_cell_is_unavailable_nothing_was_measured(matrix: dict[str, Any]) -> None:
    gone = [cell for cell in matrix["cells"] if cell["status"] == "unavailable"]
    result = judged_result(RUN, judged(gone), {}).document()
    assert (exit_code(typed(result)), result["verdict"]) == (3, "untrusted")
    assert [reason["finding"] for reason in result["reasons"]] == ["no cell was measured"]


def test_a_failed_cell_is_a_failure_whatever_could_not_be_built(matrix: dict[str, Any]) -> None:
    cells = copy.deepcopy(matrix["cells"])
    cells[0] |= {"status": "failed", "reason": {"what": "x", "where": "", "remedy": ""}}
    assert exit_code(judged_result(RUN, judged(cells), {})) == 3


def test_the_clock_stands_next_to_the_uncertainty(matrix: dict[str, Any], page: str) -> None:
    title = next(line for line in printed(matrix, 200) if line.startswith("down, sensor → vm1: latency = "))
    assert "µs ± 0.4 (shared page) · " in title
    captions = re.findall(r"<caption>(.*?)</caption>", section(page, 'data-for-metric="latency"', "</table>"))
    assert captions == [
        "down, sensor → vm1: latency = rx_soft − launch, µs ± 0.4 (shared page) · after warm-up · each repetition "
        "separately · functional only · suspect"
    ]
    # What is the same in every row stands above them; the clocks' own table has it cell by cell.
    assert page.split('<section id="summary">')[1].count("<td>0.4</td>") >= 27
    matrix["cells"][0]["streams"]["down"]["metrics"]["latency"]["uncertainty_ns"] = None
    assert "µs ± 0.4 (shared page), unknown in some cells · " in printed(matrix, 200)[0]


def test_where_rows_have_their_uncertainty_from_several_clocks_each_names_its_own(
    matrix: dict[str, Any], new_matrix_page: Callable[[dict[str, Any]], str]
) -> None:
    for cell in matrix["cells"]:
        if cell["cell"]["guests.vm1.bridge"] == "xdp":
            cell["streams"]["down"]["clock"] = "exchange"
    tables = section(new_matrix_page(matrix), 'data-for-metric="latency"', "</table>")
    assert "µs ± 0.4 (shared page or exchange) · " in tables
    assert [tables.count(f">0.4 ({clock})<") for clock in ("shared page", "exchange")] == [
        18,
        9,
    ]


def test_a_bound_is_never_rounded_down(matrix: dict[str, Any]) -> None:
    for ns, text in ((401, "0.5"), (400, "0.4"), (1, "0.1"), (0, "0.0"), (None, "unknown")):
        for cell in matrix["cells"]:
            if cell["streams"]:
                cell["streams"]["down"]["metrics"]["latency"]["uncertainty_ns"] = ns
        assert {row.uncertainty for row in summaries(typed(matrix), "latency")[0].rows} == {text}


def test_what_one_host_s_clock_alone_tells_is_off_by_nothing(matrix: dict[str, Any], page: str) -> None:
    assert {row.clock for row in summaries(typed(matrix), "delivery")[0].rows} == {"one clock"}
    assert "delivery = rx_user − rx_soft, µs ± 0.0 (one clock) · " in page


def test_the_source_of_a_clock_is_that_of_the_edges_which_join_the_two_hosts() -> None:
    edges = [edge("sensor", "ecu", "one kernel"), edge("ecu", "vm1", "shared page", 400)]
    assert clock_source(edges, "sensor", "vm1") == "shared page"
    assert clock_source(edges, "vm1", "sensor") == "shared page"
    assert clock_source(edges, "sensor", "ecu") == "one kernel"
    assert clock_source(edges, "vm1", "vm1") == "one clock"
    assert clock_source([edge("sensor", "ecu", "exchange", 9), edges[1]], "sensor", "vm1") == "shared page + exchange"
    assert clock_source(edges, "sensor", "vm2") is None
    assert clock_source([edge("sensor", "ecu", "exchange", None)], "sensor", "ecu") is None


def test_of_two_ways_the_one_that_bounds_best_is_named() -> None:
    ways = [edge("sensor", "vm1", "exchange", 9_000), edge("vm1", "sensor", "ptp_kvm", 700)]
    assert "ptp_kvm" in str(clock_source(ways, "sensor", "vm1"))


def test_repetitions_are_never_pooled_and_their_spread_stands_next_to_that_within_one(matrix: dict[str, Any]) -> None:
    cells = [cell for cell in matrix["cells"] if cell["slug"] == slug("xdp", "load-up")]
    found = [cell["streams"]["up"]["metrics"]["latency"] for cell in cells]
    lines = printed(matrix, 200)
    begin = next(
        n
        for n, line in enumerate(lines)
        if line.startswith("up, vm1 → sensor: latency") and "mean of the repetitions" in line
    )
    row = next(line for line in lines[begin:] if line.split()[:2] == ["xdp", "load-up"])

    def interval(name: str) -> str:
        values = [one[name] / 1000 for one in found]
        half = 4.302653 * stdev(values) / sqrt(3)
        ends = (fmean(values), fmean(values) - half, fmean(values) + half)
        return "{:.1f} [{:.1f}, {:.1f}]".format(*ends).replace("-", "−")

    within = f"{sorted(one['stddev'] for one in found)[1] / 1000:.1f}"
    between = f"{stdev(one['mean'] for one in found) / 1000:.1f}"
    assert re.split(" {2,}", row.strip()) == [
        "xdp",
        "load-up",
        "3",
        *map(interval, ("mean", "p50", "p90", "p99", "max")),
        within,
        between,
    ]


def test_a_cell_that_ran_once_has_no_spread_and_one_that_was_cut_short_is_in_none(matrix: dict[str, Any]) -> None:
    cut = [cell for cell in matrix["cells"] if cell["slug"] == slug("tap", "none")]
    cut[0] |= {"status": "interrupted", "reason": {"what": "SIGINT", "where": "", "remedy": ""}}
    (spread,) = [
        one for one in repeats.spreads(summaries(typed(matrix), "latency")[0]) if one.slug == slug("tap", "none")
    ]
    assert spread.repeats == 2
    assert len(spread.figures["max"]) == 2
    matrix["cells"] = [cell for cell in matrix["cells"] if cell["repeat"] == 1]
    assert [repeats.spreads(table) for table in summaries(typed(matrix), "latency")] == [(), ()]
    assert "mean of the repetitions" not in "\n".join(printed(matrix, 200))


def test_a_figure_that_one_repetition_cannot_support_is_blank(matrix: dict[str, Any]) -> None:
    cell = next(cell for cell in matrix["cells"] if cell["slug"] == slug("tap", "none"))
    cell["streams"]["down"]["metrics"]["latency"]["p99"] = None
    spread = repeats.spreads(summaries(typed(matrix), "latency")[0])[0]
    assert spread.text("p99") == ""
    assert spread.text("max") != ""


def test_a_finding_that_differs_from_cell_to_cell_is_reported_once_with_a_few_of_them(matrix: dict[str, Any]) -> None:
    late = {
        "id": "i",
        "check": "c",
        "finding": "the talker woke late",
        "severity": "suspect",
        "expected": "5 ms",
        "remedy": "isolate",
    }
    keys = [f"{cell['slug']}/r{cell['repeat']}" for cell in matrix["cells"][:6]]
    matrix["reasons"] = [late | {"where": f"{key}: up.wakeup", "actual": f"max {n} ms"} for n, key in enumerate(keys)]
    lines = printed(matrix, 200)
    begin = next(number for number, line in enumerate(lines) if "the talker woke late" in line)
    assert [line.strip() for line in lines[begin + 1 : begin + 8]] == [
        "expected: 5 ms",
        *(f"bridge tap, loads none, repeat {n}: up.wakeup: max {n - 1} ms" for n in (1, 2, 3)),
        "bridge tap, loads load-down, repeat 1: up.wakeup: max 3 ms",
        "and 2 more, in the report",
        "remedy: isolate",
    ]


def test_the_page_of_twelve_cells_with_repetitions_is_within_its_bytes(page: str) -> None:
    assert len(page.encode()) <= PAGE_BYTES < 3_000_000


def test_a_strip_spans_the_middle_of_each_repetition_on_one_axis(matrix_run: Path, page: str) -> None:
    packets = pl.read_parquet(matrix_run / "cells" / slug("macvtap", "none") / "r2" / "packets.parquet")
    values = metric_values(packets.filter(pl.col("stream") == 1), METRICS_BY_NAME["latency"], 1_006_000)
    assert values is not None
    p5, p50, p95, largest = (
        f"{value / 1000:.1f}" for value in np.quantile(values.value_ns, (0.05, 0.5, 0.95, 1.0), method="inverted_cdf")
    )
    told = f"repeat 2: p5 {p5}, p50 {p50}, p95 {p95}, max {largest} µs"
    drawn = section(page, f"<title>{told}</title>", "</g>")
    low, high, middle, end = [float(x) for x in re.findall(r"[MH]([\d.]+)", drawn)]
    assert 0 <= low < middle < high < end <= 100
    all_strips = [float(x) for x in re.findall(r"v8M([\d.]+) \d+v6", page)]
    assert len(all_strips) == page.count("<title>repeat ")
    assert all(0 <= place <= 100 for place in all_strips)


def test_the_repetitions_shown_are_those_of_the_chosen_metric(matrix_run: Path) -> None:
    dom = acted(matrix_run / "report.html", "document.querySelector('input[value=path]').click();")
    shown = [e for e in Elements(dom).found if "data-for-metric" in e and "hidden" not in e]
    assert {one["data-for-metric"] for one in shown} == {"path"}
    assert "up, vm1 → sensor: path = rx_soft − tx_soft: mean of the repetitions" in words(
        section(dom, 'data-for-metric="path"', "</section>")
    )


def test_why_figures_are_functional_only_stands_in_the_head_and_next_to_every_table(
    matrix: dict[str, Any], page: str
) -> None:
    sentence = "vm1 is emulated in software (TCG): its figures show that packets pass"
    assert sentence in words(section(page, "<header>", "</header>"))
    lines = printed(matrix, 200)
    assert any(sentence in line for line in lines[-20:])
    titles = [line for line in lines if "latency = " in line or "latency_user = " in line]
    assert len(titles) == 8
    assert all("functional only" in title for title in titles)
    captions = re.findall(r"<caption>(.*? = .*?)</caption>", section(page, 'id="summary"', "</section>"))
    assert captions
    assert all("functional only" in caption for caption in captions)
    for heading in ("stream-1", "stream-2"):
        assert "functional only" in section(page, f'id="{heading}"', "</h2>")


def test_a_measured_cell_next_to_an_emulated_one_is_told_apart(matrix: dict[str, Any]) -> None:
    for cell in matrix["cells"]:
        if cell["cell"]["guests.vm1.bridge"] == "xdp":
            cell["label"] = "measured"
            cell["guests"] = [{**guest, "acceleration": "kvm"} for guest in cell["guests"]]
    (sentence,) = label_reasons(typed(matrix))
    assert sentence.endswith("how fast a machine is; in bridge tap, bridge macvtap")
    rows = [line for line in printed(matrix, 200) if line.startswith(("tap  ", "xdp  ")) and "suspect" in line]
    assert {line.split()[0] for line in rows if line.rstrip().endswith("suspect, functional only")} == {"tap"}
    assert {line.split()[0] for line in rows if line.rstrip().endswith("suspect, measured")} == {"xdp"}


def test_a_measured_run_needs_no_explanation(matrix: dict[str, Any]) -> None:
    for cell in matrix["cells"]:
        cell["label"] = "measured"
    assert label_reasons(typed(matrix)) == []


def test_the_test_bed_tells_bridges_guests_and_what_is_not_as_set(page: str) -> None:
    text = words(section(page, '<section id="testbed">', "</section>"))
    for said in (
        "bridge xdp tap + XDP ecu eth0 vm1 eth0 native, ll12abt0 native; packets carried by QEMU",
        "every measured cell vm1 ecu debian-rt 6.1.0-41-rt-amd64 software emulation (TCG) 1 512 MiB snapshot",
        "chrt -f -p 1 4711 failed: Operation not permitted",
        "bridge macvtap, loads none, repeat 2; bridge macvtap, loads load-down, repeat 2",
    ):
        assert said in text, said


def test_what_is_not_in_force_makes_the_run_suspect_and_is_reported_once_for_all_cells(matrix: dict[str, Any]) -> None:
    assert matrix["verdict"] == "suspect"
    text = "\n".join(printed(matrix, 200))
    assert text.count("failed: Operation not permitted") == 1
    assert "    every measured cell: ecu: give vm1's vCPU 0 SCHED_FIFO 1: failed: Operation not permitted" in text


def test_the_page_draws_every_cell_of_the_matrix(matrix_run: Path) -> None:
    dom = opened(matrix_run / "report.html")
    assert 'data-ready="true"' in dom
    assert dom.count('data-chart="series"') == 2 * 27


@pytest.mark.parametrize(("qemu", "repeats"), [("10.0.2", "exactly"), ("7.2.22", "nearly")])
def test_figures_in_virtual_time_say_what_they_are_good_for(matrix: dict[str, Any], qemu: str, repeats: str) -> None:
    for cell in matrix["cells"]:
        cell |= {"label": "virtual time", "instructions_per_ns": 1, "qemu": qemu}
    (sentence,) = label_reasons(typed(matrix))
    assert sentence.startswith(
        "virtual time: reproducible, compares configurations, says nothing about this machine's speed; "
        "the clock counts instructions, 1 a nanosecond"
    )
    assert (f"QEMU {qemu} repeats single packets to some microseconds only" in sentence) == (repeats == "nearly")


def test_one_set_of_phases_is_said_to_be_one(matrix: dict[str, Any]) -> None:
    for cell in matrix["cells"]:
        cell |= {"label": "virtual time", "instructions_per_ns": 1, "qemu": "10.0.2"}
    one = "one repetition covers only one set of phases of streams, load and timer ticks"
    assert not any(one in sentence for sentence in label_reasons(typed(matrix)))
    first = matrix | {"cells": [cell for cell in matrix["cells"] if cell["repeat"] == 1]}
    assert any(sentence.startswith(one) for sentence in label_reasons(typed(first)))
    alike = {"slug": "x", "repetitions": 2, "packets": 1, "only_in_one": 0, "largest_ns": 0, "repeat": 2}
    copies = matrix | {"repeats": [alike | {"stream": None, "sequence": 0, "timestamp": "wake"}]}
    assert any(sentence.startswith(one) for sentence in label_reasons(typed(copies))), "copies are one repetition"


def test_the_headline_of_several_streams_has_a_row_a_cell_and_stream(matrix: dict[str, Any]) -> None:
    (table,) = headline_tables(typed(matrix | {"headline": "latency"}), "latency")
    measured = {(cell["slug"], name) for cell in matrix["cells"] for name in cell["streams"]}
    assert len(table.rows) == len(measured) > 9
    assert {row[0].split(", ")[0] for row in table.rows} == {"down", "up"}
