"""Whether a tail is stable, in the picture and on the page: every threshold, the fit over the peaks, and why not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from latlab.analysis.tail import tail_of
from latlab.report.charts.sheet import write_chart
from latlab.report.charts.tail import (
    CHOSEN,
    FITS,
    UNFIT,
    WARNING,
    TailCell,
    TailView,
    tail_chart,
    tail_view,
    tail_views,
)
from latlab.report.html import new_environment
from latlab.result.store import typed
from latlab.result.types import Tail
from support.report.charts import lines, points, said

UNIT_NS = 100_000
COUNT = 20_000
EVIL = "<script>alert(1)</script> $x$ | `tick`"


def cells() -> dict[str, dict[str, Any]]:
    """Tails: one that fits as a whole, one whose farthest part does, two that are refused, one of too few values."""
    random = np.random.default_rng(12)
    noise = random.exponential(UNIT_NS, COUNT)
    spikes = np.where(np.arange(COUNT) % 200 == 0, UNIT_NS * random.choice([5, 7], COUNT), 0)
    values = {
        "tap": 3 * UNIT_NS + noise,
        "xdp": noise + spikes,
        "heavy": UNIT_NS * random.pareto(1.0, COUNT),
        EVIL: noise * np.linspace(1, 3, COUNT),
        "short": noise[:900],
    }
    return {name: tail_of(value.astype(np.int64)).document() for name, value in values.items()}


@pytest.fixture(scope="module")
def documents() -> dict[str, dict[str, Any]]:
    return cells()


@pytest.fixture(scope="module")
def shown(documents: dict[str, dict[str, Any]]) -> TailView:
    return tail_view("control", "latency", [(name, Tail.model_validate(one)) for name, one in documents.items()])


def named(view: TailView, name: str) -> TailCell:
    return next(cell for cell in view.cells if cell.name == name)


def test_every_threshold_has_its_shape_and_its_level(shown: TailView, documents: dict[str, dict[str, Any]]) -> None:
    for cell in shown.cells:
        rows = documents[cell.name]["stability"]
        assert len(cell.shape) == len(cell.level) == len(rows)
        assert [mark.at for mark in cell.shape] == [mark.at for mark in cell.level]
        assert [mark.at for mark in cell.shape] == sorted(mark.at for mark in cell.shape)
        for mark in (*cell.shape, *cell.level):
            assert 0 <= mark.low <= mark.value <= mark.high <= 1
            assert 0 < mark.at < 1


def test_a_shape_of_0_is_in_the_middle_and_the_refused_are_beyond_the_quarters(shown: TailView) -> None:
    assert [at for at, _ in shown.shapes] == [0.0, 0.25, 0.5, 0.75, 1.0]
    assert all(mark.value > 0.75 for mark in named(shown, "heavy").shape)
    assert all(mark.value == pytest.approx(0.5, abs=0.1) for mark in named(shown, "tap").shape if mark.kind == CHOSEN)


def far_out(shapes: list[float], levels_ns: list[float], *, fits: bool) -> Tail:
    """A tail with these shapes and levels of its thresholds, and peaks to 10 units."""
    found = tail_of(3 * UNIT_NS + np.random.default_rng(3).exponential(UNIT_NS, COUNT).astype(np.int64)).document()
    pairs = zip(found["stability"], shapes, levels_ns, strict=False)
    rows = [
        row | {"shape": shape, "shape_low": shape - 0.2, "shape_high": shape + 0.2, "fits": fits}
        | {"level_ns": level, "level_low_ns": level / 2, "level_high_ns": level * 2}
        for row, shape, level in pairs
    ]  # fmt: skip
    changes = {"stability": rows, "fit": rows[-1], "why": None if fits else "does not fit", "levels": []}
    return Tail.model_validate(found | changes)


@pytest.mark.slow
def test_thresholds_that_fit_are_within_the_axes() -> None:
    """A shape of −1.3 and a level of 100 times what was measured: the axes go as far, and there is no arrow."""
    farthest = 1000 * UNIT_NS
    view = tail_view("control", "latency", [("all", far_out([-1.3, 0.1], [farthest / 4, farthest / 4], fits=True))])
    assert view.shapes[0] == (0.0, "−2")
    assert view.limits == pytest.approx((0.5, 2.5 / 3))
    for mark in (*view.cells[0].shape, *view.cells[0].level):
        assert not mark.beyond
        assert 0 <= mark.value <= 1
    assert view.cells[0].shape[0].value == pytest.approx(0.7 / 3)


def test_a_threshold_above_the_level_has_a_shape_and_no_level() -> None:
    """Ten million packets whose latencies are few values: the level of one episode is below every threshold."""
    found = far_out([0.1, 0.2], [4.0 * UNIT_NS] * 2, fits=True)
    below = {"level_ns": None, "level_low_ns": None, "level_high_ns": None}
    (cell,) = tail_view("control", "latency", [("all", changed(found, 0, below))]).cells
    assert (len(cell.shape), len(cell.level)) == (2, 1)
    both = changed(changed(found, 0, below), 1, below)
    view = tail_view("control", "latency", [("all", both)])
    assert (len(view.cells[0].shape), len(view.cells[0].level)) == (2, 0)
    assert tail_chart(view).figure("caption").axes


def changed(tail: Tail, number: int, what: dict[str, None]) -> Tail:
    """The tail with these figures of one of its thresholds."""
    document = tail.model_dump(by_alias=True)
    document["stability"][number] |= what
    return Tail.model_validate(document)


def test_what_is_beyond_an_axis_is_an_arrow_and_no_point() -> None:
    """A shape of −1680 is at no end like a measured value; levels of what does not fit do not stretch the axis."""
    cells = [
        ("degenerate", far_out([-1680.0, 0.1], [10.0 * UNIT_NS] * 2, fits=True)),
        ("unfit", far_out([0.1, 0.95], [5000.0 * UNIT_NS, 9.0 * UNIT_NS], fits=False)),
    ]
    view = tail_view("control", "latency", cells)
    degenerate, unfit = view.cells
    assert view.shapes[0] == (0.0, "−1")
    assert [(mark.beyond, mark.cut_low, mark.cut_high) for mark in degenerate.shape] == [
        (True, True, False),
        (False, False, False),
    ]
    assert next((mark.beyond, mark.cut_high) for mark in unfit.level) == (True, True)
    assert (unfit.shape[1].beyond, unfit.shape[1].cut_high) == (False, True)
    marks = (mark for cell in view.cells for mark in (*cell.shape, *cell.level))
    arrows = [(mark.cut_low + mark.cut_high, mark.beyond) for mark in marks]
    chart = tail_chart(view)
    assert len(points(chart, "beyond-axis")) == sum(cut for cut, _ in arrows)
    told, in_key = sum(len(cell.levels) for cell in view.cells), 3
    drawn = sum(len(points(chart, kind)) for kind in (CHOSEN, FITS, UNFIT))
    assert drawn == sum(not out for _, out in arrows) + told + in_key


def test_one_threshold_is_chosen_and_those_below_it_are_what_does_not_fit(shown: TailView) -> None:
    kinds = [mark.kind for mark in named(shown, "xdp").shape]
    chosen = kinds.index(CHOSEN)
    assert chosen > 0
    assert set(kinds[:chosen]) == {UNFIT}
    assert set(kinds[chosen + 1 :]) <= {FITS}


def test_where_a_tail_is_refused_nothing_is_chosen_told_or_extrapolated_and_the_reason_stands(
    shown: TailView, documents: dict[str, dict[str, Any]]
) -> None:
    refused = [cell for cell in shown.cells if cell.refused]
    assert {cell.name for cell in refused} == {"heavy", EVIL}
    for cell in refused:
        assert cell.told == f"refused: {documents[cell.name]['why']}"
        assert CHOSEN not in {mark.kind for mark in (*cell.shape, *cell.level)}
        assert (cell.beyond, cell.levels) == ((), ())
        assert cell.measured
        assert cell.fitted


def test_cells_without_any_fit_are_named_with_the_reason(shown: TailView) -> None:
    assert [line.split(":")[0] for line in shown.without] == ["short"]
    assert "fewer than 50 episodes" in shown.without[0]


def test_the_line_is_the_fit_of_the_peaks_and_goes_on_to_what_is_reported(shown: TailView) -> None:
    """At each measured peak the line is no further than the axis' tenth away; beyond, it ends at the farthest level."""
    cell = named(shown, "tap")
    at, up = np.array(cell.measured).T
    line = np.array([*cell.fitted, *cell.beyond])
    assert np.abs(np.interp(at, *line.T) - up).max() < 0.15
    assert np.abs(np.interp(at, *line.T) - up)[:20].max() < 0.05
    assert line[-1] == pytest.approx((cell.levels[-1].value, cell.levels[-1].at), abs=1e-3)
    assert cell.levels[-1].at == min(level.at for level in cell.levels)


def test_the_levels_told_are_those_of_the_result(shown: TailView, documents: dict[str, dict[str, Any]]) -> None:
    far = [one for one in documents["tap"]["levels"] if one["value_ns"]][-1]
    assert f"one in {far['packets']:,}: {far['value_ns'] / 1e6:.4g} ms" in named(shown, "tap").told


def test_a_single_threshold_stands_alone_with_its_number() -> None:
    random = np.random.default_rng(16)
    found = tail_of(random.exponential(UNIT_NS, 1400).astype(np.int64)).document()
    assert [row["exceedances"] for row in found["stability"]] == [70]
    view = tail_view("control", "latency", [("all", Tail.model_validate(found))])
    ((at, number),) = view.exceedances
    assert at == pytest.approx(0.5) and number == "70"
    assert "70" in said(tail_chart(view))


def test_the_chart_has_a_bar_for_each_interval_and_a_line_for_each_fit(shown: TailView) -> None:
    chart = tail_chart(shown)
    assert len(lines(chart, "interval")) == sum(len(cell.shape) + len(cell.level) for cell in shown.cells)
    assert len(lines(chart, "fitted")) == len(shown.cells)
    assert len(lines(chart, "beyond")) == sum(bool(cell.beyond) for cell in shown.cells)
    assert len(points(chart, "measured")) == sum(len(cell.measured) for cell in shown.cells)


def test_the_chart_says_what_it_is_not_and_why_a_tail_is_refused(shown: TailView) -> None:
    texts = said(tail_chart(shown))
    assert WARNING in texts
    for cell in shown.cells:
        assert cell.name in texts
        assert cell.told in texts
    assert shown.without[0] in texts


def test_in_a_narrow_window_panels_lie_below_each_other(shown: TailView) -> None:
    wide, narrow = (tail_chart(shown).pieces(wide=wide) for wide in (True, False))
    assert all(one.height_in > 2 * other.height_in for one, other in zip(narrow[1:], wide[1:], strict=True))
    places = [x for piece in narrow for path in lines(piece, "interval") for x, _ in path]
    assert min(places) > 0 and max(places) < narrow[0].width_in < 4


@pytest.mark.slow
def test_pictures_are_files_named_like_the_others_in_every_format(shown: TailView, tmp_path: Path) -> None:
    written = write_chart(tail_chart(shown), tmp_path / "pictures", caption="c", formats=("png", "svg", "pdf"))
    assert [path.name for path in written] == [f"control-latency-tail.{kind}" for kind in ("png", "svg", "pdf")]
    with Image.open(written[0]) as image:
        assert image.size[0] == 1500
    assert WARNING in written[1].read_text()
    again = write_chart(tail_chart(shown), tmp_path / "again", caption="c", formats=("png", "svg", "pdf"))
    assert [path.read_bytes() for path in again] == [path.read_bytes() for path in written]


def test_the_page_says_what_it_is_not_and_why_and_escapes_what_it_is_given(shown: TailView) -> None:
    macro = new_environment().from_string('{% from "charts.html.j2" import drawn %}{{ drawn(drawing) }}')
    page = macro.render(drawing=tail_chart(shown))
    assert WARNING in page
    assert "not a bound" in page
    assert "refused: the tail is too heavy" in page
    assert "<script>" not in page
    assert "&lt;script&gt;" in page


def test_a_result_without_any_tail_draws_none(result: dict[str, Any]) -> None:
    for cell in result["cells"]:
        for block in cell["streams"].values():
            for figures in block["metrics"].values():
                figures.pop("tail", None)
    assert tail_views(typed(result)) == {}
