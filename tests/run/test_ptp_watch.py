"""PTP's ports while a cell is measured: who is asked, who reads the cards' clocks, and what that comes to.

Not real are the agents: each says what was put into its mouth. Clocks are apart by known amounts, and what is found in
the end has to be what follows from these.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from latlab.analysis.ptp import SLAVE, ptp_port
from latlab.hosts import Host
from latlab.model.errors import LabError
from latlab.recordings.cell import ClockEdge, ClockWindow, Totals
from latlab.recordings.ptp_series import read_ptp
from latlab.recordings.run_folder import CellFolder
from latlab.run.agent import Agent
from latlab.run.fetch import Recordings
from latlab.run.ptp import PtpWatch
from latlab.scenario import Scenario
from latlab.testbed.apply import TestBed
from latlab.testbed.guests.start import planned_site
from latlab.testbed.places import Places
from latlab.testbed.ptp.port import longest_sync_interval_ns
from support.recordings import recorded_cell, recording_bytes

SECOND = 10**9
START = 1_763_830_000 * SECOND
BOARDS: dict[str, Any] = {
    "hosts": {name: {"kind": "board", "nics": 1} for name in ("board1", "board2")},
    "links": [{"ends": ["board1.eth0", "board2.eth0"]}],
    "streams": {"control": {"talker": "board1", "listener": "board2", "period": "1ms", "size": "64B"}},
    "clock": {"ptp": {"ports": {"board1.eth0": "master", "board2.eth0": "slave"}}},
}
HOSTS_APART_NS = 40_000
"""board2's system clock is ahead of board1's."""
CARDS_NS = {"board1": 3_000, "board2": -5_000}
"""How far each card's clock is ahead of its host's: the slave's, by this, 32 us ahead of its master's."""
HALF_NS = 20
TRUE_NS = HOSTS_APART_NS + CARDS_NS["board2"] - CARDS_NS["board1"]
CARD = (Path(__file__).parents[1] / "testbed/captured/ethtool-igc.txt").read_text()


def card_read(host: str) -> Totals:
    """What the agent says that has read the host's card: the host's clock − the card's."""
    bound = ClockWindow(
        reference_tai_ns=START,
        lower_ns=-CARDS_NS[host] - HALF_NS,
        upper_ns=-CARDS_NS[host] + HALF_NS,
        drift_lower_ppb=0.0,
        drift_upper_ppb=0.0,
        span_ns=60 * SECOND,
    )
    return Totals(exchanges=600, lost=0, bound=bound, windows=[bound])


@dataclass
class Talking:
    """In place of an agent."""

    host: Any
    verb: str
    spec: Mapping[str, Any]
    ends_well: bool = True

    async def stop(self, _: object) -> Totals:
        if not self.ends_well:
            raise LabError("did not stop", where=self.host.name)
        return card_read(self.host.name) if self.verb == "clock" else Totals()


@dataclass
class Started:
    """All that were started, in order. without: host and verb that does not start, or does not stop."""

    agents: list[Talking] = field(default_factory=list)
    never: tuple[str, str] | None = None
    unwell: tuple[str, str] | None = None

    async def start(self, _: object, host: Any, __: str, verb: str, spec: Mapping[str, Any]) -> Talking:
        if (host.name, verb) == self.never:
            raise LabError("is not ready", where=host.name)
        self.agents.append(Talking(host, verb, spec, (host.name, verb) != self.unwell))
        return self.agents[-1]


class Machine:
    """A host with a card that stamps."""

    def __init__(self, name: str) -> None:
        self.name = name

    async def run(self, argv: tuple[str, ...]) -> SimpleNamespace:
        assert argv == ("ethtool", "-T", "eth0")
        number = {"board1": "3", "board2": "4"}[self.name]
        return SimpleNamespace(stdout=CARD.replace("PTP Hardware Clock: 0", f"PTP Hardware Clock: {number}"))


class Kept:
    """In place of what fetches recordings: they are here."""

    def prefix(self, _: object, here: Path) -> str:
        return str(here)

    async def receive(self, *_: object) -> None:
        pass

    async def follow(self, *_: object) -> None:
        pass


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Started:
    found = Started()
    monkeypatch.setattr("latlab.run.ptp.Agent", SimpleNamespace(start=found.start))
    return found


def watch_of(one: Scenario) -> PtpWatch:
    hosts = cast(Mapping[str, Host], {name: Machine(name) for name in one.hosts})
    return PtpWatch(one, planned_site(one), hosts, Places(), cast(Recordings, Kept()))


BED = cast(TestBed, None)


async def watched(watch: PtpWatch, folder: CellFolder) -> tuple[list[ClockEdge], LabError | None]:
    await watch.start(BED, "8f3c5e0d12ab34cd", folder)
    starts = {"board1": START, "board2": START + HOSTS_APART_NS}
    watch.begin(lambda agent: starts[agent.host.name])
    return await watch.stop(BED)


def test_each_port_has_one_that_asks_and_one_that_reads_its_cards_clock(
    started: Started, scenario: Callable[..., Scenario], tmp_path: Path
) -> None:
    watch = watch_of(scenario(**BOARDS))
    asyncio.run(watched(watch, CellFolder(tmp_path)))
    assert [(one.host.name, one.verb) for one in started.agents] == [
        *(("board1", "ptp"), ("board1", "clock"), ("board2", "ptp"), ("board2", "clock"))
    ]
    asks, reads = started.agents[2:]
    assert (asks.spec["clock"], asks.spec["transport_specific"], asks.spec["recording"]) == (
        *("/dev/ptp4", 1),
        str(tmp_path / "ptp-board2.eth0"),
    )
    assert (reads.spec["role"], reads.spec["device"], reads.spec["host_tai_offset_s"]) == ("ptp", "/dev/ptp4", 0)
    assert reads.spec["recording"] == str(tmp_path / "clock-board2.eth0-board2")
    assert reads.spec["period_ns"] * reads.spec["count"] >= scenario(**BOARDS).duration


def test_what_is_known_of_a_port_has_its_master_its_syncs_and_its_hosts_start(
    started: Started, scenario: Callable[..., Scenario], tmp_path: Path
) -> None:
    watch = watch_of(scenario(**BOARDS))
    asyncio.run(watched(watch, CellFolder(tmp_path)))
    master, slave = watch.known()
    assert (master.master, slave.master) == (None, "board1.eth0")
    assert (master.start_tai_ns, slave.start_tai_ns) == (START, START + HOSTS_APART_NS)
    assert slave.sync_interval_ns == SECOND, "the automotive profile's slave asks for one a second"
    assert longest_sync_interval_ns("gptp") == SECOND // 8


@pytest.mark.parametrize("claim_ns", [TRUE_NS, TRUE_NS + HALF_NS + 900, -TRUE_NS, 0])
def test_a_claim_is_compared_with_the_offset_that_the_cards_truly_have(
    started: Started, scenario: Callable[..., Scenario], tmp_path: Path, claim_ns: int
) -> None:
    folder = CellFolder(tmp_path)
    watch = watch_of(scenario(**BOARDS | {"clock": {"ptp": BOARDS["clock"]["ptp"] | {"limit": "100us"}}}))
    cards, failure = asyncio.run(watched(watch, folder))
    assert failure is None
    assert [(one.from_, one.to, one.source) for one in cards] == [
        ("board1.eth0", "board1", "card"),
        ("board2.eth0", "board2", "card"),
    ]
    apart = {"from": "board1", "to": "board2", "source": "exchange", "windows": []}
    hosts = ClockEdge.model_validate(apart | {"lower_ns": HOSTS_APART_NS, "upper_ns": HOSTS_APART_NS})
    first = START + HOSTS_APART_NS
    said = [
        (first + at, at, True, SLAVE, claim_ns if at >= 0 else 99_999, first + at, 34, 1, 1, 0)
        for at in (-SECOND, 0, SECOND, 2 * SECOND)
    ]
    folder.recording("ptp", "board2.eth0", "ptp").write_bytes(recording_bytes("ptp", [said]))
    times = {"start_tai_ns": START, "duration_ns": SECOND}
    (series,) = read_ptp(folder, recorded_cell([], ptp=watch.known(), clocks=[hosts, *cards], **times))
    assert (series.port.port, series.port.role) == ("board2.eth0", "slave")
    document = ptp_port(series.port, series.rows, series.window_ns).document()
    # A line that no drift widens bounds the offset to HALF_NS, and a nanosecond of rounding.
    assert document["checked"]["ours_p50_ns"] == pytest.approx(TRUE_NS, abs=1)
    assert document["checked"]["half_p50_ns"] == pytest.approx(2 * HALF_NS, abs=2)
    outside = max(abs(claim_ns - TRUE_NS) - 2 * HALF_NS, 0)
    assert document["checked"]["outside_max_ns"] == pytest.approx(outside, abs=3)
    assert (document["readings"], document["checked"]["n"], document["offset_ns"]["max"]) == (2, 2, claim_ns)


def test_one_that_fails_keeps_no_other_from_being_told(
    started: Started, scenario: Callable[..., Scenario], tmp_path: Path
) -> None:
    started.unwell = ("board1", "clock")
    cards, failure = asyncio.run(watched(watch_of(scenario(**BOARDS)), CellFolder(tmp_path)))
    assert [one.from_ for one in cards] == ["board2.eth0"]
    assert failure is not None and failure.where == "board1"


def test_those_that_were_started_are_known_where_another_does_not(
    started: Started, scenario: Callable[..., Scenario], tmp_path: Path
) -> None:
    started.never = ("board2", "ptp")
    watch = watch_of(scenario(**BOARDS))
    with pytest.raises(LabError, match="is not ready"):
        asyncio.run(watch.start(BED, "8f3c5e0d12ab34cd", CellFolder(tmp_path)))
    assert watch.agents == cast(list[Agent], started.agents) and len(started.agents) == 2


def test_a_port_at_which_nothing_is_started_is_known_with_why(
    started: Started, scenario: Callable[..., Scenario], tmp_path: Path
) -> None:
    guest = {"host": "board2", "uplink": "eth0", "bridge": "vfio", "image": "debian-rt", "acceleration": "kvm"}
    watch = watch_of(scenario(**BOARDS, guests={"vm1": guest}))
    asyncio.run(watched(watch, CellFolder(tmp_path)))
    assert [(port.port, port.absent) for port in watch.known()] == [
        ("board1.eth0", None),
        ("board2.eth0", "vfio, for vm1: the card itself is passed to the guest"),
    ]
    assert {one.host.name for one in started.agents} == {"board1"}
