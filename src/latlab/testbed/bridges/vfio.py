"""VFIO: a network card is the guest's own, through the IOMMU (kernel: Documentation/driver-api/vfio.rst)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from latlab.model import bridges
from latlab.model.errors import LabError
from latlab.testbed.architecture import iommu_remedy
from latlab.testbed.bridges.base import BridgeMaker, GuestPort, Joint, Plug, lacking_tools
from latlab.testbed.kernel_parts import load_remedy
from latlab.testbed.machine import Machine
from latlab.testbed.site import Site
from latlab.testbed.step import Before, Check, Service, Step

DRIVER = "vfio-pci"
GROUPS = "/sys/kernel/iommu_groups"
DEVICES = "/sys/bus/pci/devices"
PCI_BRIDGE = "0x0604"
"""First half of the class of a PCI-to-PCI bridge, which stays with the host."""

BIND = """
at=/sys/bus/pci/devices/$1
echo vfio-pci >"$at/driver_override"
[ ! -e "$at/driver" ] || echo "$1" >"$at/driver/unbind"
echo "$1" >/sys/bus/pci/drivers_probe
"""
RETURN = """
at=/sys/bus/pci/devices/$1
echo >"$at/driver_override"
[ ! -e "$at/driver" ] || echo "$1" >"$at/driver/unbind"
[ "$2" = none ] || echo "$1" >"/sys/bus/pci/drivers/$2/bind"
"""
NAME_OF_DRIVER = 'if [ -e "$1/driver" ]; then basename "$(readlink "$1/driver")"; else echo none; fi'
IS_BOUND = '[ "$(basename "$(readlink "$1/driver")")" = vfio-pci ]'
# It comes back under the name that the kernel gives it, unless something like udev names it again.
RESTORE = """
for again in $(seq 30); do [ ! -e "/sys/class/net/$2" ] || break; sleep 0.1; done
[ -e "/sys/class/net/$2" ] || ip link set dev "$(ls "/sys/bus/pci/devices/$1/net")" name "$2"
for given in $5; do ip addr replace "$given" dev "$2"; done
ip link set dev "$2" mtu "$4" "$3"
"""


class Vfio(BridgeMaker):
    """The guest drives the card itself: no bridge, no host in the path."""

    kind = bridges.VFIO

    def lacking(self, joint: Joint, site: Site) -> LabError | None:
        """The IOMMU, VFIO, a PCI card, an IOMMU group to itself, and another way to reach this machine: in order."""
        machine = site.machine
        return lacking_iommu(machine) or _lacking_card(joint, machine) or lacking_tools(site, *self.kind.tools)

    def before_guests(self, joint: Joint, site: Site) -> Sequence[Step | Service]:
        """The card's driver is vfio-pci; afterwards it is the former one, and the interface as it was."""
        address = card_address(joint, site.machine) or "PCI-ADDRESS"
        if site.machine.link(f"{DEVICES}/{address}/driver") == DRIVER:
            return ()
        at = f"{DEVICES}/{address}"
        interfaces = site.machine.list(f"{at}/net")
        return [
            *(_note(site.name, address, interface) for interface in interfaces),
            Step(
                host=site.name,
                title=f"give {address} to {DRIVER}",
                do=("sh", "-ec", BIND, "sh", address),
                undo=("sh", "-ec", RETURN, "sh", address, "{before}"),
                present=("sh", "-c", IS_BOUND, "sh", at),
                before=Before(("sh", "-c", NAME_OF_DRIVER, "sh", at)),
                check=Check(("sh", "-c", NAME_OF_DRIVER, "sh", at), expected=DRIVER, within_ms=2000),
            ),
        ]

    def plug(self, joint: Joint, port: GuestPort, site: Site) -> Plug:
        """The card itself."""
        address = card_address(joint, site.machine) or "PCI-ADDRESS"
        return Plug(None, driver=("-device", f"vfio-pci,host={address}"), form="vfio")

    def detail(self, joint: Joint, site: Site) -> str:
        """Which card."""
        return f"PCI device {card_address(joint, site.machine) or 'unknown'}"

    def carries_in_kernel(self, joint: Joint, site: Site) -> str:
        """Nothing of the host's."""
        return "the card"


def lacking_iommu(machine: Machine) -> LabError | None:
    """The IOMMU, then VFIO."""
    if not machine.list(GROUPS):
        return LabError(
            f"no IOMMU is in use: {GROUPS} is empty or missing",
            remedy=iommu_remedy(machine.architecture),
        )
    if not machine.exists("/dev/vfio/vfio"):
        return LabError("there is no /dev/vfio/vfio", remedy=load_remedy("vfio_pci"))
    return None


def lacking_driver(machine: Machine) -> LabError | None:
    """The driver that hands devices over."""
    if not machine.exists(f"/sys/bus/pci/drivers/{DRIVER}"):
        return LabError(f"the driver {DRIVER} does not exist", remedy=load_remedy("vfio_pci"))
    return None


def card_address(joint: Joint, machine: Machine) -> str | None:
    """The PCI address of the card: as the guest says, or the uplink's; None where the uplink is not a PCI device."""
    if given := joint.ports[0].wants.device:
        return given
    if joint.made or not joint.uplink:
        return None
    address = machine.link(f"/sys/class/net/{joint.uplink}/device")
    return address if address and machine.exists(f"{DEVICES}/{address}") else None


def _lacking_card(joint: Joint, machine: Machine) -> LabError | None:
    address = card_address(joint, machine)
    if address is None:
        what = f"{joint.end} is made for the run" if joint.made else f"{joint.end} is not a PCI device"
        return LabError(f"{what}: there is no card to pass through", remedy="device: its PCI address, from `lspci -D`")
    at = f"{DEVICES}/{address}"
    if not machine.exists(at):
        return LabError(f"there is no PCI device {address}", remedy="`lspci -D` lists them")
    if machine.link(f"{at}/iommu_group") is None:
        return LabError(f"{address} is in no IOMMU group", remedy="a card on a bus that the IOMMU translates")
    if others := _others(address, machine):
        return LabError(
            f"{', '.join(others)}: in the same IOMMU group as {address}, and would have to be passed through, too",
            remedy=f"unbind them or give them to {DRIVER}, or put the card into a separate slot (PCIe ACS)",
        )
    interfaces, defaults = machine.list(f"{at}/net"), _default_routes(machine)
    for interface in interfaces:
        if above := [one for one in machine.list(f"/sys/class/net/{interface}") if one.startswith("upper_")]:
            named = ", ".join(one.removeprefix("upper_") for one in above)
            return LabError(
                f"{interface} is a port of {named}, or {named} stands on it, and would lose its packets",
                remedy=f"another card, or take it out first (`ip link set dev {interface} nomaster`)",
            )
    if defaults and defaults <= set(interfaces):
        named = ", ".join(sorted(defaults))
        return LabError(
            f"{named} has this machine's only default route", remedy="another card, or another default route"
        )
    return lacking_driver(machine)


def _others(address: str, machine: Machine) -> list[str]:
    """Devices of the card's group that have a driver of the host, and it; bridges stay with the host."""
    found = []
    for other in machine.list(f"{DEVICES}/{address}/iommu_group/devices"):
        bridge = (machine.read(f"{DEVICES}/{other}/class") or "").startswith(PCI_BRIDGE)
        driver = machine.link(f"{DEVICES}/{other}/driver")
        if other != address and not bridge and driver not in (None, DRIVER):
            found.append(f"{other} ({driver})")
    return found


def _default_routes(machine: Machine) -> set[str]:
    """The interfaces with a default route (proc_pid_net(5), route)."""
    lines = (machine.read("/proc/net/route") or "").splitlines()[1:]
    return {words[0] for words in map(str.split, lines) if words[1] == words[7] == "00000000"}


def _note(machine: str, address: str, interface: str) -> Step:
    """A card that comes back from vfio-pci comes back down and without addresses, to the machine itself."""
    return Step(
        host=machine,
        title=f"record {interface}'s state, MTU and addresses, to restore them",
        do=(),
        undo=("sh", "-ec", RESTORE, "sh", address, interface, "{state}", "{mtu}", "{addresses}"),
        before=Before(("ip", "-j", "addr", "show", "dev", interface), read=interface_state),
    )


def interface_state(output: str) -> Mapping[str, str]:
    """What of `ip -j addr show dev` is restored.

    `{"state": up or down, "mtu": bytes, "addresses": those that somebody gave it for good, with spaces between them}`
    """
    shown = json.loads(output)[0]
    given = (one for one in shown["addr_info"] if one["scope"] != "link" and not one.get("dynamic"))
    addresses = " ".join(f"{one['local']}/{one['prefixlen']}" for one in given)
    return {"state": "up" if "UP" in shown["flags"] else "down", "mtu": str(shown["mtu"]), "addresses": addresses}
