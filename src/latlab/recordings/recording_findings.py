"""What the join of a cell's packet table saw of one recording, next to what its agent said of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from latlab.model.part import Document
from latlab.recordings.arrow import Gap, Recording
from latlab.recordings.cell import RecordedAgent, RecordedCell, StreamTotals, Totals
from latlab.recordings.run_folder import PREFIX_OF_VERB

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
    gaps: list[Gap] = field(default_factory=list)

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
        found.gaps = [Gap(**one) for one in values.get("gaps", [])]
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


def _stamped(one: StreamTotals) -> int:
    return one.tx_sched + one.tx_soft + one.tx_hard + one.launch_invalid + one.launch_missed


def _talked(done: Totals) -> dict[str, int]:
    streams = done.streams or []
    return {"sent": sum(map(_handed_over, streams)), "stamps": sum(map(_stamped, streams))}


def _asked(done: Totals, sent: int | None) -> dict[str, int]:
    """Of one side of a probe, which counts what it sent as `sent`; over DDS nothing is stamped."""
    return {"sent": _sum(sent, done.send_errors), "stamps": _stamped(done), "received": _sum(done.received)}


_COUNTED: Final[dict[str, Callable[[Totals], dict[str, int]]]] = {
    "talk": _talked,
    "listen": lambda done: {"received": sum(_sum(one.received) for one in done.streams or [])},
    "ping": lambda done: _asked(done, done.sent),
    "pong": lambda done: _asked(done, done.answered),
    "timer": lambda done: {"timer": done.events},
    "ptp": lambda done: {"ptp": _sum(done.recorded)},
}
"""By verb: the rows of its tables, by what it counted, as `done` has it."""
