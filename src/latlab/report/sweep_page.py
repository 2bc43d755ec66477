"""A metric over a size or a duration, as the page draws it: places in per cent, without script or style; a table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from latlab.report.document import Table
from latlab.report.palette import Look
from latlab.report.sweep import FIGURES, STROKES, Line, Panel, Point, Stroke, Sweep
from latlab.report.testbed import label_text
from latlab.report.text import microseconds, whole
from latlab.result.types import Result

_TICK: Final = 0.17
"""Of a panel's width on the narrowest page, from the middle of one text of the key's axis to that of the next."""


@dataclass(frozen=True)
class Drawn:
    """One figure of one line. path: what its line goes through, and dots: the same places; bars: from the least to the
    greatest. All are SVG paths in a box of 100 × 100.
    """

    width: float
    dot: float
    is_round: bool
    path: str
    dots: str
    bars: str
    told: str


@dataclass(frozen=True)
class DrawnLine:
    """One line: its colour and dash, what is filled between its extremes, and its figures."""

    colour: int
    dash: str
    band: str
    figures: tuple[Drawn, ...]


@dataclass(frozen=True)
class DrawnPanel:
    """One panel. rooms: (%, text, where the text is anchored). told: the whole in words."""

    title: str
    lines: tuple[DrawnLine, ...]
    rooms: tuple[tuple[float, str, str], ...]
    told: str


@dataclass(frozen=True)
class SweepDrawing:
    """What the macro `sweep` of templates/charts.html.j2 is given. said: label and verdict.

    lines: (colour, dash, text). figures: (stroke, text). x_ticks, y_ticks: (%, text). table: what is drawn, as texts.
    """

    title: str
    said: str
    accuracy: str
    label: str
    heading: str
    lines_are: str
    lines: tuple[tuple[int, str, str], ...]
    figures: tuple[tuple[Stroke, str], ...]
    panels: tuple[DrawnPanel, ...]
    x_ticks: tuple[tuple[float, str], ...]
    y_ticks: tuple[tuple[float, str], ...]
    notes: tuple[str, ...]
    table: Table


def sweep_drawings(result: Result, found: Iterable[Sweep]) -> dict[str, list[tuple[str, SweepDrawing]]]:
    """{stream: [(metric, its drawing), …]}."""
    said = f"{label_text(result)} · verdict: {result.verdict}"
    drawings: dict[str, list[tuple[str, SweepDrawing]]] = {}
    for one in found:
        drawings.setdefault(one.stream, []).append((one.metric, sweep_drawing(one, said)))
    return drawings


def sweep_drawing(shown: Sweep, said: str) -> SweepDrawing:
    """The sweep as the page draws it, and its table. said: label and verdict."""
    return SweepDrawing(
        title=": ".join(
            filter(None, (", ".join(shown.streams[1:] and shown.streams), f"{shown.title}, by {shown.heading}"))
        ),
        said=said,
        accuracy=shown.accuracy,
        label=shown.label,
        heading=shown.heading,
        lines_are=shown.lines_are,
        lines=tuple((look.colour, _dash(look), name) for name, look in shown.lines),
        figures=tuple((STROKES[name], name) for name in reversed(shown.figures)),
        panels=tuple(_panel(shown, panel) for panel in shown.panels),
        x_ticks=tuple((_across(shown, at), text) for at, text in shown.x_ticks(_TICK)),
        y_ticks=tuple((_down(shown, value), text) for value, text in shown.y_ticks()),
        notes=shown.notes,
        table=_table(shown, said),
    )


def _table(shown: Sweep, said: str) -> Table:
    """The sweep's figures, a row a place on the axis. said: label and verdict."""
    leading = [heading for heading, stands in zip(("cells", shown.lines_are), _leads(shown), strict=True) if stands]
    names, counts = (*leading, shown.heading), (*FIGURES, "repeats", "n")
    headings = (*names, *counts, "verdict", *(("label",) if len(shown.labels) > 1 else ()))
    title = f"{shown.title}, by {shown.heading}: least … middle … greatest of the repetitions, µs · {said}"
    return Table(headings, list(_rows(shown)), range(len(names), len(names) + len(counts)), title)


def _leads(shown: Sweep) -> tuple[bool, bool]:
    """Whether rows of the table begin with their panel, and with their line: where there are several."""
    return len(shown.panels) > 1, bool(shown.lines_are)


def _panel(shown: Sweep, panel: Panel) -> DrawnPanel:
    ends = shown.frame_ends(panel)
    return DrawnPanel(
        panel.title,
        tuple(_line(shown, line) for line in panel.lines),
        tuple((round(100 * end.place, 2), end.text, end.anchor) for end in ends),
        " ".join(_told(shown, panel)),
    )


def _line(shown: Sweep, line: Line) -> DrawnLine:
    band = ([(at, high) for at, _, high in run] + [(at, low) for at, low, _ in reversed(run)] for run in line.band())
    figures = (
        _figure(shown, line, name) for name in shown.drawn if any(name in point.reaches for point in line.points)
    )
    filled = _paths(shown, band, end="z") if shown.drawn == FIGURES else ""
    return DrawnLine(line.look.colour, _dash(line.look), filled, tuple(figures))


def _figure(shown: Sweep, line: Line, name: str) -> Drawn:
    pieces, stroke = line.pieces(name), STROKES[name]
    bars = ([(at, low), (at, high)] for at, low, high in line.bars(name))
    return Drawn(
        width=stroke.width,
        dot=stroke.dot,
        is_round=stroke.is_round,
        path=_paths(shown, pieces),
        # A stroke without length is its cap alone, as round or as square as on a picture that is not stretched.
        dots=_paths(shown, ([place, place] for piece in pieces for place in piece)),
        bars=_paths(shown, bars),
        told=", ".join(filter(None, (line.name, name))),
    )


def _told(shown: Sweep, panel: Panel) -> Iterator[str]:
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


def _rows(shown: Sweep) -> Iterator[tuple[str, ...]]:
    for panel in shown.panels:
        for line in panel.lines:
            leading = [name for name, stands in zip((panel.title, line.name), _leads(shown), strict=True) if stands]
            for point in line.points:
                figures = (_text(point, name) for name in FIGURES)
                n = " to ".join(dict.fromkeys(map(whole, point.n)))
                label = (point.label,) if len(shown.labels) > 1 else ()
                yield (*leading, point.text, *figures, str(point.repeats), n, point.verdict, *label)


def _text(point: Point, name: str) -> str:
    """As the table of repetitions has it: the least, the middle and the greatest; blank where there is none."""
    reach = point.reaches.get(name)
    if reach is None:
        return ""
    values = (reach.low_ns, reach.line_ns, reach.high_ns)
    return " … ".join(dict.fromkeys(microseconds(ns) for ns in values if ns is not None))


def _dash(look: Look) -> str:
    return " ".join(map(str, look.dash))


def _paths(shown: Sweep, runs: Iterable[Sequence[tuple[int, int]]], end: str = "") -> str:
    """(at, ns) places joined, each run by itself."""
    return "".join(f"M{'L'.join(_place(shown, *one) for one in run)}{end}" for run in runs)


def _place(shown: Sweep, at: int, ns: int) -> str:
    return f"{100 * shown.x_axis.places([at])[0]:.1f} {_down(shown, ns):.1f}"


def _down(shown: Sweep, ns: float) -> float:
    """Per cent from the upper edge."""
    return round(100 * (1 - float(shown.y_axis.places([ns])[0])), 2)


def _across(shown: Sweep, at: int) -> float:
    """Per cent from the left edge."""
    return round(100 * float(shown.x_axis.places([at])[0]), 2)
