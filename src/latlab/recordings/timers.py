"""Timers in the packet table: one row an instant that was due, whether its thread woke for it or not.

Additional columns are `irq_tai_ns` and `overdue`; launch and planned wake are the instant. All of it is of one clock.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from typing import Final

import numpy as np
import polars as pl

from latlab.recordings.arrow import Recording, no_recording, read_recording
from latlab.recordings.cell import RecordedCell, RecordedStream
from latlab.recordings.recording_findings import Readings, RecordingFindings, drop_impossible, stated_rows
from latlab.recordings.run_folder import CellFolder
from latlab.recordings.slots import PacketColumn, after_last

_VERB: Final = "timer"
_TAKEN: Final = ("irq_tai_ns", "wake_tai_ns", "overdue")


def timer_tables(
    folder: CellFolder, cell: RecordedCell, findings: MutableMapping[str, RecordingFindings]
) -> Iterator[pl.DataFrame]:
    """The rows of each timer of cell.json; what was seen of their recordings is put into findings.

    LabError: a recording is not of this run.
    """
    stated = stated_rows(cell)
    for stream in cell.streams:
        if stream.timer is None:
            continue
        probe = stream.probe or stream.name
        recording, found = _read(folder, cell, probe, _VERB, stated, findings)
        clocks, read = _read(folder, cell, probe, "clocks", stated, findings)
        readings = Readings.of(clocks.table, whole=read.complete and not read.is_short)
        yield _rows(stream, cell, recording.table, found, readings)


def _read(
    folder: CellFolder,
    cell: RecordedCell,
    timer: str,
    table: str,
    stated: Mapping[str, int],
    findings: MutableMapping[str, RecordingFindings],
) -> tuple[Recording, RecordingFindings]:
    path = folder.recording(_VERB, timer, table)
    known = path.exists()
    recording = read_recording(path, table, run_id=cell.run_id) if known else no_recording(table)
    name = path.name.removesuffix(".arrow")
    found = findings[name] = RecordingFindings.of(recording, present=known, stated=stated.get(name))
    return recording, found


def _rows(
    stream: RecordedStream,
    cell: RecordedCell,
    recorded: pl.DataFrame,
    found: RecordingFindings,
    readings: Readings,
) -> pl.DataFrame:
    start_ns = cell.start_of(stream)
    n = np.arange(stream.count or 0, dtype=np.int64)
    due_ns = n * (stream.period_ns or 0) + (start_ns + stream.offset_ns)
    due = pl.DataFrame(
        {
            "stream": np.full(len(n), stream.stream, np.uint16),
            "sequence": n.astype(np.uint64),
            "launch_tai_ns": due_ns,
            "wake_due_tai_ns": due_ns,
            "launch_error": np.zeros(len(n), np.uint8),
            "late": np.zeros(len(n), np.uint8),
            "warmup": due_ns < start_ns + cell.warmup_ns,
        }
    )
    came = recorded.filter(pl.col("stream") == stream.stream).rename({"woke_tai_ns": "wake_tai_ns"})
    first = came.unique("sequence", keep="first", maintain_order=True)
    joined = due.join(first.select("sequence", "due_tai_ns", *_TAKEN), on="sequence", how="left", maintain_order="left")
    found.stray = recorded.height - joined["wake_tai_ns"].count()
    moved = pl.col("due_tai_ns") != pl.col("launch_tai_ns")
    found.launch_mismatched = int(joined.select(moved.sum()).item())
    known = joined["wake_tai_ns"].is_not_null().to_numpy()
    missing = np.zeros(len(n), np.bool_)
    if found.is_short or not found.complete:
        missing = ~known if found.is_short else ~known & after_last(known)
    marked = joined.drop("due_tai_ns").with_columns(unknown=pl.Series(missing.astype(np.uint8)))
    return _possible(stream.stream, marked, found, readings)


def _possible(stream: int, rows: pl.DataFrame, found: RecordingFindings, readings: Readings) -> pl.DataFrame:
    """The rows without instants that cannot be; what they were stands among the findings."""
    columns = {name: PacketColumn.of(rows[name]) for name in ("wake_due_tai_ns", "irq_tai_ns", "wake_tai_ns")}
    here = drop_impossible(columns, slice(0, rows.height), ("wake", "irq"), readings, due=True)
    found.impossible += [one.of(stream) for one in here]
    return rows.with_columns(column.series(name) for name, column in columns.items()) if here else rows
