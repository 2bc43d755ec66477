"""The checks of the trust table about what a kernel counts time with, about PTP, and about timers and traces."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from latlab.analysis.evidence import Broken, Evidence, checks, same_kernel, totals
from latlab.analysis.words import duration, plural
from latlab.model.facts import fact
from latlab.model.part import Failure
from latlab.model.units import WHOLE_PPM
from latlab.recordings.cell import RecordedCell, Totals
from latlab.result.types import Metric, Unlocked

_SLOW: Final = frozenset({"acpi_pm", "hpet", "jiffies", "pit", "refined-jiffies"})
"""Clock sources that are devices or ticks: a reading of one takes a microsecond or more, in a guest an exit each."""
_OF_CARDS: Final = (
    "hardware timestamps use the network cards' clocks, which latlab does not compare with each other or with the "
    "system's: synchronise them by PTP (clock: {ptp: …}), whose series shows how well it works; latency_user uses only "
    "the systems' clocks"
)
_OF_A_GUEST: Final = (
    "the agents that compare the guest's clock ran too rarely: use fewer streams and loads, or give them dedicated "
    "CPUs; or compare over the network: clock: {sync: exchange}"
)
_FOR_A_TIME: Final = (
    "the packets that compare the clocks were temporarily lost or delayed: use fewer loads on their link and on the "
    "agents' CPUs"
)


def to_bound_clocks(cell: RecordedCell, stream: str, figures: Metric) -> str:
    """What to do about a metric of this stream between two clocks that nothing bounds; empty: what the rule says.

    figures: the metric's, whose two timestamps say whose clocks they are: cards', a guest's, or two systems' that were
    compared, but not all the time.
    """
    if any(end.endswith("_hard") for end in (figures.from_, figures.to)):
        return _OF_CARDS
    ends = {end for one in cell.streams if one.name == stream for end in (one.talker, one.listener)}
    if ends & {guest.name for guest in cell.guests}:
        return _OF_A_GUEST
    return _FOR_A_TIME if figures.n and figures.unbounded else ""


@checks("clock-source")
def clock_source_is_fast(evidence: Evidence) -> Iterator[Broken]:
    """Hosts whose kernel counts time with a slow device, or changed what it counts with."""
    for host, facts in evidence.facts_before.items():
        before = fact(facts, "clock", "source")
        after = fact(evidence.facts_after.get(host, {}), "clock", "source")
        if before and after and before != after:
            yield Broken(host, f"{before} all the time", f"{after} afterwards")
        elif before in _SLOW:
            yield Broken(host, "a counter of the CPU's, such as tsc, kvm-clock or arch_sys_counter", before)


@checks("clock-slewed")
def clocks_kept_their_rates(evidence: Evidence) -> Iterator[Broken]:
    """Hosts at either end of a stream between two kernels whose clock was slewed, where no PTP keeps them alike.

    The rate is that of MONOTONIC, which is steered, against MONOTONIC_RAW, which is not, from each reading to the next.
    """
    if evidence.cell.ptp:
        return
    most = evidence.thresholds.clock_slew_share
    apart = {
        end
        for stream in evidence.cell.streams
        for end in (stream.talker, stream.listener)
        if stream.listener not in same_kernel(evidence, stream.talker)
    }
    for name, clocks in evidence.clocks.items():
        host = name.partition("-")[2]
        raw, steered, bracket = (
            clocks[column].to_numpy() for column in ("monotonic_raw_ns", "monotonic_ns", "bracket_ns")
        )
        if host not in apart or len(raw) < 3:
            continue
        elapsed = np.diff(raw).astype(np.float64)
        rate = (np.diff(steered) - np.diff(raw)) / elapsed
        # Reading the clocks takes time itself: a rate is only as sharp as the two brackets.
        sharp = most + (bracket[1:] + bracket[:-1]) / elapsed
        changed = np.abs(rate - np.median(rate))
        if (changed > sharp).any():
            worst = float(changed[changed > sharp].max())
            expected = f"a rate that is steady within {WHOLE_PPM * most:.4g} ppm"
            yield Broken(name, expected, f"it changed by {WHOLE_PPM * worst:.3g} ppm")


# The checks of the trust table that are about PTP: each yields the places where a cell's evidence breaks it.


@checks("ptp-locked")
def ptp_was_locked(evidence: Evidence) -> Iterator[Broken]:
    """Ports that were not master or locked slave all the time, or that did not answer."""
    for port in evidence.ptp:
        locked = f"locked, within {duration(port.limit_ns)}"
        expected = {"master": "master", "slave": locked, None: f"master, or {locked}"}[port.acts_as]
        if port.absent:
            continue
        if not port.readings:
            yield Broken(port.port, expected, "no reading while streams ran")
        elif spells := port.unlocked:
            whys = "; ".join(dict.fromkeys(spell.why for spell in spells))
            yield Broken(port.port, expected, f"{whys}: {_when(spells)}")


@checks("ptp-offset")
def ptp_claims_hold(evidence: Evidence) -> Iterator[Broken]:
    """Slaves whose offset, as ptp4l says it, is further from our own readings than its limit."""
    for port in evidence.ptp:
        checked = port.checked
        if checked and checked.apart:
            expected = f"ptp4l's offset within {duration(port.limit_ns)} of latlab's readings"
            said = f"{checked.apart} of {checked.n} readings differ more, {duration(checked.outside_max_ns)}"
            yield Broken(port.port, expected, f"{said} at most")


@checks("ptp-clocks-read")
def ptp_clocks_were_read(evidence: Evidence) -> Iterator[Broken]:
    """Agents that could not read how the clock of the port that they observe is turned."""
    for agent in evidence.cell.agents:
        unread = agent.said.clock
        if agent.verb == "ptp" and isinstance(unread, Failure):
            yield Broken(f"ptp on {agent.host}, {unread.where}", "a frequency in each reading", unread.what)


@checks("ptp-grandmaster")
def ptp_kept_its_grandmaster(evidence: Evidence) -> Iterator[Broken]:
    """Ports that followed more than one grandmaster."""
    for port in evidence.ptp:
        if len(port.grandmasters) > 1:
            yield Broken(port.port, "one grandmaster", " then ".join(port.grandmasters))


def _when(spells: Sequence[Unlocked]) -> str:
    """When it was not locked, in words; the last spell alone may have no end."""
    since = f"{duration(spells[0].from_ns)} after the first reading"
    ended = [(spell, spell.to_ns) for spell in spells if spell.to_ns is not None]
    if not ended:
        return f"{since}, until the end"
    in_all = f"{duration(sum(to_ns - spell.from_ns for spell, to_ns in ended))} in all"
    if len(ended) == len(spells):
        return f"{since}, for {in_all}" if len(spells) == 1 else f"first {since}, {in_all}"
    return f"first {since}, {in_all}, and from {duration(spells[-1].from_ns)} on to the end"


# The checks of the trust table that are about timers and traces: what was kept up with, and what was recorded.


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
