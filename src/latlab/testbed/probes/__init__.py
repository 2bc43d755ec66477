"""The probes of a cell that tools measure: which tools there are, and each resolved to addresses and ports."""

from __future__ import annotations

from latlab.model.units import SECOND_NS
from latlab.scenario import Scenario
from latlab.scenario.flows import dds_domains
from latlab.scenario.probes import Between, DdsperfProbe, ProbeBase
from latlab.testbed.loads import cores_of
from latlab.testbed.places import Places
from latlab.testbed.probes.base import DdsOptions, ToolKind, ToolPlan
from latlab.testbed.probes.cyclictest import CYCLICTEST
from latlab.testbed.probes.ddsperf import DDSPERF
from latlab.testbed.probes.netperf import NETPERF
from latlab.testbed.probes.sockperf import SOCKPERF
from latlab.testbed.probes.timerlat import TIMERLAT


def is_tool(probe: ProbeBase) -> bool:
    """Whether a program other than latlab's agent measures it."""
    return probe.kind in TOOLS


def plan_probes(scenario: Scenario, places: Places) -> list[ToolPlan]:
    """The plans of a cell's tools, in the scenario's order.

    scenario is the cell's: its probes are the active ones. They measure from the end of the warm-up on, as many whole
    seconds as are left.
    """
    tools = ((name, probe) for name, probe in scenario.probes.items() if is_tool(probe))
    return [
        _between(scenario, name, probe, places) if isinstance(probe, Between) else _on_one(scenario, name, probe)
        for name, probe in tools
    ]


def _on_one(scenario: Scenario, name: str, probe: ProbeBase) -> ToolPlan:
    (host,) = scenario.probe_hosts(name)
    return ToolPlan(
        name=name,
        kind=probe.kind,
        asker=host,
        answerer=host,
        period_ns=getattr(probe, "period", None),
        seconds=(scenario.duration - scenario.warmup) // SECOND_NS,
        log=f"{name}.log",
        realtime=scenario.tuning_of(host).talker,
    )


def _between(scenario: Scenario, name: str, probe: Between, places: Places) -> ToolPlan:
    route, flow = scenario.route(f"{name}.up"), scenario.flows[f"{name}.up"]
    return ToolPlan(
        name=name,
        kind=probe.kind,
        asker=probe.from_,
        answerer=probe.to,
        source_address=str(route.source),
        sink_address=str(route.destination),
        listen_address=str(route.listen),
        asker_interface=places.device(route.talker_end),
        answerer_interface=places.device(route.listener_end),
        port=flow.port or 0,
        transport=probe.carrier,
        size=flow.size or 0,
        period_ns=getattr(probe, "period", None),
        seconds=(scenario.duration - scenario.warmup) // SECOND_NS,
        log=f"{name}.log",
        asker_cores=cores_of(scenario, probe.from_),
        answerer_cores=cores_of(scenario, probe.to),
        dds=_over_dds(scenario, name, probe),
    )


def _over_dds(scenario: Scenario, name: str, probe: Between) -> DdsOptions | None:
    if not isinstance(probe, DdsperfProbe):
        return None
    return DdsOptions(dds_domains(scenario.probes)[name], probe.reliable, probe.take)


# Which tools can be probes. A new one is one file and one line here.


TOOLS: dict[str, ToolKind] = {kind.name: kind for kind in (DDSPERF, NETPERF, SOCKPERF, CYCLICTEST, TIMERLAT)}

PROBE_TOOLS = tuple(dict.fromkeys(tool for kind in TOOLS.values() for tool in (*kind.asks, *kind.answers)))
"""The programs that measure."""

OURS = ("ping", "dds", "timer")
"""The kinds that latlab's own agents measure."""
