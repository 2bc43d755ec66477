"""macvtap: the guest's own MAC on the uplink, without a bridge between (kernel: drivers/net/macvtap.c)."""

from __future__ import annotations

from collections.abc import Sequence

from latlab.hosts import Host
from latlab.model import bridges
from latlab.model.errors import LabError
from latlab.testbed.bridges.base import (
    BridgeMaker,
    GuestPort,
    Joint,
    Plug,
    ScratchBridge,
    lacking_tools,
    lacking_vhost,
    vhost,
)
from latlab.testbed.bridges.kernel import no_ipv6, up
from latlab.testbed.bridges.offloads import every_vlan
from latlab.testbed.kernel_parts import load_remedy
from latlab.testbed.site import Site
from latlab.testbed.step import Check, Service, Step

FIRST_FD, LAST_FD = 3, 9
"""File descriptors that QEMU is started with: what a POSIX shell can redirect (Shell Command Language, 2.7)."""

MAKE_NODE = 'set -- $(cat "/sys/class/net/$1/tap"*/dev | tr : " ") "$2"; mknod -m 600 "$3" c "$1" "$2"'


def macvtap_device(port: GuestPort, site: Site) -> str:
    """The name of a guest's macvtap."""
    return site.device(f"m{port.number}")


class Macvtap(BridgeMaker):
    """A macvtap for each guest on the uplink, in mode bridge: guests of one uplink reach each other, not their host."""

    kind = bridges.MACVTAP
    is_tried = True

    def lacking(self, joint: Joint, site: Site) -> LabError | None:
        """ip, and the kernel's macvtap: it is tried, as there is no other test of whether it is built in."""
        return lacking_macvtap(joint, site)

    async def tried(self, host: Host, scratch: ScratchBridge) -> str:
        """One is added to the link."""
        add = ("ip", "link", "add", "link", scratch.far, "name", "mv0", "type", "macvtap", "mode", "bridge")
        if (await host.run(add, check=False)).returncode != 0:
            raise LabError("this kernel has no macvtap", remedy=load_remedy("macvtap"))
        return ""

    def before_guests(self, joint: Joint, site: Site) -> Sequence[Step | Service]:
        """A macvtap for each guest, with its MAC, and a device node that latlab makes for it.

        The one that devtmpfs makes is named by interface index, which repeats across network namespaces.
        """
        steps: list[Step | Service] = [*every_vlan(joint)]
        for port in joint.ports:
            steps += macvtap_steps(joint, port, site, joint.uplink or "", ("address", port.mac), "bridge")
        return steps

    def port_device(self, port: GuestPort, site: Site) -> str | None:
        """Its macvtap."""
        return macvtap_device(port, site)

    def takes_groups(self, joint: Joint, port: GuestPort, site: Site) -> Sequence[Step]:
        """The macvtap takes all of them: by default it takes those that the host has joined there, not the guest."""
        device = macvtap_device(port, site)
        return (
            Step(
                host=joint.host,
                title=f"{port.guest}'s macvtap takes frames to all groups",
                do=("ip", "link", "set", "dev", device, "allmulticast", "on"),
            ),
        )

    def plug(self, joint: Joint, port: GuestPort, site: Site) -> Plug:
        """The macvtap's node, opened once for each queue."""
        return macvtap_plug(port, site)


def lacking_macvtap(joint: Joint, site: Site) -> LabError | None:
    """Its programs, no more queues than file descriptors, and vhost-net where it is asked for."""
    most = LAST_FD - FIRST_FD + 1
    if any(port.wants.queues > most for port in joint.ports):
        return LabError(f"more than {most} queues", remedy=f"queues: {most} or fewer")
    return lacking_tools(site, *bridges.MACVTAP.tools) or lacking_vhost(joint, site)


def macvtap_steps(
    joint: Joint, port: GuestPort, site: Site, lower: str, address: tuple[str, ...], mode: str
) -> list[Step | Service]:
    """A macvtap in that mode for the guest on the interface `lower`, up, and a device node for it.

    address: its MAC address as ip takes it; nothing in mode passthru, where it has that of the interface below.
    """
    device, node = macvtap_device(port, site), _node(port, site)
    return [
        Step(
            host=joint.host,
            title=f"make {port.guest}'s macvtap",
            do=(
                *("ip", "link", "add", "link", lower, "name", device, *address),
                *("numtxqueues", str(port.wants.queues), "numrxqueues", str(port.wants.queues)),
                *("type", "macvtap", "mode", mode),
            ),
            undo=("ip", "link", "del", "dev", device),
            present=("test", "-e", f"/sys/class/net/{device}"),
            check=Check(("cat", f"/sys/class/net/{device}/address"), expected=port.mac),
        ),
        no_ipv6(joint, device),
        up(joint, device),
        Step(
            host=joint.host,
            title=f"make the device node of {port.guest}'s macvtap",
            do=("sh", "-ec", MAKE_NODE, "sh", device, node),
            check=Check(("stat", "-c", "%F", node), expected="character special file"),
        ),
    ]


def macvtap_plug(port: GuestPort, site: Site) -> Plug:
    """The node of the guest's macvtap, opened once for each queue."""
    kernel = vhost(port.wants, site)
    numbers = range(FIRST_FD, FIRST_FD + port.wants.queues)
    fds = ":".join(map(str, numbers))
    netdev = f"tap,{'fds' if len(numbers) > 1 else 'fd'}={fds},vhost={'on' if kernel else 'off'}"
    node = _node(port, site)
    return Plug(netdev, fds=tuple((number, node) for number in numbers), form="vhost" if kernel else "tap")


def _node(port: GuestPort, site: Site) -> str:
    return f"{site.guest_state(port.guest)}/tap"
