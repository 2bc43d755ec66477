"""Open vSwitch with a tap for each guest, in the kernel's datapath where it is to be had, else in user space."""

from __future__ import annotations

from collections.abc import Sequence

from latlab.lab.bridges.base import CHECKSUM_OFFLOADS_OFF, Bridge, Joint, Lacking, Plug, Port, lacking_vhost
from latlab.lab.bridges.kernel import tap_plug, tap_steps
from latlab.lab.bridges.offloads import whole_frames
from latlab.lab.bridges.ovs_switch import (
    KERNEL,
    SHARED,
    USER_SPACE,
    Entry,
    Switch,
    lacking_switch,
    switch_device,
    tap_ports,
    uplink_flags,
)
from latlab.lab.service import Service
from latlab.lab.site import Site
from latlab.lab.step import Step

MODULE = "/sys/module/openvswitch"


class OvsBridge(Bridge):
    """The uplink and the guests' taps are ports of one bridge of a switch of our own."""

    name = "ovs"
    title = "Open vSwitch"

    def lacking(self, joint: Joint, site: Site) -> Lacking | None:
        """/dev/net/tun, Open vSwitch, and its place in the host's network namespace."""
        if not site.machine.exists("/dev/net/tun"):
            return Lacking("there is no /dev/net/tun", "`modprobe tun`")
        return lacking_switch(joint, site, datapath(joint, site)) or lacking_vhost(joint, site)

    def before_guests(self, joint: Joint, site: Site) -> Sequence[Step | Service]:
        """The switch, its bridge, the uplink and a tap for each guest in it, and every known address in its FDB."""
        chosen = datapath(joint, site)
        switch = Switch(joint, site, chosen, self.detail(joint, site))
        steps: list[Step | Service] = []
        if chosen == USER_SPACE:
            steps += [*uplink_flags(joint), *whole_frames(joint)]
        for port in joint.ports:
            steps += tap_steps(joint, port, site)
        steps += switch.before_ports()
        taps = tap_ports(joint, site)
        steps += [switch.port(Entry(device)) for device in (*filter(None, (joint.uplink,)), *taps.values())]
        return [*steps, *switch.after_ports(taps)]

    def plug(self, joint: Joint, port: Port, site: Site) -> Plug:
        """The guest's tap; before the datapath in user space the guest computes every checksum itself."""
        return tap_plug(port, site, CHECKSUM_OFFLOADS_OFF if datapath(joint, site) == USER_SPACE else ())

    def device(self, joint: Joint, site: Site) -> str | None:
        """The bridge's own interface."""
        return switch_device(joint, site)

    def detail(self, joint: Joint, site: Site) -> str:
        """Which datapath, and why not the kernel's."""
        if datapath(joint, site) == KERNEL:
            return "kernel datapath"
        if not site.machine.exists(MODULE):
            return "userspace datapath: the kernel module openvswitch is not loaded"
        return f"userspace datapath: another Open vSwitch has {SHARED[KERNEL]} in this network namespace"


def datapath(joint: Joint, site: Site) -> str:
    """KERNEL where its module is loaded and no other switch has it in the host's network namespace; else USER_SPACE.

    The kernel has one `ovs-system` in a network namespace: a second ovs-vswitchd would take over the other's ports.
    """
    taken = joint.local and SHARED[KERNEL] in site.machine.interfaces
    return KERNEL if site.machine.exists(MODULE) and not taken else USER_SPACE
