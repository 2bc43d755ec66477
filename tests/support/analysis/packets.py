"""Packet tables small enough to check by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from latlab.analysis.summary import summarise_cell
from latlab.model.timestamps import RECORDED
from latlab.recordings.cell import RecordedCell
from latlab.result.types import Stream
from support.results import partial

SCHEMA: dict[str, Any] = {
    "stream": pl.UInt16,
    "sequence": pl.UInt64,
    **{one.column: pl.Int64 for one in RECORDED},
    "arrival": pl.UInt64,
    "send_error": pl.Int32,
    "launch_error": pl.UInt8,
    "late": pl.UInt8,
    "warmup": pl.Boolean,
}

PERIOD_NS = 1000


def packet_table(rows: Sequence[Mapping[str, Any]], stream: int = 1) -> pl.DataFrame:
    """One stream's packet table, a row for each mapping of short names to values.

    Packet n launches at n × 1000; timestamps are relative to that. Unless told otherwise it was sent, arrived
    next, and is no warm-up; `arrival` None: it was lost; `send_error` None: it was never handed over.
    """
    table: list[dict[str, Any]] = []
    for n, row in enumerate(rows):
        whole: dict[str, Any] = dict.fromkeys(SCHEMA) | {
            "stream": stream,
            "sequence": n,
            "launch_tai_ns": n * PERIOD_NS,
        }
        arrived = sum(earlier["arrival"] is not None for earlier in table)
        whole |= {"arrival": arrived, "send_error": 0, "launch_error": 0, "late": 0, "warmup": False}
        for name, value in row.items():
            stamp = f"{name}_tai_ns"
            whole[stamp if stamp in SCHEMA else name] = value + n * PERIOD_NS if stamp in SCHEMA else value
        table.append(whole)
    return pl.DataFrame(table, schema=SCHEMA)


def cell_document(**changes: Any) -> dict[str, Any]:
    """A cell.json that is in order: one stream `control`, from sensor to ecu, every 1000 ns."""
    stream = {
        "name": "control", "stream": 1, "talker": "sensor", "listener": "ecu", "period_ns": PERIOD_NS,
        "offset_ns": 0, "size": 64, "count": 10, "launch_time": None,
    }  # fmt: skip
    return {
        "cell": {"loads": ["none"]}, "slug": "loads=none", "repeat": 1, "order": 1, "status": "ok",
        "reason": None, "label": "measured", "duration_ns": 1_000_000_000, "streams": [stream], "agents": [],
        "loads": [],
        "clocks": [{"from": "sensor", "to": "ecu", "source": "one kernel", "lower_ns": 0, "upper_ns": 0}],
        **changes,
    }  # fmt: skip


def recorded_cell(**changes: Any) -> RecordedCell:
    """The same as it is read."""
    return partial(RecordedCell, cell_document(**changes))


def changed(cell: RecordedCell, **changes: Any) -> RecordedCell:
    """The cell with other values of these keys."""
    made = partial(RecordedCell, changes)
    return cell.model_copy(update={name: getattr(made, name) for name in changes})


def result_streams(cell: RecordedCell, packets: pl.DataFrame | None) -> dict[str, Stream]:
    """The streams of the cell's result, but for what they were measured on."""
    return summarise_cell(cell, packets).streams
