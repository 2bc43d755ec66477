"""What is known of the offset between two hosts' clocks while a cell is measured."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from latlab.data.run_folder import CellFolder
from latlab.errors import LabError
from latlab.host import Host
from latlab.lab.apply import TestBed
from latlab.lab.places import Places
from latlab.lab.site import Site
from latlab.measure.agent import Agent
from latlab.measure.clock_legs import Leg, leg_specs, needed_legs
from latlab.measure.recordings import Recordings
from latlab.scenario import Scenario

NS = 1e-9


class ClockWatch:
    """The clocks of every pair of hosts between which a stream runs.

    Hosts on one kernel share their clocks, and the offset is 0. A guest of ours and its host compare theirs over a page
    of memory they share. Two hosts that no chain of these joins exchange timestamps over the network (sync: auto), or
    are refused (sync: shared); with sync: exchange they always do. All of it goes on through the whole cell.
    """

    def __init__(
        self, scenario: Scenario, site: Site, hosts: Mapping[str, Host], places: Places, recordings: Recordings
    ) -> None:
        self._scenario = scenario
        self._site = site
        self._hosts = hosts
        self._places = places
        self._recordings = recordings
        self._legs = needed_legs(scenario, hosts)
        self._running: dict[Leg, tuple[Agent, Agent]] = {}

    @property
    def agents(self) -> list[Agent]:
        """The agents that compare clocks."""
        return [agent for pair in self._running.values() for agent in pair]

    async def start(self, bed: TestBed, run_id: str, folder: CellFolder) -> None:
        """Nothing; clocks are compared from now on. LabError: two hosts share no clock and nothing may compare them."""
        for leg in self._legs:
            if leg.source == "one kernel":
                continue
            recorder, local = self._hosts[leg.recorder], folder.clock_prefix(leg.here, leg.there)
            answers, asks = leg_specs(self._scenario, self._site, leg, run_id, self._recordings.prefix(recorder, local))
            waiting = await self._agent(bed, *answers)
            try:
                asking = await self._agent(bed, *asks)
            except BaseException:
                await waiting.kill(bed)
                raise
            self._running[leg] = (asking, waiting)
            await self._recordings.follow(recorder, "clock", local)

    def known(self) -> list[dict[str, Any]]:
        """The `clocks` of cell.json as far as they need no measurement: the pairs that share a clock."""
        shared = [leg for leg in self._legs if leg.source == "one kernel"]
        return [
            {"from": leg.here, "to": leg.there, "source": leg.source, "lower_ns": 0, "upper_ns": 0, "windows": []}
            for leg in shared
        ]

    async def stop(self, bed: TestBed) -> tuple[list[dict[str, Any]], LabError | None]:
        """The `clocks` of cell.json: for each leg, what its offset (`to`'s clock − `from`'s) lies between.

        And the first failure: a leg that failed has no entry, and keeps none from the others.
        """
        entries, failure = self.known(), None
        for leg, (asking, waiting) in self._running.items():
            try:
                said = await asking.stop(bed)
                await waiting.stop(bed)
            except LabError as error:
                failure = failure or error
                await waiting.kill(bed)
                continue
            entry = {"from": leg.here, "to": leg.there, "source": leg.source}
            if interval := offset_interval(said):
                detail = {key: said[key] for key in ("exchanges", "lost", "bound", "windows")}
                entries.append(entry | {"lower_ns": interval[0], "upper_ns": interval[1]} | detail)
        return entries, failure

    async def kill(self, bed: TestBed) -> None:
        """Nothing; no clocks are compared any more."""
        for agent in self.agents:
            await agent.kill(bed)

    async def _agent(self, bed: TestBed, name: str, spec: Mapping[str, Any]) -> Agent:
        return await Agent.start(bed, self._hosts[name], self._places.agent(name), "clock", spec)


def offset_interval(done: Mapping[str, Any]) -> tuple[int, int] | None:
    """What the offset lay between at every moment of the exchanges (lower, upper; ns); None if nothing bounds it.

    done is the initiator's. A straight line through all exchanges bounds it best; where there is none (a clock was
    stepped or steered), the windows' bounds are taken together.
    """
    whole = _interval(done["bound"]) if done["bound"] else None
    if whole:
        return whole
    windows = [interval for window in done["windows"] if (interval := _interval(window))]
    if not windows:
        return None
    return min(lower for lower, _ in windows), max(upper for _, upper in windows)


def _interval(bound: Mapping[str, Any]) -> tuple[int, int] | None:
    """The offset's interval over the whole span of a bound, which holds for its middle: drift widens it."""
    least, most = bound["drift_lower_ppb"], bound["drift_upper_ppb"]
    if least is None or most is None:
        return None
    widest = max(abs(least), abs(most)) * NS * bound["span_ns"] / 2
    return int(bound["lower_ns"] - widest), int(bound["upper_ns"] + widest) + 1
