"""Trains: packets that arrived at once, each less late than the one before by the time between their launches.

Found by that shape, whatever a single packet's limit is: how far the tail of single packets goes says little of how
often several follow one another like this.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from latlab.analysis.anomalies.blocks import members, ranges, runs
from latlab.analysis.anomalies.thresholds import Thresholds

Int64 = NDArray[np.int64]
Float64 = NDArray[np.float64]
Bools = NDArray[np.bool_]
Spans = tuple[Int64, Int64]
"""Where each of some packets in a row begins and where it ends (excluded), ascending."""
NO_TRAINS: Final[Spans] = (np.empty(0, np.int64), np.empty(0, np.int64))

OCTAVE: Final = 2.0
"""How often a lateness occurs is counted from half of it to twice as much: single ones are too rare to count."""
ARRIVAL_LEAST_NS: Final = 1_000
"""Arrivals closer together than this are no further evidence: a listener reads no faster."""


def find_trains(late: Float64, end: Int64, launch: Int64, spread_ns: float, thresholds: Thresholds) -> Spans:
    """The trains among packets: where each begins and ends (excluded), ascending.

    late: how late each was, float64 ns [n]; end, launch: when it arrived and when it was due, int64 ns [n]; spread_ns:
    how wide packets lie. The first of a train is plainly late, and those behind it came at once with it and not in
    their own time. Of those reported chance makes less than the share `chance`. Where more than `bursts_most` of all
    packets are in trains they always come like this, and it is no exception.
    """
    if len(late) < 2:
        return NO_TRAINS
    near = thresholds.tight * np.diff(launch)
    # One that is less late than that would have come so close in its own time: nothing shows that it was held.
    begins, lasts = runs((np.diff(end) <= near) & (late[1:] > np.maximum(near, thresholds.least_ns)))
    plain = late[begins] > max(thresholds.tail_spreads * spread_ns, thresholds.least_ns)
    begins, ends = begins[plain], lasts[plain] + 1
    if not 0 < int((ends - begins).sum()) <= thresholds.bursts_most * len(late):
        return NO_TRAINS
    single = np.sort(late[~members((begins, ends), len(late))])
    firsts = np.sort(np.concatenate((single, late[begins])))
    taken = reported(_by_chance(late, end, begins, ends, single, firsts), thresholds.chance)
    return begins[taken], ends[taken]


def with_trains(held: Bools | None, trains: Spans, n: int) -> Bools | None:
    """What was held, and trains too, bool [n]: the limit is how late single packets are."""
    if not len(trains[0]):
        return held
    both = members(trains, n)
    return both if held is None else both | held


def reported(by_chance: Float64, share: float) -> Bools:
    """Which are reported, bool [n], so that chance made less than `share` of them (Benjamini and Hochberg 1995, §3.1).

    by_chance: how many like each one chance makes in the stream. A single one is reported if those are under `share`;
    where trains are frequent, each of k is if it is fewer than k times that.
    """
    order = np.argsort(by_chance, kind="stable")
    enough = np.flatnonzero(by_chance[order] < share * np.arange(1, len(order) + 1))
    told = np.zeros(len(order), np.bool_)
    told[order[: enough[-1] + 1 if len(enough) else 0]] = True
    return told


def _by_chance(late: Float64, end: Int64, begins: Int64, ends: Int64, single: Float64, firsts: Float64) -> Float64:
    """How many trains like each one [k] there would be if each packet were late independently.

    late, end: of all packets [n]; begins, ends: the trains. single: how late those outside of trains were, firsts:
    these and the trains' first ones, both ascending. As many packets as are that late may begin one; each that follows
    has to be late, by chance, by just what lets it arrive so close.
    """
    begun = (len(firsts) - np.searchsorted(firsts, late[begins])).astype(np.float64)
    place, starts = ranges(begins + 1, ends)
    behind = late[place]
    low, high = np.searchsorted(single, behind / OCTAVE), np.searchsorted(single, behind * OCTAVE)
    # One more than there are: what did not happen among so many may still.
    each_ns = (high - low + 1) / (len(single) + 1) / (behind * (OCTAVE - 1 / OCTAVE))
    window = 2 * np.maximum(end[place] - end[place - 1], ARRIVAL_LEAST_NS)
    found: Float64 = begun * np.multiply.reduceat(np.minimum(each_ns * window, 1.0), starts)
    return found
