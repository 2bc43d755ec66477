"""Recordings and cells written as an agent and the lab write them."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
from pyarrow import ipc

from latlab.recordings.arrow import CHECKED_FORMAT, SCHEMAS
from latlab.recordings.cell import RecordedCell
from latlab.recordings.run import RecordedRun
from latlab.recordings.run_folder import CellFolder, RunFolder

RUN_ID = "8f3c5e0d12ab34cd"
Row = tuple[Any, ...]


def recording_bytes(table: str, batches: Iterable[Iterable[Row]], said: Mapping[str, str] | None = None) -> bytes:
    """A whole recording of `table`, a batch for each list of rows (values in the order of the columns).

    said: schema metadata other than usual, as {"latlab.run_id": …}.
    """
    usual = {"latlab.format": "1", "latlab.table": table, "latlab.run_id": RUN_ID, "latlab.agent": "0.1.0"}
    schema = SCHEMAS[table].with_metadata(usual | dict(said or {}))
    sink = pa.BufferOutputStream()
    with ipc.new_stream(sink, schema) as stream:
        for rows in batches:
            columns = list(zip(*rows, strict=True)) or [()] * len(schema)
            arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
            stream.write_batch(pa.record_batch(arrays, schema=schema))
    return bytes(sink.getvalue())


def rewrite_run(folder: RunFolder, *without: str, **changes: Any) -> None:
    """Write run.json again, with these keys otherwise, and without those that are named."""
    document = folder.run().document() | changes
    folder.write_run(RecordedRun.model_validate({key: document[key] for key in document if key not in without}))


def checked_bytes(table: str, batches: Iterable[Iterable[Row]]) -> bytes:
    """As recording_bytes, each batch with its checksum, as the agent writes it."""
    said = {"latlab.format": CHECKED_FORMAT, "latlab.table": table, "latlab.run_id": RUN_ID}
    schema = SCHEMAS[table].with_metadata(said)
    sink = pa.BufferOutputStream()
    messages, before = [schema.serialize().size], 0
    with ipc.new_stream(sink, schema) as stream:
        for rows in batches:
            arrays = [
                pa.array(column, field.type) for column, field in zip(zip(*rows, strict=True), schema, strict=True)
            ]
            batch = pa.record_batch(arrays, schema=schema)
            stream.write_batch(batch, custom_metadata={"latlab.crc32": "0" * 8, "latlab.first_row": str(before)})
            messages.append(sink.tell())
            before += batch.num_rows
    whole = bytearray(sink.getvalue())
    for begins, ends in pairwise(messages):
        sum_ = zlib.crc32(whole[begins:ends], zlib.crc32(whole[: messages[0]]))
        place = whole.index(b"0" * 8, begins, ends)
        whole[place : place + 8] = f"{sum_:08x}".encode()
    return bytes(whole)


def stream_of(number: int, **changes: Any) -> dict[str, Any]:
    """A stream as cell.json has it: 10 packets, one every 1000 ns, from sensor to ecu."""
    return {
        "name": f"stream{number}",
        "stream": number,
        "talker": "sensor",
        "listener": "ecu",
        "period_ns": 1000,
        "offset_ns": 0,
        "size": 64,
        "count": 10,
        "priority": 7,
        "transport": "udp",
        "vlan": None,
        "launch_time": None,
        **changes,
    }


def cell_document(streams: list[dict[str, Any]], **changes: Any) -> dict[str, Any]:
    """A cell.json that is in order, starting at TAI 1,000,000 ns, warm-up 2000 ns."""
    return {
        "format": "latlab.cell/1",
        "cell": {"loads": ["none"]},
        "slug": "loads=none",
        "repeat": 1,
        "order": 1,
        "status": "ok",
        "reason": None,
        "label": "measured",
        "run_id": RUN_ID,
        "start_tai_ns": 1_000_000,
        "warmup_ns": 2000,
        "duration_ns": 10_000,
        "streams": streams,
        "agents": [],
        "loads": [],
        "clocks": [],
        "steps": [],
        **changes,
    }


def recorded_cell(streams: list[dict[str, Any]], **changes: Any) -> RecordedCell:
    """The same as it is read."""
    return RecordedCell.model_validate(cell_document(streams, **changes))


TAI_MINUS_REAL = 37_000_000_000
CLOCKS = [
    (1_000_000, 1_000_000 - TAI_MINUS_REAL + 30, 500, 500, 60),
    (2_000_000, 2_000_000 - TAI_MINUS_REAL + 20, 1_000_500, 1_000_500, 40),
]


def write_cell(path: Path, cell: Mapping[str, Any], **tables: list[Row]) -> CellFolder:
    """A cell folder with sensor's and ecu's recordings; a table that is not given has no rows."""
    path.mkdir(parents=True, exist_ok=True)
    folder = CellFolder(path)
    folder.write_cell(dict(cell))
    for verb, host, table, fallback in (
        ("talk", "sensor", "sent", []),
        ("talk", "sensor", "stamps", []),
        ("talk", "sensor", "clocks", CLOCKS),
        ("listen", "ecu", "received", []),
        ("listen", "ecu", "clocks", CLOCKS),
    ):
        rows = tables.get(table, fallback)
        folder.recording(verb, host, table).write_bytes(recording_bytes(table, [rows]))
    return folder
