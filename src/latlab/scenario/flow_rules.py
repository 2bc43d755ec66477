"""What each stream, probe and load must keep: how its values fit together, and onto the links.

A ping has what a stream has, under the same names, so it keeps the same rules; `asks` and `pings` pick the probes out
that a rule is of, and `sent` the loads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from latlab.model.limits import LIMITS
from latlab.model.units import MICROSECOND_NS, SECOND_NS
from latlab.scenario.findings import Mistake, Path, show_path, unknown
from latlab.scenario.host_rules import is_placed
from latlab.scenario.loads import Load, LoadBetween, LoadOn, StressNg
from latlab.scenario.network import routes
from latlab.scenario.parts import Part
from latlab.scenario.probes import Between, DdsProbe, OnOne, PingProbe, ProbeBase, TimerProbe
from latlab.scenario.sketch import Sketch
from latlab.scenario.streams import (
    CARRIERS,
    UDP_OVERHEAD,
    LaunchTime,
    Stream,
    beside_the_probe,
    copied_otherwise,
    launches,
)
from latlab.scenario.tuning import Tuning
from latlab.scenario.units import format_duration, format_size

PACKETS_MAX = 2**32 - 1
ONLY_BY_PROGRAMS = ("ebpf", "both")

Judge = Callable[[Sketch, Path, Any], Iterator[Mistake]]


def asks(judge: Judge) -> Judge:
    """The same rule of those probes only that ask another host."""
    return _of(Between, judge)


def pings(judge: Judge) -> Judge:
    """The same rule of pings only."""
    return _of(PingProbe, judge)


def own(judge: Judge) -> Judge:
    """The same rule of all probes that latlab's own agents ask and answer."""
    return _of((PingProbe, DdsProbe), judge)


def dds(judge: Judge) -> Judge:
    """The same rule of latlab's probes over DDS only."""
    return _of(DdsProbe, judge)


def _of(kind: type[Part] | tuple[type[Part], ...], judge: Judge) -> Judge:
    def rule(sketch: Sketch, path: Path, part: Part) -> Iterator[Mistake]:
        if isinstance(part, kind):
            yield from judge(sketch, path, part)

    return rule


def sent(judge: Judge) -> Judge:
    """The same rule of those loads only that are sent to another host."""
    return _of(LoadBetween, judge)


def stream_has_a_route(sketch: Sketch, path: Path, stream: Stream) -> Iterator[Mistake]:
    """Exactly one way carries a stream."""
    yield from _route(sketch, path, stream, (stream.talker, "listener", stream.listener))


def probe_has_a_route(sketch: Sketch, path: Path, probe: Between) -> Iterator[Mistake]:
    """Exactly one way carries a probe's questions; its answers go back the same."""
    yield from _route(sketch, path, probe, (probe.from_, "to", probe.to))


def load_has_a_route(sketch: Sketch, path: Path, load: LoadBetween) -> Iterator[Mistake]:
    """Exactly one way carries a load."""
    yield from _route(sketch, path, load, (load.from_, "to", load.to))


def stream_leaves_the_host(sketch: Sketch, path: Path, stream: Stream) -> Iterator[Mistake]:
    """IP between interfaces of one network namespace goes over loopback: it never reaches the cable."""
    if stream.transport == "udp":
        expected = "one of them of kind netns, or transport: ethernet"
        yield from _loopback(sketch, path, (stream.talker, stream.listener), expected)


def probe_leaves_the_host(sketch: Sketch, path: Path, probe: Between) -> Iterator[Mistake]:
    """The same of probes: all are IP but a ping of raw frames."""
    if not isinstance(probe, PingProbe):
        yield from _loopback(sketch, path, (probe.from_, probe.to), "one of them of kind netns")
    elif probe.transport != "ethernet":
        expected = "one of them of kind netns, or transport: ethernet"
        yield from _loopback(sketch, path, (probe.from_, probe.to), expected)


def load_leaves_the_host(sketch: Sketch, path: Path, load: LoadBetween) -> Iterator[Mistake]:
    """The same of loads, which are all IP."""
    yield from _loopback(sketch, path, (load.from_, load.to), "one of them of kind netns")


def tag_goes_with_a_vlan(_: Sketch, path: Path, stream: Stream | PingProbe) -> Iterator[Mistake]:
    """A priority in a tag needs the tag."""
    if stream.vlan is None and stream.pcp is not None:
        yield Mistake((*path, "pcp"), "a pcp is part of a VLAN tag", "a vlan in addition")


def vlan_goes_with_frames(_: Sketch, path: Path, stream: Stream | PingProbe) -> Iterator[Mistake]:
    """A VLAN tag is in frames that are written whole."""
    if stream.transport != "ethernet" and stream.vlan is not None:
        what = f"a {stream.transport.upper()} socket writes no VLAN tag"
        yield Mistake((*path, "vlan"), what, "transport: ethernet")


def group_goes_with_frames(_: Sketch, path: Path, stream: Stream) -> Iterator[Mistake]:
    """A group of Ethernet is the destination of a frame that is written whole."""
    if stream.transport != "ethernet" and stream.group is not None:
        yield Mistake((*path, "group"), "a UDP socket writes no MAC address", "transport: ethernet")


def copy_is_the_same(sketch: Sketch, path: Path, stream: Stream) -> Iterator[Mistake]:
    """Both streams of a PRP pair are the same frames, to a group, over two links."""
    if stream.prp is None or (first := sketch.streams.get(stream.prp)) is None:
        return
    where = (*path, "prp")
    copies = [name for name, one in sketch.streams.items() if one.prp == stream.prp]
    if first.prp is not None or stream.prp == path[-1] or copies[0] != path[-1]:
        yield Mistake(where, f"{stream.prp} has a copy already, or is one", "a pair of two streams")
        return
    for key in copied_otherwise(first, stream):
        yield Mistake((*path, key), f"a copy of {stream.prp} has the same {key}", f"that of {stream.prp}")
    if stream.group is None:
        yield Mistake(where, "the frames of both LANs go to one address", "a group, as 01:0c:cd:04:00:01")
    if stream.via is None or stream.via == first.via:
        yield Mistake((*path, "via"), f"a copy goes by another link than {stream.prp}", "the talker's other interface")
    if sketch.top.timestamps.by in ONLY_BY_PROGRAMS:
        yield Mistake(where, "BPF programs do not recognise both copies", "timestamps: {by: auto}")


def port_goes_with_udp(_: Sketch, path: Path, stream: Stream | PingProbe) -> Iterator[Mistake]:
    """A port is UDP's."""
    if stream.transport == "ethernet" and stream.port is not None:
        yield Mistake((*path, "port"), "raw frames have no port", "transport: udp")


def ethertype_goes_with_frames(_: Sketch, path: Path, stream: Stream | PingProbe) -> Iterator[Mistake]:
    """An EtherType can be chosen of frames that are written whole."""
    if stream.transport != "ethernet" and "ethertype" in stream.model_fields_set:
        what = f"{stream.transport.upper()} has its own EtherType"
        yield Mistake((*path, "ethertype"), what, "transport: ethernet")


def payload_has_its_frames(sketch: Sketch, path: Path, stream: Stream) -> Iterator[Mistake]:
    """A protocol of layer 2 has its own frames, with its own EtherType, and room for so much."""
    carrier = CARRIERS.get(stream.payload)
    if carrier is None:
        return
    if stream.transport != "ethernet":
        yield Mistake((*path, "transport"), f"{stream.payload} is in frames, not in UDP", "transport: ethernet")
    if stream.ethertype != carrier.ether_type:
        what = f"{stream.payload} has another EtherType"
        yield Mistake((*path, "ethertype"), what, f"{carrier.ether_type:#06x}, or none")
    least, most = carrier.sizes
    if not least <= stream.size <= most:
        expected = f"{least}B" if least == most else f"{least}B to {most}B"
        yield Mistake((*path, "size"), f"{stream.payload} has no room for {format_size(stream.size)}", expected)


def timestamps_are_of_messages(sketch: Sketch, path: Path, probe: PingProbe | DdsProbe) -> Iterator[Mistake]:
    """The socket's timestamps of TCP are of bytes, not of messages; DDS has its own sockets, and samples may be cut."""
    by, what = sketch.top.timestamps.by, "TCP messages" if isinstance(probe, PingProbe) else "DDS samples"
    if probe.timestamps == "user" or (isinstance(probe, PingProbe) and probe.transport != "tcp"):
        return
    if by in ("socket", "both"):
        what = f"the socket has no timestamps of {what}, and timestamps.by is {by}"
        yield Mistake((*path, "timestamps"), what, "timestamps: user, or by: auto")
    if isinstance(probe, DdsProbe) and probe.size > LIMITS.dds_datagram_bytes:
        what = f"a sample of {format_size(probe.size)} goes in several datagrams, which have no kernel timestamps"
        yield Mistake(
            (*path, "timestamps"), what, f"timestamps: user, or a size of {LIMITS.dds_datagram_bytes}B or less"
        )


def stream_fits_the_mtu(sketch: Sketch, path: Path, stream: Stream) -> Iterator[Mistake]:
    """A probe is one frame."""
    for mtu in {route.segment.mtu: "" for route in routes(sketch.segments, stream.talker, stream.listener, stream.via)}:
        room = mtu - (UDP_OVERHEAD if stream.transport == "udp" else beside_the_probe(sketch.streams, str(path[1])))
        if stream.size > room:
            size = format_size(stream.size)
            what = f"{size} would be fragmented" if stream.transport == "udp" else f"{size} do not fit into a frame"
            yield Mistake((*path, "size"), what, f"{room}B or less (mtu {mtu})")


def ping_fits_the_mtu(sketch: Sketch, path: Path, probe: PingProbe) -> Iterator[Mistake]:
    """A raw frame is one frame. What UDP and TCP are given beyond one they part, and the report says into how many."""
    if probe.transport == "ethernet":
        for mtu in {route.segment.mtu: "" for route in routes(sketch.segments, *probe.ends)}:
            if probe.size > mtu:
                what = f"{format_size(probe.size)} do not fit into a frame"
                expected = f"{mtu}B or less (mtu {mtu}), or transport: udp, which sends them in several"
                yield Mistake((*path, "size"), what, expected)


def offset_has_a_period(_: Sketch, path: Path, probe: PingProbe | DdsProbe) -> Iterator[Mistake]:
    """An offset shifts a schedule by less than its period; a closed loop has none."""
    if probe.period is None:
        if probe.offset:
            yield Mistake(
                (*path, "offset"), "a closed loop has no period, so it has no offset", "a period, or no offset"
            )
    elif probe.offset >= probe.period:
        what = f"an offset of {format_duration(probe.offset)} is a period or more"
        yield Mistake((*path, "offset"), what, f"less than {format_duration(probe.period)}")


def ping_has_packets(sketch: Sketch, path: Path, probe: PingProbe | DdsProbe) -> Iterator[Mistake]:
    """A ping at a rate has questions, and no more than can be numbered."""
    if probe.period is not None:
        yield from _packets(sketch, path, launches(probe.offset, probe.period, sketch.top.duration))


def tool_has_a_second(sketch: Sketch, path: Path, probe: Between) -> Iterator[Mistake]:
    """A tool measures for whole seconds, from the end of the warm-up on."""
    if not probe.is_recorded:
        yield from _has_a_second(sketch, path, probe)


def _has_a_second(sketch: Sketch, path: Path, probe: ProbeBase) -> Iterator[Mistake]:
    if 0 < sketch.top.duration - sketch.top.warmup < SECOND_NS:
        left = format_duration(sketch.top.duration - sketch.top.warmup)
        what = f"{probe.kind} measures for whole seconds, and {left} are left after the warm-up"
        yield Mistake(path, what, "a duration of 1s or more beyond the warm-up")


def timer_offset_is_within_a_period(_: Sketch, path: Path, probe: ProbeBase) -> Iterator[Mistake]:
    """The offset shifts a timer by less than its period."""
    if isinstance(probe, TimerProbe) and probe.offset >= probe.period:
        what = f"an offset of {format_duration(probe.offset)} is a period or more"
        yield Mistake((*path, "offset"), what, f"less than {format_duration(probe.period)}")


def timer_has_instants(sketch: Sketch, path: Path, probe: ProbeBase) -> Iterator[Mistake]:
    """A timer of ours has an instant after the warm-up, and no more than its agent can count."""
    if not isinstance(probe, TimerProbe):
        return
    count = launches(probe.offset, probe.period, sketch.top.duration)
    if count == launches(probe.offset, probe.period, sketch.top.warmup):
        what = f"none of its instants is after the warm-up, {format_duration(sketch.top.warmup)}"
        yield Mistake((*path, "period"), what, "a shorter period, or a longer duration")
    elif count > PACKETS_MAX:
        yield Mistake((*path, "period"), f"{count} instants", f"{PACKETS_MAX} or fewer: a longer period")


def one_host_tool_has_a_second(sketch: Sketch, path: Path, probe: ProbeBase) -> Iterator[Mistake]:
    """cyclictest and timerlat measure for whole seconds, and their periods are whole microseconds."""
    if not isinstance(probe, OnOne) or isinstance(probe, TimerProbe):
        return
    yield from _has_a_second(sketch, path, probe)
    if probe.period % MICROSECOND_NS:
        what = f"{probe.kind} takes its period in whole microseconds"
        yield Mistake((*path, "period"), what, "a period such as 1ms or 250us")


def spinning_ping_is_confined(sketch: Sketch, path: Path, probe: PingProbe) -> Iterator[Mistake]:
    """Who asks waits for answers as its host's listener does, at its talker's priority."""
    tuning = sketch.tuning.get(probe.from_)
    if tuning and tuning.listener.mode == "spin" and tuning.talker.fifo is not None and tuning.talker.cpus is None:
        what = f"{probe.from_} would poll for answers at SCHED_FIFO {tuning.talker.fifo} on every CPU"
        yield Mistake(path, what, f"tuning.{probe.from_}.talker.cpus: [n], or its fifo: null")


def spinning_dds_is_confined(sketch: Sketch, path: Path, probe: DdsProbe) -> Iterator[Mistake]:
    """Who spins for samples does it as its host's talker, or its listener."""
    if probe.take != "spin":
        return
    asks, answers = (sketch.tuning.get(host, Tuning()) for host in (probe.from_, probe.to))
    for host, role, runs in ((probe.from_, "talker", asks.talker), (probe.to, "listener", answers.listener)):
        if runs.fifo is not None and runs.cpus is None:
            what = f"{host} would poll for samples at SCHED_FIFO {runs.fifo} on every CPU"
            yield Mistake((*path, "take"), what, f"tuning.{host}.{role}.cpus: [n], or its fifo: null")


def offset_is_within_a_period(_: Sketch, path: Path, stream: Stream) -> Iterator[Mistake]:
    """The offset shifts a stream by less than a period."""
    if stream.offset >= stream.period:
        what = f"an offset of {format_duration(stream.offset)} is a period or more"
        yield Mistake((*path, "offset"), what, f"less than {format_duration(stream.period)}")


def lateness_has_its_settings(_: Sketch, path: Path, stream: Stream) -> Iterator[Mistake]:
    """What says how late packets are sent is there where they are, and leaves those in time alone."""
    launch, where = stream.launch_time, (*path, "launch_time")
    if launch is None:
        return
    if launch.late != "send":
        for key in ("allowed_lateness", "margin"):
            if getattr(launch, key) != LaunchTime.model_fields[key].default:
                yield Mistake((*where, key), f"late: {launch.late} sends no packet later than asked", "late: send")
        return
    if launch.allowed_lateness == 0:
        yield Mistake((*where, "late"), "it needs a limit for late packets", "an allowed_lateness in addition")
    if launch.margin >= launch.lead:
        what = f"with a margin of {format_duration(launch.margin)} no packet would have its launch time kept"
        yield Mistake((*where, "margin"), what, f"less than the lead, {format_duration(launch.lead)}")


def stream_has_packets(sketch: Sketch, path: Path, stream: Stream) -> Iterator[Mistake]:
    """A stream has packets, and no more than can be numbered."""
    count = launches(stream.offset, stream.period, sketch.top.duration)
    if count > 0 or stream.offset < stream.period:
        yield from _packets(sketch, path, count)


def _packets(sketch: Sketch, path: Path, count: int) -> Iterator[Mistake]:
    if count > PACKETS_MAX:
        yield Mistake((*path, "period"), f"{count} packets", f"{PACKETS_MAX} or fewer")
    elif count < 1:
        what = f"no packet is launched within {format_duration(sketch.top.duration)}"
        yield Mistake(path, what, "an offset less than duration")


def _loopback(sketch: Sketch, path: Path, ends: tuple[str, str], expected: str) -> Iterator[Mistake]:
    here, there = ends
    both = sketch.sharing(here, there)
    if both:
        yield Mistake(path, f"IP from {here} to {there}, both {both}, would go over loopback", expected)


def _route(
    sketch: Sketch, path: Path, flow: Stream | Between | LoadBetween, ends: tuple[str, str, str]
) -> Iterator[Mistake]:
    """ends: the sending host, the key that names the receiver, the receiving host."""
    sender, receiver_key, receiver = ends
    if sender == receiver:
        yield Mistake((*path, receiver_key), f"{receiver} would send to itself", "another host")
        return
    if not {sender, receiver} <= {*sketch.names.get("hosts", ()), *sketch.names.get("guests", ())}:
        return  # which of them is unknown is reported already
    joining = routes(sketch.segments, sender, receiver, None)
    starts = list(dict.fromkeys(str(route.talker_end) for route in joining))
    ways = [route for route in joining if flow.via in (None, route.talker_end)]
    if not joining:
        if not _may_join(sketch, {sender, receiver}):
            yield Mistake(path, f"no link joins {sender} and {receiver}", _to_join_them(sketch, sender, receiver))
    elif not ways:
        if not _may_join(sketch, {sender, receiver}):
            yield Mistake((*path, "via"), *unknown("path", str(flow.via), starts))
    elif flow.via is None and len(starts) > 1:
        what = "links and VLANs" if any(route.segment.vlan for route in joining) else "links"
        expected = f"via: {' or '.join(starts)}"
        yield Mistake(path, f"{len(joining)} {what} join {sender} and {receiver}", expected)
    elif len(ways) > 1:
        ends_there = " or ".join(str(route.listener_end) for route in ways)
        expected = f"a different host for each end of {show_path(ways[0].segment.path)}"
        yield Mistake((*path, receiver_key), f"{sender} could send to {ends_there}", expected)


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


# What each load that keeps one host or guest busy must keep.


def work_has_its_size(_: Sketch, path: Path, load: Load) -> Iterator[Mistake]:
    """Memory and files have a size, and files a folder; computing has neither."""
    if not isinstance(load, StressNg):
        return
    if load.what == "cpu" and load.size is not None:
        yield Mistake((*path, "size"), "what: cpu uses almost no memory", "what: memory or io, or no size")
    if load.what != "io" and load.path is not None:
        yield Mistake((*path, "path"), f"{load.what} writes no files", "what: io, or no path")


def files_are_on_a_disk(sketch: Sketch, path: Path, load: Load) -> Iterator[Mistake]:
    """A guest of ours has its files in its memory: what is written there is no input or output."""
    if isinstance(load, StressNg) and load.what == "io" and load.on in sketch.guests:
        guest = sketch.guests[load.on]
        if guest.is_ours:
            what = f"{load.on} has its files in memory, not on a disk"
            expected = f"kind: flood from {load.on}, whose packets its hypervisor carries; or io on its host"
            yield Mistake((*path, "what"), what, expected)


def work_is_confined(sketch: Sketch, path: Path, load: Load) -> Iterator[Mistake]:
    """What never sleeps leaves its machine a CPU."""
    if not isinstance(load, LoadOn):
        return
    own = sketch.tuning.get(load.on, Tuning()).load
    if own.fifo is not None and own.cpus is None:
        what = f"{load.kind} at SCHED_FIFO {own.fifo} on every CPU would stop {load.on}"
        yield Mistake(path, what, f"tuning.{load.on}.load.cpus: [n], or its fifo: null")
