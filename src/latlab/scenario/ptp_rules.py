"""What PTP must keep: that its ports are there and stamp packets, that each slave has a master, that packets pass."""

from __future__ import annotations

from collections.abc import Iterator

from latlab.scenario.findings import Finding, Path, unknown
from latlab.scenario.hosts import has_interface
from latlab.scenario.parts import End, parse_end
from latlab.scenario.ptp import Ptp
from latlab.scenario.shaper_rules import leaf_of
from latlab.scenario.shapers import Etf, Taprio
from latlab.scenario.sketch import Sketch

WHERE: Path = ("clock", "ptp")


def ptp_has_ports(sketch: Sketch) -> Iterator[Finding]:
    """PTP is started or observed somewhere."""
    ptp = sketch.top.clock.ptp
    if ptp is not None and not ptp.interfaces:
        yield Finding(WHERE, "no port", "ports: {host.interface: slave}, or observed: {host.interface: /run/ptp4l}")


def ptp_ports_are_there(sketch: Sketch) -> Iterator[Finding]:
    """A port is an end of a link, and is started or observed."""
    for path, end in _ports(sketch):
        hosts = [str(name) for name in sketch.names.get("hosts", ())]
        if hosts and end.host not in hosts:
            yield Finding(path, *unknown("host", end.host, hosts))
        elif "links" in sketch.names and not sketch.loose_links:
            there = [str(other) for other in sketch.ends.values()]
            if str(end) not in there:
                yield Finding(path, *unknown("end of a link", str(end), there))
    ptp = sketch.top.clock.ptp
    for name in (set(ptp.ports) & set(ptp.observed)) if ptp else ():
        what = f"a ptp4l is started at {name}"
        yield Finding((*WHERE, "observed", name), what, "one that is started, or one that is observed")


def ptp_ports_stamp(sketch: Sketch) -> Iterator[Finding]:
    """What is made for the run is no network card: it has no clock."""
    ptp = sketch.top.clock.ptp
    if ptp is None or ptp.timestamps != "hardware":
        return
    for path, end in _ports(sketch):
        if end.host in sketch.hosts and not has_interface(sketch.hosts[end.host], end.interface):
            what = f"{end} is made for the run, and has no clock of its own"
            yield Finding(path, what, "timestamps: software, or a network card")


def ptp_slaves_have_a_master(sketch: Sketch) -> Iterator[Finding]:
    """Of a link that is made for the run, one end is the master and the other the slave: nobody else is there."""
    ptp = sketch.top.clock.ptp
    for index, link in sketch.links.items() if ptp else ():
        assert ptp
        roles = [ptp.ports.get(str(end)) for end in link.ends]
        if sketch.is_cable(link.ends) or roles == [None, None]:
            continue
        observed = [str(end) in ptp.observed for end in link.ends]
        if sorted(map(str, roles)) != ["master", "slave"] and not any(observed):
            said = " and ".join(role or "nothing" for role in roles)
            yield Finding((*WHERE, "ports"), f"the ends of links[{index}] are {said}", "a master and a slave")


def ptp_has_one_slave_a_clock(sketch: Sketch) -> Iterator[Finding]:
    """With software timestamps every slave turns its machine's clock, of which there is one."""
    ptp = sketch.top.clock.ptp
    first: dict[str | None, str] = {}
    for name, role in ptp.ports.items() if ptp else ():
        assert ptp
        end = parse_end(name)
        if role != "slave" or end.host not in sketch.hosts:
            continue
        if (ptp.timestamps or "hardware") == "hardware" and has_interface(sketch.hosts[end.host], end.interface):
            continue
        machine = sketch.machine_of(end.host)
        masters = {sketch.machine_of(parse_end(one).host) for one, other in ptp.ports.items() if other == "master"}
        other = first.setdefault(machine, name)
        if other != name and machine not in masters:
            what = f"{other} turns the same machine's clock"
            yield Finding((*WHERE, "ports", name), what, "one slave a machine, or timestamps: hardware")


def ptp_passes_the_shapers(sketch: Sketch) -> Iterator[Finding]:
    """PTP's packets have no launch times, which an etf wants, and their gate has to open."""
    ptp = sketch.top.clock.ptp
    for name in ptp.ports if ptp else ():
        assert ptp
        shaper = sketch.shapers.get(name)
        where = (*WHERE, "priority")
        assisted = isinstance(shaper, Taprio) and shaper.mode == "txtime-assist"
        if isinstance(leaf_of(shaper, ptp.priority), Etf) and not assisted:
            what = f"packets without a launch time are dropped by the etf at {name}"
            yield Finding(where, what, "another priority")
        if isinstance(shaper, Taprio):
            traffic_class = shaper.class_of(ptp.priority)
            if not any(traffic_class in gate.open for gate in shaper.gates):
                what = f"priority {ptp.priority} is traffic class {traffic_class} at {name}, whose gate never opens"
                yield Finding(where, what, "a gate for it, or another priority")


def _ports(sketch: Sketch) -> Iterator[tuple[Path, End]]:
    ptp: Ptp | None = sketch.top.clock.ptp
    if ptp:
        for key, names in (("ports", ptp.ports), ("observed", ptp.observed)):
            yield from (((*WHERE, key, name), parse_end(name)) for name in names)
