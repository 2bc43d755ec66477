"""Tuning that leaves a machine's ordinary threads no CPU, as far as it can be known before anything runs."""

from __future__ import annotations

from collections.abc import Iterator

from latlab.model.errors import LabError
from latlab.scenario import BoardHost, Scenario
from latlab.scenario.findings import Path
from latlab.scenario.hosts import kernel_cpus
from latlab.testbed.machine import Machine
from latlab.testbed.tuning.cpus import cpu_list

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
        board = scenario.hosts[name] if name else None
        cpus = f"`cpus: {board.cpus + 1}` of {name}" if isinstance(board, BoardHost) else f"{ISOLATED}="
        yield holders[0], LabError(what, remedy=f"leave out `fifo`; or {cpus}, and a CPU for the vCPUs alone")


def _for_ordinary_threads(scenario: Scenario, name: str | None, machine: Machine) -> set[int]:
    """The CPUs on which the scheduler puts threads without assigned CPUs; none of one not inspected yet."""
    if name is None:
        isolated = (machine.read("/sys/devices/system/cpu/isolated") or "").strip()
        return set(machine.cpus).difference(*kernel_cpus(f"{ISOLATED}={isolated}", ISOLATED))
    board = scenario.hosts[name]
    if not isinstance(board, BoardHost):
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
