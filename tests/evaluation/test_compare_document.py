"""Comparison documents of run folders: what is compared, what is refused, and what else differs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from latlab.evaluation.comparison.document import compare, exit_code
from latlab.evaluation.comparison.wanted import wanted
from latlab.model.errors import UsageError
from latlab.result.comparison import ComparisonDocument
from support.report.compared import FACTS, write_figures_run

TAP, XDP = (812.0, 845.0, 901.0, 830.0, 822.0), (790.0, 831.0, 870.0, 812.0, 815.0)
MEDIAN = wanted(statistics=["p50"])

Runs = Callable[..., Path]


@pytest.fixture
def run(tmp_path: Path) -> Runs:
    """A function that writes a run folder `name` in the test's folder."""
    return lambda name, medians, **options: write_figures_run(tmp_path / name, medians, **options)


def compared(root: Path, *texts: str, **options: Any) -> ComparisonDocument:
    return compare(texts, root, options.pop("wanted", MEDIAN), **options)


def refused(root: Path, *texts: str, **options: Any) -> str:
    with pytest.raises(UsageError) as caught:
        compared(root, *texts, **options)
    assert caught.value.where
    assert caught.value.remedy
    return str(caught.value)


def test_cells_of_one_run_are_compared_by_a_matrix_key(run: Runs, tmp_path: Path) -> None:
    run("a", {"tap": TAP, "xdp": XDP, "ovs": TAP})
    document = compared(tmp_path, "a", by="bridge")
    found = [(one.a.name, one.b.name, one.paired) for one in document.comparisons]
    assert found == [
        ("bridge tap", "bridge xdp", True),
        ("bridge tap", "bridge ovs", True),
        ("bridge xdp", "bridge ovs", True),
    ]
    assert document.family == 3


def test_a_key_may_be_named_by_its_last_part_as_tables_head_it(run: Runs, tmp_path: Path) -> None:
    run("a", {"tap": TAP, "xdp": XDP}, key="guests.vm1.bridge")
    assert compared(tmp_path, "a", by="bridge") == compared(tmp_path, "a", by="guests.vm1.bridge")


def test_cells_without_the_key_are_in_no_comparison_by_it(run: Runs, tmp_path: Path) -> None:
    path = run("a", {"tap": TAP, "xdp": XDP, "other": TAP}) / "result.json"
    result = json.loads(path.read_text())
    for cell in result["cells"]:
        if cell["slug"] == "bridge=other":
            cell["cell"] = {"loads": "none"}
    path.write_text(json.dumps(result))
    (one,) = compared(tmp_path, "a", by="bridge").comparisons
    assert (one.a.name, one.b.name) == ("bridge tap", "bridge xdp")


def test_a_comparison_holds_every_figure_it_rests_on(run: Runs, tmp_path: Path) -> None:
    run("a", {"tap": TAP, "xdp": XDP})
    (one,) = compared(tmp_path, "a", by="bridge").comparisons
    assert one.repeats_a == {n: 1000 * value for n, value in enumerate(TAP, start=1)}
    assert one.difference_ns == pytest.approx(-18_400)
    assert (one.low_ns, one.high_ns) == pytest.approx((-29526.584273718472, -7273.41572628153))
    assert one.p == one.p_adjusted == pytest.approx(0.010096158651689552)
    assert one.shown is True
    assert (one.label, one.from_, one.to, one.clocks_ns) == ("measured", "launch", "rx_soft", 0)
    assert one.sentence == "bridge xdp is 18.4 µs faster than bridge tap at the median [7.3, 29.5]"


def test_named_cells_are_compared(run: Runs, tmp_path: Path) -> None:
    run("a", {"tap": TAP, "xdp": XDP})
    run("b", {"tap": TAP})
    (within,) = compared(tmp_path, "a:bridge=tap", "a:bridge=xdp").comparisons
    assert within.paired
    (across,) = compared(tmp_path, "a:bridge=xdp", f"{tmp_path}/b:bridge=tap").comparisons
    assert not across.paired
    assert (across.a.name, across.b.name) == ("A", "B")


def test_whole_runs_are_compared_cell_by_cell(run: Runs, tmp_path: Path) -> None:
    run("a", {"tap": TAP, "xdp": XDP})
    run("b", {"xdp": XDP, "ovs": TAP})
    document = compared(tmp_path, "a", "b")
    assert [one.cell for one in document.comparisons] == ["bridge xdp"]
    assert document.unmatched == ["A only: bridge tap", "B only: bridge ovs"]
    assert any("one after the other" in note for note in document.notes)


def test_four_statistics_of_latency_are_compared_unless_others_are_asked_for(run: Runs, tmp_path: Path) -> None:
    run("a", {"tap": TAP, "xdp": XDP})
    usual = compared(tmp_path, "a", by="bridge", wanted=wanted()).comparisons
    assert [(one.metric, one.statistic) for one in usual] == [
        ("latency", name) for name in ("p50", "p99_9", "max", "stddev")
    ]
    asked = compared(tmp_path, "a", by="bridge", wanted=wanted(["latency"], ["p99.9", "mean"])).comparisons
    assert [one.statistic for one in asked] == ["p99_9", "mean"]


def test_verdicts_of_both_sides_are_next_to_the_figures(run: Runs, tmp_path: Path) -> None:
    run("a", {"tap": TAP})
    run("b", {"tap": XDP}, verdict="untrusted")
    document = compared(tmp_path, "a", "b")
    (one,) = document.comparisons
    assert (one.a.verdict, one.b.verdict) == ("trusted", "untrusted")
    assert exit_code(document) == 4


def test_labels_are_never_mixed(run: Runs, tmp_path: Path) -> None:
    run("a", {"tap": TAP})
    run("b", {"tap": XDP}, label="virtual time")
    run("c", {"tap": TAP, "xdp": XDP}, labels={"xdp": "functional only"})
    told = refused(tmp_path, "a", "b")
    assert "measured and virtual time cannot be compared" in told
    assert "a and b" in told
    assert "measured and functional only cannot be compared" in refused(tmp_path, "c", by="bridge")


def test_a_metric_of_other_timestamps_is_refused(run: Runs, tmp_path: Path) -> None:
    run("a", {"tap": TAP})
    run("b", {"tap": XDP}, metric={"to": "rx_hard"})
    assert "the timestamps differ" in refused(tmp_path, "a", "b")


@pytest.mark.parametrize(
    ("texts", "options", "said"),
    [
        (("a",), {}, "there is nothing to compare it with"),
        (("a", "a"), {}, "both are the same"),
        (("a", "a:bridge=tap"), {}, "a whole run cannot be compared with one cell"),
        (("a:bridge=ovs", "a:bridge=tap"), {}, "the run has no cell 'bridge=ovs'"),
        (("a:bridge=failed", "a:bridge=tap"), {}, "this cell was not measured to its end"),
        (("a", "other"), {}, "no cells of these runs have the same matrix values"),
        (("a", "nothing"), {}, "no cell of this run was measured to its end"),
        (("a", "missing"), {}, "not a run folder"),
        (("a",), {"by": "loads"}, "the matrix has no key 'loads'"),
        (("a", "other"), {"by": "bridge"}, "the cells of one whole run are compared by a key"),
        (("a", "other"), {"baseline": "a"}, "one run is compared with a baseline"),
        (("a",), {"wanted": wanted(thresholds=["control.latency.max=5us"])}, "a threshold needs a baseline"),
        (("a",), {"by": "bridge", "wanted": wanted(streams=["video"])}, "there is no stream 'video'"),
    ],
)
def test_what_cannot_be_asked_is_refused(
    run: Runs, tmp_path: Path, texts: tuple[str, ...], options: dict[str, Any], said: str
) -> None:
    run("a", {"tap": TAP, "xdp": XDP, "failed": (None,)})
    run("other", {"user": TAP})
    run("nothing", {"tap": (None, None)})
    assert said in refused(tmp_path, *texts, **options)


def test_a_run_without_a_result_is_refused(run: Runs, tmp_path: Path) -> None:
    run("a", {"tap": TAP})
    (run("b", {"tap": TAP}) / "result.json").unlink()
    assert "latlab report" in refused(tmp_path, "a", "b")


def test_repetitions_that_failed_are_left_out_and_told(run: Runs, tmp_path: Path) -> None:
    run("a", {"tap": TAP, "xdp": (790.0, None, 870.0, 812.0, 815.0)})
    document = compared(tmp_path, "a", by="bridge")
    assert document.left_out == ["bridge xdp, repeat 2: failed"]
    assert list(document.comparisons[0].repeats_a) == [1, 3, 4, 5]


def test_one_repetition_a_side_is_never_faster(run: Runs, tmp_path: Path) -> None:
    run("a", {"tap": (812.0,), "xdp": (400.0,)})
    (one,) = compared(tmp_path, "a", by="bridge").comparisons
    assert one.difference_ns == -412_000
    assert (one.half_ns, one.p, one.shown) == (None, None, False)
    assert "faster" not in one.sentence
    assert "the spread of repetitions is unknown" in one.sentence


def differing(document: ComparisonDocument) -> dict[str, dict[str, str]]:
    return {one.what: one.values for one in document.differs}


def test_what_is_sent_otherwise_is_reported_with_both_values(run: Runs, tmp_path: Path) -> None:
    run("a", {"tap": TAP})
    run("b", {"tap": XDP}, stream={"period_ns": 2_000_000, "size": 1400, "priority": 3}, duration_ns=9_000_000_000)
    assert differing(compared(tmp_path, "a", "b")) == {
        "control.period": {"A": "1006us", "B": "2ms"},
        "control.size": {"A": "64B", "B": "1400B"},
        "control.priority": {"A": "7", "B": "3"},
        "duration": {"A": "1s", "B": "9s"},
    }


def test_other_machines_and_versions_are_reported_and_counters_are_not(run: Runs, tmp_path: Path) -> None:
    powersave = {"cpus": {"0": {"governor": "powersave", "idle_ns": 9}}}
    kernel = {"release": "6.1.0-41", "boot_id": "b"}
    run("a", {"tap": TAP})
    run("b", {"tap": XDP}, facts={"cpu": powersave, "kernel": kernel}, version="0.3.0")
    assert differing(compared(tmp_path, "a", "b")) == {
        "latlab": {"A": "0.2.0", "B": "0.3.0"},
        "ecu.kernel.release": {"A": FACTS["kernel"]["release"], "B": "6.1.0-41"},
        "ecu.cpu.cpus.0.governor": {"A": "performance", "B": "powersave"},
    }


def test_nothing_is_told_of_runs_that_were_made_alike(run: Runs, tmp_path: Path) -> None:
    run("a", {"tap": TAP})
    run("b", {"tap": XDP})
    assert compared(tmp_path, "a", "b").differs == []


def test_what_the_key_varies_is_no_difference_next_to_it(run: Runs, tmp_path: Path) -> None:
    key, size = "streams.control.size", {"80B": {"size": 80}}
    run("a", {"64B": TAP, "80B": XDP}, key=key, streams=size)
    assert compared(tmp_path, "a", by=key).differs == []
    run("b", {"64B": TAP, "80B": XDP}, streams=size)
    assert differing(compared(tmp_path, "b", by="bridge")) == {"control.size": {"64B": "64B", "80B": "80B"}}


def test_scenarios_that_differ_are_reported(run: Runs, tmp_path: Path) -> None:
    text = (Path(__file__).parents[2] / "scenarios" / "first.yaml").read_text()
    (run("a", {"tap": TAP}) / "scenario.yaml").write_text(text)
    (run("b", {"tap": XDP}) / "scenario.yaml").write_text(text.replace("fifo: 90", "fifo: 40"))
    found = compared(tmp_path, "a", "b").differs
    assert [(one.kind, one.what, one.values) for one in found] == [
        ("scenario", "tuning.sensor.talker.fifo", {"A": "90", "B": "40"})
    ]
