"""Pictures that pages draw themselves: what the author compares, in the author's terms."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from latlab.analysis.axis import Axis, common_axis
from latlab.analysis.bins import ccdf
from latlab.report.charts import sheet as on
from latlab.report.charts.files import Charts
from latlab.report.charts.sheet import COLOURS, LOST_COLOUR, Drawing, Sheet, text_in
from latlab.report.charts.tail import value_ticks
from latlab.report.charts.timers import timer_chart, timer_ranges
from latlab.report.text import plain
from published.claims import SENT, US, Figures, Of, is_one, number
from published.experiment import Drawn

BRIDGES: Final = ("tap", "macvtap", "xdp", "ovs", "ovs-afxdp", "vfio", "user")
"""Each has the same colour in every picture."""


def of_bridge(bridge: str) -> str:
    """The bridge's colour."""
    return COLOURS[BRIDGES.index(bridge)]


def caption(figures: Figures) -> str:
    """What stands below a picture's title."""
    return Charts(figures.run.folder, figures.run.result).caption


Values = Mapping[int, NDArray[np.int64]]
"""{repetition: the values of its packets, ns}."""


def values_of(figures: Figures, of: Of) -> Values:
    """Of every packet in these cells."""
    slugs = {cell["slug"] for cell in figures.cells if is_one(cell["cell"], of.cells) and of.stream in cell["streams"]}
    if not slugs:
        return {}
    if of.metric == SENT:
        found = figures.packets.filter(pl.col("stream_name") == of.stream, pl.col("cell").is_in(slugs))
        return {
            n: some["sent_ns"].to_numpy() for (n,), some in found.sort("repeat").group_by("repeat", maintain_order=True)
        }
    traces = Charts(figures.run.folder, figures.run.result).view(of.stream, of.metric).traces
    return {trace.repeat: trace.value_ns for trace in traces if trace.slug in slugs and len(trace.value_ns)}


# Timers


def timers(named: Sequence[tuple[str, str]]) -> Drawn:
    """Ranges of handler and thread of the cells that conditions name, as of `Of`, in this order."""

    def draw(figures: Figures) -> Drawing | None:
        ranges = timer_ranges(figures.run.result)
        cells = {cell.slug: cell.cell for cell in figures.run.result.cells}
        rows = [
            replace(one, name=f"{name}: {one.of}", cell="")
            for name, conditions in named
            for one in (ranges.rows if ranges else ())
            if is_one(cells[one.slug], conditions)
        ]
        return timer_chart(replace(ranges, rows=tuple(rows))) if ranges and rows else None

    return draw


# Repetitions


@dataclass(frozen=True)
class Row:
    """What is measured of one name. plus_ns: added to each value."""

    name: str
    of: Of
    colour: str
    plus_ns: int = 0


@dataclass(frozen=True)
class Span:
    """What the author printed: the least, the mean and the greatest, ns."""

    name: str
    ns: tuple[int, int, int]


_STRIP_IN: Final = 0.075
_HIGH_IN: Final = 0.05
_APART_IN: Final = 0.1
_NONE: Final = "not measured"
_KEY: Final = "Bar: a repetition, the middle 90 % of its packets, with the median; tick: its maximum."
_SPAN_KEY: Final = "Open bar: published, from the least to the greatest, with the mean."
Groups = Sequence[tuple[str, Sequence[Row | Span]]]
Strip = tuple[float, float, float, float]
"""Low, middle, high and largest value, ns."""


def repetitions(
    title: str, label: str, groups: Iterable[tuple[str, Sequence[Row | Span]]], limits_us: Sequence[int] = ()
) -> Drawn:
    """A row with a bar a repetition for each of these, in groups, so that what is compared is side by side.

    limits_us: values that claims speak of.
    """
    listed = tuple(groups)

    def draw(figures: Figures) -> Drawing | None:
        every = [row for _, rows in listed for row in rows]
        values = {
            row: [one + row.plus_ns for one in values_of(figures, row.of).values()]
            for row in every
            if isinstance(row, Row)
        }
        measured = [one for some in values.values() for one in some]
        if not measured:
            return None
        spans = {row: row.ns for row in every if isinstance(row, Span)}
        axis = common_axis([*measured, *(np.array(ns) for ns in spans.values())])
        strips: dict[Row | Span, list[Strip]] = {row: [_strip(one) for one in some] for row, some in values.items()}
        strips |= {row: [(low, mean, high, high)] for row, (low, mean, high) in spans.items()}
        said = (f"{_KEY} {_SPAN_KEY}" if spans else _KEY,)
        return Drawing("", title, partial(_groups, listed, strips, axis, label, limits_us), said)

    return draw


def _strip(values: NDArray[np.int64]) -> Strip:
    low, middle, high = np.quantile(values, (0.05, 0.5, 0.95), method="inverted_cdf")
    return float(low), float(middle), float(high), float(values.max())


def _groups(
    groups: Groups,
    strips: Mapping[Row | Span, Sequence[Strip]],
    axis: Axis,
    label: str,
    limits_us: Sequence[int],
    width_in: float,
) -> Iterator[Sheet]:
    left = on.SIDE_IN + 0.2 + max(text_in(row.name, on.TEXT_PT) for _, rows in groups for row in rows)
    width = width_in - on.SIDE_IN - 0.2 - left

    def at(ns: float) -> float:
        return left + width * float(axis.places([ns])[0])

    ticks = [(left + place * width, text) for place, text in value_ticks(axis, 11)]
    for title, rows in groups:
        sheet = Sheet(width_in, told=f"{title}: {', '.join(row.name for row in rows)}")
        sheet.text(on.SIDE_IN, 0.08, title, size=on.TITLE_PT, weight="bold", va="top")
        top = 0.34 if title or limits_us else 0.08
        heights = [_STRIP_IN * max(len(strips[row]), 2) for row in rows]
        sheet.height_in = top + sum(heights) + _APART_IN * len(rows)
        sheet.lines([[(x, top), (x, sheet.height_in)] for x, _ in ticks], on.GRID, 0.6)
        for limit in limits_us:
            x = at(limit * US)
            sheet.lines([[(x, top), (x, sheet.height_in)]], LOST_COLOUR, 1.0, dash=(1.1, 1.6))
            sheet.text(x, top - 0.02, str(limit), size=on.SMALL_PT, colour=LOST_COLOUR, ha="center", va="bottom")
        for row, height in zip(rows, heights, strict=True):
            sheet.text(on.SIDE_IN, top + height / 2, row.name)
            if not strips[row]:
                sheet.text(left, top + height / 2, _NONE, size=on.SMALL_PT, colour=on.QUIET)
            for number_, strip in enumerate(strips[row]):
                y = top + (number_ + 0.5) * _STRIP_IN if isinstance(row, Row) else top + height / 2
                low, middle, high, largest = map(at, strip)
                place, half = (low, y - _HIGH_IN / 2, high - low, _HIGH_IN), _HIGH_IN / 2
                if isinstance(row, Span):
                    sheet.box(*place, on.PAPER, edge=on.INK, line=0.8)
                else:
                    sheet.box(*place, row.colour, alpha=0.45)
                    sheet.lines([[(largest, y - half), (largest, y + half)]], row.colour, 1.6)
                sheet.lines([[(middle, y - half), (middle, y + half)]], on.INK, 1.4)
            top += height + _APART_IN
        yield sheet
    sheet = Sheet(width_in, 0.5)
    sheet.lines([[(left, 0), (left + width, 0)]], on.EDGE)
    for x, text in ticks:
        sheet.text(x, 0.06, text, size=on.SMALL_PT, colour=on.QUIET, ha="center", va="top")
    kind = {"log": "µs, log", "linear": "µs"}.get(axis.kind, f"µs, {axis.told()}")
    sheet.text(left + width / 2, 0.24, f"{label} [{kind}]", size=on.SMALL_PT, ha="center", va="top")
    yield sheet


# Curves


@dataclass(frozen=True)
class Curve:
    """A line through (x, y), and bars (x, low, high). Its name is in the key."""

    name: str
    colour: str
    points: Sequence[tuple[float, float]]
    bars: Sequence[tuple[float, float, float]] = ()
    dash: tuple[int, ...] = ()


@dataclass(frozen=True)
class Side:
    """An axis of panels: its name, and its ticks."""

    name: str
    axis: Axis
    ticks: Sequence[tuple[float, str]]

    def at(self, value: float) -> float:
        """Where a value is, 0 to 1."""
        return float(self.axis.places([value])[0])


_PANEL_IN: Final = 2.9
_LEFT_IN: Final = 0.75


def panels(
    sides: tuple[Side, Side],
    titled: Sequence[tuple[str, Sequence[Curve]]],
    limits: Sequence[tuple[float, str]],
    width_in: float,
) -> Iterator[Sheet]:
    """Panels side by side on the same axes, below the key of their curves. limits: x, and what is there."""
    across, up = sides
    keys = {curve.name: curve for _, curves in titled for curve in curves}
    sheet = Sheet(width_in)

    def sample(curve: Curve, x: float, y: float) -> None:
        sheet.lines([[(x, y), (x + 0.4, y)]], curve.colour, 1.6, dash=curve.dash)

    sheet.key(on.SIDE_IN, 0.0, [(partial(sample, curve), 0.4, name) for name, curve in keys.items()])
    yield sheet
    sheet = Sheet(width_in, _PANEL_IN + 0.95, told="; ".join(title for title, _ in titled))
    each_in = (width_in - 2 * on.SIDE_IN - 0.1) / len(titled)
    for column, (title, curves) in enumerate(titled):
        left, top = on.SIDE_IN + column * each_in + _LEFT_IN, 0.42
        width, bottom = each_in - _LEFT_IN - 0.1, top + _PANEL_IN

        def point(x: float, y: float, left: float = left, width: float = width, bottom: float = bottom) -> on.Point:
            return left + width * across.at(x), bottom - _PANEL_IN * min(max(up.at(y), 0.0), 1.0)

        (x_low, x_high), (y_low, y_high) = ((side.axis.low_ns, side.axis.high_ns) for side in sides)
        sheet.text(left, 0.02, title, size=on.TITLE_PT, weight="bold", va="top")
        sheet.lines([[point(x, y_low), point(x, y_high)] for x, _ in across.ticks], on.GRID, 0.6)
        sheet.lines([[point(x_low, y), point(x_high, y)] for y, _ in up.ticks], on.GRID, 0.6)
        sheet.lines([[(left, top), (left, bottom), (left + width, bottom)]], on.EDGE)
        for y, text in up.ticks:
            sheet.text(left - 0.06, point(x_low, y)[1], text, size=on.SMALL_PT, colour=on.QUIET, ha="right")
        for x, text in across.ticks:
            sheet.text(
                point(x, y_low)[0], bottom + 0.06, text, size=on.SMALL_PT, colour=on.QUIET, ha="center", va="top"
            )
        for x, text in limits:
            sheet.lines([[point(x, y_low), point(x, y_high)]], LOST_COLOUR, 1.0, dash=(1.1, 1.6))
            sheet.text(
                point(x, y_high)[0], top - 0.03, text, size=on.SMALL_PT, colour=LOST_COLOUR, ha="center", va="bottom"
            )
        sheet.text(left + width / 2, bottom + 0.26, across.name, size=on.SMALL_PT, ha="center", va="top")
        sheet.text(left - _LEFT_IN + 0.05, top - 0.12, up.name if not column else "", size=on.SMALL_PT, va="bottom")
        for curve in curves:
            sheet.lines([[point(*one) for one in curve.points]], curve.colour, 1.5, dash=curve.dash)
            sheet.lines([[point(x, low), point(x, high)] for x, low, high in curve.bars], curve.colour, 1.0)
            if curve.bars:
                sheet.marks([point(*one) for one in curve.points], "o", 4.5, curve.colour)
    yield sheet


def tails(title: str, label: str, groups: Iterable[tuple[str, Sequence[Row]]], limits_us: Sequence[int]) -> Drawn:
    """The share of packets at or above a value, all repetitions together: a panel a group, a curve a row."""
    listed = tuple(groups)

    def draw(figures: Figures) -> Drawing | None:
        values = {row.of: list(values_of(figures, row.of).values()) for _, rows in listed for row in rows}
        joined = {of: np.concatenate(some) for of, some in values.items() if some}
        if not joined:
            return None
        titled = []
        for name, rows in listed:
            tail = {row: ccdf(joined[row.of]) for row in rows if row.of in joined}
            curves = [
                Curve(row.name, row.colour, list(zip(one.value_ns.tolist(), one.share.tolist(), strict=True)))
                for row, one in tail.items()
            ]
            titled.append((name, curves))
        axis, least = common_axis(list(joined.values())), min(1 / len(one) for one in joined.values())
        ends = axis.low_ns, axis.high_ns
        ticks = [
            (float(ns * US), plain(ns)) for ns in (50, 100, 200, 500, 1000, 2000, 5000) if ends[0] <= ns * US <= ends[1]
        ]
        across = Side(f"{label} [µs{', log' if axis.kind == 'log' else ''}]", axis, ticks)
        shares = [
            (10.0**-power, "1" if not power else f"1/{10**power:,}") for power in range(6) if 10.0**-power >= least
        ]
        up = Side("share of packets at or above", Axis("log", 0.8 * least, 1.1), shares)
        limits = [(float(one * US), str(one)) for one in limits_us]
        return Drawing("", title, partial(panels, (across, up), titled, limits), ("All repetitions together.",))

    return draw


# Stages of interrupts

_BAR_IN: Final = 0.2
STAGE_COLOURS: Final = (*COLOURS, LOST_COLOUR, "#767676", "#B0B0B0", "#7FB800")
Bars = Sequence[tuple[str, Mapping[str, float]]]
"""(name, {stage: ns})."""


def stages(title: str, columns: Callable[[Figures], Sequence[tuple[str, Bars]]]) -> Drawn:
    """Bars of stages, one after the other, from the due time on, in columns that have a scale each."""

    def draw(figures: Figures) -> Drawing | None:
        found = columns(figures)
        names = list(dict.fromkeys(stage for _, bars in found for _, bar in bars for stage in bar))
        colours = dict(zip(names, STAGE_COLOURS, strict=False))
        return Drawing("", title, partial(_stages, found, colours)) if names else None

    return draw


def _stages(columns: Sequence[tuple[str, Bars]], colours: Mapping[str, str], width_in: float) -> Iterator[Sheet]:
    sheet = Sheet(width_in)

    def sample(colour: str, x: float, y: float) -> None:
        sheet.box(x, y - 0.06, 0.15, 0.12, colour)

    sheet.key(on.SIDE_IN, 0.0, [(partial(sample, colour), 0.15, name) for name, colour in colours.items()])
    yield sheet
    names = [name for name, _ in columns[0][1]]
    first = on.SIDE_IN + 0.15 + max(text_in(name, on.TEXT_PT) for name in names)
    each_in = (width_in - on.SIDE_IN - first) / len(columns)
    sheet = Sheet(width_in, 0.42 + len(names) * (_BAR_IN + _APART_IN) + 0.5, told="; ".join(names))
    bottom = sheet.height_in - 0.5
    for column, (title, bars) in enumerate(columns):
        left, width = first + column * each_in, each_in - 0.3
        longest = max(sum(max(ns, 0) for ns in bar.values()) for _, bar in bars)
        least = min(min(np.cumsum([0, *bar.values()])) for _, bar in bars)

        def at(
            ns: float, left: float = left, width: float = width, least: float = least, most: float = longest
        ) -> float:
            return left + width * (ns - least) / (most - least)

        sheet.text(left, 0.05, title, size=on.TITLE_PT, weight="bold", va="top")
        for us in on.round_values(least / US, longest / US, 6):
            if least <= us * US <= longest:
                sheet.lines([[(at(us * US), 0.32), (at(us * US), bottom)]], on.GRID, 0.6)
                sheet.text(
                    at(us * US), bottom + 0.05, plain(us), size=on.SMALL_PT, colour=on.QUIET, ha="center", va="top"
                )
        sheet.text(left + width / 2, bottom + 0.22, "after the due time [µs]", size=on.SMALL_PT, ha="center", va="top")
        for line, (name, bar) in enumerate(bars):
            top = 0.36 + line * (_BAR_IN + _APART_IN)
            if not column:
                sheet.text(on.SIDE_IN, top + _BAR_IN / 2, name)
            begins = dict(zip(bar, np.cumsum([0.0, *bar.values()]).tolist(), strict=False))
            # One that goes back is a thin strip on those that follow it.
            for stage, ns in sorted(bar.items(), key=lambda one: one[1] < 0):
                high = _BAR_IN if ns >= 0 else _BAR_IN / 4
                left_at = at(min(begins[stage], begins[stage] + ns))
                sheet.box(left_at, top + _BAR_IN - high, abs(at(ns) - at(0)), high, colours[stage])
            begin = sum(bar.values())
            sheet.text(
                at(max(begin, 0)) + 0.05, top + _BAR_IN / 2, number(begin / US, 1), size=on.SMALL_PT, colour=on.QUIET
            )
    yield sheet
