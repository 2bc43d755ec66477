"""What the page draws in the browser, as files too: comparisons, repetitions and clocks, the same places in both."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from latlab.model.errors import UsageError
from latlab.notebook import load
from latlab.recordings.run_folder import RunFolder
from latlab.report.build import write_report
from latlab.report.charts.clocks import MOST, ClockChart, clock_drawings
from latlab.report.charts.comparison import ComparedMetric, compared_metrics, comparison_chart
from latlab.report.charts.repeats import repeated, repeats_chart, together_chart
from latlab.report.charts.sheet import ANY_COLOUR, COLOURS, Drawing, DrawnLines, Plotted, write_chart
from latlab.report.legend import Looks
from latlab.report.repeats import drawn, together
from latlab.report.view import view
from latlab.result.store import typed
from support.report.charts import lines, parts, points, said
from support.report.compared import with_comparisons, write_figures_run

FORMATS = ("png", "svg", "pdf")
EVIL = "$x$ <b> | `tick`"
FOUR = ((0.0, 100.0), (250.0, 0.0), (500.0, 50.0), (1000.0, 25.0))


def chart_of(compared: ComparedMetric) -> Drawing:
    """Its chart."""
    panels = [(group.title, group.panels) for group in compared.groups]
    return comparison_chart("control", compared.metric, compared.summary, panels, compared.notes)


def whole(paths: Sequence[Path]) -> None:
    """Nothing; each file is one of its kind, of a width for paper."""
    for path in paths:
        start = path.read_bytes()[:5]
        assert start in {b"\x89PNG\r", b"<?xml", b"%PDF-"}
        if path.suffix == ".png":
            with Image.open(path) as image:
                assert image.size[0] == 1500


@pytest.fixture
def compared(tmp_path: Path) -> ComparedMetric:
    medians = {EVIL: (812.0, 845.0, 901.0), "xdp": (480.0, 517.0, 569.0), "ovs": (812.0, 846.0, 900.0)}
    result: dict[str, Any] = json.loads((write_figures_run(tmp_path / "run", medians) / "result.json").read_text())
    (found,) = compared_metrics(typed(with_comparisons(result)))
    return found


def test_a_comparison_has_a_point_and_its_two_intervals_for_each_row_of_the_page(compared: ComparedMetric) -> None:
    rows = [row for group in compared.groups for panel in group.panels for row in panel.rows]
    chart = chart_of(compared)
    assert len(lines(chart, "interval")) == len(lines(chart, "wider")) == len(rows) > 2
    assert all(len(points(chart, kind)) == sum(row.kind == kind for row in rows) for kind in ("shown", "not-shown"))
    assert {"shown", "not-shown"} <= {row.kind for row in rows}
    texts = said(chart)
    assert all(row.text in texts for row in rows)
    assert f"against bridge {EVIL}" in texts


def test_places_of_one_panel_are_on_one_axis(compared: ComparedMetric) -> None:
    """All of them lie on a straight line over the panel's per cents."""
    panel = compared.groups[0].panels[0]
    found = lines(chart_of(compared), "interval")[: len(panel.rows)]
    at = [(row.low, one[0][0]) for row, one in zip(panel.rows, found, strict=True)]
    at += [(row.high, one[1][0]) for row, one in zip(panel.rows, found, strict=True)]
    (low, left), (high, right) = min(at), max(at)
    for place, x in at:
        assert x == pytest.approx(left + (place - low) / (high - low) * (right - left), abs=1e-6)


def test_comparisons_are_files_named_like_the_others(compared: ComparedMetric, tmp_path: Path) -> None:
    written = write_chart(chart_of(compared), tmp_path / "pictures", caption="c", formats=FORMATS)
    assert [path.name for path in written] == [f"control-latency-comparison.{kind}" for kind in FORMATS]
    whole(written)


def test_each_repetition_has_its_strip_where_the_page_has_it(
    shared_run: Path, result: dict[str, Any], tmp_path: Path
) -> None:
    shown = view(RunFolder(shared_run), typed(result), "control", "latency")
    chart = repeats_chart(typed(result), shown)
    assert chart
    written = write_chart(chart, tmp_path / "pictures", caption="c", formats=FORMATS)
    assert [path.name for path in written] == [f"control-latency-repeats.{kind}" for kind in FORMATS]
    whole(written)
    strips = [strip for found in drawn(shown).of.values() for strip in found]
    assert len(strips) == 4
    assert all(len(lines(chart, name)) == len(strips) for name in ("range", "middle", "largest"))


def test_without_repetitions_there_is_no_such_picture(shared_run: Path, result: dict[str, Any]) -> None:
    shown = view(RunFolder(shared_run), typed(result), "control", "latency")
    once = {**result, "cells": [cell for cell in result["cells"] if cell["repeat"] == 1]}
    assert repeats_chart(typed(once), shown) is None and together_chart(typed(once), shown) is None


def chart(number: int, **given: Any) -> ClockChart:
    made: dict[str, Any] = {
        "cell": EVIL, "repeat": number, "title": "ecu's clock − sensor's", "line": FOUR, "band": (*FOUR, (0.0, 50.0)),
        "low": "-140 ns", "high": "100 ns", "span": "4 s", "told": "",
    }  # fmt: skip
    return ClockChart(**(made | given))


def test_clocks_have_a_chart_each_with_its_ends_and_only_what_is_known() -> None:
    (drawing,) = clock_drawings([chart(1), chart(2, band=()), chart(3, line=())])
    assert len(lines(drawing, "line")) == len(lines(drawing, "band")) == 2
    texts = said(drawing)
    assert all(texts.count(text) == 3 for text in ("-140 ns", "100 ns", "4 s", EVIL))


def test_the_line_is_the_page_s() -> None:
    """From the left end to the right one, and from the upper edge to the lower one, each point in its place."""
    (drawing,) = clock_drawings([chart(1)])
    (segment,) = lines(drawing, "line")
    (left, bottom), (right, _), top = segment[0], segment[-1], segment[1][1]
    for (x, y), (place, down) in zip(segment, FOUR, strict=True):
        assert (x - left) / (right - left) == pytest.approx(place / 1000)
        assert (y - top) / (bottom - top) == pytest.approx(down / 100)


def test_many_clocks_go_on_in_another_file() -> None:
    assert [one.stem for one in clock_drawings([chart(one) for one in range(MOST + 1)])] == ["clocks", "clocks-2"]
    assert list(clock_drawings([])) == []


@pytest.mark.slow
def test_a_report_draws_them_next_to_the_others_and_only_of_the_metrics_it_is_asked_for(
    new_run: Callable[..., Path],
) -> None:
    run = new_run()
    write_report(run, formats=("png",), pictured=("latency",))
    written = {path.stem for path in (run / "pictures").iterdir()}
    assert {
        f"control-latency{one}" for one in ("", "-ccdf", "-tail", "-repeats", "-together", "-comparison")
    } <= written
    assert not [name for name in written if "latency_user" in name]


def test_all_repetitions_together_have_the_page_s_histogram(matrix_run: Path) -> None:
    folder = RunFolder(matrix_run)
    shown = view(folder, typed(folder.result()), "down", "latency")
    found = together(repeated(typed(folder.result()), shown), drawn(shown))
    chart = together_chart(typed(folder.result()), shown)
    assert chart
    areas = lines(chart, "together")
    assert len(found) == len(areas) == 9
    for one, area in zip(found, areas, strict=True):
        (left, foot), *steps, (right, _) = area
        highest = max(foot - y for _, y in steps)
        tops = [(foot - y) / highest * max(one.heights) for _, y in steps[::2]]
        assert tops == pytest.approx(one.heights)
        assert [x for x, _ in steps[::2]] == pytest.approx(
            [left + n * (right - left) / len(one.heights) for n in range(len(one.heights))]
        )
        assert f"n {one.figures[0]}" in said(chart)


def test_all_repetitions_together_have_the_colour_of_their_bridge_as_the_single_ones_have(matrix_run: Path) -> None:
    folder = RunFolder(matrix_run)
    result = typed(folder.result())
    shown = view(folder, result, "down", "latency")
    looks = Looks(result)
    chart, single = together_chart(result, shown), repeats_chart(result, shown)
    assert chart and single
    colours = [COLOURS[looks.of(cell).colour] for cell in result.cells if cell.repeat == 1 and cell.status == "ok"]
    assert len({*colours}) == 3
    assert [part.fill for part in parts(chart) if isinstance(part, DrawnLines) and part.name == "together"] == colours
    strips = [part.fill for part in parts(single) if isinstance(part, DrawnLines) and part.name == "range"]
    assert [*dict.fromkeys(strips)] == [*dict.fromkeys(colours)]
    # The page's own histograms in tables, and one whose repetitions have a colour each.
    found = together(repeated(result, shown), drawn(shown))
    assert [COLOURS[one.colour] for one in found] == colours
    page = (matrix_run / "report.html").read_text()
    assert all(f"strips together line-{one.colour}" in page for one in found)


def test_repetitions_of_the_only_cell_have_a_colour_each_and_together_none(new_run: Callable[..., Path]) -> None:
    folder = RunFolder(new_run())
    result = typed(folder.result())
    result = result.model_copy(update={"cells": [cell for cell in result.cells if cell.slug == result.cells[0].slug]})
    shown = view(folder, result, "control", "latency")
    assert {one.colour for one in together(repeated(result, shown), drawn(shown))} == {ANY_COLOUR}


def test_a_report_leaves_no_picture_of_an_earlier_one_and_every_other_file(new_run: Callable[..., Path]) -> None:
    run = new_run()
    folder = run / "pictures"
    folder.mkdir(exist_ok=True)
    earlier = ("control-latency.png", "status-wakeup-ccdf.pdf", "control-latency-chain.svg", "clocks-2.png")
    others = ("control-latency.txt", "my-latency.png", "control-latency-mine.png", "clocks.html")
    for name in (*earlier, *others):
        (folder / name).write_text("x")
    write_report(run, formats=())
    assert {path.name for path in folder.iterdir()} == set(others)


def test_a_notebook_shows_each_chart_that_there_is_by_its_name(matrix_run: Path, tmp_path: Path) -> None:
    run = load(matrix_run)
    for kind in ("chain", "ccdf", "comparison", "repeats"):
        chart = run.chart(kind, "down", "latency")
        assert chart.stem.startswith("down-latency")
        assert (
            chart._repr_png_().startswith(b"\x89PNG") if isinstance(chart, Plotted) else "<svg" in chart._repr_html_()
        )
    run.chart("chain").save(tmp_path / "chain.svg")
    assert "where the time went" in (tmp_path / "chain.svg").read_text()
    with pytest.raises(UsageError, match="kinds are series, ccdf"):
        run.chart("chain", "nobody")
