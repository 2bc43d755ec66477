"""Pictures that the pages of published experiments draw themselves: what the author compares, in the author's terms."""

from __future__ import annotations

from math import log10
from pathlib import Path

import pytest
from drawn_parts import parts, points, texts
from swept_run import figures, write_swept_run

from latlab import load
from latlab.report.charts.sheet import Text
from published.claims import Figures
from published.pictures import halves_by_size


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
    # The page has a table of its own.
    assert not any("table" in text for text in texts(drawing))
