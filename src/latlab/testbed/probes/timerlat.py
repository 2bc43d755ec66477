"""The kernel's timerlat tracer as a probe, by `rtla timerlat hist`: one CPU, its histogram as rtla prints it."""

from __future__ import annotations

import re

from latlab.model.errors import LabError
from latlab.testbed.loads.base import LoadProcess
from latlab.testbed.machine import Machine
from latlab.testbed.probes.base import ToolKind, ToolPlan

TRACER = "timerlat"
ENTRIES = 10_000
"""Bins of 1 µs; values beyond are counted together, the largest is known anyway."""

LOOK = (
    *("unshare", "--mount", "sh", "-c"),
    "t=/sys/kernel/tracing; [ -e $t/available_tracers ] || mount -t tracefs tracefs $t; cat $t/available_tracers",
)
"""Prints the kernel's tracers, wherever tracefs is mounted or is not, and changes nothing."""


def client(plan: ToolPlan) -> LoadProcess:
    """Who measures, at the priority and on the first CPU that the host's talker has. It ends on its own."""
    own = plan.realtime
    cpu = own.cpus[0] if own and own.cpus else 0
    argv = ["rtla", "timerlat", "hist", "--cpus", str(cpu), "--period", str(plan.period_us())]
    argv += ["--duration", f"{plan.seconds}s", "--bucket-size", "1", "--entries", str(ENTRIES)]
    argv += ["--priority", f"f:{own.fifo}"] if own and own.fifo else ["--priority", "o:0"]
    idle_us = own.cpu_dma_latency_us if own else None
    argv += [] if idle_us is None else ["--dma-latency", str(idle_us)]
    return LoadProcess("source", plan.asker, tuple(argv), ending="itself")


def version_of(printed: str) -> str:
    """rtla's version. ValueError: it is none."""
    found = re.search(r"rtla(?: version)?:?\s+v?(\d+\.\d+\S*)", printed)
    if found is None or "timerlat" not in printed:
        raise ValueError(f"it does not support timerlat, and prints {printed.strip()[:80]!r}")
    return found[1]


def lacking(machine: Machine) -> LabError | None:
    """Why the kernel has no timerlat to offer; None where it has."""
    tracers = machine.say(LOOK)
    remedy = "a kernel with CONFIG_TIMERLAT_TRACER (Linux 5.14 or newer); or probe: timer, which needs none"
    if tracers is None:
        return LabError("the kernel's tracers cannot be read", remedy=f"run as root, with tracefs; {remedy}")
    if TRACER not in tracers.split():
        return LabError("the kernel has no timerlat tracer", remedy=remedy)
    return None


TIMERLAT = ToolKind(
    "timerlat",
    ("rtla",),
    (),
    None,
    client,
    ("rtla", "--help"),
    version_of,
    lacking=lacking,
)
