"""Pairs of configurations compared: the main figure's comparisons judged as one family, all others as another."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import hypot
from typing import Final

from latlab.analysis.comparison.configuration import Configuration, Figure, streams_of_both
from latlab.analysis.comparison.effect import ALPHA, Effect, paired, unpaired

# Many comparisons in one answer: p values adjusted so that all of it is wrong as seldom as one of them.


def holm(p: Sequence[float]) -> list[float]:
    """Each p value adjusted for the whole family, in the same order.

    Calling different what has an adjusted p ≤ α calls anything different that is not with probability α at most,
    however the comparisons hang together (Holm, Scandinavian Journal of Statistics 6, 1979, pp. 65-70).
    """
    adjusted = [0.0] * len(p)
    largest = 0.0
    for rank, place in enumerate(sorted(range(len(p)), key=p.__getitem__)):
        largest = max(largest, min(1.0, (len(p) - rank) * p[place]))
        adjusted[place] = largest
    return adjusted


def level_to_show(adjusted: Sequence[float], alpha: float) -> float:
    """The largest p with which one more of the comparisons would have been shown, the others as they are.

    adjusted: Holm's, of the family. Of m comparisons with r shown it is α / (m − r), the step at which Holm's
    procedure stopped; α where all are shown.
    """
    shown = sum(one <= alpha for one in adjusted)
    return alpha / max(1, len(adjusted) - shown)


# What one deployment of each side can say: by how much these two differ, beyond what chance does to their packets.


Interval = tuple[float, float]


def within(a: float, of_a: Interval, b: float, of_b: Interval) -> Interval:
    """The 95 % interval of b − a, in the figures' unit, from each one's own 95 % interval.

    of_a, of_b: by the packets of one deployment each. It says how far these two deployments were apart while they
    ran, and nothing of how far the next two will be. Source: Zou & Donner, *Statistics in Medicine* 27, 2008,
    1693-1702 (MOVER): each end takes its variance from the ends that lie towards it.
    """
    (low_a, high_a), (low_b, high_b) = of_a, of_b
    difference = b - a
    return difference - hypot(b - low_b, high_a - a), difference + hypot(high_b - b, a - low_a)


# Pairs of configurations compared: the main figure's comparisons judged as one family, all others as another.


SPREADS: Final = ("stddev", "pk_pk")
STATISTICS: Final = ("p50", "p99_9", "max", "stddev")
"""What is compared unless something else is asked for. Each more makes every other one harder to show."""

NO_FIGURE: Final = "neither side has this figure: too few packets or missing timestamps"
ONE_SIDE: Final = "only one side has this figure"
NOT_KEPT: Final = "the other program does not print this figure"
ONE_REPETITION: Final = "one repetition: the spread of repetitions is unknown"
NO_COMMON: Final = "fewer than two repetitions in common: the spread of repetitions is unknown"
TIMESTAMPS: Final = "the timestamps differ"
LABELS: Final = "the labels differ"
LAUNCHES: Final = (
    "etf sends its delta before the launch time on one side, so the two count from different instants; stddev, pk-pk "
    "and arrival_offset compare"
)

Pair = tuple[Configuration, Configuration]


@dataclass(frozen=True)
class Difference:
    """One statistic of one metric of one stream, of configuration b held against configuration a.

    stream, stream_b: its name in a, and in b, where it may be another one (`streams_of_both`).
    blocked: a and b are of one run, and compared repetition by repetition. of_a, of_b: {repeat: figure} of the
    repetitions that count. effect: None where there is nothing to subtract. why_not: why nothing can be shown, one
    of the reasons above; with an effect that is then a mere difference. main: whether it is one of the main figure.
    family: how many comparisons were judged together. p_adjusted: Holm's. shown: whether a difference is.
    smallest_ns: the smallest one that would have been.
    within_ns: of one repetition a side, the 95 % interval of their difference by their packets alone, the clocks' ±
    included.
    """

    a: Configuration
    b: Configuration
    stream: str
    stream_b: str
    metric: str
    statistic: str
    blocked: bool
    of_a: Mapping[int, Figure]
    of_b: Mapping[int, Figure]
    effect: Effect | None = None
    why_not: str | None = None
    main: bool = False
    family: int = 0
    p_adjusted: float | None = None
    shown: bool = False
    smallest_ns: float | None = None
    within_ns: Interval | None = None

    @property
    def title(self) -> str:
        """The stream's name; both, "native, guest", where they differ."""
        return ", ".join(dict.fromkeys((self.stream, self.stream_b)))

    @property
    def ends(self) -> tuple[tuple[tuple[str, str], ...], tuple[tuple[str, str], ...]]:
        """The (from, to) timestamps of a's metric and of b's, as `Configuration.ends`."""
        return self.a.ends(self.stream, self.metric), self.b.ends(self.stream_b, self.metric)

    @property
    def blank(self) -> bool:
        """Whether neither side has the figure."""
        return not self.of_a and not self.of_b

    @property
    def paired(self) -> bool:
        """Whether each repetition of b is subtracted from the same repetition of a."""
        return self.blocked and self.of_a.keys() == self.of_b.keys()


def compared(
    pairs: Iterable[Pair],
    figures: Sequence[tuple[str, str]],
    streams: Collection[str] = (),
    *,
    main: tuple[str, str] | None = None,
) -> list[Difference]:
    """Every pair's comparisons: of each stream of both (`streams_of_both`), each of these figures (metric, statistic).

    streams: only these, if there are any, by either name. main: the figure that the question is about. Its comparisons
    are one family, all others another: p values are adjusted by their number, so that what else is looked at does not
    make the answer harder to show. A metric that neither side has is left out.
    """
    found = [
        replace(_one(pair, names, metric, statistic), main=(metric, statistic) == main)
        for pair in pairs
        for names in streams_of_both(*pair)
        if not streams or any(name in streams for name in names)
        for metric, statistic in figures
        if any(one.ends(name, metric) for one, name in zip(pair, names, strict=True))
    ]
    families = {main: iter(_judged([one for one in found if one.main is main])) for main in (True, False)}
    return [next(families[one.main]) for one in found]


def _judged(found: Sequence[Difference]) -> Iterator[Difference]:
    p = {place: one.effect.p for place, one in enumerate(found) if one.effect and one.why_not is None}
    family = {place: value for place, value in p.items() if value is not None}
    adjusted = dict(zip(family, holm(list(family.values())), strict=True))
    level = level_to_show(list(adjusted.values()), ALPHA)
    for place, one in enumerate(found):
        if place in adjusted and one.effect:
            value = adjusted[place]
            smallest = one.effect.half(level)
            yield replace(one, family=len(adjusted), p_adjusted=value, shown=value <= ALPHA, smallest_ns=smallest)
        else:
            yield one


def _one(pair: Pair, names: tuple[str, str], metric: str, statistic: str) -> Difference:
    a, b = pair
    blocked = a.run == b.run
    of_a, of_b = (one.figures(name, metric, statistic) for one, name in zip(pair, names, strict=True))
    if blocked and len(of_a.keys() & of_b.keys()) > 1:
        # Blocks with one side only contribute nothing to the difference.
        of_a, of_b = ({n: value for n, value in of.items() if n in of_a and n in of_b} for of in (of_a, of_b))
    found = Difference(a, b, *names, metric, statistic, blocked, of_a, of_b)
    why_not = _why_not(found)
    if not of_a or not of_b or why_not in (LABELS, TIMESTAMPS, LAUNCHES):
        return replace(found, why_not=why_not)
    bounds = tuple(one.clocks_ns(name, metric, of) for one, name, of in zip(pair, names, (of_a, of_b), strict=True))
    clocks = sum(bound for bound in bounds if bound is not None) if None not in bounds else None
    subtract = paired if found.paired else unpaired
    effect = subtract(list(of_a.values()), list(of_b.values()), clocks)
    return replace(found, effect=effect, why_not=why_not, within_ns=_within(found, clocks))


def _within(one: Difference, clocks: int | None) -> Interval | None:
    if len(one.of_a) > 1 or len(one.of_b) > 1:
        return None
    ((repeat_a, a),), ((repeat_b, b),) = one.of_a.items(), one.of_b.items()
    of_a = one.a.interval(repeat_a, one.stream, one.metric, one.statistic)
    of_b = one.b.interval(repeat_b, one.stream_b, one.metric, one.statistic)
    if of_a is None or of_b is None:
        return None
    low, high = within(a, of_a, b, of_b)
    return low - (clocks or 0), high + (clocks or 0)


def _why_not(one: Difference) -> str | None:
    ends = one.ends
    if len({*one.a.labels, *one.b.labels}) > 1:
        return LABELS
    if all(ends) and len({*ends[0], *ends[1]}) > 1:
        return TIMESTAMPS
    early = one.a.early_ns(one.stream, one.metric) | one.b.early_ns(one.stream_b, one.metric)
    if one.statistic not in SPREADS and len(early) > 1:
        return LAUNCHES
    if not one.of_a or not one.of_b:
        return _why_blank(one)
    if min(len(one.of_a), len(one.of_b)) == 1:
        return ONE_REPETITION
    if one.blocked and one.of_a.keys() != one.of_b.keys():
        return NO_COMMON
    return None


def _why_blank(one: Difference) -> str:
    both = ((one.a, one.stream, one.of_a), (one.b, one.stream_b, one.of_b))
    sides = [(side, stream) for side, stream, of in both if not of]
    if any(side.ends(stream, one.metric) and not side.has_packets(stream, one.metric) for side, stream in sides):
        return NOT_KEPT
    return NO_FIGURE if len(sides) == 2 else ONE_SIDE
