"""Where the time went: a metric's values as intervals between timestamps, of usual packets, late ones, the latest."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from math import ceil
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from latlab.analysis.metrics import Values
from latlab.analysis.statistics import ranked
from latlab.analysis.way import HARDWARE_WAY, WAKEUP_WAY, Split, clocks_between, split
from latlab.model.metrics import METRICS, PROBE_METRICS, TIMER_METRICS
from latlab.model.statistics import smallest_n
from latlab.result.types import Chain, Growth, StagesOfGroup, StagesOfPacket, WorstStages

_STOPS: Final = frozenset((*HARDWARE_WAY, *WAKEUP_WAY))

CHAINED: Final = tuple(
    metric.name
    for metric in (*METRICS, *TIMER_METRICS)
    if not metric.periodic and all(_STOPS.issuperset(pair) for pair in metric.pairs)
)
"""The metrics whose values are intervals of a packet's own way."""

CHAINED_TRIPS: Final = tuple(metric.name for metric in PROBE_METRICS)
"""The same of a question and its answer."""

WORST: Final = 100
WORST_TOLD: Final = 10
"""Of the worst packets that a chain counts, so many stand in the result one by one."""

_USUAL: Final = (Fraction(40, 100), Fraction(60, 100))
_MEDIAN: Final = Fraction(50, 100)
_P99: Final = Fraction(99, 100)
_P99_9: Final = Fraction(999, 1000)

_PIECE: Final = 1 << 17

Places = slice | NDArray[np.intp]


@dataclass(frozen=True)
class Ways:
    """n values, each the end of a way: of what, between which stops, and how any of them splits.

    sequence: uint64 [n]; value_ns: int64 [n]. split_at: the intervals of the values at these places; each row adds up
    to its value.
    """

    metric: str
    from_: str
    to: str
    sequence: NDArray[np.uint64]
    value_ns: NDArray[np.int64]
    split_at: Callable[[Places], Split]


@dataclass(frozen=True)
class _Group:
    """The packets with values in [least_ns, below_ns); without an end where below_ns is None."""

    name: str
    least_ns: int
    below_ns: int | None

    def holds(self, value_ns: NDArray[np.int64]) -> NDArray[np.bool_]:
        above = value_ns >= self.least_ns
        return above if self.below_ns is None else above & (value_ns < self.below_ns)


@dataclass
class _Sums:
    """Packets counted, and their intervals added up: exact integers."""

    packets: int = 0
    interval_ns: list[int] = field(default_factory=list)

    def add(self, interval_ns: NDArray[np.int64]) -> None:
        """interval_ns: int64 [m, n]. The halves are summed apart, where they cannot overflow."""
        high, low = (interval_ns >> 32).sum(axis=1).tolist(), (interval_ns & 0xFFFFFFFF).sum(axis=1).tolist()
        self.packets += interval_ns.shape[1]
        self.interval_ns = _added(self.interval_ns or None, [(a << 32) + b for a, b in zip(high, low, strict=True)])

    def means_ns(self, columns: Sequence[int]) -> list[int]:
        """The mean of these intervals, in whole ns that add up: what is rounded is the mean instant of each stop."""
        at_ns, total = [0], 0
        for column in columns:
            total += self.interval_ns[column]
            at_ns.append((2 * total + self.packets) // (2 * self.packets))
        return [end - start for start, end in pairwise(at_ns)]


def chain_of_metric(rows: pl.DataFrame, values: Values, worst: int = WORST, listed: int | None = None) -> Chain | None:
    """Where the time of a metric of one stream went; None without values:
    docs/explanation/where-the-time-went.md.

    rows: the stream's rows of the packet table, or a probe's round trips, one for each sequence, from 0. values: of a
    metric in `CHAINED`, or `CHAINED_TRIPS`, from these rows. worst: how many of the latest are looked at one by one.
    listed: how many of these are in the chain itself; None: all.
    """
    from_, to = values.from_, values.to
    ways = Ways(
        metric=values.metric.name,
        from_=from_,
        to=to,
        sequence=values.sequence,
        value_ns=values.value_ns,
        split_at=lambda places: split(rows, values.sequence[places], from_, to),
    )
    return chain_of(ways, worst, listed)


def chain_of(ways: Ways, worst: int = WORST, listed: int | None = None) -> Chain | None:
    """Where the time of these values went, as `chain_of_metric` computes it; None without any.

    `clocks` are those of the packet table's timestamps.
    """
    n = len(ways.value_ns)
    if n == 0:
        return None
    groups, median_ns, latest_ns = _groups(ways.value_ns, worst)
    stops, sums, below_zero = _pass(ways, groups)
    counted = {pattern: found.packets for (name, pattern), found in sums.items() if name == ""}
    # Of several equally common ones, the one with more timestamps.
    common = max(counted, key=lambda pattern: (counted[pattern], pattern.bit_count(), pattern))
    shown, columns = _way(stops, common)
    means = [_of_group(group, sums, common, columns) for group in groups]
    means = [one for one in means if one.packets]
    typical = next((one.ns for one in means if one.name == "typical" and one.split), None)
    of_median = None if median_ns is None else np.flatnonzero(ways.value_ns == median_ns)[:1]
    latest = _latest(ways.value_ns, latest_ns, worst)
    usual_ns = None if typical is None else dict(zip(shown, np.cumsum([0, *typical]).tolist(), strict=True))
    return Chain(
        metric=ways.metric,
        from_=ways.from_,
        to=ways.to,
        packets=n,
        stops=list(shown),
        clocks=[clocks_between(*ends) for ends in pairwise(shown)],
        split=counted[common],
        below_zero=[below_zero[common][column] for column in columns],
        groups=means,
        median=None if of_median is None else next(_packets(ways, of_median, shown)),
        worst=_worst(list(_packets(ways, latest, shown)), shown, usual_ns, listed),
    )


def _groups(value_ns: NDArray[np.int64], worst: int) -> tuple[list[_Group], int | None, int]:
    """The groups that n values support, the median, and the least of the `worst` largest values, ns."""
    n = len(value_ns)
    known = [p for p in (*_USUAL, _MEDIAN, _P99, _P99_9) if n >= smallest_n(p)]
    ranks = {p: ceil(p * n) - 1 for p in known}
    last = n - min(worst, n)
    ordered = ranked(value_ns, (*ranks.values(), min(last, n - 1)))
    at_ns = {p: int(ordered[rank]) for p, rank in ranks.items()}
    groups = []
    if all(p in at_ns for p in _USUAL):
        groups.append(_Group("typical", at_ns[_USUAL[0]], at_ns[_USUAL[1]] + 1))
    if _P99 in at_ns:
        groups.append(_Group("p99", at_ns[_P99], at_ns.get(_P99_9)))
    if _P99_9 in at_ns:
        groups.append(_Group("p99_9", at_ns[_P99_9], None))
    return groups, at_ns.get(_MEDIAN), int(ordered[min(last, n - 1)])


def _pass(
    ways: Ways, groups: Sequence[_Group]
) -> tuple[tuple[str, ...], Mapping[tuple[str, int], _Sums], Mapping[int, list[int]]]:
    """The way's stops; (group, pattern of stops passed) → sums, group "" being all packets, only counted; and pattern →
    how many packets have each interval below zero.
    """
    sums: dict[tuple[str, int], _Sums] = defaultdict(_Sums)
    below_zero: dict[int, list[int]] = {}
    stops: tuple[str, ...] = ()
    for start in range(0, len(ways.value_ns), _PIECE):
        piece = slice(start, start + _PIECE)
        value_ns = ways.value_ns[piece]
        found = ways.split_at(piece)
        stops = found.stops
        patterns = found.patterns()
        inside = [(group, group.holds(value_ns)) for group in groups]
        # A row an interval: what is picked out of it lies side by side.
        interval_ns = found.interval_ns.T
        negative = interval_ns < 0
        for pattern in np.flatnonzero(np.bincount(patterns)).tolist():
            alike = patterns == pattern
            places = np.flatnonzero(alike)
            sums["", pattern].packets += len(places)
            of_pattern = negative if len(places) == len(patterns) else negative.take(places, axis=1)
            counts = np.count_nonzero(of_pattern, axis=1).tolist()
            below_zero[pattern] = _added(below_zero.get(pattern), counts)
            for group, held in inside:
                sums[group.name, pattern].add(interval_ns.take(np.flatnonzero(held & alike), axis=1))
    return stops, sums, below_zero


def _added(total: list[int] | None, more: list[int]) -> list[int]:
    return more if total is None else [a + b for a, b in zip(total, more, strict=True)]


def _of_group(
    group: _Group, sums: Mapping[tuple[str, int], _Sums], common: int, columns: Sequence[int]
) -> StagesOfGroup:
    """A group's packets, and the mean intervals of those that passed the common stops and no others."""
    packets = sum(found.packets for (name, _), found in sums.items() if name == group.name)
    like = sums.get((group.name, common), _Sums())
    ns = like.means_ns(columns) if like.packets else None
    return StagesOfGroup(
        name=group.name,
        least_ns=group.least_ns,
        below_ns=group.below_ns,
        packets=packets,
        split=like.packets,
        value_ns=None if ns is None else sum(ns),
        ns=None if ns is None else [*ns],
    )


def _latest(value_ns: NDArray[np.int64], least_ns: int, worst: int) -> NDArray[np.intp]:
    """Places of the `worst` largest values, largest first; of equal ones those of the first packets."""
    above = np.flatnonzero(value_ns > least_ns)
    equal = np.flatnonzero(value_ns == least_ns)[: max(worst - len(above), 0)]
    found = np.concatenate((above, equal))
    order: NDArray[np.intp] = found[np.argsort(-value_ns[found], kind="stable")]
    return order


def _packets(ways: Ways, places: NDArray[np.intp], shown: tuple[str, ...]) -> Iterator[StagesOfPacket]:
    """Each packet with its intervals; `stops` only where they are not those shown."""
    found = ways.split_at(places)
    sequence, patterns = ways.sequence[places].tolist(), found.patterns()
    way_of = {pattern: _way(found.stops, pattern) for pattern in np.unique(patterns).tolist()}
    for number, pattern, row in zip(sequence, patterns.tolist(), found.interval_ns.tolist(), strict=True):
        stops, columns = way_of[pattern]
        ns = [row[column] for column in columns]
        one = StagesOfPacket(sequence=number, value_ns=sum(ns), ns=ns)
        yield one if stops == shown else one.model_copy(update={"stops": list(stops)})


def _way(stops: tuple[str, ...], pattern: int) -> tuple[tuple[str, ...], list[int]]:
    """The stops that a pattern has passed, and the columns of the intervals between them."""
    places = [place for place in range(len(stops)) if pattern >> place & 1]
    return tuple(stops[place] for place in places), [place - 1 for place in places[1:]]


def _worst(
    packets: Sequence[StagesOfPacket],
    shown: tuple[str, ...],
    usual_ns: Mapping[str, int] | None,
    listed: int | None,
) -> WorstStages:
    """The latest packets, each with the interval that made it late, and how many each interval made.

    listed: so many of them are in `each`; None: all.
    usual_ns: stop → when the typical packet passes it, ns after the start; None: there is no typical one.
    """
    grown = [None] * len(packets) if usual_ns is None else _grown(packets, shown, usual_ns)
    each = [packet.model_copy(update={"grew": grew}) for packet, grew in zip(packets, grown, strict=True)]
    late = [one.grew for one in each if one.grew]
    most = Counter((one[0].from_, one[0].to) for one in late)
    lasting: Counter[tuple[str, str]] = Counter()
    for one in late:
        lasting.update({(part.from_, part.to): part.ns or 0 for part in one})
    together = lasting.total()
    return WorstStages(
        packets=len(each),
        late=len(late),
        grew=[
            Growth(from_=start, to=end, packets=most[start, end], share=ns / together)
            for (start, end), ns in sorted(lasting.items(), key=lambda item: (-most[item[0]], -item[1]))
        ],
        each=each[:listed],
    )


def _grown(
    packets: Sequence[StagesOfPacket], shown: tuple[str, ...], usual_ns: Mapping[str, int]
) -> list[list[Growth]]:
    """What made each packet later than the typical one, the most first; empty for one that is not.

    They are compared between the stops that both have, so neither is given a timestamp that it does not have.
    """
    alike: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for place, packet in enumerate(packets):
        alike[tuple(packet.stops or shown)].append(place)
    found: list[list[Growth]] = [[] for _ in packets]
    # Those of one way together: calls for each of a hundred packets would take as long as the whole rest.
    for stops, places in alike.items():
        both = [name for name in stops if name in usual_ns]
        at_ns = np.zeros((len(places), len(stops)), np.int64)
        np.cumsum([packets[place].ns for place in places], axis=1, out=at_ns[:, 1:])
        interval_ns = np.diff(at_ns[:, [stops.index(name) for name in both]], axis=1)
        lasting_ns = lasting_growth(interval_ns, np.diff([usual_ns[name] for name in both]))
        for place, row in zip(places, lasting_ns.tolist(), strict=True):
            found[place] = _parts(both, row)
    return found


def _parts(stops: Sequence[str], lasting_ns: Sequence[int]) -> list[Growth]:
    """The intervals between these stops that grew, the most first, each with its share of all."""
    together = sum(lasting_ns)
    parts = [
        Growth(from_=start, to=end, ns=ns, share=ns / together)
        for (start, end), ns in zip(pairwise(stops), lasting_ns, strict=True)
        if ns
    ]
    return sorted(parts, key=lambda part: -(part.ns or 0))


# Which interval made a packet late: what each one added that no later one took back.


def lasting_growth(interval_ns: NDArray[np.int64], usual_ns: NDArray[np.int64]) -> NDArray[np.int64]:
    """By how many ns each interval made the packet late permanently, int64 [..., m], of int64 [..., m] and [m].

    Along the way a packet is late by L_j = Σ (interval − usual) up to interval j, L_0 = 0. Lateness that is made up
    again is no cause: a thread that wakes late within its lead makes the qdisc wait less, and the packet leaves in
    time. What lasts after j is the least lateness from there on, M_j = max(0, min over i ≥ j of L_i), and what
    interval j added to it is M_j − M_{j−1}. So no figure is below zero or above its interval's growth, and together
    they are the packet's whole lateness L_m, exactly; all are 0 where that is not above zero.
    """
    late_ns = np.cumsum(interval_ns - usual_ns, axis=-1)
    least_ns = np.minimum.accumulate(late_ns[..., ::-1], axis=-1)[..., ::-1]
    lasting_ns = np.maximum(least_ns, 0)
    found: NDArray[np.int64] = np.diff(lasting_ns, axis=-1, prepend=np.int64(0))
    return found
