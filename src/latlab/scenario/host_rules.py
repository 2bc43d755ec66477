"""What hosts and guests must keep: the machine each is on, how machines are joined, and where guests come from."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Network

from latlab.model.bridges import KINDS
from latlab.scenario.findings import Mistake, Path, unknown
from latlab.scenario.guests import Guest, Ssh
from latlab.scenario.hosts import BoardHost, Host, NetnsHost, SshHost, has_interface
from latlab.scenario.links import Link
from latlab.scenario.network import INNER, USER_NETWORK, Segment, joined, uplink_of, vlans_of
from latlab.scenario.parts import End, UnknownError
from latlab.scenario.sketch import Sketch, known, where_known


def namespace_is_on_a_machine(sketch: Sketch, path: Path, host: Host) -> Iterator[Mistake]:
    """A namespace is made on this machine, or on one that is a host itself."""
    if not isinstance(host, NetnsHost) or host.on is None:
        return
    where, on = (*path, "on"), sketch.hosts.get(host.on)
    if on is not None and on.is_machine:
        return
    machines = [name for name, other in sketch.hosts.items() if other.is_machine]
    if host.on == path[1]:
        yield Mistake(where, f"{host.on} would be made on itself", _one_of(machines))
    elif host.on not in sketch.names["hosts"]:
        yield Mistake(where, *unknown("host of kind ssh or board", host.on, machines))
    elif on is not None:
        yield Mistake(where, f"{host.on} is of kind {on.kind}", _one_of(machines))


def host_is_reached(_: Sketch, path: Path, host: Host) -> Iterator[Mistake]:
    """A machine is reached as one user."""
    if isinstance(host, SshHost):
        yield from one_user((*path, "ssh"), host.ssh)


def one_user(path: Path, ssh: Ssh) -> Iterator[Mistake]:
    """The user stands in the destination or next to it. path: of the ssh."""
    if ssh.destination is not None and "@" in ssh.destination and ssh.user is not None:
        yield Mistake((*path, "user"), "a user in addition to the one in destination", "one of them")


def virtual_time_has_no_company(sketch: Sketch, path: Path, host: Host) -> Iterator[Mistake]:
    """Between a clock that counts instructions and any other, no time can be measured."""
    if isinstance(host, BoardHost) and host.time == "virtual":
        places = where_known(sketch.hosts, lambda name, _: sketch.machine_of(name))
        others = [name for name, machine in places if machine != path[1]]
        if others:
            elsewhere = f"{', '.join(others)} {'is' if len(others) == 1 else 'are'} not on {path[1]}"
            expected = f"every other host of kind netns with on: {path[1]}, or time: real"
            yield Mistake((*path, "time"), f"a board in virtual time excludes other machines: {elsewhere}", expected)


def board_has_the_cards(sketch: Sketch, path: Path, host: Host) -> Iterator[Mistake]:
    """What cables and namespaces name of a board are its emulated network cards."""
    if not isinstance(host, BoardHost):
        return
    cables = where_known(sketch.links, lambda _, link: link.ends if sketch.is_cable(link.ends) else ())
    places: dict[str, Path] = {
        end.interface: ("links", index, "ends", side)
        for index, ends in cables
        for side, end in enumerate(ends)
        if end.host == path[1]
    }
    places |= {card: where for name, card, where in _moved(sketch) if name == path[1]}
    if len(places) > host.nics:
        count = f"{host.nics or 'no'} network card{'' if host.nics == 1 else 's'}"
        what = f"{path[1]} has {count}, and named are {', '.join(places)}"
        yield Mistake((*path, "nics"), what, f"{len(places)} or more")
        return
    for interface, where in places.items():
        if interface not in host.cards:
            yield Mistake(where, f"{path[1]} has no card {interface}", " or ".join(host.cards))


def cards_are_a_boards(sketch: Sketch, path: Path, host: Host) -> Iterator[Mistake]:
    """A machine that outlives the run would not get an interface back as it was: routes, queues, a bridge it was in."""
    if isinstance(host, NetnsHost) and host.cards:
        machine = sketch.machine_of(str(path[1]))
        if machine is None or not sketch.hosts[machine].is_emulated:
            what = f"{host.cards[0]} is an interface of {machine or 'this machine'}, which is not an emulated board"
            yield Mistake((*path, "cards"), what, "a namespace on a host of kind board, or a veth pair")


def cards_are_apart(sketch: Sketch) -> Iterator[Mistake]:
    """A card of a board is in one network namespace."""
    taken = {
        (end.host, end.interface): f"an end of links[{index}] in {end.host}"
        for (index, _), end in sketch.ends.items()
        if sketch.is_existing(end.host)
    }
    for board, card, where in _moved(sketch):
        if (board, card) in taken:
            yield Mistake(where, f"{card} of {board} is {taken[board, card]}", "a card that is not in use")
        taken.setdefault((board, card), f"{where[1]}'s already")


def cables_of_boards_join_boards(sketch: Sketch, path: Path, link: Link) -> Iterator[Mistake]:
    """A cable at an emulated card is QEMU's, and nothing but another such card can be at its other end."""
    if sketch.is_cable(link.ends):
        machines = {end.host: sketch.machine_of(end.host) for end in link.ends}
        boards = [machine for machine in machines.values() if machine and sketch.hosts[machine].is_emulated]
        others = [host for host, machine in machines.items() if machine not in boards]
        if others and boards:
            what = f"a cable from {boards[0]}, whose cards are emulated, cannot reach {others[0]}"
            yield Mistake((*path, "ends"), what, "a board at both ends")


def link_can_be_made(sketch: Sketch, path: Path, link: Link) -> Iterator[Mistake]:
    """A veth pair joins two namespaces of one kernel, and no card."""
    if sketch.is_cable(link.ends):
        return
    machines = dict.fromkeys(sketch.machine_of(end.host) for end in link.ends)
    if len(machines) > 1:
        here, there = (machine or "this machine" for machine in machines)
        expected = "existing interfaces of both machines (kinds local, ssh and board), or both hosts on one"
        yield Mistake((*path, "ends"), f"a cable between {here} and {there} cannot be made", expected)
        return
    for end in link.ends:
        if not sketch.is_existing(end.host) and has_interface(sketch.hosts[end.host], end.interface):
            what = f"{end} is a card, and the other end would be made for the run"
            yield Mistake((*path, "ends"), what, "existing interfaces (cards) at both ends, or at neither")


def switch_joins_links(sketch: Sketch, path: Path, host: Host) -> Iterator[Mistake]:
    """The ports of a switch are ends of links."""
    ends = [end.interface for end in sketch.ends.values() if end.host == path[1]]
    if "links" in sketch.names and not sketch.loose_links:
        for number, port in enumerate(host.switch):
            if port not in ends:
                yield Mistake((*path, "switch", number), *unknown("end of a link", port, ends))


def switches_make_no_loop(sketch: Sketch) -> Iterator[Mistake]:
    """There is one path between two switches: without a spanning tree protocol frames in a loop never end."""
    before: list[tuple[End, ...]] = []
    for name, ports in sketch.switches.items():
        links = {end: one.links for one in joined(sketch.ends_of_links, before) for end in (*one.ends, *one.ports)}
        first: dict[tuple[int, ...], End] = {}
        for number, port in enumerate(ports):
            other = first.setdefault(links.get(port, ()), port)
            if port in links and other != port:
                by = " and ".join(f"links[{index}]" for index in links[port])
                what = f"{other} and {port} are joined by {by} already: frames would circulate forever"
                yield Mistake(("hosts", name, "switch", number), what, "one path between any two switches")
                return
        before.append(ports)


def joined_link_is_as_the_first(sketch: Sketch, path: Path, link: Link) -> Iterator[Mistake]:
    """Links that a switch joins have one network, one MTU, and each VLAN once."""
    groups = [one.links for one in joined(sketch.ends_of_links, sketch.switches.values()) if path[1] in one.links]
    if not groups:
        return  # its ends are wrong
    first, *others = groups[0]
    if path[1] not in others:
        return
    which = f"links[{first}], which a switch joins to it"
    if link.subnet is not None:
        yield Mistake((*path, "subnet"), f"it has the network of {which}", f"no subnet, or links[{first}].subnet")
    if link.mtu != sketch.links[first].mtu:
        yield Mistake((*path, "mtu"), f"{which}, has {sketch.links[first].mtu}", "the same MTU for both")
    for index in (first, *others[: others.index(path[1])]):
        for vlan in vlans_of(link):
            if vlan in vlans_of(sketch.links[index]):
                what = f"links[{index}], which a switch joins to it, has VLAN {vlan}"
                yield Mistake((*path, "vlans", str(vlan)), what, "each VLAN at only one of the two")


def _moved(sketch: Sketch) -> Iterator[tuple[str, str, Path]]:
    """Each card that a namespace takes of its board: the board, the card, its place."""
    namespaces = {name: host for name, host in sketch.hosts.items() if isinstance(host, NetnsHost)}
    for name, (machine, cards) in where_known(namespaces, lambda name, host: (sketch.machine_of(name), host.cards)):
        for number, card in enumerate(cards if machine else ()):
            yield str(machine), card, ("hosts", name, "cards", number)


def _one_of(machines: list[str]) -> str:
    return f"a host of kind ssh or board: {' or '.join(machines) or 'there is none'}"


# What the guests must keep: where each comes from, how it is reached, and how it fits onto its uplink.


_OF_A_DOMAIN = ("vcpus", "memory", "vhost", "acceleration", "queues", "snapshot")
"""What latlab chooses of a guest that it starts."""


def is_placed(sketch: Sketch, name: str) -> bool:
    """True for a guest on a host there is whose uplink, if it has one or needs one, is there: an end of a link, or a
    VLAN interface on one."""
    guest = sketch.guests.get(name)
    try:
        if guest is None or guest.host not in sketch.names.get("hosts", ()) or not guest.interface:
            return False
        if guest.uplink is None:
            return not KINDS[guest.bridge].needs_uplink
        return guest.uplink in sketch.interfaces_of(guest.host)
    except UnknownError:
        return False


def guest_has_its_name(sketch: Sketch, path: Path, guest: Guest) -> Iterator[Mistake]:
    """Streams and loads name hosts and guests alike, so no guest has a host's name."""
    if path[1] in sketch.names.get("hosts", ()):
        yield Mistake(path, f"{path[1]} is a host already", "a different name")


def guest_has_one_origin(_: Sketch, path: Path, guest: Guest) -> Iterator[Mistake]:
    """A guest is made from one thing."""
    given = [key for key in ("image", "kernel", "disk", "domain") if getattr(guest, key) is not None]
    for key in given[1:]:
        yield Mistake((*path, key), f"{key} together with {given[0]}", "one of image, kernel, disk and domain")
    if guest.initrd is not None and guest.kernel is None:
        yield Mistake((*path, "initrd"), "an initrd needs a kernel", "a kernel in addition")
    if guest.append is not None and (guest.disk or guest.domain):
        yield Mistake((*path, "append"), "a command line needs a kernel", "a kernel or an image with it")


def guest_is_reached(_: Sketch, path: Path, guest: Guest) -> Iterator[Mistake]:
    """latlab's images answer on their own; any other guest is reached over ssh."""
    if guest.is_ours and guest.ssh is not None:
        yield Mistake((*path, "ssh"), "a guest of a latlab image needs no ssh", "no ssh, or a kernel, disk or domain")
    if not guest.is_ours and guest.ssh is None:
        wanted = "{destination: HOST}" if guest.domain else "{user: root}"
        yield Mistake((*path, "ssh"), "missing", f"how to reach the guest: ssh: {wanted}")


def ssh_leads_there(_: Sketch, path: Path, guest: Guest) -> Iterator[Mistake]:
    """A domain says where it is; of what latlab starts the scenario does."""
    if guest.ssh is None:
        return
    destination = guest.ssh.destination
    if guest.domain is not None and destination is None:
        yield Mistake((*path, "ssh", "destination"), "missing", "host or user@host of the running domain")
    if guest.domain is None and destination is not None and not guest.is_ours:
        what = "the guest has its address from the scenario"
        yield Mistake((*path, "ssh", "destination"), what, "no destination: user, port and config are enough")
    yield from one_user((*path, "ssh"), guest.ssh)


def domain_has_its_own(_: Sketch, path: Path, guest: Guest) -> Iterator[Mistake]:
    """A domain that runs already is what it is."""
    if guest.domain is not None:
        for key in _OF_A_DOMAIN:
            if key in guest.model_fields_set:
                yield Mistake((*path, key), "a domain has its own", f"no {key}, or a kernel or disk instead of domain")


def own_guest_is_here(sketch: Sketch, path: Path, guest: Guest) -> Iterator[Mistake]:
    """Files of one's own, and libvirt, are those of this machine."""
    machine = sketch.machine_of(guest.host)
    for key in ("kernel", "disk", "domain"):
        if machine is not None and getattr(guest, key) is not None:
            what = f"your own {key} can be used only on this machine, not on {machine}"
            yield Mistake((*path, key), what, "an image instead, or a host of this machine")


def guest_has_its_uplink(sketch: Sketch, path: Path, guest: Guest) -> Iterator[Mistake]:
    """An uplink is an end of a link; some bridges are nothing without one."""
    ends = sketch.interfaces_of(guest.host)
    if guest.uplink is None:
        if KINDS[guest.bridge].needs_uplink:
            what = f"missing: bridge {guest.bridge} joins the guest to an interface of {guest.host}"
            yield Mistake((*path, "uplink"), what, " or ".join(ends) or "an end of a link")
        return
    if guest.uplink in ends or guest.host not in sketch.names.get("hosts", ()):
        return
    if sketch.is_switched(End(guest.host, guest.uplink)):
        what = f"{guest.uplink} is a port of {guest.host}'s switch, and an interface is a port of one bridge"
        yield Mistake((*path, "uplink"), what, " or ".join(ends) or "an end of a link that is not a port of it")
        return
    if "links" not in sketch.names or sketch.loose_links:
        return
    if ends:
        yield Mistake((*path, "uplink"), *unknown("end of a link", guest.uplink, ends))
    else:
        other = next((host for host in sketch.names["hosts"] if host != guest.host), "sensor")
        expected = f"a link such as {{ends: [{other}.eth0, {guest.host}.{guest.uplink}]}} in links"
        yield Mistake((*path, "uplink"), f"no link ends at {guest.host}.{guest.uplink}", expected)


def uplinks_have_one_bridge(sketch: Sketch) -> Iterator[Mistake]:
    """An interface is a port of one bridge; user NAT, and a card passed through, leave it as it is."""
    bridges: dict[End, tuple[str, str]] = {}
    asked = where_known(sketch.guests, lambda _, guest: (uplink_of(guest), guest.bridge, guest.device))
    for name, (end, bridge, device) in asked:
        kind = KINDS[bridge]
        if kind.keeps_uplink or (kind.hands_over_card and device is not None):
            continue
        first, other = bridges.setdefault(end, (name, bridge))
        if first != name and (other != bridge or not kind.many_guests):
            where = str(end) if end.interface != INNER else end.host
            what = f"{first} is joined to {where} by {other} already"
            yield Mistake(("guests", name, "bridge"), what, "a different uplink" if other == bridge else other)


def domains_are_apart(sketch: Sketch) -> Iterator[Mistake]:
    """A domain is one guest."""
    yield from _given_once(sketch, "domain", "is the domain of")


def devices_are_apart(sketch: Sketch) -> Iterator[Mistake]:
    """A card of a machine is passed through to one guest."""
    yield from _given_once(sketch, "device", "is passed through to")


def guests_have_addresses(sketch: Sketch) -> Iterator[Mistake]:
    """A link's network has room for the hosts and guests on it."""
    for segment in sketch.segments:
        if segment.link:
            yield from known(_room(segment))


def guest_networks_are_apart(sketch: Sketch) -> Iterator[Mistake]:
    """No link has addresses that guests without an uplink have, or that user NAT uses itself."""
    inner = [segment.network for segment in sketch.segments if segment.link is None]
    for segment in sketch.segments:
        if segment.link is not None:
            yield from known(_apart(segment, inner))


def bridges_have_their_name(sketch: Sketch) -> Iterator[Mistake]:
    """The bridge of a host's guests without an uplink has a name next to the host's interfaces."""
    hosts = {host for _, (host, uplink) in where_known(sketch.guests, lambda _, g: (g.host, g.uplink)) if not uplink}
    for (index, side), end in sketch.ends.items():
        if end.interface == INNER and end.host in hosts:
            what = f"{end} is the name of the bridge of {end.host}'s guests without an uplink"
            yield Mistake(("links", index, "ends", side), what, "another name, or an uplink for each of them")


def _given_once(sketch: Sketch, key: str, words: str) -> Iterator[Mistake]:
    first: dict[tuple[str | None, str], str] = {}
    asked = where_known(sketch.guests, lambda _, guest: (sketch.machine_of(guest.host), getattr(guest, key)))
    for name, (machine, value) in asked:
        if value is not None and first.setdefault((machine, value), name) != name:
            what = f"{value} {words} {first[machine, value]} already"
            yield Mistake(("guests", name, key), what, f"another {key}")


def _room(segment: Segment) -> Iterator[Mistake]:
    used = segment.first_guest + len(segment.guests) if segment.guests else 1 + len(segment.ends)
    # The last address is the broadcast's.
    if segment.network.num_addresses - 1 < used:
        whom = f"{len(segment.ends)} hosts"
        if segment.guests:
            whom = f"{len(segment.guests)} guests, which begin at .{segment.first_guest}"
        where: Path = (*segment.path, "subnet")
        yield Mistake(where, f"{segment.network} has no room for {whom}", "a network such as 10.78.0.0/24")


def _apart(segment: Segment, inner: list[IPv4Network]) -> Iterator[Mistake]:
    where: Path = (*segment.path, "subnet")
    for network in inner:
        if segment.network.overlaps(network):
            yield Mistake(where, f"{segment.network} overlaps {network} of guests without an uplink", "another network")
    bridges = where_known(segment.guests, lambda _, guest: guest.bridge)
    behind = [end.host for end, bridge in bridges if KINDS[bridge].translates]
    if behind and segment.network.overlaps(USER_NETWORK):
        what = f"{segment.network} overlaps {USER_NETWORK}, which {behind[0]} has behind user NAT"
        yield Mistake(where, what, "another network")
