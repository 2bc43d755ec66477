"""The gate schedules of a scenario: what leaves by each port that has one, and its bounds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from latlab.analysis.frames import FrameSize
from latlab.analysis.gate_checks import Warned, warnings
from latlab.analysis.gate_port import GateLoad, GatePort, Interference, interference
from latlab.analysis.gates import GateEntry, Schedule
from latlab.analysis.promise import GatedStream, Handover, Launch, LaunchQueue, Promise
from latlab.evaluation.scenario import read_scenario
from latlab.model.errors import UsageError
from latlab.recordings.run_folder import RunFolder
from latlab.scenario import End, Etf, Flow, MatrixCell, Route, Scenario, Taprio, cells
from latlab.scenario.loads import Flood, LoadBetween
from latlab.scenario.network import ports_of
from latlab.scenario.shapers import PRIORITIES

PTP_FRAME = FrameSize(14 + 44 + 32)
"""Of a Follow_Up with 802.1AS's information TLV (IEEE 802.1AS-2020, 11.4.4): the longest of PTP's that are frequent."""
ANY_PRIORITY = 0
"""What the kernel's own packets, and those of most programs, have."""


@dataclass(frozen=True)
class SameSchedules:
    """Cells whose ports have the same schedules and streams. cells: their slugs. ports: loads of any of them."""

    cells: tuple[str, ...]
    ports: tuple[GatePort, ...]


@dataclass(frozen=True)
class Promised:
    """A port, each stream's bound and what may delay it, and the warnings."""

    port: GatePort
    promises: tuple[Promise, ...]
    interference: tuple[Interference, ...]
    warnings: tuple[Warned, ...]

    @classmethod
    def of(cls, port: GatePort) -> Promised:
        """All of it, computed."""
        return cls(port, port.promises(), tuple(interference(port, flow) for flow in port.flows), warnings(port))


Scheduled = Sequence[tuple[Sequence[str], Sequence[Promised]]]
"""Groups of cells, by their slugs, and their ports."""


def run_schedules(folder: RunFolder) -> Scheduled:
    """Those of the run's scenario, cells with the same ones together; empty without any, or without a scenario."""
    loaded = read_scenario(folder.scenario_path)
    every = cells(loaded) if loaded else []
    return promised_groups(every) if any(scenario_ports(cell.scenario) for cell in every) else []


def promised_groups(every: Sequence[MatrixCell]) -> Scheduled:
    """The cells' schedules, those of a group with their bounds. UsageError: no cell has one."""
    return [(group.cells, [Promised.of(port) for port in group.ports]) for group in schedules(every)]


def schedules(every: Sequence[MatrixCell]) -> list[SameSchedules]:
    """The cells' schedules, each distinct set of ports once, in the cells' order; cells without any are in one, too.

    UsageError: no cell has a schedule.
    """
    kept: list[SameSchedules] = []
    for cell in every:
        ports = scenario_ports(cell.scenario)
        bare = tuple(replace(port, loads=()) for port in ports)
        place = next((n for n, group in enumerate(kept) if _bare(group) == bare), None)
        if place is None:
            kept.append(SameSchedules((cell.slug,), ports))
        else:
            before = kept[place]
            merged = tuple(_with_loads(one, other) for one, other in zip(before.ports, ports, strict=True))
            kept[place] = SameSchedules((*before.cells, cell.slug), merged)
    if not any(group.ports for group in kept):
        raise UsageError(
            "no interface has a gate schedule",
            where="shapers",
            remedy="give one a taprio with gates: see shapers in docs/reference/scenario.md",
        )
    return kept


def scenario_ports(scenario: Scenario) -> tuple[GatePort, ...]:
    """The ports of a scenario that have a gate schedule, with the streams and loads that leave there."""
    return tuple(
        _port(scenario, End(*interface.split(".", 1)), schedule) for interface, schedule in scenario.schedules.items()
    )


def _bare(group: SameSchedules) -> tuple[GatePort, ...]:
    return tuple(replace(port, loads=()) for port in group.ports)


def _with_loads(one: GatePort, other: GatePort) -> GatePort:
    """The port with the other's loads, too."""
    return replace(one, loads=tuple(dict.fromkeys((*one.loads, *other.loads))))


def _port(scenario: Scenario, end: End, shaper: Taprio) -> GatePort:
    mtu = scenario.segment_of(end).mtu
    largest = FrameSize.largest(mtu, vlan=True)
    beneath = {number: queue for number in range(shaper.class_count) if (queue := _beneath(shaper, number)) is not None}
    # What is sent on a VLAN interface leaves by the port that it is on.
    ways = [(flow, scenario.route(name)) for name, flow in scenario.flows.items()]
    leaving = [(flow, way) for flow, way in ways if scenario.parent_of(way.talker_end) == end]
    ptp = scenario.clock.ptp
    others = (
        (GateLoad("PTP", shaper.class_of(ptp.priority), PTP_FRAME, endless=False),)
        if ptp and str(end) in ptp.ports
        else ()
    )

    def taken_over(way: Route) -> bool:
        """Whether what a guest sends leaves by this port."""
        ports = ports_of(way, ANY_PRIORITY, scenario.parent_of)
        return any(one.port == end and not one.is_sockets for one in ports)

    return GatePort(
        interface=str(end),
        mode=shaper.mode,
        schedule=Schedule(tuple(GateEntry(gate.open, gate.for_) for gate in shaper.gates), shaper.shift),
        speed_bps=scenario.speed_at(end),
        largest=largest,
        flows=tuple(
            _flow(flow, shaper, beneath, mtu, is_tagged=_is_tagged(way))
            for flow, way in leaving
            if flow.period is not None
        ),
        loads=(
            *others,
            # What has no schedule comes one at a time: questions of closed loops, answers, tools' messages.
            *(
                GateLoad(
                    flow.name,
                    shaper.class_of(flow.priority),
                    _flow_frame(flow, mtu, is_tagged=_is_tagged(way)),
                    endless=False,
                )
                for flow, way in leaving
                if flow.period is None
            ),
            # When a guest hands its packets over is not known at the host's port, nor is their priority.
            *(
                GateLoad(
                    flow.name, shaper.class_of(0), _flow_frame(flow, mtu, is_tagged=_is_tagged(way)), endless=False
                )
                for flow, way in ways
                if taken_over(way)
            ),
            *_loads_at(scenario, end, shaper, mtu),
        ),
        delay_ns=shaper.delay,
        shared=frozenset(
            number
            for number in range(shaper.class_count)
            if any(
                shaper.class_of(one) == number
                for one in range(PRIORITIES)
                if one not in {flow.priority for flow, _ in leaving}
            )
        ),
        beneath=beneath,
    )


def _is_tagged(way: Route) -> bool:
    """Whether a VLAN interface tags what takes it."""
    return way.segment.vlan is not None


def _flow(flow: Flow, shaper: Taprio, beneath: dict[int, LaunchQueue], mtu: int, *, is_tagged: bool) -> GatedStream:
    traffic_class = shaper.class_of(flow.priority)
    asked = flow.launch_time
    launch = Launch(asked.lead, asked.deadline) if asked else None
    assert flow.period is not None, flow.name
    return GatedStream(
        name=flow.name,
        traffic_class=traffic_class,
        offset_ns=flow.offset,
        period_ns=flow.period,
        frame=_flow_frame(flow, mtu, is_tagged=is_tagged),
        handover=Handover.of(shaper.mode, shaper.delay, beneath.get(traffic_class), launch),
    )


def _flow_frame(flow: Flow, mtu: int, *, is_tagged: bool) -> FrameSize:
    """The largest frame of a flow: what does not fit into one is sent in several, the first as large as can be."""
    largest = FrameSize.largest(mtu, beside=is_tagged)
    if flow.transport == "tcp" or flow.transport == "dds" or flow.size is None:
        return largest
    own = FrameSize.of(flow.size + flow.beside, flow.transport, vlan=flow.vlan is not None, beside=is_tagged)
    return own if flow.path[0] == "streams" or flow.transport == "ethernet" else min(own, largest, key=_handed_over)


def _handed_over(frame: FrameSize) -> int:
    return frame.handed_over


def _beneath(shaper: Taprio, traffic_class: int) -> LaunchQueue | None:
    """What launches the packets of a class: the same beneath each of its queues."""
    child = shaper.child_of(shaper.queues_of(traffic_class)[0])
    return LaunchQueue(child.delta, child.offload, child.deadline) if isinstance(child, Etf) else None


def _loads_at(scenario: Scenario, end: End, shaper: Taprio, mtu: int) -> Iterator[GateLoad]:
    """Loads that leave by a port, and what goes back by it to who sends one."""
    for name, load in scenario.sent_loads.items():
        way = scenario.load_route(name)
        frame = _load_frame(load, mtu, is_tagged=_is_tagged(way))
        for leaving in ports_of(way, getattr(load, "priority", ANY_PRIORITY), scenario.parent_of):
            if leaving.port == end:
                yield GateLoad(name, shaper.class_of(leaving.priority), frame)
        is_tcp = getattr(load, "protocol", "udp") == "tcp"
        for leaving in ports_of(way.back, ANY_PRIORITY, scenario.parent_of) if load.has_control else ():
            if leaving.port == end:
                yield GateLoad(name, shaper.class_of(leaving.priority), frame, endless=is_tcp)


def _load_frame(load: LoadBetween, mtu: int, *, is_tagged: bool) -> FrameSize:
    """A load's largest frame: of a flood its packets', of others, which cut what they write, the link's."""
    largest = FrameSize.largest(mtu, beside=is_tagged)
    if not isinstance(load, Flood):
        return largest
    return min(FrameSize.of(load.size, "udp", beside=is_tagged), largest, key=_handed_over)
