"""What is on record of how packets and instants came to who waited for them, where that was traced: by the own clock of
its host.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import polars as pl

from latlab.recordings.arrow import no_recording, read_recording
from latlab.recordings.cell import Ready, RecordedAgent, RecordedCell, Totals
from latlab.recordings.real_to_tai import RealToTai
from latlab.recordings.run_folder import CellFolder

_RECEIVING: Final = ("listen", "pong")


@dataclass(frozen=True, kw_only=True)
class Traced:
    """A thread that waits, and its trace.

    thread: its number. trace, tasks: as recorded. done: what the agent that traced said at its end; None: it did not
    come to it. vm_host, entries, entry_tasks: of a guest whose VM host was traced, too, its name and what was recorded
    there, by that host's CLOCK_TAI.
    """

    host: str
    thread: int
    trace: pl.DataFrame
    tasks: pl.DataFrame
    done: Totals | None
    vm_host: str | None = None
    entries: pl.DataFrame | None = None
    entry_tasks: pl.DataFrame | None = None


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
            received, clocks = (_read(folder, cell, receiver.verb, name, table) for table in ("received", "clocks"))
            yield TracedReceiver(
                thread=receiver.realtime.tid or 0,
                received=_received(cell, received, clocks, ready.tai_offset_s),
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
    trace, tasks = (_read(folder, cell, agent.verb, name, table) for table in ("trace", "tasks"))
    vm_host = next((one.host for one in cell.agents if (one.verb, one.probe) == ("entry", host)), None)
    entries, entry_tasks = (
        _read(folder, cell, "entry", host, table) if vm_host else None for table in ("trace", "tasks")
    )
    said = {"host": host, "done": agent.done, "vm_host": vm_host}
    return {**said, "trace": trace, "tasks": tasks, "entries": entries, "entry_tasks": entry_tasks}


def _is_ours(ready: Ready) -> bool:
    """Whether it receives by a thread of its own; Cyclone does by Cyclone's."""
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
