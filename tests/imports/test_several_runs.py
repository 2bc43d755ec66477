"""Several runs in one file are separate measurements: none is merged with another, none is dropped."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from latlab.model.errors import UsageError
from support.imports.files import Importing, named, text
from support.imports.isochron import log, usual


@pytest.mark.parametrize(
    ("name", "stream", "metric", "figures"),
    [
        ("cyclictest-histogram-twice.txt", "thread-0", "wakeup", {"n": [1000, 1000], "max": [12_000, 2_310_000]}),
        ("cyclictest-histogram-twice.txt", "thread-0", "wakeup", {"p99": [8_000, 13_000]}),
        ("cyclictest-summary-twice.txt", "thread-0", "wakeup", {"n": [2000, 2000], "max": [21_000, 431_000]}),
        ("cyclictest-summary-twice.txt", "thread-1", "wakeup", {"max": [19_000, 377_000]}),
        ("ddsperf-twice.txt", "vm-4090", "half_round_trip", {"n": [300, 300], "max": [135_520, 311_520]}),
        ("sockperf-twice.csv", "server-0", "round_trip", {"n": [20, 12], "max": [127_881, 911_629]}),
        ("rtla-osnoise-twice-other-cpus.txt", "cpu-0", "noise", {"n": [275], "max": [11_000]}),
        ("rtla-osnoise-twice-other-cpus.txt", "cpu-2", "noise", {"n": [848], "max": [320_000]}),
    ],
)  # fmt: skip
def test_each_run_has_its_own_figures(
    importing: Importing, name: str, stream: str, metric: str, figures: dict[str, list[int]]
) -> None:
    found = importing(name)
    assert len(found.outcome.cells) == 2
    for key, values in figures.items():
        assert found.of_runs(stream, metric, key) == values, key


@pytest.mark.parametrize(
    "name",
    [
        "cyclictest-smp.txt", "cyclictest-smp.json", "cyclictest-sum.txt", "cyclictest-quiet.txt", "rtla-timerlat.txt",
        "rtla-osnoise-top.txt", "sockperf-under-load.csv", "ddsperf-ping.txt", "rtc-testbench-debug.log",
        "rtc-histogram.txt",
        "isochron-summary.txt", "sample-app-taprio.log", "txrx-tsn.txt",
    ],
)  # fmt: skip
def test_any_text_that_was_appended_to_itself_is_two_runs(importing: Importing, name: str) -> None:
    once, twice = importing(name), importing(2 * named(name).read_bytes())
    assert [cell.slug[-6:] for cell in twice.outcome.cells] == ["-run-1", "-run-2"]
    for cell in twice.result["cells"]:
        assert {stream: block["metrics"].keys() for stream, block in cell["streams"].items()} == {
            stream: block["metrics"].keys() for stream, block in once.streams.items()
        }
        for stream, block in cell["streams"].items():
            for metric, figures in block["metrics"].items():
                own = once.figures(stream, metric)
                assert [figures[key] for key in ("n", "min", "mean", "max")] == [
                    own[key] for key in ("n", "min", "mean", "max")
                ]


@pytest.mark.parametrize("first", [0, 1], ids=["the histogram first", "the table first"])
def test_a_histogram_and_a_table_are_two_runs(importing: Importing, first: int) -> None:
    names = ["rtla-osnoise.txt", "rtla-osnoise-top.txt"]
    found = importing((text(names[first]) + text(names[1 - first])).encode())
    both = [812_000, 55_000]
    assert found.of_runs("cpu-0", "noise", "max") == [both[first], both[1 - first]]


def test_a_histogram_and_a_summary_are_two_runs(importing: Importing) -> None:
    lines = text("cyclictest-histogram-twice.txt").splitlines()[:30]
    found = importing(("\n".join(lines) + "\n" + text("cyclictest-quiet.txt")).encode())
    assert found.of_runs("thread-0", "wakeup", "p50")[0] == 6_000
    assert len(found.outcome.cells) == 2


def test_of_three_runs_the_one_that_was_cut_is_named(importing: Importing) -> None:
    lines = text("cyclictest-histogram-twice.txt").splitlines()[:30]
    found = importing(("\n".join([*lines, *lines, *lines[:12]]) + "\n").encode())
    assert [cell["verdict"] for cell in found.result["cells"]] == ["suspect", "suspect", "untrusted"]
    (problem,) = found.outcome.cells[2].imported.problems
    assert problem.finding == "a file is cut short"


def test_where_a_run_begins_is_said(importing: Importing) -> None:
    first, second = importing("cyclictest-histogram-twice.txt").outcome.cells
    assert "run 1 of 2 in the file, from its line 1" in first.imported.notes
    assert "run 2 of 2 in the file, from its line 31" in second.imported.notes


def test_parameters_are_those_of_the_run(importing: Importing) -> None:
    sizes = [cell.imported.streams[0].size for cell in importing("sockperf-twice.csv").outcome.cells]
    assert sizes == [64, 1024]


def test_a_table_that_is_printed_again_and_again_is_one_run(importing: Importing) -> None:
    found = importing("cyclictest-without-q.txt")
    assert [(name, found.figures(name, "wakeup")["n"]) for name in found.streams] == [
        ("thread-0", 6000),
        ("thread-1", 6000),
    ]
    assert [found.figures(name, "wakeup")["max"] for name in found.streams] == [44_000, 52_000]
    assert len(found.found.figures) == 2
    assert not any("missed" in note for note in found.notes)


def test_two_live_runs_are_two(importing: Importing) -> None:
    live = text("cyclictest-without-q.txt")
    again = live.replace("3101", "4101").replace("3102", "4102")
    assert importing((live + again).encode()).of_runs("thread-0", "wakeup", "n") == [6000, 6000]


def test_two_runs_of_the_same_process_numbers_are_two(importing: Importing) -> None:
    """In a container process numbers are the same each time."""
    line = "T: 0 (    7) P:90 I:1000 C:   2000 Min:      4 Act:    6 Avg:    6 Max:      {}\n"
    found = importing((line.format(21) + line.format(431)).encode())
    assert found.of_runs("thread-0", "wakeup", "max") == [21_000, 431_000]


def test_a_pong_in_the_same_terminal_is_no_run(importing: Importing) -> None:
    lines = text("ddsperf-ping.txt").splitlines()
    pong = [f"[77] {at}.000  rss:7.3MB vcsw:9 ivcsw:0" for at in range(1, 6)]
    mixed = [line for pair in zip(lines, pong, strict=False) for line in pair] + lines[len(pong) :]
    found = importing("\n".join(mixed).encode())
    assert found.figures("vm-3779", "half_round_trip")["n"] == 400


@pytest.mark.parametrize("heading", ["q,T,R\n", ""])
def test_tables_of_packets_are_two_where_numbers_begin_again(importing: Importing, heading: str) -> None:
    rows = "".join(f"{q},{10**18 + q * 1000},{10**18 + q * 1000 + 500 + q}\n" for q in range(1, 9))
    found = importing((heading + rows + rows).encode(), columns=None if heading else "qTR")
    assert found.of_runs("packets", "path", "n") == [8, 8]


def test_a_late_packet_and_a_copy_begin_no_run(importing: Importing) -> None:
    order = [1, 2, 4, 3, 5, 5, 6, 2, 7]
    rows = "".join(f"{q},{10**18 + q * 1000},{10**18 + q * 1000 + 500}\n" for q in order)
    found = importing(("q,T,R\n" + rows).encode())
    assert found.figures("packets", "path")["n"] == 7


def test_two_logs_of_isochron_in_one_file_are_refused(importing: Importing) -> None:
    one = log(usual(6))
    with pytest.raises(UsageError, match=f"two logs in one file: another one begins at byte {len(one)}"):
        importing(one + one)


def test_an_error_in_the_second_run_says_where_it_is(importing: Importing, tmp_path: Path) -> None:
    path = tmp_path / "osnoise.txt"
    path.write_text(text("rtla-osnoise.txt") + "# RTLA timerlat histogram\n# Time unit is microseconds (us)\nIndex\n")
    with pytest.raises(UsageError, match="no CPU's column") as refused:
        importing(path)
    assert refused.value.where == f"{path}, run 2 (from line 14)"


def test_files_with_several_runs_are_cells_next_to_others(importing: Importing) -> None:
    found = importing("cyclictest-summary-twice.txt", "cyclictest-quiet.txt")
    assert {cell["cell"]["file"] for cell in found.result["cells"]} == {
        "cyclictest-summary-twice.txt-run-1",
        "cyclictest-summary-twice.txt-run-2",
        "cyclictest-quiet.txt",
    }
    assert len(json.loads((found.outcome.folder.path / "run.json").read_text())["imported"]["files"]) == 2
