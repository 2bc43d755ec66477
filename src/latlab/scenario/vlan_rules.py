"""What VLANs must keep: the names of their interfaces, their networks, and what can be done with such an interface."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from ipaddress import IPv4Network

from latlab.model.bridges import KINDS
from latlab.scenario.findings import Mistake, Path
from latlab.scenario.guests import Guest, takes_all
from latlab.scenario.links import Link, subnet_of, vlan_end, vlan_subnet_of
from latlab.scenario.network import joined, routes, uplink_of, vlans_of
from latlab.scenario.parts import INTERFACE_NAME_MAX, End
from latlab.scenario.probes import PingProbe
from latlab.scenario.sketch import Sketch, where_known
from latlab.scenario.streams import Stream


def names_are_the_kernels(sketch: Sketch) -> Iterator[Mistake]:
    """An interface's name has at most 15 characters (IFNAMSIZ), the id and the dot before it among them."""
    for path, end in _interfaces(sketch):
        length = len(end.interface.encode(errors="surrogatepass"))
        if length > INTERFACE_NAME_MAX:
            what = f"the VLAN interface {end} would have {length} characters, the kernel takes {INTERFACE_NAME_MAX}"
            yield Mistake(path, what, "a shorter name of the interface that it is on (ip link set … name …)")


def names_are_free(sketch: Sketch) -> Iterator[Mistake]:
    """No VLAN interface has the name of an end of a link; hosts of one network namespace share its interfaces."""
    taken = {
        End(sketch.namespace_of(end.host), end.interface): f"an end of links[{index}]"
        for (index, _), end in sketch.ends.items()
    }
    for path, end in _interfaces(sketch):
        interface = End(sketch.namespace_of(end.host), end.interface)
        if interface in taken:
            yield Mistake(path, f"{end} is {taken[interface]} already", "another id, or another name of that end")
        taken.setdefault(interface, f"a VLAN interface of links[{path[1]}]")


def bridge_takes_the_interface(sketch: Sketch, path: Path, guest: Guest) -> Iterator[Mistake]:
    """A bridge that takes a card leaves nothing to the VLAN interfaces on it, and can be on none."""
    end = uplink_of(guest)
    on_it = [str(vlan) for vlan, parent in sketch.vlan_parents.items() if parent == end]
    if KINDS[guest.bridge].leaves_nothing and end in sketch.vlan_parents:
        what = f"{guest.bridge} takes a network card, and {end} is a VLAN interface on {sketch.parent_of(end)}"
        yield Mistake((*path, "bridge"), what, "another bridge, such as tap")
    elif on_it and (why := takes_all(guest)):
        what = f"{guest.bridge} takes all frames from {', '.join(on_it)}: {why}"
        yield Mistake((*path, "bridge"), what, "another bridge, or a link without vlans")


def frames_bear_one_tag(sketch: Sketch, path: Path, stream: Stream | PingProbe) -> Iterator[Mistake]:
    """What leaves by a VLAN interface gets its tag there."""
    if stream.transport != "ethernet" or stream.vlan is None:
        return
    ways = routes(sketch.segments, stream.talker, stream.listener, stream.via)
    if len(ways) == 1 and ways[0].segment.vlan is not None:
        port, out = sketch.parent_of(ways[0].talker_end), ways[0].talker_end
        what = f"{out} tags the packets that leave there: with its own vlan a frame would have two tags"
        expected = f"no vlan and pcp but transport: ethernet, or via: {port}"
        yield Mistake((*path, "vlan"), what, expected if port != out else "no vlan")


def networks_of(sketch: Sketch) -> Iterator[tuple[Path, IPv4Network, bool]]:
    """The network of each link and VLAN, where it is known: its path, the network, whether the scenario gives it.

    Links that a switch joins have that of the first.
    """
    own = {one.links[0] for one in joined(sketch.ends_of_links, sketch.switches.values())}
    links = {index: link for index, link in sketch.links.items() if index in own or index not in sketch.ends_of_links}
    found = {index: (network, bool(links[index].subnet)) for index, network in where_known(links, subnet_of)}
    for index, (network, is_given) in found.items():
        yield ("links", index), network, is_given
    for index, link in sketch.links.items():
        of_vlans = where_known(dict.fromkeys(vlans_of(link), link), partial(_vlan_network, index))
        for vlan, (network, is_given) in of_vlans:
            yield ("links", index, "vlans", str(vlan)), network, is_given


def _vlan_network(index: int, vlan: int, link: Link) -> tuple[IPv4Network, bool]:
    return vlan_subnet_of(index, link, vlan), bool(link.vlans[vlan].subnet)


def _interfaces(sketch: Sketch) -> Iterator[tuple[Path, End]]:
    """Each VLAN interface, with the path of its VLAN."""
    for one in joined(sketch.ends_of_links, sketch.switches.values()):
        links = [index for index in one.links if index in sketch.links]
        # Of two links that a switch joins, one has the VLAN: another rule's.
        first = {vlan: index for index in reversed(links) for vlan in vlans_of(sketch.links[index])}
        for vlan, index in first.items():
            yield from ((("links", index, "vlans", str(vlan)), vlan_end(end, vlan)) for end in one.ends)
