"""What keeps a cell's probes from running, reported with its remedy, while the other cells run."""

from __future__ import annotations

from collections.abc import Iterator

from latlab.model.errors import LabError
from latlab.scenario import Scenario
from latlab.testbed.probes.base import ToolKind
from latlab.testbed.probes.table import OURS, TOOLS
from latlab.testbed.programs import program_missing
from latlab.testbed.site import Site


def probes_lacking(scenario: Scenario, site: Site) -> Iterator[LabError]:
    """Kinds of probes that nothing runs here, and tools that are not where they are to run. Reads only."""
    for name, probe in scenario.probes.items():
        kind, where = probe.kind, f"probes.{name}"
        hosts = scenario.probe_hosts(name)
        if kind in TOOLS:
            tool = TOOLS[kind]
            for host, programs in zip((hosts[0], hosts[-1]), (tool.asks, tool.answers), strict=True):
                for program in programs:
                    yield from program_missing(scenario, site, host, program, where)
            if tool.server:
                yield from _unstoppable(scenario, hosts[-1], kind, where)
            yield from _unable(scenario, site, hosts[0], tool, where)
        elif kind not in OURS:
            known = ", ".join((*OURS, *TOOLS))
            yield LabError(f"there is no probe {kind}", where=where, remedy=f"probe: one of {known}")


def _unable(scenario: Scenario, site: Site, host: str, tool: ToolKind, where: str) -> Iterator[LabError]:
    """What the kernel of a host does not have; for guests it is not known before."""
    machine = site.on(scenario.machine_of(host)).machine
    if host not in scenario.guests and machine.seen and (lack := tool.lacking(machine)):
        yield LabError(f"{lack.what} on {host}", where=where, remedy=lack.remedy)


def _unstoppable(scenario: Scenario, host: str, kind: str, where: str) -> Iterator[LabError]:
    guest = scenario.guests.get(host)
    if guest is not None and guest.ssh is not None:
        what = f"the server of {kind} is ended by a signal, which ssh does not pass on to {host}"
        yield LabError(what, where=where, remedy="probe: ping, or swap the two ends")
