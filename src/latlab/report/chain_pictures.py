"""Where the time went, as a picture: bars of intervals, typical packets against late ones, all cells on one scale."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle
from matplotlib.ticker import FuncFormatter, MaxNLocator

from latlab.report.chain_view import Bar, ChainView, Scale, Segment
from latlab.report.palette import WAY_COLOURS
from latlab.report.style import INK, QUIET, STYLE, Style, legend_below, save_all, text_in
from latlab.report.text import microseconds, plain

_WIDTH_IN = 10.0
_SIDE_IN = 0.16
_HEAD_IN = 0.98
_CELL_IN = 0.27  # a cell's name, above its bars
_BAR_IN = 0.23
_CELL_GAP_IN = 0.16
_AXIS_IN = 0.55
_LEGEND_LINE_IN = 0.21
_BETWEEN_IN = 0.22
_TITLE_PT = 9.0
_TEXT_PT = 8.5
_IN_BAR_PT = 7.0
_THICK = 0.80
"""Of a bar's line; an interval below zero has its lower edge only, so that figures in the bar can be read."""
_THIN = 0.24


def write_chain_picture(
    shown: ChainView, folder: Path, *, caption: str, formats: Sequence[str] = ("png",)
) -> list[Path]:
    """The files written for one metric of one stream: STREAM-METRIC-chain.png. formats: of png, svg, pdf."""
    with mpl.rc_context(cast(Any, STYLE)):
        return save_all(chain_figure(shown, caption), folder, f"{shown.stream}-{shown.metric}-chain", formats)


def chain_figure(shown: ChainView, caption: str) -> Figure:
    """A figure with the bars of each cell below each other, once for each scale, side by side.

    A bar is a line of time: it begins at the start (the launch), each interval where the one before ended. One below
    zero goes back, as a thin hatched strip at its foot; what follows begins at its left end. Bars that a closer scale
    has no room for end in a triangle at its edge.
    """
    rows_in = sum(_CELL_IN + _BAR_IN * len(cell.bars) + _CELL_GAP_IN for cell in shown.cells)
    legend = _legend(shown)
    columns = _legend_columns(legend)
    legend_in = _LEGEND_LINE_IN * -(-len(legend) // columns) + 0.1
    height = _HEAD_IN + rows_in + _AXIS_IN + legend_in
    figure = Figure(figsize=(_WIDTH_IN, height))
    left_in = _SIDE_IN + 0.1 + max(text_in(_label(bar), _TEXT_PT) for cell in shown.cells for bar in cell.bars)
    width_in = (_WIDTH_IN - left_in - _SIDE_IN - _BETWEEN_IN * (len(shown.scales) - 1)) / len(shown.scales)
    _head(figure, shown, caption, height)
    for number, scale in enumerate(shown.scales):
        from_left_in = left_in + number * (width_in + _BETWEEN_IN)
        axes = figure.add_axes(
            (from_left_in / _WIDTH_IN, (_AXIS_IN + legend_in) / height, width_in / _WIDTH_IN, rows_in / height)
        )
        _panel(axes, shown, scale, width_in, rows_in, first=number == 0)
    _names(figure, shown, height)
    legend_below(figure, legend, columns, _SIDE_IN, _TEXT_PT)
    return figure


def _head(figure: Figure, shown: ChainView, caption: str, height: float) -> None:
    left = _SIDE_IN / _WIDTH_IN
    name = f"{shown.stream}: where the time went · {shown.title}"
    figure.text(left, 1 - 0.12 / height, name, fontsize=13, fontweight="bold", color=INK, va="top")
    figure.text(left, 1 - 0.41 / height, caption, fontsize=8.8, color=QUIET, va="top")
    figure.text(left, 1 - 0.61 / height, shown.note, fontsize=8.8, color=QUIET, va="top")


def _names(figure: Figure, shown: ChainView, height: float) -> None:
    """Each cell's name above its bars, and behind it what made its worst packets late, as far as there is room."""
    below_in = _HEAD_IN + 0.05
    for cell in shown.cells:
        left_in, y = _SIDE_IN, 1 - below_in / height
        # Lines of the grid run behind them.
        style: Style = {"va": "top", "parse_math": False, "bbox": {"color": "white", "pad": 0.6}}
        figure.text(left_in / _WIDTH_IN, y, cell.name, fontsize=_TITLE_PT, fontweight="bold", color=INK, **style)
        left_in += text_in(cell.name, _TITLE_PT, "bold") + 0.15
        if left_in + text_in(cell.grew, _TEXT_PT) < _WIDTH_IN - _SIDE_IN:
            right = 1 - _SIDE_IN / _WIDTH_IN
            figure.text(right, y, cell.grew, fontsize=_TEXT_PT, color=QUIET, ha="right", **style)
        below_in += _CELL_IN + _BAR_IN * len(cell.bars) + _CELL_GAP_IN


def _panel(axes: Axes, shown: ChainView, scale: Scale, width_in: float, rows_in: float, *, first: bool) -> None:
    margin = 0.02 * (scale.high_ns - scale.low_ns)
    low, high = (scale.low_ns - margin) / 1000, (scale.high_ns + margin) / 1000
    axes.set_xlim(low, high)
    axes.set_ylim(rows_in, 0)
    axes.grid(False, axis="y")
    axes.spines["left"].set_visible(False)
    axes.xaxis.set_major_locator(MaxNLocator(6))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: plain(value)))
    axes.set_xlabel(f"after {shown.start} [µs]{'' if scale.whole else ', closer'}")
    at_in, places, labels = 0.0, [], []
    for cell in shown.cells:
        at_in += _CELL_IN
        # Beside the bars only: between them stand the names, and what is said of the worst packets.
        ends_in = (at_in, at_in + _BAR_IN * len(cell.bars))
        axes.plot((0, 0), ends_in, color=INK, linewidth=0.9, zorder=1.5, gid="start")
        for bar in cell.bars:
            _bar(axes, bar, at_in, (low, high), width_in)
            places.append(at_in + _BAR_IN / 2)
            labels.append(_label(bar))
            at_in += _BAR_IN
        at_in += _CELL_GAP_IN
    axes.set_yticks(places, labels if first else [""] * len(labels), fontsize=_TEXT_PT, parse_math=False)
    axes.tick_params(axis="y", length=0)


def _bar(axes: Axes, bar: Bar, at_in: float, ends: tuple[float, float], width_in: float) -> None:
    """One bar in the line that begins at_in below the panel's upper edge; ends: what the axis spans, µs."""
    low, high = ends
    # What goes back would be covered by what follows it.
    for segment in sorted(bar.segments, key=lambda one: one.ns < 0):
        _segment(axes, segment, at_in)
        left, right = max(segment.from_ns / 1000, low), min(segment.free_ns / 1000, high)
        text = microseconds(segment.ns)
        if segment.ns > 0 and text_in(text, _IN_BAR_PT) + 0.06 < (right - left) / (high - low) * width_in:
            axes.text(
                (left + right) / 2,
                at_in + _BAR_IN * 0.46,
                text,
                fontsize=_IN_BAR_PT,
                color=_ink_on(WAY_COLOURS[segment.interval.colour]),
                ha="center",
                va="center_baseline",
                clip_on=True,
                zorder=4,
            )
    if bar.ends_ns[1] / 1000 > high:
        axes.plot(
            high, at_in + _BAR_IN / 2, marker=">", markersize=4.5, color=INK, clip_on=False, zorder=5, gid="beyond"
        )


def _segment(axes: Axes, segment: Segment, at_in: float) -> None:
    colour = WAY_COLOURS[segment.interval.colour]
    back = segment.ns < 0
    thick = _BAR_IN * (_THIN if back else _THICK)
    below_in = at_in + _BAR_IN * (1 + _THICK) / 2
    axes.add_artist(  # the axis is set: nothing has to be fitted to it
        Rectangle(
            (min(segment.from_ns, segment.to_ns) / 1000, below_in - thick),
            abs(segment.ns) / 1000,
            thick,
            facecolor="white" if back else colour,
            edgecolor=colour if back else "white",
            hatch="//////" if back else None,
            linewidth=0.5,
            zorder=3 if back else 2,
        )
    )


def _label(bar: Bar) -> str:
    return f"{bar.what}  {microseconds(bar.value_ns)}"


def _ink_on(colour: str) -> str:
    """Black or white, whichever is the easier to read on it (WCAG 2.1, relative luminance)."""
    linear = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in to_rgb(colour))
    luminance = sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))
    return "white" if 1.05 / (luminance + 0.05) > (luminance + 0.05) / 0.05 else "black"


def _legend(shown: ChainView) -> list[Patch]:
    entries = [
        Patch(facecolor=WAY_COLOURS[colour], edgecolor="white", linewidth=0.5, label=name)
        for colour, name in shown.legend
    ]
    if shown.below_zero:
        entries.append(Patch(facecolor="white", edgecolor=QUIET, hatch="//////", linewidth=0.5, label="below zero"))
    return entries


def _legend_columns(entries: Sequence[Patch]) -> int:
    """As many beside each other as there is room for."""
    room_in = _WIDTH_IN - 2 * _SIDE_IN
    widest_in = max(text_in(str(one.get_label()), _TEXT_PT) for one in entries) + _TEXT_PT * 4.4 / 72
    return max(1, min(len(entries), int(room_in / widest_in)))
