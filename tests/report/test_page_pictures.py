"""Pictures that the pages of published experiments draw themselves, of every packet of a run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from matplotlib.patches import Rectangle

from latlab import load
from published.claims import US, Figures, Of
from published.pictures import Row, Span, of_bridge, repetitions, values_of
from support.report.matrix import REPEATS, TITLES

SHIFT_NS = 2_000_000
LOADS = {"idle": "none", "loaded": "load-down"}


def of(bridge: str, load: str) -> Of:
    return Of(f"bridge={bridge}, loads={load}", "latency", "down")


def test_a_row_has_a_bar_a_repetition_and_with_load_each_is_further_right(matrix_run: Path) -> None:
    figures = Figures(load(matrix_run))
    groups = [
        (
            title,
            [Row(name, of(bridge, load), of_bridge(bridge)) for bridge, name in (*TITLES.items(), ("vfio", "VFIO"))],
        )
        for title, load in LOADS.items()
    ]
    drawing = repetitions("Latency", "rx_soft − launch", groups)(figures)
    assert drawing is not None
    (axes,) = drawing.figure().axes
    bars = [one for one in axes.patches if isinstance(one, Rectangle)]
    assert len(bars) == 2 * REPEATS * len(TITLES)
    assert [label.get_text() for label in axes.get_yticklabels()] == 2 * [*TITLES.values(), "VFIO: not measured"]
    halves = bars[: len(bars) // 2], bars[len(bars) // 2 :]
    assert all(idle.get_x() < loaded.get_x() for idle, loaded in zip(*halves, strict=True))
    # The middle 90 % of its repetition's packets.
    low, high = np.quantile(values_of(figures, of("tap", "none"))[1] / US, (0.05, 0.95), method="inverted_cdf")
    assert (bars[0].get_x(), bars[0].get_x() + bars[0].get_width()) == pytest.approx((low, high))
    assert {bar.get_facecolor()[:3] for bar in bars[:REPEATS]} != {bar.get_facecolor()[:3] for bar in bars[-REPEATS:]}


def test_the_values_drawn_are_the_packets_of_the_result(matrix_run: Path) -> None:
    figures = Figures(load(matrix_run))
    drawn = values_of(figures, of("xdp", "load-down"))
    assert sorted(drawn) == list(range(1, REPEATS + 1))
    for figure, told in (("n", len), ("min", np.min), ("max", np.max)):
        assert figures.values(of("xdp", "load-down"), figure) == {n: told(values) for n, values in drawn.items()}
    assert values_of(figures, of("vfio", "none")) == {}


def test_a_row_may_be_moved_and_the_author_s_range_stands_beside_it(matrix_run: Path) -> None:
    row = Row("tap", of("tap", "none"), of_bridge("tap"))
    moved = Row("tap, moved", row.of, row.colour, SHIFT_NS)
    published = Span("published", (100_000, 200_000, 400_000))
    drawing = repetitions("Latency", "rx_soft − launch", [("", [row, moved, published])])(Figures(load(matrix_run)))
    assert drawing is not None
    bars = [one for one in drawing.figure().axes[0].patches if isinstance(one, Rectangle)]
    plain, shifted, (span,) = bars[:REPEATS], bars[REPEATS : 2 * REPEATS], bars[2 * REPEATS :]
    for one, other in zip(plain, shifted, strict=True):
        assert other.get_x() - one.get_x() == pytest.approx(SHIFT_NS / US)
        assert other.get_width() == pytest.approx(one.get_width())
    assert (span.get_x(), span.get_width()) == (100, 300)
