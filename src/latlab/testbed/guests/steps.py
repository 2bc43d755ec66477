"""Guests of latlab's images: started, answering, with their clock set and their interface configured."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from latlab.model.bridges import KINDS
from latlab.scenario import Route, Scenario
from latlab.scenario.guests import facts_of
from latlab.scenario.network import USER_GATEWAY
from latlab.testbed.bridges.base import GuestPort, Joint, Neighbour, Plug
from latlab.testbed.bridges.joints import neighbours
from latlab.testbed.guests.monitor import MONITOR_MODULE
from latlab.testbed.guests.qemu import MONITOR, qemu_argv
from latlab.testbed.host_setup import ipv6_off
from latlab.testbed.images import is_whole
from latlab.testbed.site import Site
from latlab.testbed.step import Check, Service, Step

BOOT_S = 60
BOOT_MS = (BOOT_S + 5) * 1000
BOOT_ELSEWHERE_S = 240
"""A board is emulated itself: half a minute where it has a CPU of this machine for itself, and minutes where not."""
BOOT_ELSEWHERE_MS = (BOOT_ELSEWHERE_S + 5) * 1000

LOAD_DRIVERS = "cat /sys/bus/pci/devices/*/modalias | xargs -n 1 modprobe -q; true"
"""Our images have no udev: what is on the bus next to QEMU's own devices is looked for once."""

KVM_CLOCK = ("sh", "-c", "modprobe -q ptp_kvm; true")
"""Where no page joins the clocks of guest and host."""

NAME_AND_CLOCK = 'echo "$0" >/proc/sys/kernel/hostname; exec date -u -s "$1"'
SET = 'exec "$0" in "$1" sh -c "$2" "$3" "@$(date +%s)"'
"""A guest's name is not on its kernel's command line: all guests of a kind resume from one snapshot."""


def folder_steps(scenario: Scenario, site: Site) -> Iterator[Step]:
    """The folders of the run's sockets, pages and nodes."""
    if not scenario.guests:
        return
    places = {name: site.on(scenario.machine_of(name)) for name in scenario.guests}
    for place in {place.name: place for place in places.values()}.values():
        yield Step(
            host=place.name,
            title="make the folder of the run's sockets",
            do=("mkdir", "-p", "-m", "700", place.state),
            undo=("rm", "-r", place.state),
            present=("test", "-d", place.state),
        )
    for name, place in places.items():
        yield Step(place.name, f"make {name}'s folder", ("mkdir", "-p", place.guest_state(name)))


def start_guest(port: GuestPort, plug: Plug, host: str, site: Site, kept: set[Path]) -> Iterator[Step | Service]:
    """The guest runs and answers, has its name, and its clock shows the time of this machine to the second.

    One that may start from a snapshot is booted for it the first time, and then starts from it like ever after.
    kept: the snapshots that earlier steps of the cell have made; what these make is added.
    """
    folder = site.guest_state(port.guest)
    snapshot = site.snapshots.get(port.guest)
    if snapshot and snapshot not in kept and not is_whole(snapshot):
        kept.add(snapshot)
        yield _qemu(port, plug, host, site, None, f"boot {port.guest} for its snapshot", passing=True)
        yield Step(
            host=site.name,
            title=f"save {port.guest} as it is now: this and later runs start from this snapshot",
            do=(sys.executable, "-m", MONITOR_MODULE, "snapshot", f"{folder}/{MONITOR}", str(snapshot)),
        )
    yield _qemu(port, plug, host, site, snapshot, f"start {port.guest}")
    yield Step(
        host=site.name,
        title=f"set {port.guest}'s name and, to the second, its time",
        do=("sh", "-c", SET, site.agent, folder, NAME_AND_CLOCK, port.guest),
    )


def _qemu(
    port: GuestPort, plug: Plug, host: str, site: Site, snapshot: Path | None, title: str, *, passing: bool = False
) -> Service:
    image = site.images[port.wants.image_name]
    console = f"{site.logs}/{port.guest}.console" if site.is_here else None
    boot_s, boot_ms = (BOOT_S, BOOT_MS) if site.is_here else (BOOT_ELSEWHERE_S, BOOT_ELSEWHERE_MS)
    answers = (site.agent, "in", "--patience", str(boot_s), site.guest_state(port.guest), "echo", "answers")
    return Service(
        host=host,
        title=title,
        # What a guest on another machine prints comes here as its QEMU's own output.
        argv=qemu_argv(port, plug, image, site, console or "/proc/self/fd/1", snapshot),
        log=site.log(port.guest),
        console=console,
        ready=Check(answers, expected="answers", within_ms=boot_ms),
        passing=passing,
        carries=port.guest,
        incoming=snapshot,
    )


def configure_guest(scenario: Scenario, port: GuestPort, joint: Joint, site: Site) -> Iterator[Step]:
    """The guest's interface has its address and knows its neighbours; IPv6 keeps still."""
    device = port.end.interface
    translated = KINDS[joint.kind].translates
    if facts_of(port.wants).gives_device:
        yield Step(port.guest, f"load the driver of {port.guest}'s network card", ("sh", "-c", LOAD_DRIVERS))
    if not site.shares_pages:
        yield Step(port.guest, f"load the driver of KVM's PTP clock in {port.guest}, if there is KVM", KVM_CLOCK)
    address = () if translated else ("address", port.mac)
    yield ipv6_off(port.guest, device)
    # One command for all of it: each takes a while in a guest that is emulated.
    yield Step(
        host=port.guest,
        title=f"bring {port.end} up with this run's MAC address and MTU",
        do=("ip", "link", "set", "dev", device, "mtu", str(joint.segment.mtu), *address, "up"),
    )
    yield Step(port.guest, f"give {port.end} its address", ("ip", "addr", "add", str(port.address), "dev", device))
    if translated:
        gateway = str(USER_GATEWAY.ip)
        yield Step(port.guest, "add the default route", ("ip", "route", "add", "default", "via", gateway))
        return
    for neighbour in neighbours(scenario, site.tag, joint.segment, port.end):
        yield _neighbour(port, device, neighbour)


def _neighbour(port: GuestPort, device: str, neighbour: Neighbour) -> Step:
    address = str(neighbour.address.ip)
    return Step(
        host=port.guest,
        title=f"add the neighbour entry of {neighbour.end} in {port.guest}, so that no ARP is sent between packets",
        do=("ip", "neigh", "replace", address, "lladdr", neighbour.mac, "dev", device, "nud", "permanent"),
    )


# Each way that a stream takes to or from a guest is tried once before anything is measured on it.


REACHED_MS = 15_000
"""A user-space switch sets a guest's port up again for over a second after its driver has started."""


def reach_steps(scenario: Scenario, site: Site) -> Iterator[Step]:
    """One for each two interfaces; none through user NAT, which answers pings itself."""
    routes = {
        frozenset((route.talker_end, route.listener_end)): route
        for route in (scenario.route(name) for name in scenario.flows)
    }
    for route in routes.values():
        if not route.is_translated and {route.talker_end, route.listener_end} & set(route.segment.guests):
            yield _reach(route)


def _reach(route: Route) -> Step:
    address = str(route.segment.address(route.listener_end).ip)
    return Step(
        host=route.talker_end.host,
        title=f"{route.talker_end} reaches {route.listener_end}",
        do=(),
        check=Check(("ping", "-c", "1", "-W", "1", address), "1 received", _received, REACHED_MS),
    )


def _received(output: str) -> str:
    # iputils: "1 received"; busybox: "1 packets received"
    found = re.search(r"(\d+) (?:packets )?received", output)
    return f"{found[1]} received" if found else output.strip()
