"""Of a flight recorder's trace only the windows are known: all else is lost, and is said to be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl
import pytest

from latlab.analysis.interrupts import AWAKE, EVENTS_LOST, LOST, SWITCH, WAKING, lost_between, wakings
from latlab.recordings.run_folder import CellFolder
from latlab.recordings.traces import read_traces, separated, within
from support.recordings import TAI_MINUS_REAL, recording_bytes, stream_of

READER = 4711
SCHEMA = {
    "tai_ns": pl.Int64,
    "cpu": pl.UInt16,
    "event": pl.UInt8,
    "flags": pl.UInt8,
    "preempt": pl.UInt8,
    "pid": pl.Int32,
    "subject": pl.Int64,
    "detail": pl.Int64,
}
KEPT = {"from_tai_ns": pl.Int64, "to_tai_ns": pl.Int64, "whole": pl.Boolean}


def woken(at: int, cpu: int = 0) -> list[tuple[Any, ...]]:
    """The reader is woken, runs 100 later, and sleeps 50 after that."""
    return [
        (at, cpu, WAKING, 1, 1, 0, READER, 0),
        (at + 100, cpu, SWITCH, 1, 1, 0, READER, 0),
        (at + 150, cpu, SWITCH, 1, 1, READER, 0, 1),
    ]


def trace(*events: list[tuple[Any, ...]]) -> pl.DataFrame:
    return pl.DataFrame([row for rows in events for row in rows], schema=SCHEMA, orient="row")


def kept(*windows: tuple[int, int, bool]) -> pl.DataFrame:
    return pl.DataFrame(windows, schema=KEPT, orient="row")


def waits(*spans: tuple[int, int]) -> pl.DataFrame:
    return pl.DataFrame(spans, schema={"from_tai_ns": pl.Int64, "to_tai_ns": pl.Int64}, orient="row")


def test_what_is_within_a_window_is_known_and_what_is_between_two_is_lost() -> None:
    rows = separated(trace(woken(2_100), woken(9_100, cpu=1)), kept((9_000, 10_000, True), (2_000, 3_000, True)))
    asked = [(2_050, 2_220), (2_900, 3_100), (4_000, 4_100), (9_050, 9_220), (9_900, 9_999), (10_001, 10_500)]
    begin, end = (pl.Series([one[place] for one in asked]).to_numpy() for place in (0, 1))
    assert lost_between(rows, begin, end).tolist() == [False, True, True, False, False, True]
    told = wakings(waits((2_050, 2_220), (9_050, 9_220), (4_000, 4_500)), rows, READER)
    assert told["waking_tai_ns"].to_list() == [2_100, 9_100, None]
    assert told["why"].to_list() == [None, None, EVENTS_LOST]


def test_a_thread_that_went_to_sleep_in_an_earlier_window_may_have_been_woken_since() -> None:
    rows = separated(trace(woken(2_100)), kept((2_000, 3_000, True), (9_000, 10_000, True)))
    assert wakings(waits((9_200, 9_300)), rows, READER)["why"].to_list() == [AWAKE]


def test_windows_that_touch_are_one() -> None:
    rows = separated(trace(woken(2_950)), kept((2_000, 3_000, True), (3_001, 4_000, True)))
    assert wakings(waits((2_900, 3_200)), rows, READER)["waking_tai_ns"].to_list() == [2_950]


def test_a_window_that_is_not_whole_tells_nothing_and_its_packets_are_counted() -> None:
    windows = kept((2_000, 3_000, False), (9_000, 10_000, True))
    rows = separated(trace(woken(2_100), woken(9_100)), windows)
    told = wakings(waits((2_050, 2_220), (9_050, 9_220)), rows, READER)
    assert told["why"].to_list() == [EVENTS_LOST, None]
    packets = pl.DataFrame(
        {
            "rx_soft_tai_ns": [2_050, None, 5_000, 9_990, 2_500 - 10**9, 2_500 - 10**9 + 1],
            "rx_user_tai_ns": [2_220, 9_220, 5_100, 10_001, 2_500, 2_500],
        }
    )
    # The last but one took longer than any window is: that of its end is its own.
    assert within(windows, packets).to_list() == [True, True, False, False, True, False]


@pytest.mark.parametrize("windows", [kept(), kept((2_000, 3_000, False))])
def test_where_no_window_is_whole_all_is_lost(windows: pl.DataFrame) -> None:
    rows = separated(trace(), windows)
    assert set(rows["event"]) <= {LOST}
    packets = pl.DataFrame({"rx_soft_tai_ns": [2_050], "rx_user_tai_ns": [2_220]})
    assert within(windows, packets).to_list() == [bool(windows.height)]
    if windows.height:
        assert wakings(waits((2_050, 2_220)), rows, READER)["why"].to_list() == [EVENTS_LOST]


def test_a_listeners_packets_are_those_of_its_windows(make_cell: Callable[..., CellFolder]) -> None:
    def packet(sequence: int) -> tuple[Any, ...]:
        at = sequence * 1_000_000
        return 1, sequence, at, None, at + 400 - TAI_MINUS_REAL, at + 700

    ready = {"realtime": {"tid": READER}, "tai_offset_s": 37}
    judged = {"judged": 4, "late": 1, "typical": 0, "unjudged": 0}
    counted = {"windows": 1, "overran": 0, "overwritten": 80}
    agents = [
        {"host": "ecu", "verb": "listen", "ready": ready, "done": {"judged": judged}},
        {"host": "ecu", "verb": "trace", "ready": {}, "done": {"events": 3, "lost": 0, "kept": counted}},
    ]
    packets = [packet(number) for number in range(4)]
    folder = make_cell([stream_of(1)], {"agents": agents, "warmup_ns": 0}, received=packets)
    at = 2_000_000
    for table, rows in (
        ("trace", woken(at + 500)),
        ("tasks", []),
        ("kept", [(at - 1_000, at + 1_700, True)]),
    ):
        folder.recording("trace", "ecu", table).write_bytes(recording_bytes(table, [rows] if rows else []))
    (found,) = read_traces(folder, folder.cell())
    assert found.received["sequence"].to_list() == [2]
    assert found.judged is not None
    assert (found.judged.late, found.kept and found.kept.windows) == (1, 1)
    told = wakings(waits((at + 400, at + 700)), found.trace, READER)
    assert told["waking_tai_ns"].to_list() == [at + 500]
