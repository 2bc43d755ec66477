"""A cell's agents: which are started where, and what each is told."""

from __future__ import annotations

from latlab.recordings.run_folder import CellFolder
from latlab.run.agent import Agent
from latlab.run.events import Listener
from latlab.run.fetch import Recordings
from latlab.run.outcome import Outcome
from latlab.run.probe_specs import ping_spec, pong_spec, timer_spec, verb_of
from latlab.run.specs import Bed, listen_spec, talk_spec, with_live
from latlab.run.trace_specs import entry_spec, trace_spec, waking_spec
from latlab.testbed.apply import TestBed
from latlab.testbed.places import Places
from latlab.testbed.site import Site
from latlab.testbed.step import Spec
from latlab.testbed.tuning.threads import guest_threads_command, pid_file


class Agents:
    """Each is ready once the method that starts it has returned, and known to the cell's outcome. LabError: it is not.

    talking: those that send, or wait for instants, and finish by themselves. listening: those that go on
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

    async def listen(self, host: str, at: Bed) -> None:
        """Nothing; the streams that end on the host are listened for."""
        spec = listen_spec(self._scenario, host, at, self._outcome.run_id, self._recording(host, "listen", host))
        await self._start(self.listening, host, "listen", spec)

    async def talk(self, host: str, at: Bed) -> None:
        """Nothing; the streams that begin on the host wait for their start."""
        spec = talk_spec(self._scenario, host, at, self._outcome.run_id, self._recording(host, "talk", host))
        await self._start(self.talking, host, "talk", spec)

    async def pong(self, name: str, at: Bed) -> None:
        """Nothing; a ping's questions are answered."""
        _, host = self._scenario.probe_hosts(name)
        spec = pong_spec(self._scenario, name, at, self._outcome.run_id, self._recording(host, "pong", name))
        await self._start(self.listening, host, "pong", spec, probe=name)

    async def ping(self, name: str, at: Bed) -> None:
        """Nothing; a ping's questions wait for their start."""
        host, _ = self._scenario.probe_hosts(name)
        spec = ping_spec(self._scenario, name, at, self._outcome.run_id, self._recording(host, "ping", name))
        await self._start(self.talking, host, "ping", spec, probe=name)

    async def timer(self, name: str) -> None:
        """Nothing; a timer waits for its start: where it traces, that has been tried."""
        (host,) = self._scenario.probe_hosts(name)
        spec = timer_spec(self._scenario, name, self._outcome.run_id, self._recording(host, "timer", name))
        await self._start(self.talking, host, "timer", spec, probe=name)

    async def trace(self, host: str) -> None:
        """Nothing; what happens to packets on their way to what receives on the host, which is ready, is recorded."""
        receivers = self._scenario.receivers[host]
        own = (agent for agent in self.listening if agent.host.name == host and agent.probe in receivers)
        threads = [_thread(agent) for agent in own]
        spec = trace_spec(self._scenario, host, threads, self._outcome.run_id, self._recording(host, "trace", host))
        await self._start(self.listening, host, "trace", spec)

    async def trace_timer(self, name: str) -> None:
        """Nothing; how the thread of a timer, which is ready, is woken is recorded."""
        (host,) = self._scenario.probe_hosts(name)
        threads = [_thread(agent) for agent in self.talking if agent.probe == name]
        spec = waking_spec(threads, self._outcome.run_id, self._recording(host, "waking", name))
        await self._start(self.listening, host, "waking", spec, of=name)

    async def trace_entries(self, name: str) -> None:
        """Nothing; how interrupts come into the guest is being recorded on its VM host, where KVM runs it."""
        guest = self._scenario.guests[name]
        if not any(one.name == name and one.acceleration == "kvm" for one in self._outcome.guests):
            return
        site = self._site.on(self._scenario.machine_of(name))
        found = await self._bed.hosts[guest.host].run(guest_threads_command(pid_file(name, guest, site)))
        threads = [int(thread) for thread in found.stdout.split()]
        spec = entry_spec(threads, self._outcome.run_id, self._recording(guest.host, "entry", name))
        await self._start(self.listening, guest.host, "entry", spec, of=name)

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
    ) -> None:
        """probe: whose agent it is. of: the guest or the timer beside which it traces."""
        binary, place = self._places.agent(host), self._bed.hosts[host]
        verb = "trace" if of else verb_of(self._scenario, probe, role) if probe else role
        if self._outcome.live and verb != "trace":
            spec = with_live(spec)
        of = of or probe
        agent = await Agent.start(self._bed, place, binary, verb, spec, self._listener, of, role=role)
        group.append(agent)
        self._outcome.agents.append(agent)
        await self._recordings.follow(place, role, self._folder.prefix(role, of or host))


def _thread(agent: Agent) -> int:
    """The number of the thread by which it measures, as it said when it was ready."""
    thread = agent.known.realtime.tid
    assert thread, agent.title
    return thread
