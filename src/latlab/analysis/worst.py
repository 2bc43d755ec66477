"""Where the slowest packet of a stream lost its time: its latency as intervals that add up to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

import polars as pl

from latlab.analysis.way import HARDWARE_WAY, ROUND_TRIP_WAY, SOFTWARE_WAY, WAKEUP_WAY
from latlab.result.types import Stage, WorstPacket

EXPLAINED: Final = ("latency", "latency_user", "round_trip")
"""The metrics whose slowest packet the result explains: those that go all the way."""

CHAINS_SHOWN: Final = (*EXPLAINED, "wakeup")
"""Those whose chains reports show; of `wakeup` only a timer's: a stream's is one interval."""

_HARDWARE_WAY: Final = tuple(name for name in HARDWARE_WAY if name != "rx_soft")
"""Delivery as the metric has it: from the NIC to the application, in one."""


def worst_packet(rows: pl.DataFrame, sequence: int, to: str) -> WorstPacket:
    """One packet and its stages, from `launch` to the timestamp `to`.

    rows: the stream's rows of the packet table, which has one for each sequence, from 0. The intervals follow each
    other without a gap, as far as the packet has timestamps, so they add up to its latency exactly; one below zero is
    a thread that woke ahead of the launch time, or two clocks that differ.
    """
    packet = rows.row(sequence, named=True)
    way = _HARDWARE_WAY if to == "rx_hard" or packet["rx_hard_tai_ns"] is not None else SOFTWARE_WAY
    way = ROUND_TRIP_WAY if to == "answered" else way
    return _explained(packet, way[: way.index(to) + 1])


def worst_instant(rows: pl.DataFrame, sequence: int) -> WorstPacket:
    """One instant of a timer and its stages: they add up to its lateness. rows: the timer's of the packet table."""
    return _explained(rows.row(sequence, named=True), WAKEUP_WAY)


def _explained(row: Mapping[str, Any], way: Sequence[str]) -> WorstPacket:
    at_ns = {name: row[f"{name}_tai_ns"] for name in way}
    passed = [name for name, ns in at_ns.items() if ns is not None]
    stages = [Stage(from_=start, to=end, ns=at_ns[end] - at_ns[start]) for start, end in pairwise(passed)]
    return WorstPacket(sequence=row["sequence"], intervals=stages)
