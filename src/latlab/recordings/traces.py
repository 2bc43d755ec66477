"""What is recorded of how packets and instants reached the threads that waited for them, by their host's clock."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from latlab.model.limits import LIMITS
from latlab.recordings.arrow import no_recording, read_recording
from latlab.recordings.cell import JudgedPackets, KeptTotals, Ready, RecordedAgent, RecordedCell, Totals
from latlab.recordings.clock_offset import RealToTai
from latlab.recordings.run_folder import CellFolder

_RECEIVING: Final = ("listen", "pong")
LOST: Final = 0
"""In a trace, the place of events that were lost."""
_WINDOW_ENDS: Final = 255
"""The number of no tracepoint: until there, all events are there."""


@dataclass(frozen=True, kw_only=True)
class Traced:
    """A thread that waits, and its trace.

    thread: its number. trace, tasks: as recorded. done: what the agent that traced said at its end; None: it did not
    come to it. vm_host, entries, entry_tasks: of a guest whose VM host was traced, too, its name and what was recorded
    there, by that host's CLOCK_TAI. kept: what a flight recorder counted; None: all of it was recorded.
    """

    host: str
    thread: int
    trace: pl.DataFrame
    tasks: pl.DataFrame
    done: Totals | None
    vm_host: str | None = None
    entries: pl.DataFrame | None = None
    entry_tasks: pl.DataFrame | None = None
    kept: KeptTotals | None = None
    judged: JudgedPackets | None = None


@dataclass(frozen=True, kw_only=True)
class TracedReceiver(Traced):
    """A listener, or who answers a ping.

    received: its packets in the order in which it had them, each once: `stream`, `sequence`, `rx_soft_tai_ns` (null
    where the kernel gave none) and `rx_user_tai_ns` by its host's CLOCK_TAI, and `counted`, whether the packet was
    launched after the warm-up.
    """

    received: pl.DataFrame


@dataclass(frozen=True, kw_only=True)
class TracedTimer(Traced):
    """A timer of ours.

    instants: those that a timer was set for, in their order: `stream`, `sequence`, `wake_due_tai_ns` and `wake_tai_ns`,
    and `counted`, whether it was due after the warm-up.
    """

    instants: pl.DataFrame


def read_traces(folder: CellFolder, cell: RecordedCell) -> Iterator[TracedReceiver]:
    """Every receiver of cell.json that was traced; none where nothing was.

    Unlike the packet table, whose timestamps may have been moved onto the talker's clock, these are the receiver's own.
    LabError: a recording is not of this run.
    """
    for agent in cell.agents:
        if agent.verb != "trace":
            continue
        host = agent.host
        recorded = _recorded(folder, cell, agent, host)
        for receiver in cell.agents:
            ready = receiver.said
            if receiver.host != host or receiver.verb not in _RECEIVING or not _is_ours(ready):
                continue
            name = receiver.probe or host
            recorded_rows, clocks = (
                _read(folder, cell, receiver.verb, name, table) for table in ("received", "clocks")
            )
            received = _received(cell, recorded_rows, clocks, ready.tai_offset_s)
            kept = _kept(folder, cell, agent.verb, host)
            yield TracedReceiver(
                thread=receiver.realtime.tid or 0,
                received=received if kept is None else received.filter(within(kept, received)),
                judged=receiver.totals.judged,
                **recorded,
            )


def read_timer_traces(folder: CellFolder, cell: RecordedCell) -> Iterator[TracedTimer]:
    """Every timer of cell.json of which it was traced how its thread is woken. LabError: as `read_traces`."""
    timers = {agent.probe: agent for agent in cell.agents if agent.verb == "timer" and agent.ready}
    for agent in cell.agents:
        name = agent.probe
        if agent.verb != "waking" or name is None or not (timer := timers.get(name)):
            continue
        yield TracedTimer(
            thread=timer.realtime.tid or 0,
            instants=_instants(cell, _read(folder, cell, "timer", name, "timer")),
            **_recorded(folder, cell, agent, name),
        )


def _recorded(folder: CellFolder, cell: RecordedCell, agent: RecordedAgent, name: str) -> dict[str, Any]:
    """What there is of a trace next to the thread and what it waited for; name: of the agent's recordings."""
    host = agent.host
    trace, tasks = _traced(folder, cell, agent.verb, name)
    vm_host = next((one.host for one in cell.agents if (one.verb, one.probe) == ("entry", host)), None)
    entries, entry_tasks = _traced(folder, cell, "entry", host) if vm_host else (None, None)
    said = {"host": host, "done": agent.done, "vm_host": vm_host, "kept": agent.totals.kept}
    return {**said, "trace": trace, "tasks": tasks, "entries": entries, "entry_tasks": entry_tasks}


def _traced(folder: CellFolder, cell: RecordedCell, verb: str, name: str) -> tuple[pl.DataFrame, pl.DataFrame]:
    """A trace, and its tasks. Where only windows of it were kept, events of other times are lost."""
    trace, tasks = (_read(folder, cell, verb, name, table) for table in ("trace", "tasks"))
    kept = _kept(folder, cell, verb, name)
    return trace if kept is None else separated(trace, kept), tasks


def _kept(folder: CellFolder, cell: RecordedCell, verb: str, name: str) -> pl.DataFrame | None:
    """The windows of a trace that were kept; None: all of it was recorded."""
    there = folder.recording(verb, name, "kept").exists()
    return _read(folder, cell, verb, name, "kept") if there else None


def separated(trace: pl.DataFrame, kept: pl.DataFrame) -> pl.DataFrame:
    """The events of the windows that are whole, on each CPU with a row before them that says that events were lost.

    kept: the windows, in any order, none of which overlap. A row at the end of each window says from when on.
    """
    spans = _spans(kept.filter("whole"))
    # After the last window all is lost as well.
    ends = kept["to_tai_ns"].to_list()
    begins = [*spans["from_tai_ns"], *([max(ends) + 1] if ends else [])]
    marks = [(at, LOST) for at in begins] + [(at, _WINDOW_ENDS) for at in spans["to_tai_ns"]]
    cpus = trace["cpu"].unique().to_list() or [0]
    rows = [(at, cpu, event, 0, 0, 0, None, None) for at, event in marks for cpu in cpus]
    between = pl.DataFrame(rows, schema=trace.schema, orient="row")
    order = pl.when(pl.col("event") == LOST).then(0).when(pl.col("event") == _WINDOW_ENDS).then(2).otherwise(1)
    inside = trace.filter((pl.col("event") != LOST) & pl.Series(_inside(spans, trace["tai_ns"], trace["tai_ns"])))
    return pl.concat((inside, between)).sort("cpu", "tai_ns", order, maintain_order=True)


def within(kept: pl.DataFrame, received: pl.DataFrame) -> pl.Series:
    """Of which packets a window was kept, whole or not, from the kernel's timestamp to the application; of such as took
    longer than a window is, of its end.
    """
    spans, ends = _spans(kept), received["rx_user_tai_ns"]
    begins = received["rx_soft_tai_ns"].fill_null(ends)
    longer = (ends - begins >= LIMITS.window_lead_ns).to_numpy()
    return pl.Series(_inside(spans, begins, ends) | _inside(spans, ends, ends) & longer)


def _spans(windows: pl.DataFrame) -> pl.DataFrame:
    """The windows in order of time, those that touch as one."""
    ordered = windows.sort("from_tai_ns")
    ends = pl.col("to_tai_ns").cum_max().shift(1)
    return (
        ordered.with_columns(span=(pl.col("from_tai_ns") > ends + 1).fill_null(True).cum_sum())
        .group_by("span", maintain_order=True)
        .agg(pl.col("from_tai_ns").min(), pl.col("to_tai_ns").max())
    )


def _inside(spans: pl.DataFrame, from_ns: pl.Series, to_ns: pl.Series) -> NDArray[np.bool_]:
    """Whether all of the time from one instant to the other is in one of the spans."""
    if not spans.height:
        return np.zeros(len(from_ns), np.bool_)
    begins, ends = (spans[name].to_numpy() for name in ("from_tai_ns", "to_tai_ns"))
    last = np.searchsorted(begins, from_ns.to_numpy(), side="right") - 1
    inside: NDArray[np.bool_] = (last >= 0) & (to_ns.to_numpy() <= ends[last])
    return inside


def _is_ours(ready: Ready) -> bool:
    """Whether it receives in its own thread; Cyclone receives in Cyclone's."""
    return ready.realtime is not None and not ready.cyclone


def _read(folder: CellFolder, cell: RecordedCell, verb: str, name: str, table: str) -> pl.DataFrame:
    path = folder.recording(verb, name, table)
    return (read_recording(path, table, run_id=cell.run_id) if path.exists() else no_recording(table)).table


def _received(
    cell: RecordedCell, recorded: pl.DataFrame, clocks: pl.DataFrame, tai_offset_s: int | None
) -> pl.DataFrame:
    to_tai = RealToTai.from_clocks(clocks, tai_offset_s=tai_offset_s)
    real, soft = recorded["rx_soft_real_ns"], pl.lit(None, pl.Int64)
    if to_tai:
        soft = pl.when(real.is_not_null()).then(pl.Series(to_tai(real.fill_null(0).to_numpy())))
    return (
        recorded.with_columns(rx_soft_tai_ns=soft, counted=_counted(cell, "launch_tai_ns"))
        .unique(["stream", "sequence"], keep="first", maintain_order=True)
        .select("stream", "sequence", "rx_soft_tai_ns", "rx_user_tai_ns", "counted")
    )


def _instants(cell: RecordedCell, recorded: pl.DataFrame) -> pl.DataFrame:
    return (
        recorded.filter(~pl.col("overdue"))
        .rename({"due_tai_ns": "wake_due_tai_ns", "woke_tai_ns": "wake_tai_ns"})
        .with_columns(counted=_counted(cell, "wake_due_tai_ns"))
        .unique(["stream", "sequence"], keep="first", maintain_order=True)
        .select("stream", "sequence", "wake_due_tai_ns", "wake_tai_ns", "counted")
    )


def _counted(cell: RecordedCell, column: str) -> pl.Expr:
    """Whether that instant of a row is past the warm-up of its stream; not, of a stream that is unknown."""
    warm = {stream.stream: cell.start_of(stream) + cell.warmup_ns for stream in cell.streams}
    begins = pl.col("stream").replace_strict(warm, default=None, return_dtype=pl.Int64)
    return (pl.col(column) >= begins).fill_null(False)
