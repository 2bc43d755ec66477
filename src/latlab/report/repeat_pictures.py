"""How far repetitions of a cell differ, as a picture: what the page draws of it, in a file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, cast

import matplotlib as mpl
from matplotlib.figure import Figure

from latlab.report import rows
from latlab.report.palette import COLOURS
from latlab.report.places import dimension_keys, short_headings
from latlab.report.repeats import Spread, Strip, drawn, spreads
from latlab.report.sheet import EDGE, GRID, HEAD_IN, SIDE_IN, TITLE_PT, WIDTH_IN, Sheet
from latlab.report.style import INK, QUIET, STYLE, save_all, text_in
from latlab.report.tail_view import value_ticks
from latlab.report.view import View
from latlab.result.types import Result

_NAME_IN: Final = 0.24
_STRIP_IN: Final = 0.15
_GAP_IN: Final = 0.14
_AXIS_IN: Final = 0.55
_REPEAT_IN: Final = 0.7
_SMALL_PT: Final = 7.6
_KEY: Final = (
    "Each repetition builds a new test bed. Bar: the middle 90 % of its packets, with the median; tick: its maximum."
)


def write_repeats_picture(
    result: Result, shown: View, folder: Path, *, caption: str, formats: Sequence[str] = ("png",)
) -> list[Path]:
    """The files written for one metric of one stream: STREAM-METRIC-repeats.png; none where no cell was repeated.

    formats: of png, svg, pdf.
    """
    found = repeated(result, shown)
    if not found:
        return []
    with mpl.rc_context(cast(Any, STYLE)):
        return save_all(
            repeats_figure(shown, found, caption), folder, f"{shown.stream}-{shown.metric}-repeats", formats
        )


def repeated(result: Result, shown: View) -> tuple[Spread, ...]:
    """The configurations of this stream that have figures of several repetitions."""
    found = rows.stream_rows(result, shown.stream, shown.metric)
    headings = (*short_headings(dimension_keys(result)), "repeat")
    table = rows.Summary(shown.metric, "", headings, found, shows_stream=False, shows_repeat=True)
    return spreads(table)


def repeats_figure(shown: View, found: Sequence[Spread], caption: str) -> Figure:
    """A figure with a strip for each repetition, those of a configuration below each other, all on the view's axis."""
    strips = drawn(shown)
    counted = [len(strips.of.get(one.slug, ())) for one in found]
    room_in = WIDTH_IN - 2 * SIDE_IN - 0.2
    beside = all(text_in(one.name, TITLE_PT, "bold") + text_in(_told(one), _SMALL_PT) < room_in for one in found)
    name_in = _NAME_IN if beside else 2 * _NAME_IN - 0.06
    rows_in = sum(name_in + _STRIP_IN * count + _GAP_IN for count in counted)
    top_in = HEAD_IN + 0.15
    sheet = Sheet(top_in + rows_in + _AXIS_IN, title=f"{shown.stream}: repetitions of {shown.metric}", caption=caption)
    sheet.text(SIDE_IN, HEAD_IN - 0.17, _KEY, colour=QUIET, va="top")
    left, width = SIDE_IN + _REPEAT_IN, WIDTH_IN - 2 * SIDE_IN - _REPEAT_IN - 0.1
    bottom = top_in + rows_in
    ticks = value_ticks(shown.axis)
    sheet.lines([[(left + at * width, top_in), (left + at * width, bottom)] for at, _ in ticks], GRID, 0.6, zorder=0.5)
    sheet.lines([[(left, bottom), (left + width, bottom)]], EDGE)
    for at, text in ticks:
        sheet.text(left + at * width, bottom + 0.06, text, size=_SMALL_PT, colour=QUIET, ha="center", va="top")
    kind = {"log": "µs, log", "linear": "µs"}.get(shown.axis.kind, f"µs, {shown.axis.told()}")
    sheet.text(left + width / 2, bottom + 0.24, f"{shown.label} [{kind}]", ha="center", va="top")
    top = top_in
    for one, count in zip(found, counted, strict=True):
        sheet.text(SIDE_IN, top, one.name, size=TITLE_PT, weight="bold", va="top")
        told_at = top if beside else top + _NAME_IN - 0.06
        sheet.text(WIDTH_IN - SIDE_IN, told_at, _told(one), size=_SMALL_PT, colour=QUIET, ha="right", va="top")
        for number, strip in enumerate(strips.of.get(one.slug, ())):
            _strip(sheet, strip, top + name_in + (number + 0.5) * _STRIP_IN, (left, width))
        top += name_in + _STRIP_IN * count + _GAP_IN
    return sheet.figure


def _told(one: Spread) -> str:
    """Figures of all repetitions, of the same separator as the page's: there is none to see in a space."""
    return f"p50 {one.text('p50')} · max {one.text('max')} · stddev within {one.within}, between {one.between} · µs"


def _strip(sheet: Sheet, strip: Strip, y: float, across: tuple[float, float]) -> None:
    left, width = across
    low, middle, high, largest = (
        left + width * place / 100 for place in (strip.low, strip.middle, strip.high, strip.largest)
    )
    colour = COLOURS[strip.look.colour]
    sheet.text(left - 0.08, y, f"repeat {strip.repeat}", size=_SMALL_PT, colour=QUIET, ha="right")
    sheet.box(low, y - 0.04, high - low, 0.08, facecolor=colour, alpha=0.45, linewidth=0, gid="range")
    sheet.lines([[(middle, y - 0.055), (middle, y + 0.055)]], INK, 1.4, gid="middle")
    sheet.lines([[(largest, y - 0.04), (largest, y + 0.04)]], colour, 1.6, gid="largest")
