"""A scenario's gate schedules: what leaves by each port that has one, and what it is promised, as data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from latlab.analysis.frames import Frame
from latlab.analysis.gate_checks import Warned, warnings
from latlab.analysis.gate_port import GateLoad, Interference, Port, interference
from latlab.analysis.gates import Entry, Schedule
from latlab.analysis.promise import Flow, Handover, Launch, LaunchQueue, Promise
from latlab.analysis.words import duration
from latlab.errors import UsageError
from latlab.scenario import Cell, End, Etf, Route, Scenario, Stream, Taprio
from latlab.scenario.loads import Flood, LoadBase
from latlab.scenario.shapers import PRIORITIES

PTP_FRAME = Frame(14 + 44 + 32)
"""Of a Follow_Up with 802.1AS's information TLV (IEEE 802.1AS-2020, 11.4.4): the longest of PTP's that are frequent."""
ANY_PRIORITY = 0
"""What the kernel's own packets, and those of most programs, have."""


@dataclass(frozen=True)
class Group:
    """Cells whose ports have the same schedules and streams. cells: their slugs. ports: loads of any of them."""

    cells: tuple[str, ...]
    ports: tuple[Port, ...]


@dataclass(frozen=True)
class Promised:
    """A port, what each of its streams is promised and may meet, and the warnings."""

    port: Port
    promises: tuple[Promise, ...]
    interference: tuple[Interference, ...]
    warnings: tuple[Warned, ...]

    @classmethod
    def of(cls, port: Port) -> Promised:
        """All of it, computed."""
        return cls(port, port.promises(), tuple(interference(port, flow) for flow in port.flows), warnings(port))


def schedules(cells: Sequence[Cell]) -> list[Group]:
    """The cells' schedules, each distinct set of ports once, in the cells' order; cells without any are in one, too.

    UsageError: no cell has a schedule.
    """
    kept: list[Group] = []
    for cell in cells:
        ports = scenario_ports(cell.scenario)
        bare = tuple(replace(port, loads=()) for port in ports)
        place = next((n for n, group in enumerate(kept) if _bare(group) == bare), None)
        if place is None:
            kept.append(Group((cell.slug,), ports))
        else:
            before = kept[place]
            merged = tuple(_with_loads(one, other) for one, other in zip(before.ports, ports, strict=True))
            kept[place] = Group((*before.cells, cell.slug), merged)
    if not any(group.ports for group in kept):
        raise UsageError(
            "no interface has a gate schedule",
            where="shapers",
            remedy="give one a taprio with gates: see shapers in docs/scenario.md",
        )
    return kept


def scenario_ports(scenario: Scenario) -> tuple[Port, ...]:
    """The ports of a scenario that have a gate schedule, with the streams and loads that leave there."""
    return tuple(
        _port(scenario, End(*interface.split(".", 1)), shaper)
        for interface, shaper in scenario.shapers.items()
        if isinstance(shaper, Taprio)
    )


def as_document(one: Promised) -> dict[str, Any]:
    """A port as it stands in `--json` output: durations in ns, from and to in the cycle."""
    port, schedule = one.port, one.port.schedule
    return {
        "interface": port.interface,
        "mode": port.mode,
        "speed_bps": port.speed_bps,
        "cycle_ns": schedule.cycle_ns,
        "shift_ns": schedule.shift_ns,
        "txtime_delay_ns": port.delay_ns if port.mode == "txtime-assist" else None,
        "entries": [
            {
                "from_ns": start,
                "to_ns": start + entry.length_ns,
                "length_ns": entry.length_ns,
                "open": {
                    str(traffic_class): {
                        "streams": streams_of(port, traffic_class),
                        "loads": loads_of(port, traffic_class),
                    }
                    for traffic_class in entry.open
                },
            }
            for start, entry in zip(schedule.starts_ns, schedule.entries, strict=True)
        ],
        "streams": [
            _promise(port, promised, meets) for promised, meets in zip(one.promises, one.interference, strict=True)
        ],
        "loads": [
            {"name": load.name, "traffic_class": load.traffic_class, "frame_bytes": load.frame.size}
            for load in port.loads
        ],
        "warnings": [warned.as_dict() for warned in one.warnings],
    }


def streams_of(port: Port, traffic_class: int) -> list[str]:
    """The names of the streams in a class."""
    return [flow.name for flow in port.flows if flow.traffic_class == traffic_class]


def loads_of(port: Port, traffic_class: int) -> list[str]:
    """The names of the loads in a class."""
    return [load.name for load in port.loads if load.traffic_class == traffic_class]


def load_titles(port: Port, traffic_class: int) -> list[str]:
    """What the loads in a class are called."""
    return [load.title for load in port.loads if load.traffic_class == traffic_class]


def departs(promised: Promise) -> str:
    """When its packets depart after their launch, for people: "0 to 405 µs"; "never"."""
    if promised.earliest_ns is None or promised.latest_ns is None:
        return "never"
    first, last = short(promised.earliest_ns), short(promised.latest_ns)
    return first if first == last else f"{first} to {last}"


def short(ns: int) -> str:
    """A duration for people; 0 needs no unit."""
    return duration(ns).replace("-", "−") if ns else "0"


def _promise(port: Port, promised: Promise, meets: Interference) -> dict[str, Any]:
    flow = port.flow(promised.stream)
    return {
        "name": promised.stream,
        "traffic_class": promised.traffic_class,
        "period_ns": flow.period_ns,
        "offset_ns": flow.offset_ns,
        "frame_bytes": promised.frame.size,
        "frame_ns": promised.frame_ns,
        "guard_ns": promised.guard_ns,
        "phases": promised.phases,
        "step_ns": promised.step_ns,
        "dropped_phases": promised.dropped,
        "earliest_ns": promised.earliest_ns,
        "latest_ns": promised.latest_ns,
        "least_wait_ns": promised.least_wait_ns,
        "worst_wait_ns": promised.worst_wait_ns,
        "windows": [
            {"from_ns": share.window.start_ns, "to_ns": share.window.end_ns, "phases": share.phases}
            for share in promised.windows
        ],
        "interference": asdict(meets) | {"total_ns": meets.total_ns},
    }


def _bare(group: Group) -> tuple[Port, ...]:
    return tuple(replace(port, loads=()) for port in group.ports)


def _with_loads(one: Port, other: Port) -> Port:
    """The port with the other's loads, too."""
    return replace(one, loads=tuple(dict.fromkeys((*one.loads, *other.loads))))


def _port(scenario: Scenario, end: End, shaper: Taprio) -> Port:
    mtu = scenario.segment_of(end).mtu
    largest = Frame.largest(mtu, vlan=True)
    beneath = {number: queue for number in range(shaper.class_count) if (queue := _beneath(shaper, number)) is not None}
    # What is sent on a VLAN interface leaves by the port that it is on.
    ways = ((name, one, scenario.route(name)) for name, one in scenario.streams.items())
    leaving = [way for way in ways if scenario.parent_of(way[2].talker_end) == end]
    ptp = scenario.clock.ptp
    others = (
        (GateLoad("PTP", shaper.class_of(ptp.priority), PTP_FRAME, endless=False),)
        if ptp and str(end) in ptp.ports
        else ()
    )
    load_ways = ((name, one, scenario.load_route(name)) for name, one in scenario.loads.items())
    loads = [way for way in load_ways if scenario.parent_of(way[2].talker_end) == end]
    return Port(
        interface=str(end),
        mode=shaper.mode,
        schedule=Schedule(tuple(Entry(gate.open, gate.for_) for gate in shaper.gates), shaper.shift),
        speed_bps=scenario.speed_at(end),
        largest=largest,
        flows=tuple(_flow(name, one, shaper, beneath, is_tagged=_is_tagged(way)) for name, one, way in leaving),
        loads=(
            *others,
            *(
                GateLoad(name, _load_class(one, shaper), _load_frame(one, mtu, is_tagged=_is_tagged(way)))
                for name, one, way in loads
            ),
        ),
        delay_ns=shaper.delay,
        shared=frozenset(
            number
            for number in range(shaper.class_count)
            if any(
                shaper.class_of(one) == number
                for one in range(PRIORITIES)
                if one not in {stream.priority for _, stream, _ in leaving}
            )
        ),
        beneath=beneath,
    )


def _is_tagged(way: Route) -> bool:
    """Whether a VLAN interface tags what takes it."""
    return way.segment.vlan is not None


def _flow(name: str, stream: Stream, shaper: Taprio, beneath: dict[int, LaunchQueue], *, is_tagged: bool) -> Flow:
    traffic_class = shaper.class_of(stream.priority)
    asked = stream.launch_time
    launch = Launch(asked.lead, asked.deadline) if asked else None
    return Flow(
        name=name,
        traffic_class=traffic_class,
        offset_ns=stream.offset,
        period_ns=stream.period,
        frame=Frame.of(stream.size, stream.transport, vlan=stream.vlan is not None, beside=is_tagged),
        handover=Handover.of(shaper.mode, shaper.delay, beneath.get(traffic_class), launch),
    )


def _beneath(shaper: Taprio, traffic_class: int) -> LaunchQueue | None:
    """What launches the packets of a class: its first queue is what its packets of one flow are in."""
    child = shaper.child_of(shaper.queues_of(traffic_class)[0])
    return LaunchQueue(child.delta, child.offload, child.deadline) if isinstance(child, Etf) else None


def _load_class(load: LoadBase, shaper: Taprio) -> int:
    return shaper.class_of(getattr(load, "priority", ANY_PRIORITY))


def _load_frame(load: LoadBase, mtu: int, *, is_tagged: bool) -> Frame:
    """A load's largest frame: of a flood its packets', of others, which cut what they write, the link's."""
    largest = Frame.largest(mtu, beside=is_tagged)
    if not isinstance(load, Flood):
        return largest
    return min(Frame.of(load.size, "udp", beside=is_tagged), largest, key=lambda one: one.handed_over)
