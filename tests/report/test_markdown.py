"""The result as Markdown: complete, a table where tables are, and it is empty taken for markup."""

from __future__ import annotations

from typing import Any

from latlab.report.markdown import result_markdown
from latlab.report.text import microseconds
from latlab.result.store import typed


def tables(text: str) -> dict[str, list[list[str]]]:
    """{title of the section: rows of its table, the headings first}."""
    found: dict[str, list[list[str]]] = {}
    title = ""
    for line in text.splitlines():
        if line.startswith("#"):
            title = line.lstrip("# ")
        elif line.startswith("|") and not line.startswith("|---"):
            found.setdefault(title, []).append([cell.strip() for cell in line.strip("|").split(" | ")])
    return found


def test_the_verdict_comes_first_and_each_section_once(result: dict[str, Any]) -> None:
    text = result_markdown(typed(result), ["latency"])
    assert text.startswith(f"## {result['scenario']}: {result['verdict']}\n")
    titles = [line for line in text.splitlines() if line.startswith("#")]
    assert len(set(titles)) == len(titles)
    assert any("latency = rx\\_soft − launch" in line for line in titles)


def test_every_row_has_as_many_cells_as_there_are_headings_and_the_figures_of_the_result(
    matrix: dict[str, Any],
) -> None:
    found = tables(result_markdown(typed(matrix), ["latency", "latency_user"]))
    assert all(len({len(row) for row in rows}) == 1 for rows in found.values())
    rows = [row for title, rows in found.items() if "latency" in title for row in rows[1:]]
    measured = [
        microseconds(stream["metrics"][metric]["max"])
        for cell in matrix["cells"]
        for stream in cell["streams"].values()
        for metric in ("latency", "latency_user")
        if metric in stream["metrics"]
    ]
    assert measured
    written = " ".join(" ".join(row) for row in rows)
    assert [value for value in measured if value not in written] == []


def test_reasons_limits_and_what_is_missing_are_reported(result: dict[str, Any]) -> None:
    text = result_markdown(typed(result), ["latency"])
    for reason in result["reasons"]:
        assert f"**{reason['severity']}**: {reason['finding']}" in text
    found = tables(text)
    assert len(found["Limits"]) == len(result["accept"]) + 1
    assert "no iperf3 on this machine" in str(found["Not available on this machine"])


def test_nothing_is_taken_for_markup(result: dict[str, Any]) -> None:
    result["scenario"] = "a_b_*c* <script>|x|"
    result["reasons"][0]["actual"] = "`code` | [link](there)\nand <b>more</b>"
    text = result_markdown(typed(result), ["latency"])
    assert r"## a\_b\_\*c\* \<script\>\|x\|: " in text
    assert r"\`code\` \| \[link\](there) and \<b\>more\</b\>" in text
