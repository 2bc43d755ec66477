"""CPU numbers as the kernel and its tools write them."""

from __future__ import annotations

from collections.abc import Iterable

from latlab.testbed.machine import parse_cpu_list


def cpu_list(cpus: Iterable[int]) -> str:
    """The CPUs in the kernel's list format (cpuset(7)): `0-3,8`; `none` without any."""
    ranges: list[list[int]] = []
    for cpu in sorted(set(cpus)):
        if ranges and ranges[-1][1] == cpu - 1:
            ranges[-1][1] = cpu
        else:
            ranges.append([cpu, cpu])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges) or "none"


def same_list(text: str) -> str:
    """The same CPUs as `cpu_list` writes them: taskset has `0,1` where the kernel has `0-1`."""
    return cpu_list(parse_cpu_list(text))
