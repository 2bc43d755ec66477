"""Groups that streams of raw frames are sent to: their listeners join them, as an application there would."""

from __future__ import annotations

from collections.abc import Iterator

from latlab.scenario import End, Scenario
from latlab.testbed.bridges.joints import joints
from latlab.testbed.bridges.table import BRIDGES
from latlab.testbed.places import bridge_devices
from latlab.testbed.site import Site
from latlab.testbed.step import Check, Step


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
