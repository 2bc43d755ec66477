"""Intervals of the figures on the page: each where n supports it, around its figure, and what effective n in words."""

from __future__ import annotations

import copy
import json
import re
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from latlab.analysis.confidence import TOO_HEAVY, TOO_SHORT, confidence_of
from latlab.analysis.statistics import statistics
from latlab.report.anomalies import window_rows
from latlab.report.intervals import HEADINGS, LARGE, MEANINGS, NAMES, SHORT, TITLE, Intervals, intervals
from latlab.report.markdown import result_markdown
from latlab.report.terminal import print_result
from latlab.result.store import typed


@pytest.fixture
def latency(matrix: dict[str, Any]) -> dict[tuple[str, str], dict[str, str]]:
    """{(repeat, stream) of the first cell: {heading: text}}."""
    found = intervals(typed(matrix), "latency")
    assert found
    first = found.rows[0][0]
    rows = [dict(zip(HEADINGS, row, strict=True)) for row in found.rows]
    return {(row["repeat"], row["stream"]): row for row in rows if row["cell"] == first}


def test_an_interval_holds_its_figure_and_is_blank_where_the_document_has_none(
    matrix: dict[str, Any], latency: dict[tuple[str, str], dict[str, str]]
) -> None:
    cell = next(one for one in matrix["cells"] if one["streams"])
    for stream, block in cell["streams"].items():
        found, row = block["metrics"]["latency"], latency[str(cell["repeat"]), stream]
        for name in ("mean", "p50", "p90", "p99", "p99_9"):
            told, known = row[name.replace("_", ".")], found["confidence"][name]
            if known["low"] is None:
                words = {TOO_HEAVY: "tail too heavy"}.get(
                    known["why"], "run too short" if known["why"].startswith(TOO_SHORT) else "?"
                )
                assert told == (f"({known['needs_n']:,})" if known["needs_n"] else words)
            else:
                low, high = (float(text) for text in told.split(" … "))
                assert low - 0.1 <= found[name] / 1000 <= high + 0.1
        assert all(row[name] for name in HEADINGS[NAMES + 1 :]), "no cell of the table is blank"
        assert not row["effective n"] or float(row["effective n"]) <= found["n"]


def test_every_row_is_said_what_its_n_supports_and_whether_there_is_a_tail(matrix: dict[str, Any]) -> None:
    found = intervals(typed(matrix), "latency")
    assert found
    assert not found.supports, "the table says it, of so many rows"
    few = matrix | {"cells": [cell for cell in matrix["cells"] if cell["streams"]][:2]}
    some = intervals(typed(few), "latency")
    assert some and len(some.rows) == len(some.supports) == 4
    told = [line for line in found.tails if "Extrapolated, not a bound" in line or "no tail estimate: " in line]
    folded = [re.fullmatch(r"no tail estimate for (any|\d+) of the (\d+): .+", line) for line in found.tails]
    counted = [len(found.rows) if one[1] == "any" else int(one[1]) for one in folded if one]
    assert len(told) + sum(counted) == len(found.rows)
    assert len(told) + len(counted) == len(found.tails)


def test_tails_that_one_reason_refuses_are_one_line_where_they_are_many(matrix: dict[str, Any]) -> None:
    for cell in matrix["cells"]:
        for block in cell["streams"].values():
            block["metrics"]["latency"]["tail"] |= {"words": "", "why": "too few"}
    found = intervals(typed(matrix), "latency")
    assert found and found.tails == (f"no tail estimate for any of the {len(found.rows)}: too few",)
    few = intervals(typed(matrix | {"cells": [cell for cell in matrix["cells"] if cell["streams"]][:1]}), "latency")
    assert few and [line.split(": ", 1)[1] for line in few.tails] == ["no tail estimate: too few"] * 2


def test_a_result_of_an_earlier_latlab_has_none(matrix: dict[str, Any]) -> None:
    for cell in matrix["cells"]:
        for block in cell["streams"].values():
            for figures in block["metrics"].values():
                figures.pop("confidence", None)
    assert intervals(typed(matrix), "latency") is None


def test_terminal_markdown_and_page_show_them_unasked(matrix: dict[str, Any], matrix_run: Path) -> None:
    found = intervals(typed(matrix), "latency")
    assert found
    headings, shown = found.filled()
    assert {"p50", "mean"} <= set(headings) <= set(HEADINGS) and len(shown) == len(found.rows)
    with Console(width=300, record=True, file=StringIO()) as console:
        print_result(typed(matrix), console, ["latency"])
    page = (matrix_run / "report.html").read_text()
    for text in (" ".join(console.export_text().split()), result_markdown(typed(matrix), ["latency"]), page):
        assert TITLE in text
        for row in shown:
            assert [one for one in row[NAMES:] if one not in text] == []
    assert page.count("<details open><summary>Uncertainty") == len(
        {name for cell in matrix["cells"] for block in cell["streams"].values() for name in block["metrics"]}
    )


@pytest.mark.parametrize("rows", [1, 24])
def test_what_is_no_interval_says_why_however_many_rows_there_are(rows: int) -> None:
    """Too few packets, too short a run and too heavy a tail ask for other remedies; n is one of them only."""
    texts = (
        "cell",
        "1",
        "control",
        "",
        "run too short",
        "1.0 … 2.0",
        "(7,716)",
        "tail too heavy",
        "run too short",
        "(90)",
        "(90)",
    )
    some = Intervals((texts,) * rows, (), ())
    assert some.notes() == (
        f"without an interval in any row: {MEANINGS['']} (p90, p99.99, stddev); {MEANINGS[SHORT]} (mean, p99.9); "
        f"{MEANINGS[LARGE]} (p99)",
    )
    both = Intervals((texts, (*texts[:4], *("1.0 … 2.0",) * 7)), (), ())
    assert both.notes() == (f"{SHORT}: {MEANINGS[SHORT]}", f"{LARGE}: {MEANINGS[LARGE]}")
    none = Intervals(((*texts[:5], "run too short", *texts[6:]),) * rows, (), ())
    assert none.notes() == (
        f"no 95 % interval is supported: {MEANINGS['']} (p90, p99.99, stddev); {MEANINGS[SHORT]} (mean, p50, p99.9); "
        f"{MEANINGS[LARGE]} (p99)",
    )


def test_terminal_markdown_and_page_say_what_the_words_of_the_table_mean(result: dict[str, Any]) -> None:
    drifting = json.loads(json.dumps(result))
    for cell in drifting["cells"]:
        for block in cell["streams"].values():
            mean = block["metrics"]["latency"]["confidence"]["mean"]
            mean |= {"low": None, "high": None, "needs_n": None, "why": f"{TOO_SHORT}58 of them or more"}
    found = intervals(typed(drifting), "latency")
    assert found and any("run too short" in row for row in found.rows)
    with Console(width=300, record=True, file=StringIO()) as console:
        print_result(typed(drifting), console, ["latency"])
    for text in (" ".join(console.export_text().split()), result_markdown(typed(drifting), ["latency"])):
        assert [note for note in found.notes() if note not in text] == [] and found.notes()


def test_without_any_interval_the_terminal_says_what_is_missing(result: dict[str, Any]) -> None:
    bare = json.loads(json.dumps(result))
    for cell in bare["cells"]:
        for block in cell["streams"].values():
            for figures in block["metrics"].values():
                for one in figures["confidence"].values():
                    if isinstance(one, dict) and "low" in one:
                        one |= {"low": None, "high": None, "needs_n": None, "why": TOO_HEAVY}
    with Console(width=200, record=True, file=StringIO()) as console:
        print_result(typed(bare), console, ["latency"])
    said = " ".join(console.export_text().split())
    assert f"latency: no 95 % interval is supported: {TOO_HEAVY} (mean, p50, p90, p99, p99.9, p99.99, stddev)" in said


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"unbounded": 900}, "the clocks are not bounded"),
        ({"unbounded": 0, "missing": 0, "lost": 900}, "nothing arrived"),
    ],
)
def test_where_no_packet_has_figures_it_is_said_why(matrix: dict[str, Any], changed: dict[str, int], said: str) -> None:
    cell = copy.deepcopy(next(one for one in matrix["cells"] if one["streams"]))
    none = statistics(np.empty(0, np.int64), np.empty(0, np.uint64))
    nothing = none.document()
    for block in cell["streams"].values():
        unknown = confidence_of(np.empty(0, np.int64), none).document()
        block["metrics"] = {"latency": block["metrics"]["latency"] | nothing | changed | {"confidence": unknown}}
        block["windows"] |= {
            "cuts": [{"from_tai_ns": 0, "to_tai_ns": 1, "reason": "Startup", "text": "a slow beginning", "packets": 1}],
            "metrics": {"latency": {"whole": nothing, "clean": nothing}},
        }
    result = matrix | {"cells": [cell]}
    found = intervals(typed(result), "latency")
    assert found
    reason = f"no packet is in the figures: {said}"
    (note,) = found.notes()
    assert note.startswith(f"no 95 % interval is supported: {reason} (")
    assert all(line.endswith(reason) for line in (*found.supports, *found.tails))
    windows = [row.texts for row in window_rows(typed(result))]
    assert [(of, n) for *_, of, n in (texts[:5] for texts in windows)] == [("clean windows", "")] * len(cell["streams"])
    assert all(texts[-1].startswith(f"{reason}; ") and "a slow beginning" in texts[-1] for texts in windows)
