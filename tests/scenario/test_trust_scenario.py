"""A scenario says where trust ends: thresholds, and rules that are turned off with a reason."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pydantic_core import PydanticCustomError
from typer.testing import CliRunner

from latlab.cli import app
from latlab.model.rules import FORMER, IDS, NAMES, RULES
from latlab.scenario import Loaded, parse
from latlab.scenario.trust import SUSPECT_RULES, Trust
from latlab.scenario.units import format_share, parse_share
from latlab.testbed.preflight import warnings

With = Callable[..., Loaded]
Said = Callable[[dict[str, Any]], list[str]]
RULE, NAME = "preempt-rt", "the kernel is PREEMPT_RT"


@pytest.mark.parametrize(
    ("text", "ppm"), [("10%", 100_000), ("0.1%", 1_000), ("10ppm", 10), ("12.3456 %", 123_456), ("100%", 10**6), (0, 0)]
)
def test_a_share_is_whole_millionths(text: object, ppm: int) -> None:
    assert parse_share(text) == ppm
    assert parse_share(format_share(ppm)) == ppm


def test_a_share_is_written_in_percent_down_to_a_thousandth() -> None:
    assert [format_share(ppm) for ppm in (10**6, 123_456, 1_000, 999, 0)] == [
        "100%",
        "12.3456%",
        "0.1%",
        "999ppm",
        "0%",
    ]


def test_a_bare_number_is_no_share() -> None:
    with pytest.raises(PydanticCustomError, match=r"0\.1 has no unit; expected a share such as 10%"):
        parse_share(0.1)


def test_thresholds_are_the_defaults_unless_they_are_said(with_: With) -> None:
    assert with_().scenario.trust == Trust()
    trust = with_({"trust": {"clock_bound_share": "20%", "clock_step": "50us"}}).scenario.trust
    assert (trust.clock_bound_share, trust.clock_step, trust.steal_share) == (200_000, 50_000, 10_000)
    assert trust.model_fields_set == {"clock_bound_share", "clock_step"}


def test_a_rule_is_turned_off_with_a_reason(with_: With) -> None:
    off = {RULE: "bridges are compared"}
    scenario = with_({"trust": {"off": off}}).scenario
    assert scenario.trust.off == off
    assert parse(scenario.model_dump(mode="json", by_alias=True, exclude_unset=True)).scenario == scenario


@pytest.mark.parametrize("called", ["id", "name"])
def test_rules_that_make_a_cell_suspect_can_be_turned_off_and_no_others(said: Said, called: str) -> None:
    words = {getattr(rule, called): rule.severity for rule in RULES}
    refused = said({"trust": {"off": dict.fromkeys(words, "why")}})
    assert [line.split(": ")[0] for line in refused] == [
        f"trust.off.{word}" for word, severity in words.items() if severity == "untrusted"
    ]
    assert all("cannot be turned off" in line for line in refused)


def test_a_rule_by_its_name_is_the_one_with_the_id_and_one_warning_says_what_to_write(with_: With) -> None:
    off = {NAME: "bridges are compared", "swapping": "no swap", "interrupts are not moved": "why not"}
    loaded = with_({"trust": {"off": off}})
    assert loaded.scenario.trust.off == {RULE: off[NAME], "swapping": "no swap", "irqbalance": "why not"}
    (warning,) = map(str, warnings(loaded))
    assert "s.yaml:" in warning and "trust.off: rules now have ids" in warning
    assert f"write {RULE} instead of '{NAME}', irqbalance instead of 'interrupts are not moved'" in warning
    assert "swapping" not in warning
    printed = CliRunner().invoke(app, ["validate", str(loaded.path)]).stdout.splitlines()
    assert [line for line in printed if line.startswith("warning: ")] == [f"warning: {warning}"]


@pytest.mark.parametrize("name", FORMER)
def test_a_name_of_an_earlier_version_is_still_the_rules(with_: With, name: str) -> None:
    if FORMER[name] in SUSPECT_RULES:
        assert with_({"trust": {"off": {name: "why not"}}}).scenario.trust.off == {FORMER[name]: "why not"}
    assert IDS[name] == FORMER[name] and name not in NAMES.values()


def test_ids_bring_no_warning(with_: With) -> None:
    assert warnings(with_({"trust": {"off": {RULE: "bridges are compared"}}})) == []


WRONG: list[tuple[dict[str, Any], str]] = [
    (
        {"clock_bound_shar": "20%"},
        "trust.clock_bound_shar: unknown key 'clock_bound_shar'; expected clock_bound_share? (known: clock_step, ",
    ),
    ({"clock_bound_share": 0.2}, "trust.clock_bound_share: 0.2 has no unit; expected a share such as 10%"),
    ({"steal_share": "101%"}, "trust.steal_share: 101% is too large; expected 100% or less"),
    (
        {"steal_share": "0.00001%"},
        "trust.steal_share: '0.00001%' is a fraction of 1ppm; expected a whole",
    ),
    ({"clock_step": "0"}, "trust.clock_step: '0' is not a duration; expected a duration such as 1006us (units: "),
    ({"clock_step": 0}, "trust.clock_step: 0ns is too small; expected 1ns or more"),
    (
        {"off": {"the kernel is PREEMT_RT": "why"}},
        "trust.off.the kernel is PREEMT_RT: unknown rule 'the kernel is PREEMT_RT'; expected preempt-rt",
    ),
    ({"off": {"preemt-rt": "why"}}, "trust.off.preemt-rt: unknown rule 'preemt-rt'; expected preempt-rt"),
    (
        {"off": {"xyzzy": "why"}},
        "trust.off.xyzzy: unknown rule 'xyzzy'; expected the id of a rule: `latlab explain` lists",
    ),
    ({"off": {NAME: "why", RULE: "why"}}, f"trust.off: '{NAME}' and {RULE} are one rule; expected {RULE} alone"),
    (
        {"off": {"recordings are complete": "why"}},
        "trust.off.recordings are complete: 'recordings are complete' cannot be turned off; expected a rule that",
    ),
    ({"off": {RULE: ""}}, f"trust.off.{RULE}: '' is not a reason; expected the reason for turning the rule off"),
    ({"off": {RULE: None}}, f"trust.off.{RULE}: null is not a reason; expected the reason for turning the rule off"),
    ({"off": {RULE: "a\nb"}}, f"trust.off.{RULE}: 'a\\nb' is not a reason"),
    ({"off": {RULE: 201 * "a"}}, f"trust.off.{RULE}: a reason of 201 characters; expected 200 or fewer"),
    ({"off": [RULE]}, f"trust.off: ['{RULE}'] is not a mapping"),
]


@pytest.mark.parametrize(("trust", "line"), WRONG, ids=[line[:60] for _, line in WRONG])
def test_what_cannot_be_is_refused_where_it_stands(said: Said, trust: dict[str, Any], line: str) -> None:
    (found,) = said({"trust": trust})
    assert found.startswith(line)


def test_every_cell_is_judged_alike(said: Said) -> None:
    (found,) = said({"matrix": {"trust.clock_step": ["1ms", "2ms"]}})
    assert found.startswith("matrix.trust.clock_step: trust is the same in every cell")
