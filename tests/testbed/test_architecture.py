"""What the architectures are called, and what is said to QEMU and to people because of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from latlab.scenario import Guest
from latlab.testbed.architecture import ARCHITECTURES, BY_DEBIAN, debian_name, iommu_remedy
from latlab.testbed.bridges.base import Plug
from latlab.testbed.guests.qemu import machine_options, qemu_program
from latlab.testbed.images import emulator, modules, recipe
from latlab.testbed.images.board_recipe import NESTED
from latlab.testbed.images.kinds import ARCHITECTURES as IMAGES
from latlab.testbed.machine import assumed_machine
from latlab.testbed.machines.board_qemu import EMULATED

TAP = Plug("tap")


@pytest.mark.parametrize(
    ("architecture", "accelerator", "machine", "cpu"),
    [
        ("x86_64", "tcg", "q35", "max"),
        ("x86_64", "kvm", "q35", "host"),
        ("aarch64", "tcg", "virt", "max,pauth-impdef=on"),
        ("aarch64", "kvm", "virt,gic-version=max", "host"),
    ],
)
def test_a_guest_is_of_the_machine_it_runs_on(architecture: str, accelerator: str, machine: str, cpu: str) -> None:
    there = replace(assumed_machine(), architecture=architecture)
    words = list(machine_options(Guest(host="ecu", acceleration=accelerator), TAP, there))  # type: ignore[arg-type]
    assert (words[words.index("-machine") + 1], words[words.index("-cpu") + 1]) == (machine, cpu)


def test_images_boards_and_agents_are_for_the_same_architectures() -> None:
    for table in (emulator.PACKAGES, emulator.PROGRAMS, modules.CROSS, recipe.CONSOLES, NESTED):
        assert table.keys() == BY_DEBIAN.keys() == set(IMAGES)
    assert {name: known.qemu for name, known in BY_DEBIAN.items()} == emulator.PROGRAMS
    assert {arch for arch in EMULATED if arch} < BY_DEBIAN.keys()


@pytest.mark.parametrize(("name", "debian"), [("x86_64", "amd64"), ("aarch64", "arm64"), ("riscv64", "riscv64")])
def test_debian_has_names_of_its_own(name: str, debian: str) -> None:
    assert debian_name(name) == debian
    assert qemu_program(replace(assumed_machine(), architecture=name)) == f"qemu-system-{name}"


def test_what_puts_an_iommu_to_use_depends_on_the_architecture() -> None:
    assert "VT-d" in iommu_remedy("x86_64") and "SMMU" not in iommu_remedy("x86_64")
    assert "SMMU" in iommu_remedy("aarch64") and "VT-d" not in iommu_remedy("aarch64")
    assert "VT-d" not in iommu_remedy("riscv64")
    assert len({one.iommu for one in ARCHITECTURES.values()}) == len(ARCHITECTURES)
