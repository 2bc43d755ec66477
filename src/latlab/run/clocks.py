"""What is known of the offset between two hosts' clocks while a cell is measured."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial

from latlab.hosts import Host
from latlab.model.errors import LabError
from latlab.model.facts import Facts
from latlab.model.units import PPB
from latlab.recordings.cell import ClockEdge, ClockWindow, Totals
from latlab.recordings.run_folder import CellFolder
from latlab.run.agent import Agent
from latlab.run.clock_legs import Leg, Told, leg_specs, needed_legs
from latlab.run.events import ClockBound, Event, Listener, Packets
from latlab.run.fetch import Recordings
from latlab.run.specs import with_live
from latlab.run.start import joined
from latlab.scenario import Scenario
from latlab.testbed.apply import TestBed
from latlab.testbed.machine import Machine
from latlab.testbed.places import Places
from latlab.testbed.site import Site


class ClockWatch:
    """The clocks of every pair of hosts between which a stream or a probe runs.

    Hosts on one kernel share their clocks, and the offset is 0. A guest that latlab starts and its host compare theirs
    over a page of memory, where they can share one; any other reads its host's as KVM shows it, if it has that clock.
    Two hosts that no chain of these joins exchange timestamps over the network (sync: auto), or are refused (sync:
    shared); with sync: exchange they always do. All of it runs through the whole cell. live: gets what is known so far.
    """

    def __init__(
        self,
        scenario: Scenario,
        site: Site,
        hosts: Mapping[str, Host],
        places: Places,
        recordings: Recordings,
        live: Listener | None = None,
    ) -> None:
        self._scenario = scenario
        self._site = site
        self._hosts = hosts
        self._places = places
        self._recordings = recordings
        self._live = live
        self._legs: list[Leg] = []
        self._running: dict[Leg, tuple[Agent, ...]] = {}

    @property
    def agents(self) -> list[Agent]:
        """The agents that compare clocks."""
        return [agent for comparing in self._running.values() for agent in comparing]

    async def start(self, bed: TestBed, run_id: str, folder: CellFolder, facts: Facts) -> None:
        """Compare clocks from now on. LabError: two hosts share no clock and nothing may compare them.

        facts: of every host and guest, as they are now.
        """
        self._legs = needed_legs(self._scenario, self._site, self._hosts, with_kvm_clock(facts))
        offsets = partial(tai_offset_s, facts)
        for leg in self._legs:
            if leg.source.is_exact:
                if self._live:
                    self._live(ClockBound(leg.here, leg.there, 0, 0))
                continue
            recorder, local = self._hosts[leg.recorder], folder.clock_prefix(leg.here, leg.there)
            recording = self._recordings.prefix(recorder, local)
            told = leg_specs(self._scenario, self._site, leg, run_id, recording, offsets)
            await self._recordings.receive(recorder, "clock", local)
            self._running[leg] = await self._comparing(bed, leg, told)
            await self._recordings.follow(recorder, "clock", local)

    def known(self) -> list[ClockEdge]:
        """The `clocks` of cell.json as far as they need no measurement: the pairs that share a clock."""
        shared = [leg for leg in self._legs if leg.source.is_exact]
        return [
            ClockEdge(from_=leg.here, to=leg.there, source=leg.source.name, lower_ns=0, upper_ns=0, windows=[])
            for leg in shared
        ]

    def ahead_ns(self, host: Host, other: Host) -> int | None:
        """How far host's CLOCK_TAI was ahead of the other's when comparing began; None: nothing was known yet."""
        offsets = []
        for leg, (asking, *_) in self._running.items():
            if bound := asking.known.said.bound:
                here, there = (self._hosts[name].shared_kernel for name in (leg.here, leg.there))
                offsets.append((here, there, (bound.lower_ns + bound.upper_ns) // 2))
        return joined(offsets, other.shared_kernel).get(host.shared_kernel)

    async def stop(self, bed: TestBed) -> tuple[list[ClockEdge], LabError | None]:
        """The `clocks` of cell.json: for each leg, what its offset (`to`'s clock − `from`'s) lies between.

        And the first failure: a leg that failed has no entry, and keeps none from the others.
        """
        entries, failure = self.known(), None
        for leg, (asking, *waiting) in self._running.items():
            try:
                said = await asking.stop(bed)
                for agent in waiting:
                    await agent.stop(bed)
            except LabError as error:
                failure = failure or error
                for agent in waiting:
                    await agent.kill()
                continue
            entries += clock_entries(leg.here, leg.there, leg.source.name, said)
        return entries, failure

    async def _comparing(self, bed: TestBed, leg: Leg, told: Iterable[Told]) -> tuple[Agent, ...]:
        """The agents of a leg, all ready, the one that asks first."""
        agents: list[Agent] = []
        try:
            for name, spec in told:
                host, binary = self._hosts[name], self._places.agent(name)
                if self._live and name == leg.recorder:
                    hears = partial(_tell_bound, self._live, leg)
                    agent = await Agent.start(bed, host, binary, "clock", with_live(spec), hears)
                    if bound := agent.known.said.bound:
                        self._live(ClockBound(leg.here, leg.there, bound.lower_ns, bound.upper_ns))
                    agents.append(agent)
                else:
                    agents.append(await Agent.start(bed, host, binary, "clock", spec))
        except BaseException:
            for agent in agents:
                await agent.kill()
            raise
        return tuple(reversed(agents))


def _tell_bound(live: Listener, leg: Leg, event: Event) -> None:
    """Pass on what the comparisons of a leg say of its clocks."""
    if isinstance(event, Packets) and event.offset_ns:
        live(ClockBound(leg.here, leg.there, *event.offset_ns))


def clock_entries(here: str, there: str, source: str, said: Totals) -> list[ClockEdge]:
    """The entry of cell.json's `clocks`, alone in a list; empty if nothing bounds the offset. said: who compared."""
    interval = offset_interval(said)
    if interval is None:
        return []
    edge = ClockEdge(from_=here, to=there, source=source, lower_ns=interval[0], upper_ns=interval[1])
    found = {key: getattr(said, key) for key in ("exchanges", "lost", "bound", "windows")}
    return [edge.model_copy(update=found)]


def offset_interval(done: Totals) -> tuple[int, int] | None:
    """What the offset lay between at every moment of the exchanges (lower, upper; ns); None if nothing bounds it.

    done is the initiator's. A straight line through all exchanges bounds it best; where there is none (a clock was
    stepped or steered), the windows' bounds are taken together.
    """
    whole = _interval(done.bound) if done.bound else None
    if whole:
        return whole
    windows = [interval for window in done.windows if (interval := _interval(window))]
    if not windows:
        return None
    return min(lower for lower, _ in windows), max(upper for _, upper in windows)


def _interval(bound: ClockWindow) -> tuple[int, int] | None:
    """The offset's interval over the whole span of a bound, which holds for its middle: drift widens it."""
    least, most = bound.drift_lower_ppb, bound.drift_upper_ppb
    if least is None or most is None:
        return None
    widest = max(abs(least), abs(most)) * PPB * bound.span_ns / 2
    return int(bound.lower_ns - widest), int(bound.upper_ns + widest) + 1


# Which guests have the PTP clock by which KVM shows its host's time, and what else is needed to read it.
#
# The guest's module ptp_kvm makes that clock. latlab does not load it: a guest of the user is not changed.


KVM_CLOCK = "KVM virtual PTP"
"""The clock's name (drivers/ptp/ptp_kvm_common.c)."""
CLOCK_NAMES = ("sh", "-c", "cat /sys/class/ptp/*/clock_name")


def with_kvm_clock(facts: Facts) -> frozenset[str]:
    """The guests that have it."""
    return frozenset(
        name for name, found in facts.items() if KVM_CLOCK in (phc["name"] for phc in found["clock"]["phcs"].values())
    )


def planned_with_kvm_clock(scenario: Scenario, machine: Machine, hosts: Mapping[str, Host]) -> frozenset[str]:
    """The same for a plan: of the guests only domains run before a run does, and can be asked."""
    domains = [name for name, guest in scenario.guests.items() if guest.domain]
    said = {name: machine.say(hosts[name].command(CLOCK_NAMES)) or "" for name in domains}
    return frozenset(name for name, names in said.items() if KVM_CLOCK in names.splitlines())


def tai_offset_s(facts: Facts, host: str) -> int:
    """TAI − UTC on the host, as adjtimex reports it. LabError: it does not."""
    offset = facts[host]["clock"]["tai_offset_s"]
    if offset is None:
        raise LabError(
            "adjtimex does not give the TAI offset, which KVM's clock in a guest needs",
            where=host,
            remedy="set `clock: {sync: exchange}`",
        )
    return int(offset)
