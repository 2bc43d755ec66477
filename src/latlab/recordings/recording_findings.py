"""What the join of a cell's packet table found in a recording, impossible timestamps included."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from latlab.model.part import Document
from latlab.model.timestamps import CARDS, TIMESTAMPS
from latlab.recordings.arrow import Recording, RecordingGap
from latlab.recordings.cell import RecordedAgent, RecordedCell, StreamTotals, Totals
from latlab.recordings.run_folder import PREFIX_OF_VERB
from latlab.recordings.slots import Mask, PacketColumn

_CLOCKS: Final = "clocks"
TRACED: Final = ("trace", "waking", "entry")
"""What agents that trace do."""


@dataclass(frozen=True)
class Impossible:
    """Timestamps that cannot be: how many of one kind, of one stream, and the first packet that has one.

    why: as "before the packet was due". left_out: the packet table does not have them. They stay where most of a
    stream's are so: then the card's clock is a different one, and differences of its readings are still valid.
    """

    stream: int
    stamp: str
    why: str
    count: int
    first_sequence: int
    left_out: bool = True


@dataclass
class RecordingFindings:
    """What the join saw of one recording.

    rows: read. complete: its end was there. present: there is such a file. stated: how many rows its agent said at its
    end that it recorded; None: not stated. stray: rows of no scheduled packet, of an unknown kind, or of a
    packet that had such a row before (the first one counts). again: further software stamps of a packet, one
    for each device it passes after the first: below a VLAN interface, and at a bridge's ports on the same kernel.
    launch_mismatched: rows whose launch time is not the schedule's. unconverted: software timestamps dropped, since
    the host recorded no clocks to convert by. impossible: timestamps that cannot be. gaps: rows that are damaged or
    missing.
    """

    rows: int = 0
    complete: bool = False
    present: bool = True
    stated: int | None = None
    stray: int = 0
    again: int = 0
    launch_mismatched: int = 0
    unconverted: int = 0
    impossible: list[Impossible] = field(default_factory=list)
    gaps: list[RecordingGap] = field(default_factory=list)

    @property
    def is_short(self) -> bool:
        """Whether its agent recorded more rows than are there."""
        return bool(self.gaps) or (self.stated is not None and self.rows < self.stated)

    @property
    def is_whole(self) -> bool:
        """Whether all of it is there and undamaged, as far as the file itself says."""
        return self.complete and not self.gaps

    @classmethod
    def of(cls, recording: Recording, *, present: bool, stated: int | None) -> RecordingFindings:
        """Return what is seen of a recording before its rows are looked at."""
        rows, complete = recording.table.height, recording.complete
        return cls(rows=rows, complete=complete, present=present, stated=stated, gaps=list(recording.gaps))

    @classmethod
    def from_dict(cls, values: Document) -> RecordingFindings:
        """Return what `asdict` made a dict of."""
        found = cls(**values)
        found.impossible = [Impossible(**one) for one in values.get("impossible", [])]
        found.gaps = [RecordingGap(**one) for one in values.get("gaps", [])]
        return found


def stated_rows(cell: RecordedCell) -> dict[str, int]:
    """{recording: rows that its agent said at its end that it recorded}, as `talker-sensor.sent`.

    Not of agents that dropped rows: which ones is not known. What a verb does not count, its readings of the clocks,
    is what is left of all its rows.
    """
    stated = {
        f"clock-{clock.from_}-{clock.to}.exchanges": clock.exchanges
        for clock in cell.clocks
        if clock.exchanges is not None
    }
    for prefix, agent in recording_agents(cell):
        done = agent.done
        counts = _COUNTED.get(agent.verb)
        if not done or counts is None or done.ring_full:
            continue
        try:
            of_tables = counts(done)
        except KeyError:
            continue  # it is not what our agents say
        if done.recorded is not None and agent.verb != "ptp":
            of_tables[_CLOCKS] = done.recorded - sum(of_tables.values())
        stated |= {f"{prefix}.{table}": rows for table, rows in of_tables.items()}
    return stated


def counted_packets(agent: RecordedAgent) -> dict[int, int]:
    """{stream: rows that a talker, or a listener, counted of it}, those that its ring dropped included.

    Empty of other agents, and of one without its totals.
    """
    streams = agent.totals.streams or ()
    try:
        if agent.verb == "talk":
            return {_sum(one.stream): _handed_over(one) for one in streams}
        return {_sum(one.stream): _sum(one.received) for one in streams} if agent.verb == "listen" else {}
    except KeyError:
        return {}  # it is not what our agents say


def recording_agents(cell: RecordedCell) -> Iterator[tuple[str, RecordedAgent]]:
    """(what its recordings begin with, agent) of each agent of cell.json that records packets, instants or PTP."""
    ports: dict[str, list[str]] = {}
    for port in cell.ptp or []:
        if not port.absent:
            ports.setdefault(port.port.partition(".")[0], []).append(port.port)
    for agent in cell.agents:
        verb, host = agent.verb, agent.host
        if verb == "ptp":
            # An agent for each port, in their order.
            name = ports[host].pop(0) if ports.get(host) else None
        else:
            name = host if verb in ("talk", "listen", "trace") else agent.probe
        if name is not None:
            yield f"{PREFIX_OF_VERB.get(verb, verb)}-{name}", agent


def _sum(*counts: int | None) -> int:
    """All of the counts. KeyError: one of them was not said."""
    if None in counts:
        raise KeyError
    return sum(filter(None, counts))


def _handed_over(one: StreamTotals) -> int:
    return _sum(one.sent, one.send_errors, one.unsent_late)


def _talked(done: Totals) -> dict[str, int]:
    streams = done.streams or []
    return {"sent": sum(map(_handed_over, streams)), "stamps": sum(one.stamped for one in streams)}


def _asked(done: Totals, sent: int | None) -> dict[str, int]:
    """Of one side of a probe, which counts what it sent as `sent`; over DDS nothing is stamped."""
    return {"sent": _sum(sent, done.send_errors), "stamps": done.stamped, "received": _sum(done.received)}


_COUNTED: Final[dict[str, Callable[[Totals], dict[str, int]]]] = {
    "talk": _talked,
    "listen": lambda done: {"received": sum(_sum(one.received) for one in done.streams or [])},
    "ping": lambda done: _asked(done, done.sent),
    "pong": lambda done: _asked(done, done.answered),
    "timer": lambda done: {"timer": done.events},
    "ptp": lambda done: {"ptp": _sum(done.recorded)},
}
"""By verb: the rows of its tables, by what it counted, as `done` has it."""

# Timestamps that cannot be: outside the time that their agent ran, before what comes first, or out of their order.


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
class ImpossibleAnywhere:
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
    columns: Mapping[str, PacketColumn], rows: slice, stamps: Sequence[str], readings: Readings, *, due: bool
) -> list[ImpossibleAnywhere]:
    """Take the impossible ones of one stream's timestamps out of the columns; return what they were.

    stamps: as `wake`, all by one host's clock, or its card's. due: its thread sleeps until each packet's instant.
    """
    found: list[ImpossibleAnywhere] = []
    for stamp in stamps:
        column = columns[f"{stamp}_tai_ns"]
        if not column.valid[rows].any():
            continue
        for why, wrong in _wrong(columns, rows, stamp, readings, due=due):
            places = np.flatnonzero(wrong & column.valid[rows])
            if not len(places):
                continue
            another_clock = stamp in CARDS and len(places) > MOST * np.count_nonzero(column.valid[rows])
            found.append(ImpossibleAnywhere(stamp, why, len(places), int(places[0]), left_out=not another_clock))
            if not another_clock:
                # Two columns may share which rows have a value.
                column.valid = column.valid.copy()
                column.valid[rows][places] = False
    return found


def _wrong(
    columns: Mapping[str, PacketColumn], rows: slice, stamp: str, readings: Readings, *, due: bool
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


def _disordered(columns: Mapping[str, PacketColumn], rows: slice, stamp: str) -> Mask:
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


def _frozen(columns: Mapping[str, PacketColumn], rows: slice) -> Mask:
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


def _both(columns: Mapping[str, PacketColumn], rows: slice, other: str, at: NDArray[np.int64], *, before: bool) -> Mask:
    beside = columns[f"{other}_tai_ns"]
    apart = at < beside.values[rows] if before else at > beside.values[rows]
    wrong: Mask = apart & beside.valid[rows]
    return wrong
