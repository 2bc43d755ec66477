"""The tables in a terminal and in files."""

from __future__ import annotations

import io
import re
from typing import Any

import pytest
from rich.console import Console

from latlab.analysis.summary import JudgedCell
from latlab.evaluation.run import judged_result
from latlab.recordings.run import RecordedRun
from latlab.report.document import Table
from latlab.report.rows import counted_title, summaries
from latlab.report.sections import Shown, parts_of
from latlab.report.terminal import print_parts, print_result
from latlab.result.store import typed
from latlab.result.types import Cell, Result
from support.results import partial


def printed(result: dict[str, Any], width: int = 80, **options: Any) -> str:
    file = io.StringIO()
    print_result(typed(result), Console(file=file, width=width, **{"color_system": None} | options))
    return file.getvalue()


def printed_tables(result: dict[str, Any], *metrics: str, width: int = 140) -> list[str]:
    file = io.StringIO()
    print_parts(parts_of("cells", Shown(typed(result), metrics)), Console(file=file, width=width))
    return file.getvalue().splitlines()


def cells_of(output: str, *beginning: str) -> list[str]:
    """The first line's words that begins with these words."""
    lines = [line.split() for line in output.splitlines()]
    return next(words for words in lines if words[: len(beginning)] == list(beginning))


def test_a_row_gives_the_statistics_of_its_cell_stream_and_repeat_in_microseconds(
    result: dict[str, Any],
) -> None:
    cell = next(cell for cell in result["cells"] if cell["slug"] == "loads=flood1" and cell["repeat"] == 2)
    figures = cell["streams"]["control"]["metrics"]["latency"]
    keys = ("min", "mean", "max", "stddev", "p50", "p90", "p99", "p99_9")
    expected = [f"{figures[key] / 1000:.1f}" for key in keys]
    row = cells_of(printed(result, width=140), "flood1", "2")
    assert row == ["flood1", "2", *expected, str(figures["n"]), "7", "suspect"]


def test_a_percentile_that_n_cannot_support_is_blank(result: dict[str, Any]) -> None:
    figures = result["cells"][0]["streams"]["control"]["metrics"]["latency"]
    assert figures["p99_99"] is None
    output = printed(result, width=140)
    assert "p99.99" in output
    assert "None" not in output
    assert not re.search(r"\bnan\b", output)


def test_eighty_columns_are_enough_for_every_statistic(result: dict[str, Any]) -> None:
    output = printed(result, width=80, force_terminal=True)
    assert max(len(line) for line in output.splitlines()) <= 80
    for heading in ("min", "mean", "max", "stddev", "p50", "p90", "p99", "p99.9", "p99.99", "lost"):
        assert heading in output.split()
    assert not re.search(r"\S…|…\S", output), "a figure is cut short"


def test_label_and_verdict_stand_next_to_the_figures(result: dict[str, Any]) -> None:
    first = printed(result, width=140).splitlines()[0]
    assert first.split() == [
        "control,",
        "sensor",
        "→",
        "ecu:",
        "latency",
        "=",
        "rx_soft",
        "−",
        "launch,",
        "µs",
        "±",
        "0.0",
        "(one",
        "kernel)",
        "·",
        "after",
        "warm-up",
        "·",
        "each",
        "repetition",
        "separately",
        "·",
        "measured",
        "·",
        "suspect",
    ]


def test_reasons_that_differ_only_in_their_place_are_reported_once(result: dict[str, Any]) -> None:
    output = printed(result, width=200)
    assert output.count("boot with isolcpus=1") == 1
    assert "where: every measured cell: sensor\n" in output


def test_places_that_are_not_everywhere_are_reported_one_by_one(result: dict[str, Any]) -> None:
    del result["reasons"][-1]
    assert "where: loads flood1: sensor; loads none, repeat 1: sensor\n" in printed(result, 200)


def test_a_place_that_stands_in_every_cell_is_reported_once(result: dict[str, Any]) -> None:
    result["cells"] = [cell for cell in result["cells"] if cell["streams"]]
    assert "where: every cell: sensor\n" in printed(result, 200)


def test_the_verdict_says_what_was_found_not_what_ought_to_be(result: dict[str, Any]) -> None:
    output = printed(result)
    assert "suspect: the agents' CPUs are not isolated" in output
    assert "the agents' CPUs are isolated" not in output


def test_a_result_without_a_label_says_that_nothing_was_measured(result: dict[str, Any]) -> None:
    gone = [cell for cell in result["cells"] if cell["status"] == "unavailable"]
    cells = [JudgedCell(Cell.model_validate(one)) for one in gone]
    empty = judged_result(RecordedRun(run="20261121-205152-first-3f9a", name="first"), cells, {}).document()
    assert empty["label"] is None
    assert "Verdict: untrusted · nothing measured · first (20261121-205152-first-3f9a)" in printed(empty, 200)


def test_a_cell_that_could_not_run_says_why_and_what_to_do(result: dict[str, Any]) -> None:
    output = printed(result, width=140)
    table = output.split("Not available on this machine")[1].splitlines()
    assert table[1].split() == ["cells", "what", "is", "missing", "where", "how", "to", "get", "it"]
    assert re.split(" {2,}", table[3].strip()) == [
        *("loads iperf3, repeat 1", "no iperf3 on this machine", "ecu", "apt install iperf3"),
    ]
    assert output.count("iperf3") == 3, "it is in no other table"


def test_a_cell_that_was_interrupted_shows_what_it_has_and_why_it_ended(result: dict[str, Any]) -> None:
    cell = next(cell for cell in result["cells"] if cell["slug"] == "loads=flood1" and cell["repeat"] == 2)
    cell |= {"status": "interrupted", "reason": {"what": "SIGINT", "where": "", "remedy": "run it again"}}
    output = printed(result, width=140)
    row = cells_of(output, "flood1", "2")
    assert len(row) == 13
    assert row[-1] == "interrupted"
    assert "\n  loads flood1, repeat 2: interrupted: SIGINT (run it again)\n" in output


def test_what_listeners_refused_and_streams_lost_is_reported_for_its_cell_only(result: dict[str, Any]) -> None:
    cell = next(cell for cell in result["cells"] if cell["slug"] == "loads=none" and cell["repeat"] == 1)
    cell["refused"] = {"ecu": {"foreign": 3, "truncated": 0, "other_run": 2, "empty_wakeups": 9}}
    cell["streams"]["status"]["counts"]["out_of_range"] = 4
    lines = printed(result, width=140).split("Counted, warm-up included\n")[1].splitlines()
    assert lines[0] == "  loads none, repeat 1: listener ecu: 3 foreign, 2 other run; stream status: 4 out of range"
    assert lines[1] == "  loads flood1, repeat 1: stream control: 7 lost; stream status: 7 lost"
    for one in result["cells"]:
        one["refused"] = {}
        for stream in one["streams"].values():
            stream["counts"] = dict.fromkeys(stream["counts"], 0)
    assert "Counted" not in printed(result)


def test_the_slowest_packet_is_explained_by_intervals_that_add_up(result: dict[str, Any]) -> None:
    cell = next(cell for cell in result["cells"] if cell["slug"] == "loads=flood1" and cell["repeat"] == 2)
    figures = cell["streams"]["control"]["metrics"]["latency"]
    output = printed(result, width=200)
    largest = f"max {figures['max'] / 1000:.1f} is packet {figures['max_sequence']}"
    beginning = f"loads flood1, repeat 2, control: {largest}: "
    line = next(line for line in output.splitlines() if line.startswith(beginning))
    parts = line.removeprefix(beginning).split(" + ")
    assert [part.split()[0] for part in parts] == ["wake-up", "prepare", "socket", "qdisc", "path"]
    assert sum(float(part.split()[1]) for part in parts) == pytest.approx(figures["max"] / 1000, abs=0.3)


def test_loads_are_reported_with_what_they_achieved(result: dict[str, Any]) -> None:
    output = printed(result, width=140)
    assert "812 Mbit/s" in output
    assert "810 Mbit/s" in output
    assert "72.5 k/s" in output
    for cell in result["cells"]:
        cell["loads"] = []
    assert parts_of("loads", Shown(typed(result), [])) == []


def test_limits_say_which_was_exceeded_and_how_many_were_kept(result: dict[str, Any]) -> None:
    assert [entry["cell"] for entry in result["accept"]].count("loads=iperf3") == 0, "it is not held against it"
    entry = next(one for one in result["accept"] if (one["cell"], one["repeat"]) == ("loads=flood1", 2))
    entry |= {"actual": None, "ok": False, "reason": "not measured"}
    output = printed(result, width=140)
    row = cells_of(output, "EXCEEDED", "control.latency.max", "loads=flood1", "1")
    assert row[4:6] == ["500", "µs"]
    assert "\n2 of 4 limits kept\n" in output
    row = cells_of(output, "not", "measured", "control.latency.max", "loads=flood1")
    assert row[4:] == ["2", "500", "µs"]
    result["accept"] = [entry for entry in result["accept"] if entry["ok"]]
    assert "\n2 of 2 limits kept\n" in printed(result)
    assert "EXCEEDED" not in printed(result)
    result["accept"] = []
    assert parts_of("limits", Shown(typed(result), [])) == []


def test_a_metric_that_no_stream_has_gets_no_table(result: dict[str, Any]) -> None:
    def titles() -> list[str]:
        lines = "\n".join(map(str, printed_tables(result, "latency", "lateness"))).splitlines()
        return [line for line in lines if line.startswith("control, ") and "after warm-up" in line]

    assert [title.split()[4] for title in titles()] == ["latency", "lateness"]
    for cell in result["cells"]:
        for stream in cell["streams"].values():
            del stream["metrics"]["lateness"]
    assert [title.split()[4] for title in titles()] == ["latency"]


def test_a_file_gets_no_colour_codes_and_a_terminal_does(result: dict[str, Any]) -> None:
    assert "\x1b" not in printed(result)
    assert "\x1b[" in printed(result, force_terminal=True, color_system="standard")


def test_names_in_square_brackets_are_no_markup(result: dict[str, Any]) -> None:
    result["scenario"] = "[red]board[/red] [/]"
    result["reasons"][0]["actual"] = "[bold]x"
    output = printed(result, width=140)
    assert "[red]board[/red] [/]" in output
    assert "[bold]x" in output


def test_an_unbounded_clock_is_said_to_be_unknown(result: dict[str, Any]) -> None:
    for cell in result["cells"]:
        for stream in cell["streams"].values():
            if latency := stream["metrics"].get("latency"):
                latency["uncertainty_ns"] = None
    assert "± unknown" in printed(result).splitlines()[0]


def once_each(matrix: dict[str, Any]) -> list[dict[str, Any]]:
    """The measured cells of the run, which has one repetition of each from now on."""
    matrix["cells"] = [cell for cell in matrix["cells"] if cell["repeat"] == 1]
    return [cell for cell in matrix["cells"] if cell["streams"]]


@pytest.mark.parametrize("width", [80, 120])
def test_each_row_has_the_bound_of_its_own_clocks(matrix: dict[str, Any], width: int) -> None:
    bounds_ns = {"tap": 200, "macvtap": 35_000, "xdp": None}
    for cell in once_each(matrix):
        figures = cell["streams"]["down"]["metrics"]["latency"]
        figures["uncertainty_ns"] = bounds_ns[cell["cell"]["guests.vm1.bridge"]]
    output = "\n".join(printed_tables(matrix, "latency", width=width)).split("up, vm1 → sensor")[0]
    assert "µs ± 0.2 to 35.0 (shared page), unknown in some cells" in " ".join(output.split())
    table = output[output.rindex("bridge  ") :].splitlines()
    assert table[0].endswith("  ±")
    assert max(map(len, table)) <= width
    assert [line.split()[0] for line in table[2:11]] == ["tap"] * 3 + ["macvtap"] * 3 + ["xdp"] * 3
    assert [line.split()[-2] for line in table[2:11]] == ["0.2"] * 3 + ["35.0"] * 3 + ["unknown"] * 3


def test_a_metric_of_one_clock_has_no_column_of_bounds(matrix: dict[str, Any]) -> None:
    once_each(matrix)
    headings = [line.split() for line in printed_tables(matrix, "latency", "delivery") if line.startswith("bridge  ")]
    assert ["±" in heading for heading in headings] == [True, True, False, False]


def test_the_demo_s_table_fits_120_columns(matrix: dict[str, Any]) -> None:
    for cell in once_each(matrix):
        cell["cell"] = {"guests.vm1.bridge": "ovs-afxdp", "loads": ["load"]}
        figures = cell["streams"]["down"]["metrics"]["latency"]
        figures |= dict.fromkeys(("min", "mean", "max", "stddev", "p50", "p90", "p99"), 5_866_800)
        figures |= {"n": 900, "uncertainty_ns": 35_000}
    head = next(line for line in printed_tables(matrix, "latency", width=120) if line.startswith("bridge  "))
    assert head.split()[-4:] == ["p99.99", "n", "lost", "±"]


def test_packets_that_nothing_bounds_are_marked_in_their_row(matrix: dict[str, Any]) -> None:
    cells = once_each(matrix)
    cells[1]["streams"]["down"]["metrics"]["latency"]["unbounded"] = 35
    cells[1]["verdict"] = "untrusted"
    cells[2]["label"] = "measured"
    rows = [line.strip().split("  ")[-1] for line in printed_tables(matrix, "latency")[3:12]]
    functional = "suspect, functional only"
    assert rows[:4] == [functional, "untrusted, 35 unbounded, functional only", "suspect, measured", functional]


def test_what_was_imported_has_no_warm_up(result: dict[str, Any]) -> None:
    for cell in result["cells"]:
        cell["label"], cell["imported"] = "imported", {}
    (table, *_) = summaries(partial(Result, result), "latency")
    assert table.of_what.startswith("all imported packets") and "warm-up" not in table.of_what
    assert counted_title(partial(Result, result)) == "Counted"
    result["cells"][0]["label"] = "measured"
    del result["cells"][0]["imported"]
    assert summaries(partial(Result, result), "latency")[0].of_what.startswith("after warm-up; of imported files all")
    assert counted_title(partial(Result, result)) == "Counted, warm-up included"


def test_a_maximum_that_packets_without_a_timestamp_may_be_above_is_at_least_that(result: dict[str, Any]) -> None:
    cell = next(cell for cell in result["cells"] if cell["slug"] == "loads=flood1" and cell["repeat"] == 2)
    figures = cell["streams"]["control"]["metrics"]["latency"]
    figures["max_at_least"] = figures["max"] + 700_000
    assert f"≥{(figures['max'] + 700_000) / 1000:.1f}" in cells_of(printed(result, width=140), "flood1", "2")


CELL = "bridge ovs-afxdp, loads load-down"
WHY = "one packet was later than usual, in the path, and noise does not make packets that late"


def printed_table(table: Table, width: int) -> list[str]:
    file = io.StringIO()
    print_parts([table], Console(file=file, width=width, force_terminal=True, color_system=None))
    return [line.rstrip() for line in file.getvalue().splitlines()]


def test_a_sentence_that_a_table_has_no_room_for_stands_below_its_row() -> None:
    table = Table(("cell", "repeat", "packets", "the worst"), [(CELL, "1", "12", WHY), (CELL, "2", "7", "")], (2,))
    wide, narrow = printed_table(table, 160), printed_table(table, 70)
    assert wide[2] == f"{CELL}  1            12  {WHY}"
    assert narrow[:2] == ["below each row: the worst", "cell                               repeat  packets"]
    assert narrow[3] == f"{CELL}  1            12"
    assert " ".join(line.strip() for line in narrow[4:6]) == WHY
    assert narrow[6] == f"{CELL}  2             7"
    assert max(map(len, narrow)) <= 70


def test_what_rows_are_of_stands_above_them_where_figures_leave_it_no_room() -> None:
    figures = [f"{number}00.5 … {number}99.5" for number in range(1, 5)]
    headings = ("cell", "stream", "late if above usual by", *(f"figure {number}" for number in range(1, 4)))
    rows = [(CELL, stream, *figures) for stream in ("down", "down", "up")]
    lines = printed_table(Table(headings, rows, range(2, 6)), 62)
    assert lines[0] == "above its rows: cell, stream"
    assert [line for line in lines if line.startswith(CELL)] == [f"{CELL}, down", f"{CELL}, up"]
    assert sum("100.5 … 199.5" in line for line in lines) == 3
    # The heading of the first figures is broken between words, into lines no wider than these are.
    assert [line[:13].strip() for line in lines[1:3]] == ["late if above", "usual by"]
    assert max(map(len, lines)) <= 62
