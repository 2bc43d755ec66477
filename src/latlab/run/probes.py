"""The probes of a cell while it is measured: what their agents reported at the end, and external tools."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from latlab.model.errors import LabError, system_error
from latlab.recordings.cell import RecordedProbe, Totals
from latlab.recordings.run_folder import CellFolder
from latlab.run.agent import Agent
from latlab.run.entries import probe_entries
from latlab.run.fetch import Recordings
from latlab.run.tool_figures import ToolMeasured, tool_figures
from latlab.scenario import Scenario
from latlab.testbed.apply import TestBed
from latlab.testbed.places import Places
from latlab.testbed.probes import TOOLS, plan_probes
from latlab.testbed.probes.base import ToolPlan
from latlab.testbed.probes.runner import ToolRan, ToolRunner

SECOND_NS = 1_000_000_000


class Tools:
    """The tools of a cell: their servers wait with the listeners, their clients ask once the warm-up is over."""

    def __init__(
        self, scenario: Scenario, bed: TestBed, places: Places, recordings: Recordings, folder: CellFolder
    ) -> None:
        self._scenario = scenario
        self._bed = bed
        self._folder = folder
        plans = [replace(plan, log=self._told(plan, recordings)) for plan in plan_probes(scenario, places)]
        self._runner = ToolRunner(bed, plans)
        self._asking: asyncio.Task[None] | None = None

    def _told(self, plan: ToolPlan, recordings: Recordings) -> str:
        """What a client gets as the file of its log."""
        return recordings.prefix(self._bed.hosts[plan.asker], self._folder.tool_log_path(plan.name))

    async def start(self) -> None:
        """Start the servers and wait until each answers. LabError: a tool is missing, too old, or does not start."""
        await self._runner.start()

    def begin(self, in_ns: int) -> None:
        """Start the clients, which measure from in_ns from now on."""
        if self._runner.plans:
            self._asking = asyncio.ensure_future(self._runner.ask(in_ns / SECOND_NS))

    @property
    def asking(self) -> list[asyncio.Task[None]]:
        """What has to finish before the cell is measured; it fails with whatever fails first."""
        return [self._asking] if self._asking else []

    def failure(self) -> LabError | None:
        """The first server that is over while it is needed."""
        return self._runner.failure()

    async def stop(self) -> dict[str, ToolMeasured]:
        """{probe: what it measured} of those that finished; all processes have ended. LabError: what one wrote
        cannot be read.
        """
        if self._asking and not self._asking.done():
            self._asking.cancel()
            await asyncio.wait([self._asking])
        return {ran.plan.name: await self._figures(ran) for ran in await self._runner.stop()}

    async def _figures(self, ran: ToolRan) -> ToolMeasured:
        log = await self._log(ran)
        number = self._scenario.probe_number(ran.plan.name)
        return await asyncio.to_thread(tool_figures, ran, number, log, self._folder)

    async def _log(self, ran: ToolRan) -> Path:
        """The file here that has what the client wrote: its log, or else what it printed."""
        here, host = self._folder.tool_log_path(ran.plan.name), self._bed.hosts[ran.plan.asker]
        try:
            if not TOOLS[ran.plan.kind].writes_log:
                here.write_text(ran.output.stdout + ran.output.stderr, encoding="utf-8")
            elif not host.files_are_here:
                here.write_text((await host.run(("cat", ran.plan.log))).stdout, encoding="utf-8")
        except OSError as error:
            raise system_error(error) from error
        if not here.exists():
            raise LabError(
                f"{ran.plan.kind} wrote no log: {ran.output.stdout.strip()[-200:]}",
                where=f"probes.{ran.plan.name}",
                remedy=f"its command: {ran.commands[-1]}",
            )
        return here


def known_probes(scenario: Scenario, agents: Sequence[Agent], tools: dict[str, ToolMeasured]) -> list[RecordedProbe]:
    """The `probes` of cell.json: as the scenario has them, and with what is known by now of whoever measured them."""
    entries = []
    for entry in probe_entries(scenario):
        more: dict[str, object] = {"version": None, "commands": []}
        if mine := [agent for agent in agents if agent.probe == entry.name]:
            said = mine[0].known.said
            more = {"version": said.version, "commands": [agent.command for agent in mine]}
            more |= {"cyclone": said.cyclone} if said.cyclone else {}
        elif ran := tools.get(entry.name):
            more = {"version": ran.version, "commands": ran.commands, "tool": ran.found}
        entries.append(entry.model_copy(update=more))
    return entries


def nobody_answered(agents: Sequence[Agent]) -> LabError | None:
    """The report of the first ping that had no answer at all; None where each had one.

    agents: all of the cell, at its end.
    """
    said = {(one.probe, one.verb): one.totals for one in (agent.known for agent in agents) if one.probe and one.done}
    for (probe, verb), done in said.items():
        if verb != "ping" or not done.sent or done.received:
            continue
        came = said.get((probe, "pong"), Totals()).received
        (host,) = {agent.host.name for agent in agents if agent.probe == probe and agent.verb == "pong"} or {"?"}
        if came:
            what = f"{came} of {done.sent} questions reached {host}, and none of its answers returned"
            remedy = (
                "check what drops packets on the return path: a firewall, a route, reverse path filtering, a bridge"
            )
        else:
            what = f"none of {done.sent} questions reached {host}"
            remedy = "check what drops packets on the forward path: a firewall, a closed port, a bridge"
        return LabError(f"no answer came: {what}", where=f"probes.{probe}", remedy=remedy)
    return None
