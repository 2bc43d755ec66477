"""All repetitions of a cell as one sample: their buckets merged, which is exact."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from latlab.analysis.buckets import Buckets, from_result
from latlab.analysis.statistics import PERCENTILES, smallest_n
from latlab.result.types import Metric


@dataclass(frozen=True)
class Pooled:
    """What `repeats` repetitions of one metric show together, as if their packets were of one run.

    It describes these packets. Packets of one deployment are no independent ones of the next, so nothing of how far the
    next will lie from them is in it: that is seen from single repetitions.
    """

    repeats: int
    buckets: Buckets

    def percentile(self, name: str) -> tuple[int, int] | None:
        """The smallest and the largest value, ns, that the exact percentile of all packets can be; None where so many
        cannot support it. name: of PERCENTILES.
        """
        p = PERCENTILES[name]
        return self.buckets.percentile(p) if self.buckets.n >= smallest_n(p) else None


def pooled(figures: Sequence[Metric]) -> Pooled | None:
    """These repetitions of one metric together.

    None where there are none, where one has no buckets (figures of another program, or of an earlier latlab), or where
    their timestamps are others: that is another quantity.
    """
    kept = [one.buckets for one in figures if one.buckets]
    if not kept or len(kept) < len(figures) or len({(one.from_, one.to) for one in figures}) > 1:
        return None
    try:
        found = [from_result(one) for one in kept]
    except ValueError:
        return None
    return Pooled(len(found), reduce(Buckets.merged, found))
