"""How far repetitions of a cell differ, and all of them as one sample: what the page has in its tables, as pictures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

from latlab.report import rows
from latlab.report.charts import sheet as on
from latlab.report.charts.sheet import ANY_COLOUR, COLOURS, Drawing, Sheet, text_in
from latlab.report.charts.tail import value_ticks
from latlab.report.repeats import (
    BINS,
    HEIGHT,
    TOGETHER_HEADINGS,
    RepeatSpread,
    Strip,
    Together,
    drawn,
    spreads,
    together,
)
from latlab.report.view import View
from latlab.result.places import dimension_keys, short_headings
from latlab.result.types import Result

_STRIP_IN: Final = 0.15
_HISTOGRAM_IN: Final = 0.5
_REPEAT_IN: Final = 0.7
_STRIPS_KEY: Final = (
    "Each repetition builds a new test bed. Bar: the middle 90 % of its packets, with the median; tick: its maximum."
)
_TOGETHER_KEY: Final = (
    "All repetitions as one sample, counts on a log scale; percentiles exact to 0.8 %. It does not show how much "
    "deployments differ."
)


def repeated(result: Result, shown: View) -> tuple[RepeatSpread, ...]:
    """The configurations of this stream that have figures of several repetitions."""
    found = rows.stream_rows(result, shown.stream, shown.metric)
    headings = (*short_headings(dimension_keys(result)), "repeat")
    table = rows.Summary(shown.metric, "", headings, found, shows_stream=False, shows_repeat=True)
    return spreads(table)


def repeats_chart(result: Result, shown: View) -> Drawing | None:
    """A strip for each repetition, those of a configuration below each other; None where no cell was repeated."""
    found = repeated(result, shown)
    stem, title = f"{shown.stream}-{shown.metric}-repeats", f"{shown.stream}: repetitions of {shown.metric}"
    return Drawing(stem, title, partial(_repeats, shown, found), (_STRIPS_KEY,)) if found else None


def together_chart(result: Result, shown: View) -> Drawing | None:
    """A histogram for each configuration, below each other; None where no cell was repeated."""
    found = together(repeated(result, shown), drawn(shown))
    stem = f"{shown.stream}-{shown.metric}-together"
    title = f"{shown.stream}: all repetitions of {shown.metric} together"
    return Drawing(stem, title, partial(_together, shown, found), (_TOGETHER_KEY,)) if found else None


def _repeats(shown: View, found: Sequence[RepeatSpread], width_in: float) -> Iterator[Sheet]:
    strips = drawn(shown)
    left, width = on.SIDE_IN + _REPEAT_IN, width_in - 2 * on.SIDE_IN - _REPEAT_IN - 0.1
    for one in found:
        told = _told(one)
        sheet = Sheet(width_in, told=f"{one.name}: {told}")
        name_in = text_in(one.name, on.TITLE_PT, "bold")
        top = sheet.paragraph(on.SIDE_IN, 0.05, one.name, size=on.TITLE_PT, weight="bold") + 0.03
        if name_in + text_in(told, on.SMALL_PT) < width_in - 2 * on.SIDE_IN - 0.2:
            sheet.text(width_in - on.SIDE_IN, 0.05, told, size=on.SMALL_PT, colour=on.QUIET, ha="right", va="top")
        else:
            top = sheet.paragraph(on.SIDE_IN, top, told, size=on.SMALL_PT, colour=on.QUIET) + 0.03
        its = strips.of.get(one.slug, ())
        sheet.height_in = top + _STRIP_IN * len(its) + 0.08
        places = [left + at * width for at, _ in value_ticks(shown.axis)]
        sheet.lines([[(at, top), (at, sheet.height_in)] for at in places], on.GRID, 0.6)
        for number, strip in enumerate(its):
            _strip(sheet, strip, top + (number + 0.5) * _STRIP_IN, (left, width))
        yield sheet
    yield _axis(shown, left, width, width_in)


def _told(one: RepeatSpread) -> str:
    """Figures of all repetitions, of the same separator as the page's: there is none to see in a space."""
    return f"p50 {one.text('p50')} · max {one.text('max')} · stddev within {one.within}, between {one.between} · µs"


def _strip(sheet: Sheet, strip: Strip, y: float, across: tuple[float, float]) -> None:
    left, width = across
    low, middle, high, largest = (
        left + width * place / 100 for place in (strip.low, strip.middle, strip.high, strip.largest)
    )
    colour = COLOURS[strip.look.colour]
    sheet.text(left - 0.08, y, f"repeat {strip.repeat}", size=on.SMALL_PT, colour=on.QUIET, ha="right")
    sheet.box(low, y - 0.04, high - low, 0.08, colour, alpha=0.45, name="range")
    sheet.lines([[(middle, y - 0.055), (middle, y + 0.055)]], on.INK, 1.4, name="middle")
    sheet.lines([[(largest, y - 0.04), (largest, y + 0.04)]], colour, 1.6, name="largest")


def _together(shown: View, found: Sequence[Together], width_in: float) -> Iterator[Sheet]:
    left, width = on.SIDE_IN + 0.1, width_in - 2 * on.SIDE_IN - 0.2
    for one in found:
        named = zip(TOGETHER_HEADINGS, one.figures, strict=True)
        told = f"{one.repeats} repetitions, µs: {'   '.join(f'{name} {text}' for name, text in named if text)}"
        sheet = Sheet(width_in, told=f"{one.name}: {told}")
        top = sheet.paragraph(on.SIDE_IN, 0.05, one.name, size=on.TITLE_PT, weight="bold") + 0.05
        top = sheet.paragraph(on.SIDE_IN, top, told, size=on.SMALL_PT, colour=on.QUIET)
        foot = top + _HISTOGRAM_IN
        sheet.lines([[(left, foot), (left + width, foot)]], on.GRID)
        colour = on.QUIET if one.colour == ANY_COLOUR else COLOURS[one.colour]
        sheet.area(_outline(one.heights, left, foot, width), colour, name="together")
        sheet.height_in = foot + 0.1
        yield sheet
    yield _axis(shown, left, width, width_in)


def _outline(heights: Sequence[int], left: float, foot: float, width: float) -> list[on.Point]:
    """The steps of a histogram, from its foot on the left to that on the right."""
    steps = [
        (left + (number + side) * width / BINS, foot - height / HEIGHT * _HISTOGRAM_IN)
        for number, height in enumerate(heights)
        for side in (0, 1)
    ]
    return [(left, foot), *steps, (left + width, foot)]


def _axis(shown: View, left: float, width: float, width_in: float) -> Sheet:
    sheet = Sheet(width_in, 0.5)
    sheet.lines([[(left, 0), (left + width, 0)]], on.EDGE)
    for at, text in value_ticks(shown.axis):
        sheet.lines([[(left + at * width, 0), (left + at * width, 0.04)]], on.EDGE)
        sheet.text(left + at * width, 0.06, text, size=on.SMALL_PT, colour=on.QUIET, ha="center", va="top")
    kind = {"log": "µs, log", "linear": "µs"}.get(shown.axis.kind, f"µs, {shown.axis.told()}")
    sheet.text(left + width / 2, 0.24, f"{shown.label} [{kind}]", size=on.SMALL_PT, ha="center", va="top")
    return sheet
