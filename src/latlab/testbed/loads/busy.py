"""Load by `latlab-agent busy`: exits to the hypervisor, or calls of the kernel, one after the other."""

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

TCG = "TCGTCGTCGTCG"
"""How QEMU's plain emulation signs itself (target/i386/cpu.c): there CPUID is one of its functions, and no exit."""
EMULATED = "CPUID, emulated"
WORKS = '"event":"progress"'
"""In the line that the agent writes as soon as a worker has done something, and once a second from then on."""


def processes(plan: LoadPlan) -> list[LoadProcess]:
    """One agent, which has a thread for each worker."""
    assert plan.work, plan.name
    spec = {
        "what": plan.work.what,
        "workers": plan.instances,
        "duration_ns": (plan.seconds + SPARE_S) * SECOND_NS,
        "realtime": realtime_spec(plan.source_cores),
    }
    argv = (plan.source_agent, "busy")
    return [LoadProcess("source", plan.source, argv, "command", spec=spec, says=WORKS)]


def parse(plan: LoadPlan, outputs: Sequence[Output]) -> Achieved:
    """The totals of the agent's `done`. In emulation there are no exits, and none are reported."""
    assert plan.work, plan.name
    (events,) = (last_events(output.stdout) for output in outputs)
    done = events["done"]
    is_emulated = plan.work.what == "exits" and done["hypervisor"] == TCG
    return Achieved(
        version=str(events["ready"]["version"]),
        sent_bps=None,
        received_bps=None,
        sent_pps=None,
        work_per_s={EMULATED if is_emulated else plan.work.what: float(done["per_s"])},
        detail=totals_of(done),
    )


BUSY = LoadKind("busy", (), processes, parse)
