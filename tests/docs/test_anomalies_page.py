"""The pages of the anomalies say what the code says: thresholds, ingredients, places, cuts."""

from __future__ import annotations

import re
from dataclasses import asdict
from pathlib import Path
from typing import get_args

from latlab.analysis.anomalies import CLASSES, THRESHOLDS
from latlab.model.timestamps import PLACES
from latlab.synthetic.description import Ingredient

DOCS = Path(__file__).parents[2] / "docs"
NAMES = ("reference/anomaly-classes.md", "explanation/anomalies.md", "reference/synthetic.md")
PAGE = "\n".join((DOCS / name).read_text(encoding="utf-8") for name in NAMES)
ROWS = [[cell.strip() for cell in line.strip("|").split("|")] for line in PAGE.splitlines() if line.startswith("| ")]


def in_code(text: str) -> set[str]:
    return set(re.findall(r"`([^`\n]+)`", text))


def test_every_threshold_stands_with_its_value() -> None:
    said: dict[str, str] = {}
    for row in ROWS:
        names = [name for name in re.findall(r"`(\w+)`", row[0]) if name in asdict(THRESHOLDS)]
        if names and len(names) == row[0].count("`") // 2 and len(row) == 3:
            said |= dict(zip(names, [part.strip() for part in row[1].split(";")], strict=False))
    units = {"s": 10**9, "µs": 10**3}
    for name, value in asdict(THRESHOLDS).items():
        if name == "block_packets":
            continue
        number, _, unit = said[name].partition(" ")
        assert float(number) * units.get(unit, 1) == value, name


def test_what_is_cut_is_what_the_code_cuts() -> None:
    start = next(number for number, row in enumerate(ROWS) if row == ["cut", "not cut"])
    cut, kept = (set().union(*(in_code(row[side]) for row in ROWS[start + 1 : start + 4])) for side in (0, 1))
    assert {one.name for one in CLASSES if one.cut} == cut
    assert not kept & cut - {"throttled"}, "throttled is cut where it is of latlab's own threads"


def test_every_place_and_ingredient_is_named() -> None:
    known = in_code(PAGE)
    assert set(PLACES) <= known
    assert {one.__name__ for one in get_args(Ingredient)} <= known
