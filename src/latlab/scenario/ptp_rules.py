"""What PTP must keep: that its ports are there and stamp packets, that each slave has a master, that packets pass."""

from __future__ import annotations

from collections.abc import Iterator

from latlab.scenario.findings import Mistake, Path, unknown
from latlab.scenario.guests import takes_all
from latlab.scenario.hosts import has_interface
from latlab.scenario.network import uplink_of
from latlab.scenario.parts import End, parse_end
from latlab.scenario.ptp import Ptp
from latlab.scenario.shaper_rules import gate_opens, is_emulated, packets_need_no_launch_time
from latlab.scenario.sketch import PTP_ENDS, Sketch, where_known

WHERE: Path = ("clock", "ptp")


def ptp_ports_are_there(sketch: Sketch) -> Iterator[Mistake]:
    """A port is an end of a link, and is started or observed."""
    for path, end in _ports(sketch):
        hosts = [str(name) for name in sketch.names.get("hosts", ())]
        if hosts and end.host not in hosts:
            yield Mistake(path, *unknown("host", end.host, hosts))
        elif end in sketch.vlan_parents:
            port = sketch.parent_of(end)
            yield Mistake(path, f"{end} is a VLAN interface, and PTP's packets have no tag", str(port))
        elif sketch.is_switched(end):
            what = f"{end} is a port of {end.host}'s switch, which forwards PTP's packets"
            yield Mistake(path, what, "an end of a link that is not a port of it")
        elif "links" in sketch.names and not sketch.loose_links:
            there = [str(other) for other in sketch.ends.values()]
            if str(end) not in there:
                yield Mistake(path, *unknown("end of a link", str(end), there))
    ptp = sketch.top.clock.ptp
    for name in (set(ptp.ports) & set(ptp.observed)) if ptp else ():
        what = f"a ptp4l is started at {name}"
        yield Mistake((*WHERE, "observed", name), what, "one that is started, or one that is observed")


def ptp_ports_stamp(sketch: Sketch) -> Iterator[Mistake]:
    """What is made for the run is no network card: it has no clock."""
    ptp = sketch.top.clock.ptp
    if ptp is None or ptp.timestamps != "hardware":
        return
    for path, end in _ports(sketch):
        if end.host in sketch.hosts and not has_interface(sketch.hosts[end.host], end.interface):
            what = f"{end} is made for the run, and has no hardware clock"
            yield Mistake(path, what, "timestamps: software, or a network card")


def ptp_emulated_cards_stamp_what_comes(sketch: Sketch) -> Iterator[Mistake]:
    """An emulated board's card stamps one type of PTP's messages at a time: with gptp a port waits for three."""
    ptp = sketch.top.clock.ptp
    if ptp is None or ptp.profile != "gptp" or ptp.timestamps == "software":
        return
    for end in map(parse_end, ptp.ports):
        if _is_card(sketch, end) and is_emulated(sketch, end):
            what = f"{end} is an emulated card, which stamps one type of message at a time, and gptp needs three"
            yield Mistake((*WHERE, "profile"), what, "profile: default, or timestamps: software")
            return


def ptp_passes_switches(sketch: Sketch) -> Iterator[Mistake]:
    """Packets for the peer delay go to an address that no bridge forwards (IEEE 802.1Q, 8.6.3)."""
    ptp = sketch.top.clock.ptp
    if ptp is None or ptp.profile == "default":
        return
    for end in map(parse_end, ptp.ports):
        if any(segment.ports and end in segment.ends for segment in sketch.segments):
            what = f"{ptp.profile} measures the delay to the next port, and the switch at {end} is not a PTP port"
            yield Mistake((*WHERE, "profile"), what, "profile: default, whose packets a switch forwards")
            return


def ptp_slaves_have_a_master(sketch: Sketch) -> Iterator[Mistake]:
    """Of a link between two ports of the scenario, one end is the master and the other the slave; beyond a switch, the
    others.

    That is a link that is made for the run, or a cable between emulated boards. A guest that takes such a card may
    keep time itself.
    """
    ptp = sketch.top.clock.ptp
    if ptp is None or not _all_are_ends(sketch):
        return
    elsewhere = {*map(parse_end, ptp.observed), *_taken(sketch)}
    for segment in sketch.segments:
        if segment.link is None or segment.vlan is not None:
            continue
        roles = [ptp.ports.get(str(end)) for end in segment.ends]
        ends = (*segment.ends, *segment.ports)
        real = sketch.is_cable(ends) and not all(is_emulated(sketch, end) for end in ends)
        if real or not any(roles) or elsewhere & {*segment.ends}:
            continue
        if roles.count("master") != 1 or "slave" not in roles:
            said = " and ".join(role or "nothing" for role in roles)
            where = f"links[{segment.number}]" + (" and of those that switches join to it" if segment.ports else "")
            yield Mistake((*WHERE, "ports"), f"the ends of {where} are {said}", "a master and a slave")


def ptp_has_one_slave_a_clock(sketch: Sketch) -> Iterator[Mistake]:
    """With software timestamps every slave that has another machine's time turns its machine's clock.

    There is one. On links that are made for the run master and slave have one clock.
    """
    ptp = sketch.top.clock.ptp
    if ptp is None or ptp.timestamps != "software":
        return
    first: dict[str | None, End] = {}
    for end, machine, _ in _turning(sketch, ptp):
        other = first.setdefault(machine, end)
        if other != end:
            what = f"{other} adjusts the same machine's clock"
            where = (*WHERE, "ports", str(end))
            yield Mistake(where, what, "one slave a machine, or timestamps: hardware")


def ptp_time_comes_from_somewhere(sketch: Sketch) -> Iterator[Mistake]:
    """No machine hands on time that it has from itself: the masters on a machine have the time of its slaves' masters.

    Of several slaves on a machine the first turns its clock.
    """
    ptp = sketch.top.clock.ptp
    if ptp is None:
        return
    leads: dict[str | None, tuple[End, End | None]] = {}
    for end, machine, master in _turning(sketch, ptp):
        leads.setdefault(machine, (end, master))
    told: set[str | None] = set()
    for machine in leads:
        way: list[str | None] = []
        at = machine
        while at in leads and at not in way:
            way.append(at)
            master = leads[at][1]
            at = sketch.machine_of(master.host) if master else at
        if at == machine and len(way) > 1 and not told & {*way}:
            told |= {*way}
            steps = ", ".join(f"{leads[one][0]} follows {leads[one][1]}" for one in way)
            where = (*WHERE, "ports", str(leads[machine][0]))
            yield Mistake(where, f"its machine's clock would follow itself: {steps}", "a machine that has no slave")


def _turning(sketch: Sketch, ptp: Ptp) -> Iterator[tuple[End, str | None, End | None]]:
    """The slaves at cards that have another machine's time: where they are, and their master if it is started, too.

    Nothing is started at a card that a guest takes.
    """
    taken = _taken(sketch)
    segments = [segment.ends for segment in sketch.segments]
    for name, role in ptp.ports.items():
        end = parse_end(name)
        if role == "slave" and _is_card(sketch, end) and end not in taken:
            machine, master = sketch.machine_of(end.host), ptp.master_of(end, segments)
            if master is None or sketch.machine_of(master.host) != machine:
                yield end, machine, master


def ptp_passes_the_shapers(sketch: Sketch) -> Iterator[Mistake]:
    """PTP's packets have no launch times, which an etf wants, and their gate has to open."""
    ptp = sketch.top.clock.ptp
    for end in map(parse_end, ptp.ports if ptp else ()):
        assert ptp
        yield from packets_need_no_launch_time(sketch, (*WHERE, "priority"), end, ptp.priority)
        yield from gate_opens(sketch, (*WHERE, "priority"), end, ptp.priority)


def _taken(sketch: Sketch) -> set[End]:
    """The ends whose packets all go to a guest."""
    takers = where_known(sketch.guests, lambda _, guest: uplink_of(guest) if takes_all(guest) else None)
    return {end for _, end in takers if end}


def _is_card(sketch: Sketch, end: End) -> bool:
    return end.host in sketch.hosts and has_interface(sketch.hosts[end.host], end.interface)


def _all_are_ends(sketch: Sketch) -> bool:
    """Whether every port that is written can be used, and is where it was meant to be, as far as is known."""
    kept = {str(end) for _, end in _ports(sketch)}
    written = {name for key in PTP_ENDS for name in sketch.ptp_names[key]}
    return written == kept <= {str(end) for end in sketch.ends.values() if not sketch.is_switched(end)}


def _ports(sketch: Sketch) -> Iterator[tuple[Path, End]]:
    ptp: Ptp | None = sketch.top.clock.ptp
    if ptp:
        for key in PTP_ENDS:
            yield from (((*WHERE, key, name), parse_end(name)) for name in getattr(ptp, key))
