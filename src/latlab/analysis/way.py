"""A packet's way through its timestamps: in which order it passes them, and what happens between two of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from latlab.analysis.counts import ARRIVAL, SENDING, lost, unknown
from latlab.model.clock_sources import ONE_HOST
from latlab.model.timestamps import CARDS, RECORDED, STAGES, WAY
from latlab.result.types import Stage, WorstPacket

HARDWARE_WAY: Final = WAY
"""The way of a value that begins at, ends at, or passes a NIC's timestamp."""

SOFTWARE_WAY: Final = tuple(name for name in WAY if name not in CARDS)
"""A packet's way through the software's timestamps: two hosts' system clocks, and no NIC's."""

WAKEUP_WAY: Final = ("wake_due", "irq", "wake")
"""The way of `wakeup`, which counts from when the thread was to wake, not from the launch; a timer's with its irq."""

ANSWER: Final[Mapping[str, str]] = {
    name: "answered" if name == "rx_user" else f"answer_{name}" for name in SOFTWARE_WAY[SOFTWARE_WAY.index("submit") :]
}
"""{timestamp: what it is called of an answer}. The answer's launch is the question's rx_user."""

ROUND_TRIP_WAY: Final = (*SOFTWARE_WAY, *ANSWER.values())
"""The way of a question, and of its answer back: from one system clock to another and back to the first."""

_ANSWERERS: Final = frozenset(
    ANSWER.get(one.name, one.name) if one.side == "talker" else one.name
    for one in RECORDED
    if one.name in (ANSWER if one.side == "talker" else SOFTWARE_WAY)
)
"""The timestamps of a round trip that are of who answers."""

ONE_CLOCK: Final = ONE_HOST.name
TWO_HOSTS: Final = "two hosts"
NIC: Final = "a NIC"

_STAGES: Final = {(start, one.name): stage for one in RECORDED for start, stage in one.ends.items()}
INTERVALS: Final = {
    ("wake_due", "wake"): "wake-up",
    ("wake_due", "irq"): "interrupt",
    ("irq", "wake"): "dispatch",
    **_STAGES,
    ("rx_user", "answer_submit"): "turn",
    **{
        (ANSWER[start], ANSWER[end]): f"answer: {stage}"
        for (start, end), stage in _STAGES.items()
        if start in ANSWER and end in ANSWER
    },
}
"""What happens between two timestamps, in a word."""

HAPPENS: Final[dict[str, str]] = {
    **STAGES,
    "turn": "the answerer's program",
    **{name: "as for the question" for name in INTERVALS.values() if name.startswith("answer: ")},
    "answer: path": "the path back",
}
"""{name of an interval: what happens in it}, as docs/explanation/where-the-time-went.md has it too."""


@dataclass(frozen=True)
class Split:
    """The values of n packets as intervals between the timestamps they have.

    stops: the way's k timestamps. passed: bool [n, k], whether the packet has it on its path; the first and the last
    stop always. interval_ns: int64 [n, k − 1], column j from the last stop passed before stop j + 1 to that one; 0
    where it was not passed. Each row adds up to the packet's value, exactly.
    """

    stops: tuple[str, ...]
    passed: NDArray[np.bool_]
    interval_ns: NDArray[np.int64]

    def patterns(self) -> NDArray[np.uint16]:
        """Which stops each packet passed, as bits: bit j for stop j, uint16 [n]."""
        bits = np.zeros(len(self.passed), np.uint16)
        for number in range(len(self.stops)):
            bits |= self.passed[:, number].astype(np.uint16) << np.uint16(number)
        return bits


def stops_between(from_: str, to: str) -> tuple[str, ...]:
    """The timestamps that packets may pass between these two, both included, in order.

    NICs' timestamps are on the way where one of the ends is a NIC's, and to the application (`passed` says of which
    packets): two system clocks are never parted by a third.
    """
    if "irq" in (from_, to) or from_ == "wake_due":
        return WAKEUP_WAY[WAKEUP_WAY.index(from_) : WAKEUP_WAY.index(to) + 1]
    if to.startswith("answer"):
        return ROUND_TRIP_WAY[ROUND_TRIP_WAY.index(from_) : ROUND_TRIP_WAY.index(to) + 1]
    way = HARDWARE_WAY if "hard" in f"{from_} {to}" or to == "rx_user" else SOFTWARE_WAY
    return way[way.index(from_) : way.index(to) + 1]


def interval_name(from_: str, to: str) -> str:
    """What happens between two timestamps, in a word; the timestamps where one between them is missing."""
    return INTERVALS.get((from_, to)) or f"{from_} → {to}"


def clocks_between(from_: str, to: str) -> str:
    """Whose clocks an interval subtracts: one clock, two hosts' (it carries their ±), or a NIC's and another one, which
    nothing bounds.
    """
    if "hard" in f"{from_} {to}":
        return NIC
    return TWO_HOSTS if (from_ in _ANSWERERS) != (to in _ANSWERERS) else ONE_CLOCK


def split(rows: pl.DataFrame, sequence: NDArray[np.uint64], from_: str, to: str) -> Split:
    """The values from `from_` to `to` of these packets, uint64 [n], as intervals.

    rows: the stream's rows of the packet table, which has one for each sequence, from 0. The packets have both ends. A
    packet without an rx_hard goes the software's way to rx_user, even if it has a tx_hard.
    """
    stops = tuple(name for name in stops_between(from_, to) if name != "irq" or "irq_tai_ns" in rows.columns)
    n = len(sequence)
    columns, place = _columns(rows.select(f"{name}_tai_ns" for name in stops), sequence)
    passed = np.empty((len(stops), n), np.bool_)
    at_ns = np.empty((len(stops), n), np.int64)
    for number, name in enumerate(stops):
        column = columns[f"{name}_tai_ns"]
        if column.null_count():
            present = column.is_not_null().to_numpy()
            passed[number] = present if place is None else present[place]
            # As it is, a column with nulls would become one of floats, which cannot represent a nanosecond of TAI.
            column = column.fill_null(0)
        else:
            passed[number] = True
        found = column.to_numpy()
        at_ns[number] = found if place is None else found[place]
    if "tx_hard" in stops and to == "rx_user":
        passed[stops.index("tx_hard")] &= passed[stops.index("rx_hard")]
    return intervals_of(stops, passed, at_ns)


def intervals_of(stops: tuple[str, ...], passed: NDArray[np.bool_], at_ns: NDArray[np.int64]) -> Split:
    """The packets' intervals, of when each passed a stop, if it did. passed: bool [k, n]; at_ns: int64 [k, n], which
    is written to.
    """
    interval_ns = np.empty((len(stops) - 1, at_ns.shape[1]), np.int64)
    latest_ns = at_ns[0]
    for number in range(1, len(stops)):
        if not passed[number].all():
            at_ns[number] = np.where(passed[number], at_ns[number], latest_ns)
        np.subtract(at_ns[number], latest_ns, out=interval_ns[number - 1])
        latest_ns = at_ns[number]
    return Split(stops, passed.T, interval_ns.T)


def _columns(stamps: pl.DataFrame, sequence: NDArray[np.uint64]) -> tuple[pl.DataFrame, NDArray[np.intp] | None]:
    """Rows that hold these packets', and which of them each packet's is; None: they are the packets', in order."""
    n = len(sequence)
    if n == 0:
        return stamps.clear(), None
    first, extent = int(sequence.min()), int(sequence.max() - sequence.min()) + 1
    if extent > 4 * n:
        return stamps.select(pl.all().gather(pl.Series(sequence))), None
    found = stamps.slice(first, extent)
    ascending = bool((sequence[1:] > sequence[:-1]).all())
    return found, None if extent == n and ascending else (sequence - np.uint64(first)).astype(np.intp)


# Where the slowest packet of a stream lost its time: its latency as intervals that add up to it.


EXPLAINED: Final = ("latency", "latency_user", "round_trip")
"""The metrics whose slowest packet the result explains: those that go all the way."""

CHAINS_SHOWN: Final = (*EXPLAINED, "wakeup")
"""Those whose chains reports show; of `wakeup` only a timer's: a stream's is one interval."""

_HARDWARE_WAY: Final = tuple(name for name in HARDWARE_WAY if name != "rx_soft")
"""Delivery as the metric has it: from the NIC to the application, in one."""


def worst_packet(rows: pl.DataFrame, sequence: int, to: str) -> WorstPacket:
    """One packet and its stages, from `launch` to the timestamp `to`.

    rows: the stream's rows of the packet table, which has one for each sequence, from 0. The intervals follow each
    other without a gap, as far as the packet has timestamps, so they add up to its latency exactly; one below zero is
    a thread that woke ahead of the launch time, or two clocks that differ.
    """
    packet = rows.row(sequence, named=True)
    way = _HARDWARE_WAY if to == "rx_hard" or packet["rx_hard_tai_ns"] is not None else SOFTWARE_WAY
    way = ROUND_TRIP_WAY if to == "answered" else way
    return _explained(packet, way[: way.index(to) + 1])


def worst_instant(rows: pl.DataFrame, sequence: int) -> WorstPacket:
    """One instant of a timer and its stages: they add up to its lateness. rows: the timer's of the packet table."""
    return _explained(rows.row(sequence, named=True), WAKEUP_WAY)


def _explained(row: Mapping[str, Any], way: Sequence[str]) -> WorstPacket:
    at_ns = {name: row[f"{name}_tai_ns"] for name in way}
    passed = [name for name, ns in at_ns.items() if ns is not None]
    stages = [Stage(from_=start, to=end, ns=at_ns[end] - at_ns[start]) for start, end in pairwise(passed)]
    return WorstPacket(sequence=row["sequence"], intervals=stages)


# A probe as a whole: each question with its answer, as one way that adds up to the round trip.


COLUMNS: Final = {
    **{f"{name}_tai_ns": f"{of_answer}_tai_ns" for name, of_answer in ANSWER.items()},
    "arrival": "arrival",
}
"""A column of the leg down → what it is called next to the leg up's."""


def round_trips(up: pl.DataFrame, down: pl.DataFrame) -> pl.DataFrame:
    """Each question with its answer: the rows of the leg up, and next to them those of the leg down (`COLUMNS`).

    up, down: the legs' rows of the packet table, as many, by sequence, on the clock of who asks. `arrival` is the
    answer's: what has none was not answered.
    """
    answers = down.select(pl.col(name).alias(beside) for name, beside in COLUMNS.items())
    # Beside a tool's packets the table has some of these columns, empty.
    trips = up.drop(*COLUMNS.values(), strict=False).hstack(answers.get_columns())
    if "unknown" not in up.columns:
        return trips
    # Whether a question was asked its sender says, and whether it was answered the receiver of the answer.
    return trips.with_columns(unknown=(up["unknown"] & SENDING) | (down["unknown"] & ARRIVAL))


def probe_counts(
    trips: pl.DataFrame, up: Mapping[str, int], down: Mapping[str, int], timeout_ns: int | None
) -> dict[str, int]:
    """What became of a probe's questions, over its whole length, warm-up included.

    up, down: the counts of its legs. sent: questions taken by the kernel; answered: those with an answer, however late;
    unanswered: the others; late: answers that came more than timeout_ns after their question was due.
    """
    answered = int(trips["arrival"].count())
    asked = (pl.col("send_error") == 0).fill_null(False) & unknown(trips, ARRIVAL)
    open_ = int(trips.select((pl.col("arrival").is_null() & (unknown(trips, SENDING) | asked)).sum()).item())
    late = 0
    if timeout_ns is not None:
        took = trips.select((pl.col("answered_tai_ns") - pl.col("launch_tai_ns")) > timeout_ns).to_series()
        late = int(took.sum())
    return {
        "scheduled": up["scheduled"],
        "warmup": up["warmup"],
        "sent": up["sent"],
        "unsent": up["unsent"],
        "send_errors": up["send_errors"],
        "answered": answered,
        "unanswered": int(trips.select(lost(trips).sum()).item()),
        "unknown": open_,
        "late": late,
        "duplicated": down["duplicated"],
        "reordered": down["reordered"],
    }


def with_every_launch(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows with a launch time each, for an axis of time: of an answer that was never due, one between its
    neighbours'. No figure is made of those.
    """
    launch = rows["launch_tai_ns"]
    if launch.null_count() == 0 or launch.null_count() == len(launch):
        return rows
    return rows.with_columns(pl.Series("launch_tai_ns", filled_launches(launch)))


def filled_launches(launch: pl.Series) -> NDArray[np.int64]:
    """Launch times, ns, int64 [n], where they are null those between known ones, and before and after these at the same
    rate; at least one is known.
    """
    known = np.flatnonzero(launch.is_not_null().to_numpy())
    values = launch.fill_null(0).to_numpy()
    base = int(values[known[0]])
    # Floats hold the difference to the first exactly, and not the instants themselves.
    place, since = np.arange(len(values)), (values[known] - base).astype(np.float64)
    between = np.interp(place, known, since)
    rate = since[-1] / max(1, known[-1] - known[0])
    between += rate * (np.minimum(0, place - known[0]) + np.maximum(0, place - known[-1]))
    filled: NDArray[np.int64] = np.rint(between).astype(np.int64) + base
    filled[known] = values[known]
    return filled
