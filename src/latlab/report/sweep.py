"""What a metric does as a size or a duration of the matrix grows: lines over that key, all cells on the same axes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from math import ceil, floor, log10
from typing import Final, TypeVar

from matplotlib.ticker import MaxNLocator

from latlab.analysis.axis import Axis
from latlab.report.palette import ANY_COLOUR, Look
from latlab.report.text import plain
from latlab.scenario.one_frame import Room

FIGURES: Final = ("min", "p50", "p99", "max")

_T = TypeVar("_T")

# How many decades an axis may span for its labels to stand at these multiples of ten.
_LABELS: Final = ((2.2, (1, 2, 5)), (4.0, (1, 3)), (float("inf"), (1,)))
_FEW_LABELS: Final = 3

_NEAR: Final = 0.28
"""Of the axis, from either end: a text that stands there begins, or ends, where its line is."""
_ROOM_APART: Final = 0.6
"""Of the axis, between two such lines, so that each has a text of its own."""


@dataclass(frozen=True)
class Stroke:
    """How one of FIGURES is drawn, in points: its line, its dots, and whether these are round or square."""

    width: float
    dot: float
    is_round: bool


STROKES: Final = {
    "min": Stroke(0.8, 3.0, True),
    "p50": Stroke(2.0, 5.5, True),
    "p99": Stroke(0.8, 3.5, False),
    "max": Stroke(1.4, 5.5, False),
}
"""Within one line's colour they also lie above each other in this order."""


@dataclass(frozen=True)
class Reach:
    """One statistic at one value of the key, ns: of its repetitions the least and the greatest, and where its line goes
    through: of `min` the least, of `max` the greatest, of others the middle one, as `repeats` has it.

    line_ns is None of what is known of each interval of time only: then these are of all of them.
    """

    low_ns: int
    high_ns: int
    line_ns: int | None


@dataclass(frozen=True)
class Point:
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
    reaches: Mapping[str, Reach]


@dataclass(frozen=True)
class Line:
    """The cells that differ in the key alone, by its value. name: what they have of what tells a panel's lines apart;
    empty where it has one only.
    """

    name: str
    look: Look
    points: tuple[Point, ...]

    def pieces(self, figure: str) -> list[list[tuple[int, int]]]:
        """(at, ns) that its line goes through, neighbours together: where a point lacks the figure there is a gap."""
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
class Panel:
    """Lines with axes to themselves. title: what they share that other panels do not. rooms: of their packets."""

    title: str
    lines: tuple[Line, ...]
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
    panels: tuple[Panel, ...]
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
    def points(self) -> Iterator[Point]:
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

    def frame_ends(self, panel: Panel) -> list[FrameEnd]:
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
    return [float(value) for value in MaxNLocator(4).tick_values(low, high) if low <= value <= high]


def _runs(found: Sequence[_T | None]) -> list[list[_T]]:
    """What is there, neighbours together."""
    runs = (list(run) for _, run in groupby(found, lambda one: one is None))
    return [kept for run in runs if (kept := [one for one in run if one is not None])]
