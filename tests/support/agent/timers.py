"""The spec of an agent that waits for instants, and the result of one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from support.agent.process import Agent
from support.agent.streams import MS, ORDINARY, new_run_id, recording

STREAM = 3


def timer_spec(folder: Path, **changes: Any) -> dict[str, Any]:
    """The spec of an agent that waits for 300 instants, a millisecond apart; changes replace parts of it."""
    return {
        "run_id": new_run_id(),
        "recording": str(folder / "timer-irq"),
        "realtime": ORDINARY,
        "stream": STREAM,
        "name": "irq",
        "period_ns": MS,
        "count": 300,
        "offset_ns": 0,
        "how": "nanosleep",
        "threshold_ns": 30_000,
        "window_ns": 10_000 * MS,
        "trace": False,
        **changes,
    }


def rows(folder: Path) -> pl.DataFrame:
    """Every instant that was recorded, in the order of the file, with how late it was come to (late_ns)."""
    found = recording(folder, "timer-irq.timer").table
    return found.with_columns(late_ns=pl.col("woke_tai_ns") - pl.col("due_tai_ns"))


@dataclass(frozen=True)
class Waited:
    """What came of it: the agent's events by name, the last one's totals, and its recording."""

    spec: dict[str, Any]
    start_tai_ns: int
    events: list[dict[str, Any]]
    rows: pl.DataFrame
    folder: Path

    def said(self, name: str) -> list[dict[str, Any]]:
        """Its events of this name."""
        return [event for event in self.events if event["event"] == name]

    @property
    def ready(self) -> dict[str, Any]:
        """What it said when it was set up."""
        return self.said("ready")[0]

    @property
    def done(self) -> dict[str, Any]:
        """Its totals."""
        return self.said("done")[0]


def waited(agent: Agent, spec: dict[str, Any], start_tai_ns: int | None = None) -> Waited:
    """What came of it when the agent, which was told the spec, has come to its last instant.

    start_tai_ns: when it is to start; None: shortly.
    """
    agent.until("ready")
    if start_tai_ns is None:
        start_tai_ns = agent.begin()
    else:
        agent.tell(start_tai_ns=start_tai_ns)
    return over(agent, spec, start_tai_ns)


def over(agent: Agent, spec: dict[str, Any], start_tai_ns: int) -> Waited:
    """What came of it once the agent, which has begun, is done."""
    agent.until("done")
    assert agent.ended() == 0
    folder = Path(spec["recording"]).parent
    return Waited(spec, start_tai_ns, agent.events, rows(folder), folder)


def assert_all_recorded(run: Waited) -> None:
    """Every instant is recorded once, in order, as it was due and not come to earlier; the counts are the rows'."""
    spec, found = run.spec, run.rows
    assert found["sequence"].to_list() == list(range(spec["count"]))
    assert (found["stream"] == STREAM).all()
    first = run.start_tai_ns + spec["offset_ns"]
    assert found["due_tai_ns"].to_list() == [first + n * spec["period_ns"] for n in range(spec["count"])]
    assert (found["late_ns"] >= 0).all()
    assert found["woke_tai_ns"].is_sorted()
    clocks = recording(run.folder, "timer-irq.clocks").table.height
    assert run.done["events"] == spec["count"]
    assert run.done["overdue"] == found["overdue"].sum()
    assert (run.done["recorded"], run.done["ring_full"]) == (found.height + clocks, 0)
