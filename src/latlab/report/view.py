"""What a picture or a chart shows: one metric of one stream, all cells on the same axes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from latlab.analysis.axis import Axis, common_axis
from latlab.analysis.counts import counted
from latlab.analysis.losses import lost_sequences
from latlab.analysis.metrics import METRICS, METRICS_BY_NAME, metric_values
from latlab.data.run_folder import CellFolder, RunFolder
from latlab.report import rows
from latlab.report.legend import Key, Looks
from latlab.report.palette import Look
from latlab.report.places import cell_name
from latlab.report.text import bound

_BINS = 80
_FIRST_METRICS = ("latency", "latency_user")
METRIC_ORDER = (*_FIRST_METRICS, *(metric.name for metric in METRICS if metric.name not in _FIRST_METRICS))
"""The metrics in the order a reader wants them: the article's latency first, then the breakdown."""


@dataclass(frozen=True)
class Trace:
    """One cell's values of one metric, warm-up left out, by sequence. A lost packet has no value."""

    name: str
    slug: str
    repeat: int
    look: Look
    statistics: Mapping[str, Any]
    sequence: NDArray[np.int64]
    value_ns: NDArray[np.int64]
    lost_sequence: NDArray[np.int64]
    period_ns: int
    offset_ns: int

    def at_ns(self, sequence: NDArray[np.int64]) -> NDArray[np.int64]:
        """The launch times of these sequences in ns after the cell's start."""
        return self.offset_ns + sequence * self.period_ns

    @property
    def figures(self) -> str:
        """The figures a reader looks for first, in µs; those that the sample cannot support are left out.

        Behind them what the clocks may make them wrong by, unless both timestamps are of one clock, and how many
        packets are in none of them because nothing bounds their clocks.
        """
        shown = (column for column in rows.COLUMNS if column.key in _HEADLINE)
        figures = [f"{column.heading} {text}" for column in shown if (text := column.text(self.statistics))]
        uncertainty_ns = self.statistics["uncertainty_ns"]
        clocks = "" if uncertainty_ns == 0 else f"± {bound(uncertainty_ns)}"
        lacking = counted({"unbounded": rows.unbounded(self.statistics)})
        return "   ".join(filter(None, (*figures, clocks, lacking)))


@dataclass(frozen=True)
class View:
    """One metric of one stream. `span_ns`, `axis` and `edges_ns` are common: cells compare by eye.

    uncertainty: the largest ± of any cell in µs, with where it is known from. legend: what the cells' looks say.
    """

    stream: str
    metric: str
    title: str
    label: str
    uncertainty: str
    legend: tuple[Key, ...]
    traces: tuple[Trace, ...]
    axis: Axis
    span_ns: tuple[int, int]
    edges_ns: NDArray[np.int64]


def views(result: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Every (stream, metric) that has figures in the result, streams first, metrics in METRIC_ORDER."""
    return [
        (stream, metric)
        for stream in rows.stream_names(result)
        for metric in rows.metric_names(result, METRIC_ORDER)
        if _cells_with(result, stream, metric)
    ]


def view(folder: RunFolder, result: Mapping[str, Any], stream: str, metric: str) -> View:
    """The traces of every cell that has this stream and metric, in the order of the summary table."""
    looks = Looks(result)
    cells = _cells_with(result, stream, metric)
    traces = tuple(
        _trace(folder.cell(cell["slug"], cell["repeat"]), stream, metric, cell, looks.of(cell), cell_name(result, cell))
        for cell in cells
    )
    axis = common_axis([trace.value_ns for trace in traces])
    ends = [trace.at_ns(trace.sequence[[0, -1]]) for trace in traces if len(trace.sequence)]
    span = (int(min(first for first, _ in ends)), int(max(last for _, last in ends))) if ends else (0, 1)
    label = " or ".join(
        dict.fromkeys(rows.difference(trace.statistics["to"], trace.statistics["from"]) for trace in traces)
    )
    return View(
        stream=stream,
        metric=metric,
        title=METRICS_BY_NAME[metric].title,
        label=f"{metric} = {label}",
        uncertainty=rows.largest_uncertainty(rows.stream_rows(result, stream, metric)),
        legend=looks.legend(cells),
        traces=traces,
        axis=axis,
        span_ns=span,
        edges_ns=axis.edges(_BINS),
    )


_HEADLINE = frozenset({"min", "mean", "p50", "p99", "p99_9", "max", "n", "lost"})


def _cells_with(result: Mapping[str, Any], stream: str, metric: str) -> list[Mapping[str, Any]]:
    return [cell for cell in rows.ordered_cells(result) if metric in cell["streams"].get(stream, {}).get("metrics", {})]


def _trace(folder: CellFolder, stream: str, metric: str, outcome: Mapping[str, Any], look: Look, name: str) -> Trace:
    described = next(one for one in folder.cell()["streams"] if one["name"] == stream)
    of_stream = pl.col("stream") == described["stream"]
    packets = pl.scan_parquet(folder.packets_path).filter(of_stream).collect()
    values = metric_values(packets, METRICS_BY_NAME[metric], described["period_ns"])
    return Trace(
        name=name,
        slug=outcome["slug"],
        repeat=outcome["repeat"],
        look=look,
        statistics=outcome["streams"][stream]["metrics"][metric],
        sequence=np.empty(0, np.int64) if values is None else values.sequence.astype(np.int64),
        value_ns=np.empty(0, np.int64) if values is None else values.value_ns,
        lost_sequence=lost_sequences(packets),
        period_ns=described["period_ns"],
        offset_ns=described["offset_ns"],
    )
