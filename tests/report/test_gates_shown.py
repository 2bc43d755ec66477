"""Gate schedules as people see them: text, picture, JSON."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from latlab.evaluation.gates import Promised, schedules
from latlab.gates_listing import BAR_COLUMNS, bars, print_gates
from latlab.model.errors import UsageError
from latlab.model.part import Keys
from latlab.report.charts.gates import gates_chart
from latlab.report.charts.sheet import COLOURS, LOST_COLOUR, QUIET, DrawnLines
from latlab.report.gates import as_document, departs_when
from latlab.result.places import matrix_titles
from support.report.charts import lines, overlapping, texts
from support.report.gated import NETPERF, STREAM, TAPRIO, cells_of


def shown(tmp_path: Path, **parts: Any) -> list[tuple[tuple[str, ...], list[Promised]]]:
    groups = schedules(cells_of(tmp_path, **parts))
    return [(group.cells, [Promised.of(port) for port in group.ports]) for group in groups]


def text(tmp_path: Path, **parts: Any) -> str:
    file = io.StringIO()
    labels = {cell.slug: cell.label for cell in cells_of(tmp_path, **parts)}
    print_gates(shown(tmp_path, **parts), labels, Console(file=file, width=140))
    return file.getvalue()


def test_a_cell_without_a_schedule_next_to_others_is_named(tmp_path: Path) -> None:
    said = text(tmp_path, matrix={"shapers": [{}, {"sensor.eth0": TAPRIO}]})
    assert "no gate schedule" in said
    assert "sensor.eth0: cycle of 503 µs" in said


def test_the_text_has_entries_bars_guarantees_and_warnings(tmp_path: Path) -> None:
    said = text(tmp_path, streams={"control": STREAM, "status": STREAM | {"period": "1ms"}})
    assert "sensor.eth0: cycle of 503 µs, beginning at its multiples in TAI, 10Gbit/s; software" in said
    assert "0 (control, status) · 1" in said
    assert "leaves in the window 0 to 101 µs; other traffic may add blocking 1.234 µs, same class 104 ns\n" in said
    assert "warning: stream status: a period of 1 ms is not a multiple of the cycle, 503 µs" in said
    assert said.count("warning:") == 2


@pytest.mark.parametrize(
    ("children", "leaves"),
    [
        ({}, "leaves 60 µs before launch"),
        ({0: {"kind": "etf", "delta": "50us"}}, "leaves 50 µs before launch"),
        ({0: {"kind": "etf", "delta": "50us", "offload": True}}, "leaves at launch"),
    ],
)
def test_of_launch_times_the_text_says_when_packets_leave(
    tmp_path: Path, children: dict[int, Any], leaves: str
) -> None:
    stream = STREAM | {"offset": "60us", "launch_time": {"lead": "462us"}}
    said = text(tmp_path, shapers={"sensor.eth0": TAPRIO | {"children": children}}, streams={"control": stream})
    assert f"control: {leaves}; other traffic may add blocking" in said


def test_the_text_fits_a_narrow_terminal(tmp_path: Path) -> None:
    file = io.StringIO()
    print_gates(shown(tmp_path, streams={"control": STREAM | {"period": "1ms"}}), {}, Console(file=file, width=80))
    assert re.search(r"^control +0 +110 B +95 ns +95 ns +503 +0 to 402 µs +402 µs", file.getvalue(), re.MULTILINE)


def test_the_bars_are_as_wide_as_they_may_be_and_show_each_gate(tmp_path: Path) -> None:
    ((_, (one,)),) = shown(tmp_path)
    lines = list(bars(one.port))
    assert all(len(line) <= BAR_COLUMNS for line in lines)
    assert [len(line) for line in lines if line.startswith("class")] == [BAR_COLUMNS] * 4
    rows = {line[:7]: line[10:] for line in lines if line.startswith("class")}
    assert set(rows["class 1"]) == {"█"}
    width = len(rows["class 0"])
    for name, (first, last) in {"class 0": (0, 101), "class 2": (204, 313), "class 3": (313, 503)}.items():
        for column, mark in enumerate(rows[name]):
            start, end = column * 503 / width, (column + 1) * 503 / width
            inside = max(0.0, min(end, last) - max(start, first))
            assert mark == ("·" if inside == 0 else "█" if inside > 503 / width - 1e-9 else "▒")
    assert next(line for line in lines if "control" in line).index("▲") == 10


def test_the_document_has_all_of_it_as_json(tmp_path: Path) -> None:
    ((_, (one,)),) = shown(tmp_path, loads={"netperf": NETPERF})
    document = json.loads(json.dumps(as_document(one)))
    assert (document["interface"], document["cycle_ns"], document["speed_bps"]) == ("sensor.eth0", 503_000, 10**10)
    assert [(entry["from_ns"], entry["to_ns"], list(entry["open"])) for entry in document["entries"]] == [
        (0, 101_000, ["0", "1"]),
        (101_000, 204_000, ["1"]),
        (204_000, 313_000, ["1", "2"]),
        (313_000, 503_000, ["1", "3"]),
    ]
    (stream,) = document["streams"]
    assert (stream["name"], stream["earliest_ns"], stream["latest_ns"], stream["guard_ns"]) == ("control", 0, 0, 95)
    assert stream["windows"] == [{"from_ns": 0, "to_ns": 101_000, "phases": 1}]
    assert stream["interference"]["blocking_ns"] == stream["interference"]["total_ns"] > 0
    assert document["loads"] == [{"name": "netperf", "traffic_class": 3, "frame_bytes": 1518, "endless": True}]


PTP = {"sensor.eth0": "master", "ecu.eth0": "slave"}


def test_ptps_own_packets_are_in_the_class_of_their_priority_and_told_from_a_load(tmp_path: Path) -> None:
    ((_, (one,)),) = shown(tmp_path, clock={"ptp": {"ports": PTP, "priority": 5}}, loads={"netperf": NETPERF})
    document = json.loads(json.dumps(as_document(one)))
    assert document["loads"] == [
        {"name": "PTP", "traffic_class": 1, "frame_bytes": 94, "endless": False},
        {"name": "netperf", "traffic_class": 3, "frame_bytes": 1518, "endless": True},
    ]
    # Class 1 is open all the time: one of PTP's may be in front of a packet, and no more.
    (stream,) = document["streams"]
    assert stream["interference"]["unbounded"] == []
    assert stream["interference"]["other_classes_ns"] == -(-(94 + 20) * 8 // 10)


def test_a_ptp4l_that_is_only_observed_sends_what_nobody_here_knows(tmp_path: Path) -> None:
    ((_, (one,)),) = shown(tmp_path, clock={"ptp": {"observed": {"sensor.eth0": "/run/ptp4l"}}})
    assert one.port.loads == ()


ASSISTED = TAPRIO | {"mode": "txtime-assist", "delta": "50us", "shift": "7us", "speed": "100Mbit/s"}
MANY = {
    "control": STREAM,
    "drifting": STREAM | {"period": "1ms", "priority": 0, "size": "1400B"},
    "too-long-for-any-window-it-has": STREAM | {"size": "1400B"},
    "a-third": STREAM | {"period": "503us", "offset": "90us", "priority": 5},
}


def test_each_open_gate_is_drawn_in_its_colour(tmp_path: Path) -> None:
    (piece,) = [one for one in gates_chart("gates", shown(tmp_path), {}).pieces() if one.told]
    width = max(x for path in lines(piece, "lane") for x, _ in path) - min(lines(piece, "lane")[0])[0]
    windows = [part for part, _ in piece.parts if isinstance(part, DrawnLines) and part.name == "window"]
    for traffic_class, share in {0: 101 / 503, 1: 1.0, 2: 109 / 503, 3: 190 / 503}.items():
        spans = [path for one in windows if one.fill == COLOURS[traffic_class] for path in one.paths]
        inked = sum(max(x for x, _ in path) - min(x for x, _ in path) for path in spans)
        assert inked / width == pytest.approx(share)


@pytest.mark.parametrize("parts", [{}, {"streams": MANY, "shapers": {"sensor.eth0": ASSISTED}}], ids=["plain", "full"])
@pytest.mark.parametrize("wide", [True, False])
def test_no_text_overlaps_another_or_leaves_the_chart(tmp_path: Path, parts: Any, wide: bool) -> None:
    chart = gates_chart("gates", shown(tmp_path, loads={"netperf": NETPERF}, **parts), {})
    pieces = chart.pieces(wide=wide)
    assert sum(len(texts(piece)) for piece in pieces) > 15
    assert [overlapping(piece) for piece in pieces] == [[]] * len(pieces)


def test_windows_of_txtime_assist_are_drawn_early_too(tmp_path: Path) -> None:
    (piece,) = [
        one for one in gates_chart("gates", shown(tmp_path, shapers={"sensor.eth0": ASSISTED}), {}).pieces() if one.told
    ]
    (left, _), *_, (right, _) = sorted(lines(piece, "lane")[0])
    starts = sorted((min(path)[0] - left) / (right - left) * 503_000 for path in lines(piece, "as-they-appear"))
    assert starts == pytest.approx([0, 453_000], abs=1)


LAUNCHED = STREAM | {"launch_time": True}
WITH_ETF = TAPRIO | {"children": {0: {"kind": "etf", "delta": "200us"}}}


def spans(piece: Any, name: str, fill: str = "") -> list[tuple[float, float]]:
    """From where to where in the cycle what has this name and this colour reaches, in µs."""
    (left, _), *_, (right, _) = sorted(lines(piece, "lane")[0])
    drawn = [part for part, _ in piece.parts if isinstance(part, DrawnLines) and part.name == name]
    paths = [path for part in drawn if fill in ("", part.fill) for path in part.paths]
    ends = [(min(x for x, _ in path), max(x for x, _ in path)) for path in paths]
    return sorted(((one - left) / (right - left) * 503, (other - left) / (right - left) * 503) for one, other in ends)


def test_launch_times_of_many_phases_are_drawn_where_they_are_taken_and_their_frames_where_they_leave(
    tmp_path: Path,
) -> None:
    shapers, streams = {"sensor.eth0": WITH_ETF}, {"drifting": LAUNCHED | {"period": "1006001ns"}}
    found = shown(tmp_path, shapers=shapers, streams=streams)
    ((_, (one,)),) = found
    (piece,) = [piece for piece in gates_chart("gates", found, {}).pieces() if piece.told]
    # taprio takes those of its window, 0 to 101 µs. Its etf hands each on 200 µs ahead, while the gate is closed: they
    # leave as it opens, up to 101 µs before their launch times.
    assert spans(piece, "launches", QUIET) == [pytest.approx((0.001, 101), abs=0.1)]
    assert spans(piece, "launches", LOST_COLOUR) == [
        pytest.approx((0, 0), abs=0.01),
        pytest.approx((101, 503), abs=0.2),
    ]
    assert [start for start, _ in spans(piece, "frames")] == pytest.approx([0], abs=0.01)
    assert departs_when(one.promises[0]).endswith(" ns before launch")


def test_frames_of_launch_times_leave_as_early_as_an_etf_without_gates_hands_them_on(tmp_path: Path) -> None:
    shapers = {"sensor.eth0": TAPRIO | {"mode": "txtime-assist", "delta": "200us"}}
    found = shown(tmp_path, shapers=shapers, streams={"drifting": LAUNCHED | {"period": "1006001ns"}})
    (piece,) = [piece for piece in gates_chart("gates", found, {}).pieces() if piece.told]
    assert spans(piece, "frames") == [pytest.approx((303, 404), abs=0.2)]


def test_waits_that_end_together_are_one_dashed_line(tmp_path: Path) -> None:
    found = shown(tmp_path, streams={"odd": STREAM | {"period": "50300ns", "priority": 0}})
    (piece,) = [piece for piece in gates_chart("gates", found, {}).pieces() if piece.told]
    assert [span for span in spans(piece, "waits") if span[1] - span[0] > 1] == [pytest.approx((0, 313), abs=0.1)]


@pytest.mark.parametrize("kind", ["png", "svg", "pdf"])
def test_the_same_schedules_make_the_same_file(tmp_path: Path, kind: str) -> None:
    found = shown(tmp_path)
    paths = [tmp_path / f"{name}.{kind}" for name in ("one", "other")]
    for path in paths:
        gates_chart("gates", found, {}).save(path)
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_a_picture_of_an_unknown_kind_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"end it in \.png, \.svg or \.pdf"):
        gates_chart("gates", shown(tmp_path), {}).save(tmp_path / "gates.jpeg")


def test_groups_of_cells_are_named_by_their_values_or_one_by_one() -> None:
    labels: dict[str, Keys] = {
        f"{bridge}-{load}": {"guests.vm1.bridge": bridge, "loads": [load]}
        for bridge in ("tap", "xdp", "vfio")
        for load in ("none", "down")
    }
    assert matrix_titles(list(labels), labels) == "all"
    assert matrix_titles(["tap-none", "tap-down", "xdp-none", "xdp-down"], labels) == "bridge tap, xdp"
    assert matrix_titles(["xdp-down", "vfio-down"], labels) == "bridge xdp, vfio; loads down"
    assert matrix_titles(["tap-none", "xdp-down"], labels) == "bridge tap, loads none; bridge xdp, loads down"
