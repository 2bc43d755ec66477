"""Pictures that pages draw themselves: what the author compares, in the author's terms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from latlab.report.charts.files import Charts
from latlab.report.charts.sheet import Drawing
from latlab.report.charts.sweep import Line, Point, Reach, Sweep, sweep_chart
from latlab.report.charts.sweeps import FrameRooms, sweeps
from published.claims import Figures
from published.experiment import Drawn


def caption(figures: Figures) -> str:
    """What stands below a picture's title."""
    return Charts(figures.run.folder, figures.run.result).caption


# Half of round trips over their size


def halves_by_size(named: Mapping[str, str]) -> Drawn:
    """Half of round trips over the payload, as the report draws whole ones. named: line in the report → on the page."""

    def draw(figures: Figures) -> Drawing | None:
        every = sweeps(figures.run.result, FrameRooms(figures.run.folder).of)
        whole = next((one for one in every if (one.metric, one.heading) == ("round_trip", "size")), None)
        return sweep_chart(_halved(whole, named)) if whole else None

    return draw


def _halved(whole: Sweep, named: Mapping[str, str]) -> Sweep:
    def line(one: Line) -> Line:
        points = tuple(replace(point, reaches=_half_of(point)) for point in one.points)
        return replace(one, name=named.get(one.name, one.name), points=points)

    axis = whole.y_axis
    return replace(
        whole,
        title="half of the round trip",
        label="half of (answered − launch)",
        y_axis=replace(axis, low_ns=axis.low_ns / 2, high_ns=axis.high_ns / 2),
        # The page's table has other figures than the report's.
        notes=tuple(one for one in whole.notes if "table" not in one),
        panels=tuple(replace(panel, lines=tuple(map(line, panel.lines))) for panel in whole.panels),
    )


def _half_of(point: Point) -> dict[str, Reach]:
    return {
        figure: Reach(one.low_ns // 2, one.high_ns // 2, None if one.line_ns is None else one.line_ns // 2)
        for figure, one in point.reaches.items()
    }
