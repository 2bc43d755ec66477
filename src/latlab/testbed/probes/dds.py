"""latlab's own probe over Cyclone DDS: the spec of `latlab-agent dds` on both sides; keys: docs/reference/agent.md."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal

from latlab.testbed.probes.cyclone import Cyclone, configuration
from latlab.testbed.step import Spec

DISCOVERY_NS: Final = 10_000_000_000
_LOOP_HISTORY: Final = 1
"""In a closed loop there is one sample at a time, and ddsperf keeps as many."""
_RATE_HISTORY: Final = 1000
"""At a rate a reader that is held up must lose none meanwhile: a second's at 1 kHz."""

Mode = Literal["listener", "block", "spin"]


@dataclass(frozen=True)
class Side:
    """One side of a probe. cpus: those that Cyclone's own threads may run on; None: any. realtime: how the agent's own
    measuring threads run, as in every spec. recording: the prefix of its recordings there.
    """

    cyclone: Cyclone
    recording: str
    mode: Mode = "listener"
    cpus: tuple[int, ...] | None = None
    realtime: Spec = field(default_factory=dict)


@dataclass(frozen=True)
class DdsPlan:
    """One probe over DDS, resolved.

    up, down: stream numbers of questions and answers. size: bytes of the probe; a sample has four more, its length.
    period_ns: from one question to the next; None: each follows the answer before it. duration_ns: at a rate no
    question is due so long after the start or later, in a closed loop after the first; timeout_ns: how long an answer
    is waited for. reliable: what is lost is sent again.
    """

    name: str
    run_id: str
    asker: Side
    answerer: Side
    domain: int
    up: int
    down: int
    size: int
    period_ns: int | None
    duration_ns: int
    timeout_ns: int = 1_000_000_000
    offset_ns: int = 0
    busy_wait_ns: int = 0
    reliable: bool = True


def pong_spec(plan: DdsPlan) -> Spec:
    """The spec of the side that answers. It is ready at once, and answers until it is stopped."""
    side = plan.answerer
    # With a listener Cyclone's thread answers: there is no other that a priority or CPUs could be of.
    own = side.realtime if side.mode != "listener" else _of_process(side.realtime)
    return {**_spec(plan, side, "pong"), "realtime": own}


def ping_spec(plan: DdsPlan) -> Spec:
    """The spec of the side that sends requests. It is ready once a sample has been to the other side and back."""
    count = None if plan.period_ns is None else -(-(plan.duration_ns - plan.offset_ns) // plan.period_ns)
    return {
        **_spec(plan, plan.asker, "ping"),
        "busy_wait_ns": plan.busy_wait_ns,
        "period_ns": plan.period_ns,
        "offset_ns": plan.offset_ns,
        "count": count,
        "duration_ns": plan.duration_ns,
        "timeout_ns": plan.timeout_ns,
        "discovery_ns": DISCOVERY_NS,
    }


def _spec(plan: DdsPlan, side: Side, role: str) -> Spec:
    return {
        "role": role,
        "run_id": plan.run_id,
        "recording": side.recording,
        "realtime": side.realtime,
        "mode": side.mode,
        "up": plan.up,
        "down": plan.down,
        "name": plan.name,
        "interface": side.cyclone.interface,
        "size": plan.size,
        "transport": {
            "kind": "dds",
            "domain": plan.domain,
            "config": configuration(side.cyclone),
            "reliable": plan.reliable,
            "history": _LOOP_HISTORY if plan.period_ns is None else _RATE_HISTORY,
            "cpus": list(side.cpus) if side.cpus else None,
        },
    }


def _of_process(realtime: Spec) -> Spec:
    """Of the settings those that are the whole process's."""
    return {key: value for key, value in realtime.items() if key not in ("fifo", "cpus", "timer_slack_ns")}
