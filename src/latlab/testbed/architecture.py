"""The architectures of the machines that are measured: what they are called, and QEMU's options for guests on them.

What an image is made of for each is in latlab.testbed.images, what an emulated board is in machines/board_qemu.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Architecture:
    """name: as uname(2) has it. debian: Debian's. elf: `e_machine` of elf(5).

    qemu: the program that runs its machines. machine, cpu: a guest's `-machine`, and its `-cpu` where it is emulated.
    starts_disks: whether that machine has a firmware of QEMU's own that starts what is on a disk. has_ports: whether it
    has I/O ports, apart from its memory. iommu: what puts a machine's IOMMU to use. with_kvm: more options of
    that machine with KVM. counted, counted_used: what is added to `-cpu`, and what kernels get, where the clock counts
    instructions.
    """

    name: str
    debian: str
    elf: int
    qemu: str
    machine: str
    cpu: str
    starts_disks: bool
    has_ports: bool
    iommu: str
    with_kvm: tuple[str, ...] = ()
    counted: str = ""
    counted_used: str = ""


X86_64 = Architecture(
    name="x86_64",
    debian="amd64",
    elf=62,
    qemu="qemu-system-x86_64",
    machine="q35",
    cpu="max",
    starts_disks=True,
    has_ports=True,
    iommu="enable VT-d or AMD-Vi in the firmware, and boot the kernel with intel_iommu=on or amd_iommu=on",
    # A repeated string instruction counts as one for each byte or word, and QEMU leaves its translated code after each
    # of them (can_loop of do_gen_rep() in target/i386/tcg/translate.c). Where kernels clear and copy memory by them, a
    # page takes 4 µs, and a run up to a third longer; so kernels are to do it by ordinary instructions. 395 is FSRS,
    # which has no name (arch/x86/include/asm/cpufeatures.h: 12 * 32 + 11).
    counted=",-erms,-fsrm",
    counted_used="clearcpuid=rep_good,395",
)
AARCH64 = Architecture(
    name="aarch64",
    debian="arm64",
    elf=183,
    qemu="qemu-system-aarch64",
    machine="virt",
    # Where a host's interrupt controller (GICv3 and newer) can act as GICv2, `virt` takes that unless asked
    # (finalize_gic_version, hw/arm/virt.c). A guest is to have its host's: GICv2 has no ITS, and eight CPUs at most.
    with_kvm=("gic-version=max",),
    # The pointers' signatures of Arm's own algorithm are slow to emulate.
    cpu="max,pauth-impdef=on",
    starts_disks=False,
    has_ports=False,
    iommu="a board whose SMMU is in its device tree or ACPI tables, in front of its PCIe cards, and a kernel with "
    "CONFIG_ARM_SMMU or CONFIG_ARM_SMMU_V3",
)

ARCHITECTURES: Mapping[str, Architecture] = {one.name: one for one in (X86_64, AARCH64)}
"""Those that there are agents for, by their names in uname(2)."""
BY_DEBIAN: Mapping[str, Architecture] = {one.debian: one for one in ARCHITECTURES.values()}
"""The same by Debian's names."""


def debian_name(name: str) -> str:
    """Debian's name of the architecture that uname(2) calls so; the same where Debian's is not known."""
    known = ARCHITECTURES.get(name)
    return known.debian if known else name


def iommu_remedy(name: str) -> str:
    """What puts an IOMMU to use on a machine of that name in uname(2)."""
    known = ARCHITECTURES.get(name)
    return known.iommu if known else "a machine with an IOMMU in front of its cards, and a kernel that uses it"
