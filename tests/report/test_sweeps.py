"""Round trips over the payload: which keys are shown, that points are the result's, and where a frame is full."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure
from PIL import Image
from swept_run import REPEATS, figures, write_several_run, write_swept_run

from latlab.analysis.axis import log_axis
from latlab.recordings.run_folder import RunFolder
from latlab.report.frame_rooms import FrameRooms
from latlab.report.legend import Looks
from latlab.report.palette import ANY_COLOUR
from latlab.report.rows import summaries
from latlab.report.sweep import Point, Reach, Sweep
from latlab.report.sweep_page import sweep_drawing
from latlab.report.sweep_pictures import sweep_figure, write_sweep_picture
from latlab.report.sweeps import belongs, numbers, sweeps
from latlab.result.store import typed
from latlab.scenario.one_frame import Room
from latlab.scenario.units import DURATION, SIZE

SIZES = {"64B": 64, "1kB": 1_000, "1400B": 1_400, "2kB": 2_000, "8kB": 8_000, "32kB": 32_000}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return write_swept_run(tmp_path_factory.mktemp("runs") / "20261121-205152-payload-3f9a")


@pytest.fixture(scope="module")
def shown(run: RunFolder) -> Sweep:
    (found,) = sweeps(typed(run.result()), FrameRooms(run).of)
    return found


def points(shown: Sweep) -> Iterator[tuple[str, str, Point]]:
    return ((panel.title, line.name, point) for panel in shown.panels for line in panel.lines for point in line.points)


def test_before_and_after_tuning_lie_in_one_panel_and_the_other_key_tells_panels_apart(shown: Sweep) -> None:
    assert (shown.stream, shown.metric, shown.key, shown.heading) == ("rr", "round_trip", "probes.rr.size", "size")
    assert shown.lines_are == "fifo"
    assert [panel.title for panel in shown.panels] == ["mtu 1500", "mtu 9000"]
    assert [[line.name for line in panel.lines] for panel in shown.panels] == [["none", "80"]] * 2
    assert len({look for _, look in shown.lines}) == 2


def test_every_point_is_what_the_result_has_of_that_size_least_middle_and_greatest(shown: Sweep) -> None:
    found = {(title, name, point.at): point for title, name, point in points(shown)}
    assert len(found) == 2 * 6 + 2 * 5, "32 kB were not measured at an MTU of 9000"
    for (title, name, at), point in found.items():
        assert SIZES[point.text] == at
        assert point.repeats == REPEATS
        of = [figures(at, mtu=int(title.split()[1]), tuned=name == "80", repeat=one) for one in (1, 2)]
        for figure, through in (("min", min), ("p50", min), ("max", max)):
            values = [one[figure] for one in of]
            assert point.reaches[figure] == Reach(min(values), max(values), through(values)), (title, name, at)


def test_what_n_does_not_support_is_not_drawn_and_leaves_a_gap(shown: Sweep) -> None:
    small = shown.panels[1].lines[0]
    assert [point.text for point in small.points if "p99" not in point.reaches] == ["8kB"]
    assert [at for piece in small.pieces("p99") for at, _ in piece] == [64, 1_000, 1_400, 2_000]
    missing = replace(small, points=(*small.points[:1], small.points[-1], *small.points[2:4]))
    assert [len(piece) for piece in missing.pieces("p99")] == [1, 2]
    assert any("n does not support" in note for note in shown.notes)


def test_a_figure_of_intervals_of_time_only_is_a_bar_without_a_line(run: RunFolder) -> None:
    result = run.result()
    for cell in result["cells"]:
        for block in cell["streams"].values():
            block["metrics"]["round_trip"] |= {"p50": None, "intervals": {"count": 6, "p50": [50_000, 60_000]}}
    (found,) = sweeps(typed(result), lambda *_: None)
    line = found.panels[0].lines[0]
    assert {point.reaches["p50"] for point in line.points} == {Reach(50_000, 60_000, None)}
    assert line.pieces("p50") == []
    assert [one[1:] for one in line.bars("p50")] == [(50_000, 60_000)] * 6


def test_the_line_at_the_mtu_is_where_the_last_payload_fits_a_frame(shown: Sweep) -> None:
    assert [panel.rooms for panel in shown.panels] == [(Room(1500, 1472),), (Room(9000, 8972),)]
    figure = sweep_figure(shown, "caption")
    lines = [line for axes in figure.axes for line in axes.lines if line.get_gid() == "mtu"]
    assert [list(line.get_xdata()) for line in lines] == [[1472, 1472], [8972, 8972]]
    assert {"MTU 1500: 1472 B", "MTU 9000: 8972 B"} <= {text.get_text() for axes in figure.axes for text in axes.texts}
    drawing = sweep_drawing(shown, "measured")
    (place,) = shown.x_axis.places([1472])
    assert drawing.panels[0].rooms[0][:2] == (round(100 * float(place), 2), "MTU 1500: 1472 B")
    assert 64 < 1472 < 32_000 and 0 < place < 1


def test_a_frame_that_no_payload_fills_is_reported_and_not_drawn(shown: Sweep) -> None:
    wide = replace(shown, panels=tuple(replace(panel, rooms=(Room(65535, 65507),)) for panel in shown.panels))
    figure = sweep_figure(wide, "caption")
    assert [line for axes in figure.axes for line in axes.lines if line.get_gid() == "mtu"] == []
    assert [panel.rooms for panel in sweep_drawing(wide, "measured").panels] == [(), ()]


def test_frames_that_end_close_to_each_other_have_one_label(shown: Sweep) -> None:
    rooms = (Room(1500, 1448), Room(1500, 1472), Room(9000, 8972))
    ends = shown.frame_ends(replace(shown.panels[0], rooms=rooms))
    assert [(end.at, end.text) for end in ends] == [
        (1448, ""),
        (1472, ""),
        (8972, "MTU 1500: 1448 B, 1472 B, MTU 9000: 8972 B"),
    ]
    ends = shown.frame_ends(replace(shown.panels[0], rooms=(Room(128, 100), Room(9000, 8972))))
    assert [(end.text, end.anchor) for end in ends] == [("MTU 128: 100 B", "first"), ("MTU 9000: 8972 B", "last")]


def test_the_picture_has_the_points_on_log_axes_that_are_the_same_in_every_panel(shown: Sweep) -> None:
    figure = sweep_figure(shown, "functional only · verdict: trusted")
    assert {(axes.get_xscale(), axes.get_yscale()) for axes in figure.axes} == {("log", "log")}
    assert len({(axes.get_xlim(), axes.get_ylim()) for axes in figure.axes}) == 1
    assert "functional only · verdict: trusted" in {text.get_text() for text in figure.texts}
    for panel, axes in zip(shown.panels, figure.axes, strict=True):
        for line in panel.lines:
            drawn = drawn_lines(axes, f"{line.name}/max")
            assert drawn == [(point.at, point.reaches["max"].line_ns / 1000) for point in line.points]
            assert len(drawn_lines(axes, f"{line.name}/p99")) == sum("p99" in point.reaches for point in line.points)


def drawn_lines(axes: Any, gid: str) -> list[tuple[float, float]]:
    found = [line for line in axes.lines if line.get_gid() == gid]
    return [place for line in found for place in zip(*line.get_data(), strict=True)]


@pytest.mark.parametrize("more", ["", ", guests vm1.bridge ovs-afxdp + vm2.bridge macvtap, loads load-down"])
def test_no_text_of_the_picture_lies_over_another_or_outside(shown: Sweep, more: str) -> None:
    panels = tuple(replace(panel, title=panel.title + more) for panel in shown.panels)
    figure = sweep_figure(
        replace(shown, panels=panels), "functional only · verdict: trusted · payload · 20261121-205152-payload-3f9a"
    )
    figure.draw_without_rendering()
    boxes = [box for box in texts(figure) if box.width > 0]
    assert len(boxes) > 20
    for number, box in enumerate(boxes):
        assert 0 <= box.x0 < box.x1 <= figure.bbox.width and 0 <= box.y0 < box.y1 <= figure.bbox.height
        assert not any(box.overlaps(other) for other in boxes[number + 1 :])


def texts(figure: Figure) -> Iterator[Any]:
    for axes in figure.axes:
        every = [*axes.texts, axes._left_title, axes.xaxis.label, *axes.get_xticklabels(), *axes.get_yticklabels()]
        yield from (text.get_window_extent() for text in every if text.get_visible() and text.get_text())
    yield from (text.get_window_extent() for text in figure.texts)
    yield from (text.get_window_extent() for legend in figure.legends for text in legend.get_texts())


def test_files_are_named_by_stream_metric_and_key(shown: Sweep, tmp_path: Path) -> None:
    (path,) = write_sweep_picture(shown, tmp_path, caption="caption")
    assert path.name == "rr-round_trip-by-size.png"
    with Image.open(path) as image:
        assert image.width == 1500


def keyed(run: RunFolder, key: str, values: dict[str, object]) -> dict[str, Any]:
    """The result with its sizes replaced."""
    result = run.result()
    for cell in result["cells"]:
        cell["cell"][key] = values[cell["cell"].pop("probes.rr.size")]
    return result


@pytest.mark.parametrize(
    ("key", "values"),
    [
        ("probes.rr.take", ["listener", "waitset", "spin", "poll", "other", "last"]),
        ("probes.rr.period", [None, "1ms", "2ms", "3ms", "4ms", "5ms"]),
        ("probes.rr.size", ["64B", "1ms", "2kB", "3kB", "4kB", "5kB"]),
        ("probes.rr.size", ["64B", "64B", "64B", "2kB", "2kB", "2kB"]),
        ("probes.other.size", list(SIZES)),
        ("streams.other.period", list(SIZES)),
        ("tuning.ecu.talker.fifo", [1, 2, 3, 4, 5, 6]),
    ],
)
def test_a_key_that_is_no_number_has_too_few_or_is_another_s_draws_nothing(
    run: RunFolder, key: str, values: list[object]
) -> None:
    assert sweeps(typed(keyed(run, key, dict(zip(SIZES, values, strict=True)))), lambda *_: None) == []


def test_a_key_of_durations_is_shown_and_has_no_frame(run: RunFolder) -> None:
    periods = ["1s", "100ms", "10ms", "1ms", 0, "100us"]
    result = keyed(run, "probes.rr.period", dict(zip(SIZES, periods, strict=True)))
    (found,) = sweeps(typed(result), lambda *_: Room(1500, 1472))
    assert [point.text for point in found.panels[0].lines[0].points] == ["0", "100us", "1ms", "10ms", "100ms", "1s"]
    assert {panel.rooms for panel in found.panels} == {()}
    assert found.x_axis.kind == "asinh", "0 has no place on a logarithmic axis"
    assert sweep_figure(found, "caption").axes


def test_a_repetition_that_did_not_run_to_its_end_is_left_out_and_told(run: RunFolder) -> None:
    result = run.result()
    cut = next(cell for cell in result["cells"] if cell["streams"])
    cut["status"] = "interrupted"
    (found,) = sweeps(typed(result), lambda *_: None)
    assert sum(point.repeats for _, _, point in points(found)) == 22 * REPEATS - 1
    assert any(note.startswith("1 that did not run to their end") for note in found.notes)


def test_points_of_different_labels_are_told_apart(run: RunFolder, shown: Sweep) -> None:
    assert "label" not in sweep_drawing(shown, "").table.headings
    result = run.result()
    for cell in result["cells"]:
        if cell["streams"] and cell["cell"]["links.0.mtu"] == 9000:
            cell |= {"label": "measured", "verdict": "untrusted"}
    (found,) = sweeps(typed(result), lambda *_: None)
    assert {point.label for point in found.points} == {"functional only", "measured"}
    drawing = sweep_drawing(found, "")
    assert drawing.table.headings[-2:] == ("verdict", "label")
    ends = {(row[0], *row[-2:]) for row in drawing.table.rows}
    assert ends == {("mtu 1500", "trusted", "functional only"), ("mtu 9000", "untrusted", "measured")}
    assert any("cannot be compared" in note for note in found.notes)
    assert "10 of 22 points are untrusted" in found.notes


def test_the_sizes_of_two_probes_are_shown_on_the_same_axes(run: RunFolder) -> None:
    result = run.result()
    for cell in result["cells"]:
        cell["cell"]["size"] = cell["cell"].pop("probes.rr.size")
        if block := cell["streams"].get("rr"):
            figures_ = block["metrics"]["round_trip"]
            faster = {name: figures_[name] // 10 for name in ("min", "p50", "max")} | {"p99": None}
            cell["streams"]["other"] = {**block, "metrics": {"round_trip": figures_ | faster}}
    one, other = sweeps(typed(result), lambda *_: None)
    assert {one.stream, other.stream} == {"rr", "other"}
    assert (one.x_axis, one.y_axis) == (other.x_axis, other.y_axis)
    assert one.y_axis.low_ns < min(point.reaches["min"].low_ns for point in other.points)
    assert one.y_axis.high_ns > max(point.reaches["max"].high_ns for point in one.points)


def test_the_key_s_texts_stand_apart_ends_first(shown: Sweep) -> None:
    ticks = shown.x_ticks(0.15)
    assert [text for _, text in ticks] == ["64B", "1kB", "8kB", "32kB"]
    assert [text for _, text in shown.x_ticks(0.001)] == list(SIZES)
    assert all(text == f"{ns / 1000:g}" for ns, text in shown.y_ticks()) and len(shown.y_ticks()) >= 3


def test_sizes_and_durations_are_told_apart() -> None:
    assert numbers(["64B", "1kB"]) == (SIZE, [64, 1_000])
    assert numbers(["1us", 0]) == (DURATION, [1_000, 0])
    assert numbers(["64B", "1us"]) is None
    assert numbers([["64B"]]) is None and numbers([True]) is None
    assert belongs("probes.rr.size", "rr.up") and belongs("guests.vm1.memory", "rr")
    assert not belongs("probes.rr.size", "rrr") and not belongs("streams.rr.size", "other")


def test_values_of_both_signs_have_places_on_an_axis() -> None:
    axis = log_axis([-5_000, 10, 2_000_000])
    places = axis.places([axis.low_ns, -5_000, 0, 2_000_000, axis.high_ns])
    assert list(places) == sorted(places)
    assert places[0] == pytest.approx(0) and places[-1] == pytest.approx(1)


def test_probes_of_one_matrix_are_in_one_table_each_with_its_own_size(run: RunFolder) -> None:
    result = run.result()
    other = json.loads(json.dumps(result["cells"]))
    for cell in other:
        cell["slug"] += ",other"
        cell["cell"]["probes.other.size"] = cell["cell"].pop("probes.rr.size")
        cell["streams"] = dict(zip(("other",), cell["streams"].values(), strict=False))
    (both,) = summaries(typed(result | {"cells": [*result["cells"], *other]}), "round_trip")
    assert both.headings == ("mtu", "fifo", "size", "stream", "repeat")
    found = [both.labels(row)[2:4] for row in both.rows]
    assert sorted(set(found)) == sorted((size, name) for size in SIZES for name in ("rr", "other"))


def test_streams_that_share_a_cell_have_a_table_each_with_the_keys_that_its_own_rows_have(run: RunFolder) -> None:
    """Two probes of one matrix, each over sizes of its own: none has a column of the other's."""
    result = run.result()
    cells = json.loads(json.dumps(result["cells"]))
    shared = json.loads(json.dumps(cells[0]))
    shared["slug"] = "both"
    shared["streams"]["other"] = shared["streams"]["rr"]
    first, second = summaries(typed(result | {"cells": [*cells, shared]}), "round_trip")
    assert first.headings == ("mtu", "fifo", "size", "repeat")
    assert [len(table.rows) for table in (first, second)] == [sum("rr" in cell["streams"] for cell in cells) + 1, 1]


def test_probes_over_sizes_of_their_own_are_lines_of_one_picture_in_their_bridges_colours(tmp_path: Path) -> None:
    run = write_several_run(tmp_path / "20261121-205152-payload-3f9b")
    (both,) = sweeps(typed(run.result()), FrameRooms(run).of)
    assert (both.streams, both.lines_are, both.drawn) == (("hosts", "guests"), "probes", ("p50", "max"))
    assert [panel.title for panel in both.panels] == ["guests bridge tap", "guests bridge macvtap"]
    names = ["hosts, fifo none", "hosts, fifo 80", "guests, fifo none", "guests, fifo 80"]
    for panel in both.panels:
        assert [line.name for line in panel.lines] == names
        assert all([point.at for point in line.points] == list(SIZES.values()) for line in panel.lines)
        assert panel.rooms == (Room(1500, 1472),)
        assert len({line.look.dash for line in panel.lines}) == 4
    looks = Looks(typed(run.result()))
    of_bridges = [looks.of(cell).colour for cell in typed(run.result()).cells if cell.streams]
    for panel, colour in zip(both.panels, dict.fromkeys(of_bridges), strict=True):
        assert [line.look.colour for line in panel.lines] == [ANY_COLOUR, ANY_COLOUR, colour, colour]
    assert [name for name, _ in both.lines] == [
        *names[:2],
        *(f"{one} (each bridge in its colour)" for one in names[2:]),
    ]
    (path,) = write_sweep_picture(both, tmp_path, caption="caption")
    assert path.name == "hosts-round_trip-by-size.png"
    axes = sweep_figure(both, "caption").axes[0]
    assert {str(line.get_gid()).split("/")[1] for line in axes.lines if "/" in str(line.get_gid())} == {
        "p50",
        "max",
        "bar",
    }
    drawing = sweep_drawing(both, "measured")
    assert drawing.title == "hosts, guests: Round trip, by size"
    assert len(drawing.table.rows) == 2 * 4 * 6 and {"min", "p99"} <= set(drawing.table.headings)
    assert [one.told for one in drawing.panels[0].lines[0].figures] == [
        "hosts, fifo none, p50",
        "hosts, fifo none, max",
    ]
