"""What shows in the order of packets and in counts: losses in a row, packets overtaken, copies."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl
from numpy.typing import NDArray

from latlab.analysis.anomalies.blocks import ranges, run_starts, runs
from latlab.analysis.anomalies.found import Claimed, FoundEpisode, Several, Told, packets
from latlab.analysis.counts import lost
from latlab.analysis.words import duration

Int64 = NDArray[np.int64]


def find_loss_bursts(seen: Claimed) -> Iterator[Several]:
    """Packets that the kernel took and that never arrived, several in a row.

    So many that single losses, each for itself, would hardly ever make a row like it in this stream.
    """
    signals = seen.signals
    rows = signals.rows
    lost_rows = rows.select(lost(rows).alias("lost")).to_series().to_numpy().copy()
    lost_rows[: signals.warmup] = False
    begins, ends = runs(lost_rows)
    lengths = ends - begins
    sent = int(rows["send_error"].eq(0).sum())
    least = _least_burst(len(begins), sent, signals.thresholds.burst, signals.thresholds.chance)
    bursts = np.flatnonzero(lengths >= least)
    if not len(bursts):
        return

    height, period_ns = rows.height, signals.context.period_ns
    launch = rows["launch_tai_ns"]

    def tell(one: int) -> Told:
        begin, end = int(begins[bursts[one]]), int(ends[bursts[one]])
        # Launches need not be regular: those of watched packets are whenever their sender sent.
        until = launch[end] if end < height else launch[end - 1] + period_ns
        lasted = until - launch[begin]
        evidence = {
            "lost": end - begin,
            "length_ns": lasted,
            "single_losses": len(begins) - len(bursts),
            "least": least,
            "until_the_end": end == height,
        }
        ending = ", the last of the stream" if end == height else ""
        return evidence, f"loss burst of {duration(lasted)}: {packets(end - begin)} in a row never arrived{ending}"

    yield Several("loss_burst", *ranges(begins[bursts], ends[bursts]), lengths[bursts].astype(np.float64), tell)


def _least_burst(rows_of_losses: int, sent: int, least: int, chance: float) -> int:
    """How many losses in a row are a burst: of independent ones fewer than `chance` such rows are to be expected."""
    rate = rows_of_losses / max(sent, 1)
    if rate >= 1:
        return least
    while rate > 0 and sent * rate**least > chance and least < 64:
        least += 1
    return least


def find_reordered(seen: Claimed) -> Iterator[Several]:
    """Packets that arrived after one with a larger sequence number (RFC 4737 §3.3)."""
    rows = seen.signals.rows
    arrived = (
        rows.lazy().with_row_index("row").filter(pl.col("arrival").is_not_null()).select("row", "arrival").collect()
    )
    row, arrival = arrived["row"].to_numpy().astype(np.int64), arrived["arrival"].to_numpy()
    if (arrival[1:] > arrival[:-1]).all():
        return
    in_order = np.empty_like(row)
    in_order[arrival.astype(np.int64)] = row
    largest = np.maximum.accumulate(in_order)
    place = np.flatnonzero(in_order < largest)
    behind = in_order[place]
    # RFC 4737 §4.2.1: how many places after the first packet that overtook it.
    extent = place - np.searchsorted(largest, behind, side="right")
    order = np.argsort(behind)
    behind, extent = behind[order], extent[order]
    counted = behind >= seen.signals.warmup
    behind, extent = behind[counted], extent[counted]
    starts = run_starts(behind)
    if not len(starts):
        return
    most = np.maximum.reduceat(extent, starts)

    def tell(one: int) -> Told:
        extent, count = int(most[one]), int(found.sizes[one])
        return {"extent": extent, "packets": count}, f"{packets(count)} overtaken by up to {packets(extent)}"

    found = Several("reorder", behind, starts, most.astype(np.float64), tell)
    yield found


def find_duplicates(seen: Claimed) -> Iterator[FoundEpisode]:
    """Copies, of which the recording has a count and no more."""
    copies = seen.signals.context.duplicated
    if copies:
        evidence = {"copies": copies, "received": len(seen.signals.row)}
        text = f"{copies} extra {'copy' if copies == 1 else 'copies'} arrived; it was not recorded of which packets"
        last = max(seen.signals.rows.height - 1, 0)
        yield FoundEpisode("duplicate", 0, last, np.empty(0, np.int64), float(copies), evidence, text, packets=copies)
