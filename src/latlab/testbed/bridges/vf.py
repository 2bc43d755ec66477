"""SR-IOV: each guest has a virtual function of the uplink's card (kernel: Documentation/PCI/pci-iov-howto.rst).

The card's physical function stays the host's. Its own switch joins all functions and the cable, by MAC address and
VLAN.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from latlab.model import bridges
from latlab.model.errors import LabError
from latlab.scenario import End
from latlab.scenario.guests import facts_of
from latlab.testbed.bridges.base import BridgeMaker, GuestPort, Joint, Plug, lacking_tools, vhost
from latlab.testbed.bridges.kernel import no_ipv6, up
from latlab.testbed.bridges.macvtap import lacking_macvtap, macvtap_plug, macvtap_steps
from latlab.testbed.bridges.vfio import BIND, DEVICES, DRIVER, NAME_OF_DRIVER, lacking_driver, lacking_iommu
from latlab.testbed.host_setup import namespace_name
from latlab.testbed.links import QUEUES, queue_step
from latlab.testbed.machine import Machine
from latlab.testbed.site import Site
from latlab.testbed.step import Before, Check, Explain, Service, Step

UP_WITHIN_MS = 30_000
"""Making virtual functions resets the card: its link is negotiated again."""
PROBED_WITHIN_MS = 5000

SYMBOL = "CONFIG_PCI_IOV"
CARD_WITH_SRIOV = (
    "a card with SR-IOV, such as those of the drivers igb (82576, i350), ixgbe, i40e, ice and mlx5_core, not an i210, "
    "i225 or i226"
)
HAS_SRIOV = f"{CARD_WITH_SRIOV}; and a kernel with {SYMBOL}"
COUNT_SRIOV = "grep -qs . /proc/kallsyms && grep -c ' pci_enable_sriov$' /proc/kallsyms || :"
"""Prints 0 if the kernel has no SR-IOV (drivers/pci/iov.c), nothing where its symbols cannot be read."""
SWITCH_ON = "switch SR-IOV on in the firmware, or in the card's own configuration"
WHY_NOT = (
    "`dmesg` there has the reason: a driver without SR-IOV (No such file), or no room for the functions' memory "
    f"(Cannot allocate): {SWITCH_ON}, or boot with pci=realloc"
)
NO_SUCH_SETTING = "leave the key out: the card's driver cannot set it, and the run continues with the current value"

SET_AUTOPROBE = 'echo "$2" >"$1/sriov_drivers_autoprobe"'
MAKE = 'echo "$2" >"$1/sriov_numvfs"'
ARE_THERE = '[ "$(cat "$1/sriov_numvfs")" = "$2" ]'
# The driver starts again with its default number of queues.
REMOVE = f"""
echo 0 >"$2/sriov_numvfs"
[ "$(cat "$2/sriov_numvfs")" = 0 ]
[ "$({QUEUES})" = "$3" ] || ethtool -L "$1" combined "$3"
"""
FUNCTION = 'basename "$(readlink "$1/virtfn$2")"'
BESIDE = """
for one in /sys/bus/pci/devices/$1/iommu_group/devices/*; do
  name=$(basename "$one")
  case $(cat "$one/class") in 0x0604*) continue;; esac
  [ "$name" = "$1" ] || [ ! -e "$one/driver" ] || echo "$name"
done
"""
# A driver that gets no answer from the physical function in time takes a random MAC address (kernel:
# drivers/net/ethernet/intel/igbvf/netdev.c, igbvf_probe): it is to ask again. It waits some ms, which on a busy machine
# may be too short several times in a row.
PROBE = """
at=/sys/bus/pci/devices/$1
modprobe -q "$(cat "$at/modalias")" || true
echo "$1" >/sys/bus/pci/drivers_probe
for again in $(seq 20); do
  case $(cat "$at"/net/*/address 2>/dev/null) in "$2"|"") break;; esac
  echo "$1" >"$at/driver/unbind"
  sleep 0.2
  echo "$1" >/sys/bus/pci/drivers_probe
done
"""
INTERFACES = 'ls "/sys/bus/pci/devices/$1/net" 2>/dev/null | wc -l'
# Something like udev may be naming it at this moment.
TAKE = """
! command -v udevadm >/dev/null || udevadm settle
found=$(ls "/sys/bus/pci/devices/$1/net")
shift
ip link set dev "$found" down
ip link set dev "$found" name "$@"
"""


class Vf(BridgeMaker):
    """A virtual function for each guest: by VFIO its own device, or under a macvtap in mode passthru."""

    kind = bridges.VF

    def lacking(self, joint: Joint, site: Site) -> LabError | None:
        """A card with as many functions, none of them in use; then what handing them over takes: in order."""
        if missing := _lacking_functions(joint, site.machine):
            return missing
        if any(facts_of(port.wants).gives_device for port in joint.ports):
            missing = lacking_iommu(site.machine) or lacking_driver(site.machine)
        if not missing and not all(facts_of(port.wants).gives_device for port in joint.ports):
            missing = lacking_macvtap(joint, site)
        return missing or lacking_tools(site, *self.kind.tools)

    def before_guests(self, joint: Joint, site: Site) -> Sequence[Step | Service]:
        """The functions are made, once for all joints on the card; each has its addresses and is handed over."""
        steps: list[Step | Service] = []
        if joint.ports[0].guest == joint.functions[0]:
            steps += _made(joint, site)
        for port in joint.ports:
            steps += _settings(joint, port)
        for port in joint.ports:
            hand_over = _by_vfio if facts_of(port.wants).gives_device else _by_macvtap
            steps += hand_over(joint, port, site)
        return steps

    def plug(self, joint: Joint, port: GuestPort, site: Site) -> Plug:
        """The function itself, or the macvtap on it."""
        if not facts_of(port.wants).gives_device:
            return macvtap_plug(port, site)
        return Plug(None, driver=("-device", f"vfio-pci,host={_function(joint, port, site.machine)}"), form="vfio")

    def detail(self, joint: Joint, site: Site) -> str:
        """Which functions of which card."""
        machine, ports = site.machine, joint.ports
        functions = (f"{_function(joint, port, machine)} by {port.wants.vf.by} for {port.guest}" for port in ports)
        return f"virtual functions of PCI device {_card(joint, machine) or 'unknown'}: {', '.join(functions)}"

    def carries_in_kernel(self, joint: Joint, site: Site) -> str:
        """Nothing of the host's, or what a macvtap's packets are carried by."""
        wants = joint.ports[0].wants
        if facts_of(wants).gives_device:
            return "the card"
        return "vhost-net" if vhost(wants, site) else "QEMU"


def _card(joint: Joint, machine: Machine) -> str | None:
    """The PCI address of the card's physical function; None where there is none."""
    if joint.made or not joint.card:
        return None
    address = machine.link(f"/sys/class/net/{joint.card}/device")
    return address if address and machine.exists(f"{DEVICES}/{address}") else None


def _at(joint: Joint, machine: Machine) -> str:
    return f"{DEVICES}/{_card(joint, machine) or 'PCI-ADDRESS'}"


def _number(joint: Joint, port: GuestPort) -> int:
    return joint.functions.index(port.guest)


def _function(joint: Joint, port: GuestPort, machine: Machine) -> str:
    """The PCI address of the guest's function: by the first one's offset and the stride (PCIe 6.0, 9.2.1.2)."""
    card, number = _card(joint, machine), _number(joint, port)
    offset, stride = (_read(machine, f"{DEVICES}/{card}/sriov_{name}") for name in ("offset", "stride"))
    found = re.fullmatch(r"([0-9a-f]{4}):([0-9a-f]{2}):([0-9a-f]{2})\.([0-7])", card or "")
    if found is None or offset is None or stride is None:
        return f"VIRTUAL-FUNCTION-{number}"
    bus, device, function = (int(part, 16) for part in found.groups()[1:])
    place = (bus << 8 | device << 3 | function) + offset + number * stride
    return f"{found[1]}:{place >> 8:02x}:{place >> 3 & 0x1F:02x}.{place & 7}"


def _read(machine: Machine, path: str) -> int | None:
    said = (machine.read(path) or "").strip()
    return int(said) if said.isdigit() else None


def _lacking_functions(joint: Joint, machine: Machine) -> LabError | None:
    card, wanted = _card(joint, machine), len(joint.functions)
    if card is None:
        what = f"{joint.end} is made for the run" if joint.made else f"{joint.card} is not a PCI device"
        return LabError(
            f"{what}: there is no card with virtual functions", remedy=f"as the uplink an interface of {HAS_SRIOV}"
        )
    at, named = f"{DEVICES}/{card}", f"{joint.card} ({card})"
    if machine.link(f"{at}/physfn"):
        return LabError(f"{named} is a virtual function itself", remedy="the card's physical function as the uplink")
    most = _read(machine, f"{at}/sriov_totalvfs")
    if most is None:
        counted = (machine.say(("sh", "-c", COUNT_SRIOV)) or "").strip()
        if counted == "0":
            return LabError(f"this kernel has no SR-IOV: {SYMBOL} is off", remedy=f"a kernel with {SYMBOL}")
        driver = machine.link(f"{at}/driver") or "none"
        what = f"{named}, driver {driver}, has no SR-IOV: there is no {at}/sriov_totalvfs"
        return LabError(what, remedy=CARD_WITH_SRIOV if counted else HAS_SRIOV)
    if most < wanted:
        what = f"{named} can have {most} virtual functions, and {wanted} are wanted"
        return LabError(what, remedy="fewer guests on it" if most else SWITCH_ON)
    if there := _read(machine, f"{at}/sriov_numvfs"):
        what = f"{named} has {there} virtual functions already, which this run did not make"
        return LabError(what, remedy=f"remove them, unless a program uses them: `echo 0 >{at}/sriov_numvfs`")
    if joint.tags:
        what = (
            f"a stream of frames with VLAN tags passes {joint.end}, and a virtual function does not receive other VLANs"
        )
        return LabError(what, remedy="a VLAN interface as the uplink, such as eth0.5, and a stream without vlan")
    return None


def _made(joint: Joint, site: Site) -> Iterator[Step]:
    """As many functions as guests want of the card; the host's drivers leave them alone."""
    at, card, wanted = _at(joint, site.machine), joint.card or "", str(len(joint.functions))
    there = ("cat", f"{at}/sriov_numvfs")
    autoprobe = ("cat", f"{at}/sriov_drivers_autoprobe")
    yield Step(
        host=joint.host,
        title=f"leave {card}'s new virtual functions without a driver",
        do=("sh", "-ec", SET_AUTOPROBE, "sh", at, "0"),
        undo=("sh", "-ec", SET_AUTOPROBE, "sh", at, "{before}"),
        before=Before(autoprobe),
        check=Check(autoprobe, expected="0"),
    )
    yield Step(
        host=joint.host,
        title=f"make virtual functions of {card}: {wanted}",
        do=("sh", "-ec", MAKE, "sh", at, wanted),
        undo=("sh", "-ec", REMOVE, "sh", card, at, "{queues}"),
        present=("sh", "-c", ARE_THERE, "sh", at, wanted),
        before=Before(("sh", "-c", QUEUES, "sh", card), lambda output: {"queues": output.strip()}),
        check=Check(there, expected=wanted),
        explain=Explain(there, lambda output: WHY_NOT),
    )
    yield Step(
        host=joint.host,
        title=f"wait until {card}, which was reset, is up again",
        do=(),
        check=Check(("cat", f"/sys/class/net/{card}/operstate"), expected="up", within_ms=UP_WITHIN_MS),
    )
    if joint.queues is not None:
        yield queue_step(End(joint.host, card), joint.queues)


def _settings(joint: Joint, port: GuestPort) -> Iterator[Step]:
    """The function's MAC address and VLAN, before any driver sees it; what the guest may do with them.

    A driver may not know how to set what the scenario does not ask for: that is a finding.
    """
    card, number, wants = joint.card or "", _number(joint, port), port.wants.vf
    name = f"virtual function {number} of {card}, {port.guest}'s,"
    yield _set(joint, number, f"give {name} its MAC address", ("mac", port.mac), port.mac, _mac)
    if joint.vlan:
        vlan, priority = map(str, joint.vlan)
        words = ("vlan", vlan, "qos", priority)
        yield _set(joint, number, f"put {name} into VLAN {vlan}", words, f"{vlan} {priority}", _vlan)
    for key, title in (("trust", "trust"), ("spoofchk", "check for foreign addresses of")):
        on = "on" if getattr(wants, key) else "off"
        optional = key not in wants.model_fields_set
        title = f"{title} {name.rstrip(',')}: {on}"
        yield _set(joint, number, title, (key, on), on, _switch(key), optional=optional)


def _set(
    joint: Joint,
    number: int,
    title: str,
    words: tuple[str, ...],
    expected: str,
    read: Callable[[dict[str, Any]], str],
    *,
    optional: bool = False,
) -> Step:
    """A setting of a virtual function, which goes with it: ip-link(8), `vf`."""
    card = joint.card or ""
    shown = ("ip", "-j", "link", "show", "dev", card)
    return Step(
        host=joint.host,
        title=title,
        do=("ip", "link", "set", "dev", card, "vf", str(number), *words),
        check=Check(shown, expected=expected, read=lambda output: _of_function(output, number, read)),
        optional=optional,
        lasting=True,
        explain=None if optional else Explain(shown, lambda output: NO_SUCH_SETTING),
    )


def _of_function(output: str, number: int, read: Callable[[dict[str, Any]], str]) -> str:
    """What `ip -j link show` says of a virtual function."""
    for one in json.loads(output)[0].get("vfinfo_list", ()):
        if one["vf"] == number:
            return read(one)
    return f"no virtual function {number}"


def _mac(shown: dict[str, Any]) -> str:
    return str(shown.get("address", shown.get("mac", "none")))


def _vlan(shown: dict[str, Any]) -> str:
    """Its id and priority, as newer and older kernels have them."""
    found = next(iter(shown.get("vlan_list", ())), shown)
    return f"{found.get('vlan', 0)} {found.get('qos', 0)}"


def _switch(key: str) -> Callable[[dict[str, Any]], str]:
    def read(shown: dict[str, Any]) -> str:
        return {True: "on", False: "off", None: "unknown"}[shown.get(key)]

    return read


def _is_where_expected(joint: Joint, port: GuestPort, site: Site) -> Step:
    at, number = _at(joint, site.machine), _number(joint, port)
    return Step(
        host=site.name,
        title=f"virtual function {number} of {joint.card} has the PCI address that follows from its number",
        do=(),
        check=Check(("sh", "-c", FUNCTION, "sh", at, str(number)), expected=_function(joint, port, site.machine)),
    )


def _by_vfio(joint: Joint, port: GuestPort, site: Site) -> Iterator[Step]:
    """The function's driver is vfio-pci, until it is removed; nothing of the host's is in its IOMMU group."""
    address = _function(joint, port, site.machine)
    yield _is_where_expected(joint, port, site)
    yield Step(
        host=site.name,
        title=f"no other device in use is in the IOMMU group of {address}",
        do=(),
        check=Check(
            ("sh", "-c", BESIDE, "sh", address),
            expected="",
            remedy="put the card into a slot whose port separates functions (PCIe ACS), or take vf: {by: macvtap}",
        ),
    )
    yield Step(
        host=site.name,
        title=f"give {address} to {DRIVER}",
        do=("sh", "-ec", BIND, "sh", address),
        check=Check(
            ("sh", "-c", NAME_OF_DRIVER, "sh", f"{DEVICES}/{address}"), expected=DRIVER, within_ms=PROBED_WITHIN_MS
        ),
    )


def _by_macvtap(joint: Joint, port: GuestPort, site: Site) -> Iterator[Step | Service]:
    """The host drives the function, whose interface is where the host's are, with a macvtap on it."""
    address, device = _function(joint, port, site.machine), site.device(f"v{_number(joint, port)}")
    at = _at(joint, site.machine)
    yield _is_where_expected(joint, port, site)
    yield Step(
        host=site.name,
        title=f"allow drivers to bind to {joint.card}'s virtual functions",
        do=("sh", "-ec", SET_AUTOPROBE, "sh", at, "1"),
    )
    yield Step(
        host=site.name,
        title=f"have {address} driven by this kernel",
        do=("sh", "-ec", PROBE, "sh", address, port.mac),
        check=Check(
            ("sh", "-c", INTERFACES, "sh", address),
            expected="1",
            within_ms=PROBED_WITHIN_MS,
            remedy="load the driver of the card's virtual functions: `modprobe igbvf` for igb, iavf for i40e and ice",
        ),
    )
    there = ("netns", namespace_name(site.tag, joint.host)) if joint.is_namespace else ()
    yield Step(
        host=site.name,
        title=f"take the interface of {address} as {device}",
        do=("sh", "-ec", TAKE, "sh", address, device, *there),
    )
    yield Step(
        host=joint.host,
        title=f"give {device} the segment's MTU",
        do=("ip", "link", "set", "dev", device, "mtu", str(joint.segment.mtu)),
        check=Check(
            ("cat", f"/sys/class/net/{device}/address"),
            expected=port.mac,
            remedy=f"its driver got no answer from {joint.card}: `dmesg` there has why",
        ),
    )
    yield no_ipv6(joint, device)
    yield up(joint, device)
    yield from macvtap_steps(joint, port, site, device, (), "passthru")
