"""sockperf as a probe: ping-pong, or under-load at a rate, with every observation in its full log."""

from __future__ import annotations

import re

from latlab.testbed.loads.base import LoadProcess
from latlab.testbed.probes.base import ToolKind, ToolPlan

OLDEST = (3, 4)
"""The first with the log that is read: send and receive times to the nanosecond."""


def server(plan: ToolPlan) -> LoadProcess:
    """Who answers, until it is interrupted."""
    argv = (*plan.answerer_cores.prefix(), "sockperf", "server", *_address(plan, plan.listen_address))
    tcp, udp = (plan.port, None) if plan.transport == "tcp" else (None, plan.port)
    return LoadProcess("server", plan.answerer, argv, ending="interrupt", tcp_port=tcp, udp_port=udp)


def client(plan: ToolPlan) -> LoadProcess:
    """The client. It ends on its own: its log is written then."""
    mode = ("ping-pong",) if plan.period_ns is None else ("under-load", "--mps", str(plan.rate()), "--reply-every", "1")
    asked = ("--msg-size", str(plan.size), "--time", str(plan.seconds), "--full-rtt", "--full-log", plan.log)
    own = ("--client_ip", plan.source_address)
    argv = (*plan.asker_cores.prefix(), "sockperf", *mode, *_address(plan, plan.sink_address), *own, *asked)
    towards = f"{plan.transport.upper()} port {plan.port} of {plan.answerer}"
    return LoadProcess("source", plan.asker, argv, ending="itself", towards=towards)


def version_of(printed: str) -> str:
    """Its version. ValueError: it is older than is read here, or none."""
    found = re.search(r"version (\d+)\.(\d+)\S*", printed)
    if found is None:
        raise ValueError(f"it prints no version, but {printed.strip()[:80]!r}")
    if (int(found[1]), int(found[2])) < OLDEST:
        raise ValueError(f"it is {found[0]}, and {'.'.join(map(str, OLDEST))} or newer is needed")
    return found[0].removeprefix("version ")


def _address(plan: ToolPlan, address: str) -> tuple[str, ...]:
    return ("--ip", address, "--port", str(plan.port), *(("--tcp",) if plan.transport == "tcp" else ()))


SOCKPERF = ToolKind(
    "sockperf",
    ("sockperf",),
    ("sockperf",),
    server,
    client,
    ("sockperf", "--version"),
    version_of,
    writes_log=True,
)
