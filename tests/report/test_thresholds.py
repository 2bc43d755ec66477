"""A verdict's thresholds come from the scenario, stand in the result, and nothing that is turned off is silent."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import yaml
from rich.console import Console
from typer.testing import CliRunner

from latlab.analysis.words import duration
from latlab.cli import app
from latlab.evaluation.run import make_result
from latlab.evaluation.thresholds import threshold_values, thresholds_of
from latlab.model.errors import LabError
from latlab.model.rules import NAMES, RULES
from latlab.model.thresholds import Thresholds
from latlab.recordings.run_folder import RunFolder
from latlab.report.build import write_report
from latlab.report.markdown import result_markdown
from latlab.report.terminal import print_result
from latlab.report.verdict import off_lines, threshold_lines
from latlab.result.store import typed
from latlab.scenario import Trust

RT, SETTINGS, BOUND = "preempt-rt", "rt-settings", "clock-bound-large"
STREAM = {"talker": "sensor", "listener": "ecu", "size": "64B"}
SCENARIO: dict[str, Any] = {
    "name": "first",
    "hosts": {"sensor": {"kind": "netns"}, "ecu": {"kind": "netns"}},
    "links": [{"ends": ["sensor.eth0", "ecu.eth0"]}],
    "streams": {"control": STREAM | {"period": "1006us"}, "status": STREAM | {"period": "10ms"}},
    "loads": {name: {"kind": "flood", "from": "sensor", "to": "ecu"} for name in ("flood1", "iperf3")},
    "matrix": {"loads": ["none", "flood1", "iperf3"]},
    "duration": "9s",
}
OFF = {RT: "bridges are compared", SETTINGS: "the board has no cpuidle"}


@pytest.fixture
def judged(brief_run: Path) -> Callable[..., RunFolder]:
    """A run folder whose scenario has this `trust`; its clocks are known to within 3 µs, and no cell failed."""

    def made(**trust: Any) -> RunFolder:
        folder = RunFolder(brief_run)
        folder.scenario_path.write_text(yaml.safe_dump(SCENARIO | {"trust": trust}, sort_keys=False))
        for cell in folder.cells():
            document = cell.cell().document()
            if document["status"] != "ok":
                document["start_tai_ns"] = 0
            for clock in document["clocks"]:
                clock["lower_ns"], clock["upper_ns"] = -3_000, 3_000
            cell.write_cell(document)
        return folder

    return made


def checks(result: dict[str, Any], key: str = "reasons") -> set[str]:
    return {reason["id"] for reason in result[key]}


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


def test_a_share_of_millionths_is_in_ppm_and_a_larger_one_in_per_cent(judged: Callable[..., RunFolder]) -> None:
    result = make_result(judged(clock_slew_share="25ppm", missing_share="1%"))
    lines = {one.name: (one.value, one.default) for one in threshold_lines(result)}
    assert (lines["clock_slew_share"], lines["missing_share"]) == (("25 ppm", "10 ppm"), ("1%", "0.1%"))


def test_a_threshold_of_the_scenario_decides_and_stands_in_the_result(judged: Callable[..., RunFolder]) -> None:
    assert BOUND in checks(make_result(judged()).document())
    result = make_result(judged(clock_bound_share="50%")).document()
    assert BOUND not in checks(result)
    assert result["thresholds"]["clock_bound_share"] == {"value": 0.5, "default": 0.1, "given": True}
    assert result["thresholds"]["steal_share"]["given"] is False
    line = next(line for line in threshold_lines(typed(result)) if line.given)
    assert (line.name, line.value, line.default) == ("clock_bound_share", "50%", "10%")


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


def test_a_rule_that_is_turned_off_is_reported_even_where_it_found_nothing(judged: Callable[..., RunFolder]) -> None:
    result = make_result(judged(off={"cpu-stolen": "it is a guest"}, clock_bound_share="50%")).document()
    assert off_lines(typed(result)) == [
        "turned off by the scenario: cpu-stolen, no CPU time was stolen (it is a guest); it found nothing",
    ]
    (line, _) = off_lines(make_result(judged(off=OFF)))
    assert line.startswith("turned off by the scenario: preempt-rt, the kernel is PREEMPT_RT (bridges are compared); ")
    assert line.endswith("its 4 findings do not count")


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
    folder.write_run(folder.run() | {"trust": {"clock_bound_share": "50%", "off": named}})
    result = make_result(folder).document()
    assert result["thresholds"]["clock_bound_share"]["given"] is True
    assert checks(result, "waived") == {RT, SETTINGS}
    folder.write_run(folder.run() | {"trust": {"of_a_later": "latlab"}})
    assert not any(one["given"] for one in make_result(folder).document()["thresholds"].values())


STRICT: dict[str, tuple[dict[str, Any], tuple[str, ...], int]] = {
    "suspect": ({}, (), 0),
    "suspect, strict": ({}, ("--strict",), 4),
    "all that was found turned off or within": ({"off": OFF, "clock_bound_share": "50%"}, ("--strict",), 0),
    "turned off, and still over a threshold": ({"off": OFF}, ("--strict",), 4),
    "a threshold that is narrower": ({"off": OFF, "clock_bound_share": "1%"}, ("--strict",), 4),
}


@pytest.mark.parametrize(("trust", "options", "code"), STRICT.values(), ids=STRICT)
def test_the_exit_code_goes_by_the_scenarios_thresholds(
    judged: Callable[..., RunFolder], trust: dict[str, Any], options: tuple[str, ...], code: int
) -> None:
    folder = judged(**trust)
    ended = CliRunner().invoke(app, ["report", str(folder.path), "--json", "--picture", "none", *options])
    assert ended.exit_code == code
    assert folder.run()["exit_status"] == code


def test_what_the_scenario_changed_stands_next_to_the_verdict_wherever_it_is_reported(
    judged: Callable[..., RunFolder],
) -> None:
    folder = judged(late="1ms", off={RT: "bridges are compared"})
    result = make_result(folder).document()
    page = write_report(folder, formats=()).read_text()
    with Console(width=200, record=True, file=StringIO()) as console:
        print_result(typed(result), console)
    for text in (" ".join(console.export_text().split()), result_markdown(typed(result), ["latency"]), page):
        assert "hreshold set by the scenario: late 1 ms (default 100 µs)" in text
        assert (
            "urned off by the scenario: preempt-rt, the kernel is PREEMPT" in text and "(bridges are compared)" in text
        )
    (row,) = (line for line in page.splitlines() if '<th scope="row">late</th>' in line)
    assert [text for text in ("1 ms", "100 µs", "the scenario") if text not in row] == []


def test_a_reason_names_the_id_by_which_it_is_explained(judged: Callable[..., RunFolder]) -> None:
    folder = judged()
    result = make_result(folder).document()
    page = write_report(folder, formats=()).read_text()
    with Console(width=200, record=True, file=StringIO()) as console:
        print_result(typed(result), console)
    shown = {
        console.export_text(): "({})",
        result_markdown(typed(result), ["latency"]): "(`{}`)",
        page: "<small>({})</small>",
    }
    for text, form in shown.items():
        assert all(form.format(id_) in text for id_ in checks(result))
        assert "latlab explain ID" in text


def test_a_scenario_that_was_changed_since_is_reported_and_another_runs_is_refused(
    judged: Callable[..., RunFolder],
) -> None:
    folder = judged()
    assert make_result(folder).document()["scenario_changed"] is None
    folder.write_run(folder.run() | {"scenario_sha256": folder.scenario_digest()})
    assert make_result(folder).document()["scenario_changed"] is False
    judged(clock_bound_share="50%")
    result = make_result(folder).document()
    assert result["scenario_changed"] is True
    assert "scenario.yaml was changed after the measurement" in result_markdown(typed(result), ["latency"])
    folder.write_scenario(yaml.safe_dump(SCENARIO | {"matrix": {"streams.status.size": ["64B", "128B"]}}))
    with pytest.raises(LabError, match="the scenario is another run's"):
        make_result(folder)
    folder.scenario_path.unlink()
    assert make_result(folder).document()["scenario_changed"] is False
