"""How many packets of a stream were sent, lost, duplicated and reordered, and which were lost where."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from latlab.model.timestamps import LEFT
from latlab.recordings.cell import RecordedCell, RecordedStream, StreamTotals, Totals
from latlab.result.types import Losses, LostAt, Silent

REFUSED: Final = ("foreign", "truncated", "other_run", "unknown_stream")
"""The kinds of packets that a listener refuses without knowing of which stream they are."""

SENDING: Final = 1
ARRIVAL: Final = 2
STAMPS: Final = 4
"""Bits of the packet table's `unknown`: whether it was sent, whether it arrived, when it left."""

LISTENER_COUNTS: Final = (*REFUSED, "socket_drops", "empty_wakeups")
"""What a listener counts for all its streams together."""


def refused_counts(listened: Totals) -> dict[str, int]:
    """What one listener counted for all its streams together, from its `done`; what it never said is 0."""
    return {kind: getattr(listened, kind) for kind in LISTENER_COUNTS}


def counted(counts: Mapping[str, int]) -> str:
    """The counts that are not 0, in words: "3 foreign, 1 unknown stream"."""
    return ", ".join(f"{count} {kind.replace('_', ' ')}" for kind, count in counts.items() if count)


def stream_rows(packets: pl.DataFrame, stream: int) -> pl.DataFrame:
    """One stream's rows of a packet table (which is sorted by stream), without copying them."""
    first = packets["stream"].search_sorted(stream, side="left")
    last = packets["stream"].search_sorted(stream, side="right")
    return packets.slice(first, last - first)


def leg_counts(cell: RecordedCell, stream: RecordedStream, rows: pl.DataFrame) -> dict[str, int]:
    """The counts of one stream of cell.json, or of one leg of a probe, whose rows of the packet table these are.

    An answer to a question that never came was never due.
    """
    was_due = pl.col("launch_tai_ns").is_not_null() | unknown(rows, SENDING)
    due = rows.filter(was_due) if stream.leg == "down" else rows
    return stream_counts(due, _listened(cell, stream), stream.stream)


def _listened(cell: RecordedCell, stream: RecordedStream) -> Totals:
    """What the receiver of a stream counted: its listener's `done`; of a leg, what ping or pong said came in."""
    if probe := stream.probe:
        done = agents_done(cell, probe, "pong" if stream.leg == "up" else "ping")
        return done.model_copy(update={"streams": [done.model_copy(update={"stream": stream.stream})]})
    host = stream.listener
    agents = (agent for agent in cell.agents if agent.host == host and agent.verb == "listen")
    return next((agent.totals for agent in agents), Totals())


def stream_counts(packets: pl.DataFrame, listened: Totals, stream: int) -> dict[str, int]:
    """The counts of one stream over its whole length, warm-up included, as the result document has them.

    packets: the stream's rows. listened: the listener's `done`; what it never said counts as 0. sent: taken
    by the kernel; unsent: never handed over; send_errors: refused. lost: sent, and never arrived (RFC 7680 §2.4:
    within any time). unknown: neither their arrival is recorded nor, as a recording is not all there, what else became
    of them. received, lost, unsent, send_errors and unknown add up to scheduled. duplicated: further copies (RFC 5560
    §4.2). reordered: RFC 4737 §3.3. out_of_range: refused, as their sequence is none of the stream's. foreign:
    packets at the listener that were not ours; it cannot say which stream they were meant for, so each of its
    streams has them all. Of packets with launch times: launch_invalid, launch_missed: dropped by the qdisc, as it
    said; launch_late: handed over after their launch times; launch_moved: handed over with later ones; unsent_late:
    those of `unsent` that were too late to be handed over.
    """
    late = pl.col("late") if "late" in packets.columns else pl.lit(0)
    taken, arrived = pl.col("send_error") == 0, pl.col("arrival").is_not_null()
    unsaid = unknown(packets, SENDING)
    counts = packets.select(
        scheduled=pl.len(),
        warmup=pl.col("warmup").sum(),
        sent=(taken.fill_null(False) | (unsaid & arrived)).sum(),
        unsent=(pl.col("send_error").is_null() & ~unsaid).sum(),
        send_errors=(pl.col("send_error") != 0).sum(),
        received=pl.col("arrival").count(),
        lost=lost(packets).sum(),
        unknown=(~arrived & (unsaid | (taken.fill_null(False) & unknown(packets, ARRIVAL)))).sum(),
        launch_invalid=(pl.col("launch_error") == 1).sum(),
        launch_missed=(pl.col("launch_error") == 2).sum(),
        launch_late=(taken & (late == 1)).sum(),
        launch_moved=(taken & (late == 2)).sum(),
        unsent_late=(pl.col("send_error").is_null() & (late == 3)).sum(),
    ).row(0, named=True)
    of_stream = next((one for one in listened.streams or () if one.stream == stream), StreamTotals())
    return {
        "scheduled": counts["scheduled"],
        "warmup": counts["warmup"],
        "sent": counts["sent"],
        "unsent": counts["unsent"],
        "send_errors": counts["send_errors"],
        "received": counts["received"],
        "lost": counts["lost"],
        "unknown": counts["unknown"],
        "duplicated": of_stream.repeated,
        "reordered": len(reordered_sequences(packets)),
        "out_of_range": of_stream.out_of_range,
        "foreign": listened.foreign,
        "launch_invalid": counts["launch_invalid"],
        "launch_missed": counts["launch_missed"],
        "launch_late": counts["launch_late"],
        "launch_moved": counts["launch_moved"],
        "unsent_late": counts["unsent_late"],
    }


def send_errnos(packets: pl.DataFrame) -> dict[str, int]:
    """{errno: how many packets of one stream the kernel refused with it}, the smallest errno first."""
    refused = packets.filter(pl.col("send_error") != 0)["send_error"].value_counts().sort("send_error")
    return {str(number): count for number, count in refused.iter_rows()}


def lost_after_warmup(packets: pl.DataFrame) -> int:
    """How many of one stream's packets were lost, warm-up left out."""
    return int(packets.select((lost(packets) & ~pl.col("warmup")).sum()).item())


def lost(packets: pl.DataFrame) -> pl.Expr:
    """Whether a packet of a stream was taken by the kernel and never arrived, as far as the recordings go."""
    return (pl.col("send_error") == 0).fill_null(False) & pl.col("arrival").is_null() & ~unknown(packets, ARRIVAL)


def unknown(packets: pl.DataFrame, what: int) -> pl.Expr:
    """Whether the recordings are not all there and leave this open of a packet: SENDING, ARRIVAL or STAMPS."""
    if "unknown" not in packets.columns:
        return pl.lit(False)
    return pl.col("unknown").fill_null(0) & what != 0


def reordered_sequences(packets: pl.DataFrame) -> NDArray[np.uint64]:
    """The sequence numbers of one stream's reordered packets, in order of arrival.

    A packet is reordered when its number is smaller than NextExp, one more than the largest that arrived
    before it (RFC 4737 §3.3, Type-P-Reordered).
    """
    arrived = packets.lazy().filter(pl.col("arrival").is_not_null()).select("sequence", "arrival").collect()
    sequence, arrival = arrived["sequence"].to_numpy(), arrived["arrival"].to_numpy()
    if (arrival[1:] > arrival[:-1]).all():
        return np.empty(0, np.uint64)
    in_order = np.empty_like(sequence)
    in_order[arrival] = sequence  # arrivals are 0 to received − 1, each once
    reordered: NDArray[np.uint64] = in_order[in_order < np.maximum.accumulate(in_order)]
    return reordered


def agents_done(cell: RecordedCell, probe: str, verb: str) -> Totals:
    """What one of a probe's two agents said at its end; empty where it did not come to it."""
    agents = (agent for agent in cell.agents if agent.verb == verb and agent.probe == probe)
    return next((agent.totals for agent in agents), Totals())


# Which streams of cell.json are rows of packets that our agents sent, and which are not.


def is_no_packets(stream: RecordedStream) -> bool:
    """Whether a stream of cell.json is a tool's, whose packets are its own, or a timer's, which sends none."""
    return not stream.has_packets


# Which packets of a stream were lost, which of them silently, and where those were dropped that kernels saw.


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
    left = pl.any_horizontal(*(pl.col(one.column).is_not_null() for one in LEFT.values()))
    arrived = pl.col("arrival").is_not_null()
    silent = lost(packets) & (pl.col("launch_error") == 0) & ~left & ~unknown(packets, STAMPS)
    unstamped, stamped = packets.select((arrived & ~left).any().alias("unstamped"), (arrived & left).any()).row(0)
    if unstamped and not stamped:
        return None
    sequences = packets.filter(silent)["sequence"]
    if sequences.is_empty():
        return None
    return Silent(count=len(sequences), first_sequence=int(sequences[0]), last_sequence=int(sequences[-1]))


NOT_MEANT: Final = ("OTHERHOST", "UNHANDLED_PROTO")
"""The reasons of copies that reach a host that does not want them, as from a bridge that floods, or that packet sockets
have had before: not a loss.
"""
_AT_SOCKET: Final = {
    "SOCKET_RCVBUFF": "socket buffer",
    "SOCKET_BACKLOG": "socket backlog",
    "SOCKET_FILTER": "socket filter",
    "PROTO_MEM": "socket memory",
}
"""Reasons of sockets (include/net/dropreason-core.h), and what of theirs it was."""


def losses_of(packets: Sequence[pl.DataFrame], drops: pl.DataFrame) -> Losses:
    """Where the lost packets of these streams were dropped, warm-up left out: `losses` of docs/reference/result.md.

    packets: the rows of each stream. drops: a row a drop, as its recording has them. Of the drops of one packet the
    first counts that is not of a flooded copy.
    """
    parts = [rows.filter(lost(rows) & ~pl.col("warmup")).select("stream", "sequence") for rows in packets]
    missing = pl.concat(part.cast({"stream": pl.UInt16, "sequence": pl.UInt64}) for part in parts)
    return placed(missing, drops)


def placed(missing: pl.DataFrame, drops: pl.DataFrame) -> Losses:
    """Where packets were dropped, each by `stream` and `sequence`; otherwise as `losses_of`."""
    first = (
        drops.join(missing, ["stream", "sequence"], "semi")
        .sort(pl.col("reason").fill_null("").is_in(NOT_MEANT), "tai_ns")
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


def watched_losses(stream: RecordedStream) -> Losses | None:
    """Where lost packets of a watched flow were dropped; None: nothing was lost, or its drops were not watched."""
    return Losses.model_validate(stream.losses.document()) if stream.losses and stream.losses.lost else None
