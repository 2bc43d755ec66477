"""What a detector finds, and what the detectors share while they look."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latlab.analysis.anomalies.classes import CODE, NONE
from latlab.analysis.anomalies.signals import Signals

Int64 = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Found:
    """One episode, as its detector leaves it.

    name: its class. first, last: the rows it goes from and to, both included. rows: those that are in it, ascending;
    None: all judged ones between. severity: the larger, the worse; compared within a class. evidence: figures, ready
    for JSON. text: one sentence. packets: what it counts where it has no rows of its own.
    """

    name: str
    first: int
    last: int
    rows: Int64 | None
    severity: float
    evidence: Mapping[str, Any]
    text: str
    packets: int | None = None


@dataclass(frozen=True)
class Hold:
    """Packets that were held together: places begin to end (excluded) of the judged ones.

    length_ns: how late the latest was. released_ns: when the first arrived, TAI. within_ns: how long after it the last.
    where: the place that held them. share: how much of their delay came about there.
    """

    begin: int
    end: int
    length_ns: float
    released_ns: int
    within_ns: int
    where: str
    share: float

    @property
    def packets(self) -> int:
        """How many were held."""
        return self.end - self.begin


@dataclass
class Seen:
    """The signals, and what has been claimed by now.

    holds: the packets that were held together, whatever is said of them. class_of uint8, a value each row of the
    stream: a row that has a class is not given another. taken_by uint32, likewise: by which of `found`, from 1.
    started: the place at which the beginning was over. usual bool, a value each judged packet: it is no later than
    those around it, whatever the line of the usual latency says. oscillation: the level goes up and down all the time,
    so that it is off from itself most of the time; None: it does not.
    """

    signals: Signals
    holds: list[Hold]
    started: int = 0
    oscillation: Found | None = None
    class_of: NDArray[np.uint8] = field(init=False)
    taken_by: NDArray[np.uint32] = field(init=False)
    usual: NDArray[np.bool_] = field(init=False)
    found: list[Found] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.class_of = np.zeros(self.signals.rows.height, np.uint8)
        self.taken_by = np.zeros(self.signals.rows.height, np.uint32)
        self.usual = np.zeros(len(self.signals.row), np.bool_)

    def take(self, one: Found) -> None:
        """Note an episode; its rows that have no class yet are its class's."""
        rows = self.signals.between(one.first, one.last) if one.rows is None else one.rows
        free = rows[self.class_of[rows] == NONE]
        self.found.append(one)
        self.class_of[free], self.taken_by[free] = CODE[one.name], len(self.found)

    @property
    def late(self) -> Int64:
        """The places of the late packets that nobody has claimed, ascending."""
        late = self.signals.late
        free: Int64 = late[(self.class_of[self.signals.row[late]] == NONE) & ~self.usual[late]]
        return free


def consecutive(numbers: Int64) -> list[Int64]:
    """Ascending numbers, cut where one is left out; none of none."""
    if not len(numbers):
        return []
    return np.split(numbers, np.flatnonzero(np.diff(numbers) > 1) + 1)


def packets(count: int) -> str:
    """ "1 packet", "6 packets"."""
    return "1 packet" if count == 1 else f"{count} packets"
