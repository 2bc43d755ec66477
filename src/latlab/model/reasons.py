"""Why a measurement is not to be trusted: one finding of a rule of `latlab.model.rules`, which has its words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol, TypeVar

from pydantic import model_validator

from latlab.model.part import VERDICTS, DocumentPart, Verdict
from latlab.model.rules import IDS, RULE_OF, Severity


class Reason(DocumentPart):
    """Why a verdict is not `trusted`.

    id: the rule's, which stays the same. check: its name. finding: what is so where it is broken. where: host, file,
    stream or cell. expected, actual: in words, with units. remedy: what to do. why: of a rule that is turned off, the
    scenario's reason for that.
    """

    id: str
    check: str
    finding: str
    severity: Severity
    where: str
    expected: str
    actual: str
    remedy: str
    why: str | None = None

    def within(self, place: str) -> Reason:
        """The same reason, `where` beginning with the place that has it."""
        return self.model_copy(update={"where": ": ".join(filter(None, (place, self.where)))})

    @model_validator(mode="before")
    @classmethod
    def _with_id(cls, given: Any) -> Any:
        """What was written with its id; versions without ids wrote its rule's name alone."""
        if isinstance(given, Mapping) and not given.get("id") and given.get("check") in IDS:
            return {**given, "id": IDS[given["check"]]}
        return given


def reason_of(
    rule: str, where: str, expected: str, actual: str, remedy: str = "", *, case: str = "", **named: str
) -> Reason:
    """The reason that the rule with this id is broken.

    case: which of the rule's cases was found; empty: the usual one. named: values of its finding. remedy: what to do
    there; empty: what the rule says.
    """
    broken = RULE_OF[rule].in_case(case)
    return Reason(
        id=rule,
        check=broken.name,
        finding=broken.finding.format(**named),
        severity=broken.severity,
        where=where,
        expected=expected,
        actual=actual,
        remedy=remedy or broken.remedy,
    )


class _Grave(Protocol):
    @property
    def severity(self) -> Severity: ...


_Found = TypeVar("_Found", bound=_Grave)


def worst_first(reasons: Iterable[_Found]) -> list[_Found]:
    """The reasons by severity, else in their order."""
    return sorted(reasons, key=lambda reason: -VERDICTS.index(reason.severity))


def verdict(reasons: Iterable[Reason]) -> Verdict:
    """The worst severity among the reasons; without any, `trusted`."""
    return max((reason.severity for reason in reasons), key=VERDICTS.index, default=VERDICTS[0])
