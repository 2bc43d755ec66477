"""A cell's agents: which are started where, and with what spec."""

from __future__ import annotations

from collections.abc import Collection

from latlab.hosts import Host
from latlab.recordings.run_folder import CellFolder
from latlab.run.agent import Agent
from latlab.run.events import Listener
from latlab.run.fetch import Recordings
from latlab.run.flight import Flight
from latlab.run.outcome import Outcome
from latlab.run.probe_specs import ping_spec, pong_spec, timer_spec, verb_of
from latlab.run.specs import BedFacts, entry_spec, listen_spec, talk_spec, trace_spec, waking_spec, with_live
from latlab.scenario import BoardHost, End, Scenario
from latlab.testbed.apply import TestBed
from latlab.testbed.places import Places
from latlab.testbed.site import Site
from latlab.testbed.step import Spec
from latlab.testbed.timestamping import hardware_stamps_step, parse_timestamping
from latlab.testbed.tuning.threads import guest_threads_command, pid_file


class Agents:
    """Each is ready once the method that starts it has returned, and known to the cell's outcome. LabError: it is not.

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

    async def listen(self, host: str, at: BedFacts) -> None:
        """Start listening for the streams that end on the host."""
        spec = listen_spec(self._scenario, host, at, self._outcome.run_id, self._recording(host, "listen", host))
        agent = await self._start(self.listening, host, "listen", spec)
        if self._flight and host in self._scenario.kept:
            self._flight.judges(agent)

    async def talk(self, host: str, at: BedFacts) -> None:
        """Start the talker of the streams that begin on the host; it waits for their start."""
        spec = talk_spec(self._scenario, host, at, self._outcome.run_id, self._recording(host, "talk", host))
        await self._start(self.talking, host, "talk", spec)

    async def pong(self, name: str, at: BedFacts) -> None:
        """Start answering a ping's questions."""
        _, host = self._scenario.probe_hosts(name)
        spec = pong_spec(self._scenario, name, at, self._outcome.run_id, self._recording(host, "pong", name))
        await self._start(self.listening, host, "pong", spec, probe=name)

    async def ping(self, name: str, at: BedFacts) -> None:
        """Start the asker of a ping; its questions wait for their start."""
        host, _ = self._scenario.probe_hosts(name)
        spec = ping_spec(self._scenario, name, at, self._outcome.run_id, self._recording(host, "ping", name))
        await self._start(self.talking, host, "ping", spec, probe=name)

    async def timer(self, name: str) -> None:
        """Start a timer, which waits for its start: where it traces, that has been tried."""
        (host,) = self._scenario.probe_hosts(name)
        spec = timer_spec(self._scenario, name, self._outcome.run_id, self._recording(host, "timer", name))
        await self._start(self.talking, host, "timer", spec, probe=name)

    async def trace(self, host: str) -> None:
        """Record what happens to packets on their path to what receives on the host, which is ready."""
        receivers = self._scenario.receivers[host]
        own = (agent for agent in self.listening if agent.host.name == host and agent.probe in receivers)
        threads = [_thread(agent) for agent in own]
        spec = trace_spec(self._scenario, host, threads, self._outcome.run_id, self._recording(host, "trace", host))
        self._keeps(host, await self._start(self.listening, host, "trace", spec), spec)

    async def trace_timer(self, name: str) -> None:
        """Record how the thread of a timer, which is ready, is woken."""
        (host,) = self._scenario.probe_hosts(name)
        threads = [_thread(agent) for agent in self.talking if agent.probe == name]
        spec = waking_spec(threads, self._outcome.run_id, self._recording(host, "waking", name))
        await self._start(self.listening, host, "waking", spec, of=name)

    async def trace_entries(self, name: str) -> None:
        """Record how interrupts come into the guest on its VM host, where KVM runs it."""
        guest = self._scenario.guests[name]
        if not any(one.name == name and one.acceleration == "kvm" for one in self._outcome.guests):
            return
        site = self._site.on(self._scenario.machine_of(name))
        found = await self._bed.hosts[guest.host].run(guest_threads_command(pid_file(name, guest, site)))
        threads = [int(thread) for thread in found.stdout.split()]
        recording = self._recording(guest.host, "entry", name)
        spec = entry_spec(self._scenario, name, threads, self._outcome.run_id, recording)
        self._keeps(name, await self._start(self.listening, guest.host, "entry", spec, of=name), spec)

    def _keeps(self, host: str, agent: Agent, spec: Spec) -> None:
        """Note that the agent keeps windows around late packets of the host, if it is to."""
        if self._flight and spec.get("windows_only"):
            self._flight.keeps(host, agent)

    def _recording(self, host: str, verb: str, name: str) -> str:
        return self._recordings.prefix(self._bed.hosts[host], self._folder.prefix(verb, name))

    async def _start(
        self,
        group: list[Agent],
        host: str,
        role: str,
        spec: Spec,
        probe: str | None = None,
        of: str | None = None,
    ) -> Agent:
        """probe: whose agent it is. of: the guest or the timer next to which it traces."""
        binary, place = self._places.agent(host), self._bed.hosts[host]
        verb = "trace" if of else verb_of(self._scenario, probe, role) if probe else role
        if self._outcome.live and verb != "trace":
            spec = with_live(spec)
        of = of or probe
        hears = self._flight.hear if self._flight else self._listener
        kept = ("kept",) if spec.get("windows_only") else ()
        await self._recordings.receive(place, role, self._folder.prefix(role, of or host), kept)
        agent = await Agent.start(self._bed, place, binary, verb, spec, hears, of, role=role)
        group.append(agent)
        self._outcome.agents.append(agent)
        await self._recordings.follow(place, role, self._folder.prefix(role, of or host), kept)
        return agent


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
    host = scenario.hosts.get(card.host)
    if isinstance(host, BoardHost):
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
