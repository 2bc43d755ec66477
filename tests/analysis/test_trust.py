"""A measurement is trusted unless the evidence breaks a rule, and the reason says where and how."""

from __future__ import annotations

import re
from dataclasses import replace

import broken_causes
import broken_clocks
import broken_machine
import broken_recordings
import pytest
from tables import recorded_cell, result_streams
from trust_evidence import GOOD, SILENT, Seen, agents, evidence

from latlab.analysis.evidence import CHECKS, Evidence
from latlab.analysis.trust import judge, verdict
from latlab.model.rules import NAMES, OTHERS, RULES
from latlab.result.types import Reason

BROKEN = [*broken_recordings.BROKEN, *broken_clocks.BROKEN, *broken_machine.BROKEN, *broken_causes.BROKEN]


def test_a_measurement_that_breaks_no_rule_is_trusted() -> None:
    assert judge(GOOD) == []
    assert verdict(judge(GOOD)) == "trusted"


@pytest.mark.parametrize(("check", "severity", "found", "where", "actual"), BROKEN)
def test_a_broken_rule_gives_a_reason(check: str, severity: str, found: Evidence, where: str, actual: str) -> None:
    reason = next(reason for reason in judge(found) if reason.check == check)
    assert reason.severity == severity
    assert where in reason.where
    assert actual in reason.actual
    assert reason.expected
    assert reason.remedy


def test_every_rule_has_evidence_here_that_breaks_it() -> None:
    assert {check for check, *_ in BROKEN} == {rule.name for rule in RULES}


def test_every_rule_has_one_check_and_every_check_a_rule() -> None:
    assert set(CHECKS) == {rule.id for rule in RULES}
    assert len(set(CHECKS.values())) == len(RULES)


def test_an_id_is_short_and_is_given_once() -> None:
    ids = [one.id for one in (*RULES, *OTHERS)]
    assert len(set(ids)) == len(set(NAMES.values())) == len(ids)
    assert [id_ for id_ in ids if not re.fullmatch(r"[a-z]+(-[a-z]+)*", id_) or len(id_) > 20] == []


def test_a_reason_of_a_version_without_ids_has_its_rules() -> None:
    (reason,) = judge(replace(GOOD, findings={"y": Seen(complete=False)}))
    document = reason.document()
    assert (document["id"], document["check"]) == ("recordings-whole", "recordings are complete")
    assert Reason.of(document) == reason
    del document["id"]
    assert Reason.of(document) == reason


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
    assert [reason.check for reason in judge(lost) if reason.severity == "untrusted"] == ["frames kept their VLAN tags"]


def test_a_finding_says_what_was_found_and_no_rule_shares_one() -> None:
    findings = [rule.finding for rule in RULES]
    assert len(set(findings)) == len(findings)
    assert not {rule.finding for rule in RULES} & {rule.name for rule in RULES}
    assert {reason.finding for found in BROKEN for reason in judge(found[2])} == set(findings)
