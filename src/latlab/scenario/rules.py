"""The rules that several values must keep together. A new rule is one function and one line in RULES.

A rule says nothing of values that are wrong in themselves: asking for one raises UnknownError, which ends the rule, or,
for those of each stream or load, its judgement of that one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

from latlab.scenario import flow_rules as flows
from latlab.scenario import guest_rules as guests
from latlab.scenario import host_rules as hosts
from latlab.scenario import ptp_rules as ptp
from latlab.scenario import shaper_rules as shapers
from latlab.scenario import tuning_rules as tuning
from latlab.scenario import vlan_rules as vlans
from latlab.scenario.findings import Finding, Path, show_path
from latlab.scenario.limits import SMALLEST_N, parse_limit
from latlab.scenario.network import routes
from latlab.scenario.parts import End, UnknownError
from latlab.scenario.sketch import Sketch, known, where_known
from latlab.scenario.streams import CLOCK_PORT, FIRST_PORT, Stream, packet_count
from latlab.scenario.units import format_duration

RATE_MAX = 2_000_000
"""Packets a second of one talker: above it no Linux socket follows."""

Rule = Callable[[Sketch], Iterator[Finding]]


def each(collection: str, judge: Callable[[Sketch, Path, Any], Iterator[Finding]]) -> Rule:
    """The rule that judges each entry of a collection by itself."""

    def rule(sketch: Sketch) -> Iterator[Finding]:
        for name, part in getattr(sketch, collection).items():
            yield from known(judge(sketch, (collection, name), part))

    return rule


def warmup_ends(sketch: Sketch) -> Iterator[Finding]:
    """The warm-up leaves something to measure."""
    warmup, duration = sketch.top.warmup, sketch.top.duration
    if warmup >= duration:
        expected = f"less than duration, {format_duration(duration)}"
        yield Finding(("warmup",), f"nothing is left after a warm-up of {format_duration(warmup)}", expected)


def ends_are_free(sketch: Sketch) -> Iterator[Finding]:
    """An interface is one end of one link; hosts of one network namespace share its interfaces."""
    taken: dict[End, int] = {}
    for (index, side), end in sketch.ends.items():
        interface = End(sketch.namespace_of(end.host), end.interface)
        if interface in taken:
            what = f"{end} is an end already, of links[{taken[interface]}]"
            yield Finding(("links", index, "ends", side), what, "an interface of its own for each end")
        taken.setdefault(interface, index)


def subnets_are_apart(sketch: Sketch) -> Iterator[Finding]:
    """No address belongs to two links, or to a VLAN of one and to another."""
    networks = list(vlans.networks_of(sketch.links))
    for number, (path, network, is_given) in enumerate(networks):
        for other, taken, _ in networks[:number]:
            if network.overlaps(taken):
                where: Path = (*path, "subnet") if is_given else path
                yield Finding(where, f"{network} overlaps {taken} of {show_path(other)}", "networks of their own")


def talkers_keep_up(sketch: Sketch) -> Iterator[Finding]:
    """The streams of one talker together ask for a packet rate that is possible."""
    rates: dict[str, Fraction] = defaultdict(Fraction)
    asked = where_known(sketch.streams, lambda _, stream: (stream.talker, Fraction(10**9, stream.period)))
    for name, (talker, rate) in asked:
        before = rates[talker]
        rates[talker] += rate
        if before <= RATE_MAX < rates[talker]:
            what = f"{talker} would send {int(rates[talker])} packets/s"
            yield Finding(("streams", name, "period"), what, f"{RATE_MAX} or fewer, all its streams together")


def ports_are_free(sketch: Sketch) -> Iterator[Finding]:
    """A listener receives one stream on a port; what it sends on to guests behind user NAT, its host listens to."""
    taken: dict[tuple[str, int], str] = {}
    index = {str(name): number for number, name in enumerate(sketch.names.get("streams", ()))}
    udp = where_known(sketch.streams, lambda _, stream: (stream.transport == "udp", stream.listener, stream.port))
    for name, (is_udp, listener, given) in udp:
        if is_udp:
            port = given or FIRST_PORT + index[name]
            for place in (listener, *map(str, _listening_ends(sketch, sketch.streams[name]))):
                first = taken.setdefault((place, port), name)
                if first != name:
                    path: Path = ("streams", name, "port") if given else ("streams", name)
                    yield Finding(path, f"port {port} of {place} is taken by {first}", "another port")
                    break


def _listening_ends(sketch: Sketch, stream: Stream) -> list[End]:
    """The hosts' interfaces at which a stream comes to a program: the listener, or QEMU for a guest behind NAT."""
    try:
        found = routes(sketch.segments, stream.talker, stream.listener, stream.via)
        return [route.entered for route in found if route.entered]
    except UnknownError:
        return []


def the_clock_port_is_free(sketch: Sketch) -> Iterator[Finding]:
    """Clock exchanges have their port for themselves."""
    sync = sketch.top.clock.sync
    if sync == "exchange" or (sync == "auto" and _exchange_clocks(sketch)):
        udp = where_known(sketch.streams, lambda _, stream: stream.transport == "udp" and stream.port == CLOCK_PORT)
        for name, clashes in udp:
            if clashes:
                what = f"port {CLOCK_PORT} is the clock exchange's"
                yield Finding(("streams", name, "port"), what, "another port")


def _exchange_clocks(sketch: Sketch) -> bool:
    """True if a stream joins two whose clocks only exchanges compare: on two machines, or one of them a domain."""
    foreign = {name for name, domain in where_known(sketch.guests, lambda _, guest: guest.domain) if domain}
    pairs = [ends for _, ends in where_known(sketch.streams, lambda _, stream: (stream.talker, stream.listener))]
    if any(foreign & {*pair} for pair in pairs):
        return True
    places = where_known(dict(enumerate(pairs)), lambda _, pair: {sketch.machine_of(name) for name in pair})
    return any(len(machines) > 1 for _, machines in places)


def exchanges_have_addresses(sketch: Sketch) -> Iterator[Finding]:
    """A cable between two hosts of one network namespace carries no addresses, which a clock exchange needs."""
    if sketch.top.clock.sync == "exchange":
        pairs = where_known(sketch.streams, lambda _, stream: (stream.talker, stream.listener))
        for here, there in {tuple(sorted(pair)): pair for _, pair in pairs}.values():
            both = sketch.sharing(here, there)
            if both:
                what = f"{here} and {there} are both {both}: they share a clock, and their cable has no addresses"
                yield Finding(("clock", "sync"), what, "auto")


def limits_are_statistics(sketch: Sketch) -> Iterator[Finding]:
    """Every accepted limit is one of a statistic that results have."""
    for path, value in sketch.accept.items():
        limit = parse_limit(path, value)
        if isinstance(limit, Finding):
            yield limit


def limits_can_be_measured(sketch: Sketch) -> Iterator[Finding]:
    """A percentile that is limited has the packets it needs."""
    packets = dict(
        where_known(
            sketch.streams,
            lambda _, stream: packet_count(stream, sketch.top.duration) - packet_count(stream, sketch.top.warmup),
        )
    )
    for path in sketch.accept:
        stream, _, statistic = path.split(".", 2) if path.count(".") > 1 else (path, "", "")
        needed, there = SMALLEST_N.get(statistic, 0), packets.get(stream)
        if there is not None and 0 <= there < needed:
            what = f"{stream} has {there} packets after the warm-up, too few for {statistic}"
            yield Finding(("accept", path), what, f"a duration with {needed} or more, or another statistic")


RULES: tuple[Rule, ...] = (
    warmup_ends,
    ends_are_free,
    subnets_are_apart,
    each("hosts", hosts.namespace_is_on_a_machine),
    each("hosts", hosts.host_is_reached),
    each("hosts", hosts.virtual_time_has_one_cpu),
    each("hosts", hosts.virtual_time_has_no_company),
    each("hosts", hosts.board_has_the_cards),
    each("hosts", hosts.cards_are_a_boards),
    hosts.cards_are_apart,
    each("links", hosts.cables_of_boards_join_boards),
    each("links", hosts.link_can_be_made),
    vlans.names_are_the_kernels,
    vlans.names_are_free,
    each("guests", guests.guest_has_its_name),
    each("guests", guests.guest_has_one_origin),
    each("guests", guests.guest_is_reached),
    each("guests", guests.ssh_leads_there),
    each("guests", guests.domain_has_its_own),
    each("guests", guests.own_guest_is_here),
    each("guests", guests.guest_has_its_uplink),
    each("guests", vlans.bridge_takes_the_interface),
    guests.uplinks_have_one_bridge,
    guests.domains_are_apart,
    guests.devices_are_apart,
    guests.guests_have_addresses,
    guests.guest_networks_are_apart,
    guests.bridges_have_their_name,
    each("streams", flows.stream_has_a_route),
    each("loads", flows.load_has_a_route),
    each("streams", flows.stream_leaves_the_host),
    each("loads", flows.load_leaves_the_host),
    each("streams", flows.tag_goes_with_a_vlan),
    each("streams", flows.vlan_goes_with_frames),
    each("streams", vlans.frames_bear_one_tag),
    each("streams", flows.port_goes_with_udp),
    each("streams", flows.ethertype_goes_with_frames),
    each("streams", flows.stream_fits_the_mtu),
    each("streams", flows.offset_is_within_a_period),
    each("streams", flows.lateness_has_its_settings),
    each("streams", flows.stream_has_packets),
    talkers_keep_up,
    ports_are_free,
    the_clock_port_is_free,
    exchanges_have_addresses,
    each("shapers", shapers.shaped_interface_is_there),
    each("shapers", shapers.priorities_are_the_kernels),
    each("shapers", shapers.classes_have_queues),
    each("shapers", shapers.gates_fit_their_cycle),
    each("shapers", shapers.slopes_are_below_the_speed),
    each("shapers", shapers.assistance_has_its_settings),
    shapers.nothing_waits_for_ever,
    shapers.launch_times_are_kept,
    shapers.cycles_begin_together,
    ptp.ptp_has_ports,
    ptp.ptp_ports_are_there,
    ptp.ptp_ports_stamp,
    ptp.ptp_slaves_have_a_master,
    ptp.ptp_has_one_slave_a_clock,
    ptp.ptp_passes_the_shapers,
    each("tuning", tuning.spinning_is_confined),
    each("tuning", tuning.polling_has_a_time),
    each("tuning", tuning.tuned_guests_are_here),
    each("tuning", tuning.guests_have_no_guests),
    each("tuning", tuning.machines_have_the_cpus),
    each("tuning", tuning.guests_have_the_queues),
    each("tuning", tuning.tuned_interfaces_are_there),
    tuning.halt_poll_is_one,
    limits_are_statistics,
    limits_can_be_measured,
)
