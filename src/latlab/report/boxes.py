"""The picture of the page's first screen: all cells on one axis, a row for each of the first table's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

import numpy as np

from latlab.analysis.axis import Axis, common_axis
from latlab.report import rows
from latlab.report.answer import grouped, load, side_by_side
from latlab.report.charts.tail import value_ticks
from latlab.report.text import microseconds
from latlab.result.types import Result

TICKS: Final = 6


@dataclass(frozen=True)
class Box:
    """What one load is drawn as: places on the axis, 0 to 100. tone: the number of the load; told: its text."""

    tone: int
    least: float
    low: float
    high: float
    most: float
    told: str


@dataclass(frozen=True)
class Boxes:
    """The picture. key: the loads in the order of their tones; rows: (name, boxes); ticks: (place, µs)."""

    title: str
    key: Sequence[str]
    rows: Sequence[tuple[str, Sequence[Box]]]
    ticks: Sequence[tuple[float, str]]


@dataclass(frozen=True)
class _Found:
    """A load of a row, ns: the medians of its repetitions' p50 and p99, the smallest and the largest of all."""

    least: float
    p50: float
    p99: float
    most: float

    @property
    def ends(self) -> tuple[float, float, float, float]:
        return self.least, self.p50, self.p99, self.most


def boxes(result: Result, metric: str) -> Boxes | None:
    """The picture of this metric; None: no cell has figures for it."""
    summaries = rows.summaries(result, metric)
    values = side_by_side(summaries)
    _, labels, groups = grouped(summaries, values)
    drawn = [[_found(of.get(value, [])) for value in values or [""]] for of in groups]
    known = [np.array(one.ends, np.int64) for row in drawn for one in row if one]
    if not known:
        return None
    axis = common_axis(known)
    scale = {"linear": "", "log": ", log scale", "asinh": f", {axis.told()}"}[axis.kind]
    return Boxes(
        f"{metric}, µs{scale}",
        [load(value) for value in values or ()],
        [
            (name, list(_boxes(name, row, values or [""], axis)))
            for name, row in zip((", ".join(filter(None, one)) for one in labels), drawn, strict=True)
        ],
        [(round(100 * place, 2), text) for place, text in value_ticks(axis, TICKS)],
    )


def _found(repetitions: Sequence[rows.StreamRow]) -> _Found | None:
    """What is drawn of them; None: there is none, or one has no figures. Without a p99 the bar ends at the maximum."""
    whole: list[tuple[float, float, float, float]] = []
    for row in repetitions:
        one = row.measured
        if one is None or one.min is None or one.p50 is None or one.max is None:
            return None
        whole.append((one.min, one.p50, one.max if one.p99 is None else one.p99, one.max))
    if not whole:
        return None
    least, p50, p99, most = zip(*whole, strict=True)
    return _Found(min(least), median(p50), median(p99), max(most))


def _boxes(name: str, row: Sequence[_Found | None], values: Sequence[str], axis: Axis) -> Iterator[Box]:
    for tone, (one, value) in enumerate(zip(row, values, strict=True)):
        if one:
            least, low, high, most = (round(100 * float(place), 2) for place in axis.places(one.ends))
            figures = zip(("min", "p50", "p99", "max"), one.ends, strict=True)
            told = ", ".join(f"{what} {microseconds(round(ns))}" for what, ns in figures)
            whose = ", ".join(filter(None, (name, load(value) if value else "")))
            yield Box(tone, least, low, high, most, f"{whose}: {told} µs" if whose else f"{told} µs")
