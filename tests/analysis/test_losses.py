"""Losses are distinguished by what was recorded of a packet after it was handed over."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from latlab.analysis.counts import losses_of, lost_sequences, silent_drops
from latlab.report.losses import lost_text
from latlab.result.types import Silent
from support.analysis.packets import packet_table

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
    assert silent_drops(packet_table([SILENT] * 4)) == Silent(count=4, first_sequence=0, last_sequence=3)


@pytest.mark.parametrize("row", HEARD_OF.values(), ids=HEARD_OF)
def test_what_was_heard_of_was_not_dropped_without_a_word(row: dict[str, Any]) -> None:
    assert silent_drops(packet_table([ARRIVED, row])) is None


def test_nothing_is_known_where_packets_arrive_without_a_timestamp_of_leaving() -> None:
    assert silent_drops(packet_table([{"rx_soft": 20}, SILENT])) is None


def drops(*rows: dict[str, Any]) -> pl.DataFrame:
    """Drops of stream 1 at tap0 of vmhost for FULL_RING, a nanosecond apart, with these changes."""
    usual = {"stream": 1, "reason": "FULL_RING", "device": "tap0", "ifindex": 4, "location": "tun_net_xmit"}
    whole = [{"tai_ns": n, **usual, "host": "vmhost", "watcher": "vmhost", **row} for n, row in enumerate(rows)]
    schema = {
        "tai_ns": pl.Int64,
        "stream": pl.UInt16,
        "sequence": pl.UInt64,
        "reason": pl.String,
        "device": pl.String,
        "ifindex": pl.UInt32,
        "location": pl.String,
        "host": pl.String,
        "watcher": pl.String,
    }
    return pl.DataFrame(whole, schema)


def test_lost_packets_have_the_place_and_the_reason_of_their_drop() -> None:
    packets = packet_table([{**LOST_ON_THE_WAY, "warmup": True}, *[LOST_ON_THE_WAY] * 4, ARRIVED])
    at_socket = {"reason": "SOCKET_RCVBUFF", "device": None, "location": "udp_queue_rcv_one_skb", "host": "ecu"}
    found = losses_of(
        [packets],
        drops(
            # Of the warm-up; of a packet whose copy arrived; of another stream.
            *({"sequence": 0}, {"sequence": 5}, {"sequence": 1, "stream": 2}),
            *({"sequence": 1}, {"sequence": 2}, {"sequence": 3, **at_socket}),
        ),
    )
    assert (found.lost, found.unplaced) == (4, 1)
    assert [(one.place, one.reason, one.packets) for one in found.places] == [
        ("at tap0 of vmhost", "FULL_RING", 2),
        ("in the socket buffer of ecu", "SOCKET_RCVBUFF", 1),
    ]
    assert lost_text(found) == (
        "4 lost: 2 at tap0 of vmhost (FULL_RING), 1 in the socket buffer of ecu (SOCKET_RCVBUFF), 1 at an unknown place"
    )


def test_of_several_drops_of_a_packet_that_of_a_flooded_copy_does_not_count() -> None:
    packets = packet_table([LOST_ON_THE_WAY, LOST_ON_THE_WAY])
    flooded = {"reason": "OTHERHOST", "device": "tap1"}
    found = losses_of(
        [packets],
        drops(
            {"sequence": 0, **flooded}, {"sequence": 0}, {"sequence": 0, "device": "eth9"}, {"sequence": 1, **flooded}
        ),
    )
    places = {one.place: one.reason for one in found.places}
    assert places == {"at tap0 of vmhost": "FULL_RING", "at tap1 of vmhost": "OTHERHOST"}


@pytest.mark.parametrize(
    ("drop", "place"),
    [
        ({"device": None}, "in tun_net_xmit() of vmhost"),
        ({"device": None, "location": None}, "at interface 4 of vmhost"),
        ({"device": None, "location": None, "ifindex": None, "host": None}, "in the kernel of vmhost"),
        ({"host": None, "reason": None}, "at tap0"),
    ],
)
def test_a_place_is_as_near_as_the_kernel_tells(drop: dict[str, Any], place: str) -> None:
    (one,) = losses_of([packet_table([LOST_ON_THE_WAY])], drops({"sequence": 0, **drop})).places
    assert one.place == place
