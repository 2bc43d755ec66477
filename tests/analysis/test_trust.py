"""A measurement is trusted unless the evidence breaks a rule, and the reason says where and how."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import latlab
from latlab.analysis.evidence import CHECKS, Evidence
from latlab.analysis.trust import judge
from latlab.model.part import VERDICTS
from latlab.model.reasons import Reason, reason_of, verdict
from latlab.model.rules import NAMES, OTHERS, RULE_OF, RULES
from support.analysis.broken import BROKEN
from support.analysis.evidence import GOOD, SILENT, Seen, agents, evidence
from support.analysis.packets import recorded_cell, result_streams

PACKAGE = Path(latlab.__file__).parent


def test_a_measurement_that_breaks_no_rule_is_trusted() -> None:
    assert judge(GOOD) == []
    assert verdict(judge(GOOD)) == "trusted"


@pytest.mark.parametrize(("check", "severity", "found", "where", "actual"), BROKEN)
def test_a_broken_rule_gives_a_reason(check: str, severity: str, found: Evidence, where: str, actual: str) -> None:
    reason = next(reason for reason in judge(found) if reason.id == check)
    assert reason.severity == severity
    assert where in reason.where
    assert actual in reason.actual
    assert reason.expected
    assert reason.remedy


def test_every_rule_has_evidence_here_that_breaks_it() -> None:
    assert {check for check, *_ in BROKEN} == {rule.id for rule in RULES}


def test_every_rule_has_one_check_and_every_check_a_rule() -> None:
    assert set(CHECKS) == {rule.id for rule in RULES}
    assert len(set(CHECKS.values())) == len(RULES)


def calls(*named: str) -> Iterator[ast.Call]:
    """Every call outside the model in modules that have one of these words."""
    for path in sorted(PACKAGE.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if path.parent != PACKAGE / "model" and any(word in text for word in named):
            yield from (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call))


def texts(call: ast.Call) -> dict[str, object]:
    """{argument's name or place: its value}, of those that are written as constants."""
    given = {str(place): one for place, one in enumerate(call.args)} | {
        str(one.arg): one.value for one in call.keywords
    }
    return {name: one.value for name, one in given.items() if isinstance(one, ast.Constant)}


def test_severities_are_written_in_the_model_alone() -> None:
    given = [(ast.unparse(call), text) for call in calls('"suspect"', '"untrusted"') for text in texts(call).values()]
    assert [call for call, text in given if text in VERDICTS] == []


def test_what_gives_a_reason_names_a_rule_and_one_of_its_cases() -> None:
    given = [texts(call) for call in calls("reason_of(") if ast.unparse(call.func) == "reason_of"]
    named = [(str(one["0"]), str(one.get("case", ""))) for one in given if "0" in one]
    assert len(named) > len(OTHERS)
    assert [(rule, case) for rule, case in named if case not in ("", *RULE_OF[rule].cases)] == []


def test_a_case_has_its_own_words_and_severity_and_otherwise_its_rules() -> None:
    shifted = reason_of("clock-stepped", "x", "y", "z", case="shifted")
    rule = RULE_OF["clock-stepped"]
    assert (shifted.severity, rule.severity) == ("suspect", "untrusted")
    assert shifted.finding != rule.finding
    assert (shifted.check, shifted.remedy) == (rule.name, rule.remedy)
    assert reason_of("points-in-order", "", "", "", first="a", second="b").finding == "packets were seen by b before a"


def test_an_id_is_short_and_is_given_once() -> None:
    ids = [one.id for one in (*RULES, *OTHERS)]
    assert len(set(ids)) == len(set(NAMES.values())) == len(ids)
    assert [id_ for id_ in ids if not re.fullmatch(r"[a-z]+(-[a-z]+)*", id_) or len(id_) > 20] == []


def test_a_reason_of_a_version_without_ids_has_its_rules() -> None:
    (reason,) = judge(replace(GOOD, findings={"y": Seen(complete=False)}))
    document = reason.document()
    assert (document["id"], document["check"]) == ("recordings-whole", NAMES["recordings-whole"])
    assert Reason.model_validate(document) == reason
    del document["id"]
    assert Reason.model_validate(document) == reason


def test_the_verdict_is_the_worst_reasons_and_the_worst_comes_first() -> None:
    found = replace(GOOD, findings={"x": Seen(stray=1), "y": Seen(complete=False)})
    assert [reason.severity for reason in judge(found)] == ["untrusted", "suspect"]
    assert verdict(judge(found)) == "untrusted"
    assert verdict(judge(found)[1:]) == "suspect"


def test_evidence_that_is_not_there_breaks_nothing() -> None:
    cell = recorded_cell(status="unavailable", agents=[{"host": "ecu", "verb": "listen", "ready": None, "done": None}])
    assert judge(Evidence(cell, result_streams(cell, None), facts_before={"ecu": {}})) == []


def test_packets_that_arrived_without_their_tag_are_not_said_to_be_dropped_on_the_way() -> None:
    lost = evidence([SILENT] * 10, agents=agents(streams=[{"stream": 1, "untagged": 10}]))
    assert [reason.id for reason in judge(lost) if reason.severity == "untrusted"] == ["vlan-tags-kept"]


def test_a_finding_says_what_was_found_and_no_rule_shares_one() -> None:
    findings = [rule.finding for rule in RULES]
    assert len(set(findings)) == len(findings)
    assert not {rule.finding for rule in RULES} & {rule.name for rule in RULES}
    assert {reason.finding for found in BROKEN for reason in judge(found[2])} == set(findings)
