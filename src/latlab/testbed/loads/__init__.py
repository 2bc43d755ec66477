"""The loads of a cell: which kinds there are, and each resolved to addresses and ports. `runner` runs them."""

from __future__ import annotations

from latlab.model.units import SECOND_NS
from latlab.scenario import Busy, Flow, LoadOn, Scenario, StressNg
from latlab.scenario.loads import Flood, Iperf3, LoadBetween, Netperf
from latlab.testbed.loads.base import Cores, LoadKind, LoadPlan, Work
from latlab.testbed.loads.busy import BUSY
from latlab.testbed.loads.flood import FLOOD
from latlab.testbed.loads.iperf3 import IPERF3
from latlab.testbed.loads.netperf import NETPERF
from latlab.testbed.loads.stress_ng import STRESS_NG
from latlab.testbed.places import Places

FIRST_PORT = 5600

Sent = Flood | Iperf3 | Netperf
Kept = Busy | StressNg


def plan_loads(scenario: Scenario, duration_ns: int, places: Places) -> list[LoadPlan]:
    """The plans of a cell's loads, in the scenario's order.

    scenario is the cell's: its loads are the active ones. duration_ns is how long they are needed: netperf
    lasts that long, rounded up to seconds, the others until they are stopped.
    """
    ports = _ports(scenario)
    seconds = -(-duration_ns // SECOND_NS)
    return [
        _on_one(scenario, name, load, seconds, places)
        if isinstance(load, LoadOn)
        else _between(scenario, name, load, ports[name], seconds, places)
        for name, load in scenario.loads.items()
    ]


def ports_of(scenario: Scenario, flow: Flow) -> range:
    """The ports at who answers, or listens, that a flow takes; none of raw frames."""
    if flow.port is None:
        return range(0)
    own = scenario.probes[flow.probe].own_ports if flow.probe else 0
    return range(flow.port, flow.port + max(own, 1))


def _on_one(scenario: Scenario, name: str, load: Kept, seconds: int, places: Places) -> LoadPlan:
    return LoadPlan(
        name=name,
        kind=load.kind,
        source=load.on,
        instances=load.workers,
        seconds=seconds,
        source_agent=places.agent(load.on),
        source_cores=cores_of(scenario, load.on),
        work=Work(load.what, load.worker_size, load.folder),
    )


def _between(scenario: Scenario, name: str, load: Sent, port: int, seconds: int, places: Places) -> LoadPlan:
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
        rate_bps=load.rate,
        instances=load.instances,
        protocol=load.protocol,
        priority=load.priority,
        port=port,
        seconds=seconds,
        source_agent=places.agent(load.from_),
        sink_agent=places.agent(load.to),
        source_cores=cores_of(scenario, load.from_),
        sink_cores=cores_of(scenario, load.to),
    )


def cores_of(scenario: Scenario, host: str) -> Cores:
    """How programs of others, loads and tools, run on a host."""
    tuning = scenario.tuning_of(host).load
    return Cores(tuning.fifo, tuple(tuning.cpus) if tuning.cpus else None)


def _ports(scenario: Scenario) -> dict[str, int]:
    """The first port of each load; each has as many as instances and one more, none of them a stream's or probe's."""
    taken = {port for flow in scenario.flows.values() for port in ports_of(scenario, flow)}
    ports: dict[str, int] = {}
    port = FIRST_PORT
    for name, load in scenario.loads.items():
        if not isinstance(load, LoadBetween):
            continue
        count = 1 + load.instances
        while clash := taken & set(range(port, port + count)):
            port = max(clash) + 1
        ports[name] = port
        port += count
    return ports


# Which kinds of load there are. A new one is one file and one line here.


LOADS: dict[str, LoadKind] = {kind.name: kind for kind in (FLOOD, IPERF3, NETPERF, BUSY, STRESS_NG)}

LOAD_TOOLS = tuple(dict.fromkeys(tool for kind in LOADS.values() for tool in kind.tools))
"""The programs that loads need."""
