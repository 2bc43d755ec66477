"""What of a result is shown over a size or a duration of its matrix: which keys, which cells, which figures."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median_low
from typing import Final

from latlab.analysis.axis import log_axis
from latlab.analysis.words import plural
from latlab.evaluation.comparison.cells import FEWEST
from latlab.model.errors import LatlabError
from latlab.model.metrics import METRIC_ORDER, METRICS_BY_NAME
from latlab.model.part import VERDICTS
from latlab.recordings.run_folder import RunFolder
from latlab.report import rows
from latlab.report.charts.sheet import ANY_COLOUR, COLOURS, DASHES, Look
from latlab.report.charts.sweep import FIGURES, StatisticReach, Sweep, SweepLine, SweepPanel, SweepPoint, on_common_axes
from latlab.report.legend import Looks, is_of_bridges
from latlab.report.testbed import label_text
from latlab.result.places import dimension_text, short_headings
from latlab.result.types import Cell, Metric, Result
from latlab.scenario import Scenario, cells, load_scenario
from latlab.scenario.models import Room, room
from latlab.scenario.units import SIZE, Quantity, numbers

BESIDE: Final = 3
"""Lines of cells in one panel: with more, it is not clear which maximum belongs to which median."""
_OF_SEVERAL: Final = ("p50", "max")
"""The figures that are drawn of several probes: more lines could not be distinguished."""

Rooms = Callable[[str, str], Room | None]
"""(cell's slug, stream) → what of it goes in one frame."""


def sweeps(result: Result, rooms: Rooms) -> list[Sweep]:
    """One for each stream, metric and key of sizes or durations with FEWEST values or more, in the tables' order.

    Probes that have such a key alike share one.
    """
    candidates = [
        one
        for metric in result.metric_names(METRIC_ORDER)
        if metric in METRICS_BY_NAME
        for stream in rows.stream_names(result)
        for one in _of_stream(result, stream, metric)
    ]
    alike: dict[tuple[str, ...], list[_Candidate]] = {}
    for one in candidates:
        alike.setdefault(one.kind, []).append(one)
    found = [_sweep(result, several, rooms) for several in alike.values()]
    return [on_common_axes(one, found) for one in found]


@dataclass(frozen=True)
class _Measured:
    """A cell of one stream and metric that ran to its end, with the metric's figures."""

    stream: str
    cell: Cell
    figures: Metric


@dataclass(frozen=True)
class _Candidate:
    """A stream's cells that have a metric and the key. at: the key's value in each, in bytes or ns. left_out: how many
    repetitions did not run to their end.
    """

    stream: str
    metric: str
    key: str
    quantity: Quantity
    at: Sequence[int]
    having: Sequence[_Measured]
    left_out: int

    @property
    def heading(self) -> str:
        """The key, as short as the stream allows."""
        return self.key.split(".", 2)[2] if self.key.startswith(("streams.", "probes.")) else self.key

    @property
    def kind(self) -> tuple[str, ...]:
        """Those of one kind are drawn together: whole probes, each over its own key."""
        is_probes_own = self.key == f"probes.{self.stream}.{self.heading}"
        return (self.metric, self.heading, *(() if is_probes_own else (self.stream, self.key)))


def belongs(key: str, stream: str) -> bool:
    """Whether a key of the matrix says something of a stream, a probe or a leg: another's own keys do not."""
    kind, _, rest = key.partition(".")
    return kind not in ("streams", "probes") or rest.split(".")[0] in (stream, stream.rsplit(".", 1)[0])


def _of_stream(result: Result, stream: str, metric: str) -> Iterator[_Candidate]:
    every = [
        _Measured(stream, cell, figures)
        for cell in rows.ordered_cells(result)
        if (figures := cell.figures(stream, metric)) and any(_reach(name, [figures]) for name in FIGURES)
    ]
    ended = [one for one in every if one.cell.status == "ok"]
    for key in dict.fromkeys(key for one in ended for key in one.cell.cell):
        having = [one for one in ended if key in one.cell.cell]
        known = numbers([one.cell.cell[key] for one in having]) if belongs(key, stream) else None
        if known and len(set(known[1])) >= FEWEST:
            yield _Candidate(stream, metric, key, *known, having, len(every) - len(ended))


def _sweep(result: Result, candidates: Sequence[_Candidate], rooms: Rooms) -> Sweep:
    """That of these candidates, all of one kind, on separate axes."""
    first = candidates[0]
    found = [(at, one) for candidate in candidates for at, one in zip(candidate.at, candidate.having, strict=True)]
    has_packets_of_it = first.key != first.heading and first.key.endswith(".size") and first.quantity is SIZE
    lines_are, panels = _panels(
        result,
        {candidate.stream: candidate.key for candidate in candidates},
        found,
        lambda slug, stream: rooms(slug, stream) if has_packets_of_it else None,
    )
    streams = tuple(candidate.stream for candidate in candidates)
    ends = dict.fromkeys(rows.difference(one.figures.to, one.figures.from_) for _, one in found)
    every = [row for stream in streams for row in rows.stream_rows(result, stream, first.metric)]
    drawn = FIGURES if len(streams) == 1 else _OF_SEVERAL
    return Sweep(
        streams=streams,
        metric=first.metric,
        title=METRICS_BY_NAME[first.metric].title,
        label=f"{first.metric} = {' or '.join(ends)}",
        key=first.key,
        heading=first.heading,
        uncertainty=rows.largest_uncertainty(every),
        lines_are=lines_are,
        panels=panels,
        x_axis=log_axis([at for at, _ in found]),
        y_axis=log_axis([ns for panel in panels for line in panel.lines for ns in _reached(line, drawn)]),
        notes=tuple(_notes(panels, sum(candidate.left_out for candidate in candidates), drawn)),
        drawn=drawn,
    )


def _panels(
    result: Result,
    keys: Mapping[str, str],
    found: Sequence[tuple[int, _Measured]],
    room: Callable[[str, str], Room | None],
) -> tuple[str, tuple[SweepPanel, ...]]:
    """What the lines of a panel differ in, empty where each has one only; and the panels of (key's value, cell) pairs.

    keys: stream → the key that is drawn. Several streams are lines of every panel. The last other key with at most
    BESIDE values distinguishes lines, so that tuned and untuned lines are in one panel; the others distinguish panels.
    room: (cell's slug, stream) → what of it goes in one frame.
    """
    several = len(keys) > 1
    drawn = {*keys.values(), *(("probes",) if several else ())}
    others = tuple(dict.fromkeys(key for _, one in found for key in one.cell.cell if key not in drawn))
    values = {other: list(dict.fromkeys(_text(one.cell, other) for _, one in found)) for other in others}
    varying = [other for other in others if len(values[other]) > 1]
    inside = next((other for other in reversed(varying) if len(values[other]) <= BESIDE), "")
    headings = dict(zip(others, short_headings(others), strict=True))
    every = [one for _, one in found]
    looks = _Looks(result, every, values.get(inside, [""]), of_bridges=any(map(is_of_bridges, varying)))
    grouped: dict[str, dict[tuple[str, str], list[tuple[int, _Measured]]]] = {}
    for at, one in found:
        title = ", ".join(f"{headings[other]} {_text(one.cell, other)}" for other in varying if other != inside)
        grouped.setdefault(title, {}).setdefault((one.stream, _text(one.cell, inside)), []).append((at, one))
    panels = (
        SweepPanel(
            title,
            tuple(
                _line(
                    _line_name(stream if several else "", headings.get(inside, ""), name),
                    looks.of(name, its[0][1]),
                    keys[stream],
                    its,
                )
                for (stream, name), its in lines.items()
            ),
            _distinct(room(one.cell.slug, one.stream) for its in lines.values() for _, one in its),
        )
        for title, lines in grouped.items()
    )
    return "probes" if several else headings.get(inside, ""), tuple(panels)


def _line_name(stream: str, heading: str, value: str) -> str:
    """Of one stream the value alone, as the legend has the heading; of several the stream, and the value with it."""
    return ", ".join((stream, *((f"{heading} {value}",) if heading else ()))) if stream else value


class _Looks:
    """How lines look. Where bridges differ, a line has the colour of its bridge, or none if it is of no guest, and the
    dash distinguishes lines of one panel; else the colour is the stream's, or distinguishes lines of one stream.
    """

    def __init__(self, result: Result, found: Sequence[_Measured], inside: Sequence[str], *, of_bridges: bool) -> None:
        self._looks, self._inside, self._of_bridges = Looks(result), inside, of_bridges
        self._of_guests = {one.stream: _is_of_guests(one) for one in found}
        self._streams = sorted(self._of_guests, key=lambda stream: not self._of_guests[stream])

    def of(self, name: str, one: _Measured) -> Look:
        """Of the line that this cell is on. name: its values of the keys that distinguish a stream's lines."""
        number, place = self._inside.index(name), self._streams.index(one.stream)
        dash = number
        if self._of_bridges:
            colour = self._looks.of(one.cell).colour if self._of_guests[one.stream] else ANY_COLOUR
            dash += place * len(self._inside)
        else:
            colour = (place if len(self._streams) > 1 else number) % len(COLOURS)
        return Look(colour, DASHES[dash % len(DASHES)], "")


def _is_of_guests(one: _Measured) -> bool:
    """Whether a guest is at one of its ends; also where the cell names no guests."""
    block = one.cell.streams[one.stream]
    guests = {guest.name for guest in one.cell.guests}
    return not guests or bool(guests & {block.talker, block.listener})


def _text(cell: Cell, key: str) -> str:
    return dimension_text(cell.cell[key]) if key in cell.cell else ""


def _line(name: str, look: Look, key: str, found: Sequence[tuple[int, _Measured]]) -> SweepLine:
    at_each: dict[int, list[_Measured]] = {}
    for at, one in found:
        at_each.setdefault(at, []).append(one)
    points = (_point(at, key, at_each[at]) for at in sorted(at_each))
    return SweepLine(name, look, tuple(points))


def _point(at: int, key: str, found: Sequence[_Measured]) -> SweepPoint:
    counts = [one.figures.n or 0 for one in found]
    reaches = ((name, _reach(name, [one.figures for one in found])) for name in FIGURES)
    return SweepPoint(
        at=at,
        text=_text(found[0].cell, key),
        repeats=len({one.cell.key for one in found}),
        n=(min(counts), max(counts)),
        verdict=max((one.cell.verdict for one in found), key=VERDICTS.index),
        label=", ".join(sorted({label_text(one.cell) for one in found})),
        reaches={name: reach for name, reach in reaches if reach is not None},
    )


def _reach(name: str, found: Sequence[Metric]) -> StatisticReach | None:
    """None where n does not support it in every repetition."""
    values = [ns for one in found if (ns := getattr(one, name)) is not None]
    if len(values) == len(found):
        through = {"min": min, "max": max}.get(name, median_low)
        return StatisticReach(min(values), max(values), through(values))
    each = [ends for one in found if (ends := getattr(one.intervals, name, None))]
    if len(each) < len(found):
        return None
    return StatisticReach(min(low for low, _ in each), max(high for _, high in each), None)


def _reached(line: SweepLine, drawn: Sequence[str]) -> Iterator[int]:
    for point in line.points:
        for name, reach in point.reaches.items():
            if name in drawn:
                yield from (reach.low_ns, reach.high_ns)


def _distinct(rooms: Iterator[Room | None]) -> tuple[Room, ...]:
    known = {one for one in rooms if one is not None}
    return tuple(sorted(known, key=lambda one: one.largest))


def _notes(panels: Sequence[SweepPanel], left_out: int, drawn: Sequence[str]) -> Iterator[str]:
    points = [point for panel in panels for line in panel.lines for point in line.points]
    most = max(point.repeats for point in points)
    if most > 1:
        yield (
            f"a line goes through the middle of {most} repetitions, of min through the least and of max through the "
            "greatest; a bar is from the least to the greatest"
        )
    if drawn != FIGURES:
        others = " and ".join(name for name in FIGURES if name not in drawn)
        yield f"the lines are {' and '.join(drawn)}; the table has {others}, too"
    if any(name not in point.reaches for point in points for name in drawn):
        yield "figures that n does not support in every repetition, or that a tool does not report, are not drawn"
    if any(reach.line_ns is None for point in points for reach in point.reaches.values()):
        yield "a bar without a line is of figures of each interval of time, from the least to the greatest"
    if rooms := tuple(dict.fromkeys(room for panel in panels for room in panel.rooms)):
        yield _of_rooms(rooms)
    if len({point.label for point in points}) > 1:
        yield "points of different labels cannot be compared; the table names the labels"
    if left_out:
        yield f"{left_out} that did not run to their end are left out"
    untrusted = sum(point.verdict == "untrusted" for point in points)
    if untrusted:
        yield f"{untrusted} of {plural(len(points), 'point')} {'is' if untrusted == 1 else 'are'} untrusted"


def _of_rooms(rooms: Sequence[Room]) -> str:
    sizes = ", ".join(f"{room.largest} B at MTU {room.mtu}" for room in rooms)
    line = f"packets larger than {sizes} are sent in several frames"
    if all(room.is_exact for room in rooms):
        return line
    return f"{line}; over DDS somewhat smaller sizes may, too, because of its headers"


class FrameRooms:
    """The rooms of a run's cells. The scenario is read when the first one is asked for."""

    def __init__(self, folder: RunFolder) -> None:
        self._path = folder.scenario_path

    def of(self, slug: str, stream: str) -> Room | None:
        """That of a cell's stream, probe or leg; None if unknown, as for an imported cell."""
        scenario = self._scenarios.get(slug)
        return room(scenario, stream) if scenario else None

    @cached_property
    def _scenarios(self) -> Mapping[str, Scenario]:
        try:
            return {cell.slug: cell.scenario for cell in cells(load_scenario(self._path))}
        except LatlabError:
            return {}  # as a later version of latlab may read it differently
