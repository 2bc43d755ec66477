"""The repetitions of a cell: all of them as one sample, and how alike they are, packet by packet."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import combinations
from typing import Final

import polars as pl

from latlab.analysis.buckets import BucketCounts, from_result
from latlab.model.statistics import PERCENTILES, smallest_n
from latlab.model.timestamps import RECORDED
from latlab.result.types import Cell, Metric

# All repetitions of a cell as one sample: their buckets merged, which is exact.


@dataclass(frozen=True)
class Pooled:
    """What `repeats` repetitions of one metric show together, as if their packets were of one run.

    It describes these packets. Packets of one deployment are no independent ones of the next, so nothing of how far the
    next will lie from them is in it: that is seen from single repetitions.
    """

    repeats: int
    buckets: BucketCounts

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
    return Pooled(len(found), reduce(BucketCounts.merged, found))


# Repetitions in virtual time that are one measurement: intervals over them are too narrow.


COPY_NS: Final = 100
"""Repetitions whose extremes and percentiles are all as near as this, and as a hundredth of their range, are one
measurement, which was taken twice: others differ by more at least in their maxima.
"""
_COMPARED: Final = ("min", "p50", "p90", "p99", "max")


def copies(cells: Sequence[Cell]) -> Iterator[tuple[Cell, str, int]]:
    """(A repetition in virtual time, a stream of it, an earlier repetition that measured the same) of these cells."""
    virtual = [cell for cell in cells if cell.instructions_per_ns is not None]
    for one, other in combinations(sorted(virtual, key=lambda cell: cell.repeat), 2):
        if one.slug == other.slug:
            yield from ((other, name, one.repeat) for name in one.streams if _is_copy(one, other, name))


def _is_copy(one: Cell, other: Cell, stream: str) -> bool:
    """Whether all that was measured of the stream is the same in both."""
    pairs = [(figures, other.figures(stream, name)) for name, figures in one.streams[stream].metrics.items()]
    found = [(figures, beside) for figures, beside in pairs if figures.n]
    return bool(found) and all(beside is not None and _are_equal(figures, beside) for figures, beside in found)


def _are_equal(one: Metric, other: Metric) -> bool:
    """Whether two repetitions of a metric have the same number of packets, and everywhere nearly the same figures."""
    values = [(getattr(one, name), getattr(other, name)) for name in _COMPARED]
    known = [(a, b) for a, b in values if a is not None and b is not None]
    near = min(COPY_NS, ((one.max or 0) - (one.min or 0)) // 100)
    return one.n == other.n and len(known) > 1 and all(abs(a - b) <= near for a, b in known)


# How alike the repetitions of a cell are, packet by packet.


_STAMPS = tuple(one.column for one in RECORDED if one.place)


@dataclass(frozen=True)
class RepetitionDifference:
    """Of all packets of the repetitions, and of all their timestamps, how far they are apart, and from where on.

    packets: so many were compared. only_in_one: so many timestamps one repetition has and another does not have.
    largest_ns: |timestamp − launch time of one − the same of the other|, ns; None where no timestamp is in both.
    repeat, stream, sequence, timestamp: the first one that differs, by when it was taken in the first repetition: what
    made all others differ is to be looked for there. stream as the tables number it. None where none differs.
    """

    packets: int
    only_in_one: int
    largest_ns: int | None = None
    repeat: int | None = None
    stream: int | None = None
    sequence: int | None = None
    timestamp: str | None = None


def largest_difference(repetitions: Sequence[pl.DataFrame]) -> RepetitionDifference:
    """What the packet tables of a cell's repetitions differ by at most, each against the first.

    Packets are matched by stream and sequence number, and every timestamp is taken from its packet's launch time, so
    that it does not matter when a repetition began.
    """
    first, *others = repetitions
    found = [_against(first, other, number) for number, other in enumerate(others, start=2)]
    worst = max(found, key=lambda one: -1 if one.largest_ns is None else one.largest_ns)
    packets, only_in_one = max(one.packets for one in found), sum(one.only_in_one for one in found)
    return replace(worst, packets=packets, only_in_one=only_in_one)


def _against(first: pl.DataFrame, other: pl.DataFrame, repeat: int) -> RepetitionDifference:
    keys = ["stream", "sequence"]
    both = _taken(first).join(_taken(other), on=keys, how="full", coalesce=True, suffix="_other")
    lacking = [pl.col(stamp).is_null() ^ pl.col(f"{stamp}_other").is_null() for stamp in _STAMPS]
    apart = [
        pl.struct(
            ns=(pl.col(stamp) - pl.col(f"{stamp}_other")).abs(), taken_ns=pl.col("launch_tai_ns") + pl.col(stamp)
        ).alias(stamp)
        for stamp in _STAMPS
    ]
    only_in_one = int(both.select(pl.sum_horizontal(lacking).sum()).item())
    long = both.select(*keys, *apart).unpivot(index=keys, variable_name="timestamp", value_name="at").unnest("at")
    if (largest_ns := long["ns"].max()) is None:
        return RepetitionDifference(both.height, only_in_one)
    found = RepetitionDifference(both.height, only_in_one, int(largest_ns))  # type: ignore[arg-type]
    differing = long.filter(pl.col("ns") > 0).sort("taken_ns", maintain_order=True)
    if differing.is_empty():
        return found
    begins = differing.row(0, named=True)
    return replace(
        found,
        repeat=repeat,
        stream=int(begins["stream"]),
        sequence=int(begins["sequence"]),
        timestamp=begins["timestamp"].removesuffix("_tai_ns"),
    )


def _taken(table: pl.DataFrame) -> pl.DataFrame:
    """Each packet's launch time, and its timestamps from that, ns."""
    stamps = [(pl.col(stamp) - pl.col("launch_tai_ns")).alias(stamp) for stamp in _STAMPS]
    return table.select("stream", "sequence", "launch_tai_ns", *stamps)
