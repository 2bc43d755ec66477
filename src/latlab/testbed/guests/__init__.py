"""The guests of a cell with the bridges that join them: what is made, started and configured, in order."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from latlab.scenario import Scenario
from latlab.testbed.bridges.base import Joint, Port
from latlab.testbed.bridges.joints import joints
from latlab.testbed.bridges.table import BRIDGES
from latlab.testbed.guests.libvirt import join_domain
from latlab.testbed.guests.over_ssh import ssh_host
from latlab.testbed.guests.own import start_own
from latlab.testbed.guests.reach import reach_steps
from latlab.testbed.guests.steps import configure_guest, start_guest
from latlab.testbed.service import Service
from latlab.testbed.site import Site
from latlab.testbed.step import Step


def guest_steps(scenario: Scenario, site: Site) -> Iterator[Step | Service]:
    """Every bridge, then every guest, then what a bridge does once its guests run, then each way is tried."""
    found = joints(scenario, site.tag)
    places = {joint.number: site.on(scenario.machine_of(joint.host)) for joint in found}
    for joint in found:
        yield from BRIDGES[joint.kind].before_guests(joint, places[joint.number])
    kept: set[Path] = set()
    for joint in found:
        for port in joint.ports:
            yield from _running(scenario, joint, port, places[joint.number], kept)
            yield from configure_guest(scenario, port, joint, places[joint.number])
    for joint in found:
        yield from BRIDGES[joint.kind].after_guests(joint, places[joint.number])
    yield from reach_steps(scenario, site)


def _running(scenario: Scenario, joint: Joint, port: Port, site: Site, kept: set[Path]) -> Iterator[Step | Service]:
    """The guest runs, is plugged in and takes commands, whatever it comes from. kept: as start_guest has it."""
    plug = BRIDGES[joint.kind].plug(joint, port, site)
    if port.wants.is_ours:
        yield from start_guest(port, plug, joint.host, site, kept)
        return
    bring = join_domain if port.wants.domain else start_own
    yield from bring(port, plug, joint, site, ssh_host(scenario, site, port.guest))
