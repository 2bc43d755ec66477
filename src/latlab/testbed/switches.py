"""The steps that make hosts switches: a kernel bridge, whose ports are ends of links, forwards between them."""

from __future__ import annotations

import json
from collections.abc import Iterator

from latlab.scenario import End, Scenario
from latlab.scenario.network import joined, uplink_of
from latlab.testbed.bridges.joints import USER, mac_of
from latlab.testbed.bridges.kernel import free_port, known_address, make_bridge, no_filters, port_step
from latlab.testbed.links import CARD_UP_WITHIN_MS
from latlab.testbed.namespaces import ipv6_off
from latlab.testbed.site import Site
from latlab.testbed.step import Check, Step


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
            for end in _beyond(scenario, host, port):
                if mac := mac_of(scenario, site.tag, scenario.segment_of(end), end):
                    yield known_address(host, port.interface, mac, str(end))
        for port in ports:
            state = Check(
                ("ip", "-d", "-j", "link", "show", "dev", port.interface),
                expected="forwarding",
                read=_port_state,
                within_ms=CARD_UP_WITHIN_MS,
            )
            yield Step(host, f"wait until {port} forwards", (), check=state, lasting=True)


def _beyond(scenario: Scenario, host: str, port: End) -> Iterator[End]:
    """Whose packets come in at the port: hosts' ends that a link or other switches join to it, and guests there."""
    others = [ports for name, ports in scenario.switches.items() if name != host]
    groups = joined({number: link.ends for number, link in enumerate(scenario.links)}, others)
    ends = next(one.ends for one in groups if scenario.link_number_of(port) in one.links)
    yield from (end for end in ends if end != port)
    for name, guest in scenario.guests.items():
        if guest.bridge != USER and scenario.parent_of(uplink_of(guest)) in ends:
            yield End(name, guest.interface)


def switch_device(site: Site, number: int) -> str:
    """The name of a switch's bridge. number: its place among the switches."""
    return site.device(f"sw{number}")


def _port_state(output: str) -> str:
    """The state of a bridge's port by `ip -d -j link show`, such as `forwarding`."""
    return str(json.loads(output)[0]["linkinfo"].get("info_slave_data", {}).get("state", "no port"))
