"""Packets that are late next to those before and after them, where noise changes little from one to the next.

Noise that is correlated over many packets makes excursions: the limit of single packets lies beyond these. From one
packet to the next it goes in small steps, and a packet that stands out of its neighbours by much more is none of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from latlab.analysis.anomalies.blocks import run_starts
from latlab.analysis.anomalies.limit import Usual, either, local_spreads
from latlab.analysis.anomalies.thresholds import Thresholds

Int64 = NDArray[np.int64]
Float64 = NDArray[np.float64]
Bools = NDArray[np.bool_]

SIDE: Final = 3
"""Packets on either side: of as many one or two may be late themselves."""
ALIKE: Final = 0.5
"""Neighbours are alike where they differ by this share of what any two packets do: of an autoregressive process with a
correlation above 0.75."""
NEARLY_NONE, PLAINLY = 0.1, 0.75
"""Of rows that begin with a step some are the noise's own: by so many, and by so much less than the others, is noise
told from them."""
PIECES, PIECE = 64, 4_096
"""Of so many pieces of a stream, of so many packets each, that is estimated."""
_AT_ONCE: Final = 1 << 20


@dataclass(frozen=True)
class Beside:
    """How packets stand next to their neighbours.

    late_ns, above_ns float64 [n]: how late each is, and how much later than the later of its two sides: the medians of
    `SIDE` packets before and after. limits float32 [intervals]: how far noise goes there, in each interval of `size`;
    steps: how far that of one packet of the stream does.
    """

    late_ns: Float64
    above_ns: Float64
    limits: NDArray[np.float32]
    steps: NDArray[np.float32]
    size: int

    @property
    def late(self) -> Int64:
        """Those that are later than their neighbours, and than usual, by more than noise makes them, ascending."""
        found = np.flatnonzero(self.above_ns > np.repeat(self.limits, self.size)[: len(self.above_ns)])
        later: Int64 = found[self.late_ns[found] > self.limits[found // self.size]]
        return later

    def limit_ns(self, places: Int64) -> Float64:
        """How late noise makes these packets at most, next to the neighbours that they have, float64 [m]."""
        found: Float64 = self.late_ns[places] - self.above_ns[places] + self.limits[places // self.size]
        return found

    def without_excursions(self, late: Int64) -> Int64:
        """Late packets without those that noise took there in its own steps.

        A row of late packets begins or ends with a step that is none of noise's. Where most rows do, those that do not,
        and are plainly less late than these, are excursions of the noise, which the others' gap lies in.
        """
        starts = run_starts(late)
        if not len(starts):
            return late
        before, after = (_sides(self.late_ns, late, side) for side in (-1, 1))
        steps = self.late_ns[late] - np.fmin(before, after) > self.steps[late // self.size]
        sudden = np.logical_or.reduceat(steps, starts)
        most = np.maximum.reduceat(self.late_ns[late], starts)
        if 2 * np.count_nonzero(sudden) < len(starts):
            return late
        kept = sudden | (most >= PLAINLY * np.quantile(most[sudden], NEARLY_NONE))
        left: Int64 = late[np.repeat(kept, np.diff(starts, append=len(late)))]
        return left


def beside_neighbours(
    usual: Usual, aside: Bools | None, slow_start: int, thresholds: Thresholds, false_alarms: float
) -> Beside | None:
    """How packets stand next to their neighbours; None where these are not alike.

    aside: packets that say nothing of noise, bool [n]; so do the first slow_start.
    """
    late, left_out = usual.late_ns, either(aside, either(usual.held, usual.apart))
    if len(late) < 4 * SIDE or not _are_alike(late, left_out):
        return None
    above = np.empty(len(late))
    for first in range(0, len(late), _AT_ONCE):
        here = np.arange(first, min(first + _AT_ONCE, len(late)))
        above[here] = late[here] - np.fmax(_sides(late, here, -1), _sides(late, here, 1))
    spreads = local_spreads(above, usual.size, left_out, usual.step_ns)
    noise = Usual(usual.level_ns, above, spreads, usual.size, usual.step_ns, None, left_out)
    limits, steps = (noise.limits_ns(None, slow_start, thresholds, chance) for chance in (false_alarms, 1.0))
    return Beside(late, above, limits, steps, usual.size)


def _are_alike(late: Float64, left_out: Bools | None) -> bool:
    """Whether packets differ from the next ones by less than from others."""
    chosen = np.zeros(len(late), np.bool_)
    for first in np.linspace(0, max(0, len(late) - PIECE), PIECES).astype(np.int64).tolist():
        chosen[first : first + PIECE] = True
    place = np.flatnonzero(chosen[:-1] & chosen[1:])
    if left_out is not None:
        place = place[~(left_out[place] | left_out[place + 1])]
    if len(place) < SIDE:
        return False
    values = late[place]
    apart = float(np.median(np.abs(values - np.median(values))))
    step = float(np.median(np.abs(late[place + 1] - values)))
    return 0 < step < ALIKE * 2**0.5 * apart


def _sides(late: Float64, places: Int64, side: int) -> Float64:
    """The median of the packets before (−1) or after (1) each of these, float64 [m]; NaN where there are too few."""
    found = np.full(len(places), np.nan)
    far = places + side * SIDE
    there = (far >= 0) & (far < len(late))
    near = places[there]
    one, two, three = (late[near + side * (number + 1)] for number in range(SIDE))
    found[there] = np.maximum(np.minimum(one, two), np.minimum(np.maximum(one, two), three))
    return found
