"""What a ptp4l said over time is read with its gaps, with our readings beside, and when streams ran by its clock."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from latlab.model.errors import LabError
from latlab.recordings.arrow import read_recording
from latlab.recordings.ptp_series import PtpSeries, read_ptp
from latlab.recordings.run_folder import CellFolder
from support.recordings import Row, recorded_cell, recording_bytes

GRANDMASTER = 0xA1B2C3FFFED4E5F6
FOLLOWING: Row = (1_000, 10, True, 9, -12, 900, 34, GRANDMASTER, 1, -1_500_000)
LISTENING: Row = (2_000, 20, True, 4, None, 900, None, GRANDMASTER, 1, -1_500_000)
SILENT: Row = (3_000, 30, False, 0, None, None, None, None, None, None)
BATCHES = [[FOLLOWING, LISTENING], [SILENT]]
PORT: dict[str, Any] = {"port": "ecu.eth0", "role": "slave", "clock": "/dev/ptp0", "master": "sensor.eth0"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ptp-ecu.eth0.ptp.arrow"


def test_rows_have_their_types_and_silence_is_null(path: Path) -> None:
    path.write_bytes(recording_bytes("ptp", BATCHES))
    series = read_recording(path, "ptp").table
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


def the_series(path: Path, port: dict[str, Any], **cell: Any) -> PtpSeries:
    (found,) = read_ptp(CellFolder(path.parent), recorded_cell([], ptp=[port], **cell))
    return found


def test_a_recording_that_was_cut_off_gives_its_whole_batches(path: Path) -> None:
    whole = recording_bytes("ptp", BATCHES)
    first = len(recording_bytes("ptp", BATCHES[:1])) - 8  # the end marker
    for cut, rows in ((0, 0), (100, 0), (first - 1, 0), (first, 2), (len(whole) - 9, 2), (len(whole) - 1, 3)):
        path.write_bytes(whole[:cut])
        found = the_series(path, PORT)
        assert found.rows.rows() == [FOLLOWING, LISTENING, SILENT][:rows], f"cut after {cut} bytes"
        assert not found.complete
    path.write_bytes(whole)
    assert the_series(path, PORT).complete


def test_another_table_is_refused(path: Path) -> None:
    path.write_bytes(recording_bytes("exchanges", [[(0, 1, 2, 3, 4)]]))
    with pytest.raises(LabError, match=r"latlab\.table = ptp"):
        the_series(path, PORT)


def test_streams_run_by_the_clock_of_the_ports_own_host(path: Path) -> None:
    path.write_bytes(recording_bytes("ptp", BATCHES))
    behind = -37 * 10**9 + 1_000_000
    assert the_series(path, PORT | {"start_tai_ns": behind}).window_ns == (behind, behind + 10_000)
    assert the_series(path, PORT).window_ns == (1_000_000, 1_010_000)
    assert the_series(path, PORT, start_tai_ns=0).window_ns is None


def test_where_nothing_was_started_there_are_no_rows_and_what_has_no_recording_is_passed_over(path: Path) -> None:
    found = the_series(path, PORT | {"absent": "vfio, for vm1: the card itself becomes the guest's"})
    assert found.rows.is_empty()
    assert "offset_ns" in found.rows.columns
    assert list(read_ptp(CellFolder(path.parent), recorded_cell([], ptp=[PORT]))) == []


def clock(here: str, there: str, offset_ns: int, half_ns: int) -> dict[str, Any]:
    """An entry of `clocks`: there's − here's."""
    bounds = {"lower_ns": offset_ns - half_ns, "upper_ns": offset_ns + half_ns, "windows": []}
    return {"from": here, "to": there, "source": "card", **bounds}


HOSTS_APART = clock("sensor", "ecu", 40_000, 500)
"""The slave's host is ahead of its master's."""
CARDS = [clock("sensor.eth0", "sensor", -3_000, 20), clock("ecu.eth0", "ecu", 5_000, 30)]
"""The master's card is 3 us ahead of its host's clock, the slave's 5 us behind."""


def ours(series: PtpSeries) -> set[tuple[int, int]]:
    return set(series.rows.select("our_offset_ns", "our_half_ns").rows())


def test_our_offset_is_the_slaves_card_less_the_masters_whatever_the_hosts_are_apart(path: Path) -> None:
    path.write_bytes(recording_bytes("ptp", BATCHES))
    assert ours(the_series(path, PORT, clocks=[HOSTS_APART, *CARDS])) == {(40_000 - 5_000 - 3_000, 500 + 20 + 30)}
    back = {"port": "sensor.eth0", "master": "ecu.eth0"}
    path.with_name("ptp-sensor.eth0.ptp.arrow").write_bytes(recording_bytes("ptp", BATCHES))
    assert ours(the_series(path, PORT | back, clocks=[HOSTS_APART, *CARDS])) == {(-32_000, 550)}


def test_where_the_systems_clock_is_turned_the_cards_have_no_part_in_it(path: Path) -> None:
    path.write_bytes(recording_bytes("ptp", BATCHES))
    assert ours(the_series(path, PORT | {"clock": None}, clocks=[HOSTS_APART, *CARDS])) == {(40_000, 500)}


@pytest.mark.parametrize(
    ("changes", "clocks"),
    [({}, CARDS), ({}, CARDS[:1]), ({"role": "observed"}, [HOSTS_APART, *CARDS]), ({"master": None}, [HOSTS_APART])],
    ids=["hosts that nothing joins", "a card that was not read", "observed", "somebody else's master"],
)
def test_what_no_reading_bounds_has_none_beside(path: Path, changes: dict[str, Any], clocks: list[Any]) -> None:
    path.write_bytes(recording_bytes("ptp", BATCHES))
    assert "our_offset_ns" not in the_series(path, PORT | changes, clocks=clocks).rows.columns
