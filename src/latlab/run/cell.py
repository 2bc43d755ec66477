"""One cell: the test bed up, everything started in order, measured, stopped, and the test bed down again."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from latlab.hosts import Host
from latlab.hosts.turns import fine_us
from latlab.model.errors import LabError, LatlabError, StartError, UnavailableError, after_that, system_error
from latlab.model.facts import Facts
from latlab.model.labels import VIRTUAL
from latlab.model.part import Failure
from latlab.model.units import SECOND_NS
from latlab.recordings.cell import RecordedCell, RecordedStep
from latlab.recordings.packets import build_packets
from latlab.recordings.run_folder import CellFolder
from latlab.run.agent import OVERLOADED, Agent
from latlab.run.agents import Agents, agents_of, look_at_interfaces
from latlab.run.beds import SharedBed
from latlab.run.clocks import ClockWatch
from latlab.run.drops import DropWatch, emulated_of
from latlab.run.events import Listener, Phase, Waiting
from latlab.run.fetch import Recordings
from latlab.run.flight import Flight
from latlab.run.flows import FlowWatch, read_flows
from latlab.run.outcome import Outcome
from latlab.run.probes import Tools, nobody_answered
from latlab.run.ptp import PtpWatch
from latlab.run.start import Start, choose_start, now_tai_ns
from latlab.scenario import MatrixRun, Scenario
from latlab.scenario.network import INNER
from latlab.testbed.apply import Awaited, Tell, TestBed
from latlab.testbed.guests import (
    described_bridges,
    described_guests,
    described_guests_running,
)
from latlab.testbed.guests.start import start_conditions
from latlab.testbed.images import is_whole
from latlab.testbed.loads import plan_loads
from latlab.testbed.loads.runner import LoadRunner, exit_counters
from latlab.testbed.machines import machine_snapshots, machine_steps, planned_sites, seen_sites
from latlab.testbed.machines.board_qemu import INSTRUCTIONS_PER_NS, virtual_time_by
from latlab.testbed.makers import make_hosts, test_bed_steps
from latlab.testbed.places import find_places
from latlab.testbed.site import Site
from latlab.testbed.unavailable import unavailable

SAME_TAG = "0000"
"""Marks what is made on a board in virtual time, which has it to itself: two runs are to be alike to the last name."""
SAME_RUN = "0000000000000001"
"""The run that its agents' packets are of: agents that are ready are shared, too."""
EMULATORS = ("TCGTCGTCGTCG",)
"""CPUID signatures of plain emulation (QEMU's TCG): its figures say nothing about speed."""
QUIET_S = 0.05
"""So long a board is left alone before it is kept, by its own clock: QEMU takes up no machine of which a CPU is in a
guest at that moment (cpu_post_load() in target/i386/machine.c), and guests that have nothing to do are not in it."""
KEEPING = "keep the test bed for the cells that share it"
START_LEAD_NS = 200_000_000  # enough for every talker to get the start time before it comes
VIRTUAL_LEAD_NS = 50_000_000
"""The same in virtual time, where talkers get it in the next turn, and the lab's machine delays nobody."""
SPARE_S = 30.0
WATCH_S = 0.2
LOAD_MARGIN_NS = 2 * SECOND_NS
"""A load of fixed length is started before the streams and must not end before them."""


class Making:
    """Which snapshots of machines cells of a run make at present: each is made by one cell, others wait."""

    def __init__(self) -> None:
        self._locks: defaultdict[Path, asyncio.Lock] = defaultdict(asyncio.Lock)

    @contextlib.asynccontextmanager
    async def alone(self, snapshots: Iterable[Path]) -> AsyncIterator[None]:
        """Wait until no other cell makes any of them. All take theirs in one order: none wait in a circle."""
        async with contextlib.AsyncExitStack() as held:
            for snapshot in sorted(set(snapshots)):
                await held.enter_async_context(self._locks[snapshot])
            yield


async def run_cell(
    run: MatrixRun,
    order: int,
    site: Site,
    folder: CellFolder,
    listener: Listener,
    making: Making | None = None,
    *,
    bed: SharedBed | None = None,
    live: bool = False,
) -> RecordedCell:
    """The cell's cell.json, which has been written, with its recordings and its packet table.

    A cell that this machine cannot build is `unavailable`, and nothing is begun; so is one whose test bed turns out not
    to have what the cell needs. Another LatlabError makes the cell `failed`; a cancellation makes it `interrupted` and
    is raised again, after the test bed is down and everything recorded is on disk.

    bed: the test bed that it shares with other cells. live: its agents say more to the listener while they measure.
    """
    outcome = Outcome(run, order, live=live)
    scenario = run.cell.scenario
    if scenario.in_virtual_time:
        outcome.label, outcome.instructions_per_ns = VIRTUAL, INSTRUCTIONS_PER_NS
        outcome.qemu = virtual_time_by(scenario, site)
        outcome.run_id = SAME_RUN
        site = replace(site, tag=SAME_TAG, lab=site.tag, emulator_seed=run.seed or 0)
    site = replace(site, others=planned_sites(scenario, site))
    if reasons := unavailable(scenario, site):
        outcome.refuse(reasons)
        _write(outcome, folder)
        return outcome.known()
    interrupted = False
    try:
        await _on_test_bed(outcome, site, folder, listener, making or Making(), bed)
        if outcome.reason is None:
            outcome.status = "ok"
    except asyncio.CancelledError as cancelled:
        interrupted = True
        outcome.status = "interrupted"
        what = "; ".join(("a signal ended the run", *getattr(cancelled, "__notes__", ())))
        outcome.reason = Failure(what=what, where="", remedy="run it again")
    except UnavailableError as error:
        outcome.refuse([error])
    except LatlabError as error:
        outcome.fail(error)
    except OSError as error:
        outcome.fail(system_error(error))
    _write(outcome, folder)
    if outcome.start_tai_ns:
        listener(Phase("joining"))
        try:
            if outcome.flows:
                with Awaited(_tells(listener))("the packets of flows are matched"):
                    await asyncio.to_thread(_match_flows, outcome, folder)
            with Awaited(_tells(listener))("the packet table is made"):
                await asyncio.to_thread(build_packets, folder)
        except LatlabError as error:
            outcome.fail(error)
            _write(outcome, folder)
    if interrupted:
        raise asyncio.CancelledError
    return outcome.known()


def _match_flows(outcome: Outcome, folder: CellFolder) -> None:
    """Find the packets of flows at one point after the other, and have cell.json say what came of it."""
    scenario = outcome.run.cell.scenario
    found = read_flows(outcome.flows, folder, outcome.clocks, scenario.first_flow_number)
    outcome.flows, outcome.flow_streams = found.flows, found.streams
    _write(outcome, folder)


def _tells(listener: Listener) -> Tell:
    """Report to the listener what takes long."""
    return lambda what, seconds: listener(Waiting(what, seconds))


def _write(outcome: Outcome, folder: CellFolder) -> None:
    """Write cell.json. LabError: it cannot be written; the error then says what the file would have said."""
    try:
        folder.write_cell(outcome.known())
    except OSError as error:
        reason = outcome.reason
        first = LabError(reason.what, where=reason.where, remedy=reason.remedy) if reason else None
        raise after_that(first, error) if first else system_error(error) from error


async def _on_test_bed(
    outcome: Outcome,
    site: Site,
    folder: CellFolder,
    listener: Listener,
    making: Making,
    shared: SharedBed | None,
) -> None:
    """Measure the cell, and take its test bed down.

    Where a machine hangs as it boots, or does not get ready from its snapshot, which is removed, all is made again;
    so it is where a test bed that was kept does not serve.
    """
    known: set[str] = set()
    resumed: SharedBed | None = None

    async def set_up(keep: SharedBed | None, kept: SharedBed | None) -> None:
        nonlocal resumed
        resumed = kept
        await _on_a_test_bed(outcome, site, folder, listener, making, keep=keep, kept=kept)

    async def is_kept(bed: SharedBed) -> bool:
        """Whether it can be resumed from; it is set up to be kept, if it was not yet, unless the cell has a reason."""
        async with bed.lock:
            base = bed.base if not bed.machine and bed.base and await is_kept(bed.base) else None
            while not (bed.machine or bed.refused or outcome.reason):
                await set_up(bed, base)
                if not outcome.reason:
                    folder.begin_logs_anew(keep=False)
        return bed.machine is not None

    while True:
        try:
            kept = shared if shared and await is_kept(shared) else None
            return None if outcome.reason else await set_up(None, kept)
        except StartError as error:
            if resumed:
                resumed.refuse()
            elif error.which in known:
                raise
            known.add(error.which)
            folder.begin_logs_anew(keep=True)
            listener(Phase(error.again))


async def _on_a_test_bed(
    outcome: Outcome,
    site: Site,
    folder: CellFolder,
    listener: Listener,
    making: Making,
    *,
    keep: SharedBed | None = None,
    kept: SharedBed | None = None,
) -> None:
    """making: the snapshots that cells of the run make at present.

    keep: the test bed is kept there as soon as it is set up, and nothing is measured. kept: the one to resume from; of
    one with agents that is to be kept, the one without.
    """
    scenario = outcome.run.cell.scenario
    site = replace(site, logs=str(folder.logs_path), recordings=str(folder.path))
    hosts = make_hosts(scenario, site)
    outcome.agents.clear()
    listener(Phase("setting up"))
    turns = hosts[scenario.machines()[0]].turns if keep or kept else None
    outcome.shared_bed = kept is not None
    if turns and kept:
        turns.go_on_after(kept.turns)
    async with TestBed(f"{folder.path.parents[2].name}-{outcome.order}", hosts, _tells(listener)) as bed:
        try:
            if site.others:
                starts = machine_snapshots(scenario, site)
                if kept and kept.machine:
                    starts = dict.fromkeys(starts, kept.machine)
                begun = replace(site, snapshots=starts)
                async with contextlib.AsyncExitStack() as made:
                    if makes := not all(map(is_whole, begun.snapshots.values())):
                        with bed.awaited("another cell makes its snapshots"):
                            await made.enter_async_context(making.alone(begun.snapshots.values()))
                    await bed.apply(list(machine_steps(scenario, begun)))
                if turns and keep:
                    if makes:
                        # A cell that resumes from what is kept here has no machine to boot first, and sends it nothing.
                        return None
                    turns.keeping = True
                site = replace(site, others=await _seen(scenario, site, hosts))
                if reasons := unavailable(scenario, site):
                    return outcome.refuse(reasons)
            site = replace(site, **start_conditions(scenario, site))
            outcome.bridges, outcome.guests = described_bridges(scenario, site), described_guests(scenario, site)
            await bed.apply(test_bed_steps(scenario, site))
            if keep and turns and not keep.with_agents:
                with bed.awaited(KEEPING):
                    return await keep.keep(turns, site)
            outcome.bridges = described_bridges(scenario, site)
            outcome.guests = await described_guests_running(scenario, site)
            if any(guest.acceleration == "tcg" for guest in outcome.guests):
                outcome.is_emulated()
            cell = _Cell(outcome, bed, site, folder, listener)
            if keep and turns:
                await cell.get_ready()
                with bed.awaited(KEEPING):
                    return await keep.keep(turns, site)
            await cell.measure()
        except LabError as error:
            if turns and turns.differs:
                raise StartError(error, which="kept", again="setting up again: the kept test bed differs") from None
            raise
        finally:
            outcome.steps = [RecordedStep(**vars(result)) for result in bed.results]
            listener(Phase("tearing down"))


async def _seen(scenario: Scenario, site: Site, hosts: Mapping[str, Host]) -> dict[str, Site]:
    """The places on other machines as they are. In virtual time there is nothing else to wait for."""
    if scenario.in_virtual_time:
        return seen_sites(scenario, site, hosts)
    return await asyncio.to_thread(seen_sites, scenario, site, hosts)


class _Cell:
    """A cell on its test bed: what runs there, in the order in which it is started and stopped."""

    def __init__(self, outcome: Outcome, bed: TestBed, site: Site, folder: CellFolder, listener: Listener) -> None:
        self._outcome = outcome
        self._scenario: Scenario = outcome.run.cell.scenario
        self._bed = bed
        self._folder = folder
        self._listener = listener
        self._site = site
        self._places = find_places(self._scenario, site, bed.hosts)
        self._recordings = Recordings(bed, folder)
        flight = Flight(self._scenario, listener, live=outcome.live) if self._scenario.kept else None
        self._agents = Agents(outcome, bed, site, self._places, self._recordings, folder, listener, flight)
        self._talking, self._listening = self._agents.talking, self._agents.listening
        self._clocks = ClockWatch(
            self._scenario,
            site,
            bed.hosts,
            self._places,
            self._recordings,
            live=flight.hear if flight else listener if outcome.live else None,
        )
        self._ptp = PtpWatch(self._scenario, site, bed.hosts, self._places, self._recordings)
        self._drops = DropWatch(self._scenario, bed.hosts, self._places, self._recordings, folder)
        self._alone: asyncio.Future[None] | None = None
        self._flows = FlowWatch(self._scenario, bed, self._places, self._recordings, folder)
        self._tools = Tools(self._scenario, bed, self._places, self._recordings, folder)
        loads = plan_loads(self._scenario, load_duration_ns(self._scenario), self._places)
        self._loads = LoadRunner(
            bed,
            loads,
            exit_counters(self._scenario, site),
            outcome.perturbation.load_ns if outcome.perturbation else None,
        )

    async def measure(self) -> None:
        """Run everything to its end and stop it. LabError at the first thing that fails.

        Whatever fails, what the agents have recorded so far is finished before it is reported.
        """
        failure: BaseException | None = None
        try:
            with self._bed.awaited("agents, clocks and loads start"):
                await self.get_ready()
                await self._start()
            with self._bed.awaited("talkers and tools finish"):
                await self._watch()
            with self._bed.awaited("packets in flight arrive"):
                await self._settle()
        except LabError as error:
            failure = await self._bed.cause_of(error)
        except BaseException as error:
            failure = error
        if self._alone:
            self._alone.cancel()
        self._listener(Phase("stopping"))
        self._finely(False)
        await self._bed.all_of_these(
            self._stop_agents(self._talking),
            self._stop_tools(),
            self._stop_loads(),
            self._stop_agents(self._listening),
            self._stop_flows(),
            self._stop_drops(),
            self._stop_clocks(),
            self._fetch(),
            self._facts("after"),
            self._check_again(),
            after=failure,
        )
        if silence := nobody_answered(self._outcome.agents):
            raise silence

    async def get_ready(self) -> None:
        """Start listeners first, then talkers and clocks: cells that differ in their loads alone do the same here."""
        scenario, outcome = self._scenario, self._outcome
        await self._tools.look()
        at = await look_at_interfaces(scenario, self._bed, self._places, emulated_of(outcome.guests))
        facts = await self._facts("before")
        by_kvm = {guest.name for guest in outcome.guests if guest.acceleration == "kvm"}
        agents = list(agents_of(scenario, by_kvm))
        for one in agents:
            if one.is_early:
                await self._agents.start(one, at)
        await self._drops.start(self._bed, outcome.run_id, outcome.guests)
        await self._flows.start(outcome.run_id, outcome.guests)
        await self._tools.start()
        for one in agents:
            if not one.is_early:
                await self._agents.start(one, at)
        try:
            await self._clocks.start(self._bed, outcome.run_id, self._folder, facts)
            await self._ptp.start(self._bed, outcome.run_id, self._folder)
        finally:
            outcome.agents.extend((*self._clocks.agents, *self._ptp.agents))
        if scenario.in_virtual_time:
            await self._bed.hosts[scenario.machines()[0]].pause(QUIET_S)

    async def _start(self) -> None:
        """Start loads, and the streams last, when all else goes on."""
        scenario, outcome = self._scenario, self._outcome
        if scenario.loads:
            self._listener(Phase("loading"))
        await self._loads.start()
        self._finely(True)
        lead_ns = VIRTUAL_LEAD_NS + outcome.perturbation.start_ns if outcome.perturbation else START_LEAD_NS
        start = self._choose_start(lead_ns)
        if start:
            outcome.starts_tai_ns = {agent.host.name: start.on(agent) for agent in self._talking}
        # Tools alone start by this machine's clock.
        outcome.start_tai_ns = start.on(self._talking[0]) if start else _lab_tai_ns() + START_LEAD_NS
        self._listener(Phase("measuring"))
        self._tools.begin(START_LEAD_NS + scenario.warmup)
        for agent in self._talking:
            agent.begin(outcome.starts_tai_ns[agent.host.name])

        def begins(agent: Agent) -> int:
            return start.on(agent) if start else now_tai_ns(agent) + START_LEAD_NS

        self._ptp.begin(begins)
        self._flows.begin(begins)
        # The talkers know the start and wait for it: the file is written meanwhile, and a slow disk delays no packet.
        # Should the lab be killed from here on, it says what the recordings are of.
        outcome.clocks, outcome.ptp, outcome.drops = self._clocks.known(), self._ptp.known(), self._drops.known()
        outcome.flows = self._flows.known()
        outcome.steps = [RecordedStep(**vars(result)) for result in self._bed.results]
        self._folder.write_cell(outcome.known())

    def _finely(self, is_fine: bool) -> None:
        """Have the CPUs of boards in virtual time change places often, or as seldom as is fastest."""
        for name, board in self._scenario.boards.items():
            if board.cpus > 1 and (turns := self._bed.hosts[name].turns):
                turns.fine_us = fine_us(board.cpus) if is_fine else 0

    def _choose_start(self, lead_ns: int) -> Start | None:
        """When the streams start; None where tools alone do."""
        if not self._talking:
            return None
        scenario, hosts = self._scenario, self._bed.hosts
        machine = hosts[scenario.machines()[0]] if scenario.in_virtual_time else None
        return choose_start(
            self._talking[0], machine, lead_ns, scenario.cycle, scenario.scheduled_hosts, self._clocks.ahead_ns
        )

    async def _watch(self) -> None:
        """Return once talkers and tools are done. LabError as soon as anything fails, or it takes too long."""
        talking: set[asyncio.Future[Any]] = {agent.done for agent in self._talking} | {*self._tools.asking}
        if not talking:
            # Flows alone are measured for as long as streams would be.
            lasts_ns = START_LEAD_NS + self._scenario.duration
            self._alone = asyncio.ensure_future(self._flows.pause(lasts_ns / SECOND_NS))
            talking.add(self._alone)
        watching = {agent.done for agent in self._flows.agents}
        running = talking | watching | {agent.done for agent in self._listening}
        loop = asyncio.get_running_loop()
        patience = max((agent.host.patience for agent in self._talking), default=1.0)
        deadline = loop.time() + (_needed_ns(self._scenario) / SECOND_NS + SPARE_S) * patience
        while not all(future.done() for future in talking):
            pending = {future for future in running if not future.done()}
            with contextlib.ExitStack() as waiting:
                for agent in self._talking:
                    waiting.enter_context(agent.host.waiting())
                ended, _ = await asyncio.wait(pending, timeout=WATCH_S, return_when=asyncio.FIRST_COMPLETED)
            for future in ended:
                future.result()
            if failure := self._bed.failure() or self._loads.failure() or self._tools.failure():
                raise failure
            if loop.time() > deadline:
                late = ", ".join(agent.host.name for agent in self._talking if not agent.done.done()) or "a tool"
                raise LabError(
                    f"the talker is not done {SPARE_S:g} s after the last packet was due",
                    where=late,
                    remedy=OVERLOADED,
                )
        for future in talking:
            future.result()

    async def _settle(self) -> None:
        """Give packets in flight the time to arrive, on the clock of their receivers.

        In virtual time nothing is waited for once all have arrived: a board takes this machine's time, busy or idle.
        Who asks over DDS is done only when it has every answer, or no longer waits for it.
        """
        taking = [agent for agent in self._listening if agent.verb in ("listen", "pong", "dds")]
        arrived = all(agent.verb == "dds" or agent.complete.done() for agent in taking)
        if self._scenario.in_virtual_time and taking and arrived:
            return
        settle_s = self._scenario.settle / SECOND_NS
        if self._listening:
            await self._listening[0].host.pause(settle_s)
        elif self._flows.agents:
            await self._flows.pause(settle_s)

    async def _fetch(self) -> None:
        with self._bed.awaited("recordings are fetched"):
            await self._recordings.fetch()

    async def _stop_agents(self, agents: list[Agent]) -> None:
        await self._bed.all_of_these(*(agent.stop(self._bed) for agent in agents))

    async def _stop_tools(self) -> None:
        self._outcome.tools = await self._tools.stop()

    async def _stop_loads(self) -> None:
        self._outcome.loads = await self._loads.stop()

    async def _check_again(self) -> None:
        """Read again what was set and must last."""
        with self._bed.awaited("settings are read again"):
            again = await self._bed.check_again()
        self._outcome.bridges = described_bridges(self._scenario, self._site)
        self._outcome.rechecks = [
            RecordedStep(**{k: v for k, v in vars(one).items() if k != "seconds"}) for one in again
        ]

    async def _stop_clocks(self) -> None:
        clocks, failure = await self._clocks.stop(self._bed)
        self._outcome.ptp = self._ptp.known()
        cards, later = await self._ptp.stop(self._bed)
        self._outcome.clocks = [*clocks, *cards]
        if failure := failure or later:
            raise failure

    async def _stop_flows(self) -> None:
        try:
            await self._flows.stop()
        finally:
            self._outcome.flows = self._flows.known()

    async def _stop_drops(self) -> None:
        await self._drops.stop(self._bed)
        self._outcome.drops = self._drops.known()

    async def _facts(self, when: str) -> Facts:
        """Every host's and guest's facts, which are in facts-`when`.json."""
        facts = {}
        for name, host in self._bed.hosts.items():
            if name not in self._scenario.hosts and name not in self._scenario.guests:
                continue
            if self._bed.is_gone(name) or name in self._recordings.silent:
                continue
            options = [option for device in self._devices(name) for option in ("--interface", device)]
            with self._bed.awaited(f"{name} records its facts"):
                facts[name] = json.loads((await host.run((self._places.agent(name), "facts", *options))).stdout)
        if any(is_emulated(found) for found in facts.values()):
            self._outcome.is_emulated()
        self._folder.write_facts(when, facts)
        return facts

    def _devices(self, host: str) -> list[str]:
        """The host's interfaces that packets pass: its ends of links, and the bridges they are ports of."""
        passed = (end for segment in self._scenario.segments() for end in (*segment.members, *segment.ports))
        ends = [end for end in passed if end.host == host]
        on_links = [end.interface for end in ends if end.interface != INNER]
        return list(dict.fromkeys([*on_links, *(self._places.device(end) for end in ends)]))


def load_duration_ns(scenario: Scenario) -> int:
    """How long the loads of a cell are needed: from before the first packet until after the last."""
    return START_LEAD_NS + scenario.duration + scenario.settle + LOAD_MARGIN_NS


def _needed_ns(scenario: Scenario) -> int:
    """How long talkers need at most: the last question of a ping may wait for its answer until its timeout."""
    patience = (getattr(probe, "timeout", 0) for probe in scenario.probes.values())
    return START_LEAD_NS + scenario.duration + max(patience, default=0)


def is_emulated(facts: Facts) -> bool:
    """Whether a host runs in plain software emulation, by its facts."""
    hypervisor = (facts.get("machine") or {}).get("hypervisor") or {}
    return hypervisor.get("signature") in EMULATORS


def _lab_tai_ns() -> int:
    return time.clock_gettime_ns(time.CLOCK_TAI)
