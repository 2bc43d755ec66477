"""Delay variation by RFC 5481: from one packet to the next (IPDV), and above the least delay (PDV).

Both are differences of delays over the same two clocks: a constant offset between these is in neither.
"""

from __future__ import annotations

from fractions import Fraction
from math import ceil
from typing import Final

import numpy as np
from numpy.typing import NDArray

from latlab.analysis.statistics import ranked, smallest_n, statistics
from latlab.result.types import LowPercentiles, Variation

LOW_PERCENTILES: Final[dict[str, Fraction]] = {
    "p0_01": Fraction(1, 10_000),
    "p0_1": Fraction(1, 1000),
    "p1": Fraction(1, 100),
    "p10": Fraction(1, 10),
}
"""Those of `PERCENTILES` seen from below: IPDV has two tails."""


def ipdv(sequence: NDArray[np.uint64], value_ns: NDArray[np.int64]) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """(sequence [m], IPDV int64 ns [m]) of packets in order of sequence [n]: each one's delay less the one's before it.

    RFC 5481 §4.1: IPDV(i) = D(i) − D(i−1), the packet before being that of the sending sequence, whatever the order of
    arrival. It is undefined where either was lost (RFC 3393 §4.1): a packet whose predecessor has no value has no
    IPDV, and the last one that arrived does not stand in for it.
    """
    follows = sequence[1:] - sequence[:-1] == 1
    return sequence[1:][follows], (value_ns[1:] - value_ns[:-1])[follows]


def pdv(value_ns: NDArray[np.int64]) -> NDArray[np.int64]:
    """PDV int64 ns [n]: each delay less the least of all of them.

    RFC 5481 §4.2: PDV(i) = D(i) − D(min), the minimum over the test interval, here the run without its warm-up. It is
    what a de-jitter buffer has to hold (§7.1.2), and its percentiles are those of the delay, less the minimum.
    """
    return value_ns - value_ns.min() if len(value_ns) else value_ns


def variation_of(sequence: NDArray[np.uint64], value_ns: NDArray[np.int64]) -> Variation:
    """The delay variation of packets in order of sequence [n], ns.

    `ipdv` has the sequence numbers of the later packet of each pair; undefined: packets whose predecessor has no delay,
    the first one left out. A percentile that n cannot support is None.
    """
    later, differences = ipdv(sequence, value_ns)
    undefined = max(0, len(sequence) - 1) - len(later)
    found = vars(statistics(differences, later)) | _low_percentiles(differences)
    return Variation(ipdv=LowPercentiles(**found, undefined=undefined), pdv=statistics(pdv(value_ns), sequence))


def _low_percentiles(value_ns: NDArray[np.int64]) -> dict[str, int | None]:
    """Nearest-rank percentiles below the median, None where n cannot support them."""
    n = len(value_ns)
    rank = {name: ceil(p * n) - 1 for name, p in LOW_PERCENTILES.items() if n >= smallest_n(p)}
    ordered = ranked(value_ns, rank.values())
    return {name: int(ordered[rank[name]]) if name in rank else None for name in LOW_PERCENTILES}
