"""Where trust ends: the thresholds by which a measurement is judged, and rules that are turned off, with the reason."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Annotated

from pydantic import BeforeValidator, Field, WithJsonSchema

from latlab.scenario.findings import shown, wrong
from latlab.scenario.parts import Part
from latlab.scenario.units import DURATION, SHARE, Duration, Share, within

SUSPECT_RULES: tuple[str, ...] = (
    "facts of the hosts were taken",
    "the clock bound is small beside the latency",
    "PTP was locked",
    "PTP's offset is what our own readings say",
    "PTP's clocks were read",
    "PTP kept its grandmaster",
    "the talker is punctual",
    "packets leave within a period",
    "realtime settings are in force",
    "the tuning is in force",
    "the XDP bridge carried every packet",
    "timestamps are there",
    "packets without timestamps are like the others",
    "timestamps match their packets",
    "no packet with a launch time vanished",
    "every send succeeded",
    "no packet was rejected",
    "the timer kept up",
    "the timer's interrupts were told",
    "the trace is whole",
    "the listener's socket kept every packet",
    "no packet was refused",
    "realtime threads were not throttled",
    "no CPU time was stolen",
    "the kernel is PREEMPT_RT",
    "the agents' CPUs are isolated",
    "no CPU slept deeply",
    "the CPUs' frequencies are fixed",
    "sibling threads are quiet",
    "halt polling is off",
    "virtual CPUs are apart",
    "PTP has CPUs of its own",
    "interrupts have CPUs of their own",
    "interrupts stayed on their CPUs",
    "nothing moves interrupts",
    "coalescing is small beside the latency",
    "links do not rest",
    "links stayed up",
    "network cards gave every timestamp",
    "the streams are out of step with the timer tick",
    "the agents' memory is locked",
    "nothing was swapped",
    "no memory was moved",
    "guests keep their memory",
    "the clock source is fast",
    "clocks kept their rates",
    "the kernels did not complain",
)
"""Rules that make a cell suspect, as analysis/trust_rules.py has them: each can be turned off."""

UNTRUSTED_RULES: tuple[str, ...] = (
    "the cell ran to its end",
    "the agents came to their end",
    "recordings are whole",
    "no record was dropped",
    "every packet is accounted for",
    "every instant is possible",
    "launch times are the schedule's",
    "launch times are honoured",
    "the XDP bridge carried the streams",
    "clocks were not stepped",
    "packets arrived",
    "frames kept their VLAN tags",
    "no packet arrived before it left",
    "the clocks' offset is bounded",
)
"""Rules without which the figures themselves would be wrong: none can be turned off."""

REASON_MAX = 200
ALL_SHARE = 10**6

_LISTED = "docs/how-it-works.md lists the rules"


def _rule(name: object) -> object:
    if name in UNTRUSTED_RULES:
        raise wrong(f"{shown(name)} cannot be turned off", "a rule that makes a cell suspect, not untrusted")
    if name not in SUSPECT_RULES:
        close = get_close_matches(str(name), SUSPECT_RULES, n=3)
        raise wrong(f"unknown rule {shown(name)}", f"{' or '.join(close)}? ({_LISTED})" if close else f"one: {_LISTED}")
    return name


def _reason(text: object) -> object:
    if not isinstance(text, str) or not text.strip() or not text.isprintable():
        raise wrong(
            f"{shown(text)} is no reason", "why the rule does not count here, in a sentence: the report shows it"
        )
    if len(text) > REASON_MAX:
        raise wrong(f"a reason of {len(text)} characters", f"{REASON_MAX} or fewer")
    return text


RuleName = Annotated[str, BeforeValidator(_rule)]
Why = Annotated[str, BeforeValidator(_reason)]
Off = Annotated[
    dict[RuleName, Why],
    WithJsonSchema(
        {
            "type": "object",
            "propertyNames": {"enum": list(SUSPECT_RULES)},
            "additionalProperties": {"type": "string", "minLength": 1, "maxLength": REASON_MAX},
        }
    ),
]
Step = Annotated[Duration, within(DURATION, 1)]
Fraction = Annotated[Share, within(SHARE, 0, ALL_SHARE)]


class Trust(Part):
    """The thresholds of the verdict's rules, and rules that are turned off. The same in every cell."""

    clock_step: Step = Field(
        default=20_000, description="two readings of a pair of clocks that differ by more are a step of one of them"
    )
    clock_bound_share: Fraction = Field(
        default=100_000, description="the largest bound of the clocks' offset, of the median latency"
    )
    missing_share: Fraction = Field(
        default=1_000, description="the most packets without a timestamp that they ought to have"
    )
    steal_share: Fraction = Field(
        default=10_000, description="the most CPU time stolen from a machine, of the time of the cell"
    )
    late: Step = Field(
        default=100_000,
        description="a packet that is further above its stream's median latency is late: causes are looked for",
    )
    idle_wakeup: Annotated[Duration, within(DURATION, 0)] = Field(
        default=20_000, description="what CPUs may take to wake from an idle state they were in"
    )
    sibling_share: Fraction = Field(
        default=100_000, description="how busy the other thread of a measured thread's core may be"
    )
    coalescing_share: Fraction = Field(
        default=200_000, description="how long a card's interrupts may wait for more packets, of the median latency"
    )
    clock_slew_share: Fraction = Field(
        default=10, description="how much a clock's rate may change from one reading to the next, a second later"
    )
    off: Off = Field(
        default_factory=dict, description="rule → why it does not count here; what it finds is shown beside that"
    )
