"""Passive measuring: anybody's packets recorded where they pass interfaces, and analysed as captures are."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import latlab
from latlab.errors import LabError, LatlabError, UsageError
from latlab.hosts import MACHINE, Host, LocalHost, NetnsHost, SshHost
from latlab.imports.watched import GRACE_NS, read_watched
from latlab.imports.write import write_imported_cell
from latlab.recordings.run_folder import RUN_FORMAT, CellFolder, RunFolder
from latlab.run.agent import Agent
from latlab.run.events import Listener, Phase, ignore
from latlab.run.fetch import Recordings
from latlab.run.matrix import until_told
from latlab.scenario.flow_filter import Flow, parse_flow
from latlab.scenario.watch_points import WatchPoint, parse_point
from latlab.testbed.agent_binary import find_agent, find_agents
from latlab.testbed.apply import TestBed
from latlab.testbed.machines import ways_step
from latlab.testbed.machines.ssh import USER, agent_path, scratch
from latlab.testbed.service import Service
from latlab.testbed.site import Site
from latlab.testbed.ssh_steps import agent_put, agent_runs, reached
from latlab.testbed.step import Step, own_folder

SNAP: Final = 128
RING: Final = 65_536
WATCHING: Final = "watching"
"""The phase in which packets are recorded."""
_FORMAT: Final = "watch"
_LABEL: Final = "measured"
_TAKEN_IN_BELOW: Final = ("vlan", "macvlan", "macvtap", "ipvlan", "ipvtap", "bond", "team")
"""Kinds of interfaces whose packets the kernel hands up without taking them in anew: the tracepoint sees them below."""


@dataclass(frozen=True)
class Asked:
    """What is to be watched: the flow and the points as they were written, for how long, ns, None: until Ctrl-C; bytes
    of each packet that are kept; records that the kernel's ring holds; how far clocks of machines differ at most, ns;
    the configuration of ssh, None: the user's.
    """

    flow: str
    at: tuple[str, ...]
    for_ns: int | None = None
    snap: int = SNAP
    ring: int = RING
    clock_bound_ns: int | None = None
    ssh_config: str | None = None


@dataclass(frozen=True)
class _Found:
    """A point that is there: the inode of its network namespace, its number in it, and what is to be known of it.
    became: what was the matter with its interface at the end; empty: nothing.
    """

    point: WatchPoint
    netns: int
    ifindex: int
    note: str = ""
    became: str = ""


@dataclass
class _Kernel:
    """A kernel whose packets are watched, by one agent. done_at: the event loop's time when that had ended."""

    host: Host
    agent_path: str
    found: list[_Found]
    agent: Agent | None = None
    done: dict[str, Any] | None = None
    done_at: float = 0.0


async def watch(asked: Asked, root: Path, listener: Listener = ignore, *, name: str = "watch") -> RunFolder:
    """The run's folder, its packets analysed; SIGINT and SIGTERM end it in order.

    UsageError: the flow, a point or an interface cannot be. LabError: a machine is not reached, the kernel lets nobody
    watch, an agent failed, or no packet of the flow was seen.
    """
    flow = parse_flow(asked.flow)
    points = [parse_point(text) for text in asked.at]
    if not points:
        raise UsageError("no interface is named", where="latlab watch", remedy="latlab watch --at eth0 --at br0")
    if os.geteuid() != 0:
        raise LabError("packets are watched by BPF programs, which takes root", remedy="run with sudo")
    folder = RunFolder.create(root, name)
    try:
        folder.write_watch({"flow": asked.flow, "at": list(asked.at), "for_ns": asked.for_ns})
        with folder.alive():
            await _watched(asked, flow, points, folder, listener)
            finish_watch(folder)
    except LatlabError:
        if not folder.cells() and not _anything_recorded(folder):
            shutil.rmtree(folder.path)
        raise
    return folder


async def _watched(
    asked: Asked,
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
    destinations = dict.fromkeys(point.machine for point in points if point.machine is not None)
    machines = {destination: _ssh_host(destination, asked.ssh_config, site) for destination in destinations}
    here = LocalHost(MACHINE)
    async with TestBed(folder.id, {MACHINE: here, **machines}) as bed:
        if machines:
            await bed.apply(list(_machine_steps(machines.values(), site)))
        by_host: dict[str | None, _Kernel] = {}
        for point in points:
            host = here if point.machine is None else machines[point.machine]
            kernel = by_host.setdefault(point.machine, _Kernel(host, host.agent or str(own), []))
            kernel.found.append(await _find(point, host))
        for kernel in by_host.values():
            kernel.found = _merged(kernel.found)
        await _record(asked, flow, list(by_host.values()), bed, folder, listener)


def _ssh_host(destination: str, config: str | None, site: Site) -> SshHost:
    """The machine as the hosts of kind ssh are reached."""
    return SshHost(
        destination,
        destination,
        config=config,
        agent=agent_path(site),
        options=() if "@" in destination else ("-l", USER),
        control=f"{site.ways}/{destination}",
        scratch=scratch(site, destination),
        relay=site.agent,
        outlives=True,
    )


def _machine_steps(hosts: Iterable[SshHost], site: Site) -> Iterator[Step | Service]:
    """A connection to each is kept open; the agent, and a folder for its recordings, are there."""
    yield ways_step(site)
    for host in hosts:
        yield from reached(host, MACHINE, site)
        yield from agent_put(host, site)
        yield agent_runs(host)
        title = f"make the folder of recordings on {host.name}"
        yield own_folder(host.name, title, host.scratch, rescue=(host.scratch, site.recordings))


def _anything_recorded(folder: RunFolder) -> bool:
    kernels = folder.run().get("watch", {}).get("kernels", [])
    return any((kernel.get("done") or {"recorded": 1})["recorded"] for kernel in kernels)


async def _find(point: WatchPoint, machine: Host) -> _Found:
    """The interface, looked for where it is to be. UsageError: it is not there."""
    host: Host = machine
    if point.namespace is not None:
        host = NetnsHost(point.name, point.namespace, machine)
        if await host.is_gone():
            what = f"there is no network namespace {point.namespace!r}"
            raise UsageError(what, where=point.name, remedy="`ip netns list` shows those that have names")
    inode = (await host.run(("stat", "-Lc", "%i", "/proc/self/ns/net"))).stdout
    links = await _links(host)
    link = next((one for one in links if one.get("ifname") == point.interface), None)
    if link is None:
        remedy = f"it has {', '.join(one['ifname'] for one in links)}"
        raise UsageError(f"there is no interface {point.interface!r}", where=point.name, remedy=remedy)
    found = _Found(point, int(inode), link["ifindex"])
    kind = link.get("linkinfo", {}).get("info_kind", "")
    if kind not in _TAKEN_IN_BELOW or "in" not in point.directions:
        return found
    what = f"the kernel takes in packets of {point.name} ({kind}) at the interface below it: they are not seen here"
    if point.directions == ("in",):
        raise UsageError(what, where="--at", remedy="watch the interface below it")
    return replace(found, point=replace(point, directions=("out",)), note=f"{what}; packets that leave are")


async def _links(host: Host) -> list[dict[str, Any]]:
    """The interfaces of a host or namespace, as ip shows them."""
    links: list[dict[str, Any]] = json.loads((await host.run(("ip", "-j", "-d", "link", "show"))).stdout)
    return links


async def _looked_at_again(found: _Found, machine: Host) -> _Found:
    """The point, with what has become of its interface."""
    point = found.point
    host = machine if point.namespace is None else NetnsHost(point.name, point.namespace, machine)
    if isinstance(host, NetnsHost) and await host.is_gone():
        return replace(found, became=f"the network namespace {point.namespace!r} is gone")
    links = {link["ifindex"]: link["ifname"] for link in await _links(host)}
    if (name := links.get(found.ifindex)) is None:
        other = ": another interface has its name now" if point.interface in links.values() else ""
        return replace(found, became=f"the interface is gone{other}")
    return replace(found, became="" if name == point.interface else f"its name is {name!r} now")


def _merged(found: Sequence[_Found]) -> list[_Found]:
    """Each interface once, with all directions that are asked for."""
    once: dict[tuple[int, int], _Found] = {}
    for one in found:
        key = one.netns, one.ifindex
        before = once.get(key, one)
        directions = tuple(way for way in ("in", "out") if way in (*before.point.directions, *one.point.directions))
        once[key] = replace(before, point=replace(before.point, directions=directions))
    return list(once.values())


async def _record(
    asked: Asked,
    flow: Flow,
    kernels: Sequence[_Kernel],
    bed: TestBed,
    folder: RunFolder,
    listener: Listener,
) -> None:
    """Record what passes, until the time is over or a signal comes; run.json has it all."""
    run_id = secrets.token_hex(8)
    recordings = Recordings(bed, CellFolder(folder.path / "watch"))
    run = {**folder.run(), "format": RUN_FORMAT, "description": f"Watched: {asked.flow}"}
    run["versions"] = {"latlab": latlab.__version__}
    status = "interrupted"
    try:
        try:
            for number, kernel in enumerate(kernels):
                here = folder.path / "watch" / _recording(number)
                spec = {
                    "run_id": run_id,
                    "recording": recordings.prefix(kernel.host, here.resolve()),
                    "realtime": {},
                    "points": [{"netns": one.netns, "ifindex": one.ifindex} for one in kernel.found],
                    "flow": flow,
                    "snap": asked.snap,
                    "ring_records": asked.ring,
                }
                kernel.agent = await Agent.start(bed, kernel.host, kernel.agent_path, "watch", spec, listener)
                await recordings.follow(kernel.host, "watch", here)
            folder.write_run({**run, "watch": _document(asked, flow, run_id, kernels)})
            listener(Phase(WATCHING))
            if await until_told(_wait([kernel.agent for kernel in kernels if kernel.agent], asked.for_ns)):
                status = "ended"
        finally:
            await asyncio.gather(*(_stop(kernel, bed) for kernel in kernels if kernel.agent))
            for kernel in kernels:
                kernel.found = [await _looked_at_again(one, kernel.host) for one in kernel.found]
            await recordings.fetch()
    finally:
        if all(kernel.agent for kernel in kernels):
            run["watch"] = _document(asked, flow, run_id, kernels)
        folder.write_run({**run, "ended": datetime.now(UTC).isoformat(timespec="seconds"), "status": status})


def _recording(number: int) -> str:
    return f"watch-{number}"


def _document(asked: Asked, flow: Flow, run_id: str, kernels: Sequence[_Kernel]) -> dict[str, Any]:
    """`watch` of run.json.

    from_tai_ns, until_tai_ns: by each kernel's clock, between them all of them were watched, and what was seen had time
    to come to any other point.
    """
    agents = [kernel.agent for kernel in kernels if kernel.agent]
    ready_at = max(agent.ready_at for agent in agents)
    done_at = min(kernel.done_at for kernel in kernels)
    told = []
    for number, (kernel, agent) in enumerate(zip(kernels, agents, strict=True)):
        entry: dict[str, Any] = {
            "host": kernel.host.name,
            "recording": _recording(number),
            "ready": agent.known.said.document(),
        }
        entry |= {"done": kernel.done, "from_tai_ns": agent.tai_ns + round((ready_at - agent.ready_at) * 1e9)}
        if all(one.done for one in kernels) and kernel.done:
            later_ns = round((kernel.done_at - done_at) * 1e9)
            entry["until_tai_ns"] = kernel.done["end_tai_ns"] - later_ns - GRACE_NS
        told.append(entry)
    return {
        "flow": asked.flow,
        "filter": flow,
        "for_ns": asked.for_ns,
        "snap": asked.snap,
        "clock_bound_ns": asked.clock_bound_ns,
        "run_id": run_id,
        "points": [
            {"name": one.point.name, "kernel": at, "number": number, "directions": list(one.point.directions)}
            | ({"became": one.became} if one.became else {})
            for at, kernel in enumerate(kernels)
            for number, one in enumerate(kernel.found)
        ],
        "kernels": told,
        "notes": [one.note for kernel in kernels for one in kernel.found if one.note],
    }


async def _stop(kernel: _Kernel, bed: TestBed) -> None:
    assert kernel.agent
    kernel.done = (await kernel.agent.stop(bed)).document()
    kernel.done_at = asyncio.get_running_loop().time()


async def _wait(agents: Sequence[Agent], for_ns: int | None) -> None:
    """Until the time is over, and packets in flight have come. LabError: an agent has ended before."""
    seconds = None if for_ns is None else (for_ns + GRACE_NS) / 1e9
    done, _ = await asyncio.wait([agent.done for agent in agents], timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    for one in done:
        one.result()


def is_unfinished_watch(folder: RunFolder) -> bool:
    """Whether packets were watched into this folder and not analysed: the lab was killed before."""
    return "watch" in folder.run() and not folder.cells() and not folder.is_live()


def finish_watch(folder: RunFolder) -> None:
    """Write the cell of what was recorded. LabError: no packet of the flow was seen, or a recording is damaged."""
    document = folder.run()
    asked = document["watch"]
    bound_ns = asked["clock_bound_ns"]
    imported = read_watched(asked, folder.path / "watch", bound_ns)
    files = [f"watch/{kernel['recording']}.watched.arrow" for kernel in asked["kernels"]]
    cell = folder.add_cell("all", 1)
    write_imported_cell(cell, imported, files, {}, _FORMAT, bound_ns, label=_LABEL)
    folder.write_run(folder.run() | {"order": [{"slug": "all", "repeat": 1}]})
