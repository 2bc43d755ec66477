"""How late each packet was at each place of its path alone, and from where on that is no noise of that place's.

A stage's own noise is often far narrower than that of the whole path: what the whole path's tail hides, this shows.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from latlab.analysis.anomalies.blocks import spread_over
from latlab.analysis.anomalies.limit import Usual, either
from latlab.analysis.anomalies.neighbours import beside_neighbours
from latlab.analysis.anomalies.stages import Stages
from latlab.analysis.anomalies.thresholds import Thresholds
from latlab.analysis.anomalies.trains import find_trains, with_trains
from latlab.model.timestamps import TALKER

Int64 = NDArray[np.int64]
Float64 = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Part:
    """One place alone, of some judged packets [m], which are late in all or at one place.

    places int64 [m]: which they are, ascending. late_ns float64 [m]: how much longer than usual each was there. late
    bool [m]: which were longer there than its noise makes them, and did not make up for it later. limits float32
    [intervals]: from where on that is no noise of the place's, in each interval of `size` packets.
    """

    places: Int64
    late_ns: Float64
    late: Bools
    limits: NDArray[np.float32]
    size: int

    @property
    def limit_ns(self) -> NDArray[np.float32]:
        """From where on that is no noise of the place's, at each of these packets, float32 [m]."""
        return self.limits[self.places // self.size]

    def at(self, places: Int64) -> Part:
        """The same, of some of these packets."""
        which = np.searchsorted(self.places, places)
        return replace(self, places=places, late_ns=self.late_ns[which], late=self.late[which])


def find_parts(
    stages: Stages,
    row: Int64,
    size: int,
    held: Bools | None,
    slow_start: int,
    thresholds: Thresholds,
    *,
    late: Bools,
    elsewhere: Container[str] = (),
) -> tuple[Int64, dict[str, Part]]:
    """The packets that are late in all or at one place, ascending; and {place: their lateness there}, of the places
    that timestamps show, none of a single one.

    row: the judged rows [n]; size: packets in an interval; held: those that say nothing of noise, bool [n]; late: those
    that are late in all, bool [n]. All places together have as many false alarms as the whole path has. The talker's
    late wake-ups come in trains: they are left out of its limit, which is that of a single one. elsewhere: places at
    which no packet is late, as it is judged otherwise.
    """
    taken = stages.taken_ns(row)
    if len(taken) < 2 or not len(row):
        return np.flatnonzero(late), {}
    false_alarms = thresholds.false_alarms / len(taken)
    late_ns: dict[str, Float64] = {}
    limits: dict[str, NDArray[np.float32]] = {}
    over: dict[str, Int64] = {}
    for place in list(taken):
        aside = None
        after_ns = taken[place].astype(np.int64) if place == TALKER else None
        # What a packet took is given away, and becomes how late it was.
        usual = Usual.of(taken.pop(place), size, held, thresholds, false_alarms)
        if after_ns is not None:
            launch = stages.rows["launch_tai_ns"].to_numpy()[row]
            trains = find_trains(usual.late_ns, launch + after_ns, launch, usual.spread_ns, thresholds)
            aside = with_trains(None, trains, len(row))
        late_ns[place] = usual.late_ns
        limits[place] = usual.limits_ns(
            either(held, aside), slow_start, thresholds, false_alarms, thresholds.part_beyond
        )
        over[place] = np.flatnonzero(usual.late_ns > spread_over(limits[place], size, len(row)))
        if len(over[place]):
            beside = beside_neighbours(usual, either(held, aside), slow_start, thresholds, false_alarms)
            over[place] = over[place] if beside is None else beside.without_excursions(over[place])
    own = {
        place: np.empty(0, np.int64) if place in elsewhere else _lasting(late_ns, place, over[place], thresholds)
        for place in late_ns
    }
    every = late.copy()
    for which in own.values():
        every[which] = True
    places = np.flatnonzero(every)
    return places, {
        place: Part(places, late_ns[place][places], np.isin(places, own[place]), limits[place], size)
        for place in late_ns
    }


def _lasting(late: dict[str, Float64], place: str, which: Int64, thresholds: Thresholds) -> Int64:
    """Which of some packets that were late at a place made up for less than half of it further on, ascending."""
    places = list(late)
    so_far = late[place][which]
    least = so_far.copy()
    for after in places[places.index(place) + 1 :]:
        so_far = so_far + late[after][which]
        least = np.minimum(least, so_far)
    return which[least >= thresholds.sender * late[place][which]]
