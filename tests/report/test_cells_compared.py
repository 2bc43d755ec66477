"""A run's own cells held against each other: in its result, on its page, in Markdown."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from latlab.analysis.comparison.compare import ONE_REPETITION
from latlab.analysis.comparison.words import at_least
from latlab.evaluation.comparison.document import compare
from latlab.evaluation.comparison.wanted import Wanted
from latlab.report.charts.comparison import compared_metrics, panel
from latlab.report.comparison.lines import probability
from latlab.report.markdown import escaped, result_markdown
from latlab.result.comparison import Compared
from latlab.result.store import typed
from latlab.result.types import Interval
from support.report.compared import US, with_comparisons, write_figures_run

TAP = (812.0, 845.0, 901.0, 830.0, 822.0)
XDP = (790.0, 831.0, 870.0, 812.0, 815.0)
OVS = (812.0, 846.0, 900.0, 831.0, 820.0)

Result = Callable[..., dict[str, Any]]


@pytest.fixture
def made(tmp_path: Path) -> Result:
    """A function that gives the result of a run of these medians, with what compares its cells."""

    def make(medians: Mapping[str, Sequence[float | None]], **options: Any) -> dict[str, Any]:
        path = write_figures_run(tmp_path / "run", medians, **options)
        result: dict[str, Any] = json.loads((path / "result.json").read_text())
        return with_comparisons(result)

    return make


def only(result: dict[str, Any], statistic: str = "p50") -> list[dict[str, Any]]:
    (metric,) = result["comparisons"]
    return [one for one in metric["comparisons"] if one["statistic"] == statistic]


def test_sizes_that_a_line_is_drawn_over_are_not_compared_with_each_other(made: Result) -> None:
    medians = {"64B": TAP, "1kB": XDP, "8kB": OVS}
    assert made(medians, key="probes.rr.size")["comparisons"] == []


def test_two_sizes_are(made: Result) -> None:
    assert len(only(made({"64B": TAP, "1kB": XDP}, key="probes.rr.size"))) == 1


@pytest.mark.parametrize(
    ("p", "told"),
    [
        (None, ""),
        (0.0004, "< 0.001"),
        (0.0496, "0.050"),
        (0.05, "0.050"),
        (0.050_000_1, "> 0.05"),
        (0.05003, "0.05003"),
        (0.0502, "0.0502"),
        (0.3141, "0.314"),
    ],
)
def test_a_p_value_as_printed_is_on_its_side_of_the_line(p: float | None, told: str) -> None:
    assert probability(p) == told


@pytest.mark.slow
def test_each_cell_is_compared_with_the_first_that_shares_the_rest(matrix: dict[str, Any]) -> None:
    found = matrix["comparisons"]
    assert [one["metric"] for one in found] == ["latency", "latency_user"]
    for metric in found:
        pairs = {(one["key"], one["cell"], one["a"]["name"], one["b"]["name"]) for one in metric["comparisons"]}
        assert {first for _, _, first, _ in pairs} == {"bridge tap", "loads none"}
        # 3 bridges × 3 loads: two others for each of 3 of the other key; both ways, as many statistics as there are.
        assert len(pairs) == 2 * 3 + 3 * 2
        statistics = {one["statistic"] for one in metric["comparisons"]}
        assert len(metric["comparisons"]) == len(pairs) * 2 * len(statistics)
        assert {"p50", "max", "stddev"} <= statistics


def test_the_medians_of_the_first_metric_are_one_family_and_all_others_another(matrix: dict[str, Any]) -> None:
    found = [one for metric in matrix["comparisons"] for one in metric["comparisons"]]
    medians = [one for one in found if (one["metric"], one["statistic"]) == ("latency", "p50")]
    others = [one for one in found if one not in medians]
    assert len(medians) == 24 and len(others) > 100
    assert {metric["family"] for metric in matrix["comparisons"]} == {len(others)}
    main = {"metric": "latency", "statistic": "p50", "comparisons": 24}
    assert all(metric["main"] == main for metric in matrix["comparisons"])
    for family in (medians, others):
        least = min(one["p"] for one in family)
        assert min(one["p_adjusted"] for one in family) == pytest.approx(min(1.0, len(family) * least))
    told = f"(Holm: 5 % for the 24 of latency at the median, and 5 % for the {len(others)} others)"
    assert all(told in one.summary for one in compared_metrics(typed(matrix)))


def test_copies_that_were_made_to_see_whether_they_are_equal_are_one_repetition(tmp_path: Path) -> None:
    path = write_figures_run(tmp_path / "run", {"tap": TAP, "xdp": XDP})
    result: dict[str, Any] = json.loads((path / "result.json").read_text())
    assert any(one["shown"] for metric in with_comparisons(result)["comparisons"] for one in metric["comparisons"])
    alike = {"slug": "tap", "repetitions": 2, "packets": 1, "only_in_one": 0, "largest_ns": 0}
    copies = result | {"repeats": [alike | {"repeat": 2, "stream": None, "sequence": 0, "timestamp": "wake"}]}
    found = [one for metric in with_comparisons(copies)["comparisons"] for one in metric["comparisons"]]
    assert found and all(one["why_not"] == ONE_REPETITION for one in found)


def test_the_page_and_the_command_line_judge_the_same_figures_alike(tmp_path: Path) -> None:
    """A reader who looks one up in the other finds the same p, and the same difference that would have been shown."""
    path = write_figures_run(tmp_path / "run", {"tap": TAP, "xdp": XDP})
    result: dict[str, Any] = json.loads((path / "result.json").read_text())
    for cell in result["cells"]:
        figures = cell["streams"]["control"]["metrics"]
        figures["latency_user"] = figures["latency"] | {"to": "rx_user"}
    (path / "result.json").write_text(json.dumps(result))
    page = [one for metric in with_comparisons(result)["comparisons"] for one in metric["comparisons"]]
    asked = compare([str(path)], tmp_path, Wanted(), by="bridge")
    judged = ("metric", "statistic", "p", "p_adjusted", "shown", "smallest_ns", "low_ns", "high_ns")
    told = [{name: getattr(one, name) for name in judged} for one in asked.comparisons]
    assert [{name: one[name] for name in judged} for one in page] == told and asked.family == 7
    only_one = compare([str(path)], tmp_path, Wanted(metrics=("latency",), statistics=("p50",)), by="bridge")
    assert only_one.comparisons[0].p_adjusted == told[0]["p_adjusted"] and only_one.main is None
    maximum = next(one for one in told if (one["metric"], one["statistic"]) == ("latency", "max"))
    only_one = compare([str(path)], tmp_path, Wanted(metrics=("latency",), statistics=("max",)), by="bridge")
    assert only_one.comparisons[0].p_adjusted < maximum["p_adjusted"]


def test_cells_of_other_labels_are_in_no_comparison(matrix: dict[str, Any]) -> None:
    for cell in matrix["cells"]:
        if cell["cell"]["guests.vm1.bridge"] == "tap":
            cell["label"] = "measured"
    found = [one for metric in with_comparisons(matrix)["comparisons"] for one in metric["comparisons"]]
    assert {one["label"] for one in found} == {"measured", "functional only"}
    assert all("bridge tap" not in (one["a"]["name"], one["b"]["name"]) for one in found if one["key"] != "loads")


def test_a_first_value_that_was_not_measured_leaves_its_place_to_the_next(made: Result) -> None:
    found = only(made({"tap": (None, None), "xdp": XDP, "ovs": OVS}))
    assert [(one["a"]["name"], one["b"]["name"]) for one in found] == [("bridge xdp", "bridge ovs")]


def test_a_difference_stands_in_words_with_its_interval(made: Result) -> None:
    result = made({"tap": TAP, "xdp": tuple(value - 100 for value in TAP), "ovs": OVS})
    (metric,) = compared_metrics(typed(result))
    (group,) = metric.groups
    assert group.title == "control, by bridge: each against bridge tap"
    lines = list(group.lines)
    assert any(
        line.startswith("bridge xdp: bridge xdp is 100.000 µs faster than bridge tap at the median") for line in lines
    )
    assert any(re.fullmatch(r"bridge ovs: no difference shown at 95 %: at the median \(± .*", line) for line in lines)


def test_markdown_has_what_is_shown_of_each_metric(matrix: dict[str, Any]) -> None:
    told = result_markdown(typed(matrix), ["latency"])
    assert "**Comparison of cells: latency**\n" in told
    assert "**Comparison of cells: latency\\_user**\n" in told
    for metric in compared_metrics(typed(matrix)):
        lines = [line for group in metric.groups for line in group.lines]
        assert lines
        assert all(escaped(line) in told for line in (metric.summary, *lines, *metric.notes))


def test_the_first_metric_there_is_stands_for_those_that_go_all_the_way(made: Result) -> None:
    result = made({"tap": TAP, "xdp": XDP})
    for cell in result["cells"]:
        for block in cell["streams"].values():
            block["metrics"] = {"wakeup": block["metrics"]["latency"]}
    assert [one["metric"] for one in with_comparisons(result)["comparisons"]] == ["wakeup"]


def test_a_run_of_one_cell_compares_nothing(made: Result) -> None:
    result = made({"tap": TAP})
    assert result["comparisons"] == []
    assert compared_metrics(typed(result)) == []


def with_confidence(result: dict[str, Any], half_us: float) -> dict[str, Any]:
    """The result, and of each median a 95 % interval by its packets, ± half."""
    for cell in result["cells"]:
        found = cell["streams"]["control"]["metrics"]["latency"]
        ends = {"low": found["p50"] - half_us * US, "high": found["p50"] + half_us * US}
        none = dict.fromkeys(Interval.model_fields)
        intervals = dict.fromkeys(("mean", "stddev", "p50", "p90", "p99", "p99_9", "p99_99"), none) | {
            "p50": none | ends
        }
        largest = {"value": None, "share_above": 0.001, "effective_n": None}
        known = {"n": 900, "confidence": 0.95, "method": "bootstrap", "supports": ""}
        found["confidence"] = {**known, **intervals, "max": largest}
    return with_comparisons(result)


def test_cells_deployed_once_show_nothing_and_say_that_repetitions_are_missing(made: Result) -> None:
    result = with_confidence(made({"tap": (812.0,), "xdp": (400.0,)}), 3.0)
    (one,) = only(result)
    assert (one["shown"], one["half_ns"], one["p_adjusted"]) == (False, None, None)
    # Two intervals of ± 3 µs: √(3² + 3²).
    assert one["within_ns"] == pytest.approx([-412_000 - 4242.64, -412_000 + 4242.64], abs=0.01)
    assert "[407.8, 416.2] from the packets of these two deployments alone" in one["sentence"]
    assert only(result, "max")[0]["within_ns"] is None
    (metric,) = compared_metrics(typed(result))
    assert metric.summary.startswith("Nothing can be shown")
    assert "every cell was deployed once" in metric.notes[0]
    assert "with repeat: 5" in metric.notes[1]
    assert "faster" not in " ".join(line for group in metric.groups for line in group.lines)


def test_why_nothing_can_be_shown_is_reported_once_where_it_rules_out_many(made: Result) -> None:
    (metric,) = compared_metrics(typed(made({"tap": (812.0,), "xdp": (400.0,), "ovs": (530.0,)})))
    (group,) = metric.groups
    count = sum(len(block.entries) for block in group.blocks)
    (line,) = group.lines
    assert line.startswith(f"nothing can be shown in any of the {count} comparisons: one repetition")


def test_repetitions_are_not_told_to_be_missing_where_they_are_there(made: Result) -> None:
    (metric,) = compared_metrics(typed(made({"tap": TAP, "xdp": XDP})))
    assert not any("deployed once" in note for note in metric.notes)


def drawn(result: dict[str, Any], statistic: str = "p50") -> Any:
    return panel([Compared.model_validate(one) for one in only(result, statistic)])


def test_the_picture_has_every_point_on_its_axis_and_tells_what_is_shown(made: Result) -> None:
    found = drawn(made({"tap": TAP, "xdp": tuple(value - 100 for value in TAP), "ovs": OVS}))
    xdp, ovs = found.rows
    assert (xdp.kind, ovs.kind) == ("shown", "not-shown")
    assert 0 < xdp.point < 50
    assert ovs.least <= ovs.low < ovs.point < ovs.high <= ovs.most
    assert all((row.least > 50 or row.most < 50) == (row.kind == "shown") for row in found.rows)
    assert (found.less, found.more) == ("faster", "slower")
    assert [text for _, text in found.ticks] == ["−100", "0", "100"]
    assert found.ticks[1][0] == 50


def test_an_interval_that_leaves_the_axis_is_cut_there_and_marked(made: Result) -> None:
    wild = (400.0, 9_000.0, 812.0, 100.0, 5_000.0)
    others = {f"b{number}": tuple(value + number for value in OVS) for number in range(4)}
    rows = drawn(made({"tap": TAP, **others, "wild": wild})).rows
    assert [row.cut_low for row in rows] == [False] * 4 + [True]
    assert rows[-1].low == 0
    assert all(0 < row.point < 100 for row in rows)


def test_single_deployments_are_drawn_as_such(made: Result) -> None:
    once = made({"tap": (812.0,), "xdp": (400.0,)})
    (bare,) = drawn(once).rows
    assert (bare.kind, bare.text) == ("alone", "−412.0")
    assert bare.low == bare.point == bare.high
    (row,) = drawn(with_confidence(once, 3.0)).rows
    assert row.kind == "alone"
    assert row.low < row.point < row.high
    assert row.text == f"−412.0 ± {at_least(4242.64)}"
