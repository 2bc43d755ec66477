"""Machines reached over ssh that were lost in one cell are waited for before the next: to reboot takes a minute."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable

from latlab.hosts import Host
from latlab.model.errors import LabError
from latlab.recordings.cell import RecordedCell
from latlab.run.events import Listener, Phase, Waiting
from latlab.scenario import Scenario
from latlab.testbed.apply import Awaited
from latlab.testbed.makers import make_hosts
from latlab.testbed.site import Site

RETURN_S = 180.0
"""A board boots within a minute, a server within three."""
ASK_S = 1.0


class Returning:
    """Which machines have answered in this run, and whether one may be away. within_s: how long it may be."""

    def __init__(self, within_s: float = RETURN_S) -> None:
        self.awaited: set[str] = set()
        """Those that are waited for after a failure."""
        self._within_s = within_s
        self._failed = False

    def note(self, cell: RecordedCell) -> None:
        """Note what came of a cell: its machines have answered where a step was as expected."""
        self.awaited.update(step.host for step in cell.steps if step.ok)
        self._failed = cell.status == "failed"

    async def wait(self, scenario: Scenario, site: Site, listener: Listener) -> None:
        """Wait until those machines of a cell answer that did before, where the cell before has failed.

        One that does not within the time is not waited for again until it has answered.
        """
        names = {name for name, host in scenario.hosts.items() if host.is_reached}
        if self._failed and (known := self.awaited & names):
            hosts = make_hosts(scenario, site)
            self.awaited -= known - await answering([hosts[name] for name in sorted(known)], listener, self._within_s)


async def answering(hosts: Iterable[Host], listener: Listener, within_s: float) -> set[str]:
    """The names of the hosts that answer within the time, together."""
    deadline = time.monotonic() + within_s
    awaited = Awaited(lambda what, seconds: listener(Waiting(what, seconds)))
    listener(Phase("waiting"))
    found = set()
    for host in hosts:
        with awaited(f"{host.name} answers again"):
            while not (answers := await _answers(host)) and time.monotonic() < deadline:
                await asyncio.sleep(ASK_S)
        if answers:
            found.add(host.name)
    return found


async def _answers(host: Host) -> bool:
    try:
        await host.run(("true",), check=False)
    except LabError:
        return False
    return True
