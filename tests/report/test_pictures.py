"""The pictures: every panel has ink, and every cell has the same axes."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.legend import Legend
from PIL import Image

from latlab.analysis.axis import Axis
from latlab.recordings.run_folder import RunFolder
from latlab.report.charts.series import ccdf_chart, ccdf_figure, series_chart, series_figure
from latlab.report.charts.sheet import COLOURS, LOST_COLOUR, write_chart
from latlab.report.legend import REPEAT, Key, LegendEntry
from latlab.report.view import View, view
from latlab.result.store import typed

STREAMS = ("control", "status")


def shown(run: Path, stream: str = "control", metric: str = "latency") -> View:
    folder = RunFolder(run)
    return view(folder, typed(folder.result()), stream, metric)


def test_a_picture_has_a_series_and_a_histogram_for_each_cell_on_identical_axes(shared_run: Path) -> None:
    figure = series_figure(shown(shared_run), "caption")
    left, right = figure.axes[0::2], figure.axes[1::2]
    assert len(left) == len(right) == 4
    assert len({axes.get_xlim() for axes in left}) == 1
    assert len({axes.get_xlim() for axes in right}) == 1
    assert len({axes.get_ylim() for axes in (*left, *right)}) == 1
    assert len({axes.get_yscale() for axes in (*left, *right)}) == 1
    assert {axes.get_xscale() for axes in right} == {"log"}


@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("metric", ["latency", "arrival_offset"])
def test_every_panel_has_its_cell_s_ink(shared_run: Path, stream: str, metric: str) -> None:
    view_ = shown(shared_run, stream, metric)
    figure = series_figure(view_, "caption")
    file = io.BytesIO()
    figure.savefig(file, dpi=figure.dpi)
    with Image.open(file) as image:
        pixels = np.asarray(image.convert("RGB")).astype(int)
    for number, axes in enumerate(figure.axes):
        colour = mpl.colors.to_rgb(COLOURS[view_.traces[number // 2].look.colour])
        box = axes.get_window_extent()
        panel = pixels[int(pixels.shape[0] - box.y1) : int(pixels.shape[0] - box.y0), int(box.x0) : int(box.x1)]
        near = np.abs(panel - np.array(colour) * 255).max(axis=2) < 60
        assert near.sum() > 150, axes.get_title(loc="left")


def test_every_lost_packet_is_marked(shared_run: Path) -> None:
    figure = series_figure(shown(shared_run), "caption")
    marks = [line for axes in figure.axes[0::2] for line in axes.lines if line.get_color() == LOST_COLOUR]
    assert sum(len(np.asarray(line.get_xdata())) for line in marks) == 14


def test_the_series_shows_the_extreme_that_one_packet_is(shared_run: Path) -> None:
    view_ = shown(shared_run)
    figure = series_figure(view_, "caption")
    for trace, axes in zip(view_.traces, figure.axes[0::2], strict=True):
        tops = [np.asarray(path.vertices)[:, 1].max() for lines in axes.collections for path in lines.get_paths()]
        assert max(tops) == pytest.approx(trace.value_ns.max() / 1000)


def test_a_packet_that_is_alone_in_its_column_of_ink_is_seen(shared_run: Path) -> None:
    view_ = shown(shared_run)
    trace = replace(view_.traces[0], sequence=view_.traces[0].sequence[::7], value_ns=view_.traces[0].value_ns[::7])
    figure = series_figure(replace(view_, traces=(trace,)), "caption")
    panel, colour = figure.axes[0].get_window_extent(), mpl.colors.to_rgb(COLOURS[trace.look.colour])
    file = io.BytesIO()
    figure.savefig(file, dpi=figure.dpi)
    with Image.open(file) as image:
        pixels = np.asarray(image.convert("RGB")).astype(int)[:, int(panel.x0) : int(panel.x1)]
    inked = (np.abs(pixels - np.array(colour) * 255).max(axis=2) < 60).any(axis=0)
    assert figure.axes[0].collections, "fewer packets would be drawn one by one"
    assert inked.mean() > 0.9


def test_the_ccdf_shows_every_cell_from_all_packets_to_the_last_one(shared_run: Path) -> None:
    view_ = shown(shared_run)
    (axes,) = ccdf_figure(view_, "caption").axes
    assert axes.get_yscale() == "log"
    assert len(axes.lines) == 4
    for trace, line in zip(view_.traces, axes.lines, strict=True):
        values, share = np.asarray(line.get_xdata()), np.asarray(line.get_ydata())
        assert share[0] == 1
        assert share[-1] == pytest.approx(1 / len(trace.value_ns))
        assert values[-1] == pytest.approx(trace.value_ns.max() / 1000)


def test_where_curves_are_too_many_to_follow_the_repetitions_of_a_cell_are_one(shared_run: Path) -> None:
    view_ = shown(shared_run)
    one, few = view_.traces[0], [0, 1, 2, 3]
    traces = tuple(
        replace(one, slug=f"cell-{cell}", repeat=repeat, value_ns=one.value_ns + 1000 * repeat)
        for cell in range(5)
        for repeat in few
    )
    repeats = tuple(LegendEntry(str(number), None, (), "", frozenset({f"cell-0/r{number}"})) for number in few)
    many = replace(view_, traces=traces, legend=(Key(REPEAT, repeats),))
    figure = ccdf_figure(many, "caption")
    assert len(figure.axes[0].lines) == 5
    for line in figure.axes[0].lines:
        assert np.asarray(line.get_xdata())[-1] == pytest.approx(one.value_ns.max() / 1000 + 3)
        assert np.asarray(line.get_ydata())[-1] == pytest.approx(1 / (4 * len(one.value_ns)))
    assert not figure.legends
    assert any("its 4 repetitions together" in text.get_text() for text in figure.texts)
    assert len(ccdf_figure(replace(many, traces=traces[:16]), "caption").axes[0].lines) == 16


def test_the_axis_names_the_metric_its_timestamps_and_the_unit(shared_run: Path) -> None:
    figure = ccdf_figure(shown(shared_run), "measured · suspect")
    assert figure.axes[0].get_xlabel() == "latency = rx_soft − launch [µs]"
    assert "measured · suspect" in {text.get_text() for text in figure.texts}


@pytest.mark.parametrize("kind", ["linear", "log", "asinh"])
def test_ticks_are_written_alike_whatever_their_size(shared_run: Path, kind: Literal["linear", "log", "asinh"]) -> None:
    axis = Axis(kind, -5_000_000_000 if kind == "asinh" else 1_000_000, 5_000_000_000, 1_000_000)
    (axes,) = ccdf_figure(replace(shown(shared_run), axis=axis), "caption").axes
    values = axes.xaxis.get_major_formatter().format_ticks(list(axes.get_xticks()))
    assert "1000000" in values
    assert all(re.fullmatch(r"−?\d+", value) for value in values), values
    share_of = axes.yaxis.get_major_formatter()
    assert [share_of(10.0**-power) for power in range(7)] == [
        *("1", "p90   1/10", "p99   1/100", "p99.9   1/1000"),
        *("p99.99   1/10k", "p99.999   1/100k", "p99.9999   1/1M"),
    ]


def test_an_axis_with_both_signs_has_round_ticks_all_over_and_says_from_where_on_it_is_logarithmic(
    shared_run: Path,
) -> None:
    axis = Axis("asinh", -60_000, 7_000_000, 112_000)
    seen = replace(shown(shared_run), axis=axis)
    (ccdf,) = ccdf_figure(seen, "caption").axes
    assert list(ccdf.get_xticks()) == [0, 100, 500, 1000, 2000, 5000]
    assert "log beyond ± 112 µs" in ccdf.get_xlabel()
    said = {text.get_text() for text in series_figure(seen, "caption").texts}
    assert any(text.endswith("axis log beyond ± 112 µs") for text in said)


@pytest.mark.slow
def test_files_are_named_by_stream_and_metric(shared_run: Path, tmp_path: Path) -> None:
    charts = [make(shown(shared_run)) for make in (series_chart, ccdf_chart)]
    written = [path for one in charts for path in write_chart(one, tmp_path, formats=("png", "svg", "pdf"))]
    assert sorted(path.name for path in written) == sorted(
        f"control-latency{kind}.{ending}" for kind in ("", "-ccdf") for ending in ("png", "svg", "pdf")
    )
    with Image.open(tmp_path / "control-latency.png") as image:
        assert image.width == 1500


def test_a_stream_s_name_cannot_lead_out_of_the_folder(shared_run: Path, tmp_path: Path) -> None:
    odd = replace(shown(shared_run), stream="../up/stream")
    for path in write_chart(series_chart(odd), tmp_path / "pictures"):
        assert path.parent == tmp_path / "pictures"


def test_the_picture_says_by_how_much_the_clocks_may_make_it_wrong_and_how_many_packets_it_shows(
    matrix_run: Path, shared_run: Path
) -> None:
    def notes(run: Path, stream: str, metric: str) -> set[str]:
        view_ = shown(run, stream, metric)
        return {text.get_text() for draw in (series_figure, ccdf_figure) for text in draw(view_, "caption").texts}

    assert "figures in µs, ± 0.4 (shared page) · 1400 packets in each cell" in notes(matrix_run, "up", "latency")
    assert "figures in µs, ± 0.0 (one clock) · 1400 packets in each cell" in notes(matrix_run, "up", "delivery")
    counts = sorted(len(trace.value_ns) for trace in shown(shared_run).traces)
    note = f"figures in µs, ± 0.0 (one kernel) · {counts[0]} to {counts[-1]} packets in each cell"
    assert note in notes(shared_run, "control", "latency")


def test_each_cell_s_own_uncertainty_stands_next_to_its_figures(matrix_run: Path) -> None:
    for metric, ends in (("path", "± 0.4"), ("delivery", "lost 0")):
        figure = series_figure(shown(matrix_run, "down", metric), "caption")
        assert all(axes.get_title(loc="right").endswith(ends) for axes in figure.axes[1::2])


def test_packets_that_nothing_bounds_are_marked_next_to_their_cell_and_under_the_title(matrix_run: Path) -> None:
    view_ = shown(matrix_run, "down")
    first, second, *others = view_.traces
    assert first.slug == second.slug
    some = (
        replace(one, statistics=one.statistics.model_copy(update={"unbounded": unbounded}))
        for one, unbounded in ((first, 35), (second, 5))
    )
    lacking = replace(view_, traces=(*some, *others))
    titles = [axes.get_title(loc="right") for axes in series_figure(lacking, "caption").axes[1::2]]
    assert titles[0].endswith("± 0.4   35 unbounded") and titles[1].endswith("± 0.4   5 unbounded")
    assert all(title.endswith("± 0.4") for title in titles[2:])
    for draw, packets in (
        (series_figure, "1400 packets in each cell, up to 35 more"),
        (ccdf_figure, "4200 packets in each cell, its 3 repetitions together, up to 40 more"),
    ):
        note = f"{packets} whose clocks are not bounded"
        assert any(text.get_text().endswith(note) for text in draw(lacking, "caption").texts)


def test_the_legend_tells_colours_dashes_and_markers_apart_as_the_lines_have_them(matrix_run: Path) -> None:
    view_ = shown(matrix_run, "up")
    # Of one load's cells each repetition has a curve.
    some = tuple(trace for trace in view_.traces if "loads=load-up" not in trace.slug)
    figure = ccdf_figure(replace(view_, traces=some[:16]), "caption")
    bridges, loads, repeats = figure.legends
    assert [text.get_text() for text in bridges.get_texts()] == ["tap", "macvtap", "xdp"]
    assert [text.get_text() for text in loads.get_texts()] == ["none", "load-down", "load-up"]
    assert {"bridge", "loads", "repeat"} <= {text.get_text() for text in figure.texts}
    colours = {text.get_text(): line.get_color() for text, line in entries(bridges)}
    dashes = {text.get_text(): dash_of(line) for text, line in entries(loads)}
    markers = {text.get_text(): line.get_marker() for text, line in entries(repeats)}
    assert [len(set(found.values())) for found in (colours, dashes, markers)] == [3, 3, 3]
    (axes,) = figure.axes
    assert len(axes.lines) == 16
    for line in axes.lines:
        bridge, load, repeat = (part.rsplit(" ", 1)[1] for part in str(line.get_label()).split(", "))
        assert line.get_color() == colours[bridge]
        assert dash_of(line) == dashes[load]
        assert line.get_marker() == markers[repeat]


def dash_of(line: Any) -> tuple[float, ...]:
    """The lengths of a line's dashes; `get_linestyle` calls every pattern "--"."""
    return tuple(line._dash_pattern[1] or ())


def entries(legend: Legend) -> list[tuple[Any, Any]]:
    """Each entry's text and line."""
    return list(zip(legend.get_texts(), legend.get_lines(), strict=True))


def test_a_long_legend_goes_on_in_lines_inside_the_picture(matrix_run: Path) -> None:
    view_ = shown(matrix_run, "down")
    names = [f"a rather long name of a bridge, number {number}" for number in range(7)]
    entry = view_.legend[0].entries[0]
    key = Key("bridge", tuple(replace(entry, text=name) for name in names))
    figure = ccdf_figure(replace(view_, legend=(key,)), "caption")
    figure.draw_without_rendering()
    width = figure.bbox.width
    (legend,) = figure.legends
    box = legend.get_window_extent()
    assert 0 < box.x0 < box.x1 < width
    assert 0 < box.y0 < box.y1 < figure.axes[0].get_window_extent().y0
    places = [text.get_window_extent() for text in legend.get_texts()]
    read = sorted(zip(places, legend.get_texts(), strict=True), key=lambda one: (-round(one[0].y0), one[0].x0))
    assert [text.get_text() for _, text in read] == names
