"""What keeps loads that are on one host from running there, reported with its remedy, while the other cells run."""

from __future__ import annotations

from collections.abc import Iterator

from latlab.model.errors import LabError
from latlab.scenario import Scenario
from latlab.scenario.loads import Busy, LoadOn
from latlab.testbed.loads.table import LOADS
from latlab.testbed.programs import program_missing
from latlab.testbed.site import Site

CALLS = "what: calls, which its own kernel handles"


def loads_lacking(scenario: Scenario, site: Site) -> Iterator[LabError]:
    """Tools that are not where they are to run, and exits of what nothing is beneath. Reads only."""
    for name, load in scenario.loads.items():
        if isinstance(load, LoadOn):
            where = f"loads.{name}"
            for program in LOADS[load.kind].tools:
                yield from program_missing(scenario, site, load.on, program, where)
            if isinstance(load, Busy) and load.what == "exits":
                yield from _nothing_beneath(scenario, site, load.on, where)


def _nothing_beneath(scenario: Scenario, site: Site, host: str, where: str) -> Iterator[LabError]:
    machine = site.on(scenario.machine_of(host)).machine
    if machine.architecture != "x86_64":
        what = f"{host} is a {machine.architecture}: no unprivileged instruction exits to its hypervisor"
        yield LabError(what, where=where, remedy=CALLS)
    elif host not in scenario.guests and machine.seen and not _is_virtual(machine.read("/proc/cpuinfo") or ""):
        yield LabError(f"{host} does not run on a hypervisor to which it could exit", where=where, remedy=CALLS)


def _is_virtual(cpuinfo: str) -> bool:
    """Whether CPUID says that there is a hypervisor (arch/x86/include/asm/cpufeatures.h: X86_FEATURE_HYPERVISOR)."""
    return any(line.startswith("flags") and "hypervisor" in line.split() for line in cpuinfo.splitlines())
