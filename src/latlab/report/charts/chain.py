"""Where the time went: bars of intervals, typical packets against late ones, all cells on one scale; also a table."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, pairwise
from typing import Final

from latlab.analysis.interrupt_way import GUEST_TIMER_WAY, GUEST_WAY, WAY_IN, interval_name
from latlab.analysis.reception import RECEPTION
from latlab.analysis.way import ANSWER, CHAINS_SHOWN, HARDWARE_WAY, NIC, ROUND_TRIP_WAY, WAKEUP_WAY
from latlab.model.metrics import METRICS_BY_NAME
from latlab.model.timestamps import RECORDED, STAGES
from latlab.model.units import MICROSECOND_NS
from latlab.report import rows
from latlab.report.charts.sheet import (
    BESIDE_IN,
    GRID,
    INK,
    LINE_IN,
    PAPER,
    QUIET,
    SIDE_IN,
    SMALL_PT,
    TITLE_PT,
    WAY_COLOURS,
    WAY_INKS,
    Drawing,
    Sheet,
    round_values,
    text_in,
    wrapped,
)
from latlab.report.document import Table
from latlab.report.text import microseconds, plain
from latlab.result.places import cell_name
from latlab.result.types import Chain, Growth, Result, Stream

GROUPS: Final = {"typical": "typical", "p99": "mean p99–p99.9", "p99_9": "mean ≥ p99.9"}
ALL_ABOVE_P99: Final = "mean ≥ p99"
"""What the slowest group is called where n supports no p99.9."""
WORST: Final = "worst"
_TYPICAL_TOLD: Final = f"{GROUPS['typical']}: mean of p40 to p60"
_TOLD: Final = {
    GROUPS["p99"]: f"{GROUPS['p99']}: from p99 on, below p99.9",
    ALL_ABOVE_P99: f"{ALL_ABOVE_P99}: of all from p99 on",
    GROUPS["p99_9"]: f"{GROUPS['p99_9']}: of all from p99.9 on",
    WORST: f"{WORST}: one alone",
}

_CLOSER: Final = 4
"""From so many times the typical bars' length on, they are shown again at another scale."""

# Places in WAY_COLOURS, which begins with those of STAGES.
_STAGE_COLOURS: Final = {
    (before, one.name): list(STAGES).index(stage) for one in RECORDED for before, stage in one.ends.items()
}
_OF_STAMP: Final = {end: colour for (_, end), colour in reversed(_STAGE_COLOURS.items())}
"""Of an interval that is no single stage: by the first of the stages that end where it ends."""
_COLOURS: Final = {
    **_OF_STAMP,
    # Of an answer as of its question; the turn between them as a wake-up: it is what the answerer takes.
    **{f"answer_{name}": colour for name, colour in _OF_STAMP.items()}, "answer_submit": 0, "answered": 7,
    # A timer's interrupt; its thread is one that wakes as any other.
    "irq": 5,
    # What a traced listener's packets pass next to the kernel's stamp.
    "softirq": 4, "backlog": 2, "waking": 3, "run": 1,
    # And before that on the VM host of a guest: of the same colours, with a line in them.
    "host_irq": 6, "host_softirq": 4, "host_waking": 3, "host_run": 1,
    "asked": 5, "accepted": 6, "injected": 0, "entered": 2,
}  # fmt: skip
_NAMED: Final = {
    "VM host's timer": "host_irq",
    "VM host's handler": "host_softirq",
    "KVM's timer": "rx_user",
    "handler": "softirq",
    "return": "host_irq",
    "dispatch": "waking",
    "pending": "injected",
}
_WAYS: Final[tuple[tuple[str, ...], ...]] = (HARDWARE_WAY, WAKEUP_WAY, GUEST_TIMER_WAY, GUEST_WAY)
_STARTS: Final = {
    "wake_due": "the planned wake-up",
    "host_irq": "the VM host's interrupt",
    "host_softirq": "the VM host's softirq",
}
"""What is not plain by its name."""
_RECEPTION_TITLE: Final = "from the interrupt to the application"
_GUESTS_ENTRY_COLOUR: Final = 8


@dataclass(frozen=True)
class ChainInterval:
    """What happens between two timestamps: its name, and its colour as an index into WAY_COLOURS."""

    from_: str
    to: str

    @property
    def name(self) -> str:
        return interval_name(self.from_, self.to)

    @property
    def colour(self) -> int:
        """That of what came last, unless intervals of its name end at several timestamps: those have one colour."""
        if self.to == "irq" and self.from_ in WAY_IN:
            return _GUESTS_ENTRY_COLOUR
        if self.name in _NAMED:
            return _COLOURS[_NAMED[self.name]]
        return _STAGE_COLOURS.get((self.from_, self.to), _COLOURS[self.to])

    @property
    def lined(self) -> str:
        """What the line in it says, which tells it from another one of its colour; empty without one."""
        if self.to in WAY_IN:
            return "on the VM host"
        return "of the answer" if self.to in ANSWER.values() else ""


@dataclass(frozen=True)
class BarSegment:
    """One interval of a bar, in ns after the bar's start; it ends before it begins where it is below zero.

    free_ns: from where on an interval behind it is drawn over it; its end where none is.
    """

    interval: ChainInterval
    from_ns: float
    to_ns: float
    free_ns: float

    @property
    def ns(self) -> float:
        return self.to_ns - self.from_ns

    @property
    def text(self) -> str:
        return f"{self.interval.name} {microseconds(self.ns)}"


@dataclass(frozen=True)
class Bar:
    """One group's mean or one packet: intervals one behind the other, which end at its value.

    packets: of how many it is the mean; 1 for a packet. of: of how many these are, as far as they have the timestamps.
    """

    what: str
    packets: int
    of: int
    segments: tuple[BarSegment, ...]

    @property
    def value_ns(self) -> float:
        return self.segments[-1].to_ns

    @property
    def ends_ns(self) -> tuple[float, float]:
        """The least and the largest instant of it; it begins at 0."""
        at = [0, *(one.to_ns for one in self.segments)]
        return min(at), max(at)

    @property
    def told(self) -> str:
        """In words: "typical: wake-up 1.2 + path 97.0 = 98.2 µs"."""
        return f"{self.what}: {' + '.join(one.text for one in self.segments)} = {microseconds(self.value_ns)} µs"


@dataclass(frozen=True)
class CellBars:
    """One cell's bars, the typical one first, and lines on what the picture cannot show."""

    name: str
    bars: tuple[Bar, ...]
    grew: str
    remarks: tuple[str, ...]


@dataclass(frozen=True)
class ChainScale:
    """An interval of ns after the start that is drawn; bars go beyond it where not `whole`."""

    low_ns: float
    high_ns: float
    whole: bool


@dataclass(frozen=True)
class ChainView:
    """One metric of one stream. intervals: in the order of the way, all that any bar has. scales: the same of all
    cells, one, or two where the typical bars would be too short to read: these closer first, then everything.
    """

    stream: str
    metric: str
    title: str
    start: str
    cells: tuple[CellBars, ...]
    intervals: tuple[ChainInterval, ...]
    scales: tuple[ChainScale, ...]

    @property
    def note(self) -> str:
        """What the bars are, in words."""
        shown = {bar.what for cell in self.cells for bar in cell.bars}
        return "; ".join((_TYPICAL_TOLD, *(told for what, told in _TOLD.items() if what in shown)))

    @property
    def legend(self) -> tuple[tuple[int, bool, str], ...]:
        """(colour, with a line, name) of what is drawn, each once: the same may end at another stop where some are not
        known.
        """
        return tuple(dict.fromkeys((one.colour, bool(one.lined), one.name) for one in self.intervals))

    @property
    def lines(self) -> tuple[str, ...]:
        """What lines in intervals say."""
        return tuple(dict.fromkeys(one.lined for one in self.intervals if one.lined))

    @property
    def below_zero(self) -> bool:
        """Whether any bar has an interval below zero."""
        return any(one.ns < 0 for cell in self.cells for bar in cell.bars for one in bar.segments)


def chain_view(stream: str, metric: str, found: Sequence[tuple[str, Chain]]) -> ChainView:
    """What to show of (cell's name, `analysis.chain.chain_of_metric`) pairs; ValueError without any."""
    cells = tuple(CellBars(name, _bars(one), _grew(one), _remarks(one)) for name, one in found)
    segments = [segment for cell in cells for bar in cell.bars for segment in bar.segments]
    starts = dict.fromkeys(document.from_ for _, document in found)
    return ChainView(
        stream=stream,
        metric=metric,
        title=_RECEPTION_TITLE if metric == RECEPTION else METRICS_BY_NAME[metric].title,
        start=" or ".join(_STARTS.get(name, name) for name in starts),
        cells=cells,
        intervals=_in_order({one.interval for one in segments}),
        scales=_scales([bar for cell in cells for bar in cell.bars]),
    )


def _in_order(intervals: Collection[ChainInterval]) -> tuple[ChainInterval, ...]:
    """The intervals as they are passed; an answer's behind all of its question's own."""
    answers = [one for one in intervals if one.to.startswith("answer")]
    own = [one for one in intervals if one not in answers]
    ends = {end for one in own for end in (one.from_, one.to)}
    way = next(one for one in _WAYS if ends.issubset(one))
    return (*_along(way, own), *_along(ROUND_TRIP_WAY, answers))


def _along(way: tuple[str, ...], intervals: Collection[ChainInterval]) -> list[ChainInterval]:
    return sorted(intervals, key=lambda one: (way.index(one.to), way.index(one.from_)))


def _bars(document: Chain) -> tuple[Bar, ...]:
    """The groups that have a mean, and the worst packet."""
    stops = document.stops
    names = {one.name for one in document.groups}
    what = GROUPS if "p99_9" in names else {**GROUPS, "p99": ALL_ABOVE_P99}
    bars = [
        Bar(what[one.name], one.split, one.packets, _segments(stops, one.ns))
        for one in document.groups
        if one.ns is not None
    ]
    worst = document.worst.each[:1] if document.worst else []
    bars += [Bar(WORST, 1, 1, _segments(one.stops or stops, one.ns)) for one in worst]
    return tuple(bars)


def _segments(stops: Sequence[str], ns: Sequence[float]) -> tuple[BarSegment, ...]:
    at_ns = list(accumulate(ns, initial=0))
    # The least instant from each stop on: what comes after one that goes back begins there.
    least_ns = list(accumulate(reversed(at_ns), min))[::-1]
    return tuple(
        BarSegment(ChainInterval(*ends), at_ns[number], at_ns[number + 1], least_ns[number + 1])
        for number, ends in enumerate(pairwise(stops))
    )


def _grew(document: Chain) -> str:
    """Where the worst packets were made late: "of the worst 100 packets 87 lost most time in path, 13 in delivery; …";
    empty where there is nothing to choose between.
    """
    worst = document.worst
    if not worst or not worst.late or len(document.stops) < 3:
        return ""
    first, *others = (one for one in worst.grew if one.packets)
    counts = ", ".join(
        (
            f"{first.packets} lost most time in {_name(first)}",
            *(f"{one.packets} in {_name(one)}" for one in others),
        )
    )
    most = max(worst.grew, key=lambda one: one.share)
    return (
        f"of the worst {worst.late} {thing(document)}s {counts}; {_name(most)} has {percent(most.share)} of their delay"
    )


def thing(chain: Chain) -> str:
    """What a chain's values are of, "packet" or "instant": a timer's alone have an interrupt and end at its wake."""
    stops = chain.stops
    return "instant" if "irq" in stops and stops[-1] in WAKEUP_WAY else "packet"


def _name(ends: Growth) -> str:
    return interval_name(ends.from_, ends.to)


def percent(share: float) -> str:
    """A share in whole per cent, 100 only where it is all."""
    return f"{100 if share == 1 else min(round(100 * share), 99)} %"


def _remarks(document: Chain) -> tuple[str, ...]:
    """What the page says about the bars: packets that are in no mean, and intervals below zero."""
    lines = []
    if left_out := document.left_out:
        whole = document.packets + left_out
        lines.append(f"{left_out} of {whole} {thing(document)}s are not drawn: they begin at a different timestamp")
    if document.split < document.packets:
        lacking = document.packets - document.split
        things = f"{document.packets} {thing(document)}s"
        lines.append(f"{lacking} of {things} have different timestamps and are left out of the means")
    for ends, clocks, count in zip(pairwise(document.stops), document.clocks, document.below_zero, strict=True):
        if count:
            why = (
                ": woken before the launch"
                if ends == ("launch", "wake")
                else ": a NIC's clock"
                if clocks == NIC
                else ""
            )
            many = f"all {count}" if count == document.split else f"{count} of {document.split}"
            lines.append(f"{interval_name(*ends)} is below zero in {many} {thing(document)}s{why}")
    return tuple(lines)


def _scales(bars: Sequence[Bar]) -> tuple[ChainScale, ...]:
    low, high = _extent(bars)
    whole = ChainScale(low, high, True)
    typical = [bar for bar in bars if bar.what != WORST]
    usual = [bar for bar in typical if bar.what == GROUPS["typical"]]
    if not usual or high - low <= _CLOSER * _length(usual):
        return (whole,)
    for group in (typical, [bar for bar in typical if bar.what != GROUPS["p99_9"]]):
        if _length(group) <= _CLOSER * _length(usual):
            return (ChainScale(*_extent(group), False), whole)
    low, high = _extent(usual)
    return ChainScale(low, high + (high - low) // 2, False), whole


def _extent(bars: Sequence[Bar]) -> tuple[float, float]:
    """The least and the largest instant of bars, never the same one."""
    low, high = min(bar.ends_ns[0] for bar in bars), max(bar.ends_ns[1] for bar in bars)
    return low, max(high, low + 1)


def _length(bars: Sequence[Bar]) -> float:
    low, high = _extent(bars)
    return high - low


# Of a result


def chain_views(result: Result) -> dict[tuple[str, str], ChainView]:
    """{(stream, metric): its chains, cells in the order of the summary}, of the metrics that go all the way.

    Those that are a part of it, as `path`, have their chains in the result document. Behind them, as RECEPTION, that of
    a listener that was traced.
    """
    return {
        (stream, metric): chain_view(stream, metric, found)
        for stream in rows.stream_names(result)
        for metric in (*CHAINS_SHOWN, RECEPTION)
        if (found := _documents(result, stream, metric))
    }


def chain_of(block: Stream, metric: str) -> Chain | None:
    """A metric's chain in a stream's block of the result, or RECEPTION's; None where it has none."""
    holder = block.trace if metric == RECEPTION else block.metrics.get(metric)
    return holder.chain if holder else None


def has_parts(metric: str, chain: Chain) -> bool:
    """Whether a chain is shown: a wake-up of one interval, a stream's, is not."""
    return metric != "wakeup" or len(chain.stops) > 2


def _documents(result: Result, stream: str, metric: str) -> list[tuple[str, Chain]]:
    return [
        (cell_name(result, cell), chain)
        for cell in rows.ordered_cells(result)
        if stream in cell.streams and (chain := chain_of(cell.streams[stream], metric)) and has_parts(metric, chain)
    ]


# As a table


def chain_table(view: ChainView) -> Table:
    """A row a bar, a column an interval, and what they add up to, in µs; blank where a bar has no such interval."""
    headings = ("cell", "bar", "packets", *(one.name for one in view.intervals), view.metric)
    found = []
    for cell in view.cells:
        for bar in cell.bars:
            ns = {one.interval: one.ns for one in bar.segments}
            packets = str(bar.packets) if bar.packets == bar.of else f"{bar.packets} of {bar.of}"
            figures = (microseconds(ns.get(one)) for one in view.intervals)
            found.append((cell.name, bar.what, packets, *figures, microseconds(bar.value_ns)))
    said = ((cell.name, "; ".join(filter(None, (cell.grew, *cell.remarks)))) for cell in view.cells)
    remarks = [view.note, *(f"{name}: {text}" for name, text in said if text)]
    title = f"{view.stream}: where the time of {view.metric} went, µs"
    return Table(headings, found, range(2, len(headings)), title, remarks=remarks)


def chain_remarks(view: ChainView) -> list[str]:
    """What the bars of each cell leave out, which the chart does not say."""
    return [f"{cell.name}: {'; '.join(cell.remarks)}" for cell in view.cells if cell.remarks]


# As a chart

_BAR_IN: Final = 0.23
_THICK_IN: Final = 0.185
"""Of a bar's line; an interval below zero has its lower edge only, so that figures in the bar can be read."""
_LINE_AT: Final = 0.82
"""Where the line in an interval is, below its figures, as a share of the bar's height."""
_LINED_IN: Final = 0.016
_THIN_IN: Final = 0.055
_NAME_IN: Final = 0.24
_BETWEEN_IN: Final = 0.3
_IN_BAR_PT: Final = 7.0
_APART_IN: Final = 0.006
_LEAST_IN: Final = 0.004
"""What is narrower is not seen, and stands in the bar's words and in the table."""


def chain_chart(view: ChainView) -> Drawing:
    """The bars of each cell below each other, once for each scale.

    A bar is a line of time: it begins at the start (the launch), each interval where the one before ended. One below
    zero goes back, as a thin strip at its foot; what follows begins at its left end. Bars that a closer scale has no
    room for end in a triangle at its edge.
    """
    title = f"{view.stream}: where the time went · {view.title}"
    return Drawing(f"{view.stream}-{view.metric}-chain", title, partial(_pieces, view), (f"{view.note}, µs",))


def _pieces(view: ChainView, width_in: float) -> Iterator[Sheet]:
    """The key, then for each row of scales the cells and the axes."""
    yield _key(view, width_in)
    left = SIDE_IN + 0.1 + max(text_in(_label(bar), SMALL_PT) for cell in view.cells for bar in cell.bars)
    columns = len(view.scales) if width_in >= BESIDE_IN else 1
    panel_in = (width_in - left - SIDE_IN - 0.1 - _BETWEEN_IN * (columns - 1)) / columns
    for first in range(0, len(view.scales), columns):
        panels = [
            _ChainPanel(scale, left + number * (panel_in + _BETWEEN_IN), panel_in)
            for number, scale in enumerate(view.scales[first : first + columns])
        ]
        for cell in view.cells:
            yield _cell(cell, panels, width_in, said=first == 0)
        yield _axes(view, panels, width_in)


@dataclass(frozen=True)
class _ChainPanel:
    """A scale with its place, inches."""

    scale: ChainScale
    left: float
    width: float

    def at(self, ns: float) -> float:
        """Where an instant is; its ends for what is beyond."""
        low, high = self.scale.low_ns, self.scale.high_ns
        return self.left + self.width * min(max((ns - low) / (high - low), 0.0), 1.0)

    @property
    def ticks(self) -> list[float]:
        """Round instants, µs."""
        return round_values(
            self.scale.low_ns / MICROSECOND_NS, self.scale.high_ns / MICROSECOND_NS, max(2, int(self.width * 1.4))
        )


def _label(bar: Bar) -> str:
    return f"{bar.what}  {microseconds(bar.value_ns)}"


def _cell(cell: CellBars, panels: Sequence[_ChainPanel], width_in: float, *, said: bool) -> Sheet:
    """A cell's name, what made its worst packets late, and its bars."""
    sheet = Sheet(width_in, told=f"{cell.name}: {chr(10).join(('', *(bar.told for bar in cell.bars)))}")
    names = wrapped(cell.name, width_in - 2 * SIDE_IN, TITLE_PT, "bold")
    for number, line in enumerate(names):
        sheet.text(SIDE_IN, 0.05 + number * LINE_IN, line, size=TITLE_PT, weight="bold", va="top")
    top = _NAME_IN + LINE_IN * (len(names) - 1)
    if said and cell.grew:
        room = width_in - 2 * SIDE_IN - text_in(names[-1], TITLE_PT, "bold") - 0.15
        if text_in(cell.grew, SMALL_PT) <= room:
            sheet.text(width_in - SIDE_IN, top - 0.19, cell.grew, size=SMALL_PT, colour=QUIET, ha="right", va="top")
        else:
            top = sheet.paragraph(SIDE_IN, top, cell.grew, size=SMALL_PT, colour=QUIET) + 0.04
    bottom = top + _BAR_IN * len(cell.bars)
    tops = [top + _BAR_IN * number for number in range(len(cell.bars))]
    for bar, at in zip(cell.bars, tops, strict=True):
        sheet.text(panels[0].left - 0.08, at + _BAR_IN / 2, _label(bar), size=SMALL_PT, colour=QUIET, ha="right")
    for panel in panels:
        sheet.lines([[(panel.at(0), top), (panel.at(0), bottom)]], INK, 0.9, name="start")
        _draw_bars(sheet, panel, list(zip(cell.bars, tops, strict=True)))
    sheet.height_in = bottom + 0.06
    return sheet


def _draw_bars(sheet: Sheet, panel: _ChainPanel, bars: Sequence[tuple[Bar, float]]) -> None:
    """Draw bars that begin at these heights, what is alike at once: none lies over another."""
    found = [(one, top) for bar, top in bars for one in bar.segments]
    # What goes back would be covered by what follows it.
    for one, top in sorted(found, key=lambda each: (each[0].ns < 0, each[0].interval.colour)):
        left, right = sorted((panel.at(one.from_ns), panel.at(one.to_ns)))
        if right - left >= _LEAST_IN:
            _draw_segment(sheet, one, left, right, top)
    for one, top in sorted(found, key=lambda each: WAY_INKS[each[0].interval.colour]):
        left, right, text = panel.at(one.from_ns), panel.at(one.free_ns), microseconds(one.ns)
        if one.ns > 0 and text_in(text, _IN_BAR_PT) + 0.06 < right - left:
            ink = WAY_INKS[one.interval.colour]
            sheet.text((left + right) / 2, top + _BAR_IN * 0.46, text, size=_IN_BAR_PT, colour=ink, ha="center")
    beyond = [top + _BAR_IN / 2 for bar, top in bars if bar.ends_ns[1] > panel.scale.high_ns]
    sheet.marks([(panel.left + panel.width + 0.04, y) for y in beyond], ">", 4.5, INK, name="beyond")


def _draw_segment(sheet: Sheet, one: BarSegment, left: float, right: float, top: float) -> None:
    colour, back = WAY_COLOURS[one.interval.colour], one.ns < 0
    height = _THIN_IN if back else _THICK_IN
    top += (_BAR_IN + _THICK_IN) / 2 - height
    if back:
        sheet.box(left, top, right - left, height, PAPER, edge=colour, line=0.7, dash=(1.5, 0.75), name="back")
    else:
        # A line of paper between neighbours, where there is room for one.
        apart = _APART_IN if right - left > 4 * _APART_IN else 0.0
        _filled(sheet, (left, top, right - left - apart, height), colour, one.interval.name, bool(one.interval.lined))


def _filled(sheet: Sheet, place: tuple[float, float, float, float], colour: str, name: str, lined: bool) -> None:
    """Draw an interval, with a line of paper in it or without. place: left, top, width and height."""
    left, top, width, height = place
    sheet.box(left, top, width, height, colour, name=name)
    if lined:
        sheet.box(left, top + _LINE_AT * height - _LINED_IN / 2, width, _LINED_IN, PAPER, name="lined")


def _axes(view: ChainView, panels: Sequence[_ChainPanel], width_in: float) -> Sheet:
    sheet = Sheet(width_in, 0.56)
    for panel in panels:
        sheet.lines([[(panel.left, 0.03), (panel.left + panel.width, 0.03)]], GRID)
        sheet.lines([[(panel.at(us * 1000), 0.0), (panel.at(us * 1000), 0.06)] for us in panel.ticks], QUIET)
        for us in panel.ticks:
            sheet.text(panel.at(us * 1000), 0.1, plain(us), size=SMALL_PT, colour=QUIET, ha="center", va="top")
        what = f"after {view.start} [µs]{'' if panel.scale.whole else ', closer'}"
        sheet.text(panel.left + panel.width / 2, 0.28, what, size=SMALL_PT, ha="center", va="top")
    return sheet


def _key(view: ChainView, width_in: float) -> Sheet:
    sheet = Sheet(width_in)

    def sample(colour: str, name: str, lined: bool, x: float, y: float) -> None:
        _filled(sheet, (x, y - 0.06, 0.15, 0.12), colour, name, lined)

    def back(x: float, y: float) -> None:
        sheet.box(x, y - 0.03, 0.15, 0.06, PAPER, edge=QUIET, name="back")

    found: list[tuple[Callable[[float, float], None], float, str]] = [
        (partial(sample, WAY_COLOURS[colour], name, lined), 0.15, name) for colour, lined, name in view.legend
    ]
    for line in view.lines:
        found.append((partial(sample, QUIET, "", True), 0.15, f"with a line: {line}"))
    if view.below_zero:
        found.append((back, 0.15, "below zero: drawn backwards"))
    sheet.key(SIDE_IN, 0.0, found)
    return sheet
