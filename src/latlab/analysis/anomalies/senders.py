"""How late the talker was with each packet, and from where on that is no noise of the talker's.

A wake-up's own noise is often far narrower than that of the whole way: what the way's tail hides, this shows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from latlab.analysis.anomalies.limit import lattice_ns, local_limits, local_spreads
from latlab.analysis.anomalies.stages import TALKER, Stages
from latlab.analysis.anomalies.thresholds import Thresholds
from latlab.analysis.anomalies.trains import find_trains, with_trains
from latlab.analysis.anomalies.usual import usual_ns

Int64 = NDArray[np.int64]
Float64 = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Sender:
    """The talker's part, by itself.

    late_ns float64 [n]: how much later than usual each judged packet was handed over. limit_ns float32 [n]: from where
    on that is no noise of the talker's: so many times as far as its tail goes, `sender_beyond`.
    """

    late_ns: Float64
    limit_ns: NDArray[np.float32]

    @property
    def late(self) -> Bools:
        """Which were handed over later than that, bool [n]."""
        return self.late_ns > self.limit_ns


def find_sender(
    stages: Stages, row: Int64, size: int, held: Bools | None, slow_start: int, thresholds: Thresholds
) -> Sender | None:
    """The talker's part of each judged packet's lateness; None where no timestamp tells of it.

    row: the judged rows [n]; size: packets in a stretch; held: those that say nothing of noise, bool [n]. Trains of
    late wake-ups are left out of the limit as well: it is that of a single one.
    """
    stamps = [name for name, place in zip(stages.stamps[1:], stages.places, strict=True) if place == TALKER]
    if not stamps or not len(row):
        return None
    launch, handed = _taken(stages.rows["launch_tai_ns"], row), _taken(stages.rows[f"{stamps[-1]}_tai_ns"], row)
    handed = np.where(handed == 0, launch, handed)
    taken = (handed - launch).astype(np.float64)
    step = lattice_ns(handed - launch)
    late = taken - usual_ns(taken, size, held)
    spreads = local_spreads(late, size, held, step)
    trains = find_trains(late, handed, launch, float(np.median(spreads)), thresholds)
    apart = with_trains(held, trains, len(row))
    limit = local_limits(late, spreads, size, apart, slow_start, step, thresholds)
    return Sender(late, limit * np.float32(thresholds.sender_beyond))


def _taken(column: pl.Series, row: Int64) -> Int64:
    values = column.fill_null(0).to_numpy()
    return values if len(row) == len(values) else values[row]
