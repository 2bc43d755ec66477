"""Plain data to a scenario, or everything that is wrong with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from latlab.scenario.findings import Finding, Path
from latlab.scenario.models import Scenario
from latlab.scenario.references import unknown_references
from latlab.scenario.rules import RULES
from latlab.scenario.shape import findings_of
from latlab.scenario.sketch import Sketch, sketch


@dataclass(frozen=True)
class Parsed:
    """What became of plain data: the scenario or what is wrong with it, and what is usable in any case."""

    scenario: Scenario | None
    findings: list[Finding]
    sketch: Sketch


def parse(raw: dict[str, Any]) -> Parsed:
    """The scenario the data describes; errors in the parts' shape do not hide those between the parts."""
    scenario = None
    findings: list[Finding] = []
    extra: list[Path] = []
    broken: list[Path] = []
    try:
        scenario = Scenario.model_validate(raw)
    except ValidationError as error:
        for finding, is_extra in findings_of(error, raw):
            findings.append(finding)
            (extra if is_extra else broken).append(finding.path)
    findings += unknown_references(raw)
    usable = sketch(raw, extra, broken)
    for rule in RULES:
        findings += rule(usable)
    return Parsed(scenario if not findings else None, findings, usable)
