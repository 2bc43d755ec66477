"""RTC-Testbench: its last statistics, its frames where the log has them, its histogram."""

from __future__ import annotations

import pytest

from latlab.model.errors import UsageError
from support.imports.files import Importing, text


def test_the_last_line_counts_since_it_counts_from_the_start(importing: Importing) -> None:
    figures = importing("rtc-testbench.log").figures("TsnHigh", "round_trip")
    assert (figures["n"], figures["min"], figures["mean"], figures["max"]) == (2997, 1_412_000, 1_532_250, 1_905_000)
    assert (figures["p50"], figures["uncertainty_ns"]) == (None, 1_000)


def test_stamps_padded_by_spaces_are_read_too(importing: Importing) -> None:
    older = text("rtc-testbench.log").replace(".000000123]", ".      123]")
    found = importing(older.encode())
    assert found.left_out() == {}
    assert found.figures("TsnHigh", "round_trip")["n"] == 2997


def test_one_way_is_of_two_clocks_and_may_be_below_zero(importing: Importing) -> None:
    found = importing("rtc-testbench.log")
    figures = found.figures("TsnHigh", "sent_latency_user")
    assert (figures["min"], figures["max"], figures["uncertainty_ns"]) == (-3_000, 712_000, None)
    assert ("untrusted", "the offset between the two clocks is not bounded") in found.checks


def test_a_class_without_a_value_has_no_figures(importing: Importing) -> None:
    assert set(importing("rtc-testbench.log").streams) == {"TsnHigh"}


def test_statistics_that_were_reset_begin_another_run(importing: Importing) -> None:
    lines = text("rtc-testbench.log").splitlines()
    found = importing("\n".join([*lines, lines[0]]).encode())
    assert found.of_runs("TsnHigh", "round_trip", "n") == [2997, 998]


def test_frames_of_a_reference_are_round_trips_of_single_frames(importing: Importing) -> None:
    found = importing("rtc-testbench-debug.log")
    figures = found.figures("TsnHigh-frames", "round_trip")
    # Frame k was sent at k ms and came back at k + 2 ms and 400 + k + 2 µs.
    assert (figures["n"], figures["min"], figures["max"]) == (57, 2_402_000, 2_459_000)
    assert found.streams["TsnHigh-frames"]["counts"]["lost"] == 1
    assert found.left_out() == {"frames": 2}
    assert found.packets["submit_tai_ns"].null_count() == found.packets.height  # stamped after the send call


def test_a_mirrors_frames_are_no_round_trips(importing: Importing) -> None:
    swapped = (
        text("rtc-testbench-debug.log")
        .replace("] sent", "] x")
        .replace("received", "sent")
        .replace("] x", "] received")
    )
    with pytest.raises(UsageError, match="empty: there is no statistics"):
        importing(swapped.encode())


def test_a_batch_of_frames_is_its_frames(importing: Importing) -> None:
    batch = "[1700000000.000000000]: [DEBUG]: Rtc: 3 frames[0] sent\n" + "".join(
        f"[1700000000.{400 + k:03d}000000]: [DEBUG]: Rtc: frame[{k}] received\n" for k in range(3)
    )
    figures = importing(batch.encode()).figures("Rtc-frames", "round_trip")
    assert (figures["n"], figures["min"], figures["max"]) == (3, 400_000_000, 402_000_000)


def test_its_histogram_gives_percentiles_to_a_microsecond(importing: Importing) -> None:
    figures = importing("rtc-histogram.txt").figures("TsnHigh", "round_trip")
    assert figures["n"] == 1000  # 999 in bins, one beyond
    assert figures["bins"]["p50"] == [1_501_000, 1_502_000]
    assert figures["bins"]["p99"] == [1_502_000, 1_503_000]
    assert (figures["min"], figures["max"], figures["mean"]) == (1_500_000, None, None)  # the largest lies beyond
    assert importing("rtc-histogram.txt").figures("TsnLow", "round_trip")["min"] is None  # two lie below


def test_another_version_of_the_histogram_is_refused_by_name(importing: Importing) -> None:
    said = text("rtc-histogram.txt").replace("'5.5'", "'6.0'")
    with pytest.raises(UsageError, match=r"RTC-Testbench 6\.0: latlab reads the histograms of RTC-Testbench 5"):
        importing(said.encode())


def test_a_histogram_that_was_cut_is_told_of(importing: Importing) -> None:
    found = importing(text("rtc-histogram.txt").split("Overflow")[0].encode())
    assert ("untrusted", "a file is cut short") in found.checks


def test_frames_under_way_are_not_lost(importing: Importing) -> None:
    found = importing("rtc-under-way.log")
    assert found.figures("TsnHigh", "round_trip")["lost"] is None
    assert any(
        "2 frames not returned when the log ends" in note and "at most 2 are lost" in note for note in found.notes
    )
    assert not any("lost" in finding for _, finding in found.checks)


def test_more_than_can_be_under_way_is_lost(importing: Importing) -> None:
    found = importing(text("rtc-under-way.log").replace("Received=4998", "Received=4500").encode())
    assert ("suspect", "frames were lost") in found.checks


def test_frames_that_are_all_back_are_not_lost(importing: Importing) -> None:
    assert importing("rtc-oneway-wrapped.log").figures("TsnHigh", "round_trip")["lost"] == 0


def test_one_way_times_that_wrapped_are_left_out_with_the_reason(importing: Importing) -> None:
    found = importing("rtc-oneway-wrapped.log")
    assert set(found.streams["TsnHigh"]["metrics"]) == {"round_trip"}
    assert found.figures("TsnHigh", "round_trip")["max"] == 1_903_000
    assert any("times below 0 wrap" in one.why for one in found.found.left_out)


def test_histogram_rows_out_of_order_are_a_reason(importing: Importing) -> None:
    lines = text("rtc-histogram.txt").splitlines()
    place = next(number for number, line in enumerate(lines) if line.startswith("00001501"))
    lines[place], lines[place + 1] = lines[place + 1], lines[place]
    found = importing("\n".join(lines).encode())
    assert ("untrusted", "rows are out of order, or appear twice") in found.checks
