"""What this machine is, as far as it decides whether a scenario can run on it. Read only."""

from __future__ import annotations

import os
import platform
import re
import shutil
import sys
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from functools import cache
from ipaddress import IPv4Address
from pathlib import Path

from latlab.hosts import MACHINE, Host, LocalMachine
from latlab.model.errors import LabError

CAPABILITIES = {  # include/uapi/linux/capability.h
    "CAP_NET_ADMIN": 12,
    "CAP_NET_RAW": 13,
    "CAP_IPC_LOCK": 14,
    "CAP_SYS_ADMIN": 21,
    "CAP_SYS_NICE": 23,
    "CAP_SYS_TIME": 25,
}


ASSUMED_CPUS = 1024
SECTION = "----\n"
LOOK = """\
cat /proc/self/status; echo ----; cat /sys/devices/system/cpu/online; echo ----; ls /sys/class/net; echo ----; uname -m
echo ----; cat /proc/net/udp; tail -n +2 /proc/net/udp6 2>/dev/null; :
"""
ANY = "*"
UDP_TABLES = (Path("/proc/net/udp"), Path("/proc/net/udp6"))


@dataclass(frozen=True)
class Machine:
    """The machine: those of CAPABILITIES in effect, CPUs online, interfaces by name, tools on the PATH.

    udp: address and port of every UDP socket; the address is ANY where it takes what comes to any.
    read: a file's text, None where it cannot be read. exists: whether a path is there. may_write: whether a file can be
    written. architecture: as uname(2) names it. say: what a command that changes nothing prints, None if it fails;
    LabError: it does not end. list: the names in a folder, in order; none where there is no folder. link: the last name
    of where a symbolic link leads; None where there is no link. seen: it has been read.
    """

    capabilities: frozenset[str]
    cpus: frozenset[int]
    interfaces: frozenset[str]
    has_tool: Callable[[str], bool]
    udp: frozenset[tuple[str, int]] = frozenset()
    read: Callable[[str], str | None] = field(default=lambda path: None)
    exists: Callable[[str], bool] = field(default=lambda path: False)
    architecture: str = "x86_64"
    say: Callable[[tuple[str, ...]], str | None] = field(default=lambda argv: None)
    list: Callable[[str], tuple[str, ...]] = field(default=lambda path: ())
    link: Callable[[str], str | None] = field(default=lambda path: None)
    may_write: Callable[[str], bool] = field(default=lambda path: True)
    seen: bool = True

    @property
    def kvm(self) -> str | None:
        """Why hardware virtualisation cannot be used here; None when it can.

        A device that is there is not enough: without the CPU's own virtualisation a guest of ours never gets to run.
        """
        if not self.exists("/dev/kvm"):
            return "there is no /dev/kvm"
        flags = self.read("/proc/cpuinfo") or ""
        is_x86 = "GenuineIntel" in flags or "AuthenticAMD" in flags
        if is_x86 and not re.search(r"^flags\s*:.*\b(vmx|svm)\b", flags, re.MULTILINE):
            return "/dev/kvm exists, but the CPU has neither vmx nor svm"
        return None

    @property
    def vhost_net(self) -> bool:
        """Whether the kernel itself can carry packets between a tap and a guest."""
        return self.exists("/dev/vhost-net")


def assumed_machine() -> Machine:
    """A machine that was not inspected: it has everything, and no conflicting interface."""
    return Machine(
        capabilities=frozenset(CAPABILITIES),
        cpus=frozenset(range(ASSUMED_CPUS)),
        interfaces=frozenset(),
        has_tool=lambda tool: True,
        exists=lambda path: True,
        seen=False,
    )


def machine_at(host: Host) -> Machine:
    """The host's machine as it is now. LabError: it cannot be inspected.

    What is the same for every scenario is read at once, the rest as it is asked for.
    """
    said = host.ask(("sh", "-c", LOOK))
    if said is None:
        raise LabError("it cannot be inspected", where=host.name, remedy=f"`{host.short_line(('true',))}` must work")
    status, cpus, interfaces, architecture, sockets = said.split(SECTION)

    @cache
    def ask(*argv: str) -> str | None:
        return host.ask(argv)

    return Machine(
        capabilities=effective_capabilities(status),
        cpus=parse_cpu_list(cpus),
        interfaces=frozenset(interfaces.split()),
        has_tool=lambda tool: ask("sh", "-c", 'command -v "$0"', tool) is not None,
        architecture=architecture.strip(),
        say=lambda argv: ask(*argv),
        read=lambda path: ask("cat", path),
        exists=lambda path: ask("test", "-e", path) is not None,
        may_write=lambda path: ask("test", "-w", path) is not None,
        list=lambda path: tuple(sorted((ask("ls", path) or "").split())),
        link=lambda path: (ask("readlink", path) or "").strip().rpartition("/")[2] or None,
        udp=frozenset(parse_sockets(sockets)),
    )


def read_machine() -> Machine:
    """This machine as it is now."""
    return Machine(
        capabilities=effective_capabilities(Path("/proc/self/status").read_text(encoding="utf-8")),
        cpus=parse_cpu_list(Path("/sys/devices/system/cpu/online").read_text(encoding="utf-8")),
        interfaces=frozenset(path.name for path in Path("/sys/class/net").iterdir()),
        has_tool=lambda tool: shutil.which(tool) is not None,
        architecture=platform.machine(),
        say=_said,
        read=_text,
        exists=lambda path: Path(path).exists(),
        list=_names,
        link=_target,
        may_write=lambda path: os.access(path, os.W_OK),
        udp=frozenset(socket for path in UDP_TABLES if path.exists() for socket in parse_sockets(path.read_text())),
    )


@cache
def _said(argv: tuple[str, ...]) -> str | None:
    return LocalMachine(MACHINE).ask(argv)


def _text(path: str) -> str | None:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None


def _names(path: str) -> tuple[str, ...]:
    try:
        return tuple(sorted(entry.name for entry in Path(path).iterdir()))
    except OSError:
        return ()


def _target(path: str) -> str | None:
    try:
        return Path(path).readlink().name
    except OSError:
        return None


def effective_capabilities(status: str) -> frozenset[str]:
    """Those of CAPABILITIES that proc(5)'s status file has in CapEff."""
    lines = [line for line in status.splitlines() if line.startswith("CapEff:")]
    effective = int(lines[0].split()[1], 16) if lines else 0
    return frozenset(name for name, bit in CAPABILITIES.items() if effective >> bit & 1)


def parse_sockets(table: str) -> Iterator[tuple[str, int]]:
    """Local address and port of each socket in a table of /proc/net (proc_pid_net(5)); ANY is IPv6's any, too.

    An address stands there as the 32-bit words it has in memory, in hexadecimal.
    """
    for line in table.splitlines()[1:]:
        address, port = line.split()[1].split(":")
        words = [int(address[at : at + 8], 16) for at in range(0, len(address), 8)]
        if not any(words):
            yield ANY, int(port, 16)
        elif len(words) == 1:
            yield str(IPv4Address(words[0].to_bytes(4, sys.byteorder))), int(port, 16)


def parse_cpu_list(text: str) -> frozenset[int]:
    """The CPU numbers in the kernel's list format, such as `0-3,8` (cpuset(7))."""
    cpus: set[int] = set()
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        cpus.update(range(int(first), int(last or first) + 1))
    return frozenset(cpus)


# What a machine forbids although the capabilities are there: real-time threads in a cgroup, sysctls in a container.


A_SYSCTL = "/proc/sys/net/ipv4/ip_forward"
"""A sysctl that a process may write if it may write a network's sysctls."""
CONTAINER = "leave the container, or start it with `docker run --privileged`"
_RUNTIME = "cpu.rt_runtime_us"


def privilege_remedy(missing: Collection[str]) -> str:
    """What to do where capabilities are missing."""
    if os.geteuid() == 0:
        options = " ".join(f"--cap-add {name.removeprefix('CAP_')}" for name in sorted(missing))
        return f"root does not have them here: leave the container, or start it with `docker run {options}`"
    return "run with sudo"


def no_sysctls(machine: Machine) -> LabError | None:
    """Why sysctls cannot be written on the machine; None where they can."""
    if not machine.exists(A_SYSCTL) or machine.may_write(A_SYSCTL):
        return None
    return LabError("sysctls cannot be written: /proc/sys is read-only", remedy=CONTAINER)


def no_real_time(machine: Machine) -> LabError | None:
    """Why SCHED_FIFO is refused there, though the capability is; None where it is permitted, or unknown."""
    if machine.say(("chrt", "-f", "1", "true")) is not None or machine.say(("chrt", "-o", "0", "true")) is None:
        return None
    return LabError("SCHED_FIFO is refused", remedy=_real_time_remedy(machine))


def _real_time_remedy(machine: Machine) -> str:
    """What to do, by how cgroups limit real-time threads (Linux: sched-rt-group.rst; cgroup-v2.rst, CPU)."""
    groups = [line.split(":", 2)[1:] for line in (machine.read("/proc/self/cgroup") or "").splitlines()]
    first = next((path for names, path in groups if "cpu" in names.split(",")), None)
    if first is not None:
        folder = _cpu_hierarchy(machine) + first.rstrip("/")
        if (machine.read(f"{folder}/{_RUNTIME}") or "").strip() == "0":
            return (
                f"its cgroup has no real-time runtime: `echo 950000 > {folder}/{_RUNTIME}`, first in its parent "
                "groups; or start from the root cgroup"
            )
    unified = next((path for names, path in groups if not names), "/")
    if first is None and unified != "/":
        return (
            "its kernel (CONFIG_RT_GROUP_SCHED) allows real-time threads in the root cgroup only: `echo $$ > "
            "/sys/fs/cgroup/cgroup.procs`, or boot with rt_group_sched=0 (Linux 6.16 or newer)"
        )
    return f"a security policy forbids it: {CONTAINER}"


def _cpu_hierarchy(machine: Machine) -> str:
    """Where the cgroup hierarchy with the CPU controller is mounted (proc_pid_mounts(5))."""
    mounts = [line.split() for line in (machine.read("/proc/self/mounts") or "").splitlines()]
    found = (words[1] for words in mounts if words[2] == "cgroup" and "cpu" in words[3].split(","))
    return next(found, "/sys/fs/cgroup/cpu")
