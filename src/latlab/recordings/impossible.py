"""Timestamps that cannot be: outside the time that their agent ran, before what comes first, or out of their order."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from latlab.model.timestamps import CARDS, TIMESTAMPS
from latlab.recordings.recording_findings import Impossible
from latlab.recordings.slots import Column, Mask

_BEFORE_WHY: Final = {
    "wake": "before the talker woke for the same packet",
    "submit": "before the same packet was submitted",
}
_BEFORE: Final = {one.name: (one.not_before, _BEFORE_WHY[one.not_before]) for one in TIMESTAMPS if one.not_before}
"""What a timestamp cannot be before, and what is said of it then."""
_AFTER_WHY: Final = {"rx_user": "after the application had the same packet"}
_AFTER: Final = {
    "irq": ("wake", "after the thread had reached the same instant"),
    **{one.name: (one.not_after, _AFTER_WHY[one.not_after]) for one in TIMESTAMPS if one.not_after},
}
"""What a timestamp cannot be after."""
_TOO_EARLY: Final = "before the agent's first reading of the clocks"
_TOO_LATE: Final = "after the agent's last reading of the clocks"
_NOT_DUE: Final = "before it was due"
_FROZEN: Final = "that of the previous packet, from before the kernel had this one"
_OUT_OF_ORDER: Final = "out of order with packets recorded before or after it"

MOST: Final = 0.5
"""Of a card's timestamps: where more of them than this are impossible, its clock is another than the system's."""


@dataclass(frozen=True)
class Readings:
    """The first and the last reading of an agent's CLOCK_TAI, between which all happened; None: not known."""

    first_ns: int | None
    last_ns: int | None

    @classmethod
    def of(cls, clocks: pl.DataFrame, *, whole: bool) -> Readings:
        """Return those of the recorded clocks; whole: none is missing, so that the last one was made at the end."""
        if clocks.is_empty():
            return cls(None, None)
        at = clocks["tai_ns"].to_numpy()
        return cls(int(at.min()), int(at.max()) if whole else None)


@dataclass(frozen=True)
class Found:
    """As Impossible, of whatever stream."""

    stamp: str
    why: str
    count: int
    first_sequence: int
    left_out: bool = True

    def of(self, stream: int) -> Impossible:
        """Return it as this stream's."""
        return Impossible(stream, self.stamp, self.why, self.count, self.first_sequence, self.left_out)


def drop_impossible(
    columns: Mapping[str, Column], rows: slice, stamps: Sequence[str], readings: Readings, *, due: bool
) -> list[Found]:
    """Take the impossible ones of one stream's timestamps out of the columns; return what they were.

    stamps: as `wake`, all by one host's clock, or its card's. due: its thread sleeps until each packet's instant.
    """
    found: list[Found] = []
    for stamp in stamps:
        column = columns[f"{stamp}_tai_ns"]
        if not column.valid[rows].any():
            continue
        for why, wrong in _wrong(columns, rows, stamp, readings, due=due):
            places = np.flatnonzero(wrong & column.valid[rows])
            if not len(places):
                continue
            another_clock = stamp in CARDS and len(places) > MOST * np.count_nonzero(column.valid[rows])
            found.append(Found(stamp, why, len(places), int(places[0]), left_out=not another_clock))
            if not another_clock:
                # Two columns may share which rows have a value.
                column.valid = column.valid.copy()
                column.valid[rows][places] = False
    return found


def _wrong(
    columns: Mapping[str, Column], rows: slice, stamp: str, readings: Readings, *, due: bool
) -> list[tuple[str, Mask]]:
    """(why it cannot be, bool [n]) of each reason there is for a timestamp."""
    at = columns[f"{stamp}_tai_ns"].values[rows]
    reasons: list[tuple[str, Mask]] = []
    if stamp not in CARDS:
        if readings.first_ns is not None:
            reasons.append((_TOO_EARLY, at < readings.first_ns))
        if readings.last_ns is not None:
            reasons.append((_TOO_LATE, at > readings.last_ns))
    if stamp == "rx_user" or (stamp == "wake" and due):
        # One thread takes a stream's packets, in the order in which it records them.
        reasons.append((_OUT_OF_ORDER, _disordered(columns, rows, stamp)))
    if stamp == "rx_user":
        reasons.append((_FROZEN, _frozen(columns, rows)))
    if stamp in ("wake", "irq") and due:
        reasons.append((_NOT_DUE, at < columns["wake_due_tai_ns"].values[rows]))
    if stamp in _BEFORE:
        other, why = _BEFORE[stamp]
        reasons.append((why, _both(columns, rows, other, at, before=True)))
    if stamp in _AFTER:
        other, why = _AFTER[stamp]
        reasons.append((why, _both(columns, rows, other, at, before=False)))
    return reasons


def _disordered(columns: Mapping[str, Column], rows: slice, stamp: str) -> Mask:
    """Which packets' timestamps go back in the order of their recording, bool [n]: the fewest that leave an order."""
    column, wrong = columns[f"{stamp}_tai_ns"], np.zeros(rows.stop - rows.start, np.bool_)
    places = np.flatnonzero(column.valid[rows])
    if stamp == "rx_user":
        places = places[np.argsort(columns["arrival"].values[rows][places], kind="stable")]
    at = column.values[rows][places]
    if (at[1:] >= at[:-1]).all():
        return wrong
    # What is in order with all others stays; of the rest the longest order.
    passed = (np.maximum.accumulate(at) > at) | (np.minimum.accumulate(at[::-1])[::-1] < at)
    doubtful = np.flatnonzero(passed)
    wrong[places[np.delete(doubtful, _longest_order(at[doubtful].tolist()))]] = True
    return wrong


def _frozen(columns: Mapping[str, Column], rows: slice) -> Mask:
    """Which packets have the application's timestamp of the packet before, which the kernel's contradicts, bool [n].

    A timestamp that repeats is the wrong one of the two: those of the kernel went on.
    """
    user, soft = columns["rx_user_tai_ns"], columns["rx_soft_tai_ns"]
    wrong = np.zeros(rows.stop - rows.start, np.bool_)
    places = np.flatnonzero(user.valid[rows])
    places = places[np.argsort(columns["arrival"].values[rows][places], kind="stable")]
    at = user.values[rows][places]
    again = places[1:][at[1:] == at[:-1]]
    wrong[again] = soft.valid[rows][again] & (soft.values[rows][again] > user.values[rows][again])
    return wrong


def _longest_order(values: Sequence[int]) -> list[int]:
    """The places of the longest run of values that never falls (Schensted 1961), ascending."""
    ends: list[int] = []
    last: list[int] = []
    before: list[int] = []
    for place, value in enumerate(values):
        length = bisect_right(ends, value)
        before.append(last[length - 1] if length else -1)
        ends[length : length + 1], last[length : length + 1] = [value], [place]
    found = []
    place = last[-1] if last else -1
    while place >= 0:
        found.append(place)
        place = before[place]
    return found[::-1]


def _both(columns: Mapping[str, Column], rows: slice, other: str, at: NDArray[np.int64], *, before: bool) -> Mask:
    beside = columns[f"{other}_tai_ns"]
    apart = at < beside.values[rows] if before else at > beside.values[rows]
    wrong: Mask = apart & beside.valid[rows]
    return wrong
