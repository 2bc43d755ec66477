"""What can be taken from a run: figures as CSV, and links from the page that lead to files which are there."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from latlab.evaluation.run import make_result
from latlab.recordings.run_folder import RunFolder
from latlab.report.build import write_report
from latlab.report.files import FIGURES, figures_csv
from latlab.result.store import typed


def test_every_figure_of_the_result_is_in_the_csv(matrix: dict[str, Any]) -> None:
    rows = list(csv.DictReader(io.StringIO(figures_csv(typed(matrix)))))
    found = {(row["slug"], row["repeat"], row["stream"], row["metric"]): row for row in rows}
    assert len(found) == len(rows)
    for cell in matrix["cells"]:
        for stream, block in cell["streams"].items():
            for metric, figures in block["metrics"].items():
                row = found.pop((cell["slug"], str(cell["repeat"]), stream, metric))
                assert (row["n"], row["lost"]) == (str(figures["n"]), str(figures["lost"]))
                for name in ("min", "mean", "p50", "p99_99", "max", "stddev"):
                    assert row[f"{name}_ns"] == ("" if figures[name] is None else str(figures[name]))
                for form in figures.get("variation", {}):
                    assert found.pop((cell["slug"], str(cell["repeat"]), stream, f"{metric}.{form}"))
    assert not found


def test_intervals_and_delay_variation_have_columns_and_rows(matrix: dict[str, Any]) -> None:
    def text(value: object) -> str:
        return "" if value is None else str(value)

    rows = list(csv.DictReader(io.StringIO(figures_csv(typed(matrix)))))
    cell = next(one for one in matrix["cells"] if one["streams"])
    stream, block = next(iter(cell["streams"].items()))
    own = [row for row in rows if (row["slug"], row["repeat"], row["stream"]) == (cell["slug"], "1", stream)]
    by_name = {row["metric"]: row for row in own}
    figures = block["metrics"]["latency"]
    row, confidence, variation = by_name["latency"], figures["confidence"], figures["variation"]
    assert row["p50_low_ns"] and row["effective_n"] == text(confidence["mean"]["effective_n"])
    for name in ("mean", "stddev", "p50", "p90", "p99", "p99_9", "p99_99"):
        assert row[f"{name}_low_ns"] == text(confidence[name]["low"])
        assert row[f"{name}_high_ns"] == text(confidence[name]["high"])
    for form in ("pdv", "ipdv"):
        row = by_name[f"latency.{form}"]
        assert (row["p50_ns"], row["max_ns"]) == (text(variation[form]["p50"]), text(variation[form]["max"]))
        assert (row["uncertainty_ns"], row["lost"], row["p50_low_ns"]) == ("", "", "")
    assert by_name["latency.ipdv"]["p1_ns"] == text(variation["ipdv"]["p1"]) != ""


def test_links_of_the_page_lead_to_files_that_are_there(new_run: Callable[..., Path]) -> None:
    run = new_run()
    page = write_report(RunFolder(run), formats=()).read_text()
    addresses = re.findall(r'<a href="([^"]+)" download>', page)
    assert {FIGURES, "result.json", "scenario.yaml"} <= set(addresses)
    assert [one for one in addresses if not (run / unquote(one)).is_file()] == []
    assert {run / unquote(one) for one in addresses if one.endswith(".parquet")} == set(run.rglob("packets.parquet"))


def test_the_page_links_to_what_is_the_matter_with_each_packet(brief_run: Path) -> None:
    run = RunFolder(brief_run)
    make_result(run)
    page = write_report(run, formats=()).read_text()
    measured = [cell for cell in run.cells() if cell.cell().status == "ok"]
    assert measured
    for cell in measured:
        relative = cell.classes_path.relative_to(run.path).as_posix()
        assert f'<a href="{relative.replace("=", "%3D")}" download>' in page
