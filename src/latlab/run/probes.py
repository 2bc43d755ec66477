"""The probes of a cell while it is measured: what their agents reported at the end, and external tools."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import polars as pl

from latlab.imports import cyclictest, ddsperf, rtla, sockperf
from latlab.imports.base import Figures, Given, PacketStream, ReadFiles, with_percentiles
from latlab.imports.netperf import read_round_trips
from latlab.imports.packets import packet_table
from latlab.imports.write import figures_entry, packets_entry, summed_entry
from latlab.model.errors import LabError, LatlabError, system_error
from latlab.model.units import SECOND_NS
from latlab.recordings.cell import RecordedProbe, RecordedStream, ToolFound, Totals
from latlab.recordings.run_folder import CellFolder, publishing
from latlab.run.agent import Agent
from latlab.run.entries import probe_entries
from latlab.run.fetch import Recordings
from latlab.scenario import Scenario
from latlab.testbed.apply import TestBed
from latlab.testbed.places import Places
from latlab.testbed.probes import TOOLS, plan_probes
from latlab.testbed.probes.base import ToolPlan
from latlab.testbed.probes.ddsperf import measured
from latlab.testbed.probes.runner import ToolRan, ToolRunner


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

    async def look(self) -> None:
        """Read the tools' versions. UnavailableError: one is missing, too old, or built without what it is asked."""
        await self._runner.look()

    async def start(self) -> None:
        """Start the servers and wait until each answers. LabError: one does not start."""
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
    asking = {agent.probe: agent for agent in agents if agent.verb == "ping"}
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
            remedy = asking[probe].rejection_remedy(done.rejected_errno) or (
                "check what drops packets on the forward path: a firewall, a closed port, a bridge"
            )
        return LabError(f"no answer came: {what}", where=f"probes.{probe}", remedy=remedy)
    return None


# What a tool's words become: a stream of packets in cell.json and the packet table, or figures that it kept itself.


@dataclass(frozen=True)
class ToolMeasured:
    """What a tool adds to its entry of `probes` in cell.json, and its stream in `streams`."""

    version: str
    commands: list[str]
    found: ToolFound
    stream: RecordedStream


def tool_figures(ran: ToolRan, number: int, log: Path, folder: CellFolder) -> ToolMeasured:
    """The same, and the rows of the packet table that it has, in the cell's folder.

    number: the stream's. log: what the client wrote, here. LabError: its words are not those that are known.
    """
    plan = ran.plan
    try:
        found = READERS[plan.kind](ran, log)
        figures = [_of_probe(plan, one) for one in found.figures]
    except LabError:
        raise
    except (ValueError, LatlabError) as error:
        what = error.what if isinstance(error, LatlabError) else str(error)
        raise LabError(
            f"what {plan.kind} {ran.version} measured cannot be read: {what}",
            where=f"probes.{plan.name}",
            remedy=f"see {log.name} in the cell's folder; another version of {plan.kind} may print something else",
        ) from None
    kept = ToolFound(
        latency=found.latency,
        notes=list(found.notes),
        left_out=list(found.left_out),
        problems=list(found.problems),
        facts=dict(found.facts),
        figures=[figures_entry(one).model_copy(update={"intervals": list(one.intervals)}) for one in figures],
    )
    if found.streams:
        stream = _named(plan, found.streams[0])
        with publishing(folder.tool_packets_path(plan.name)) as temporary:
            rows = packet_table([stream]).with_columns(pl.lit(number, pl.UInt16).alias("stream"))
            rows.write_parquet(temporary, compression="zstd", compression_level=1)
        entry = packets_entry(number, stream)
    else:
        entry = summed_entry(figures[0])
    own = {"size": plan.size, "probe": plan.name, "leg": None, "tool": plan.kind}
    return ToolMeasured(ran.version, list(ran.commands), kept, entry.model_copy(update=own))


def _ddsperf(ran: ToolRan, _: Path) -> ReadFiles:
    plan = ran.plan
    told = measured(plan, ran.output.stdout, ran.output.stderr)
    return ddsperf.round_trips(told, plan.name, plan.asker, plan.answerer, ran.version)


def _netperf(ran: ToolRan, _: Path) -> ReadFiles:
    plan = ran.plan
    paced = plan.period_ns is not None
    return read_round_trips(ran.output.stdout, plan.name, plan.asker, plan.answerer, ran.version, paced=paced)


def _sockperf(_: ToolRan, log: Path) -> ReadFiles:
    return sockperf.read([log], Given())


def _cyclictest(_: ToolRan, log: Path) -> ReadFiles:
    found = _of_one_thread(cyclictest.read_json([log], Given()))
    if any(one.tally is None for one in found.figures):
        raise ValueError("it should have printed a histogram, but printed none in a known format")
    return found


def _timerlat(_: ToolRan, log: Path) -> ReadFiles:
    return _of_one_thread(rtla.read([log], Given()))


READERS: Final[Mapping[str, Callable[[ToolRan, Path], ReadFiles]]] = {
    "ddsperf": _ddsperf,
    "netperf": _netperf,
    "sockperf": _sockperf,
    "cyclictest": _cyclictest,
    "timerlat": _timerlat,
}
"""{kind: how what it measured is read}, of each of `probes.table.TOOLS`."""


def _of_one_thread(found: ReadFiles) -> ReadFiles:
    of_threads = {one.stream for one in found.figures}
    if len(of_threads) > 1:
        raise ValueError(f"it measured {len(of_threads)} threads ({', '.join(sorted(of_threads))}) instead of one")
    return found


def _of_probe(plan: ToolPlan, figures: Figures) -> Figures:
    """The figures under the probe's name, with its hosts."""
    return replace(with_percentiles(figures), stream=plan.name, talker=plan.asker, listener=plan.answerer)


def _named(plan: ToolPlan, stream: PacketStream) -> PacketStream:
    """The stream under the probe's name, with its hosts; a period that was asked for is its own, else the usual gap."""
    period_ns = plan.period_ns or stream.period_ns
    described = f"{plan.asker} → {plan.answerer} → {plan.asker} · {plan.kind} · {plan.size} bytes · {plan.transport}"
    return replace(
        stream,
        name=plan.name,
        talker=plan.asker,
        listener=plan.answerer,
        described=described,
        period_ns=period_ns,
    )
