"""Gate schedules: a lane for each traffic class, its windows, and where in them packets leave."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np

from latlab.analysis.gate_port import GateLoad, GatePort
from latlab.analysis.gates import Int64, Openings
from latlab.analysis.promise import GatedStream, Promise, accepted_launches, lattice_of, openings_of, survive
from latlab.analysis.words import plural
from latlab.evaluation.gates import (
    Promised,
    Scheduled,
)
from latlab.model.part import Keys
from latlab.model.units import TIMES_SHOWN
from latlab.report.charts import sheet as on
from latlab.report.charts.sheet import COLOURS, LOST_COLOUR, Drawing, Sheet, round_values, text_in
from latlab.report.gates import (
    departs_when,
    load_titles,
    short,
    titles_of,
)
from latlab.report.text import exact, plain
from latlab.scenario import format_rate

_ROW_IN: Final = 0.36
"""A stream's, a load's, or a class's that has neither."""
_LANE_GAP_IN: Final = 0.08
_LAUNCHES_MAX: Final = 16
"""More phases than these are no arrows any more: their departures fill intervals."""
_TICKS_MAX: Final = 400
_WINDOW_ALPHA: Final = 0.30
_MANY_ALPHA: Final = 0.45
_NONE: Final = (np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))
"""Of launches that are taken."""


@dataclass(frozen=True)
class _Row:
    """One line of a port's panel. below_in: from the panel's upper edge to the row's."""

    traffic_class: int
    below_in: float
    first: bool
    who: GatedStream | GateLoad | None


def gates_chart(name: str, found: Scheduled, labels: Mapping[str, Keys]) -> Drawing:
    """A panel for each port of each group of cells, below each other.

    found: the cells' slugs, and their ports. labels: of every cell, by slug.
    """
    several = len([cells for cells, ports in found if ports]) > 1
    panels = [
        (f"{plural(len(cells), 'cell')}, {titles_of(cells, labels)}" if several else "", one)
        for cells, ports in found
        for one in ports
    ]
    return Drawing("gates", f"{name}: gates" if name else "Gates", partial(_pieces, panels))


def port_chart(one: Promised, cells: str = "") -> Drawing:
    """One port's panel alone. cells: where it holds; empty in all of them."""
    return Drawing("gates", _title(one.port), partial(_pieces, [(cells and f"in {cells}", one)], titled=False))


def _pieces(panels: Sequence[tuple[str, Promised]], width_in: float, *, titled: bool = True) -> Iterator[Sheet]:
    for where, one in panels:
        if where or titled:
            sheet, top = Sheet(width_in), 0.08
            if titled:
                top = sheet.paragraph(on.SIDE_IN, top, _title(one.port), size=on.TITLE_PT)
            sheet.height_in = sheet.paragraph(on.SIDE_IN, top, where, colour=on.QUIET) if where else top
            yield sheet
        yield _port_sheet(one, width_in)
    yield _key([one for _, one in panels], width_in)


def _port_sheet(one: Promised, width_in: float) -> Sheet:
    """The lanes of one port; where the window is narrow what is said of a row stands above it."""
    port = one.port
    told = (f"class {each}: {_told(port, each)}" for each in port.classes)
    sheet = Sheet(width_in, told=f"{_title(port)}: {'; '.join(told)}")
    rows, beside = _rows(port), width_in >= on.BESIDE_IN
    class_in = text_in("class 15", on.TEXT_PT, "bold")
    names_in = max((text_in(_row_name(row.who), on.TEXT_PT) for row in rows if row.who), default=0.0)
    notes_in = max((text_in(line, on.TEXT_PT) for text in _notes(one) for line in text.splitlines()), default=0.0)
    left = on.SIDE_IN + 0.1 + (class_in + (names_in + 0.14 if names_in else 0) if beside else 0.0)
    right = width_in - on.SIDE_IN - 0.1 - (notes_in if beside else 0.0)
    place = _LanesPlace(sheet, one, left, 0.3, right - left, 1.0 if beside else 2.6)
    place.grid(rows)
    for row in rows:
        middle = place.middle(row)
        name = _row_name(row.who) if row.who else ""
        note = _row_note(one, row.who)
        if beside:
            if row.first:
                at = left - 0.1 - (names_in + 0.14 if names_in else 0)
                sheet.text(at, middle, f"class {row.traffic_class}", weight="bold", ha="right")
            sheet.text(
                left - 0.1, middle, name, colour=on.INK if isinstance(row.who, GatedStream) else on.QUIET, ha="right"
            )
            for number, line in enumerate(note.splitlines()):
                sheet.text(right + 0.1, middle - 0.07 + 0.14 * number, line, colour=on.QUIET)
        else:
            above = f"class {row.traffic_class} {name}".strip()
            top = middle - _ROW_IN / 2 - 0.5
            sheet.text(left, top, above, weight="bold", size=on.SMALL_PT)
            for number, line in enumerate(note.splitlines()):
                sheet.text(left, top + 0.15 * (number + 1), line, colour=on.QUIET, size=on.SMALL_PT)
        match row.who:
            case GatedStream():
                place.stream(row.who, next(each for each in one.promises if each.stream == row.who.name), middle)
            case GateLoad():
                place.load(row.who, middle)
    return sheet


@dataclass(frozen=True)
class _LanesPlace:
    """A place on a sheet for one port's lanes. stretch: of rows, where their names stand above them."""

    sheet: Sheet
    one: Promised
    left: float
    top: float
    width: float
    stretch: float

    @property
    def cycle_ns(self) -> int:
        """How long the axis is."""
        return self.one.port.schedule.cycle_ns

    def x(self, at_ns: float) -> float:
        """Where an instant of the cycle is."""
        return self.left + self.width * at_ns / self.cycle_ns

    def middle(self, row: _Row) -> float:
        """The line on which a row is drawn: at its foot, where it is stretched."""
        return self.top + row.below_in * self.stretch + _ROW_IN * (self.stretch - 0.5)

    def box(self, start_ns: float, length_ns: float, top: float, height: float, fill: str, **style: object) -> None:
        """Fill an interval of the cycle, which may extend over its end."""
        for start, end in _wrapped(round(start_ns), round(length_ns), self.cycle_ns):
            self.sheet.box(self.x(start), top, self.x(end) - self.x(start), height, fill, **style)

    def grid(self, rows: Sequence[_Row]) -> None:
        """Draw the lanes, where gates move, and the axis, and end the sheet below it."""
        port, sheet = self.one.port, self.sheet
        bottom = self.top + (rows[-1].below_in + _ROW_IN) * self.stretch
        for traffic_class in port.classes:
            lane = [row for row in rows if row.traffic_class == traffic_class]
            self.lane(traffic_class, self.top + lane[0].below_in * self.stretch, len(lane) * _ROW_IN * self.stretch)
        unit_ns, unit = next((one for one in TIMES_SHOWN if self.cycle_ns >= 10 * one[0]), TIMES_SHOWN[-1])
        free_in = 0.0
        for at in (*port.schedule.starts_ns, self.cycle_ns):
            sheet.lines([[(self.x(at), self.top), (self.x(at), bottom)]], on.EDGE, 0.6, name="instant")
            text = plain(at / unit_ns)
            half_in = text_in(text, on.SMALL_PT) / 2
            if self.x(at) - half_in >= free_in or at == 0:
                sheet.text(
                    self.x(at), self.top - 0.06, text, size=on.SMALL_PT, colour=on.QUIET, ha="center", va="bottom"
                )
                free_in = self.x(at) + half_in + 0.06
        sheet.lines([[(self.left, bottom), (self.left + self.width, bottom)]], on.EDGE)
        for tick in round_values(0, self.cycle_ns / unit_ns, max(3, int(self.width * 1.4))):
            x = self.x(tick * unit_ns)
            sheet.lines([[(x, bottom), (x, bottom + 0.04)]], on.EDGE)
            sheet.text(x, bottom + 0.07, plain(tick), size=on.SMALL_PT, colour=on.QUIET, ha="center", va="top")
        what = f"time in the cycle [{unit}]"
        sheet.text(self.left + self.width / 2, bottom + 0.24, what, size=on.SMALL_PT, ha="center", va="top")
        sheet.height_in = bottom + 0.5

    def lane(self, traffic_class: int, top: float, height: float) -> None:
        """Draw when its gate is open, as its packets see it, and the guard at the end of each window."""
        port = self.one.port
        self.sheet.box(self.left, top, self.width, height, on.GRID, alpha=0.45, name="lane")
        colour = COLOURS[traffic_class % len(COLOURS)]
        flows = [one for one in port.flows if one.traffic_class == traffic_class]
        guard_ns = max((one.frame.guard_ns(port.speed_bps) for one in flows), default=0)
        early_ns = max((one.handover.early_ns for one in flows), default=0)
        for window in port.schedule.windows(traffic_class):
            length_ns = self.cycle_ns if window.length_ns is None else window.length_ns
            self.box(window.start_ns, length_ns, top, height, colour, alpha=_WINDOW_ALPHA, name="window")
            if early_ns and window.length_ns is not None:
                style: on.Style = {"edge": colour, "line": 1.1, "dash": (4, 2), "name": "as-they-appear"}
                self.box(window.start_ns - early_ns, length_ns, top, height, "none", **style)
            if guard_ns and window.length_ns is not None:
                shown_ns = min(guard_ns, length_ns)
                for start, end in _wrapped(window.start_ns + length_ns - shown_ns, shown_ns, self.cycle_ns):
                    _hatch(self.sheet, (self.x(start), self.x(end)), top, height, colour)

    def stream(self, flow: GatedStream, promised: Promise, middle: float) -> None:
        """Draw its launches, and when each departs; of many phases, the intervals that they fill."""
        port, cycle_ns, sheet = self.one.port, self.cycle_ns, self.sheet
        lattice = lattice_of(port.schedule, flow)
        launches = list(lattice.phases(cycle_ns)) if promised.phases <= _TICKS_MAX else []
        few = promised.phases <= _LAUNCHES_MAX
        up, down = middle - 0.09, middle + 0.07
        _, openings = openings_of(port.schedule, port.mode, flow, port.speed_bps)
        accepted = accepted_launches(port.schedule, flow, port.speed_bps)
        kept = survive(accepted, np.array(launches, dtype=np.int64)) & promised.departs
        if not few:
            if launches:
                for colour, those in ((LOST_COLOUR, ~kept), (on.QUIET, kept)):
                    ticks = np.array(launches)[those].tolist()
                    sheet.lines([[(self.x(at), up - 0.03), (self.x(at), up + 0.03)] for at in ticks], colour, 0.5)
            else:
                for first, last, colour in _launches(accepted if promised.departs else _NONE, cycle_ns):
                    self.box(first, last - first + 1, up - 0.015, 0.03, colour, alpha=_MANY_ALPHA, name="launches")
            if not promised.departs:
                sheet.lines([[(self.x(0), down), (self.x(cycle_ns), down)]], LOST_COLOUR, 1.2)
                return
            for start, last in _stretches(openings, accepted, flow, cycle_ns):
                # Those that all leave as a window opens would be too narrow to be seen.
                length_ns = max(last - start + promised.frame_ns, cycle_ns // 250)
                self.box(start, length_ns, down - 0.055, 0.11, on.INK, alpha=_MANY_ALPHA, name="frames")
            return
        waits: list[tuple[int, int]] = []
        for launch, survives in zip(launches, kept.tolist(), strict=True):
            if survives:
                leaves = launch + _departure_ns(openings, flow, launch)
                waits += _wrapped(min(launch, leaves), abs(leaves - launch), cycle_ns)
                sheet.lines([[(self.x(launch), up), (self.x(launch), down)]], on.INK, 0.7)
                self.frame(leaves, promised.frame_ns, down, on.INK)
            else:
                _cross(sheet, self.x(launch), down)
        # Dashes that overlap would be a solid line.
        dashed = [[(self.x(start), down), (self.x(end), down)] for start, end in _united(waits)]
        sheet.lines(dashed, on.INK, 0.9, dash=(1.8, 1.35), name="waits")
        sheet.marks([(self.x(at), up) for at in launches], "v", 6.5, on.INK, inside=on.PAPER, name="launch")

    def load(self, load: GateLoad, middle: float) -> None:
        """Draw its frames, to scale, at the start of each of its windows."""
        frame_ns = load.frame.serialisation_ns(self.one.port.speed_bps)
        for window in self.one.port.schedule.windows(load.traffic_class):
            self.frame(window.start_ns, frame_ns, middle, on.QUIET)

    def frame(self, at_ns: int, length_ns: int, middle: float, colour: str) -> None:
        """Draw a frame on the wire, to scale; a line where it is too short to be seen."""
        self.box(at_ns, length_ns, middle - 0.055, 0.11, colour, edge=colour, line=1.4, name="frame")


def _hatch(sheet: Sheet, ends: tuple[float, float], top: float, height: float, colour: str) -> None:
    left, right = ends
    count = max(1, round((right - left) / 0.05))
    across = [left + (right - left) * (number + 0.5) / count for number in range(count)]
    sheet.lines([[(x, top), (x, top + height)] for x in across], colour, 0.8, name="guard")


def _cross(sheet: Sheet, x: float, y: float) -> None:
    size = 0.04
    lines = [[(x - size, y - size), (x + size, y + size)], [(x - size, y + size), (x + size, y - size)]]
    sheet.lines(lines, LOST_COLOUR, 1.4, name="dropped")


def _rows(port: GatePort) -> list[_Row]:
    rows, below = [], 0.0
    for traffic_class in port.classes:
        inside: list[GatedStream | GateLoad | None] = [one for one in port.flows if one.traffic_class == traffic_class]
        inside += [one for one in port.loads if one.traffic_class == traffic_class]
        for number, who in enumerate(inside or [None]):
            rows.append(_Row(traffic_class, below, number == 0, who))
            below += _ROW_IN
        below += _LANE_GAP_IN
    return rows


def _row_name(who: GatedStream | GateLoad) -> str:
    return who.name if isinstance(who, GatedStream) else who.title


def _row_note(one: Promised, who: GatedStream | GateLoad | None) -> str:
    """What is said at the right of a stream's or load's row."""
    match who:
        case GatedStream():
            return _note(next(each for each in one.promises if each.stream == who.name))
        case GateLoad():
            return _load_note(one.port, who)
    return ""


def _notes(one: Promised) -> Iterator[str]:
    rows: tuple[GatedStream | GateLoad, ...] = (*one.port.flows, *one.port.loads)
    return (_row_note(one, who) for who in rows)


def _note(promised: Promise) -> str:
    if not promised.departs:
        return "no packet departs"
    dropped = f", {promised.dropped} of {promised.phases} dropped" if promised.dropped else ""
    return f"departs {departs_when(promised)}{dropped}\nframe {short(promised.frame_ns)}, phases: {promised.phases}"


def _load_note(port: GatePort, load: GateLoad) -> str:
    return f"frames up to {load.frame.size} B,\n{short(load.frame.serialisation_ns(port.speed_bps))} each"


def _title(port: GatePort) -> str:
    shift = f" shifted by {exact(port.schedule.shift_ns)} µs" if port.schedule.shift_ns else ""
    cycle = f"cycle {exact(port.schedule.cycle_ns)} µs{shift}"
    return f"{port.interface}: taprio {port.mode}, {cycle}, {format_rate(port.speed_bps)}"


def _told(port: GatePort, traffic_class: int) -> str:
    windows = port.schedule.windows(traffic_class)
    if port.schedule.is_always_open(traffic_class):
        opened = "its gate never closes"
    else:
        spans = (f"{exact(one.start_ns)} to {exact(one.end_ns or 0)}" for one in windows)
        opened = f"open {', '.join(spans)} µs" if windows else "its gate never opens"
    who = [one for one in port.flows if one.traffic_class == traffic_class]
    counts = [(one.name, port.schedule.cycle_ns // lattice_of(port.schedule, one).step_ns) for one in who]
    launched = [f"{name} is launched at {count} phase{'s' if count > 1 else ''} of the cycle" for name, count in counts]
    loads = [f"{title} sends there" for title in load_titles(port, traffic_class)]
    return "; ".join((opened, *launched, *loads))


def _departure_ns(openings: Openings, flow: GatedStream, launch_ns: int) -> int:
    """From launch to departure, the upper bound."""
    handover = flow.handover
    ready = launch_ns + handover.ready_ns
    return (int(openings.departs(ready)) if handover.gated else ready) - handover.early_ns - launch_ns


def _stretches(
    openings: Openings, accepted: tuple[Int64, Int64] | None, flow: GatedStream, cycle_ns: int
) -> Iterator[tuple[int, int]]:
    """From when to when packets of any phase depart; of launch times, those that are taken."""
    if accepted is not None:
        handover = flow.handover
        for first, last in _taken(accepted):
            ready = first + handover.ready_ns, last + handover.ready_ns
            for start, end in openings.departures(*ready) if handover.gated else (ready,):
                yield start - handover.early_ns, end - handover.early_ns
        return
    if openings.always or not flow.handover.gated:
        yield 0, cycle_ns - 1
        return
    for start, last in zip(openings.start_ns.tolist(), openings.last_ns.tolist(), strict=True):
        yield start - flow.handover.early_ns, last - flow.handover.early_ns


def _taken(accepted: tuple[Int64, Int64]) -> list[tuple[int, int]]:
    """The first and last phases of launches that are taken, of each window that takes any."""
    each = zip(*(ends.tolist() for ends in accepted), strict=True)
    return [(first, last) for first, last in each if first <= last]


def _launches(accepted: tuple[Int64, Int64] | None, cycle_ns: int) -> Iterator[tuple[int, int, str]]:
    """The first and last phases of launches, and the colour of those: of dropped ones another."""
    if accepted is None:
        yield 0, cycle_ns - 1, on.QUIET
        return
    begin = 0
    for first, last in _taken(accepted):
        if begin < first:
            yield begin, first - 1, LOST_COLOUR
        yield first, last, on.QUIET
        begin = last + 1
    if begin < cycle_ns:
        yield begin, cycle_ns - 1, LOST_COLOUR


def _united(parts: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The intervals, in order, those that meet as one."""
    united: list[tuple[int, int]] = []
    for start, end in sorted(parts):
        if united and start <= united[-1][1]:
            united[-1] = united[-1][0], max(end, united[-1][1])
        else:
            united.append((start, end))
    return united


def _wrapped(start_ns: int, length_ns: int, cycle_ns: int) -> Iterator[tuple[int, int]]:
    """The parts of an interval of time in the cycle: one, or two where it extends over the cycle's end."""
    start = start_ns % cycle_ns
    length = min(length_ns, cycle_ns)
    yield start, min(start + length, cycle_ns)
    if start + length > cycle_ns:
        yield 0, start + length - cycle_ns


def _key(shown: Sequence[Promised], width_in: float) -> Sheet:
    """What the picture has to explain."""
    sheet, found = Sheet(width_in), []

    def add(draw: Callable[[float, float], None], text: str, *, when: bool) -> None:
        if when:
            found.append((draw, 0.2, text))

    def box(fill: str, x: float, y: float, **style: object) -> None:
        sheet.box(x, y - 0.055, 0.2, 0.11, fill, **style)

    grey = on.QUIET
    promises = [promised for one in shown for promised in one.promises]
    few = any(promised.phases <= _LAUNCHES_MAX for promised in promises)
    add(partial(box, grey, alpha=_WINDOW_ALPHA), "gate open", when=True)
    add(lambda x, y: sheet.marks([(x + 0.1, y)], "v", 6.5, on.INK, inside=on.PAPER), "launch", when=few)
    add(lambda x, y: sheet.lines([[(x, y), (x + 0.2, y)]], on.INK, 0.9, dash=(1.8, 1.35)), "until it departs", when=few)
    add(partial(box, on.INK), "frame on the wire", when=few)
    many = any(promised.phases > _LAUNCHES_MAX for promised in promises)
    launches = partial(sheet.box, width=0.2, height=0.03, alpha=_MANY_ALPHA)
    add(lambda x, y: launches(x, y - 0.015, fill=on.QUIET), "launches, many phases", when=many)
    add(partial(box, on.INK, alpha=_MANY_ALPHA), "frames of these", when=many)
    never = [one.phases <= _LAUNCHES_MAX for one in promises if one.dropped or not one.departs]
    add(lambda x, y: _cross(sheet, x + 0.1, y), "never departs", when=any(never))
    add(lambda x, y: launches(x, y - 0.015, fill=LOST_COLOUR), "never depart", when=not all(never))
    add(lambda x, y: _hatch(sheet, (x, x + 0.2), y - 0.055, 0.11, grey), "guard", when=bool(promises))
    early = any(flow.handover.early_ns for one in shown for flow in one.port.flows)
    add(partial(box, "none", edge=grey, line=1.1, dash=(4, 2)), "windows as they appear", when=early)
    add(partial(box, on.QUIET), "frame of a load", when=any(one.port.loads for one in shown))
    sheet.key(on.SIDE_IN, 0.05, found)
    return sheet
