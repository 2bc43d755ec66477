"""What a machine forbids although the capabilities are there: real-time threads in a cgroup, sysctls in a container."""

from __future__ import annotations

import os
from collections.abc import Collection

from latlab.model.errors import LabError
from latlab.testbed.machine import Machine

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
