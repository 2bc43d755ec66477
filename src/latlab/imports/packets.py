"""The packet table of an imported stream: the columns that its tool has, null in all others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from latlab.imports.base import PacketStream
from latlab.model.reasons import Reason, reason_of
from latlab.model.timestamps import TIMESTAMPS
from latlab.model.units import MILLISECOND_NS

STAMPS: Final = tuple(one.name for one in TIMESTAMPS)
"""Every timestamp that any format has, in the order of a packet's path."""

_STEP_NS: Final = MILLISECOND_NS
"""A clock read again and again that goes back by more than this was set."""

_SHIFT_NS: Final = 10_000_000
_SHIFT_SHARE: Final = 20
"""A shift is looked for if it is larger than this, and holds for one packet in so many, on both sides."""


def in_order_of(at_ns: NDArray[np.int64], arrived: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The packets that arrived, int64 [arrived], by when they did; at the same instant by sequence."""
    came = np.flatnonzero(arrived)
    return came[np.argsort(at_ns[came], kind="stable")]


def usual_gap_ns(at_ns: NDArray[np.int64]) -> int:
    """The median time between two packets that follow each other, ns, at least 1: the period where no file says it."""
    return max(1, int(np.median(np.diff(np.sort(at_ns))))) if len(at_ns) > 1 else 1


def packet_table(streams: Sequence[PacketStream]) -> pl.DataFrame:
    """The packet table of these streams, numbered from 1, as docs/reference/run-folder.md has it.

    It has STAMPS, and `clock_bound_ns` only of streams whose hosts are known: of all others how far clocks may differ
    is known of all packets alike, or not at all.
    """
    return pl.concat([_rows(number, stream) for number, stream in enumerate(streams, start=1)])


def _rows(number: int, stream: PacketStream) -> pl.DataFrame:
    n = len(stream.sent)
    arrival = np.zeros(n, np.uint64)
    arrival[stream.arrival] = np.arange(len(stream.arrival), dtype=np.uint64)
    nothing = np.zeros(n, np.bool_)
    columns = [
        pl.Series("stream", np.full(n, number, np.uint16)),
        pl.Series("sequence", np.arange(n, dtype=np.uint64)),
    ]
    for name in STAMPS:
        found = stream.stamps.get(name)
        values = pl.Series(f"{name}_tai_ns", np.zeros(n, np.int64) if found is None else found.ns, pl.Int64)
        columns.append(_where(nothing if found is None else found.there, values))
    if any(stream.hosts):
        bound = pl.Series("clock_bound_ns", np.full(n, stream.bound_ns or 0, np.int64))
        columns.append(_where(nothing if stream.bound_ns is None else stream.arrived, bound))
    columns += [
        _where(stream.arrived, pl.Series("arrival", arrival)),
        _where(stream.sent, pl.Series("send_error", np.zeros(n, np.int32))),
        pl.Series("launch_error", np.zeros(n, np.uint8)),
        pl.Series("late", np.zeros(n, np.uint8)),
        pl.Series("warmup", nothing),
    ]
    return pl.DataFrame(columns)


def _where(there: NDArray[np.bool_], values: pl.Series) -> pl.Series:
    """The values that are there; null elsewhere."""
    if there.all():
        return values
    return pl.select(pl.when(pl.Series(there)).then(values).alias(values.name)).to_series()


def went_back_ns(in_file_order_ns: NDArray[np.int64]) -> int:
    """By how much timestamps of one clock, in the order in which they were written, once go back at most; 0 if by less
    than 1 ms: what several queues of a network card do to a capture.
    """
    if len(in_file_order_ns) < 2:
        return 0
    back = -int(np.diff(in_file_order_ns).min())
    return back if back > _STEP_NS else 0


def shifted_ns(start_ns: NDArray[np.int64], end_ns: NDArray[np.int64]) -> int:
    """By how much delays shift at once and stay shifted, ns; 0 if they do not.

    start_ns, end_ns: int64 [n] of packets in order of their start. The largest change between the least delay before
    and the least delay after any packet: a stall changes neither, a clock that is set changes them permanently. So does
    a queue that from then on is never empty: delays alone cannot distinguish the two.
    """
    delay = end_ns - start_ns
    held = max(20, len(delay) // _SHIFT_SHARE)
    if len(delay) < 2 * held:
        return 0
    before = np.minimum.accumulate(delay)[held - 1 : len(delay) - held]
    after = np.minimum.accumulate(delay[::-1])[::-1][held : len(delay) - held + 1]
    change = after - before
    largest = int(change[np.abs(change).argmax()])
    return largest if abs(largest) > _SHIFT_NS and not _drifts(delay) else 0


def _drifts(delay: NDArray[np.int64]) -> bool:
    """Whether the delay changes evenly all along: two clocks of different rates, of which none was set."""
    least = [int(third.min()) for third in np.array_split(delay, 3)]
    first, second = least[1] - least[0], least[2] - least[1]
    return first * second > 0 and 0.2 < first / second < 5


def clock_problems(where: str, back_ns: int, shift_ns: int) -> list[Reason]:
    """What is said of timestamps that go back, and of delays that shift; nothing where both are 0."""
    expected = "timestamps of clocks that are not set"
    found = list[Reason]()
    if back_ns:
        actual = f"one {back_ns / MILLISECOND_NS:.3f} ms before the one before it"
        found.append(reason_of("clock-stepped", where, expected, actual, case="back"))
    if shift_ns:
        actual = (
            f"all delays from some packet on differ by {shift_ns / MILLISECOND_NS:.3f} ms or more from those before"
        )
        found.append(reason_of("clock-stepped", where, expected, actual, case="shifted"))
    return found
