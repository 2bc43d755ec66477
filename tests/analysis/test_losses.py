"""Losses are told apart by what was heard of a packet after it was handed over."""

from __future__ import annotations

from typing import Any

import pytest
from tables import packet_table

from latlab.analysis.losses import Silent, lost_sequences, silent_drops

ARRIVED = {"tx_soft": 10, "rx_soft": 20}
LOST_ON_THE_WAY = {"tx_soft": 10, "arrival": None}
SILENT = {"arrival": None}
HEARD_OF = {
    "said to be invalid": {"arrival": None, "launch_error": 1},
    "said to be missed": {"arrival": None, "launch_error": 2},
    "refused by the send call": {"arrival": None, "send_error": 105},
    "never handed over": {"arrival": None, "send_error": None},
    "seen leaving by the kernel": LOST_ON_THE_WAY,
    "seen leaving by the card": {"tx_hard": 10, "arrival": None},
    "arrived": ARRIVED,
}


def test_what_nothing_was_heard_of_was_dropped_without_a_word() -> None:
    packets = packet_table([ARRIVED, SILENT, LOST_ON_THE_WAY, SILENT, {**SILENT, "warmup": True}, ARRIVED])
    assert silent_drops(packets) == Silent(count=3, first_sequence=1, last_sequence=4)
    assert lost_sequences(packets).tolist() == [1, 2, 3]


def test_a_stream_of_which_nothing_is_heard_at_all_was_dropped_without_a_word() -> None:
    assert silent_drops(packet_table([SILENT] * 4)) == Silent(4, 0, 3)


@pytest.mark.parametrize("row", HEARD_OF.values(), ids=HEARD_OF)
def test_what_was_heard_of_was_not_dropped_without_a_word(row: dict[str, Any]) -> None:
    assert silent_drops(packet_table([ARRIVED, row])) is None


def test_nothing_is_known_where_packets_arrive_without_a_timestamp_of_leaving() -> None:
    assert silent_drops(packet_table([{"rx_soft": 20}, SILENT])) is None
