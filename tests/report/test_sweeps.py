"""Round trips over the payload: which keys are shown, that points are the result's, and where a frame is full."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from latlab.analysis.axis import log_axis
from latlab.recordings.run_folder import RunFolder
from latlab.report.charts.sheet import ANY_COLOUR, write_chart
from latlab.report.charts.sweep import StatisticReach, Sweep, SweepPoint, sweep_chart, sweep_table
from latlab.report.charts.sweeps import FrameRooms, belongs, sweeps
from latlab.report.legend import Looks
from latlab.report.rows import summaries
from latlab.result.store import typed
from latlab.scenario.models import Room
from latlab.scenario.units import DURATION, SIZE, numbers
from support.report.charts import lines, overlapping, points, texts
from support.report.swept import REPEATS, figures, write_several_run, write_swept_run

SIZES = {"64B": 64, "1kB": 1_000, "1400B": 1_400, "2kB": 2_000, "8kB": 8_000, "32kB": 32_000}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return write_swept_run(tmp_path_factory.mktemp("runs") / "20261121-205152-payload-3f9a")


@pytest.fixture(scope="module")
def shown(run: RunFolder) -> Sweep:
    (found,) = sweeps(typed(run.result()), FrameRooms(run).of)
    return found


def every(shown: Sweep) -> Iterator[tuple[str, str, SweepPoint]]:
    return ((panel.title, line.name, point) for panel in shown.panels for line in panel.lines for point in line.points)


def test_before_and_after_tuning_lie_in_one_panel_and_the_other_key_tells_panels_apart(shown: Sweep) -> None:
    assert (shown.stream, shown.metric, shown.key, shown.heading) == ("rr", "round_trip", "probes.rr.size", "size")
    assert shown.lines_are == "fifo"
    assert [panel.title for panel in shown.panels] == ["mtu 1500", "mtu 9000"]
    assert [[line.name for line in panel.lines] for panel in shown.panels] == [["none", "80"]] * 2
    assert len({look for _, look in shown.lines}) == 2


def test_every_point_is_what_the_result_has_of_that_size_least_middle_and_greatest(shown: Sweep) -> None:
    found = {(title, name, point.at): point for title, name, point in every(shown)}
    assert len(found) == 2 * 6 + 2 * 5, "32 kB were not measured at an MTU of 9000"
    for (title, name, at), point in found.items():
        assert SIZES[point.text] == at
        assert point.repeats == REPEATS
        of = [figures(at, mtu=int(title.split()[1]), tuned=name == "80", repeat=one) for one in (1, 2)]
        for figure, through in (("min", min), ("p50", min), ("max", max)):
            values = [one[figure] for one in of]
            assert point.reaches[figure] == StatisticReach(min(values), max(values), through(values)), (title, name, at)


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
    assert {point.reaches["p50"] for point in line.points} == {StatisticReach(50_000, 60_000, None)}
    assert line.pieces("p50") == []
    assert [one[1:] for one in line.bars("p50")] == [(50_000, 60_000)] * 6


def test_the_line_at_the_mtu_is_where_the_last_payload_fits_a_frame(shown: Sweep) -> None:
    assert [panel.rooms for panel in shown.panels] == [(Room(1500, 1472),), (Room(9000, 8972),)]
    chart = sweep_chart(shown)
    assert {"MTU 1500: 1472 B", "MTU 9000: 8972 B"} <= set(texts(chart))
    for panel, (mtu, _) in zip(shown.panels, lines(chart, "mtu"), strict=True):
        at = [point.at for point in panel.lines[0].points]
        found = points(chart, "none/max")
        first, last = (found[0], found[len(at) - 1]) if panel is shown.panels[0] else (found[-len(at)], found[-1])
        low, high, place = shown.x_axis.places([at[0], at[-1], panel.rooms[0].largest])
        assert mtu[0] == pytest.approx(first[0] + (place - low) / (high - low) * (last[0] - first[0]))


def test_a_frame_that_no_payload_fills_is_reported_and_not_drawn(shown: Sweep) -> None:
    wide = replace(shown, panels=tuple(replace(panel, rooms=(Room(65535, 65507),)) for panel in shown.panels))
    chart = sweep_chart(wide)
    assert lines(chart, "mtu") == [] and not any(text.startswith("MTU") for text in texts(chart))


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


def test_the_chart_has_the_points_on_log_axes_that_are_the_same_in_every_panel(shown: Sweep) -> None:
    chart = sweep_chart(shown, "functional only · verdict: trusted")
    assert (shown.x_axis.kind, shown.y_axis.kind) == ("log", "log")
    assert "functional only · verdict: trusted" in texts(chart)
    places: list[tuple[int, float]] = []
    for name in ("none", "80"):
        of_line = [line for panel in shown.panels for line in panel.lines if line.name == name]
        every_max = [(point.at, point.reaches["max"].line_ns) for line in of_line for point in line.points]
        found = points(chart, f"{name}/max")
        assert len(found) == len(every_max)
        assert len(points(chart, f"{name}/p99")) == sum(
            "p99" in point.reaches for line in of_line for point in line.points
        )
        for (_, ns), (_, y) in zip(every_max, found, strict=True):
            assert ns is not None
            places.append((ns, y))
    (low, bottom), (high, top) = min(places), max(places)
    for ns, y in places:
        first, last, own = shown.y_axis.places([low, high, ns])
        assert y == pytest.approx(bottom + (own - first) / (last - first) * (top - bottom)), "one axis in all panels"


@pytest.mark.parametrize("more", ["", ", guests vm1.bridge ovs-afxdp + vm2.bridge macvtap, loads load-down"])
@pytest.mark.parametrize("wide", [True, False])
def test_no_text_lies_over_another_or_outside(shown: Sweep, more: str, wide: bool) -> None:
    panels = tuple(replace(panel, title=panel.title + more) for panel in shown.panels)
    pieces = sweep_chart(replace(shown, panels=panels)).pieces(wide=wide)
    assert sum(len(texts(piece)) for piece in pieces) > 20
    assert [overlapping(piece) for piece in pieces] == [[]] * len(pieces)


def test_files_are_named_by_stream_metric_and_key(shown: Sweep, tmp_path: Path) -> None:
    (path,) = write_chart(sweep_chart(shown), tmp_path, caption="caption")
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
    assert sweep_chart(found).figure("caption").axes


def test_a_repetition_that_did_not_run_to_its_end_is_left_out_and_told(run: RunFolder) -> None:
    result = run.result()
    cut = next(cell for cell in result["cells"] if cell["streams"])
    cut["status"] = "interrupted"
    (found,) = sweeps(typed(result), lambda *_: None)
    assert sum(point.repeats for _, _, point in every(found)) == 22 * REPEATS - 1
    assert any(note.startswith("1 that did not run to their end") for note in found.notes)


def test_points_of_different_labels_are_told_apart(run: RunFolder, shown: Sweep) -> None:
    assert "label" not in sweep_table(shown, "").headings
    result = run.result()
    for cell in result["cells"]:
        if cell["streams"] and cell["cell"]["links.0.mtu"] == 9000:
            cell |= {"label": "measured", "verdict": "untrusted"}
    (found,) = sweeps(typed(result), lambda *_: None)
    assert {point.label for point in found.points} == {"functional only", "measured"}
    table = sweep_table(found, "")
    assert tuple(table.headings[-2:]) == ("verdict", "label")
    ends = {(row[0], *row[-2:]) for row in table.rows}
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
    """Two probes of one matrix, each over different sizes: none has a column of the other's."""
    result = run.result()
    cells = json.loads(json.dumps(result["cells"]))
    shared = json.loads(json.dumps(cells[0]))
    shared["slug"] = "both"
    shared["streams"]["other"] = shared["streams"]["rr"]
    first, second = summaries(typed(result | {"cells": [*cells, shared]}), "round_trip")
    assert first.headings == ("mtu", "fifo", "size", "repeat")
    assert [len(table.rows) for table in (first, second)] == [sum("rr" in cell["streams"] for cell in cells) + 1, 1]


@pytest.mark.slow
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
    chart = sweep_chart(both)
    (path,) = write_chart(chart, tmp_path, caption="caption")
    assert path.name == "hosts-round_trip-by-size.png"
    assert chart.title == "hosts, guests: Round trip, by size"
    assert points(chart, "hosts, fifo none/p50") and points(chart, "hosts, fifo none/max")
    assert not points(chart, "hosts, fifo none/min") and not lines(chart, "band")
    table = sweep_table(both, "measured")
    assert len(table.rows) == 2 * 4 * 6 and {"min", "p99"} <= set(table.headings)
    words = {about for piece in chart.pieces() for _, about in piece.parts}
    assert {"hosts, fifo none, p50", "hosts, fifo none, max"} <= words
