"""Packets that were held and came together, by the order of their arrivals alone, whatever latency is usual.

A few of them are stalls. Where nearly all packets come like this, as behind a gate that opens once for many, it is how
the path works.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from latlab.analysis.anomalies.blocks import runs
from latlab.analysis.anomalies.thresholds import Thresholds
from latlab.result.types import Bursts

Int64 = NDArray[np.int64]
Bools = NDArray[np.bool_]
Places = NDArray[np.intp]

BURSTS_LEAST: Final = 5
"""With fewer it cannot be decided whether they are regular."""
QUARTERS: Final = (0.25, 0.75)


def together(
    latency: NDArray[np.float64], end: Int64, launch: Int64, period_ns: int, thresholds: Thresholds
) -> tuple[Places, Places]:
    """Packets that came together after a wait: where each burst of them begins and ends (excluded), ascending.

    latency: float64 ns [n]; end, launch: arrivals and launches, int64 ns [n]. Each arrived closer to the one before it
    than `crowd` of the time between their launches, and the first took longer than the last by more than a period and
    `crowd` of another: it was held at least as long as that, whatever is usual.
    """
    begins, lasts = runs(np.diff(end) < thresholds.crowd * np.diff(launch))
    waited = latency[begins] - latency[lasts] > period_ns * (1 + thresholds.crowd)
    return begins[waited], lasts[waited] + 1


def find_bursts(spans: tuple[Places, Places], end: Int64, thresholds: Thresholds) -> Bursts | None:
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
