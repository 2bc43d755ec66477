"""The rules that several values must keep together. A new rule is one function and one line in RULES."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from fractions import Fraction

from latlab.scenario.findings import Finding, Path, unknown
from latlab.scenario.hosts import is_existing
from latlab.scenario.limits import parse_limit
from latlab.scenario.links import Route, candidates, subnet_of
from latlab.scenario.loads import LoadBase
from latlab.scenario.parts import End
from latlab.scenario.sketch import Sketch
from latlab.scenario.streams import FIRST_PORT, UDP_OVERHEAD, Stream, packet_count
from latlab.scenario.units import format_duration, format_size

PACKETS_MAX = 2**32 - 1
RATE_MAX = 2_000_000
"""Packets a second of one talker: above it no Linux socket follows."""

Rule = Callable[[Sketch], Iterator[Finding]]


def warmup_ends(sketch: Sketch) -> Iterator[Finding]:
    """The warm-up leaves something to measure."""
    if sketch.duration is not None and sketch.warmup >= sketch.duration:
        expected = f"less than duration, {format_duration(sketch.duration)}"
        yield Finding(("warmup",), f"nothing is left after a warm-up of {format_duration(sketch.warmup)}", expected)


def ends_are_free(sketch: Sketch) -> Iterator[Finding]:
    """An interface is one end of one link; all local hosts share this machine's interfaces."""
    taken: dict[End, Path] = {}
    for index, link in sketch.links.items():
        for side, end in enumerate(link.ends):
            path = ("links", index, "ends", side)
            interface = End("", end.interface) if _exists(sketch, end.host) else end
            if interface in taken:
                expected = "an interface of its own for each end"
                yield Finding(path, f"{end} is an end already, of links[{taken[interface][1]}]", expected)
            taken.setdefault(interface, path)


def subnets_are_apart(sketch: Sketch) -> Iterator[Finding]:
    """No address belongs to two links."""
    networks = {index: subnet_of(index, link) for index, link in sketch.links.items()}
    for index, network in networks.items():
        for other in range(index):
            if other in networks and network.overlaps(networks[other]):
                path: Path = ("links", index, "subnet") if sketch.links[index].subnet else ("links", index)
                yield Finding(path, f"{network} overlaps {networks[other]} of links[{other}]", "networks of their own")


def streams_have_routes(sketch: Sketch) -> Iterator[Finding]:
    """Exactly one link carries a stream."""
    for name, stream in sketch.streams.items():
        yield from _route_findings(sketch, ("streams", name), (stream.talker, "listener", stream.listener), stream.via)


def loads_have_routes(sketch: Sketch) -> Iterator[Finding]:
    """Exactly one link carries a load."""
    for name, load in sketch.loads.items():
        yield from _route_findings(sketch, ("loads", name), (load.from_, "to", load.to), load.via)


def ip_leaves_the_host(sketch: Sketch) -> Iterator[Finding]:
    """IP between interfaces of one network namespace goes over loopback: it never reaches the cable."""
    flows: list[tuple[Path, Stream | LoadBase]] = [(("streams", name), s) for name, s in sketch.streams.items()]
    flows += [(("loads", name), load) for name, load in sketch.loads.items()]
    for path, flow in flows:
        raw = isinstance(flow, Stream) and flow.transport == "ethernet"
        here, there = (flow.talker, flow.listener) if isinstance(flow, Stream) else (flow.from_, flow.to)
        if not raw and here != there and _exists(sketch, here) and _exists(sketch, there):
            expected = "one of them of kind netns"
            expected += ", or transport: ethernet" if isinstance(flow, Stream) else ""
            yield Finding(path, f"IP from {here} to {there}, both local, would go over loopback", expected)


def streams_fit_their_transport(sketch: Sketch) -> Iterator[Finding]:
    """VLAN fields go with raw frames; priorities in a tag need one."""
    for name, stream in sketch.streams.items():
        path = ("streams", name)
        if stream.transport == "udp" and stream.vlan is not None:
            yield Finding((*path, "vlan"), "a UDP socket writes no VLAN tag", "transport: ethernet")
        elif stream.vlan is None and stream.pcp is not None:
            yield Finding((*path, "pcp"), "a pcp stands in a VLAN tag", "a vlan beside it")
        if stream.transport == "ethernet" and stream.port is not None:
            yield Finding((*path, "port"), "raw frames have no port", "transport: udp")
        if stream.transport == "udp" and "ethertype" in stream.model_fields_set:
            yield Finding((*path, "ethertype"), "UDP has an EtherType of its own", "transport: ethernet")


def streams_fit_the_mtu(sketch: Sketch) -> Iterator[Finding]:
    """A probe is one frame."""
    for name, stream in sketch.streams.items():
        for route in _routes(sketch, stream):
            room = route.link.mtu - (UDP_OVERHEAD if stream.transport == "udp" else 0)
            if stream.size > room:
                size = format_size(stream.size)
                what = f"{size} would be fragmented" if stream.transport == "udp" else f"{size} do not fit into a frame"
                yield Finding(("streams", name, "size"), what, f"{room}B or less (mtu {route.link.mtu})")


def streams_have_packets(sketch: Sketch) -> Iterator[Finding]:
    """A stream has packets, and no more than can be numbered."""
    for name, stream in sketch.streams.items():
        if stream.offset >= stream.period:
            what = f"an offset of {format_duration(stream.offset)} is a period or more"
            yield Finding(("streams", name, "offset"), what, f"less than {format_duration(stream.period)}")
        elif sketch.duration is not None:
            count = packet_count(stream, sketch.duration)
            if count < 1:
                what = f"no packet is launched within {format_duration(sketch.duration)}"
                yield Finding(("streams", name), what, "an offset less than duration")
            elif count > PACKETS_MAX:
                yield Finding(("streams", name, "period"), f"{count} packets", f"{PACKETS_MAX} or fewer")


def talkers_keep_up(sketch: Sketch) -> Iterator[Finding]:
    """The streams of one talker together ask for a packet rate that is possible."""
    rates: dict[str, Fraction] = defaultdict(Fraction)
    for name, stream in sketch.streams.items():
        before = rates[stream.talker]
        rates[stream.talker] += Fraction(10**9, stream.period)
        if before <= RATE_MAX < rates[stream.talker]:
            what = f"{stream.talker} would send {int(rates[stream.talker])} packets/s"
            yield Finding(("streams", name, "period"), what, f"{RATE_MAX} or fewer, all its streams together")


def ports_are_free(sketch: Sketch) -> Iterator[Finding]:
    """A listener receives one stream on a port."""
    if sketch.misses("streams"):
        return  # the index, which the default port comes from, is not known
    taken: dict[tuple[str, int], str] = {}
    for index, (name, stream) in enumerate(sketch.streams.items()):
        if stream.transport == "udp":
            port = stream.port or FIRST_PORT + index
            first = taken.setdefault((stream.listener, port), name)
            if first != name:
                path: Path = ("streams", name, "port") if stream.port else ("streams", name)
                yield Finding(path, f"port {port} of {stream.listener} is taken by {first}", "another port")


def listeners_leave_a_cpu(sketch: Sketch) -> Iterator[Finding]:
    """A listener that spins is confined; one that is to poll has a time to do it."""
    for host, tuning in sketch.tuning.items():
        listener, path = tuning.listener, ("tuning", host, "listener")
        if listener.mode == "spin" and listener.fifo is not None and listener.cpus is None:
            what = f"spinning at SCHED_FIFO {listener.fifo} on every CPU would stop the machine"
            yield Finding((*path, "mode"), what, "cpus: [n] beside it, or fifo: null")
        if listener.mode == "busy-poll" and listener.busy_poll is None:
            yield Finding((*path, "busy_poll"), "mode busy-poll without a time", "a duration such as 50us")


def limits_are_statistics(sketch: Sketch) -> Iterator[Finding]:
    """Every accepted limit is one of a statistic that results have."""
    for path, value in sketch.accept.items():
        limit = parse_limit(path, value)
        if isinstance(limit, Finding):
            yield limit


RULES: tuple[Rule, ...] = (
    warmup_ends,
    ends_are_free,
    subnets_are_apart,
    streams_have_routes,
    loads_have_routes,
    ip_leaves_the_host,
    streams_fit_their_transport,
    streams_fit_the_mtu,
    streams_have_packets,
    talkers_keep_up,
    ports_are_free,
    listeners_leave_a_cpu,
    limits_are_statistics,
)


def _exists(sketch: Sketch, host: str) -> bool:
    return host in sketch.hosts and is_existing(sketch.hosts[host])


def _routes(sketch: Sketch, stream: Stream) -> list[Route]:
    return candidates(sketch.links, stream.talker, stream.listener, stream.via)


def _route_findings(sketch: Sketch, path: Path, flow: tuple[str, str, str], via: End | None) -> Iterator[Finding]:
    """flow: the sending host, the key that names the receiver, the receiving host."""
    sender, receiver_key, receiver = flow
    if sender == receiver:
        yield Finding((*path, receiver_key), f"{receiver} would send to itself", "another host")
        return
    named = {sender, receiver, *(end.host for link in sketch.links.values() for end in link.ends)}
    if sketch.misses("links") or not named <= sketch.hosts.keys():
        return  # a follow-up of what is reported already
    joining = candidates(sketch.links, sender, receiver, None)
    starts = [str(route.talker_end) for route in joining]
    if not joining:
        expected = f"a link such as {{ends: [{sender}.eth0, {receiver}.eth0]}} in links"
        yield Finding(path, f"no link joins {sender} and {receiver}", expected)
    elif via is not None and str(via) not in starts:
        yield Finding((*path, "via"), *unknown("way", str(via), starts))
    elif via is None and len(joining) > 1:
        yield Finding(path, f"{len(joining)} links join {sender} and {receiver}", f"via: {' or '.join(starts)}")
