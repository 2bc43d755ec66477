"""VFIO: what keeps a card from being passed through is named, in the order in which one meets it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from latlab.testbed.bridges.base import GuestPort, Joint
from latlab.testbed.bridges.vfio import Vfio, interface_state
from latlab.testbed.machine import Machine
from latlab.testbed.site import Site
from latlab.testbed.step import Step
from support.testbed.bridges import TAG, joint_of, on_a_cable, with_guest

CARD, TWIN, ROOT = "0000:01:00.0", "0000:01:00.1", "0000:00:01.0"
PCI, NET = "/sys/bus/pci/devices", "/sys/class/net"
GROUPS = "/sys/kernel/iommu_groups"
ROUTES = (
    "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\n{}\t00000000\t0101A8C0\t0003\t0\t0\t0\t00000000\n"
)
FOLDERS = {
    GROUPS: ("0", "1"),
    f"{PCI}/{CARD}/iommu_group/devices": (ROOT, CARD),
    f"{PCI}/{CARD}/net": ("near",),
}
LINKS = {
    f"{NET}/near/device": CARD,
    f"{PCI}/{CARD}/iommu_group": "1",
    f"{PCI}/{CARD}/driver": "igb",
    f"{PCI}/{ROOT}/driver": "pcieport",
}
FILES = {
    f"{PCI}/{ROOT}/class": "0x060400\n",
    f"{PCI}/{TWIN}/class": "0x020000\n",
    "/proc/net/route": ROUTES.format("lan"),
}
PATHS = {"/dev/vfio/vfio", f"{PCI}/{CARD}", "/sys/bus/pci/drivers/vfio-pci"}
TWINS = {f"{PCI}/{CARD}/iommu_group/devices": (ROOT, CARD, TWIN)}


def tree(
    folders: Mapping[str, tuple[str, ...]] | None = None,
    links: dict[str, str] | None = None,
    files: dict[str, str] | None = None,
    without: str = "",
) -> Site:
    """A machine whose card can be passed through, but for what is said."""
    listed, leads, texts = {**FOLDERS, **(folders or {})}, {**LINKS, **(links or {})}, {**FILES, **(files or {})}
    machine = Machine(
        capabilities=frozenset(),
        cpus=frozenset({0}),
        interfaces=frozenset({"near"}),
        has_tool=lambda tool: True,
        exists=lambda path: path in PATHS and path != without,
        read=texts.get,
        list=lambda path: listed.get(path, ()),
        link=lambda path: leads.get(path) if path != without else None,
    )
    return Site(TAG, machine=machine)


@pytest.fixture
def joint() -> Joint:
    return joint_of(on_a_cable("vfio"))


def test_a_card_of_its_own_is_passed_through_and_comes_back(joint: Joint) -> None:
    site = tree()
    assert Vfio().lacking(joint, site) is None
    assert Vfio().plug(joint, joint.ports[0], site).driver == ("-device", f"vfio-pci,host={CARD}")
    note, bind = Vfio().before_guests(joint, site)
    assert isinstance(note, Step)
    assert isinstance(bind, Step)
    assert note.undo
    assert note.undo[-5:] == (CARD, "near", "{state}", "{mtu}", "{addresses}")
    assert bind.undo
    assert bind.undo[-2:] == (CARD, "{before}")
    assert bind.check
    assert bind.check.expected == "vfio-pci"


def test_a_card_that_vfio_has_already_stays_there(joint: Joint) -> None:
    site = tree(links={f"{PCI}/{CARD}/driver": "vfio-pci"})
    given = replace(joint, ports=(with_device(joint, CARD),))
    assert Vfio().lacking(given, site) is None
    assert Vfio().before_guests(given, site) == ()


@pytest.mark.parametrize(
    ("site", "words"),
    [
        (tree({GROUPS: ()}), "no IOMMU is in use"),
        (tree(without="/dev/vfio/vfio"), "no /dev/vfio/vfio"),
        (tree(without=f"{NET}/near/device"), "ecu.near is not a PCI device"),
        (tree(links={f"{NET}/near/device": "virtio0"}), "ecu.near is not a PCI device"),
        (tree(without=f"{PCI}/{CARD}/iommu_group"), f"{CARD} is in no IOMMU group"),
        (tree(TWINS, {f"{PCI}/{TWIN}/driver": "igb"}), f"{TWIN} (igb)"),
        (tree(files={"/proc/net/route": ROUTES.format("near")}), "near has this machine's only default route"),
        (tree({f"{NET}/near": ("mtu", "upper_br0")}), "near is a port of br0, or br0 stands on it"),
        (tree(without="/sys/bus/pci/drivers/vfio-pci"), "the driver vfio-pci does not exist"),
    ],
    ids=[
        "IOMMU",
        "VFIO",
        "no device",
        "no PCI device",
        "no group",
        "a twin in its group",
        "default route",
        "a port",
        "driver",
    ],
)
def test_the_missing_piece_is_named(site: Site, words: str, joint: Joint) -> None:
    missing = Vfio().lacking(joint, site)
    assert missing
    assert words in missing.what
    assert missing.remedy


def test_the_first_missing_piece_comes_first(joint: Joint) -> None:
    missing = Vfio().lacking(joint, tree({GROUPS: ()}, without="/dev/vfio/vfio"))
    assert missing
    assert "IOMMU" in missing.what


@pytest.mark.parametrize("driver", [None, "vfio-pci"], ids=["no driver", "vfio-pci"])
def test_a_twin_that_the_host_does_not_drive_does_not_matter(driver: str | None, joint: Joint) -> None:
    assert Vfio().lacking(joint, tree(TWINS, {f"{PCI}/{TWIN}/driver": driver} if driver else {})) is None


def test_another_default_route_is_enough(joint: Joint) -> None:
    two = ROUTES.format("near") + ROUTES.format("lan").splitlines()[1] + "\n"
    assert Vfio().lacking(joint, tree(files={"/proc/net/route": two})) is None


def test_a_device_that_is_not_there_is_named(joint: Joint) -> None:
    missing = Vfio().lacking(replace(joint, ports=(with_device(joint, "0000:09:00.0"),)), tree())
    assert missing
    assert "no PCI device 0000:09:00.0" in missing.what


def test_a_veth_is_no_card() -> None:
    missing = Vfio().lacking(joint_of(with_guest("vfio")), tree())
    assert missing
    assert "ecu.nic is made for the run" in missing.what


def test_state_mtu_and_addresses_of_an_interface_are_noted() -> None:
    shown = """[{"ifname":"near","flags":["BROADCAST","UP","LOWER_UP"],"mtu":1400,"addr_info":[
        {"family":"inet","local":"192.168.1.2","prefixlen":24,"scope":"global"},
        {"family":"inet6","local":"fec0::99","prefixlen":64,"scope":"site","dynamic":true,"mngtmpaddr":true},
        {"family":"inet6","local":"fe80::1","prefixlen":64,"scope":"link"}]}]"""
    assert interface_state(shown) == {"state": "up", "mtu": "1400", "addresses": "192.168.1.2/24"}


def with_device(joint: Joint, address: str) -> GuestPort:
    (port,) = joint.ports
    return replace(port, wants=port.wants.model_copy(update={"device": address}))
