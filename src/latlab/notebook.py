"""A finished run as polars tables: the door for notebooks and scripts, `latlab.load(run)`."""

from __future__ import annotations

import json
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from latlab.analysis.statistics import NAMES
from latlab.model.errors import UsageError, making_sense_of, reads_files
from latlab.recordings.packets import is_joined, join_cell
from latlab.recordings.run_folder import CellFolder, RunFolder
from latlab.result import Metric, Result, load_result

if TYPE_CHECKING:
    from latlab.report.charts.files import Chart


class Run:
    """A run's tables and charts. Durations are ns, instants TAI ns."""

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder

    def __repr__(self) -> str:
        return f"<latlab run {self.folder.id}>"

    @cached_property
    def result(self) -> Result:
        """The result, typed. LabError: the run was never analysed, or by another version of latlab."""
        return load_result(self.folder)

    @cached_property
    def cells(self) -> pl.DataFrame:
        """One row a repeat of a cell: slug, repeat, order, status, label, and a column for each matrix axis.

        An axis' value is text; where it is a list, its members joined by `+`.
        """
        return _cells(self.folder)

    def packets(self, slug: str | None = None, repeat: int | None = None) -> pl.DataFrame:
        """The packet tables of the chosen cells (None: all), below one another.

        Columns: `cell`, `repeat`, `stream_name`, then those of packets.parquet. A cell that was cut short
        before its table was built is joined from its recordings. Cells that never ran have no packets.
        UsageError: the run has no such cell.
        """
        chosen = [
            folder for folder in self.folder.cells() if slug in (None, folder.slug) and repeat in (None, folder.repeat)
        ]
        if not chosen:
            known = ", ".join(f"{folder.slug}/r{folder.repeat}" for folder in self.folder.cells())
            raise UsageError(
                f"no cell {slug or '(any)'}, repeat {repeat or '(any)'}",
                where=str(self.folder.path),
                remedy=f"this run has {known or 'no cells'}",
            )
        tables = [_packets(folder) for folder in chosen if _has_packets(folder)]
        return pl.concat(tables) if tables else pl.DataFrame()

    @cached_property
    def metrics(self) -> pl.DataFrame:
        """One row a cell, repeat, stream and metric, with every figure the result document has of it.

        A figure that was not supported is null. LabError as `result`.
        """
        with making_sense_of(self.folder.result_path):
            rows = [
                {"cell": cell.slug, "repeat": cell.repeat, "stream": stream, "metric": metric, **_figures(figures)}
                for cell in self.result.cells
                for stream, measured in cell.streams.items()
                for metric, figures in measured.metrics.items()
            ]
            return pl.DataFrame(rows, schema=_METRIC_COLUMNS)

    def chart(self, kind: str, stream: str | None = None, metric: str | None = None) -> Chart:
        """A chart of the report, which a notebook shows: the first of this kind, of this stream and metric if given.

        kind: "series", "ccdf", "repeats", "together", "chain", "comparison", "tail", "sweep", "clocks", "timers" or
        "gates". `figure()` gives it to matplotlib, `save("NAME.pdf")` writes it as PNG, SVG or PDF.
        UsageError: the run has no such chart. LabError as `result`.
        """
        from latlab.report.charts.files import KINDS, Charts

        found = next(Charts(self.folder, self.result).of(kind, stream, metric), None)
        if found is None:
            raise UsageError(
                f"no chart {' '.join(filter(None, (kind, stream, metric)))}",
                where=str(self.folder.path),
                remedy=f"kinds are {', '.join(KINDS)}; a chart exists if the result has its figures",
            )
        return found


def _figures(metric: Metric) -> dict[str, Any]:
    """The columns of _METRIC_COLUMNS that a metric has."""
    return {name: getattr(metric, "from_" if name == "from" else name) for name in _METRIC_COLUMNS.keys() - _PLACE}


def load(run: Path | str) -> Run:
    """The run in the folder `run`, or of that name in `runs/`. UsageError: there is none."""
    return Run(RunFolder.open(run))


_CELL_COLUMNS: dict[str, Any] = {
    "slug": pl.String,
    "repeat": pl.Int64,
    "order": pl.Int64,
    "status": pl.String,
    "label": pl.String,
}

_PLACE = {"cell", "repeat", "stream", "metric"}
_METRIC_COLUMNS: dict[str, Any] = {
    "cell": pl.String,
    "repeat": pl.Int64,
    **dict.fromkeys(("stream", "metric", "from", "to"), pl.String),
    **dict.fromkeys(("uncertainty_ns", "lost", "duplicated", "reordered", "missing"), pl.Int64),
    **dict.fromkeys(NAMES, pl.Int64),
    **dict.fromkeys(("mean", "stddev"), pl.Float64),
}


@reads_files
def _cells(run: RunFolder) -> pl.DataFrame:
    rows = []
    for folder in run.cells():
        cell = folder.cell()
        axes = {axis: _text(value) for axis, value in cell.cell.items()}
        rows.append({name: getattr(cell, name) for name in _CELL_COLUMNS} | axes)
    return pl.DataFrame(rows, schema=None if rows else _CELL_COLUMNS, infer_schema_length=None)


@reads_files
def _has_packets(folder: CellFolder) -> bool:
    cell = folder.cell()
    return folder.packets_path.exists() or any(
        (
            folder.recording("timer", stream.probe or stream.name, "timer")
            if stream.timer is not None
            else folder.recording("ping", stream.probe, "sent")
            if stream.probe
            else folder.recording("talk", stream.talker, "sent")
        ).exists()
        for stream in cell.streams
    )


@reads_files
def _packets(folder: CellFolder) -> pl.DataFrame:
    packets = folder.packets() if is_joined(folder) else join_cell(folder).packets
    names = {stream.stream: stream.name for stream in folder.cell().streams}
    return packets.select(
        pl.lit(folder.slug).alias("cell"),
        pl.lit(folder.repeat, pl.Int64).alias("repeat"),
        pl.col("stream").replace_strict(names, return_dtype=pl.String).alias("stream_name"),
        pl.all(),
    )


def _text(value: Any) -> str:
    if isinstance(value, list):
        return "+".join(map(_text, value))
    return value if isinstance(value, str) else json.dumps(value)
