"""What a machine forbids although the capabilities are there, and the remedy that exists on that machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from latlab.testbed.machine import A_SYSCTL, Machine, no_real_time, no_sysctls

HYBRID = "tmpfs /sys/fs/cgroup tmpfs rw 0 0\ncgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,nosuid,cpu,cpuacct 0 0\n"
UNIFIED = "cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid,nsdelegate 0 0\n"


def stand_in(files: Mapping[str, str], *, fifo: bool, **known: Any) -> Machine:
    def say(argv: tuple[str, ...]) -> str | None:
        return "" if fifo or argv[1] == "-o" else None

    nothing: frozenset[Any] = frozenset()
    return Machine(nothing, nothing, nothing, has_tool=lambda tool: True, say=say, read=files.get, **known)


GROUPS: dict[str, tuple[dict[str, str], str]] = {
    "a version 1 group without time": (
        {
            "/proc/self/cgroup": "4:cpu,cpuacct:/user/x\n0::/\n",
            "/proc/self/mounts": HYBRID,
            "/sys/fs/cgroup/cpu,cpuacct/user/x/cpu.rt_runtime_us": "0\n",
        },
        "`echo 950000 > /sys/fs/cgroup/cpu,cpuacct/user/x/cpu.rt_runtime_us`",
    ),
    "a version 2 group": (
        {"/proc/self/cgroup": "0::/user.slice/session-1.scope\n", "/proc/self/mounts": UNIFIED},
        "`echo $$ > /sys/fs/cgroup/cgroup.procs`",
    ),
    "the root group": (
        {"/proc/self/cgroup": "0::/\n", "/proc/self/mounts": UNIFIED},
        "a security policy forbids it: leave the container",
    ),
}


@pytest.mark.parametrize(("files", "remedy"), GROUPS.values(), ids=GROUPS)
def test_where_no_thread_can_be_real_time_the_remedy_is_one_of_its_cgroup(files: dict[str, str], remedy: str) -> None:
    forbidden = no_real_time(stand_in(files, fifo=False))
    assert forbidden and forbidden.what == "SCHED_FIFO is refused"
    assert remedy in forbidden.remedy
    assert ("cpu.rt_runtime_us" in forbidden.remedy) == any("cpu.rt_runtime_us" in path for path in files)
    assert no_real_time(stand_in(files, fifo=True)) is None


def test_sysctls_that_are_read_only_are_a_container_s() -> None:
    there = {"exists": lambda path: path == A_SYSCTL}
    forbidden = no_sysctls(stand_in({}, fifo=True, may_write=lambda path: False, **there))
    assert forbidden and "docker run --privileged" in forbidden.remedy
    assert no_sysctls(stand_in({}, fifo=True, **there)) is None
