"""The spec of an agent that records a trace, and the result of one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from support.agent.process import Agent
from support.agent.streams import ORDINARY, new_run_id, recording

IRQS = ("irq:irq_handler_entry", "irq:irq_handler_exit")
NET_RX = ("irq:softirq_raise", "irq:softirq_entry", "irq:softirq_exit")
THREADS = ("sched:sched_waking", "sched:sched_switch")
RECEIVING = (*IRQS, *NET_RX, *THREADS)
"""What it takes to find how a packet reached the thread that receives it."""
NET_RX_NUMBER = 3


def trace_spec(folder: Path, **changes: Any) -> dict[str, Any]:
    """The spec of an agent that records how packets reach all threads; changes replace parts of it."""
    return {
        "run_id": new_run_id(),
        "recording": str(folder / "trace-ecu"),
        "realtime": ORDINARY,
        "events": list(RECEIVING),
        "softirqs": [NET_RX_NUMBER],
        **changes,
    }


@dataclass(frozen=True)
class Traced:
    """What came of it: the agent's first and last word, and its recordings."""

    ready: dict[str, Any]
    done: dict[str, Any]
    rows: pl.DataFrame
    tasks: pl.DataFrame


def finished(agent: Agent, folder: Path) -> Traced:
    """What came of it once the agent, which is recording, is stopped."""
    agent.tell(stop=True)
    agent.until("done")
    assert agent.ended() == 0
    said = {event["event"]: event for event in agent.events}
    rows, tasks = (recording(folder, f"trace-ecu.{table}").table for table in ("trace", "tasks"))
    return Traced(said["ready"], said["done"], rows, tasks)


@contextmanager
def tracing(spec: Any, before: tuple[str, ...] = ()) -> Iterator[Agent]:
    """An agent that records, or has said why it does not. before: a command that starts it, as setpriv."""
    agent = Agent(before, "trace", spec)
    try:
        yield agent
    finally:
        agent.kill()
