"""How the cells of one run differ, drawn: for each statistic a row a cell, its difference and interval on one axis."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import floor, log10
from statistics import median
from typing import Final

from latlab.analysis.comparison.compare import STATISTICS
from latlab.analysis.comparison.words import at_least, directions, signed
from latlab.model.statistics import HEADINGS
from latlab.model.units import MICROSECOND_NS
from latlab.report.charts import sheet as on
from latlab.report.charts.sheet import COLOURS, Drawing, Sheet
from latlab.report.comparison.lines import Block, blocks, summary
from latlab.report.text import plain
from latlab.result.comparison import Compared, Comparison
from latlab.result.places import short_headings
from latlab.result.types import Result

SHOWN: Final = "shown"
NOT_SHOWN: Final = "not-shown"
ALONE: Final = "alone"
"""How a row is drawn: a difference that is shown, one that is not, and one of single deployments."""

_ROOM: Final = 1.15
"""The axis goes so much further than the farthest difference."""


@dataclass(frozen=True)
class ComparedCell:
    """One cell against the first: places on the axis, 0 to 100.

    low, high: its 95 % interval alone; least, most: as wide as all comparisons of its family demand, so that it
    leaves out 0 where a difference is shown. Without an interval they are the point's. cut_low, cut_high: it extends
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
class ComparisonPanel:
    """One statistic. less, more: what a difference to the left and to the right is. ticks: (place, µs)."""

    heading: str
    less: str
    more: str
    ticks: tuple[tuple[float, str], ...]
    rows: tuple[ComparedCell, ...]


def panel(entries: Sequence[Compared], key: str = "") -> ComparisonPanel | None:
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
    return ComparisonPanel(
        HEADINGS[first.statistic],
        less,
        more,
        tuple((place, plain(ns / MICROSECOND_NS)) for place, ns in ticks),
        tuple(_row(one, extent, key) for one in found),
    )


def _extent(found: Sequence[Compared]) -> float:
    """How far the axis goes either way, ns: every difference is on it, and half of the intervals are as a whole."""
    differences = [abs(_difference(one)) for one in found]
    ends = [away + half for away, one in zip(differences, found, strict=True) for half in _half(one)]
    return _ROOM * max(*differences, median(ends) if ends else 0.0, 1.0)


def _row(one: Compared, extent: float, key: str) -> ComparedCell:
    low, high = _interval(one)
    wider = max(one.smallest_ns - (one.half_ns or 0.0), 0.0) if one.smallest_ns is not None else 0.0
    return ComparedCell(
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


# As a chart

_BETWEEN_IN: Final = 0.4
_NAME: Final = 0.34
"""Of a panel's width: the names of its rows."""
_TEXT_IN: Final = 1.1
_KEY: Final = (
    "Difference in µs between deployments. Filled: shown. Thick: 95 % interval of one comparison; thin: as wide as the "
    "number of comparisons requires. Dashed: from the packets of single deployments. Triangle: the line continues."
)


def comparison_chart(
    stream: str,
    metric: str,
    summary: str,
    groups: Sequence[tuple[str, Sequence[ComparisonPanel]]],
    notes: Sequence[str],
) -> Drawing:
    """All of one stream and metric. groups: (title, panels)."""
    said = tuple(f"{text[:1].upper()}{text[1:]}." for text in notes)
    title = f"{stream}: how {metric} differs"
    return Drawing(f"{stream}-{metric}-comparison", title, partial(_groups, groups), (f"{summary}.", _KEY), said)


def group_chart(panels: Sequence[ComparisonPanel]) -> Drawing:
    """The panels of one group alone."""
    return Drawing("comparison", "Differences, µs", partial(_groups, [("", panels)]))


def _groups(groups: Sequence[tuple[str, Sequence[ComparisonPanel]]], width_in: float) -> Iterator[Sheet]:
    columns = 2 if width_in >= on.BESIDE_IN else 1
    each_in = (width_in - 2 * on.SIDE_IN - (columns - 1) * _BETWEEN_IN) / columns
    for title, panels in groups:
        if title:
            sheet = Sheet(width_in)
            sheet.height_in = sheet.paragraph(on.SIDE_IN, 0.1, title, size=on.TITLE_PT, weight="bold") + 0.05
            yield sheet
        for first in range(0, len(panels), columns):
            row = panels[first : first + columns]
            told = "; ".join(f"{one.heading}: {', '.join(each.told for each in one.rows)}" for one in row)
            sheet = Sheet(width_in, told=told)
            ends = [
                _panel(sheet, one, on.SIDE_IN + number * (each_in + _BETWEEN_IN), each_in)
                for number, one in enumerate(row)
            ]
            sheet.height_in = max(ends) + 0.12
            yield sheet


def _panel(sheet: Sheet, one: ComparisonPanel, left: float, width_in: float) -> float:
    """Draw the panel; where it ends."""
    name_in = _NAME * width_in
    from_, width = left + name_in + 0.1, width_in - name_in - _TEXT_IN - 0.2
    sheet.text(left, 0.02, f"{one.heading}, difference in µs", va="top")

    def at(place: float) -> float:
        return from_ + width * place / 100

    names = [on.wrapped(" ".join(filter(None, (row.name, row.where))), name_in, on.SMALL_PT) for row in one.rows]
    top = 0.26
    bottom = top + sum(on.LINE_IN * len(lines) + 0.05 for lines in names)
    sheet.lines([[(at(place), top - 0.03), (at(place), bottom)] for place, _ in one.ticks], on.GRID, 0.6)
    sheet.lines([[(at(50), top - 0.03), (at(50), bottom)]], on.EDGE, 0.8)
    for row, lines in zip(one.rows, names, strict=True):
        weight = "bold" if row.kind == SHOWN else "normal"
        sheet.text(left + width_in, top, row.text, size=on.SMALL_PT, weight=weight, ha="right", va="top")
        with sheet.about(row.told):
            _draw_interval(
                sheet, row, [at(each) for each in (row.least, row.low, row.point, row.high, row.most)], top + 0.07
            )
        for line in lines:
            sheet.text(left, top, line, size=on.SMALL_PT, va="top")
            top += on.LINE_IN
        top += 0.05
    for place, text in one.ticks:
        sheet.text(at(place), bottom + 0.04, text, size=on.SMALL_PT, colour=on.QUIET, ha="center", va="top")
    foot = f"{one.less} ← → {one.more}"
    sheet.text(at(50), bottom + 0.2, foot, size=on.SMALL_PT, colour=on.QUIET, ha="center", va="top")
    return bottom + 0.36


def _draw_interval(sheet: Sheet, row: ComparedCell, places: Sequence[float], y: float) -> None:
    colour = COLOURS[0] if row.kind == SHOWN else on.QUIET
    least, low, point, high, most = places
    alone = row.kind == ALONE
    sheet.lines([[(least, y), (most, y)]], colour, 0.9, name="wider")
    sheet.lines([[(low, y), (high, y)]], colour, 1.6 if alone else 3.0, dash=(3, 2) if alone else (), name="interval")
    sheet.marks([(least, y)] if row.cut_low else (), "<", 4, colour, name="beyond")
    sheet.marks([(most, y)] if row.cut_high else (), ">", 4, colour, name="beyond")
    sheet.marks([(point, y)], "o", 5.5, colour, inside="" if row.kind == SHOWN else on.PAPER, name=row.kind)


# Of a result


TITLE: Final = "Comparison of cells"

NOTE: Final = (
    "A deployment is one observation, regardless of its number of packets: each repetition gives one figure, and these "
    "figures are compared. A filled point is a difference that is shown. The thick line is the 95 % interval of this "
    "comparison alone. The thin line is as wide as the number of comparisons requires: it excludes 0 if a difference "
    "is shown. A dashed line uses the packets of single deployments. An arrow marks a line that continues beyond the "
    "axis."
)
FAMILY: Final = (
    "Holm's procedure judges all comparisons of this page together, of every metric and statistic. It also judges "
    "together all comparisons of one latlab compare command: --by KEY compares the same metrics for every two cells "
    "that differ in that key. With fewer comparisons (--metric, --statistic) smaller differences are shown."
)
_SINGLY: Final = 3
"""Up to so many comparisons that one reason rules out are each listed."""


@dataclass(frozen=True)
class StreamByKey:
    """One stream's cells by one matrix key. title: "control, by bridge: each against tap"; panels: one a statistic;
    blocks: one for each two cells, whose `lines` are sentences and whose `rows` are figures.
    """

    stream: str
    title: str
    panels: tuple[ComparisonPanel, ...]
    blocks: tuple[Block, ...]

    @property
    def lines(self) -> Iterator[str]:
        """What is shown of each two cells: "loads none, bridge xdp: …"; in one line for each reason, of how many none
        can be, where these are many.
        """
        lacking = Counter(one.why_not for one in self._entries if one.why_not and not one.is_blank)
        many = {why: count for why, count in lacking.items() if count > _SINGLY}
        for block in self.blocks:
            where = ", ".join(filter(None, (block.b, block.where)))
            told_singly = replace(block, entries=tuple(one for one in block.entries if one.why_not not in many))
            yield from (f"{where}: {line}" for line in told_singly.lines)
        for why, count in many.items():
            which = "any" if count == len(self._entries) else str(count)
            yield f"nothing can be shown in {which} of the {len(self._entries)} comparisons: {why}"

    @property
    def _entries(self) -> list[Compared]:
        return [one for block in self.blocks for one in block.entries]


@dataclass(frozen=True)
class ComparedMetric:
    """One metric's. summary: how many comparisons show a difference. notes: what is to be known. differences: what is
    shown, a sentence each, with the stream and what the two cells share.
    """

    metric: str
    summary: str
    groups: tuple[StreamByKey, ...]
    notes: tuple[str, ...]
    differences: tuple[str, ...]


def compared_metrics(result: Result) -> list[ComparedMetric]:
    """One for each metric that cells of the result are compared by; none of a result that compares nothing."""
    return [_metric(one) for one in result.comparisons]


def _metric(document: Comparison) -> ComparedMetric:
    groups: dict[tuple[str, str], list[Compared]] = {}
    for one in document.comparisons:
        groups.setdefault((one.a.stream, one.key or ""), []).append(one)
    headings = short_headings(keys := tuple(dict.fromkeys(one.key or "" for one in document.comparisons)))
    names = dict(zip(keys, headings, strict=True))
    return ComparedMetric(
        document.metric,
        summary(document),
        tuple(_group(stream, names[key], entries) for (stream, key), entries in groups.items()),
        tuple(document.notes),
        tuple(_placed(one) + one.told for one in document.comparisons if one.shown),
    )


def _placed(one: Compared) -> str:
    return f"{', '.join(filter(None, (one.stream, one.cell)))}: "


def _group(stream: str, heading: str, entries: Sequence[Compared]) -> StreamByKey:
    first = dict.fromkeys(one.a.name for one in entries)
    drawn = (panel([one for one in entries if one.statistic == name], heading) for name in STATISTICS)
    return StreamByKey(
        stream,
        f"{stream}, by {heading}: each against {' or '.join(first)}",
        tuple(one for one in drawn if one is not None),
        tuple(blocks(entries)),
    )
