"""What can be said of values of which only the counts in bins are left."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

import numpy as np
from numpy.typing import NDArray

from latlab.analysis.statistics import PERCENTILES, smallest_n


@dataclass(frozen=True)
class Tally:
    """count[i] values v with from_ns[i] ≤ v < to_ns[i]; int64 [m], bins ascending, apart, none of them empty of ns.

    below, above: values outside all bins, of which no more is known than on which side they lie.
    """

    from_ns: NDArray[np.int64]
    to_ns: NDArray[np.int64]
    count: NDArray[np.int64]
    below: int = 0
    above: int = 0

    @property
    def n(self) -> int:
        """How many values there were."""
        return int(self.count.sum()) + self.below + self.above

    @property
    def width_ns(self) -> int:
        """The widest bin that holds a value; 0 where none does."""
        held = self.count > 0
        return int((self.to_ns - self.from_ns)[held].max()) if held.any() else 0


def bin_of_percentiles(tally: Tally) -> dict[str, tuple[int, int] | None]:
    """{percentile: (from_ns, to_ns)}: the bin in which the ⌈p·n⌉-th smallest value lies, so from ≤ it < to.

    Exact, as counts are. None where n is too small for the percentile (`smallest_n`), or where that value lies outside
    all bins.
    """
    up_to = tally.below + np.cumsum(tally.count)
    found: dict[str, tuple[int, int] | None] = {}
    for name, p in PERCENTILES.items():
        rank = ceil(p * tally.n)
        place = int(np.searchsorted(up_to, rank, side="left"))
        known = tally.n >= smallest_n(p) and tally.below < rank and place < len(up_to)
        found[name] = (int(tally.from_ns[place]), int(tally.to_ns[place])) if known else None
    return found


def bin_of_extremes(tally: Tally) -> tuple[tuple[int, int] | None, tuple[int, int] | None]:
    """The bins of the smallest and the largest value; None where it lies outside all bins, or there is no value."""
    held = np.flatnonzero(tally.count)
    if not len(held):
        return None, None
    least, most = ((int(tally.from_ns[i]), int(tally.to_ns[i])) for i in (held[0], held[-1]))
    return (None if tally.below else least), (None if tally.above else most)
