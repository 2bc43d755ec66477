"""Whether a tail's fit is stable: shape, level and the tail itself of each cell, side by side.

Shapes, exceedances and shares are on the same axes in every cell. The value axis is each cell's own: a tail is held
against its fit, not against another cell's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import ceil, exp, floor, inf, log, log10, nan
from typing import Any, Final, NamedTuple

import numpy as np

from latlab.analysis.axis import Axis, common_axis
from latlab.analysis.extremes import LEAST_SHAPE, quantile
from latlab.analysis.tail import LARGEST_SHAPE
from latlab.analysis.way import EXPLAINED
from latlab.analysis.words import duration
from latlab.model.units import MICROSECOND_NS
from latlab.report import rows
from latlab.report.charts.sheet import (
    BESIDE_IN,
    COLOURS,
    EDGE,
    GRID,
    INK,
    PAPER,
    QUIET,
    SIDE_IN,
    SMALL_PT,
    TITLE_PT,
    Drawing,
    Point,
    Sheet,
    round_values,
)
from latlab.report.legend import Looks
from latlab.report.text import plain, short_count
from latlab.result.places import cell_name
from latlab.result.types import Peaks, Result, Tail, TailFit

CHOSEN: Final = "chosen"
FITS: Final = "fits"
UNFIT: Final = "unfit"
"""A threshold: the one that the tail is estimated from, one above it, one that the goodness of fit refuses."""

WARNING: Final = "Extrapolated by a model from one run: not a bound."
"""Stands with every drawing."""

SHAPES: Final = (-1.0, LEAST_SHAPE, 0.0, LARGEST_SHAPE, 1.0)
"""Of the shape axis: its ends, and where from a tail is refused. No fit by L-moments has a shape of 1 or more."""

_LEAST_SHAPES: Final = (-2.0, -3.0)
"""Where the axis begins instead, where a threshold that fits has a shape below its end: further down all are alike."""

_MOST_TICKS: Final = 6
_MARGIN: Final = 1.15
_CURVE: Final = 16
_EXPONENTIAL: Final = 1e-9
"""A shape next to 0 is that of an exponential distribution."""
_VALUE_TICKS: Final = 4
_DECADES: Final = 4
"""Of shares: with more of them each second one has its figure, or each third."""


class _Fitted(NamedTuple):
    """A tail that has a fit."""

    tail: Tail
    fit: TailFit
    peaks: Peaks


Ticks = tuple[tuple[float, str], ...]
Curve = tuple[tuple[float, float], ...]
"""Places (right, up), 0 to 1."""


@dataclass(frozen=True)
class TailMark:
    """A figure with its interval; at, value, low and high are places, 0 to 1, what is beyond an axis at its end.

    kind: CHOSEN, FITS or UNFIT. Without an interval low and high are the value's. cut_low, cut_high: the interval, or
    the value, extends beyond the axis' end; beyond: the value does, and is not where it is drawn.
    """

    at: float
    value: float
    low: float
    high: float
    kind: str
    cut_low: bool = False
    cut_high: bool = False
    beyond: bool = False


@dataclass(frozen=True)
class TailCell:
    """One cell's three panels: shape and level against the values that thresholds leave above, and the tail itself.

    colour: the cell's, as in every picture. told: what the tail is estimated from, or why it is not. measured: peaks
    and the share of packets whose episode reaches them; fitted: the line within the measured range, beyond: further
    out; levels: the estimates, value and interval on the value axis, `at` on the share axis. values: ticks of the value
    axis, µs, which is the second panel's y and the third's x; axis: what these alone do not say.
    """

    name: str
    colour: int
    told: str
    refused: bool
    shape: tuple[TailMark, ...]
    level: tuple[TailMark, ...]
    measured: Curve
    fitted: Curve
    beyond: Curve
    levels: tuple[TailMark, ...]
    values: Ticks
    axis: str


@dataclass(frozen=True)
class TailView:
    """One metric of one stream. without: cells in which no threshold has a fit, with the reason. level: whose level the
    second panel has. limits: on the shape axis, where from a tail is refused.
    """

    stream: str
    metric: str
    level: str
    cells: tuple[TailCell, ...]
    without: tuple[str, ...]
    exceedances: Ticks
    shapes: Ticks
    limits: tuple[float, ...]
    shares: Ticks


def tail_views(result: Result) -> dict[tuple[str, str], TailView]:
    """{(stream, metric): its tails, cells in the order of the summary}, where any cell has a fit at some threshold."""
    looks = Looks(result)
    colours = {cell_name(result, cell): looks.of(cell).colour for cell in result.cells}
    every = {
        (stream, metric): list(_documents(result, stream, metric))
        for stream in rows.stream_names(result)
        for metric in EXPLAINED
    }
    return {key: tail_view(*key, found, colours) for key, found in every.items() if any(tail.fit for _, tail in found)}


def _documents(result: Result, stream: str, metric: str) -> Iterator[tuple[str, Tail]]:
    """(cell's name, its tail); those of a result that was made before there were peaks are as if they had no tail."""
    for cell in rows.ordered_cells(result):
        figures = cell.figures(stream, metric)
        tail = figures.tail if figures else None
        if tail and (tail.peaks or not tail.fit):
            yield cell_name(result, cell), tail


def tail_view(
    stream: str, metric: str, found: Sequence[tuple[str, Tail]], colours: Mapping[str, int] | None = None
) -> TailView:
    """The view of these cells' tails (name, document), of which at least one has a fit. colours: by name; else 0."""
    of = colours or {}
    fitted = [(name, _Fitted(one, one.fit, one.peaks)) for name, one in found if one.fit and one.peaks]
    tails = [one for _, one in fitted]
    shares, exceedances, shapes = _Shares(tails), _Exceedances(tails), _Shapes(tails)
    packets = sorted({one.tail.level_packets or 0 for one in tails})
    ends = " to ".join(f"{one:,}" for one in dict.fromkeys((packets[0], packets[-1])))
    return TailView(
        stream=stream,
        metric=metric,
        level=f"one episode in {ends} packets",
        cells=tuple(_cell(name, of.get(name, 0), one, exceedances, shapes, shares) for name, one in fitted),
        without=tuple(f"{name}: {tail.why}" for name, tail in found if not tail.fit),
        exceedances=exceedances.ticks(),
        shapes=shapes.ticks(),
        limits=tuple(shapes.place(one) for one in (LEAST_SHAPE, LARGEST_SHAPE)),
        shares=shares.ticks(),
    )


def _values(of: _Fitted) -> np.ndarray[Any, np.dtype[np.int64]]:
    """What the value axis has to have room for, ns: all that was measured, all estimates, and the levels of the
    thresholds that fit; of those that do not, levels no farther out than three times what was measured.
    """
    peaks, tail = of.peaks.value_ns, of.tail
    farthest = peaks[-1] + 3 * (peaks[-1] - peaks[0])
    told = [ns for level in tail.levels for ns in (level.low_ns, level.high_ns) if ns is not None]
    drawn = [(one.fits, one.level_ns) for one in tail.stability if one.level_ns is not None]
    levels = [level if fits else min(level, farthest) for fits, level in drawn]
    return np.array([*peaks, *told, *levels], np.float64).astype(np.int64)


class _Shapes:
    """The shape axis, from −1, or as far below as thresholds that fit ask for, to 1."""

    def __init__(self, tails: Sequence[_Fitted]) -> None:
        shapes = [one.shape for of in tails for one in of.tail.stability if one.fits]
        least = min((shape for shape in shapes if shape >= _LEAST_SHAPES[-1]), default=0.0)
        self._low = next(end for end in (SHAPES[0], *_LEAST_SHAPES) if end <= least)

    def place(self, shape: float) -> float:
        """Where on the axis: beyond 0 to 1 for what is beyond it."""
        return (shape - self._low) / (SHAPES[-1] - self._low)

    def ticks(self) -> Ticks:
        below = (one for one in reversed(_LEAST_SHAPES) if one >= self._low)
        return tuple((self.place(one), plain(one).replace("-", "−")) for one in (*below, *SHAPES))


class _Shares:
    """The share axis, logarithmic: from the rarest that is estimated, or measured, to the most frequent."""

    def __init__(self, tails: Sequence[_Fitted]) -> None:
        rarest = [one.packets for of in tails for one in of.tail.levels if one.value_ns is not None]
        self.least = 1 / (_MARGIN * max([*rarest, *(of.tail.n for of in tails)]))
        self.most = _MARGIN * max(of.peaks.share[0] for of in tails)

    def place(self, share: float) -> float:
        return log(max(share, self.least) / self.least) / log(self.most / self.least)

    def ticks(self) -> Ticks:
        powers = range(ceil(log10(self.least)), floor(log10(self.most)) + 1)
        every = ceil(len(powers) / _DECADES)
        return tuple((self.place(10.0**power), f"1/{short_count(10**-power)}") for power in powers[::every])


def _cell(name: str, colour: int, of: _Fitted, exceedances: _Exceedances, shapes: _Shapes, shares: _Shares) -> TailCell:
    axis = common_axis([_values(of)])
    tail, fit, peaks = of
    refused = tail.why is not None
    each = [(one, exceedances.place(one.exceedances), _kind(one, fit, refused=refused)) for one in tail.stability]
    fitted, beyond = _curves(of, axis, shares)
    measured = zip(_on(axis, peaks.value_ns), (shares.place(one) for one in peaks.share), strict=True)
    return TailCell(
        name=name,
        colour=colour,
        told=_told(tail, fit),
        refused=refused,
        shape=tuple(_shape(*one, shapes) for one in each),
        level=tuple(mark for one in each if (mark := _level(*one, axis))),
        measured=tuple(measured),
        fitted=fitted,
        beyond=beyond,
        levels=tuple(
            _mark(
                shares.place(1 / one.packets),
                _on(axis, [nan if ns is None else ns for ns in (one.value_ns, one.low_ns, one.high_ns)]),
                CHOSEN,
            )
            for one in tail.levels
            if one.value_ns is not None
        ),
        values=value_ticks(axis),
        axis="log" if axis.kind == "log" else axis.told(),
    )


def _kind(one: TailFit, fit: TailFit, *, refused: bool) -> str:
    if not one.fits:
        return UNFIT
    return CHOSEN if one.threshold_ns == fit.threshold_ns and not refused else FITS


def _shape(one: TailFit, at: float, kind: str, shapes: _Shapes) -> TailMark:
    """Without an error to state, the interval extends beyond both ends of the axis."""
    low = -inf if one.shape_low is None else one.shape_low
    high = inf if one.shape_high is None else one.shape_high
    return _mark(at, map(shapes.place, (one.shape, low, high)), kind)


def _level(one: TailFit, at: float, kind: str, axis: Axis) -> TailMark | None:
    level, low, high = one.level_ns, one.level_low_ns, one.level_high_ns
    if level is None or low is None or high is None:
        return None
    beyond = level > axis.high_ns
    mark = _mark(at, _on(axis, [level, low, high]), kind)
    return replace(mark, cut_low=low < axis.low_ns, cut_high=high > axis.high_ns or beyond, beyond=beyond)


def _mark(at: float, places: Iterable[float], kind: str) -> TailMark:
    """A mark of these places of value, low and high: 0 to 1, or beyond."""
    value, low, high = places
    within, least, most = (min(max(one, 0.0), 1.0) for one in (value, low, high))
    return TailMark(at, within, least, most, kind, min(low, value) < 0, max(high, value) > 1, not 0 <= value <= 1)


def _curves(of: _Fitted, axis: Axis, shares: _Shares) -> tuple[Curve, Curve]:
    """The fitted tail, share = clusters / n · (1 + shape (x − start) / scale)^(−1 / shape): within and beyond the data.

    A tail that is refused has none beyond.
    """
    tail, fit, peaks = of
    first = fit.clusters / tail.n
    last = max(first * _above(fit, peaks.value_ns[-1]), shares.least)
    told = [1 / one.packets for one in tail.levels if one.value_ns is not None]
    end = min([last, *told])

    def curve(begin: float, finish: float) -> Curve:
        share = np.geomspace(begin, finish, _CURVE)
        excess = quantile(np.minimum(share / first, 1.0), np.array(fit.shape), np.array(fit.scale_ns))
        places = _on(axis, fit.start_ns + excess)
        return tuple(zip(places, (shares.place(one) for one in share), strict=True))

    return curve(first, last), curve(last, end) if end < last else ()


def _above(fit: TailFit, ns: float) -> float:
    """The share of clusters that the fit has above a value; none beyond its end."""
    shape, excess = fit.shape, (ns - fit.start_ns) / fit.scale_ns
    if abs(shape) < _EXPONENTIAL:
        return exp(-excess)
    return float((1 + shape * excess) ** (-1 / shape)) if 1 + shape * excess > 0 else 0.0


def _on(axis: Axis, ns: Sequence[float] | np.ndarray[Any, Any]) -> list[float]:
    """Where on the axis, 0 to 1: its ends for what is beyond."""
    found: list[float] = np.clip(axis.places(np.asarray(ns, np.float64)), 0.0, 1.0).tolist()
    return found


class _Exceedances:
    """The axis of thresholds, by how many values each leaves above it, logarithmic: the highest is on the right."""

    def __init__(self, tails: Sequence[_Fitted]) -> None:
        self._counts = sorted({one.exceedances for of in tails for one in of.tail.stability})
        self._most, self._fewest = self._counts[-1] * _MARGIN, self._counts[0] / _MARGIN

    def place(self, exceedances: float) -> float:
        return log(self._most / exceedances) / log(self._most / self._fewest)

    def ticks(self) -> Ticks:
        """Round numbers; where there is none between, those of the thresholds."""
        every = [one * 10**power for power in range(ceil(log10(self._most))) for one in (1, 2, 5)]
        found = [one for one in every if self._fewest <= one <= self._most] or self._counts
        return tuple((self.place(one), short_count(one)) for one in found[:: ceil(len(found) / _MOST_TICKS)])


def value_ticks(axis: Axis, most: int = _VALUE_TICKS) -> Ticks:
    """Round values of an axis, about as many as `most`: (place, 0 to 1; µs)."""
    if axis.kind == "asinh":
        found = axis.round_values_ns()
    elif axis.kind == "log":
        powers = range(floor(log10(axis.low_ns)), ceil(log10(axis.high_ns)))
        every = [factor * 10.0**power for power in powers for factor in (1, 2, 5)]
        inside = [ns for ns in every if axis.low_ns <= ns <= axis.high_ns]
        found = inside[:: max(1, ceil(len(inside) / (most + 1)))]
    else:
        found = [
            1000 * tick for tick in round_values(axis.low_ns / MICROSECOND_NS, axis.high_ns / MICROSECOND_NS, most)
        ]
    return tuple((place, plain(ns / MICROSECOND_NS)) for place, ns in zip(_on(axis, found), found, strict=True))


def _told(tail: Tail, fit: TailFit) -> str:
    """What the tail is estimated from, or why it is unknown."""
    if tail.why:
        return f"refused: {tail.why}"
    shape = f"shape {_signed(fit.shape)} ({_signed(fit.shape_low)} to {_signed(fit.shape_high)})"
    parts = [
        f"chosen: over {duration(fit.threshold_ns)}, {fit.clusters} episodes in {tail.n:,} packets",
        f"{shape}, p {fit.p_value:.2f}",
    ]
    told = [one for one in tail.levels if one.value_ns is not None]
    if told:
        value, low, high = (duration(ns or 0) for ns in (told[-1].value_ns, told[-1].low_ns, told[-1].high_ns))
        parts.append(f"one in {told[-1].packets:,}: {value} (95 %: {low} to {high})")
    return " · ".join(parts)


def _signed(shape: float | None) -> str:
    return f"{shape:.2f}".replace("-", "−")


# As a chart

_PANEL_IN: Final = 1.2
_LEFT_IN: Final = 0.6
_BETWEEN_IN: Final = 0.25
_REFUSED: Final = QUIET
_SAMPLES: Final = ((CHOSEN, "chosen threshold"), (FITS, "a higher one"), (UNFIT, "one that does not fit"))
_MARKERS: Final = {CHOSEN: ("o", 5.2), FITS: ("o", 4.4), UNFIT: ("s", 3.6)}
_NOTE: Final = (
    "Left and middle: each threshold, by the number of values above it. From the chosen threshold on, shape and level "
    "should stay the same within their 95 % bars. Right: the measured peaks, and the line of the fit, dashed beyond "
    "them. A refused tail is grey, with the reason, and has no chosen threshold. A tail with a shape beyond the dashed "
    "lines is refused. A triangle marks a bar that continues beyond the axis, or a figure beyond it if there is no "
    "point."
)


def tail_chart(view: TailView) -> Drawing:
    """Three panels for each cell; below them the cells that have no fit, and why."""
    return Drawing(
        f"{view.stream}-{view.metric}-tail",
        f"{view.stream}: the tail of {view.metric} beyond the sample, and whether it is stable",
        partial(_pieces, view),
        (WARNING, _NOTE),
        view.without,
    )


def _pieces(view: TailView, width_in: float) -> Iterator[Sheet]:
    yield _key(width_in)
    yield from (_cell_sheet(view, cell, width_in) for cell in view.cells)


def _cell_sheet(view: TailView, cell: TailCell, width_in: float) -> Sheet:
    sheet = Sheet(width_in, told=f"{cell.name}: {cell.told}")
    top = sheet.paragraph(SIDE_IN, 0.1, cell.name, size=TITLE_PT, weight="bold") + 0.02
    top = sheet.paragraph(SIDE_IN, top, cell.told, colour=QUIET) + 0.1
    columns = 3 if width_in >= BESIDE_IN else 1
    step = (width_in - SIDE_IN) / columns
    above = "values above the threshold"
    axis = ", ".join(filter(None, ("µs", cell.axis)))
    panels = (
        ("shape", above, view.exceedances, view.shapes, _draw_shape),
        (f"level of {view.level} [{axis}]", above, view.exceedances, cell.values, _draw_level),
        ("share of packets with a peak ≥", f"peak of an episode [{axis}]", cell.values, view.shares, _draw_tail),
    )
    for number, (up_name, across_name, across, up, draw) in enumerate(panels):
        row, column = divmod(number, columns)
        left, width = column * step + _LEFT_IN + SIDE_IN / 2, step - _LEFT_IN - SIDE_IN
        panel = _TailPanel(sheet, left, top + row * (_PANEL_IN + 0.75) + 0.2, width)
        panel.frame(across, up, across_name, up_name)
        draw(panel, view, cell)
    sheet.height_in = top + (3 // columns) * (_PANEL_IN + 0.75)
    return sheet


@dataclass(frozen=True)
class _TailPanel:
    """A place on a sheet for one panel."""

    sheet: Sheet
    left: float
    top: float
    width: float

    def frame(self, across: Ticks, up: Ticks, across_name: str, up_name: str) -> None:
        """Draw the grid, the edges, and what stands at them."""
        right, bottom = self.left + self.width, self.top + _PANEL_IN
        grid = [self.line(at, 0, at, 1) for at, _ in across] + [self.line(0, at, 1, at) for at, _ in up]
        self.sheet.lines(grid, GRID, 0.6)
        self.sheet.lines([[(self.left, self.top), (self.left, bottom), (right, bottom)]], EDGE)
        self.sheet.text(self.left, self.top - 0.08, up_name, size=SMALL_PT, va="bottom")
        for at, text in up:
            x, y = self.point(0, at)
            self.sheet.text(x - 0.06, y, text, size=SMALL_PT, colour=QUIET, ha="right")
        for at, text in across:
            x, _ = self.point(at, 0)
            self.sheet.text(x, bottom + 0.06, text, size=SMALL_PT, colour=QUIET, ha="center", va="top")
        self.sheet.text(self.left + self.width / 2, bottom + 0.22, across_name, size=SMALL_PT, ha="center", va="top")

    def point(self, at: float, up: float) -> Point:
        """Where a place, 0 to 1, is on the sheet."""
        return self.left + at * self.width, self.top + (1 - up) * _PANEL_IN

    def line(self, *places: float) -> list[Point]:
        """A line through (at, up), (at, up), …"""
        return [self.point(at, up) for at, up in zip(places[::2], places[1::2], strict=True)]

    def marks(self, marks: Sequence[TailMark], own: str) -> None:
        """Draw figures with their intervals upwards."""
        for kind in (UNFIT, FITS, CHOSEN):
            those = [one for one in marks if one.kind == kind]
            colour = _REFUSED if kind == UNFIT else own
            lines = [self.line(one.at, one.low, one.at, one.high) for one in those]
            self.sheet.lines(lines, colour, 1.1, name="interval")
            for marker, end, cut in (("v", 0.0, "cut_low"), ("^", 1.0, "cut_high")):
                ends = [self.point(one.at, end) for one in those if getattr(one, cut)]
                self.sheet.marks(ends, marker, 4.0, colour, name="beyond-axis")
            _draw_points(self.sheet, [self.point(one.at, one.value) for one in those if not one.beyond], kind, colour)


def _draw_points(sheet: Sheet, points: Sequence[Point], kind: str, colour: str) -> None:
    marker, size = _MARKERS[kind]
    sheet.marks(points, marker, size, colour, inside="" if kind == CHOSEN else PAPER, name=kind)


def _colour(cell: TailCell) -> str:
    return _REFUSED if cell.refused else COLOURS[cell.colour]


def _draw_shape(panel: _TailPanel, view: TailView, cell: TailCell) -> None:
    panel.sheet.lines([panel.line(0, at, 1, at) for at in view.limits], EDGE, dash=(2, 1.5), name="limit")
    panel.marks(cell.shape, _colour(cell))


def _draw_level(panel: _TailPanel, view: TailView, cell: TailCell) -> None:
    panel.marks(cell.level, _colour(cell))


def _draw_tail(panel: _TailPanel, view: TailView, cell: TailCell) -> None:
    sheet, colour = panel.sheet, _colour(cell)
    sheet.marks([panel.point(*one) for one in cell.measured], "o", 2.4, INK, name="measured")
    sheet.lines([[panel.point(*one) for one in cell.fitted]], colour, 1.2, name="fitted")
    sheet.lines([[panel.point(*one) for one in cell.beyond]], colour, 1.2, dash=(5, 2.5), name="beyond")
    sheet.lines([panel.line(one.low, one.at, one.high, one.at) for one in cell.levels], colour, 1.1, name="told")
    _draw_points(sheet, [panel.point(one.value, one.at) for one in cell.levels], CHOSEN, colour)


def _key(width_in: float) -> Sheet:
    sheet = Sheet(width_in)

    def sample(kind: str, x: float, y: float) -> None:
        _draw_points(sheet, [(x + 0.05, y)], kind, _REFUSED if kind == UNFIT else INK)

    def peak(x: float, y: float) -> None:
        sheet.marks([(x + 0.05, y)], "o", 2.4, INK)

    found = [(partial(sample, kind), 0.1, text) for kind, text in _SAMPLES]
    sheet.key(SIDE_IN, 0.0, [*found, (peak, 0.1, "a peak that was measured")])
    return sheet
