"""Whether a measurement can be trusted, and why not: every rule compared with what was recorded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from latlab.analysis import clock_checks, cores, machine_checks, trust_checks
from latlab.analysis.evidence import CHECKS, Broken, Evidence
from latlab.model.reasons import Reason, reason_of, worst_first
from latlab.model.rules import RULES

CHECKED_IN: Final = (trust_checks, machine_checks, clock_checks, cores)
"""Where checks are: a module's are there once it is imported."""

NOTHING_MEASURED: Final = reason_of("cell-measured", "", "at least one cell with packets", "none")
"""What is found not of one cell but of a whole run: a result without any figure shows nothing."""


def judge(evidence: Evidence) -> list[Reason]:
    """Every reason not to trust one cell, the worst first; places that broke a rule alike share one."""
    return worst_first(
        reason_of(rule.id, ", ".join(where), *found)
        for rule in RULES
        for found, where in _alike(CHECKS[rule.id](evidence)).items()
    )


def without_waived(reasons: Iterable[Reason], off: Mapping[str, str]) -> tuple[list[Reason], list[Reason]]:
    """The reasons that count, and those of rules that are turned off. off: {rule's id: why it does not count}.

    A reason that makes a cell untrusted counts in any case: where one is found, the figures themselves are wrong.
    """
    counts: list[Reason] = []
    waived: list[Reason] = []
    for reason in reasons:
        if reason.id in off and reason.severity == "suspect":
            waived.append(reason.model_copy(update={"why": off[reason.id]}))
        else:
            counts.append(reason)
    return counts, waived


def _alike(broken: Iterable[Broken]) -> dict[tuple[str, str, str], list[str]]:
    places: dict[tuple[str, str, str], list[str]] = {}
    for found in broken:
        places.setdefault((found.expected, found.actual, found.remedy), []).append(found.where)
    return places
