"""What a scenario needs of a board's kernel, and the image does not have: reported before anything is made."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from latlab.scenario import Scenario, parse
from latlab.testbed.guests.start import unbuilt_image
from latlab.testbed.images.board_recipe import FEATURES, NESTED_KVM
from latlab.testbed.machine import Machine, assumed_machine
from latlab.testbed.machines import planned_sites
from latlab.testbed.site import Site
from latlab.testbed.unavailable import unavailable

LACKING = {**FEATURES, "constant_tsc": NESTED_KVM}
KVM = {"/dev/kvm": True, "/proc/cpuinfo": "vendor_id : GenuineIntel\nflags : vmx\n"}


def on_a_board(**guest: Any) -> Scenario:
    """A guest nested in a board that has one network card."""
    board: dict[str, Any] = {"kind": "board", "nics": 1} if guest.pop("nics", 0) else {"kind": "board"}
    found = parse(
        {
            "name": "nested",
            "hosts": {
                "board1": board,
                "sensor": {"kind": "netns", "on": "board1"},
                "ecu": {"kind": "netns", "on": "board1"},
            },
            "links": [{"ends": ["sensor.eth0", "ecu.eth0"]}],
            "guests": {"vm1": {"host": "ecu", "uplink": "eth0", **guest}},
            "streams": {"down": {"talker": "sensor", "listener": "vm1", "period": "1ms", "size": "64B"}},
            "duration": "1s",
        }
    ).scenario
    assert found
    return found


def machine(kvm: bool) -> Machine:
    """This machine, with Intel's KVM or none, and a QEMU that has no igb."""
    return replace(
        assumed_machine(),
        exists=lambda path: kvm,
        read=lambda path: str(KVM[path]),
        say=lambda argv: "QEMU emulator version 7.2.22",
    )


def told(
    scenario: Scenario, lacking: dict[str, str], *, kvm: bool = False, flavour: str = "", emulator: str = ""
) -> list[tuple[str, str]]:
    """Where, and what, of all that keeps the cell from being built."""
    unbuilt = unbuilt_image("debian-rt-board")
    board = replace(unbuilt, digest="0" * 64, kind="board", lacking=lacking, emulator=emulator)
    guest = replace(unbuilt_image("debian-cloud"), flavour=flavour)
    site = Site("t1", machine=machine(kvm), images={board.name: board, guest.name: guest})
    site = replace(site, others=planned_sites(scenario, site))
    return [(reason.where, f"{reason.what} ({reason.remedy})") for reason in unavailable(scenario, site)]


@pytest.mark.parametrize(
    ("module", "wanted", "where", "kvm"),
    [
        ("macvtap", {"bridge": "macvtap"}, "guests.vm1.bridge", False),
        ("vfio_pci", {"bridge": "vfio"}, "guests.vm1.bridge", False),
        ("vhost_net", {"vhost": "on"}, "guests.vm1.vhost", False),
        ("kvm_amd", {"acceleration": "kvm"}, "guests.vm1.acceleration", False),
        ("constant_tsc", {"acceleration": "kvm"}, "guests.vm1.acceleration", False),
        ("kvm_intel", {"acceleration": "kvm"}, "guests.vm1.acceleration", True),
        ("e1000e", {"nics": 1}, "hosts.board1.nics", False),
    ],
)
def test_a_module_that_is_needed_and_lacking_is_named_with_what_it_is_for(
    module: str, wanted: dict[str, Any], where: str, kvm: bool
) -> None:
    scenario = on_a_board(**wanted)
    (reason,) = told(scenario, {module: LACKING[module]}, kvm=kvm)
    assert reason[0] == where
    assert (
        f"debian-rt-board has no kernel module {module}, so it is without this feature: {LACKING[module]}" in reason[1]
    )
    assert "`latlab image build debian-rt-board`" in reason[1]
    assert told(scenario, {}, kvm=kvm) == []


def test_a_guest_that_gets_a_card_has_a_kernel_that_drives_it() -> None:
    scenario, kernels = on_a_board(bridge="vfio", nics=1), {"cloud": 1, "rt": 0, "": 0}
    for flavour, reasons in kernels.items():
        found = told(scenario, {}, flavour=flavour)
        assert len(found) == reasons
        for where, what in found:
            assert where == "guests.vm1.image"
            assert what.startswith(
                "the kernel of debian-cloud has no driver for e1000e, the board's card that vm1 gets ("
            )


@pytest.mark.parametrize(("emulator", "works"), [("10.0.2", False), ("10.0.13", True), ("10.1.0", True)])
def test_a_qemu_whose_cards_have_no_working_functions_is_named_with_another(emulator: str, works: bool) -> None:
    scenario = on_a_board(bridge="vf", nics=1)
    found = told(scenario, {}, flavour="rt", emulator=emulator)
    if works:
        assert found == []
        return
    ((where, what),) = found
    assert where == "guests.vm1.bridge"
    assert "functions with a link by QEMU 10.0.13, and debian-rt-board has 10.0.2" in what
    assert "`latlab image build vf-board --board --emulator-from trixie`" in what
    assert told(on_a_board(bridge="vfio", nics=1), {}, flavour="rt", emulator=emulator) == []


def test_what_is_missing_and_not_asked_for_keeps_nothing_from_being_built() -> None:
    assert told(on_a_board(), LACKING) == []
    assert told(on_a_board(bridge="ovs"), LACKING) == []
    assert told(on_a_board(acceleration="kvm"), {"constant_tsc": NESTED_KVM}, kvm=True) == []
