"""What is known of the offset between two hosts' clocks while a cell is measured."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from latlab.data.run_folder import CellFolder
from latlab.errors import LabError
from latlab.host import Host
from latlab.lab.apply import TestBed
from latlab.measure.agent import Agent
from latlab.measure.specs import CLOCK_PERIOD_NS, clock_specs
from latlab.scenario import End, Scenario

SPARE_NS = 60_000_000_000
NS = 1e-9


class ClockWatch:
    """The clocks of every pair of hosts between which a stream runs.

    `shared`: hosts on one kernel share their clocks, and the offset is 0. `exchange`: an exchange of timestamps goes on
    between the two through the whole cell, whatever they share, and bounds the offset.
    """

    def __init__(self, scenario: Scenario, hosts: Mapping[str, Host]) -> None:
        self._scenario = scenario
        self._hosts = hosts
        self._pairs = _pairs(scenario)
        self._running: dict[tuple[str, str], tuple[Agent, Agent]] = {}

    @property
    def agents(self) -> list[Agent]:
        """The agents that exchange timestamps."""
        return [agent for pair in self._running.values() for agent in pair]

    async def start(self, bed: TestBed, binary: str, run_id: str, folder: CellFolder) -> None:
        """Nothing; the exchanges go on. LabError: two hosts do not share a clock and nothing measures the offset."""
        for pair, ends in self._pairs.items():
            talker, listener = (self._hosts[host] for host in pair)
            if self._scenario.clock.sync == "shared":
                if talker.shared_kernel != listener.shared_kernel:
                    raise LabError(
                        f"{talker.name} and {listener.name} run different kernels, so they share no clock",
                        where="clock.sync",
                        remedy="say `clock: {sync: exchange}`",
                    )
                continue
            count = (self._scenario.duration + SPARE_NS) // CLOCK_PERIOD_NS
            initiator, responder = clock_specs(self._scenario, ends, run_id, folder.clock_prefix(*pair), count)
            answering = await Agent.start(bed, listener, binary, "clock", responder)
            try:
                asking = await Agent.start(bed, talker, binary, "clock", initiator)
            except BaseException:
                await answering.kill(bed)
                raise
            self._running[pair] = (asking, answering)

    def known(self) -> list[dict[str, Any]]:
        """The `clocks` of cell.json as far as they need no measurement: the pairs that share a clock."""
        if self._scenario.clock.sync != "shared":
            return []
        return [
            {"from": talker, "to": listener, "source": "one kernel", "lower_ns": 0, "upper_ns": 0}
            for talker, listener in self._pairs
        ]

    async def stop(self, bed: TestBed) -> list[dict[str, Any]]:
        """The `clocks` of cell.json: for each pair, what its offset (listener's clock − talker's) lies between."""
        entries = self.known()
        for (talker, listener), (asking, answering) in self._running.items():
            said: dict[str, Any] = (await asyncio.gather(asking.stop(bed), answering.stop(bed)))[0]
            entry = {"from": talker, "to": listener, "source": "exchange"}
            if interval := offset_interval(said):
                detail = {key: said[key] for key in ("exchanges", "lost", "bound")}
                entries.append(entry | {"lower_ns": interval[0], "upper_ns": interval[1]} | detail)
        return entries

    async def kill(self, bed: TestBed) -> None:
        """Nothing; no exchange goes on any more."""
        for agent in self.agents:
            await agent.kill(bed)


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


def _pairs(scenario: Scenario) -> dict[tuple[str, str], tuple[End, End]]:
    """Each two hosts once, whichever of them talks: a bound holds in both directions."""
    pairs: dict[tuple[str, str], tuple[End, End]] = {}
    for name, stream in scenario.streams.items():
        route = scenario.route(name)
        if (stream.listener, stream.talker) not in pairs:
            pairs.setdefault((stream.talker, stream.listener), (route.talker_end, route.listener_end))
    return pairs
