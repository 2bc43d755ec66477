"""Load by netperf: n instances of UDP_STREAM or TCP_STREAM against one netserver."""

from __future__ import annotations

from collections.abc import Sequence

from latlab.testbed.loads.base import Achieved, LoadKind, LoadPlan, LoadProcess, Output, total

SELECTORS = "ELAPSED_TIME,LOCAL_SEND_CALLS,LOCAL_SEND_SIZE,LOCAL_SEND_THROUGHPUT,REMOTE_RECV_THROUGHPUT"
MEGA = 1e6  # `-f m`: 10^6 bit/s


def processes(plan: LoadPlan) -> list[LoadProcess]:
    """The netserver, then the netperfs; the control port is the load's first, each data port one after it."""
    netserver = ("netserver", "-D", "-4", "-L", plan.listen_address, "-p", str(plan.port))
    server = LoadProcess(
        "server", plan.sink, (*plan.sink_cores.prefix(), *netserver), ending="terminate", tcp_port=plan.port
    )
    return [server, *(_client(plan, plan.port + 1 + instance) for instance in range(plan.instances))]


def parse(plan: LoadPlan, outputs: Sequence[Output]) -> Achieved:
    """The sums over all instances, from the NAME=VALUE lines that `-k` prints."""
    found = [_values(output.stdout) for output in outputs if output.process.role == "source"]
    calls = [values["LOCAL_SEND_CALLS"] / values["ELAPSED_TIME"] for values in found]
    return Achieved(
        version="",
        sent_bps=total([MEGA * values["LOCAL_SEND_THROUGHPUT"] for values in found]),
        received_bps=total([MEGA * values["REMOTE_RECV_THROUGHPUT"] for values in found]),
        sent_pps=total(calls) if plan.protocol == "udp" else None,
        detail={"instances": found},
    )


def _values(stdout: str) -> dict[str, float]:
    pairs = [line.partition("=") for line in stdout.splitlines() if "=" in line]
    names = SELECTORS.split(",")
    return {name: float(value) for name, _, value in pairs if name in names}


def _client(plan: LoadPlan, data_port: int) -> LoadProcess:
    # It ends on its own: a netperf that is stopped before its time may print nothing.
    netperf = ("netperf", "-H", plan.sink_address, "-L", plan.source_address, "-4", "-p", str(plan.port))
    test = ("-t", f"{plan.protocol.upper()}_STREAM", "-l", str(plan.seconds), "-f", "m", "-P", "0")
    size = ("-m", str(plan.size)) if plan.size else ()
    own = ("--", *size, "-P", f",{data_port}", "-k", SELECTORS)
    argv = (*plan.source_cores.prefix(), *netperf, *test, *own)
    towards = f"TCP port {plan.port} and {plan.protocol.upper()} port {data_port} of {plan.sink}"
    return LoadProcess("source", plan.source, argv, ending="itself", towards=towards)


NETPERF = LoadKind("netperf", ("netperf", "netserver"), processes, parse, version=("netperf", "-V"))
