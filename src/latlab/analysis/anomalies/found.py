"""What a detector finds, and what the detectors share while they look."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from latlab.analysis.anomalies.classes import CODE, NONE
from latlab.analysis.anomalies.signals import Signals
from latlab.result.types import Evidence

Int64 = NDArray[np.int64]
Float64 = NDArray[np.float64]

Told = tuple[Evidence, str]
"""The evidence of an episode, ready for JSON, and one sentence."""


@dataclass(frozen=True, slots=True)
class FoundEpisode:
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
    evidence: Evidence
    text: str
    packets: int | None = None


@dataclass(frozen=True)
class Several:
    """Episodes of one class, as their detector leaves them; what is said of one is put together when somebody asks.

    A stream may have millions of them, of which a report says a few. name: their class. rows: those of all episodes,
    ascending, of each at least one, and in one episode each; starts int64 [k]: where each episode's begin. severity
    float64 [k]: the larger, the worse. tell: returns the evidence and the sentence of one, by its place among them.
    late_ns float64 [k]: how late its packets were, by default the severity. places, where int64 [k]: at which of these
    places. every_ns int64 [k]: at which interval it comes, as `find_periodic` has noted; 0: none.
    """

    name: str
    rows: Int64
    starts: Int64
    severity: Float64
    tell: Callable[[int], Told]
    places: tuple[str, ...] = ()
    where: Int64 = field(default_factory=lambda: np.empty(0, np.int64))
    late_ns: Float64 | None = None
    every_ns: Int64 = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "every_ns", np.zeros(len(self.starts), np.int64))

    @property
    def sizes(self) -> Int64:
        """How many rows each has."""
        return np.diff(self.starts, append=len(self.rows))

    @property
    def firsts(self) -> Int64:
        """The first row of each."""
        found: Int64 = self.rows[self.starts]
        return found

    @property
    def lasts(self) -> Int64:
        """The last row of each."""
        found: Int64 = self.rows[self.starts + self.sizes - 1]
        return found

    def told(self, place: int) -> Told:
        """The evidence of one, and its sentence."""
        evidence, text = self.tell(place)
        every = int(self.every_ns[place])
        return ({**evidence, "every_ns": every} if every else evidence), text


@dataclass(frozen=True)
class Holds:
    """Packets that were held together, by time: of each hold, places begin to end (excluded) of the judged ones.

    All [k]. length_ns: how late the latest was. released_ns: when the first arrived, TAI. within_ns: how long after it
    the last. where: which of `places` held them. share: how much of their delay came about there. slope: how latency
    went with launch time, ns per ns: −1 where all arrived at one instant.
    """

    begin: Int64
    end: Int64
    length_ns: Float64
    released_ns: Int64
    within_ns: Int64
    places: tuple[str, ...]
    where: Int64
    share: Float64
    slope: Float64

    def __len__(self) -> int:
        return len(self.begin)

    @classmethod
    def none(cls) -> Holds:
        """No hold."""
        numbers, figures = np.empty(0, np.int64), np.empty(0)
        return cls(numbers, numbers, figures, numbers, numbers, (), numbers, figures, figures)

    @classmethod
    def joined(cls, parts: Sequence[Holds]) -> Holds:
        """Those of several parts of a stream, at least one, one after the other."""
        return parts[0]._changed(lambda name: np.concatenate([getattr(one, name) for one in parts]))

    def taken(self, which: NDArray[np.bool_]) -> Holds:
        """Some of them."""
        return self._changed(lambda name: getattr(self, name)[which])

    def _changed(self, column: Callable[[str], Any]) -> Holds:
        return replace(self, **{one.name: column(one.name) for one in fields(self) if one.name != "places"})

    def place(self, number: int) -> str:
        """What held the packets of one."""
        return self.places[int(self.where[number])]


@dataclass
class Claimed:
    """The signals, and what has been claimed by now.

    holds: the packets that were held together, whatever is said of them. class_of uint8, a value each row of the
    stream: a row that has a class is not given another. taken_by uint32, likewise: by which episode of `found`, from 1.
    started: the place at which the beginning was over. usual bool, a value each judged packet: it is no later than
    those around it, whatever the line of the usual latency says. oscillation: the level goes up and down all the time,
    so that it is off from itself most of the time; None: it does not.
    """

    signals: Signals
    holds: Holds
    started: int = 0
    oscillation: FoundEpisode | None = None
    class_of: NDArray[np.uint8] = field(init=False)
    taken_by: NDArray[np.uint32] = field(init=False)
    usual: NDArray[np.bool_] = field(init=False)
    found: list[FoundEpisode | Several] = field(default_factory=list)
    count: int = 0

    def __post_init__(self) -> None:
        self.class_of = np.zeros(self.signals.rows.height, np.uint8)
        self.taken_by = np.zeros(self.signals.rows.height, np.uint32)
        self.usual = np.zeros(len(self.signals.row), np.bool_)

    def take(self, one: FoundEpisode | Several) -> None:
        """Note an episode, or several; rows of theirs that have no class yet are their class's."""
        self.found.append(one)
        if isinstance(one, Several):
            numbers = np.repeat(np.arange(1, len(one.starts) + 1, dtype=np.uint32), one.sizes) + np.uint32(self.count)
            free = self.class_of[one.rows] == NONE
            rows = one.rows[free]
            self.class_of[rows], self.taken_by[rows] = CODE[one.name], numbers[free]
            self.count += len(one.starts)
            return
        rows = self.signals.between(one.first, one.last) if one.rows is None else one.rows
        self.count += 1
        rows = rows[self.class_of[rows] == NONE]
        self.class_of[rows], self.taken_by[rows] = CODE[one.name], self.count

    @property
    def late(self) -> Int64:
        """The places of the late packets that no class has claimed, ascending."""
        late = self.signals.late
        free: Int64 = late[(self.class_of[self.signals.row[late]] == NONE) & ~self.usual[late]]
        return free


def packets(count: int) -> str:
    """ "1 packet", "6 packets"."""
    return "1 packet" if count == 1 else f"{count} packets"
