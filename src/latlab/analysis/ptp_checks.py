"""The checks of the trust table that are about PTP: each yields the places where a cell's evidence breaks it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from latlab.analysis.evidence import Broken, Evidence, checks
from latlab.analysis.words import duration
from latlab.model.part import Failure
from latlab.result.types import Unlocked


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
