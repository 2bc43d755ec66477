"""Which row of the packet table belongs to a packet, and the rows of a probe's two legs.

Sequences are dense, so a row is found by adding, and a table is joined by scattering into arrays: no hashing,
no sorting, and memory that is known beforehand.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

import numpy as np
import polars as pl
import pyarrow as pa  # type: ignore[import-untyped]
from numpy.typing import DTypeLike, NDArray

from latlab.model.timestamps import RECORDED
from latlab.recordings.arrow import read_recording
from latlab.recordings.cell import ClockEdge, Leg, RecordedCell, RecordedStream
from latlab.recordings.clock_offset import offset_between
from latlab.recordings.run_folder import CellFolder

Rows = NDArray[np.int64]
Mask = NDArray[np.bool_]

_STREAM_NUMBERS = 1 << 16


class Slots:
    """The rows of a set of streams, given as cell.json gives them (`stream`, `count`)."""

    def __init__(self, streams: Sequence[RecordedStream]) -> None:
        self.streams = sorted(streams, key=lambda stream: stream.stream)
        counts = [stream.count or 0 for stream in self.streams]
        starts = np.concatenate(([0], np.cumsum(counts, dtype=np.int64)))
        self.total = int(starts[-1])
        self.slice_of = {
            stream.stream: slice(int(first), int(last))
            for stream, first, last in zip(self.streams, starts[:-1], starts[1:], strict=True)
        }

    @property
    def probes(self) -> dict[str, dict[Leg, RecordedStream]]:
        """{probe: {"up": stream, "down": stream}} of those whose packets are rows."""
        found: dict[str, dict[Leg, RecordedStream]] = {}
        for stream in self.streams:
            if stream.probe and stream.leg:
                found.setdefault(stream.probe, {})[stream.leg] = stream
        return found

    def finder(self, streams: Collection[int]) -> Finder:
        """What finds the rows of these stream numbers, and refuses every other."""
        return Finder({number: self.slice_of[number] for number in streams})


class Finder:
    """(stream, sequence) → row, for the streams that one agent carries."""

    def __init__(self, slice_of: Mapping[int, slice]) -> None:
        self._first = np.zeros(_STREAM_NUMBERS, np.int64)
        self._count = np.zeros(_STREAM_NUMBERS, np.uint64)  # 0: an unknown stream has no valid sequence
        for number, rows in slice_of.items():
            self._first[number] = rows.start
            self._count[number] = rows.stop - rows.start

    def find(self, stream: NDArray[np.uint16], sequence: NDArray[np.uint64]) -> tuple[Rows, Mask]:
        """The rows of the packets that exist, and which those are: (int64 [known], bool [n])."""
        known = sequence < self._count[stream]
        if not known.all():
            stream, sequence = stream[known], sequence[known]
        return self._first[stream] + sequence.view(np.int64), known


class PacketColumn:
    """A column of the packet table while it is filled: values, and which rows have one."""

    def __init__(self, dtype: DTypeLike, total: int) -> None:
        self.values = np.zeros(total, dtype)
        self.valid: Mask = np.zeros(total, np.bool_)

    @classmethod
    def of(cls, series: pl.Series) -> PacketColumn:
        """A column of integers with what a series of such has."""
        column = cls(np.int64, 0)
        column.values = series.fill_null(0).to_numpy().copy()
        column.valid = series.is_not_null().to_numpy().copy()
        return column

    def series(self, name: str) -> pl.Series:
        """The column as a polars series, null where there is no value; numbers share its memory."""
        if self.values.dtype == np.bool_:
            return pl.Series(name, self.values)
        bitmap = None if self.valid.all() else pa.py_buffer(np.packbits(self.valid, bitorder="little"))
        buffers = [bitmap, pa.py_buffer(self.values)]
        array = pa.Array.from_buffers(pa.from_numpy_dtype(self.values.dtype), len(self.values), buffers)
        series = pl.from_arrow(array)
        assert isinstance(series, pl.Series)
        return series.alias(name)


def first_ones(rows: Rows, seen: Mask) -> Mask:
    """Which of `rows` are seen for the first time, bool [n]; `seen` [total] then has them all."""
    fresh = ~seen[rows]
    if not (rows[1:] > rows[:-1]).all():
        position = np.arange(len(rows))
        first = np.empty(len(seen), np.int64)  # memory is taken only where it is written
        first[rows[::-1]] = position[::-1]  # of a row that comes twice, the last assignment stays
        fresh &= first[rows] == position
    seen[rows] = True
    return fresh


def after_last(known: Mask) -> Mask:
    """Which places are after the last one that is known, bool [n]."""
    after = np.ones(len(known), np.bool_)
    found = np.flatnonzero(known)
    after[: int(found[-1]) + 1 if len(found) else 0] = False
    return after


# The two legs of a probe in the packet table: how many rows they have, and on which clock.
#
# Question n and its answer are row n of the legs `up` and `down`. A question that was never received leaves a row of
# its answer anyway, without a launch time: it was never to be sent. All instants of both legs are on the clock of who
# asks, so that a row of `up` and one of `down` make one way, which adds up to the round trip exactly.


_ANSWERERS_OWN: Final = tuple(one.column for one in RECORDED if one.side == "talker" and one.by != "card")
"""The timestamps of an answer that are on the answerer's system clock; a NIC's is compared with none."""


def recorded_streams(cell: RecordedCell) -> list[RecordedStream]:
    """Those of cell.json's streams whose packets our agents record: neither tools' nor timers'."""
    return [stream for stream in cell.streams if stream.has_packets and not stream.pair]


def with_counts(folder: CellFolder, cell: RecordedCell) -> list[RecordedStream]:
    """The recorded streams, each with the number of its rows as `count`: a closed loop's is what was asked."""
    streams = recorded_streams(cell)
    loops = {stream.probe for stream in streams if stream.probe and stream.count is None}
    asked = {probe: _asked(folder, cell, probe) for probe in loops}
    return [
        stream.model_copy(update={"count": asked[stream.probe]}) if stream.probe in asked else stream
        for stream in streams
    ]


def has_schedule(stream: RecordedStream) -> bool:
    """Whether its launch times are known before anything is sent; else its sender says them."""
    return stream.period_ns is not None and stream.leg != "down"


def onto_askers_clock(
    columns: Mapping[str, PacketColumn],
    rows: Mapping[str, slice],
    clocks: Sequence[ClockEdge],
    answerer: str,
    asker: str,
) -> None:
    """Put both legs' instants on the asker's clock, with how far those between the two hosts may be off.

    rows: of each leg. All that the answerer stamped of one question and its answer is moved by the same, the offset
    when the question came in, so that what is between them stays the answerer's; by as much as the offset was another
    when the answer was sent, it may be off more.
    """
    # Questions before answers, which go by them.
    move_arrivals(columns, rows["up"], clocks, answerer, asker)
    _move_answers(columns, rows["up"], rows["down"], clocks, answerer, asker)


def _asked(folder: CellFolder, cell: RecordedCell, probe: str) -> int:
    """How many questions a closed loop asked: one more than the largest sequence recorded."""
    path = folder.recording("ping", probe, "sent")
    if not path.exists():
        return 0
    sent = read_recording(path, "sent", run_id=cell.run_id).table
    return 0 if sent.height == 0 else int(sent["sequence"].max()) + 1  # type: ignore[arg-type]


def move_arrivals(
    columns: Mapping[str, PacketColumn], rows: slice, clocks: Sequence[ClockEdge], listener: str, talker: str
) -> None:
    """Put the listener's own timestamps of these packets on their talker's clock, with how far they may be off there.

    Both of a packet are moved by the same, so that what is between them stays the listener's. It is the offset when the
    packet came in; that of the application's timestamp may be another by then, and so much more may that one be off.
    """
    soft, user, bound = (columns[name] for name in ("rx_soft_tai_ns", "rx_user_tai_ns", "clock_bound_ns"))
    arrived = np.flatnonzero(user.valid[rows] | soft.valid[rows]) + rows.start
    taken = np.where(user.valid[arrived], user.values[arrived], soft.values[arrived])
    came_in = np.where(soft.valid[arrived], soft.values[arrived], taken)
    offset = offset_between(clocks, listener, talker, came_in)
    later = offset_between(clocks, listener, talker, taken)
    if offset is None or later is None:
        return
    known = offset.known & later.known
    moved = np.where(known, offset.estimate_ns, 0)
    soft.values[arrived] -= moved
    user.values[arrived] -= moved
    bound.values[arrived] = np.maximum(offset.half_ns, later.half_ns + np.abs(later.estimate_ns - offset.estimate_ns))
    bound.valid[arrived] = known


def _move_answers(
    columns: Mapping[str, PacketColumn],
    up: slice,
    down: slice,
    clocks: Sequence[ClockEdge],
    answerer: str,
    asker: str,
) -> None:
    """What the answerer stamped of its answers: launched when it had the question, which has been moved by now."""
    launch, submit, bound = (columns[name] for name in ("launch_tai_ns", "submit_tai_ns", "clock_bound_ns"))
    answered = np.flatnonzero(launch.valid[down])
    if not len(answered):
        return
    rows = answered + down.start
    launched = launch.values[rows].copy()
    offset = offset_between(clocks, answerer, asker, launched)
    sent = np.where(submit.valid[rows], submit.values[rows], launched)
    later = offset_between(clocks, answerer, asker, sent)
    if offset is None or later is None:
        return
    known = offset.known & later.known
    questions = answered + up.start
    had, has_bound = columns["rx_user_tai_ns"], bound.valid[questions]
    # The launch is the question's reception: what moved that moves this. Where it was not recorded, the offset does.
    by_question = had.valid[questions] & has_bound
    moved = np.where(by_question, launched - had.values[questions], np.where(known, offset.estimate_ns, 0))
    for name in _ANSWERERS_OWN:
        column = columns[name]
        there = column.valid[rows]
        column.values[rows[there]] -= moved[there]
    bound.values[rows] = np.maximum(offset.half_ns, later.half_ns) + np.abs(later.estimate_ns - moved)
    bound.valid[rows] = known
