"""A trigger says which packets are late: read strictly, and refused with what was expected."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pydantic_core import PydanticCustomError

from latlab.model.errors import UsageError
from latlab.scenario import Loaded, Problem, load_scenario, with_trigger
from latlab.scenario.limits import TRIGGERING, parse_trigger

With = Callable[..., Loaded]
Problems = Callable[[str], list[Problem]]


@pytest.mark.parametrize(
    ("text", "metric", "above_ns", "written"),
    [
        ("latency > 500us", "latency", 500_000, "latency > 500us"),
        ("  latency_user>1.5ms ", "latency_user", 1_500_000, "latency_user > 1500us"),
        ("delivery >= 2 ms", "delivery", 1_999_999, "delivery >= 2ms"),
        ("latency >= 1ns", "latency", 0, "latency >= 1ns"),
    ],
)
def test_an_expression_is_a_metric_a_comparison_and_a_duration(
    text: str, metric: str, above_ns: int, written: str
) -> None:
    trigger = parse_trigger(text)
    assert (trigger.metric, trigger.above_ns, trigger.text) == (metric, above_ns, written)
    assert parse_trigger(written) == trigger


@pytest.mark.parametrize(
    ("text", "what", "expected"),
    [
        ("", "no metric", "METRIC > DURATION"),
        ("> 5us", "no metric", "METRIC > DURATION"),
        ("latency", "no comparison after latency", "> or >="),
        ("latency 5us", "no comparison after latency", "> or >="),
        ("latency >", "no duration after >", "latency > 500us"),
        ("latency < 5us", "'<' is not supported", "late packets are kept"),
        ("latency == 5us", "'==' is not supported", "> or >="),
        ("latency => 5us", "'=>' is not supported", "> or >="),
        ("latency > 500", "'500' is not a duration", "units: ns, us"),
        ("latency > 0", "'0' is not a duration", "units: ns, us"),
        ("latency > -5us", "'-5us' is not a duration", "1006us"),
        ("latency > 5us or delivery > 5us", "'5us or delivery > 5us' is not a duration", "1006us"),
        ("latency > 0.5ns", "is a fraction of 1ns", "a whole number of ns"),
        ("latency >= 0ns", "0ns is too small", "1ns to 3600s"),
        ("latency > 2h", "7200s is too large", "0ns to 3600s"),
        ("latncy > 5us", "unknown metric 'latncy'", "latency?"),
        ("jitter > 5us", "unknown metric 'jitter'", "latency, latency_user, delivery"),
        ("path > 5us", "path is not known when a packet arrives", "one of latency, latency_user, delivery"),
        ("round_trip > 5us", "round_trip is not known when a packet arrives", "one of latency"),
    ],
)
def test_what_is_none_is_refused_with_what_was_expected(text: str, what: str, expected: str) -> None:
    with pytest.raises(PydanticCustomError) as error:
        parse_trigger(text)
    context = error.value.context or {}
    assert what in context["what"]
    assert expected in context["expected"]


@given(st.text(max_size=60))
def test_no_text_makes_it_fail_otherwise(text: str) -> None:
    try:
        trigger = parse_trigger(text)
    except PydanticCustomError:
        return
    assert trigger.metric in TRIGGERING


def test_where_streams_arrive_only_windows_are_kept_and_other_traces_stay_whole(with_: With) -> None:
    both = {"streams.back": {"talker": "ecu", "listener": "sensor", "period": "1ms", "size": "64B"}}
    found = with_({**both, "trigger": "latency > 500us"}).scenario
    assert (found.kept, found.traced) == (["ecu", "sensor"], ["ecu", "sensor"])
    found = with_({**both, "trigger": "latency > 500us", "tuning.ecu.listener.trace": "threads"}).scenario
    assert (found.kept, sorted(found.traced)) == (["sensor"], ["ecu", "sensor"])
    found = with_(both).scenario
    assert (found.trigger, found.kept, found.traced) == (None, [], [])


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("trigger: latency", "trigger: no comparison after latency; expected > or >="),
        ("trigger: 5", "trigger: 5 is not an expression; expected METRIC > DURATION"),
        ("trigger: [latency > 5us]", "trigger: ['latency > 5us'] is not an expression"),
    ],
)
def test_a_scenarios_trigger_is_refused_at_its_line(base: str, problems: Problems, lines: str, expected: str) -> None:
    (problem,) = problems(f"{base}{lines}\n")
    assert problem.line == base.count("\n") + 1
    assert expected in str(problem)


def test_without_a_stream_nobody_judges(base: str, problems: Problems) -> None:
    raw = yaml.safe_load(base) | {"trigger": "latency > 5us", "probes": {"late": {"probe": "timer", "on": "ecu"}}}
    del raw["streams"]
    (problem,) = problems(yaml.safe_dump(raw))
    assert "there is no stream whose listener could apply the trigger" in str(problem)


def test_a_board_in_virtual_time_does_not_wait_for_what_is_to_be_kept(base: str, problems: Problems) -> None:
    raw = yaml.safe_load(base) | {"trigger": "latency > 5us"}
    raw["hosts"] |= {"board": {"kind": "board", "time": "virtual"}}
    told = "\n".join(map(str, problems(yaml.safe_dump(raw))))
    assert "board is in virtual time, which does not wait for requests to keep events" in told


def test_the_command_lines_trigger_is_in_the_text_that_a_run_keeps(base: str, load: Callable[[str], Loaded]) -> None:
    added = with_trigger(load(base), "latency>500us")
    assert added.text == f"{base}trigger: latency > 500us\n"
    assert added.scenario.trigger == parse_trigger("latency > 500us")
    there = base.replace("duration: 10s", "trigger: 'delivery > 1ms'   # late\nduration: 10s")
    instead = with_trigger(load(there), "latency >= 2ms")
    assert instead.text == base.replace("duration: 10s", "trigger: latency >= 2ms\nduration: 10s")


def test_a_trigger_that_the_command_line_cannot_add_is_refused(tmp_path: Path, base: str, load: Any) -> None:
    with pytest.raises(UsageError) as error:
        with_trigger(load(base), "latency")
    assert (error.value.where, error.value.what) == ("--trigger", "no comparison after latency")
    path = tmp_path / "flow.yaml"
    path.write_text(yaml.safe_dump(yaml.safe_load(base), default_flow_style=True, width=10_000))
    with pytest.raises(UsageError) as error:
        with_trigger(load_scenario(path), "latency > 5us")
    assert "trigger: latency > 5us" in error.value.remedy
