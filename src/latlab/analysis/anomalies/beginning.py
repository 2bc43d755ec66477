"""Whether the beginning was another than the rest: packets that are slow although the warm-up is over."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from latlab.analysis.anomalies.blocks import block_spreads
from latlab.analysis.anomalies.classes import NONE
from latlab.analysis.anomalies.clock_records import records_of
from latlab.analysis.anomalies.found import Claimed, FoundEpisode, packets
from latlab.analysis.words import duration
from latlab.model.timestamps import PATH, PLACES

Int64 = NDArray[np.int64]
Float64 = NDArray[np.float64]

FIRST = 8
"""The median of so many packets is how slow it was at first."""
PLAINLY = 3
"""So many packets of the beginning must be late on their own."""
CLOCK_PACKETS = 32
"""So few are enough to judge whether packets scatter more than usual."""
PARALLEL_SPREAD = 1.5
BESIDE = 0.2
MOST, HALF, ABOUT = 0.9, 0.5, 0.25


def find_warm_up(seen: Claimed) -> Iterator[FoundEpisode]:
    """The slow beginning, if there is one (`slow_start.find_slow_start`), and some of it plainly late."""
    signals = seen.signals
    end, usual = signals.slow_start, signals.usual_ns
    if not end:
        return
    over = signals.level_ns[:end] + signals.late_ns[:end] - usual
    # Where packets are slow at random the local limit is high: what is late is judged as in the rest.
    limit = float(np.median(signals.limit_ns[end:]))
    if int((over > limit).sum()) < PLAINLY or _is_as_most(seen, end, over) or _is_a_clock(seen, end, usual):
        return
    seen.started = end
    own = _not_held(seen, end)
    over = over[own]
    excess = signals.stages.by_place(signals.excess_ns(own, usual))
    where = max(excess, key=lambda place: float(excess[place].sum()))
    lasted = int(signals.launch_ns[end - 1] - signals.launch_ns[0]) + signals.context.period_ns
    most = float(over.max())
    evidence = {
        "packets": end,
        "length_ns": lasted,
        "first_ns": round(float(np.median(over[:FIRST]))),
        "most_ns": round(most),
        "where": where,
        "usual_ns": round(usual),
        "limit_ns": round(limit),
    }
    text = (
        f"for its first {duration(lasted)} ({packets(end)}) the stream was up to {duration(most)} slower than "
        f"afterwards, in {PLACES[where]}"
    )
    row = signals.row
    yield FoundEpisode("warm_up", int(row[0]), int(row[end - 1]), row[:end].copy(), most, evidence, text)


def _is_as_most(seen: Claimed, end: int, over: Float64) -> bool:
    """Whether all of it lies where most of the stream does, so that it is what comes next that is another."""
    signals = seen.signals
    rest = float(np.median(signals.level_ns[end:] + signals.late_ns[end:])) - signals.usual_ns
    middle, most = np.quantile(over, (0.5, MOST))
    return bool(middle > HALF * most and abs(rest - middle) < ABOUT * middle)


def _not_held(seen: Claimed, end: int) -> Int64:
    """The places of the beginning's packets that nothing else happened to: a stall in it says nothing of how slow it
    was. Of one that has hardly any of these, all."""
    signals = seen.signals
    free = seen.class_of[signals.row[:end]] == NONE
    if signals.held is not None:
        free &= ~signals.held[:end]
    return np.flatnonzero(free) if np.count_nonzero(free) >= FIRST else np.arange(end)


def _is_a_clock(seen: Claimed, end: int, usual: float) -> bool:
    """Whether it looks like a clock that settles: long, on the path alone, no wider spread than later, not excluded."""
    signals = seen.signals
    at = signals.launch_ns[:end]
    if end < CLOCK_PACKETS or at[-1] - at[0] < signals.thresholds.level_ns:
        return False
    over = signals.level_ns[:end] + signals.late_ns[:end] - usual
    size = min(signals.size, end)
    whole = end // size * size
    levels = np.median(over[:whole].reshape(-1, size), axis=1)
    if records_of(signals, at[:whole:size], levels, signals.spread_ns).excluded:
        return False
    excess = signals.stages.by_place(signals.excess_ns(np.arange(end), usual))
    beside = sum(abs(float(value.sum())) for place, value in excess.items() if place != PATH)
    # The slowest packets come first; where they are slow at random, that is where they lie widest.
    spreads = block_spreads(signals.late_ns[: max(end // 2, size)], size)
    no_wider = float(np.nanquantile(spreads, 0.75)) < PARALLEL_SPREAD * signals.spread_ns
    return no_wider and beside < BESIDE * float(np.abs(over).sum())
