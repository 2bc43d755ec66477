"""Packets without a timestamp that they should have: how far their values may go, and whether they are the late ones.

The timestamps next to the missing one bound what it would have said: a packet passes them in their order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from latlab.analysis.counts import STAMPS, unknown
from latlab.analysis.statistics import ranked
from latlab.analysis.way import HARDWARE_WAY, ROUND_TRIP_WAY, WAKEUP_WAY
from latlab.model.timestamps import RECORDED
from latlab.result.types import Unstamped

SENT: Final = (pl.col("send_error") == 0) & (pl.col("launch_error") == 0)
RECEIVED: Final = pl.col("arrival").is_not_null()

_OUGHT: Final = {one.name: SENT if one.side == "talker" else RECEIVED for one in RECORDED if one.may_lack}
"""Which packets should have each timestamp that a kernel or a card gives."""

_SHARES: Final = (0.1, 0.01, 0.001)
_BY_CHANCE: Final = 0.001
"""The share of streams in which packets that are without a timestamp by chance would be called the late ones."""


@dataclass(frozen=True)
class Reach:
    """How far the values of packets without one of a metric's timestamps may go, ns.

    at_least_ns: one of them is this large, or larger; None: nothing says so. at_most_ns: none is larger; None: nothing
    bounds one of them.
    """

    at_least_ns: int | None
    at_most_ns: int | None


NOWHERE: Final = Reach(None, None)


def reach(packets: pl.DataFrame, start: str, end: str) -> Reach:
    """The reach of a metric from `start` to `end`, of these packets, without one of the two.

    Cards' clocks are not the system's: their timestamps bound nothing.
    """
    way = WAKEUP_WAY if start == "wake_due" else ROUND_TRIP_WAY if end.startswith("answer") else HARDWARE_WAY
    if start not in way or end not in way:
        return NOWHERE
    first, last = way.index(start), way.index(end)
    after = _earliest(packets, way[last:])
    before = _earliest(packets, way[first::-1])
    inside = way[first : last + 1]
    bounds = packets.select(
        (after - before).alias("most"), (_earliest(packets, inside[::-1]) - _earliest(packets, inside)).alias("least")
    )
    most, least = bounds["most"], bounds["least"].max()
    bounded = len(most) > 0 and most.null_count() == 0
    return Reach(
        None if least is None else int(least),  # type: ignore[arg-type]
        int(most.max()) if bounded else None,  # type: ignore[arg-type]
    )


def unstamped_of(rows: pl.DataFrame) -> list[Unstamped]:
    """What is reported for each timestamp that is missing in packets of a stream.

    rows: the stream's part of the packet table; the warm-up, and packets of which a recording that is not all there
    does not say, are left out. `n` of `of` packets are without `stamp`. `until`: the timestamp up to which they are
    held against the packets that have it, from the launch; None where there is none. `later`: so many of them took
    longer than all but a `share` of those. `late`: that is more than chance would have.
    """
    counted = rows.slice(int(rows["warmup"].sum()))
    found = []
    for stamp, ought in _OUGHT.items():
        column = f"{stamp}_tai_ns"
        if column not in rows.columns or ("hard" in stamp and counted[column].null_count() == counted.height):
            continue  # no card was asked for it, or none can
        stamps_known = ~unknown(counted, STAMPS) if stamp.startswith("tx") else pl.lit(True)
        missing = ought & pl.col(column).is_null() & stamps_known
        n, of = counted.select(missing.sum().alias("n"), (ought & stamps_known).sum().alias("of")).row(0)
        if n:
            beside = (_held_against(counted, ought, missing, stamp) if n < of else None) or (None, 0, None, False)
            until, later, share, late = beside
            found.append(Unstamped(stamp=stamp, n=n, of=of, until=until, later=later, share=share, late=late))
    return found


def _earliest(packets: pl.DataFrame, names: Sequence[str]) -> pl.Expr:
    """The first of these timestamps that a packet has, a card's left out; null where it has none."""
    there = [f"{name}_tai_ns" for name in names if not name.endswith("hard") and f"{name}_tai_ns" in packets.columns]
    return pl.coalesce(there) if there else pl.lit(None, pl.Int64)


def _held_against(
    counted: pl.DataFrame, ought: pl.Expr, missing: pl.Expr, stamp: str
) -> tuple[str | None, int, float | None, bool] | None:
    """Packets without the timestamp, compared with those that have it, by the first one after it that the former have:
    (until, later, share, late); None where they have none.
    """
    late_way = HARDWARE_WAY[HARDWARE_WAY.index(stamp) + 1 :]
    early_way = HARDWARE_WAY[HARDWARE_WAY.index(stamp) - 1 : 0 : -1]
    for until in (*late_way, *early_way):
        column = f"{until}_tai_ns"
        if until.endswith("hard") or column not in counted.columns:
            continue
        took = (pl.col(column) - pl.col("launch_tai_ns")).alias("took")
        theirs = counted.filter(missing).select(took)["took"].drop_nulls().to_numpy()
        others = counted.filter(ought & ~missing).select(took)["took"].drop_nulls().to_numpy()
        if len(theirs) and len(others):
            return until, *_later(theirs, others)
    return None


def _later(theirs: NDArray[np.int64], others: NDArray[np.int64]) -> tuple[int, float, bool]:
    """How many are later than all but a share of the others, the share that chance explains least, and whether they are
    late.

    By the Chernoff bound of the binomial distribution, for as many shares as are looked at.
    """
    shares = [*(share for share in _SHARES if share * len(others) >= 1), 1 / (len(others) + 1)]
    ranks = [max(0, len(others) - 1 - int(share * len(others))) for share in shares[:-1]]
    ordered = ranked(others, (*ranks, len(others) - 1))
    limits = [int(ordered[rank]) for rank in (*ranks, len(others) - 1)]
    laters = [int(np.count_nonzero(theirs > limit)) for limit in limits]
    chances = [_chance(later, len(theirs), share) for later, share in zip(laters, shares, strict=True)]
    least = int(np.argmin(chances))
    late = chances[least] * len(shares) < _BY_CHANCE
    return laters[least], shares[least], bool(late)


def _chance(later: int, n: int, share: float) -> float:
    """At most how probable it is that so many of n, or more, are among the latest `share` of all."""
    part = later / n
    if part <= share:
        return 1.0
    apart = part * log(part / share) + ((1 - part) * log((1 - part) / (1 - share)) if part < 1 else 0.0)
    return exp(-n * apart)
