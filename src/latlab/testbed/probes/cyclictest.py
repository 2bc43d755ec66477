"""cyclictest as a probe: one thread, with its histogram in its JSON file."""

from __future__ import annotations

import re

from latlab.testbed.loads.base import LoadProcess
from latlab.testbed.probes.base import ToolKind, ToolPlan

OLDEST = (2, 0)
"""The first with --json (rt-tests)."""
HISTOGRAM_US = 100_000
"""Values from here on are counted together; the largest is known anyway."""


def client(plan: ToolPlan) -> LoadProcess:
    """Who waits, as the host's talker runs: its priority, its CPUs, its limit on idle states. It ends on its own."""
    own = plan.realtime
    argv = ["cyclictest", "--quiet", "--threads=1", f"--interval={plan.period_us()}", f"--duration={plan.seconds}"]
    argv += ["--mlockall"] if own and own.lock_memory else []
    argv += ["--policy=fifo", f"--priority={own.fifo}"] if own and own.fifo else ["--policy=other"]
    argv += [f"--affinity={','.join(map(str, own.cpus))}"] if own and own.cpus else []
    idle_us = own.cpu_dma_latency_us if own else None
    argv += ["--default-system"] if idle_us is None else [f"--latency={idle_us}"]
    return LoadProcess(
        "source",
        plan.asker,
        (*argv, f"--histogram={HISTOGRAM_US}", f"--json={plan.log}"),
        ending="itself",
    )


def version_of(printed: str) -> str:
    """Its version. ValueError: it is older than is read here, or none."""
    found = re.search(r"cyclictest V (\d+)\.(\d+)", printed)
    if found is None:
        raise ValueError(f"it prints no version, but {printed.strip()[:80]!r}")
    # Its numbers are decimals: 2.40 is rt-tests 2.4, and 0.96 was before 1.0.
    if (int(found[1]), int(found[2])) < OLDEST:
        raise ValueError(f"it is {found[1]}.{found[2]}, and {OLDEST[0]}.{OLDEST[1]} or newer is needed")
    return f"{found[1]}.{found[2]}"


CYCLICTEST = ToolKind(
    "cyclictest",
    ("cyclictest",),
    (),
    None,
    client,
    ("cyclictest", "--help"),
    version_of,
    writes_log=True,
)
