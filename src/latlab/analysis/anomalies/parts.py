"""How late each packet was at each place of its path by itself, and from where on that is no noise of that place's.

A stage's own noise is often far narrower than that of the whole path: what the whole path's tail hides, this shows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from latlab.analysis.anomalies.limit import Usual, either
from latlab.analysis.anomalies.stages import TALKER, Stages
from latlab.analysis.anomalies.thresholds import Thresholds
from latlab.analysis.anomalies.trains import find_trains, with_trains

Int64 = NDArray[np.int64]
Float64 = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Part:
    """One place by itself.

    late_ns float64 [n]: how much longer than usual each judged packet was there. limit_ns float32 [n]: from where on
    that is no noise of the place's. late bool [n]: which were longer there, and did not make up for it later.
    """

    late_ns: Float64
    limit_ns: NDArray[np.float32]
    late: Bools


def find_parts(
    stages: Stages, row: Int64, size: int, held: Bools | None, slow_start: int, thresholds: Thresholds
) -> dict[str, Part]:
    """{place: each judged packet's lateness there}, of the places that timestamps tell of; none of a single one.

    row: the judged rows [n]; size: packets in a stretch; held: those that say nothing of noise, bool [n]. All places
    together have as many false alarms as the whole path has. The talker's late wake-ups come in trains: they are left
    out of its limit, which is that of a single one.
    """
    taken = stages.taken_ns(row)
    if len(taken) < 2 or not len(row):
        return {}
    false_alarms = thresholds.false_alarms / len(taken)
    found: dict[str, Usual] = {}
    limits: dict[str, NDArray[np.float32]] = {}
    for place, durations in taken.items():
        aside = None
        if place == TALKER:
            launch = stages.rows["launch_tai_ns"].to_numpy()[row]
            handed = launch + durations.astype(np.int64)
        usual = found[place] = Usual.of(durations, size, held, thresholds, false_alarms)
        if place == TALKER:
            trains = find_trains(usual.late_ns, handed, launch, usual.spread_ns, thresholds)
            aside = with_trains(None, trains, len(row))
        limits[place] = usual.limit_ns(
            either(held, aside), slow_start, thresholds, false_alarms, thresholds.part_beyond
        )
    late = {place: usual.late_ns for place, usual in found.items()}
    return {
        place: Part(late[place], limits[place], _lasting(late, place, limits[place], thresholds)) for place in found
    }


def _lasting(late: dict[str, Float64], place: str, limit_ns: NDArray[np.float32], thresholds: Thresholds) -> Bools:
    """Which packets were later than the limit at a place, and made up for less than half of it further on, bool [n]."""
    found = late[place] > limit_ns
    which = np.flatnonzero(found)
    places = list(late)
    so_far = late[place][which]
    least = so_far.copy()
    for after in places[places.index(place) + 1 :]:
        so_far = so_far + late[after][which]
        least = np.minimum(least, so_far)
    found[which] = least >= thresholds.sender * late[place][which]
    return found
