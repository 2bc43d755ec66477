"""The first screen of the page: question, verdict, table and the picture of all cells."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from latlab.report.boxes import boxes
from latlab.result.store import typed
from support.report.browser import Browser
from support.report.matrix import TITLES

SCREEN_PX = 800
WHERE = """(() => Object.fromEntries(["h1", "#verdict > p", "#answer table", ".boxes"].map((one) => {
  const { left, top, right, bottom } = document.querySelector(one).getBoundingClientRect();
  return [one, [left, top, right, bottom]];
})))()"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser() as found:
        yield found


def test_each_row_of_the_table_is_drawn_with_its_figures(matrix: dict[str, Any]) -> None:
    shown = boxes(typed(matrix), "latency")
    assert shown is not None
    assert list(shown.key) == ["idle", "load-down", "load-up"]
    assert {name for name, _ in shown.rows} == {f"{way}, {one}" for way in ("down", "up") for one in TITLES}
    for name, drawn in shown.rows:
        for box in drawn:
            assert 0 <= box.least <= box.low <= box.high <= box.most <= 100
            assert re.fullmatch(rf"{name}, [\w-]+: min [\d.]+, p50 [\d.]+, p99 [\d.]+, max [\d.]+ µs", box.told)
    # Places are those of the axis: what is later is further to the right.
    every = [box for _, drawn in shown.rows for box in drawn]
    middles = sorted((float(box.told.split("p50 ")[1].split(",")[0]), box.low) for box in every)
    assert [place for _, place in middles] == sorted(place for _, place in middles)


def test_a_load_without_figures_is_not_drawn_and_without_any_there_is_no_picture(matrix: dict[str, Any]) -> None:
    for cell in matrix["cells"]:
        if cell["slug"] == "guests.vm1.bridge=tap,loads=none":
            cell["streams"]["down"]["metrics"].clear()
    whole = boxes(typed(matrix), "latency")
    assert whole is not None
    assert [box.tone for name, drawn in whole.rows if name == "down, tap" for box in drawn] == [1, 2]
    assert boxes(typed(matrix), "jitter") is None


def test_question_verdict_table_and_picture_are_on_the_first_screen(browser: Browser, matrix_run: Path) -> None:
    browser.show(matrix_run / "report.html", width=1280)
    found = browser.run(WHERE)
    assert all(top < SCREEN_PX for _, top, _, _ in found.values())
    table, picture = found["#answer table"], found[".boxes"]
    # Side by side, and the picture is whole there.
    assert table[2] <= picture[0]
    assert picture[3] <= SCREEN_PX


@pytest.mark.parametrize("dark", [False, True])
def test_on_a_narrow_screen_the_picture_comes_first(browser: Browser, matrix_run: Path, dark: bool) -> None:
    browser.show(matrix_run / "report.html", width=400, dark=dark)
    found = browser.run(WHERE)
    assert found[".boxes"][1] < SCREEN_PX * 0.8
    assert found[".boxes"][3] <= found["#answer table"][1]
    assert found[".boxes"][2] <= 400
    paper, *bars = browser.run("""[document.body, ...document.querySelectorAll(".boxes g")].map((one) =>
      one === document.body ? getComputedStyle(one).backgroundColor : getComputedStyle(one).stroke)""")
    assert bars
    assert paper not in bars
