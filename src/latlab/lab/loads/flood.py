"""The built-in load: `latlab-agent flood`, UDP of a chosen size and rate in n flows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from latlab.lab.loads.base import SPARE_S, Achieved, Cores, LoadKind, LoadPlan, LoadProcess, Output


def processes(plan: LoadPlan) -> list[LoadProcess]:
    """A sink and a source; both take all flows of the load."""
    listen = f"{plan.listen_address}:{plan.port}"
    sink = {"role": "sink", "listen": listen, "flows": plan.instances, "realtime": _realtime(plan.sink_cores)}
    source = {
        "role": "source",
        "source": f"{plan.source_address}:0",
        "destination": f"{plan.sink_address}:{plan.port}",
        "flows": plan.instances,
        "size": plan.size,
        "rate_bps": plan.rate_bps,
        "priority": plan.priority,
        "duration_ns": (plan.seconds + SPARE_S) * 1_000_000_000,
        "realtime": _realtime(plan.source_cores),
    }
    return [
        LoadProcess("server", plan.sink, (plan.sink_agent, "flood"), "command", spec=sink),
        LoadProcess("source", plan.source, (plan.source_agent, "flood"), "command", spec=source),
    ]


def parse(plan: LoadPlan, outputs: Sequence[Output]) -> Achieved:
    """The totals of the sink's and the source's `done`.

    The received rate is the sink's bytes over the source's time: the sink's own has idle ends.
    """
    sink, source = (_events(output.stdout) for output in outputs)
    sent, received = source["done"], sink["done"]
    seconds = sent["elapsed_ns"] / 1e9
    return Achieved(
        version=str(source["ready"]["version"]),
        sent_bps=float(sent["bits_per_s"]),
        received_bps=8 * received["bytes"] / seconds if seconds else None,
        sent_pps=float(sent["packets_per_s"]),
        detail={"sent": _totals(sent), "received": _totals(received)},
    )


def _events(stdout: str) -> dict[str, dict[str, Any]]:
    """The last event of each kind; a line that is not whole is passed over."""
    events = {}
    for line in stdout.splitlines():
        try:
            event = json.loads(line)
        except ValueError:
            continue
        events[event["event"]] = event
    return events


def _totals(event: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in event.items() if key != "event"}


def _realtime(cores: Cores) -> dict[str, Any]:
    return {
        "fifo": cores.fifo,
        "cpus": list(cores.cpus) if cores.cpus else None,
        "lock_memory": False,
        "cpu_dma_latency_us": None,
        "timer_slack_ns": None,
    }


FLOOD = LoadKind("flood", (), processes, parse)
