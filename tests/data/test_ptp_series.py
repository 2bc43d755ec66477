"""What a ptp4l said over time is read with its gaps, also from a recording that was cut off."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from recorded import Row, recording_bytes

from latlab.data.ptp_series import read_ptp_series, with_silence
from latlab.errors import LabError

GRANDMASTER = 0xA1B2C3FFFED4E5F6
FOLLOWING: Row = (1_000, 10, True, 9, -12, 900, 34, GRANDMASTER, 1, -1_500_000)
LISTENING: Row = (2_000, 20, True, 4, None, 900, None, GRANDMASTER, 1, -1_500_000)
SILENT: Row = (3_000, 30, False, 0, None, None, None, None, None, None)
BATCHES = [[FOLLOWING, LISTENING], [SILENT]]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ptp-ecu.ptp.arrow"


def test_rows_have_their_types_and_silence_is_null(path: Path) -> None:
    path.write_bytes(recording_bytes("ptp", BATCHES))
    series = read_ptp_series(path, run_id="8f3c5e0d12ab34cd")
    assert series.rows() == [FOLLOWING, LISTENING, SILENT]
    assert series.schema == {
        "tai_ns": pl.Int64,
        "monotonic_ns": pl.Int64,
        "answered": pl.Boolean,
        "state": pl.UInt8,
        "offset_ns": pl.Int64,
        "ingress_ns": pl.Int64,
        "path_delay_ns": pl.Int64,
        "grandmaster": pl.UInt64,
        "steps_removed": pl.UInt16,
        "frequency_ppt": pl.Int64,
    }


def test_a_recording_that_was_cut_off_gives_its_whole_batches(path: Path) -> None:
    whole = recording_bytes("ptp", BATCHES)
    first = len(recording_bytes("ptp", BATCHES[:1])) - 8  # the end marker
    for cut, rows in ((0, 0), (100, 0), (first - 1, 0), (first, 2), (len(whole) - 9, 2), (len(whole) - 1, 3)):
        path.write_bytes(whole[:cut])
        assert read_ptp_series(path).rows() == [FOLLOWING, LISTENING, SILENT][:rows], f"cut after {cut} bytes"


def test_another_table_or_run_is_refused(path: Path) -> None:
    path.write_bytes(recording_bytes("exchanges", [[(0, 1, 2, 3, 4)]]))
    with pytest.raises(LabError, match=r"latlab\.table = ptp"):
        read_ptp_series(path)
    path.write_bytes(recording_bytes("ptp", BATCHES))
    with pytest.raises(LabError, match=r"latlab\.run_id"):
        read_ptp_series(path, run_id="0000000000000000")


def test_the_time_since_the_last_sync_counts_from_before_the_streams_and_through_silence() -> None:
    rows = pl.DataFrame({"tai_ns": [0, 10, 20, 30, 40, 50], "ingress_ns": [None, 7, 7, 8, None, 8]})
    assert with_silence(rows)["silent_ns"].to_list() == [None, 0, 10, 0, 10, 20]
