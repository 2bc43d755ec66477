"""JUnit XML: valid by the schema, and saying what the result and the comparison say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from lxml import etree  # type: ignore[import-untyped]

from latlab.evaluation.comparison.document import compare
from latlab.evaluation.comparison.wanted import wanted
from latlab.report.comparison.lines import powerless
from latlab.report.junit import comparison_junit, result_junit
from latlab.result.store import typed
from support.report.compared import write_figures_run

SCHEMA = etree.XMLSchema(etree.parse(Path(__file__).with_name("junit.xsd")))
OLD = (812.0, 845.0, 835.0, 830.0, 822.0)


def parsed(text: str) -> Any:
    """The document's root, which the schema allows."""
    root = etree.fromstring(text.encode())
    SCHEMA.assertValid(root)
    for suite in root:
        cases = suite.findall("testcase")
        assert int(suite.get("tests")) == len(cases)
        for count, kind in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            assert int(suite.get(count)) == sum(case.find(kind) is not None for case in cases)
    assert int(root.get("tests")) == sum(int(suite.get("tests")) for suite in root)
    return root


def suites(root: Any) -> dict[str, Any]:
    return {suite.get("name"): suite for suite in root}


def kinds(suite: Any) -> dict[str, str]:
    """{case's name: `failure`, `error`, `skipped` or `passed`}."""
    found = {}
    for case in suite.findall("testcase"):
        tags = {child.tag for child in case} - {"system-out"}
        found[case.get("name")] = tags.pop() if tags else "passed"
    return found


def test_the_schema_refuses_what_is_no_junit() -> None:
    for text in (
        "<testsuites><testsuite name='a' tests='1' failures='0' errors='0'/></testsuites>",
        "<testsuites><case/></testsuites>",
        "<testsuite name='a' tests='1' failures='0' errors='0' skipped='0'><testcase name='b'/></testsuite>",
    ):
        assert not SCHEMA.validate(etree.fromstring(text))


def test_reasons_and_limits_of_a_cell_are_its_cases(result: dict[str, Any]) -> None:
    root = parsed(result_junit(typed(result), strict=True))
    idle, loaded = (suites(root)[f"first: loads={load}/r1"] for load in ("none", "flood1"))
    assert kinds(idle) == {
        "measured": "passed",
        "trust: cpus-isolated": "failure",
        "accept: control.latency.max": "passed",
    }
    assert kinds(loaded)["accept: control.latency.max"] == "failure"
    failure = loaded.find("testcase[@name='accept: control.latency.max']/failure")
    assert failure.get("type") == "over the limit"
    assert failure.get("message").endswith(", at most 500 µs")
    distrust = idle.find("testcase/failure")
    assert distrust.get("type") == "suspect"
    assert "actual: CPU 1 takes part in load balancing" in distrust.text
    assert "remedy: boot with isolcpus=1" in distrust.text
    properties = {one.get("name"): one.get("value") for one in idle.iter("property")}
    assert properties["run"] == result["run"]
    assert (properties["label"], properties["verdict"]) == ("measured", "suspect")


def test_what_is_suspect_fails_only_where_it_fails_the_run(result: dict[str, Any]) -> None:
    idle = suites(parsed(result_junit(typed(result))))["first: loads=none/r1"]
    case = idle.find('testcase[@name="trust: cpus-isolated"]')
    assert case.find("failure") is None
    assert case.find("system-out").text.startswith("suspect: the agents' CPUs are not isolated\n")
    assert "remedy: boot with isolcpus=1" in case.find("system-out").text


def test_a_cell_that_cannot_be_built_is_skipped_with_its_reason(result: dict[str, Any]) -> None:
    suite = suites(parsed(result_junit(typed(result), strict=True)))["first: loads=iperf3/r1"]
    assert kinds(suite) == {"measured": "skipped"}
    skipped = suite.find("testcase/skipped")
    assert skipped.get("message") == "unavailable: no iperf3 on this machine"
    assert "apt install iperf3" in skipped.text


@pytest.mark.parametrize("status", ["failed", "interrupted", "not run"])
def test_a_cell_that_did_not_run_to_its_end_is_an_error(result: dict[str, Any], status: str) -> None:
    cell = result["cells"][0]
    cell |= {"status": status, "reason": {"what": "no reply", "where": "ecu", "remedy": "look at it"}}
    suite = suites(parsed(result_junit(typed(result), strict=True)))[f"first: {cell['slug']}/r1"]
    assert kinds(suite)["measured"] == "error"
    assert suite.find("testcase/error").get("message") == f"{status}: no reply"


def test_a_cell_without_reasons_passes(result: dict[str, Any]) -> None:
    result["reasons"] = []
    assert (
        kinds(suites(parsed(result_junit(typed(result), strict=True)))["first: loads=none/r1"])["trust: trusted"]
        == "passed"
    )


def test_a_rule_broken_in_two_ways_is_one_case(result: dict[str, Any]) -> None:
    other = result["reasons"][0] | {"where": "loads=none/r1: ecu", "actual": "CPU 2 too"}
    result["reasons"].append(other)
    suite = suites(parsed(result_junit(typed(result), strict=True)))["first: loads=none/r1"]
    assert "CPU 2 too" in suite.find("testcase/failure").text


def test_what_is_found_of_the_whole_run_has_a_suite(result: dict[str, Any]) -> None:
    result["reasons"].append(result["reasons"][0] | {"where": "", "id": "cell-measured"})
    assert kinds(suites(parsed(result_junit(typed(result), strict=True)))["first: run"]) == {
        "trust: cell-measured": "failure"
    }


def test_a_run_of_many_cells_is_valid(matrix: dict[str, Any]) -> None:
    root = parsed(result_junit(typed(matrix), strict=True))
    assert len(root) == len(matrix["cells"])
    assert {"passed", "failure", "skipped"} == {kind for suite in root for kind in kinds(suite).values()}


def test_what_xml_has_no_place_for_is_replaced(result: dict[str, Any]) -> None:
    result["reasons"][0]["actual"] = "\x1b[31m<CPU> & \x00\ud800 \U0001f600"
    parsed(result_junit(typed(json.loads(json.dumps(result)))))


def against(tmp_path: Path, new: dict[str, Any], **options: Any) -> Any:
    write_figures_run(tmp_path / "old", {"tap": OLD, "xdp": OLD})
    write_figures_run(tmp_path / "new", new, **options)
    asked = wanted(statistics=["p50", "p99.99"], thresholds=["control.latency.p50=50us"])
    return parsed(comparison_junit(compare(["new"], tmp_path, asked, baseline="old")))


def test_a_regression_is_a_failure_with_its_sentence(tmp_path: Path) -> None:
    found = suites(against(tmp_path, {"tap": OLD, "xdp": [value + 60 for value in OLD]}))
    fine, worse = (found[f"first: bridge={bridge}"] for bridge in ("tap", "xdp"))
    assert kinds(fine) == {"control latency p50": "passed", "control latency p99.99": "skipped"}
    assert fine.find("testcase/system-out").text.startswith("no difference shown at the median (0 ± ")
    assert kinds(worse)["control latency p50"] == "failure"
    message = worse.find("testcase/failure").get("message")
    assert message.startswith("regression: new is 60.0 µs slower than baseline at the median [")
    assert message.endswith("more than the 50 µs allowed")
    properties = {one.get("name"): one.get("value") for one in worse.iter("property")}
    assert (properties["a.run"], properties["b.run"], properties["label"]) == ("old", "new", "measured")
    assert (properties["a.verdict"], properties["b.verdict"]) == ("trusted", "trusted")


def test_what_cannot_be_judged_is_skipped_and_a_lost_cell_is_an_error(tmp_path: Path) -> None:
    found = suites(against(tmp_path, {"tap": (812.0,), "xdp": (*OLD[:4], None)}))
    assert kinds(found["first: bridge=tap"])["control latency p50"] == "skipped"
    assert kinds(found["cells without a pair"]) == {"bridge xdp, repeat 5: failed": "error"}


def test_a_cell_that_the_new_run_does_not_have_is_skipped(tmp_path: Path) -> None:
    found = suites(against(tmp_path, {"tap": OLD}))
    assert kinds(found["cells without a pair"]) == {"baseline only: bridge xdp": "skipped"}


def test_a_comparison_without_the_power_for_its_threshold_is_skipped_or_fails_as_asked_for(tmp_path: Path) -> None:
    write_figures_run(tmp_path / "old", {"tap": OLD})
    write_figures_run(tmp_path / "new", {"tap": (700.0, 900.0, 1100.0, 600.0, 850.0)})
    asked = wanted(statistics=["p50"], thresholds=["control.latency.p50=5us"])
    document = compare(["new"], tmp_path, asked, baseline="old")
    assert powerless(document).startswith("The one threshold cannot be checked: too few repetitions ")
    for need_power, kind in ((False, "skipped"), (True, "failure")):
        (case,) = parsed(comparison_junit(document, need_power=need_power)).iter("testcase")
        assert [(child.tag, child.get("type")) for child in case] == [(kind, "too coarse")]


def test_a_comparison_with_the_power_for_its_threshold_passes_where_power_is_needed(tmp_path: Path) -> None:
    write_figures_run(tmp_path / "old", {"tap": OLD})
    asked = wanted(statistics=["p50"], thresholds=["control.latency.p50=200us"])
    write_figures_run(tmp_path / "new", {"tap": OLD})
    document = compare(["new"], tmp_path, asked, baseline="old")
    assert powerless(document) == ""
    (case,) = parsed(comparison_junit(document, need_power=True)).iter("testcase")
    assert [child.tag for child in case] == ["system-out"]
