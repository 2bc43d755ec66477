"""The checks of the trust table that are about timers and traces: what was kept up with, and what was recorded."""

from __future__ import annotations

from collections.abc import Iterator

from latlab.analysis.evidence import Broken, Evidence, checks
from latlab.analysis.trust_readings import totals
from latlab.analysis.words import duration, plural
from latlab.recordings.cell import Totals


@checks("timer-kept-up")
def timer_kept_up(evidence: Evidence) -> Iterator[Broken]:
    """Timers with instants that had passed when the thread was done with the one before: none was set for them."""
    for name, done, where in _timers(evidence):
        if overdue := done.overdue:
            said = f"{overdue} of {plural(done.events, 'instant')} of {name}"
            if held_up_ns := done.held_up_ns:
                said += f", which waited {duration(held_up_ns)} in all for space in the recording"
            yield Broken(where, "no instant overdue", said)


@checks("timer-interrupts")
def timer_interrupts_were_told(evidence: Evidence) -> Iterator[Broken]:
    """Timers whose interrupts the kernel should have reported and did not: none of them, with the reason, or some."""
    for agent in evidence.cell.agents:
        problem = agent.said.trace_problem if agent.verb == "timer" else None
        if problem:
            said = f"of none: {problem.where}: {problem.what} ({problem.remedy})"
            yield Broken(agent.name, "every interrupt of the timer reported", said)
    for name, done, where in _timers(evidence):
        if lost := done.trace_lost:
            waited = done.events - done.overdue
            yield Broken(where, "every interrupt of the timer reported", f"{lost} of {waited} of {name} not")


@checks("trace-whole")
def trace_was_whole(evidence: Evidence) -> Iterator[Broken]:
    """Traces of which the kernel lost events, as its buffers were full."""
    for where, done in totals(evidence, "trace", "waking", "entry"):
        if lost := done.lost:
            yield Broken(where, "no event lost", f"{lost} of {plural(lost + done.events, 'event')} lost")
        if done.kept and done.kept.overran:
            found = f"{done.kept.overran} of {plural(done.kept.windows, 'window')} were requested too late"
            yield Broken(where, "every window of late packets kept completely", found)


def _timers(evidence: Evidence) -> Iterator[tuple[str | None, Totals, str]]:
    """(probe, what its agent said at its end, where) of every timer that finished."""
    for agent in evidence.cell.agents:
        if agent.verb == "timer" and agent.done:
            yield agent.probe, agent.done, agent.name
