"""What comes at regular intervals: single late packets, and stalls, late sends and missed slots."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from math import comb as choose
from math import exp
from typing import Final

import numpy as np
from numpy.typing import NDArray

from latlab.analysis.anomalies.blocks import chain_lengths, reached, run_starts
from latlab.analysis.anomalies.found import Claimed, Float64, FoundEpisode, Int64, Several
from latlab.analysis.anomalies.singles import late_where
from latlab.analysis.anomalies.thresholds import AnomalyThresholds
from latlab.analysis.words import duration
from latlab.model.timestamps import PLACES

# Regularity: which of some events come at equal intervals, and which interval that is.


LAGS: Final = 6
"""Intervals are looked for between an event and so many after it: others may lie between two of a kind."""
CANDIDATES: Final = 12
COMBS_MOST: Final = 4
GAP_MOST: Final = 3
"""So many times in a row may be left out."""
NEARER: Final = 1.5
CHANCE: Final = 3e-5
"""How many combs like it events without any order may make, as reckoned by `_by_chance`: of the best of many tries it
takes too little."""


@dataclass(frozen=True)
class Comb:
    """Events at equal intervals. members: their numbers, ascending. every_ns: the interval. off_ns: the most off."""

    members: Int64
    every_ns: float
    off_ns: float


def find_combs(
    at_ns: Int64,
    period_ns: int,
    thresholds: AnomalyThresholds,
    *,
    repeats: int | None = None,
    every_ns: int | None = None,
) -> Iterator[Comb]:
    """The combs among events at these instants (ascending, int64 ns), the largest first; each event is in one at most.

    period_ns: of the packets that saw the events: so far off each may be. repeats: members at least, by default
    thresholds.repeats. every_ns: the interval, if it is known.
    """
    left = np.arange(len(at_ns))
    for _ in range(COMBS_MOST):
        best = _best(at_ns[left], period_ns, thresholds, repeats or thresholds.repeats, every_ns)
        if best is None:
            return
        yield Comb(left[best.members], best.every_ns, best.off_ns)
        left = np.delete(left, best.members)


def _best(at: Int64, period_ns: int, thresholds: AnomalyThresholds, repeats: int, every_ns: int | None) -> Comb | None:
    if len(at) < repeats:
        return None
    found: Comb | None = None
    for every in [every_ns] if every_ns else _intervals(at, period_ns, thresholds):
        tolerance = min(max(thresholds.comb_tolerance * every, 1.5 * period_ns), 0.2 * every)
        needed = max(repeats, len(found.members) + 1 if found else 0)
        # So many that far apart are all there can be.
        if (at[-1] - at[0]) / (every - tolerance) + 2 < needed:
            continue
        members = _chain(at, every, tolerance, needed)
        if members is None:
            continue
        teeth = np.rint(_tooth(at, members, every)).astype(np.int64)
        slope, start = np.polyfit(teeth, at[members] - at[members[0]], 1)
        off = np.abs(at[members] - at[members[0]] - (start + slope * teeth)).max()
        if len(members) < thresholds.comb_share * (teeth[-1] + 1):
            continue
        if every_ns is None and _by_chance(at, len(members), int(teeth[-1]), max(off, period_ns)) > CHANCE:
            continue
        found = Comb(members, float(slope), float(off))
    return found


def _intervals(at: Int64, period_ns: int, thresholds: AnomalyThresholds) -> list[float]:
    """The intervals that occur most often between events, up to CANDIDATES."""
    differences = np.sort(np.concatenate([at[lag:] - at[:-lag] for lag in range(1, min(LAGS, len(at) - 1) + 1)]))
    differences = differences[differences > 4 * period_ns]
    found: list[float] = []
    while len(differences) and len(found) < CANDIDATES:
        width = np.maximum(2 * thresholds.comb_tolerance * differences, 2 * period_ns)
        count = np.searchsorted(differences, differences + width, side="right") - np.arange(len(differences))
        first = int(np.argmax(count))
        if count[first] < 2:
            break
        found.append(float(np.median(differences[first : first + count[first]])))
        differences = np.delete(differences, slice(first, first + int(count[first])))
    return found


def _chain(at: Int64, every: float, tolerance: float, needed: int) -> Int64 | None:
    """The longest chain of events each of which comes a whole number of intervals after the one before, nearly.

    Of equally long ones the first; None where it has fewer than `needed`.
    """
    n = len(at)
    following = np.full(n, n)
    for step in range(GAP_MOST + 1, 0, -1):
        due = at + step * every
        after = np.minimum(np.searchsorted(at, due), n - 1)
        before = np.maximum(after - 1, 0)
        near = np.where(np.abs(at[before] - due) < np.abs(at[after] - due), before, after)
        found = (np.abs(at[near] - due) <= tolerance) & (near > np.arange(n))
        following[found] = near[found]
    length = chain_lengths(following)
    first = int(np.argmax(length))
    return reached(np.array([first]), following) if length[first] >= needed else None


def _tooth(at: Int64, members: Int64, every: float) -> NDArray[np.float64]:
    """Which of the comb's times each member is at, from 0; intervals are added up, so that a small error does not."""
    steps: NDArray[np.float64] = np.rint(np.diff(at[members]) / every)
    return np.concatenate(([0.0], np.cumsum(steps)))


def _by_chance(at: Int64, members: int, last_tooth: int, off_ns: float) -> float:
    """How many combs as full as this one so many events would make if they came at random.

    Two events make an interval, in LAGS × n ways; each further time is hit by chance with the same probability.
    """
    n, span = len(at), float(at[-1] - at[0])
    # The few that were taken are nearer than others might have been.
    hit = 1 - exp(-2 * NEARER * off_ns * n / span) if span else 1.0
    times, needed = last_tooth - 1, members - 2
    if times > 60:  # a sum of so many terms is not needed to see that it is none
        mean = times * hit
        return 0.0 if needed > mean + 8 * (mean + 1) ** 0.5 else 1.0
    tail = sum(choose(times, k) * hit**k * (1 - hit) ** (times - k) for k in range(max(0, needed), times + 1))
    return LAGS * n * tail


# What comes at regular intervals: single late packets, and stalls, late sends and missed slots.


OTHERS: Final = {
    "stall": ("stall", "stalls"),
    "late_sender": ("late send", "late sends"),
    "missed_slot": ("missed slot", "missed slots"),
}
"""Classes whose episodes stay what they are, and learn that they come regularly; how one and several are called."""


SINGLE: Final = -1


@dataclass(frozen=True)
class LateEvents:
    """What was late at one place, by time, all int64 [n] or float64 [n].

    at_ns: when its first packet arrived, TAI. row: that packet's. late_ns: how late it was. found, number: which of
    what was found it is an episode of, and which one there; SINGLE, of a late packet that no class has claimed.
    """

    at_ns: Int64
    row: Int64
    late_ns: Float64
    found: Int64
    number: Int64

    def __getitem__(self, which: Int64) -> LateEvents:
        return LateEvents(*(getattr(self, one.name)[which] for one in fields(self)))


def find_periodic(seen: Claimed) -> Iterator[FoundEpisode]:
    """Combs among all that was late at one place, an episode each.

    Late packets without a class are its packets. Stalls, late sends and missed slots stay what they are, and have
    the interval in their evidence: something that comes every minute may hold two packets once, and one the next time.
    """
    for where, events in _events(seen).items():
        for comb in find_combs(events.at_ns, seen.signals.context.period_ns, seen.signals.thresholds):
            yield _told(seen, where, events[comb.members], comb)


def _events(seen: Claimed) -> dict[str, LateEvents]:
    """{place: events in order of time}."""
    signals = seen.signals
    found: dict[str, list[LateEvents]] = {}
    for order, one in enumerate(seen.found):
        if isinstance(one, Several) and one.name in OTHERS:
            # A packet that missed its slot may be none that is judged, and then the next one is its instant.
            place = np.searchsorted(signals.row, one.firsts)
            there = np.flatnonzero(place < len(signals.row))
            late = one.severity if one.late_ns is None else one.late_ns
            events = LateEvents(
                signals.end_ns[place[there]], one.firsts[there], late[there], np.full(len(there), order), there
            )
            _sort_out(found, one.places, one.where[there], events)
    late_ones = seen.late
    first = late_ones[run_starts(late_ones)]
    if len(first):
        names, most, by, _ = late_where(signals, first)
        single = np.full(len(first), SINGLE)
        events = LateEvents(signals.end_ns[first], signals.row[first], by, single, single)
        _sort_out(found, names, most, events)
    return {where: _by_time(parts) for where, parts in found.items()}


def _sort_out(found: dict[str, list[LateEvents]], names: Sequence[str], where: Int64, events: LateEvents) -> None:
    """Add events to those of their places; a place that is new is put in the order in which they come."""
    places, first = np.unique(where, return_index=True)
    for place in places[np.argsort(first)].tolist():
        found.setdefault(names[place], []).append(events[np.flatnonzero(where == place)])


def _by_time(parts: list[LateEvents]) -> LateEvents:
    every = LateEvents(*(np.concatenate([getattr(part, one.name) for part in parts]) for one in fields(LateEvents)))
    return every[np.argsort(every.at_ns, kind="stable")]


def _told(seen: Claimed, where: str, events: LateEvents, comb: Comb) -> FoundEpisode:
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
    return FoundEpisode("periodic", first, last, own, float(len(events.row)), evidence, text)


def _whole_packets(rows: Int64, every: float) -> int | None:
    """How many packets lie between two, if it is always a whole number of times the same."""
    packets = round(every)
    return packets if packets and not (np.diff(rows) % packets).any() else None


def _what(kinds: Counter[str]) -> str:
    named = [OTHERS[name][0] for name in OTHERS if kinds[name]]
    if not named:
        return "a packet was late"
    return f"there was a {' or '.join(named)}" + (" or a late packet" if kinds["single"] else "")
