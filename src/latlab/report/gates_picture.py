"""Gate schedules as a picture: a lane for each traffic class, its windows, and where in them packets leave."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle
from matplotlib.ticker import FuncFormatter, MaxNLocator

from latlab.analysis.gate_port import GateLoad, Port
from latlab.analysis.gates import Int64, Openings
from latlab.analysis.promise import Flow, Promise, accepted_launches, lattice_of, openings_of, survive
from latlab.errors import UsageError
from latlab.report.gates import Promised, Scheduled, departs, short
from latlab.report.palette import COLOURS, LOST_COLOUR
from latlab.report.style import INK, METADATA, QUIET, STYLE, legend_below, save, save_all, text_in
from latlab.report.text import exact, plain
from latlab.scenario import format_rate

_WIDTH_IN = 10.0
_ROW_IN = 0.36  # a stream's, a load's, or a class's that has neither
_LANE_GAP_IN = 0.08
_HEAD_IN = 0.50  # the picture's title
_PORT_IN = 0.62  # a port's title, and the instants at which gates move
_AXIS_IN = 0.62
_LEGEND_IN = 0.36
_LEGEND_LINE_IN = 0.19
_LEGEND_COLUMNS = 5
_SIDE_IN = 0.12
_TEXT_PT = 8.5
_TITLE_PT = 10.0
_TICK_PT = 7.5
_LAUNCHES_MAX = 16
"""More phases than these are no arrows any more: their departures fill intervals."""
_TICKS_MAX = 400
_WINDOW_ALPHA = 0.30
_MANY_ALPHA = 0.45
_UNITS = ((10**10, 10**9, "s"), (10**7, 10**6, "ms"), (10**4, 10**3, "µs"), (0, 1, "ns"))
"""From cycles of that many ns on: ns in a unit, and its name."""


@dataclass(frozen=True)
class _Row:
    """One line of a port's panel. below_in: from the panel's upper edge to the row's."""

    traffic_class: int
    below_in: float
    first: bool
    who: Flow | GateLoad | None


def write_gates_picture(name: str, found: Scheduled, path: Path) -> None:
    """Draw the schedules into the file. name: of the scenario. found: the cells' slugs, and their ports.

    UsageError: the file's ending is none of those that can be drawn.
    """
    kind = path.suffix.lower().removeprefix(".")
    if kind not in METADATA:
        raise UsageError(
            f"{path.name} does not say what to draw", where="--picture", remedy="end it in .png, .svg or .pdf"
        )
    with mpl.rc_context(cast(Any, STYLE)):
        save(gates_figure(name, found), path, kind)


def write_schedules(found: Scheduled, folder: Path, *, caption: str, formats: Sequence[str]) -> list[Path]:
    """The files written: gates.KIND in the folder. formats: png, svg, pdf."""
    with mpl.rc_context(cast(Any, STYLE)):
        return save_all(gates_figure(caption, found), folder, "gates", formats)


def gates_figure(name: str, found: Scheduled) -> Figure:
    """A figure with a panel for each port of each group of cells, below each other."""
    panels = [(cells, one) for cells, ports in found for one in ports]
    several = len([cells for cells, ports in found if ports]) > 1
    heights = [_PORT_IN + _panel_in(one.port) + _AXIS_IN + (0.2 if several else 0) for _, one in panels]
    legend = _legend([one for _, one in panels])
    lines = -(-len(legend) // _LEGEND_COLUMNS)
    height = _HEAD_IN + sum(heights) + _LEGEND_IN + (lines - 1) * _LEGEND_LINE_IN
    figure = Figure(figsize=(_WIDTH_IN, height))
    figure.text(
        _SIDE_IN / _WIDTH_IN, 1 - 0.14 / height, f"{name}: gates", fontsize=13, fontweight="bold", color=INK, va="top"
    )
    names_in = max(_names_in(one.port) for _, one in panels)
    left_in = _SIDE_IN + 0.1 + text_in("class 15", _TEXT_PT, "bold") + (names_in + 0.14 if names_in else 0)
    right_in = (
        _SIDE_IN
        + 0.1
        + max(text_in(line, _TEXT_PT) for _, one in panels for text in _notes(one) for line in text.splitlines())
    )
    below_in = _HEAD_IN
    for (cells, one), panel_in in zip(panels, heights, strict=True):
        title = _title(one.port)
        figure.text(_SIDE_IN / _WIDTH_IN, 1 - below_in / height, title, fontsize=_TITLE_PT, color=INK, va="top")
        if several:
            below_in += 0.2
            said = _fitting(f"in {', '.join(cells)}", _WIDTH_IN - 2 * _SIDE_IN)
            figure.text(_SIDE_IN / _WIDTH_IN, 1 - below_in / height, said, fontsize=_TEXT_PT, color=QUIET, va="top")
            panel_in -= 0.2
        inner_in = panel_in - _PORT_IN - _AXIS_IN
        axes = figure.add_axes(
            (
                left_in / _WIDTH_IN,
                1 - (below_in + _PORT_IN + inner_in) / height,
                1 - (left_in + right_in) / _WIDTH_IN,
                inner_in / height,
            )
        )
        _panel(axes, one, _WIDTH_IN - left_in - right_in, names_in)
        below_in += panel_in
    legend_below(figure, legend, _LEGEND_COLUMNS, _SIDE_IN, _TEXT_PT)
    return figure


def _rows(port: Port) -> list[_Row]:
    rows, below = [], 0.0
    for traffic_class in port.classes:
        inside: list[Flow | GateLoad | None] = [one for one in port.flows if one.traffic_class == traffic_class]
        inside += [one for one in port.loads if one.traffic_class == traffic_class]
        for number, who in enumerate(inside or [None]):
            rows.append(_Row(traffic_class, below, number == 0, who))
            below += _ROW_IN
        below += _LANE_GAP_IN
    return rows


def _panel_in(port: Port) -> float:
    return _rows(port)[-1].below_in + _ROW_IN


def _names_in(port: Port) -> float:
    """How wide the longest name next to the lanes is."""
    names = [_row_name(row.who) for row in _rows(port) if row.who]
    return max((text_in(name, _TEXT_PT) for name in names), default=0.0)


def _row_name(who: Flow | GateLoad) -> str:
    return who.name if isinstance(who, Flow) else who.title


def _notes(one: Promised) -> Iterator[str]:
    """What is said at the right of each stream's and load's row."""
    yield "departs"
    for promised in one.promises:
        yield _note(promised)
    for load in one.port.loads:
        yield _load_note(one.port, load)


def _note(promised: Promise) -> str:
    if not promised.departs:
        return "no packet departs"
    dropped = f", {promised.dropped} of {promised.phases} dropped" if promised.dropped else ""
    when = "at launch" if promised.earliest_ns == promised.latest_ns == 0 else f"{departs(promised)} after"
    return f"departs {when}{dropped}\nframe {short(promised.frame_ns)}, phases: {promised.phases}"


def _load_note(port: Port, load: GateLoad) -> str:
    return f"frames up to {load.frame.size} B,\n{short(load.frame.serialisation_ns(port.speed_bps))} each"


def _title(port: Port) -> str:
    shift = f" shifted by {exact(port.schedule.shift_ns)} µs" if port.schedule.shift_ns else ""
    cycle = f"cycle {exact(port.schedule.cycle_ns)} µs{shift}"
    return f"{port.interface}: taprio {port.mode}, {cycle}, {format_rate(port.speed_bps)}"


def _panel(axes: Axes, one: Promised, width_in: float, names_in: float) -> None:
    port, cycle_ns = one.port, one.port.schedule.cycle_ns
    unit_ns, unit = next((scale, name) for least, scale, name in _UNITS if cycle_ns >= least)
    rows = _rows(port)
    promises = {promised.stream: promised for promised in one.promises}
    axes.set_xlim(0, cycle_ns)
    axes.set_ylim(rows[-1].below_in + _ROW_IN, 0)
    axes.grid(False)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    axes.xaxis.set_major_locator(MaxNLocator(10, steps=[1, 2, 2.5, 5, 10]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda at, _: plain(at / unit_ns)))
    axes.set_xlabel(f"time in the cycle [{unit}]", labelpad=2)
    _instants(axes, port, width_in, unit_ns)
    for traffic_class in port.classes:
        lane = [row for row in rows if row.traffic_class == traffic_class]
        _lane(axes, port, traffic_class, lane[0].below_in, len(lane) * _ROW_IN)
    for row in rows:
        middle = row.below_in + _ROW_IN / 2
        if row.first:
            at = -(0.1 + names_in + (0.14 if names_in else 0)) / width_in
            _say(axes, at, middle, f"class {row.traffic_class}", ha="right", weight="bold", colour=INK)
        match row.who:
            case Flow():
                _say(axes, -0.1 / width_in, middle, row.who.name, ha="right", colour=INK)
                _say(axes, 1 + 0.1 / width_in, middle, _note(promises[row.who.name]), ha="left", colour=QUIET)
                _stream(axes, port, row.who, promises[row.who.name], middle, width_in)
            case GateLoad():
                _say(axes, -0.1 / width_in, middle, _row_name(row.who), ha="right", colour=QUIET)
                _say(axes, 1 + 0.1 / width_in, middle, _load_note(port, row.who), ha="left", colour=QUIET)
                _load(axes, port, row.who, middle)


def _instants(axes: Axes, port: Port, width_in: float, unit_ns: int) -> None:
    """Where gates move: a line through all lanes, and when that is, as far as there is room above."""
    free_in = 0.0
    for at in (*port.schedule.starts_ns, port.schedule.cycle_ns):
        axes.axvline(at, color="#b0b0b0", linewidth=0.6, zorder=0.5)
        text = plain(at / unit_ns)
        place_in, half_in = at / port.schedule.cycle_ns * width_in, text_in(text, _TICK_PT) / 2
        if place_in - half_in >= free_in or at == 0:
            axes.annotate(
                text,
                (at, 1),
                xycoords=("data", "axes fraction"),
                xytext=(0, 3),
                textcoords="offset points",
                ha="center",
                va="bottom",
                fontsize=_TICK_PT,
                color=QUIET,
            )
            free_in = place_in + half_in + 0.06


def _lane(axes: Axes, port: Port, traffic_class: int, top: float, height: float) -> None:
    cycle_ns = port.schedule.cycle_ns
    axes.add_patch(Rectangle((0, top), cycle_ns, height, facecolor="#f2f2f2", edgecolor="none", zorder=0.1))
    colour = COLOURS[traffic_class % len(COLOURS)]
    guard_ns = max(
        (one.frame.guard_ns(port.speed_bps) for one in port.flows if one.traffic_class == traffic_class), default=0
    )
    early_ns = max((one.handover.early_ns for one in port.flows if one.traffic_class == traffic_class), default=0)
    for window in port.schedule.windows(traffic_class):
        length_ns = cycle_ns if window.length_ns is None else window.length_ns
        for start, end in _wrapped(window.start_ns, length_ns, cycle_ns):
            axes.add_patch(
                Rectangle((start, top), end - start, height, facecolor=colour, alpha=_WINDOW_ALPHA, edgecolor="none")
            )
        for start, end in _wrapped(window.start_ns - early_ns, length_ns, cycle_ns) if early_ns else ():
            axes.add_patch(
                Rectangle((start, top), end - start, height, fill=False, edgecolor=colour, ls=(0, (4, 2)), lw=1.1)
            )
        if guard_ns and window.length_ns is not None:
            shown_ns = min(guard_ns, length_ns)
            for start, end in _wrapped(window.start_ns + length_ns - shown_ns, shown_ns, cycle_ns):
                axes.add_patch(
                    Rectangle((start, top), end - start, height, fill=False, hatch="//////", edgecolor=colour, lw=0)
                )


def _stream(axes: Axes, port: Port, flow: Flow, promised: Promise, middle: float, width_in: float) -> None:
    cycle_ns = port.schedule.cycle_ns
    lattice = lattice_of(port.schedule, flow)
    launches = list(lattice.phases(cycle_ns)) if promised.phases <= _TICKS_MAX else []
    few = promised.phases <= _LAUNCHES_MAX
    up, down = middle - 0.09, middle + 0.07
    if few:
        axes.plot(
            launches, [up] * len(launches), "v", ms=6.5, mfc="white", mec=INK, mew=1.1, clip_on=False, zorder=5, ls=""
        )
    elif launches:
        axes.plot(launches, [up] * len(launches), "|", ms=4, color=QUIET, mew=0.5, zorder=4, ls="")
    else:
        axes.plot([0, cycle_ns], [up, up], color=QUIET, linewidth=2.2, alpha=_MANY_ALPHA, zorder=4)
    _, openings = openings_of(port.schedule, port.mode, flow, port.speed_bps)
    accepted = accepted_launches(port.schedule, flow, port.speed_bps)
    if not few:
        if not promised.departs:
            axes.plot([0, cycle_ns], [down, down], color=LOST_COLOUR, linewidth=1.2, zorder=4)
            return
        for start, last in _stretches(openings, accepted, flow, cycle_ns):
            for at, until in _wrapped(start, last - start + promised.frame_ns, cycle_ns):
                axes.add_patch(Rectangle((at, down - 0.055), until - at, 0.11, facecolor=INK, alpha=_MANY_ALPHA, lw=0))
        return
    kept = survive(accepted, np.array(launches, dtype=np.int64)) & promised.departs
    for launch, survives in zip(launches, kept.tolist(), strict=True):
        if not survives:
            axes.plot([launch], [down], "x", ms=5, mew=1.4, color=LOST_COLOUR, zorder=5, clip_on=False)
            continue
        leaves = launch + _departure_ns(openings, flow, launch)
        for start, end in _wrapped(min(launch, leaves), abs(leaves - launch), cycle_ns):
            axes.plot([start, end], [down, down], color=INK, linewidth=0.9, linestyle=(0, (2, 1.5)), zorder=3)
        axes.plot([launch, launch], [up, down], color=INK, linewidth=0.7, zorder=3)
        _frame(axes, leaves, promised.frame_ns, cycle_ns, down)


def _departure_ns(openings: Openings, flow: Flow, launch_ns: int) -> int:
    """From launch to departure, as promised at the latest."""
    handover = flow.handover
    ready = launch_ns + handover.ready_ns
    return (int(openings.departs(ready)) if handover.gated else ready) - handover.early_ns - launch_ns


def _stretches(
    openings: Openings, accepted: tuple[Int64, Int64] | None, flow: Flow, cycle_ns: int
) -> Iterator[tuple[int, int]]:
    """From when to when packets of any phase depart; of launch times, those that are taken."""
    if accepted is not None:
        ahead_ns = flow.handover.early_ns - flow.handover.ready_ns
        for first, last in zip(*(ends.tolist() for ends in accepted), strict=True):
            if first <= last:
                yield first - ahead_ns, last - ahead_ns
        return
    if openings.always or not flow.handover.gated:
        yield 0, cycle_ns - 1
        return
    for start, last in zip(openings.start_ns.tolist(), openings.last_ns.tolist(), strict=True):
        yield start - flow.handover.early_ns, last - flow.handover.early_ns


def _frame(axes: Axes, at_ns: int, length_ns: int, cycle_ns: int, middle: float) -> None:
    """A frame on the wire, to scale; a line where it is too short to be seen."""
    for start, end in _wrapped(at_ns, length_ns, cycle_ns):
        axes.add_patch(
            Rectangle(
                (start, middle - 0.055),
                end - start,
                0.11,
                facecolor=INK,
                edgecolor=INK,
                lw=1.6,
                zorder=4,
                clip_on=False,
            )
        )


def _load(axes: Axes, port: Port, load: GateLoad, middle: float) -> None:
    """Its frames, to scale, at the start of each of its windows."""
    frame_ns = load.frame.serialisation_ns(port.speed_bps)
    for window in port.schedule.windows(load.traffic_class):
        for start, end in _wrapped(window.start_ns, frame_ns, port.schedule.cycle_ns):
            axes.add_patch(
                Rectangle(
                    (start, middle - 0.055), end - start, 0.11, facecolor=QUIET, edgecolor=QUIET, lw=1.0, zorder=4
                )
            )


def _wrapped(start_ns: int, length_ns: int, cycle_ns: int) -> Iterator[tuple[int, int]]:
    """The parts of an interval of time in the cycle: one, or two where it goes on over the cycle's end."""
    start = start_ns % cycle_ns
    length = min(length_ns, cycle_ns)
    yield start, min(start + length, cycle_ns)
    if start + length > cycle_ns:
        yield 0, start + length - cycle_ns


def _say(axes: Axes, x: float, y: float, text: str, *, ha: Any, colour: str, weight: str = "normal") -> None:
    axes.text(
        x,
        y,
        text,
        transform=axes.get_yaxis_transform(),
        ha=ha,
        va="center",
        fontsize=_TEXT_PT,
        color=colour,
        weight=weight,
        linespacing=1.05,
        clip_on=False,
    )


def _legend(shown: Sequence[Promised]) -> list[Any]:
    """What the picture has to explain."""
    grey = "#8a8a8a"
    handles: list[Any] = [Patch(facecolor=grey, alpha=_WINDOW_ALPHA, label="gate open")]
    promises = [promised for one in shown for promised in one.promises]
    if any(promised.phases <= _LAUNCHES_MAX for promised in promises):
        handles.append(Line2D([], [], ls="", marker="v", ms=6.5, mfc="white", mec=INK, mew=1.1, label="launch"))
        handles.append(Line2D([], [], color=INK, lw=0.9, ls=(0, (2, 1.5)), label="until it departs"))
        handles.append(Patch(facecolor=INK, label="frame on the wire"))
    if any(promised.phases > _LAUNCHES_MAX for promised in promises):
        handles.append(Patch(facecolor=INK, alpha=_MANY_ALPHA, label="frames, many phases"))
    if any(promised.dropped or not promised.departs for promised in promises):
        handles.append(Line2D([], [], ls="", marker="x", ms=5, mew=1.4, color=LOST_COLOUR, label="never departs"))
    if promises:
        handles.append(Patch(fill=False, hatch="//////", edgecolor=grey, lw=0, label="guard"))
    if any(flow.handover.early_ns for one in shown for flow in one.port.flows):
        handles.append(Patch(fill=False, edgecolor=grey, ls=(0, (4, 2)), lw=1.1, label="windows as they appear"))
    if any(one.port.loads for one in shown):
        handles.append(Patch(facecolor=QUIET, label="frame of a load"))
    return handles


def _fitting(text: str, room_in: float) -> str:
    """The text, cut short where there is no room for it."""
    if text_in(text, _TEXT_PT) <= room_in:
        return text
    while text and text_in(f"{text}…", _TEXT_PT) > room_in:
        text = text[: int(len(text) * 0.95)]
    return f"{text}…"
