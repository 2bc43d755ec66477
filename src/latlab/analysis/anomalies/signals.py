"""What all detectors look at: how late each packet was over what was usual around it, and what is late there.

Latency is from the launch to the last timestamp that the stream's packets have.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl
from numpy.typing import NDArray

from latlab.analysis.anomalies.blocks import members
from latlab.analysis.anomalies.bursts import find_bursts, together
from latlab.analysis.anomalies.context import Context
from latlab.analysis.anomalies.limit import Usual, either
from latlab.analysis.anomalies.neighbours import Beside, beside_neighbours
from latlab.analysis.anomalies.parts import Part, find_parts
from latlab.analysis.anomalies.slow_start import find_slow_start
from latlab.analysis.anomalies.stages import Stages
from latlab.analysis.anomalies.thresholds import Thresholds
from latlab.analysis.anomalies.trains import NO_TRAINS, Spans, find_trains, with_trains
from latlab.analysis.anomalies.usual import crowded
from latlab.analysis.counts import reordered_sequences
from latlab.model.timestamps import QDISC
from latlab.result.types import Bursts

Int64 = NDArray[np.int64]
Float64 = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Signals:
    """One stream's packets that are judged: arrived after the warm-up, not overtaken, and with their timestamps.

    rows: the stream's part of the packet table, a row each sequence. row int64 [n]: which rows. launch_ns, end_ns int64
    [n]: launch and last timestamp, TAI. level_ns float64 [n]: the usual latency there; late_ns float64 [n]: how much
    longer than that; limit_ns float32 [n]: as far as noise goes. spread_ns: how wide packets lie. size: packets in a
    interval. trains: packets that arrived at once (`find_trains`); held: those, and others that look
    held, bool [n], None if none do. apart: those beyond a gap, likewise. beside: how packets stand next to their
    neighbours, None where these are not alike. bursts: in how many
    bursts packets came, where many did. slow_start: so many at the beginning look slower than the rest, in which
    usual_ns is the median latency.
    """

    rows: pl.DataFrame
    context: Context
    thresholds: Thresholds
    warmup: int
    row: Int64
    launch_ns: Int64
    end_ns: Int64
    level_ns: Float64
    late_ns: Float64
    limit_ns: NDArray[np.float32]
    spread_ns: float
    size: int
    trains: Spans
    held: Bools | None
    apart: Bools | None
    beside: Beside | None
    bursts: Bursts | None
    slow_start: int
    usual_ns: float

    @property
    def late(self) -> Int64:
        """The places (in `row`) of the packets that were later than noise is, in all or at one place, ascending."""
        return self._late[0]

    @cached_property
    def _alone(self) -> Int64:
        """The places of the packets that stand out of their neighbours, ascending."""
        if self.beside is None:
            return np.empty(0, np.int64)
        late = self.beside.late
        return late if self.held is None else late[~self.held[late]]

    def limits_ns(self, places: Int64) -> Float64:
        """From where on these packets are late, as far as noise goes: of some that is what their neighbours are beyond
        which they are late, float64 [m]."""
        limit = self.limit_ns[places].astype(np.float64)
        if self.beside is not None:
            alone = np.isin(places, self._alone)
            limit[alone] = np.minimum(limit[alone], self.beside.limit_ns(places[alone]))
        return limit

    @cached_property
    def stages(self) -> Stages:
        """Where packets lose their time."""
        aside = either(self.held, self.apart)
        return Stages.of(self.rows, self.row if aside is None else self.row[~aside])

    @property
    def parts(self) -> dict[str, Part]:
        """{place: how late the late packets were there by itself}; empty where timestamps show one place only."""
        return self._late[1]

    @cached_property
    def _late(self) -> tuple[Int64, dict[str, Part]]:
        # What waits for a gate is judged by its slots.
        late = self.late_ns > self.limit_ns
        if self.beside is not None:
            which = self.beside.without_excursions(np.flatnonzero(late))
            late = np.zeros(len(self.row), np.bool_)
            late[which] = late[self._alone] = True
        gated = self.context.port is not None or self.context.cycle_ns is not None
        return find_parts(
            self.stages,
            self.row,
            self.size,
            self.held,
            self.slow_start,
            self.thresholds,
            late=late,
            elsewhere=(QDISC,) if gated else (),
        )

    def excess_ns(self, places: Int64, level_ns: float | None = None) -> dict[str, Float64]:
        """{timestamp: how much longer than usual these packets took up to it}; see `Stages.excess_ns`.

        level_ns: the usual latency, by default the local level.
        """
        level = self.level_ns[places] if level_ns is None else np.full(len(places), level_ns)
        return self.stages.excess_ns(self.row[places], level)

    def between(self, first: int, last: int) -> Int64:
        """The judged rows from one row to another, both included, ascending."""
        begin, end = np.searchsorted(self.row, (first, last + 1))
        return self.row[begin:end]


def stretch_packets(period_ns: int, thresholds: Thresholds) -> int:
    """How many packets an interval has."""
    least, most = thresholds.block_packets
    return min(most, max(least, thresholds.block_ns // period_ns))


def make_signals(
    rows: pl.DataFrame, context: Context, thresholds: Thresholds, wave_ns: Float64 | None = None
) -> Signals:
    """The signals of one stream's rows of the packet table.

    wave_ns: what of each judged packet's latency is an oscillation that is faster than the line of the usual latency,
    float64 [n]; it is usual.
    """
    warmup = int(rows["warmup"].sum())
    last = next((name for name in ("rx_user", "rx_soft", "rx_hard") if _has(rows, name)), None)
    row = _judged(rows, last, warmup)
    launch = _taken(rows["launch_tai_ns"], row)
    end = launch if last is None else _taken(rows[f"{last}_tai_ns"], row)
    latency = (end - launch).astype(np.float64)
    if wave_ns is not None:
        latency -= wave_ns
    size = stretch_packets(context.period_ns, thresholds)
    spans = together(latency, end, launch, context.period_ns, thresholds)
    bursts = find_bursts(spans, end, thresholds)
    as_ever = bursts is not None and bursts.usual
    held = None
    if not as_ever:
        in_bursts = members(spans, len(row))
        held = crowded(latency, end, launch, size, context.period_ns, in_bursts, thresholds)
    usual = Usual.of(latency, size, held, thresholds, thresholds.false_alarms)
    late, level, spread = usual.late_ns, usual.level_ns, usual.spread_ns
    ordinary = either(held, usual.apart)
    slow_start, usual_latency = _slow_start(late, level, launch, ordinary, spread, context.period_ns, thresholds)
    trains = NO_TRAINS if as_ever else find_trains(late, end, launch, spread, thresholds)
    aside = with_trains(held, trains, len(row))
    limits = usual.limit_ns(aside, slow_start, thresholds, thresholds.false_alarms)
    beside = beside_neighbours(usual, aside, slow_start, thresholds, thresholds.false_alarms)
    if wave_ns is not None:
        level += wave_ns
    return Signals(
        rows,
        context,
        thresholds,
        warmup,
        row,
        launch,
        end,
        level,
        late,
        limits,
        spread,
        size,
        trains,
        aside,
        usual.apart,
        beside,
        bursts,
        slow_start,
        usual_latency,
    )


def _slow_start(
    late: Float64,
    level: Float64,
    launch: Int64,
    held: Bools | None,
    spread_ns: float,
    period_ns: int,
    thresholds: Thresholds,
) -> tuple[int, float]:
    """How many packets were slow at first, and the usual latency; packets that were held say nothing of that."""
    if held is None:
        return find_slow_start(late + level, launch, spread_ns, period_ns, thresholds)
    free = np.flatnonzero(~held)
    end, usual = find_slow_start(late[free] + level[free], launch[free], spread_ns, period_ns, thresholds)
    return (int(free[end - 1]) + 1 if end else 0), usual


def _judged(rows: pl.DataFrame, last: str | None, warmup: int) -> Int64:
    """The numbers of the rows that are judged, ascending."""
    if last is None:
        return np.empty(0, np.int64)
    there = rows[f"{last}_tai_ns"].is_not_null().to_numpy().copy()
    there[:warmup] = False
    overtaken = reordered_sequences(rows)
    if len(overtaken):
        # A stream's rows are its sequences, from the first one on.
        there[(overtaken - np.uint64(rows["sequence"][0])).astype(np.int64)] = False
    return np.flatnonzero(there)


def _taken(column: pl.Series, row: Int64) -> Int64:
    values = column.fill_null(0).to_numpy()
    return values if len(row) == len(values) else values[row]


def _has(rows: pl.DataFrame, name: str) -> bool:
    column = rows[f"{name}_tai_ns"]
    return column.null_count() < len(column)
