"""What a metric does as a size or a duration of the matrix grows: lines over that key, all cells on the same axes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from math import ceil, floor, log10
from typing import Final, TypeVar

from latlab.analysis.axis import Axis
from latlab.report.charts import sheet as on
from latlab.report.charts.sheet import ANY_COLOUR, COLOURS, LOST_COLOUR, Drawing, Look, Sheet, round_values, text_in
from latlab.report.document import Table
from latlab.report.text import microseconds, plain, whole
from latlab.scenario.models import Room

FIGURES: Final = ("min", "p50", "p99", "max")

_T = TypeVar("_T")

# How many decades an axis may span for its labels to stand at these multiples of ten.
_LABELS: Final = ((2.2, (1, 2, 5)), (4.0, (1, 3)), (float("inf"), (1,)))
_FEW_LABELS: Final = 3

_NEAR: Final = 0.28
"""Of the axis, from either end: a text that stands there begins, or ends, where its line is."""
_ROOM_APART: Final = 0.6
"""Of the axis, between two such lines, so that each has its text."""


@dataclass(frozen=True)
class Stroke:
    """How one of FIGURES is drawn, in points: its line, its dots, and whether these are round or square."""

    width: float
    dot: float
    marker: str


STROKES: Final = {
    "min": Stroke(0.8, 3.0, "o"),
    "p50": Stroke(2.0, 5.5, "o"),
    "p99": Stroke(0.8, 3.5, "s"),
    "max": Stroke(1.4, 5.5, "s"),
}
"""Within one line's colour they also lie above each other in this order."""


@dataclass(frozen=True)
class StatisticReach:
    """One statistic at one value of the key, ns: of its repetitions the least and the greatest, and where its line goes
    through: of `min` the least, of `max` the greatest, of others the middle one, as `repeats` has it.

    line_ns is None of what is known of each interval of time only: then these are of all of them.
    """

    low_ns: int
    high_ns: int
    line_ns: int | None


@dataclass(frozen=True)
class SweepPoint:
    """The repetitions of one cell. at: the key's value, in bytes or ns; text: as the scenario has it.

    n: of the least and of the largest repetition. reaches: of FIGURES those that n supports in every repetition.
    verdict: the worst of them. label: theirs, all of them where they differ.
    """

    at: int
    text: str
    repeats: int
    n: tuple[int, int]
    verdict: str
    label: str
    reaches: Mapping[str, StatisticReach]


@dataclass(frozen=True)
class SweepLine:
    """The cells that differ in the key alone, by its value. name: their values of the keys that distinguish a panel's
    lines; empty where it has one only.
    """

    name: str
    look: Look
    points: tuple[SweepPoint, ...]

    def pieces(self, figure: str) -> list[list[tuple[int, int]]]:
        """(at, ns) that its line goes through, neighbours together: where a point has no such figure there is a gap."""
        reaches = [(point.at, point.reaches.get(figure)) for point in self.points]
        return _runs([(at, one.line_ns) if one and one.line_ns is not None else None for at, one in reaches])

    def band(self) -> list[list[tuple[int, int, int]]]:
        """(at, least, greatest) ns of points that have both, neighbours together: what lies between is filled."""
        return _runs(
            [
                (point.at, point.reaches["min"].low_ns, point.reaches["max"].high_ns)
                if point.reaches.keys() >= {"min", "max"}
                else None
                for point in self.points
            ]
        )

    def bars(self, figure: str) -> list[tuple[int, int, int]]:
        """(at, least, greatest) ns of points whose repetitions differ in it, or that are known to lie between."""
        reaches = [(point.at, point.reaches[figure]) for point in self.points if figure in point.reaches]
        return [(at, one.low_ns, one.high_ns) for at, one in reaches if one.line_ns is None or one.low_ns < one.high_ns]


@dataclass(frozen=True)
class SweepPanel:
    """Lines with axes to themselves. title: what they share that other panels do not. rooms: of their packets."""

    title: str
    lines: tuple[SweepLine, ...]
    rooms: tuple[Room, ...]


@dataclass(frozen=True)
class FrameEnd:
    """The largest size that goes in one frame, as it is drawn: place, 0 to 1 on the axis; text, empty where that of
    another says it too; anchor: which end of the text, or its middle, stands there, so that it stays above the panel.
    """

    at: int
    place: float
    text: str
    anchor: str


@dataclass(frozen=True)
class Sweep:
    """One metric of one stream, or of several probes, over one key. heading: the key, as short as the stream allows.
    lines_are: what a panel's lines differ in. x_axis: bytes or ns; y_axis: ns. They are those of all streams with this
    metric and such a key. notes: what has to be known, a sentence each. drawn: of FIGURES, all of which the table has,
    those in the picture.
    """

    streams: tuple[str, ...]
    metric: str
    title: str
    label: str
    key: str
    heading: str
    uncertainty: str
    lines_are: str
    panels: tuple[SweepPanel, ...]
    x_axis: Axis
    y_axis: Axis
    notes: tuple[str, ...]
    drawn: tuple[str, ...] = FIGURES

    @property
    def stream(self) -> str:
        """The first one: it stands with that, and its files have that name."""
        return self.streams[0]

    @property
    def figures(self) -> tuple[str, ...]:
        """Those that are drawn and that any point has."""
        return tuple(name for name in self.drawn if any(name in point.reaches for point in self.points))

    @property
    def points(self) -> Iterator[SweepPoint]:
        """All of them."""
        return (point for panel in self.panels for line in panel.lines for point in line.points)

    @property
    def labels(self) -> tuple[str, ...]:
        """Those of its points."""
        return tuple(dict.fromkeys(point.label for point in self.points))

    @property
    def accuracy(self) -> str:
        """What figures may be off by, and of how many packets and repetitions each point is."""
        n = sorted(count for point in self.points for count in point.n)
        packets = " to ".join(dict.fromkeys(map(str, (n[0], n[-1]))))
        clocks = f", ± {self.uncertainty}" if self.uncertainty else ""
        return f"figures in µs{clocks} · {packets} packets in each repetition of a point"

    @property
    def lines(self) -> tuple[tuple[str, Look], ...]:
        """Each name of a line in any panel, with its look; in ANY_COLOUR where each bridge has its own."""
        looks: dict[str, list[Look]] = {}
        for line in (line for panel in self.panels for line in panel.lines if line.name):
            looks.setdefault(line.name, []).append(line.look)
        return tuple(
            (name, found[0])
            if len({look.colour for look in found}) == 1
            else (f"{name} (each bridge in its colour)", replace(found[0], colour=ANY_COLOUR))
            for name, found in looks.items()
        )

    def x_ticks(self, apart: float) -> list[tuple[int, str]]:
        """The key's values with their texts, ends first: those that leave so much of the axis' length between them."""
        texts = {point.at: point.text for point in self.points}
        ordered = sorted(texts)
        kept: list[int] = []
        for at in (ordered[0], ordered[-1], *ordered[1:-1]):
            places = self.x_axis.places([at, *kept])
            if all(abs(place - places[0]) >= apart for place in places[1:]):
                kept.append(at)
        return [(at, texts[at]) for at in sorted(kept)]

    def frame_ends(self, panel: SweepPanel) -> list[FrameEnd]:
        """Of a panel's rooms those that are on the axis; where two texts would meet, one says both."""
        found: list[FrameEnd] = []
        for room in panel.rooms:
            place = float(self.x_axis.places([room.largest])[0])
            if not 0 <= place <= 1:
                continue
            anchor = "first" if place < _NEAR else "last" if place > 1 - _NEAR else "middle"
            here = FrameEnd(room.largest, place, _room_text(room), anchor)
            if found and place - found[-1].place < _ROOM_APART:
                said = found[-1].text
                found[-1], here = replace(found[-1], text=""), replace(here, text=_both(said, here.text))
            found.append(here)
        return found

    def y_ticks(self) -> list[tuple[float, str]]:
        """Round values in ns on the other axis, each with its µs as text."""
        return [(value, plain(value / 1000)) for value in _ticks(self.y_axis)]


def _room_text(room: Room) -> str:
    return f"MTU {room.mtu}: {'' if room.is_exact else 'at most '}{room.largest} B"


def _both(first: str, second: str) -> str:
    """Two texts as one: what they begin with alike once."""
    mtu, _, size = second.partition(": ")
    return f"{first}, {size}" if first.startswith(f"{mtu}: ") else f"{first}, {second}"


def on_common_axes(one: Sweep, every: Sequence[Sweep]) -> Sweep:
    """The sweep on the axes of all that show its metric over a key of this kind."""
    alike = [other for other in every if (other.metric, other.heading) == (one.metric, one.heading)]
    return replace(
        one,
        x_axis=_joined(one.x_axis, [other.x_axis for other in alike]),
        y_axis=_joined(one.y_axis, [other.y_axis for other in alike]),
    )


def _joined(own: Axis, axes: Sequence[Axis]) -> Axis:
    """One on which all of them are; own where some are logarithmic and some are not."""
    if len({axis.kind for axis in axes}) > 1:
        return own
    low, high = min(axis.low_ns for axis in axes), max(axis.high_ns for axis in axes)
    return Axis(own.kind, low, high, max(axis.linear_ns for axis in axes))


def _ticks(axis: Axis) -> list[float]:
    """Round values on it, ascending."""
    low, high = axis.low_ns, axis.high_ns
    if axis.kind == "asinh":
        powers = [10.0**power for power in range(ceil(log10(axis.linear_ns)), ceil(log10(max(-low, high))) + 1)]
        found = [*(-power for power in reversed(powers)), 0.0, *powers]
    else:
        factors = next(factors for most, factors in _LABELS if log10(high / low) < most)
        powers = [10.0**power for power in range(floor(log10(low)), ceil(log10(high)) + 1)]
        found = [factor * power for power in powers for factor in factors]
    inside = [value for value in found if low <= value <= high]
    if len(inside) >= _FEW_LABELS:
        return inside
    return round_values(low, high, 5)


def _runs(found: Sequence[_T | None]) -> list[list[_T]]:
    """What is there, neighbours together."""
    runs = (list(run) for _, run in groupby(found, lambda one: one is None))
    return [kept for run in runs if (kept := [one for one in run if one is not None])]


# As a table


def sweep_table(shown: Sweep, said: str) -> Table:
    """The sweep's figures, a row a place on the axis. said: label and verdict."""
    leading = [heading for heading, stands in zip(("cells", shown.lines_are), _leads(shown), strict=True) if stands]
    names, counts = (*leading, shown.heading), (*FIGURES, "repeats", "n")
    headings = (*names, *counts, "verdict", *(("label",) if len(shown.labels) > 1 else ()))
    title = f"{shown.title}, by {shown.heading}: least … middle … greatest of the repetitions, µs · {said}"
    return Table(headings, list(_rows(shown)), range(len(names), len(names) + len(counts)), title)


def _leads(shown: Sweep) -> tuple[bool, bool]:
    """Whether rows of the table begin with their panel, and with their line: where there are several."""
    return len(shown.panels) > 1, bool(shown.lines_are)


def _rows(shown: Sweep) -> Iterator[tuple[str, ...]]:
    for panel in shown.panels:
        for line in panel.lines:
            leading = [name for name, stands in zip((panel.title, line.name), _leads(shown), strict=True) if stands]
            for point in line.points:
                figures = (_text(point, name) for name in FIGURES)
                n = " to ".join(dict.fromkeys(map(whole, point.n)))
                label = (point.label,) if len(shown.labels) > 1 else ()
                yield (*leading, point.text, *figures, str(point.repeats), n, point.verdict, *label)


def _text(point: SweepPoint, name: str) -> str:
    """As the table of repetitions has it: the least, the middle and the greatest; blank where there is none."""
    reach = point.reaches.get(name)
    if reach is None:
        return ""
    values = (reach.low_ns, reach.line_ns, reach.high_ns)
    return " … ".join(dict.fromkeys(microseconds(ns) for ns in values if ns is not None))


# As a chart

_LEFT_IN: Final = 0.62
_PANEL_IN: Final = 2.6
_BETWEEN_IN: Final = 0.25
_COLUMNS: Final = 3
_WIDEST_IN: Final = 6.5
"""Of a panel: wider than that it is flat."""
_TICK_IN: Final = 0.48
"""From the middle of one text of the key's axis to that of the next, at least."""


def sweep_chart(shown: Sweep, said: str = "") -> Drawing:
    """Panels on the same axes, median, p99 and both extremes in each. said: label and verdict."""
    return Drawing(
        f"{shown.stream}-{shown.metric}-by-{shown.heading}",
        f"{', '.join(shown.streams)}: {shown.title}, by {shown.heading}",
        partial(_pieces, shown),
        tuple(filter(None, (said, shown.accuracy, f"{shown.label}, µs, up; {shown.heading} to the right"))),
        (" ".join(f"{note[:1].upper()}{note[1:]}." for note in shown.notes),) if shown.notes else (),
    )


def _pieces(shown: Sweep, width_in: float) -> Iterator[Sheet]:
    yield _key(shown, width_in)
    widest_in = max(text_in(panel.title, on.TITLE_PT, "bold") for panel in shown.panels)
    most = min(len(shown.panels), _COLUMNS) if width_in >= on.BESIDE_IN else 1
    columns = next((one for one in range(most, 1, -1) if widest_in <= _each_in(width_in, one)), 1)
    for first in range(0, len(shown.panels), columns):
        row = shown.panels[first : first + columns]
        sheet = Sheet(width_in, told=" ".join(sentence for panel in row for sentence in _told(shown, panel)))
        each_in = min(_each_in(width_in, columns), _WIDEST_IN)
        titles = [on.wrapped(panel.title, each_in, on.TITLE_PT, "bold") for panel in row]
        top = 0.05 + on.LINE_IN * max(map(len, titles))
        for number, (panel, lines) in enumerate(zip(row, titles, strict=True)):
            left = on.SIDE_IN + number * (each_in + _BETWEEN_IN)
            for place, line in enumerate(lines):
                sheet.text(left, 0.05 + place * on.LINE_IN, line, size=on.TITLE_PT, weight="bold", va="top")
            _SweepPlace(sheet, shown, left + _LEFT_IN, top + 0.26, each_in - _LEFT_IN).draw(panel)
        yield sheet


def _each_in(width_in: float, columns: int) -> float:
    return (width_in - 2 * on.SIDE_IN - (columns - 1) * _BETWEEN_IN) / columns


@dataclass(frozen=True)
class _SweepPlace:
    """A place on a sheet for one panel."""

    sheet: Sheet
    shown: Sweep
    left: float
    top: float
    width: float

    def draw(self, panel: SweepPanel) -> None:
        """Draw the panel with its axes, and end the sheet below it."""
        sheet = self.sheet
        x_ticks, y_ticks = self.shown.x_ticks(_TICK_IN / self.width), self.shown.y_ticks()
        right, bottom = self.left + self.width, self.top + _PANEL_IN
        sheet.lines([[(self.left, self._y(ns)), (right, self._y(ns))] for ns, _ in y_ticks], on.GRID, 0.6)
        sheet.lines([[(self._x(at), self.top), (self._x(at), bottom)] for at, _ in x_ticks], on.GRID, 0.6)
        sheet.lines([[(self.left, self.top), (self.left, bottom), (right, bottom)]], on.EDGE)
        for ns, text in y_ticks:
            sheet.text(self.left - 0.06, self._y(ns), text, size=on.SMALL_PT, colour=on.QUIET, ha="right")
        for at, text in x_ticks:
            style: on.Style = {"size": on.SMALL_PT, "colour": on.QUIET, "ha": "center", "va": "top"}
            sheet.text(self._x(at), bottom + 0.07, text, **style)
        self._rooms(panel)
        for line in panel.lines:
            self._line(line)
        sheet.height_in = bottom + 0.36

    def _rooms(self, panel: SweepPanel) -> None:
        """A line at the largest packet that goes in one frame, where the axis has it, its label above the panel."""
        for end in self.shown.frame_ends(panel):
            x = self._x(end.at)
            self.sheet.lines(
                [[(x, self.top), (x, self.top + _PANEL_IN)]], LOST_COLOUR, 1.1, dash=(1.1, 1.6), name="mtu"
            )
            ha = {"first": "left", "last": "right"}.get(end.anchor, "center")
            self.sheet.text(x, self.top - 0.05, end.text, size=on.SMALL_PT, ha=ha, va="bottom")

    def _line(self, line: SweepLine) -> None:
        colour = on.QUIET if line.look.colour == ANY_COLOUR else COLOURS[line.look.colour]
        for run in line.band() if self.shown.drawn == FIGURES else ():
            ends = [(at, high) for at, _, high in run] + [(at, low) for at, low, _ in reversed(run)]
            self.sheet.area([self._point(*one) for one in ends], colour, alpha=0.1, name="band")
        for figure in self.shown.drawn:
            stroke, name = STROKES[figure], f"{line.name}/{figure}"
            pieces = [[self._point(*one) for one in piece] for piece in line.pieces(figure)]
            bars = [[self._point(at, low), self._point(at, high)] for at, low, high in line.bars(figure)]
            with self.sheet.about(", ".join(filter(None, (line.name, figure)))):
                self.sheet.lines(pieces, colour, stroke.width, dash=line.look.dash, name=name)
                self.sheet.lines(bars, colour, stroke.width, name=f"{line.name}/bar")
                points = (point for piece in pieces for point in piece)
                self.sheet.marks(points, stroke.marker, stroke.dot, colour, name=name)

    def _point(self, at: int, ns: int) -> on.Point:
        return self._x(at), self._y(ns)

    def _x(self, at: int) -> float:
        return self.left + self.width * float(self.shown.x_axis.places([at])[0])

    def _y(self, ns: float) -> float:
        return self.top + _PANEL_IN * (1 - float(self.shown.y_axis.places([ns])[0]))


def _key(shown: Sweep, width_in: float) -> Sheet:
    sheet = Sheet(width_in)

    def line(look: Look, x: float, y: float) -> None:
        colour = on.QUIET if look.colour == ANY_COLOUR else COLOURS[look.colour]
        sheet.lines([[(x, y), (x + 0.4, y)]], colour, 2.0, dash=look.dash)

    def figure(stroke: Stroke, x: float, y: float) -> None:
        sheet.lines([[(x, y), (x + 0.3, y)]], on.QUIET, stroke.width)
        sheet.marks([(x + 0.15, y)], stroke.marker, stroke.dot, on.QUIET)

    of = f"{shown.lines_are} " if shown.lines_are and shown.lines_are != "probes" else ""
    found = [(partial(line, look), 0.4, f"{of}{name}") for name, look in shown.lines]
    found += [(partial(figure, STROKES[name]), 0.3, name) for name in reversed(shown.figures)]
    sheet.key(on.SIDE_IN, 0.0, found)
    return sheet


def _told(shown: Sweep, panel: SweepPanel) -> Iterator[str]:
    """A sentence for each line: what its median and its maximum are at both ends of the key."""
    for line in panel.lines:
        ends = (line.points[0], line.points[-1])
        figures = (
            f"{name} {' to '.join(_text(point, name) for point in ends)} µs"
            for name in ("p50", "max")
            if all(name in point.reaches for point in ends)
        )
        name = ", ".join(filter(None, (panel.title, line.name))) or shown.stream
        yield f"{name}, {shown.heading} {ends[0].text} to {ends[1].text}: {', '.join(figures)}."
