"""Passive measuring: anybody's packets recorded where they pass interfaces, and analysed as captures are."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

import latlab
from latlab.errors import LabError, UsageError
from latlab.hosts import MACHINE, Host, LocalHost, NetnsHost
from latlab.imports.watched import GRACE_NS, read_watched
from latlab.imports.write import write_imported_cell
from latlab.recordings.run_folder import RUN_FORMAT, RunFolder
from latlab.run.agent import Agent
from latlab.run.events import Listener, Phase, ignore
from latlab.run.matrix import until_told
from latlab.scenario.flow_filter import parse_flow
from latlab.scenario.watch_points import WatchPoint, parse_point
from latlab.testbed.agent_binary import find_agent
from latlab.testbed.apply import TestBed

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
    of each packet that are kept; records that the kernel's ring holds; how far clocks differ at most, ns.
    """

    flow: str
    at: tuple[str, ...]
    for_ns: int | None = None
    snap: int = SNAP
    ring: int = RING
    clock_bound_ns: int | None = None


@dataclass(frozen=True)
class _Found:
    """A point that is there: the inode of its network namespace, its number in it, and what is to be known of it."""

    point: WatchPoint
    netns: int
    ifindex: int
    note: str = ""


async def watch(asked: Asked, root: Any, listener: Listener = ignore, *, name: str = "watch") -> RunFolder:
    """The run's folder, its packets analysed; SIGINT and SIGTERM end it in order.

    UsageError: the flow, a point or an interface cannot be. LabError: the kernel lets nobody watch, an agent failed, or
    no packet of the flow was seen.
    """
    rules = parse_flow(asked.flow)
    points = [parse_point(text) for text in asked.at]
    if not points:
        raise UsageError("no interface is named", where="latlab watch", remedy="latlab watch --at eth0 --at br0")
    if elsewhere := next((point for point in points if point.machine is not None), None):
        what = f"{elsewhere.name} is on another machine, and only this one can be watched"
        raise UsageError(what, where="--at", remedy="watch there, by its own latlab")
    if os.geteuid() != 0:
        raise LabError("packets are watched by BPF programs, which takes root", remedy="run with sudo")
    machine = LocalHost(MACHINE)
    found = _merged([await _find(point, machine) for point in points])
    folder = RunFolder.create(root, name)
    folder.write_watch({"flow": asked.flow, "at": list(asked.at), "for_ns": asked.for_ns})
    with folder.alive():
        await _record(asked, rules, found, machine, folder, listener)
        try:
            finish_watch(folder)
        except LabError:
            if not folder.cells() and not _anything_recorded(folder):
                shutil.rmtree(folder.path)
            raise
    return folder


def _anything_recorded(folder: RunFolder) -> bool:
    kernels = folder.run()["watch"]["kernels"]
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
    links = json.loads((await host.run(("ip", "-j", "-d", "link", "show"))).stdout)
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
        raise UsageError(what, where="--at", remedy="watch the interface that it stands on")
    return replace(found, point=replace(point, directions=("out",)), note=f"{what}; packets that leave are")


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
    rules: Sequence[Mapping[str, Any]],
    found: Sequence[_Found],
    machine: Host,
    folder: RunFolder,
    listener: Listener,
) -> None:
    """Record what passes, until the time is over or a signal comes; run.json has it all."""
    run_id = secrets.token_hex(8)
    (folder.path / "watch").mkdir()
    kernel: dict[str, Any] = {"host": machine.name, "recording": "watch-0", "ready": None, "done": None}
    document: dict[str, Any] = {
        "flow": asked.flow,
        "rules": list(rules),
        "for_ns": asked.for_ns,
        "snap": asked.snap,
        "clock_bound_ns": asked.clock_bound_ns,
        "run_id": run_id,
        "points": [
            {"name": one.point.name, "kernel": 0, "number": number, "directions": list(one.point.directions)}
            for number, one in enumerate(found)
        ],
        "kernels": [kernel],
        "notes": [one.note for one in found if one.note],
    }
    run = {
        **folder.run(),
        "format": RUN_FORMAT,
        "description": f"Watched: {asked.flow}",
        "versions": {"latlab": latlab.__version__},
        "watch": document,
    }
    folder.write_run(run)
    spec = {
        "run_id": run_id,
        "recording": str((folder.path / "watch" / "watch-0").resolve()),
        "realtime": {},
        "points": [{"netns": one.netns, "ifindex": one.ifindex} for one in found],
        "rules": list(rules),
        "snap": asked.snap,
        "ring_records": asked.ring,
    }
    status = "interrupted"
    try:
        async with TestBed(folder.id, {machine.name: machine}) as bed:
            agent = await Agent.start(bed, machine, str(find_agent()), "watch", spec, listener)
            try:
                kernel["ready"] = agent.ready_said
                folder.write_run(run)
                listener(Phase(WATCHING))
                if await until_told(_wait(agent, asked.for_ns)):
                    status = "ended"
            finally:
                kernel["done"] = await agent.stop(bed)
    except BaseException:
        if kernel["ready"] is None:
            shutil.rmtree(folder.path)
        raise
    finally:
        if folder.path.exists():
            folder.write_run({**run, "ended": datetime.now(UTC).isoformat(timespec="seconds"), "status": status})


async def _wait(agent: Agent, for_ns: int | None) -> None:
    """Until the time is over, and packets in flight have come. LabError: the agent has ended before."""
    seconds = None if for_ns is None else (for_ns + GRACE_NS) / 1e9
    done, _ = await asyncio.wait([agent.done], timeout=seconds)
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
