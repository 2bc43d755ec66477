"""What is marked in series over time: every class by its letter, few letters in pictures, all that is listed."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from latlab.analysis.anomalies import NAMES
from latlab.evaluation.run import make_result
from latlab.recordings.cell import RecordedCell, RecordedStream
from latlab.recordings.run_folder import RunFolder
from latlab.report.charts import series
from latlab.report.charts.series import series_chart, series_figure
from latlab.report.charts.sheet import write_chart
from latlab.report.marks import (
    GLYPHS,
    MARKED_MOST,
    NO_MARKS,
    Mark,
    Marks,
    every_mark,
    marks_of,
    page_marks,
)
from latlab.report.view import View, view
from latlab.result.store import typed
from latlab.result.types import Stream
from latlab.synthetic import Description, generate, write_run
from latlab.synthetic.description import Stall
from support.report.marked import CELL, LATE, LATE_SENDS, STALLS, S, write_marked_run
from support.results import partial


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return write_marked_run(tmp_path_factory.mktemp("runs") / "marked")


@pytest.fixture(scope="module")
def shown(run: RunFolder) -> View:
    return view(run, typed(run.result()), "control", "latency")


def test_every_class_whose_packets_are_known_has_a_letter_of_its_own() -> None:
    assert set(GLYPHS) == set(NAMES) - {"duplicate"}
    letters = [letter for letter, _ in GLYPHS.values()]
    assert len(set(letters)) == len(letters) and all(len(letter) == 1 for letter in letters)


def test_marks_are_at_the_launch_times_of_the_series(shown: View) -> None:
    (trace,) = shown.traces
    stalls = [one for one in trace.marks.told if one.class_ == "stall"]
    assert [one.from_ns / S for one in stalls] == pytest.approx([3.5, 6.5, 17.5], abs=0.002)
    assert trace.marks.episodes["stall"] == STALLS
    (cut,) = trace.marks.cuts
    assert (cut.from_ns / S, cut.to_ns / S) == pytest.approx((8, 16), abs=0.8)
    (chosen,) = trace.marks.chosen
    assert (chosen.from_ns, chosen.to_ns) == (2 * S, 5 * S)
    assert chosen.text == "2s to 5s, user-defined: before it <swung>"


def test_cells_without_anomalies_have_no_marks() -> None:
    assert (
        marks_of(
            partial(Stream, {"metrics": {}}), partial(RecordedStream, {"start_tai_ns": 5}), partial(RecordedCell, {})
        )
        == NO_MARKS
    )


def test_the_page_has_every_episode_those_that_the_result_leaves_out_too(run: RunFolder) -> None:
    found = page_marks(run, typed(run.result()))
    assert set(found["classes"]) == set(GLYPHS)
    episodes = found["streams"]["control"][CELL]["episodes"]
    late = episodes["late_sender"]
    assert late["of"] == len(late["number"]) == LATE_SENDS and len(late["text"]) == 20
    assert [at / S for at in late["from"]] == pytest.approx([sequence / 1_000 for sequence in LATE])
    assert late["length"] == [1_000_000] * LATE_SENDS
    assert episodes["stall"]["text"].keys() == {str(number) for number in episodes["stall"]["number"]}


def test_without_the_file_of_classes_those_that_are_reported_are_marked(run: RunFolder, tmp_path: Path) -> None:
    (trace,) = view(run, typed(run.result()), "control", "latency").traces
    assert len(every_mark(trace.marks, None, 0, 1_000_000)) == len(trace.marks.told)


def test_of_very_many_those_that_are_reported_and_others_evenly_are_marked() -> None:
    told = tuple(Mark("stall", number, number * 20, number * 20 + 10, 1.0, "a stall") for number in range(1, 21))
    sequence = list(range(0, 4_000, 2))
    rows = {"sequence": sequence, "class": ["stall"] * 2_000, "episode": list(range(1, 2_001))}
    found = every_mark(Marks({"stall": 2_000}, told, (), ()), pl.LazyFrame(rows), 0, 10)
    assert len(found) == MARKED_MOST and set(told) <= set(found)
    others = [one.number for one in found if not one.text]
    assert (others[0], others[-1]) == (21, 2_000)
    assert max(after - before for before, after in pairwise(others)) <= 7


def marks(**severity: list[float]) -> Marks:
    """Episodes of these classes, half a second apart, of these severities."""
    told = [
        Mark(name, number, 0, 1, worst, "it")
        for name, values in severity.items()
        for number, worst in enumerate(values, start=1)
    ]
    spread = [Mark(one.class_, n, n * S // 2, n * S // 2 + 1, one.severity, "it") for n, one in enumerate(told)]
    return Marks({name: len(values) for name, values in severity.items()}, tuple(spread), (), ())


def test_a_panel_has_the_worst_of_each_class_before_the_second_worst() -> None:
    many = marks(stall=[1.0, 9.0, 5.0, 7.0], unexplained=list(range(1, 31)), clock_swing=[3.0])
    found = series.placed(many, (0, 20 * S))
    assert len(found) == series.MOST
    said = [(one.mark.class_, one.mark.severity) for one in found]
    assert said[:3] == [("stall", 9.0), ("unexplained", 30), ("clock_swing", 3.0)]
    assert said[3:5] == [("stall", 7.0), ("unexplained", 29)]


def test_letters_that_would_cover_each_other_stand_in_two_rows_and_no_more() -> None:
    close = Marks({"stall": 5}, tuple(Mark("stall", n, n, n + 1, 1.0, "it") for n in range(5)), (), ())
    assert [one.row for one in series.placed(close, (0, 20 * S))] == [0, 1]


def test_a_mark_beyond_the_axis_has_no_place_and_one_that_reaches_into_it_has() -> None:
    told = (Mark("stall", 1, 9 * S, 11 * S, 1.0, "it"), Mark("stall", 2, 30 * S, 31 * S, 2.0, "it"))
    found = series.placed(Marks({"stall": 2}, told, (), ()), (10 * S, 20 * S))
    assert [(one.mark.number, one.at) for one in found] == [(1, 10.0)]


def gids(figure: Any, gid: str) -> list[Any]:
    return [artist for axes in figure.axes for artist in axes.get_children() if artist.get_gid() == gid]


def test_a_picture_has_letters_hatching_and_bars_and_says_what_they_mean(shown: View) -> None:
    figure = series_figure(shown, "caption")
    assert len(gids(figure, "mark")) == series.MOST
    assert len(gids(figure, "cut")) == len(gids(figure, "chosen")) == 1
    letters = [text.get_text() for text in figure.axes[0].texts]
    assert letters.count("S") == STALLS and letters.count("C") == 1 and "A" in letters and "?" in letters
    said = " ".join(text.get_text() for text in figure.texts)
    assert f"S stall {STALLS} · " in said and f"A late sender {letters.count('A')} of {LATE_SENDS}" in said
    assert "marked are the worst of each class, at most 12 in a panel" in said
    assert "hatched: cut from the clean windows" in said and "bar below: user-defined window" in said


def test_what_marks_mean_stands_in_the_picture_above_its_panels(shown: View) -> None:
    figure = series_figure(shown, "caption")
    figure.draw_without_rendering()
    for box in (text.get_window_extent() for text in figure.texts if not text.get_rotation()):
        assert min(box.x0, box.y0) >= 0
        assert box.x1 <= figure.bbox.width and box.y1 <= figure.bbox.height
    lowest = min(text.get_window_extent().y0 for text in figure.texts if "hatched" in text.get_text())
    assert figure.axes[1].title.get_window_extent().y1 < lowest


def test_a_picture_without_anything_to_mark_is_as_high_as_ever(shared_run: Path) -> None:
    folder = RunFolder(shared_run)
    result = folder.result()
    for cell in result["cells"]:
        for block in cell["streams"].values():
            block["anomalies"], block["windows"] = {}, None
    plain = view(folder, typed(result), "control", "latency")
    assert series.key_lines(plain, [[] for _ in plain.traces], 9.0) == []
    assert not gids(series_figure(plain, "caption"), "mark")


@pytest.mark.parametrize("kind", ["png", "svg", "pdf"])
def test_marks_are_in_pictures_of_every_format(shown: View, tmp_path: Path, kind: str) -> None:
    (first,) = write_chart(series_chart(shown), tmp_path, formats=(kind,))
    assert first.stat().st_size > 5_000
    if kind == "svg":
        text = first.read_text()
        assert text.count('id="mark') == series.MOST and ">S</text>" in text


def test_imported_cells_and_old_results_have_pages_without_marks(new_run: Callable[..., Path]) -> None:
    folder = RunFolder(new_run())
    result = folder.result()
    for cell in result["cells"]:
        for block in cell["streams"].values():
            del block["anomalies"], block["windows"]
    assert page_marks(folder, typed(result))["streams"] == {}


@pytest.mark.parametrize(
    ("metric", "classes"),
    [
        ("latency_user", {"stall", "late_sender", "unexplained", "clock_swing"}),
        ("wakeup", {"late_sender"}),
        ("path", {"clock_swing", "stall", "unexplained"}),
        ("delivery", set()),
    ],
)
def test_a_series_is_marked_where_its_own_packets_are_late(run: RunFolder, metric: str, classes: set[str]) -> None:
    (trace,) = view(run, typed(run.result()), "control", metric).traces
    found = run.result()["cells"][0]["streams"]["control"]["anomalies"]
    places = {name: {one["evidence"].get("where") for one in found[name]["shown"]} for name in ("stall", "unexplained")}
    assert places == {"stall": {"path"}, "unexplained": {"path"}}
    assert set(trace.marks.episodes) == {one.class_ for one in trace.marks.told} == classes
    for name in classes:
        assert trace.marks.episodes[name] == found[name]["episodes"]


def test_an_episode_of_which_nobody_knows_the_place_is_marked_in_every_metric() -> None:
    known, unknown = Mark("stall", 1, 0, 1, 0.0, "", "application"), Mark("stall", 2, 0, 1)
    marks = Marks({"stall": 3, "late_sender": 2}, (known, unknown), (), ())
    assert marks.seen_in("path") == Marks({"stall": 2}, (unknown,), (), ())
    assert marks.seen_in("delivery") == Marks({"stall": 3}, (known, unknown), (), ())
    assert marks.seen_in("latency_user") == marks


def test_a_metric_without_any_value_has_the_time_axis_of_its_packets(tmp_path: Path) -> None:
    """Where nothing bounds the clocks no packet has a latency, and its stalls are marked still."""
    stalls = (Stall(3 * S, 6_300_000), Stall(9 * S, 8_300_000))
    made = Description(seed=5, packets=12_000, period_ns=1_000_000, warmup=1_000, ingredients=stalls)
    folder = RunFolder(write_run(generate(made), tmp_path / "unbounded"))
    unbounded = view(folder, make_result(folder), "control", "latency")
    (trace,) = unbounded.traces
    assert len(trace.value_ns) == 0 and unbounded.span_ns == (1 * S, 12 * S - 1_000_000)
    write_chart(series_chart(unbounded), tmp_path)
    (panel, _) = series_figure(unbounded, "it").axes
    assert panel.get_xlim() == pytest.approx((1, 12), abs=0.1)
    assert sum(text.get_text() == "S" for text in panel.texts) == 2
