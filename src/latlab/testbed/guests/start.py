"""What a cell's guests start from, and the site that a plan is written for while no run has begun."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

from latlab.model.errors import LabError, LatlabError
from latlab.scenario import Scenario
from latlab.scenario.guests import facts_of
from latlab.scenario.loads import LoadBetween
from latlab.testbed.agent_binary import AGENT, agent_for, find_agent, find_agents
from latlab.testbed.bridges.joints import joints
from latlab.testbed.bridges.table import BRIDGES
from latlab.testbed.guests.qemu import snapshot_key
from latlab.testbed.images import Image, in_use, list_images, snapshot_path
from latlab.testbed.loads import plan_loads
from latlab.testbed.machines import planned_sites
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


# What guests of ours start from: the built images.


def images_by_name() -> dict[str, Image]:
    """Every built image."""
    return {image.name: image for image in list_images()}


def image_names(scenario: Scenario) -> set[str]:
    """The names of the images that its boards, and guests of ours, start from."""
    guests = {scenario.image_of(name) for name, guest in scenario.guests.items() if guest.is_ours}
    return guests | {board.image_name for board in scenario.boards.values()}


def images_in_use(scenarios: Iterable[Scenario]) -> AbstractContextManager[dict[str, Image]]:
    """Every built image. Those of the scenarios are not removed while the context lasts, built again or not."""
    names = set().union(*map(image_names, scenarios))
    return in_use(images_by_name, lambda images: [one.folder for name, one in images.items() if name in names])


def is_current(image: Image) -> bool:
    """Whether it has this latlab's agent, and would be made in the same way today. LabError: there is no agent.

    An image for another architecture, for which there is no agent here, has none of this latlab's.
    """
    own = find_agent()
    try:
        agent = agent_for(image.architecture) if image.architecture else own
    except LabError:
        return False
    return image.is_up_to_date(agent)


def unbuilt_image(name: str) -> Image:
    """Stands in a plan for an image that is still to be built: its files are named by what they are."""
    return Image(
        name=name,
        kernel=Path(f"KERNEL-OF-{name}"),
        initramfs=Path(f"INITRAMFS-OF-{name}"),
        append="",
        flavour="",
        kernel_version="",
        digest="",
        packages={},
        built="",
        size=0,
    )


# The site that a plan is written for, while no run has begun.


TAG = "RUN"
"""Stands for the run's tag: a plan printed before a run is the same each time."""


def planned_site(scenario: Scenario) -> Site:
    """The site a plan is written for: every name a run makes up stands there as RUN, every file as what it is."""
    agents: dict[str, str] = {}
    try:
        agents = find_agents(own := find_agent())
        agent = str(own)
    except LatlabError:
        agent = AGENT
    built = images_by_name()
    images = {name: built.get(name) or unbuilt_image(name) for name in sorted(image_names(scenario))}
    site = Site(TAG, agent=agent, agents=agents, images=images)
    site = replace(site, others=planned_sites(scenario, site))
    return replace(site, inward=start_conditions(scenario, site)["inward"])
