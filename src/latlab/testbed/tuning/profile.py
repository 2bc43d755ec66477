"""What tuned's profiles for real-time virtualisation set while a machine runs, without tuned (tuned-profiles-realtime).

What they add to the kernel's command line is set at boot, and is only checked (`isolated`). latlab sets files that are
there: a kernel without one has nothing to be kept from.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from latlab.scenario import Scenario
from latlab.testbed.site import Site
from latlab.testbed.step import Before, Check, Step

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
SET: Final = '[ ! -e "$0" ] || [ "$(cat "$0")" = "$1" ] || echo "$1" >"$0"'
READ: Final = 'if [ -e "$0" ]; then cat "$0"; else echo "$1"; fi'
"""A file that is not there reads as what was wanted of it."""


def profile_steps(host: str, scenario: Scenario, site: Site) -> Iterator[Step]:
    """A step for each file of the profile."""
    tuning = scenario.tuning[host]
    if tuning.profile is None:
        return
    for path, value in PROFILES[tuning.profile].items():
        yield _step(host, f"{tuning.profile}: {path} is {value}", path, value)


def _step(host: str, title: str, path: str, value: str) -> Step:
    read = ("sh", "-c", READ, path, value)
    return Step(
        host=host,
        title=title,
        do=("sh", "-c", SET, path, value),
        undo=("sh", "-c", SET, path, "{before}"),
        before=Before(read, lambda text: {"before": chosen(text)}),
        check=Check(read, expected=value, read=chosen),
        optional=True,
        lasting=True,
    )


def chosen(text: str) -> str:
    """Return the value of a file; of one that lists what there is, what stands in brackets."""
    words = text.split()
    return next((word.strip("[]") for word in words if word.startswith("[")), " ".join(words))
