"""What a cell's guests start from and must let in, as far as it depends on more than the scenario's own words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from latlab.scenario import Scenario
from latlab.scenario.guests import facts_of
from latlab.scenario.loads import LoadBetween
from latlab.testbed.bridges.joints import joints
from latlab.testbed.bridges.table import BRIDGES
from latlab.testbed.guests.qemu import snapshot_key
from latlab.testbed.images import snapshot_path
from latlab.testbed.loads import plan_loads
from latlab.testbed.places import Places
from latlab.testbed.site import Site


def start_conditions(scenario: Scenario, site: Site) -> dict[str, Any]:
    """The `snapshots` and `inward` of the cell's site."""
    return {"snapshots": _snapshots(scenario, site), "inward": _inward(scenario)}


def _snapshots(scenario: Scenario, site: Site) -> dict[str, Path]:
    """Where each guest's snapshot is, or will be kept after its first boot."""
    found = {}
    for joint in joints(scenario, site.tag):
        for port in joint.ports:
            there = site.on(scenario.machine_of(joint.host))
            # On another machine a guest is booted each time: a snapshot there would outlive the run.
            if there.is_here and port.wants.is_ours and port.wants.snapshot and not facts_of(port.wants).gives_device:
                image = there.images[port.wants.image_name]
                plug = BRIDGES[joint.kind].plug(joint, port, there)
                found[port.guest] = snapshot_path(image, snapshot_key(port, plug, image, there.machine))
    return found


def _inward(scenario: Scenario) -> dict[str, tuple[tuple[str, int], ...]]:
    """For each guest, protocol and port of every stream, probe and load that is sent to it."""
    found: dict[str, list[tuple[str, int]]] = {name: [] for name in scenario.guests}
    for flow in scenario.flows.values():
        if flow.receiver in found and not flow.is_answer and flow.port is not None:
            probe = scenario.probes[flow.probe] if flow.probe else None
            if probe is None or not probe.own_ports:
                found[flow.receiver].append((flow.transport, flow.port))
            else:
                # A tool's server has a TCP connection of control, too.
                ports = range(flow.port, flow.port + probe.own_ports)
                found[flow.receiver] += [(kind, port) for port in ports for kind in ("tcp", "udp")]
    for plan in plan_loads(scenario, 0, Places()):
        if plan.sink in found:
            ports = range(plan.port, plan.port + plan.instances + 1)
            load = scenario.loads[plan.name]
            kinds = ("tcp", "udp") if isinstance(load, LoadBetween) and load.has_control else ("udp",)
            found[plan.sink] += [(kind, port) for port in ports for kind in kinds]
    return {name: tuple(dict.fromkeys(ports)) for name, ports in found.items()}
