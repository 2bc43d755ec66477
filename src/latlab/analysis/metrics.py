"""The metrics, as a table: which two timestamps each one subtracts, and its values for one stream."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

Population = Literal["handed over", "sent", "received"]
"""Which packets ought to have the metric's timestamps: those given to the kernel; those it took and whose
launch time it did not refuse; those that arrived."""


@dataclass(frozen=True)
class Metric:
    """One metric: value = end − start.

    pairs: (start, end) timestamps in order of preference; the first pair of which the stream has both is used
    for all its packets. population: which packets count as `missing` without them. crosses_hosts: the
    difference of two hosts' clocks, so it carries the bound of the offset between them. periodic: the start
    is not the packet's own timestamp but that of the first one + n × period.
    """

    name: str
    title: str
    formula: str
    pairs: tuple[tuple[str, str], ...]
    population: Population
    crosses_hosts: bool = False
    periodic: bool = False


METRICS: Final[tuple[Metric, ...]] = (
    Metric(
        "wakeup",
        "Wake-up",
        "wake − planned wake",
        (("wake_due", "wake"),),
        "handed over",
    ),
    Metric(
        "lateness",
        "Lateness",
        "(tx_hard, tx_soft, tx_sched or submit) − launch",
        (("launch", "tx_hard"), ("launch", "tx_soft"), ("launch", "tx_sched"), ("launch", "submit")),
        "sent",
    ),
    # A NIC's clock and a system clock are two clocks: the path is taken between two of a kind, never across.
    # A stream that has only one NIC's timestamps uses the software ones of both ends.
    Metric(
        "path",
        "Path",
        "rx_hard − tx_hard, or rx_soft − tx_soft",
        (("tx_hard", "rx_hard"), ("tx_soft", "rx_soft")),
        "received",
        crosses_hosts=True,
    ),
    Metric(
        "delivery",
        "Delivery",
        "rx_user − (rx_hard or rx_soft)",
        (("rx_hard", "rx_user"), ("rx_soft", "rx_user")),
        "received",
    ),
    Metric(
        "latency",
        "Latency",
        "(rx_hard or rx_soft) − launch",
        (("launch", "rx_hard"), ("launch", "rx_soft")),
        "received",
        crosses_hosts=True,
    ),
    Metric(
        "latency_user",
        "Latency to the application",
        "rx_user − launch",
        (("launch", "rx_user"),),
        "received",
        crosses_hosts=True,
    ),
    Metric(
        "arrival_offset",
        "Arrival offset",
        "rx − (first rx + n × period), rx = rx_hard or rx_soft",
        (("rx_hard", "rx_hard"), ("rx_soft", "rx_soft")),
        "received",
        periodic=True,
    ),
)

METRICS_BY_NAME: Final[dict[str, Metric]] = {metric.name: metric for metric in METRICS}

_MEMBERS: Final[dict[Population, pl.Expr]] = {
    "handed over": pl.col("send_error").is_not_null(),
    "sent": (pl.col("send_error") == 0) & (pl.col("launch_error") == 0),
    "received": pl.col("arrival").is_not_null(),
}


BOUND: Final = "clock_bound_ns"


@dataclass(frozen=True)
class Values:
    """A metric's values for one stream, by sequence, warm-up left out.

    sequence uint64 [n]; at_tai_ns int64 [n], the launch times; value_ns int64 [n]. from_ and to: the
    timestamps subtracted. missing: packets of the metric's population that lack one of the two. unbounded: those that
    have both, on two clocks whose offset nothing bounds at that packet: what their difference is nobody knows.
    """

    metric: Metric
    sequence: NDArray[np.uint64]
    at_tai_ns: NDArray[np.int64]
    value_ns: NDArray[np.int64]
    from_: str
    to: str
    missing: int
    unbounded: int = 0


def metric_values(packets: pl.DataFrame, metric: Metric, period_ns: int) -> Values | None:
    """The values of a metric for the packets of one stream; None if the stream has no such timestamps.

    packets: one stream's rows of the packet table, warm-up included. A timestamp exists for a stream when at
    least one of its packets has it; packets lacking it then are `missing`.
    """
    pair = next((p for p in metric.pairs if all(_exists(packets, name) for name in p)), None)
    if pair is None:
        return None
    start, end = (pl.col(_column(name)) for name in pair)
    counted = packets.slice(int(packets["warmup"].sum()))  # launch times ascend: warm-up comes first
    both = start.is_not_null() & end.is_not_null()
    unknown = _unknown(counted, metric, pair)
    found = (
        counted.lazy()
        .filter(both & ~unknown)
        .select("sequence", "launch_tai_ns", (end if metric.periodic else end - start).alias("value_ns"))
        .collect()
    )
    lacking = _MEMBERS[metric.population] & (start.is_null() | end.is_null())
    missing = counted.select(lacking.sum()).item()
    sequence, value_ns = found["sequence"].to_numpy(), found["value_ns"].to_numpy()
    return Values(
        metric=metric,
        sequence=sequence,
        at_tai_ns=found["launch_tai_ns"].to_numpy(),
        value_ns=_offset_from_period(sequence, value_ns, period_ns) if metric.periodic else value_ns,
        from_=f"first {pair[0]} + n × period" if metric.periodic else pair[0],
        to=pair[1],
        missing=missing,
        unbounded=counted.select((both & unknown).sum()).item(),
    )


def _unknown(packets: pl.DataFrame, metric: Metric, pair: tuple[str, str]) -> pl.Expr:
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
    column = packets[_column(name)]
    return column.null_count() < len(column)


def _column(name: str) -> str:
    return f"{name}_tai_ns"
