"""The steps that lay the scenario's links: network cards, veth pairs and cables, and hosts that switch between them.

A pair is made with one command that puts both ends where they belong, so a crash never leaves a half in the
wrong place. Our mark on it is the hardware address, which that same command sets, made from the run's tag.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from latlab.model.bridges import KINDS
from latlab.scenario import End, Link, NetnsHost, Scenario
from latlab.scenario.network import joined, uplink_of
from latlab.testbed.bridges.base import Neighbour
from latlab.testbed.bridges.joints import mac_of, neighbours
from latlab.testbed.bridges.kernel import free_port, known_address, make_bridge, no_filters, port_step
from latlab.testbed.host_setup import ipv6_off, namespace_name
from latlab.testbed.site import Site, hardware_address
from latlab.testbed.step import Argv, Check, Step

UP_WITHIN_MS = 5000  # the kernel's link watch settles the state up to a second after both ends are up
CARD_UP_WITHIN_MS = 30_000  # an emulated card negotiates its link by the driver's timers, on a CPU that is slow


def link_steps(scenario: Scenario, site: Site) -> list[Step]:
    """The steps for each link, in the scenario's order."""
    steps: list[Step] = []
    for number, link in enumerate(scenario.links):
        if scenario.link_is_created(link):
            steps += _veth(scenario, link, number, site)
        else:
            halves = [half_of(scenario, end, site) for end in link.ends]
            steps += [step for half in halves for step in _card(scenario, half, link, site)]
            steps += [step for half in halves for step in _cable(scenario, half)]
    return steps


def link_mark(tag: str, link: int) -> str:
    """The alternative name that shows, on an end outside our namespaces, whose link it is."""
    return f"latlab-{tag}-{link}"


def is_bridged(scenario: Scenario, end: End) -> bool:
    """True for an interface that becomes the port of a bridge: the host's address, if any, is then on the bridge."""
    segment = scenario.segment_of(end)
    guests = segment.guests_at(end).values()
    return end in segment.ports or any(KINDS[guest.bridge].takes_uplink for guest in guests)


@dataclass(frozen=True)
class Half:
    """An interface as its machine reaches it. machine: the machine's host; namespace: None in its own."""

    end: End
    machine: str
    namespace: str | None

    @property
    def ip(self) -> Argv:
        return ("ip", "-n", self.namespace) if self.namespace else ("ip",)

    @property
    def inside(self) -> Argv:
        return ("ip", "netns", "exec", self.namespace) if self.namespace else ()

    @property
    def name(self) -> Argv:
        return (self.end.interface, *(("netns", self.namespace) if self.namespace else ()))


def _veth(scenario: Scenario, link: Link, number: int, site: Site) -> list[Step]:
    left, right = halves = [half_of(scenario, end, site) for end in link.ends]
    addresses = [hardware_address(site.tag, number, end) for end in (0, 1)]
    queues = ("numtxqueues", str(link.queues), "numrxqueues", str(link.queues))
    options = [(*queues, "mtu", str(link.mtu), "address", address) for address in addresses]
    # The kernel looks the first name up where the command runs: there it must be free, whatever the machine has. Only
    # the second can be put into another namespace by its name; the machine's own has none.
    made = sorted(zip(halves, options, strict=True), key=lambda one: one[0].namespace is not None)
    steps = [
        Step(
            host=left.machine,
            title=f"connect {left.end} and {right.end}",
            do=(
                *(*made[0][0].ip, "link", "add", "name", made[0][0].end.interface, *made[0][1]),
                *("type", "veth", "peer", "name", *made[1][0].name, *made[1][1]),
            ),
            undo=(*left.ip, "link", "del", "dev", left.end.interface),
            present=(*left.inside, "grep", "-qx", addresses[0], f"/sys/class/net/{left.end.interface}/address"),
        )
    ]
    for half in halves:
        if half.namespace is None:
            steps += _marked(half, link_mark(site.tag, number))
    for half in halves:
        steps += addressed(scenario, half)
    for half in halves:
        if not is_bridged(scenario, half.end):
            found = neighbours(scenario, site.tag, scenario.segment_of(half.end), half.end)
            steps += [neighbour_step(half, neighbour) for neighbour in found]
    return [*steps, *(is_up(half) for half in halves)]


def half_of(scenario: Scenario, end: End, site: Site) -> Half:
    """The interface of a host, as its machine reaches it."""
    namespace = namespace_name(site.tag, end.host) if scenario.hosts[end.host].is_namespace else None
    return Half(end, site.on(scenario.machine_of(end.host)).name, namespace)


def _marked(half: Half, mark: str) -> list[Step]:
    named = Step(
        host=half.machine,
        title=f"mark {half.end} as latlab's",
        do=("ip", "link", "property", "add", "dev", half.end.interface, "altname", mark),
    )
    return [named, ipv6_off(half.machine, half.end.interface)]


def addressed(scenario: Scenario, half: Half) -> list[Step]:
    """It has its address, unless a bridge it is a port of has that, or none, and is up."""
    end = half.end
    up = Step(
        host=half.machine,
        title=f"bring {end} up",
        do=(*half.ip, "link", "set", "dev", end.interface, "up"),
    )
    if is_bridged(scenario, end):
        return [up]
    address = str(scenario.address(end))
    has_address = Step(
        host=half.machine,
        title=f"give {end} its address",
        do=(*half.ip, "addr", "add", address, "dev", end.interface),
        check=_address_check(half.ip, end, address),
    )
    return [has_address, up]


def neighbour_step(half: Half, peer: Neighbour) -> Step:
    """The hardware address of an interface on the same segment is known, and stays so."""
    end, address, hardware = half.end, str(peer.address.ip), peer.mac
    return Step(
        host=half.machine,
        title=f"add the neighbour entry of {peer.end} on {end}, so that no ARP is sent between packets",
        do=(*half.ip, "neigh", "replace", address, "lladdr", hardware, "dev", end.interface, "nud", "permanent"),
        check=Check(
            (*half.ip, "-j", "neigh", "show", address, "dev", end.interface),
            expected=f"{hardware} PERMANENT",
            read=_neighbour_state,
        ),
    )


def is_up(half: Half, within_ms: int = UP_WITHIN_MS) -> Step:
    """Packets can pass it."""
    return Step(
        host=half.machine,
        title=f"wait until {half.end} is up",
        do=(),
        check=_state_check(half.ip, half.end, within_ms),
    )


def _card(scenario: Scenario, half: Half, link: Link, site: Site) -> list[Step]:
    """An emulated board's card is ours to set up. Nothing for any other: it is its machine's."""
    end, segment = half.end, scenario.segment_of(half.end)
    if not scenario.is_emulated(end):
        return []
    steps = list(as_it_is_to_be(scenario, end, link, site))
    if not is_handed_on(scenario, end):
        steps += addressed(scenario, half)
        if not is_bridged(scenario, end):
            steps += [neighbour_step(half, neighbour) for neighbour in neighbours(scenario, site.tag, segment, end)]
    return steps


def _cable(scenario: Scenario, half: Half) -> list[Step]:
    """What an existing cable must have. Nothing is changed: between machines it has its addresses already; within one
    only raw frames take it. BusyBox's programs are enough to look at it.
    """
    end = half.end
    if scenario.is_emulated(end):
        return [] if is_handed_on(scenario, end) else [is_up(half, CARD_UP_WITHIN_MS)]
    state = Check(("cat", f"/sys/class/net/{end.interface}/operstate"), expected="up", within_ms=UP_WITHIN_MS)
    there = Step(host=end.host, title=f"{end} is up", do=(), check=state)
    machines = {scenario.machine_of(one.host) for one in scenario.segment_of(end).ends}
    if len(machines) == 1 or is_bridged(scenario, end):
        return [there]
    address = str(scenario.address(end))
    has_address = Step(
        host=end.host,
        title=f"{end} has the address {address}: `ip addr add {address} dev {end.interface}`, or give the link the "
        "`subnet` that it has",
        do=(),
        check=Check(
            ("ip", "addr", "show", "dev", end.interface),
            expected=address,
            read=partial(_this_or_all, address, printed_addresses),
        ),
    )
    return [there, has_address]


def _state_check(ip: Argv, end: End, within_ms: int = UP_WITHIN_MS) -> Check:
    argv = (*ip, "-j", "link", "show", "dev", end.interface)
    return Check(argv, expected="UP", read=_operstate, within_ms=within_ms)


def _address_check(ip: Argv, end: End, address: str) -> Check:
    read = partial(_this_or_all, address, _addresses)
    return Check((*ip, "-j", "addr", "show", "dev", end.interface), expected=address, read=read)


def _this_or_all(address: str, read: Callable[[str], list[str]], output: str) -> str:
    """The address if it is among those that were read, else all of them."""
    found = read(output)
    return address if address in found else ", ".join(found) or "no IPv4 address"


def printed_addresses(output: str) -> list[str]:
    """The IPv4 addresses in what `ip addr` prints for people; with a peer the prefix' length stands behind that."""
    found = re.findall(r"^ *inet ([\d.]+)(?: peer [\d.]+)?(/\d+)?", output, re.MULTILINE)
    return [address + (length or "/32") for address, length in found]


def _operstate(output: str) -> str:
    return str(json.loads(output)[0]["operstate"])


def _addresses(output: str) -> list[str]:
    listed: list[dict[str, Any]] = json.loads(output)[0]["addr_info"]
    return [f"{entry['local']}/{entry['prefixlen']}" for entry in listed if entry["family"] == "inet"]


def _neighbour_state(output: str) -> str:
    entry = json.loads(output)[0]
    return f"{entry['lladdr']} {' '.join(entry['state'])}"


# Emulated boards' network cards, where they are ends of cables: moved to the namespaces that take them, and set up.


QUEUES = 'now=$(ethtool -l "$1" 2>/dev/null | sed -n "s/^Combined:[^0-9]*//p" | tail -n 1); echo "${now:-1}"'
"""What `ethtool -l` says last is what is; a driver that knows no answer has one pair."""
SET_QUEUES = f'[ "$({QUEUES})" = "$2" ] || ethtool -L "$1" combined "$2"'


def card_steps(scenario: Scenario, site: Site) -> Iterator[Step]:
    """Each namespace has the cards it takes of its board, but for those that are handed on to a guest.

    Nothing is undone: the board ends with the cell.
    """
    for name, host in scenario.hosts.items():
        for card in host.cards if isinstance(host, NetnsHost) else ():
            if not is_handed_on(scenario, End(name, card)):
                yield Step(
                    host=site.on(scenario.machine_of(name)).name,
                    title=f"move {card} into {name}'s namespace",
                    do=("ip", "link", "set", "dev", card, "netns", namespace_name(site.tag, name)),
                )


def is_handed_on(scenario: Scenario, end: End) -> bool:
    """Whether the interface's card becomes a guest's own. One that a guest names by its address is another."""
    on_it = (guest for guest in scenario.guests.values() if End(guest.host, guest.uplink or "") == end)
    return any(KINDS[guest.bridge].hands_over_card and guest.device is None for guest in on_it)


def as_it_is_to_be(scenario: Scenario, end: End, link: Link, site: Site) -> Iterator[Step]:
    """The card is the one meant, and has queues and MTU as the link says."""
    handed_on = is_handed_on(scenario, end)
    yield Step(
        host=site.on(scenario.machine_of(end.host)).name if handed_on else end.host,
        title=f"{end} is the card at its cable",
        do=(),
        check=Check(
            ("cat", f"/sys/class/net/{end.interface}/address"),
            expected=mac_of(scenario, site.tag, scenario.segment_of(end), end),
        ),
    )
    if handed_on:
        return
    yield ipv6_off(end.host, end.interface)
    yield queue_step(end, link.queues)
    yield Step(
        end.host, f"give {end} the link's MTU", ("ip", "link", "set", "dev", end.interface, "mtu", str(link.mtu))
    )


def queue_step(end: End, queues: int) -> Step:
    """A card that can have several queues begins with one for each CPU."""
    return Step(
        host=end.host,
        title=f"give {end} its queues",
        do=("sh", "-c", SET_QUEUES, "sh", end.interface, str(queues)),
        check=Check(("sh", "-c", QUEUES, "sh", end.interface), expected=str(queues)),
    )


# The steps that make hosts switches: a kernel bridge, whose ports are ends of links, forwards between them.


def switch_steps(scenario: Scenario, site: Site) -> Iterator[Step]:
    """The bridge of each switch, once its links are up. It has no address, and leaves VLAN tags in the frames."""
    for number, (host, ports) in enumerate(scenario.switches.items()):
        bridge = switch_device(site, number)
        made = {port: scenario.link_is_created(scenario.links[scenario.link_number_of(port)]) for port in ports}
        yield from (free_port(host, port.interface) for port in ports if not made[port])
        yield make_bridge(host, bridge, scenario.segment_of(ports[0]).mtu)
        yield ipv6_off(host, bridge)
        yield no_filters(host)
        yield from (port_step(host, port.interface, bridge, made=made[port]) for port in ports)
        yield Step(host, f"bring {bridge} up", ("ip", "link", "set", "dev", bridge, "up"))
        for port in ports:
            for end in _beyond(scenario, host, port):
                if mac := mac_of(scenario, site.tag, scenario.segment_of(end), end):
                    yield known_address(host, port.interface, mac, str(end))
        for port in ports:
            state = Check(
                ("ip", "-d", "-j", "link", "show", "dev", port.interface),
                expected="forwarding",
                read=_port_state,
                within_ms=CARD_UP_WITHIN_MS,
            )
            yield Step(host, f"wait until {port} forwards", (), check=state, lasting=True)


def _beyond(scenario: Scenario, host: str, port: End) -> Iterator[End]:
    """Whose packets come in at the port: hosts' ends that a link or other switches join to it, and guests there."""
    others = [ports for name, ports in scenario.switches.items() if name != host]
    groups = joined({number: link.ends for number, link in enumerate(scenario.links)}, others)
    ends = next(one.ends for one in groups if scenario.link_number_of(port) in one.links)
    yield from (end for end in ends if end != port)
    for name, guest in scenario.guests.items():
        if not KINDS[guest.bridge].translates and scenario.parent_of(uplink_of(guest)) in ends:
            yield End(name, guest.interface)


def switch_device(site: Site, number: int) -> str:
    """The name of a switch's bridge. number: its place among the switches."""
    return site.device(f"sw{number}")


def _port_state(output: str) -> str:
    """The state of a bridge's port by `ip -d -j link show`, such as `forwarding`."""
    return str(json.loads(output)[0]["linkinfo"].get("info_slave_data", {}).get("state", "no port"))
