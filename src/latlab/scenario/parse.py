"""Plain data to a scenario, or everything that is wrong with it."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import ValidationError

from latlab.scenario.findings import Mistake, Raw
from latlab.scenario.models import Scenario
from latlab.scenario.rules import RULES
from latlab.scenario.shape import findings_of, unknown_references
from latlab.scenario.sketch import Sketch, known, sketch, sketch_of


@dataclass(frozen=True)
class Parsed:
    """What became of plain data: the scenario or what is wrong with it, and what is usable in any case."""

    scenario: Scenario | None
    findings: list[Mistake]
    sketch: Sketch


def parse(raw: Raw) -> Parsed:
    """The scenario the data describes; errors in the parts' shape do not hide those between the parts."""
    scenario = None
    findings: list[Mistake] = []
    try:
        scenario = Scenario.model_validate(raw)
        usable = sketch_of(scenario)
    except ValidationError as error:
        findings += findings_of(error, raw)
        usable = sketch(raw, {finding.path for finding in findings})
    findings += unknown_references(raw)
    for rule in RULES:
        findings += known(rule(usable))
    return Parsed(scenario if not findings else None, findings, usable)
