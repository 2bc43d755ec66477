"""What this machine is, as far as it decides whether a scenario can run on it. Read only."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

CAPABILITIES = {  # include/uapi/linux/capability.h
    "CAP_NET_ADMIN": 12,
    "CAP_NET_RAW": 13,
    "CAP_IPC_LOCK": 14,
    "CAP_SYS_ADMIN": 21,
    "CAP_SYS_NICE": 23,
}


@dataclass(frozen=True)
class Machine:
    """The machine: those of CAPABILITIES in effect, CPUs online, interfaces by name, tools on the PATH."""

    capabilities: frozenset[str]
    cpus: frozenset[int]
    interfaces: frozenset[str]
    has_tool: Callable[[str], bool]


def read_machine() -> Machine:
    """This machine as it is now."""
    return Machine(
        capabilities=effective_capabilities(Path("/proc/self/status").read_text()),
        cpus=parse_cpu_list(Path("/sys/devices/system/cpu/online").read_text()),
        interfaces=frozenset(path.name for path in Path("/sys/class/net").iterdir()),
        has_tool=lambda tool: shutil.which(tool) is not None,
    )


def effective_capabilities(status: str) -> frozenset[str]:
    """Those of CAPABILITIES that proc(5)'s status file has in CapEff."""
    lines = [line for line in status.splitlines() if line.startswith("CapEff:")]
    effective = int(lines[0].split()[1], 16) if lines else 0
    return frozenset(name for name, bit in CAPABILITIES.items() if effective >> bit & 1)


def parse_cpu_list(text: str) -> frozenset[int]:
    """The CPU numbers in the kernel's list format, such as `0-3,8` (cpuset(7))."""
    cpus: set[int] = set()
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        cpus.update(range(int(first), int(last or first) + 1))
    return frozenset(cpus)
