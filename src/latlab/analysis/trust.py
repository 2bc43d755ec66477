"""Whether a measurement can be trusted, and why not: every rule compared with what was recorded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from latlab.analysis import clock_checks, cores, machine_checks, trust_checks
from latlab.analysis.evidence import CHECKS, Broken, Evidence
from latlab.model.part import Verdict
from latlab.model.rules import NAMES, RULES, Severity
from latlab.result.types import Reason

CHECKED_IN: Final = (trust_checks, machine_checks, clock_checks, cores)
"""Where checks are: a module's are there once it is imported."""

_WORSE: Final = ("trusted", "suspect", "untrusted")


def reason_of(
    id_: str, finding: str, severity: Severity, where: str, expected: str, actual: str, remedy: str
) -> Reason:
    """A reason not to trust a measurement, with the name of its rule. finding: what was found, as a sentence."""
    return Reason(
        id=id_,
        check=NAMES[id_],
        finding=finding,
        severity=severity,
        where=where,
        expected=expected,
        actual=actual,
        remedy=remedy,
    )


NOTHING_MEASURED: Final = reason_of(
    "cell-measured",
    "no cell was measured",
    "untrusted",
    "",
    "at least one cell with packets",
    "none",
    "see the reason of each cell",
)
"""What is found not of one cell but of a whole run: a result without any figure shows nothing."""


def judge(evidence: Evidence) -> list[Reason]:
    """Every reason not to trust one cell, the worst first; places that broke a rule alike share one."""
    reasons = [
        reason_of(rule.id, rule.finding, rule.severity, ", ".join(where), expected, actual, remedy or rule.remedy)
        for rule in RULES
        for (expected, actual, remedy), where in _alike(CHECKS[rule.id](evidence)).items()
    ]
    return sorted(reasons, key=lambda reason: -_WORSE.index(reason.severity))


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


def verdict(reasons: Iterable[Reason]) -> Verdict:
    """The worst severity among the reasons; without any, `trusted`."""
    return max((reason.severity for reason in reasons), key=_WORSE.index, default="trusted")


def _alike(broken: Iterable[Broken]) -> dict[tuple[str, str, str], list[str]]:
    places: dict[tuple[str, str, str], list[str]] = {}
    for found in broken:
        places.setdefault((found.expected, found.actual, found.remedy), []).append(found.where)
    return places
