"""Timers in the packet table: one row an instant that was due, whether its thread came to it or not.

Columns of their own are `irq_tai_ns` and `overdue`; launch and planned wake are the instant. All of it is of one clock.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any, Final

import numpy as np
import polars as pl

from latlab.data.recording_findings import RecordingFindings
from latlab.data.recordings import no_recording, read_recording
from latlab.data.run_folder import CellFolder

_VERB: Final = "timer"
_TAKEN: Final = ("irq_tai_ns", "wake_tai_ns", "overdue")


def timer_tables(
    folder: CellFolder, cell: Mapping[str, Any], findings: MutableMapping[str, RecordingFindings]
) -> Iterator[pl.DataFrame]:
    """The rows of each timer of cell.json; what was seen of their recordings is put into findings.

    LabError: a recording is not of this run.
    """
    for stream in cell["streams"]:
        if "timer" not in stream:
            continue
        path = folder.recording(_VERB, stream["probe"], _VERB)
        recording = read_recording(path, _VERB, run_id=cell["run_id"]) if path.exists() else no_recording(_VERB)
        found = findings[path.name.removesuffix(".arrow")] = RecordingFindings(
            rows=recording.table.height, complete=recording.complete
        )
        yield _rows(stream, int(cell["start_tai_ns"]), int(cell["warmup_ns"]), recording.table, found)


def _rows(
    stream: Mapping[str, Any], cell_start_ns: int, warmup_ns: int, recorded: pl.DataFrame, found: RecordingFindings
) -> pl.DataFrame:
    start_ns = int(stream.get("start_tai_ns") or cell_start_ns)
    n = np.arange(int(stream["count"]), dtype=np.int64)
    due_ns = n * int(stream["period_ns"]) + (start_ns + int(stream["offset_ns"]))
    due = pl.DataFrame(
        {
            "stream": np.full(len(n), stream["stream"], np.uint16),
            "sequence": n.astype(np.uint64),
            "launch_tai_ns": due_ns,
            "wake_due_tai_ns": due_ns,
            "launch_error": np.zeros(len(n), np.uint8),
            "late": np.zeros(len(n), np.uint8),
            "warmup": due_ns < start_ns + warmup_ns,
        }
    )
    came = recorded.filter(pl.col("stream") == stream["stream"]).rename({"woke_tai_ns": "wake_tai_ns"})
    first = came.unique("sequence", keep="first", maintain_order=True)
    joined = due.join(first.select("sequence", "due_tai_ns", *_TAKEN), on="sequence", how="left", maintain_order="left")
    found.stray = recorded.height - joined["wake_tai_ns"].count()
    moved = pl.col("due_tai_ns") != pl.col("launch_tai_ns")
    found.launch_mismatched = int(joined.select(moved.sum()).item())
    return joined.drop("due_tai_ns")
