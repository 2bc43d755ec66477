"""Which TAI instant a CLOCK_REALTIME timestamp is, by the clocks its host recorded."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

NS_PER_S = 1_000_000_000


@dataclass(frozen=True)
class RealToTai:
    """TAI − REALTIME of one host, piecewise constant over REALTIME.

    The kernel keeps the difference as a whole number of seconds (kernel/time/timekeeping.c, `tai_offset`), so
    each recorded pair is rounded to one: what is left is only the time between the two reads. Between two
    rows that disagree the nearer row decides; where exactly the offset changed was not recorded, and the
    trust checks report the change itself.
    """

    from_real_ns: NDArray[np.int64]
    """Where each piece but the first begins; one shorter than offset_ns."""
    offset_ns: NDArray[np.int64]

    @classmethod
    def from_clocks(cls, clocks: pl.DataFrame, *, tai_offset_s: int | None = None) -> RealToTai | None:
        """The conversion that a clocks table gives (columns `tai_ns`, `real_ns`, any order).

        A table without rows falls back to `tai_offset_s`, what the agent said when it was ready; without that
        either there is no conversion: None.
        """
        if clocks.is_empty():
            if tai_offset_s is None:
                return None
            return cls(np.empty(0, np.int64), np.array([tai_offset_s * NS_PER_S], np.int64))
        by_real = clocks.sort("real_ns")
        real = by_real["real_ns"].to_numpy()
        offset = whole_seconds(by_real["tai_ns"].to_numpy() - real)
        changed = np.flatnonzero(np.diff(offset)) + 1
        middle = real[changed - 1] + (real[changed] - real[changed - 1]) // 2
        return cls(middle, offset[np.concatenate(([0], changed))])

    def __call__(self, real_ns: NDArray[np.int64]) -> NDArray[np.int64]:
        """The TAI instants of REALTIME instants, same shape, ns."""
        piece = np.searchsorted(self.from_real_ns, real_ns, side="right") if len(self.from_real_ns) else 0
        tai_ns: NDArray[np.int64] = real_ns + self.offset_ns[piece]
        return tai_ns


def whole_seconds(difference_ns: NDArray[np.int64]) -> NDArray[np.int64]:
    """Each difference rounded to the nearest whole second, in ns."""
    rounded: NDArray[np.int64] = (difference_ns + NS_PER_S // 2) // NS_PER_S * NS_PER_S
    return rounded
