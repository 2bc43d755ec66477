"""The streams and probes of cell.json, from a cell's scenario: pure, so that they are known before anything runs."""

from __future__ import annotations

from latlab.recordings.cell import AskedOfProbe, RecordedLaunchTime, RecordedProbe, RecordedStream, TimerSettings
from latlab.scenario import Flow, Scenario
from latlab.scenario.flows import dds_domains
from latlab.scenario.models import TCP_HEADERS
from latlab.scenario.probes import TimerProbe
from latlab.scenario.streams import UDP_OVERHEAD, LaunchTime

FRAGMENT_STEP = 8
"""Fragments but the last carry a multiple of it (RFC 791, fragment offset)."""
IP_HEADER = 20
UDP_HEADER = 8


def stream_entries(scenario: Scenario) -> list[RecordedStream]:
    """The `streams` of cell.json but those of tools: streams, both legs of each probe, PRP pairs, then timers."""
    return [
        *(_flow(scenario, flow) for flow in scenario.recorded.values()),
        *(_pair(scenario, name) for name in scenario.pairs),
        *(_timer(scenario, name, probe) for name, probe in scenario.timers.items()),
    ]


def probe_entries(scenario: Scenario) -> list[RecordedProbe]:
    """The `probes` of cell.json, as the scenario has them; what ran, and what it said, is added when it has."""
    entries, domains = [], dds_domains(scenario.probes)
    for name, probe in scenario.probes.items():
        written = probe.model_dump(mode="json", by_alias=True, exclude={"probe", "from_", "to", "via", "on"})
        if name in domains:
            written["domain"] = domains[name]
        hosts = scenario.probe_hosts(name)
        entries.append(
            RecordedProbe(
                name=name,
                probe=probe.kind,
                from_=hosts[0],
                to=hosts[-1],
                period_ns=getattr(probe, "period", None),
                timeout_ns=getattr(probe, "timeout", None),
                asked=AskedOfProbe.model_validate({key: value for key, value in written.items() if value is not None}),
            )
        )
    return entries


def launch_entry(launch: LaunchTime) -> RecordedLaunchTime:
    """How packets have launch times, for cell.json and their talker's spec."""
    return RecordedLaunchTime(
        lead_ns=launch.lead,
        clock=launch.clock,
        deadline=launch.deadline,
        late=launch.late,
        allowed_lateness_ns=launch.allowed_lateness,
        margin_ns=launch.margin,
    )


def _flow(scenario: Scenario, flow: Flow) -> RecordedStream:
    """A stream, or a leg of a probe: whose answers are as often as its questions."""
    route, asked = scenario.route(flow.name), scenario.flows[f"{flow.probe}.up"] if flow.probe else flow
    entry = RecordedStream(
        name=flow.name,
        stream=flow.number,
        talker=flow.sender,
        listener=flow.receiver,
        interface=route.talker_end.interface,
        port=scenario.parent_of(route.talker_end).interface,
        period_ns=asked.period,
        offset_ns=asked.offset,
        size=flow.size,
        count=scenario.packet_count(asked.name),
        priority=flow.priority,
        transport=flow.transport,
        to_port=flow.port,
        vlan=flow.vlan or route.segment.vlan,
        launch_time=launch_entry(flow.launch_time) if flow.launch_time else None,
    )
    leg = {"probe": flow.probe, "leg": flow.leg, "frames": frame_count(scenario, flow)}
    return entry.model_copy(update=leg) if flow.probe else entry


def _pair(scenario: Scenario, name: str) -> RecordedStream:
    """A PRP pair: what its stream by LAN A is, of which it has the first copies."""
    lans = scenario.pairs[name]
    numbers = {"pair": tuple(map(scenario.stream_number, lans)), "stream": scenario.pair_number(name), "name": name}
    return _flow(scenario, scenario.flows[lans[0]]).model_copy(update=numbers)


def _timer(scenario: Scenario, name: str, probe: TimerProbe) -> RecordedStream:
    return RecordedStream(
        name=name,
        stream=scenario.probe_number(name),
        talker=probe.on,
        listener=probe.on,
        interface=None,
        port=None,
        period_ns=probe.period,
        offset_ns=probe.offset,
        size=None,
        count=scenario.instant_count(name),
        priority=None,
        transport=None,
        vlan=None,
        launch_time=None,
        probe=name,
        leg=None,
        timer=TimerSettings(how=probe.how, threshold_ns=probe.threshold, window_ns=probe.window),
    )


def frame_count(scenario: Scenario, flow: Flow) -> int | None:
    """In how many frames a packet of the flow goes: IPv4's fragments, or TCP's segments; None: DDS chooses."""
    if flow.transport == "dds":
        return None
    mtu, size = scenario.route(flow.name).segment.mtu, flow.size or 0
    if flow.transport == "tcp":
        return -(-size // (mtu - TCP_HEADERS))
    if flow.transport == "ethernet" or size + UDP_OVERHEAD <= mtu:
        return 1
    room = (mtu - IP_HEADER) // FRAGMENT_STEP * FRAGMENT_STEP
    return -(-(size + UDP_HEADER) // room)
