"""Which values above a threshold belong together: the extremal index, and the peak of each cluster."""

from __future__ import annotations

from dataclasses import dataclass
from math import floor

import numpy as np
from numpy.typing import NDArray

from latlab.analysis.statistics import ranked


@dataclass(frozen=True)
class Clusters:
    """The values above a threshold, in clusters.

    exceedances: how many there are. extremal_index: 1 / the mean number of a cluster, by the intervals estimator. run:
    values in a row at or below the threshold that end a cluster, more than. place, peak_ns int64 [clusters]: where the
    largest value of each cluster is among all values, the first if there are several; and the value.
    """

    threshold_ns: int
    exceedances: int
    extremal_index: float
    run: int
    place: NDArray[np.int64]
    peak_ns: NDArray[np.int64]


def clusters(value_ns: NDArray[np.int64], place: NDArray[np.int64], threshold_ns: int) -> Clusters:
    """The clusters of int64 values [m] above the threshold, `place` [m] being where each is in the series.

    Runs method: values further apart than `run` belong to two clusters. The run's length is the data's own (Ferro &
    Segers, Inference for clusters of extreme values, J. R. Statist. Soc. B 65, 2003, §4): of the m − 1 times between
    them the largest ⌊extremal index × m⌋ separate clusters.
    """
    gap = np.diff(place)
    index = extremal_index(gap)
    run = _run(gap, index)
    first = np.concatenate(([0], np.flatnonzero(gap > run) + 1)) if len(place) else np.empty(0, np.int64)
    peak = np.maximum.reduceat(value_ns, first) if len(place) else value_ns
    number = np.repeat(np.arange(len(first)), np.diff(np.append(first, len(place))))
    highest = np.flatnonzero(value_ns == peak[number])
    where = highest[np.unique(number[highest], return_index=True)[1]]
    return Clusters(threshold_ns, len(place), index, run, place[where], peak)


def extremal_index(gap: NDArray[np.int64]) -> float:
    """The extremal index by the times [m − 1] between exceedances: the intervals estimator, between 0 and 1.

    Ferro & Segers, 2003, eq. 5 and 6: 2 (ΣT)² / (N ΣT²), of T − 1 and T − 2 where any T is above 2. 1 for fewer than
    two.
    """
    if len(gap) == 0:
        return 1.0
    time = gap.astype(np.float64)
    if gap.max() <= 2:
        upper, lower = float(time.sum()) ** 2, float(np.square(time).sum())
    else:
        upper, lower = float((time - 1).sum()) ** 2, float(((time - 1) * (time - 2)).sum())
    return min(1.0, 2 * upper / (len(gap) * lower))


def _run(gap: NDArray[np.int64], index: float) -> int:
    """The longest time between two values of one cluster: the largest that is not among those between clusters."""
    between = min(len(gap), floor(index * (len(gap) + 1)))
    if between == len(gap):
        return 0
    return int(ranked(gap, [len(gap) - 1 - between])[len(gap) - 1 - between])
