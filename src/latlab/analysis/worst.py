"""Where the slowest packet of a stream lost its time: its latency as intervals that add up to it."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Final

import polars as pl

WAY: Final = ("launch", "wake", "submit", "tx_sched", "tx_soft", "rx_soft", "rx_user")
"""A packet's way through the software's timestamps."""

HARDWARE_WAY: Final = ("launch", "wake", "submit", "tx_sched", "tx_soft", "tx_hard", "rx_hard", "rx_user")
"""The way of a latency that ends at, or passes, the listener's NIC."""

EXPLAINED: Final = ("latency", "latency_user")
"""The metrics that begin at `launch` and go along the way."""


def worst_packet(rows: pl.DataFrame, sequence: int, to: str) -> dict[str, Any]:
    """{"sequence", "intervals": [{"from", "to", "ns"}, …]} of one packet, from `launch` to the timestamp `to`.

    rows: the stream's rows of the packet table, which has one for each sequence, from 0. The intervals follow each
    other without a gap, as far as the packet has timestamps, so they add up to its latency exactly; one below zero is
    a thread that woke ahead of the launch time, or two clocks that differ.
    """
    packet = rows.row(sequence, named=True)
    way = HARDWARE_WAY if to == "rx_hard" or packet["rx_hard_tai_ns"] is not None else WAY
    passed = [name for name in way[: way.index(to) + 1] if packet[f"{name}_tai_ns"] is not None]
    return {
        "sequence": sequence,
        "intervals": [
            {"from": start, "to": end, "ns": packet[f"{end}_tai_ns"] - packet[f"{start}_tai_ns"]}
            for start, end in pairwise(passed)
        ],
    }
