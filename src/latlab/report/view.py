"""What a picture or a chart shows: one metric of one stream, all cells on the same axes."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import polars as pl
from numpy.typing import NDArray

from latlab.analysis.axis import Axis, common_axis
from latlab.analysis.counts import counted, lost_sequences
from latlab.analysis.metrics import metric_values
from latlab.analysis.way import filled_launches, round_trips
from latlab.model.metrics import METRIC_ORDER, METRICS_BY_NAME
from latlab.recordings.cell import RecordedStream
from latlab.recordings.run_folder import CellFolder, RunFolder
from latlab.recordings.slots import has_schedule
from latlab.report import rows
from latlab.report.charts.sheet import Look
from latlab.report.legend import Key, Looks
from latlab.report.marks import Marks, marks_of
from latlab.report.text import bound
from latlab.result.places import cell_name
from latlab.result.types import Cell, Metric, Result

_BINS = 80


@dataclass(frozen=True)
class ValueTrace:
    """One cell's values of one metric, warm-up left out, by sequence. A lost packet has no value.

    launch_ns: of what has no schedule, int64 by sequence, ns after the cell's start; None: offset + sequence × period.
    launched: the first and the last sequence after the warm-up, int64 [2], values or none; empty where there is none.
    marks: what is marked in its series: of what happened on the metric's part of the way.
    """

    name: str
    slug: str
    repeat: int
    look: Look
    statistics: Metric
    sequence: NDArray[np.int64]
    value_ns: NDArray[np.int64]
    lost_sequence: NDArray[np.int64]
    period_ns: int
    offset_ns: int
    marks: Marks
    launch_ns: NDArray[np.int64] | None = None
    launched: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))

    def at_ns(self, sequence: NDArray[np.int64]) -> NDArray[np.int64]:
        """The launch times of these sequences in ns after the cell's start."""
        if self.launch_ns is not None:
            return self.launch_ns[sequence]
        return self.offset_ns + sequence * self.period_ns

    @property
    def figures(self) -> str:
        """The figures a reader looks for first, in µs; those that the sample cannot support are left out.

        Behind them what the clocks may make them wrong by, unless both timestamps are of one clock, and how many
        packets are in none of them because nothing bounds their clocks.
        """
        shown = (column for column in rows.COLUMNS if column.key in _HEADLINE)
        figures = [f"{column.heading} {text}" for column in shown if (text := column.text(self.statistics))]
        uncertainty_ns = self.statistics.uncertainty_ns
        clocks = "" if uncertainty_ns == 0 else f"± {bound(uncertainty_ns)}"
        lacking = counted({"unbounded": self.statistics.unbounded})
        return "   ".join(filter(None, (*figures, clocks, lacking)))


@dataclass(frozen=True)
class View:
    """One metric of one stream. `span_ns`, `axis` and `edges_ns` are common: cells compare by eye.

    uncertainty: the largest ± of any cell in µs, with where it is known from. legend: what the cells' looks say.
    thing: what each value is of, "packet" or a timer's "instant". each: what a trace is.
    """

    stream: str
    metric: str
    thing: str
    title: str
    label: str
    uncertainty: str
    legend: tuple[Key, ...]
    traces: tuple[ValueTrace, ...]
    axis: Axis
    span_ns: tuple[int, int]
    edges_ns: NDArray[np.int64]
    each: str = "cell"


def views(result: Result) -> list[tuple[str, str]]:
    """Every (stream, metric) that has figures in the result, streams first, metrics in METRIC_ORDER."""
    return [
        (stream, metric)
        for stream in rows.stream_names(result)
        for metric in result.metric_names(METRIC_ORDER)
        if _cells_with(result, stream, metric)
    ]


def view(folder: RunFolder, result: Result, stream: str, metric: str) -> View:
    """The traces of every cell that has this stream and metric, in the order of the summary table."""
    looks = Looks(result)
    cells = _cells_with(result, stream, metric)
    traces = tuple(
        _trace(folder.cell(cell.slug, cell.repeat), stream, metric, cell, looks.of(cell), cell_name(result, cell))
        for cell in cells
    )
    axis = common_axis([trace.value_ns for trace in traces])
    label = " or ".join(dict.fromkeys(rows.difference(trace.statistics.to, trace.statistics.from_) for trace in traces))
    return View(
        stream=stream,
        metric=metric,
        thing=rows.thing(cells[0].streams[stream]),
        title=METRICS_BY_NAME[metric].title,
        label=f"{metric} = {label}",
        uncertainty=rows.largest_uncertainty(rows.stream_rows(result, stream, metric)),
        legend=looks.legend(cells),
        traces=traces,
        axis=axis,
        span_ns=_span_ns(traces),
        edges_ns=axis.edges(_BINS),
    )


_HEADLINE = frozenset({"min", "mean", "p50", "p99", "p99_9", "max", "n", "lost"})


def _cells_with(result: Result, stream: str, metric: str) -> list[Cell]:
    """The cells whose packets have the metric. Imported figures of which no packet is known have nothing to draw, nor
    has a stream of which nothing arrived.
    """
    figures = [(cell, cell.figures(stream, metric)) for cell in rows.ordered_cells(result)]
    return [cell for cell, one in figures if one and not one.kept and not one.nothing_arrived]


def _span_ns(traces: tuple[ValueTrace, ...]) -> tuple[int, int]:
    """The time axis: the launches of all values; where no packet has one, of all packets, as marks stand at them."""
    valued = [trace.at_ns(trace.sequence[[0, -1]]) for trace in traces if len(trace.sequence)]
    ends = valued or [trace.at_ns(trace.launched) for trace in traces if len(trace.launched)]
    return (int(min(first for first, _ in ends)), int(max(last for _, last in ends))) if ends else (0, 1)


def _trace(folder: CellFolder, stream: str, metric: str, outcome: Cell, look: Look, name: str) -> ValueTrace:
    described, packets = _packets(folder, stream)
    values = metric_values(packets, METRICS_BY_NAME[metric], described.period_ns)
    return ValueTrace(
        name=name,
        slug=outcome.slug,
        repeat=outcome.repeat,
        look=look,
        statistics=outcome.streams[stream].metrics[metric],
        sequence=np.empty(0, np.int64) if values is None else values.sequence.astype(np.int64),
        value_ns=np.empty(0, np.int64) if values is None else values.value_ns,
        lost_sequence=lost_sequences(packets),
        period_ns=described.period_ns or 0,
        offset_ns=described.offset_ns,
        marks=marks_of(outcome.streams[stream], described, folder.cell()).seen_in(metric),
        launch_ns=None if has_schedule(described) else _launches(described, packets),
        launched=_ends(packets["sequence"].slice(int(packets["warmup"].sum()))),  # warm-up comes first
    )


def _ends(sequence: pl.Series) -> NDArray[np.int64]:
    return sequence[[0, -1]].to_numpy().astype(np.int64) if len(sequence) else np.empty(0, np.int64)


def _packets(folder: CellFolder, stream: str) -> tuple[RecordedStream, pl.DataFrame]:
    """A stream of cell.json and its rows of the packet table; of a probe its questions', with their answers."""
    streams = {one.name: one for one in folder.cell().streams}
    if stream in streams:
        return streams[stream], folder.packets(streams[stream].stream)
    up, down = (streams[f"{stream}.{leg}"] for leg in ("up", "down"))
    return up, round_trips(folder.packets(up.stream), folder.packets(down.stream))


def _launches(described: RecordedStream, packets: pl.DataFrame) -> NDArray[np.int64]:
    """When the packets were launched, ns after the start, never going back; of a tool's, after its first."""
    own = packets["launch_tai_ns"]
    start = described.start_tai_ns or 0
    if own.null_count() == len(own):
        own = packets["submit_tai_ns"]
        start = own.min() or 0  # type: ignore[assignment]
    if own.null_count() == len(own):
        return np.zeros(len(own), np.int64)
    found: NDArray[np.int64] = np.maximum.accumulate(filled_launches(own) - int(start))
    return found
