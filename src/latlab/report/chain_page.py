"""Where the time went, as the page draws it: bars in per cent of a line's width, placed without script or style."""

from __future__ import annotations

from dataclasses import dataclass

from matplotlib.ticker import MaxNLocator

from latlab.report.chain_view import Bar, ChainView, Scale, Segment
from latlab.report.text import microseconds, plain

_CHARACTER = 3.2
"""Per cent of the width that a character of a figure needs on the narrowest page."""
_LEAST_WIDTH = 0.05
"""Per cent of the width, half a pixel: what is narrower is not seen, and stands in the bar's words and in the table."""


@dataclass(frozen=True)
class Drawn:
    """One interval: where it is drawn, % of the width; what is written in it, and told of it."""

    left: float
    width: float
    middle: float
    colour: int
    back: bool
    text: str
    told: str


@dataclass(frozen=True)
class DrawnBar:
    """One bar; beyond: it goes on to the right of the scale."""

    what: str
    value: str
    told: str
    beyond: bool
    intervals: tuple[Drawn, ...]


@dataclass(frozen=True)
class DrawnCell:
    """One cell's bars."""

    name: str
    bars: tuple[DrawnBar, ...]


@dataclass(frozen=True)
class DrawnScale:
    """All cells on one scale. ticks: (%, µs as text); zero: where the start is, %."""

    told: str
    zero: float
    ticks: tuple[tuple[float, str], ...]
    cells: tuple[DrawnCell, ...]


@dataclass(frozen=True)
class ChainDrawing:
    """What the macro `chain` of templates/charts.html.j2 is given. legend: (colour, name). note: what the bars are.

    grew: lines below the bars.
    """

    title: str
    note: str
    legend: tuple[tuple[int, str], ...]
    below_zero: bool
    scales: tuple[DrawnScale, ...]
    grew: tuple[str, ...]


def chain_drawing(view: ChainView) -> ChainDrawing:
    """The view as the page draws it."""
    return ChainDrawing(
        title=f"Where the time of {view.metric} went, µs",
        note=view.note,
        legend=view.legend,
        below_zero=view.below_zero,
        scales=tuple(_scale(view, scale) for scale in view.scales),
        grew=tuple(f"{cell.name}: {cell.grew}" for cell in view.cells if cell.grew),
    )


def _scale(view: ChainView, scale: Scale) -> DrawnScale:
    low, high = scale.low_ns / 1000, scale.high_ns / 1000
    ticks = (float(tick) for tick in MaxNLocator(4).tick_values(low, high))
    return DrawnScale(
        told=f"after {view.start}, µs{'' if scale.whole else ', closer'}",
        zero=_percent(0, scale),
        ticks=tuple((_percent(tick * 1000, scale), plain(tick)) for tick in ticks if low <= tick <= high),
        cells=tuple(DrawnCell(cell.name, tuple(_bar(bar, scale) for bar in cell.bars)) for cell in view.cells),
    )


def _bar(bar: Bar, scale: Scale) -> DrawnBar:
    # What goes back would be covered by what follows it.
    ordered = sorted(bar.segments, key=lambda one: one.ns < 0)
    drawn = (_drawn(segment, scale) for segment in ordered)
    return DrawnBar(
        what=bar.what,
        value=microseconds(bar.value_ns),
        told=bar.told,
        beyond=bar.ends_ns[1] > scale.high_ns,
        intervals=tuple(one for one in drawn if one.width >= _LEAST_WIDTH),
    )


def _drawn(segment: Segment, scale: Scale) -> Drawn:
    left, right = sorted(_inside(at, scale) for at in (segment.from_ns, segment.to_ns))
    free = _inside(segment.free_ns, scale)
    text = microseconds(segment.ns)
    fits = segment.ns > 0 and free - left >= _CHARACTER * (len(text) + 1)
    return Drawn(
        left=left,
        width=round(right - left, 2),
        middle=round((left + free) / 2, 1),
        colour=segment.interval.colour,
        back=segment.ns < 0,
        text=text if fits else "",
        told=f"{segment.text} µs",
    )


def _inside(at_ns: float, scale: Scale) -> float:
    return min(max(_percent(at_ns, scale), 0.0), 100.0)


def _percent(at_ns: float, scale: Scale) -> float:
    """To 0.01 %: a tenth of a pixel on the widest page."""
    return round(100 * (at_ns - scale.low_ns) / (scale.high_ns - scale.low_ns), 2)
