"""What keeps a cell from being built on this machine: told with its remedy, while the other cells run."""

from __future__ import annotations

from collections.abc import Iterator

from latlab.errors import LabError
from latlab.lab.bridges.base import Joint
from latlab.lab.bridges.joints import joints
from latlab.lab.bridges.table import BRIDGES
from latlab.lab.guests.libvirt import domain_lacking
from latlab.lab.guests.own import own_lacking
from latlab.lab.guests.planned import planned_site
from latlab.lab.guests.qemu import qemu_program, qemu_version
from latlab.lab.site import Site
from latlab.scenario import Route, Scenario

OLDEST_QEMU = (7, 2)


def unavailable(scenario: Scenario, site: Site) -> list[LabError]:
    """Every reason why the cell cannot be built here; empty when it can. Reads only."""
    return [
        reason for check in (_bridges, _ways, _guests, own_lacking, domain_lacking) for reason in check(scenario, site)
    ]


def unavailable_here(scenario: Scenario) -> list[LabError]:
    """The same, before anything is known of a run."""
    return unavailable(scenario, planned_site(scenario))


def summed_up(reasons: list[LabError]) -> LabError:
    """One error that tells all of them."""
    if len(reasons) == 1:
        return reasons[0]
    return LabError("; ".join(str(reason) for reason in reasons), where="", remedy="")


def _bridges(scenario: Scenario, site: Site) -> Iterator[LabError]:
    for joint in joints(scenario, site.tag):
        if lacking := BRIDGES[joint.kind].lacking(joint, site):
            yield LabError(lacking.what, where=_at(joint), remedy=lacking.remedy)


def _ways(scenario: Scenario, site: Site) -> Iterator[LabError]:
    """A bridge that does not join what a stream or a load is to join."""
    flows = [(f"streams.{name}", scenario.route(name), stream.transport) for name, stream in scenario.streams.items()]
    flows += [(f"loads.{name}", scenario.load_route(name), "udp") for name in scenario.loads]
    for joint in joints(scenario, site.tag):
        bridge = BRIDGES[joint.kind]
        guests = {port.end for port in joint.ports}
        for where, route, transport in flows:
            ends = {route.talker_end, route.listener_end}
            if not ends & guests:
                continue
            if transport == "ethernet" and not bridge.carries_frames:
                yield LabError(
                    f"{bridge.title} carries no Ethernet frames", where=where, remedy="transport: udp, no vlan"
                )
            if joint.end in ends and not bridge.reaches_host:
                what = f"{bridge.title} joins {joint.host}'s guests to the uplink, not to {joint.host} itself"
                yield LabError(what, where=where, remedy="another bridge, or a talker beyond the uplink")
            if joint.kind == "user" and scenario.clock.sync == "exchange" and where.startswith("streams"):
                what = f"{bridge.title} changes the addresses that an exchange of timestamps is known by"
                yield LabError(what, where=f"{where}: clock.sync", remedy="clock: {sync: auto}")
            if not bridge.reaches_guests and _both_guests(route):
                yield LabError(f"{bridge.title} lets no guest reach another", where=where, remedy="another bridge")


def _guests(scenario: Scenario, site: Site) -> Iterator[LabError]:
    """What a guest itself asks of the machine."""
    for name, guest in scenario.guests.items():
        where = f"guests.{name}"
        if guest.acceleration == "kvm" and site.machine.kvm:
            yield LabError(site.machine.kvm, where=f"{where}.acceleration", remedy="acceleration: auto")
        if not guest.domain and (what := _qemu(site)):
            remedy = f"QEMU {'.'.join(map(str, OLDEST_QEMU))} or newer: `sudo apt install qemu-system-x86`"
            yield LabError(what, where=where, remedy=remedy)


def _qemu(site: Site) -> str | None:
    """What is wrong with this machine's QEMU; None when it serves."""
    program = qemu_program(site.machine)
    if not site.machine.has_tool(program):
        return f"{program} is missing"
    version = qemu_version(site.machine)
    if version is None:
        return f"`{program} --version` does not say its version"
    return f"QEMU {'.'.join(map(str, version))} is too old" if version < OLDEST_QEMU else None


def _both_guests(route: Route) -> bool:
    return {route.talker_end, route.listener_end} <= set(route.segment.guests)


def _at(joint: Joint) -> str:
    return f"guests.{joint.ports[0].guest}.bridge: {joint.kind}"
