"""What keeps a cell, its loads or its probes from running here: reported with its remedy, while other cells run."""

from __future__ import annotations

import os
from collections.abc import Iterator

from latlab.hosts.tools import PACKAGES, install_remedy, missing_tool
from latlab.model.bridges import KINDS
from latlab.model.errors import LabError
from latlab.scenario import Route, Scenario
from latlab.scenario.findings import show_path
from latlab.scenario.loads import LoadOn
from latlab.testbed.architecture import ARCHITECTURES, BY_DEBIAN
from latlab.testbed.bridges.base import Joint
from latlab.testbed.bridges.joints import joints
from latlab.testbed.bridges.table import BRIDGES
from latlab.testbed.guests.libvirt import domain_lacking
from latlab.testbed.guests.own import own_lacking
from latlab.testbed.guests.qemu import OLDEST_QEMU, qemu_lacking, qemu_program
from latlab.testbed.guests.start import planned_site
from latlab.testbed.images import Image
from latlab.testbed.loads import LOADS
from latlab.testbed.machine import Machine
from latlab.testbed.machines import machines_lacking
from latlab.testbed.probes import OURS, TOOLS
from latlab.testbed.probes.base import ToolKind
from latlab.testbed.site import Site
from latlab.testbed.vlans import vlans_lacking

# Programs that a part of the scenario needs on a host; missing ones are reported with their packages.


def program_missing(scenario: Scenario, site: Site, host: str, program: str, where: str) -> Iterator[LabError]:
    """A program that is not on a host, or not in the image that a guest starts from, once it is built; for others it is
    not known before.
    """
    guest = scenario.guests.get(host)
    if guest is None:
        if not site.on(scenario.machine_of(host)).machine.has_tool(program):
            yield missing_tool(program, where, host)
    elif guest.is_ours:
        image = site.on(scenario.machine_of(host)).images.get(guest.image_name)
        package = PACKAGES.get(program, program)
        if image is not None and image.packages and package not in image.packages:
            yield LabError(
                f"{program} is not in {guest.image_name}, which {host} starts from",
                where=where,
                remedy=f"`{image.build_command(package)}`",
            )


# What keeps loads that are on one host from running there, reported with its remedy, while the other cells run.


CALLS = "what: calls, which its own kernel handles"


def loads_lacking(scenario: Scenario, site: Site) -> Iterator[LabError]:
    """Tools that are not where they are to run, and exits of what nothing is beneath. Reads only."""
    for name, load in scenario.loads.items():
        if isinstance(load, LoadOn):
            where = f"loads.{name}"
            for program in LOADS[load.kind].tools:
                yield from program_missing(scenario, site, load.on, program, where)
            if load.needs_hypervisor:
                yield from _nothing_beneath(scenario, site, load.on, where)
        if LOADS[load.kind].tools:
            for host in dict.fromkeys((load.on,) if isinstance(load, LoadOn) else (load.from_, load.to)):
                yield from _unscheduled(scenario, site, host, f"loads.{name}")


def scheduling_tools(scenario: Scenario, host: str) -> set[str]:
    """The programs that give loads and tools on a host their priority and CPUs."""
    tuning = scenario.tuning_of(host).load
    return {tool for tool, is_asked in (("chrt", tuning.fifo), ("taskset", tuning.cpus)) if is_asked}


def _unscheduled(scenario: Scenario, site: Site, host: str, where: str) -> Iterator[LabError]:
    """What ends a tool on a machine over ssh with its connection, and schedules it. This machine is preflight's, and
    emulated ones have it in their image.
    """
    machine = scenario.machine_of(host)
    if host in scenario.hosts and machine is not None and scenario.hosts[machine].is_reached:
        for program in ("setpriv", *sorted(scheduling_tools(scenario, host))):
            yield from program_missing(scenario, site, host, program, where)


def _nothing_beneath(scenario: Scenario, site: Site, host: str, where: str) -> Iterator[LabError]:
    machine = site.on(scenario.machine_of(host)).machine
    if machine.architecture != "x86_64":
        what = f"{host} is a {machine.architecture}: no unprivileged instruction exits to its hypervisor"
        yield LabError(what, where=where, remedy=CALLS)
    elif host not in scenario.guests and machine.seen and not _is_virtual(machine.read("/proc/cpuinfo") or ""):
        yield LabError(f"{host} does not run on a hypervisor to which it could exit", where=where, remedy=CALLS)


def _is_virtual(cpuinfo: str) -> bool:
    """Whether CPUID says that there is a hypervisor (arch/x86/include/asm/cpufeatures.h: X86_FEATURE_HYPERVISOR)."""
    return any(line.startswith("flags") and "hypervisor" in line.split() for line in cpuinfo.splitlines())


# What keeps a cell's probes from running, reported with its remedy, while the other cells run.


def probes_lacking(scenario: Scenario, site: Site) -> Iterator[LabError]:
    """Kinds of probes that nothing runs here, and tools that are not where they are to run. Reads only."""
    for name, probe in scenario.probes.items():
        kind, where = probe.kind, f"probes.{name}"
        hosts = scenario.probe_hosts(name)
        if kind in TOOLS:
            tool = TOOLS[kind]
            for host, programs in zip((hosts[0], hosts[-1]), (tool.asks, tool.answers), strict=True):
                for program in programs:
                    yield from program_missing(scenario, site, host, program, where)
                yield from _unscheduled(scenario, site, host, where)
            if tool.server:
                yield from _unstoppable(scenario, hosts[-1], kind, where)
            yield from _unable(scenario, site, hosts[0], tool, where)
        elif kind not in OURS:
            known = ", ".join((*OURS, *TOOLS))
            yield LabError(f"there is no probe {kind}", where=where, remedy=f"probe: one of {known}")


def _unable(scenario: Scenario, site: Site, host: str, tool: ToolKind, where: str) -> Iterator[LabError]:
    """What the kernel of a host does not have; for guests it is not known before."""
    machine = site.on(scenario.machine_of(host)).machine
    if host not in scenario.guests and machine.seen and (lack := tool.lacking(machine)):
        yield LabError(f"{lack.what} on {host}", where=where, remedy=lack.remedy)


def _unstoppable(scenario: Scenario, host: str, kind: str, where: str) -> Iterator[LabError]:
    guest = scenario.guests.get(host)
    if guest is not None and guest.ssh is not None:
        what = f"the server of {kind} is ended by a signal, which ssh does not pass on to {host}"
        yield LabError(what, where=where, remedy="probe: ping, or swap the two ends")


# What keeps a cell from being built on this machine: reported with its remedy, while the other cells run.


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
            elif joint.end in ends and not (joint.has_host or bridge.translates):
                what = f"{joint.end} is not made for the run: it keeps its addresses as the port of {bridge.title}, so "
                what += f"{joint.host} itself does not reach its guests"
                yield LabError(what, where=where, remedy="a talker or listener beyond the uplink, or no `uplink`")
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
