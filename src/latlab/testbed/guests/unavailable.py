"""What keeps a cell from being built on this machine: reported with its remedy, while the other cells run."""

from __future__ import annotations

import os
from collections.abc import Iterator

from latlab.hosts.tools import install_remedy
from latlab.model.bridges import KINDS
from latlab.model.errors import LabError
from latlab.scenario import Route, Scenario
from latlab.scenario.findings import show_path
from latlab.testbed.architecture import ARCHITECTURES, BY_DEBIAN
from latlab.testbed.bridges.base import Joint
from latlab.testbed.bridges.joints import joints
from latlab.testbed.bridges.table import BRIDGES
from latlab.testbed.guests.libvirt import domain_lacking
from latlab.testbed.guests.own import own_lacking
from latlab.testbed.guests.planned import planned_site
from latlab.testbed.guests.qemu import OLDEST_QEMU, qemu_lacking, qemu_program
from latlab.testbed.images import Image
from latlab.testbed.loads.lacking import loads_lacking
from latlab.testbed.machine import Machine
from latlab.testbed.machines import machines_lacking
from latlab.testbed.probes.lacking import probes_lacking
from latlab.testbed.site import Site
from latlab.testbed.vlans import vlans_lacking


def unavailable(scenario: Scenario, site: Site) -> list[LabError]:
    """Every reason why the cell cannot be built here; empty when it can. Reads only.

    Before the other machines are inspected, only what keeps them from being used is reported.
    """
    if not all(place.machine.seen for place in site.others.values()):
        return list(machines_lacking(scenario, site))
    return [reason for check in CHECKS for reason in check(scenario, site)]


def unavailable_here(scenario: Scenario) -> list[LabError]:
    """The same, before anything is known of a run."""
    return unavailable(scenario, planned_site(scenario))


def summed_up(reasons: list[LabError]) -> LabError:
    """One error with all of them."""
    if len(reasons) == 1:
        return reasons[0]
    what, where, remedy = (
        dict.fromkeys(filter(None, (getattr(reason, part) for reason in reasons)))
        for part in ("what", "where", "remedy")
    )
    return LabError("; ".join(what), where=", ".join(where), remedy="; ".join(remedy))


def _bridges(scenario: Scenario, site: Site) -> Iterator[LabError]:
    for joint in joints(scenario, site.tag):
        if lacking := BRIDGES[joint.kind].lacking(joint, site.on(scenario.machine_of(joint.host))):
            yield LabError(lacking.what, where=_at(joint), remedy=lacking.remedy)


def _ways(scenario: Scenario, site: Site) -> Iterator[LabError]:
    """A bridge that does not join what a stream or a load is to join."""
    flows = [
        (show_path(flow.path), scenario.route(name), flow.transport, flow.is_recorded)
        for name, flow in scenario.flows.items()
        if not flow.is_answer  # what is true of a question's way is of its answer's
    ]
    flows += [(f"loads.{name}", scenario.load_route(name), "udp", False) for name in scenario.sent_loads]
    for joint in joints(scenario, site.tag):
        bridge = KINDS[joint.kind]
        guests = {port.end for port in joint.ports}
        for where, route, transport, is_compared in flows:
            ends = {route.talker_end, route.listener_end}
            if not ends & guests:
                continue
            if transport == "ethernet" and not bridge.carries_frames:
                yield LabError(
                    f"{bridge.title} carries no Ethernet frames", where=where, remedy="transport: udp, no vlan"
                )
            if transport == "dds" and bridge.translates:
                what = f"{bridge.title} hides the addresses by which the two sides of DDS discover each other"
                yield LabError(what, where=where, remedy="another bridge")
            if joint.end in ends and not bridge.reaches_host:
                what = f"{bridge.title} joins {joint.host}'s guests to the uplink, not to {joint.host} itself"
                yield LabError(what, where=where, remedy="another bridge, or a talker beyond the uplink")
            if bridge.translates and scenario.clock.sync == "exchange" and is_compared:
                what = f"{bridge.title} changes the addresses by which an exchange of timestamps is recognised"
                yield LabError(what, where=f"{where}: clock.sync", remedy="clock: {sync: auto}")
            if not bridge.reaches_guests and _both_guests(route):
                yield LabError(f"{bridge.title} does not connect guests", where=where, remedy="another bridge")


def _guests(scenario: Scenario, site: Site) -> Iterator[LabError]:
    """What a guest itself asks of the machine."""
    for name, guest in scenario.guests.items():
        where, there = f"guests.{name}", site.on(scenario.machine_of(name))
        machine = there.machine
        if guest.acceleration == "kvm" and machine.kvm:
            yield LabError(machine.kvm, where=f"{where}.acceleration", remedy="acceleration: auto")
        if not guest.domain and (what := qemu_lacking(machine)):
            remedy = f"QEMU {'.'.join(map(str, OLDEST_QEMU))} or newer: {install_remedy(qemu_program(machine))}"
            yield LabError(what, where=where, remedy=remedy)
        if guest.is_ours and (image := there.images.get(guest.image_name)):
            yield from _foreign(image, machine, f"{where}.image")


def _foreign(image: Image, machine: Machine, where: str) -> Iterator[LabError]:
    """An image that cannot run on the machine, whose CPUs are of another architecture."""
    built_for = BY_DEBIAN[image.architecture].name if image.architecture else os.uname().machine
    if built_for == machine.architecture:
        return
    what = f"the image {image.name} is for {built_for}, and the machine it is to run on is {machine.architecture}"
    known = ARCHITECTURES.get(machine.architecture)
    build = f"`latlab image build {image.name} --arch {known.debian}`" if known else ""
    remedy = f"the name of one that {build} makes" if known else "another machine"
    yield LabError(what, where=where, remedy=remedy)


def _both_guests(route: Route) -> bool:
    return {route.talker_end, route.listener_end} <= set(route.segment.guests)


def _at(joint: Joint) -> str:
    return f"guests.{joint.ports[0].guest}.bridge: {joint.kind}"


CHECKS = (vlans_lacking, _bridges, _ways, _guests, own_lacking, domain_lacking, probes_lacking, loads_lacking)
