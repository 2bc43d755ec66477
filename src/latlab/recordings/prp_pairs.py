"""PRP pairs in the packet table: of each frame that goes by two LANs the copy that came first (IEC 62439-3, 4.1)."""

from __future__ import annotations

from typing import Final

import polars as pl

from latlab.recordings.cell import RecordedStream

_CAME: Final = "rx_user_tai_ns"


def first_copies(packets: pl.DataFrame, pair: RecordedStream) -> pl.DataFrame:
    """The rows of a pair: of both streams' rows of a packet the one whose application had it first; one that came by
    one LAN only has that row, one that came by none the row of LAN A.

    Both streams have one talker and one listener, so all instants are by the same clocks.
    """
    assert pair.pair
    lans = {number: place for place, number in enumerate(pair.pair)}
    rows = packets.filter(pl.col("stream").is_in(pair.pair))
    by_lan = pl.col("stream").replace_strict(lans, return_dtype=pl.Int8)
    first = rows.sort(pl.col("sequence"), pl.col(_CAME), by_lan, nulls_last=True).unique(
        "sequence", keep="first", maintain_order=True
    )
    came = pl.col("arrival").is_not_null()
    order = pl.struct(_CAME, "sequence").rank("ordinal").over(came) - 1
    return first.with_columns(
        pl.lit(pair.stream, pl.UInt16).alias("stream"),
        pl.when(came).then(order.cast(pl.UInt64)).alias("arrival"),
    )
