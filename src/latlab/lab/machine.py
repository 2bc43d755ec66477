"""What this machine is, as far as it decides whether a scenario can run on it. Read only."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path

CAPABILITIES = {  # include/uapi/linux/capability.h
    "CAP_NET_ADMIN": 12,
    "CAP_NET_RAW": 13,
    "CAP_IPC_LOCK": 14,
    "CAP_SYS_ADMIN": 21,
    "CAP_SYS_NICE": 23,
}


ANY = "*"
UDP_TABLES = (Path("/proc/net/udp"), Path("/proc/net/udp6"))


@dataclass(frozen=True)
class Machine:
    """The machine: those of CAPABILITIES in effect, CPUs online, interfaces by name, tools on the PATH.

    udp: address and port of every UDP socket; the address is ANY where it takes what comes to any.
    """

    capabilities: frozenset[str]
    cpus: frozenset[int]
    interfaces: frozenset[str]
    has_tool: Callable[[str], bool]
    udp: frozenset[tuple[str, int]] = frozenset()


def read_machine() -> Machine:
    """This machine as it is now."""
    return Machine(
        capabilities=effective_capabilities(Path("/proc/self/status").read_text()),
        cpus=parse_cpu_list(Path("/sys/devices/system/cpu/online").read_text()),
        interfaces=frozenset(path.name for path in Path("/sys/class/net").iterdir()),
        has_tool=lambda tool: shutil.which(tool) is not None,
        udp=frozenset(socket for path in UDP_TABLES if path.exists() for socket in parse_sockets(path.read_text())),
    )


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
