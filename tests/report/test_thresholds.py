"""What a scenario says of its verdict stands next to it, and nothing that is turned off is silent."""

from __future__ import annotations

from collections.abc import Callable
from io import StringIO
from typing import Any

import pytest
import yaml
from rich.console import Console
from typer.testing import CliRunner

from latlab.cli import app
from latlab.evaluation.run import make_result
from latlab.model.errors import LabError
from latlab.recordings.run_folder import RunFolder
from latlab.report.build import write_report
from latlab.report.markdown import result_markdown
from latlab.report.terminal import print_result
from latlab.report.verdict import off_lines, threshold_lines
from latlab.result.store import typed
from support.recordings import rewrite_run
from support.report.judged import OFF, RT, SCENARIO, checks


def test_a_share_of_millionths_is_in_ppm_and_a_larger_one_in_per_cent(judged: Callable[..., RunFolder]) -> None:
    result = make_result(judged(clock_slew_share="25ppm", missing_share="1%"))
    lines = {one.name: (one.value, one.default) for one in threshold_lines(result) if one.given}
    assert (lines["clock_slew_share"], lines["missing_share"]) == (("25 ppm", "10 ppm"), ("1%", "0.1%"))
    assert len(lines) == 2


def test_a_rule_that_is_turned_off_is_reported_even_where_it_found_nothing(judged: Callable[..., RunFolder]) -> None:
    result = make_result(judged(off={"cpu-stolen": "it is a guest"}, clock_bound_share="50%")).document()
    assert off_lines(typed(result)) == [
        "turned off by the scenario: cpu-stolen, no CPU time was stolen (it is a guest); it found nothing",
    ]
    (line, _) = off_lines(make_result(judged(off=OFF)))
    assert line.startswith("turned off by the scenario: preempt-rt, the kernel is PREEMPT_RT (bridges are compared); ")
    assert line.endswith("its 4 findings do not count")


STRICT: dict[str, tuple[dict[str, Any], tuple[str, ...], int]] = {
    "suspect": ({}, (), 0),
    "suspect, strict": ({}, ("--strict",), 4),
    "all that was found turned off or within": ({"off": OFF, "clock_bound_share": "50%"}, ("--strict",), 0),
    "turned off, and still over a threshold": ({"off": OFF}, ("--strict",), 4),
    "a threshold that is narrower": ({"off": OFF, "clock_bound_share": "1%"}, ("--strict",), 4),
}


@pytest.mark.slow
@pytest.mark.parametrize(("trust", "options", "code"), STRICT.values(), ids=STRICT)
def test_the_exit_code_goes_by_the_scenarios_thresholds(
    judged: Callable[..., RunFolder], trust: dict[str, Any], options: tuple[str, ...], code: int
) -> None:
    folder = judged(**trust)
    ended = CliRunner().invoke(app, ["report", str(folder.path), "--json", "--picture", "none", *options])
    assert ended.exit_code == code
    assert folder.run().exit_status == code


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
    rewrite_run(folder, scenario_sha256=folder.scenario_digest())
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
