"""RFC 5481's delay variation wherever a result is shown: both forms, blank where n supports no figure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from latlab.report.markdown import result_markdown
from latlab.report.rows import VARIATION_HEADINGS, VARIATION_TITLE, variation_rows
from latlab.result.store import typed


def test_each_stream_has_a_row_of_both_forms_with_the_results_own_figures(matrix: dict[str, Any]) -> None:
    rows = [dict(zip(VARIATION_HEADINGS, row, strict=True)) for row in variation_rows(typed(matrix), "latency")]
    blocks = [block for cell in matrix["cells"] for block in cell["streams"].values()]
    assert [row["of"] for row in rows] == ["PDV", "IPDV"] * len(blocks)
    assert {row["min"] for row in rows[::2]} == {"0.0"}, "PDV counts from the least delay"
    cell = next(one for one in matrix["cells"] if one["streams"])
    for row in rows:
        if (row["cell"], row["repeat"]) != (rows[0]["cell"], str(cell["repeat"])):
            continue
        found = cell["streams"][row["stream"]]["metrics"]["latency"]["variation"][row["of"].lower()]
        assert (row["n"], row["undefined"]) == (str(found["n"]), str(found.get("undefined", "")))
        for heading, name in (("p1", "p1"), ("p50", "p50"), ("p99.9", "p99_9"), ("max", "max"), ("stddev", "stddev")):
            value = found.get(name)
            assert row[heading] == ("" if value is None else f"{value / 1000:.1f}".replace("-", "−"))


def test_a_metric_that_is_no_latency_has_none(matrix: dict[str, Any]) -> None:
    assert variation_rows(typed(matrix), "wakeup") == ()


def test_page_and_markdown_have_the_table(matrix: dict[str, Any], matrix_run: Path) -> None:
    page, markdown = (matrix_run / "report.html").read_text(), result_markdown(typed(matrix), ["latency"])
    title = f"latency: {VARIATION_TITLE}"
    assert title in page and title in markdown
    for row in variation_rows(typed(matrix), "latency"):
        assert f"| {' | '.join(row)} |" in markdown
        assert all(text in page for text in row)
