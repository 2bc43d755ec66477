"""How a test bed is made: what a scenario asks for, as hosts, steps and services.

A new part of a test bed is one module that turns a scenario into steps, and one line in MAKERS.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from latlab.hosts import MACHINE, GuestHost, Host, LocalMachine, NamespaceHost
from latlab.scenario import End, NetnsHost, Scenario
from latlab.testbed.bridges.joints import joints
from latlab.testbed.bridges.table import BRIDGES
from latlab.testbed.guests import guest_steps
from latlab.testbed.guests.over_ssh import ssh_host
from latlab.testbed.guests.steps import folder_steps
from latlab.testbed.host_setup import namespace_name, namespace_steps, tai_steps, tracing_steps
from latlab.testbed.links import card_steps, link_steps, switch_steps
from latlab.testbed.machines import machine_hosts
from latlab.testbed.places import bridge_devices
from latlab.testbed.ptp import locked_steps, ptp_steps
from latlab.testbed.shapers import shaper_steps, transmit_queue_steps
from latlab.testbed.site import Site
from latlab.testbed.step import Check, Service, Step
from latlab.testbed.tuning import before_guests_tuning, guest_tuning
from latlab.testbed.vlans import vlan_steps

# Groups that streams of raw frames are sent to: their listeners join them, as an application there would.


def group_steps(scenario: Scenario, site: Site) -> Iterator[Step]:
    """Each listener's interface takes frames to the groups of its streams, and so does what joins a guest."""
    devices = bridge_devices(scenario, site)
    taken: dict[tuple[str, str, str], None] = {}
    ends: dict[End, None] = {}
    for name, stream in scenario.streams.items():
        if stream.group:
            end = scenario.route(name).listener_end
            taken[end.host, devices.get(end, end.interface), stream.group] = None
            ends[end] = None
    for joint in joints(scenario, site.tag):
        for port in joint.ports:
            if port.end in ends:
                yield from BRIDGES[joint.kind].takes_groups(joint, port, site.on(scenario.machine_of(joint.host)))
    yield from (_joined(host, device, group) for host, device, group in taken)


def _joined(host: str, device: str, group: str) -> Step:
    shows = ("sh", "-c", f"ip maddr show dev {device} | grep -i 'link *{group} .*static'")
    return Step(
        host=host,
        title=f"{device} takes frames to the group {group}",
        do=("ip", "maddr", "add", group, "dev", device),
        undo=("ip", "maddr", "del", group, "dev", device),
        present=shows,
        check=Check(shows, "taken", lambda output: "taken" if output.strip() else "not taken"),
    )


# How a test bed is made: what a scenario asks for, as hosts, steps and services.


MAKERS: tuple[Callable[[Scenario, Site], Iterable[Step | Service]], ...] = (
    namespace_steps,
    card_steps,
    link_steps,
    switch_steps,
    vlan_steps,
    folder_steps,
    before_guests_tuning,
    guest_steps,
    group_steps,
    guest_tuning,
    tai_steps,
    transmit_queue_steps,
    ptp_steps,
    shaper_steps,
    locked_steps,
    tracing_steps,
)


def test_bed_steps(scenario: Scenario, site: Site) -> list[Step | Service]:
    """All steps and services of the scenario's test bed, in the order to apply them: after `machine_steps`."""
    return [step for maker in MAKERS for step in maker(scenario, site)]


def make_hosts(scenario: Scenario, site: Site) -> dict[str, Host]:
    """The scenario's hosts and guests by name, and the machine the lab runs on as MACHINE."""
    machines: dict[str, Host] = {MACHINE: LocalMachine(MACHINE), **machine_hosts(scenario, site)}
    hosts = dict(machines)
    for name, host in scenario.hosts.items():
        if host.is_here:
            hosts[name] = LocalMachine(name)
        elif isinstance(host, NetnsHost):
            hosts[name] = NamespaceHost(name, namespace_name(site.tag, name), machines[host.on or MACHINE])
    for name, guest in scenario.guests.items():
        there = site.on(scenario.machine_of(name))
        ours = GuestHost(name, there.guest_state(name), there.agent, machines[there.name])
        hosts[name] = ours if guest.is_ours else ssh_host(scenario, site, name)
    return hosts
