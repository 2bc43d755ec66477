"""A packet's way through its timestamps: in which order it passes them, and what happens between two of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

SOFTWARE_WAY: Final = ("launch", "wake", "submit", "tx_sched", "tx_soft", "rx_soft", "rx_user")
"""A packet's way through the software's timestamps: two hosts' system clocks, and no NIC's."""

HARDWARE_WAY: Final = ("launch", "wake", "submit", "tx_sched", "tx_soft", "tx_hard", "rx_hard", "rx_soft", "rx_user")
"""The way of a value that begins at, ends at, or passes a NIC's timestamp."""

WAKEUP_WAY: Final = ("wake_due", "irq", "wake")
"""The way of `wakeup`, which counts from when the thread was to wake, not from the launch; a timer's with its irq."""

ROUND_TRIP_WAY: Final = (
    *SOFTWARE_WAY,
    *("answer_submit", "answer_tx_sched", "answer_tx_soft", "answer_rx_soft", "answered"),
)
"""The way of a question, and of its answer back: from one system clock to another and back to the first."""

_ANSWERERS: Final = frozenset({"rx_soft", "rx_user", "answer_submit", "answer_tx_sched", "answer_tx_soft"})
"""The timestamps of a round trip that are of who answers."""

ONE_CLOCK: Final = "one clock"
TWO_HOSTS: Final = "two hosts"
NIC: Final = "a NIC"

INTERVALS: Final = {
    ("wake_due", "wake"): "wake-up",
    ("wake_due", "irq"): "interrupt",
    ("irq", "wake"): "dispatch",
    ("launch", "wake"): "wake-up",
    ("wake", "submit"): "prepare",
    ("submit", "tx_sched"): "socket",
    ("tx_sched", "tx_soft"): "qdisc",
    ("tx_soft", "tx_hard"): "sending NIC",
    ("tx_soft", "rx_soft"): "path",
    ("tx_hard", "rx_hard"): "path",
    ("rx_hard", "rx_soft"): "receiving NIC",
    ("rx_soft", "rx_user"): "delivery",
    ("rx_hard", "rx_user"): "delivery",
    ("rx_user", "answer_submit"): "turn",
    ("answer_submit", "answer_tx_sched"): "answer: socket",
    ("answer_tx_sched", "answer_tx_soft"): "answer: qdisc",
    ("answer_tx_soft", "answer_rx_soft"): "answer: path",
    ("answer_rx_soft", "answered"): "answer: delivery",
}
"""What happens between two timestamps, in a word."""

HAPPENS: Final = {
    "wake-up": "the talker's thread wakes; below zero where it wakes ahead (lead, busy wait)",
    "prepare": "builds the packet; waits for the launch time if it woke ahead",
    "socket": "send call, IP and UDP or packet socket, up to the qdisc",
    "qdisc": "waits there: gates, launch time, queue; up to the driver",
    "sending NIC": "driver's ring, DMA, the NIC's own launch time or gate",
    "path": "wire, switch, VM host, virtual bridge",
    "receiving NIC": "ring, interrupt (and its moderation), driver, up to the kernel's timestamp",
    "delivery": "IP, socket, the listener's thread wakes",
    "turn": "the answerer's program",
    "answer: socket": "as for the question",
    "answer: qdisc": "as for the question",
    "answer: path": "the path back",
    "answer: delivery": "as for the question",
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
            # As it is, a column with nulls would become one of floats, which cannot tell a nanosecond of TAI.
            column = column.fill_null(0)
        else:
            passed[number] = True
        found = column.to_numpy()
        at_ns[number] = found if place is None else found[place]
    if "tx_hard" in stops and to == "rx_user":
        passed[stops.index("tx_hard")] &= passed[stops.index("rx_hard")]
    interval_ns = np.empty((len(stops) - 1, n), np.int64)
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
