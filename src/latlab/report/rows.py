"""What stands in the summary tables: one row a cell, stream and repeat, in the terminal as on the page."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from latlab.analysis.counts import counted
from latlab.analysis.imported import TOLD
from latlab.analysis.way import ONE_CLOCK, interval_name
from latlab.analysis.words import duration
from latlab.evaluation.comparison.cells import sent_otherwise
from latlab.model import statistics
from latlab.model.labels import IMPORTED
from latlab.model.metrics import IMPORTED_METRICS, METRICS_BY_NAME, PROBE_METRICS, TIMER_METRICS
from latlab.model.statistics import HEADINGS
from latlab.report.testbed import label_text
from latlab.report.text import bound, microseconds, whole
from latlab.result.places import (
    cell_name,
    cell_title,
    dimension_keys,
    dimension_text,
    short_headings,
)
from latlab.result.types import Cell, Metric, Result, Stream


@dataclass(frozen=True)
class Column:
    """One statistic: the key in result.json, the heading, and how its value is written."""

    key: str
    heading: str
    is_time: bool

    def text(self, statistics: Metric) -> str:
        """The value as written in a table: µs with one decimal, or digits; blank where it is null.

        A maximum has a ≥ where packets without one of its timestamps may be above it.
        What is known only of each interval of time is the least and the greatest of these, as "98.6…100.8".
        """
        value = getattr(statistics, self.key)
        if value is None and (each := getattr(statistics.intervals, self.key, None)):
            return "…".join(dict.fromkeys(map(microseconds, each)))
        if self.key == "max" and (least := statistics.max_at_least) is not None:
            return f"≥{microseconds(least)}"
        return microseconds(value) if self.is_time else whole(value)


MOMENTS = tuple(Column(key, HEADINGS[key], True) for key in ("min", "mean", "max", "stddev"))
PERCENTILES = tuple(Column(key, HEADINGS[key], True) for key in statistics.PERCENTILES)
COUNTS = (Column("n", "n", False), Column("lost", "lost", False))
COLUMNS = MOMENTS + PERCENTILES + COUNTS


"""The label of what another program measured."""

UNUSUAL_COUNTS = (
    "unsent",
    "send_errors",
    "lost",
    "unknown",
    "duplicated",
    "reordered",
    "out_of_range",
    "launch_invalid",
    "launch_missed",
    "launch_late",
    "launch_moved",
    "launch_silent",
    "unsent_late",
    "unanswered",
)
"""The counts of a stream that are 0 where every packet was sent and received once."""


NOTHING_ARRIVED: Final = "nothing arrived"
NO_TIMESTAMPS: Final = "no such timestamps"


@dataclass(frozen=True)
class StreamRow:
    """One cell's repeat and stream. `statistics` is None where it has no such timestamps.

    clock: where the figures' ± is known from, as in the result: one clock where both timestamps are one host's; for
    imported figures what it is of, as `bins and digits`. watched: its packets are those of another program.
    """

    dimensions: tuple[str, ...]
    slug: str
    repeat: int
    stream: str
    status: str
    verdict: str
    label: str
    clock: str | None
    statistics: Metric | None
    watched: bool = False

    @property
    def uncertainty(self) -> str:
        """By how many µs, ±, the clocks may make it wrong; "unknown" without a bound."""
        return bound(self.measured.uncertainty_ns) if self.measured else ""

    @property
    def crosses_clocks(self) -> bool:
        """Whether its figures are between two clocks: those of one clock, or one kernel, are off by nothing."""
        return self.measured is not None and self.measured.uncertainty_ns != 0

    @property
    def measured(self) -> Metric | None:
        """Its statistics; None also where no packet arrived, which no two clocks can make wrong."""
        return None if self.statistics is None or self.statistics.nothing_arrived else self.statistics

    @property
    def remark(self) -> str:
        """What is to be known next to the figures: the verdict, or why there are none."""
        if self.status != "ok":
            return self.status
        if self.statistics is None:
            return NO_TIMESTAMPS
        if not self.statistics.nothing_arrived:
            return self.verdict
        return ", ".join(filter(None, (self.verdict, f"{NOTHING_ARRIVED}: {self.statistics.lost} lost")))


@dataclass(frozen=True)
class Summary:
    """One metric's table. `headings` names the leading columns whose values `labels(row)` gives.

    stream: the one it is of, with its ends; empty where rows are of several, and name theirs. notes: what has to be
    known to read the figures, a line each.
    """

    metric: str
    stream: str
    headings: tuple[str, ...]
    rows: tuple[StreamRow, ...]
    shows_stream: bool
    shows_repeat: bool
    notes: tuple[str, ...] = ()

    @property
    def between(self) -> str:
        """The timestamps subtracted, as "rx_soft − launch"; blank where rows differ."""
        arrived = [row.measured for row in self.rows if row.measured]
        told = arrived or [row.statistics for row in self.rows if row.statistics]
        found = {(one.to, one.from_) for one in told}
        return difference(*found.pop()) if len(found) == 1 else ""

    @property
    def title(self) -> str:
        """What the table is of: "down, sensor → vm1: latency = rx_soft − launch"."""
        stream = f"{self.stream}: " if self.stream else ""
        return stream + self.metric + (f" = {self.between}" if self.between else "")

    @property
    def of_what(self) -> str:
        """Which packets its figures are of. What another program measured has no warm-up that is known of."""
        labels = {row.label for row in self.rows if row.statistics}
        if all(row.watched for row in self.rows if row.statistics):
            return "all watched packets"
        which = "all imported packets" if labels == {IMPORTED} else "after warm-up"
        if IMPORTED in labels and len(labels) > 1:
            which += "; of imported files all"
        return which + (" · each repetition separately" if self.shows_repeat else "")

    @property
    def uncertainty(self) -> str:
        """The largest ± of any row, with where it is known from; empty without rows."""
        return largest_uncertainty(self.rows)

    @property
    def uncertainty_range(self) -> str:
        """From the smallest to the largest ± of the rows, with where it is known from; empty without rows."""
        return _uncertainty(self.rows, _ends)

    @property
    def crosses_clocks(self) -> bool:
        """Whether any row's figures are between two clocks."""
        return any(row.crosses_clocks for row in self.rows)

    @property
    def clocks(self) -> tuple[str, ...]:
        """Where the rows' ± are known from."""
        return _clocks(self.rows)

    def labels(self, row: StreamRow) -> tuple[str, ...]:
        """The leading columns of one row, as many as there are headings."""
        stream = (row.stream,) if self.shows_stream else ()
        repeat = (str(row.repeat),) if self.shows_repeat else ()
        return row.dimensions + stream + repeat

    def dimensions(self, row: StreamRow) -> tuple[str, ...]:
        """What distinguishes the row from others, apart from its repetition, each a word: without loads it is idle, and
        a value that says nothing alone has its heading with it.
        """
        told = zip(self.headings, self.labels(row), strict=True)
        return tuple(_told(heading, value) for heading, value in told if heading != "repeat")


def _told(heading: str, value: str) -> str:
    if value == "none" and heading == "loads":
        return "idle"
    return f"{heading} {value}" if value == "none" or value.isdigit() else value


def between_hops(result: Result) -> frozenset[str]:
    """The watched pairs of points, by stream, that are several hops and not the whole path.

    The whole is from a point that none is before to one that none is behind.
    """
    return frozenset(name for name, is_whole in _several_hops(result) if not is_whole)


def several_hops(result: Result) -> frozenset[str]:
    """The watched pairs of points, by stream, that are several hops, the whole path among them.

    A hop is from a point to the next: no other point lies between them.
    """
    return frozenset(name for name, _ in _several_hops(result))


def _several_hops(result: Result) -> Iterator[tuple[str, bool]]:
    """(stream, whether it is the whole path) of each pair of points that is several hops."""
    for cell in result.cells:
        flows: dict[str | None, list[tuple[str, tuple[str, ...]]]] = {}
        for name, block in cell.streams.items():
            if len(block.points) == 2:
                flows.setdefault(block.flow, []).append((name, tuple(block.points)))
        for pairs in flows.values():
            ways = {points for _, points in pairs}
            begins, ends = {first for first, _ in ways}, {last for _, last in ways}
            for name, (first, last) in pairs:
                if any((first, point) in ways and (point, last) in ways for point in begins & ends):
                    yield name, first not in ends and last not in begins


def summaries(result: Result, metric: str, leave_out: Collection[str] = ()) -> tuple[Summary, ...]:
    """The metric's tables: cells in the order of the matrix, then repeats. leave_out: streams that are in none.

    Where cells have several streams, each stream has a table to itself, whose rows compare. Else there is one: of a
    single cell, or of cells with a stream each, as one probe next to another. Cells of which nothing was measured are
    in none.
    """
    names = tuple(name for name in stream_names(result) if name not in leave_out and _may_have(result, name, metric))
    keys = dimension_keys(result)
    several = any(cell.repeat > 1 for cell in result.cells)
    repeat = ("repeat",) if several else ()
    together = [sum(name in names for name in cell.streams) for cell in result.cells if cell.streams]
    if len(names) > 1 and max(together) > 1 and len({cell.slug for cell in result.cells if cell.streams}) > 1:
        tables = []
        for name in names:
            headings, rows = _told_apart(keys, stream_rows(result, name, metric))
            tables.append(_summary(result, metric, stream_title(result, name), (*headings, *repeat), rows, several))
    else:
        by_name = {name: stream_rows(result, name, metric) for name in names}
        order = [cell.slug for cell in ordered_cells(result)]
        every = sorted((row for found in by_name.values() for row in found), key=lambda row: order.index(row.slug))
        headings, rows = _told_apart(keys, every)
        shows_stream = len(names) > 1 and any(row.stream not in row.dimensions for row in rows)
        headings = (*headings, *(("stream",) if shows_stream else ()), *repeat)
        tables = [_summary(result, metric, "", headings, rows, several, shows_stream=shows_stream)]
    return tuple(table for table in tables if any(row.statistics for row in table.rows))


def _told_apart(keys: Sequence[str], rows: Sequence[StreamRow]) -> tuple[tuple[str, ...], tuple[StreamRow, ...]]:
    """The headings of those of the matrix's keys that any of the rows has, and the rows with these dimensions only.

    Keys of one thing of different streams or probes, of which no row has two, are one column: `probes.a.size` and
    `probes.b.size` are the size of each row's own.
    """
    columns: dict[tuple[str, ...], list[int]] = {}
    for place, key in enumerate(keys):
        if any(row.dimensions[place] for row in rows):
            kind, *rest = key.split(".")
            of_each = kind in ("streams", "probes") and len(rest) > 1
            columns.setdefault((kind, *rest[1:]) if of_each else (key,), []).append(place)
    kept: list[tuple[str, list[int]]] = []
    for places in columns.values():
        if all(sum(row.dimensions[place] != "" for place in places) <= 1 for row in rows):
            kept.append((keys[places[0]], places))
        else:
            kept += [(keys[place], [place]) for place in places]
    values = (tuple("".join(row.dimensions[place] for place in places) for _, places in kept) for row in rows)
    return short_headings([key for key, _ in kept]), tuple(
        replace(row, dimensions=own) for row, own in zip(rows, values, strict=True)
    )


def _may_have(result: Result, name: str, metric: str) -> bool:
    """Whether a stream could have the metric: a probe as a whole has round trips, and its legs have latencies."""
    blocks = [cell.streams[name] for cell in result.cells if name in cell.streams]
    if any(metric in block.metrics for block in blocks):
        return True
    if metric in {one.name for one in TIMER_METRICS} or any(block.timer for block in blocks):
        return False  # a timer whose interrupts are not recorded has no parts
    if all(cell.imported for cell in result.cells if name in cell.streams):
        return False  # another program need not have measured it
    if metric in {one.name for one in IMPORTED_METRICS} or any(block.flow for block in blocks):
        return False  # of packets that are watched is known what their flow has, and of all others what they have
    is_whole = any(block.probe and block.probe.leg is None for block in blocks)
    of_wholes = metric in {one.name for one in PROBE_METRICS}
    return is_whole == of_wholes


def _summary(
    result: Result,
    metric: str,
    stream: str,
    headings: tuple[str, ...],
    rows: tuple[StreamRow, ...],
    shows_repeat: bool,
    *,
    shows_stream: bool = False,
) -> Summary:
    """One table, with what is to be said of the probes and streams that have figures in it."""
    measured = {(row.slug, row.repeat, row.stream) for row in rows if row.statistics}
    blocks = [
        (name, block)
        for cell in ordered_cells(result)
        for name, block in cell.streams.items()
        if (cell.slug, cell.repeat, name) in measured
    ]
    said = (*sent_otherwise(result, dict(blocks)), *_probe_notes(blocks), *early_notes(blocks, metric))
    return Summary(metric, stream, headings, rows, shows_stream, shows_repeat, said)


def stream_rows(result: Result, stream: str, metric: str) -> tuple[StreamRow, ...]:
    """The rows of one stream and metric, in the order of the matrix: of every cell that has the stream."""
    keys = dimension_keys(result)
    return tuple(_row(cell, stream, metric, keys) for cell in ordered_cells(result) if stream in cell.streams)


def off_by(summaries: Sequence[Summary]) -> str:
    """What makes the figures uncertain: the clocks, or how coarsely another program kept its figures."""
    every = (row.measured.uncertainty_of for summary in summaries for row in summary.rows if row.measured)
    return ", ".join(sorted({of for of in every if of and of != TOLD})) or "clocks"


def largest_uncertainty(rows: Sequence[StreamRow]) -> str:
    """The largest ± of these rows in µs, with where it is known from; empty where none has figures."""
    return _uncertainty(rows, lambda known: bound(max(known)))


def _uncertainty(rows: Sequence[StreamRow], told: Callable[[Sequence[int]], str]) -> str:
    """The bounds that are known, in ns, as `told` writes them, with where they are from and whether some are not."""
    bounds = [row.measured.uncertainty_ns for row in rows if row.measured]
    known = [ns for ns in bounds if ns is not None]
    if not known:
        return bound(None) if bounds else ""
    figure = sourced(told(known), " or ".join(_clocks(rows)))
    return figure if len(known) == len(bounds) else f"{figure}, unknown in some cells"


def _ends(known: Sequence[int]) -> str:
    """The smallest and the largest bound, "0.2 to 3.1"; once where they read the same."""
    return " to ".join(dict.fromkeys((bound(min(known)), bound(max(known)))))


def _clocks(rows: Sequence[StreamRow]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(row.clock for row in rows if row.measured and row.clock))


def stream_title(result: Result, name: str) -> str:
    """A stream's name with its ends: "down, sensor → vm1"; a probe's "rr, sensor ⇄ vm1"; a timer's "irq, vm1". Names of
    watched packets have the points in them.
    """
    found = (cell.streams[name] for cell in result.cells if name in cell.streams)
    block = next((block for block in found if block.talker), None)
    if block is None or block.points:
        return name
    if block.talker == block.listener:
        return f"{name}, {block.talker}"
    way = "⇄" if block.probe and block.probe.leg is None else "→"
    return f"{name}, {block.talker} {way} {block.listener}"


def early_notes(blocks: Sequence[tuple[str, Stream]], metric: str) -> Iterator[str]:
    """A sentence for each stream that has figures below zero because its etf sends before the launch time."""
    found: dict[str, dict[int, None]] = {}
    for name, block in blocks:
        figures, early_ns = block.metrics.get(metric), block.early_ns
        if early_ns and figures and figures.from_ == "launch" and (figures.min or 0) < 0:
            found.setdefault(name, {})[early_ns] = None
    for name, deltas in found.items():
        early = " or ".join(map(duration, deltas))
        yield (
            f"{name}: below zero because etf sends each packet {early} (its delta) before the launch time, and no "
            "network card delays it until then; arrival_offset does not include this"
        )


def sourced(figure: str, source: str | None) -> str:
    """A figure with where it is known from: "0.4 (shared page)"."""
    return f"{figure} ({source})" if source else figure


def ordered_cells(result: Result) -> list[Cell]:
    """The cells grouped by configuration in the order they first ran, repeats side by side."""
    rank = {slug: place for place, slug in enumerate(dict.fromkeys(cell.slug for cell in result.cells))}
    return sorted(result.cells, key=lambda cell: (rank[cell.slug], cell.repeat))


def stream_names(result: Result) -> tuple[str, ...]:
    """Every stream that any cell has, in the order of the first cell that has it."""
    return tuple(dict.fromkeys(name for cell in result.cells for name in cell.streams))


def remarks(result: Result) -> list[str]:
    """A line for each cell in which packets were not sent and received exactly once, with what happened and how
    many: what listeners refused, then what was counted of each stream, warm-up included.
    """
    lines = []
    for cell in ordered_cells(result):
        said = []
        for host, found in cell.refused.items():
            # A listener that spins wakes for nothing all the time: that concerns no packet.
            words = counted({kind: count for kind, count in found.items() if kind != "empty_wakeups"})
            said += [f"listener {host}: {words}"] if words else []
        for stream, block in cell.streams.items():
            counts = {kind: block.counts.get(kind) or 0 for kind in (*UNUSUAL_COUNTS, "late")}
            whose = "probe" if block.probe and block.probe.leg is None else "stream"
            said += [f"{whose} {stream}: {words}"] if (words := counted(counts)) else []
        if said:
            lines.append(f"{cell_name(result, cell)}: {'; '.join(said)}")
    return lines


def counted_title(result: Result) -> str:
    """What stands over `remarks`: imports have no warm-up."""
    return "Counted" if all(cell.imported for cell in result.cells) else "Counted, warm-up included"


def worst_lines(result: Result, metric: str) -> list[str]:
    """A line for each cell and stream: its largest value of the metric, in µs, as intervals that add up to it."""
    return [line for _, _, line in _worst(result, metric)]


def worst_of_streams(result: Result, metric: str) -> list[str]:
    """The same, of each stream's largest value in all cells only."""
    largest: dict[str, tuple[int, str]] = {}
    for stream, value, line in _worst(result, metric):
        if stream not in largest or value > largest[stream][0]:
            largest[stream] = (value, line)
    return [line for _, line in largest.values()]


def _worst(result: Result, metric: str) -> Iterator[tuple[str, int, str]]:
    """(stream, value in ns, line) of each cell and stream."""
    several = len(stream_names(result)) > 1
    for cell in ordered_cells(result):
        for stream, block in cell.streams.items():
            figures = block.metrics.get(metric)
            if figures and figures.max is not None and (worst := figures.worst):
                intervals = " + ".join(
                    f"{interval_name(one.from_, one.to)} {microseconds(one.ns)}" for one in worst.intervals
                )
                name = cell_name(result, cell) + (f", {stream}" if several else "")
                line = f"{name}: max {microseconds(figures.max)} is {thing(block)} {worst.sequence}: {intervals}"
                yield stream, figures.max, line


def thing(block: Stream) -> str:
    """What one value of a stream's figures is of: "packet", or a timer's "instant"."""
    return "instant" if block.timer else "packet"


def difference(end: str, begin: str) -> str:
    """Two timestamps subtracted, as "rx_soft − launch", in brackets what is a formula itself.

    Without a `begin` the `end` is a formula, and stands as it is.
    """
    if not begin:
        return end
    return f"{end} − ({begin})" if " " in begin else f"{end} − {begin}"


def _row(cell: Cell, stream: str, metric: str, keys: Sequence[str]) -> StreamRow:
    block = cell.streams[stream]
    known = METRICS_BY_NAME.get(metric)
    statistics = block.metrics.get(metric)
    clock = block.clock if known is None or known.crosses_hosts else ONE_CLOCK
    return StreamRow(
        tuple(dimension_text(cell.cell[key]) if key in cell.cell else "" for key in keys),
        cell.slug,
        cell.repeat,
        stream,
        cell.status,
        cell.verdict,
        label_text(cell),
        statistics.uncertainty_of if statistics and statistics.uncertainty_of else clock,
        statistics,
        cell.imported is not None and cell.imported.by_latlab,
    )


def _probe_notes(blocks: Iterable[tuple[str, Stream]]) -> tuple[str, ...]:
    """A line for each probe among these (name, stream's document): what has to be known to read its figures."""
    found: dict[str, dict[str, None]] = {}
    for _, block in blocks:
        if probe := block.probe:
            found.setdefault(probe.name, {})[probe.told] = None
    return tuple(f"{name}: {_together(list(told))}" for name, told in found.items())


def _together(variants: Sequence[str]) -> str:
    """What is said of one probe in several cells: what all say once, and then where they differ."""
    parts = [told.split("; ") for told in variants]
    shared = [part for part in parts[0] if all(part in others for others in parts)]
    own = ["; ".join(part for part in of if part not in shared) for of in parts]
    differing = " · or ".join(filter(None, own))
    where = "in some cells: " if differing and "" in own else ""
    return "; ".join(filter(None, (*shared, where + differing)))


# Delay variation as RFC 5481 has it: above the least delay (PDV), and from one packet to the next (IPDV).


VARIATION_TITLE: Final = "delay variation (RFC 5481), µs"
VARIATION_NOTE: Final = (
    "PDV: each packet's delay minus the smallest of all; IPDV: minus that of the previous packet, undefined if one of "
    "the two has none. A constant offset between two clocks affects neither."
)
VARIATION_FORMS: Final[Mapping[str, str]] = {"pdv": "PDV", "ipdv": "IPDV"}
_TIMES: Final = ("min", "p0_1", "p1", "p50", "p90", "p99", "p99_9", "max", "stddev")
VARIATION_HEADINGS: Final = ("cell", "repeat", "stream", "of", "n", "undefined", *(HEADINGS[key] for key in _TIMES))
VARIATION_NAMES: Final = 4
"""The leading columns, which say whose figures they are."""
VARIATION_NUMBERS: Final = range(VARIATION_NAMES, len(VARIATION_HEADINGS))


def variation_rows(result: Result, metric: str) -> tuple[tuple[str, ...], ...]:
    """Rows of a metric, as many texts as HEADINGS, times in µs: PDV, then IPDV, of each cell, repetition and stream.

    Blank is what n cannot support, and low percentiles of PDV, which has one tail.
    """
    return tuple(_variation_rows(result, metric))


def _variation_rows(result: Result, metric: str) -> Iterator[tuple[str, ...]]:
    for cell in ordered_cells(result):
        for stream, block in cell.streams.items():
            measured = block.metrics.get(metric)
            found = measured.variation if measured else None
            for name, form in VARIATION_FORMS.items() if found else ():
                figures = getattr(found, name)
                whose = (cell_title(cell), str(cell.repeat), stream, form)
                counts = (whole(figures.n), whole(getattr(figures, "undefined", None)))
                yield (*whose, *counts, *(microseconds(getattr(figures, key, None)) for key in _TIMES))
