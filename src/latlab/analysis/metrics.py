"""The values of metrics for one stream; which metrics there are is in latlab.model.metrics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, exp, log
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from latlab.analysis.counts import SENDING, STAMPS, unknown
from latlab.analysis.statistics import ranked, statistics
from latlab.analysis.way import HARDWARE_WAY, ROUND_TRIP_WAY, WAKEUP_WAY
from latlab.model.metrics import MetricKind, Population
from latlab.model.statistics import LOW_PERCENTILES, smallest_n
from latlab.model.timestamps import BY_NAME, RECORDED
from latlab.result.types import LowPercentiles, Unstamped, Variation

# Packets without a timestamp that they should have: how far their values may go, and whether they are the late ones.
#
# The timestamps next to the missing one bound what it would have said: a packet passes them in their order.


SENT: Final = (pl.col("send_error") == 0) & (pl.col("launch_error") == 0)
RECEIVED: Final = pl.col("arrival").is_not_null()

_OUGHT: Final = {one.name: SENT if one.side == "talker" else RECEIVED for one in RECORDED if one.may_lack}
"""Which packets should have each timestamp that a kernel or a card gives."""

_SHARES: Final = (0.1, 0.01, 0.001)
_BY_CHANCE: Final = 0.001
"""The share of streams in which packets that are without a timestamp by chance would be called the late ones."""


@dataclass(frozen=True)
class MetricReach:
    """How far the values of packets without one of a metric's timestamps may go, ns.

    at_least_ns: one of them is this large, or larger; None: nothing says so. at_most_ns: none is larger; None: nothing
    bounds one of them.
    """

    at_least_ns: int | None
    at_most_ns: int | None


NOWHERE: Final = MetricReach(None, None)


def reach(packets: pl.DataFrame, start: str, end: str) -> MetricReach:
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
    return MetricReach(
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
    """How many are among the latest of all, the share of all that chance explains least, and whether they are late.

    If they were like the others, they would be spread over all as if drawn without replacement. Hoeffding's bound of
    that (1963, section 6) for as many shares as are looked at.
    """
    together = np.concatenate((theirs, others))
    latest = sorted({max(1, int(share * len(together))) for share in (*_SHARES, 0.0)})
    limits = ranked(together, [len(together) - 1 - count for count in latest])
    found = []
    for limit in (int(limits[len(together) - 1 - count]) for count in latest):
        later, counted = int(np.count_nonzero(theirs > limit)), int(np.count_nonzero(together > limit))
        found.append((_chance(later, counted, len(theirs) / len(together)), later, counted / len(together)))
    chance, later, share = min(found)
    return later, share, chance * len(found) < _BY_CHANCE


def _chance(of_theirs: int, n: int, share: float) -> float:
    """At most how probable it is that so many of n, or more, are of a group that is this share of all."""
    part = of_theirs / n if n else 0.0
    if part <= share:
        return 1.0
    apart = part * log(part / share) + ((1 - part) * log((1 - part) / (1 - share)) if part < 1 else 0.0)
    return exp(-n * apart)


# The values of metrics for one stream; which metrics there are is in latlab.model.metrics.


_MEMBERS: Final[dict[Population, pl.Expr]] = {
    "handed over": pl.col("send_error").is_not_null(),
    "sent": SENT,
    "received": RECEIVED,
    "waited for": pl.col("wake_tai_ns").is_not_null() & ~pl.col("overdue"),
}


BOUND: Final = "clock_bound_ns"


@dataclass(frozen=True)
class Values:
    """A metric's values for one stream, by sequence, warm-up left out.

    sequence uint64 [n]; at_tai_ns int64 [n], the launch times, or where packets have none (imported ones may not) their
    start timestamps; value_ns int64 [n]. from_ and to: the timestamps subtracted. missing: packets of the metric's
    population without one of the two, although no recording that is cut would have it; beyond: how far their values may
    go. unbounded: those that have both, on two clocks whose offset nothing bounds at
    that packet: their difference is not known.
    """

    metric: MetricKind
    sequence: NDArray[np.uint64]
    at_tai_ns: NDArray[np.int64]
    value_ns: NDArray[np.int64]
    from_: str
    to: str
    missing: int
    unbounded: int = 0
    beyond: MetricReach = NOWHERE

    @property
    def max_at_least(self) -> int | None:
        """The most that any packet of the population took at least, ns; None where it is the largest of the values."""
        largest = int(self.value_ns.max()) if len(self.value_ns) else None
        most = self.beyond.at_most_ns
        if not self.missing or self.metric.periodic or (most is not None and largest is not None and most <= largest):
            return None
        known = [value for value in (largest, self.beyond.at_least_ns) if value is not None]
        return max(known, default=None)


def metric_values(packets: pl.DataFrame, metric: MetricKind, period_ns: int | None) -> Values | None:
    """The values of a metric for the packets of one stream; None if the stream has no such timestamps, or the metric is
    of a period and it has none.

    packets: one stream's rows of the packet table, warm-up included. A timestamp exists for a stream when at
    least one of its packets has it; packets without it are then `missing`.
    """
    pair = next((p for p in metric.pairs if all(_exists(packets, name) for name in p)), None)
    if pair is None or (metric.periodic and period_ns is None):
        return None
    start, end = (pl.col(_column(name)) for name in pair)
    counted = packets.slice(int(packets["warmup"].sum()))  # launch times ascend: warm-up comes first
    both = start.is_not_null() & end.is_not_null()
    unbounded = _unbounded(counted, metric, pair)
    found = (
        counted.lazy()
        .filter(both & ~unbounded)
        .select(
            "sequence",
            pl.coalesce("launch_tai_ns", start).alias("at_tai_ns"),
            (end if metric.periodic else end - start).alias("value_ns"),
        )
        .collect()
    )
    lacking = _MEMBERS[metric.population] & (start.is_null() | end.is_null())
    recorded = {BY_NAME[name].table for name in pair if name in BY_NAME}
    if "stamps" in recorded:
        lacking &= ~unknown(counted, STAMPS)
    if "sent" in recorded:
        lacking &= ~unknown(counted, SENDING)
    told = counted.select(lacking.sum().alias("missing"), (both & unbounded).sum().alias("unbounded"))
    missing = int(told["missing"].item())
    sequence, value_ns = found["sequence"].to_numpy(), found["value_ns"].to_numpy()
    return Values(
        metric=metric,
        sequence=sequence,
        at_tai_ns=found["at_tai_ns"].to_numpy(),
        value_ns=_offset_from_period(sequence, value_ns, period_ns or 0) if metric.periodic else value_ns,
        from_=f"first {pair[0]} + n × period" if metric.periodic else pair[0],
        to=pair[1],
        missing=missing,
        unbounded=told["unbounded"].item(),
        beyond=reach(counted.filter(lacking), *pair) if missing else NOWHERE,
    )


def none_arrived(metric: MetricKind) -> Values:
    """A metric's values for a stream of which packets were sent and none arrived: none, between the timestamps that
    any of its packets would have had.
    """
    start, end = metric.pairs[-1]
    nothing = np.empty(0, np.int64)
    return Values(metric, np.empty(0, np.uint64), nothing, nothing, start, end, missing=0)


def _unbounded(packets: pl.DataFrame, metric: MetricKind, pair: tuple[str, str]) -> pl.Expr:
    """Whether nothing relates the two clocks of a packet's one-way value. Tables without a bound for each packet, and
    NICs' clocks, are judged as a whole (`uncertainty_ns`).
    """
    judged = metric.crosses_hosts and BOUND in packets.columns and "hard" not in " ".join(pair)
    return pl.col(BOUND).is_null() if judged else pl.lit(False)


def _offset_from_period(sequence: NDArray[np.uint64], rx_ns: NDArray[np.int64], period_ns: int) -> NDArray[np.int64]:
    """rx − (first rx + n × period), n counted in sequence numbers from the first packet there is, ns.

    The quantity of the table in the SO_TXTIME patch series ("arrival offset from the expected period").
    """
    if len(sequence) == 0:
        return rx_ns
    n = (sequence - sequence[0]).astype(np.int64)
    offset: NDArray[np.int64] = (rx_ns - rx_ns[0]) - n * period_ns
    return offset


def _exists(packets: pl.DataFrame, name: str) -> bool:
    column = _column(name)
    return column in packets.columns and packets[column].null_count() < packets.height


def _column(name: str) -> str:
    return f"{name}_tai_ns"


# Delay variation by RFC 5481: from one packet to the next (IPDV), and above the least delay (PDV).
#
# Both are differences of delays over the same two clocks: a constant offset between these is in neither.


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
