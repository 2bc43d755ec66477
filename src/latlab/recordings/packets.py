"""The packet table of a cell: one row a scheduled packet, joined from the recordings of who sent and who received.

All instants of a row are on the talker's clock, as well as the two hosts' clocks are known against each other; of both
legs of a probe on that of who asks (`legs`).

Columns as docs/reference/run-folder.md, "The packet table". Packets that were lost or never sent are rows too.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import DTypeLike, NDArray

from latlab.model import timestamps
from latlab.model.errors import LabError, reads_files
from latlab.recordings.arrow import Recording, no_recording, read_recording
from latlab.recordings.cell import RecordedCell, RecordedStream, Totals
from latlab.recordings.clock_offset import RealToTai
from latlab.recordings.recording_findings import (
    TRACED,
    Readings,
    RecordingFindings,
    counted_packets,
    drop_impossible,
    recording_agents,
    stated_rows,
)
from latlab.recordings.run_folder import CellFolder, reading_table, writing_table
from latlab.recordings.slots import (
    Finder,
    Mask,
    PacketColumn,
    Rows,
    Slots,
    after_last,
    first_ones,
    has_schedule,
    move_arrivals,
    onto_askers_clock,
    with_counts,
)
from latlab.recordings.timers import timer_tables

ROW_GROUP: Final = 1 << 20
_FINDINGS_KEY: Final = "latlab.findings"
_JOIN_KEY: Final = "latlab.join"
_JOIN: Final = "2"
"""How the recordings were joined: a table that an earlier latlab joined otherwise is joined again."""
_SOURCES: Final = (".sent.arrow", ".received.arrow", ".timer.arrow", ".packets.parquet")
"""How the files end that a packet table is made of."""

_PIECE: Final = 1 << 20
"""Rows scattered at a time: enough to be fast, few enough that temporary arrays stay small."""

_KINDS: Final = {int(one.recorded_as): one for one in timestamps.STAMPS}
_LAUNCH_ERRORS: Final = {3: 1, 4: 2}
_DROPPED_LATE: Final = 3
"""`late` of a packet that its talker did not hand over: it woke for it, and never submitted it."""

PACKET_COLUMNS: Final[dict[str, DTypeLike]] = {
    "stream": np.uint16,
    "sequence": np.uint64,
    **{one.column: np.int64 for one in timestamps.RECORDED},
    "clock_bound_ns": np.int64,
    "arrival": np.uint64,
    "send_error": np.int32,
    "launch_error": np.uint8,
    "late": np.uint8,
    "unknown": np.uint8,
    "warmup": np.bool_,
}
"""The packet table's columns, in their order: {name: type}."""

_SENDING_UNKNOWN: Final = 1
_ARRIVAL_UNKNOWN: Final = 2
_STAMPS_UNKNOWN: Final = 4
"""Bits of `unknown`: recordings that are not all there do not say whether it was sent, whether it arrived, or when it
left."""

Take = Mask | slice
_ALL: Final = slice(None)
"""Takes every row without copying them, which is the usual case."""

_SENT_COLUMNS: Final = ("wake_due_tai_ns", "wake_tai_ns", "late")
_SUBMITTED_COLUMNS: Final = (("error", "send_error"), ("submit_tai_ns", "submit_tai_ns"))
"""(recorded, in the packet table) of packets that were handed over."""
_SENT_LATER: Final = tuple(one for one in timestamps.SENT if one.name not in ("launch", "wake_due", "wake", "submit"))
"""What senders record of a packet besides, where they do."""
_BACK: Final = tuple(reversed(timestamps.RECEIVED))
"""What a listener's host records, the application's timestamp first: those before it are held against it."""


@dataclass
class JoinedPackets:
    """The packet table, and {`talker-HOST.sent`, `ping-PROBE.sent`: what the join saw of that recording}."""

    packets: pl.DataFrame
    findings: dict[str, RecordingFindings] = field(default_factory=dict)


def build_packets(folder: CellFolder) -> pl.DataFrame:
    """The packet table, also written to packets.parquet (zstd), with the findings in the file's metadata.

    LabError: cell.json is not there, a recording is not of this run, or the table cannot be written.
    """
    joined = join_cell(folder)
    findings = {name: asdict(found) for name, found in joined.findings.items()}
    with writing_table(folder.packets_path, "the packet table") as temporary:
        joined.packets.write_parquet(
            temporary,
            compression="zstd",
            compression_level=1,
            row_group_size=ROW_GROUP,
            metadata={_FINDINGS_KEY: json.dumps(findings), _JOIN_KEY: _JOIN},
        )
    return joined.packets


def read_findings(folder: CellFolder) -> dict[str, RecordingFindings]:
    """{recording: what the join saw of it}, from the packet table's file; empty if that was never built."""
    if not folder.packets_path.exists():
        return {}
    with reading_table(folder.packets_path, "build it from the recordings: latlab report RUN"):
        found = json.loads(pl.read_parquet_metadata(folder.packets_path).get(_FINDINGS_KEY, "{}"))
    return {name: RecordingFindings.from_dict(values) for name, values in found.items()}


def is_joined(folder: CellFolder) -> bool:
    """Whether packets.parquet holds all there is: a recording without its end may still have grown since, a damaged
    one may have been replaced, and earlier versions of latlab joined otherwise.

    An agent whose lab was killed finishes its recordings on its own, a moment later. LabError: the file is damaged, and
    there is nothing to build it from.
    """
    try:
        if not folder.packets_path.exists():
            return False
        found = read_findings(folder)
        return all(one.is_whole for one in found.values()) and (_is_joined_so(folder) or not _is_recorded(folder))
    except LabError:
        if _is_recorded(folder):
            return False
        folder.packets()  # says what is the matter with it
        raise


def whole_packets(folder: CellFolder) -> pl.DataFrame:
    """The packet table: the file's, or built again where that is not there, not all there is, or damaged.

    LabError: the file is damaged and there is nothing to build it from; or as build_packets.
    """
    if is_joined(folder):
        try:
            return folder.packets()
        except LabError:
            if not _is_recorded(folder):
                raise
    return build_packets(folder)


def _is_joined_so(folder: CellFolder) -> bool:
    return pl.read_parquet_metadata(folder.packets_path).get(_JOIN_KEY) == _JOIN


def _is_recorded(folder: CellFolder) -> bool:
    """Whether there is anything of which a packet table is made."""
    names = [path.name for path in folder.path.iterdir()]
    return any(name.endswith(_SOURCES) for name in names)


@reads_files
def join_cell(folder: CellFolder) -> JoinedPackets:
    """The packet table and the join's findings, from cell.json and the recordings; nothing is written.

    Sorted by stream number and sequence. LabError as in build_packets.
    """
    cell = folder.cell()
    slots = Slots(with_counts(folder, cell))
    join = _Join(folder, cell, slots)
    agents = _agents(slots)
    for agent in agents:
        join.sent_by(agent)
    join.warm_up()
    for agent in agents:
        join.received_by(agent)
    for agent in agents:
        join.beyond_the_end(agent)
        join.instants_of(agent)
    join.onto_one_clock()
    join.see_others()
    others = [*_tool_tables(folder, cell), *timer_tables(folder, cell, join.findings)]
    packets = join.frame()
    pairs = [_first_copies(packets, stream) for stream in cell.streams if stream.pair]
    return JoinedPackets(_with_others(packets, [*pairs, *others]), join.findings)


@dataclass(frozen=True)
class _Agent:
    """One agent's recordings: `talker-HOST` is verb talk's of a host, `ping-PROBE` is verb ping's of a probe.

    sends, receives: the numbers of the streams that it does.
    """

    verb: str
    name: str
    sends: tuple[int, ...] = ()
    receives: tuple[int, ...] = ()


def _agents(slots: Slots) -> list[_Agent]:
    """Talkers, listeners, and of each probe who asks and who answers."""
    streams = [stream for stream in slots.streams if not stream.probe]
    legs = {(stream.probe, stream.leg): stream.stream for stream in slots.streams if stream.probe}

    def numbers(end: str, host: str) -> tuple[int, ...]:
        return tuple(stream.stream for stream in streams if getattr(stream, end) == host)

    talkers = sorted({stream.talker for stream in streams})
    listeners = sorted({stream.listener for stream in streams})
    found = [_Agent("talk", host, sends=numbers("talker", host)) for host in talkers]
    found += [_Agent("listen", host, receives=numbers("listener", host)) for host in listeners]
    for probe in dict.fromkeys(name for name, _ in legs):
        up, down = (legs[probe, leg] for leg in ("up", "down"))
        found += [_Agent("ping", probe, (up,), (down,)), _Agent("pong", probe, (down,), (up,))]
    return found


def _tool_tables(folder: CellFolder, cell: RecordedCell) -> list[pl.DataFrame]:
    """The packets that tools measured, and those that were watched."""
    paths = [folder.tool_packets_path(stream.probe) for stream in cell.streams if stream.tool and stream.probe]
    paths += [folder.flow_packets_path(flow.name) for flow in cell.flows]
    return [_tool_table(path) for path in paths if path.exists()]


def _tool_table(path: Path) -> pl.DataFrame:
    with reading_table(path, "restore a complete copy: the tool's output is read only once, when its cell is measured"):
        return pl.read_parquet(path)


def _first_copies(packets: pl.DataFrame, pair: RecordedStream) -> pl.DataFrame:
    """The rows of a pair: of both streams' rows of a packet the one whose application had it first; one that came by
    one LAN only has that row, one that came by none the row of LAN A (IEC 62439-3, 4.1).

    Both streams have one talker and one listener, so all instants are by the same clocks.
    """
    assert pair.pair
    lans = {number: place for place, number in enumerate(pair.pair)}
    rows = packets.filter(pl.col("stream").is_in(pair.pair))
    by_lan = pl.col("stream").replace_strict(lans, return_dtype=pl.Int8)
    first = rows.sort(pl.col("sequence"), pl.col("rx_user_tai_ns"), by_lan, nulls_last=True).unique(
        "sequence", keep="first", maintain_order=True
    )
    came = pl.col("arrival").is_not_null()
    order = pl.struct("rx_user_tai_ns", "sequence").rank("ordinal").over(came) - 1
    return first.with_columns(
        pl.lit(pair.stream, pl.UInt16).alias("stream"),
        pl.when(came).then(order.cast(pl.UInt64)).alias("arrival"),
    )


def _with_others(packets: pl.DataFrame, tables: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """The table with tables that have other timestamps."""
    return pl.concat([packets, *tables], how="diagonal").sort("stream", maintain_order=True) if tables else packets


class _Join:
    """The packet table while recordings are scattered into it."""

    def __init__(self, folder: CellFolder, cell: RecordedCell, slots: Slots) -> None:
        self.folder = folder
        self.cell = cell
        self.slots = slots
        self.findings: dict[str, RecordingFindings] = {}
        self.stated = stated_rows(cell)
        self.heard_until: dict[_Agent, int] = {}
        self.is_scheduled = all(map(has_schedule, slots.streams))
        # Zeroed memory is taken from the machine when it is written: a column that is not filled costs nothing.
        self.columns = {name: PacketColumn(dtype, slots.total) for name, dtype in PACKET_COLUMNS.items()}
        for name in _SENT_COLUMNS:
            self.columns[name].valid = self.columns["wake_tai_ns"].valid
        self.columns["submit_tai_ns"].valid = self.columns["send_error"].valid
        self.columns["rx_user_tai_ns"].valid = self.columns["arrival"].valid
        self._schedule()

    def sent_by(self, agent: _Agent) -> None:
        """Scatter what one agent sent and what its error queue said."""
        if agent.sends:
            finder, real_to_tai = self.slots.finder(agent.sends), self._real_to_tai(agent)
            self._sent(finder, *self._read(agent, "sent"))
            self._stamps(finder, real_to_tai, *self._read(agent, "stamps"))

    def received_by(self, agent: _Agent) -> None:
        """Scatter what one agent received."""
        if agent.receives:
            finder, real_to_tai = self.slots.finder(agent.receives), self._real_to_tai(agent)
            recording, found = self._read(agent, "received")
            self._received(finder, real_to_tai, recording, found)
            if recording.table.height:
                self.heard_until[agent] = int(recording.table["rx_user_tai_ns"].max())  # type: ignore[arg-type]

    def beyond_the_end(self, agent: _Agent) -> None:
        """Mark the packets of which one agent's recordings do not say what became of them, as they are not all there.

        A recording that was cut says nothing of what came after its end. One that has fewer rows than its agent
        counted, in all or of this stream, says nothing of any packet that is not in it.
        """
        ends = (one for one in self.cell.agents if (one.verb, one.host) == (agent.verb, agent.name))
        counted = {stream: rows for one in ends for stream, rows in counted_packets(one).items()}
        sent, stamps, received = (self._found(agent, table) for table in ("sent", "stamps", "received"))
        for number in agent.sends:
            rows = self.slots.slice_of[number]
            known = self.columns["wake_tai_ns"].valid[rows]
            is_short = (sent is not None and sent.is_short) or np.count_nonzero(known) < counted.get(number, 0)
            if sent and (is_short or not sent.complete):
                self._mark(rows, ~known if is_short else ~known & after_last(known), _SENDING_UNKNOWN)
            if stamps and (stamps.is_short or not stamps.complete):
                known = np.logical_or.reduce([self.columns[one.column].valid[rows] for one in timestamps.LEFT.values()])
                self._mark(rows, ~known if stamps.is_short else ~known & after_last(known), _STAMPS_UNKNOWN)
        for number in agent.receives:
            assert received
            rows = self.slots.slice_of[number]
            missing = ~self.columns["arrival"].valid[rows]
            is_short = received.is_short or np.count_nonzero(~missing) < counted.get(number, 0)
            if is_short or not received.complete:
                if not is_short:
                    missing &= self._may_come(number, rows, self.heard_until.get(agent))
                self._mark(rows, missing, _ARRIVAL_UNKNOWN)

    def _may_come(self, number: int, rows: slice, until_ns: int | None) -> Mask:
        """Which packets may have arrived after the last one that is in the recording, bool [n].

        until_ns: when that was received, None: none was. A packet takes as long as the slowest of its stream.
        """
        launch, user = self.columns["launch_tai_ns"], self.columns["rx_user_tai_ns"]
        # An answer is due from when its question was: that is known on the clock of who receives it.
        up = next((legs["up"] for legs in self.slots.probes.values() if legs["down"].stream == number), None)
        due = self.slots.slice_of[up.stream] if up else rows
        known = user.valid[rows] & launch.valid[due]
        if until_ns is None or not known.any():
            return np.ones(rows.stop - rows.start, np.bool_)
        slowest = int((user.values[rows][known] - launch.values[due][known]).max())
        late: Mask = ~launch.valid[due] | (launch.values[due] + slowest > until_ns)
        return late

    def _mark(self, rows: slice, which: Mask, bit: int) -> None:
        self.columns["unknown"].values[rows][which] |= np.uint8(bit)

    def _found(self, agent: _Agent, table: str) -> RecordingFindings | None:
        return self.findings.get(self.folder.recording(agent.verb, agent.name, table).name.removesuffix(".arrow"))

    def instants_of(self, agent: _Agent) -> None:
        """Leave out the timestamps of one agent that cannot be, and note them with its recordings."""
        clocks, found = self._read(agent, "clocks")
        readings = Readings.of(clocks.table, whole=found.complete and not found.is_short)
        for numbers, stamps, table in (
            (agent.sends, [one.name for one in timestamps.SENT if one.by == "thread"], "sent"),
            (agent.sends, [one.name for one in timestamps.STAMPS], "stamps"),
            (agent.receives, [one.name for one in _BACK], "received"),
        ):
            seen = self._found(agent, table)
            for number in numbers if seen else ():
                stream = next(one for one in self.slots.streams if one.stream == number)
                due = has_schedule(stream) and stream.probe is None
                found_here = drop_impossible(self.columns, self.slots.slice_of[number], stamps, readings, due=due)
                assert seen
                seen.impossible += [found_one.of(number) for found_one in found_here]

    def see_others(self) -> None:
        """Note what there is of recordings that no packet is in: traces, PTP's answers, comparisons of clocks."""
        for prefix, agent in recording_agents(self.cell):
            if agent.verb in TRACED:
                self._see_trace(prefix, agent.totals)
            elif agent.verb == "ptp":
                self._see(f"{prefix}.ptp")
        for name in self.stated:
            if name.endswith(".exchanges"):
                self._see(name)

    def _see_trace(self, prefix: str, done: Totals) -> None:
        """Of its three tables only all rows together were counted."""
        tasks, clocks, trace = (self._see(f"{prefix}.{table}") for table in ("tasks", "clocks", "trace"))
        if done.recorded is not None and not done.ring_full:
            trace.stated = done.recorded - tasks.rows - clocks.rows

    def _see(self, name: str) -> RecordingFindings:
        path, table = self.folder.path / f"{name}.arrow", name.rpartition(".")[2]
        known = path.exists()
        recording = read_recording(path, table, run_id=self.cell.run_id) if known else no_recording(table)
        found = self.findings[name] = self._findings_of(name, recording, known)
        return found

    def _findings_of(self, name: str, recording: Recording, present: bool) -> RecordingFindings:
        return RecordingFindings.of(recording, present=present, stated=self.stated.get(name))

    def warm_up(self) -> None:
        """Mark which packets of legs without a schedule were launched in the warm-up; an answer is as its question."""
        launch, warmup = self.columns["launch_tai_ns"], self.columns["warmup"].values
        for legs in self.slots.probes.values():
            up, down = (self.slots.slice_of[legs[leg].stream] for leg in ("up", "down"))
            if legs["up"].period_ns is None:
                ends = (legs["up"].start_tai_ns or 0) + self.cell.warmup_ns
                early = np.flatnonzero(launch.valid[up] & (launch.values[up] < ends))
                warmup[up][: int(early[-1]) + 1 if len(early) else 0] = True
            warmup[down] = warmup[up]

    def onto_one_clock(self) -> None:
        """Put every listener's own timestamps on its talker's clock, with how far they may be off there."""
        for stream in self.slots.streams:
            rows = self.slots.slice_of[stream.stream]
            for first in range(rows.start, rows.stop, _PIECE) if not stream.probe else ():
                piece = slice(first, min(first + _PIECE, rows.stop))
                move_arrivals(self.columns, piece, self.cell.clocks, stream.listener, stream.talker)
        for legs in self.slots.probes.values():
            places: dict[str, slice] = {leg: self.slots.slice_of[stream.stream] for leg, stream in legs.items()}
            up = legs["up"]
            onto_askers_clock(self.columns, places, self.cell.clocks, up.listener, up.talker)

    def _sent(self, finder: Finder, recording: Recording, found: RecordingFindings) -> None:
        seen = self.columns["wake_tai_ns"].valid
        for piece in _pieces(recording):
            rows, take = _locate(piece, finder, seen, found)
            if not self.is_scheduled:
                self._launched(piece, rows, take)
            self._check_launch(piece, rows, take, found)
            for name in _SENT_COLUMNS:
                self.columns[name].values[rows] = _numbers(piece, name)[take]
            submitted = _numbers(piece, "late")[take] != _DROPPED_LATE
            for recorded, name in _SUBMITTED_COLUMNS:
                self.columns[name].values[rows] = _numbers(piece, recorded)[take]
                self.columns[name].valid[rows] = submitted
            for one in _SENT_LATER:
                _scatter_present(self.columns[one.column], rows, piece[one.recorded_as], take, None)

    def _stamps(
        self, finder: Finder, real_to_tai: RealToTai | None, recording: Recording, found: RecordingFindings
    ) -> None:
        launch_error = self.columns["launch_error"]
        is_error = pl.col("kind").is_in(list(_LAUNCH_ERRORS))
        for piece in _pieces(recording):
            # Of both kinds together: of two of a packet's the first counts.
            errors = piece.filter(is_error)
            rows, take = _locate(errors, finder, launch_error.valid, found)
            launch_error.values[rows] = _numbers(errors.select(pl.col("kind").replace(_LAUNCH_ERRORS)), "kind")[take]
            others = piece.filter(~is_error)
            for (kind,), of_kind in others.partition_by("kind", as_dict=True, include_key=False).items():
                if kind not in _KINDS:
                    found.stray += of_kind.height
                elif (by_card := _KINDS[kind].by == "card") or real_to_tai is not None:
                    column = self.columns[_KINDS[kind].column]
                    rows, take = _locate(of_kind, finder, column.valid, found, once=by_card)
                    stamp = _numbers(of_kind, "stamp_ns")[take]
                    convert = None if by_card else real_to_tai
                    column.values[rows] = convert(stamp) if convert else stamp
                else:
                    found.unconverted += of_kind.height

    def _received(
        self, finder: Finder, real_to_tai: RealToTai | None, recording: Recording, found: RecordingFindings
    ) -> None:
        arrival = self.columns["arrival"]
        arrived: Counter[int] = Counter()
        for piece in _pieces(recording):
            rows, take = _locate(piece, finder, arrival.valid, found)
            self._check_launch(piece, rows, take, found)
            stream = _numbers(piece, "stream")[take]
            for number in np.unique(stream).tolist():
                of_stream = rows[stream == number]
                position = np.arange(len(of_stream), dtype=np.uint64)
                arrival.values[of_stream] = position + np.uint64(arrived[number])
                arrived[number] += len(of_stream)
            self.columns["rx_user_tai_ns"].values[rows] = _numbers(piece, "rx_user_tai_ns")[take]
            for one in _BACK[1:]:
                recorded, by_kernel = piece[one.recorded_as], one.by == "kernel"
                if by_kernel and real_to_tai is None:
                    found.unconverted += recorded.count()
                else:
                    convert = real_to_tai if by_kernel else None
                    _scatter_present(self.columns[one.column], rows, recorded, take, convert)

    def _read(self, agent: _Agent, table: str) -> tuple[Recording, RecordingFindings]:
        path = self.folder.recording(agent.verb, agent.name, table)
        # An agent killed as it started leaves no file: nothing is known from its beginning on.
        known = path.exists()
        recording = read_recording(path, table, run_id=self.cell.run_id) if known else no_recording(table)
        name = path.name.removesuffix(".arrow")
        found = self.findings[name] = self._findings_of(name, recording, known)
        return recording, found

    def _real_to_tai(self, agent: _Agent) -> RealToTai | None:
        recording, _ = self._read(agent, "clocks")
        mine = (a for a in self.cell.agents if a.verb == agent.verb and agent.name in (a.host, a.probe))
        tai_offset_s = next((a.said.tai_offset_s for a in mine), None)
        return RealToTai.from_clocks(recording.table, tai_offset_s=tai_offset_s)

    def _launched(self, piece: pl.DataFrame, rows: Rows, take: Take) -> None:
        """Fill the launch times of what has no schedule: they are what its sender says."""
        launch = self.columns["launch_tai_ns"]
        own = ~launch.valid[rows]
        if own.any():
            launch.values[rows[own]] = _numbers(piece, "launch_tai_ns")[take][own]
            launch.valid[rows[own]] = True

    def _check_launch(self, piece: pl.DataFrame, rows: Rows, take: Take, found: RecordingFindings) -> None:
        """Count launch times that are not those of the table, where that has one."""
        launch = self.columns["launch_tai_ns"]
        differs = _numbers(piece, "launch_tai_ns")[take] != launch.values[rows]
        found.launch_mismatched += int(np.count_nonzero(differs if self.is_scheduled else differs & launch.valid[rows]))

    def _schedule(self) -> None:
        """Fill what is known before anything is sent: launch = start + offset + n × period, on the talker's clock."""
        launch = self.columns["launch_tai_ns"]
        for stream in self.slots.streams:
            rows = self.slots.slice_of[stream.stream]
            n = np.arange(rows.stop - rows.start, dtype=np.int64)
            self.columns["stream"].values[rows] = stream.stream
            self.columns["sequence"].values[rows] = n
            if not has_schedule(stream):
                continue
            start = self.cell.start_of(stream)
            launch.values[rows] = n * (stream.period_ns or 0) + (start + stream.offset_ns)
            launch.valid[rows] = True
            self.columns["warmup"].values[rows] = launch.values[rows] < start + self.cell.warmup_ns

    def frame(self) -> pl.DataFrame:
        """The table. Every mask is let go as its column becomes a series."""
        for name in ("stream", "sequence", "warmup", "launch_error", "late", "unknown"):
            self.columns[name].valid = np.ones(self.slots.total, np.bool_)
        return pl.DataFrame([self.columns.pop(name).series(name) for name in PACKET_COLUMNS])


def _pieces(recording: Recording) -> Iterator[pl.DataFrame]:
    return recording.table.iter_slices(_PIECE)


def _locate(
    piece: pl.DataFrame, finder: Finder, seen: Mask, found: RecordingFindings, *, once: bool = True
) -> tuple[Rows, Take]:
    """Table rows of the piece's rows that are to be taken, and which those are; the rest is counted as unmatched.

    once: a packet has one such row at most; otherwise further ones are counted as `again`.
    """
    rows, known = finder.find(_numbers(piece, "stream"), _numbers(piece, "sequence"))
    fresh = first_ones(rows, seen)
    if len(rows) == piece.height and fresh.all():
        return rows, _ALL
    repeated = 0 if once else len(rows) - int(fresh.sum())
    known[known] = fresh
    found.again += repeated
    found.stray += piece.height - int(fresh.sum()) - repeated
    return rows[fresh], known


def _numbers(piece: pl.DataFrame, name: str) -> NDArray[Any]:
    """A column that has no nulls, as an array of its type. LabError: it has some: no agent wrote it so."""
    if piece[name].null_count():
        raise LabError(
            f"a recording has rows without {name}, which every row has",
            where=name,
            remedy="the file is damaged, or not latlab's: restore a complete copy",
        )
    return piece[name].to_numpy()


def _scatter_present(
    column: PacketColumn, rows: Rows, stamps: pl.Series, take: Take, convert: RealToTai | None
) -> None:
    """Put the timestamps that are there into the column; what is null stays null."""
    present = stamps.is_not_null().to_numpy()[take]
    values = stamps.fill_null(0).to_numpy()[take][present]
    column.values[rows[present]] = convert(values) if convert else values
    column.valid[rows[present]] = True
