"""A recording is readable up to its last whole batch, and is what it says it is."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from pathlib import Path
from unittest import mock

import polars as pl
import pyarrow as pa  # type: ignore[import-untyped]
import pytest

from latlab.model.errors import LabError
from latlab.recordings.arrow import SCHEMAS, RecordingGap, read_recording
from support.recordings import Row, checked_bytes, recording_bytes

Written = Callable[[str, Iterable[Iterable[Row]]], bytes]

BATCHES = [[(1, 0, 0, 100), (1, 1, 1, 200)], [(1, 2, 0, 300)], [(2, 0, 1, 0xFFFFFFFF)]]
ROWS_AFTER = [0, 2, 3, 4]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "talker-sensor.stamps.arrow"


def test_a_whole_recording_is_read_and_is_complete(path: Path) -> None:
    path.write_bytes(recording_bytes("stamps", BATCHES))
    recording = read_recording(path, "stamps", run_id="8f3c5e0d12ab34cd")
    assert recording.complete
    assert recording.table.rows() == [row for batch in BATCHES for row in batch]
    assert recording.metadata["latlab.agent"] == "0.1.0"


@pytest.mark.slow
@pytest.mark.parametrize("written", [recording_bytes, checked_bytes], ids=["plain", "checked"])
def test_a_recording_cut_at_any_byte_gives_the_batches_before_the_cut(path: Path, written: Written) -> None:
    whole = written("stamps", BATCHES)
    # What each prefix of the batches takes: the end marker is 8 bytes.
    ends = [len(written("stamps", BATCHES[:n])) - 8 for n in range(len(BATCHES) + 1)]
    expected = [row for batch in BATCHES for row in batch]
    for cut in range(len(whole) + 1):
        path.write_bytes(whole[:cut])
        recording = read_recording(path, "stamps")
        batches = sum(cut >= end for end in ends[1:])
        assert recording.table.rows() == expected[: ROWS_AFTER[batches]], f"cut after {cut} bytes"
        assert recording.complete == (cut == len(whole)), f"cut after {cut} bytes"
        assert recording.gaps == (), f"cut after {cut} bytes"
        assert recording.table.columns == SCHEMAS["stamps"].names


def test_any_flipped_bit_of_a_checked_recording_is_seen(path: Path) -> None:
    whole = checked_bytes("stamps", BATCHES)
    expected = [row for batch in BATCHES for row in batch]
    seen = set()
    for bit in sorted(random.Random(1).sample(range(8 * len(whole)), 500)):
        path.write_bytes(flipped(whole, bit))
        try:
            found = read_recording(path, "stamps")
        except LabError as error:
            assert str(error).startswith(str(path)), f"bit {bit}"
            seen.add("error")
            continue
        assert found.gaps or not found.complete, f"bit {bit}"
        assert found.table.rows() == without(expected, found.gaps), f"bit {bit}"
        seen.add("gap" if found.gaps else "no end")
    assert seen == {"error", "gap", "no end"}


def without(rows: list[Row], gaps: Iterable[RecordingGap]) -> list[Row]:
    """The rows that are in none of the gaps."""
    ends = {gap: len(rows) if gap.rows is None else gap.first_row + gap.rows - 1 for gap in gaps}
    return [row for n, row in enumerate(rows, 1) if not any(gap.first_row <= n <= end for gap, end in ends.items())]


@pytest.mark.parametrize(
    ("damaged", "gaps"),
    [
        ([1], [RecordingGap(1, 1, 2)]),
        ([2], [RecordingGap(2, 3, 1)]),
        ([1, 2], [RecordingGap(1, 1, 3)]),
        ([1, 3], [RecordingGap(1, 1, 2), RecordingGap(3, 4, None)]),
    ],
)
def test_a_damaged_batch_is_left_out_and_its_rows_are_named(
    path: Path, damaged: list[int], gaps: list[RecordingGap]
) -> None:
    ends = [len(checked_bytes("stamps", BATCHES[:n])) - 8 for n in range(len(BATCHES) + 1)]
    data = checked_bytes("stamps", BATCHES)
    for batch in damaged:
        data = flipped(data, 8 * ends[batch] - 700)
    path.write_bytes(data)
    found = read_recording(path, "stamps")
    assert (found.complete, list(found.gaps)) == (True, gaps)
    assert found.table.rows() == without([row for batch in BATCHES for row in batch], gaps)


def test_a_batch_that_was_taken_out_is_a_gap(path: Path) -> None:
    ends = [len(checked_bytes("stamps", BATCHES[:n])) - 8 for n in range(len(BATCHES) + 1)]
    data = checked_bytes("stamps", BATCHES)
    path.write_bytes(data[: ends[1]] + data[ends[2] :])
    assert read_recording(path, "stamps").gaps == (RecordingGap(2, 3, 1),)


def test_a_damaged_batch_of_a_recording_without_its_end_is_told_from_the_cut(path: Path) -> None:
    ends = [len(checked_bytes("stamps", BATCHES[:n])) - 8 for n in range(len(BATCHES) + 1)]
    data = checked_bytes("stamps", BATCHES)[:-20]
    # The third bit of the metadata's length: where the second batch ends is not known, but that others follow is.
    path.write_bytes(flipped(data, 8 * (ends[1] + 4) + 2))
    found = read_recording(path, "stamps")
    assert (found.complete, found.gaps) == (False, (RecordingGap(2, 3, None),))


def flipped(data: bytes, bit: int) -> bytes:
    """The bytes with one bit the other way round."""
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def test_a_flipped_bit_gives_rows_or_one_error_that_names_the_file(path: Path) -> None:
    whole = recording_bytes("stamps", BATCHES)
    for bit in range(0, 8 * len(whole), 13):
        path.write_bytes(flipped(whole, bit))
        try:
            read_recording(path, "stamps")
        except LabError as error:
            assert str(error).startswith(str(path)), f"bit {bit}"


def test_zeros_after_the_last_batch_are_no_end_marker(path: Path) -> None:
    path.write_bytes(recording_bytes("stamps", BATCHES)[:-8] + bytes(4096))
    recording = read_recording(path, "stamps")
    assert recording.table.height == 4
    assert not recording.complete


def test_a_recording_of_zeros_has_no_rows(path: Path) -> None:
    path.write_bytes(bytes(4096))
    assert read_recording(path, "stamps").table.height == 0


def test_an_empty_recording_has_the_tables_columns(path: Path) -> None:
    path.touch()
    recording = read_recording(path, "stamps")
    assert recording.table.schema == {
        "stream": pl.UInt16,
        "sequence": pl.UInt64,
        "kind": pl.UInt8,
        "stamp_ns": pl.Int64,
    }
    assert not recording.complete


def test_what_earlier_agents_did_not_record_of_a_packet_is_0(path: Path) -> None:
    earlier = pa.schema(list(SCHEMAS["sent"])[:-1])
    with mock.patch.dict(SCHEMAS, sent=earlier):
        path.write_bytes(recording_bytes("sent", [[(1, 0, 5, 4, 6, 7, 0)], [(1, 1, 6, 5, 7, 8, 105)]]))
    recording = read_recording(path, "sent")
    assert recording.complete
    assert recording.table.columns == SCHEMAS["sent"].names
    assert recording.table["late"].to_list() == [0, 0]
    assert recording.table["error"].to_list() == [0, 105]


def test_a_missing_timestamp_is_null(path: Path) -> None:
    path.write_bytes(recording_bytes("received", [[(1, 0, 5, None, 6, 7)]]))
    assert read_recording(path, "received").table.row(0) == (1, 0, 5, None, 6, 7)


@pytest.mark.parametrize(
    ("said", "expected", "actual"),
    [
        ({"latlab.format": "3"}, "latlab.format = 1", "latlab.format = 3"),
        ({"latlab.table": "sent"}, "latlab.table = stamps", "latlab.table = sent"),
        ({"latlab.run_id": "ffff"}, "latlab.run_id = 8f3c", "latlab.run_id = ffff"),
    ],
)
def test_another_format_table_or_run_is_refused(path: Path, said: dict[str, str], expected: str, actual: str) -> None:
    path.write_bytes(recording_bytes("stamps", BATCHES, {"latlab.run_id": "8f3c", **said}))
    with pytest.raises(LabError) as error:
        read_recording(path, "stamps", run_id="8f3c")
    assert all(part in str(error.value) for part in (path.name, expected, actual))


def test_a_file_that_is_no_recording_is_refused_by_its_name(path: Path) -> None:
    path.write_text("sequence,stamp\n")
    with pytest.raises(LabError, match=path.name):
        read_recording(path, "stamps")


def test_a_recording_that_is_not_there_is_an_error_with_its_name(path: Path) -> None:
    with pytest.raises(LabError, match=path.name):
        read_recording(path, "stamps")
