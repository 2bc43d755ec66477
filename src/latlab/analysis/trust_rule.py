"""What a rule of trust is: a check by its id, what it looks at, and what to do where it is broken."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Literal

from latlab.analysis.evidence import Broken, Evidence
from latlab.model.rules import RULES, Severity

_NAMED: Final = {one.id: one for one in RULES}

When = Literal["before", "during", "after"]

BEFORE: Final[tuple[When, ...]] = ("before",)
DURING: Final[tuple[When, ...]] = ("during",)
BEFORE_AND_DURING: Final[tuple[When, ...]] = ("before", "during")
BEFORE_AND_AFTER: Final[tuple[When, ...]] = ("before", "after")
ALL_THE_TIME: Final[tuple[When, ...]] = ("before", "during", "after")


@dataclass(frozen=True)
class Rule:
    """One check.

    id: of `model.rules`, which has its name and severity. finding: what is so where it is broken. when: what it looks
    at was found out: of settings before the streams, of them and their recordings during, of settings and counters
    after. looks_at, broken_when: the same as docs/reference/rules.md has it. broken: yields every place that breaks it;
    evidence that is not there breaks nothing.
    """

    id: str
    finding: str
    when: tuple[When, ...]
    looks_at: str
    broken_when: str
    broken: Callable[[Evidence], Iterator[Broken]]
    remedy: str

    @property
    def name(self) -> str:
        """What should be so."""
        return _NAMED[self.id].name

    @property
    def severity(self) -> Severity:
        """Of what is measured where it is broken."""
        return _NAMED[self.id].severity
