"""All repetitions of a cell taken together, in words and as a small histogram."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log1p
from typing import Final

import numpy as np
from numpy.typing import NDArray

from latlab.analysis.buckets import Buckets, bucket_range
from latlab.analysis.repetitions import Pooled
from latlab.analysis.statistics import PERCENTILES
from latlab.report.palette import ANY_COLOUR
from latlab.report.repeats import Spread, Strips
from latlab.report.text import microseconds, whole

HEADINGS: Final = ("n", "min", *(name.replace("_", ".") for name in PERCENTILES), "max")

NOTE: Final = (
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


def together(spreads: Sequence[Spread], strips: Strips | None) -> list[Together]:
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


def _colour(of: Spread, strips: Strips | None) -> int:
    """That of the repetitions, where they are of one."""
    colours = {strip.look.colour for strip in strips.of.get(of.slug, ())} if strips else set()
    return colours.pop() if len(colours) == 1 else ANY_COLOUR


def figures(of: Pooled) -> tuple[str, ...]:
    """As many texts as HEADINGS: blank where n cannot support a percentile."""
    ends = (microseconds(of.buckets.min_ns), microseconds(of.buckets.max_ns))
    return (whole(of.buckets.n), ends[0], *(_percentile(of.percentile(name)) for name in PERCENTILES), ends[1])


def _percentile(ends: tuple[int, int] | None) -> str:
    return " … ".join(dict.fromkeys(microseconds(ns) for ns in ends)) if ends else ""


def _heights(of: Buckets, strips: Strips | None) -> tuple[int, ...]:
    """Along the axis of the strips."""
    if strips is None:
        return ()
    count = _counts(of, strips.edges_ns)
    most = log1p(max(count))
    return tuple(round((HEIGHT - 1) * log1p(one) / most) + (one > 0) if most else 0 for one in count)


def _counts(of: Buckets, edges_ns: NDArray[np.int64]) -> list[int]:
    """How many values lie in each of BINS equal parts of the axis, each bucket in that of its middle."""
    middle = np.array([sum(bucket_range(index)) // 2 for index in of.index.tolist()], np.int64)
    place = np.searchsorted(edges_ns, middle, side="right") - 1
    part = np.clip(place * BINS // max(len(edges_ns) - 1, 1), 0, BINS - 1)
    return [int(one) for one in np.bincount(part, weights=of.count, minlength=BINS)]
