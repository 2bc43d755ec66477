"""What an agent's recording holds: an Arrow IPC stream, readable up to its last whole batch.

The columns are those of docs/reference/run-folder.md, "Recordings". A process that was killed leaves a stream without
its end marker, or with half a batch after the last whole one; both are read, and said. A batch that differs from its
checksum is left out, and said.
"""

from __future__ import annotations

import json
import re
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import polars as pl
import pyarrow as pa  # type: ignore[import-untyped]
from pyarrow import ipc

from latlab.model.errors import LabError, check_is_file, making_sense_of

FORMAT: Final = "1"
"""Recordings whose batches have no checksums: those of earlier agents."""
CHECKED_FORMAT: Final = "2"
"""Recordings whose batches have."""
DAMAGED: Final = "restore a complete copy, or remove its cell from the run: then the other cells can be reported"

TABLES_FILE: Final = Path(__file__).with_name("tables.json")
"""Each table's columns, in order, as `latlab-agent schema` prints them; `make reference` writes it."""


@dataclass(frozen=True)
class RecordedColumn:
    """A column of a recording, as the agent declares it (agent/wire/src/record.rs).

    type: as Arrow names it. nullable: it may be null. added: recordings of earlier agents may end before it; it is 0
    in all their rows, a timestamp null.
    """

    name: str
    type: str
    nullable: bool
    added: bool


COLUMNS: Final[dict[str, tuple[RecordedColumn, ...]]] = {
    table: tuple(RecordedColumn(**column) for column in columns)
    for table, columns in json.loads(TABLES_FILE.read_text(encoding="utf-8")).items()
}
SCHEMAS: Final[dict[str, pa.Schema]] = {
    table: pa.schema([(column.name, pa.type_for_alias(column.type)) for column in columns])
    for table, columns in COLUMNS.items()
}
"""The columns of each table, by name."""

# Arrow columnar format, "Encapsulated message format": a marker, then a metadata length; zero ends it.
_CONTINUATION: Final = b"\xff\xff\xff\xff"
_END_OF_STREAM: Final = _CONTINUATION + b"\x00\x00\x00\x00"
_PREFIX: Final = 8
_CHECKSUM: Final = b"latlab.crc32"
_DIGITS: Final = re.compile(rb"\x08\0{3}([0-9a-f]{8})\0")
"""What may be the checksum in a message's metadata, as flatbuffers lays out a string: its length, the text, a zero."""
_NO_DIGITS: Final = b"00000000"
_FIRST_ROW: Final = b"latlab.first_row"


@dataclass(frozen=True)
class RecordingGap:
    """Rows of a recording that are damaged or missing.

    batch: the number of the first batch that is, from 1. first_row: the first row, from 1. rows: how many; None: all
    up to the end, as no whole batch follows.
    """

    batch: int
    first_row: int
    rows: int | None


@dataclass(frozen=True)
class Recording:
    """A recording's rows and whether it was finished.

    table: every row of every whole batch, in file order, memory-mapped. complete: the end-of-stream marker
    was there, so nothing is missing from the end. metadata: the schema's `latlab.*` keys. gaps: what of it is damaged.
    """

    table: pl.DataFrame
    complete: bool
    metadata: dict[str, str]
    gaps: tuple[RecordingGap, ...] = ()


def read_recording(path: Path, table: str, *, run_id: str | None = None) -> Recording:
    """The recording at `path`, which must hold `table` (a key of SCHEMAS) of run `run_id` (None: of any run).

    An empty file, or one cut inside its header, gives no rows, complete = False and no metadata.
    LabError: there is no such file, or it holds another table, format or run, or no recording at all, or is damaged so
    that no row of it can be trusted.
    """
    check_is_file(path, DAMAGED)
    with making_sense_of(path, DAMAGED):
        return _read(path, table, run_id)


def _read(path: Path, table: str, run_id: str | None) -> Recording:
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        raise LabError(
            f"there is no recording of table {table!r}",
            where=str(path),
            remedy="the agent did not start, or its files were not fetched",
        ) from None
    if size == 0:
        return no_recording(table)
    with pa.memory_map(str(path)) as source:
        _check_beginning(path, source.read(len(_CONTINUATION)))
        source.seek(0)
        try:
            reader = ipc.open_stream(source)
        except (pa.ArrowInvalid, OSError):
            if _is_cut(bytes(source.read_at(size, 0))):
                return no_recording(table)
            raise LabError("its header is damaged, so no row can be read", where=str(path), remedy=DAMAGED) from None
        metadata = {
            key.decode(): value.decode()
            for key, value in (reader.schema.metadata or {}).items()
            if key.startswith(b"latlab.")
        }
        _check_identity(path, table, run_id, reader.schema, metadata)
        gaps: tuple[RecordingGap, ...] = ()
        if metadata["latlab.format"] == FORMAT:
            batches, complete, gaps = _whole_batches(source, reader)
        else:
            batches, complete, gaps = _checked_batches(source, reader)
    if gaps and not batches:
        raise LabError(
            "no row can be trusted: its header, or every batch, differs from its checksum",
            where=str(path),
            remedy=DAMAGED,
        )
    fields, recorded = list(SCHEMAS[table]), len(reader.schema)
    rows = pa.Table.from_batches(batches, pa.schema(fields[:recorded]))
    for field in fields[recorded:]:
        nothing = None if field.name.endswith("_ns") else 0
        rows = rows.append_column(field, pa.repeat(pa.scalar(nothing, field.type), rows.num_rows))
    return Recording(_frame(rows), complete, metadata, gaps)


def _whole_batches(
    source: pa.MemoryMappedFile, reader: ipc.RecordBatchStreamReader
) -> tuple[list[pa.RecordBatch], bool, tuple[RecordingGap, ...]]:
    """Every batch that is there to its last byte, whether the end-of-stream marker follows the last, and as a gap what
    follows the marker.
    """
    batches: list[pa.RecordBatch] = []
    end_of_last = source.tell()
    while True:
        try:
            batch = reader.read_next_batch()
            batch.validate()
        except StopIteration:
            source.seek(end_of_last)
            # The reader also stops at a plain end of file and at zeros, which a power cut leaves behind.
            if bytes(source.read(len(_END_OF_STREAM))) != _END_OF_STREAM:
                return batches, False, ()
            rows = sum(one.num_rows for one in batches)
            return (
                batches,
                True,
                (RecordingGap(len(batches) + 1, rows + 1, None),) if source.tell() < source.size() else (),
            )
        except (pa.ArrowInvalid, OSError):
            return batches, False, ()
        batches.append(pa.RecordBatch.from_arrays(batch.columns, names=batch.schema.names))
        end_of_last = source.tell()


def _checked_batches(
    source: pa.MemoryMappedFile, reader: ipc.RecordBatchStreamReader
) -> tuple[list[pa.RecordBatch], bool, tuple[RecordingGap, ...]]:
    """Every batch that agrees with its checksum, whether the file ends with the end-of-stream marker, and the gaps."""
    batches: list[pa.RecordBatch] = []
    gaps: list[RecordingGap] = []
    size, begins = source.size(), source.tell()
    of_schema = zlib.crc32(source.read_at(begins, 0))
    number, row, bad = 1, 0, None
    while size - begins > len(_END_OF_STREAM):
        ends = _end_of_message(source, begins, size)
        if ends is None:
            break
        source.seek(begins)
        if not _is_whole(source.read_buffer(ends - begins), of_schema):
            bad = bad or number
        else:
            source.seek(begins)
            found = reader.read_next_batch_with_custom_metadata()
            first_row = int(found.custom_metadata[_FIRST_ROW])
            if bad or first_row > row:
                gaps.append(RecordingGap(bad or number, row + 1, first_row - row))
            batches.append(pa.RecordBatch.from_arrays(found.batch.columns, names=found.batch.schema.names))
            row, bad = first_row + found.batch.num_rows, None
        number, begins = number + 1, ends
    rest = bytes(source.read_at(size - begins, begins))
    complete = rest.endswith(_END_OF_STREAM)
    if bad or (len(rest) > len(_END_OF_STREAM) and not _is_cut(rest)):
        gaps.append(RecordingGap(bad or number, row + 1, None))
    return batches, complete, tuple(gaps)


def _end_of_message(source: pa.MemoryMappedFile, begins: int, size: int) -> int | None:
    """Where the message ends that begins there; None: there is none, or not all of it."""
    if bytes(source.read_at(len(_CONTINUATION), begins)) != _CONTINUATION:
        return None
    source.seek(begins)
    try:
        ipc.read_message(source)
    except (EOFError, pa.ArrowException, OSError):
        return None
    ends = int(source.tell())
    return ends if begins < ends <= size else None


def _is_whole(message: pa.Buffer, of_schema: int) -> bool:
    """Whether a batch's message agrees with its checksum, which is of the schema's message, too."""
    metadata_ends = _PREFIX + int.from_bytes(message.slice(4, 4).to_pybytes(), "little")
    metadata = message.slice(0, metadata_ends).to_pybytes()
    return _CHECKSUM in metadata and any(_agrees(message, of_schema, digits) for digits in _DIGITS.finditer(metadata))


def _agrees(message: pa.Buffer, of_schema: int, digits: re.Match[bytes]) -> bool:
    begins, ends = digits.span(1)
    until_digits = zlib.crc32(_NO_DIGITS, zlib.crc32(message.slice(0, begins), of_schema))
    return zlib.crc32(message.slice(ends), until_digits) == int(digits[1], 16)


def _is_cut(rest: bytes) -> bool:
    """Whether bytes after the last whole batch are what a kill or a power cut leaves: a part of one batch, or zeros."""
    return not rest.strip(b"\0") or (
        (rest.startswith(_CONTINUATION) or _CONTINUATION.startswith(rest))
        and not rest.endswith(_END_OF_STREAM)
        and rest.count(_CHECKSUM) < 2
    )


def _check_beginning(path: Path, found: bytes) -> None:
    """Raise LabError unless the first bytes are a stream's, cut short, or the zeros of a power cut."""
    if not _CONTINUATION.startswith(found) and any(found):
        raise _wrong(path, "an Arrow IPC stream", f"a file that begins with {found!r}")


def _check_identity(path: Path, table: str, run_id: str | None, schema: pa.Schema, metadata: dict[str, str]) -> None:
    """Raise LabError unless the header says this format, this table, this run and its columns."""
    is_checked = metadata.get("latlab.format") == CHECKED_FORMAT
    expected = {"latlab.format": CHECKED_FORMAT if is_checked else FORMAT, "latlab.table": table}
    if run_id is not None:
        expected["latlab.run_id"] = run_id
    for key, value in expected.items():
        if metadata.get(key) != value:
            raise _wrong(path, f"{key} = {value}", f"{key} = {metadata.get(key, 'absent')}")
    found = [(field.name, field.type) for field in schema]
    wanted = [(field.name, field.type) for field in SCHEMAS[table]]
    known = range(sum(not column.added for column in COLUMNS[table]), len(wanted) + 1)
    if len(found) not in known or found != wanted[: len(found)]:
        raise _wrong(path, f"columns {_columns(SCHEMAS[table])}", f"columns {_columns(schema)}")


def _columns(schema: pa.Schema) -> str:
    return json.dumps({field.name: str(field.type) for field in schema})


def _wrong(path: Path, expected: str, actual: str) -> LabError:
    return LabError(
        f"not the expected recording: expected {expected}, found {actual}",
        where=str(path),
        remedy="use the latlab-agent of this latlab, and leave the files of a run in their own folder",
    )


def no_recording(table: str) -> Recording:
    """What is known of a recording that was never begun: the table without rows, not complete."""
    return Recording(_frame(SCHEMAS[table].empty_table()), complete=False, metadata={})


def _frame(table: pa.Table) -> pl.DataFrame:
    frame = pl.from_arrow(table, rechunk=False)  # rechunking would copy the mapped file into memory
    assert isinstance(frame, pl.DataFrame)
    return frame
