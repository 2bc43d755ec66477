"""Anomalies and windows in a picture: few letters, hatching where clean windows cut, and what they mean."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from latlab.analysis.anomalies.classes import BY_NAME
from latlab.report.marks import CHOSEN_LABEL, CIRCLE, CUT_LABEL, DIAMOND, GLYPHS, HEXAGON, SQUARE, Mark, Marks
from latlab.report.style import INK, QUIET, text_in
from latlab.report.view import View

MOST: Final = 12
"""Marks in one panel: with more nobody tells them apart."""
ROWS: Final = (0.87, 0.70)
"""Where letters stand, as shares of a panel's height: the second row is for those that would cover one of the first."""
APART: Final = 0.022
"""Of the panel's width, between two letters of a row."""
LINE_IN: Final = 0.17
_TEXT_PT: Final = 8.2
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
    apart = APART * (span_ns[1] - span_ns[0]) / 1e9
    for one in (mark for rank in zip_longest(*of_class) for mark in rank if mark):
        at = max(one.from_ns, span_ns[0]) / 1e9
        free = (
            row for row in range(len(ROWS)) if all(abs(at - other.at) >= apart for other in found if other.row == row)
        )
        row = next(free, None)
        if row is not None:
            found.append(Placed(one, at, row))
        if len(found) == MOST:
            break
    return found


def draw(axes: Axes, marks: Marks, found: Iterable[Placed]) -> None:
    """Hatch what is cut, draw a bar below what was chosen, and write each mark's letter."""
    for cut in marks.cuts:
        span = axes.axvspan(cut.from_ns / 1e9, cut.to_ns / 1e9, fill=False, hatch="////", linewidth=0, zorder=0.4)
        span.set_edgecolor(_HATCH)
        span.set_gid("cut")
    across = axes.get_xaxis_transform()
    for window in marks.chosen:
        ends = (window.from_ns / 1e9, window.to_ns / 1e9)
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
        if lines and text_in(longer, _TEXT_PT) <= width_in:
            lines[-1] = longer
        else:
            lines.append(part)
    return lines


def draw_key(figure: Figure, lines: Sequence[str], left: float, top_in: float, height_in: float) -> None:
    """Write the lines into the figure, from top_in below its upper edge on."""
    for number, line in enumerate(lines):
        figure.text(left, 1 - (top_in + number * LINE_IN) / height_in, line, fontsize=_TEXT_PT, color=QUIET, va="top")
