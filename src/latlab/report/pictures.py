"""Pictures for papers and mails: time series beside histograms, and CCDFs, all cells on identical axes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullLocator

from latlab.analysis.histogram import ccdf, histogram
from latlab.analysis.series import binned
from latlab.report.palette import COLOURS, LOST_COLOUR
from latlab.report.text import short_count
from latlab.report.view import Trace, View

_WIDTH_IN = 10.0
_ROW_IN = 1.5
_HEAD_IN = 0.72
_FOOT_IN = 0.5
_LEFT_IN = 0.98  # the axis title, and seven digits beside it
_LEGEND_COLUMNS = 2
_LEGEND_LINE_IN = 0.21
_COLUMNS = 1100
_INK = "#1a1a1a"
_QUIET = "#5a5a5a"
_STYLE: dict[str, Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 9.0,
    "axes.titlesize": 9.0,
    "axes.labelsize": 9.0,
    "axes.edgecolor": "#8a8a8a",
    "axes.linewidth": 0.7,
    "axes.labelcolor": _INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.color": "#e2e2e2",
    "grid.linewidth": 0.6,
    "xtick.color": _QUIET,
    "ytick.color": _QUIET,
    "xtick.labelsize": 8.5,
    "ytick.labelsize": 8.5,
    "figure.dpi": 100,
    "savefig.dpi": 150,
    "svg.hashsalt": "latlab",
    "svg.fonttype": "none",
    "pdf.fonttype": 42,
}
# How many decades an axis may span for its labels to stand at these multiples of ten.
_LOG_TICKS: tuple[tuple[float, tuple[float, ...]], ...] = (
    (2.2, (1.0, 2.0, 5.0)),
    (4.0, (1.0, 3.0)),
    (float("inf"), (1.0,)),
)
# Without these, each file would carry the moment it was written and no two would be equal.
_METADATA: dict[str, dict[str, Any]] = {
    "png": {"Software": None},
    "svg": {"Date": None},
    "pdf": {"CreationDate": None, "Producer": None, "Creator": None},
}


def write_pictures(shown: View, folder: Path, *, caption: str, formats: Sequence[str] = ("png",)) -> list[Path]:
    """The files written for one metric of one stream: STREAM-METRIC.png and STREAM-METRIC-ccdf.png.

    caption: stands under each title: label, verdict and run. formats: of png, svg, pdf.
    """
    folder.mkdir(parents=True, exist_ok=True)
    stem = re.sub(r"[^\w.-]", "_", f"{shown.stream}-{shown.metric}")
    written = []
    with mpl.rc_context(cast(Any, _STYLE)):
        for suffix, draw in (("", series_figure), ("-ccdf", ccdf_figure)):
            figure = draw(shown, caption)
            for kind in formats:
                written.append(folder / f"{stem}{suffix}.{kind}")
                figure.savefig(written[-1], format=kind, metadata=_METADATA[kind])
    return written


def series_figure(shown: View, caption: str) -> Figure:
    """A figure with a row a cell: its series on the left, its histogram on the right, on the same value axis.

    Where there are more packets than columns of ink, each column spans the smallest to the largest value
    in it, so that no extreme is lost. Triangles at the upper edge are lost packets.
    """
    count = max(len(shown.traces), 1)
    height = _HEAD_IN + _FOOT_IN + count * _ROW_IN
    figure = Figure(figsize=(_WIDTH_IN, height))
    grid = figure.add_gridspec(
        count,
        2,
        width_ratios=(3.6, 1),
        left=_LEFT_IN / _WIDTH_IN,
        right=1 - 0.18 / _WIDTH_IN,
        top=1 - (_HEAD_IN + 0.26) / height,
        bottom=_FOOT_IN / height,
        hspace=0.34,
        wspace=0.05,
    )
    _head(figure, shown, caption, height)
    counts = [histogram(trace.value_ns, shown.edges_ns).count for trace in shown.traces]
    largest = max((int(count.max()) for count in counts), default=1)
    for number, trace in enumerate(shown.traces):
        left = figure.add_subplot(grid[number, 0])
        right = figure.add_subplot(grid[number, 1])
        _series(left, shown, trace)
        _histogram(right, shown, trace, largest)
        last = number == count - 1
        left.tick_params(labelbottom=last)
        right.tick_params(labelbottom=last, labelleft=False)
        if last:
            left.set_xlabel("launch time after the cell's start [s]")
            right.set_xlabel("packets per bin (log)")
    middle = (_FOOT_IN + height - _HEAD_IN - 0.26) / 2 / height
    figure.text(0.1 / _WIDTH_IN, middle, f"{shown.label} [µs]", rotation=90, va="center", ha="left", color=_INK)
    if any(len(trace.lost_sequence) for trace in shown.traces):
        lost = Line2D([], [], linestyle="none", marker="v", markersize=5, color=LOST_COLOUR, label="lost packet")
        figure.legend(
            handles=[lost],
            loc="upper right",
            bbox_to_anchor=(0.985, 1 - 0.3 / height),
            frameon=False,
            handletextpad=0.1,
        )
    return figure


def ccdf_figure(shown: View, caption: str) -> Figure:
    """A figure with all cells' CCDFs, log-log: the share of packets at or above each value."""
    # The legend is below: no corner of the axes is free of tails.
    legend = _LEGEND_LINE_IN * -(-len(shown.traces) // _LEGEND_COLUMNS)
    height = 5.6 + legend
    figure = Figure(figsize=(_WIDTH_IN * 0.8, height))
    axes = figure.add_axes((0.165, (0.59 + legend) / height, 0.81, 4.28 / height))
    _head(figure, shown, caption, height)
    for trace in shown.traces:
        tail = ccdf(trace.value_ns)
        axes.plot(
            tail.value_ns / 1000,
            tail.share,
            drawstyle="steps-pre",
            color=COLOURS[trace.look.colour],
            linestyle=(0, trace.look.dash) if trace.look.dash else "solid",
            linewidth=1.5,
            marker=trace.look.marker,
            markevery=0.1,
            markersize=4,
            label=f"{trace.name}  (n {len(trace.value_ns)})",
        )
    _value_axis(axes, shown, "x")
    axes.set_yscale("log")
    most = max((len(trace.value_ns) for trace in shown.traces), default=1)
    axes.set_ylim(0.7 / max(most, 1), 1.3)
    axes.yaxis.set_major_locator(LogLocator(numticks=20))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(_share_text))
    axes.set_xlabel(f"{shown.label} [µs]")
    axes.set_ylabel("share of packets at or above")
    figure.legend(
        loc="lower left",
        bbox_to_anchor=(0.155, 0.06 / height),
        ncol=_LEGEND_COLUMNS,
        frameon=False,
        fontsize=8.5,
        handlelength=2.8,
    )
    return figure


def _series(axes: Axes, shown: View, trace: Trace) -> None:
    colour = COLOURS[trace.look.colour]
    at = trace.at_ns(trace.sequence)
    if len(at) > _COLUMNS:
        filled = binned(at, trace.value_ns, _COLUMNS, span_tai_ns=shown.span_ns).drop_nulls()
        middle = (shown.span_ns[1] - shown.span_ns[0]) / _COLUMNS / 2
        axes.vlines(
            (filled["at_tai_ns"].to_numpy() + middle) / 1e9,
            filled["min_ns"].to_numpy() / 1000,
            filled["max_ns"].to_numpy() / 1000,
            colors=colour,
            linewidth=0.75,
            capstyle="projecting",
        )
    else:
        axes.plot(at / 1e9, trace.value_ns / 1000, linestyle="none", marker=".", markersize=2.6, color=colour)
    _value_axis(axes, shown, "y")
    first, last = (at_ns / 1e9 for at_ns in shown.span_ns)
    margin = max((last - first) * 0.006, 1e-6)
    axes.set_xlim(first - margin, last + margin)
    if len(trace.lost_sequence):
        axes.plot(
            trace.at_ns(trace.lost_sequence) / 1e9,
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
    axes.set_title(trace.name, loc="left", fontweight="bold", color=_INK, pad=4)
    axes.set_title(trace.figures, loc="right", color=_QUIET, fontsize=8.2, pad=4)


def _histogram(axes: Axes, shown: View, trace: Trace, largest: int) -> None:
    counts = histogram(trace.value_ns, shown.edges_ns).count
    # A bar of one packet has to show on a logarithmic axis, so bars grow from below one.
    axes.stairs(
        counts,
        shown.edges_ns / 1000,
        orientation="horizontal",
        fill=True,
        baseline=0.5,
        color=COLOURS[trace.look.colour],
    )
    axes.set_xscale("log")
    axes.set_xlim(0.5, largest * 1.6)
    axes.xaxis.set_major_locator(LogLocator(numticks=8))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda count, _: short_count(count)))
    _value_axis(axes, shown, "y")


def _value_axis(axes: Axes, shown: View, which: str) -> None:
    """The metric's common axis on x or y, in µs."""
    low, high = shown.axis.low_ns / 1000, shown.axis.high_ns / 1000
    side = axes.yaxis if which == "y" else axes.xaxis
    scale = axes.set_yscale if which == "y" else axes.set_xscale
    if shown.axis.kind == "log":
        scale("log")
        decades = np.log10(high / low)
        subs = next(subs for most, subs in _LOG_TICKS if decades < most)
        side.set_major_locator(LogLocator(subs=subs, numticks=20))
        side.set_minor_locator(NullLocator())
    elif shown.axis.kind == "asinh":
        linear = shown.axis.linear_ns / 1000
        scale("asinh", linear_width=linear)
        powers = 10.0 ** np.arange(np.ceil(np.log10(linear)), np.ceil(np.log10(max(-low, high, linear))) + 1)
        side.set_major_locator(FixedLocator([*-powers[::-1], 0.0, *powers]))
        side.set_minor_locator(NullLocator())
    else:
        side.set_major_locator(MaxNLocator(5))
    side.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    (axes.set_ylim if which == "y" else axes.set_xlim)(low, high)


def _head(figure: Figure, shown: View, caption: str, height: float) -> None:
    left = 0.16 / figure.get_figwidth()
    figure.text(
        left,
        1 - 0.12 / height,
        f"{shown.stream}: {shown.title}",
        fontsize=13,
        fontweight="bold",
        color=_INK,
        va="top",
    )
    figure.text(left, 1 - 0.41 / height, caption, fontsize=8.8, color=_QUIET, va="top")


def _share_text(share: float, _: object = None) -> str:
    """A share with the percentile it stands for: "p99  0.01"."""
    if share >= 1:
        return "1"
    return f"p{100 * (1 - share):.10g}   {share:g}"
