"""The kernel's tracing, of which an agent that traces makes an instance that stays when the agent is killed.

Instances carry our name and an agent's process id, `latlab-PID`; of agents that live none is removed.
"""

from __future__ import annotations

from collections.abc import Iterator

from latlab.scenario import Scenario
from latlab.scenario.probes import TimerProbe
from latlab.testbed.site import Site
from latlab.testbed.step import Step


def tracing_steps(scenario: Scenario, site: Site) -> Iterator[Step]:
    """A step for each machine with a timer or a receiver that is traced: what killed agents left is removed, before
    and after. It is the machine's: a namespace may be gone by then.

    A guest's kernel ends with the guest; on one that is reached by ssh the next agent that traces removes it.
    """
    traced = (probe.on for probe in scenario.probes.values() if isinstance(probe, TimerProbe) and probe.trace)
    vm_hosts = (scenario.guests[name].host for name in scenario.entered)
    hosts = (host for host in (*traced, *scenario.traced, *vm_hosts) if host not in scenario.guests)
    for machine in dict.fromkeys(scenario.machine_of(host) for host in hosts):
        there = site.on(machine)
        clear = (there.agent, "timer", "--clear-traces")
        yield Step(there.name, "remove the tracing of killed agents", clear, undo=clear)
