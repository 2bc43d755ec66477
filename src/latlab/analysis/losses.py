"""Which packets of a stream were lost, and which of them without a word."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from latlab.analysis.counts import STAMPS, lost, unknown


def lost_sequences(packets: pl.DataFrame) -> NDArray[np.int64]:
    """The sequence numbers of one stream's lost packets, warm-up left out, ascending.

    Lost: taken by the kernel, and never arrived (RFC 7680 §2.4: within any time).
    """
    found = packets.filter(lost(packets) & ~pl.col("warmup"))
    return found["sequence"].cast(pl.Int64).to_numpy()


@dataclass(frozen=True)
class Silent:
    """Packets of a stream that something dropped without a word: how many, the first and the last of them."""

    count: int
    first_sequence: int
    last_sequence: int


def silent_drops(packets: pl.DataFrame) -> Silent | None:
    """What was dropped without a word of a stream whose packets have launch times, warm-up included; None: nothing.

    Dropped without a word: taken by the kernel, and neither a timestamp of leaving, nor an error record, nor an
    arrival followed. ETF reports what it drops (SO_TXTIME, SOF_TXTIME_REPORT_ERRORS); fq beyond its horizon and taprio
    outside an open gate do not (net/sched/sch_fq.c, sch_taprio.c). Where packets arrived that have no timestamp of
    leaving, none of this interface's says anything: nothing is known then.
    """
    left = pl.col("tx_soft_tai_ns").is_not_null() | pl.col("tx_hard_tai_ns").is_not_null()
    arrived = pl.col("arrival").is_not_null()
    silent = lost(packets) & (pl.col("launch_error") == 0) & ~left & ~unknown(packets, STAMPS)
    unstamped, stamped = packets.select((arrived & ~left).any().alias("unstamped"), (arrived & left).any()).row(0)
    if unstamped and not stamped:
        return None
    sequences = packets.filter(silent)["sequence"]
    return Silent(len(sequences), int(sequences[0]), int(sequences[-1])) if len(sequences) else None
