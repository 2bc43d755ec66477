"""The result document says what was measured, cell by cell, and whether the limits were kept."""

from __future__ import annotations

import json
from typing import Any

from tables import cell_document, packet_table

from latlab.analysis.accept import evaluate
from latlab.analysis.summary import result_document, summarise_cell, uncertainty_ns, with_reasons
from latlab.analysis.trust import Reason

RUN = {"run": "20261121-205152-first-3f9a", "name": "first"}
ROWS: list[dict[str, Any]] = [
    {"rx_soft": 50, "warmup": True},
    {"rx_soft": 10},
    {"arrival": None},
    {"rx_soft": 30},
]
PACKETS = packet_table(ROWS + [{"rx_soft": 20}] * 4)


def a_cell(**changes: Any) -> dict[str, Any]:
    return summarise_cell(cell_document(**changes), PACKETS)


def test_a_cell_has_counts_and_metrics_of_each_stream() -> None:
    done = {"streams": [{"stream": 1, "repeated": 2}]}
    listener = {"host": "ecu", "verb": "listen", "ready": {}, "done": done}
    stream = a_cell(agents=[listener])["streams"]["control"]
    assert stream["counts"]["scheduled"] == 8
    assert stream["metrics"]["latency"] == {
        "n": 6,
        "lost": 1,
        "duplicated": 2,
        "reordered": 0,
        "missing": 0,
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
    }
    assert set(stream["metrics"]) == {"latency", "arrival_offset"}


def test_a_reordered_packet_of_the_warm_up_is_in_the_counts_only() -> None:
    overtaken = {"arrival": 1, "warmup": True, "rx_soft": 5}
    packets = packet_table([overtaken, {"arrival": 0, "rx_soft": 5}, {"rx_soft": 5}])
    stream = summarise_cell(cell_document(), packets)["streams"]["control"]
    assert (stream["counts"]["reordered"], stream["metrics"]["latency"]["reordered"]) == (1, 0)


def test_a_cell_that_could_not_be_built_has_its_reason_and_no_streams() -> None:
    reason = {"what": "no driver", "where": "ecu", "remedy": "install it"}
    document = summarise_cell(cell_document(status="unavailable", reason=reason), None)
    assert (document["status"], document["reason"], document["streams"]) == ("unavailable", reason, {})


def test_one_way_figures_carry_the_bound_of_the_clocks_whichever_way_it_was_measured() -> None:
    clocks = [{"from": "ecu", "to": "sensor", "source": "exchange", "lower_ns": -400, "upper_ns": 150}]
    metrics = a_cell(clocks=clocks)["streams"]["control"]["metrics"]
    assert metrics["latency"]["uncertainty_ns"] == 400
    assert metrics["arrival_offset"]["uncertainty_ns"] == 0


def test_clocks_that_nothing_bounds_have_no_uncertainty_to_show() -> None:
    assert uncertainty_ns({"clocks": []}, "sensor", "ecu") is None
    assert uncertainty_ns({"clocks": []}, "ecu", "ecu") == 0


def test_the_result_has_the_worst_verdict_and_says_where_each_reason_was_found() -> None:
    reason = Reason("send", "untrusted", "control.latency", "0", "1", "send again")
    good, bad = a_cell(), with_reasons(a_cell(repeat=2), [reason])
    result = result_document(RUN, [good, bad])
    assert [cell["verdict"] for cell in result["cells"]] == ["trusted", "untrusted"]
    assert result["verdict"] == "untrusted"
    assert result["reasons"][0]["where"] == "loads=none/r2: control.latency"
    assert (result["format"], result["run"], result["scenario"], result["label"]) == (
        "latlab.result/1",
        RUN["run"],
        "first",
        "measured",
    )
    assert "reasons" not in result["cells"][1]
    assert json.loads(json.dumps(result)) == result


def test_limits_are_kept_up_to_and_including_them() -> None:
    limits = {"control.latency.max": 30, "control.latency.mean": 19, "control.counts.lost": 1}
    entries = evaluate(limits, [a_cell()])
    assert [(entry["actual"], entry["ok"], entry["reason"]) for entry in entries] == [
        (30, True, None),
        (20.0, False, "over the limit"),
        (1, True, None),
    ]


def test_what_was_not_measured_was_not_accepted() -> None:
    limits = {"control.latency.p99.9": 10**9, "control.path.max": 10**9, "other.latency.max": 10**9}
    entries = evaluate(limits, [a_cell()])
    entries += evaluate({"control.latency.max": 10**9}, [a_cell(status="failed")])
    assert [(entry["actual"], entry["ok"], entry["reason"]) for entry in entries] == [(None, False, "not measured")] * 4
