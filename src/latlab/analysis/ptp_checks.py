"""The checks of the trust table that are about PTP: each yields the places where a cell's evidence breaks it."""

from __future__ import annotations

from collections.abc import Iterator

from latlab.analysis.evidence import Broken, Evidence
from latlab.analysis.words import duration


def ptp_was_locked(evidence: Evidence) -> Iterator[Broken]:
    """Ports that were not master or locked slave all the time, or of which nothing was heard."""
    for port in evidence.document.get("ptp", []):
        expected = f"{'master' if port['role'] == 'master' else 'locked, within ' + duration(port['limit_ns'])}"
        if not port["readings"]:
            yield Broken(port["port"], expected, "no reading while streams ran")
        elif spells := port["unlocked"]:
            whys = list(dict.fromkeys(spell["why"] for spell in spells))
            since = spells[0]
            lasted = sum(spell["to_ns"] - spell["from_ns"] for spell in spells if spell["to_ns"] is not None)
            for_ever = any(spell["to_ns"] is None for spell in spells)
            until = "until the end" if for_ever else f"for {duration(lasted)} in all"
            said = f"{'; '.join(whys)}: {duration(since['from_ns'])} after the first reading, {until}"
            yield Broken(port["port"], expected, said)


def ptp_claims_hold(evidence: Evidence) -> Iterator[Broken]:
    """Slaves whose offset, as ptp4l says it, is further from our own readings than its limit."""
    for port in evidence.document.get("ptp", []):
        checked = port["checked"]
        if checked and checked["apart"]:
            expected = f"what ptp4l says within {duration(port['limit_ns'])} of our own readings"
            said = f"{checked['apart']} of {checked['n']} readings are further, {duration(checked['outside_max_ns'])}"
            yield Broken(port["port"], expected, f"{said} at most")


def ptp_kept_its_grandmaster(evidence: Evidence) -> Iterator[Broken]:
    """Ports that followed more than one grandmaster."""
    for port in evidence.document.get("ptp", []):
        if len(port["grandmasters"]) > 1:
            yield Broken(port["port"], "one grandmaster", " then ".join(port["grandmasters"]))
