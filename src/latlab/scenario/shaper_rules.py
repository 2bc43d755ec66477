"""What shapers must keep: that they fit their interfaces, that nothing waits forever, that launch times are kept."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import lcm

from latlab.model.units import SECOND_NS
from latlab.scenario.findings import Mistake, Path, unknown
from latlab.scenario.guests import becomes_the_guests
from latlab.scenario.links import QUEUES_MAX
from latlab.scenario.loads import LoadBetween
from latlab.scenario.network import Leaving, Route, ports_of, routes
from latlab.scenario.parts import End, parse_end
from latlab.scenario.probes import Between
from latlab.scenario.shapers import Cbs, Classes, Etf, Mqprio, Shaper, Taprio, Tbf, port_speed
from latlab.scenario.sketch import Sketch, where_known
from latlab.scenario.streams import LaunchTime, Stream
from latlab.scenario.tuning_rules import cpus_are_there
from latlab.scenario.units import format_duration, format_rate

COMMON_CYCLE_NS_MAX = SECOND_NS
"""Streams start with a cycle of every schedule at once: that must come about soon."""
SMALLEST_FRAME_BITS = 60 * 8
"""ETH_ZLEN: what an entry must have room for (net/sched/sch_taprio.c, fill_sched_entry)."""


def shaped_interface_is_there(sketch: Sketch, path: Path, _: Shaper) -> Iterator[Mistake]:
    """A shaper is at an end of a link."""
    end = parse_end(str(path[1]))
    if "links" in sketch.names and not sketch.loose_links and end.host in sketch.names.get("hosts", ()):
        there = [str(other) for other in sketch.ends.values()]
        if end in sketch.vlan_parents:
            port = sketch.parent_of(end)
            yield Mistake(path, f"{end} is a VLAN interface: its packets pass the shaper of {port}", str(port))
        elif sketch.is_switched(end):
            what = f"{end} is a port of {end.host}'s switch: forwarded packets have no priority there"
            yield Mistake(path, what, "a shaper at the end where packets are sent")
        elif str(end) not in there:
            yield Mistake(path, *unknown("end of a link", str(end), there))


def shaper_goes_along(sketch: Sketch, path: Path, shaper: Shaper) -> Iterator[Mistake]:
    """Of the shapers of a card that VFIO hands to a guest, the guest's kernel has a line rate only."""
    end = parse_end(str(path[1]))
    for name, guest in sketch.guests.items():
        handed_on = becomes_the_guests(guest) and (guest.host, guest.uplink) == (end.host, end.interface)
        if handed_on and not isinstance(shaper, Tbf):
            what = f"VFIO passes {end} through to {name}: in a guest only a tbf can be set up"
            yield Mistake(path, what, "kind: tbf, or another bridge")


def classes_have_queues(sketch: Sketch, path: Path, shaper: Shaper) -> Iterator[Mistake]:
    """Each class has transmit queues, and the interface as many as they are together."""
    if not isinstance(shaper, Classes):
        return
    if shaper.queues and len(shaper.queues) < shaper.named_classes:
        what = f"{len(shaper.queues)} classes have queues, and class {shaper.named_classes - 1} is named"
        yield Mistake((*path, "queues"), what, "a number for each class")
        return
    needed = shaper.queue_count
    for queue in shaper.children:
        if queue >= needed:
            what = f"the classes have no queue {queue}"
            yield Mistake((*path, "children", str(queue)), what, f"0 to {needed - 1}")
    end = parse_end(str(path[1]))
    for index, link in sketch.links.items():
        if end in link.ends and (is_emulated(sketch, end) or not sketch.is_cable(link.ends)) and link.queues < needed:
            what = f"{needed} transmit queues are needed, links[{index}] has {link.queues}"
            enough = f"links[{index}].queues of {needed} or more"
            fewer = f"{QUEUES_MAX} or fewer, which is what the link can have"
            yield Mistake(path, what, enough if needed <= QUEUES_MAX else fewer)


def classes_are_shaped_alike(_: Sketch, path: Path, shaper: Shaper) -> Iterator[Mistake]:
    """The same is beneath each queue of a class: the kernel spreads flows over all of them (skb_tx_hash)."""
    if not isinstance(shaper, Classes):
        return
    for number in range(len(shaper.queue_counts)):
        first, *others = shaper.queues_of(number)
        other = next((queue for queue in others if shaper.child_of(queue) != shaper.child_of(first)), None)
        if other is None:
            continue
        # Of the two at least one is written; the other may be that of txtime-assist.
        here, there = sorted((first, other), key=lambda queue: (queue not in shaper.children, queue))
        child, beside = shaper.child_of(here), shaper.child_of(there)
        assert child is not None
        if beside is None:
            what = f"class {number} has {_one(child)} beneath queue {here} and none beneath queue {there}"
        elif beside.kind != child.kind:
            what = f"class {number} has {_one(child)} beneath queue {here} and {_one(beside)} beneath queue {there}"
        else:
            what = f"class {number} has another {child.kind} beneath queue {here} than beneath queue {there}"
        yield Mistake((*path, "children", str(here)), what, "the same beneath each queue of a class")


def _one(child: Etf | Cbs) -> str:
    return "an etf" if isinstance(child, Etf) else "a cbs"


def is_emulated(sketch: Sketch, end: End) -> bool:
    """Whether an interface is an emulated board's card: its queues are set for the run."""
    machine = sketch.machine_of(end.host)
    return machine is not None and sketch.hosts[machine].is_emulated


def gates_fit_their_cycle(sketch: Sketch, path: Path, shaper: Shaper) -> Iterator[Mistake]:
    """A shift is within a cycle, and an entry has room for the smallest frame."""
    if not isinstance(shaper, Taprio):
        return
    if shaper.shift >= shaper.cycle:
        what = f"a shift of {format_duration(shaper.shift)} is a cycle or more"
        yield Mistake((*path, "shift"), what, f"less than {format_duration(shaper.cycle)}")
    smallest = -(-SMALLEST_FRAME_BITS * SECOND_NS // speed_at(sketch, str(path[1]), shaper))
    for number, gate in enumerate(shaper.gates):
        if gate.for_ < smallest:
            what = f"{format_duration(gate.for_)} is too short for the smallest frame"
            yield Mistake((*path, "gates", number, "for"), what, f"{format_duration(smallest)} or more")


def slopes_are_below_the_speed(sketch: Sketch, path: Path, shaper: Shaper) -> Iterator[Mistake]:
    """The credit of a credit-based shaper falls while it sends: what it leaves its queue is less than the port has."""
    if isinstance(shaper, Etf | Tbf):
        return
    placed: dict[Path, object] = {path: shaper}
    if isinstance(shaper, Classes):
        placed = {(*path, "children", str(queue)): child for queue, child in shaper.children.items()}
    for where, cbs in placed.items():
        if isinstance(cbs, Cbs) and cbs.send_slope is None:
            speed = cbs.speed or speed_at(sketch, str(path[1]), shaper)
            if cbs.idle_slope >= speed:
                what = f"{format_rate(cbs.idle_slope)} is the full rate of the port"
                yield Mistake((*where, "idle_slope"), what, f"less than {format_rate(speed)}")


def speed_at(sketch: Sketch, end: str, shaper: Taprio | Mqprio | Cbs) -> int:
    """Of the port, bit/s: as the scenario says, or what a veth says of itself."""
    made = (link for link in sketch.links.values() if not sketch.is_cable(link.ends))
    return port_speed(shaper.speed, made=any(str(one) == end for link in made for one in link.ends))


def gates_have_a_timer_and_its_cpu(sketch: Sketch, path: Path, shaper: Shaper) -> Iterator[Mistake]:
    """A CPU is named only for gates that a timer of the kernel opens, and the host has it."""
    if not isinstance(shaper, Taprio) or shaper.cpu is None:
        return
    where = (*path, "cpu")
    if shaper.mode != "software":
        yield Mistake(where, f"mode {shaper.mode} has no timer for its gates", "mode: software")
    else:
        yield from cpus_are_there(sketch, parse_end(str(path[1])).host, where, [range(shaper.cpu, shaper.cpu + 1)])


def assistance_has_its_settings(_: Sketch, path: Path, shaper: Shaper) -> Iterator[Mistake]:
    """What belongs to txtime-assist is there only, and its delay lets packets reach the etf in time."""
    if not isinstance(shaper, Taprio):
        return
    if not shaper.gives_launch_times:
        for key in ("txtime_delay", "delta"):
            if key in shaper.model_fields_set:
                yield Mistake((*path, key), f"mode {shaper.mode} computes no launch times", "mode: txtime-assist")
        return
    for queue, child in shaper.children.items():
        if isinstance(child, Cbs) or not child.skip_sock_check:
            what = "txtime-assist gives launch times to packets of sockets that ask for none"
            yield Mistake((*path, "children", str(queue)), what, "kind: etf with skip_sock_check: true")
    deltas = {queue: child.delta for queue, child in shaper.beneath.items() if isinstance(child, Etf)}
    if not deltas or shaper.delay > max(deltas.values()):
        return
    if shaper.txtime_delay is not None:
        ahead = format_duration(max(deltas.values()))
        what = f"{format_duration(shaper.txtime_delay)} pass before the etf, {ahead} ahead, has it"
        yield Mistake((*path, "txtime_delay"), what, f"more than its delta, {ahead}")
    else:  # computed of the deltas, and more than any but 0
        first = min(deltas)
        where = ("children", str(first), "delta") if first in shaper.children else ("delta",)
        what = f"{format_duration(deltas[first])} leave a packet no time to reach its etf"
        yield Mistake((*path, *where), what, "more than 0ns")


def nothing_waits_for_ever(sketch: Sketch) -> Iterator[Mistake]:
    """A gate opens for each class that streams, probes and loads are in."""
    for path, leaving in _senders(sketch):
        expected = "a gate for it, or another priority" if leaving.is_sockets else "a gate for it"
        yield from gate_opens(sketch, path, leaving.port, leaving.priority, expected)


def gate_opens(
    sketch: Sketch, path: Path, end: End, priority: int, expected: str = "a gate for it, or another priority"
) -> Iterator[Mistake]:
    """At a port a gate opens for packets of a priority. path: of who sends them."""
    shaper = sketch.shapers.get(str(end))
    if isinstance(shaper, Taprio):
        traffic_class = shaper.class_of(priority)
        if not any(traffic_class in gate.open for gate in shaper.gates):
            what = f"priority {priority} is traffic class {traffic_class} at {end}, whose gate never opens"
            yield Mistake(path, what, expected)


def packets_need_no_launch_time(
    sketch: Sketch, path: Path, end: End, priority: int, expected: str = "another priority"
) -> Iterator[Mistake]:
    """No etf at a port drops packets of a priority for having no launch time. path: of who sends them.

    Regardless of its sockets' settings: a launch time that was not given is 0, and has passed (is_packet_valid in
    net/sched/sch_etf.c). txtime-assist gives them one.
    """
    shaper = sketch.shapers.get(str(end))
    if shaper and not shaper.gives_launch_times and isinstance(shaper.leaf(priority), Etf):
        yield Mistake(path, f"packets without a launch time are dropped by the etf at {end}", expected)


def launch_times_are_kept(sketch: Sketch) -> Iterator[Mistake]:
    """An etf takes packets with launch times of its kind, and drops all others silently.

    Source: is_packet_valid in net/sched/sch_etf.c.
    """
    for path, leaving in _senders(sketch):
        end, priority = leaving.port, leaving.priority
        shaper = sketch.shapers.get(str(end))
        leaf = shaper.leaf(priority) if shaper else None
        stream = sketch.streams.get(str(path[1])) if path[0] == "streams" and leaving.is_sockets else None
        launch = stream.launch_time if stream else None
        in_tai = next((one.kind for one in (leaf, shaper) if one and one.in_tai), None)
        if launch and launch.clock != "tai" and in_tai:
            what = f"clock {launch.clock} is not that of the {in_tai} at {end}, which drops packets that differ"
            yield Mistake((*path, "launch_time"), what, "clock: tai")
        if launch is None:
            priorities = "another priority" if leaving.is_sockets else "no etf for that of priority 0"
            expected = f"launch_time: true, or {priorities}" if stream else priorities
            yield from packets_need_no_launch_time(sketch, path, end, priority, expected)
        elif isinstance(leaf, Etf) and not (shaper and shaper.gives_launch_times):
            yield from _alike(path, end, launch, leaf)


def _alike(path: Path, end: End, launch: LaunchTime, etf: Etf) -> Iterator[Mistake]:
    if launch.deadline != etf.deadline and not etf.skip_sock_check:
        what = f"the etf at {end} has deadline: {str(etf.deadline).lower()}, and drops packets that differ"
        yield Mistake((*path, "launch_time"), what, f"deadline: {str(etf.deadline).lower()}")
    if launch.lead <= etf.delta:
        what = f"a lead of {format_duration(launch.lead)} ends before the etf at {end} wakes for the packet"
        yield Mistake((*path, "launch_time"), what, f"a lead of more than its delta, {format_duration(etf.delta)}")


def cycles_begin_together(sketch: Sketch) -> Iterator[Mistake]:
    """All streams start as a cycle of every schedule begins: those of different length do so now and then."""
    cycles = dict(where_known(sketch.shapers, lambda _, one: one.cycle if isinstance(one, Taprio) else 1))
    common = lcm(*cycles.values()) if cycles else 1
    if common > COMMON_CYCLE_NS_MAX:
        listed = ", ".join(format_duration(cycle) for cycle in dict.fromkeys(cycles.values()) if cycle > 1)
        what = f"cycles of {listed} begin together only every {format_duration(common)}"
        expected = f"cycles whose least common multiple is {format_duration(COMMON_CYCLE_NS_MAX)} or less"
        yield Mistake(("shapers",), what, expected)


def _senders(sketch: Sketch) -> Iterator[tuple[Path, Leaving]]:
    """Each stream, leg of a probe and load, and the shaped ports by which its packets, and what answers them, leave.

    What is sent on a VLAN interface leaves by the one that it is on, with its socket priority (net/8021q/vlan_dev.c).
    """

    def of_stream(name: str, one: Stream) -> tuple[Path, list[Leaving]]:
        way = _way(sketch, one.talker, one.listener, one.via)
        return ("streams", name), _ports(sketch, way, one.priority)

    def of_load(name: str, one: LoadBetween) -> tuple[Path, list[Leaving]]:
        way = _way(sketch, one.from_, one.to, one.via)
        back = _ports(sketch, way and way.back, 0) if one.has_control else []
        answers = [replace(leaving, is_sockets=False) for leaving in back]
        return ("loads", name), [*_ports(sketch, way, getattr(one, "priority", 0)), *answers]

    def of_probe(key: tuple[str, str], one: Between) -> tuple[Path, list[Leaving]]:
        # Who answers does so with the same priority, back the same way.
        way, priority = _way(sketch, one.from_, one.to, one.via), getattr(one, "priority", 0)
        return key, [*_ports(sketch, way, priority), *_ports(sketch, way and way.back, priority)]

    asking = {key: one for key, one in sketch.pairs.items() if isinstance(one, Between)}
    loads = {name: one for name, one in sketch.loads.items() if isinstance(one, LoadBetween)}
    found = (
        *where_known(sketch.streams, of_stream),
        *where_known(asking, of_probe),
        *where_known(loads, of_load),
    )
    for _, (path, ports) in found:
        yield from ((path, leaving) for leaving in ports if str(leaving.port) in sketch.shapers)


def _way(sketch: Sketch, sender: str, receiver: str, via: End | None) -> Route | None:
    """The way of a flow; None where it is not known, or is not one."""
    ways = routes(sketch.segments, sender, receiver, via)
    return ways[0] if len(ways) == 1 else None


def _ports(sketch: Sketch, way: Route | None, priority: int) -> list[Leaving]:
    return ports_of(way, priority, sketch.parent_of) if way else []
