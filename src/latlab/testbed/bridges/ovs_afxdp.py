"""Open vSwitch with AF_XDP on the uplink, and vhost-user to the guests where its build has DPDK; else taps."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from latlab.model import bridges
from latlab.model.errors import LabError
from latlab.scenario import Guest
from latlab.testbed.bridges.base import CHECKSUM_OFFLOADS_OFF, GuestPort, Joint, Plug, lacking_tun, lacking_vhost
from latlab.testbed.bridges.offloads import lacking_tags, tags_in_frames
from latlab.testbed.bridges.ovs import OvsBridge
from latlab.testbed.bridges.ovs_switch import SWITCHD, USER_SPACE, OvsPort, Switch, lacking_switch, switch_log
from latlab.testbed.site import Site
from latlab.testbed.step import Service, Step

DPDK_BUILD = "/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk"
"""Debian's and Ubuntu's second build, of package openvswitch-switch-dpdk."""
POOLS = ("sh", "-c", "ls /usr/lib/*/dpdk/pmds-*/librte_mempool_ring.so*")
"""Its packets' memory, a package that it only recommends: without it a vhost-user port never comes up."""
NO_DPDK = "no vhost-user: this Open vSwitch is built without DPDK, and openvswitch-switch-dpdk is not installed"
NO_POOLS = "no vhost-user: librte-mempool-ring, which openvswitch-switch-dpdk recommends, is not installed"

AF_XDP, VHOST_USER = "afxdp-nonpmd", "dpdkvhostuserclient"
LARGEST_MTU = 3498
"""A frame must fit into one page, next to what XDP keeps free in it (kernel: drivers/net/veth.c, veth_xdp_set)."""

BASE_MIB, PORT_MIB = 128, 192
"""Memory for DPDK itself, and for the packets of each guest's port (`per-port-memory`: Open vSwitch, DPDK memory)."""
MIB = 2**20
LIBRARIES = 'ldd "$(command -v "$0")"'


class OvsAfxdp(OvsBridge):
    """The uplink is an AF_XDP port of a bridge in user space; each guest's memory is the switch's as well."""

    kind = bridges.OVS_AFXDP

    def lacking(self, joint: Joint, site: Site) -> LabError | None:
        """The kernel's AF_XDP, the build's, an MTU that fits, tags kept in frames, and what any Open vSwitch needs."""
        machine = site.machine
        if missing := lacking_switch(joint, site, USER_SPACE):
            return missing
        protocols = machine.read("/proc/net/protocols") or ""
        if not re.search(r"^XDP\s", protocols, re.MULTILINE):
            return LabError("this kernel has no AF_XDP sockets", remedy="a kernel with CONFIG_XDP_SOCKETS=y")
        program = dpdk_build(site) or SWITCHD
        linked = machine.say(("sh", "-c", LIBRARIES, program))
        if linked is not None and not re.search(r"\blib(xdp|bpf)\.so", linked):
            return LabError(
                f"{program} is built without AF_XDP", remedy="Debian's openvswitch-switch: it is built with it"
            )
        if joint.segment.mtu > LARGEST_MTU:
            return LabError(f"an AF_XDP port has an MTU of at most {LARGEST_MTU}", remedy=f"mtu: {LARGEST_MTU} or less")
        if missing := lacking_tun(site):
            return missing
        return lacking_tags(joint, site) or (None if dpdk_build(site) else lacking_vhost(joint, site))

    def may_have_vhost_on(self, guest: Guest, site: Site) -> bool:
        """Not with vhost-user: the switch's own threads are at the other end."""
        return dpdk_build(site) is None

    def before_guests(self, joint: Joint, site: Site) -> Sequence[Step | Service]:
        """The uplink free of programs, and tags left in its frames; then as any Open vSwitch."""
        return [*_uplink_program(joint), *tags_in_frames(joint), *super().before_guests(joint, site)]

    def after_guests(self, joint: Joint, site: Site) -> Sequence[Step | Service]:
        """Each guest and the switch have agreed on the rings they share."""
        if not dpdk_build(site):
            return ()
        switch = self._switch(joint, site)
        return [switch.link_is_up(entry.device, guest) for guest, entry in self._guest_entries(joint, site).items()]

    def plug(self, joint: Joint, port: GuestPort, site: Site) -> Plug:
        """vhost-user, over memory that the switch maps; or the guest's tap. The guest computes every checksum."""
        if not dpdk_build(site):
            return super().plug(joint, port, site)
        queues = f",queues={port.wants.queues}" if port.wants.queues > 1 else ""
        backend = f"memory-backend-memfd,id=mem,size={port.wants.memory // MIB}M,share=on"
        # QEMU 7.2 without KVM ends by SIGSEGV where vhost-user has interrupts by message (MSI-X).
        wanted = port.wants.acceleration
        emulated = wanted == "tcg" or (wanted == "auto" and site.machine.kvm is not None)
        vectors = ("vectors=0",) if emulated else ()
        return Plug(
            f"vhost-user,chardev=vhost{queues}",
            (*CHECKSUM_OFFLOADS_OFF, *vectors),
            more=("-chardev", f"socket,id=vhost,path={_socket(port, site)},server=on"),
            form="vhost-user",
            machine=("memory-backend=mem",),
            memory=("-object", backend),
        )

    def detail(self, joint: Joint, site: Site) -> str:
        """How the guests are plugged in, and what would make it vhost-user; once it runs, the uplink's XDP mode."""
        log = site.logged(switch_log(joint))
        mode = xdp_mode(joint.uplink or "", log)
        return "; ".join(filter(None, (self._making(joint, site), mode and f"{joint.uplink} {mode}")))

    def carries_in_kernel(self, joint: Joint, site: Site) -> str:
        """The switch itself, through vhost-user; else as with any tap."""
        return "Open vSwitch (vhost-user)" if dpdk_build(site) else super().carries_in_kernel(joint, site)

    def datapath(self, joint: Joint, site: Site) -> str:
        """USER_SPACE: the kernel's has no AF_XDP ports."""
        return USER_SPACE

    def _making(self, joint: Joint, site: Site) -> str:
        if not dpdk_build(site):
            missing = NO_POOLS if site.machine.exists(DPDK_BUILD) else NO_DPDK
            return f"userspace datapath, AF_XDP uplink, taps; {missing}"
        return f"userspace datapath, AF_XDP uplink, vhost-user, {'huge' if _huge(joint, site) else 'ordinary'} pages"

    def _switch(self, joint: Joint, site: Site) -> Switch:
        build, making = dpdk_build(site), self._making(joint, site)
        if not build:
            return Switch(joint, site, USER_SPACE, making, needs=(AF_XDP, "internal", "system"))
        settings = _dpdk_settings(joint, site)
        return Switch(joint, site, USER_SPACE, making, build, settings, (AF_XDP, VHOST_USER, "internal"))

    def _uplink_entries(self, joint: Joint, site: Site) -> list[OvsPort]:
        options = (f"options:n_rxq={_queues(joint, site)}", "options:xdp-mode=best-effort")
        return [OvsPort(entry.device, AF_XDP, options) for entry in super()._uplink_entries(joint, site)]

    def _guest_entries(self, joint: Joint, site: Site) -> Mapping[str, OvsPort]:
        if not dpdk_build(site):
            return super()._guest_entries(joint, site)
        return {port.guest: _vhost_entry(port, site) for port in joint.ports}


def dpdk_build(site: Site) -> str | None:
    """The ovs-vswitchd that has DPDK, and with it vhost-user; None where there is none that works."""
    if site.machine.exists(DPDK_BUILD):
        return DPDK_BUILD if site.machine.say(POOLS) else None
    said = site.machine.say((SWITCHD, "--version")) or ""
    return SWITCHD if re.search(r"^DPDK ", said, re.MULTILINE) else None


def xdp_mode(device: str, log: str) -> str | None:
    """The XDP mode of an AF_XDP port: `native-with-zerocopy`, `native` or `generic`; None before it has one.

    log: what ovs-vswitchd wrote. Each time it sets the port up it logs the mode in use; other outputs
    (`ovs-appctl dpif/show`, the port's status) differ between its versions.
    """
    said = re.findall(rf"\|{re.escape(device)}: (\S+) XDP mode will be in use", log)
    return said[-1] if said else None


def _vhost_entry(port: GuestPort, site: Site) -> OvsPort:
    device = site.device(f"v{port.number}")
    return OvsPort(device, VHOST_USER, (f"options:vhost-server-path={_socket(port, site)}",))


def _dpdk_settings(joint: Joint, site: Site) -> tuple[str, ...]:
    """DPDK with memory for its packets: from huge pages where enough are free, else from ordinary ones."""
    size = _pool_mib(joint)
    huge = _huge(joint, site)
    memory = "--in-memory" if huge else f"--no-huge --legacy-mem -m {size}"
    return (
        "other_config:dpdk-init=true",
        "other_config:per-port-memory=true",
        f'other_config:dpdk-extra="{memory} --no-pci --no-telemetry"',
        *((f"other_config:dpdk-socket-mem={size}",) if huge else ()),
    )


def _pool_mib(joint: Joint) -> int:
    return BASE_MIB + PORT_MIB * len(joint.ports)


def _huge(joint: Joint, site: Site) -> bool:
    """Whether there are huge pages enough for DPDK's packets."""
    found = dict(re.findall(r"^(\w+):\s+(\d+)", site.machine.read("/proc/meminfo") or "", re.MULTILINE))
    return int(found.get("HugePages_Free", 0)) * int(found.get("Hugepagesize", 0)) >= _pool_mib(joint) * 1024


def _queues(joint: Joint, site: Site) -> int:
    """As many as the uplink has: each needs its AF_XDP socket, or its frames go to the kernel instead."""
    if joint.queues is not None:
        return joint.queues
    names = site.machine.list(f"/sys/class/net/{joint.uplink}/queues")
    return max(1, sum(name.startswith("rx-") for name in names))


def _uplink_program(joint: Joint) -> list[Step]:
    """An interface that outlives the run keeps no program of the switch's: a killed one would leave it there."""
    if joint.made or not joint.uplink:
        return []
    return [
        Step(
            host=joint.host,
            title=f"no XDP program is on {joint.uplink}, before and after the run",
            do=(),
            undo=("sh", "-ec", NO_PROGRAM, "sh", joint.uplink),
            present=("sh", "-c", 'ip -d link show dev "$1" | grep -q prog/xdp', "sh", joint.uplink),
        )
    ]


NO_PROGRAM = 'ip link set dev "$1" xdp off; ip link set dev "$1" xdpgeneric off'


def _socket(port: GuestPort, site: Site) -> str:
    return f"{site.guest_state(port.guest)}/vhost.sock"
