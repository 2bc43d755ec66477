"""A scenario's gate schedules: what leaves by each port that has one, and its bounds, as data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from latlab.analysis.frames import FrameSize
from latlab.analysis.gate_checks import Warned, warnings
from latlab.analysis.gate_port import GateLoad, GatePort, Interference, interference
from latlab.analysis.gates import GateEntry, Schedule
from latlab.analysis.promise import GatedStream, Handover, Launch, LaunchQueue, Promise
from latlab.analysis.words import duration
from latlab.model.errors import UsageError
from latlab.model.part import Document, Keys
from latlab.report import rows
from latlab.report.document import bad_if
from latlab.report.text import exact
from latlab.result.places import cell_title, matrix_titles
from latlab.result.types import Gates, Result, Statistics
from latlab.scenario import End, Etf, Flow, MatrixCell, Route, Scenario, Taprio, format_rate
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


Scheduled = Sequence[tuple[Sequence[str], Sequence[Promised]]]
"""Groups of cells, by their slugs, and their ports."""
ENTRY_HEADINGS = ("from [µs]", "to [µs]", "length [µs]", "open classes and their streams")
KEPT_BY = {
    "software": "the kernel implements the gates",
    "txtime-assist": "a child etf implements the gates, by launch times that the kernel computes",
    "offload": "the NIC implements the gates",
}


def promised_groups(every: Sequence[MatrixCell]) -> Scheduled:
    """The cells' schedules, those of a group with their bounds. UsageError: no cell has one."""
    return [(group.cells, [Promised.of(port) for port in group.ports]) for group in schedules(every)]


def titles_of(cells: Sequence[str], labels: Mapping[str, Keys]) -> str:
    """What a group of cells is called. labels: by slug, of the cells that there are: a run may not have come to all."""
    return matrix_titles([slug for slug in cells if slug in labels], labels)


def port_title(port: GatePort) -> str:
    """The port, its cycle, its speed, and who keeps its gates, in a line."""
    schedule = port.schedule
    shift = f" + {exact(schedule.shift_ns)} µs" if schedule.shift_ns else ""
    return (
        f"{port.interface}: cycle of {exact(schedule.cycle_ns)} µs from its multiples in TAI{shift} on, "
        f"{format_rate(port.speed_bps)}; {port.mode}: {KEPT_BY[port.mode]}"
    )


def entry_rows(port: GatePort) -> Iterator[tuple[str, str, str, str]]:
    """A row of ENTRY_HEADINGS for each entry of the schedule."""
    for start, entry in zip(port.schedule.starts_ns, port.schedule.entries, strict=True):
        opened = " · ".join(_class_with_names(port, one) for one in entry.open) or "none"
        yield exact(start), exact(start + entry.length_ns), exact(entry.length_ns), opened


def _class_with_names(port: GatePort, traffic_class: int) -> str:
    names = [*streams_of(port, traffic_class), *load_titles(port, traffic_class)]
    return f"{traffic_class} ({', '.join(names)})" if names else str(traffic_class)


def scenario_ports(scenario: Scenario) -> tuple[GatePort, ...]:
    """The ports of a scenario that have a gate schedule, with the streams and loads that leave there."""
    return tuple(
        _port(scenario, End(*interface.split(".", 1)), shaper)
        for interface, shaper in scenario.shapers.items()
        if isinstance(shaper, Taprio)
    )


def as_document(one: Promised) -> Document:
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
            {
                "name": load.name,
                "traffic_class": load.traffic_class,
                "frame_bytes": load.frame.size,
                "endless": load.endless,
            }
            for load in port.loads
        ],
        "warnings": [warned.as_dict() for warned in one.warnings],
    }


def streams_of(port: GatePort, traffic_class: int) -> list[str]:
    """The names of the streams in a class."""
    return [flow.name for flow in port.flows if flow.traffic_class == traffic_class]


def loads_of(port: GatePort, traffic_class: int) -> list[str]:
    """The names of the loads in a class."""
    return [load.name for load in port.loads if load.traffic_class == traffic_class]


def load_titles(port: GatePort, traffic_class: int) -> list[str]:
    """What the loads in a class are called."""
    return [load.title for load in port.loads if load.traffic_class == traffic_class]


def departs(promised: Promise) -> str:
    """When its packets depart after their launch, for people: "0 to 405 µs"; "never"."""
    if promised.earliest_ns is None or promised.latest_ns is None:
        return "never"
    return _from_to(promised.earliest_ns, promised.latest_ns)


def departs_when(promised: Promise) -> str:
    """The same in words: "at launch", "0 to 405 µs after launch", "100 µs to 1 µs before launch", "never"."""
    first, last = promised.earliest_ns, promised.latest_ns
    if first is None or last is None:
        return "never"
    if first == last == 0:
        return "at launch"
    return f"{_from_to(-first, -last)} before launch" if last <= 0 else f"{_from_to(first, last)} after launch"


def _from_to(first_ns: int, last_ns: int) -> str:
    first, last = short(first_ns), short(last_ns)
    return first if first == last else f"{first} to {last}"


def short(ns: int) -> str:
    """A duration for people; 0 needs no unit."""
    return duration(ns) if ns else "0"


def _promise(port: GatePort, promised: Promise, meets: Interference) -> Document:
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


# When the gates let each stream's packets leave, and when they left: a row for each stream that has gates.


SLOTS_TITLE = "Gates: guaranteed and measured departures, after the launch"
SLOTS_HEADINGS = ("cell", "repeat", "stream", "class", "promised", "left", "missed their slot", "latency without those")


@dataclass(frozen=True)
class SlotRow:
    """One stream of one cell, in words. missed: empty where all left in their slots."""

    cell: str
    repeat: int
    stream: str
    traffic_class: int
    promised: str
    left: str
    missed: str
    in_slot: str

    @property
    def texts(self) -> Sequence[str]:
        """In the order of HEADINGS."""
        numbers = str(self.repeat), self.stream, str(self.traffic_class)
        missed = bad_if(self.missed, self.missed or "none")
        return (self.cell, *numbers, self.promised, self.left, missed, self.in_slot)


def slot_rows(result: Result) -> Iterator[SlotRow]:
    """A row for each stream that has gates, in the order of the summary."""
    for cell in rows.ordered_cells(result):
        for name, stream in cell.streams.items():
            gates = stream.gates
            if gates:
                yield SlotRow(
                    cell=cell_title(cell),
                    repeat=cell.repeat,
                    stream=name,
                    traffic_class=gates.traffic_class,
                    promised=_span(gates.promised.earliest_ns, gates.promised.latest_ns),
                    left=f"{_span(gates.least_ns, gates.most_ns)} ({gates.from_})" if gates.left else "unknown",
                    missed=_missed(gates),
                    in_slot=_in_slot(gates.in_slot),
                )


def _span(least_ns: int | None, most_ns: int | None) -> str:
    least, most = short(least_ns or 0), short(most_ns or 0)
    return least if least_ns == most_ns else f"{least} to {most}"


def _missed(gates: Gates) -> str:
    """`3 of 995, 1 to 4 windows late, packets 17 to 903`; those that left before their window opened, too."""
    words = []
    if gates.missed:
        late = sorted(gates.windows_late)
        windows = str(late[0]) if late[0] == late[-1] else f"{late[0]} to {late[-1]}"
        packets = f"packets {gates.first_missed} to {gates.last_missed}"
        if gates.missed == 1:
            packets = f"packet {gates.first_missed}"
        words.append(f"{gates.missed} of {gates.left}, {windows} window{'s' if late[-1] > 1 else ''} late, {packets}")
    if gates.early:
        words.append(f"{gates.early} left before their own window")
    return "; ".join(words)


def _in_slot(metrics: Mapping[str, Statistics]) -> str:
    """`mean 14.2 µs, max 19.1 µs` of latency."""
    latency = metrics.get("latency")
    if not latency or latency.mean is None:
        return ""
    return f"mean {short(round(latency.mean))}, max {short(latency.max or 0)}"
