"""The limits a scenario accepts, and what makes a packet late for the flight recorder."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Final

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema
from pydantic_core import PydanticCustomError

from latlab.model import metrics
from latlab.model.limits import LIMITS
from latlab.model.statistics import KEYS
from latlab.scenario.findings import Mistake, closest, shown, unknown, wrong
from latlab.scenario.streams import PAIR
from latlab.scenario.units import DURATION, format_duration, parse_duration

COUNTS = "counts"
METRICS = tuple(one.name for one in metrics.METRICS)
"""Of a stream, and of a leg of a probe."""
PROBE_METRICS = tuple(one.name for one in metrics.PROBE_METRICS)
"""Of a probe as a whole: of questions and their answers."""
TIMER_METRICS = tuple(one.name for one in metrics.TIMED)
"""Of a timer."""
STATISTICS = tuple(KEYS)
COUNTED = (
    "lost",
    "unknown",
    "duplicated",
    "reordered",
    "unsent",
    "send_errors",
    "out_of_range",
    "foreign",
    "launch_invalid",
    "launch_missed",
    "launch_late",
    "launch_moved",
    "launch_silent",
    "unsent_late",
)
"""The counts of which fewer are better: an upper limit on the others says nothing."""

PROBE_COUNTED = ("unanswered", "late")
"""The counts of a probe as a whole: of a stream there are none such."""

TIMER_COUNTED = ("overdue", "above", "untold")
"""The counts of a timer: of what is sent there are none such."""

GROUPS = {
    **dict.fromkeys((*METRICS, *PROBE_METRICS, *TIMER_METRICS), STATISTICS),
    COUNTS: (*COUNTED, *PROBE_COUNTED, *TIMER_COUNTED),
}
"""What can be limited: the statistics of each metric, and the counts."""

LEGS = ("up", "down", PAIR)
"""What a name is followed by: a direction of a probe, or the first copies of a PRP pair."""

_NAME = r"[a-z][a-z0-9-]{0,30}"
_WHOLE = rf"^{_NAME}\.({'|'.join((*PROBE_METRICS, *TIMER_METRICS))})"
_ONE_WAY = rf"^{_NAME}(\.({'|'.join(LEGS)}))?\.({'|'.join(METRICS)})"
_STATISTIC = rf"\.({'|'.join(STATISTICS).replace('.', '[.]')})$"
_DURATION = {"anyOf": [{"type": "string", "pattern": DURATION.pattern}, {"const": 0}]}

ACCEPT_SCHEMA: dict[str, object] = {
    "type": "object",
    "patternProperties": {
        _ONE_WAY + _STATISTIC: _DURATION,
        _WHOLE + _STATISTIC: _DURATION,
        rf"^{_NAME}(\.({'|'.join(LEGS)}))?\.{COUNTS}\.({'|'.join(COUNTED)})$": {"type": "integer", "minimum": 0},
        rf"^{_NAME}\.{COUNTS}\.({'|'.join((*PROBE_COUNTED, *TIMER_COUNTED))})$": {"type": "integer", "minimum": 0},
    },
    "additionalProperties": False,
}


@dataclass(frozen=True)
class AcceptLimit:
    """The largest accepted value of a statistic: nanoseconds for metrics, packets for counts.

    path: as the scenario has it. stream: a stream, a probe, or a leg of one, `rr.up`. group: a metric, or `counts`.
    statistic_key: its key in results (`p99_9`).
    """

    path: str
    stream: str
    group: str
    statistic_key: str
    limit: int

    @property
    def statistic(self) -> str:
        """As the scenario has it (`p99.9`)."""
        return self.path.removeprefix(f"{self.stream}.{self.group}.")


def parse_limit(path: str, value: object) -> AcceptLimit | Mistake:
    """The limit that `stream.metric.statistic: value` sets, or what is wrong; streams are not looked up."""
    where = ("accept", path)
    name, _, rest = path.partition(".")
    if rest.partition(".")[0] in LEGS:
        leg, _, rest = rest.partition(".")
        name = f"{name}.{leg}"
    parts = (name, *rest.split(".", 1))
    if len(parts) != 3:
        return Mistake(
            where, f"{shown(path)} does not name a statistic", "stream.metric.statistic, such as control.latency.max"
        )
    stream, group, statistic = parts
    if group not in GROUPS:
        return Mistake(where, *unknown("metric", group, GROUPS))
    if statistic not in GROUPS[group]:
        return Mistake(where, *unknown("count" if group == COUNTS else "statistic", statistic, GROUPS[group]))
    if group != COUNTS:
        try:
            limit = parse_duration(value)
        except PydanticCustomError as error:
            context = error.context or {}
            return Mistake(where, context["what"], context["expected"])
    elif isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        limit = value
    else:
        return Mistake(where, f"{shown(value)} is not a number of packets", "a whole number, 0 or more")
    return AcceptLimit(path, stream, group, KEYS.get(statistic, statistic), limit)


# What makes a packet late for the flight recorder: an expression such as `latency > 500us`.


TRIGGERING: Final = ("latency", "latency_user", "delivery")
"""The metrics that a listener knows of a packet when it has come."""
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
    if not least_ns <= limit_ns <= LIMITS.trigger_ns:
        size = "small" if limit_ns < least_ns else "large"
        expected = f"{format_duration(least_ns)} to {format_duration(LIMITS.trigger_ns)}"
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
