"""What a cell's folder has on record next to a stream's packets: PTP's offset, the clocks' comparison, the facts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from latlab.analysis.anomalies.context import ClockStep, host_records
from latlab.analysis.cell_anomalies import ClockSeries, StreamRecords
from latlab.analysis.described import clock_source
from latlab.analysis.ptp import SLAVE, UNCALIBRATED
from latlab.model.clock_sources import source_named
from latlab.model.facts import Facts
from latlab.model.thresholds import Thresholds
from latlab.recordings.cell import RecordedCell, RecordedStream
from latlab.recordings.clock_offset import offset_between
from latlab.recordings.ptp_series import PtpSeries

_EVERY_NS: Final = 250_000_000
"""How often the comparison of two clocks is looked up: the comparisons themselves are hardly closer together."""
_LOOKS_MOST: Final = 20_000


def stream_records(
    cell: RecordedCell,
    ports: Sequence[PtpSeries],
    facts_before: Facts,
    facts_after: Facts,
    clocks: Mapping[str, pl.DataFrame],
) -> dict[str, StreamRecords]:
    """{stream: what is on record next to its packets}.

    cell: cell.json; ports: PTP's; facts: {host: facts}; clocks: {`talker-HOST`: its clocks table}.
    """
    return {
        stream.name: StreamRecords(
            ptp=ptp_offset(cell, stream, ports),
            systems=_systems(cell, stream),
            cards=_cards(cell, stream),
            steps=tuple(_steps(stream, clocks)),
            hosts=host_records(cell, stream, facts_before, facts_after),
        )
        for stream in cell.streams
    }


def _steps(stream: RecordedStream, clocks: Mapping[str, pl.DataFrame]) -> Iterator[ClockStep]:
    """The steps of the two hosts' TAI clocks, as their readings show: against MONOTONIC, which is steered likewise."""
    for agent, host in (("talker", stream.talker), ("listener", stream.listener)):
        rows = clocks.get(f"{agent}-{host}")
        if rows is None or rows.height < 2:
            continue
        at, bracket = rows["tai_ns"].to_numpy(), rows["bracket_ns"].to_numpy()
        jump = np.diff(at - rows["monotonic_ns"].to_numpy())
        sharp = Thresholds().clock_step_ns + bracket[1:] + bracket[:-1]
        for number in np.flatnonzero(np.abs(jump) > sharp).tolist():
            first, last = sorted((int(at[number]), int(at[number + 1])))
            yield ClockStep(host, first, last, int(jump[number]))


def ptp_offset(cell: RecordedCell, stream: RecordedStream, ports: Sequence[PtpSeries]) -> ClockSeries | None:
    """What PTP says that the listener's clock is ahead of the talker's, by the talker's TAI; None: it says nothing.

    A slave's offset is from its master. Where the other end is that master, or has no port that is a slave, it is
    all there is; where both follow the same grandmaster, it is the difference.
    """
    listener, talker = (_slave(cell, host, ports) for host in (stream.listener, stream.talker))
    if listener and talker:
        if _master(listener) in _alike(cell, stream.talker):
            talker = None
        elif _master(talker) in _alike(cell, stream.listener):
            listener = None
        elif listener is talker or _grandmasters(listener) != _grandmasters(talker):
            return None
    if listener and talker:
        return ClockSeries(_less(_rows(cell, stream, listener), _rows(cell, stream, talker)), _names(listener, talker))
    if listener:
        return ClockSeries(_rows(cell, stream, listener), _names(listener))
    if talker:
        turned = _rows(cell, stream, talker).with_columns(-pl.col("offset_ns"))
        return ClockSeries(turned, f"{_names(talker)}, with its sign turned")
    return None


def _slave(cell: RecordedCell, host: str, ports: Sequence[PtpSeries]) -> PtpSeries | None:
    """The port that turns the host's clock by another's: its own, else one of a host on the same kernel."""
    for names in ({host}, _alike(cell, host)):
        found = [one for one in ports if _host(one.port.port) in names and _follows(one)]
        if found:
            return min(found, key=lambda one: bool(one.port.free_running))
    return None


def _follows(one: PtpSeries) -> bool:
    followed = one.rows["state"].is_in([SLAVE, UNCALIBRATED])
    return one.port.role != "master" and bool((followed & one.rows["offset_ns"].is_not_null()).any())


def _master(one: PtpSeries) -> str | None:
    """The host of the port that it follows, where that is known."""
    master = one.port.master
    return _host(master) if master else None


def _grandmasters(one: PtpSeries) -> frozenset[int]:
    return frozenset(one.rows["grandmaster"].drop_nulls().unique().to_list())


def _alike(cell: RecordedCell, host: str) -> frozenset[str]:
    """The hosts on the same kernel, itself included."""
    found = {host}
    edges = [{one.from_, one.to} for one in cell.clocks if source_named(one.source).is_exact]
    while more := [edge for edge in edges if edge & found and not edge <= found]:
        found |= set().union(*more)
    return frozenset(found)


def _host(port: str) -> str:
    return port.partition(".")[0]


def _names(*ports: PtpSeries) -> str:
    return " less that at ".join(str(one.port.port) for one in ports)


def _rows(cell: RecordedCell, stream: RecordedStream, one: PtpSeries) -> pl.DataFrame:
    """tai_ns, offset_ns, state of a port; the streams' start by its host's TAI is where it is by the talker's."""
    theirs = cell.start_of(one.port)
    return one.rows.select(pl.col("tai_ns") + (_start_ns(cell, stream) - theirs), "offset_ns", "state").sort("tai_ns")


def _less(rows: pl.DataFrame, other: pl.DataFrame) -> pl.DataFrame:
    """One offset less another, which is taken from between its readings; null where that has none around."""
    known = other.filter(pl.col("offset_ns").is_not_null())
    at, first, last = rows["tai_ns"].to_numpy(), known["tai_ns"][0], known["tai_ns"][-1]
    between = np.rint(np.interp(at, known["tai_ns"].to_numpy(), known["offset_ns"].to_numpy())).astype(np.int64)
    inside = pl.col("tai_ns").is_between(first, last)
    return rows.with_columns(pl.when(inside).then(pl.col("offset_ns") - pl.Series(between)).alias("offset_ns"))


def _systems(cell: RecordedCell, stream: RecordedStream) -> ClockSeries | None:
    """The comparison of the two hosts' own clocks; None where they are one."""
    talker, listener = stream.talker, stream.listener
    source = clock_source(cell.clocks, talker, listener)
    if source is None or source_named(source).is_exact:
        return None
    return _compared(cell, stream, talker, listener, source)


def _cards(cell: RecordedCell, stream: RecordedStream) -> ClockSeries | None:
    """The comparison of the two network cards' clocks, where `clocks` has one of each end."""
    edges = cell.clocks
    named = {name for edge in edges for name in (edge.from_, edge.to) if "." in name}
    talker = [f"{stream.talker}.{stream.port}"] if stream.port else []
    listener = [name for name in sorted(named) if _host(name) == stream.listener]
    if len(listener) != 1 or not set(talker) & named:
        return None
    source = clock_source(edges, talker[0], listener[0])
    return None if source is None else _compared(cell, stream, talker[0], listener[0], source)


def _compared(
    cell: RecordedCell, stream: RecordedStream, talker: str, listener: str, source: str
) -> ClockSeries | None:
    """at_tai_ns, lower_ns, upper_ns: of the listener's clock − the talker's, by the talker's, where it is known."""
    at = _looks(cell, stream)
    offset = offset_between(cell.clocks, talker, listener, at)
    if offset is None or not offset.known.any():
        return None
    known = offset.known
    ahead, half = -offset.estimate_ns[known], offset.half_ns[known]
    rows = pl.DataFrame({"at_tai_ns": at[known], "lower_ns": ahead - half, "upper_ns": ahead + half})
    return ClockSeries(rows, source)


def _looks(cell: RecordedCell, stream: RecordedStream) -> NDArray[np.int64]:
    first, length = _start_ns(cell, stream), cell.duration_ns
    return np.arange(first, first + length + 1, max(_EVERY_NS, length // _LOOKS_MOST), dtype=np.int64)


def _start_ns(cell: RecordedCell, stream: RecordedStream) -> int:
    """When the streams started, by the talker's TAI."""
    return cell.start_of(stream)
