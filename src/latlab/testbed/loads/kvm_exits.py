"""How often a guest has left for its hypervisor, as KVM counts it on the guest's host."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from latlab.scenario import Scenario
from latlab.testbed.apply import TestBed
from latlab.testbed.site import Site
from latlab.testbed.step import Argv
from latlab.testbed.tuning.threads import pid_file

READ = 'cat "/sys/kernel/debug/kvm/$(cat "$0")"-*/exits'
"""Prints the exits of the guest whose QEMU's pid is in the file $0. A folder of a VM is PID-FD (kvm_create_vm_debugfs,
virt/kvm/kvm_main.c); `exits` of all its vCPUs together."""


@dataclass(frozen=True)
class ExitCounter:
    """Where a guest's exits are counted: the machine, as a host of the test bed, and what prints them there."""

    machine: str
    argv: Argv

    async def read(self, bed: TestBed) -> int | None:
        """Exits since the guest was started; None where KVM does not report it: an emulated one, or no debugfs."""
        said = await bed.hosts[self.machine].run(self.argv, check=False)
        text = said.stdout.strip()
        return int(text) if said.returncode == 0 and text.isdecimal() else None


def exit_counters(scenario: Scenario, site: Site) -> Mapping[str, ExitCounter]:
    """By guest, for those that some load starts at."""
    sources = {getattr(load, "from_", None) or getattr(load, "on", None) for load in scenario.loads.values()}
    found = {}
    for name, guest in scenario.guests.items():
        if name in sources:
            there = site.on(scenario.machine_of(name))
            found[name] = ExitCounter(there.name, ("sh", "-c", READ, pid_file(name, guest, there)))
    return found
