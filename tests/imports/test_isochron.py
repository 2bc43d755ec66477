"""isochron's log file: every timestamp in its column, isochron's own figures reached, damage told."""

from __future__ import annotations

import re

import pytest

from latlab.model.errors import UsageError
from support.imports.files import CAPTURED, Importing, text
from support.imports.isochron import ADVANCE_NS, BASE_NS, CYCLE_NS, HEADER, RECEIVED, SENT, header, log, usual

SUMMED = {
    "Path delay": "path",
    "MAC latency": "lateness",
    "Wakeup latency": "wakeup",
    "Packets arrived later than scheduled. TX time to HW RX timestamp": "latency",
}


def test_a_packets_timestamps_are_in_the_columns_of_their_meaning(importing: Importing) -> None:
    row = importing("isochron.dat").packets.row(1, named=True)
    launch = BASE_NS + CYCLE_NS
    expected = {
        "launch": 0, "wake_due": -ADVANCE_NS, "wake": -150_000 + 91, "tx_sched": -120_000, "tx_soft": -90_000 + 40,
        "tx_hard": 520, "rx_hard": 7_517, "rx_soft": 9_100, "rx_user": 22_000,
    }  # fmt: skip
    assert {name: row[f"{name}_tai_ns"] - launch for name in expected} == expected
    assert row["submit_tai_ns"] is None  # isochron has no such timestamp
    assert (row["sequence"], row["send_error"], row["arrival"]) == (1, 0, 1)


def test_figures_are_those_that_isochron_itself_prints_of_complete_packets(importing: Importing) -> None:
    complete = usual(40)
    del complete[4], complete[9]
    found = importing(log(complete))
    for metric in SUMMED.values():
        assert found.figures("packets", metric)["missing"] == 0
    # Of the captured file isochron left two packets out: one that does not have a timestamp, and one that was lost.
    captured = importing("isochron.dat")
    own = captured.packets.drop_nulls(["tx_hard_tai_ns", "rx_hard_tai_ns", "rx_user_tai_ns"])
    spans = {
        "path": own["rx_hard_tai_ns"] - own["tx_hard_tai_ns"],
        "lateness": own["tx_hard_tai_ns"] - own["launch_tai_ns"],
        "wakeup": own["wake_tai_ns"] - own["wake_due_tai_ns"],
        "latency": own["rx_hard_tai_ns"] - own["launch_tai_ns"],
    }
    for name, metric in SUMMED.items():
        line = re.search(
            rf"^{re.escape(name)}: min (\S+) max (\S+) mean (\S+) stddev (\S+),", text("isochron-summary.txt"), re.M
        )
        assert line is not None
        least, most, mean, deviation = map(float, line.groups())
        values = spans[metric]
        assert (values.min(), values.max()) == (least, most)
        assert values.mean() == pytest.approx(mean, abs=0.001)
        assert values.std(ddof=0) == pytest.approx(deviation, abs=0.001)


def test_the_metrics_are_ours_and_what_relates_the_clocks_is_reported(importing: Importing) -> None:
    found = importing("isochron.dat")
    metrics = found.streams["packets"]["metrics"]
    assert set(metrics) == {"latency", "latency_user", "wakeup", "lateness", "path", "delivery", "arrival_offset"}
    assert metrics["latency"]["from"] == "launch"
    assert {name for name, one in metrics.items() if one["uncertainty_ns"] == 0} == {"wakeup", "arrival_offset"}
    assert ("untrusted", "the offset between the two clocks is not bounded") in found.checks


def test_a_bound_that_is_reported_is_every_two_clocked_figures_uncertainty(importing: Importing) -> None:
    found = importing("isochron.dat", clock_bound_ns=250)
    metrics = found.streams["packets"]["metrics"]
    assert {name for name, one in metrics.items() if one["uncertainty_ns"] == 250} == set(metrics) - {
        "wakeup",
        "arrival_offset",
    }
    assert found.streams["packets"]["clock"] == "given at the import"
    # A card's clock against its own host's is two clocks, too.
    said = {name: one.get("uncertainty_of") for name, one in metrics.items()}
    assert said["delivery"] == said["lateness"] == said["latency"] == "given at the import"
    assert said["wakeup"] is None
    assert not any("bounds" in finding for _, finding in found.checks)


def test_a_lost_packet_is_lost_and_a_missing_timestamp_missing(importing: Importing) -> None:
    found = importing("isochron.dat")
    counts = found.streams["packets"]["counts"]
    assert (counts["scheduled"], counts["sent"], counts["received"], counts["lost"]) == (40, 40, 39, 1)
    assert counts["reordered"] == 1  # the 21st came after the 22nd
    assert found.figures("packets", "lateness")["missing"] == 1
    worst = found.figures("packets", "latency")["worst"]
    assert worst["sequence"] == 20
    assert sum(one["ns"] for one in worst["intervals"]) == found.figures("packets", "latency")["max"]


def test_a_software_timestamp_that_is_not_there_is_not_37_seconds(importing: Importing) -> None:
    row = importing("isochron.dat").packets.row(12, named=True)
    assert row["rx_soft_tai_ns"] is None
    assert row["rx_hard_tai_ns"] is not None


def test_packets_that_were_never_sent_are_rows_and_not_lost(importing: Importing) -> None:
    found = importing(log([*usual(10), ({}, {}), ({}, {})], packet_count=12))
    counts = found.streams["packets"]["counts"]
    assert (counts["scheduled"], counts["sent"], counts["unsent"], counts["lost"]) == (12, 10, 2, 0)


@pytest.mark.parametrize("version", [1, 3, 5, 2**32 - 1])
def test_another_version_is_refused_by_its_number(importing: Importing, version: int) -> None:
    with pytest.raises(UsageError, match=rf"isochron log version {version}: latlab reads log version 4 \(isochron 0.6"):
        importing(log(usual(3), version=version))


@pytest.mark.parametrize(
    ("kept", "rows"),
    [
        (HEADER.size + 25 * SENT.size + 7, 25),
        (HEADER.size + 40 * SENT.size + 11 * RECEIVED.size + 1, 11),
    ],
    ids=["in the sender's log", "in the receiver's log"],
)
def test_a_file_that_was_cut_is_read_as_far_as_it_goes_and_that_is_reported(
    importing: Importing, kept: int, rows: int
) -> None:
    found = importing((CAPTURED / "isochron.dat").read_bytes()[:kept])
    assert found.packets.height == rows
    assert ("untrusted", "a file is cut short") in found.checks
    (reason,) = [one for one in found.result["reasons"] if one["finding"] == "a file is cut short"]
    assert f"{rows} of 40" in reason["actual"]
    assert reason["id"] == "file-whole"


def test_of_arrivals_nothing_is_claimed_where_the_receivers_log_is_missing(importing: Importing) -> None:
    found = importing((CAPTURED / "isochron.dat").read_bytes()[: HEADER.size + 40 * SENT.size])
    counts = found.streams["packets"]["counts"]
    assert (counts["sent"], counts["received"], counts["lost"]) == (40, None, None)
    assert set(found.streams["packets"]["metrics"]) == {"wakeup", "lateness"}


@pytest.mark.parametrize("length", range(0, HEADER.size, 13))
def test_a_header_that_is_not_whole_is_an_error(importing: Importing, length: int) -> None:
    with pytest.raises(UsageError, match=r"empty|header|recognised"):
        importing((CAPTURED / "isochron.dat").read_bytes()[:length])


def test_counts_that_no_file_can_hold_take_no_memory(importing: Importing) -> None:
    most = 2**32 - 1
    whole = log(usual(3))
    found = importing(header(most, 3, 3, send_log_size=most, rcv_log_size=most) + whole[HEADER.size :])
    assert found.packets.height <= 5
    with pytest.raises(UsageError, match="empty"):
        importing(header(3, 3, 3, send_log_start=2**64 - 1) + whole[HEADER.size :])
    with pytest.raises(UsageError, match="begin at byte 1, in the header"):
        importing(header(3, 3, 3, rcv_log_start=1) + whole[HEADER.size :])


def test_a_log_without_any_packet_sent_is_empty(importing: Importing) -> None:
    with pytest.raises(UsageError, match="empty"):
        importing(log([({}, {})] * 3))


def test_cards_whose_clocks_do_not_agree_are_told_of(importing: Importing) -> None:
    far = [(left, {name: ns + 37 * 10**9 for name, ns in came.items()}) for left, came in usual(5)]
    found = importing(log(far), clock_bound_ns=100)
    assert ("untrusted", "the two network cards' clocks are not synchronised") in found.checks


def test_what_happened_to_packets_is_looked_for_against_their_launch_times(importing: Importing) -> None:
    n, held, first = 3_000, 12, 2_000
    packets = usual(n)
    for k in range(first, first + held):
        # All that were launched meanwhile arrive with the last of them, one after the other.
        wait = (first + held - 1 - k) * CYCLE_NS + CYCLE_NS // 2 + 100 * (k - first)
        packets[k] = (packets[k][0], {"hwts": wait + 7_500, "swts": wait + 9_000, "arrival": wait + 21_000})
    found = importing(log(packets))
    (stall,) = found.streams["packets"]["anomalies"]["stall"]["shown"]
    assert (stall["from_sequence"], stall["to_sequence"]) == (first, first + held - 1)
    assert (
        "anomalies of packets are searched for against its launch times, 1 ms apart (the median of their differences)"
        in found.notes
    )


def test_packets_without_a_launch_time_are_not_compared_with_any(importing: Importing) -> None:
    found = importing("sockperf-under-load.csv")
    assert found.streams["server-0"]["anomalies"] is None
    assert not any("anomalies" in note for note in found.notes)
