"""A cell's agents: which are started where, and with what spec."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from latlab.hosts import Host
from latlab.recordings.run_folder import CellFolder
from latlab.run.agent import Agent
from latlab.run.events import Listener
from latlab.run.fetch import Recordings
from latlab.run.flight import Flight
from latlab.run.outcome import Outcome
from latlab.run.probe_specs import ping_spec, pings, pong_spec, timer_spec, verb_of
from latlab.run.specs import (
    BedFacts,
    entry_spec,
    listen_spec,
    listeners,
    talk_spec,
    talkers,
    trace_spec,
    waking_spec,
    with_live,
)
from latlab.scenario import End, Scenario
from latlab.testbed.apply import TestBed
from latlab.testbed.places import Places
from latlab.testbed.site import Site
from latlab.testbed.step import Spec
from latlab.testbed.timestamping import hardware_stamps_step, parse_timestamping
from latlab.testbed.tuning.threads import guest_threads_command, pid_file


@dataclass(frozen=True)
class SpecInput:
    """What an agent's spec is made with. threads: those that it traces, by their numbers."""

    at: BedFacts
    run_id: str
    recording: Path | str
    threads: Sequence[int | str] = ()


SPECS: Final[Mapping[str, Callable[[Scenario, str, SpecInput], Spec]]] = {
    "listen": lambda scenario, host, its: listen_spec(scenario, host, its.at, its.run_id, its.recording),
    "talk": lambda scenario, host, its: talk_spec(scenario, host, its.at, its.run_id, its.recording),
    "pong": lambda scenario, probe, its: pong_spec(scenario, probe, its.at, its.run_id, its.recording),
    "ping": lambda scenario, probe, its: ping_spec(scenario, probe, its.at, its.run_id, its.recording),
    "timer": lambda scenario, probe, its: timer_spec(scenario, probe, its.run_id, its.recording),
    "trace": lambda scenario, host, its: trace_spec(scenario, host, its.threads, its.run_id, its.recording),
    "entry": lambda scenario, guest, its: entry_spec(scenario, guest, its.threads, its.run_id, its.recording),
    "waking": lambda scenario, timer, its: waking_spec(its.threads, its.run_id, its.recording),
}
"""What an agent does for the lab → its spec, by whom it is named by."""


@dataclass(frozen=True)
class Planned:
    """An agent of a cell. role: what it does for the lab. of: the probe that it belongs to, or the guest or timer next
    to which it traces; None: its host is enough to name it.

    does: in words. started: it waits for the start after that, and finishes on its own. threads: how many it traces, in
    a plan.
    """

    host: str
    verb: str
    role: str
    does: str
    of: str | None = None
    started: bool = False
    threads: int = 0

    @property
    def name(self) -> str:
        """What its recordings are named by, after its role."""
        return self.of or self.host

    def spec(self, scenario: Scenario, given: SpecInput) -> Spec:
        """What it gets on its standard input."""
        return SPECS[self.role](scenario, self.name, given)

    @property
    def is_early(self) -> bool:
        """Whether it has to be ready before anything that sends, or waits for instants, is."""
        return not self.started and self.role != "waking"


def agents_of(scenario: Scenario, by_kvm: Collection[str]) -> Iterator[Planned]:
    """The cell's agents in the order in which they start, but those that watch drops, flows and clocks.

    by_kvm: guests that KVM runs.
    """
    for host in listeners(scenario):
        yield Planned(host, "listen", "listen", "listens")
    for name in pings(scenario):
        _, host = scenario.probe_hosts(name)
        verb = verb_of(scenario, name, "pong")
        yield Planned(host, verb, "pong", f"answers {name}", name)
    for host in scenario.traced:
        does, count = "traces what receives, whose thread is `tid` of its `ready`", len(scenario.receivers[host])
        yield Planned(host, "trace", "trace", does, threads=count)
    for name in scenario.entered:
        if name in by_kvm:
            does = f"traces how interrupts come into {name}, in whose QEMU and vhost the threads are TID"
            host = scenario.guests[name].host
            yield Planned(host, "trace", "entry", does, name, threads=1)
    for host in talkers(scenario):
        yield Planned(host, "talk", "talk", "talks", started=True)
    for name in pings(scenario):
        host, _ = scenario.probe_hosts(name)
        verb = verb_of(scenario, name, "ping")
        yield Planned(host, verb, "ping", f"asks {name}", name, started=True)
    for name in scenario.timers:
        (host,) = scenario.probe_hosts(name)
        does = f"waits for {name}"
        yield Planned(host, "timer", "timer", does, name, started=True)
    for name in scenario.traced_timers:
        (host,) = scenario.probe_hosts(name)
        does = f"traces {name}, whose thread is `tid` of its `ready`"
        yield Planned(host, "trace", "waking", does, name, threads=1)


class Agents:
    """Each is ready once `start` has returned, and known to the cell's outcome. LabError: it is not.

    talking: those that send, or wait for instants, and finish on their own. listening: those that run on
    until they are stopped.
    """

    def __init__(
        self,
        outcome: Outcome,
        bed: TestBed,
        site: Site,
        places: Places,
        recordings: Recordings,
        folder: CellFolder,
        listener: Listener,
        flight: Flight | None = None,
    ) -> None:
        self.talking: list[Agent] = []
        self.listening: list[Agent] = []
        self._outcome = outcome
        self._scenario = outcome.run.cell.scenario
        self._bed = bed
        self._site = site
        self._places = places
        self._recordings = recordings
        self._folder = folder
        self._listener = listener
        self._flight = flight

    async def start(self, planned: Planned, at: BedFacts) -> None:
        """Start an agent; what it traces is ready."""
        place, prefix = self._bed.hosts[planned.host], self._folder.prefix(planned.role, planned.name)
        recording, threads = self._recordings.prefix(place, prefix), await self._threads(planned)
        spec = planned.spec(self._scenario, SpecInput(at, self._outcome.run_id, recording, threads))
        if self._outcome.live and planned.verb != "trace":
            spec = with_live(spec)
        hears = self._flight.hear if self._flight else self._listener
        kept = ("kept",) if spec.get("windows_only") else ()
        await self._recordings.receive(place, planned.role, prefix, kept)
        binary = self._places.agent(planned.host)
        agent = await Agent.start(self._bed, place, binary, planned.verb, spec, hears, planned.of, role=planned.role)
        (self.talking if planned.started else self.listening).append(agent)
        self._outcome.agents.append(agent)
        await self._recordings.follow(place, planned.role, prefix, kept)
        if self._flight and planned.role == "listen" and planned.host in self._scenario.kept:
            self._flight.judges(agent)
        if self._flight and kept:
            self._flight.keeps(planned.name, agent)

    async def _threads(self, planned: Planned) -> list[int]:
        """The threads that an agent traces, by their numbers; none of one that traces nothing."""
        match planned.role:
            case "trace":
                receivers = self._scenario.receivers[planned.host]
                own = (one for one in self.listening if one.host.name == planned.host and one.probe in receivers)
                return [_thread(agent) for agent in own]
            case "waking":
                return [_thread(agent) for agent in self.talking if agent.probe == planned.of]
            case "entry":
                guest, site = (
                    self._scenario.guests[planned.name],
                    self._site.on(self._scenario.machine_of(planned.name)),
                )
                command = guest_threads_command(pid_file(planned.name, guest, site))
                found = await self._bed.hosts[guest.host].run(command)
                return [int(thread) for thread in found.stdout.split()]
        return []


def _thread(agent: Agent) -> int:
    """The number of the thread by which it measures, as it said when it was ready."""
    thread = agent.known.realtime.tid
    assert thread, agent.title
    return thread


# What the agents' specs need to know of a cell's interfaces: their MACs, and which of them stamp in hardware.


async def look_at_interfaces(
    scenario: Scenario, bed: TestBed, places: Places, emulated: Collection[str] = ()
) -> BedFacts:
    """The interfaces that recorded packets begin and end at; hardware stamping is turned on where a NIC has it.

    emulated: guests that run in software emulation.
    """
    macs: dict[str, str] = {}
    able: dict[End, bool] = {}
    hardware: set[str] = set()
    for name in scenario.recorded:
        route = scenario.route(name)
        for end in (route.talker_end, route.listener_end):
            if str(end) not in macs:
                device = places.device(end)
                macs[str(end)] = await _mac(bed.hosts[end.host], device)
                # What stamps is below a VLAN interface; a bridge that stands for an end has nothing below.
                card = End(end.host, scenario.parent_of(end).interface if device == end.interface else device)
                if card not in able:
                    able[card] = await _turn_hardware_stamps_on(card, scenario, bed)
                if able[card]:
                    hardware.add(str(end))
    return BedFacts(macs, frozenset(hardware), places, frozenset(emulated))


async def _turn_hardware_stamps_on(card: End, scenario: Scenario, bed: TestBed) -> bool:
    if card.host in scenario.boards:
        # QEMU's cards say that they stamp packets: e1000e never does, and igb only what is a message of PTP.
        return False
    said = await bed.hosts[card.host].run(("ethtool", "-T", card.interface), check=False)
    if said.returncode != 0:
        return False
    step = hardware_stamps_step(card.host, card.interface, parse_timestamping(said.stdout))
    if step is None:
        return False
    (done,) = await bed.apply([step])
    return done.ok


async def _mac(host: Host, device: str) -> str:
    return (await host.run(("cat", f"/sys/class/net/{device}/address"))).stdout.strip()
