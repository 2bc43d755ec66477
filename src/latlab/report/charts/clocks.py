"""How clocks went while a cell was measured: PTP's offset, and the bounds of our exchanges, a small chart each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from latlab.analysis.bins import binned
from latlab.analysis.words import duration
from latlab.recordings.cell import ClockEdge
from latlab.recordings.ptp_series import PtpSeries, read_ptp
from latlab.recordings.run_folder import RunFolder
from latlab.report import rows
from latlab.report.charts import sheet as on
from latlab.report.charts.sheet import COLOURS, Drawing, Sheet
from latlab.result.places import cell_title
from latlab.result.types import Result

_OURS: Final = ("our_offset_ns", "our_half_ns")
Points = tuple[tuple[float, float], ...]

WIDTH: Final = 1000
HEIGHT: Final = 100
_COLUMNS: Final = 400
"""More points than that would lie upon each other: each column then spans from its least to its largest value."""


@dataclass(frozen=True)
class ClockChart:
    """One quantity of a cell over its time. line, band: points in a field of WIDTH × HEIGHT, downwards, the band's all
    around it; empty without one.

    low, high: the ends of the value axis. span: how long the time axis is. told: all that in a sentence.
    """

    cell: str
    repeat: int
    title: str
    line: Points
    band: Points
    low: str
    high: str
    span: str
    told: str


@dataclass(frozen=True)
class _Series:
    """at_ns int64 [n] ascending; value_ns float64 [n], low_ns and high_ns float64 [n]: NaN where nothing is known."""

    title: str
    at_ns: NDArray[np.int64]
    value_ns: NDArray[np.float64]
    low_ns: NDArray[np.float64]
    high_ns: NDArray[np.float64]


def clock_charts(folder: RunFolder, result: Result) -> Iterator[ClockChart]:
    """A chart for each port of PTP's and each pair of clocks that was compared over time, of every cell in order."""
    for outcome in rows.ordered_cells(result):
        cell = folder.cell(outcome.slug, outcome.repeat)
        if not (cell.path / "cell.json").exists():
            continue
        document = cell.cell()
        ports = (_ptp(series) for series in read_ptp(cell, document) if series.window_ns)
        bounds = (_bounds(clock) for clock in document.clocks if len(clock.windows) > 1)
        for series in (*ports, *bounds):
            if chart := _drawn(series, cell_title(outcome), outcome.repeat):
                yield chart


def _ptp(series: PtpSeries) -> _Series:
    first, last = series.window_ns or (0, 0)
    found = series.rows.filter(pl.col("tai_ns").is_between(first, last))
    name, role = series.port.port, series.port.role
    nothing = np.full(found.height, np.nan)
    value = found["offset_ns"].cast(float).to_numpy()
    ours = half = nothing
    beside = ""
    if _OURS[0] in found.columns:
        ours, half = (found[column].cast(float).to_numpy() for column in _OURS)
        beside = "; band: as latlab measures it"
    title = f"{name} ({role}): offset from its master as ptp4l reports it{beside}"
    return _Series(title, found["tai_ns"].to_numpy(), value, ours - half, ours + half)


def _bounds(clock: ClockEdge) -> _Series:
    """The band in which the offset lies; less a straight line where that goes further than the band is wide.

    Two free-running clocks differ by a line: next to it neither the band nor its changes would be visible.
    """
    windows = sorted(clock.windows, key=lambda window: window.reference_tai_ns)
    first_ns = windows[0].lower_ns  # taken off as it is: float64 has no nanoseconds of an offset of years
    low, high = (
        np.array([end - first_ns for end in ends], float)
        for ends in ([window.lower_ns for window in windows], [window.upper_ns for window in windows])
    )
    at = np.array([window.reference_tai_ns for window in windows], np.int64)
    title = f"{clock.to}'s clock − {clock.from_}'s is within the band ({clock.source})"
    line, rate = _straight(at, (low + high) / 2)
    if abs(float(line[-1] - line[0])) > float(np.median(high - low)):
        start = duration(first_ns + float(line[0]))
        title += f", after subtracting a straight line: {start} at the start, {_ppm(rate)}"
        low, high = low - line, high - line
    else:
        low, high = low + first_ns, high + first_ns
    return _Series(title, at, np.full(len(at), np.nan), low, high)


def _straight(at_ns: NDArray[np.int64], value_ns: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
    """(the line through the values by least squares, its value at each instant; its slope, ns per ns)."""
    elapsed = (at_ns - at_ns[0]).astype(np.float64)
    from_middle = elapsed - elapsed.mean()
    square = float(from_middle @ from_middle)
    rate = float(from_middle @ value_ns) / square if square else 0.0
    return value_ns.mean() + rate * from_middle, rate


def _ppm(rate: float) -> str:
    """A rate with its sign: "+3.142 ppm", and of less than a thousandth of one "−0.4 ppb"."""
    value, unit = (rate * 1e6, "ppm") if abs(rate) >= 1e-9 else (rate * 1e9, "ppb")
    return f"{value:+.4g} {unit}".replace("-", "−")


def _drawn(series: _Series, cell: str, repeat: int) -> ClockChart | None:
    """None where there is nothing to draw."""
    known = np.concatenate([series.value_ns, series.low_ns, series.high_ns])
    known = known[~np.isnan(known)]
    if not len(known):
        return None
    low, high = float(known.min()), float(known.max())
    span_ns = int(series.at_ns[-1] - series.at_ns[0])
    ends = _ends(low, high)
    return ClockChart(
        cell=cell,
        repeat=repeat,
        title=series.title,
        line=_line(series, low, high),
        band=_band(series, low, high),
        low=ends[0],
        high=ends[1],
        span=duration(span_ns),
        told=f"{cell}, repeat {repeat}: {series.title}: from {ends[0]} to {ends[1]} in {duration(span_ns)}",
    )


def _ends(low: float, high: float) -> tuple[str, str]:
    """Both ends of an axis in words, in as many digits as they take to differ, four or more."""
    for digits in range(4, 16):
        ends = duration(low, digits), duration(high, digits)
        if ends[0] != ends[1]:
            break
    return ends


def _line(series: _Series, low: float, high: float) -> Points:
    known = ~np.isnan(series.value_ns)
    at, value = series.at_ns[known], series.value_ns[known]
    if not len(at):
        return ()
    first, last = int(series.at_ns[0]), int(series.at_ns[-1])
    if len(at) > _COLUMNS:
        parts = binned(at, value.astype(np.int64), _COLUMNS, span_tai_ns=(first, last))
        at = np.repeat(parts["at_tai_ns"].to_numpy(), 2)
        value = np.column_stack([parts["min_ns"].to_numpy(), parts["max_ns"].to_numpy()]).ravel().astype(float)
    return _points(_x(at, first, last), _y(value, low, high))


def _band(series: _Series, low: float, high: float) -> Points:
    known = np.flatnonzero(~np.isnan(series.low_ns))
    if not len(known):
        return ()
    kept = known[np.unique(np.linspace(0, len(known) - 1, min(len(known), _COLUMNS)).astype(int))]
    x = _x(series.at_ns[kept], int(series.at_ns[0]), int(series.at_ns[-1]))
    upper, lower = (_y(side[kept], low, high) for side in (series.high_ns, series.low_ns))
    return _points(np.concatenate([x, x[::-1]]), np.concatenate([upper, lower[::-1]]))


def _x(at_ns: NDArray[np.int64], first: int, last: int) -> NDArray[np.float64]:
    return ((at_ns - first) * (WIDTH / max(last - first, 1))).astype(np.float64)


def _y(value_ns: NDArray[np.float64], low: float, high: float) -> NDArray[np.float64]:
    """Downwards, as SVG has it; in the middle where all values are one."""
    if high == low:
        return np.full(len(value_ns), HEIGHT / 2)
    return ((high - value_ns) * (HEIGHT / (high - low))).astype(np.float64)


def _points(x: NDArray[np.float64], y: NDArray[np.float64]) -> Points:
    return tuple(zip(x.tolist(), y.tolist(), strict=True))


# As a chart

MOST: Final = 30
"""Charts in one file; more of them are in the next."""
_CHART_IN: Final = 0.75
_LEFT_IN: Final = on.SIDE_IN + 0.85


def clock_drawings(charts: Iterable[ClockChart]) -> Iterator[Drawing]:
    """The charts below each other, MOST at most in one drawing."""
    found = list(charts)
    for number, first in enumerate(range(0, len(found), MOST), start=1):
        stem = "clocks" if number == 1 else f"clocks-{number}"
        yield Drawing(stem, "Clocks over time", partial(_pieces, found[first : first + MOST]))


def _pieces(charts: Sequence[ClockChart], width_in: float) -> Iterator[Sheet]:
    return (_piece(chart, width_in) for chart in charts)


def _piece(chart: ClockChart, width_in: float) -> Sheet:
    """Its own axes: value up, time to the right."""
    sheet = Sheet(width_in, told=chart.told)
    top = sheet.paragraph(on.SIDE_IN, 0.05, f"{chart.cell}, repeat {chart.repeat}: {chart.title}") + 0.05
    left, right, bottom = _LEFT_IN, width_in - on.SIDE_IN, top + _CHART_IN

    def placed(points: Points) -> list[on.Point]:
        return [(left + x / WIDTH * (right - left), top + y / HEIGHT * _CHART_IN) for x, y in points]

    sheet.lines([[(left, top), (left, bottom), (right, bottom), (right, top), (left, top)]], on.EDGE, 0.5)
    if chart.band:
        sheet.area(placed(chart.band), COLOURS[1], alpha=0.35, edge=COLOURS[1], line=0.7, name="band")
    sheet.lines([placed(chart.line)], COLOURS[0], 0.9, name="line")
    small: on.Style = {"size": on.SMALL_PT, "colour": on.QUIET, "ha": "right"}
    sheet.text(left - 0.07, top + 0.02, chart.high, va="top", **small)
    sheet.text(left - 0.07, bottom, chart.low, va="bottom", **small)
    sheet.text(right, bottom + 0.04, chart.span, va="top", **small)
    sheet.height_in = bottom + 0.25
    return sheet
