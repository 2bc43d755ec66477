"""netperf as a probe: TCP_RR or UDP_RR, as its omni test has it, with the figures it keeps of the round trips."""

from __future__ import annotations

import re

from latlab.model.errors import LabError
from latlab.testbed.loads.base import LoadProcess
from latlab.testbed.probes.base import ToolKind, ToolPlan

OLDEST = (2, 5)
"""The first whose omni test prints latencies (-k, with -j)."""

SELECTORS = (
    *("ELAPSED_TIME", "TRANSACTION_RATE", "REQUEST_SIZE", "RESPONSE_SIZE", "PROTOCOL"),
    *("MIN_LATENCY", "MEAN_LATENCY", "P50_LATENCY", "P90_LATENCY", "P99_LATENCY", "MAX_LATENCY", "STDDEV_LATENCY"),
)
"""What it is to print, as NAME=VALUE; latencies in µs. Not SOCKET_TYPE: of `-T UDP` 2.7 says Stream, and sends UDP."""

UNPACED = "Packet rate control is not compiled in."
"""What a netperf that was built without --enable-intervals prints of -w, as soon as it reads it (src/netsh.c)."""


def server(plan: ToolPlan) -> LoadProcess:
    """The netserver; its control port is the probe's first, the data port the one after it."""
    netserver = ("netserver", "-D", "-4", "-L", plan.listen_address, "-p", str(plan.port))
    argv = (*plan.answerer_cores.prefix(), *netserver)
    return LoadProcess("server", plan.answerer, argv, ending="terminate", tcp_port=plan.port)


def client(plan: ToolPlan) -> LoadProcess:
    """One transaction at a time, with its histogram kept (-j); with a period one transaction each (-w, -b)."""
    paced = () if plan.period_ns is None else ("-w", f"{plan.period_us()}us", "-b", "1")
    netperf = ("netperf", "-H", plan.sink_address, "-L", plan.source_address, "-4", "-p", str(plan.port))
    test = ("-t", "omni", "-l", str(plan.seconds), "-j", *paced, "-P", "0")
    kind = ("-d", "rr", "-T", plan.transport.upper(), "-r", f"{plan.size},{plan.size}", "-P", f",{plan.port + 1}")
    argv = (*plan.asker_cores.prefix(), *netperf, *test, "--", *kind, "-k", ",".join(SELECTORS))
    towards = f"TCP port {plan.port} and {plan.transport.upper()} port {plan.port + 1} of {plan.answerer}"
    return LoadProcess("source", plan.asker, argv, ending="itself", towards=towards)


def unbuilt(plan: ToolPlan, printed: str) -> LabError | None:
    """That a period would be ignored: a build without intervals runs a closed loop."""
    if plan.period_ns is None or UNPACED not in printed:
        return None
    return LabError(
        f"ignores the period: {UNPACED}",
        remedy="build netperf with `./configure --enable-intervals`, or leave out `period`; ping keeps a period "
        "without netperf",
    )


def version_of(printed: str) -> str:
    """Its version. ValueError: it is older than is read here, or none."""
    found = re.search(r"Netperf version (\d+)\.(\d+)(\S*)", printed)
    if found is None:
        raise ValueError(f"it prints no version, but {printed.strip()[:80]!r}")
    if (int(found[1]), int(found[2])) < OLDEST:
        raise ValueError(f"it is {found[1]}.{found[2]}, and {'.'.join(map(str, OLDEST))} or newer is needed")
    return f"{found[1]}.{found[2]}{found[3]}"


NETPERF = ToolKind(
    "netperf",
    ("netperf",),
    ("netserver",),
    server,
    client,
    # -V prints the version and ends it; of what precedes it, it prints first what it was built without.
    ("netperf", "-w", "1ms", "-V"),
    version_of,
    unbuilt=unbuilt,
)
