"""What comes at regular intervals: single late packets, and stalls, late sends and missed slots."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Final

import numpy as np

from latlab.analysis.anomalies.blocks import run_starts
from latlab.analysis.anomalies.comb import Comb, find_combs
from latlab.analysis.anomalies.found import Float64, Found, Int64, Seen, Several
from latlab.analysis.anomalies.singles import late_where
from latlab.analysis.words import duration
from latlab.model.timestamps import PLACES

OTHERS: Final = {
    "stall": ("stall", "stalls"),
    "late_sender": ("late send", "late sends"),
    "missed_slot": ("missed slot", "missed slots"),
}
"""Classes whose episodes stay what they are, and learn that they come regularly; how one and several are called."""


SINGLE: Final = -1


@dataclass(frozen=True)
class Events:
    """What was late at one place, by time, all int64 [n] or float64 [n].

    at_ns: when its first packet arrived, TAI. row: that packet's. late_ns: how late it was. found, number: which of
    what was found it is an episode of, and which one there; SINGLE, of a late packet that no class has claimed.
    """

    at_ns: Int64
    row: Int64
    late_ns: Float64
    found: Int64
    number: Int64

    def __getitem__(self, which: Int64) -> Events:
        return Events(*(getattr(self, one.name)[which] for one in fields(self)))


def find_periodic(seen: Seen) -> Iterator[Found]:
    """Combs among all that was late at one place, an episode each.

    Late packets without a class are its packets. Stalls, late sends and missed slots stay what they are, and have
    the interval in their evidence: something that comes every minute may hold two packets once, and one the next time.
    """
    for where, events in _events(seen).items():
        for comb in find_combs(events.at_ns, seen.signals.context.period_ns, seen.signals.thresholds):
            yield _told(seen, where, events[comb.members], comb)


def _events(seen: Seen) -> dict[str, Events]:
    """{place: events in order of time}."""
    signals = seen.signals
    found: dict[str, list[Events]] = {}
    for order, one in enumerate(seen.found):
        if isinstance(one, Several) and one.name in OTHERS:
            # A packet that missed its slot may be none that is judged, and then the next one is its instant.
            place = np.searchsorted(signals.row, one.firsts)
            there = np.flatnonzero(place < len(signals.row))
            late = one.severity if one.late_ns is None else one.late_ns
            events = Events(
                signals.end_ns[place[there]], one.firsts[there], late[there], np.full(len(there), order), there
            )
            _sort_out(found, one.places, one.where[there], events)
    late_ones = seen.late
    first = late_ones[run_starts(late_ones)]
    if len(first):
        names, most, by, _ = late_where(signals, first)
        single = np.full(len(first), SINGLE)
        events = Events(signals.end_ns[first], signals.row[first], by, single, single)
        _sort_out(found, names, most, events)
    return {where: _by_time(parts) for where, parts in found.items()}


def _sort_out(found: dict[str, list[Events]], names: Sequence[str], where: Int64, events: Events) -> None:
    """Add events to those of their places; a place that is new is put in the order in which they come."""
    places, first = np.unique(where, return_index=True)
    for place in places[np.argsort(first)].tolist():
        found.setdefault(names[place], []).append(events[np.flatnonzero(where == place)])


def _by_time(parts: list[Events]) -> Events:
    every = Events(*(np.concatenate([getattr(part, one.name) for part in parts]) for one in fields(Events)))
    return every[np.argsort(every.at_ns, kind="stable")]


def _told(seen: Seen, where: str, events: Events, comb: Comb) -> Found:
    every = round(comb.every_ns)
    kinds: Counter[str] = Counter()
    for order in events.found[np.sort(np.unique(events.found, return_index=True)[1])].tolist():
        of_these = events.found == order
        one = None if order == SINGLE else seen.found[order]
        kinds["single" if one is None else one.name] += int(np.count_nonzero(of_these))
        if isinstance(one, Several):
            one.every_ns[events.number[of_these]] = every
    own = events.row[events.found == SINGLE]
    late = float(np.median(events.late_ns))
    in_packets = _whole_packets(events.row, every / seen.signals.context.period_ns)
    evidence = {
        "every_ns": every,
        "every_packets": in_packets,
        "times": len(events.row),
        "off_ns": round(comb.off_ns),
        "late_p50_ns": round(late),
        "late_max_ns": round(float(events.late_ns.max())),
        "where": where,
        "of": dict(kinds),
    }
    interval = f"{duration(every)}{f' ({in_packets} packets)' if in_packets else ''}"
    size = f"{'of' if kinds['stall'] else 'by'} {duration(late)} usually"
    text = f"every {interval} {_what(kinds)} in {PLACES[where]}, {size}: {len(events.row)} times"
    first, last = int(events.row[0]), int(events.row[-1])
    return Found("periodic", first, last, own, float(len(events.row)), evidence, text)


def _whole_packets(rows: Int64, every: float) -> int | None:
    """How many packets lie between two, if it is always a whole number of times the same."""
    packets = round(every)
    return packets if packets and not (np.diff(rows) % packets).any() else None


def _what(kinds: Counter[str]) -> str:
    named = [OTHERS[name][0] for name in OTHERS if kinds[name]]
    if not named:
        return "a packet was late"
    return f"there was a {' or '.join(named)}" + (" or a late packet" if kinds["single"] else "")
