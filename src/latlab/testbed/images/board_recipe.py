"""What goes into a board's image: a full kernel, and all that a test bed is made with in that machine."""

from __future__ import annotations

from collections.abc import Mapping

from latlab.testbed.images.modules import OWN_MODULES
from latlab.testbed.images.recipe import (
    BOOT_MODULES,
    COMMAND_LINE,
    FILES,
    MODULES,
    PROGRAMS,
    Parts,
    Recipe,
)

KERNELS: Mapping[str, tuple[str, ...]] = {
    "rt": ("linux-image-6.12-rt-{}", "linux-image-rt-{}"),
    "standard": ("linux-image-6.12-{}", "linux-image-{}"),
}
"""Flavour of a board → its kernels: Debian 12 has 6.12 next to its usual 6.1, and later releases have nothing older."""

FLAVOUR = "rt"
"""A board's kernel is PREEMPT_RT, unless another is asked for."""

NESTED_KVM = "KVM for guests nested in an emulated board"
"""What our own modules are for."""

NEEDED = (*BOOT_MODULES, "veth", "bridge", "tun")
"""A board without one of these is none."""

_FEATURES: Mapping[str, tuple[str, ...]] = {
    "gate schedules (taprio)": ("sch_taprio",),
    "launch times (etf)": ("sch_etf",),
    "credit-based shaping (cbs)": ("sch_cbs",),
    "traffic classes in queues (mqprio)": ("sch_mqprio",),
    "impairment (netem)": ("sch_netem",),
    "gates at ingress (act_gate)": ("act_gate",),
    "VLANs": ("8021q",),
    "Open vSwitch": ("openvswitch",),
    "KVM for nested guests": ("kvm",),
    "KVM for nested guests on AMD CPUs": ("kvm_amd",),
    "KVM for nested guests on Intel CPUs": ("kvm_intel",),
    "NICs passed through to nested guests (VFIO)": ("vfio_pci", "vfio_iommu_type1"),
    "vhost for nested guests": ("vhost_net",),
    "NICs of the model igb": ("igb",),
    "NICs of the model e1000e": ("e1000e",),
    "random numbers from outside": ("virtio_rng",),
    "KVM's PTP clock": ("ptp_kvm",),
    "bridges by macvlan and macvtap": ("macvlan", "macvtap"),
    "filters": (
        *("cls_basic", "cls_bpf", "cls_cgroup", "cls_flow", "cls_flower", "cls_fw", "cls_matchall", "cls_route"),
        "cls_u32",
    ),
    "filter actions": ("act_gact", "act_mirred", "act_police", "act_skbedit", "act_vlan"),
}

FEATURES: Mapping[str, str] = {
    **{module: f"what needs {module}" for module in MODULES if module not in NEEDED},
    **{module: feature for feature, modules in _FEATURES.items() for module in modules},
}
"""Module → what a board cannot do without it."""

# Open vSwitch asks for crc32c by its algorithm's name, which no dependency shows; newer kernels have it built in.
# igbvf drives what an emulated igb shares out; other NICs of Intel's are not emulated.
IF_THERE = ("crc32c_generic", "af_packet_diag", "igbvf")

BOARD_PROGRAMS: Mapping[str, tuple[str, ...]] = {
    **PROGRAMS,
    # busybox's own modprobe knows nothing of soft dependencies.
    "kmod": ("modprobe", "modinfo"),
    "iputils-ping": ("ping",),
    "linuxptp": ("ptp4l", "phc2sys", "phc_ctl", "hwstamp_ctl", "pmc"),
    "openvswitch-common": ("ovsdb-server", "ovsdb-tool", "ovsdb-client", "ovs-appctl", "ovs-ofctl"),
    "openvswitch-switch": ("ovs-vsctl", "ovs-dpctl"),
}

BOARD_FILES: Mapping[str, tuple[str, ...]] = {
    **FILES,
    # The programs that AF_XDP sockets have loaded for them.
    "libxdp1": ("usr/lib/*/bpf/*.o",),
    "openvswitch-switch": ("usr/lib/openvswitch-switch/ovs-vswitchd", "usr/share/openvswitch/vswitch.ovsschema"),
}

# Where update-alternatives(1) would have put the first; the second is where daemons put their sockets.
BOARD_LINKS = {"usr/sbin/ovs-vswitchd": "/usr/lib/openvswitch-switch/ovs-vswitchd", "var/run": "/run"}

ONLY_X86 = ("kvm_amd", "kvm_intel")
"""Features by modules that other architectures have no use for."""

_X86 = Parts(
    programs={"qemu-system-x86": ("qemu-system-x86_64",)},
    files={
        "qemu-system-common": ("usr/lib/*/qemu/accel-tcg-x86_64.so",),
        "qemu-system-data": tuple(
            f"usr/share/qemu/{name}"
            for name in ("kvmvapic.bin", "linuxboot_dma.bin", "multiboot.bin", "multiboot_dma.bin", "pvh.bin")
        ),
        "seabios": ("usr/share/seabios/bios-256k.bin",),
    },
)
"""QEMU, and of its firmware what starts a kernel: no cards that show something, none that boot from the network."""

_ARM = Parts(programs={"qemu-system-arm": ("qemu-system-aarch64",)})
"""It starts a kernel without any firmware."""

NESTED: Mapping[str, Parts] = {"amd64": _X86, "arm64": _ARM}
"""Debian's name of an architecture → the QEMU for machines of it."""

ARM_COMMAND_LINE = f"{COMMAND_LINE} kvm-arm.mode=nvhe"
"""With KVM in nVHE mode, timers survive a snapshot; in VHE all that sleeps would hang."""


def board_recipe(flavour: str, architecture: str = "amd64") -> Recipe:
    """What a board of one of the KERNELS is made of. architecture: Debian's name of it, one of NESTED."""
    is_x86 = architecture == "amd64"
    return Recipe(
        architectures=(architecture,),
        kernels=KERNELS[flavour],
        command_line=COMMAND_LINE if is_x86 else ARM_COMMAND_LINE,
        parts=Parts(BOARD_PROGRAMS, BOARD_FILES, BOARD_LINKS),
        boot_modules=BOOT_MODULES,
        modules=NEEDED,
        modules_if_there=IF_THERE,
        features={module: feature for module, feature in FEATURES.items() if is_x86 or module not in ONLY_X86},
        nested=NESTED[architecture],
        own_modules=OWN_MODULES if is_x86 else (),
        emulator=NESTED[architecture],
    )


BOARDS: Mapping[str, Recipe] = {flavour: board_recipe(flavour) for flavour in KERNELS}
"""Flavour → what an x86-64 board of it is made of."""
