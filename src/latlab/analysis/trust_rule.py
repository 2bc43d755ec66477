"""What a rule of trust is: a check, what it is called, how grave it is, and what to do where it is broken."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Literal

from latlab.analysis.evidence import Broken, Evidence

Severity = Literal["suspect", "untrusted"]
When = Literal["before", "during", "after"]

BEFORE: Final[tuple[When, ...]] = ("before",)
DURING: Final[tuple[When, ...]] = ("during",)
BEFORE_AND_DURING: Final[tuple[When, ...]] = ("before", "during")
BEFORE_AND_AFTER: Final[tuple[When, ...]] = ("before", "after")
ALL_THE_TIME: Final[tuple[When, ...]] = ("before", "during", "after")


@dataclass(frozen=True)
class Rule:
    """One check.

    name: what ought to be so. finding: what is so where it is broken. when: what it looks at was found out: of settings
    before the streams, of them and their recordings during, of settings and counters after. broken: yields every place
    that breaks it; evidence that is not there breaks nothing.
    """

    name: str
    finding: str
    severity: Severity
    when: tuple[When, ...]
    broken: Callable[[Evidence], Iterator[Broken]]
    remedy: str
