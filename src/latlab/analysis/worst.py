"""Where the slowest packet of a stream lost its time: its latency as intervals that add up to it."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Final

import polars as pl

from latlab.analysis.way import HARDWARE_WAY, ROUND_TRIP_WAY, SOFTWARE_WAY

EXPLAINED: Final = ("latency", "latency_user", "round_trip")
"""The metrics whose slowest packet the result explains: those that go all the way."""

CHAINS_SHOWN: Final = (*EXPLAINED, "wakeup")
"""Those whose chains reports show; of `wakeup` only a timer's: a stream's is one interval."""

_HARDWARE_WAY: Final = tuple(name for name in HARDWARE_WAY if name != "rx_soft")
"""Delivery as the metric has it: from the NIC to the application, in one."""


def worst_packet(rows: pl.DataFrame, sequence: int, to: str) -> dict[str, Any]:
    """{"sequence", "intervals": [{"from", "to", "ns"}, …]} of one packet, from `launch` to the timestamp `to`.

    rows: the stream's rows of the packet table, which has one for each sequence, from 0. The intervals follow each
    other without a gap, as far as the packet has timestamps, so they add up to its latency exactly; one below zero is
    a thread that woke ahead of the launch time, or two clocks that differ.
    """
    packet = rows.row(sequence, named=True)
    way = _HARDWARE_WAY if to == "rx_hard" or packet["rx_hard_tai_ns"] is not None else SOFTWARE_WAY
    way = ROUND_TRIP_WAY if to == "answered" else way
    passed = [name for name in way[: way.index(to) + 1] if packet[f"{name}_tai_ns"] is not None]
    return {
        "sequence": sequence,
        "intervals": [
            {"from": start, "to": end, "ns": packet[f"{end}_tai_ns"] - packet[f"{start}_tai_ns"]}
            for start, end in pairwise(passed)
        ],
    }
