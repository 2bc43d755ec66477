"""How the cells of one run differ, drawn: for each statistic a row a cell, its difference and interval on one axis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import floor, log10
from statistics import median
from typing import Final

from latlab.analysis.comparison.words import at_least, directions, signed
from latlab.report.comparison.lines import heading
from latlab.report.text import plain
from latlab.result.comparison import Compared

SHOWN: Final = "shown"
NOT_SHOWN: Final = "not-shown"
ALONE: Final = "alone"
"""How a row is drawn: a difference that is shown, one that is not, and one of single deployments."""

_ROOM: Final = 1.15
"""The axis goes so much further than the farthest difference."""


@dataclass(frozen=True)
class Row:
    """One cell against the first: places on the axis, 0 to 100.

    low, high: its 95 % interval by itself; least, most: as wide as all comparisons of its family demand, so that it
    leaves out 0 where a difference is shown. Without an interval they are the point's. cut_low, cut_high: it goes on
    beyond the axis' end. text: the difference in µs, with its own ±.
    """

    name: str
    where: str
    kind: str
    least: float
    low: float
    point: float
    high: float
    most: float
    cut_low: bool
    cut_high: bool
    text: str
    told: str


@dataclass(frozen=True)
class Panel:
    """One statistic. less, more: what a difference to the left and to the right is. ticks: (place, µs)."""

    heading: str
    less: str
    more: str
    ticks: tuple[tuple[float, str], ...]
    rows: tuple[Row, ...]
    zero: float = 50.0
    anchor: str = ""

    @property
    def caption(self) -> str:
        """What is drawn."""
        return f"{self.heading}, difference in µs"

    @property
    def foot(self) -> str:
        """What stands at the axis."""
        return f"{self.less} ← → {self.more}"


def panel(entries: Sequence[Compared], key: str = "") -> Panel | None:
    """The panel of these comparisons of one statistic; None where none has a difference.

    key: the heading of what the cells differ in, which their names need not repeat.
    """
    found = [one for one in entries if not one.is_blank and one.difference_ns is not None]
    if not found:
        return None
    first = found[0]
    more, less = directions(first.metric, first.statistic)
    extent = _extent(found)
    step = _round_number(extent)
    ticks = ((_place(-step, extent), -step), (50.0, 0.0), (_place(step, extent), step))
    return Panel(
        heading(first.statistic),
        less,
        more,
        tuple((place, plain(ns / 1000)) for place, ns in ticks),
        tuple(_row(one, extent, key) for one in found),
    )


def _extent(found: Sequence[Compared]) -> float:
    """How far the axis goes either way, ns: every difference is on it, and half of the intervals are as a whole."""
    differences = [abs(_difference(one)) for one in found]
    ends = [away + half for away, one in zip(differences, found, strict=True) for half in _half(one)]
    return _ROOM * max(*differences, median(ends) if ends else 0.0, 1.0)


def _row(one: Compared, extent: float, key: str) -> Row:
    low, high = _interval(one)
    wider = max(one.smallest_ns - (one.half_ns or 0.0), 0.0) if one.smallest_ns is not None else 0.0
    return Row(
        name=one.b.name.removeprefix(f"{key} "),
        where=one.cell,
        kind=_kind(one),
        least=_place(low - wider, extent),
        low=_place(low, extent),
        point=_place(_difference(one), extent),
        high=_place(high, extent),
        most=_place(high + wider, extent),
        cut_low=low - wider < -extent,
        cut_high=high + wider > extent,
        text=_text(one),
        told=one.told,
    )


def _kind(one: Compared) -> str:
    if one.p_adjusted is None:
        return ALONE
    return SHOWN if one.shown else NOT_SHOWN


def _interval(one: Compared) -> tuple[float, float]:
    """By repetitions; of single deployments by their packets; else the difference itself."""
    if one.low_ns is not None and one.high_ns is not None:
        return one.low_ns, one.high_ns
    return one.within_ns or (_difference(one), _difference(one))


def _difference(one: Compared) -> float:
    """That of a row: what has none is not drawn."""
    return one.difference_ns or 0.0


def _half(one: Compared) -> list[float]:
    """Half the width of the interval, ns; nothing without one."""
    low, high = _interval(one)
    return [] if one.low_ns is None and one.within_ns is None else [(high - low) / 2]


def _text(one: Compared) -> str:
    half = _half(one)
    if not half:
        return signed(_difference(one), _COARSE)
    return f"{signed(_difference(one), half[0])} ± {at_least(half[0])}"


_COARSE: Final = 10_000
"""± ns with which a difference has one digit."""


def _place(ns: float, extent: float) -> float:
    """Where on the axis, 0 to 100: its ends for what is beyond."""
    return round(50 * (1 + max(-1.0, min(1.0, ns / extent))), 2)


def _round_number(extent: float) -> float:
    """The largest of 1, 2 or 5 × 10ⁿ ns that is on the axis with room next to it."""
    power = 10.0 ** floor(log10(extent))
    return max(factor * power for factor in (0.5, 1, 2, 5) if factor * power <= 0.9 * extent)
