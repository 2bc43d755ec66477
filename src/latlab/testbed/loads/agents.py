"""What the loads made by latlab's agent have in common: its spec, and what it reports at its end."""

from __future__ import annotations

import json

from latlab.model.part import Document
from latlab.testbed.loads.base import Cores
from latlab.testbed.step import Spec


def last_events(stdout: str) -> dict[str, Document]:
    """The last event of each kind; a line that is not whole is passed over."""
    events = {}
    for line in stdout.splitlines():
        try:
            event = json.loads(line)
        except ValueError:
            continue
        events[event["event"]] = event
    return events


def totals_of(event: Document) -> Document:
    """What an event has in addition to its name."""
    return {key: value for key, value in event.items() if key != "event"}


def realtime_spec(cores: Cores) -> Spec:
    """`realtime` of an agent's spec (docs/reference/agent.md) for a load."""
    return {
        "fifo": cores.fifo,
        "cpus": list(cores.cpus) if cores.cpus else None,
        "lock_memory": False,
        "cpu_dma_latency_us": None,
        "timer_slack_ns": None,
    }
