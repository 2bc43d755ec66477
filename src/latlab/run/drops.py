"""Where each kernel drops packets of ours, watched while a cell is measured: one agent for each kernel."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from latlab.hosts import Host
from latlab.model.errors import LabError
from latlab.model.part import Failure
from latlab.recordings.cell import Guest, WatchedKernel
from latlab.recordings.run_folder import CellFolder
from latlab.run.agent import Agent
from latlab.run.fetch import Recordings
from latlab.run.specs import is_emulated_there
from latlab.scenario import Scenario
from latlab.scenario.streams import PROBE
from latlab.testbed.apply import TestBed
from latlab.testbed.places import Places
from latlab.testbed.step import Spec

EMULATED = "it is emulated, where the BPF program is expensive: `watch_drops: always` watches it, too"


def drops_spec(scenario: Scenario, run_id: str, recording: Path | str) -> Spec:
    """The spec of `latlab-agent drops`."""
    spec = {"run_id": run_id, "recording": str(recording), "realtime": {"lock_memory": False}}
    frames = list(dict.fromkeys((one.payload, one.size) for one in scenario.streams.values() if one.payload != PROBE))
    return {**spec, "frames": [{"payload": payload, "size": size} for payload, size in frames]} if frames else spec


@dataclass
class DropKernel:
    """A kernel: the hosts that share it, and the one on which its drops are watched. why_not: why no agent watches
    there.
    """

    hosts: list[str]
    watcher: str
    agent: Agent | None = None
    why_not: str | None = None
    error: Failure | None = None


def kernels_watched(scenario: Scenario, hosts: Mapping[str, Host], emulated: Collection[str]) -> list[DropKernel]:
    """The kernels of a scenario's hosts and guests. emulated: guests that run in software emulation."""
    if scenario.watch_drops == "never":
        return []
    together: dict[str, list[str]] = {}
    for name in (*scenario.hosts, *scenario.guests):
        together.setdefault(hosts[name].shared_kernel, []).append(name)
    found = [DropKernel(names, _watcher(scenario, names)) for names in together.values()]
    for kernel in found:
        if not drops_watched_on(scenario, kernel.watcher, emulated):
            kernel.why_not = EMULATED
    return found


def drops_watched_on(scenario: Scenario, host: str, emulated: Collection[str]) -> bool:
    """Whether drops are to be watched on the kernel of a host or guest."""
    is_emulated = is_emulated_there(scenario, host, emulated)
    return scenario.watch_drops == "always" or (scenario.watch_drops == "auto" and not is_emulated)


def emulated_of(guests: Sequence[Guest]) -> set[str]:
    """Guests that run in software emulation. guests: as cell.json has them."""
    return {guest.name for guest in guests if guest.acceleration != "kvm"}


def _watcher(scenario: Scenario, names: Sequence[str]) -> str:
    """Of the hosts of one kernel the one that watches it: rather one on which nothing else of ours runs.

    The namespace it runs in is known by it, as those of the others are by their own agents.
    """
    busy = {end for stream in scenario.streams.values() for end in (stream.talker, stream.listener)}
    busy |= {host for name in scenario.probes for host in scenario.probe_hosts(name)}
    return next((name for name in names if name not in busy), names[0])


class DropWatch:
    """The kernels of a cell's hosts and guests, each watched by one agent as far as it lets itself be watched.

    Nothing that is measured depends on it: an agent that does not start, or does not stop, is noted and fails no cell.
    """

    def __init__(
        self, scenario: Scenario, hosts: Mapping[str, Host], places: Places, recordings: Recordings, folder: CellFolder
    ) -> None:
        self._scenario = scenario
        self._hosts = hosts
        self._places = places
        self._recordings = recordings
        self._folder = folder
        self._kernels: list[DropKernel] = []

    async def start(self, bed: TestBed, run_id: str, guests: Sequence[Guest]) -> None:
        """Watch every kernel from now on. guests: as cell.json has them, by which those in emulation are known."""
        self._kernels = kernels_watched(self._scenario, self._hosts, emulated_of(guests))
        await asyncio.gather(*(self._start(bed, run_id, one) for one in self._kernels if one.why_not is None))

    def known(self) -> list[WatchedKernel]:
        """`drops` of cell.json: every kernel, who watches it, and what that has said."""
        return [
            WatchedKernel(
                host=one.watcher,
                hosts=one.hosts,
                ready=one.agent.known.ready if one.agent else None,
                done=one.agent.known.done if one.agent else None,
                why_not=one.why_not,
                error=one.error,
            )
            for one in self._kernels
        ]

    async def stop(self, bed: TestBed) -> None:
        """Have every agent write what it has."""
        for kernel in self._kernels:
            if kernel.agent and not bed.is_gone(kernel.watcher):
                try:
                    await kernel.agent.stop(bed)
                except LabError as error:
                    kernel.error = Failure.of(error)

    async def _start(self, bed: TestBed, run_id: str, kernel: DropKernel) -> None:
        host, prefix = self._hosts[kernel.watcher], self._folder.prefix("drops", kernel.watcher)
        spec = drops_spec(self._scenario, run_id, self._recordings.prefix(host, prefix))
        try:
            await self._recordings.receive(host, "drops", prefix)
            kernel.agent = await Agent.start(bed, host, self._places.agent(kernel.watcher), "drops", spec)
            await self._recordings.follow(host, "drops", prefix)
        except LabError as error:
            kernel.error = Failure.of(error)
