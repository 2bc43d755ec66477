"""What all detectors look at: how late each packet was over what was usual around it, and what is late there.

Latency is from the launch to the last timestamp that the stream's packets have.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from latlab.analysis.anomalies.blocks import members, robust_scale, running_median, runs, shorth, spread_over
from latlab.analysis.anomalies.context import Context
from latlab.analysis.anomalies.limit import Usual, crowded, either
from latlab.analysis.anomalies.parts import (
    NO_TRAINS,
    Neighbours,
    PathPart,
    Spans,
    Stages,
    beside_neighbours,
    find_parts,
    find_trains,
    with_trains,
)
from latlab.analysis.anomalies.thresholds import AnomalyThresholds
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
    thresholds: AnomalyThresholds
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
    beside: Neighbours | None
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
    def parts(self) -> dict[str, PathPart]:
        """{place: how late the late packets were there by itself}; empty where timestamps show one place only."""
        return self._late[1]

    @cached_property
    def _late(self) -> tuple[Int64, dict[str, PathPart]]:
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


def stretch_packets(period_ns: int, thresholds: AnomalyThresholds) -> int:
    """How many packets an interval has."""
    least, most = thresholds.block_packets
    return min(most, max(least, thresholds.block_ns // period_ns))


def make_signals(
    rows: pl.DataFrame, context: Context, thresholds: AnomalyThresholds, wave_ns: Float64 | None = None
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
    limits = spread_over(
        usual.limits_ns(aside, slow_start, thresholds, thresholds.false_alarms), usual.size, len(usual.late_ns)
    )
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
    thresholds: AnomalyThresholds,
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


# Packets that were held and came together, by the order of their arrivals alone, whatever latency is usual.
#
# A few of them are stalls. Where nearly all packets come like this, as behind a gate that opens once for many, it is
# how the path works.


Places = NDArray[np.intp]

BURSTS_LEAST: Final = 5
"""With fewer it cannot be decided whether they are regular."""
QUARTERS: Final = (0.25, 0.75)


def together(
    latency: NDArray[np.float64], end: Int64, launch: Int64, period_ns: int, thresholds: AnomalyThresholds
) -> tuple[Places, Places]:
    """Packets that came together after a wait: where each burst of them begins and ends (excluded), ascending.

    latency: float64 ns [n]; end, launch: arrivals and launches, int64 ns [n]. Each arrived closer to the one before it
    than `crowd` of the time between their launches, and the first took longer than the last by more than a period and
    `crowd` of another: it was held at least as long as that, whatever is usual.
    """
    begins, lasts = runs(np.diff(end) < thresholds.crowd * np.diff(launch))
    waited = latency[begins] - latency[lasts] > period_ns * (1 + thresholds.crowd)
    return begins[waited], lasts[waited] + 1


def find_bursts(spans: tuple[Places, Places], end: Int64, thresholds: AnomalyThresholds) -> Bursts | None:
    """What bursts there are, of packets that came together after the first of them had waited for more than those
    behind it, where more than `held_most` of the packets are in one; else None.

    size: packets of a usual one (median). every_ns: from the first arrival of one to that of the next (median), 0 of a
    single one. regular: whether the middle half of these intervals differ by less than `burst_spacing` of it. usual:
    whether that is how the stream comes, and no stall.
    spans: those of `together`; end: arrivals, int64 ns [n].
    """
    begins, stops = spans
    count, n = int((stops - begins).sum()), len(end)
    if count <= thresholds.held_most * n:
        return None
    apart = np.diff(end[begins])
    every = float(np.median(apart)) if len(apart) else 0.0
    low, high = np.quantile(apart, QUARTERS) if len(apart) else (0.0, 0.0)
    regular = len(begins) >= BURSTS_LEAST and float(high - low) <= thresholds.burst_spacing * every
    size = round(float(np.median(stops - begins)))
    return Bursts(
        packets=count,
        of=n,
        times=len(begins),
        size=size,
        every_ns=round(every),
        regular=regular,
        usual=count > thresholds.bursts_most * n,
        share=round(count / n, 4),
    )


# How far into a stream its beginning is slower than the rest, by medians alone.


SCALES: Final = (2048, 512, 128, 32, 8)
"""Packets in an interval: the beginning is examined with each of these lengths."""
SAMPLES: Final = 400
SAMPLES_LEAST: Final = 24
NEARLY_ALL: Final = 0.97
BACK_SCATTER, BACK_SPREAD = 2.5, 0.3
AROUND: Final = 4
POINT_LEAST: Final = 20
POINTS_LEAST: Final = 16
REACH: Final = 2
"""Points on either side that a level is the median of: what goes within two seconds stays noise."""
MONOTONE: Final = 0.9
STEADY: Final = 0.5
"""Of the slope of a drift: over shorter times it is at least that steep, too."""


@dataclass(frozen=True)
class MedianScale:
    """Medians over `size` packets in the rest of the stream: their scatter, and what hardly any exceeds, ns."""

    size: int
    scatter: float
    nearly_all: float


@dataclass(frozen=True)
class Slowly:
    """How the level goes over the stream in many seconds: clocks that move are no slow start.

    at_ns, level: float64 [points]: instants and levels; in the first part, which is judged, that of
    most of it, and as the rest drifts.
    """

    at_ns: Float64
    level: Float64

    def at(self, at_ns: Float64) -> Float64:
        """The level at these instants, float64."""
        return np.interp(at_ns, self.at_ns, self.level)


def find_slow_start(
    latency: Float64, launch_ns: NDArray[np.int64], spread_ns: float, period_ns: int, thresholds: AnomalyThresholds
) -> tuple[int, float]:
    """How many packets the slow beginning has, 0 for none; and the usual latency after it, ns.

    latency, launch_ns: [n], of packets that follow one another; spread_ns: how wide they lie. The median of the first
    packets is compared with those of as many packets that follow one another, all through the stream after its first
    part: so noise that is correlated over such times raises no alarm.
    """
    n = len(latency)
    most = int(thresholds.warm_up_most * n)
    sizes = [size for size in SCALES if n - most >= SAMPLES_LEAST * size and most >= 2 * size]
    if not sizes:
        return 0, 0.0
    at_ns = (launch_ns - launch_ns[0]).astype(np.float64)
    slowly = _slowly(latency, at_ns, most, max(POINT_LEAST, thresholds.level_ns // period_ns))
    first = latency[:most] - slowly.at(at_ns[:most])
    scales = [_rest(latency, at_ns, most, size, slowly) for size in sizes]
    slow = [one for one in scales if _is_slow(first, one, spread_ns, thresholds)]
    usual = float(slowly.at(at_ns[:1])[0])
    if not slow:
        return 0, usual
    return _end(first, [one for one in scales if one.size <= slow[0].size], spread_ns), usual


def _slowly(latency: Float64, at_ns: Float64, most: int, size: int) -> Slowly:
    """The level over the stream; a point is `size` packets, or fewer where that leaves too few points."""
    size = max(1, min(size, len(latency) // POINTS_LEAST))
    points = len(latency) // size
    medians = np.median(latency[: points * size].reshape(points, size), axis=1)
    at = at_ns[size // 2 : points * size : size]
    judged = -(-most // size)
    rest, at_rest = medians[judged:], at[judged:]
    slope = drift(rest, at_rest)
    level = np.concatenate((np.empty(judged), running_median(rest, REACH)))
    # Most packets of the first part are not slow any more.
    level[:judged] = shorth(medians[:judged] - slope * at[:judged]) + slope * at[:judged]
    return Slowly(np.concatenate(([0.0], at)), np.concatenate(([level[0] - slope * at[0]], level)))


def drift(level: Float64, at_ns: Float64) -> float:
    """How levels drift all the time, ns per ns; 0 where they do not: a step is no drift.

    Half of the time apart nearly all have moved the same way; a quarter of it apart, most of them by their part. Of a
    level that steps at its middle the first is true as well, and the second is not.
    """
    far, near = (
        (level[lag:] - level[: len(level) - lag]) / (at_ns[lag:] - at_ns[: len(level) - lag])
        for lag in (len(level) // 2, len(level) // 4)
    )
    slope = float(np.median(far))
    alike = np.mean(np.sign(far) == np.sign(slope)) >= MONOTONE
    return slope if alike and float(np.median(near)) * np.sign(slope) >= STEADY * abs(slope) else 0.0


def _rest(latency: Float64, at_ns: Float64, most: int, size: int, slowly: Slowly) -> MedianScale:
    count = min(SAMPLES, (len(latency) - most) // size)
    begins = most + (np.arange(count) * ((len(latency) - most - size) / max(count - 1, 1))).astype(np.int64)
    medians = np.median(latency[begins[:, np.newaxis] + np.arange(size)], axis=1)
    medians -= slowly.at(at_ns[begins + size // 2])
    return MedianScale(size, robust_scale(medians), float(np.quantile(medians, NEARLY_ALL)))


def _is_slow(first: Float64, scale: MedianScale, spread_ns: float, thresholds: AnomalyThresholds) -> bool:
    off = float(np.median(first[: scale.size]))
    least = max(thresholds.warm_up_scatter * scale.scatter, spread_ns, thresholds.level_least_ns)
    return off > least and off > thresholds.warm_up_beyond * scale.nearly_all


def _end(first: Float64, scales: list[MedianScale], spread_ns: float) -> int:
    """Where the level is back, from coarse to fine; 0 if it never is in this part."""
    end = 0
    for scale in scales:
        size = scale.size
        begin = max(0, end - AROUND * size) if end else 0
        last = min(len(first), end + AROUND * size) if end else len(first)
        blocks = (last - begin) // size
        medians = np.median(first[begin : begin + blocks * size].reshape(blocks, size), axis=1)
        back = max(BACK_SCATTER * scale.scatter, BACK_SPREAD * spread_ns, scale.nearly_all)
        slow = medians >= back
        if not end:
            if slow.all():
                return 0
            end = int(np.argmin(slow)) * size
        elif slow.any():
            end = begin + (int(np.flatnonzero(slow)[-1]) + 1) * size
    return end
