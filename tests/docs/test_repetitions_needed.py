"""The table of how many repetitions a difference needs has what comparisons themselves compute."""

from __future__ import annotations

import re
from math import sqrt
from pathlib import Path

import pytest

from latlab.analysis.comparison.effect import ALPHA, Effect

PAGE = Path(__file__).parents[2] / "docs/explanation/comparing.md"


def test_the_smallest_difference_that_is_shown_is_as_the_page_has_it() -> None:
    text = PAGE.read_text(encoding="utf-8").partition("### How many repetitions")[2].partition("\n\nSo it")[0]
    heading, *rows = re.findall(r"^\| ([^-].*) \|$", text, re.MULTILINE)
    comparisons = [int(column.removeprefix("among ").replace("alone", "1")) for column in heading.split(" | ")[1:]]
    assert comparisons == [1, 4, 24, 100]
    assert [row.split(" | ")[0] for row in rows] == ["2", "3", "4", "5", "7", "10"]
    for row in rows:
        repeat, *printed = (float(one) for one in row.split(" | "))
        # Of two sides with the same spread, 1.
        effect = Effect(0.0, 0.0, sqrt(2 / repeat), int(repeat) - 1)
        for among, one in zip(comparisons, printed, strict=True):
            assert one == pytest.approx(effect.half(ALPHA / among), rel=0.04)
