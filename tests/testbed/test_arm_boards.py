"""ARM boards: QEMU's options for them, and which images they and their guests start from."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from latlab.scenario import Scenario, parse
from latlab.testbed.bridges.joints import joints
from latlab.testbed.guests.qemu import command_line
from latlab.testbed.guests.start import unbuilt_image
from latlab.testbed.images import Image
from latlab.testbed.machine import Machine, assumed_machine
from latlab.testbed.machines import planned_sites
from latlab.testbed.machines.board_qemu import board_argv, board_key
from latlab.testbed.site import Site
from latlab.testbed.unavailable import unavailable

BUILT = {
    "debian-rt-board": "amd64",
    "debian-rt-board-arm64": "arm64",
    "debian-cloud": "amd64",
    "debian-cloud-arm64": "arm64",
    "debian-rt-arm64": "arm64",
}


def scenario(*, guest: dict[str, Any] | None = None, **board: Any) -> Scenario:
    """A board with two cards and a cable between them."""
    hosts = {
        "board1": {"kind": "board", "nics": 2, **board},
        "sensor": {"kind": "netns", "on": "board1", "cards": ["eth0"]},
        "ecu": {"kind": "netns", "on": "board1", "cards": ["eth1"]},
    }
    listener = "ecu" if guest is None else "vm1"
    found = parse(
        {
            "name": "arm",
            "hosts": hosts,
            "links": [{"ends": ["sensor.eth0", "ecu.eth1"]}],
            "guests": {"vm1": {"host": "ecu", "uplink": "eth1", **guest}} if guest is not None else {},
            "streams": {
                "down": {
                    "talker": "sensor",
                    "listener": listener,
                    "period": "1ms",
                    "size": "64B",
                }
            },
            "duration": "1s",
        }
    )
    assert found.scenario, found
    return found.scenario


def images() -> dict[str, Image]:
    found: dict[str, Image] = {}
    for name, architecture in BUILT.items():
        kind = "board" if "board" in name else "guest"
        found[name] = replace(
            unbuilt_image(name),
            digest=f"{len(found):064}",
            kind=kind,
            architecture=architecture,
            emulator="10.0.2" if kind == "board" else "",
            initramfs=Path(f"/images/{name}/initramfs"),
        )
    return found


def machine(*, kvm: bool = False) -> Machine:
    """An x86-64 machine."""
    flags = {"/proc/cpuinfo": "vendor_id : GenuineIntel\nflags : vmx\n"}
    return replace(assumed_machine(), exists=lambda path: kvm, read=flags.get)


def argv(wanted: Scenario, *, kvm: bool = False) -> list[str]:
    site = Site("t1", machine=machine(kvm=kvm), images=images())
    image = site.images[wanted.hosts["board1"].image_name]  # type: ignore[union-attr]
    return list(board_argv(wanted, "board1", image, site, "/run/board1", "/logs/console", None))


def after(words: list[str], option: str) -> list[str]:
    return [words[place + 1] for place, word in enumerate(words) if word == option]


def test_an_arm_board_in_virtual_time_counts_instructions_and_halts_by_a_pci_device() -> None:
    words = argv(scenario(arch="arm64", time="virtual"))
    assert words[0] == "/images/debian-rt-board-arm64/qemu/qemu-system-aarch64"
    assert after(words, "-machine") == ["virt,gic-version=3,virtualization=on"]
    assert after(words, "-icount") == ["shift=0,sleep=off"]
    assert after(words, "-cpu") == ["neoverse-n1,cntfrq=1000000000"]
    assert "pvpanic-pci" in after(words, "-device")
    assert "pvpanic" not in after(words, "-device")
    assert after(words, "-action") == ["panic=pause"]


def test_a_board_of_this_machines_architecture_is_the_pc_it_was() -> None:
    words = argv(scenario(time="virtual"))
    assert words[0] == "/images/debian-rt-board/qemu/qemu-system-x86_64"
    expected = "-machine q35 -accel tcg,thread=single -icount shift=0,sleep=off -cpu max,-rdrand,-rdseed,-erms,-fsrm"
    expected += " -rtc base=2025-01-01T00:00:00,clock=vm -global migration.announce-rounds=0 -seed 1"
    assert " ".join(words).startswith(f"{words[0]} {expected} -smp 1 -m 1024M -name board1")
    assert {"pvpanic", "ivshmem-plain,memdev=turns,master=on"} <= set(after(words, "-device"))


@pytest.mark.parametrize(("arch", "time"), [(None, "virtual"), (None, "real"), ("arm64", "virtual")])
def test_kernels_whose_instructions_are_counted_use_no_string_instructions_of_x86(arch: str | None, time: str) -> None:
    wanted = scenario(arch=arch, time=time, guest={"bridge": "tap", "acceleration": "kvm"})
    ((port,),) = [joint.ports for joint in joints(wanted, "t1")]
    image = images()[wanted.image_of("vm1")]
    for line in (*after(argv(wanted), "-append"), command_line(port, image)):
        assert ("clearcpuid=rep_good,395" in line.split()) == ((arch, time) == (None, "virtual"))


@pytest.mark.parametrize(
    ("arch", "accelerator", "cpu"), [(None, "kvm", "host"), ("arm64", "tcg", "neoverse-n1,cntfrq=1000000000")]
)
def test_this_machines_kvm_runs_no_board_of_another_architecture(arch: str | None, accelerator: str, cpu: str) -> None:
    words = argv(scenario(arch=arch), kvm=True)
    assert after(words, "-accel")[0].startswith(accelerator)
    assert after(words, "-cpu") == [cpu]


def test_a_card_that_an_arm_board_hands_on_is_behind_an_smmu() -> None:
    words = argv(scenario(arch="arm64", guest={"bridge": "vfio", "image": "debian-rt"}))
    assert after(words, "-machine") == ["virt,gic-version=3,virtualization=on,iommu=smmuv3"]
    assert not any("intel" in word for word in words)


def test_the_ports_of_an_arm_board_keep_a_cards_functions_apart() -> None:
    (plain,) = after(argv(scenario(arch="arm64", guest={"bridge": "vfio", "image": "debian-rt"})), "-append")
    (shared,) = after(argv(scenario(arch="arm64", guest={"bridge": "vf", "image": "debian-rt"})), "-append")
    assert "config_acs" not in plain
    assert "pci=config_acs=xx111x1@pci:1b36:000c" in shared.split()
    (pc,) = after(argv(scenario(guest={"bridge": "vf"})), "-append")
    assert "config_acs" not in pc and "intel_iommu=on" in pc.split()


def test_boards_with_two_kernel_command_lines_never_share_a_snapshot() -> None:
    site = Site("t1", machine=machine(), images=images())
    image = site.images["debian-rt-board-arm64"]
    keys = {
        board_key(scenario(arch="arm64", guest={"bridge": bridge, "image": "debian-rt"}), "board1", image, site)
        for bridge in ("vfio", "vf")
    }
    assert len(keys) == 2


def test_an_arm_board_whose_cards_have_no_working_functions_is_named_with_an_image_for_arm() -> None:
    wanted = scenario(arch="arm64", guest={"bridge": "vf", "image": "debian-rt"})
    known = images()
    known["debian-rt-arm64"] = replace(known["debian-rt-arm64"], flavour="rt")
    site = Site("t1", machine=machine(), images=known)
    site = replace(site, others=planned_sites(wanted, site))
    (reason,) = unavailable(wanted, site)
    assert reason.where == "guests.vm1.bridge" and "debian-rt-board-arm64 has 10.0.2" in reason.what
    assert "`latlab image build vf-board-arm64 --arch arm64 --board --emulator-from trixie`" in reason.remedy
    assert "`image: vf-board-arm64`" in reason.remedy


def test_boards_of_two_architectures_never_share_a_snapshot() -> None:
    site = Site("t1", machine=machine(), images=images())
    keys = set()
    for arch in (None, "arm64"):
        wanted = scenario(arch=arch)
        keys.add(board_key(wanted, "board1", site.images[wanted.hosts["board1"].image_name], site))  # type: ignore[union-attr]
    assert len(keys) == 2


@pytest.mark.parametrize(
    ("named", "expected"), [({}, "debian-cloud"), ({"image": "debian-rt"}, "debian-rt"), ({"image": "mine"}, "mine")]
)
def test_a_guest_on_an_arm_board_starts_from_the_image_for_arm(named: dict[str, str], expected: str) -> None:
    on_arm = scenario(arch="arm64", guest=named)
    assert on_arm.image_of("vm1") == (expected if expected == "mine" else f"{expected}-arm64")
    assert scenario(guest=named).image_of("vm1") == expected


def test_on_the_board_the_guests_image_goes_by_its_plain_name() -> None:
    wanted = scenario(arch="arm64", guest={})
    site = Site("t1", machine=machine(), images=images())
    there = planned_sites(wanted, site)["board1"]
    assert there.machine.architecture == "aarch64"
    assert there.images["debian-cloud"].architecture == "arm64"
    assert str(there.images["debian-cloud"].kernel.parent).endswith("/images/debian-cloud-arm64")


def test_an_image_for_another_architecture_is_refused_before_anything_is_started() -> None:
    wanted = scenario(arch="arm64", image="debian-rt-board")
    site = Site("t1", machine=machine(), images=images())
    site = replace(site, others=planned_sites(wanted, site))
    (reason,) = unavailable(wanted, site)
    assert reason.what == "the image debian-rt-board is for amd64, and the board is of arm64"
    assert reason.where == "hosts.board1.image"


def test_where_an_image_has_no_qemu_the_missing_one_is_that_for_arm() -> None:
    wanted = scenario(arch="arm64")
    without = {name: replace(image, emulator="") for name, image in images().items()}
    absent = replace(machine(), has_tool=lambda tool: not tool.startswith("qemu"))
    site = Site("t1", machine=absent, images=without)
    site = replace(site, others=planned_sites(wanted, site))
    first = unavailable(wanted, site)[0]
    assert first.what == "qemu-system-aarch64 is missing"
    assert "sudo apt install qemu-system-arm" in first.remedy
