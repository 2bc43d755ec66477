"""The verdict for people: its reasons, where its lines were drawn, and which rules were turned off."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from latlab.analysis.words import duration, percent
from latlab.model.reasons import Reason, worst_first
from latlab.model.rules import NAMES, Severity
from latlab.model.thresholds import Thresholds
from latlab.model.units import WHOLE_PPM
from latlab.result.places import CellPlaces
from latlab.result.types import Result, Threshold, TurnedOff
from latlab.scenario import Trust

# The verdict's reasons as people read them: each finding once, with every place and what was found there.


EXPLAINED: Final = "latlab explain ID"
"""Prints what a rule looks at; its id stands in parentheses behind what was found."""


@dataclass(frozen=True)
class FoundAlike:
    """What was found alike in some places."""

    where: tuple[str, ...]
    expected: str
    actual: str

    def text(self, *, expected: bool) -> str:
        """In one line where and what, and what was expected if that is wanted."""
        where = f"{'; '.join(self.where)}: " if self.where else ""
        return where + self.actual + (f" (expected: {self.expected})" if expected and self.expected else "")


@dataclass(frozen=True)
class GroupedReason:
    """One thing that was found, in one place or in many. id: of the rule that it breaks."""

    id: str
    finding: str
    severity: Severity
    remedy: str
    found: tuple[FoundAlike, ...]

    @property
    def expected(self) -> str:
        """What was expected; empty where that differs from place to place."""
        return self.found[0].expected if len({one.expected for one in self.found}) == 1 else ""

    def lines(self) -> list[str]:
        """What was found, a line each."""
        return [one.text(expected=not self.expected) for one in self.found]


def grouped_reasons(result: Result) -> list[GroupedReason]:
    """The verdict's reasons, the gravest first. A place that is in many cells is listed once for all of them."""
    known = CellPlaces(result)
    groups: dict[tuple[str, str, Severity, str], dict[tuple[str, str], list[str]]] = {}
    for reason in result.reasons:
        group = groups.setdefault((reason.id, reason.finding, reason.severity, reason.remedy), {})
        group.setdefault((reason.expected, reason.actual), []).append(reason.where)
    grouped = [
        GroupedReason(*head, tuple(FoundAlike(_places(where, known), *said) for said, where in found.items()))
        for head, found in groups.items()
    ]
    return worst_first(grouped)


def _places(where: Sequence[str], known: CellPlaces) -> tuple[str, ...]:
    """The places, each "CELL: place" or "CELL"; a place found in several cells is written with the fewest names."""
    cells: dict[str, list[str]] = {}
    for one in filter(None, where):
        cell, _, place = one.partition(": ")
        cells.setdefault(place, []).append(cell)
    return tuple(
        ": ".join(filter(None, (cell, place))) for place, found in cells.items() for cell in known.named(found)
    )


# Where the lines of a verdict were drawn, and which rules were turned off: in the result, and for people.


def thresholds_of(trust: Trust | None) -> Thresholds:
    """The scenario's thresholds as the analysis takes them: ns, and shares of one. None: the defaults."""
    if trust is None:
        return Thresholds()
    values = {name: _value(trust, name) for name in asdict(Thresholds())}
    return Thresholds(**values)


def threshold_values(trust: Trust | None) -> dict[str, Threshold]:
    """The result's `thresholds`. given: the scenario says it, be it the default or not."""
    values, defaults = asdict(thresholds_of(trust)), asdict(Thresholds())
    said = trust.model_fields_set if trust else frozenset()
    return {name: Threshold(value=values[name], default=defaults[name], given=_key(name) in said) for name in defaults}


def turned_off(trust: Trust | None, waived: Iterable[Reason]) -> list[TurnedOff]:
    """The rules that are turned off. found: how many reasons each gave."""
    found = [one.id for one in waived]
    off = trust.off if trust else {}
    return [TurnedOff(id=id_, check=NAMES[id_], why=why, found=found.count(id_)) for id_, why in off.items()]


@dataclass(frozen=True)
class ThresholdLine:
    """One threshold as people read it: its key in a scenario, its value, the default, whether the scenario says it."""

    name: str
    value: str
    default: str
    given: bool


def threshold_lines(result: Result) -> list[ThresholdLine]:
    """Every threshold of a result; none of one that was made by a latlab that did not record them."""
    return [
        ThresholdLine(_key(name), _text(name, one.value), _text(name, one.default), one.given)
        for name, one in result.thresholds.items()
    ]


def off_lines(result: Result) -> list[str]:
    """A sentence for each rule that was turned off: never left out of a report, whether it found anything or not."""
    return [
        f"turned off by the scenario: {one.id}, {one.check} ({one.why}); {_broken(one.found)}"
        for one in result.turned_off
    ]


def stated(result: Result) -> list[str]:
    """What the scenario itself has changed of how it is judged, a sentence each: it stands next to the verdict."""
    given = [
        f"threshold set by the scenario: {one.name} {one.value} (default {one.default})"
        for one in threshold_lines(result)
        if one.given
    ]
    return [*off_lines(result), *given]


def _key(name: str) -> str:
    return name.removesuffix("_ns")


def _value(trust: Trust, name: str) -> Any:
    """A threshold in the analysis' unit: durations are ns on both sides, shares in a scenario are millionths."""
    value: int = getattr(trust, _key(name))
    return value if name.endswith("_ns") else value / WHOLE_PPM


_SMALL: Final = 1e-4
"""Shares below it are in millionths."""


def _text(name: str, value: float) -> str:
    if name.endswith("_ns"):
        return duration(value)
    return f"{value * WHOLE_PPM:g} ppm" if value < _SMALL else percent(value)


def _broken(count: int) -> str:
    if not count:
        return "it found nothing"
    return "its finding does not count" if count == 1 else f"its {count} findings do not count"
