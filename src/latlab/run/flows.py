"""The flows of a cell, watched where they pass interfaces while it is measured: one agent for each flow and kernel."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import polars as pl

from latlab.hosts import Host
from latlab.imports.base import PacketStream, ReadFiles
from latlab.imports.packets import packet_table
from latlab.imports.watched import NothingSeenError, read_watched
from latlab.imports.write import packets_entry
from latlab.model.directions import READ
from latlab.model.errors import LabError, UsageError
from latlab.model.reasons import reason_of
from latlab.recordings.cell import ClockEdge, Guest, RecordedStream, WatchedFlow
from latlab.recordings.run_folder import CellFolder, publishing
from latlab.run.agent import Agent
from latlab.run.drops import drops_watched_on, emulated_of
from latlab.run.fetch import Recordings
from latlab.run.watching import (
    SOCKETS,
    FoundInterface,
    Keep,
    KernelOfPoints,
    WatchRecordings,
    find,
    judged_between,
    merged,
    notes_of,
    points_of,
    start_all,
    stop_all,
    trigger_spec,
)
from latlab.scenario import Scenario
from latlab.scenario.watched import SOCKET, TAP, FlowAsked, FlowPoint, of_two_kernels, parse_flow
from latlab.testbed.apply import TestBed
from latlab.testbed.places import Places
from latlab.testbed.step import Spec

TOOL = "latlab watch"
"""What `tool` of a stream of cell.json is, whose packets were watched."""
StartOn = Callable[[Agent], int]
"""When the streams start, by the CLOCK_TAI of an agent's host."""


@dataclass
class _Flow:
    """A flow, and the kernels that it is watched on. starts: when the streams started, by each kernel's clock."""

    name: str
    asked: FlowAsked
    kernels: list[KernelOfPoints] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)


class FlowWatch:
    """The flows of a cell. LabError: an interface is not there, or a kernel does not allow watching."""

    def __init__(
        self, scenario: Scenario, bed: TestBed, places: Places, recordings: Recordings, folder: CellFolder
    ) -> None:
        self._scenario = scenario
        self._bed = bed
        self._places = places
        self._recordings = recordings
        self._folder = folder
        self._run_id = ""
        self._flows = [_Flow(name, asked) for name, asked in scenario.watched.items()]

    async def start(self, run_id: str, guests: Sequence[Guest]) -> None:
        """Watch from now on. guests: as cell.json has them, by which those in emulation are known."""
        self._run_id = run_id
        emulated = emulated_of(guests)
        for flow in self._flows:
            flow.kernels = await self._kernels(flow)
            to = WatchRecordings(self._bed, self._recordings, self._folder.path, run_id)
            keep = partial(self._keep, flow, emulated)
            await start_all(flow.kernels, to, parse_flow(flow.asked.match), keep, traced=flow.asked.trigger is not None)

    def _keep(self, flow: _Flow, emulated: Collection[str], kernel: KernelOfPoints) -> Keep:
        return keep_of(flow.asked, drops=drops_watched_on(self._scenario, kernel.host.name, emulated))

    @property
    def agents(self) -> list[Agent]:
        """Those that watch."""
        return [kernel.agent for flow in self._flows for kernel in flow.kernels if kernel.agent]

    async def pause(self, seconds: float) -> None:
        """Let so much time pass, by the clock of the first host that watches."""
        await self.agents[0].host.pause(seconds)

    def begin(self, start_on: StartOn) -> None:
        """Note when the streams start."""
        for flow in self._flows:
            flow.starts = [start_on(kernel.agent) for kernel in flow.kernels if kernel.agent]

    async def stop(self) -> None:
        """Have every agent write what it has. LabError: the first one that does not."""
        await stop_all([kernel for flow in self._flows for kernel in flow.kernels], self._bed)

    def known(self) -> list[WatchedFlow]:
        """`flows` of cell.json."""
        return [self._known(flow) for flow in self._flows if flow.kernels]

    def _known(self, flow: _Flow) -> WatchedFlow:
        scenario, asked = self._scenario, flow.asked
        grace_ns = scenario.settle // 2
        # By the clock of each kernel the same instants after the start: nothing that one saw before the last of them
        # reaches another after its end.
        lasted = [
            kernel.done.end_tai_ns - start
            for kernel, start in zip(flow.kernels, flow.starts, strict=False)
            if kernel.done and kernel.done.end_tai_ns
        ]
        last_ns = min([scenario.duration + grace_ns, *(ns - grace_ns for ns in lasted)])
        known = []
        for place, kernel in enumerate(flow.kernels):
            instants = {}
            if flow.starts:
                instants["from_tai_ns"] = flow.starts[place] + scenario.warmup
                if kernel.done:
                    instants["until_tai_ns"] = flow.starts[place] + last_ns
            known.append(kernel.known(**instants))
        return WatchedFlow(
            name=flow.name,
            flow=asked.match,
            filter=parse_flow(asked.match),
            snap=asked.snap,
            sample=asked.sample,
            run_id=self._run_id,
            points=points_of(flow.kernels),
            kernels=known,
            trigger=asked.trigger.text if asked.trigger else None,
            notes=notes_of(flow.kernels),
            grace_ns=grace_ns,
        )

    async def _kernels(self, flow: _Flow) -> list[KernelOfPoints]:
        """The kernels of a flow's points, with the interfaces that are there."""
        found: dict[str, KernelOfPoints] = {}
        trigger, ends = flow.asked.trigger, list[FoundInterface]()
        for point in flow.asked.at:
            name = self._scenario.watched_on(point)
            host = self._bed.hosts[name]
            recording = flow_recording(flow.name, name)
            kernel = found.setdefault(host.shared_kernel, KernelOfPoints(host, self._places.agent(name), recording))
            where = f"flows.{flow.name}"
            try:
                interface = flow_device(self._places, point)
                ends.append(await find(point.name, host, interface, point.directions, where))
                kernel.found.append(ends[-1])
            except UsageError as error:
                raise LabError(error.what, where=f"{where}: {error.where}", remedy=error.remedy) from None
        for kernel in found.values():
            kernel.found = merged(kernel.found)
        if trigger:
            kernels = [self._bed.hosts[self._scenario.watched_on(point)].shared_kernel for point in flow.asked.at]
            if mistake := of_two_kernels(flow.asked.at, kernels):
                what, remedy = mistake
                raise LabError(what, where=f"flows.{flow.name}: trigger", remedy=remedy)
            judging = found[kernels[0]]
            judging.trigger = trigger_spec(trigger, judging.found, (ends[0], ends[-1]))
        return list(found.values())


def keep_of(asked: FlowAsked, *, drops: bool) -> Keep:
    """What is recorded of a flow's packets. drops: also those that the kernel drops."""
    return Keep(snap=asked.snap, sample=asked.sample, drops=drops)


def flow_recording(flow: str, host: str) -> str:
    """The name of a flow's recording on the kernel of a host."""
    return f"flow-{flow}-{host}"


def flow_device(places: Places, point: FlowPoint) -> str:
    """The interface behind a flow's point."""
    host, interface = point.end
    return places.taps.get(host, interface) if interface == TAP else interface


def planned_point(scenario: Scenario, places: Places, point: FlowPoint) -> tuple[str, str | int, bool]:
    """What stands in a plan for the network namespace and the number of an interface, and whether it is read from."""
    host, device = scenario.watched_on(point), flow_device(places, point)
    return f"NETNS of {host}", SOCKETS if device == SOCKET else f"IFINDEX of {device}", READ in point.directions


def planned_trigger(asked: FlowAsked, points: Sequence[FlowPoint]) -> Spec | None:
    """By what the agent that watches these points judges packets in a plan; None: it does not."""
    if not asked.trigger or points[0] != asked.at[0] or points[-1] != asked.at[-1]:
        return None
    first, last = ((number, points[number].directions[0]) for number in (0, len(points) - 1))
    return judged_between(asked.trigger, first, last)


def flow_kernels(scenario: Scenario, hosts: Mapping[str, Host], asked: FlowAsked) -> dict[str, list[FlowPoint]]:
    """The first host of each kernel that a flow is watched on → the points there."""
    found: dict[str, tuple[str, list[FlowPoint]]] = {}
    for point in asked.at:
        name = scenario.watched_on(point)
        found.setdefault(hosts[name].shared_kernel, (name, []))[1].append(point)
    return dict(found.values())


@dataclass(frozen=True)
class FlowsRead:
    """The result of the recordings of a cell's flows: the flows with their notes, and their streams."""

    flows: list[WatchedFlow]
    streams: list[RecordedStream]


def read_flows(
    flows: Sequence[WatchedFlow], folder: CellFolder, clocks: Sequence[ClockEdge], first_number: int
) -> FlowsRead:
    """The flows of a cell, and the rows of its packet table that are theirs, which have been written.

    clocks: cell.json's. first_number: of their streams. What cannot be read of a flow is one of its problems.
    """
    told, entries = list[WatchedFlow](), list[RecordedStream]()
    for flow in flows:
        if not all((folder.path / f"{kernel.recording}.watched.arrow").exists() for kernel in flow.kernels):
            told.append(flow)
            continue
        found = _read(flow, folder, clocks)
        streams = [replace(one, name=f"{flow.name}.{one.name}") for one in found.streams]
        if streams:
            first = first_number + len(entries)
            with publishing(folder.flow_packets_path(flow.name)) as temporary:
                numbered = pl.col("stream") + pl.lit(first - 1, pl.UInt16)
                rows = packet_table(streams).with_columns(numbered)
                rows.write_parquet(temporary, compression="zstd", compression_level=1)
            entries += [_entry(first + place, one, flow.name) for place, one in enumerate(streams)]
        read = {
            "notes": list(found.notes),
            "left_out": list(found.left_out),
            "problems": list(found.problems),
            "flights": list(found.flights),
            "packets": dict(found.facts.get("packets", {})),
        }
        told.append(flow.model_copy(update=read))
    return FlowsRead(told, entries)


def _entry(number: int, stream: PacketStream, flow: str) -> RecordedStream:
    talker, listener = stream.hosts
    own = {"talker": talker, "listener": listener, "tool": TOOL, "flow": flow, "period_ns": None}
    return packets_entry(number, stream).model_copy(update=own)


def _read(flow: WatchedFlow, folder: CellFolder, clocks: Sequence[ClockEdge]) -> ReadFiles:
    try:
        return read_watched(flow, folder.path, clocks)
    except NothingSeenError as error:
        expected = f"packets of {flow.flow!r}"
        problem = reason_of("packets-arrived", "", expected, error.what, error.remedy, case="flow")
    except LabError as error:
        expected = "a complete recording of each kernel"
        problem = reason_of("recordings-whole", error.where, expected, error.what, error.remedy, case="unread")
    return ReadFiles(TOOL, "", "", notes=tuple(flow.notes), problems=(problem,))
