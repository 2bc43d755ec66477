"""The anomalies of a cell's streams, found with all that is on record next to their packets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import polars as pl

from latlab.analysis.anomalies import Anomalies, Context, find_anomalies
from latlab.analysis.anomalies.context import ClockStep, HostRecord
from latlab.analysis.anomalies.parts import one_way_stamps
from latlab.analysis.counts import is_no_packets, leg_counts, stream_rows
from latlab.analysis.gate_port import GatePort
from latlab.analysis.way import with_every_launch
from latlab.recordings.cell import RecordedCell, RecordedStream


@dataclass(frozen=True)
class ClockSeries:
    """Something about two clocks over time, and what says it: a port of PTP's, or what compared them.

    rows: as the field of `Context` has them that it is handed over as.
    """

    rows: pl.DataFrame
    of: str


@dataclass(frozen=True)
class StreamRecords:
    """What is on record next to a stream's packets; None or empty where there is nothing.

    ptp: what PTP says that the listener's clock is ahead of the talker's. systems: the same by our own comparison of
    the two hosts' clocks, which software timestamps are corrected by; cards: that of the clocks of the two network
    cards, which hardware timestamps are not. steps: of the hosts'
    own clocks, as their readings show. hosts: what facts say.
    """

    ptp: ClockSeries | None = None
    systems: ClockSeries | None = None
    cards: ClockSeries | None = None
    steps: tuple[ClockStep, ...] = ()
    hosts: tuple[HostRecord, ...] = ()


NOTHING: Final = StreamRecords()


def cell_anomalies(
    cell: RecordedCell,
    packets: pl.DataFrame,
    ports: Sequence[GatePort] = (),
    beside: Mapping[str, StreamRecords] | None = None,
) -> dict[str, Anomalies]:
    """{stream: its anomalies}, of cell.json's streams that have a schedule.

    ports: those with a gate schedule; beside: {stream: records}. Without a period there is nothing to hold packets
    against: in a closed loop what delays one delays all that follow; and a tool says nothing of when its were due. A
    timer's instants are no packets.
    """
    found = {}
    for stream in cell.streams:
        rows = stream_rows(packets, stream.stream)
        if is_no_packets(stream) or stream.period_ns is None or rows["launch_tai_ns"].null_count() == rows.height:
            continue
        counts = leg_counts(cell, stream, rows)
        known = (beside or {}).get(stream.name, NOTHING)
        context = context_of(stream, rows, ports, counts["duplicated"], known)
        found[stream.name] = find_anomalies(with_every_launch(rows), context)
    return found


def context_of(
    stream: RecordedStream, rows: pl.DataFrame, ports: Sequence[GatePort], duplicated: int, beside: StreamRecords
) -> Context:
    """What is known of a stream next to its rows."""
    leaves = ((port, flow) for port in ports for flow in port.flows if flow.name == stream.name)
    port, flow = next(leaves, (None, None))
    hardware = one_way_stamps(rows) == ("tx_hard", "rx_hard")
    compared = beside.cards if hardware else beside.systems
    series = None if compared is None else compared.rows
    return Context(
        stream.period_ns or 0,
        port,
        flow,
        ptp=None if beside.ptp is None else beside.ptp.rows,
        ptp_of="" if beside.ptp is None else beside.ptp.of,
        clocks=series if hardware else None,
        taken_off=None if hardware else series,
        clocks_of="" if compared is None else compared.of,
        steps=beside.steps,
        hosts=beside.hosts,
        duplicated=duplicated,
    )
