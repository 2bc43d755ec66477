"""All repetitions of a cell as one sample: their buckets merged, which is exact."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Final

from latlab.analysis.buckets import Buckets, from_document
from latlab.analysis.statistics import PERCENTILES, smallest_n

BUCKETS: Final = "buckets"
"""Where a metric's figures keep them."""


@dataclass(frozen=True)
class Pooled:
    """What `repeats` repetitions of one metric show together, as if their packets were of one run.

    It describes these packets. Packets of one deployment are no independent ones of the next, so nothing of how far the
    next will lie from them is in it: that is what single repetitions tell.
    """

    repeats: int
    buckets: Buckets

    def percentile(self, name: str) -> tuple[int, int] | None:
        """The smallest and the largest value, ns, that the exact percentile of all packets can be; None where so many
        cannot support it. name: of PERCENTILES.
        """
        p = PERCENTILES[name]
        return self.buckets.percentile(p) if self.buckets.n >= smallest_n(p) else None

    def document(self) -> dict[str, Any]:
        """{repeats, n, min, max: exact, ns; each percentile [smallest, largest] or null}."""
        found = {name: self.percentile(name) for name in PERCENTILES}
        percentiles = {name: None if ends is None else list(ends) for name, ends in found.items()}
        whole = self.buckets
        return {"repeats": self.repeats, "n": whole.n, "min": whole.min_ns, **percentiles, "max": whole.max_ns}


def pooled(figures: Sequence[Mapping[str, Any]]) -> Pooled | None:
    """These repetitions of one metric together, as the result document has them.

    None where there are none, where one has no buckets (figures of another program, or of an earlier latlab), or where
    their timestamps are others: that is another quantity.
    """
    if not figures or any(BUCKETS not in one for one in figures) or len({(f["from"], f["to"]) for f in figures}) > 1:
        return None
    try:
        found = [from_document(one[BUCKETS]) for one in figures]
    except ValueError:
        return None
    return Pooled(len(found), reduce(Buckets.merged, found))
