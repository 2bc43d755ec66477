"""The figures of an imported cell: of packets that another program recorded, and of what it summed up itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import polars as pl

from latlab.analysis.anomalies import by_class, find_anomalies
from latlab.analysis.anomalies.thresholds import THRESHOLDS
from latlab.analysis.bins import Tally, bin_of_percentiles
from latlab.analysis.buckets import buckets
from latlab.analysis.cell_anomalies import NOTHING, context_of
from latlab.analysis.counts import lost_after_warmup, reordered_sequences, stream_counts, stream_rows
from latlab.analysis.hops import TRANSIT, WatchedPackets
from latlab.analysis.metrics import BOUND, Values, metric_values
from latlab.analysis.statistics import statistics
from latlab.analysis.way import EXPLAINED, with_every_launch, worst_packet
from latlab.model.metrics import METRICS_BY_NAME
from latlab.model.statistics import PERCENTILES
from latlab.model.timestamps import RECORDED
from latlab.model.units import SECOND_NS
from latlab.recordings.cell import RecordedStream, ToolFigures, Totals
from latlab.result.types import Anomaly, LateLimits, Metric, Series, Stream

BINS: Final = "bins and digits"
DIGITS: Final = "digits"
TOLD: Final = "given at the import"
POINTS: Final = METRICS_BY_NAME[TRANSIT].pairs[0]
LEAST: Final = THRESHOLDS.block_packets[0]
"""So many packets have to be seen at two points before any of them can be called late."""

_NOTHING: Final = pl.DataFrame(
    schema={
        "warmup": pl.Boolean,
        "sequence": pl.UInt64,
        "arrival": pl.UInt64,
        "send_error": pl.Int32,
        "launch_error": pl.UInt8,
    }
)


def packet_figures(
    stream: RecordedStream, packets: pl.DataFrame, bound_ns: int | None, watched: WatchedPackets | None = None
) -> tuple[dict[str, int | None], dict[str, Metric]]:
    """Counts and metrics of one stream, from the packet table.

    stream: of cell.json; its `metrics` are computed and no others, and its `counts` stand instead of the rows'.
    bound_ns: by how much clocks may differ, ±; None where nothing says it: values are shown then nevertheless, and
    their uncertainty is not known. watched: of the cell, if its packets were seen at several points.
    """
    rows = stream_rows(packets, stream.stream)
    told = dict(stream.counts)
    counts: dict[str, int | None] = {**stream_counts(rows, Totals(), stream.stream), "launch_silent": 0, **told}
    shared = {
        "lost": told["lost"] if "lost" in told else lost_after_warmup(rows),
        "duplicated": counts["duplicated"],
        "reordered": told["reordered"] if "reordered" in told else len(reordered_sequences(rows)),
    }
    metrics = {}
    for name in stream.metrics:
        values = metric_values(rows, METRICS_BY_NAME[name], stream.period_ns)
        if values is not None:
            found = _of_values(rows, values, shared, bound_ns if stream.two_clocks else 0)
            hops = watched.hops(stream, values) if watched and name == TRANSIT else None
            metrics[name] = found.model_copy(update={"chain": hops}) if hops else found
    return counts, metrics


def rows_with_launches(stream: RecordedStream, packets: pl.DataFrame, bound_ns: int | None) -> pl.DataFrame:
    """The rows of one stream, with launch times where they have some; of packets that were seen at two points the
    instant at the first is taken for it, and that at the second for the kernel's receive timestamp.

    bound_ns: by how much all clocks may differ, ±; None where nothing says it, or it is each packet's own.
    """
    rows = stream_rows(packets, stream.stream)
    if not _at_two_points(rows):
        return rows
    first, second = (f"{name}_tai_ns" for name in POINTS)
    found = rows.with_columns(launch_tai_ns=first, rx_soft_tai_ns=second)
    if BOUND in found.columns and stream.two_clocks:
        return found
    # Two points of one kernel have one clock.
    return found.with_columns(pl.lit(bound_ns if stream.two_clocks else 0, pl.Int64).alias(BOUND))


def _at_two_points(rows: pl.DataFrame) -> bool:
    """Whether any packet was seen at both."""
    second = f"{POINTS[1]}_tai_ns"
    return second in rows.columns and rows[second].null_count() < rows.height


def launch_gap_ns(rows: pl.DataFrame) -> int | None:
    """The median time between launches that follow each other, ns; None where no two packets have a launch time."""
    launch = np.sort(rows["launch_tai_ns"].drop_nulls().to_numpy())
    return max(1, int(np.median(np.diff(launch)))) if len(launch) > 1 else None


def packet_anomalies(
    stream: RecordedStream, packets: pl.DataFrame, bound_ns: int | None = None
) -> tuple[dict[str, Anomaly] | None, LateLimits | None]:
    """The anomalies of one stream, and what packets were compared with; None each where no packet says when it was due,
    and fewer than LEAST were seen at two points. bound_ns: by how much all clocks may differ, ±, if that is known.

    Packets are compared with their own launch times, or with when the first point saw them; how regular these are is
    `launch_gap_ns`. There are no clean windows: an import's figures are compared with what its program said of the
    whole, and who sends watched packets may change their rate.
    """
    rows = rows_with_launches(stream, packets, bound_ns)
    period_ns = launch_gap_ns(rows)
    watched = _at_two_points(rows)
    if period_ns is None or (watched and rows[f"{POINTS[1]}_tai_ns"].count() < LEAST):
        return None, None
    duplicated = stream_counts(rows, Totals(), stream.stream)["duplicated"]
    context = context_of(stream.model_copy(update={"period_ns": period_ns}), rows, (), duplicated, NOTHING)
    found = find_anomalies(with_every_launch(rows), context)
    limits = found.limits
    if limits and watched:
        limits = limits.model_copy(update={"until": POINTS[1]})
    return by_class(found), limits


def _of_values(rows: pl.DataFrame, values: Values, shared: Mapping[str, int | None], bound_ns: int | None) -> Metric:
    found = statistics(values.value_ns, values.sequence)
    # Of a round trip that a tool measured, no timestamp between its two ends is known.
    is_explained = values.metric.name in EXPLAINED and values.to != "answered"
    latest = found.max_sequence if is_explained else None
    more: dict[str, Any] = {**shared} | ({} if latest is None else {"worst": worst_packet(rows, latest, values.to)})
    more |= {"uncertainty_of": TOLD} if bound_ns and _crosses(values) and BOUND not in rows.columns else {}
    return Metric(
        **vars(found),
        missing=values.missing,
        unbounded=values.unbounded,
        from_=values.from_,
        to=values.to,
        uncertainty_ns=bound_ns if _crosses(values) else 0,
        buckets=buckets(values.value_ns).as_result(),
        **more,
    )


def _crosses(values: Values) -> bool:
    """Whether a metric subtracts two clocks: two hosts', or a network card's and the system's."""
    if values.metric.periodic:
        return False
    mixed = ("hard" in values.from_) != ("hard" in values.to)
    return values.metric.crosses_hosts or mixed


def summed_up(
    figures: ToolFigures, tally: Tally | None, intervals: pl.DataFrame | None, bound_ns: int | None
) -> Metric:
    """One metric of which single values are not known.

    figures: of cell.json's `imported`, or of a tool's probe. tally: its bins. intervals: its rows of intervals.parquet.
    Percentiles are those that the tool said of all values, or those of the bins: the lower end of the bin that the
    value lies in, so it is that or less than a bin's width more; those of intervals are not merged, and blank. Blank is
    also what cannot be known: a percentile beyond the last bin, or one that n does not support, a deviation, a mean or
    an extreme that was not printed.
    """
    bins = bin_of_percentiles(tally) if tally else dict.fromkeys(PERCENTILES)
    told = figures.percentiles or {}
    least, most = figures.min, figures.max
    resolution_ns = max(figures.resolution_ns, tally.width_ns if tally else 0)
    known = not figures.two_clocks or bound_ns is not None
    more: dict[str, Any] = {name: told.get(name) if found is None else found[0] for name, found in bins.items()}
    more |= {"bins": bins, "below": tally.below, "above": tally.above} if tally else {}
    more |= {} if intervals is None else {"intervals": interval_range(intervals)}
    return Metric(
        n=figures.n,
        lost=figures.lost,
        duplicated=None,
        reordered=None,
        missing=None,
        unbounded=0,
        from_=figures.between[0],
        to=figures.between[1],
        uncertainty_ns=resolution_ns + (bound_ns or 0 if figures.two_clocks else 0) if known else None,
        uncertainty_of=_of_what(figures, bound_ns),
        min=least,
        mean=figures.mean,
        max=most,
        stddev=figures.stddev,
        pk_pk=most - least if most is not None and least is not None else None,
        min_sequence=figures.min_sequence,
        max_sequence=figures.max_sequence,
        kept=figures.kept,
        **more,
    )


def _of_what(figures: ToolFigures, bound_ns: int | None) -> str:
    own = BINS if figures.kept == "histogram" or figures.binned else DIGITS
    return f"{own} + {TOLD}" if figures.two_clocks and bound_ns is not None else own


def interval_range(intervals: pl.DataFrame) -> Series:
    """How many there are, and the least and the greatest of each figure that all of them have.

    This, and no more, is exact of percentiles that were taken of each interval separately.
    """
    names = ("n", "min", "mean", "p50", "p90", "p99", "max")
    found: dict[str, Any] = {
        name: [intervals[name].min(), intervals[name].max()] for name in names if intervals[name].null_count() == 0
    }
    return Series(count=intervals.height, **found)


def no_counts() -> dict[str, int | None]:
    """The counts of a stream of which no packet is known."""
    return dict.fromkeys((*stream_counts(_NOTHING, Totals(), 0), "launch_silent"))


def unbounded(streams: Mapping[str, Stream]) -> Sequence[str]:
    """`stream.metric` of every figure that nothing bounds."""
    return [
        f"{stream}.{metric}"
        for stream, block in streams.items()
        for metric, figures in block.metrics.items()
        if figures.uncertainty_ns is None
    ]


_NEVER_NEGATIVE: Final = frozenset({"delivery", "round_trip", "half_round_trip"})
"""Metrics of one host that end after they begin, whatever the talker's schedule is."""
_FROM_LAUNCH: Final = frozenset({"latency", "latency_user"})


def before_they_left(streams: Mapping[str, Stream]) -> Sequence[tuple[str, int, int]]:
    """(`stream.metric`, least value, bound) of the figures that are further below zero than the clocks' bound.

    Without a launch time that the card keeps, packets leave before their launch: what counts from there may be as far
    below zero as their lateness.
    """
    found = []
    for stream, block in streams.items():
        early = block.metrics["lateness"].min if "lateness" in block.metrics else None
        for metric, figures in block.metrics.items():
            least, bound = figures.min, figures.uncertainty_ns
            known = METRICS_BY_NAME[metric]
            if not ((known.crosses_hosts and not known.periodic) or metric in _NEVER_NEGATIVE):
                continue
            if least is None or bound is None:
                continue
            allowed = min(0, early) if metric in _FROM_LAUNCH and early is not None else 0
            if least < allowed - bound:
                found.append((f"{stream}.{metric}", least, bound))
    return found


_SCALES: Final = {37: "TAI and UTC", 19: "TAI and GPS", 18: "GPS and UTC"}
"""{seconds between two time scales since 2017: which}."""
_NEAR_NS: Final = 500_000_000


def scales_apart(least_ns: float, most_ns: float) -> str | None:
    """Which two time scales are as far apart as all values from the least to the most; None: none are."""
    for seconds, names in _SCALES.items():
        if all(abs(abs(value) - seconds * SECOND_NS) < _NEAR_NS for value in (least_ns, most_ns)):
            return f"{names} are {seconds} s apart"
    return None


def on_two_scales(streams: Mapping[str, Stream]) -> dict[str, dict[str, float]]:
    """{which time scales: {`stream.metric`: least value}} of the figures that are all as far from 0 as two scales."""
    found: dict[str, dict[str, float]] = {}
    for stream, block in streams.items():
        for metric, figures in block.metrics.items():
            least, most = figures.min, figures.max
            if least is None or most is None or METRICS_BY_NAME[metric].periodic:
                continue
            if scales := scales_apart(least, most):
                found.setdefault(scales, {})[f"{stream}.{metric}"] = least
    return found


_IN_ORDER: Final = tuple(
    tuple(one.name for one in RECORDED if one.place and one.side == side) for side in ("talker", "listener")
)
"""What one machine stamps of a packet, in the order in which it can be."""


def out_of_order(stream: RecordedStream, packets: pl.DataFrame, bound_ns: int) -> Sequence[tuple[str, int]]:
    """(`stream: end − start`, least value) of two timestamps that one machine took of a packet, of which the later one
    is further before the earlier one than its clocks differ. Only timestamps that the stream's metrics are of."""
    rows = stream_rows(packets, stream.stream)
    used = {name for metric in stream.metrics for pair in METRICS_BY_NAME[metric].pairs for name in pair}
    found = []
    for stamps in _IN_ORDER:
        there = [name for name in stamps if name in used and rows[f"{name}_tai_ns"].null_count() < rows.height]
        for place, start in enumerate(there):
            for end in there[place + 1 :]:
                least = (rows[f"{end}_tai_ns"] - rows[f"{start}_tai_ns"]).min()
                if isinstance(least, int) and least < -bound_ns:
                    found.append((f"{stream.name}: {end} − {start}", least))
    return found
