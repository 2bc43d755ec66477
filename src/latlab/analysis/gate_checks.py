"""What a gate schedule does not do for those who leave by it: warnings, each with its numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Final

from latlab.analysis.gate_port import GatePort, nearest_departures_ns
from latlab.analysis.promise import GatedStream, Promise, openings_of
from latlab.analysis.words import duration
from latlab.model.part import Document

COMPARED_MAX = 24
"""So many streams of a class are compared, each with each."""


@dataclass(frozen=True)
class Warned:
    """One warning. where: the stream, load or class it is about. expected: what would be right. remedy: how to."""

    where: str
    what: str
    expected: str
    remedy: str

    def as_dict(self) -> Document:
        """As it stands in `--json` output."""
        return asdict(self)


Promises = dict[str, Promise]
"""What each stream of the port is guaranteed, by its name."""


def packets_fit_a_window(port: GatePort, promises: Promises) -> Iterator[Warned]:
    """Streams that no window of their class has room for."""
    for flow in port.flows:
        one = promises[flow.name]
        early, late = openings_of(port.schedule, port.mode, flow, port.speed_bps)
        if late:
            continue
        merged = _longest_ns(port, flow.traffic_class)
        what = (
            f"a frame of {flow.frame.size} bytes needs {duration(one.guard_ns)}, the longest window of class "
            f"{flow.traffic_class} is {duration(merged)}: "
        )
        if early:
            what = (
                f"a frame of {flow.frame.size} bytes needs {duration(one.guard_ns)} and fits no entry of class "
                f"{flow.traffic_class}, only {duration(merged)} of adjacent ones: kernels before 6.3 never send it"
            )
        elif port.mode == "txtime-assist":
            what += "each packet is dropped"
        else:
            what += "no packet leaves, and neither do those behind them in the queue"
        yield Warned(
            _stream(flow), what, f"an entry of {duration(one.guard_ns)} or more", "a longer entry, or a smaller packet"
        )


def launch_times_are_in_windows(port: GatePort, promises: Promises) -> Iterator[Warned]:
    """Streams with launch times outside their windows: taprio drops such packets silently."""
    for flow in port.flows:
        one = promises[flow.name]
        if not one.dropped:
            continue
        share = "all" if one.dropped == one.phases else f"{one.dropped} of {one.phases}"
        at_once = port.schedule.launch_phase(flow.offset_ns) in port.schedule.starts_ns
        edge = ", as launches exactly at the start of an entry are" if at_once else ""
        yield Warned(
            _stream(flow),
            f"{share} of its launch times are outside the windows of class {flow.traffic_class}: taprio drops such "
            f"packets silently{edge}",
            "launches after an entry's start, whose packets end before it does",
            "another offset" if one.phases == 1 else "an offset and a period that is a multiple of the cycle",
        )


def periods_keep_their_phase(port: GatePort, promises: Promises) -> Iterator[Warned]:
    """Streams whose launches wander through the cycle, so that their wait does."""
    for flow in port.flows:
        one, cycle_ns = promises[flow.name], port.schedule.cycle_ns
        if _keeps_its_phases(flow, cycle_ns) or not _meets_closed_gates(one):
            continue
        yield Warned(
            _stream(flow),
            f"a period of {duration(flow.period_ns, 7)} is not a multiple of the cycle, {duration(cycle_ns, 7)}: its "
            f"launches go through {one.phases} phases, {duration(one.step_ns)} apart, and wait {_waits(one)}",
            f"a multiple of {duration(cycle_ns, 7)}",
            f"a period of {duration(_near_multiple(flow.period_ns, cycle_ns), 7)}",
        )


def launches_meet_open_gates(port: GatePort, promises: Promises) -> Iterator[Warned]:
    """Streams of which every packet, or some in each cycle, wait for their gate."""
    for flow in port.flows:
        one, cycle_ns = promises[flow.name], port.schedule.cycle_ns
        if not _keeps_its_phases(flow, cycle_ns) or flow.handover.checked or not _meets_closed_gates(one):
            continue
        if one.least_wait_ns:
            what = f"every packet meets a closed gate and waits {_waits(one)}"
        else:
            what = f"of the {one.phases} launches in a cycle some meet a closed gate: they wait {_waits(one)}"
        yield Warned(
            _stream(flow),
            what,
            f"launches while the gate of class {flow.traffic_class} is open",
            # Every multiple of the step meets the same phases.
            f"an offset of {duration((flow.offset_ns + one.least_wait_ns) % one.step_ns, 9)}"
            if one.least_wait_ns
            else "a period of a cycle or more",
        )


def windows_are_where_they_seem(port: GatePort, _: Promises) -> Iterator[Warned]:
    """Windows of txtime-assist that no NIC keeps: an etf sends delta before each launch."""
    if port.mode != "txtime-assist":
        return
    for delta_ns in sorted({one.delta_ns for one in port.beneath.values() if not one.offload and not one.deadline}):
        having = [str(one) for one, queue in port.beneath.items() if queue.delta_ns == delta_ns and not queue.offload]
        yield Warned(
            f"{_classes(having)}",
            f"no NIC launches its packets: its etf sends each {duration(delta_ns)} before its launch time, so windows "
            f"appear {duration(delta_ns)} early, and packets leave while the schedule has other gates open",
            "offload: true in the etf beneath, on a NIC with launch time",
            f"expect windows {duration(delta_ns)} early, or a smaller delta",
        )
    for traffic_class, queue in port.beneath.items():
        if queue.deadline:
            yield Warned(
                f"class {traffic_class}",
                "its etf treats launch times as deadlines and sends at once: its gate is not observed",
                "deadline: false",
                "an etf without deadline",
            )


def launch_times_are_waited_for(port: GatePort, _: Promises) -> Iterator[Warned]:
    """Streams with launch times that taprio checks, and nothing beneath keeps."""
    for flow in port.flows:
        if flow.handover.checked and flow.traffic_class not in port.beneath:
            ahead_ns = -flow.handover.ready_ns
            yield Warned(
                _stream(flow),
                "its queue has no etf: taprio checks its launch times, but sends its packets as soon as they arrive "
                f"and their gate is open, up to {duration(ahead_ns)} early",
                "an etf beneath its queue",
                "children: {QUEUE: {kind: etf}}",
            )


def streams_of_a_class_keep_apart(port: GatePort, promises: Promises) -> Iterator[Warned]:
    """Streams of one class whose packets are on the wire, or let out of their gate, at the same moment."""
    for traffic_class in sorted({flow.traffic_class for flow in port.flows}):
        flows = [flow for flow in port.flows if flow.traffic_class == traffic_class]
        if len(flows) <= COMPARED_MAX:
            yield from _too_near(port, flows)
        else:
            yield Warned(
                f"class {traffic_class}",
                f"{len(flows)} streams share it: too many to compare with each other",
                "separate departures",
                "fewer streams in a class",
            )


def _too_near(port: GatePort, flows: list[GatedStream]) -> Iterator[Warned]:
    for one, other in combinations(flows, 2):
        apart_ns = nearest_departures_ns(port, one, other)
        longest_ns = max(flow.frame.occupied_ns(port.speed_bps) for flow in (one, other))
        if apart_ns is not None and apart_ns < longest_ns:
            yield Warned(
                f"streams {one.name} and {other.name}",
                f"both are in class {one.traffic_class}, and their packets depart as near as {duration(apart_ns)} to "
                f"each other: one of them waits up to {duration(longest_ns)} more",
                f"departures {duration(longest_ns)} or more apart",
                "another offset, or another class",
            )


def loads_fit_the_windows(port: GatePort, _: Promises) -> Iterator[Warned]:
    """Loads whose frames no window, or not every window, of their class has room for."""
    for load in port.loads:
        windows = port.schedule.entry_windows(load.traffic_class)
        needed_ns = load.frame.guard_ns(port.speed_bps)
        short = [one for one in windows if one.length_ns is not None and one.length_ns < needed_ns]
        if short:
            which = "every entry" if len(short) == len(windows) else f"{len(short)} of {len(windows)} entries"
            yield Warned(
                load.title,
                f"its frames of up to {load.frame.size} bytes need {duration(needed_ns)}: more than {which} of class "
                f"{load.traffic_class}, the shortest {duration(min(one.length_ns or 0 for one in short))}",
                f"entries of {duration(needed_ns)} or more",
                # A protocol's messages are as long as they are.
                "a longer entry, or smaller packets" if load.endless else "a longer entry",
            )


def classes_are_protected(port: GatePort, _: Promises) -> Iterator[Warned]:
    """Classes of streams whose gate never closes, and such as are open together with others' loads."""
    for traffic_class in sorted({flow.traffic_class for flow in port.flows}):
        if port.schedule.is_always_open(traffic_class):
            yield Warned(
                f"class {traffic_class}",
                f"the gate of {_streams_of(port, traffic_class)} never closes: frames of other classes can delay it at "
                "any time",
                "entries in which no other class is open",
                "a window for this class alone",
            )
        beside = {*port.leaving_with(traffic_class), traffic_class}
        for load in port.loads:
            if load.endless and load.traffic_class in beside:
                how = (
                    "is in the same class" if load.traffic_class == traffic_class else
                    f"is in class {load.traffic_class}, which is open at the same time"
                    if port.schedule.open_at_once(load.traffic_class, traffic_class) else
                    f"is in class {load.traffic_class}, whose frames leave at the same time"
                )  # fmt: skip
                yield Warned(
                    f"class {traffic_class}",
                    f"{load.title} {how}: it delays {_streams_of(port, traffic_class)} without a bound",
                    "a separate class with a separate window",
                    "another priority, or gates that are not open together",
                )


CHECKS: Final[tuple[Callable[[GatePort, Promises], Iterator[Warned]], ...]] = (
    packets_fit_a_window,
    launch_times_are_in_windows,
    launch_times_are_waited_for,
    periods_keep_their_phase,
    launches_meet_open_gates,
    windows_are_where_they_seem,
    streams_of_a_class_keep_apart,
    classes_are_protected,
    loads_fit_the_windows,
)


def warnings(port: GatePort) -> tuple[Warned, ...]:
    """All that its schedule does not do for those who leave by the port."""
    promises = {one.stream: one for one in port.promises()}
    return tuple(warned for check in CHECKS for warned in check(port, promises))


def _keeps_its_phases(flow: GatedStream, cycle_ns: int) -> bool:
    """True if its launches come at the same phases in every cycle in which it has any."""
    return flow.period_ns % cycle_ns == 0 or cycle_ns % flow.period_ns == 0


def _meets_closed_gates(one: Promise) -> bool:
    """True if it waits longer than a packet does that steps from one open entry to the next."""
    return one.worst_wait_ns is not None and one.worst_wait_ns > one.guard_ns


def _stream(flow: GatedStream) -> str:
    return f"stream {flow.name}"


def _streams_of(port: GatePort, traffic_class: int) -> str:
    names = [flow.name for flow in port.flows if flow.traffic_class == traffic_class]
    return f"stream{'s' if len(names) > 1 else ''} {', '.join(names)}"


def _classes(numbers: list[str]) -> str:
    return f"class{'es' if len(numbers) > 1 else ''} {', '.join(numbers)}"


def _waits(one: Promise) -> str:
    if one.worst_wait_ns is None or one.least_wait_ns is None:
        return "forever"
    least, worst = (duration(ns) if ns else "0" for ns in (one.least_wait_ns, one.worst_wait_ns))
    return worst if least == worst else f"{least} to {worst}"


def _longest_ns(port: GatePort, traffic_class: int) -> int:
    return max((one.length_ns or 0 for one in port.schedule.windows(traffic_class)), default=0)


def _near_multiple(period_ns: int, cycle_ns: int) -> int:
    """The multiple of the cycle nearest to the period, at least one cycle."""
    return max(1, (2 * period_ns + cycle_ns) // (2 * cycle_ns)) * cycle_ns
