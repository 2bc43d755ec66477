"""Whether a tail's fit is stable, as the page draws it: SVG paths in a field of SIZE × SIZE for each panel."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from latlab.report.tail_view import CHOSEN, FITS, UNFIT, WARNING, Curve, Mark, TailCell, TailView, Ticks

SIZE: Final = 100
KEY: Final = ((CHOSEN, "chosen threshold"), (FITS, "a higher one"), (UNFIT, "one that does not fit"))


@dataclass(frozen=True)
class DrawnPanel:
    """One panel. paths: (class, SVG path data). across, up: ticks in per cent, from the left and from the top."""

    name: str
    across_name: str
    told: str
    across: Ticks
    up: Ticks
    paths: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class DrawnTail:
    """One cell's panels."""

    name: str
    colour: int
    told: str
    refused: bool
    panels: tuple[DrawnPanel, ...]


@dataclass(frozen=True)
class TailDrawing:
    """What the macro `tail` of templates/charts.html.j2 is given. without: lines for the cells that have no fit."""

    title: str
    warning: str
    key: tuple[tuple[str, str], ...]
    cells: tuple[DrawnTail, ...]
    without: tuple[str, ...]


def tail_drawing(view: TailView) -> TailDrawing:
    """The view as the page draws it."""
    return TailDrawing(
        title=f"The tail of {view.metric} beyond the sample, and whether it is stable",
        warning=WARNING,
        key=KEY,
        cells=tuple(_cell(view, cell) for cell in view.cells),
        without=view.without,
    )


def _cell(view: TailView, cell: TailCell) -> DrawnTail:
    exceedances, values = _across(view.exceedances), _across(cell.values)
    axis = ", ".join(filter(None, ("µs", cell.axis)))
    above = "values above the threshold"
    limits = ("limit", "".join(f"M0 {_y(at)}H{SIZE}" for at in view.limits))
    level = f"level of {view.level}, {axis}"
    share = "share of packets with a peak at or above"
    return DrawnTail(
        cell.name,
        cell.colour,
        cell.told,
        cell.refused,
        (
            DrawnPanel(
                "shape", above, f"{cell.name}: shape", exceedances, _up(view.shapes), (limits, *_marks(cell.shape))
            ),
            DrawnPanel(level, above, f"{cell.name}: {level}", exceedances, _up(cell.values), tuple(_marks(cell.level))),
            DrawnPanel(
                share, f"peak of an episode, {axis}", f"{cell.name}: {share}", values, _up(view.shares), _tail(cell)
            ),
        ),
    )


def _marks(marks: Sequence[Mark]) -> Iterable[tuple[str, str]]:
    """Intervals and points of each kind there is; what lies on what: as it is drawn."""
    for kind in (UNFIT, FITS, CHOSEN):
        those = [one for one in marks if one.kind == kind]
        if those:
            yield f"{kind} bar", "".join(f"M{_x(one.at)} {_y(one.low)}V{_y(one.high)}" for one in those)
            arrows = "".join(_arrows(one) for one in those)
            if arrows:
                yield f"{kind} arrow", arrows
            within = [(one.at, one.value) for one in those if not one.beyond]
            if within:
                yield from _points(kind, within)


def _arrows(one: Mark) -> str:
    """At the ends of the axis beyond which it goes on; panels are about 2.5 times as wide as they are high."""
    low, high = f"M{_x(one.at)} {SIZE}l-1.6 -6h3.2z", f"M{_x(one.at)} 0l-1.6 6h3.2z"
    return low * one.cut_low + high * one.cut_high


def _points(kind: str, places: Curve | Sequence[tuple[float, float]]) -> Iterable[tuple[str, str]]:
    """Lines without length, whose caps are the points; those that are hollow have a smaller one inside."""
    path = "".join(f"M{_x(at)} {_y(up)}h0" for at, up in places)
    yield f"{kind} point", path
    if kind in (FITS, UNFIT):
        yield f"{kind} hollow", path


def _tail(cell: TailCell) -> tuple[tuple[str, str], ...]:
    told = [(one.value, one.at) for one in cell.levels]
    bars = "".join(f"M{_x(one.low)} {_y(one.at)}H{_x(one.high)}" for one in cell.levels)
    paths = [
        *_points("measured", cell.measured),
        ("fitted", _curve(cell.fitted)),
        ("beyond", _curve(cell.beyond)),
        (f"{CHOSEN} bar", bars),
        *_points(CHOSEN, told),
    ]
    return tuple((name, path) for name, path in paths if path)


def _curve(curve: Curve) -> str:
    return "M" + "L".join(f"{_x(at)} {_y(up)}" for at, up in curve) if curve else ""


def _across(ticks: Ticks) -> Ticks:
    return tuple((_x(at), text) for at, text in ticks)


def _up(ticks: Ticks) -> Ticks:
    return tuple((_y(at), text) for at, text in ticks)


def _x(at: float) -> float:
    return round(SIZE * at, 1)


def _y(up: float) -> float:
    """Downwards, as SVG has it."""
    return round(SIZE * (1 - up), 1)
