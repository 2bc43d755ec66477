"""Open vSwitch with a tap for each guest, in the kernel's datapath where it is to be had, else in user space."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from latlab.model import bridges
from latlab.model.errors import LabError
from latlab.testbed.bridges.base import (
    CHECKSUM_OFFLOADS_OFF,
    BridgeMaker,
    GuestPort,
    Joint,
    Plug,
    lacking_tun,
    lacking_vhost,
)
from latlab.testbed.bridges.kernel import tap_device, tap_plug, tap_steps
from latlab.testbed.bridges.offloads import whole_frames
from latlab.testbed.bridges.ovs_switch import (
    KERNEL,
    SHARED,
    USER_SPACE,
    OvsPort,
    Switch,
    heard_once,
    lacking_switch,
    switch_device,
    uplink_flags,
)
from latlab.testbed.site import Site
from latlab.testbed.step import Service, Step

MODULE = "/sys/module/openvswitch"


class OvsBridge(BridgeMaker):
    """The uplink and the guests' taps are ports of one bridge of latlab's switch."""

    kind = bridges.OVS

    def lacking(self, joint: Joint, site: Site) -> LabError | None:
        """/dev/net/tun, Open vSwitch, and its place in the host's network namespace."""
        no_switch = lacking_switch(joint, site, self.datapath(joint, site))
        return lacking_tun(site) or no_switch or lacking_vhost(joint, site)

    def before_guests(self, joint: Joint, site: Site) -> Sequence[Step | Service]:
        """The switch, its bridge, the uplink and each guest's port in it, and every known address in its FDB."""
        switch = self._switch(joint, site)
        guests = self._guest_entries(joint, site)
        steps: list[Step | Service] = []
        if switch.datapath == USER_SPACE:
            steps += [*uplink_flags(joint), *whole_frames(joint), *heard_once(joint)]
        for port in joint.ports:
            if guests[port.guest].device == tap_device(port, site):
                steps += tap_steps(joint, port, site)
        steps += switch.before_ports()
        steps += map(switch.port, (*self._uplink_entries(joint, site), *guests.values()))
        return [*steps, *switch.after_ports({guest: entry.device for guest, entry in guests.items()})]

    def plug(self, joint: Joint, port: GuestPort, site: Site) -> Plug:
        """The guest's tap; before the datapath in user space the guest computes every checksum itself."""
        return tap_plug(port, site, CHECKSUM_OFFLOADS_OFF if self.datapath(joint, site) == USER_SPACE else ())

    def port_device(self, port: GuestPort, site: Site) -> str | None:
        """The switch's port."""
        return tap_device(port, site)

    def device(self, joint: Joint, site: Site) -> str | None:
        """The bridge's own interface."""
        return switch_device(joint, site)

    def detail(self, joint: Joint, site: Site) -> str:
        """Which datapath, and why not the kernel's."""
        if self.datapath(joint, site) == KERNEL:
            return "kernel datapath"
        if not site.machine.exists(MODULE):
            return "userspace datapath: the kernel module openvswitch is not loaded"
        return f"userspace datapath: another Open vSwitch has {SHARED[KERNEL]} in this network namespace"

    def datapath(self, joint: Joint, site: Site) -> str:
        """KERNEL where its module is there and no other switch has it in the host's network namespace; else USER_SPACE.

        The kernel has one `ovs-system` in a network namespace: a second ovs-vswitchd would take over the other's ports.
        """
        taken = joint.local and SHARED[KERNEL] in site.machine.interfaces
        return KERNEL if site.machine.exists(MODULE) and not taken else USER_SPACE

    def _switch(self, joint: Joint, site: Site) -> Switch:
        """The switch of the bridge."""
        return Switch(joint, site, self.datapath(joint, site), self.detail(joint, site))

    def _uplink_entries(self, joint: Joint, site: Site) -> list[OvsPort]:
        """How the uplink becomes a port of it; nothing without one."""
        return [OvsPort(joint.uplink)] if joint.uplink else []

    def _guest_entries(self, joint: Joint, site: Site) -> Mapping[str, OvsPort]:
        """Guest → its port: a tap, which is made first, or what the switch makes itself."""
        return {port.guest: OvsPort(tap_device(port, site)) for port in joint.ports}
