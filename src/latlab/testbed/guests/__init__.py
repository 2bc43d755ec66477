"""The guests of a cell with the bridges that join them: what is made, started and configured, in order."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from latlab.model.bridges import KINDS
from latlab.recordings.cell import Bridge
from latlab.recordings.cell import Guest as RecordedGuest
from latlab.scenario import Guest, Scenario
from latlab.testbed.bridges.base import GuestPort, Joint
from latlab.testbed.bridges.joints import joints
from latlab.testbed.bridges.table import BRIDGES
from latlab.testbed.guests.libvirt import join_domain
from latlab.testbed.guests.monitor import vcpu_threads
from latlab.testbed.guests.over_ssh import ssh_host
from latlab.testbed.guests.own import start_own
from latlab.testbed.guests.qemu import MONITOR, acceleration
from latlab.testbed.guests.steps import configure_guest, reach_steps, start_guest
from latlab.testbed.site import Site
from latlab.testbed.step import Service, Step


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


def _running(
    scenario: Scenario, joint: Joint, port: GuestPort, site: Site, kept: set[Path]
) -> Iterator[Step | Service]:
    """The guest runs, is plugged in and takes commands, whatever it comes from. kept: as start_guest has it."""
    plug = BRIDGES[joint.kind].plug(joint, port, site)
    if port.wants.is_ours:
        yield from start_guest(port, plug, joint.host, site, kept)
        return
    bring = join_domain if port.wants.domain else start_own
    yield from bring(port, plug, joint, site, ssh_host(scenario, site, port.guest))


# The bridges and guests of a cell as cell.json has them: what was really made, in words.


def described_bridges(scenario: Scenario, site: Site) -> list[Bridge]:
    """The `bridges` of cell.json: the switches on the path to the guests, then the guests' own."""
    switches = [
        Bridge(
            kind="switch",
            title="switch (kernel bridge)",
            host=host,
            uplink=", ".join(port.interface for port in ports),
            guests=[],
            detail="on the path: its delay is part of every latency",
        )
        for host, ports in scenario.switches.items()
    ]
    return switches + [
        Bridge(
            kind=joint.kind,
            title=KINDS[joint.kind].title,
            host=joint.host,
            uplink=joint.uplink,
            guests=[port.guest for port in joint.ports],
            detail="; ".join(filter(None, _details(joint, site.on(scenario.machine_of(joint.host))))),
        )
        for joint in joints(scenario, site.tag)
    ]


def described_guests(scenario: Scenario, site: Site) -> list[RecordedGuest]:
    """The `guests` of cell.json."""
    return [_described(name, guest, site.on(scenario.machine_of(name))) for name, guest in scenario.guests.items()]


def _described(name: str, guest: Guest, site: Site) -> RecordedGuest:
    return RecordedGuest(
        name=name,
        host=guest.host,
        image=_origin(guest),
        kernel=site.images[guest.image_name].kernel_version if guest.is_ours else None,
        acceleration=None if guest.domain else acceleration(guest, site.machine),
        vcpus=None if guest.domain else guest.vcpus,
        memory=None if guest.domain else guest.memory,
        started="snapshot" if name in site.snapshots else "running" if guest.domain else "boot",
    )


async def described_guests_running(scenario: Scenario, site: Site) -> list[RecordedGuest]:
    """The same once the guests run, with `vcpu_threads`: vCPU → the id of its thread on the host, as QMP reports them.

    A guest's monitor on another machine is not asked.
    """
    found = described_guests(scenario, site)
    for place, guest in enumerate(found):
        if scenario.guests[guest.name].domain is None and scenario.machine_of(guest.name) is None:
            threads = await vcpu_threads(f"{site.guest_state(guest.name)}/{MONITOR}")
            found[place] = guest.model_copy(update={"vcpu_threads": dict(sorted(threads.items()))})
    return found


def _details(joint: Joint, site: Site) -> list[str]:
    bridge = BRIDGES[joint.kind]
    carried = bridge.carries_in_kernel(joint, site)
    return [bridge.detail(joint, site), f"packets carried by {carried}" if carried else ""]


def _origin(guest: Guest) -> str:
    return guest.kernel or guest.disk or guest.domain or guest.image_name
