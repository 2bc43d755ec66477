"""Pictures that pages draw themselves: what the author compares, in the author's terms."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter
from numpy.typing import NDArray

from latlab.analysis.bins import ccdf
from latlab.report.charts.files import Charts
from latlab.report.charts.sheet import COLOURS, INK, LOST_COLOUR, QUIET, WIDTH_IN, Plotted
from latlab.report.text import plain
from published.claims import SENT, US, Figures, Of, is_one, number
from published.experiment import Drawn

BRIDGES: Final = ("tap", "macvtap", "xdp", "ovs", "ovs-afxdp", "vfio", "user")
"""Each has the same colour in every picture."""


def of_bridge(bridge: str) -> str:
    """The bridge's colour."""
    return COLOURS[BRIDGES.index(bridge)]


def caption(figures: Figures) -> str:
    """What stands below a picture's title."""
    return Charts(figures.run.folder, figures.run.result).caption


Values = Mapping[int, NDArray[np.int64]]
"""{repetition: the values of its packets, ns}."""


def values_of(figures: Figures, of: Of) -> Values:
    """Of every packet in these cells."""
    slugs = {cell["slug"] for cell in figures.cells if is_one(cell["cell"], of.cells) and of.stream in cell["streams"]}
    if not slugs:
        return {}
    if of.metric == SENT:
        found = figures.packets.filter(pl.col("stream_name") == of.stream, pl.col("cell").is_in(slugs))
        return {
            n: some["sent_ns"].to_numpy() for (n,), some in found.sort("repeat").group_by("repeat", maintain_order=True)
        }
    traces = Charts(figures.run.folder, figures.run.result).view(of.stream, of.metric).traces
    return {trace.repeat: trace.value_ns for trace in traces if trace.slug in slugs and len(trace.value_ns)}


# Of all of them


def _chart(title: str, height_in: float, columns: int, draw: Callable[[Sequence[Axes]], None]) -> Plotted:
    """A picture of axes side by side."""

    def plot(caption: str) -> Figure:
        figure = Figure(figsize=(WIDTH_IN, height_in), layout="constrained")
        axes = list(figure.subplots(1, columns, sharey=True, squeeze=False)[0])
        figure.suptitle("\n".join(filter(None, (title, caption))), x=0.01, ha="left", fontsize=10, color=INK)
        draw(axes)
        return figure

    return Plotted("", plot)


_ROUND: Final = [factor * 10.0**power for power in range(-1, 5) for factor in (1, 2, 5)]


def of_us(axes: Axes, which: str, label: str) -> None:
    """A logarithmic axis, µs."""
    side = axes.xaxis if which == "x" else axes.yaxis
    (axes.set_xscale if which == "x" else axes.set_yscale)("log")
    side.set_major_locator(FixedLocator(_ROUND))
    side.set_major_formatter(FuncFormatter(lambda us, _: plain(us)))
    side.set_minor_formatter(NullFormatter())
    side.set_label_text(f"{label} [µs, log]")


def _limits(axes: Axes, limits: Iterable[tuple[float, str]]) -> None:
    """Values that claims speak of, with what is there above the axes."""
    for x, text in limits:
        axes.axvline(x, color=LOST_COLOUR, linewidth=1, linestyle=":")
        axes.text(x, 1.01, text, transform=axes.get_xaxis_transform(), color=LOST_COLOUR, fontsize=7.6, ha="center")


# Repetitions


@dataclass(frozen=True)
class Row:
    """What is measured of one name. plus_ns: added to each value."""

    name: str
    of: Of
    colour: str
    plus_ns: int = 0


@dataclass(frozen=True)
class Span:
    """What the author printed: the least, the mean and the greatest, ns."""

    name: str
    ns: tuple[int, int, int]


Groups = Iterable[tuple[str, Sequence[Row | Span]]]
_KEY: Final = "Bar: a repetition, its middle 90 %, with the median; tick: its maximum"
_SPAN_KEY: Final = "; open: published, from the least to the greatest, with the mean"


def repetitions(title: str, label: str, groups: Groups, limits_us: Sequence[int] = ()) -> Drawn:
    """A row with a bar a repetition for each of these, in groups, so that what is compared is side by side."""
    listed = tuple(groups)

    def draw(figures: Figures) -> Plotted | None:
        bars: dict[Row | Span, list[tuple[float, ...]]] = {}
        for row in (row for _, rows in listed for row in rows):
            if isinstance(row, Span):
                low, mean, high = (ns / US for ns in row.ns)
                bars[row] = [(low, mean, high, high)]
            else:
                each = [(values + row.plus_ns) / US for values in values_of(figures, row.of).values()]
                bars[row] = [(*np.quantile(us, (0.05, 0.5, 0.95), method="inverted_cdf"), us.max()) for us in each]
        if not any(found for row, found in bars.items() if isinstance(row, Row)):
            return None
        high = sum(max(len(found), 2) + 1.5 for found in bars.values()) + 3 * len(listed)
        key = f"{title}\n{_KEY}{_SPAN_KEY if any(isinstance(row, Span) for row in bars) else ''}"
        return _chart(key, 0.075 * high + 1.4, 1, lambda axes: _strips(axes[0], listed, bars, label, limits_us))

    return draw


def _strips(
    axes: Axes,
    groups: Groups,
    bars: Mapping[Row | Span, Sequence[tuple[float, ...]]],
    label: str,
    limits_us: Sequence[int],
) -> None:
    y, places = 0.0, {}
    for title, rows in groups:
        if title:
            axes.annotate(title, (0, y + 1.6), xycoords=axes.get_yaxis_transform(), fontweight="bold", color=INK)
            y += 3
        for row in rows:
            colour = row.colour if isinstance(row, Row) else INK
            high = max(len(bars[row]), 2)
            places[y + high / 2] = row.name if bars[row] else f"{row.name}: not measured"
            for number_, (low, middle, most, largest) in enumerate(bars[row]):
                at = y + number_ + 0.5 if isinstance(row, Row) else y + high / 2
                fill = (colour, 0.45) if isinstance(row, Row) else "white"
                axes.barh(at, most - low, 0.7, low, color=fill, edgecolor="none" if isinstance(row, Row) else INK)
                axes.vlines(largest, at - 0.35, at + 0.35, colour, linewidth=1.6)
                axes.vlines(middle, at - 0.35, at + 0.35, INK, linewidth=1.4)
            y += high + 1.5
    axes.set_ylim(y, -0.5)
    axes.use_sticky_edges = False
    axes.set_yticks(list(places), list(places.values()))
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")
    of_us(axes, "x", label)
    _limits(axes, ((us, str(us)) for us in limits_us))


# Curves


@dataclass(frozen=True)
class Curve:
    """A line through (x, y), and where there are bars (x, low, high) its points. Its name is in the key."""

    name: str
    colour: str
    points: Sequence[tuple[float, float]]
    bars: Sequence[tuple[float, float, float]] = ()
    dash: str = "-"


def panels(
    title: str,
    titled: Sequence[tuple[str, Sequence[Curve]]],
    frame: Callable[[Axes], None],
    limits: Sequence[tuple[float, str]],
) -> Plotted:
    """Panels side by side, above them the key of their curves. frame: sets the scales of a panel. limits: as drawn."""

    def draw(every: Sequence[Axes]) -> None:
        for axes, (name, curves) in zip(every, titled, strict=True):
            axes.set_title(name, loc="left", fontweight="bold", pad=16)
            for one in curves:
                line = f"{one.dash}o" if one.bars else one.dash
                axes.plot(*zip(*one.points, strict=True), line, color=one.colour, markersize=4)
                for x, low, high in one.bars:
                    axes.vlines(x, low, high, one.colour, linewidth=1)
            frame(axes)
            _limits(axes, limits)
        keys = {
            one.name: Line2D([], [], color=one.colour, ls=one.dash, label=one.name)
            for _, some in titled
            for one in some
        }
        every[0].figure.legend(handles=list(keys.values()), loc="outside lower left", ncols=4, frameon=False)

    return _chart(title, 4.6, len(titled), draw)


def tails(title: str, label: str, groups: Iterable[tuple[str, Sequence[Row]]], limits_us: Sequence[int]) -> Drawn:
    """The share of packets at or above a value, all repetitions together: a panel a group, a curve a row."""
    listed = tuple(groups)

    def draw(figures: Figures) -> Plotted | None:
        titled = []
        for name, rows in listed:
            values = {row: list(values_of(figures, row.of).values()) for row in rows}
            found = {row: ccdf(np.concatenate(some)) for row, some in values.items() if some}
            curves = [
                Curve(row.name, row.colour, list(zip(tail.value_ns / US, tail.share, strict=True)))
                for row, tail in found.items()
            ]
            titled.append((name, curves))
        limits = [(us, str(us)) for us in limits_us]
        return panels(title, titled, frame, limits) if all(curves for _, curves in titled) else None

    def frame(axes: Axes) -> None:
        of_us(axes, "x", label)
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(FuncFormatter(lambda share, _: "1" if share == 1 else f"1/{1 / share:,.0f}"))
        axes.set_ylabel("share of packets at or above, all repetitions together")
        axes.label_outer()

    return draw


# Stages of interrupts

STAGE_COLOURS: Final = (*COLOURS, LOST_COLOUR, "#767676", "#B0B0B0", "#7FB800")
Bars = Sequence[tuple[str, Mapping[str, float]]]
"""(name, {stage: ns})."""


def stages(title: str, columns: Callable[[Figures], Sequence[tuple[str, Bars]]]) -> Drawn:
    """Bars of stages, one after the other, from the due time on, in columns that have a scale each."""

    def draw(figures: Figures) -> Plotted | None:
        found = columns(figures)
        names = list(dict.fromkeys(stage for _, bars in found for _, bar in bars for stage in bar))
        colours = dict(zip(names, STAGE_COLOURS, strict=False))

        def plot(every: Sequence[Axes]) -> None:
            for axes, (name, bars) in zip(every, found, strict=True):
                axes.set_title(name, loc="left", fontweight="bold")
                axes.set_xlabel("after the due time [µs]")
                axes.grid(visible=False, axis="y")
                for at, (_, bar) in enumerate(bars):
                    begins = np.cumsum([0.0, *bar.values()]) / US
                    for begin, (stage, ns) in zip(begins, bar.items(), strict=False):
                        # One that goes back is a thin strip on those that follow it.
                        high, order = (0.7, 2) if ns >= 0 else (0.2, 3)
                        axes.barh(at, ns / US, high, begin, color=colours[stage], zorder=order)
                    axes.annotate(f" {number(begins[-1], 1)}", (begins[-1], at), va="center", fontsize=8, color=QUIET)
                axes.margins(x=0.12)
            every[0].set_yticks(range(len(found[0][1])), [name for name, _ in found[0][1]])
            every[0].invert_yaxis()
            keys = [Patch(color=colour, label=name) for name, colour in colours.items()]
            every[0].figure.legend(handles=keys, loc="outside lower left", ncols=5, frameon=False)

        return _chart(title, 2.9, len(found), plot) if names else None

    return draw
