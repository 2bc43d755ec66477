"""The result document says what was measured, cell by cell, and whether the limits were kept."""

from __future__ import annotations

import json
from typing import Any

import polars as pl
import pytest

from latlab.analysis.accept import evaluate
from latlab.analysis.summary import JudgedCell, result_of, summarise_cell, uncorrected_uncertainty_ns
from latlab.model.metrics import METRICS
from latlab.model.reasons import reason_of
from latlab.model.timestamps import RECORDED
from latlab.recordings.run import RecordedRun
from latlab.result.types import Cell
from support.analysis.packets import packet_table, recorded_cell
from support.results import partial

RUN = RecordedRun(run="20261121-205152-first-3f9a", name="first")
ROWS: list[dict[str, Any]] = [
    {"rx_soft": 50, "warmup": True},
    {"rx_soft": 10},
    {"arrival": None},
    {"rx_soft": 30},
]
PACKETS = packet_table(ROWS + [{"rx_soft": 20}] * 4)


def a_cell(**changes: Any) -> dict[str, Any]:
    return summarise_cell(recorded_cell(**changes), PACKETS).document()


def as_result(document: dict[str, Any]) -> Cell:
    return partial(Cell, document)


def test_a_cell_has_counts_and_metrics_of_each_stream() -> None:
    done = {"streams": [{"stream": 1, "repeated": 2}]}
    listener = {"host": "ecu", "verb": "listen", "ready": {}, "done": done}
    stream = a_cell(agents=[listener])["streams"]["control"]
    assert stream["counts"]["scheduled"] == 8
    figures = stream["metrics"]["latency"]
    beyond = {name: figures.pop(name) for name in ("confidence", "tail", "variation", "chain", "buckets")}
    assert figures == {
        "n": 6,
        "lost": 1,
        "duplicated": 2,
        "reordered": 0,
        "missing": 0,
        "unbounded": 0,
        "from": "launch",
        "to": "rx_soft",
        "uncertainty_ns": 0,
        "min": 10,
        "mean": 20.0,
        "p50": 20,
        "p90": None,
        "p99": None,
        "p99_9": None,
        "p99_99": None,
        "max": 30,
        "stddev": (200 / 6) ** 0.5,
        "pk_pk": 20,
        "min_sequence": 1,
        "max_sequence": 3,
        "max_at_least": None,
        "max_at_most": None,
        "worst": {"sequence": 3, "intervals": [{"from": "launch", "to": "rx_soft", "ns": 30}]},
    }
    # Six values bound nothing, and are the tail of nothing; each is said with its reason.
    mean = beyond["confidence"]["mean"]
    assert (mean["value"], mean["low"], mean["high"]) == (20.0, None, None) and mean["why"]
    assert beyond["tail"]["levels"] == [] and beyond["tail"]["why"]
    assert beyond["variation"]["pdv"]["max"] == 20
    assert (beyond["chain"]["packets"], beyond["chain"]["stops"]) == (6, ["launch", "rx_soft"])
    offsets = stream["metrics"]["arrival_offset"]
    assert "confidence" in offsets and not {"tail", "variation", "chain"} & offsets.keys()
    assert set(stream["metrics"]) == {"latency", "arrival_offset"}


@pytest.mark.parametrize("n", [1, 7, 8])
def test_however_few_packets_there_are_their_result_can_be_read_again(n: int) -> None:
    written = summarise_cell(
        recorded_cell(), packet_table([{"rx_soft": 10 + number} for number in range(n)])
    ).document()
    assert Cell.model_validate_json(json.dumps(written)).document() == written


def test_a_reordered_packet_of_the_warm_up_is_in_the_counts_only() -> None:
    overtaken = {"arrival": 1, "warmup": True, "rx_soft": 5}
    packets = packet_table([overtaken, {"arrival": 0, "rx_soft": 5}, {"rx_soft": 5}])
    stream = summarise_cell(recorded_cell(), packets).document()["streams"]["control"]
    assert (stream["counts"]["reordered"], stream["metrics"]["latency"]["reordered"]) == (1, 0)


def test_a_cell_that_could_not_be_built_has_its_reason_and_no_streams() -> None:
    reason = {"what": "no driver", "where": "ecu", "remedy": "install it"}
    document = summarise_cell(recorded_cell(status="unavailable", reason=reason), None).document()
    assert (document["status"], document["reason"], document["streams"]) == ("unavailable", reason, {})


def uncertainties(*bounds: int | None, **changes: Any) -> dict[str, Any]:
    """{metric: its ±} of packets with these bounds of the two clocks; the first two packets are warm-up."""
    rows = [{"rx_soft": 10, "rx_user": 30, "warmup": n < 2} for n in range(len(bounds))]
    packets = packet_table(rows).with_columns(pl.Series("clock_bound_ns", bounds, pl.Int64))
    metrics = summarise_cell(recorded_cell(**changes), packets).document()["streams"]["control"]["metrics"]
    return {name: figures["uncertainty_ns"] for name, figures in metrics.items()}


def test_one_way_figures_may_be_off_by_the_worst_bound_of_their_packets() -> None:
    """An offset from the period, by the first packet's bound in addition."""
    for bounds, worst, of_two in (
        ((900, None, 20, 70, 30), 70, 90),
        ((0, 0, 20, None, 30), 30, 50),
        ((0, 0, None, None), None, None),
    ):
        expected = {"latency": worst, "latency_user": worst, "delivery": 0, "arrival_offset": of_two}
        assert uncertainties(*bounds) == expected


def test_what_nothing_bounds_is_in_no_one_way_figure_and_is_counted() -> None:
    rows = [{"rx_soft": 10, "rx_user": 30}, {"rx_soft": -231_000_000, "rx_user": -230_000_000}, {"rx_soft": 12}]
    packets = packet_table(rows).with_columns(pl.Series("clock_bound_ns", [5, None, 5], pl.Int64))
    metrics = summarise_cell(recorded_cell(), packets).document()["streams"]["control"]["metrics"]
    figures = {key: metrics["latency"][key] for key in ("n", "unbounded", "missing", "min", "max", "uncertainty_ns")}
    assert figures == {"n": 2, "unbounded": 1, "missing": 0, "min": 10, "max": 12, "uncertainty_ns": 5}
    assert (metrics["delivery"]["n"], metrics["delivery"]["unbounded"]) == (2, 0), "within the listener's own clock"
    offsets = metrics["arrival_offset"]
    assert (offsets["n"], offsets["unbounded"], offsets["uncertainty_ns"]) == (2, 1, 10)


def test_figures_without_packets_after_the_warm_up_may_be_off_by_what_those_before_could() -> None:
    assert uncertainties(900, 800)["latency"] == 900


def test_packets_that_were_not_corrected_carry_the_bound_of_the_clocks_whichever_way_it_was_measured() -> None:
    clocks = [{"from": "ecu", "to": "sensor", "source": "exchange", "lower_ns": -400, "upper_ns": 150}]
    metrics = a_cell(clocks=clocks)["streams"]["control"]["metrics"]
    assert metrics["latency"]["uncertainty_ns"] == 400
    assert metrics["arrival_offset"]["uncertainty_ns"] == 0


def test_clocks_that_nothing_bounds_have_no_uncertainty_to_show() -> None:
    assert uncorrected_uncertainty_ns(recorded_cell(clocks=[]), "sensor", "ecu") is None
    assert uncorrected_uncertainty_ns(recorded_cell(clocks=[]), "ecu", "ecu") == 0


def test_the_result_has_the_worst_verdict_and_says_where_each_reason_was_found() -> None:
    reason = reason_of("counts-agree", "control.latency", "0", "1", "send again")
    good, bad = (summarise_cell(recorded_cell(repeat=repeat), PACKETS) for repeat in (1, 2))
    result = result_of(RUN, [JudgedCell(good), JudgedCell.of(bad, [reason])]).document()
    assert [cell["verdict"] for cell in result["cells"]] == ["trusted", "untrusted"]
    assert result["verdict"] == "untrusted"
    assert result["reasons"][0]["where"] == "loads=none/r2: control.latency"
    assert (result["format"], result["run"], result["scenario"], result["label"]) == (
        "latlab.result/1",
        RUN.run,
        "first",
        "measured",
    )
    assert "reasons" not in result["cells"][1]
    assert json.loads(json.dumps(result)) == result


def test_a_result_in_which_nothing_was_measured_is_untrusted_and_says_so() -> None:
    unavailable = JudgedCell(summarise_cell(recorded_cell(status="unavailable"), None))
    result = result_of(RUN, [unavailable]).document()
    assert (result["verdict"], [reason["finding"] for reason in result["reasons"]]) == (
        "untrusted",
        ["no cell was measured"],
    )
    assert result_of(RUN, []).verdict == "untrusted"
    assert result_of(RUN, [unavailable, JudgedCell(summarise_cell(recorded_cell(), PACKETS))]).verdict == "trusted"


def test_what_each_listener_refused_is_in_its_cell_and_out_of_range_with_the_stream() -> None:
    done = {"streams": [{"stream": 1, "out_of_range": 6}], "foreign": 1, "other_run": 2, "socket_drops": 3}
    cell = a_cell(agents=[{"host": "ecu", "verb": "listen", "ready": {}, "done": done}])
    assert cell["refused"] == {
        "ecu": {
            "foreign": 1,
            "truncated": 0,
            "other_run": 2,
            "unknown_stream": 0,
            "socket_drops": 3,
            "empty_wakeups": 0,
        }
    }
    assert cell["streams"]["control"]["counts"]["out_of_range"] == 6


def test_the_slowest_packets_latency_is_split_at_every_timestamp_it_has() -> None:
    way = {"wake": -5, "submit": 2, "tx_soft": 7, "rx_soft": 10, "rx_user": 90}
    cell = summarise_cell(recorded_cell(), packet_table([way, {**way, "rx_soft": 40}])).document()
    metrics = cell["streams"]["control"]["metrics"]
    for name, last in (("latency", "rx_soft"), ("latency_user", "rx_user")):
        worst = metrics[name]["worst"]
        assert worst["sequence"] == metrics[name]["max_sequence"]
        assert sum(one["ns"] for one in worst["intervals"]) == metrics[name]["max"]
        ends = ["launch", "wake", "submit", "tx_soft", "rx_soft", "rx_user"]
        assert [one["from"] for one in worst["intervals"]] == ends[: ends.index(last)]
    assert metrics["latency"]["worst"]["intervals"][0] == {"from": "launch", "to": "wake", "ns": -5}
    assert all("worst" not in figures for name, figures in metrics.items() if not name.startswith("latency"))


def test_packets_with_every_timestamp_have_every_metric_and_stages_where_they_pass_its_ends_on_their_path() -> None:
    whole = {one.name: number for number, one in enumerate(RECORDED)}
    metrics = summarise_cell(recorded_cell(), packet_table([whole] * 3)).document()["streams"]["control"]["metrics"]
    assert list(metrics) == [metric.name for metric in METRICS]
    assert [name for name, figures in metrics.items() if "chain" not in figures] == ["arrival_offset"]


def test_a_latency_by_the_nics_stamps_goes_through_both_nics() -> None:
    packets = packet_table([{"submit": 2, "tx_soft": 7, "tx_hard": 9, "rx_hard": 10, "rx_soft": 20, "rx_user": 90}])
    metrics = summarise_cell(recorded_cell(), packets).document()["streams"]["control"]["metrics"]
    ends = [(one["from"], one["to"]) for one in metrics["latency_user"]["worst"]["intervals"]]
    assert ends[-3:] == [("tx_soft", "tx_hard"), ("tx_hard", "rx_hard"), ("rx_hard", "rx_user")]


def test_limits_are_kept_up_to_and_including_them() -> None:
    limits = {"control.latency.max": 30, "control.latency.mean": 19, "control.counts.lost": 1}
    entries = evaluate(limits, [as_result(a_cell())])
    assert [(entry.actual, entry.ok, entry.reason) for entry in entries] == [
        (30, True, None),
        (20.0, False, "over the limit"),
        (1, True, None),
    ]


def test_what_was_not_measured_was_not_accepted() -> None:
    limits = {"control.latency.p99.9": 10**9, "control.path.max": 10**9, "other.latency.max": 10**9}
    entries = evaluate(limits, [as_result(a_cell())])
    entries += evaluate({"control.latency.max": 10**9}, [as_result(a_cell(status="failed"))])
    assert [(entry.actual, entry.ok, entry.reason) for entry in entries] == [(None, False, "not measured")] * 4


def test_what_its_packets_cost_a_talker_is_in_its_cell_where_it_reported_that() -> None:
    done = {"streams": [{"stream": 1, "sent": 4_000}, {"stream": 2, "sent": 6}], "cpu_ns": 81_000, "wakeups": 1_004}
    talked = {"host": "sensor", "verb": "talk", "ready": {}, "done": done}
    cell = a_cell(agents=[talked])
    assert cell["talkers"] == [{"host": "sensor", "packets": 4_006, "cpu_ns": 81_000, "wakeups": 1_004}]
    assert a_cell(agents=[talked | {"done": {"streams": done["streams"]}}])["talkers"] == []


def with_unstamped(**bounds: int | None) -> dict[str, Any]:
    """A cell of which packets without a timestamp may be above the largest latency that is known, 30 ns."""
    cell = a_cell()
    cell["streams"]["control"]["metrics"]["latency"] |= bounds
    return cell


@pytest.mark.parametrize(
    ("limit", "bounds", "expected"),
    [
        (100, {"max_at_least": 200, "max_at_most": 300}, (200, False, "over the limit")),
        (250, {"max_at_least": 200, "max_at_most": 300}, (200, False, "not measured")),
        (10**9, {"max_at_least": 200, "max_at_most": None}, (200, False, "not measured")),
        (300, {"max_at_least": 200, "max_at_most": 300}, (200, True, None)),
    ],
)
def test_a_maximum_that_is_known_in_part_is_accepted_as_far_as_it_is_known(
    limit: int, bounds: dict[str, int | None], expected: tuple[int, bool, str | None]
) -> None:
    (entry,) = evaluate({"control.latency.max": limit}, [as_result(with_unstamped(**bounds))])
    assert (entry.actual, entry.ok, entry.reason) == expected


def test_losses_that_are_unknown_are_not_accepted() -> None:
    cell = a_cell()
    cell["streams"]["control"]["counts"]["unknown"] = 3
    entries = [entry for limit in (3, 4) for entry in evaluate({"control.counts.lost": limit}, [as_result(cell)])]
    assert [(entry.ok, entry.reason) for entry in entries] == [(False, "not measured"), (True, None)]
