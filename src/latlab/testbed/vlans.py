"""The steps that make VLAN interfaces on the ends of links, with their priority maps (ip-link(8), type vlan).

Our mark on one is its interface group, which the command that makes it sets: its hardware address is its parent's. The
cable may be there already: the interfaces on it are latlab's, and removed afterwards.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from zlib import crc32

from latlab.model.errors import LabError
from latlab.scenario import Scenario, Segment, Vlan
from latlab.testbed.apply import BY_HAND
from latlab.testbed.bridges.joints import neighbours
from latlab.testbed.host_setup import ipv6_off
from latlab.testbed.kernel_parts import load_remedy
from latlab.testbed.links import Half, addressed, half_of, is_bridged, is_up, neighbour_step
from latlab.testbed.machine import Machine
from latlab.testbed.site import Site
from latlab.testbed.step import Argv, Check, Explain, Step

MODULE = "8021q"
LOADED = "/proc/net/vlan"
KNOWN_TO_MODPROBE = ("modprobe", "-nq", MODULE)
"""The kernel loads the module itself as the first interface is made (rtnl-link-vlan), if it has it."""
REMEDY = load_remedy(MODULE)

GROUP = 0x4C4C0000
"""The upper half of our groups' numbers: "LL". A group is an int32, and those with names are below 256."""

LOOK = f"""\
[ -e {LOADED} ] || modprobe -nq {MODULE} || echo 'no {MODULE}'
ip -d -o link show type vlan
"""


def vlan_steps(scenario: Scenario, site: Site) -> Iterator[Step]:
    """The steps for each VLAN, in the scenario's order, once its link is up at both ends."""
    for segment in scenario.segments():
        if segment.link is None or segment.vlan is None:
            continue
        vlan = segment.link.vlans[segment.vlan]
        halves = [half_of(scenario, end, site) for end in segment.ends]
        for half in halves:
            yield from _made(scenario, half, segment.vlan, vlan, site)
        for half in halves:
            steps = addressed(scenario, half)
            yield from steps if _has_addresses(scenario, segment) else steps[-1:]
        for half in halves:
            if not is_bridged(scenario, half.end):
                found = neighbours(scenario, site.tag, segment, half.end)
                yield from (neighbour_step(half, neighbour) for neighbour in found)
        yield from (is_up(half) for half in halves)


def vlans_lacking(scenario: Scenario, site: Site) -> Iterator[LabError]:
    """Each link whose VLANs a kernel at one of its ends cannot make. Reads only."""
    for segment in _vlan_segments(scenario):
        machines = dict.fromkeys(scenario.machine_of(end.host) for end in segment.ends)
        for name in machines:
            if not makes_vlans(site.on(name).machine):
                what = f"the kernel of {name or 'this machine'} has no VLAN interfaces ({MODULE})"
                yield LabError(what, where=f"links[{segment.number}].vlans", remedy=REMEDY)


def makes_vlans(machine: Machine) -> bool:
    """Whether the machine's kernel makes VLAN interfaces, as far as reading shows."""
    return machine.exists(LOADED) or machine.say(KNOWN_TO_MODPROBE) is not None


def group_of(tag: str) -> int:
    """The interface group of a run's VLAN interfaces."""
    return GROUP | crc32(tag.encode()) & 0xFFFF


def map_words(mapping: Mapping[int, int]) -> Argv:
    """A priority map as ip takes it: `7:7`, `5:5`. What goes to 0 does so by default, and is not shown."""
    return tuple(f"{one}:{other}" for one, other in sorted(mapping.items()) if other)


def in_words(output: str) -> str:
    """What `ip -d -j link show` says of a VLAN interface: its id, what it is on, and its maps."""
    link = json.loads(output)[0]
    info = link["linkinfo"]
    if info["info_kind"] != "vlan":
        return str(info["info_kind"])
    data = info["info_data"]
    egress, ingress = ({entry["from"]: entry["to"] for entry in data.get(key, ())} for key in _MAPS)
    return _words(link["link"], data["id"], egress, ingress)


_MAPS = ("egress_qos", "ingress_qos")


def _words(parent: str, vlan: int, egress: Mapping[int, int], ingress: Mapping[int, int]) -> str:
    out, back = (" ".join(map_words(one)) or "all to 0" for one in (egress, ingress))
    return f"VLAN {vlan} of {parent}; egress {out}; ingress {back}"


def _made(scenario: Scenario, half: Half, number: int, vlan: Vlan, site: Site) -> Iterator[Step]:
    end, parent, group = half.end, scenario.parent_of(half.end).interface, str(group_of(site.tag))
    device = f"/sys/class/net/{end.interface}"
    host = scenario.hosts[end.host]
    if not host.is_namespace and not host.is_emulated:
        yield Step(
            host=half.machine,
            title=f"{end.host} has no interface {end.interface} yet",
            do=(),
            present=("test", "-e", device),
        )
    maps = [
        word
        for key, mapping in (("egress-qos-map", vlan.egress), ("ingress-qos-map", vlan.ingress))
        if (words := map_words(mapping))
        for word in (key, *words)
    ]
    yield Step(
        host=half.machine,
        title=f"make the VLAN interface {end}",
        do=(
            *(*half.ip, "link", "add", "link", parent, "name", end.interface, "group", group),
            *("type", "vlan", "id", str(number), *maps),
        ),
        undo=(*half.ip, "link", "del", "dev", end.interface),
        present=(*half.inside, "grep", "-qx", group, f"{device}/netdev_group"),
        check=Check(
            (*half.ip, "-d", "-j", "link", "show", "dev", end.interface),
            expected=_words(parent, number, vlan.egress, vlan.ingress),
            read=in_words,
        ),
        lasting=True,
        explain=Explain((*half.inside, "sh", "-c", LOOK), lambda output: refusal(output, parent, number)),
    )
    if half.namespace is None:
        yield ipv6_off(half.machine, end.interface)


def refusal(output: str, parent: str, vlan: int) -> str:
    """What to do where the kernel did not make the interface, by what LOOK printed."""
    lines = output.splitlines()
    if f"no {MODULE}" in lines:
        return REMEDY
    for line in lines:
        name, _, on = line.partition(": ")[2].partition(":")[0].partition("@")
        if on == parent and f" id {vlan} " in line:
            return f"{parent} has VLAN {vlan} already, as {name}: another VLAN id, or `ip link del dev {name}`"
    return BY_HAND


def _vlan_segments(scenario: Scenario) -> Iterator[Segment]:
    """The first VLAN of each link that has any: they are all made alike."""
    told: set[int] = set()
    for segment in scenario.segments():
        if segment.vlan is not None and segment.number not in told:
            told.add(segment.number)
            yield segment


def _has_addresses(scenario: Scenario, segment: Segment) -> bool:
    """Whether IP goes over it: a cable between two interfaces of one machine carries frames only."""
    links = (scenario.links[scenario.link_number_of(end)] for end in segment.ends)
    if any(map(scenario.link_is_created, links)) or any(map(scenario.is_emulated, segment.ends)):
        return True
    return len({scenario.machine_of(end.host) for end in segment.ends}) > 1
