"""Which packets of a stream were lost, which of them silently, and where those were dropped that kernels saw."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from latlab.analysis.counts import STAMPS, lost, unknown
from latlab.result.types import Losses, LostAt, Silent


def lost_sequences(packets: pl.DataFrame) -> NDArray[np.int64]:
    """The sequence numbers of one stream's lost packets, warm-up left out, ascending.

    Lost: taken by the kernel, and never arrived (RFC 7680 §2.4: within any time).
    """
    found = packets.filter(lost(packets) & ~pl.col("warmup"))
    return found["sequence"].cast(pl.Int64).to_numpy()


def silent_drops(packets: pl.DataFrame) -> Silent | None:
    """What was dropped silently of a stream whose packets have launch times, warm-up included; None: nothing.

    Dropped silently: taken by the kernel, and neither a timestamp of leaving, nor an error record, nor an
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
    if sequences.is_empty():
        return None
    return Silent(count=len(sequences), first_sequence=int(sequences[0]), last_sequence=int(sequences[-1]))


_NOT_MEANT: Final = "OTHERHOST"
"""The reason of copies that reach a host that does not want them, as from a bridge that floods: not a loss."""
_AT_SOCKET: Final = {
    "SOCKET_RCVBUFF": "socket buffer",
    "SOCKET_BACKLOG": "socket backlog",
    "SOCKET_FILTER": "socket filter",
    "PROTO_MEM": "socket memory",
}
"""Reasons of sockets (include/net/dropreason-core.h), and what of theirs it was."""


def losses_of(packets: Sequence[pl.DataFrame], drops: pl.DataFrame) -> Losses:
    """Where the lost packets of these streams were dropped, warm-up left out: `losses` of docs/reference/result.md.

    packets: the rows of each stream. drops: as `recordings.drops.read_drops` has them. Of the drops of one packet the
    first counts that is not of a flooded copy.
    """
    parts = [rows.filter(lost(rows) & ~pl.col("warmup")).select("stream", "sequence") for rows in packets]
    missing = pl.concat(part.cast({"stream": pl.UInt16, "sequence": pl.UInt64}) for part in parts)
    first = (
        drops.join(missing, ["stream", "sequence"], "semi")
        .sort(pl.col("reason").eq_missing(pl.lit(_NOT_MEANT)), "tai_ns")
        .unique(["stream", "sequence"], keep="first", maintain_order=True)
    )
    keys = ("host", "device", "ifindex", "reason", "location", "watcher")
    places = [_place(one) for one in first.group_by(keys).len("packets").iter_rows(named=True)]
    places.sort(key=lambda one: (-one.packets, one.place, one.reason or "", one.function or ""))
    return Losses(lost=missing.height, unplaced=missing.height - first.height, places=places)


def _place(drop: Mapping[str, Any]) -> LostAt:
    reason, device = drop["reason"], drop["device"]
    at_socket = _AT_SOCKET.get(reason or "")
    if at_socket:
        place = f"in the {at_socket}"
    elif device is not None:
        place = f"at {device}"
    elif drop["location"] is not None:
        place = f"in {drop['location']}()"
    elif drop["ifindex"] is not None:
        place = f"at interface {drop['ifindex']}"
    else:
        place = f"in the kernel of {drop['watcher']}"
    of = f" of {drop['host']}" if drop["host"] is not None else ""
    return LostAt(
        place=f"{place}{of}",
        host=drop["host"],
        device=device,
        reason=reason,
        function=drop["location"],
        packets=drop["packets"],
    )
