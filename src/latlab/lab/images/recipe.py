"""What goes into a guest image: which kernel, which programs, which modules, which settings."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

FLAVOURS = ("cloud", "standard", "rt")
"""Debian's kernels: small and for virtual machines, the usual one, and PREEMPT_RT."""

READY_MADE = {f"debian-{flavour}": flavour for flavour in FLAVOURS}
"""The images one need not describe, and the flavour of each."""

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
"""What nobody needs of a package that was asked for by name."""

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
"""What an image can load where its kernel has it: the small kernel lacks the drivers of NICs a guest may be given."""

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
COMMAND_LINE = "panic=-1 quiet mitigations=off nokaslr cryptomgr.notests=1 apparmor=0 audit=0 net.ifnames=0"
"""Tests and hardening that a guest which lives for one measurement has no use for, and every boot would pay for."""

CONTENT = ("archive", "base", "elf", "kernel", "libraries", "lz4", "modules", "recipe", "tree")
"""The sources that decide, besides packages and agent, what is in an image."""


def kernel_package(flavour: str, architecture: str) -> str:
    """The Debian package that depends on the newest kernel of that flavour."""
    return _KERNELS[flavour].format(architecture)


def command_line(architecture: str) -> str:
    """What the kernel of an image is told at least."""
    return f"console={CONSOLES[architecture]} {COMMAND_LINE}"


def recipe_version() -> str:
    """A digest of the sources an image is made by, in hexadecimal: another one may make other images."""
    sources = (Path(__file__).with_name(f"{name}.py").read_bytes() for name in CONTENT)
    return hashlib.sha256(b"\0".join(sources)).hexdigest()
