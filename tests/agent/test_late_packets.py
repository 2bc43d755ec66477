"""A talker held up is late for its launch times: what becomes of those packets is recorded of each."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from latlab.recordings.packets import join_cell
from support.agent.bed import Bed
from support.agent.process import tai_ns
from support.agent.streams import MS, Measured, Measurement, Stream

LEAD_NS = 20 * MS
HELD_UP_NS = 300 * MS
NOT_LATE, REPORTED, MOVED, DROPPED = range(4)


def measure_held_up(bed: Bed, folder: Path, clock: str = "tai", **late: Any) -> Measured:
    """A stream whose talker was stopped for a while. Nothing on the cable goes by launch times: packets go at once."""
    launch = {"lead_ns": LEAD_NS, "clock": clock, "deadline": False, **late}
    measurement = Measurement(bed, folder, [Stream(count=700, launch_time=launch)])
    measurement.begin()
    while tai_ns() < measurement.start_tai_ns + 100 * MS:
        time.sleep(0.005)
    measurement.talker.signal(signal.SIGSTOP)
    measurement.talker.wait_until_stopped()
    time.sleep(HELD_UP_NS / 1e9)
    measurement.talker.signal(signal.SIGCONT)
    return measurement.end(complete=False)


def of_kind(measured: Measured, late: int) -> pl.DataFrame:
    """The packets that were so late."""
    return measured.packets.filter(pl.col("late") == late)


def total(measured: Measured, counter: str) -> int:
    """A counter of the talker's."""
    (stream,) = measured.talked["streams"]
    return int(stream[counter])


def test_what_is_late_goes_as_it_is_unless_told_otherwise(bed: Bed, tmp_path: Path) -> None:
    measured = measure_held_up(bed, tmp_path)
    reported = of_kind(measured, REPORTED)
    assert reported.height == total(measured, "launch_late") >= (HELD_UP_NS - LEAD_NS) // MS - 1
    assert (reported["submit_tai_ns"] > reported["launch_tai_ns"]).all()
    assert measured.packets["arrival"].null_count() == 0
    assert total(measured, "sent") == 700


def test_what_is_late_is_dropped_and_what_comes_after_it_is_sent(bed: Bed, tmp_path: Path) -> None:
    measured = measure_held_up(bed, tmp_path, late="drop")
    dropped = of_kind(measured, DROPPED)
    assert dropped.height == total(measured, "unsent_late") >= (HELD_UP_NS - LEAD_NS) // MS - 1
    assert total(measured, "sent") + dropped.height == 700
    assert dropped["arrival"].null_count() == dropped["send_error"].null_count() == dropped.height
    handed_over = of_kind(measured, NOT_LATE)
    assert handed_over["arrival"].null_count() == 0
    assert (handed_over["submit_tai_ns"] <= handed_over["launch_tai_ns"]).all()
    # The wake-up that made them late is reported with them.
    assert max(dropped["wake_tai_ns"] - dropped["wake_due_tai_ns"]) >= HELD_UP_NS - 2 * MS


@pytest.mark.parametrize("clock", ["tai", "monotonic", "realtime"])
def test_what_is_late_is_sent_up_to_the_allowed_lateness(bed: Bed, tmp_path: Path, clock: str) -> None:
    policy = {"late": "send", "allowed_lateness_ns": 100 * MS, "margin_ns": MS}
    measured = measure_held_up(bed, tmp_path, clock, **policy)
    dropped, moved = of_kind(measured, DROPPED), of_kind(measured, MOVED)
    assert dropped.height == total(measured, "unsent_late") >= (HELD_UP_NS - LEAD_NS) // MS - 101
    assert moved.height == total(measured, "launch_moved") > 0
    lateness = moved["submit_tai_ns"] - moved["launch_tai_ns"]
    assert lateness.is_between(-MS, 100 * MS).all()
    assert moved["arrival"].null_count() == 0
    # They say when they were meant to leave: latency counts from there.
    assert (moved["rx_soft_tai_ns"] - moved["launch_tai_ns"] >= lateness).all()
    assert {seen.launch_mismatched for seen in join_cell(measured.folder).findings.values()} == {0}
