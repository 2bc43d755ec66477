"""The loads of a cell, resolved to addresses and ports. Kinds are in `table`, running them in `runner`."""

from __future__ import annotations

from latlab.lab.loads.base import Cores, LoadPlan
from latlab.lab.places import Places
from latlab.scenario import Load, Scenario

FIRST_PORT = 5600


def plan_loads(scenario: Scenario, duration_ns: int, places: Places) -> list[LoadPlan]:
    """The plans of a cell's loads, in the scenario's order.

    scenario is the cell's: its loads are the active ones. duration_ns is how long they are needed: netperf
    lasts that long, rounded up to seconds, the others until they are stopped.
    """
    ports = _ports(scenario)
    seconds = -(-duration_ns // 1_000_000_000)
    return [_plan(scenario, name, load, ports[name], seconds, places) for name, load in scenario.loads.items()]


def instances_of(load: Load) -> int:
    """How many flows or clients the load has."""
    return load.flows if load.kind == "flood" else load.instances


def _plan(scenario: Scenario, name: str, load: Load, port: int, seconds: int, places: Places) -> LoadPlan:
    route = scenario.load_route(name)
    return LoadPlan(
        name=name,
        kind=load.kind,
        source=load.from_,
        sink=load.to,
        source_address=str(route.source),
        sink_address=str(route.destination),
        listen_address=str(route.listen),
        source_interface=places.device(route.talker_end),
        size=load.size,
        rate_bps=None if load.kind == "netperf" else load.rate,
        instances=instances_of(load),
        protocol=_protocol(load),
        priority=load.priority if load.kind == "flood" else 0,
        port=port,
        seconds=seconds,
        source_agent=places.agent(load.from_),
        sink_agent=places.agent(load.to),
        source_cores=_cores(scenario, load.from_),
        sink_cores=_cores(scenario, load.to),
    )


def _protocol(load: Load) -> str:
    if load.kind == "iperf3":
        return load.protocol
    return "tcp" if load.kind == "netperf" and load.test == "TCP_STREAM" else "udp"


def _cores(scenario: Scenario, host: str) -> Cores:
    tuning = scenario.tuning_of(host).load
    return Cores(tuning.fifo, tuple(tuning.cpus) if tuning.cpus else None)


def _ports(scenario: Scenario) -> dict[str, int]:
    """The first port of each load; each has one for every instance and one more, none of them a stream's."""
    taken = {scenario.port(name) for name in scenario.streams}
    ports: dict[str, int] = {}
    port = FIRST_PORT
    for name, load in scenario.loads.items():
        count = 1 + instances_of(load)
        while clash := taken & set(range(port, port + count)):
            port = max(clash) + 1
        ports[name] = port
        port += count
    return ports
