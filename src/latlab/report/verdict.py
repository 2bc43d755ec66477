"""The verdict for people: its reasons, where its lines were drawn, and which rules were turned off."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from latlab.analysis.words import duration, percent
from latlab.evaluation.thresholds import scenario_key
from latlab.model.reasons import worst_first
from latlab.model.rules import Severity
from latlab.model.units import WHOLE_PPM
from latlab.result.places import CellPlaces
from latlab.result.types import Result

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


# Where the lines of a verdict were drawn, and which rules were turned off.


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
        ThresholdLine(scenario_key(name), _text(name, one.value), _text(name, one.default), one.given)
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
