"""The built-in load: `latlab-agent flood`, UDP of a chosen size and rate in n flows."""

from __future__ import annotations

from collections.abc import Sequence

from latlab.model.units import SECOND_NS
from latlab.testbed.loads.base import (
    SPARE_S,
    Achieved,
    LoadKind,
    LoadPlan,
    LoadProcess,
    Output,
    last_events,
    realtime_spec,
    totals_of,
)


def processes(plan: LoadPlan) -> list[LoadProcess]:
    """A sink and a source; both take all flows of the load."""
    listen = f"{plan.listen_address}:{plan.port}"
    sink = {"role": "sink", "listen": listen, "flows": plan.instances, "realtime": realtime_spec(plan.sink_cores)}
    source = {
        "role": "source",
        "source": f"{plan.source_address}:0",
        "destination": f"{plan.sink_address}:{plan.port}",
        "flows": plan.instances,
        "size": plan.size,
        "rate_bps": plan.rate_bps,
        "priority": plan.priority,
        "duration_ns": (plan.seconds + SPARE_S) * SECOND_NS,
        "realtime": realtime_spec(plan.source_cores),
    }
    towards = f"UDP port {plan.port} of {plan.sink}"
    return [
        LoadProcess("server", plan.sink, (plan.sink_agent, "flood"), "command", spec=sink),
        LoadProcess("source", plan.source, (plan.source_agent, "flood"), "command", spec=source, towards=towards),
    ]


def parse(plan: LoadPlan, outputs: Sequence[Output]) -> Achieved:
    """The totals of the sink's and the source's `done`.

    The received rate is the sink's bytes over the source's time: the sink's own has idle ends.
    """
    sink, source = (last_events(output.stdout) for output in outputs)
    sent, received = source["done"], sink["done"]
    seconds = sent["elapsed_ns"] / SECOND_NS
    return Achieved(
        version=str(source["ready"]["version"]),
        sent_bps=float(sent["bits_per_s"]),
        received_bps=8 * received["bytes"] / seconds if seconds else None,
        sent_pps=float(sent["packets_per_s"]),
        detail={"sent": totals_of(sent), "received": totals_of(received)},
    )


FLOOD = LoadKind("flood", (), processes, parse)
