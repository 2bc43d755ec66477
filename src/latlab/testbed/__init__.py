"""How a test bed is made: what a scenario asks for, as hosts, steps and services.

A new part of a test bed is one module that turns a scenario into steps, and one line in MAKERS.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from latlab.hosts import MACHINE, GuestHost, Host, LocalHost, NetnsHost
from latlab.scenario import NetnsHost as Namespace
from latlab.scenario import Scenario
from latlab.testbed.cards import card_steps
from latlab.testbed.groups import group_steps
from latlab.testbed.guests import guest_steps
from latlab.testbed.guests.over_ssh import ssh_host
from latlab.testbed.guests.steps import folder_steps
from latlab.testbed.links import link_steps
from latlab.testbed.machines import machine_hosts
from latlab.testbed.namespaces import namespace_name, namespace_steps
from latlab.testbed.ptp import locked_steps, ptp_steps
from latlab.testbed.service import Service
from latlab.testbed.shapers import shaper_steps, transmit_queue_steps
from latlab.testbed.site import Site
from latlab.testbed.step import Step
from latlab.testbed.switches import switch_steps
from latlab.testbed.tai import tai_steps
from latlab.testbed.tracing import tracing_steps
from latlab.testbed.tuning import before_guests_tuning, guest_tuning
from latlab.testbed.vlans import vlan_steps

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
    machines: dict[str, Host] = {MACHINE: LocalHost(MACHINE), **machine_hosts(scenario, site)}
    hosts = dict(machines)
    for name, host in scenario.hosts.items():
        if host.is_here:
            hosts[name] = LocalHost(name)
        elif isinstance(host, Namespace):
            hosts[name] = NetnsHost(name, namespace_name(site.tag, name), machines[host.on or MACHINE])
    for name, guest in scenario.guests.items():
        there = site.on(scenario.machine_of(name))
        ours = GuestHost(name, there.guest_state(name), there.agent, machines[there.name])
        hosts[name] = ours if guest.is_ours else ssh_host(scenario, site, name)
    return hosts
