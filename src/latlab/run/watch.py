"""Passive measuring: any program's packets recorded where they pass interfaces, and analysed as captures are."""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import latlab
from latlab.hosts import MACHINE, Host, LocalMachine, NamespaceHost, RemoteHost
from latlab.imports.watched import read_watched
from latlab.imports.write import write_imported_cell
from latlab.model.errors import LabError, LatlabError, UsageError
from latlab.model.labels import MEASURED
from latlab.model.units import SECOND_NS
from latlab.recordings.cell import GRACE_NS, Watched
from latlab.recordings.run import RUN_FORMAT, OrderedCell, RecordedRun, RunVersions
from latlab.recordings.run_folder import CellFolder, RunFolder
from latlab.run.agent import Agent
from latlab.run.events import Listener, Phase, ignore
from latlab.run.fetch import Recordings
from latlab.run.matrix import until_told
from latlab.run.watching import (
    EVERY,
    RING,
    SNAP,
    FoundInterface,
    Keep,
    KernelOfPoints,
    WatchRecordings,
    find,
    merged,
    notes_of,
    points_of,
    start_all,
    stop_all,
    trigger_spec,
)
from latlab.scenario.limits import Trigger
from latlab.scenario.watched import Flow, WatchPoint, not_judged, of_two_kernels, parse_flow, parse_point
from latlab.testbed.agent_binary import find_agent, find_agents
from latlab.testbed.apply import TestBed
from latlab.testbed.guests.running import running_guest
from latlab.testbed.machines import ways_step
from latlab.testbed.machines.ssh import USER, agent_path, scratch
from latlab.testbed.site import Site
from latlab.testbed.ssh_steps import agent_put, agent_runs, reached
from latlab.testbed.step import Service, Step, own_folder

WATCHING: Final = "watching"
"""The phase in which packets are recorded."""
_FORMAT: Final = "watch"


@dataclass(frozen=True)
class WatchRequest:
    """What is to be watched: the flow and the points as they were written, for how long, ns, None: until Ctrl-C; bytes
    of each packet that are kept; records that rings in the kernel hold; of how many packets one is recorded; how far
    clocks of machines differ at most, ns; the configuration of ssh, None: the user's; whether machines over ssh send
    what they record as it is written, and store nothing; which packets are late, from the first point to the last,
    None: that is not judged.
    """

    flow: str
    at: tuple[str, ...]
    for_ns: int | None = None
    snap: int = SNAP
    ring: int = RING
    sample: int = EVERY
    clock_bound_ns: int | None = None
    ssh_config: str | None = None
    streamed: bool = False
    trigger: Trigger | None = None


async def watch(asked: WatchRequest, root: Path, listener: Listener = ignore, *, name: str = "watch") -> RunFolder:
    """The run's folder, its packets analysed; SIGINT and SIGTERM end it in order.

    UsageError: the flow, a point or an interface cannot be. LabError: a machine is not reached, the kernel does not
    allow watching, an agent failed, or no packet of the flow was seen.
    """
    flow = parse_flow(asked.flow)
    points = [parse_point(text) for text in asked.at]
    if not points:
        raise UsageError(
            "no interface is named", where="latlab watch", remedy="latlab watch --at eth0:in --at tap0:out"
        )
    if asked.trigger:
        check_trigger(asked.trigger, points, asked.snap)
    if os.geteuid() != 0:
        raise LabError("packets are watched by BPF programs, which takes root", remedy="run with sudo")
    folder = RunFolder.create(root, name)
    try:
        request = {"flow": asked.flow, "at": list(asked.at), "for_ns": asked.for_ns}
        folder.write_watch(request | ({"trigger": asked.trigger.text} if asked.trigger else {}))
        with folder.alive():
            await _watched(asked, flow, points, folder, listener)
            finish_watch(folder)
    except (LatlabError, asyncio.CancelledError):
        if not folder.cells() and not _anything_recorded(folder):
            shutil.rmtree(folder.path)
        raise
    return folder


async def _watched(
    asked: WatchRequest,
    flow: Flow,
    points: Sequence[WatchPoint],
    folder: RunFolder,
    listener: Listener,
) -> None:
    """Reach the machines, find the interfaces, and record."""
    recordings, logs = folder.path / "watch", folder.path / "logs"
    recordings.mkdir()
    logs.mkdir()
    own = find_agent()
    site = Site(
        secrets.token_hex(2),
        agent=str(own),
        agents=find_agents(own),
        logs=str(logs.resolve()),
        recordings=str(recordings.resolve()),
    )
    machines: dict[str, Host] = {}
    for point in points:
        if point.machine is not None and point.machine not in machines:
            machines[point.machine] = (
                _ssh_host(point.machine, asked, site)
                if point.guest is None
                else running_guest(point.guest, point.name, site, asked.ssh_config)
            )
    here = LocalMachine(MACHINE)
    async with TestBed(folder.id, {MACHINE: here, **machines}) as bed:
        if over_ssh := [host for host in machines.values() if isinstance(host, RemoteHost)]:
            await bed.apply(list(_machine_steps(over_ssh, site)))
        by_host: dict[str | None, KernelOfPoints] = {}
        for point in points:
            host = here if point.machine is None else machines[point.machine]
            name = f"watch-{len(by_host)}"
            kernel = by_host.setdefault(point.machine, KernelOfPoints(host, host.agent or str(own), name))
            kernel.found.append(await _find(point, host))
        ends = [by_host[point.machine].found[place] for point, place in ((points[0], 0), (points[-1], -1))]
        for kernel in by_host.values():
            kernel.found = merged(kernel.found)
        if asked.trigger:
            by_host[points[0].machine].trigger = trigger_spec(asked.trigger, by_host[points[0].machine].found, ends)
        await _record(asked, flow, list(by_host.values()), bed, folder, listener)


def _ssh_host(destination: str, asked: WatchRequest, site: Site) -> RemoteHost:
    """The machine as the hosts of kind ssh are reached."""
    return RemoteHost(
        destination,
        destination,
        config=asked.ssh_config,
        agent=agent_path(site),
        options=() if "@" in destination else ("-l", USER),
        control=f"{site.ways}/{destination}",
        scratch=scratch(site, destination),
        relay=site.agent,
        outlives=True,
        streams=asked.streamed,
    )


def _machine_steps(hosts: Iterable[RemoteHost], site: Site) -> Iterator[Step | Service]:
    """A connection to each is kept open; the agent, and a folder for its recordings, are there."""
    yield ways_step(site)
    for host in hosts:
        yield from reached(host, MACHINE, site)
        yield from agent_put(host, site)
        yield agent_runs(host)
        title = f"make the folder of recordings on {host.name}"
        yield own_folder(host.name, title, host.scratch, rescue=(host.scratch, site.recordings))


def _anything_recorded(folder: RunFolder) -> bool:
    watch = folder.run().watch
    return any(kernel.done is None or kernel.done.recorded for kernel in (watch.kernels if watch else ()))


async def _find(point: WatchPoint, machine: Host) -> FoundInterface:
    """The interface, looked for where it is to be. UsageError: it is not there."""
    host: Host = machine
    if point.namespace is not None:
        host = NamespaceHost(point.name, point.namespace, machine)
        if await host.is_gone():
            what = f"there is no network namespace {point.namespace!r}"
            raise UsageError(what, where=point.name, remedy="`ip netns list` shows those that have names")
    return await find(point.name, host, point.interface, point.directions, "--at")


async def _record(
    asked: WatchRequest,
    flow: Flow,
    kernels: Sequence[KernelOfPoints],
    bed: TestBed,
    folder: RunFolder,
    listener: Listener,
) -> None:
    """Record what passes, until the time is over or a signal comes; run.json has it all."""
    run_id, keep = secrets.token_hex(8), Keep(asked.snap, asked.ring, asked.sample, drops=True)
    recordings = Recordings(bed, CellFolder(folder.path / "watch"))
    begun = folder.run()
    run = RecordedRun(
        format=RUN_FORMAT,
        run=begun.run,
        name=begun.name,
        started=begun.started,
        description=f"Watched: {asked.flow}",
        versions=RunVersions(latlab=latlab.__version__),
    )
    status = "interrupted"
    try:
        try:
            to = WatchRecordings(bed, recordings, folder.path / "watch", run_id)
            traced = asked.trigger is not None
            await start_all(kernels, to, flow, lambda _: keep, traced=traced, listener=listener)
            folder.write_run(run.watching(_known(asked, flow, run_id, kernels)))
            listener(Phase(WATCHING))
            if await until_told(_wait([kernel.agent for kernel in kernels if kernel.agent], asked.for_ns)):
                status = "ended"
        finally:
            await bed.all_of_these(stop_all(kernels, bed), recordings.fetch())
    finally:
        if all(kernel.agent for kernel in kernels):
            run = run.watching(_known(asked, flow, run_id, kernels))
        folder.write_run(run.over(datetime.now(UTC).isoformat(timespec="seconds"), status))


def _known(asked: WatchRequest, flow: Flow, run_id: str, kernels: Sequence[KernelOfPoints]) -> Watched:
    """`watch` of run.json.

    from_tai_ns, until_tai_ns: by each kernel's clock, between them all of them were watched, and what was seen had time
    to come to any other point.
    """
    agents = [kernel.agent for kernel in kernels if kernel.agent]
    ready_at = max(agent.ready_at for agent in agents)
    done_at = min(kernel.done_at for kernel in kernels)
    known = []
    for kernel, agent in zip(kernels, agents, strict=True):
        instants = {"from_tai_ns": agent.tai_ns + round((ready_at - agent.ready_at) * SECOND_NS)}
        if all(one.done for one in kernels) and kernel.done and kernel.done.end_tai_ns:
            later_ns = round((kernel.done_at - done_at) * SECOND_NS)
            instants["until_tai_ns"] = kernel.done.end_tai_ns - later_ns - GRACE_NS
        known.append(kernel.known(**instants))
    return Watched(
        flow=asked.flow,
        filter=flow,
        for_ns=asked.for_ns,
        snap=asked.snap,
        sample=asked.sample,
        clock_bound_ns=asked.clock_bound_ns,
        trigger=asked.trigger.text if asked.trigger else None,
        run_id=run_id,
        points=points_of(kernels),
        kernels=known,
        notes=notes_of(kernels),
    )


def check_trigger(trigger: Trigger, points: Sequence[WatchPoint], snap: int) -> None:
    """Check that packets can be judged by it at these points while they pass. UsageError: they cannot."""
    found = not_judged(trigger, points, snap) or of_two_kernels(points, [point.machine for point in points])
    if found:
        what, remedy = found
        raise UsageError(what, where="--trigger", remedy=remedy)


async def _wait(agents: Sequence[Agent], for_ns: int | None) -> None:
    """Until the time is over, and packets in flight have come. LabError: an agent has ended before."""
    seconds = None if for_ns is None else (for_ns + GRACE_NS) / SECOND_NS
    done, _ = await asyncio.wait([agent.done for agent in agents], timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    for one in done:
        one.result()


def is_unfinished_watch(folder: RunFolder) -> bool:
    """Whether packets were watched into this folder and not analysed: the lab was killed before."""
    return folder.run().watch is not None and not folder.cells() and not folder.is_live()


def finish_watch(folder: RunFolder) -> None:
    """Write the cell of what was recorded. LabError: no packet of the flow was seen, or a recording is damaged."""
    run = folder.run()
    watched = run.watch
    assert watched, f"nothing was watched into {folder.path}"
    imported = read_watched(watched, folder.path / "watch")
    files = [f"watch/{kernel.recording}.watched.arrow" for kernel in watched.kernels]
    cell = folder.add_cell("all", 1)
    write_imported_cell(cell, imported, files, {}, _FORMAT, watched.clock_bound_ns, label=MEASURED)
    folder.write_run(run.measuring([OrderedCell(slug="all", repeat=1)]))
