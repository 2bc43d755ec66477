"""A verdict's thresholds come from the scenario and stand in the result, as do the rules that it turns off."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict

from latlab.analysis.words import duration
from latlab.evaluation.run import make_result
from latlab.evaluation.thresholds import threshold_values, thresholds_of
from latlab.model.rules import NAMES, RULES
from latlab.model.thresholds import Thresholds
from latlab.recordings.run_folder import RunFolder
from latlab.scenario import Trust
from support.recordings import rewrite_run
from support.report.judged import OFF, RT, SETTINGS, checks

BOUND = "clock-bound-large"


def test_the_scenarios_defaults_are_the_analysis_own() -> None:
    assert thresholds_of(Trust()) == thresholds_of(None) == Thresholds()


def test_rules_state_the_thresholds_that_they_are_judged_by() -> None:
    stated = 0
    for name, value in asdict(Thresholds()).items():
        told = (duration(value),) if name.endswith("_ns") else (f"{100 * value:g} %", f"{1e6 * value:g} ppm")
        for rule in RULES:
            if f"`{name.removesuffix('_ns')}`" in rule.broken_when:
                assert any(f"{word} {one} " in rule.broken_when for word in ("over", "above") for one in told), rule.id
                stated += 1
    assert stated >= 8


def test_every_threshold_can_be_given_and_the_result_marks_those_that_were() -> None:
    durations = {name.removesuffix("_ns"): "7us" for name in asdict(Thresholds()) if name.endswith("_ns")}
    shares = {name: "7%" for name in asdict(Thresholds()) if not name.endswith("_ns")}
    assert {**durations, **shares}.keys() == Trust.model_fields.keys() - {"off"}
    given = threshold_values(Trust.model_validate(durations | shares))
    assert all(one.given for one in given.values())
    assert {one.value for name, one in given.items() if name.endswith("_ns")} == {7_000}
    assert {one.value for name, one in given.items() if not name.endswith("_ns")} == {0.07}
    plain = threshold_values(Trust())
    assert not any(one.given for one in plain.values())
    assert {name: one.value for name, one in plain.items()} == asdict(Thresholds())
    assert all(one.value == one.default for one in plain.values())


def test_a_threshold_of_the_scenario_decides_and_stands_in_the_result(judged: Callable[..., RunFolder]) -> None:
    assert BOUND in checks(make_result(judged()).document())
    result = make_result(judged(clock_bound_share="50%")).document()
    assert BOUND not in checks(result)
    assert result["thresholds"]["clock_bound_share"] == {"value": 0.5, "default": 0.1, "given": True}
    assert result["thresholds"]["steal_share"]["given"] is False


def test_what_a_rule_that_is_turned_off_finds_is_kept_with_the_reason_why(judged: Callable[..., RunFolder]) -> None:
    assert {RT, SETTINGS} <= checks(make_result(judged()).document())
    result = make_result(judged(off=OFF, clock_bound_share="50%")).document()
    assert (result["verdict"], checks(result)) == ("trusted", set())
    assert {cell["verdict"] for cell in result["cells"]} == {"trusted"}
    assert checks(result, "waived") == {RT, SETTINGS}
    found = [one for one in result["waived"] if one["id"] == RT]
    assert {(one["why"], one["severity"]) for one in found} == {("bridges are compared", "suspect")}
    assert found[0]["where"].startswith("loads=none/r1: sensor")
    assert result["turned_off"][0] == {
        "id": RT,
        "check": "the kernel is PREEMPT_RT",
        "why": "bridges are compared",
        "found": len(found),
    }
    assert not any("waived" in cell for cell in result["cells"])
    assert json.loads(json.dumps(result)) == result


def test_what_makes_a_cell_untrusted_is_never_turned_off(judged: Callable[..., RunFolder]) -> None:
    folder = judged(off=OFF, clock_bound_share="50%")
    (cell, *_) = folder.cells()
    document = cell.cell().document()
    document["agents"][0]["done"]["ring_full"] = 1
    cell.write_cell(document)
    result = make_result(folder).document()
    assert (result["verdict"], checks(result)) == ("untrusted", {"ring-full"})


def test_a_scenario_that_cannot_be_read_any_more_leaves_what_the_run_noted(judged: Callable[..., RunFolder]) -> None:
    folder = judged()
    folder.scenario_path.write_text("name: first\nunknown: 1\n")
    named = {NAMES[id_]: why for id_, why in OFF.items()}  # as versions without ids wrote them
    rewrite_run(folder, trust={"clock_bound_share": "50%", "off": named})
    result = make_result(folder).document()
    assert result["thresholds"]["clock_bound_share"]["given"] is True
    assert checks(result, "waived") == {RT, SETTINGS}
    rewrite_run(folder, trust={"of_a_later": "latlab"})
    assert not any(one["given"] for one in make_result(folder).document()["thresholds"].values())
