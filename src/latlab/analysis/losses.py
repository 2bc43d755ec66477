"""Which packets of a stream were lost."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray


def lost_sequences(packets: pl.DataFrame) -> NDArray[np.int64]:
    """The sequence numbers of one stream's lost packets, warm-up left out, ascending.

    Lost: taken by the kernel, and never arrived (RFC 7680 §2.4: within any time).
    """
    lost = packets.filter((pl.col("send_error") == 0) & pl.col("arrival").is_null() & ~pl.col("warmup"))
    return lost["sequence"].cast(pl.Int64).to_numpy()
