"""Kernels whose packets are watched, each by one agent: its interfaces found, recorded, and looked at again."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from latlab.hosts import Host, NamespaceHost
from latlab.model.directions import DIRECTIONS, IN, OUT, READ
from latlab.model.errors import LabError, UsageError
from latlab.model.limits import LIMITS
from latlab.model.part import Failure
from latlab.recordings.cell import RecordedAgent, Totals, WatchedBy, WatchedPoint
from latlab.run.agent import Agent
from latlab.run.events import Listener, ignore
from latlab.run.fetch import Recordings
from latlab.run.flight import WatchFlight
from latlab.run.specs import MARGIN_NS, around_spec
from latlab.scenario.limits import Trigger
from latlab.scenario.watched import SOCKET, Flow
from latlab.testbed.apply import TestBed
from latlab.testbed.step import Spec

SNAP: Final = LIMITS.snap_usual_bytes
RING: Final = 65_536
EVERY: Final = 1
"""One packet of so many is recorded."""
KEPT: Final = ("kept",)
"""What the agent that traces records beside the kernel's events."""
SOCKETS: Final = 0
"""In place of an interface's number, as the agent has it: what programs of the namespace send and receive."""
_READ_FROM: Final = ("tun", "macvtap", "ipvtap")
"""Kinds of interfaces whose packets vhost-net or a program reads."""
_TAKEN_IN_BELOW: Final = ("vlan", "macvlan", "macvtap", "ipvlan", "ipvtap", "bond", "team")
"""Kinds of interfaces whose packets the kernel hands up without receiving them again: traced below them."""


@dataclass(frozen=True)
class Keep:
    """What is recorded of packets: of so many one, chosen by its digest; of each so many bytes. ring: records that the
    rings in the kernel hold. drops: packets of the flow that the kernel drops, too.
    """

    snap: int = SNAP
    ring: int = RING
    sample: int = EVERY
    drops: bool = False

    @property
    def tables(self) -> tuple[str, ...]:
        """Those that the agent records beside the packets that were seen."""
        return ("dropped",) if self.drops else ()


@dataclass(frozen=True)
class FoundInterface:
    """An interface that is there. name: of the point, for people. host: in whose network namespace it is. directions:
    that are watched. netns: the inode of that namespace; ifindex: its number in it, or SOCKETS. note: what is to be
    known of it. became: what was the matter with it at the end; empty: nothing.
    """

    name: str
    host: Host
    interface: str
    directions: tuple[str, ...]
    netns: int
    ifindex: int
    note: str = ""
    became: str = ""

    @property
    def namespace(self) -> str:
        """The name of its network namespace; empty: its machine's own."""
        return self.host.namespace if isinstance(self.host, NamespaceHost) else ""

    @property
    def place(self) -> tuple[int, int, bool]:
        """By which the agent knows it: what is read from a tap is a point apart from what passes it."""
        return self.netns, self.ifindex, READ in self.directions


@dataclass(frozen=True)
class WatchRecordings:
    """Where agents that watch on a test bed record: under the run's id, in this folder as `recordings` bring it."""

    bed: TestBed
    recordings: Recordings
    folder: Path
    run_id: str

    async def receive(self, kernel: KernelOfPoints, verb: str, tables: Sequence[str]) -> Path | str:
        """What the names of these recordings begin with, on the kernel's host."""
        local = self._local(kernel)
        await self.recordings.receive(kernel.host, verb, local, tables)
        return self.recordings.prefix(kernel.host, local)

    async def follow(self, kernel: KernelOfPoints, verb: str, tables: Sequence[str]) -> None:
        """Bring them from now on."""
        await self.recordings.follow(kernel.host, verb, self._local(kernel), tables)

    def _local(self, kernel: KernelOfPoints) -> Path:
        return (self.folder / kernel.recording).resolve()


@dataclass
class KernelOfPoints:
    """A kernel whose packets are watched, by one agent. recording: its file's name. done_at: the event loop's time when
    that had ended. trigger: by which its agent judges packets; None: it does not. tracing: the agent that keeps the
    kernel's events around late packets; None: there is none. not_traced: why there is none, or why it ended early.
    """

    host: Host
    agent_path: str
    recording: str
    found: list[FoundInterface] = field(default_factory=list)
    trigger: Spec | None = None
    tracing: Agent | None = None
    not_traced: Failure | None = None
    agent: Agent | None = None
    done: Totals | None = None
    done_at: float = 0.0

    def known(self, **instants: int) -> WatchedBy:
        """What is known of it. instants: from_tai_ns and until_tai_ns."""
        said = {"ready": self.agent.known.ready if self.agent else None, "done": self.done}
        trace = {"trace": self._trace()} if self.tracing or self.not_traced else {}
        return WatchedBy.model_validate(
            {"host": self.host.name, "recording": self.recording, **said, **trace, **instants}
        )

    async def start(self, to: WatchRecordings, flow: Flow, keep: Keep, tell: Listener) -> None:
        """Watch from now on. LabError: the kernel does not allow watching, or the agent does not start."""
        points = [one.place for one in self.found]
        prefix = await to.receive(self, "watch", keep.tables)
        spec = watch_spec(to.run_id, prefix, points, flow, keep, self.trigger)
        self.agent = await Agent.start(to.bed, self.host, self.agent_path, "watch", spec, tell)
        await to.follow(self, "watch", keep.tables)

    async def stop(self, bed: TestBed) -> None:
        """Have the agent write what it has, and see what has become of the interfaces."""
        if self.agent:
            self.done = await self.agent.stop(bed)
            self.done_at = asyncio.get_running_loop().time()
        self.found = [await _looked_at_again(one) for one in self.found]

    async def start_tracing(self, to: WatchRecordings) -> None:
        """Hold the kernel's latest events from now on. Where it does not allow tracing, `not_traced` says why.

        LabError: it does not, and its agent is to judge packets.
        """
        prefix = await to.receive(self, "trace", KEPT)
        spec = around_spec(to.run_id, prefix)
        try:
            self.tracing = await Agent.start(to.bed, self.host, self.agent_path, "trace", spec)
        except LabError as error:
            if self.trigger:
                raise
            self.not_traced = Failure.of(error)
        else:
            await to.follow(self, "trace", KEPT)

    async def stop_tracing(self, bed: TestBed) -> None:
        """Have the agent that traces write what it is to keep. What was watched counts without it, too: where it has
        ended early, `not_traced` says why.
        """
        try:
            if self.tracing:
                await self.tracing.stop(bed)
        except LabError as error:
            self.not_traced = Failure.of(error)

    def _trace(self) -> RecordedAgent:
        """What is known of the agent that traces, or was to."""
        known = self.tracing.known if self.tracing else RecordedAgent(host=self.host.name, verb="trace")
        return known.model_copy(update={"error": known.error or self.not_traced})


async def start_all(
    kernels: Sequence[KernelOfPoints],
    to: WatchRecordings,
    flow: Flow,
    keep: Callable[[KernelOfPoints], Keep],
    *,
    traced: bool,
    listener: Listener = ignore,
) -> None:
    """Watch on every kernel from now on. traced: each holds its latest events for windows around late packets.

    LabError: a kernel does not allow that, or an agent does not start.
    """
    flight = WatchFlight(listener)
    for kernel in kernels if traced else ():
        await kernel.start_tracing(to)
        if kernel.tracing:
            flight.traces[kernel.host.name] = kernel.tracing
    for kernel in kernels:
        await kernel.start(to, flow, keep(kernel), flight.hear)


async def stop_all(kernels: Sequence[KernelOfPoints], bed: TestBed) -> None:
    """Have every agent write what it has, whatever becomes of the others. LabError: the first one that does not."""
    there = [kernel for kernel in kernels if not bed.is_gone(kernel.host.name)]
    # Those that trace after the last late packet has been reported.
    await bed.all_of_these(*(kernel.stop(bed) for kernel in there), *(kernel.stop_tracing(bed) for kernel in there))


def watch_spec(
    run_id: str,
    recording: Path | str,
    points: Iterable[tuple[int | str, int | str, bool]],
    flow: Flow,
    keep: Keep,
    trigger: Spec | None = None,
) -> Spec:
    """The spec of `latlab-agent watch`. points: network namespaces, the numbers of interfaces in them, and whether
    what is read from them is meant.
    """
    # An agent of an older image knows no other keys than it needs.
    more: Spec = ({"sample": keep.sample} if keep.sample > EVERY else {}) | ({"drops": True} if keep.drops else {})
    return {
        "run_id": run_id,
        "recording": str(recording),
        "realtime": {},
        "points": [
            {"netns": netns, "ifindex": ifindex} | ({"read": True} if read else {}) for netns, ifindex, read in points
        ],
        "flow": flow,
        "snap": keep.snap,
        **more,
        **({"trigger": trigger} if trigger else {}),
        "ring_records": keep.ring,
    }


def trigger_spec(trigger: Trigger, found: Sequence[FoundInterface], ends: Sequence[FoundInterface]) -> Spec:
    """By what the agent judges packets. found: the points of its kernel, each once; ends: the first and the last."""
    numbers = {one.place: number for number, one in enumerate(found)}
    first, last = ((numbers[end.place], end.directions[0]) for end in ends)
    return judged_between(trigger, first, last)


def judged_between(trigger: Trigger, first: tuple[int, str], last: tuple[int, str]) -> Spec:
    """`trigger` of the spec of `latlab-agent watch`, from a point and direction to another."""
    ends = [{"point": number, "out": direction != IN} for number, direction in (first, last)]
    return {"from": ends[0], "to": ends[1], "above_ns": trigger.above_ns, "margin_ns": MARGIN_NS}


def points_of(kernels: Sequence[KernelOfPoints]) -> list[WatchedPoint]:
    """The points of all kernels."""
    return [
        WatchedPoint.model_validate(
            {"name": one.name, "kernel": at, "number": number, "directions": list(one.directions), "netns": one.netns}
            # A namespace that no scenario names has the point's own name.
            | ({"host": one.host.name} if one.host.name != one.name else {})
            | ({"became": one.became} if one.became else {})
            | ({"is_sockets": True} if one.ifindex == SOCKETS else {})
        )
        for at, kernel in enumerate(kernels)
        for number, one in enumerate(kernel.found)
    ]


def notes_of(kernels: Sequence[KernelOfPoints]) -> list[str]:
    """What is to be known of the points of all kernels."""
    return [one.note for kernel in kernels for one in kernel.found if one.note]


async def find(name: str, host: Host, interface: str, directions: tuple[str, ...], where: str) -> FoundInterface:
    """The interface, looked for on its host. UsageError: it is not there. where: what asks for it."""
    inode = int((await host.run(("stat", "-Lc", "%i", "/proc/self/ns/net"))).stdout)
    if interface == SOCKET:
        return FoundInterface(name, host, interface, directions, inode, SOCKETS)
    links = await _links(host)
    link = next((one for one in links if one.get("ifname") == interface), None)
    if link is None:
        remedy = f"it has {', '.join(one['ifname'] for one in links)}"
        raise UsageError(f"there is no interface {interface!r}", where=name, remedy=remedy)
    found = FoundInterface(name, host, interface, directions, inode, link["ifindex"])
    kind = link.get("linkinfo", {}).get("info_kind", "")
    if READ in directions and kind not in _READ_FROM:
        what = f"nothing reads packets from {name}: it is not a tap or macvtap"
        raise UsageError(what, where=where, remedy=f"{name}:{IN} or {name}:{OUT}")
    if kind not in _TAKEN_IN_BELOW or IN not in directions:
        return found
    what = f"the kernel receives packets of {name} ({kind}) at the interface below it: they are not seen here"
    if directions == (IN,):
        raise UsageError(what, where=where, remedy="watch the interface below it")
    return replace(found, directions=(OUT,), note=f"{what}; packets that leave are")


def merged(found: Sequence[FoundInterface]) -> list[FoundInterface]:
    """Each interface once, with all directions that are asked for."""
    once: dict[tuple[int, int, bool], FoundInterface] = {}
    for one in found:
        before = once.get(one.place, one)
        directions = tuple(way for way in DIRECTIONS if way in (*before.directions, *one.directions))
        once[one.place] = replace(before, directions=directions)
    return list(once.values())


async def _links(host: Host) -> list[dict[str, Any]]:
    """The interfaces of a host or namespace, as ip shows them."""
    links: list[dict[str, Any]] = json.loads((await host.run(("ip", "-j", "-d", "link", "show"))).stdout)
    return links


async def _looked_at_again(found: FoundInterface) -> FoundInterface:
    """The interface, with what has become of it."""
    if await found.host.is_gone():
        return replace(found, became=f"the network namespace {found.namespace!r} no longer exists")
    if found.ifindex == SOCKETS:
        return found
    links = {link["ifindex"]: link["ifname"] for link in await _links(found.host)}
    if (name := links.get(found.ifindex)) is None:
        other = ": another interface has its name now" if found.interface in links.values() else ""
        return replace(found, became=f"the interface no longer exists{other}")
    return replace(found, became="" if name == found.interface else f"its name is {name!r} now")
