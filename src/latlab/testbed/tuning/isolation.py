"""Whether CPUs are kept free of everything that is not put on them: set at boot, so it is only checked."""

from __future__ import annotations

from collections.abc import Iterator

from latlab.scenario import Scenario
from latlab.testbed.machine import parse_cpu_list
from latlab.testbed.site import Site
from latlab.testbed.step import Check, Step
from latlab.testbed.tuning.cpus import cpu_list

LISTS = {
    "/sys/devices/system/cpu/isolated": "the scheduler places no threads there (isolcpus=)",
    "/sys/devices/system/cpu/nohz_full": "no tick while one thread runs (nohz_full=)",
}
"""The kernel's lists, and what it means to be on one (Documentation/ABI/testing/sysfs-devices-system-cpu)."""


def isolation_steps(host: str, scenario: Scenario, site: Site) -> Iterator[Step]:
    """A check of each of the kernel's lists."""
    cpus = scenario.tuning[host].isolated
    if not cpus:
        return
    for path, meaning in LISTS.items():
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
