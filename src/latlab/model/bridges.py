"""Which virtual bridges there are, and what each is and can do whatever the machine (docs/reference/bridges.md).

How one is made is in latlab.testbed.bridges, a file a kind. No other code compares a kind's name: its facts are here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal, get_args

from latlab.model.directions import DIRECTIONS, OUT, READ

BridgeName = Literal["user", "tap", "macvtap", "xdp", "ovs", "ovs-afxdp", "vf", "vfio"]


@dataclass(frozen=True)
class BridgeKind:
    """The facts of one kind.

    carried_by: what carries a packet, between_guest_and_host: what carries it over that border, needs: what the machine
    must have; all in words.
    takes_uplink: the uplink becomes a port of it. hands_over_card: the uplink's card becomes the guest's own.
    many_guests: several guests can be on one uplink. joins_guests: those of one host and uplink share one; else
    each has one of its own. has_switch: it is an Open vSwitch, of which a network namespace has one at most.
    keeps_uplink: the uplink stays as it is, and other bridges can be on it, too. leaves_nothing: why the host does
    not get packets that arrive at the uplink; empty: others do. passes_queues: what a guest sends leaves by the
    uplink's queueing disciplines, as a packet of priority 0. translates: the guest is behind the host's address
    (NAT). has_vhost: vhost-net can carry the guest's packets, in threads that can be tuned. carries_frames: raw
    Ethernet frames reach the guest, VLAN tags among them. reaches_host: the guest and the host it runs on reach
    each other; reaches_guests: guests on it do. counts_packets: it reports how many packets it carried. tap: how
    all of the guest's packets pass a tap or macvtap where the host's kernel sees them: handed to it (out), read
    from it by vhost-net or QEMU (read), received from it (in). needs_uplink: without an uplink it is nothing;
    needs_card: that is a network card. takes_functions: the card gets a virtual function for each guest (SR-IOV).
    gives_device: the guest gets a PCI device of the machine's and drives it itself: it has no snapshots, and the
    machine needs an IOMMU. tools: the programs that it is made with. modules: those of the kernel that it needs → the
    symbol of the configuration that makes each; optional_modules: those that it uses if they are there (Open vSwitch
    without its module forwards in user space). forms: how it is made → its facts then, where they differ.
    takes_domains: what a guest's card is on can be given to libvirt, for a domain that runs.
    """

    name: BridgeName
    title: str
    carried_by: str
    between_guest_and_host: str
    needs: str
    takes_uplink: bool = True
    hands_over_card: bool = False
    many_guests: bool = True
    joins_guests: bool = True
    has_switch: bool = False
    keeps_uplink: bool = False
    leaves_nothing: str = ""
    passes_queues: bool = True
    translates: bool = False
    has_vhost: bool = True
    carries_frames: bool = True
    reaches_host: bool = True
    reaches_guests: bool = True
    counts_packets: bool = False
    needs_uplink: bool = False
    needs_card: bool = False
    takes_functions: bool = False
    gives_device: bool = False
    tools: tuple[str, ...] = ()
    modules: Mapping[str, str] = field(default_factory=dict)
    optional_modules: Mapping[str, str] = field(default_factory=dict)
    forms: Mapping[str, BridgeKind] = field(default_factory=dict)
    tap: tuple[str, ...] = ()
    takes_domains: bool = False

    @property
    def page(self) -> str:
        """Where the documentation describes it."""
        return f"docs/reference/bridges.md#{self.name}"

    @property
    def kernel(self) -> dict[str, str]:
        """The modules that it needs or uses, each with its symbol."""
        return {**self.modules, **self.optional_modules}


_TUN: Final = {"tun": "CONFIG_TUN"}
_VFIO: Final = {"vfio_pci": "CONFIG_VFIO_PCI", "vfio_iommu_type1": "CONFIG_VFIO_IOMMU_TYPE1"}
_SWITCH_TOOLS: Final = ("ip", "ovs-vswitchd", "ovsdb-server", "ovsdb-tool", "ovsdb-client", "ovs-vsctl", "ovs-appctl")

USER: Final = BridgeKind(
    "user",
    "user NAT",
    carried_by="QEMU's own network stack",
    between_guest_and_host="QEMU",
    needs="QEMU; no privilege",
    takes_uplink=False,
    keeps_uplink=True,
    joins_guests=False,
    translates=True,
    has_vhost=False,
    needs_uplink=True,
    carries_frames=False,
    reaches_guests=False,
)
TAP: Final = BridgeKind(
    "tap",
    "tap + kernel bridge",
    carried_by="the kernel's bridge",
    between_guest_and_host="vhost-net, or QEMU",
    needs="iproute2, `/dev/net/tun`",
    tools=("ip", "bridge"),
    modules={**_TUN, "bridge": "CONFIG_BRIDGE"},
    tap=DIRECTIONS,
    takes_domains=True,
)
MACVTAP: Final = BridgeKind(
    "macvtap",
    "macvtap",
    carried_by="the kernel, by MAC address, on the uplink itself",
    between_guest_and_host="vhost-net, or QEMU",
    needs="iproute2, `macvtap` in the kernel",
    takes_uplink=False,
    reaches_host=False,
    needs_uplink=True,
    tools=("ip", "mknod"),
    modules={"macvtap": "CONFIG_MACVTAP"},
    tap=(OUT, READ),
    takes_domains=True,
)
XDP: Final = BridgeKind(
    "xdp",
    "tap + XDP",
    carried_by="a BPF program, before the kernel's network stack",
    between_guest_and_host="vhost-net, or QEMU",
    needs="iproute2, ethtool, `/dev/net/tun`, `CAP_BPF`",
    tools=(*TAP.tools, "ethtool"),
    modules=TAP.modules,
    passes_queues=False,
    counts_packets=True,
    takes_domains=True,
)
OVS: Final = BridgeKind(
    "ovs",
    "Open vSwitch",
    carried_by="Open vSwitch, in the kernel or in user space",
    between_guest_and_host="vhost-net, or QEMU",
    needs="Open vSwitch 2.16 or newer, `/dev/net/tun`",
    has_switch=True,
    tools=_SWITCH_TOOLS,
    modules=_TUN,
    optional_modules={"openvswitch": "CONFIG_OPENVSWITCH"},
    tap=DIRECTIONS,
    takes_domains=True,
)
OVS_AFXDP: Final = BridgeKind(
    "ovs-afxdp",
    "Open vSwitch + AF_XDP",
    carried_by="Open vSwitch in user space, AF_XDP on the uplink",
    between_guest_and_host="vhost-user; taps without DPDK",
    has_switch=True,
    needs="Open vSwitch with AF_XDP, `CONFIG_XDP_SOCKETS`; its DPDK build for vhost-user",
    tools=_SWITCH_TOOLS,
    modules=_TUN,
    leaves_nothing="an AF_XDP socket receives every frame there, tagged ones, too",
    passes_queues=False,
    needs_uplink=True,
)
_VF_BY_VFIO = BridgeKind(
    "vf",
    "SR-IOV virtual function",
    carried_by="the card's own switch, by MAC address and VLAN",
    between_guest_and_host="the card; as macvtap, vhost-net or QEMU",
    needs="a card and a kernel with SR-IOV; by VFIO an IOMMU, as macvtap the functions' driver and `macvtap`",
    takes_uplink=False,
    passes_queues=False,
    has_vhost=False,
    needs_uplink=True,
    needs_card=True,
    takes_functions=True,
    gives_device=True,
    tools=("ip",),
    modules=_VFIO,
)
VF: Final = replace(
    _VF_BY_VFIO,
    forms={
        "vfio": _VF_BY_VFIO,
        "macvtap": replace(
            _VF_BY_VFIO, has_vhost=True, gives_device=False, tools=MACVTAP.tools, modules=MACVTAP.modules
        ),
    },
)
VFIO: Final = BridgeKind(
    "vfio",
    "VFIO",
    carried_by="nothing: the card belongs to the guest",
    between_guest_and_host="the card",
    needs="a PCI card in a separate IOMMU group, `vfio-pci`",
    takes_uplink=False,
    hands_over_card=True,
    many_guests=False,
    joins_guests=False,
    leaves_nothing="the card itself is passed to the guest",
    passes_queues=False,
    has_vhost=False,
    reaches_host=False,
    needs_uplink=True,
    needs_card=True,
    gives_device=True,
    tools=("ip",),
    modules=_VFIO,
)

KINDS: Final[Mapping[str, BridgeKind]] = {
    kind.name: kind for kind in (USER, TAP, MACVTAP, XDP, OVS, OVS_AFXDP, VF, VFIO)
}
"""All of them by name, in the order in which they are listed."""
assert tuple(KINDS) == get_args(BridgeName)
