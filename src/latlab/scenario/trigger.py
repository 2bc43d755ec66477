"""What makes a packet late for the flight recorder: an expression such as `latency > 500us`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Final

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema
from pydantic_core import PydanticCustomError

from latlab.scenario.findings import closest, shown, wrong
from latlab.scenario.limits import METRICS, PROBE_METRICS, TIMER_METRICS
from latlab.scenario.units import DURATION, format_duration

TRIGGERING: Final = ("latency", "latency_user", "delivery")
"""The metrics that a listener knows of a packet when it has come."""
LONGEST_NS: Final = 3600 * 10**9
"""As LONGEST_NS of agent/wire/src/spec/listen.rs."""
EXAMPLE: Final = "METRIC > DURATION, such as latency > 500us"
_PARTS: Final = re.compile(r"\s*([^\s<>=!]*)\s*([<>=!]*)\s*(.*?)\s*", re.DOTALL)
_OVER: Final = (">", ">=")


@dataclass(frozen=True)
class Trigger:
    """Packets with more of the metric than above_ns are late. text: the expression, in one way of writing it."""

    metric: str
    above_ns: int
    text: str


def parse_trigger(given: object) -> Trigger:
    """The trigger that an expression says. PydanticCustomError: it is none."""
    if isinstance(given, Trigger):
        return given
    if not isinstance(given, str):
        raise wrong(f"{shown(given)} is not an expression", EXAMPLE)
    parts = _PARTS.fullmatch(given)
    assert parts, given
    metric, comparison, limit = parts.groups()
    _check_metric(metric)
    if comparison not in _OVER:
        what = f"{shown(comparison)} is not supported" if comparison else f"no comparison after {metric}"
        raise wrong(what, f"> or >=: late packets are kept; {EXAMPLE}")
    if not limit:
        raise wrong(f"no duration after {comparison}", EXAMPLE)
    try:
        limit_ns = DURATION.parse(limit)
    except PydanticCustomError as error:
        context = error.context or {}
        raise wrong(context["what"], context["expected"]) from None
    least_ns = 1 if comparison == ">=" else 0
    if not least_ns <= limit_ns <= LONGEST_NS:
        size = "small" if limit_ns < least_ns else "large"
        expected = f"{format_duration(least_ns)} to {format_duration(LONGEST_NS)}"
        raise wrong(f"{format_duration(limit_ns)} is too {size}", expected)
    text = f"{metric} {comparison} {format_duration(limit_ns)}"
    return Trigger(metric, limit_ns - least_ns, text)


def _check_metric(name: str) -> None:
    """Check that a listener can judge by it. PydanticCustomError: it cannot, or there is none."""
    listed = f"one of {', '.join(TRIGGERING)}"
    if not name:
        raise wrong("no metric", EXAMPLE)
    if name in (*METRICS, *PROBE_METRICS, *TIMER_METRICS) and name not in TRIGGERING:
        raise wrong(f"{name} is not known when a packet arrives", listed)
    if name not in TRIGGERING:
        raise wrong(f"unknown metric {shown(name)}", closest(name, TRIGGERING) or listed)


TriggerText = Annotated[
    Trigger,
    BeforeValidator(parse_trigger),
    PlainSerializer(lambda trigger: trigger.text, return_type=str, when_used="json"),
    WithJsonSchema(
        {
            "type": "string",
            "pattern": rf"^\s*({'|'.join(TRIGGERING)})\s*>=?\s*[0-9]",
            "examples": ["latency > 500us"],
        }
    ),
]
"""A Trigger, written as its expression."""
