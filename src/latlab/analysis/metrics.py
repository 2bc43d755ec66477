"""The values of metrics for one stream; which metrics there are is in latlab.model.metrics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from latlab.analysis.counts import SENDING, STAMPS, unknown
from latlab.analysis.unstamped import NOWHERE, RECEIVED, SENT, Reach, reach
from latlab.model.metrics import METRICS_BY_NAME as METRICS_BY_NAME
from latlab.model.metrics import Metric, Population

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

    metric: Metric
    sequence: NDArray[np.uint64]
    at_tai_ns: NDArray[np.int64]
    value_ns: NDArray[np.int64]
    from_: str
    to: str
    missing: int
    unbounded: int = 0
    beyond: Reach = NOWHERE

    @property
    def max_at_least(self) -> int | None:
        """The most that any packet of the population took at least, ns; None where it is the largest of the values."""
        largest = int(self.value_ns.max()) if len(self.value_ns) else None
        most = self.beyond.at_most_ns
        if not self.missing or self.metric.periodic or (most is not None and largest is not None and most <= largest):
            return None
        known = [value for value in (largest, self.beyond.at_least_ns) if value is not None]
        return max(known, default=None)


def metric_values(packets: pl.DataFrame, metric: Metric, period_ns: int | None) -> Values | None:
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
    if any(name.startswith("tx_") for name in pair):
        lacking &= ~unknown(counted, STAMPS)
    if set(pair) & {"launch", "wake_due", "wake", "submit"}:
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


def none_arrived(metric: Metric) -> Values:
    """A metric's values for a stream of which packets were sent and none arrived: none, between the timestamps that
    any of its packets would have had.
    """
    start, end = metric.pairs[-1]
    nothing = np.empty(0, np.int64)
    return Values(metric, np.empty(0, np.uint64), nothing, nothing, start, end, missing=0)


def _unbounded(packets: pl.DataFrame, metric: Metric, pair: tuple[str, str]) -> pl.Expr:
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
