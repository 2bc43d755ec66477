"""How far repetitions of one cell differ: the variance between deployments, next to the variance within one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from statistics import fmean, median, pstdev
from typing import Final

import numpy as np
from numpy.typing import NDArray

from latlab.analysis.comparison.effect import over_repetitions
from latlab.analysis.repetitions import Pooled, pooled
from latlab.report.palette import Look
from latlab.report.rows import Row, Summary
from latlab.report.text import microseconds
from latlab.report.view import Trace, View

FIGURES: Final = ("mean", "p50", "p90", "p99", "max")
"""Of which the mean of the repetitions is shown, with its 95 % interval."""
NOTE: Final = (
    "Each repetition builds a new test bed. A bar spans the middle 90 % of its packets, with the median in it; the "
    "tick beyond it is its maximum."
)
LOW, HIGH = 0.05, 0.95
"""What share of a repetition's packets lies below a strip's two ends."""


@dataclass(frozen=True)
class Spread:
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


def spreads(table: Summary) -> tuple[Spread, ...]:
    """Each configuration of the table that has figures of several repetitions, in its order.

    A repetition that did not run to its end is left out: it is no measurement of the same length.
    """
    groups: dict[tuple[str, str], list[Row]] = {}
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


def _spread(table: Summary, rows: Sequence[Row]) -> Spread:
    found = [row.statistics for row in rows if row.statistics]
    means = [one.mean or 0.0 for one in found]
    figures = {name: [getattr(one, name) for one in found] for name in FIGURES}
    labels = table.labels(rows[0])
    return Spread(
        name=", ".join(filter(None, table.dimensions(rows[0]))) or "all",
        labels=labels[:-1] if table.shows_repeat else labels,
        slug=rows[0].slug,
        repeats=len(rows),
        figures={name: () if None in values else tuple(sorted(values)) for name, values in figures.items()},
        within_ns=median(one.stddev or 0 for one in found),
        between_ns=pstdev(means, fmean(means)),
        together=pooled(found),
    )


def _strip(shown: View, trace: Trace) -> Strip:
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
