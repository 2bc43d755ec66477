"""Pictures that the pages of published experiments draw themselves: what the author compares, in the author's terms."""

from __future__ import annotations

from math import log10
from pathlib import Path

import pytest
from drawn_parts import lines, overlapping, parts, points, texts
from matrix_run import REPEATS, TITLES
from swept_run import figures, write_swept_run

from latlab import load
from latlab.report.charts.sheet import Text
from published.claims import Figures
from published.pictures import halves_by_size, repetitions


def test_a_picture_of_halves_has_half_of_each_round_trip_on_its_axis_and_the_pages_names(tmp_path: Path) -> None:
    run = load(write_swept_run(tmp_path / "run").path)
    drawing = halves_by_size({"none": "before", "80": "after"})(Figures(run))
    assert drawing is not None
    assert "fifo before" in texts(drawing) and "fifo after" in texts(drawing)
    ticks = [part for part in parts(drawing) if isinstance(part, Text) and part.ha == "right"]
    (low, y_low), (high, y_high) = ((log10(float(one.text)), one.y) for one in (ticks[0], ticks[1]))
    first = points(drawing, "before/p50")[0]
    shown_us = 10 ** (low + (first[1] - y_low) * (high - low) / (y_high - y_low))
    whole_ns = figures(64, mtu=1500, tuned=False, repeat=1)["p50"]
    assert shown_us == pytest.approx(whole_ns / 2_000, rel=1e-3)
    # The page has a separate table.
    assert not any("table" in text for text in texts(drawing))


def test_bridges_under_one_load_are_side_by_side_with_a_bar_a_repetition(matrix_run: Path) -> None:
    rows = [(title, f"bridge={bridge}") for bridge, title in (*TITLES.items(), ("vfio", "VFIO"))]
    loads = {"idle": "none", "loaded": "load-down"}
    groups = [(title, [(name, f"{cell}, loads={load}") for name, cell in rows]) for title, load in loads.items()]
    drawing = repetitions("down", "latency", groups)(Figures(load(matrix_run)))
    assert drawing is not None
    pieces = drawing.pieces()
    idle, loaded, _ = pieces
    names = [name for name, _ in rows]
    assert [texts(one) for one in (idle, loaded)] == [[title, *names, "not measured"] for title in loads]
    assert [len(lines(one, "range")) for one in (idle, loaded)] == [REPEATS * len(TITLES)] * 2
    assert [overlapping(one) for one in pieces] == [[], [], []]
    # On one axis: each is further to the right with load.
    middles = [[x for ((x, _), _) in lines(one, "middle")] for one in (idle, loaded)]
    assert all(at_rest < late for at_rest, late in zip(*middles, strict=True))
