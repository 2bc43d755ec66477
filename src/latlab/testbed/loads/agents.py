"""What the loads have in common that our own agent is: how it is told to run, and what it says at its end."""

from __future__ import annotations

import json
from typing import Any

from latlab.testbed.loads.base import Cores


def last_events(stdout: str) -> dict[str, dict[str, Any]]:
    """The last event of each kind; a line that is not whole is passed over."""
    events = {}
    for line in stdout.splitlines():
        try:
            event = json.loads(line)
        except ValueError:
            continue
        events[event["event"]] = event
    return events


def totals_of(event: dict[str, Any]) -> dict[str, Any]:
    """What an event tells next to its name."""
    return {key: value for key, value in event.items() if key != "event"}


def realtime_spec(cores: Cores) -> dict[str, Any]:
    """`realtime` of an agent's spec (docs/reference/agent.md) for a load."""
    return {
        "fifo": cores.fifo,
        "cpus": list(cores.cpus) if cores.cpus else None,
        "lock_memory": False,
        "cpu_dma_latency_us": None,
        "timer_slack_ns": None,
    }
