"""Whether a measurement can be trusted, and why not: every rule compared with what was recorded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

from latlab.analysis.evidence import Broken, Evidence
from latlab.analysis.trust_rules import RULES
from latlab.model.rules import IDS, NAMES, Severity

Verdict = Literal["trusted", "suspect", "untrusted"]

_WORSE: Final = ("trusted", "suspect", "untrusted")


@dataclass(frozen=True)
class Reason:
    """Why a measurement is not simply trusted, as in the result document.

    id: the rule's, which stays the same. finding: what was found, as a sentence.
    """

    id: str
    finding: str
    severity: Severity
    where: str
    expected: str
    actual: str
    remedy: str

    @property
    def check(self) -> str:
        """The rule's name: what should be so."""
        return NAMES[self.id]

    def as_dict(self) -> dict[str, str]:
        """Return it as the result document has it."""
        return {"id": self.id, "check": self.check, **asdict(self)}

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Reason:
        """Return the reason that was written as this; versions without ids wrote its rule's name alone."""
        id_ = document.get("id") or IDS[document["check"]]
        return cls(id_, **{key: value for key, value in document.items() if key not in ("id", "check")})


@dataclass(frozen=True)
class Waived:
    """What a rule that is turned off found: it does not count, and is shown with why not.

    why: as the scenario says it.
    """

    reason: Reason
    why: str

    def as_dict(self) -> dict[str, Any]:
        """As in the result document: the reason's keys, and `why`."""
        return {**self.reason.as_dict(), "why": self.why}


NOTHING_MEASURED: Final = Reason(
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
        Reason(rule.id, rule.finding, rule.severity, ", ".join(where), expected, actual, remedy or rule.remedy)
        for rule in RULES
        for (expected, actual, remedy), where in _alike(rule.broken(evidence)).items()
    ]
    return sorted(reasons, key=lambda reason: -_WORSE.index(reason.severity))


def without_waived(reasons: Iterable[Reason], off: Mapping[str, str]) -> tuple[list[Reason], list[Waived]]:
    """The reasons that count, and those of rules that are turned off. off: {rule's id: why it does not count}.

    A reason that makes a cell untrusted counts in any case: where one is found, the figures themselves are wrong.
    """
    counts: list[Reason] = []
    waived: list[Waived] = []
    for reason in reasons:
        if reason.id in off and reason.severity == "suspect":
            waived.append(Waived(reason, off[reason.id]))
        else:
            counts.append(reason)
    return counts, waived


def verdict(reasons: Iterable[Reason | Mapping[str, Any]]) -> Verdict:
    """The worst severity among the reasons (or their dicts); without any, `trusted`."""
    found = (r.severity if isinstance(r, Reason) else r["severity"] for r in reasons)
    return max(found, key=_WORSE.index, default="trusted")


def _alike(broken: Iterable[Broken]) -> dict[tuple[str, str, str], list[str]]:
    places: dict[tuple[str, str, str], list[str]] = {}
    for found in broken:
        places.setdefault((found.expected, found.actual, found.remedy), []).append(found.where)
    return places
