"""Launch times fit the qdisc that is to keep them, in clock and in what becomes of late packets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from latlab.measure.specs import Bed, stream_entries, talk_spec
from latlab.scenario import Loaded, ScenarioErrors

With = Callable[..., Loaded]
C = "streams.control."
ETF = {"kind": "etf"}
GATES = {
    "kind": "taprio",
    "mode": "software",
    "gates": [{"open": [0], "for": "1ms"}],
}
FOR_ETF = {"lead": "1ms", "late": "send", "allowed_lateness": "2ms"}


def said(with_: With, values: dict[str, Any]) -> list[str]:
    """What is wrong with the scenario with these values, each problem in words."""
    try:
        with_(values)
    except ScenarioErrors as errors:
        return [str(problem) for problem in errors.problems]
    return []


@pytest.mark.parametrize("shaper", [ETF, GATES], ids=["etf", "taprio"])
@pytest.mark.parametrize("clock", ["monotonic", "realtime"])
def test_a_clock_that_differs_from_the_qdiscs_is_a_mistake(with_: With, shaper: dict[str, Any], clock: str) -> None:
    values = {"shapers": {"sensor.eth0": shaper}, C + "launch_time": {"lead": "1ms", "clock": clock}}
    expected = f"streams.control.launch_time: clock {clock} is not that of the {shaper['kind']} at sensor.eth0"
    assert [one for one in said(with_, values) if expected in one]
    in_tai = {**values, C + "launch_time": {"lead": "1ms"}}
    assert not [one for one in said(with_, in_tai) if "is not that of" in one]


def test_without_a_shaper_any_clock_may_be_right(with_: With) -> None:
    assert said(with_, {C + "launch_time": {"clock": "monotonic"}}) == []


def test_the_agent_is_told_what_becomes_of_late_packets(with_: With) -> None:
    scenario = with_({C + "launch_time": FOR_ETF}).scenario
    expected = {
        "lead_ns": 1_000_000,
        "clock": "tai",
        "deadline": False,
        "late": "send",
        "allowed_lateness_ns": 2_000_000,
        "margin_ns": 50_000,
    }
    (stream,) = talk_spec(scenario, "sensor", Bed(macs={}), "0" * 16, "talker")["streams"]
    (entry,) = stream_entries(scenario)
    assert stream["launch_time"] == entry["launch_time"] == expected
