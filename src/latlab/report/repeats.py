"""How far repetitions of one cell differ: the variance between deployments, next to the variance within one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, log1p
from statistics import median, stdev
from typing import Final

import numpy as np
from numpy.typing import NDArray

from latlab.analysis.buckets import BucketCounts, bucket_range
from latlab.analysis.comparison.effect import over_repetitions
from latlab.analysis.repetitions import Pooled, pooled
from latlab.model.statistics import HEADINGS, PERCENTILES
from latlab.report.charts.sheet import ANY_COLOUR, Look
from latlab.report.rows import StreamRow, Summary
from latlab.report.text import microseconds, whole
from latlab.report.view import ValueTrace, View

# All repetitions of a cell taken together, in words and as a small histogram.


TOGETHER_HEADINGS: Final = ("n", "min", *(HEADINGS[name] for name in PERCENTILES), "max")

TOGETHER_NOTE: Final = (
    "All packets as one sample: the merged buckets are exact to 0.8 % for percentiles, and to the nanosecond for the "
    "smallest and the largest. This describes these packets only; how much deployments differ is seen from the single "
    "repetitions."
)
BINS: Final = 40
HEIGHT: Final = 16
"""Of the histogram, in the units of its picture, of which it is BINS wide."""


@dataclass(frozen=True)
class Together:
    """One configuration's repetitions as one sample.

    figures: as many texts as HEADINGS, µs; a percentile is written as the smallest and the largest value it can be,
    where these differ in the last digit shown. heights: of its histogram's BINS, 0 to HEIGHT, counts on a log scale;
    empty where nothing is drawn of the metric. colour: index into COLOURS; ANY_COLOUR where repetitions have different
    ones.
    """

    name: str
    labels: tuple[str, ...]
    repeats: int
    figures: tuple[str, ...]
    heights: tuple[int, ...]
    colour: int

    @property
    def path(self) -> str:
        """The histogram as an SVG path in a box of BINS × HEIGHT: steps from the left to the right, in whole units."""
        if not self.heights:
            return ""
        steps = (
            f"v{before - height}h1" if before != height else "h1"
            for before, height in zip((0, *self.heights), self.heights, strict=False)
        )
        return f"M0 {HEIGHT}{''.join(steps)}V{HEIGHT}z"


def together(spreads: Sequence[RepeatSpread], strips: Strips | None) -> list[Together]:
    """One for each of these that has buckets."""
    return [
        Together(
            name=one.name,
            labels=one.labels,
            repeats=one.repeats,
            figures=figures(one.together),
            heights=_heights(one.together.buckets, strips),
            colour=_colour(one, strips),
        )
        for one in spreads
        if one.together is not None and one.together.buckets.n
    ]


def _colour(of: RepeatSpread, strips: Strips | None) -> int:
    """That of the repetitions, where they are of one."""
    colours = {strip.look.colour for strip in strips.of.get(of.slug, ())} if strips else set()
    return colours.pop() if len(colours) == 1 else ANY_COLOUR


def figures(of: Pooled) -> tuple[str, ...]:
    """As many texts as HEADINGS: blank where n cannot support a percentile."""
    ends = (microseconds(of.buckets.min_ns), microseconds(of.buckets.max_ns))
    return (whole(of.buckets.n), ends[0], *(_percentile(of.percentile(name)) for name in PERCENTILES), ends[1])


def _percentile(ends: tuple[int, int] | None) -> str:
    return " … ".join(dict.fromkeys(microseconds(ns) for ns in ends)) if ends else ""


def _heights(of: BucketCounts, strips: Strips | None) -> tuple[int, ...]:
    """Along the axis of the strips."""
    if strips is None:
        return ()
    count = _counts(of, strips.edges_ns)
    most = log1p(max(count))
    return tuple(round((HEIGHT - 1) * log1p(one) / most) + (one > 0) if most else 0 for one in count)


def _counts(of: BucketCounts, edges_ns: NDArray[np.int64]) -> list[int]:
    """How many values lie in each of BINS equal parts of the axis, each bucket in that of its middle."""
    middle = np.array([sum(bucket_range(index)) // 2 for index in of.index.tolist()], np.int64)
    place = np.searchsorted(edges_ns, middle, side="right") - 1
    part = np.clip(place * BINS // max(len(edges_ns) - 1, 1), 0, BINS - 1)
    return [int(one) for one in np.bincount(part, weights=of.count, minlength=BINS)]


# How far repetitions of one cell differ: the variance between deployments, next to the variance within one.


FIGURES: Final = ("mean", "p50", "p90", "p99", "max")
"""Of which the mean of the repetitions is shown, with its 95 % interval."""
NOTE: Final = (
    "Each repetition builds a new test bed. A bar spans the middle 90 % of its packets, with the median in it; the "
    "tick beyond it is its maximum."
)
LOW, HIGH = 0.05, 0.95
"""What share of a repetition's packets lies below a strip's two ends."""


@dataclass(frozen=True)
class RepeatSpread:
    """One configuration's repetitions. name: it above what is drawn of it; labels: the same by columns.

    figures: of each of FIGURES, ns, the repetitions' values in ascending order; empty where one has no such value.
    within_ns: the median of the repetitions' standard deviations. between_ns: the standard deviation of their means.
    together: all their packets as one sample; None where nothing of the kind was kept.
    """

    name: str
    labels: tuple[str, ...]
    slug: str
    repeats: int
    figures: Mapping[str, tuple[float, ...]]
    within_ns: float
    between_ns: float
    together: Pooled | None

    def text(self, figure: str) -> str:
        """Return the repetitions' mean and its 95 % interval: "84.5 [81.2, 87.8]", µs; blank if one does not have
        it.
        """
        values = self.figures[figure]
        if not values:
            return ""
        mean, half = over_repetitions(values)
        return f"{microseconds(mean)} [{microseconds(mean - half)}, {microseconds(mean + half)}]"

    @property
    def within(self) -> str:
        """within_ns in µs."""
        return microseconds(self.within_ns)

    @property
    def between(self) -> str:
        """between_ns in µs."""
        return microseconds(self.between_ns)


@dataclass(frozen=True)
class Strip:
    """One repetition drawn as a strip; each is the place of a value on the common axis, 0 to 100."""

    repeat: int
    look: Look
    low: float
    middle: float
    high: float
    largest: float
    told: str


def spreads(table: Summary) -> tuple[RepeatSpread, ...]:
    """Each configuration of the table that has figures of several repetitions, in its order.

    A repetition that did not run to its end is left out: it is no measurement of the same length.
    """
    groups: dict[tuple[str, str], list[StreamRow]] = {}
    for row in table.rows:
        if row.statistics and row.statistics.n and row.status == "ok":
            groups.setdefault((row.slug, row.stream), []).append(row)
    return tuple(_spread(table, rows) for rows in groups.values() if len(rows) > 1)


@dataclass(frozen=True)
class Strips:
    """One metric of one stream drawn: what the axis begins and ends with, in µs, its histogram's edges, and slug → its
    repetitions' strips.
    """

    low: str
    high: str
    kind: str
    edges_ns: NDArray[np.int64]
    of: Mapping[str, tuple[Strip, ...]]

    @property
    def unit(self) -> str:
        """What stands at the axis."""
        return "µs" if self.kind == "linear" else f"µs, {self.kind}"


def drawn(shown: View) -> Strips:
    """The strips of all cells, on the axis of the view."""
    found: dict[str, list[Strip]] = {}
    for trace in shown.traces:
        if len(trace.value_ns):
            found.setdefault(trace.slug, []).append(_strip(shown, trace))
    low, high = microseconds(int(shown.edges_ns[0])), microseconds(int(shown.edges_ns[-1]))
    strips_of = {slug: tuple(strips) for slug, strips in found.items()}
    return Strips(low, high, shown.axis.kind, shown.edges_ns, strips_of)


def _spread(table: Summary, rows: Sequence[StreamRow]) -> RepeatSpread:
    found = [row.statistics for row in rows if row.statistics]
    means = [one.mean or 0.0 for one in found]
    figures = {name: [getattr(one, name) for one in found] for name in FIGURES}
    labels = table.labels(rows[0])
    return RepeatSpread(
        name=", ".join(filter(None, table.dimensions(rows[0]))) or "all",
        labels=labels[:-1] if table.shows_repeat else labels,
        slug=rows[0].slug,
        repeats=len(rows),
        figures={name: () if None in values else tuple(sorted(values)) for name, values in figures.items()},
        within_ns=median(one.stddev or 0 for one in found),
        between_ns=stdev(means),
        together=pooled(found),
    )


def _strip(shown: View, trace: ValueTrace) -> Strip:
    ordered = np.sort(trace.value_ns)
    values = [_nearest_rank(ordered, share) for share in (LOW, 0.5, HIGH, 1.0)]
    evenly = np.linspace(0, 100, len(shown.edges_ns))
    low, middle, high, end = (round(float(place), 2) for place in np.interp(values, shown.edges_ns, evenly))
    p5, p50, p95, largest = map(microseconds, values)
    told = f"repeat {trace.repeat}: p5 {p5}, p50 {p50}, p95 {p95}, max {largest} µs"
    return Strip(trace.repeat, trace.look, low, middle, high, end, told)


def _nearest_rank(ordered: NDArray[np.int64], share: float) -> int:
    """The smallest value that this share of the values does not exceed (Hyndman & Fan, 1996, type 1)."""
    return int(ordered[max(ceil(share * len(ordered)), 1) - 1])
