"""What every virtual bridge is: how it is made next to the guests, and how a guest is plugged into it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Interface
from typing import ClassVar

from latlab.hosts import Host
from latlab.hosts.tools import missing_tool
from latlab.model.bridges import BridgeKind
from latlab.model.errors import LabError
from latlab.scenario import End, Guest, Segment
from latlab.scenario.guests import facts_of
from latlab.testbed.kernel_parts import load_remedy
from latlab.testbed.site import Site
from latlab.testbed.step import Argv, Service, Step

CHECKSUM_OFFLOADS_OFF = tuple(
    f"{feature}=off"
    for feature in (
        *("csum", "guest_csum", "gso", "guest_tso4", "guest_tso6", "guest_ecn", "guest_ufo"),
        *("host_tso4", "host_tso6", "host_ecn", "host_ufo"),
    )
)
"""virtio-net-pci properties of a guest whose frames must carry whole checksums: XDP and user-space datapaths
forward a frame as it is, and one whose checksum the NIC was to complete arrives with a wrong one."""


@dataclass(frozen=True)
class GuestPort:
    """One guest at a bridge.

    number: its place among all guests of the scenario. mac: of its network card. counted: its board's clock counts
    instructions.
    """

    guest: str
    end: End
    wants: Guest
    number: int
    mac: str
    address: IPv4Interface
    counted: bool = False


@dataclass(frozen=True)
class Neighbour:
    """Another interface on the segment."""

    end: End
    address: IPv4Interface
    mac: str


@dataclass(frozen=True)
class Joint:
    """One bridge of a cell: guests of one host, joined to one uplink (or to none) in one way.

    number: its place among the cell's joints. made: the uplink is made for the run (a veth), or there is none: the
    offloads of the veth's other end, and of the others made on the segment, peers, are ours to set. mac, address, end:
    the host's on the segment; mac is empty where they were there before the run, else they go onto the bridge. others:
    the interfaces beyond the uplink whose addresses are known before the run. local: the host is this machine in its
    own network namespace, where there are others' devices, too. beside: the kinds of the same host's other joints.
    queues: the uplink's pairs of queues; None where they are as they were before the run. tagged: the uplink is a VLAN
    interface, made for the run on whatever is there: the host's address is its VLAN's, and goes onto the bridge in any
    case. tags: streams of frames that have a VLAN tag pass the uplink. card: the uplink, or the interface that it is a
    VLAN interface on; vlan: the id and the priority (PCP) that frames get there. functions: the guests that get virtual
    functions of the card, those of all joints on it: their places are the functions' numbers. is_namespace: the host is
    a network namespace of its machine.
    """

    number: int
    host: str
    uplink: str | None
    kind: str
    segment: Segment
    ports: tuple[GuestPort, ...]
    made: bool
    mac: str
    address: IPv4Interface
    end: End
    peers: tuple[End, ...]
    others: tuple[Neighbour, ...]
    local: bool = False
    beside: tuple[str, ...] = ()
    queues: int | None = None
    tagged: bool = False
    tags: bool = False
    card: str | None = None
    vlan: tuple[int, int] | None = None
    functions: tuple[str, ...] = ()
    is_namespace: bool = False

    @property
    def has_host(self) -> bool:
        """Whether the host has its address on the bridge, and so reaches its guests there."""
        return bool(self.mac) or self.tagged


@dataclass(frozen=True)
class Plug:
    """How QEMU plugs one guest in.

    netdev: the value of -netdev, without its id, which is `net0`. device: further properties of virtio-net-pci. fds:
    number of a file descriptor → the device node it is to be opened on. more: further arguments. form: guests with the
    same device and form can start from the same snapshot. driver: the device, where it is no virtio-net-pci.
    """

    netdev: str | None
    device: tuple[str, ...] = ()
    fds: tuple[tuple[int, str], ...] = ()
    more: Argv = ()
    form: str = "tap"
    driver: Argv = ()
    machine: tuple[str, ...] = ()
    memory: Argv = field(default=())


@dataclass(frozen=True)
class ScratchBridge:
    """What a doctor has made in a namespace, to try bridges there: a kernel bridge, its ports `uplink`, one end of a
    link, and `tap`; and that link's other end.
    """

    bridge: str
    uplink: str
    tap: str
    far: str


class BridgeMaker(ABC):
    """One kind of virtual bridge; a file each, listed in `table`."""

    kind: BridgeKind
    """Its facts."""
    is_tried: ClassVar[bool] = False
    """Whether only trying it shows what the kernel has for it."""

    @abstractmethod
    def lacking(self, joint: Joint, site: Site) -> LabError | None:
        """What keeps it from being made on this machine; None when it can be. Reads only."""

    async def tried(self, host: Host, scratch: ScratchBridge) -> str:
        """What the kernel has for it, in words, by trying it on that host. LatlabError: what it does not have."""
        return ""

    def may_have_vhost_on(self, guest: Guest, site: Site) -> bool:
        """Whether vhost-net can carry that guest's packets, where it depends on what is installed on the machine."""
        return facts_of(guest).has_vhost

    @abstractmethod
    def before_guests(self, joint: Joint, site: Site) -> Sequence[Step | Service]:
        """What is made before the guests start."""

    @abstractmethod
    def plug(self, joint: Joint, port: GuestPort, site: Site) -> Plug:
        """How QEMU plugs the guest in."""

    def after_guests(self, joint: Joint, site: Site) -> Sequence[Step | Service]:
        """What is done once the guests run; nothing for most."""
        return ()

    def device(self, joint: Joint, site: Site) -> str | None:
        """The interface that has the host's address on the segment; None where the uplink keeps it."""
        return None

    def takes_groups(self, joint: Joint, port: GuestPort, site: Site) -> Sequence[Step]:
        """What is done so that frames to groups reach a guest; nothing where all of them do."""
        return ()

    def port_device(self, port: GuestPort, site: Site) -> str | None:
        """The tap or macvtap that a guest's card is on; None where there is none."""
        return None

    def detail(self, joint: Joint, site: Site) -> str:
        """Which of its makings it is here and why, in words, where there are several; empty for most."""
        return ""

    def carries_in_kernel(self, joint: Joint, site: Site) -> str:
        """What carries the packets between host and guest, in words: vhost-net, or QEMU itself."""
        return "vhost-net" if vhost(joint.ports[0].wants, site) else "QEMU"


def vhost(guest: Guest, site: Site) -> bool:
    """Whether the guest's packets are carried by vhost-net."""
    return guest.vhost == "on" or (guest.vhost == "auto" and site.machine.vhost_net)


def lacking_vhost(joint: Joint, site: Site) -> LabError | None:
    """vhost-net was asked for and is not there."""
    if any(port.wants.vhost == "on" for port in joint.ports) and not site.machine.vhost_net:
        return LabError(
            "vhost: on, and there is no /dev/vhost-net", remedy=f"{load_remedy('vhost_net')}; or vhost: auto"
        )
    return None


def lacking_tun(site: Site) -> LabError | None:
    """The device that taps are made with is not there."""
    if not site.machine.exists("/dev/net/tun"):
        return LabError("there is no /dev/net/tun", remedy=load_remedy("tun"))
    return None


def lacking_tools(site: Site, *tools: str) -> LabError | None:
    """The first of the programs that is missing."""
    for tool in tools:
        if not site.machine.has_tool(tool):
            return missing_tool(tool)
    return None
