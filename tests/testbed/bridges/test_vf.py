"""Virtual functions: what keeps a card from having them is named; what is made, set and handed over, in which order."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from latlab.testbed.bridges.base import Joint
from latlab.testbed.bridges.joints import joints
from latlab.testbed.bridges.vf import COUNT_SRIOV, Vf
from latlab.testbed.machine import Machine
from latlab.testbed.site import Site
from latlab.testbed.step import Step
from support.machine import scenario
from support.testbed.bridges import PLAIN, TAG, TAGGED, joint_of, on_a_cable, with_guest

CARD, FIRST, SECOND = "0000:02:00.0", "0000:02:10.0", "0000:02:10.2"
PCI, NET = "/sys/bus/pci/devices", "/sys/class/net"
AT = f"{PCI}/{CARD}"
FILES = {
    f"{AT}/sriov_totalvfs": "7\n",
    f"{AT}/sriov_numvfs": "0\n",
    f"{AT}/sriov_offset": "128\n",
    f"{AT}/sriov_stride": "2\n",
}
LINKS = {f"{NET}/near/device": CARD, f"{AT}/driver": "igb"}
PATHS = {"/dev/vfio/vfio", AT, "/sys/bus/pci/drivers/vfio-pci"}
GROUPS = "/sys/kernel/iommu_groups"
BY_MACVTAP = {"vf": {"by": "macvtap"}}


def tree(
    files: Mapping[str, str | None] | None = None,
    links: Mapping[str, str] | None = None,
    *,
    without: Sequence[str] = (),
    groups: tuple[str, ...] = ("0", "1"),
    symbols: str | None = None,
) -> Site:
    """A machine with a card of seven virtual functions, but for what is said."""
    texts, leads = {**FILES, **(files or {})}, {**LINKS, **(links or {})}
    machine = Machine(
        capabilities=frozenset(),
        cpus=frozenset({0}),
        interfaces=frozenset({"near"}),
        has_tool=lambda tool: tool not in without,
        exists=lambda path: path in PATHS and path not in without,
        read=texts.get,
        list=lambda path: groups if path == GROUPS else (),
        link=lambda path: None if path in without else leads.get(path),
        say=lambda argv: symbols if COUNT_SRIOV in argv else None,
    )
    return Site(TAG, machine=machine)


def on_the_card(**guests: Mapping[str, Any]) -> list[Joint]:
    """The bridges of those guests, on a cable that is there already; it has a VLAN."""
    made = scenario(
        {"ecu": "local", "plc": "local"},
        [{"ends": ["plc.far", "ecu.near"], "vlans": {"5": {"egress": {"0": 3}}}}],
        guests={name: {"host": "ecu", "uplink": "near", "bridge": "vf", **guest} for name, guest in guests.items()},
        streams={"control": {"talker": "plc", "listener": next(iter(guests)), **PLAIN}},
    )
    return joints(made, TAG)


def steps_of(joint: Joint, site: Site) -> list[Step]:
    """What is done before the guests start."""
    steps = Vf().before_guests(joint, site)
    assert all(isinstance(step, Step) for step in steps)
    return [step for step in steps if isinstance(step, Step)]


def commands(joint: Joint, site: Site) -> list[str]:
    """The words after `ip link set dev near vf`."""
    return [" ".join(step.do[6:]) for step in steps_of(joint, site) if step.do[4:6] == ("near", "vf")]


@pytest.fixture
def joint() -> Joint:
    return joint_of(on_a_cable("vf"))


def test_a_function_is_made_set_and_handed_over_and_all_of_it_goes_with_it(joint: Joint) -> None:
    site = tree()
    (port,) = joint.ports
    assert Vf().lacking(joint, site) is None
    assert commands(joint, site) == [f"0 mac {port.mac}", "0 trust off", "0 spoofchk on"]
    assert Vf().plug(joint, port, site).driver == ("-device", f"vfio-pci,host={FIRST}")
    steps = steps_of(joint, site)
    undone = [step for step in steps if step.undo]
    assert [step.do[-2:] for step in undone] == [(AT, "0"), (AT, "1")]
    autoprobe, made = undone
    assert autoprobe.undo and autoprobe.undo[-2:] == (AT, "{before}")
    assert made.undo and made.undo[-3:] == ("near", AT, "{queues}")
    assert steps.index(made) < min(steps.index(step) for step in steps if "vf" in step.do)
    assert steps[-1].check and steps[-1].check.expected == "vfio-pci" and FIRST in steps[-1].do


@pytest.mark.parametrize(
    ("site", "words", "remedy"),
    [
        (tree(without=[f"{NET}/near/device"]), "near is not a PCI device", "CONFIG_PCI_IOV"),
        (tree(links={f"{AT}/physfn": CARD}), f"near ({CARD}) is a virtual function itself", "physical function"),
        (tree({f"{AT}/sriov_totalvfs": None}), "driver igb, has no SR-IOV", "82576"),
        (tree({f"{AT}/sriov_totalvfs": None}), "driver igb, has no SR-IOV", "CONFIG_PCI_IOV"),
        (tree({f"{AT}/sriov_totalvfs": None}, symbols="0\n"), "CONFIG_PCI_IOV is off", "a kernel with CONFIG_PCI_IOV"),
        (tree({f"{AT}/sriov_totalvfs": None}, symbols="1\n"), "driver igb, has no SR-IOV", "not an i210"),
        (tree({f"{AT}/sriov_totalvfs": "0\n"}), "can have 0 virtual functions", "firmware"),
        (tree({f"{AT}/sriov_numvfs": "2\n"}), "2 virtual functions already", f"echo 0 >{AT}/sriov_numvfs"),
        (tree(groups=()), "no IOMMU is in use", "intel_iommu=on"),
        (tree(without=["/dev/vfio/vfio"]), "no /dev/vfio/vfio", "modprobe vfio_pci"),
        (tree(without=["/sys/bus/pci/drivers/vfio-pci"]), "vfio-pci does not exist", "modprobe vfio_pci"),
        (tree(without=["ip"]), "ip is missing", "iproute2"),
    ],
    ids=[
        "no device",
        "a function",
        "no SR-IOV",
        "or no kernel",
        "no kernel",
        "no card",
        "switched off",
        "in use",
        "IOMMU",
        "VFIO",
        "driver",
        "ip",
    ],
)
def test_the_missing_piece_is_named_with_what_to_do(joint: Joint, site: Site, words: str, remedy: str) -> None:
    missing = Vf().lacking(joint, site)
    assert missing
    assert words in missing.what
    assert remedy in missing.remedy


def test_a_kernel_with_sr_iov_is_not_suspected_where_the_card_has_none(joint: Joint) -> None:
    missing = Vf().lacking(joint, tree({f"{AT}/sriov_totalvfs": None}, symbols="1\n"))
    assert missing and "CONFIG_PCI_IOV" not in missing.remedy


def test_this_kernels_symbols_are_counted() -> None:
    said = subprocess.run(("sh", "-c", COUNT_SRIOV), capture_output=True, text=True, check=True).stdout.strip()
    symbols = Path("/proc/kallsyms")
    listed = symbols.read_text().splitlines() if symbols.exists() else []
    assert said == (str(sum(line.endswith(" pci_enable_sriov") for line in listed)) if listed else "")


def test_a_veth_has_no_functions() -> None:
    missing = Vf().lacking(joint_of(with_guest("vf")), tree())
    assert missing
    assert "ecu.nic is made for the run" in missing.what


def test_a_card_with_too_few_functions_is_named() -> None:
    (joint,) = on_the_card(vm1={}, vm2={})
    missing = Vf().lacking(joint, tree({f"{AT}/sriov_totalvfs": "1\n"}))
    assert missing and "can have 1 virtual functions, and 2 are wanted" in missing.what
    assert Vf().lacking(joint, tree({f"{AT}/sriov_totalvfs": "2\n"})) is None


def test_frames_with_tags_of_their_own_do_not_pass_a_function() -> None:
    missing = Vf().lacking(joint_of(on_a_cable("vf", TAGGED, talker="plc")), tree())
    assert missing and "does not receive other VLANs" in missing.what


def test_a_vlan_interface_as_the_uplink_puts_the_function_into_its_vlan() -> None:
    (joint,) = on_the_card(vm1={"uplink": "near.5"})
    (port,) = joint.ports
    assert commands(joint, tree())[:2] == [f"0 mac {port.mac}", "0 vlan 5 qos 3"]


def test_functions_of_one_card_are_made_once_and_numbered_through() -> None:
    plain, tagged = on_the_card(vm1={}, vm2={"uplink": "near.5"})
    assert any(step.do[-2:] == (AT, "2") for step in steps_of(plain, tree()))
    assert not any(step.undo for step in steps_of(tagged, tree()))
    assert commands(tagged, tree())[0] == f"1 mac {tagged.ports[0].mac}"
    assert Vf().plug(tagged, tagged.ports[0], tree()).driver == ("-device", f"vfio-pci,host={SECOND}")
    assert f"{SECOND} by vfio for vm2" in Vf().detail(tagged, tree())


def test_trust_and_spoof_check_are_set_as_asked_and_only_then_must_be_possible() -> None:
    (joint,) = on_the_card(vm1={"vf": {"trust": True, "spoofchk": False}}, vm2={})
    steps = {" ".join(step.do[6:]): step for step in steps_of(joint, tree()) if "vf" in step.do}
    asked = [steps["0 trust on"], steps["0 spoofchk off"]]
    others = [steps["1 trust off"], steps["1 spoofchk on"]]
    assert [step.optional for step in (*asked, *others)] == [False, False, True, True]
    assert all(step.explain for step in asked)


def test_under_a_macvtap_the_host_drives_the_function_and_needs_no_iommu() -> None:
    (joint,) = on_the_card(vm1=BY_MACVTAP)
    site = tree(groups=())
    (port,) = joint.ports
    assert Vf().lacking(joint, site) is None
    steps = steps_of(joint, site)
    (taken,) = [step for step in steps if step.do[-2:] == (FIRST, f"ll{TAG}v0")]
    (macvtap,) = [step for step in steps if "macvtap" in step.do]
    assert steps.index(taken) < steps.index(macvtap)
    assert ("link", f"ll{TAG}v0") == macvtap.do[3:5] and macvtap.do[-2:] == ("mode", "passthru")
    assert macvtap.check and macvtap.check.expected == port.mac
    assert Vf().plug(joint, port, site).netdev and Vf().carries_in_kernel(joint, site) == "QEMU"
    assert Vf().lacking(joint, tree(without=["mknod"])) is not None


def test_the_function_of_a_namespace_follows_the_card_into_it() -> None:
    (joint,) = on_the_card(vm1=BY_MACVTAP)
    (taken,) = [step for step in steps_of(replace(joint, is_namespace=True), tree()) if step.do[-2:-1] == ("netns",)]
    assert taken.do[-1] == f"latlab-{TAG}-ecu"


@pytest.mark.parametrize("key", ["trust", "spoofchk"])
def test_what_else_a_function_has_is_an_error(key: str) -> None:
    with pytest.raises(AssertionError, match=key):
        on_the_card(vm1={"vf": {key: "on"}})


NEWER = [
    {"vf": 0, "link_type": "ether", "address": "06:00:00:00:00:00", "broadcast": "ff:ff:ff:ff:ff:ff", "vlan_list": [{}],
     "spoofchk": True, "link_state": "auto", "trust": False},
    {"vf": 1, "link_type": "ether", "address": "06:00:00:00:00:01", "broadcast": "ff:ff:ff:ff:ff:ff",
     "vlan_list": [{"vlan": 5, "qos": 3}], "spoofchk": False, "link_state": "auto", "trust": True},
]  # fmt: skip
"""As newer versions of iproute2 print them (print_vfinfo() in ip/ipaddress.c)."""
OLDER = [{"vf": 0, "mac": "06:00:00:00:00:00"}, {"vf": 1, "mac": "06:00:00:00:00:01", "vlan": 5, "qos": 3}]
"""As older ones do, by a driver that reports neither spoof check nor trust."""


@pytest.mark.parametrize(
    ("functions", "read"),
    [
        (NEWER, {"mac": "06:00:00:00:00:01", "vlan": "5 3", "trust": "on", "spoofchk": "off"}),
        (OLDER, {"mac": "06:00:00:00:00:01", "vlan": "5 3", "trust": "unknown", "spoofchk": "unknown"}),
        (NEWER[:1], dict.fromkeys(("mac", "vlan", "trust", "spoofchk"), "no virtual function 1")),
        ([], dict.fromkeys(("mac", "vlan", "trust", "spoofchk"), "no virtual function 1")),
    ],
    ids=["newer", "older", "another's", "none"],
)
def test_each_setting_is_read_back_of_the_guest_s_own_function(
    functions: list[dict[str, Any]], read: dict[str, str]
) -> None:
    _, tagged = on_the_card(vm1={}, vm2={"uplink": "near.5"})
    shown = json.dumps([{"ifname": "near", **({"vfinfo_list": functions} if functions else {})}])
    found = {step.do[7]: step.check.read(shown) for step in steps_of(tagged, tree()) if "vf" in step.do and step.check}
    assert found == read
