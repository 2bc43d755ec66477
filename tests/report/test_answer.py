"""The first screen: a table, differences in words, where late packets lost their time, the verdict."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

import latlab.report.answer as of_answer
from latlab.analysis.comparison.effect import over_repetitions
from latlab.cli import app
from latlab.recordings.run_folder import RunFolder
from latlab.report.answer import answer, next_commands
from latlab.report.document import OneOf
from latlab.report.html import render
from latlab.report.terminal import print_answer
from latlab.report.unmeasured import Unmeasured
from latlab.result.places import listed
from latlab.result.store import typed
from support.report.compared import with_comparisons, write_figures_run
from support.report.matrix import REPEATS, TITLES, with_a_watched_flow

Printed = Callable[..., list[str]]


def printed(result: dict[str, Any], width: int = 100) -> list[str]:
    file = io.StringIO()
    print_answer(typed(result), ["latency"], Console(file=file, width=width, force_terminal=True, color_system=None))
    return [line.rstrip() for line in file.getvalue().splitlines()]


def compared(path: Path, medians: dict[str, Sequence[float]], **options: Any) -> dict[str, Any]:
    result: dict[str, Any] = json.loads((write_figures_run(path, medians, **options) / "result.json").read_text())
    return with_comparisons(result)


def test_a_failed_cell_has_its_reason_without_the_lines_of_a_log() -> None:
    what, log = "`ptp --once` expected 'locked'", "\n  the last lines of its log, ptp4l.log:\n    rms 4496940"
    failed = Unmeasured(("loads none",), "failed", what + log, "ecu", "its whole output is in ptp4l.log")
    assert failed.short(3) == f"loads none: failed: ecu: {what} (its whole output is in ptp4l.log)"
    assert failed.text == f"loads none: failed: ecu: {what}{log} (its whole output is in ptp4l.log)"


def test_in_a_log_no_sentence_is_broken(matrix: dict[str, Any]) -> None:
    file = io.StringIO()
    print_answer(typed(matrix), ["latency"], Console(file=file, width=60))
    (line,) = [line for line in file.getvalue().splitlines() if line.startswith("  bridge vfio: unavailable")]
    assert line.endswith("intel_iommu=on or amd_iommu=on)")


def test_it_fits_40_lines_of_100_columns(matrix: dict[str, Any]) -> None:
    lines = printed(matrix)
    assert len(lines) <= 44  # one fewer a cell that this machine can build
    assert max(map(len, lines)) <= 100
    assert lines[0] == "bridges · 12 cells × 3 repetitions · functional only · latency = rx_soft − launch, µs"


def test_each_further_metric_has_its_formula_above_its_table_and_a_gap_before_it(matrix: dict[str, Any]) -> None:
    file = io.StringIO()
    metrics = ["latency", "lateness", "path"]
    print_answer(typed(matrix), metrics, Console(file=file, width=100), every=True)
    lines = [line.rstrip() for line in file.getvalue().splitlines()]
    for metric in metrics[1:]:
        (at,) = [number for number, line in enumerate(lines) if line.startswith(f"{metric} = ")]
        assert lines[at - 1] == ""
        assert lines[at + 1].split() == ["idle", "load-down", "load-up"]


def test_loads_stand_side_by_side_where_they_fit_and_below_each_other_where_not(matrix: dict[str, Any]) -> None:
    wide, narrow = printed(matrix), printed(matrix, 60)
    assert wide[3].split() == ["idle", "load-down", "load-up"]
    assert [line.split()[:2] for line in wide[6:9]] == [["down", bridge] for bridge in TITLES]
    at = next(number for number, line in enumerate(narrow) if line.startswith("stream "))
    assert narrow[at].split()[:3] == ["stream", "bridge", "loads"]
    assert [line.split()[2] for line in narrow[at + 2 : at + 5]] == ["none", "load-down", "load-up"]


def test_a_row_has_medians_over_the_repetitions_and_the_largest_of_their_maxima(matrix: dict[str, Any]) -> None:
    of_tap = [
        cell["streams"]["down"]["metrics"]["latency"]
        for cell in matrix["cells"]
        if cell["slug"] == "guests.vm1.bridge=tap,loads=none"
    ]
    assert len(of_tap) == REPEATS
    middle = sorted(one["p50"] for one in of_tap)[1]
    largest = max(one["max"] for one in of_tap)
    half = over_repetitions([one["p50"] for one in of_tap])[1]
    row = printed(matrix)[6].split()
    assert (row[2], row[3], row[5]) == (f"{middle / 1000:.0f}", f"{half / 1000:.0f}", f"{largest / 1000:.0f}")
    assert printed(matrix)[4].split()[:6] == ["stream", "bridge", "p50", "±", "p99", "max"]


def test_of_one_repetition_there_is_no_interval_of_the_median(tmp_path: Path) -> None:
    (header,) = [line for line in printed(compared(tmp_path / "run", {"tap": (812,), "xdp": (400,)})) if "p50" in line]
    assert "±" not in header


def test_clocks_that_are_as_good_everywhere_stand_below_the_table_and_else_in_a_column(matrix: dict[str, Any]) -> None:
    assert any(line.endswith("; clocks: ± 0.4 µs") for line in printed(matrix))
    assert not any("clocks ±" in line for line in printed(matrix))
    matrix["cells"][0]["streams"]["down"]["metrics"]["latency"]["uncertainty_ns"] = 900
    lines = printed(matrix, 120)
    assert lines[4].split()[-2:] == ["clocks", "±"]
    assert lines[6].split()[-1] == "0.9" and lines[7].split()[-1] == "0.4"
    assert not any("clocks: ±" in line for line in lines)


def test_what_makes_figures_uncertain_where_no_clocks_do_is_named(matrix: dict[str, Any]) -> None:
    for cell in matrix["cells"]:
        for stream in cell["streams"].values():
            stream["metrics"]["latency"]["uncertainty_of"] = "bins and digits"
    assert any(line.endswith("; bins and digits: ± 0.4 µs") for line in printed(matrix))


def test_a_maximum_that_some_packets_may_be_above_is_marked(matrix: dict[str, Any]) -> None:
    matrix["cells"][0]["streams"]["down"]["metrics"]["latency"]["max_at_least"] = 99_000_000
    assert "≥99000" in printed(matrix)[6]


def test_what_differs_is_told_from_what_does_not_with_intervals_and_amounts(tmp_path: Path) -> None:
    tap, xdp, ovs = (812, 818, 815, 814, 813), (400, 403, 401, 402, 399), (811, 819, 816, 812, 815)
    lines = printed(compared(tmp_path / "run", {"tap": tap, "xdp": xdp, "ovs": ovs}))
    at = lines.index("Differences at the median, µs, mean over 5 repetitions [95 % interval]")
    expected = r"  compared with tap: xdp (\S+) faster \[(\S+), (\S+)\]; ovs: no difference shown (.*)"
    found = re.fullmatch(expected, lines[at + 1])
    assert found, lines
    amount, low, high = map(float, found.groups()[:3])
    assert low < amount < high and amount == pytest.approx(413.4, abs=0.1)
    assert re.fullmatch(r"\(would need [\d.]+\)", found[4])


def test_over_how_many_repetitions_a_difference_is_told_where_some_have_no_figures(tmp_path: Path) -> None:
    lines = printed(
        compared(tmp_path / "run", {"tap": (812, 818, 815, 814), "xdp": (400, 403, 401), "ovs": (811, 819, 816, 812)})
    )
    assert "Differences at the median, µs, mean over 3 to 4 repetitions [95 % interval]" in lines


def test_more_differences_than_a_screen_has_room_for_are_counted(matrix: dict[str, Any]) -> None:
    lines = printed(matrix)
    at = lines.index("Differences at the median, µs, mean over 3 repetitions [95 % interval]")
    assert lines[at + 1].startswith("  down, idle, compared with tap: ")
    assert "  and 6 more: latlab show comparison" in lines


def test_of_one_repetition_nothing_is_said_to_differ(tmp_path: Path) -> None:
    lines = printed(compared(tmp_path / "run", {"tap": (812,), "xdp": (400,)}))
    assert "  no difference can be shown in 1 comparison: one repetition: the spread of repetitions is unknown" in lines


def test_bridges_come_first_and_loads_are_compared_with_the_idle_cell_of_every_bridge(
    matrix: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert any(line.startswith("  down, idle, compared with tap: xdp ") for line in printed(matrix))
    monkeypatch.setattr(of_answer, "DIFFERENCES", 99)
    lines = printed(matrix)
    (at,) = [place for place, line in enumerate(lines) if line.startswith("  down, load-up compared with idle")]
    assert all(bridge in " ".join(lines[at : at + 2]) for bridge in ("tap", "macvtap", "xdp"))
    last_of_bridges = max(number for number, line in enumerate(lines) if "compared with tap" in line)
    assert last_of_bridges < min(number for number, line in enumerate(lines) if "compared with idle" in line)


def test_cells_without_figures_are_named_with_what_to_do(matrix: dict[str, Any]) -> None:
    text = " ".join(line.strip() for line in printed(matrix))
    assert "bridge vfio: unavailable: guests.vm1.bridge: vfio: no IOMMU is in use" in text
    assert "boot the kernel with intel_iommu=on or amd_iommu=on" in text


def test_three_reasons_are_reported_and_where_the_others_are(matrix: dict[str, Any]) -> None:
    (reason, *_) = matrix["reasons"]
    several = [reason | {"id": f"rule-{number}", "finding": f"finding {number}"} for number in range(5)]
    lines = printed(matrix | {"reasons": several})
    at = lines.index("Verdict: suspect")
    assert lines[at + 1 : at + 5] == [
        *(f"  suspect: finding {number} (rule-{number})" for number in range(3)),
        "  and 2 more reasons: latlab show trust",
    ]


def test_the_dominant_stage_of_each_stream_and_load_is_named(matrix: dict[str, Any]) -> None:
    lines = printed(matrix)
    at = lines.index("Where the latest packets lost their time (share of their delay)")
    assert lines[at + 1].startswith("  down, idle: path ")
    assert lines[at + 1].startswith("  down, idle: path (wire, switch, VM host, virtual bridge) ")
    assert "(" not in lines[at + 2]
    assert lines[at + 4] == "  and 3 more: latlab show stages"


def test_the_hop_in_which_watched_packets_lost_most_is_named_beside_streams_stages(
    matrix: dict[str, Any],
) -> None:
    for cell in matrix["cells"]:
        cell.get("streams", {}).pop("up", None)
    lines = printed(with_a_watched_flow(matrix, "down"), 200)
    at = lines.index("Where the latest packets lost their time (share of their delay)")
    assert lines[at + 1].startswith("  down, idle: path ")
    assert lines[at + 2] == "  seen.a-to-c, idle: a → b 75 %"


def stages_of(matrix: dict[str, Any], load: str, bridge: str) -> Iterator[dict[str, Any]]:
    """The dominant stage of each repetition's latest packets, to be changed."""
    for cell in matrix["cells"]:
        if cell["slug"] == f"guests.vm1.bridge={bridge},loads={load}":
            for metric in cell["streams"]["down"]["metrics"].values():
                if (chain := metric.get("chain")) and chain["worst"]:
                    yield from chain["worst"]["grew"]


def test_a_stage_that_dominates_in_one_bridge_only_is_shown_with_that_bridge(matrix: dict[str, Any]) -> None:
    for grown in stages_of(matrix, "none", "xdp"):
        grown |= {"from": "launch", "to": "wake"}
    (line,) = [line for line in printed(matrix, 200) if line.startswith("  down, idle: path")]
    assert re.fullmatch(
        r"  down, idle: path \(.*\) \d+ %( to \d+ %)?; in 3 of \d+ measurements \(xdp\): "
        r"wake-up \(the talker's thread wakes\) \d+ %( to \d+ %)?",
        line,
    )


def test_late_packets_are_those_of_the_metric_in_the_table(matrix: dict[str, Any]) -> None:
    longest = [one["metrics"]["latency_user"] for cell in matrix["cells"] for one in cell.get("streams", {}).values()]
    changed = [grown for one in longest if one["chain"]["worst"] for grown in one["chain"]["worst"]["grew"]]
    assert changed
    for grown in changed:
        grown |= {"from": "rx_soft", "to": "rx_user", "share": 0.99}
    lines = printed(matrix, 200)
    at = lines.index("Where the latest packets lost their time (share of their delay)")
    assert "path" in lines[at + 1] and not any("delivery" in line for line in lines[at:])


@pytest.mark.parametrize(("n", "nothing"), [(0, True), (None, False)], ids=["none", "unknown"])
def test_nothing_arrived_only_where_the_number_of_values_is_known(
    matrix: dict[str, Any], n: int | None, nothing: bool
) -> None:
    stream = next(one for cell in typed(matrix).cells for one in cell.streams.values())
    lost = stream.metrics["latency"].model_copy(update={"n": n, "lost": 1, "missing": 0, "unbounded": 0})
    assert lost.nothing_arrived is nothing


def test_cells_whose_names_have_commas_are_told_apart_by_semicolons(matrix: dict[str, Any]) -> None:
    matrix = json.loads(
        json.dumps(matrix).replace('"xdp"', '"plain 1 ms, ordinary"').replace('"tap"', '"plain 1 ms, FIFO"')
    )
    once = {"cells": [cell for cell in matrix["cells"] if cell["repeat"] == 1]}
    for bridge in ("xdp", "tap"):
        for grown in stages_of(once, "none", bridge):
            grown |= {"from": "launch", "to": "wake"}
    text = "\n".join(printed(matrix, 400))
    assert "measurements (plain 1 ms, FIFO; plain 1 ms, ordinary): wake-up" in text
    assert listed(["a", "b", "c"]) == "a, b, c" and listed(["a", "b", "c"], "and") == "a, b and c"
    assert listed(["a, x", "b", "c"]) == "a, x; b; c" and listed(["a, x", "b", "c"], "and") == "a, x; b; and c"
    assert listed(["a, x"], "and") == "a, x"


def test_lost_packets_of_kernels_whose_drops_were_not_recorded_are_counted(matrix: dict[str, Any]) -> None:
    ok = [cell for cell in matrix["cells"] if cell["status"] == "ok"]
    ok[0]["streams"]["down"]["metrics"]["latency"]["lost"] = 7
    assert not any("drops were not recorded" in line for line in printed(matrix)), "they were not to be"
    kernel = {"host": "vm1", "hosts": ["vm1"], "watched": False, "reasons": False, "missing": ["emulated"]}
    for cell in ok:
        cell["drops_watched"] = [kernel | {"drops": None, "unrecorded": None}]
    lines = printed(matrix, 120)
    at = lines.index("Where packets were lost")
    said = "  7 lost on kernels whose drops were not recorded (`watch_drops: always` records them)"
    assert lines[at + 1] == said


def test_a_broken_limit_has_its_figures(matrix: dict[str, Any]) -> None:
    limit = {"cell": "loads=none", "repeat": 1, "path": "down.latency.max", "limit": 500_000, "ok": False}
    exceeded = limit | {"actual": 812_000, "reason": "over the limit"}
    unmeasured = limit | {"repeat": 2, "actual": None, "reason": "not measured"}
    lines = printed(matrix | {"accept": [exceeded, unmeasured]}, 120)
    at = lines.index("0 of 2 limits kept")
    assert lines[at + 1 : at + 3] == [
        "  down.latency.max, loads=none, repeat 1: 812 µs is over the limit, 500 µs",
        "  down.latency.max, loads=none, repeat 2: not measured; the limit is 500 µs",
    ]


def test_next_commands_are_those_that_the_run_has_something_for(matrix: dict[str, Any]) -> None:
    assert [name for name, _ in next_commands(typed(matrix))] == ["trust", "missing", "stages"]
    fine = matrix | {"verdict": "trusted", "cells": [cell for cell in matrix["cells"] if cell["status"] == "ok"]}
    assert next(name for name, _ in next_commands(typed(fine))) == "stages"


def test_no_section_comes_next_that_the_run_has_nothing_for(matrix: dict[str, Any]) -> None:
    for cell in matrix["cells"]:
        cell["streams"] = {}
    assert [name for name, _ in next_commands(typed(matrix))] == ["trust", "missing", "testbed"]


def test_a_metric_that_the_run_does_not_have_is_reported_and_the_others_are_shown(matrix_run: Path) -> None:
    command = ["show", str(matrix_run), "cells", "--metric", "round_trip"]
    ended = CliRunner().invoke(app, [*command, "--metric", "wakeup"])
    assert re.match(r"latlab: --metric: this run has no round_trip; it has (\w+, )*latency\b", ended.stderr)
    assert "wakeup = wake" in ended.stdout and "latency = rx" not in ended.stdout
    assert "latency = rx" in CliRunner().invoke(app, command).stdout, "none is left: those it usually shows"


def test_all_sections_are_those_that_the_run_has_something_for(
    matrix_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)  # lines of a log are not folded
    said = CliRunner().invoke(app, ["show", str(matrix_run), "all"]).stdout
    assert "this run has no such section" not in said
    assert said.index(" · after warm-up · ") < said.index("\nVerdict: ")


def test_of_many_cells_without_figures_the_first_is_named_and_the_others_are_counted(matrix: dict[str, Any]) -> None:
    reason = {"what": "a signal ended the run", "where": "", "remedy": ""}
    for number, cell in enumerate(matrix["cells"]):
        if cell["status"] == "ok" and number % 5 == 0:
            cell |= {"status": "interrupted", "reason": reason}
    (line,) = [line for line in printed(matrix, 300) if ": interrupted: " in line]
    assert re.fullmatch(r"  bridge [\w, -]+ \d; \d+ more: interrupted: a signal ended the run", line)


def test_a_run_without_loads_has_a_row_a_bridge_and_no_column_that_is_empty(tmp_path: Path) -> None:
    result = compared(tmp_path / "run", {"tap": (812, 813), "xdp": (400, 401)})
    (table,) = [part for one in answer(typed(result), ["latency"]) for part in one.parts if isinstance(part, OneOf)]
    # So few packets have no 99th percentile.
    assert list(table.shapes[-1][0].headings) == ["bridge", "p50", "max", "lost"]


def test_the_page_begins_with_the_same_table_and_sentences(matrix_run: Path, matrix: dict[str, Any]) -> None:
    page = render(RunFolder(matrix_run), {}).before
    first, _, _ = page.partition('<nav aria-label="Contents">')
    shown = {one.name: one.parts for one in answer(typed(matrix), ["latency"])}
    (table, _) = shown["figures"]
    assert isinstance(table, OneOf)
    for row in table.shapes[0][0].rows:
        assert f'<th scope="row">{row[0]}</th><th scope="row">{row[1]}</th><td>{row[2]}</td>' in first
    assert "down, load-down, compared with tap: xdp " in first
    assert "<summary>1 reason: tuning-in-force</summary>" in first
