"""PTP while a cell is measured: what each ptp4l says of itself, and our own readings of the cards' clocks with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from latlab.hosts import Host
from latlab.model.errors import LabError
from latlab.recordings.cell import ClockEdge, RecordedPort
from latlab.recordings.run_folder import CellFolder
from latlab.run.agent import Agent
from latlab.run.clock_legs import SPARE_NS
from latlab.run.clocks import clock_entries
from latlab.run.fetch import Recordings
from latlab.run.specs import ptp_spec
from latlab.scenario import Scenario
from latlab.scenario.parts import parse_end
from latlab.testbed.apply import TestBed
from latlab.testbed.places import Places
from latlab.testbed.ptp import ClockPort, absent_ports, ptp_ports
from latlab.testbed.ptp.port import longest_sync_interval_ns
from latlab.testbed.site import Site
from latlab.testbed.step import Spec
from latlab.testbed.timestamping import parse_timestamping

ASK_PERIOD_NS = 250_000_000
READ_PERIOD_NS = 100_000_000
ORDINARY = {"lock_memory": False}
CARD_TAI_S = 0
"""A card's clock counts TAI: nothing is added to what it reads."""
CARD = "card"
"""What such a comparison is named in cell.json: of a card's clock and its host's."""


class PtpWatch:
    """The ports of PTP's, each watched by an agent on its host: two where its card has a clock.

    One asks its ptp4l, and records what that says (`latlab-agent ptp`); the other reads the card's clock next to the
    system's (`latlab-agent clock`), so that what ptp4l claims can be compared with readings it has no part in.
    """

    def __init__(
        self, scenario: Scenario, site: Site, hosts: Mapping[str, Host], places: Places, recordings: Recordings
    ) -> None:
        self._scenario = scenario
        self._site = site
        self._ports = ptp_ports(scenario, site)
        self._hosts = hosts
        self._places = places
        self._recordings = recordings
        self._asking: dict[str, Agent] = {}
        self._reading: dict[str, Agent] = {}
        self._cards: dict[str, str] = {}
        self._starts: dict[str, int] = {}

    @property
    def agents(self) -> list[Agent]:
        """The agents that watch."""
        return [*self._asking.values(), *self._reading.values()]

    async def start(self, bed: TestBed, run_id: str, folder: CellFolder) -> None:
        """Watch every port from now on. LabError: one does not answer."""
        for port in self._ports:
            name, host = str(port.end), self._hosts[port.end.host]
            if port.in_hardware:
                self._cards[name] = await _card_clock(host, port.end.interface)
            prefix = folder.prefix("ptp", name)
            spec = self._inquiry_spec(port, run_id, self._recordings.prefix(host, prefix))
            await self._recordings.receive(host, "ptp", prefix)
            self._asking[name] = await Agent.start(bed, host, self._places.agent(port.end.host), "ptp", spec)
            await self._recordings.follow(host, "ptp", prefix)
            if name in self._cards:
                prefix = folder.clock_prefix(name, port.end.host)
                recording, device = self._recordings.prefix(host, prefix), self._cards[name]
                count = self._count(READ_PERIOD_NS)
                spec = ptp_spec(run_id, recording, count, CARD_TAI_S, device=device, period_ns=READ_PERIOD_NS)
                await self._recordings.receive(host, "clock", prefix)
                self._reading[name] = await Agent.start(bed, host, self._places.agent(port.end.host), "clock", spec)
                await self._recordings.follow(host, "clock", prefix)

    async def stop(self, bed: TestBed) -> tuple[list[ClockEdge], LabError | None]:
        """What it adds to the `clocks` of cell.json, and the first failure."""
        clocks: list[ClockEdge] = []
        failure: LabError | None = None
        for agent in self._asking.values():
            try:
                await agent.stop(bed)
            except LabError as error:
                failure = failure or error
        for name, agent in self._reading.items():
            try:
                said = await agent.stop(bed)
            except LabError as error:
                failure = failure or error
                continue
            clocks += clock_entries(name, parse_end(name).host, CARD, said)
        return clocks, failure

    def begin(self, starts_tai_ns: Callable[[Agent], int]) -> None:
        """Note that the streams start. starts_tai_ns: when, by the TAI of the agent's host."""
        self._starts = {name: starts_tai_ns(agent) for name, agent in self._asking.items()}

    def known(self) -> list[RecordedPort]:
        """The `ptp` of cell.json: of each port of the scenario, those at which nothing is started last."""
        return [self._entry(port) for port in self._ports] + [
            self._entry(port, why) for port, why in absent_ports(self._scenario, self._site)
        ]

    def _entry(self, port: ClockPort, absent: str | None = None) -> RecordedPort:
        started = {port.end for port in self._ports if port.role}
        master = self._scenario.ptp_master_of(port.end)
        return RecordedPort(
            port=str(port.end),
            role=port.role or "observed",
            absent=absent,
            profile=port.ptp.profile if port.role else None,
            timestamps=port.timestamps,
            clock=self._cards.get(str(port.end)),
            free_running=port.free_running,
            limit_ns=port.limit_ns,
            sync_interval_ns=longest_sync_interval_ns(port.ptp.profile) if port.role else None,
            master=str(master) if master in started else None,
            start_tai_ns=self._starts.get(str(port.end)),
        )

    def _inquiry_spec(self, port: ClockPort, run_id: str, recording: str) -> Spec:
        """The spec of the agent that queries the port's ptp4l."""
        return {
            "run_id": run_id,
            "socket": port.socket,
            "domain": port.ptp.domain,
            "transport_specific": port.transport_specific,
            "period_ns": ASK_PERIOD_NS,
            "count": self._count(ASK_PERIOD_NS),
            "clock": self._cards.get(str(port.end), "realtime"),
            "recording": recording,
            "realtime": ORDINARY,
        }

    def _count(self, period_ns: int) -> int:
        """More than are needed: the agents are stopped."""
        return (self._scenario.duration + SPARE_NS) // period_ns


async def _card_clock(host: Host, interface: str) -> str:
    """The device of a card's clock. LabError: it has none."""
    found = parse_timestamping((await host.run(("ethtool", "-T", interface))).stdout)
    if found.phc is None:
        raise LabError(f"{interface} has no PTP clock", where=host.name, remedy="timestamps: software")
    return f"/dev/ptp{found.phc}"
