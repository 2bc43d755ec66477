"""The checks of the trust table that are about timers and traces: what was kept up with, and what was told."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from latlab.analysis.evidence import Broken, Evidence
from latlab.analysis.trust_readings import agent_name, totals
from latlab.analysis.words import duration, plural


def timer_kept_up(evidence: Evidence) -> Iterator[Broken]:
    """Timers with instants that had passed when the thread was done with the one before: none was set for them."""
    for name, done, where in _timers(evidence):
        if overdue := done.get("overdue", 0):
            said = f"{overdue} of {plural(done['events'], 'instant')} of {name}"
            if held_up_ns := done.get("held_up_ns", 0):
                said += f", which waited {duration(held_up_ns)} in all for space in the recording"
            yield Broken(where, "no instant overdue", said)


def timer_interrupts_were_told(evidence: Evidence) -> Iterator[Broken]:
    """Timers of whose interrupts the kernel was to tell and did not: of none, and why, or of some."""
    for agent in evidence.cell["agents"]:
        problem = (agent.get("ready") or {}).get("trace_problem") if agent["verb"] == "timer" else None
        if problem:
            said = f"of none: {problem['where']}: {problem['what']} ({problem['remedy']})"
            yield Broken(agent_name(agent), "every interrupt of the timer reported", said)
    for name, done, where in _timers(evidence):
        if lost := done.get("trace_lost"):
            waited = done["events"] - done["overdue"]
            yield Broken(where, "every interrupt of the timer reported", f"{lost} of {waited} of {name} not")


def trace_was_whole(evidence: Evidence) -> Iterator[Broken]:
    """Traces of which the kernel lost events, as its buffers were full."""
    for where, done in totals(evidence, "trace", "waking", "entry"):
        if lost := done.get("lost", 0):
            yield Broken(where, "no event lost", f"{lost} of {plural(lost + done['events'], 'event')} lost")


def _timers(evidence: Evidence) -> Iterator[tuple[str, dict[str, Any], str]]:
    """(probe, what its agent said at its end, where) of every timer that came to its end."""
    for agent in evidence.cell["agents"]:
        if agent["verb"] == "timer" and agent.get("done"):
            yield agent["probe"], agent["done"], agent_name(agent)
