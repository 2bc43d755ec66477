"""Load by iperf3, UDP or TCP: a server and a client for each instance, as a server takes one at a time."""

from __future__ import annotations

import json
from collections.abc import Sequence

from latlab.model.errors import LabError, rejection_remedy
from latlab.model.part import Document
from latlab.testbed.loads.base import SPARE_S, Achieved, LoadKind, LoadPlan, LoadProcess, Output, total


def processes(plan: LoadPlan) -> list[LoadProcess]:
    """The servers, then the clients, each pair on a separate port."""
    ports = [plan.port + instance for instance in range(plan.instances)]
    return [_server(plan, port) for port in ports] + [_client(plan, port) for port in ports]


def parse(plan: LoadPlan, outputs: Sequence[Output]) -> Achieved:
    """The sums over all instances.

    A client that is interrupted never gets what its server received, and the server's own time stops at its
    last whole second: received bit/s are the server's bytes over the client's seconds. LabError: one of them gave up.
    """
    documents = [json.loads(output.stdout) for output in outputs]
    for place, document in enumerate(documents):
        if not document["end"]:
            who, where = ("server", plan.sink) if place < plan.instances else ("client", plan.source)
            why = document.get("error", "it gives no reason")
            raise LabError(
                f"load {plan.name}: iperf3's {who} failed: {why}",
                where=where,
                remedy=rejection_remedy(None, _port(plan, plan.port + place % plan.instances), why)
                or "check that both ends reach each other by TCP, and that neither is starved of CPU time",
            )
    servers, clients = documents[: plan.instances], documents[plan.instances :]
    sent = [client["end"]["sum_sent"] for client in clients]
    received = [server["end"]["sum_received"]["bytes"] for server in servers]
    seconds = [entry["seconds"] for entry in sent]
    packets = [entry["packets"] / s for entry, s in zip(sent, seconds, strict=True) if "packets" in entry]
    return Achieved(
        version=clients[0]["start"]["version"],
        sent_bps=total([entry["bits_per_second"] for entry in sent]),
        received_bps=total([8 * octets / s for octets, s in zip(received, seconds, strict=True)]),
        sent_pps=total(packets),
        detail={"instances": [_detail(*pair) for pair in zip(clients, servers, strict=True)]},
    )


def _detail(client: Document, server: Document) -> Document:
    return {"sent": client["end"]["sum_sent"], "received": server["end"]["sum_received"]}


def _server(plan: LoadPlan, port: int) -> LoadProcess:
    iperf3 = ("iperf3", "--server", "--one-off", "--json", "--bind", plan.listen_address, "--port", str(port))
    return LoadProcess("server", plan.sink, (*plan.sink_cores.prefix(), *iperf3), ending="interrupt", tcp_port=port)


def _client(plan: LoadPlan, port: int) -> LoadProcess:
    iperf3 = (
        "iperf3",
        "--client",
        plan.sink_address,
        "--bind",
        plan.source_address,
        "--port",
        str(port),
        "--json",
    )
    udp = ("--udp",) if plan.protocol == "udp" else ()
    # iperf3 limits UDP to 1 Mbit/s unless it is given 0, no limit.
    pace = ("--bitrate", str(plan.rate_each() or 0))
    size = ("--length", str(plan.size)) if plan.size else ()
    argv = (*plan.source_cores.prefix(), *iperf3, *udp, *pace, *size, "--time", str(plan.seconds + SPARE_S))
    return LoadProcess("source", plan.source, argv, ending="interrupt", towards=_port(plan, port))


def _port(plan: LoadPlan, port: int) -> str:
    """What its client sends to: it speaks with the server by TCP, whatever the load is."""
    return f"TCP {'and UDP ' if plan.protocol == 'udp' else ''}port {port} of {plan.sink}"


IPERF3 = LoadKind("iperf3", ("iperf3",), processes, parse)
