"""Pictures for papers and mails: time series next to histograms, and CCDFs, all cells on identical axes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import zip_longest
from typing import Any, Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.path import Path as Path2D
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullLocator

from latlab.analysis.anomalies.classes import BY_NAME
from latlab.analysis.bins import binned, ccdf, histogram
from latlab.model.units import MICROSECOND_NS, SECOND_NS
from latlab.report.charts.sheet import COLOURS, INK, LOST_COLOUR, QUIET, Plotted, text_in
from latlab.report.legend import REPEAT, Key, LegendEntry
from latlab.report.marks import CHOSEN_LABEL, CIRCLE, CUT_LABEL, DIAMOND, GLYPHS, HEXAGON, SQUARE, Mark, Marks
from latlab.report.text import plain, short_count
from latlab.report.view import ValueTrace, View

_WIDTH_IN = 10.0
_PANEL_IN = 1.13
_TITLE_IN = 0.37  # a panel's name and figures, side by side
_TITLE_LINE_IN = 0.16  # and as much for a separate line
_TITLE_PT = 9.0
_FIGURES_PT = 8.2
_HEAD_IN = 0.92
_KEY_IN = 0.79  # from where on the head says what marks mean
_FOOT_IN = 0.5
_LEFT_IN = 0.98  # the axis title, and seven digits next to it
_LEGEND_LINE_IN = 0.21
_LEGEND_PT = 8.5
_LEGEND_HANDLE = 4.0  # a sample's length in type sizes: the longest dash once
_LEGEND_GAPS = 2.2  # what is free before and behind a text, in type sizes
_COLUMNS = 1100
_MOST_CURVES = 16  # more cannot be followed: the repetitions of a cell are one
# How many decades an axis may span for its labels to stand at these multiples of ten.
_LOG_TICKS: tuple[tuple[float, tuple[float, ...]], ...] = (
    (2.2, (1.0, 2.0, 5.0)),
    (4.0, (1.0, 3.0)),
    (float("inf"), (1.0,)),
)


def series_chart(shown: View) -> Plotted:
    """Each cell's packets over time, next to their histogram."""
    return Plotted(f"{shown.stream}-{shown.metric}", partial(series_figure, shown))


def ccdf_chart(shown: View) -> Plotted:
    """All cells' CCDFs."""
    return Plotted(f"{shown.stream}-{shown.metric}-ccdf", partial(ccdf_figure, shown))


def series_figure(shown: View, caption: str) -> Figure:
    """A figure with a row a cell: its series on the left, its histogram on the right, on the same value axis.

    Where there are more packets than columns of ink, each column spans the smallest to the largest value
    in it, so that no extreme is lost. Triangles at the upper edge are lost packets, letters anomalies, a few of them.
    """
    count = max(len(shown.traces), 1)
    apart = _LEFT_IN + 0.18 + 0.2
    beside = all(_name_in(trace) + _figures_in(trace) <= _WIDTH_IN - apart for trace in shown.traces)
    title_in = _TITLE_IN + (0 if beside else _TITLE_LINE_IN)
    marked = [placed(trace.marks, shown.span_ns) for trace in shown.traces]
    key = key_lines(shown, marked, _WIDTH_IN - 0.32)
    head = _HEAD_IN + _MARK_LINE_IN * len(key)
    height = head + _FOOT_IN + count * (_PANEL_IN + title_in)
    figure = Figure(figsize=(_WIDTH_IN, height))
    grid = figure.add_gridspec(
        count,
        2,
        width_ratios=(3.6, 1),
        left=_LEFT_IN / _WIDTH_IN,
        right=1 - 0.18 / _WIDTH_IN,
        top=1 - (head + title_in) / height,
        bottom=_FOOT_IN / height,
        hspace=title_in / _PANEL_IN,
        wspace=0.05,
    )
    _head(figure, shown, caption, height)
    draw_key(figure, key, 0.16 / _WIDTH_IN, _KEY_IN, height)
    counts = [histogram(trace.value_ns, shown.edges_ns).count for trace in shown.traces]
    largest = max((int(count.max()) for count in counts), default=1)
    for number, trace in enumerate(shown.traces):
        left = figure.add_subplot(grid[number, 0])
        right = figure.add_subplot(grid[number, 1])
        _series(left, shown, trace)
        draw_marks(left, trace.marks, marked[number])
        _histogram(right, shown, trace, largest)
        above_pt = 0 if beside else _TITLE_LINE_IN * 72
        left.set_title(
            trace.name, loc="left", fontweight="bold", fontsize=_TITLE_PT, color=INK, pad=4 + above_pt, y=1.0
        )
        # Over this panel and the end of the one next to it: there the name has the room it needs.
        right.set_title(trace.figures, loc="right", color=QUIET, fontsize=_FIGURES_PT, pad=4, y=1.0)
        last = number == count - 1
        left.tick_params(labelbottom=last)
        right.tick_params(labelbottom=last, labelleft=False)
        if last:
            left.set_xlabel(f"{'due' if shown.thing == 'instant' else 'launch time'} after the cell's start [s]")
            right.set_xlabel(f"{shown.thing}s per bin (log)")
    middle = (_FOOT_IN + height - head - title_in) / 2 / height
    figure.text(0.1 / _WIDTH_IN, middle, f"{shown.label} [µs]", rotation=90, va="center", ha="left", color=INK)
    if any(len(trace.lost_sequence) for trace in shown.traces):
        lost = Line2D(
            [], [], linestyle="none", marker="v", markersize=5, color=LOST_COLOUR, label=f"lost {shown.thing}"
        )
        figure.legend(
            handles=[lost],
            loc="upper right",
            bbox_to_anchor=(0.985, 1 - 0.3 / height),
            frameon=False,
            handletextpad=0.1,
        )
    return figure


def ccdf_figure(shown: View, caption: str) -> Figure:
    """A figure with all cells' CCDFs, log-log: the share of packets at or above each value.

    Where there are too many to follow, the packets of a cell's repetitions are one curve.
    """
    shown = _pooled(shown)
    width = _WIDTH_IN * 0.8
    # The legend is below: no corner of the axes is free of tails.
    legend = _legend(shown.legend, width)
    below = _LEGEND_LINE_IN * sum(len(key.rows) for key in legend) + (0.12 if legend else 0)
    height = _HEAD_IN + 0.14 + 4.28 + 0.59 + below
    figure = Figure(figsize=(width, height))
    axes = figure.add_axes((0.165, (0.59 + below) / height, 0.81, 4.28 / height))
    _head(figure, shown, caption, height)
    for trace in shown.traces:
        tail = ccdf(trace.value_ns)
        axes.plot(
            tail.value_ns / MICROSECOND_NS,
            tail.share,
            drawstyle="steps-pre",
            color=COLOURS[trace.look.colour],
            linestyle=_linestyle(trace.look.dash),
            linewidth=1.5,
            marker=trace.look.marker,
            markevery=0.1,
            markersize=4,
            label=trace.name,
        )
    _value_axis(axes, shown, "x")
    axes.set_yscale("log")
    most = max((len(trace.value_ns) for trace in shown.traces), default=1)
    axes.set_ylim(0.7 / max(most, 1), 1.3)
    axes.yaxis.set_major_locator(LogLocator(numticks=20))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(_share_text))
    axes.set_xlabel(f"{shown.label} [{', '.join(filter(None, ('µs', shown.axis.told())))}]")
    axes.set_ylabel(f"share of {shown.thing}s at or above")
    _draw_legend(figure, legend, below)
    return figure


def _pooled(shown: View) -> View:
    """The view itself, or one whose traces are each all repetitions of a cell, with the look of the first."""
    keys = tuple(key for key in shown.legend if key.heading != REPEAT)
    if len(shown.traces) <= _MOST_CURVES or len(keys) == len(shown.legend):
        return shown
    cells: dict[str, list[ValueTrace]] = {}
    for trace in shown.traces:
        cells.setdefault(trace.slug, []).append(trace)
    most = max(map(len, cells.values()))
    traces = tuple(map(_together, cells.values()))
    return replace(shown, traces=traces, legend=keys, each=f"cell, its {most} repetitions together")


def _together(same: Sequence[ValueTrace]) -> ValueTrace:
    """The repetitions of a cell as the first one, with the packets of all."""
    unbounded = sum(one.statistics.unbounded for one in same)
    statistics = same[0].statistics.model_copy(update={"unbounded": unbounded})
    return replace(same[0], value_ns=np.concatenate([one.value_ns for one in same]), statistics=statistics)


def _series(axes: Axes, shown: View, trace: ValueTrace) -> None:
    colour = COLOURS[trace.look.colour]
    at = trace.at_ns(trace.sequence)
    if len(at) > _COLUMNS:
        filled = binned(at, trace.value_ns, _COLUMNS, span_tai_ns=shown.span_ns)
        middle = (shown.span_ns[1] - shown.span_ns[0]) / _COLUMNS / 2
        ends = np.empty((2 * len(filled), 2))
        ends[:, 0] = np.repeat((filled["at_tai_ns"].to_numpy() + middle) / SECOND_NS, 2)
        ends[0::2, 1] = filled["min_ns"].to_numpy() / MICROSECOND_NS
        ends[1::2, 1] = filled["max_ns"].to_numpy() / MICROSECOND_NS
        # One path for all: with one for each column they take as long to draw as all else of the panel.
        path = Path2D(ends, np.tile((Path2D.MOVETO, Path2D.LINETO), len(filled)))
        axes.add_collection(
            PathCollection(
                [path], facecolors="none", edgecolors=colour, linewidths=0.75, capstyle="projecting", snap=True
            ),
            autolim=False,
        )
        # A line without length leaves no ink.
        alone = ends[0::2][ends[0::2, 1] == ends[1::2, 1]]
        axes.plot(*alone.T, linestyle="none", marker=".", markersize=2.6, color=colour)
    else:
        axes.plot(
            at / SECOND_NS, trace.value_ns / MICROSECOND_NS, linestyle="none", marker=".", markersize=2.6, color=colour
        )
    _value_axis(axes, shown, "y")
    first, last = (at_ns / SECOND_NS for at_ns in shown.span_ns)
    margin = max((last - first) * 0.006, 1e-6)
    axes.set_xlim(first - margin, last + margin)
    if len(trace.lost_sequence):
        axes.plot(
            trace.at_ns(trace.lost_sequence) / SECOND_NS,
            np.full(len(trace.lost_sequence), 0.965),
            transform=axes.get_xaxis_transform(),
            linestyle="none",
            marker="v",
            markersize=5,
            color=LOST_COLOUR,
            markeredgecolor="white",
            markeredgewidth=0.5,
            clip_on=False,
            gid="lost",
        )


def _histogram(axes: Axes, shown: View, trace: ValueTrace, largest: int) -> None:
    counts = histogram(trace.value_ns, shown.edges_ns).count
    # A bar of one packet has to show on a logarithmic axis, so bars grow from below one.
    axes.stairs(
        counts,
        shown.edges_ns / MICROSECOND_NS,
        orientation="horizontal",
        fill=True,
        baseline=0.5,
        color=COLOURS[trace.look.colour],
    )
    axes.set_xscale("log")
    axes.set_xlim(0.5, max(1, largest) * 1.6)
    axes.xaxis.set_major_locator(LogLocator(numticks=8))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda count, _: short_count(count)))
    _value_axis(axes, shown, "y")


def _value_axis(axes: Axes, shown: View, which: str) -> None:
    """The metric's common axis on x or y, in µs."""
    low, high = shown.axis.low_ns / MICROSECOND_NS, shown.axis.high_ns / MICROSECOND_NS
    side = axes.yaxis if which == "y" else axes.xaxis
    scale = axes.set_yscale if which == "y" else axes.set_xscale
    if shown.axis.kind == "log":
        scale("log")
        decades = np.log10(high / low)
        subs = next(subs for most, subs in _LOG_TICKS if decades < most)
        side.set_major_locator(LogLocator(subs=subs, numticks=20))
        side.set_minor_locator(NullLocator())
    elif shown.axis.kind == "asinh":
        linear = shown.axis.linear_ns / MICROSECOND_NS
        scale("asinh", linear_width=linear)
        side.set_major_locator(FixedLocator([value / 1000 for value in shown.axis.round_values_ns()]))
        side.set_minor_locator(NullLocator())
    else:
        side.set_major_locator(MaxNLocator(5))
    side.set_major_formatter(FuncFormatter(lambda value, _: plain(value)))
    (axes.set_ylim if which == "y" else axes.set_xlim)(low, high)


def _head(figure: Figure, shown: View, caption: str, height: float) -> None:
    left = 0.16 / figure.get_figwidth()
    figure.text(
        left,
        1 - 0.12 / height,
        f"{shown.stream}: {shown.title}",
        fontsize=13,
        fontweight="bold",
        color=INK,
        va="top",
    )
    figure.text(left, 1 - 0.41 / height, caption, fontsize=8.8, color=QUIET, va="top")
    figure.text(left, 1 - 0.60 / height, _accuracy(shown), fontsize=8.8, color=QUIET, va="top")


def _accuracy(shown: View) -> str:
    """What figures may be off by, of how many packets they are, and how many more are in none."""
    counts = sorted({len(trace.value_ns) for trace in shown.traces})
    many = " to ".join(str(count) for count in dict.fromkeys((counts[0], counts[-1]))) if counts else "no"
    clocks = f", ± {shown.uncertainty}" if shown.uncertainty else ""
    most = max((trace.statistics.unbounded for trace in shown.traces), default=0)
    lacking = f", up to {most} more whose clocks are not bounded" if most else ""
    axis = f" · axis {told}" if (told := shown.axis.told()) else ""
    return f"figures in µs{clocks} · {many} {shown.thing}s in each {shown.each}{lacking}{axis}"


@dataclass(frozen=True)
class _LegendKey:
    """One key of the legend, laid out. rows: its entries, line by line; left: where its samples begin, of the width."""

    heading: str
    rows: tuple[tuple[LegendEntry, ...], ...]
    left: float


def _legend(keys: Sequence[Key], width: float) -> tuple[_LegendKey, ...]:
    """The keys in as many columns each as fit a figure of this width in inches."""
    headings_in = max((text_in(key.heading, _LEGEND_PT) for key in keys), default=0.0)
    left = max(0.165, (0.3 + headings_in) / width)
    return tuple(_LegendKey(key.heading, _lines(key.entries, (0.98 - left) * width), left) for key in keys)


def _lines(entries: tuple[LegendEntry, ...], room_in: float) -> tuple[tuple[LegendEntry, ...], ...]:
    """The entries line by line, as many side by side as there is room for."""
    sample_in = _LEGEND_PT * (_LEGEND_HANDLE + _LEGEND_GAPS) / 72
    for columns in range(len(entries), 0, -1):
        widest_in = (
            max(text_in(one.text, _LEGEND_PT) for one in entries[column::columns]) for column in range(columns)
        )
        if columns == 1 or sum(sample_in + text_in for text_in in widest_in) <= room_in:
            break
    return tuple(entries[at : at + columns] for at in range(0, len(entries), columns))


def _name_in(trace: ValueTrace) -> float:
    return text_in(trace.name, _TITLE_PT, "bold")


def _figures_in(trace: ValueTrace) -> float:
    return text_in(trace.figures, _FIGURES_PT)


def _draw_legend(figure: Figure, keys: Sequence[_LegendKey], below_in: float) -> None:
    """The keys below the axes, the first one highest: what colour, dash and marker say."""
    width, height = figure.get_size_inches()
    top = below_in
    for key in keys:
        # matplotlib fills column by column; the entries are read line by line.
        columns = zip_longest(*key.rows)
        entries = [entry for column in columns for entry in column if entry]
        figure.legend(
            handles=[_sample(entry) for entry in entries],
            loc="upper left",
            bbox_to_anchor=(key.left, top / height),
            ncol=len(key.rows[0]),
            frameon=False,
            borderpad=0,
            borderaxespad=0,
            labelspacing=_LEGEND_LINE_IN * 72 / _LEGEND_PT - 1,
            handlelength=_LEGEND_HANDLE,
            handletextpad=0.8,
            columnspacing=_LEGEND_GAPS - 0.8,
            fontsize=_LEGEND_PT,
        )
        figure.text(
            key.left - 0.12 / width, top / height, key.heading, fontsize=_LEGEND_PT, color=QUIET, ha="right", va="top"
        )
        top -= _LEGEND_LINE_IN * len(key.rows)


def _sample(entry: LegendEntry) -> Line2D:
    """What a line with this value looks like; grey where lines of any colour have it."""
    return Line2D(
        [],
        [],
        color=QUIET if entry.colour is None else COLOURS[entry.colour],
        linestyle=_linestyle(entry.dash),
        linewidth=1.5,
        marker=entry.marker,
        markersize=4,
        label=entry.text,
    )


def _linestyle(dash: tuple[int, ...]) -> Any:
    return (0, dash) if dash else "solid"


def _share_text(share: float, _: object = None) -> str:
    """A share with the percentile it stands for, in little room: "p99.999   1/100k"."""
    if share >= 1:
        return "1"
    return f"p{100 * (1 - share):.10g}   1/{short_count(round(1 / share))}"


# Marks

MOST: Final = 12
"""Marks in one panel: more could not be distinguished."""
ROWS: Final = (0.87, 0.70)
"""Where letters stand, as shares of a panel's height: the second row is for those that would cover one of the first."""
APART: Final = 0.022
"""Of the panel's width, between two letters of a row."""
_MARK_LINE_IN: Final = 0.17
_MARK_TEXT_PT: Final = 8.2
_LETTER_PT: Final = 6.4
_MARKER_PT: Final = 8.6
_HATCH: Final = "#bdbdbd"
_CHOSEN: Final = "#0060a8"
_MARKERS: Final = {SQUARE: "s", CIRCLE: "o", DIAMOND: "D", HEXAGON: "h"}


@dataclass(frozen=True)
class Placed:
    """A mark in a panel. at: launch time, s; row: of ROWS."""

    mark: Mark
    at: float
    row: int


def placed(marks: Marks, span_ns: tuple[int, int]) -> list[Placed]:
    """The marks of one panel, MOST at most: of each class the worst, then the second worst, as there is room.

    span_ns: the time axis. What is wholly beyond its ends has no place in the panel: a letter that far from it cannot
    even be drawn.
    """
    within = [one for one in marks.told if one.to_ns >= span_ns[0] and one.from_ns <= span_ns[1]]
    of_class = [sorted((one for one in within if one.class_ == name), key=lambda one: -one.severity) for name in GLYPHS]
    found: list[Placed] = []
    apart = APART * (span_ns[1] - span_ns[0]) / SECOND_NS
    for one in (mark for rank in zip_longest(*of_class) for mark in rank if mark):
        at = max(one.from_ns, span_ns[0]) / SECOND_NS
        free = (
            row for row in range(len(ROWS)) if all(abs(at - other.at) >= apart for other in found if other.row == row)
        )
        row = next(free, None)
        if row is not None:
            found.append(Placed(one, at, row))
        if len(found) == MOST:
            break
    return found


def draw_marks(axes: Axes, marks: Marks, found: Iterable[Placed]) -> None:
    """Hatch what is cut, draw a bar below what was chosen, and write each mark's letter."""
    for cut in marks.cuts:
        span = axes.axvspan(
            cut.from_ns / SECOND_NS, cut.to_ns / SECOND_NS, fill=False, hatch="////", linewidth=0, zorder=0.4
        )
        span.set_edgecolor(_HATCH)
        span.set_gid("cut")
    across = axes.get_xaxis_transform()
    for window in marks.chosen:
        ends = (window.from_ns / SECOND_NS, window.to_ns / SECOND_NS)
        axes.plot(
            ends, (0.015, 0.015), transform=across, color=_CHOSEN, linewidth=3, solid_capstyle="butt", gid="chosen"
        )
    for one in found:
        letter, shape = GLYPHS[one.mark.class_]
        where = one.at, ROWS[one.row]
        axes.plot(
            [where[0]],
            [where[1]],
            transform=across,
            linestyle="none",
            marker=_MARKERS[shape],
            markersize=_MARKER_PT * (0.85 if shape == DIAMOND else 1.15 if shape == HEXAGON else 1),
            color=INK,
            markeredgecolor="white",
            markeredgewidth=0.6,
            zorder=5,
            gid="mark",
        )
        axes.text(
            *where,
            letter,
            transform=across,
            color="white",
            fontsize=_LETTER_PT,
            fontweight="bold",
            ha="center",
            va="center_baseline",
            zorder=6,
        )


def key_lines(shown: View, panels: Sequence[Sequence[Placed]], width_in: float) -> list[str]:
    """What letters, hatching and bars mean, and how many episodes are marked of how many; as wide as there is room.

    panels: what `placed` gives for each of the view's traces. No line where nothing is marked.
    """
    drawn = Counter(one.mark.class_ for panel in panels for one in panel)
    there: Counter[str] = Counter()
    for trace in shown.traces:
        there.update(trace.marks.episodes)
    parts = []
    for name, (letter, _) in GLYPHS.items():
        if there[name]:
            counts = str(there[name]) if drawn[name] == there[name] else f"{drawn[name]} of {there[name]}"
            parts.append(f"{letter} {BY_NAME[name].title.lower()} {counts}")
    if drawn.total() < there.total():
        parts.append(f"marked are the worst of each class, at most {MOST} in a panel")
    if any(trace.marks.cuts for trace in shown.traces):
        parts.append(f"hatched: {CUT_LABEL}")
    if any(trace.marks.chosen for trace in shown.traces):
        parts.append(f"bar below: {CHOSEN_LABEL}")
    lines: list[str] = []
    for part in parts:
        longer = f"{lines[-1]} · {part}" if lines else part
        if lines and text_in(longer, _MARK_TEXT_PT) <= width_in:
            lines[-1] = longer
        else:
            lines.append(part)
    return lines


def draw_key(figure: Figure, lines: Sequence[str], left: float, top_in: float, height_in: float) -> None:
    """Write the lines into the figure, from top_in below its upper edge on."""
    for number, line in enumerate(lines):
        figure.text(
            left, 1 - (top_in + number * _MARK_LINE_IN) / height_in, line, fontsize=_MARK_TEXT_PT, color=QUIET, va="top"
        )
