"""A machine's CPUs: kept free, kept from sleeping, set as tuned's real-time profiles do, and never taken whole."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from latlab.model.errors import LabError
from latlab.scenario import Scenario
from latlab.scenario.findings import Path
from latlab.scenario.hosts import kernel_cpus
from latlab.testbed.machine import Machine, parse_cpu_list
from latlab.testbed.site import Site
from latlab.testbed.step import Before, Check, Step


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


# Whether CPUs are kept free of everything that is not put on them: set at boot, so it is only checked.


ISOLATION_LISTS = {
    "/sys/devices/system/cpu/isolated": "the scheduler places no threads there (isolcpus=)",
    "/sys/devices/system/cpu/nohz_full": "no tick while one thread runs (nohz_full=)",
}
"""The kernel's lists, and what it means to be on one (Documentation/ABI/testing/sysfs-devices-system-cpu)."""


def isolation_steps(host: str, scenario: Scenario, site: Site) -> Iterator[Step]:
    """A check of each of the kernel's lists."""
    cpus = scenario.tuning[host].isolated
    if not cpus:
        return
    for path, meaning in ISOLATION_LISTS.items():
        yield Step(
            host=host,
            title=f"isolation of CPU {cpu_list(cpus)}: {meaning}",
            do=(),
            check=Check(("cat", path), expected=cpu_list(cpus), read=lambda text: listed(text, cpus)),
            optional=True,
            lasting=True,
        )


def listed(text: str, cpus: tuple[int, ...]) -> str:
    """Those of the CPUs that are on the kernel's list; it says `(null)` for a list that was never made."""
    return cpu_list(set(cpus) & (parse_cpu_list(text) if "(null)" not in text else set()))


# How long KVM polls for work before it gives a halted vCPU's CPU away (Documentation/virt/kvm/halt-polling.rst).


HALT_POLL = "/sys/module/kvm/parameters/halt_poll_ns"
SET_HALT_POLL = 'echo "$1" >"$0"'
PUT_HALT_POLL_BACK = '[ ! -e "$0" ] || [ "$(cat "$0")" = "$1" ] || echo "$1" >"$0"'


def halt_poll_steps(host: str, scenario: Scenario, site: Site) -> Iterator[Step]:
    """The step that sets it; it is the machine's, for every guest on it."""
    wanted = scenario.tuning[host].halt_poll
    if wanted is None:
        return
    read = ("cat", HALT_POLL)
    yield Step(
        host=host,
        title=f"have KVM poll {wanted} ns for a halted vCPU",
        do=("sh", "-c", SET_HALT_POLL, HALT_POLL, str(wanted)),
        undo=("sh", "-c", PUT_HALT_POLL_BACK, HALT_POLL, "{before}"),
        before=Before(read),
        check=Check(read, expected=str(wanted)),
        optional=True,
        lasting=True,
    )


# What tuned's profiles for real-time virtualisation set while a machine runs, without tuned (tuned-profiles-realtime).
#
# What they add to the kernel's command line is set at boot, and is only checked (`isolated`). latlab sets files that
# are there: a kernel without one has nothing to be kept from.


REALTIME: Final[Mapping[str, str]] = {
    "/proc/sys/kernel/sched_rt_runtime_us": "-1",
    "/proc/sys/kernel/hung_task_timeout_secs": "600",
    "/proc/sys/kernel/nmi_watchdog": "0",
    "/proc/sys/kernel/numa_balancing": "0",
    "/proc/sys/kernel/timer_migration": "0",
    "/proc/sys/vm/stat_interval": "10",
    "/sys/kernel/mm/transparent_hugepage/enabled": "never",
}
"""Of the profiles `realtime` and `network-latency`, which the two include."""
PROFILES: Final[Mapping[str, Mapping[str, str]]] = {
    "realtime-virtual-host": {**REALTIME, "/sys/kernel/mm/ksm/run": "2"},
    "realtime-virtual-guest": REALTIME,
}
"""Profile → file → what is written to it."""
WRITE_IF_OTHER: Final = '[ ! -e "$0" ] || [ "$(cat "$0")" = "$1" ] || echo "$1" >"$0"'
READ_OR_WANTED: Final = 'if [ -e "$0" ]; then cat "$0"; else echo "$1"; fi'
"""A file that is not there reads as what was wanted of it."""


def profile_steps(host: str, scenario: Scenario, site: Site) -> Iterator[Step]:
    """A step for each file of the profile."""
    tuning = scenario.tuning[host]
    if tuning.profile is None:
        return
    for path, value in PROFILES[tuning.profile].items():
        yield _profile_step(host, f"{tuning.profile}: {path} is {value}", path, value)


def _profile_step(host: str, title: str, path: str, value: str) -> Step:
    read = ("sh", "-c", READ_OR_WANTED, path, value)
    return Step(
        host=host,
        title=title,
        do=("sh", "-c", WRITE_IF_OTHER, path, value),
        undo=("sh", "-c", WRITE_IF_OTHER, path, "{before}"),
        before=Before(read, lambda text: {"before": chosen(text)}),
        check=Check(read, expected=value, read=chosen),
        optional=True,
        lasting=True,
    )


def chosen(text: str) -> str:
    """Return the value of a file; of one that lists what there is, what stands in brackets."""
    words = text.split()
    return next((word.strip("[]") for word in words if word.startswith("[")), " ".join(words))


# Tuning that leaves a machine's ordinary threads no CPU, as far as it can be known before anything runs.


ISOLATED = "isolcpus"


def starving(scenario: Scenario, machine: Machine) -> Iterator[tuple[Path, LabError]]:
    """Yield each machine whose ordinary threads starve while its guests compute, and the place that reports it.

    machine: this one. How many CPUs a machine has that is reached over ssh is not known.
    """
    for name in dict.fromkeys(map(scenario.machine_of, scenario.hosts)):
        left = _for_ordinary_threads(scenario, name, machine)
        if not left:
            continue
        vcpus = list(_realtime_vcpus(scenario, name))
        holders = [place for place, cpus in vcpus if not cpus or left & set(cpus)]
        reached: set[int] = left if any(not cpus for _, cpus in vcpus) else {cpu for _, cpus in vcpus for cpu in cpus}
        if len(holders) < len(left) or not left <= reached:
            continue
        whose = ", ".join(dict.fromkeys(f"{place[3]}'s" for place in holders))
        which = f"CPU{'s' if len(left) > 1 else ''} {cpu_list(left)}"
        what = (
            f"while {whose} vCPUs are busy, nothing else runs on {name or 'this machine'}: they are at SCHED_FIFO on "
            f"{which}, which {'are' if len(left) > 1 else 'is'} all that ordinary threads have"
        )
        board = scenario.boards.get(name or "")
        cpus = f"`cpus: {board.cpus + 1}` of {name}" if board else f"{ISOLATED}="
        yield holders[0], LabError(what, remedy=f"leave out `fifo`; or {cpus}, and a CPU for the vCPUs alone")


def _for_ordinary_threads(scenario: Scenario, name: str | None, machine: Machine) -> set[int]:
    """The CPUs on which the scheduler puts threads without assigned CPUs; none of one not inspected yet."""
    if name is None:
        isolated = (machine.read("/sys/devices/system/cpu/isolated") or "").strip()
        return set(machine.cpus).difference(*kernel_cpus(f"{ISOLATED}={isolated}", ISOLATED))
    board = scenario.boards.get(name)
    if board is None:
        return set()
    return set(range(board.cpus)).difference(*kernel_cpus(board.append, ISOLATED))


def _realtime_vcpus(scenario: Scenario, name: str | None) -> Iterator[tuple[Path, tuple[int, ...]]]:
    """Yield the place of each vCPU at SCHED_FIFO on the machine, and the CPUs it may run on; none: it may on any."""
    for host, tuning in scenario.tuning.items():
        if host not in scenario.hosts or scenario.machine_of(host) != name:
            continue
        for guest, threads in tuning.guests.items():
            vcpus = scenario.guests[guest].vcpus
            cpus = threads.vcpus.cpus or ()
            one_each = len(cpus) == vcpus
            for number in range(vcpus if threads.vcpus.fifo else 0):
                yield ("tuning", host, "guests", guest, "vcpus", "fifo"), (cpus[number],) if one_each else cpus
