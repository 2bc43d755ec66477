"""The rules that several values must keep together. A new rule is one function and one line in RULES.

A rule says nothing of values that are wrong in themselves: asking for one raises UnknownError, which ends the rule, or,
for those of each stream or load, its judgement of that one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial
from typing import Any

from latlab.model.bridges import KINDS
from latlab.model.units import SECOND_NS
from latlab.scenario import flow_rules as flows
from latlab.scenario import host_rules as hosts
from latlab.scenario import limit_rules as limits
from latlab.scenario import ptp_rules as ptp
from latlab.scenario import shaper_rules as shapers
from latlab.scenario import tuning_rules as tuning
from latlab.scenario import vlan_rules as vlans
from latlab.scenario.findings import Mistake, Path, show_path, unknown
from latlab.scenario.flows import given_port, leg_number
from latlab.scenario.hosts import has_interface
from latlab.scenario.network import routes
from latlab.scenario.parts import End, UnknownError
from latlab.scenario.probes import Between, OverDds, PingProbe
from latlab.scenario.sketch import Sketch, known, where_known
from latlab.scenario.streams import CLOCK_PORT, Stream
from latlab.scenario.units import format_duration
from latlab.scenario.watched import SOCKET, TAP, FlowPoint

RATE_MAX = 2_000_000
"""Packets a second of one talker: above it no Linux socket follows."""

Rule = Callable[[Sketch], Iterator[Mistake]]


def each(collection: str, judge: Callable[[Sketch, Path, Any], Iterator[Mistake]]) -> Rule:
    """The rule that judges each entry of a collection alone."""

    def rule(sketch: Sketch) -> Iterator[Mistake]:
        for name, part in getattr(sketch, collection).items():
            yield from known(judge(sketch, (collection, name), part))

    return rule


def warmup_ends(sketch: Sketch) -> Iterator[Mistake]:
    """The warm-up leaves something to measure."""
    warmup, duration = sketch.top.warmup, sketch.top.duration
    if warmup >= duration:
        expected = f"less than duration, {format_duration(duration)}"
        yield Mistake(("warmup",), f"no time is left after a warm-up of {format_duration(warmup)}", expected)


def ends_are_free(sketch: Sketch) -> Iterator[Mistake]:
    """An interface is one end of one link; hosts of one network namespace share its interfaces."""
    taken: dict[End, int] = {}
    for (index, side), end in sketch.ends.items():
        interface = End(sketch.namespace_of(end.host), end.interface)
        if interface in taken:
            what = f"{end} is already an end of links[{taken[interface]}]"
            yield Mistake(("links", index, "ends", side), what, "a different interface for each end")
        taken.setdefault(interface, index)


def subnets_are_apart(sketch: Sketch) -> Iterator[Mistake]:
    """No address belongs to two links, or to a VLAN of one and to another."""
    networks = list(vlans.networks_of(sketch))
    for number, (path, network, is_given) in enumerate(networks):
        for other, taken, _ in networks[:number]:
            if network.overlaps(taken):
                where: Path = (*path, "subnet") if is_given else path
                yield Mistake(where, f"{network} overlaps {taken} of {show_path(other)}", "different networks")


def something_is_measured(sketch: Sketch) -> Iterator[Mistake]:
    """A scenario has a stream, a probe or a flow."""
    written = (sketch.names.get(name, ("unknown",)) for name in ("streams", "probes"))
    if not any(written) and not sketch.top.watched:
        expected = "a stream in streams, a probe in probes, or a flow in flows"
        yield Mistake(("streams",), "nothing is measured", expected)


def flows_have_their_name(sketch: Sketch) -> Iterator[Mistake]:
    """Streams, probes and flows are named alike in tables."""
    for name in sketch.top.watched:
        for kind in ("streams", "probes"):
            if name in sketch.names.get(kind, ()):
                yield Mistake(("flows", name), f"{name} is a {kind.removesuffix('s')} already", "a different name")


def flow_points_are_there(sketch: Sketch) -> Iterator[Mistake]:
    """A flow is watched at interfaces that hosts and guests have, at taps of guests that have one, and at sockets."""
    for name, flow in where_known(sketch.top.watched, lambda _, flow: flow.at):
        for place, point in enumerate(flow):
            yield from known(_flow_point(sketch, ("flows", name, "at", place), point))


def _flow_point(sketch: Sketch, path: Path, point: FlowPoint) -> Iterator[Mistake]:
    host, interface = point.end
    if interface == SOCKET and (host in sketch.guests or host in sketch.hosts):
        return
    if guest := sketch.guests.get(host):
        ways = () if guest.domain else KINDS[guest.bridge].tap
        if interface != guest.interface and not (interface == TAP and ways):
            expected = f"{host}.{guest.interface}" + (f", or {host}.{TAP}, its tap" if ways else "")
            what = f"bridge {guest.bridge} has no tap" if interface == TAP else f"{host} has no {interface}"
            yield Mistake(path, what, expected)
        elif interface == TAP and (unseen := [way for way in point.directions if way not in ways]):
            what = f"bridge {guest.bridge}: packets that come {unseen[0]} are not seen at the guest's {guest.bridge}"
            yield Mistake(path, what, " or ".join(f"{host}.{TAP}:{way}" for way in ways))
    elif host in sketch.hosts and not has_interface(sketch.hosts[host], interface):
        ends = [end.interface for end in (*sketch.ends.values(), *sketch.vlan_parents) if end.host == host]
        if interface not in ends:
            yield Mistake(path, *unknown(f"interface of {host}", interface, dict.fromkeys(ends)))


def probes_have_their_name(sketch: Sketch) -> Iterator[Mistake]:
    """Streams and probes are named alike in limits and tables."""
    for name in sketch.names.get("probes", ()):
        if name in sketch.names.get("streams", ()):
            yield Mistake(("probes", name), f"{name} is a stream already", "a different name")


def talkers_keep_up(sketch: Sketch) -> Iterator[Mistake]:
    """What one host is to send at a rate, streams, questions and answers together, is possible."""
    rates: dict[str, Fraction] = defaultdict(Fraction)
    for path, sender, period in _senders(sketch):
        before = rates[sender]
        rates[sender] += Fraction(SECOND_NS, period)
        if before <= RATE_MAX < rates[sender]:
            what = f"{sender} would send {int(rates[sender])} packets/s"
            yield Mistake((*path, "period"), what, f"{RATE_MAX} or fewer, all its streams together")


def _senders(sketch: Sketch) -> Iterator[tuple[Path, str, int]]:
    """(path, who sends, ns between packets) of whatever has a schedule; of a ping also who answers."""

    def asked(_: tuple[str, str], one: Stream | Between) -> tuple[list[str], int | None]:
        both = [one.talker] if isinstance(one, Stream) else [one.talker, one.listener]
        return both, getattr(one, "period", None)

    for path, (senders, period) in where_known(sketch.pairs, asked):
        yield from ((path, sender, period) for sender in senders if period is not None)


def ports_are_free(sketch: Sketch) -> Iterator[Mistake]:
    """A listener receives one stream on a port; what it sends on to guests behind user NAT, its host listens to."""
    taken: dict[tuple[str, str, int], str] = {}
    for (kind, name), (transport, listener, port, given) in where_known(sketch.pairs, partial(_port, sketch)):
        if port is not None:
            for place in (listener, *map(str, _listening_ends(sketch, sketch.pairs[kind, name]))):
                first = taken.setdefault((transport, place, port), name)
                if first != name:
                    path: Path = (kind, name, "port") if given else (kind, name)
                    yield Mistake(path, f"port {port} of {place} is taken by {first}", "another port")
                    break


def _port(sketch: Sketch, key: tuple[str, str], one: Stream | Between) -> tuple[str, str, int | None, bool]:
    """Transport, who listens, on which port (None: a tool's, which takes a free one), whether the scenario says so."""
    kind, name = key
    place = [str(other) for other in sketch.names.get(kind, ())].index(name)
    number = place + 1 if kind == "streams" else leg_number(len(sketch.names.get("streams", ())), place, "up")
    return getattr(one, "transport", ""), one.listener, given_port(one, number), bool(getattr(one, "port", None))


def _listening_ends(sketch: Sketch, stream: Stream | Between) -> list[End]:
    """The hosts' interfaces at which a stream reaches a program: the listener, or QEMU for a guest behind NAT."""
    try:
        found = routes(sketch.segments, stream.talker, stream.listener, stream.via)
        return [route.entered for route in found if route.entered]
    except UnknownError:
        return []


def dds_domains_are_apart(sketch: Sketch) -> Iterator[Mistake]:
    """Each probe over DDS has a domain to itself: ddsperf measures with whomever it finds there."""
    over = {name: probe for name, probe in sketch.probes.items() if isinstance(probe, OverDds)}
    taken: dict[int, str] = {}
    for name, domain in where_known(over, lambda _, probe: probe.domain):
        if domain is not None and (first := taken.setdefault(domain, name)) != name:
            yield Mistake(("probes", name, "domain"), f"domain {domain} is {first}'s", "another one, or leave it out")


def the_clock_port_is_free(sketch: Sketch) -> Iterator[Mistake]:
    """Clock exchanges have their port for themselves."""
    sync = sketch.top.clock.sync
    if sync == "exchange" or (sync == "auto" and _exchange_clocks(sketch)):
        with_port = {key: one for key, one in sketch.pairs.items() if isinstance(one, Stream | PingProbe)}
        for path, clashes in where_known(with_port, lambda _, one: one.transport == "udp" and one.port == CLOCK_PORT):
            if clashes:
                yield Mistake((*path, "port"), f"port {CLOCK_PORT} is used by the clock exchange", "another port")


def _exchange_clocks(sketch: Sketch) -> bool:
    """True if two are compared whose clocks only exchanges join: on two machines, or one of them a domain."""
    foreign = {name for name, domain in where_known(sketch.guests, lambda _, guest: guest.domain) if domain}
    pairs = [ends for _, ends in _compared(sketch)]
    if any(foreign & {*pair} for pair in pairs):
        return True
    places = where_known(dict(enumerate(pairs)), lambda _, pair: {sketch.machine_of(name) for name in pair})
    return any(len(machines) > 1 for _, machines in places)


def _compared(sketch: Sketch) -> Iterator[tuple[Path, tuple[str, str]]]:
    """Whose clocks are compared: of the ends of each stream, and of each probe whose two ways are distinguished."""
    recorded = {key: one for key, one in sketch.pairs.items() if isinstance(one, Stream) or one.is_recorded}
    yield from where_known(recorded, lambda _, one: (one.talker, one.listener))


def exchanges_have_addresses(sketch: Sketch) -> Iterator[Mistake]:
    """A cable between two hosts of one network namespace carries no addresses, which a clock exchange needs."""
    if sketch.top.clock.sync == "exchange":
        for here, there in {tuple(sorted(pair)): pair for _, pair in _compared(sketch)}.values():
            both = sketch.sharing(here, there)
            if both:
                what = f"{here} and {there} are both {both}: they share a clock, and their cable has no addresses"
                yield Mistake(("clock", "sync"), what, "auto")


RULES: tuple[Rule, ...] = (
    warmup_ends,
    ends_are_free,
    subnets_are_apart,
    each("hosts", hosts.namespace_is_on_a_machine),
    each("hosts", hosts.host_is_reached),
    each("hosts", hosts.virtual_time_has_no_company),
    each("hosts", hosts.board_has_the_cards),
    each("hosts", hosts.cards_are_a_boards),
    hosts.cards_are_apart,
    each("links", hosts.cables_of_boards_join_boards),
    each("links", hosts.link_can_be_made),
    each("hosts", hosts.switch_joins_links),
    hosts.switches_make_no_loop,
    each("links", hosts.joined_link_is_as_the_first),
    vlans.names_are_the_kernels,
    vlans.names_are_free,
    each("guests", hosts.guest_has_its_name),
    each("guests", hosts.guest_has_one_origin),
    each("guests", hosts.guest_is_reached),
    each("guests", hosts.ssh_leads_there),
    each("guests", hosts.domain_has_its_own),
    each("guests", hosts.own_guest_is_here),
    each("guests", hosts.guest_has_its_uplink),
    each("guests", vlans.bridge_takes_the_interface),
    hosts.uplinks_have_one_bridge,
    hosts.domains_are_apart,
    hosts.devices_are_apart,
    hosts.guests_have_addresses,
    hosts.guest_networks_are_apart,
    hosts.bridges_have_their_name,
    something_is_measured,
    probes_have_their_name,
    flows_have_their_name,
    flow_points_are_there,
    each("streams", flows.stream_has_a_route),
    each("probes", flows.asks(flows.probe_has_a_route)),
    each("loads", flows.sent(flows.load_has_a_route)),
    each("streams", flows.stream_leaves_the_host),
    each("probes", flows.asks(flows.probe_leaves_the_host)),
    each("loads", flows.sent(flows.load_leaves_the_host)),
    each("loads", flows.work_has_its_size),
    each("loads", flows.files_are_on_a_disk),
    each("loads", flows.work_is_confined),
    each("streams", flows.tag_goes_with_a_vlan),
    each("streams", flows.vlan_goes_with_frames),
    each("streams", flows.group_goes_with_frames),
    each("streams", flows.copy_is_the_same),
    each("streams", vlans.frames_bear_one_tag),
    each("streams", flows.port_goes_with_udp),
    each("streams", flows.ethertype_goes_with_frames),
    each("streams", flows.payload_has_its_frames),
    each("streams", flows.stream_fits_the_mtu),
    each("streams", flows.offset_is_within_a_period),
    each("streams", flows.lateness_has_its_settings),
    each("streams", flows.stream_has_packets),
    each("probes", flows.pings(flows.tag_goes_with_a_vlan)),
    each("probes", flows.pings(flows.vlan_goes_with_frames)),
    each("probes", flows.pings(vlans.frames_bear_one_tag)),
    each("probes", flows.pings(flows.port_goes_with_udp)),
    each("probes", flows.pings(flows.ethertype_goes_with_frames)),
    each("probes", flows.own(flows.timestamps_are_of_messages)),
    each("probes", flows.pings(flows.ping_fits_the_mtu)),
    each("probes", flows.own(flows.offset_has_a_period)),
    each("probes", flows.own(flows.ping_has_packets)),
    each("probes", flows.pings(flows.spinning_ping_is_confined)),
    each("probes", flows.dds(flows.spinning_dds_is_confined)),
    each("probes", flows.asks(flows.tool_has_a_second)),
    each("probes", flows.timer_offset_is_within_a_period),
    each("probes", flows.timer_has_instants),
    each("probes", flows.one_host_tool_has_a_second),
    talkers_keep_up,
    ports_are_free,
    dds_domains_are_apart,
    the_clock_port_is_free,
    exchanges_have_addresses,
    each("shapers", shapers.shaped_interface_is_there),
    each("shapers", shapers.shaper_goes_along),
    each("shapers", shapers.classes_have_queues),
    each("shapers", shapers.classes_are_shaped_alike),
    each("shapers", shapers.gates_fit_their_cycle),
    each("shapers", shapers.slopes_are_below_the_speed),
    each("shapers", shapers.gates_have_a_timer_and_its_cpu),
    each("shapers", shapers.assistance_has_its_settings),
    shapers.nothing_waits_for_ever,
    shapers.launch_times_are_kept,
    shapers.cycles_begin_together,
    ptp.ptp_ports_are_there,
    ptp.ptp_ports_stamp,
    ptp.ptp_emulated_cards_stamp_what_comes,
    ptp.ptp_passes_switches,
    ptp.ptp_slaves_have_a_master,
    ptp.ptp_has_one_slave_a_clock,
    ptp.ptp_time_comes_from_somewhere,
    ptp.ptp_passes_the_shapers,
    each("tuning", tuning.spinning_is_confined),
    each("tuning", tuning.polling_has_a_time),
    each("tuning", tuning.traced_listener_receives),
    each("tuning", tuning.tuned_guests_are_here),
    each("tuning", tuning.guests_have_no_guests),
    each("tuning", tuning.machines_have_the_cpus),
    each("hosts", tuning.kernel_has_the_cpus),
    each("guests", tuning.kernel_has_the_cpus),
    tuning.ptp_has_the_cpus,
    each("tuning", tuning.guests_have_the_queues),
    each("tuning", tuning.tuned_interfaces_are_there),
    tuning.halt_poll_is_one,
    each("windows", limits.window_is_in_the_run),
    each("windows", limits.window_has_packets),
    limits.windows_are_apart,
    limits.trigger_has_streams,
    limits.trigger_is_in_real_time,
    limits.flow_trigger_judges,
    limits.limits_are_statistics,
    limits.limits_can_be_measured,
)
