"""Which Debian package provides a tool that a host does not have."""

from __future__ import annotations

from latlab.model.errors import LabError

PACKAGES = {
    "chrt": "util-linux",
    "cyclictest": "rt-tests",
    "ddsperf": "cyclonedds-tools",
    "ethtool": "ethtool",
    "grep": "grep",
    "hwstamp_ctl": "linuxptp",
    "ip": "iproute2",
    "iperf3": "iperf3",
    "kill": "procps",
    "bridge": "iproute2",
    "modprobe": "kmod",
    "mknod": "coreutils",
    "ovs-vsctl": "openvswitch-switch",
    "ovs-vswitchd": "openvswitch-switch",
    "ovs-appctl": "openvswitch-common",
    "ovsdb-client": "openvswitch-common",
    "ovsdb-server": "openvswitch-common",
    "ovsdb-tool": "openvswitch-common",
    "phc2sys": "linuxptp",
    "phc_ctl": "linuxptp",
    "ping": "iputils-ping",
    "ptp4l": "linuxptp",
    "qemu-system-aarch64": "qemu-system-arm",
    "qemu-system-x86_64": "qemu-system-x86",
    "sockperf": "sockperf",
    "stress-ng": "stress-ng",
    "ssh": "openssh-client",
    "ssh-keyscan": "openssh-client",
    "virsh": "libvirt-clients",
    "netperf": "netperf",
    "netserver": "netperf",
    "rtla": "rtla",
    "setpriv": "util-linux",
    "ss": "iproute2",
    "sysctl": "procps",
    "taskset": "util-linux",
    "tc": "iproute2",
}


def missing_tool(tool: str, where: str = "", on: str = "") -> LabError:
    """A program that is not there. where: what asks for it. on: the host, where `where` does not say it."""
    return LabError(f"{tool} is missing{f' on {on}' if on else ''}", where=where, remedy=install_remedy(tool))


def install_remedy(tool: str) -> str:
    """What to do when `tool` is missing: the package to install, or where to look for it."""
    package = PACKAGES.get(tool)
    if package == "netperf":
        return (
            "enable Debian's non-free component and `sudo apt install netperf`, or use for a load iperf3 or flood, "
            "for round trips ping or sockperf"
        )
    if package:
        return f"`sudo apt install {package}`, or your distribution's package of {tool}"
    return f"install {tool}, or put it on the PATH"
