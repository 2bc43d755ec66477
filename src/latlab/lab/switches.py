"""The steps that make hosts switches: a kernel bridge, whose ports are ends of links, forwards between them."""

from __future__ import annotations

import json
from collections.abc import Iterator

from latlab.lab.bridges.kernel import free_port, make_bridge, no_filters, port_step
from latlab.lab.links import CARD_UP_WITHIN_MS
from latlab.lab.namespaces import ipv6_off
from latlab.lab.site import Site
from latlab.lab.step import Check, Step
from latlab.scenario import Scenario

def switch_steps(scenario: Scenario, site: Site) -> Iterator[Step]:
    """The bridge of each switch, once its links are up. It has no address, and leaves VLAN tags in the frames."""
    for number, (host, ports) in enumerate(scenario.switches.items()):
        bridge = switch_device(site, number)
        made = {port: scenario.link_is_created(scenario.links[scenario.link_number_of(port)]) for port in ports}
        yield from (free_port(host, port.interface) for port in ports if not made[port])
        yield make_bridge(host, bridge, scenario.segment_of(ports[0]).mtu)
        yield ipv6_off(host, bridge)
        yield no_filters(host)
        yield from (port_step(host, port.interface, bridge, made=made[port]) for port in ports)
        yield Step(host, f"bring {bridge} up", ("ip", "link", "set", "dev", bridge, "up"))
        for port in ports:
            state = Check(
                ("ip", "-d", "-j", "link", "show", "dev", port.interface),
                expected="forwarding",
                read=_port_state,
                within_ms=CARD_UP_WITHIN_MS,
            )
            yield Step(host, f"wait until {port} forwards", (), check=state, lasting=True)


def switch_device(site: Site, number: int) -> str:
    """The name of a switch's bridge. number: its place among the switches."""
    return site.device(f"sw{number}")


def _port_state(output: str) -> str:
    """The state of a bridge's port by `ip -d -j link show`, such as `forwarding`."""
    return str(json.loads(output)[0]["linkinfo"].get("info_slave_data", {}).get("state", "no port"))
