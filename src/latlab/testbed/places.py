"""Where things are once the test bed stands: each host's agent, and the device behind each interface."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from latlab.hosts import Host
from latlab.model.bridges import KINDS
from latlab.scenario import End, Scenario
from latlab.testbed.agent_binary import AGENT
from latlab.testbed.bridges.joints import joints
from latlab.testbed.bridges.table import BRIDGES
from latlab.testbed.site import Site


@dataclass(frozen=True)
class Places:
    """agents: host → path of its agent. devices: interface of the scenario → the one that has its address. taps: of
    guests, on their hosts.
    """

    agents: Mapping[str, str] = field(default_factory=dict)
    devices: Mapping[End, str] = field(default_factory=dict)
    taps: Mapping[str, str] = field(default_factory=dict)

    def agent(self, host: str) -> str:
        """The path of the host's agent."""
        return self.agents.get(host, AGENT)

    def device(self, end: End) -> str:
        """The interface through which a host sends and receives there: a bridge, where the end is one's port."""
        return self.devices.get(end, end.interface)


def find_places(scenario: Scenario, site: Site, hosts: Mapping[str, Host]) -> Places:
    """The places of a cell."""
    return Places(
        agents={name: host.agent or site.agent for name, host in hosts.items()},
        devices=bridge_devices(scenario, site),
        taps=guest_taps(scenario, site),
    )


def bridge_devices(scenario: Scenario, site: Site) -> dict[End, str]:
    """The interface of each bridge that has its host's address, by the end of the scenario it stands for."""
    found: dict[End, str] = {}
    for joint in joints(scenario, site.tag):
        device = BRIDGES[joint.kind].device(joint, site.on(scenario.machine_of(joint.host)))
        if device:
            found[joint.end] = device
    return found


def guest_taps(scenario: Scenario, site: Site) -> dict[str, str]:
    """The tap or macvtap of each guest whose packets all pass one."""
    found: dict[str, str] = {}
    for joint in joints(scenario, site.tag):
        for port in joint.ports if KINDS[joint.kind].tap else ():
            if tap := BRIDGES[joint.kind].port_device(port, site.on(scenario.machine_of(joint.host))):
                found[port.guest] = tap
    return found
