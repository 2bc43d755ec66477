"""What comes at regular intervals: single late packets, and stalls, late sends and missed slots."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from latlab.analysis.anomalies.comb import Comb, find_combs
from latlab.analysis.anomalies.found import Found, Int64, Seen, consecutive
from latlab.analysis.anomalies.singles import late_where
from latlab.analysis.anomalies.stages import PLACES, QDISC, TALKER
from latlab.analysis.words import duration

OTHERS: Final = {
    "stall": ("stall", "stalls"),
    "late_sender": ("late send", "late sends"),
    "missed_slot": ("missed slot", "missed slots"),
}
"""Classes whose episodes stay what they are, and learn that they come regularly; how one and several are called."""


@dataclass(frozen=True)
class Event:
    """Something late. at_ns: when its first packet arrived, TAI. row: that packet's. late_ns: how late it was.

    episode: its place in what was found; None for a late packet that nobody has claimed.
    """

    at_ns: int
    row: int
    late_ns: float
    episode: int | None


def find_periodic(seen: Seen) -> Iterator[Found]:
    """Combs among all that was late at one place, an episode each.

    Late packets that nobody claimed are its packets. Stalls, late sends and missed slots stay what they are, and have
    the interval in their evidence: something that comes every minute may hold two packets once, and one the next time.
    """
    for where, events in _events(seen).items():
        at = np.array([event.at_ns for event in events], np.int64)
        for comb in find_combs(at, seen.signals.context.period_ns, seen.signals.thresholds):
            yield _told(seen, where, [events[member] for member in comb.members], comb)


def _events(seen: Seen) -> dict[str, list[Event]]:
    """{place: events in order of time}."""
    signals = seen.signals
    found: dict[str, list[Event]] = {}
    place_of = {int(signals.row[hold.begin]): hold.begin for hold in seen.holds}
    for number, one in enumerate(seen.found):
        if one.name in OTHERS:
            where = {"late_sender": TALKER, "missed_slot": QDISC}.get(one.name) or str(one.evidence["where"])
            place = place_of.get(one.first, int(np.searchsorted(signals.row, one.first)))
            if place < len(signals.row):
                late = float(one.evidence.get("late_ns", one.severity))
                event = Event(int(signals.end_ns[place]), one.first, late, number)
                found.setdefault(where, []).append(event)
    first = np.array([run[0] for run in consecutive(seen.late)], np.int64)
    if len(first):
        names, most, by, _ = late_where(signals, first)
        for number, place in enumerate(first.tolist()):
            event = Event(int(signals.end_ns[place]), int(signals.row[place]), float(by[number]), None)
            found.setdefault(names[most[number]], []).append(event)
    return {where: sorted(events, key=lambda event: event.at_ns) for where, events in found.items()}


def _told(seen: Seen, where: str, events: list[Event], comb: Comb) -> Found:
    every = round(comb.every_ns)
    kinds: Counter[str] = Counter()
    for event in events:
        if event.episode is None:
            kinds["single"] += 1
            continue
        one = seen.found[event.episode]
        kinds[one.name] += 1
        seen.found[event.episode] = replace(one, evidence={**one.evidence, "every_ns": every})
    rows = np.array([event.row for event in events], np.int64)
    own = np.array([event.row for event in events if event.episode is None], np.int64)
    late = float(np.median([event.late_ns for event in events]))
    in_packets = _whole_packets(rows, every / seen.signals.context.period_ns)
    evidence = {
        "every_ns": every,
        "every_packets": in_packets,
        "times": len(events),
        "off_ns": round(comb.off_ns),
        "late_p50_ns": round(late),
        "late_max_ns": round(max(event.late_ns for event in events)),
        "where": where,
        "of": dict(kinds),
    }
    interval = f"{duration(every)}{f' ({in_packets} packets)' if in_packets else ''}"
    size = f"{'of' if kinds['stall'] else 'by'} {duration(late)} as a rule"
    text = f"every {interval} {_what(kinds)} in {PLACES[where]}, {size}: {len(events)} times"
    return Found("periodic", int(rows[0]), int(rows[-1]), own, float(len(events)), evidence, text)


def _whole_packets(rows: Int64, every: float) -> int | None:
    """How many packets lie between two, if it is always a whole number of times the same."""
    packets = round(every)
    return packets if packets and not (np.diff(rows) % packets).any() else None


def _what(kinds: Counter[str]) -> str:
    named = [OTHERS[name][0] for name in OTHERS if kinds[name]]
    if not named:
        return "a packet was late"
    return f"there was a {' or '.join(named)}" + (" or a late packet" if kinds["single"] else "")
