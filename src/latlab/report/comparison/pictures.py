"""How the cells of one run differ, as a picture: what the page draws of it, in a file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, cast

import matplotlib as mpl
from matplotlib.figure import Figure

from latlab.report.comparison.forest import ALONE, SHOWN, Panel, Row
from latlab.report.comparison.page import ComparedMetric, Group
from latlab.report.palette import COLOURS
from latlab.report.sheet import EDGE, GRID, HEAD_IN, SIDE_IN, TITLE_PT, WIDTH_IN, Sheet, wrapped
from latlab.report.style import QUIET, STYLE, save_all

_COLUMNS: Final = 2
_BETWEEN_IN: Final = 0.4
_PANEL_IN: Final = (WIDTH_IN - 2 * SIDE_IN - _BETWEEN_IN) / _COLUMNS
_NAME_IN: Final = 1.7
_TEXT_IN: Final = 1.15
_LINE_IN: Final = 0.17
_GROUP_IN: Final = 0.3
_HEADING_IN: Final = 0.25
_AXIS_IN: Final = 0.5
_SMALL_PT: Final = 7.6
_COLOUR: Final = COLOURS[0]
_KEY: Final = (
    "Difference in µs between deployments. Filled: shown. Thick: 95 % interval of one comparison; thin: as wide as the "
    "number of comparisons requires. Dashed: from the packets of single deployments. Triangle: the line continues."
)


def write_comparison_pictures(
    shown: ComparedMetric, folder: Path, *, caption: str, formats: Sequence[str] = ("png",)
) -> list[Path]:
    """The files written for one metric: STREAM-METRIC-comparison.png for each stream. formats: of png, svg, pdf."""
    written = []
    with mpl.rc_context(cast(Any, STYLE)):
        for stream in dict.fromkeys(group.stream for group in shown.groups):
            figure = comparison_figure(shown, stream, caption)
            written += save_all(figure, folder, f"{stream}-{shown.metric}-comparison", formats)
    return written


def comparison_figure(shown: ComparedMetric, stream: str, caption: str) -> Figure:
    """A figure with the panels of each of the stream's groups, two side by side; below them the notes."""
    groups = [group for group in shown.groups if group.stream == stream and group.panels]
    room_in = WIDTH_IN - 2 * SIDE_IN
    head = [line for text in (f"{shown.summary}.", _KEY) for line in wrapped(text, room_in)]
    notes = [line for text in shown.notes for line in wrapped(f"{text[:1].upper()}{text[1:]}.", room_in)]
    head_in = HEAD_IN - 0.15 + _LINE_IN * len(head)
    height = (
        head_in + sum(_GROUP_IN + sum(map(_row_in, _rows(group))) for group in groups) + _LINE_IN * len(notes) + 0.15
    )
    sheet = Sheet(height, title=f"{stream}: how {shown.metric} differs", caption=caption)
    for number, line in enumerate(head):
        sheet.text(SIDE_IN, HEAD_IN - 0.17 + number * _LINE_IN, line, colour=QUIET, va="top")
    top = head_in
    for group in groups:
        sheet.text(SIDE_IN, top + 0.1, group.title, size=TITLE_PT, weight="bold", va="top")
        top += _GROUP_IN
        for row in _rows(group):
            for column, panel in enumerate(row):
                _panel(sheet, panel, SIDE_IN + column * (_PANEL_IN + _BETWEEN_IN), top)
            top += _row_in(row)
    for number, line in enumerate(notes):
        sheet.text(SIDE_IN, top + number * _LINE_IN, line, colour=QUIET, va="top")
    return sheet.figure


def _rows(group: Group) -> Iterator[Sequence[Panel]]:
    return (group.panels[at : at + _COLUMNS] for at in range(0, len(group.panels), _COLUMNS))


def _row_in(panels: Sequence[Panel]) -> float:
    return _HEADING_IN + _AXIS_IN + max(sum(map(_height_in, panel.rows)) for panel in panels)


def _names(row: Row) -> list[str]:
    return wrapped(" ".join(filter(None, (row.name, row.where))), _NAME_IN, _SMALL_PT)


def _height_in(row: Row) -> float:
    return _LINE_IN * len(_names(row)) + 0.05


def _panel(sheet: Sheet, panel: Panel, left: float, top: float) -> None:
    from_, width = left + _NAME_IN + 0.1, _PANEL_IN - _NAME_IN - _TEXT_IN - 0.2
    sheet.text(left, top, f"{panel.heading}, difference in µs", va="top")
    y = top + _HEADING_IN

    def at(place: float) -> float:
        return from_ + width * place / 100

    bottom = y + sum(map(_height_in, panel.rows))
    sheet.lines([[(at(50), y - 0.03), (at(50), bottom)]], EDGE, 0.8, zorder=0.6)
    sheet.lines([[(at(place), y - 0.03), (at(place), bottom)] for place, _ in panel.ticks], GRID, 0.6, zorder=0.5)
    middles = []
    for row in panel.rows:
        for number, line in enumerate(_names(row)):
            sheet.text(left, y + number * _LINE_IN, line, size=_SMALL_PT, va="top")
        weight = "bold" if row.kind == SHOWN else "normal"
        sheet.text(left + _PANEL_IN, y, row.text, size=_SMALL_PT, weight=weight, ha="right", va="top")
        middles.append((row, y + 0.07))
        y += _height_in(row)
    for kind in dict.fromkeys(row.kind for row in panel.rows):
        _intervals(sheet, kind, [(row, middle) for row, middle in middles if row.kind == kind], at)
    for place, text in panel.ticks:
        sheet.text(at(place), bottom + 0.04, text, size=_SMALL_PT, colour=QUIET, ha="center", va="top")
    sheet.text(
        at(50), bottom + 0.2, f"{panel.less} ← → {panel.more}", size=_SMALL_PT, colour=QUIET, ha="center", va="top"
    )


def _intervals(sheet: Sheet, kind: str, rows: Sequence[tuple[Row, float]], at: Callable[[float], float]) -> None:
    """Draw the intervals and points of the rows (row, height) of one kind together: each call takes its time."""
    colour = _COLOUR if kind == SHOWN else QUIET
    sheet.lines([[(at(row.least), y), (at(row.most), y)] for row, y in rows], colour, 0.9, gid="wider")
    dashes: Any = [(0, (2, 1.2))] if kind == ALONE else "solid"
    lines = [[(at(row.low), y), (at(row.high), y)] for row, y in rows]
    sheet.lines(lines, colour, 1.6 if kind == ALONE else 3.0, linestyles=dashes, gid="interval")
    sheet.marks([(at(0), y) for row, y in rows if row.cut_low], "<", 4, colour, gid="beyond")
    sheet.marks([(at(100), y) for row, y in rows if row.cut_high], ">", 4, colour, gid="beyond")
    points = [(at(row.point), y) for row, y in rows]
    inside = colour if kind == SHOWN else "white"
    sheet.marks(points, "o", 5, colour, markerfacecolor=inside, markeredgewidth=1.2, zorder=3, gid=kind)
