"""What the hosts must keep: the machine each is on, and how the machines are joined."""

from __future__ import annotations

from collections.abc import Iterator

from latlab.scenario.findings import Finding, Path, unknown
from latlab.scenario.guests import Ssh
from latlab.scenario.hosts import BoardHost, Host, NetnsHost, SshHost, has_interface
from latlab.scenario.links import Link
from latlab.scenario.network import joined, vlans_of
from latlab.scenario.parts import End
from latlab.scenario.sketch import Sketch, where_known


def namespace_is_on_a_machine(sketch: Sketch, path: Path, host: Host) -> Iterator[Finding]:
    """A namespace is made on this machine, or on one that is a host itself."""
    if not isinstance(host, NetnsHost) or host.on is None:
        return
    where, on = (*path, "on"), sketch.hosts.get(host.on)
    if isinstance(on, SshHost | BoardHost):
        return
    machines = [name for name, other in sketch.hosts.items() if isinstance(other, SshHost | BoardHost)]
    if host.on == path[1]:
        yield Finding(where, f"{host.on} would be made on itself", _one_of(machines))
    elif host.on not in sketch.names["hosts"]:
        yield Finding(where, *unknown("host of kind ssh or board", host.on, machines))
    elif on is not None:
        yield Finding(where, f"{host.on} is of kind {on.kind}", _one_of(machines))


def host_is_reached(_: Sketch, path: Path, host: Host) -> Iterator[Finding]:
    """A machine is reached as one user."""
    if isinstance(host, SshHost):
        yield from one_user((*path, "ssh"), host.ssh)


def one_user(path: Path, ssh: Ssh) -> Iterator[Finding]:
    """The user stands in the destination or next to it. path: of the ssh."""
    if ssh.destination is not None and "@" in ssh.destination and ssh.user is not None:
        yield Finding((*path, "user"), "a user in addition to the one in destination", "one of them")


def virtual_time_has_no_company(sketch: Sketch, path: Path, host: Host) -> Iterator[Finding]:
    """Between a clock that counts instructions and any other, no time can be measured."""
    if isinstance(host, BoardHost) and host.time == "virtual":
        places = where_known(sketch.hosts, lambda name, _: sketch.machine_of(name))
        others = [name for name, machine in places if machine != path[1]]
        if others:
            elsewhere = f"{', '.join(others)} {'is' if len(others) == 1 else 'are'} not on {path[1]}"
            expected = f"every other host of kind netns with on: {path[1]}, or time: real"
            yield Finding((*path, "time"), f"a board in virtual time excludes other machines: {elsewhere}", expected)


def board_has_the_cards(sketch: Sketch, path: Path, host: Host) -> Iterator[Finding]:
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
        yield Finding((*path, "nics"), what, f"{len(places)} or more")
        return
    for interface, where in places.items():
        if interface not in host.cards:
            yield Finding(where, f"{path[1]} has no card {interface}", " or ".join(host.cards))


def cards_are_a_boards(sketch: Sketch, path: Path, host: Host) -> Iterator[Finding]:
    """A machine that outlives the run would not get an interface back as it was: routes, queues, a bridge it was in."""
    if isinstance(host, NetnsHost) and host.cards:
        machine = sketch.machine_of(str(path[1]))
        if machine is None or not isinstance(sketch.hosts[machine], BoardHost):
            what = f"{host.cards[0]} is an interface of {machine or 'this machine'}, which is not an emulated board"
            yield Finding((*path, "cards"), what, "a namespace on a host of kind board, or a veth pair")


def cards_are_apart(sketch: Sketch) -> Iterator[Finding]:
    """A card of a board is in one network namespace."""
    taken = {
        (end.host, end.interface): f"an end of links[{index}] in {end.host}"
        for (index, _), end in sketch.ends.items()
        if sketch.is_existing(end.host)
    }
    for board, card, where in _moved(sketch):
        if (board, card) in taken:
            yield Finding(where, f"{card} of {board} is {taken[board, card]}", "a card that is not in use")
        taken.setdefault((board, card), f"{where[1]}'s already")


def cables_of_boards_join_boards(sketch: Sketch, path: Path, link: Link) -> Iterator[Finding]:
    """A cable at an emulated card is QEMU's, and nothing but another such card can be at its other end."""
    if sketch.is_cable(link.ends):
        machines = {end.host: sketch.machine_of(end.host) for end in link.ends}
        boards = [machine for machine in machines.values() if machine and isinstance(sketch.hosts[machine], BoardHost)]
        others = [host for host, machine in machines.items() if machine not in boards]
        if others and boards:
            what = f"a cable from {boards[0]}, whose cards are emulated, cannot reach {others[0]}"
            yield Finding((*path, "ends"), what, "a board at both ends")


def link_can_be_made(sketch: Sketch, path: Path, link: Link) -> Iterator[Finding]:
    """A veth pair joins two namespaces of one kernel, and no card."""
    if sketch.is_cable(link.ends):
        return
    machines = dict.fromkeys(sketch.machine_of(end.host) for end in link.ends)
    if len(machines) > 1:
        here, there = (machine or "this machine" for machine in machines)
        expected = "existing interfaces of both machines (kinds local, ssh and board), or both hosts on one"
        yield Finding((*path, "ends"), f"a cable between {here} and {there} cannot be made", expected)
        return
    for end in link.ends:
        if not sketch.is_existing(end.host) and has_interface(sketch.hosts[end.host], end.interface):
            what = f"{end} is a card, and the other end would be made for the run"
            yield Finding((*path, "ends"), what, "existing interfaces (cards) at both ends, or at neither")


def switch_joins_links(sketch: Sketch, path: Path, host: Host) -> Iterator[Finding]:
    """The ports of a switch are ends of links."""
    ends = [end.interface for end in sketch.ends.values() if end.host == path[1]]
    if "links" in sketch.names and not sketch.loose_links:
        for number, port in enumerate(host.switch):
            if port not in ends:
                yield Finding((*path, "switch", number), *unknown("end of a link", port, ends))


def switches_make_no_loop(sketch: Sketch) -> Iterator[Finding]:
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
                yield Finding(("hosts", name, "switch", number), what, "one path between any two switches")
                return
        before.append(ports)


def joined_link_is_as_the_first(sketch: Sketch, path: Path, link: Link) -> Iterator[Finding]:
    """Links that a switch joins have one network, one MTU, and each VLAN once."""
    groups = [one.links for one in joined(sketch.ends_of_links, sketch.switches.values()) if path[1] in one.links]
    if not groups:
        return  # its ends are wrong
    first, *others = groups[0]
    if path[1] not in others:
        return
    which = f"links[{first}], which a switch joins to it"
    if link.subnet is not None:
        yield Finding((*path, "subnet"), f"it has the network of {which}", f"no subnet, or links[{first}].subnet")
    if link.mtu != sketch.links[first].mtu:
        yield Finding((*path, "mtu"), f"{which}, has {sketch.links[first].mtu}", "the same MTU for both")
    for index in (first, *others[: others.index(path[1])]):
        for vlan in vlans_of(link):
            if vlan in vlans_of(sketch.links[index]):
                what = f"links[{index}], which a switch joins to it, has VLAN {vlan}"
                yield Finding((*path, "vlans", str(vlan)), what, "each VLAN at only one of the two")


def _moved(sketch: Sketch) -> Iterator[tuple[str, str, Path]]:
    """Each card that a namespace takes of its board: the board, the card, its place."""
    namespaces = {name: host for name, host in sketch.hosts.items() if isinstance(host, NetnsHost)}
    for name, (machine, cards) in where_known(namespaces, lambda name, host: (sketch.machine_of(name), host.cards)):
        for number, card in enumerate(cards if machine else ()):
            yield str(machine), card, ("hosts", name, "cards", number)


def _one_of(machines: list[str]) -> str:
    return f"a host of kind ssh or board: {' or '.join(machines) or 'there is none'}"
