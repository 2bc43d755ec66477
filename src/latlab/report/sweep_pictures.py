"""A metric over a size or a duration, as a picture: median, p99 and both extremes, log-log, cells side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedFormatter, FixedLocator, NullLocator

from latlab.analysis.axis import Axis
from latlab.report.own_pictures import file_stem
from latlab.report.palette import ANY_COLOUR, COLOURS, LOST_COLOUR, Look
from latlab.report.style import INK, QUIET, STYLE, Style, save, text_in
from latlab.report.sweep import FIGURES, STROKES, Line, Panel, Stroke, Sweep

_WIDTH_IN = 10.0
_SIDE_IN = 0.16
_LEFT_IN = 0.98  # the axis title, and seven digits beside it
_RIGHT_IN = 0.22
_HEAD_IN = 0.86
_PANEL_IN = 2.7
_ALONE_IN = 3.9  # a panel that has the whole width
_ABOVE_IN = 0.46  # a panel's name, and below it what the line at the MTU says
_BELOW_IN = 0.34  # the ticks of the panels above others
_BETWEEN_IN = 0.2
_AXIS_IN = 0.56
_LINE_IN = 0.2
_COLUMNS = 3
_TITLE_PT = 9.0
_TEXT_PT = 8.5
_NOTE_PT = 8.2
_TICK_IN = 0.48
"""From the middle of one text of the key's axis to that of the next, at least."""


def write_sweep_picture(shown: Sweep, folder: Path, *, caption: str, formats: Sequence[str] = ("png",)) -> list[Path]:
    """The files written: STREAM-METRIC-by-KEY.png. caption: stands under the title. formats: of png, svg, pdf."""
    folder.mkdir(parents=True, exist_ok=True)
    stem = file_stem(f"{shown.stream}-{shown.metric}-by-{shown.heading}")
    written = []
    with mpl.rc_context(cast(Any, STYLE)):
        figure = sweep_figure(shown, caption)
        for kind in formats:
            written.append(folder / f"{stem}.{kind}")
            save(figure, written[-1], kind)
    return written


def sweep_figure(shown: Sweep, caption: str) -> Figure:
    """A figure with a panel for each of the sweep's, all on the same axes; below them what lines and dots say."""
    columns = _columns(shown)
    rows = -(-len(shown.panels) // columns)
    panel_in = _PANEL_IN if len(shown.panels) > 1 else _ALONE_IN
    legend = _legend(shown)
    notes = list(_lines(shown.notes, _WIDTH_IN - 2 * _SIDE_IN))
    foot_in = _LINE_IN * (sum(len(each) for _, each in legend) + len(notes)) + 0.12
    height = _HEAD_IN + rows * (_ABOVE_IN + panel_in) + (rows - 1) * _BELOW_IN + _AXIS_IN + foot_in
    figure = Figure(figsize=(_WIDTH_IN, height))
    _head(figure, shown, caption, height)
    width_in = _each_in(columns)
    for number, panel in enumerate(shown.panels):
        row, column = divmod(number, columns)
        top_in = _HEAD_IN + row * (panel_in + _ABOVE_IN + _BELOW_IN) + _ABOVE_IN
        left_in = _LEFT_IN + column * (width_in + _BETWEEN_IN)
        box = (left_in / _WIDTH_IN, 1 - (top_in + panel_in) / height, width_in / _WIDTH_IN, panel_in / height)
        axes = figure.add_axes(box)
        _panel(axes, shown, panel, width_in)
        axes.tick_params(labelleft=column == 0)
        if number + columns >= len(shown.panels):
            axes.set_xlabel(shown.heading)
    middle = 1 - (_HEAD_IN + (rows * (_ABOVE_IN + panel_in)) / 2) / height
    figure.text(0.1 / _WIDTH_IN, middle, f"{shown.label} [µs]", rotation=90, va="center", ha="left", color=INK)
    _foot(figure, legend, notes, foot_in)
    return figure


def _columns(shown: Sweep) -> int:
    """As many panels side by side as leave each one's name the room it needs."""
    widest_in = max(text_in(panel.title, _TITLE_PT, "bold") for panel in shown.panels)
    most = min(len(shown.panels), _COLUMNS)
    return next((columns for columns in range(most, 1, -1) if widest_in <= _each_in(columns)), 1)


def _each_in(columns: int) -> float:
    return (_WIDTH_IN - _LEFT_IN - _RIGHT_IN - (columns - 1) * _BETWEEN_IN) / columns


def _panel(axes: Axes, shown: Sweep, panel: Panel, width_in: float) -> None:
    _scaled(axes, shown.x_axis, "x")
    _scaled(axes, shown.y_axis, "y")
    _ticks(axes, "x", shown.x_ticks(_TICK_IN / width_in))
    _ticks(axes, "y", [(value / 1000, text) for value, text in shown.y_ticks()])
    axes.set_title(panel.title, loc="left", fontweight="bold", fontsize=_TITLE_PT, color=INK, pad=18, y=1.0)
    _rooms(axes, shown, panel)
    for line in panel.lines:
        _line(axes, line, shown.drawn)


def _line(axes: Axes, line: Line, drawn: Sequence[str]) -> None:
    colour, dash = _colour(line.look), _linestyle(line.look)
    for band in line.band() if drawn == FIGURES else ():
        at, low, high = zip(*band, strict=True)
        axes.fill_between(at, _us(low), _us(high), color=colour, alpha=0.09, linewidth=0, zorder=1)
    for order, name in enumerate(drawn):
        stroke = STROKES[name]
        style: Style = {"color": colour, "linewidth": stroke.width, "zorder": 2 + order / 10}
        dots: Style = {"marker": _marker(stroke), "markersize": stroke.dot, "markeredgewidth": 0}
        for piece in line.pieces(name):
            at, through = zip(*piece, strict=True)
            axes.plot(at, _us(through), linestyle=dash, gid=f"{line.name}/{name}", **style, **dots)
        for place, least, greatest in line.bars(name):
            axes.plot((place, place), _us((least, greatest)), solid_capstyle="butt", gid=f"{line.name}/bar", **style)


def _colour(look: Look) -> str:
    return QUIET if look.colour == ANY_COLOUR else COLOURS[look.colour]


def _us(ns: Sequence[int]) -> list[float]:
    return [one / 1000 for one in ns]


def _marker(stroke: Stroke) -> str:
    return "o" if stroke.is_round else "s"


def _linestyle(look: Look) -> Any:
    return (0, look.dash) if look.dash else "solid"


def _rooms(axes: Axes, shown: Sweep, panel: Panel) -> None:
    """A line at the largest packet that goes in one frame, where the axis has it, its label above the panel."""
    for end in shown.frame_ends(panel):
        axes.axvline(end.at, color=LOST_COLOUR, linewidth=1.1, linestyle=(0, (1, 1.5)), zorder=1.5, gid="mtu")
        axes.text(
            end.at,
            1.015,
            end.text,
            transform=axes.get_xaxis_transform(),
            fontsize=_NOTE_PT,
            color=LOST_COLOUR,
            ha={"first": "left", "last": "right"}.get(end.anchor, "center"),
            va="bottom",
        )


def _scaled(axes: Axes, axis: Axis, which: str) -> None:
    """x in the key's units, y in µs."""
    unit = 1000 if which == "y" else 1
    scale = axes.set_yscale if which == "y" else axes.set_xscale
    scale("asinh", linear_width=axis.linear_ns / unit) if axis.kind == "asinh" else scale(axis.kind)
    (axes.set_ylim if which == "y" else axes.set_xlim)(axis.low_ns / unit, axis.high_ns / unit)


def _ticks(axes: Axes, which: str, ticks: Sequence[tuple[float, str]]) -> None:
    side = axes.yaxis if which == "y" else axes.xaxis
    side.set_major_locator(FixedLocator([value for value, _ in ticks]))
    side.set_major_formatter(FixedFormatter([text for _, text in ticks]))
    side.set_minor_locator(NullLocator())


def _head(figure: Figure, shown: Sweep, caption: str, height: float) -> None:
    left = _SIDE_IN / _WIDTH_IN
    name = f"{', '.join(shown.streams)}: {shown.title}, by {shown.heading}"
    figure.text(left, 1 - 0.12 / height, name, fontsize=13, fontweight="bold", color=INK, va="top")
    figure.text(left, 1 - 0.41 / height, caption, fontsize=8.8, color=QUIET, va="top")
    figure.text(left, 1 - 0.60 / height, shown.accuracy, fontsize=8.8, color=QUIET, va="top")


def _legend(shown: Sweep) -> list[tuple[str, list[list[Line2D]]]]:
    """(heading, handles line by line) of what tells lines apart, and of the figures."""
    figures = [_sample(name, name, QUIET, Look(0, (), "")) for name in reversed(shown.figures)]
    found = [(shown.lines_are, [_sample(name, "", _colour(look), look) for name, look in shown.lines])]
    return [(heading, _wrapped(handles)) for heading, handles in (*found, ("", figures)) if handles]


def _sample(text: str, figure: str, colour: str, look: Look) -> Line2D:
    stroke = STROKES[figure or "p50"]
    return Line2D(
        [],
        [],
        color=colour,
        linestyle=_linestyle(look),
        linewidth=stroke.width,
        marker=_marker(stroke) if figure else "",
        markersize=stroke.dot,
        markeredgewidth=0,
        label=text,
    )


def _wrapped(handles: Sequence[Line2D]) -> list[list[Line2D]]:
    lines: list[list[Line2D]] = [[]]
    room_in = used_in = _WIDTH_IN - 2.6
    for handle in handles:
        needs_in = text_in(str(handle.get_label()), _TEXT_PT) + 0.75
        if used_in + needs_in > room_in and lines[-1]:
            lines.append([])
        used_in = needs_in + (used_in if lines[-1] else 0.0)
        lines[-1].append(handle)
    return lines


def _foot(figure: Figure, legend: Any, notes: Sequence[str], foot_in: float) -> None:
    height, top_in = figure.get_figheight(), foot_in
    for heading, lines in legend:
        left_in = _LEFT_IN if not heading else _SIDE_IN + text_in(heading, _TEXT_PT) + 0.12
        if heading:
            figure.text(_SIDE_IN / _WIDTH_IN, top_in / height, heading, fontsize=_TEXT_PT, color=QUIET, va="top")
        for handles in lines:
            figure.legend(
                handles=handles,
                loc="upper left",
                bbox_to_anchor=(max(left_in, _LEFT_IN) / _WIDTH_IN, top_in / height),
                ncol=len(handles),
                frameon=False,
                borderpad=0,
                borderaxespad=0,
                handlelength=4.0,
                handletextpad=0.8,
                columnspacing=1.4,
                fontsize=_TEXT_PT,
            )
            top_in -= _LINE_IN
    for note in notes:
        figure.text(_SIDE_IN / _WIDTH_IN, top_in / height, note, fontsize=_NOTE_PT, color=QUIET, va="top")
        top_in -= _LINE_IN


def _lines(notes: Sequence[str], width_in: float) -> Iterator[str]:
    """The notes as sentences one behind the other, in lines that are no wider."""
    line = ""
    for word in " ".join(f"{note[:1].upper()}{note[1:]}." for note in notes).split():
        longer = f"{line} {word}".strip()
        if line and text_in(longer, _NOTE_PT) > width_in:
            yield line
            longer = word
        line = longer
    if line:
        yield line
