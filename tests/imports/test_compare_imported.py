"""What other programs measured, compared: with each other, never with what latlab measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from latlab.evaluation.comparison.document import compare
from latlab.evaluation.comparison.wanted import wanted
from latlab.evaluation.run import make_result
from latlab.imports.write import import_files
from latlab.model.errors import UsageError
from latlab.recordings.run_folder import RunFolder
from latlab.report.comparison.lines import remarks
from latlab.result.comparison import ComparisonDocument
from support.imports.files import CAPTURED


@pytest.fixture
def imported(tmp_path: Path) -> Any:
    """A function that imports captured files as a run, analyses it, and gives its folder."""

    def run(*files: str, name: str) -> RunFolder:
        folder = import_files([CAPTURED / file for file in files], tmp_path, name=name).folder
        make_result(folder)
        return folder

    return run


def relabelled(folder: RunFolder, label: str) -> None:
    """The run's figures as if they had this label."""
    result = folder.result()
    for cell in result["cells"]:
        cell["label"] = label
    folder.write_result(result)


def compared(root: Path, *runs: RunFolder, **options: Any) -> ComparisonDocument:
    return compare([str(run.path) for run in runs], root, options.pop("wanted", wanted()), **options)


def test_two_imported_runs_are_compared_by_the_metric_they_have(imported: Any, tmp_path: Path) -> None:
    runs = [imported("sockperf-ping-pong.csv", name=name) for name in ("a", "b")]
    found = compared(tmp_path, *runs).comparisons
    assert {one.metric for one in found} == {"round_trip"}
    assert {one.label for one in found} == {"imported"}
    # The same file twice: one repetition a side, and no difference.
    assert {one.difference_ns for one in found if one.difference_ns is not None} == {0}
    assert not any(one.shown for one in found)


@pytest.mark.parametrize("label", ["measured", "virtual time", "functional only"])
def test_imported_figures_are_not_compared_with_others(imported: Any, tmp_path: Path, label: str) -> None:
    a, b = (imported("sockperf-ping-pong.csv", name=name) for name in ("a", "b"))
    relabelled(b, label)
    with pytest.raises(UsageError, match=f"imported and {label} cannot be compared") as caught:
        compared(tmp_path, a, b)
    assert caught.value.where == f"{a.id} and {b.id}"
    assert "measured by the same program" in caught.value.remedy
    with pytest.raises(UsageError, match="cannot be compared"):
        compared(tmp_path, b, baseline=str(a.path))


def test_another_label_is_reported_before_other_cells(imported: Any, tmp_path: Path) -> None:
    a = imported("sockperf-ping-pong.csv", name="a")
    b = imported("sockperf-ping-pong.csv", "sockperf-under-load.csv", name="b")
    relabelled(b, "measured")
    with pytest.raises(UsageError, match="imported and measured cannot be compared"):
        compared(tmp_path, a, b)


def test_figures_that_a_program_did_not_keep_are_left_out_and_told(imported: Any, tmp_path: Path) -> None:
    runs = [imported("cyclictest-quiet.txt", name=name) for name in ("a", "b")]
    document = compared(tmp_path, *runs, wanted=wanted(statistics=["p50", "max"]))
    blank = [one for one in document.comparisons if one.difference_ns is None]
    assert blank
    assert {one.statistic for one in blank} == {"p50"}
    told = dict(remarks(document))["Not compared:"]
    assert any("p50" in line and "the other program does not print" in line for line in told)


def test_runs_without_a_stream_in_common_say_so(imported: Any, tmp_path: Path) -> None:
    a, b = imported("sockperf-ping-pong.csv", name="a"), imported("cyclictest-sum.txt", name="b")
    with pytest.raises(UsageError, match="no stream in common"):
        compared(tmp_path, a, b)


def test_the_files_of_one_import_are_compared_on_its_own_report(imported: Any) -> None:
    result = imported("sockperf-ping-pong.csv", "sockperf-under-load.csv", name="both").result()
    streams = [set(cell["streams"]) for cell in result["cells"]]
    (metric,) = result["comparisons"]
    assert metric["metric"] == "round_trip"
    assert {one["stream"] for one in metric["comparisons"]} == set.intersection(*streams)
    assert {one["key"] for one in metric["comparisons"]} == {"file"}
    assert any("every cell was deployed once" in note for note in metric["notes"])
