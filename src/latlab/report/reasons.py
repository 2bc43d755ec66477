"""The verdict's reasons as people read them: each finding once, with every place and what was found there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from latlab.report.places import Places
from latlab.result.types import Result

EXPLAINED: Final = "latlab explain ID"
"""Prints what a rule looks at; its id stands in parentheses behind what was found."""


@dataclass(frozen=True)
class Found:
    """What was found alike in some places."""

    where: tuple[str, ...]
    expected: str
    actual: str

    def text(self, *, expected: bool) -> str:
        """In one line where and what, and what was expected if that is wanted."""
        where = f"{'; '.join(self.where)}: " if self.where else ""
        return where + self.actual + (f" (expected: {self.expected})" if expected and self.expected else "")


@dataclass(frozen=True)
class Reason:
    """One thing that was found, in one place or in many. id: of the rule that it breaks."""

    id: str
    finding: str
    severity: str
    remedy: str
    found: tuple[Found, ...]

    @property
    def expected(self) -> str:
        """What was expected; empty where that differs from place to place."""
        return self.found[0].expected if len({one.expected for one in self.found}) == 1 else ""

    def lines(self) -> list[str]:
        """What was found, a line each."""
        return [one.text(expected=not self.expected) for one in self.found]


def grouped_reasons(result: Result) -> list[Reason]:
    """The verdict's reasons, the gravest first. A place that is in many cells is listed once for all of them."""
    known = Places(result)
    groups: dict[tuple[str, str, str, str], dict[tuple[str, str], list[str]]] = {}
    for reason in result.reasons:
        group = groups.setdefault((reason.id, reason.finding, reason.severity, reason.remedy), {})
        group.setdefault((reason.expected, reason.actual), []).append(reason.where)
    grouped = [
        Reason(*head, tuple(Found(_places(where, known), *said) for said, where in found.items()))
        for head, found in groups.items()
    ]
    return sorted(grouped, key=lambda reason: reason.severity != "untrusted")


def _places(where: Sequence[str], known: Places) -> tuple[str, ...]:
    """The places, each "CELL: place" or "CELL"; a place found in several cells is written with the fewest names."""
    cells: dict[str, list[str]] = {}
    for one in filter(None, where):
        cell, _, place = one.partition(": ")
        cells.setdefault(place, []).append(cell)
    return tuple(
        ": ".join(filter(None, (cell, place))) for place, found in cells.items() for cell in known.named(found)
    )
