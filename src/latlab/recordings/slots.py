"""Which row of the packet table belongs to a packet: streams one after the other, sequences 0 to count − 1.

Sequences are dense, so a row is found by adding, and a table is joined by scattering into arrays: no hashing,
no sorting, and memory that is known beforehand.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np
import polars as pl
import pyarrow as pa  # type: ignore[import-untyped]
from numpy.typing import DTypeLike, NDArray

from latlab.recordings.cell import Leg, RecordedStream

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


class Column:
    """A column of the packet table while it is filled: values, and which rows have one."""

    def __init__(self, dtype: DTypeLike, total: int) -> None:
        self.values = np.zeros(total, dtype)
        self.valid: Mask = np.zeros(total, np.bool_)

    @classmethod
    def of(cls, series: pl.Series) -> Column:
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
