"""Launch times are in the clock of the qdisc that is to keep them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from latlab.scenario import Loaded, ScenarioErrors, scenario_schema

With = Callable[..., Loaded]
C = "streams.control."
ETF = {"kind": "etf"}
GATES = {
    "kind": "taprio",
    "mode": "software",
    "gates": [{"open": [0], "for": "1ms"}],
}


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


def test_an_etf_that_skips_the_sockets_settings_still_wants_a_launch_time_and_is_described_so(with_: With) -> None:
    lenient = {"shapers": {"sensor.eth0": ETF | {"skip_sock_check": True}}, "loads": None}
    assert [one for one in said(with_, lenient) if "packets without a launch time are dropped" in one]
    assert said(with_, lenient | {C + "launch_time": {"deadline": True}}) == []
    described = scenario_schema()["$defs"]["Etf"]["properties"]["skip_sock_check"]["description"]
    assert "a packet without a launch time is still dropped" in described
