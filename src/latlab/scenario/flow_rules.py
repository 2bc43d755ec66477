"""What each stream and each load must keep: how its values fit together, and onto the links."""

from __future__ import annotations

from collections.abc import Iterator

from latlab.scenario.findings import Finding, Path, show_path, unknown
from latlab.scenario.guest_rules import is_placed
from latlab.scenario.loads import LoadBase
from latlab.scenario.network import routes
from latlab.scenario.sketch import Sketch
from latlab.scenario.streams import UDP_OVERHEAD, LaunchTime, Stream, packet_count
from latlab.scenario.units import format_duration, format_size

PACKETS_MAX = 2**32 - 1


def stream_has_a_route(sketch: Sketch, path: Path, stream: Stream) -> Iterator[Finding]:
    """Exactly one way carries a stream."""
    yield from _route(sketch, path, stream, (stream.talker, "listener", stream.listener))


def load_has_a_route(sketch: Sketch, path: Path, load: LoadBase) -> Iterator[Finding]:
    """Exactly one way carries a load."""
    yield from _route(sketch, path, load, (load.from_, "to", load.to))


def stream_leaves_the_host(sketch: Sketch, path: Path, stream: Stream) -> Iterator[Finding]:
    """IP between interfaces of one network namespace goes over loopback: it never reaches the cable."""
    if stream.transport == "udp":
        expected = "one of them of kind netns, or transport: ethernet"
        yield from _loopback(sketch, path, (stream.talker, stream.listener), expected)


def load_leaves_the_host(sketch: Sketch, path: Path, load: LoadBase) -> Iterator[Finding]:
    """The same of loads, which are all IP."""
    yield from _loopback(sketch, path, (load.from_, load.to), "one of them of kind netns")


def tag_goes_with_a_vlan(_: Sketch, path: Path, stream: Stream) -> Iterator[Finding]:
    """A priority in a tag needs the tag."""
    if stream.vlan is None and stream.pcp is not None:
        yield Finding((*path, "pcp"), "a pcp stands in a VLAN tag", "a vlan beside it")


def vlan_goes_with_frames(_: Sketch, path: Path, stream: Stream) -> Iterator[Finding]:
    """A VLAN tag is in frames that are written whole."""
    if stream.transport == "udp" and stream.vlan is not None:
        yield Finding((*path, "vlan"), "a UDP socket writes no VLAN tag", "transport: ethernet")


def port_goes_with_udp(_: Sketch, path: Path, stream: Stream) -> Iterator[Finding]:
    """A port is UDP's."""
    if stream.transport == "ethernet" and stream.port is not None:
        yield Finding((*path, "port"), "raw frames have no port", "transport: udp")


def ethertype_goes_with_frames(_: Sketch, path: Path, stream: Stream) -> Iterator[Finding]:
    """An EtherType can be chosen of frames that are written whole."""
    if stream.transport == "udp" and "ethertype" in stream.model_fields_set:
        yield Finding((*path, "ethertype"), "UDP has an EtherType of its own", "transport: ethernet")


def stream_fits_the_mtu(sketch: Sketch, path: Path, stream: Stream) -> Iterator[Finding]:
    """A probe is one frame."""
    for mtu in {route.segment.mtu: "" for route in routes(sketch.segments, stream.talker, stream.listener, stream.via)}:
        room = mtu - (UDP_OVERHEAD if stream.transport == "udp" else 0)
        if stream.size > room:
            size = format_size(stream.size)
            what = f"{size} would be fragmented" if stream.transport == "udp" else f"{size} do not fit into a frame"
            yield Finding((*path, "size"), what, f"{room}B or less (mtu {mtu})")


def offset_is_within_a_period(_: Sketch, path: Path, stream: Stream) -> Iterator[Finding]:
    """The offset shifts a stream by less than a period."""
    if stream.offset >= stream.period:
        what = f"an offset of {format_duration(stream.offset)} is a period or more"
        yield Finding((*path, "offset"), what, f"less than {format_duration(stream.period)}")


def lateness_has_its_settings(_: Sketch, path: Path, stream: Stream) -> Iterator[Finding]:
    """What says how late packets are sent is there where they are, and leaves those in time alone."""
    launch, where = stream.launch_time, (*path, "launch_time")
    if launch is None:
        return
    if launch.late != "send":
        for key in ("allowed_lateness", "margin"):
            if getattr(launch, key) != LaunchTime.model_fields[key].default:
                yield Finding((*where, key), f"late: {launch.late} sends no packet later than asked", "late: send")
        return
    if launch.allowed_lateness == 0:
        yield Finding((*where, "late"), "how late a packet may be sent is not said", "an allowed_lateness beside it")
    if launch.margin >= launch.lead:
        what = f"with a margin of {format_duration(launch.margin)} no packet would keep its launch time"
        yield Finding((*where, "margin"), what, f"less than the lead, {format_duration(launch.lead)}")


def stream_has_packets(sketch: Sketch, path: Path, stream: Stream) -> Iterator[Finding]:
    """A stream has packets, and no more than can be numbered."""
    count = packet_count(stream, sketch.top.duration)
    if count > PACKETS_MAX:
        yield Finding((*path, "period"), f"{count} packets", f"{PACKETS_MAX} or fewer")
    elif count < 1 and stream.offset < stream.period:
        what = f"no packet is launched within {format_duration(sketch.top.duration)}"
        yield Finding(path, what, "an offset less than duration")


def _loopback(sketch: Sketch, path: Path, ends: tuple[str, str], expected: str) -> Iterator[Finding]:
    here, there = ends
    both = sketch.sharing(here, there)
    if both:
        yield Finding(path, f"IP from {here} to {there}, both {both}, would go over loopback", expected)


def _route(sketch: Sketch, path: Path, flow: Stream | LoadBase, ends: tuple[str, str, str]) -> Iterator[Finding]:
    """ends: the sending host, the key that names the receiver, the receiving host."""
    sender, receiver_key, receiver = ends
    if sender == receiver:
        yield Finding((*path, receiver_key), f"{receiver} would send to itself", "another host")
        return
    if not {sender, receiver} <= {*sketch.names.get("hosts", ()), *sketch.names.get("guests", ())}:
        return  # which of them is unknown is reported already
    joining = routes(sketch.segments, sender, receiver, None)
    starts = list(dict.fromkeys(str(route.talker_end) for route in joining))
    ways = [route for route in joining if flow.via in (None, route.talker_end)]
    if not joining:
        if not _may_join(sketch, {sender, receiver}):
            yield Finding(path, f"no link joins {sender} and {receiver}", _to_join_them(sketch, sender, receiver))
    elif not ways:
        if not _may_join(sketch, {sender, receiver}):
            yield Finding((*path, "via"), *unknown("way", str(flow.via), starts))
    elif flow.via is None and len(starts) > 1:
        what = "links and VLANs" if any(route.segment.vlan for route in joining) else "links"
        expected = f"via: {' or '.join(starts)}"
        yield Finding(path, f"{len(joining)} {what} join {sender} and {receiver}", expected)
    elif len(ways) > 1:
        ends_there = " or ".join(str(route.listener_end) for route in ways)
        expected = f"a host of its own for each end of {show_path(ways[0].segment.path)}"
        yield Finding((*path, receiver_key), f"{sender} could send to {ends_there}", expected)


def _to_join_them(sketch: Sketch, *names: str) -> str:
    """What would join two that nothing joins."""
    guests = [name for name in names if name in sketch.guests]
    if not guests:
        return f"a link such as {{ends: [{names[0]}.eth0, {names[1]}.eth0]}} in links"
    other = next((name for name in names if name not in guests), None)
    if other is None:
        return "uplinks of both that one link joins"
    return f"an uplink of {guests[0]} that a link joins to {other}"


def _may_join(sketch: Sketch, names: set[str]) -> bool:
    """True where a link or a guest that is wrong, put right, could join the two."""
    guests = names & set(map(str, sketch.names.get("guests", ())))
    if not all(is_placed(sketch, name) for name in guests):
        return True
    hosts = {sketch.guests[name].host if name in guests else name for name in names}
    return "links" not in sketch.names or any(right <= hosts for right in sketch.loose_links)
