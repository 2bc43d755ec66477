"""What goes into a guest image: which kernel, which programs, which modules, which settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Parts:
    """Programs and what belongs to them.

    programs: those of each Debian package, which bring the libraries they need along. files: what they read besides,
    or load: patterns of paths, by package. links: path → where it leads.
    """

    programs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    files: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    links: Mapping[str, str] = field(default_factory=dict)

    @property
    def packages(self) -> tuple[str, ...]:
        """The names of the packages all this is in."""
        return tuple(dict.fromkeys((*self.programs, *self.files)))


@dataclass(frozen=True)
class Recipe:
    """What an image is made of.

    architectures: those of Debian it can be made for. kernels: packages that depend on the newest kernel of a kind; of
    several the first that there is. command_line: the minimum kernel command line. boot_modules: loaded at boot, after
    what they depend on. modules: no image is made without. features: modules that may be missing in a kernel → what an
    image is without then. modules_if_there: these are optional. nested: programs that start guests in the machine
    itself; they are in a separate initial file system. None: guests are not started in it. own_modules: those of ours
    that guests need there. emulator: the QEMU that runs the machine where its architecture is not that of what it runs
    on.
    """

    architectures: tuple[str, ...]
    kernels: tuple[str, ...]
    command_line: str
    parts: Parts
    boot_modules: tuple[str, ...]
    modules: tuple[str, ...]
    modules_if_there: tuple[str, ...]
    features: Mapping[str, str] = field(default_factory=dict)
    nested: Parts | None = None
    own_modules: tuple[str, ...] = ()
    emulator: Parts | None = None


FLAVOURS = ("cloud", "standard", "rt")
"""Debian's kernels: small and for virtual machines, the usual one, and PREEMPT_RT."""

_KERNELS = {"cloud": "linux-image-cloud-{}", "standard": "linux-image-{}", "rt": "linux-image-rt-{}"}

BUSYBOX = "busybox-static"
SHELL = "dash"

PROGRAMS: Mapping[str, tuple[str, ...]] = {
    BUSYBOX: ("busybox",),
    # Programs of busybox that start others start its own `ip` rather than the one on the PATH: these do not.
    SHELL: ("dash",),
    "coreutils": ("chroot", "env", "nice", "nohup", "stdbuf", "timeout"),
    "findutils": ("find", "xargs"),
    "iproute2": ("ip", "tc", "ss", "bridge"),
    "ethtool": ("ethtool",),
    "util-linux": ("chrt", "flock", "ionice", "nsenter", "prlimit", "setpriv", "setsid", "taskset", "unshare"),
    "procps": ("sysctl",),
    "iperf3": ("iperf3",),
}
"""The programs of each Debian package that are in every image, with the libraries they need."""

DDS_PROGRAMS: Mapping[str, tuple[str, ...]] = {"cyclonedds-tools": ("ddsperf",)}
"""What an image for DDS has besides: ddsperf. Our own probe is the agent's."""

FILES: Mapping[str, tuple[str, ...]] = {"iproute2": ("usr/lib/*/tc/*.dist",)}
"""What those programs read besides: the distributions of netem."""

LEFT_OUT = (
    "usr/share/bash-completion/*",
    "usr/share/bug/*",
    "usr/share/doc/*",
    "usr/share/doc-base/*",
    "usr/share/info/*",
    "usr/share/lintian/*",
    "usr/share/locale/*",
    "usr/share/man/*",
    "usr/share/menu/*",
    "usr/share/zsh/*",
)
"""Parts of a package requested by name that are not needed."""

BOOT_MODULES = ("virtio_pci", "virtio_console", "virtio_net")
"""Loaded at boot, after what they depend on: each costs every boot some milliseconds."""

MODULES = (
    *BOOT_MODULES,
    "virtio_mmio",
    "virtio_blk",
    "8021q",
    "bridge",
    "dummy",
    "ifb",
    "macvlan",
    "macvtap",
    "tun",
    "veth",
    "sch_cbs",
    "sch_etf",
    "sch_fq",
    "sch_fq_codel",
    "sch_htb",
    "sch_ingress",
    "sch_mqprio",
    "sch_netem",
    "sch_prio",
    "sch_taprio",
    "sch_tbf",
    "cls_basic",
    "cls_bpf",
    "cls_flower",
    "cls_matchall",
    "cls_u32",
    "act_gact",
    "act_mirred",
    "act_police",
    "act_skbedit",
    "act_vlan",
    "af_packet",
    "inet_diag",
    "tcp_diag",
    "udp_diag",
    "ptp_kvm",
)
"""What every image can load, from a file or because the kernel has it built in."""

MODULES_IF_THERE = ("act_gate", "af_packet_diag", "e1000e", "igb", "igbvf", "igc", "ixgbe", "ixgbevf", "i40e", "iavf")
"""What an image can load where its kernel has it: the small kernel has no drivers of NICs that are passed to a
guest.
"""

LINKS: Mapping[str, str] = {"bin": "usr/bin", "lib": "usr/lib", "lib64": "usr/lib64", "sbin": "usr/sbin"}
"""Debian's merged /usr: what a package has in one of these is in the other."""

DIRECTORIES = ("dev", "etc", "proc", "root", "run", "sys", "tmp", "usr/bin", "usr/lib", "usr/lib64", "usr/sbin", "var")

SETTINGS: Mapping[str, str] = {
    "etc/group": "root:x:0:\nnogroup:x:65534:\n",
    "etc/hosts": "127.0.0.1 localhost\n::1 localhost\n",
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
    "etc/passwd": "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n",
}

BOOT_LIST = "etc/latlab/modules"
"""Where the agent finds what to load at boot: a path a line."""

CONSOLES: Mapping[str, str] = {"amd64": "ttyS0", "arm64": "ttyAMA0"}
NOT_AT_BOOT = "initcall_blacklist=crypto_kdf108_init,jent_mod_init,init_encrypted,bpf_dummy_struct_ops_init"
COMMAND_LINE = (
    f"panic=-1 quiet mitigations=off nokaslr cryptomgr.notests=1 apparmor=0 audit=0 net.ifnames=0 {NOT_AT_BOOT}"
)
"""Tests and hardening that a machine which lives for one measurement has no use for, and every boot would pay for: in
emulation, the functions not called are a tenth of a kernel's boot."""


def guest_recipe(flavour: str, besides: Mapping[str, tuple[str, ...]] | None = None) -> Recipe:
    """What a guest of one of the FLAVOURS is made of. besides: more programs of Debian packages."""
    return Recipe(
        architectures=tuple(CONSOLES),
        kernels=(_KERNELS[flavour],),
        command_line=COMMAND_LINE,
        parts=Parts({**PROGRAMS, **(besides or {})}, FILES),
        boot_modules=BOOT_MODULES,
        modules=MODULES,
        modules_if_there=MODULES_IF_THERE,
    )
