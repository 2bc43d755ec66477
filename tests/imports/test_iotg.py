"""Intel's sample-app-taprio and txrx-tsn: one way from the send call, on two clocks."""

from __future__ import annotations

import pytest

from latlab.model.errors import UsageError
from support.imports.files import Importing, text


def test_latencies_are_those_of_the_log_from_the_send_call(importing: Importing) -> None:
    found = importing("sample-app-taprio.log")
    figures = found.figures("priority-3", "sent_latency")
    assert (figures["n"], figures["min"], figures["max"]) == (49, 1_023_010, 1_023_500)
    assert set(found.streams["priority-3"]["metrics"]) == {"sent_latency"}
    assert found.result["verdict"] == "untrusted"


def test_a_sequence_number_that_is_missing_is_lost(importing: Importing) -> None:
    found = importing("sample-app-taprio.log")
    assert found.streams["priority-3"]["counts"]["lost"] == 1
    assert found.packets.filter(found.packets["arrival"].is_null())["sequence"].to_list() == [19]


def test_time_goes_on_by_the_gaps_between_packets(importing: Importing) -> None:
    came = importing("sample-app-taprio.log").packets["rx_hard_tai_ns"].drop_nulls().diff().drop_nulls()
    assert came.to_list()[:2] == [1_000_040, 1_000_000]
    assert came.max() == 2_000_040  # around the one that was lost


def test_a_packet_without_a_receive_timestamp_is_missing_not_three_years_early(importing: Importing) -> None:
    said = text("sample-app-taprio.log").replace("Latency = 1023050 ns", "Latency = -1700000000000000000 ns")
    figures = importing(said.encode()).figures("priority-3", "sent_latency")
    assert (figures["n"], figures["missing"], figures["min"]) == (48, 1, 1_023_010)


def test_priorities_are_streams(importing: Importing) -> None:
    said = text("sample-app-taprio.log")
    both = importing((said + said.replace("Priority 3", "Priority 5")).encode())
    assert set(both.streams) == {"priority-3", "priority-5"}


def test_what_its_own_queue_dropped_is_told_of(importing: Importing) -> None:
    found = importing((text("sample-app-taprio.log") + "msgsnd(): Message queue is full\n" * 3).encode())
    assert found.left_out() == {"packets": 3}


def test_its_graph_data_is_refused_with_the_reason(importing: Importing) -> None:
    with pytest.raises(UsageError, match=r"graph data: it repeats.*zrx.log"):
        importing(b"# <Time> <TSN-0 seq> <TSN-0 Latency> <TSN-0 Packet loss> 0.000000 0 0 0\n")


def test_txrx_tsn_has_the_applications_latency(importing: Importing) -> None:
    found = importing("txrx-tsn.txt")
    figures = found.figures("queue-5", "sent_latency_user")
    assert (figures["n"], figures["min"], figures["max"]) == (39, 80_100, 84_000)
    assert found.streams["queue-5"]["counts"]["lost"] == 1


def test_a_cards_timestamp_on_another_scale_is_kept_and_in_no_figure(importing: Importing) -> None:
    found = importing("txrx-tsn.txt")
    assert found.packets["rx_hard_tai_ns"].null_count() == 1  # that of the lost packet
    assert set(found.streams["queue-5"]["metrics"]) == {"sent_latency_user"}


def test_copies_and_restarts_are_left_out_and_counted(importing: Importing) -> None:
    said = text("txrx-tsn.txt")
    assert importing((said + said.splitlines()[5] + "\n").encode()).left_out() == {"packets": 1}


def test_numbers_that_leave_out_millions_make_no_rows(importing: Importing) -> None:
    first, *rest = text("txrx-tsn.txt").splitlines()
    far = first.replace("\t1\t5\t", "\t4000000000\t5\t")
    found = importing("\n".join([first, far, *rest]).encode())
    assert found.packets.height == 40
    assert found.streams["queue-5"]["counts"]["lost"] is None


def test_a_clock_that_was_stepped_is_told_of(importing: Importing) -> None:
    rows = [list(map(int, line.split("\t"))) for line in text("txrx-tsn.txt").splitlines()] * 3
    stepped = []
    for number, (_, _, queue, left, card, came) in enumerate(rows):
        moved, back = number * 1_000_000, 50_000_000 if number > 60 else 0
        left, card, came = 1_700_000_000 * 10**9 + moved, card, 1_700_000_000 * 10**9 + moved + came - left + back
        stepped.append(f"{came - left}\t{number + 1}\t{queue}\t{left}\t{card}\t{came}")
    assert ("suspect", "a clock was stepped, or a queue remained full") in importing("\n".join(stepped).encode()).checks


def test_differences_that_were_printed_unsigned_are_below_zero(importing: Importing) -> None:
    found = importing("txrx-negative.txt")
    figures = found.figures("queue-2", "sent_latency_user")
    assert (figures["n"], figures["min"], figures["max"], figures["lost"]) == (12, -1_300, 1_200, 0)
    assert found.left_out() == {}
    assert not any("first column" in note for note in found.notes)


def test_blanks_that_a_terminal_made_of_tabs_are_read(importing: Importing) -> None:
    found = importing(text("txrx-tsn.txt").replace("\t", "    ").encode())
    assert found.figures("queue-5", "sent_latency_user")["n"] == 39
