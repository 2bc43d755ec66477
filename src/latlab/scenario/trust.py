"""Where trust ends: the thresholds by which a measurement is judged, and rules that are turned off, with the reason."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, WithJsonSchema

from latlab.model.rules import IDS, NAMES, RULES
from latlab.model.thresholds import DEFAULTS, SAID
from latlab.model.units import WHOLE_PPM
from latlab.scenario.findings import shown, wrong
from latlab.scenario.parts import Part
from latlab.scenario.units import DURATION, SHARE, Duration, Share, within

SUSPECT_RULES: tuple[str, ...] = tuple(one.id for one in RULES if one.severity == "suspect")
"""Ids of rules that make a cell suspect: each can be turned off."""

UNTRUSTED_RULES: tuple[str, ...] = tuple(one.id for one in RULES if one.severity == "untrusted")
"""Ids of rules without which the figures themselves would be wrong: none can be turned off."""

REASON_MAX = 200

_LISTED = "`latlab explain` lists them"


def _rule(said: object) -> object:
    """Return the rule's id. said: this, or the name by which scenarios of earlier versions call it."""
    rule = IDS.get(str(said), said)
    if rule in UNTRUSTED_RULES:
        raise wrong(f"{shown(said)} cannot be turned off", "a rule that makes a cell suspect, not untrusted")
    if rule not in SUSPECT_RULES:
        words = [word for id_ in SUSPECT_RULES for word in (id_, NAMES[id_])]
        close = dict.fromkeys(IDS.get(word, word) for word in get_close_matches(str(said), words, n=3))
        expected = f"{' or '.join(close)}? ({_LISTED})" if close else f"the id of a rule: {_LISTED}"
        raise wrong(f"unknown rule {shown(said)}", expected)
    return rule


def _each_once(off: object) -> object:
    """Return it as it was written. PydanticCustomError: a rule stands there by its id and by its name."""
    said = list(off) if isinstance(off, dict) else []
    for name in said:
        if name in IDS and IDS[name] in said:
            raise wrong(f"{shown(name)} and {IDS[name]} are one rule", f"{IDS[name]} alone")
    return off


def renamed_rules(off: object) -> dict[str, str]:
    """Return {name: id} of the rules that a scenario's `trust.off`, as it was written, calls by name."""
    return {name: IDS[name] for name in off if name in IDS} if isinstance(off, dict) else {}


def _reason(text: object) -> object:
    if not isinstance(text, str) or not text.strip() or not text.isprintable():
        raise wrong(
            f"{shown(text)} is not a reason", "the reason for turning the rule off, in a sentence: the report shows it"
        )
    if len(text) > REASON_MAX:
        raise wrong(f"a reason of {len(text)} characters", f"{REASON_MAX} or fewer")
    return text


RuleId = Annotated[str, BeforeValidator(_rule)]
Why = Annotated[str, BeforeValidator(_reason)]
Off = Annotated[
    dict[RuleId, Why],
    BeforeValidator(_each_once),
    WithJsonSchema(
        {
            "type": "object",
            "propertyNames": {"enum": list(SUSPECT_RULES)},
            "additionalProperties": {"type": "string", "minLength": 1, "maxLength": REASON_MAX},
        }
    ),
]
Step = Annotated[Duration, within(DURATION, 1)]
Fraction = Annotated[Share, within(SHARE, 0, WHOLE_PPM)]


def _line(name: str) -> Any:
    """The key of a threshold; shares are millionths here."""
    default = getattr(DEFAULTS, name)
    return Field(
        default=default if name.endswith("_ns") else round(default * WHOLE_PPM),
        description=SAID[name],
    )


class Trust(Part):
    """The thresholds of the verdict's rules, and rules that are turned off. The same in every cell."""

    clock_step: Step = _line("clock_step_ns")
    clock_bound_share: Fraction = _line("clock_bound_share")
    missing_share: Fraction = _line("missing_share")
    steal_share: Fraction = _line("steal_share")
    late: Step = _line("late_ns")
    idle_wakeup: Annotated[Duration, within(DURATION, 0)] = _line("idle_wakeup_ns")
    sibling_share: Fraction = _line("sibling_share")
    coalescing_share: Fraction = _line("coalescing_share")
    clock_slew_share: Fraction = _line("clock_slew_share")
    off: Off = Field(
        default_factory=dict,
        description="id of a rule → the reason for turning it off; the report shows its findings with the reason",
    )
