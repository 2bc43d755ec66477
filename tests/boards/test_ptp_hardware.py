"""PTP by the cards' own clocks and timestamps, on a board in virtual time: what is a nanosecond there is exact."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from latlab.hosts import Host
from latlab.scenario import load_scenario
from support.boards.beds import virtual_bed
from support.boards.place import BoardPlace

CABLED: dict[str, Any] = {
    "hosts": {
        "board1": {"kind": "board", "time": "virtual", "nics": 2, "memory": "1536MiB"},
        "sensor": {"kind": "netns", "on": "board1", "cards": ["eth0"]},
        "ecu": {"kind": "netns", "on": "board1", "cards": ["eth1"]},
    },
    "links": [{"ends": ["sensor.eth0", "ecu.eth1"]}],
}
Hosts = Mapping[str, Host]

CHANGES_PPB = (0, 100_000, -100_000, 0)
PERIOD_S = 10
STEP_PPB = 1e9 / 2**23
"""What the 82576 can adjust its frequency by at least (TIMINCA's 2²³ for 16 ns)."""
READING_NS = 200
"""Two clocks are read one after the other."""
COMPARED = re.compile(r"offset from CLOCK_REALTIME is (-?\d+)ns")

EIGHTH = "-3"
"""Of a second: log2 of the interval between two messages."""
PTP4L = (
    *("ptp4l", "-2", "-H", "-m", f"--logSyncInterval={EIGHTH}", f"--logMinDelayReqInterval={EIGHTH}"),
    *("--logAnnounceInterval=-2", f"--summary_interval={EIGHTH}", "--tx_timestamp_timeout=100"),
)
"""Each sample of the slave's is a line of its output."""
SAMPLE = re.compile(r"master offset\s+(-?\d+) s(\d) freq\s+([+-]\d+) path delay\s+(-?\d+)")
WRONG_NS, WRONG_PPB = 1_000_000, 20_000
SETTLING, SETTLED = 56, 40
"""Samples: until the servo has unlearnt the frequency it began with, and after that."""


@pytest.fixture
def on_cards(
    place: BoardPlace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[Callable[[Hosts], Awaitable[None]]], None]:
    """Runs a session with two hosts whose cards a cable joins."""
    monkeypatch.setenv("LATLAB_STATE", str(tmp_path / "journal"))
    (cell,) = load_scenario(place.board_scenario(**CABLED)).combinations

    def run(session: Callable[[Hosts], Awaitable[None]]) -> None:
        async def on_bed() -> None:
            async with virtual_bed(cell.scenario, tmp_path) as hosts:
                await session(hosts)

        before = place.trace()
        asyncio.run(on_bed())
        assert place.trace() == before

    return run


def test_a_cards_clock_runs_as_fast_as_it_is_told_to_and_does_not_jump(
    on_cards: Callable[[Callable[[Hosts], Awaitable[None]]], None],
) -> None:
    async def session(hosts: Hosts) -> None:
        commands = [f"cmp freq {ppb} cmp wait {PERIOD_S} cmp" for ppb in CHANGES_PPB]
        words = " ".join([*commands, "adj 0.25 cmp"]).split()
        compared = (await hosts["sensor"].run(("phc_ctl", "eth0", "--", *words))).stdout
        # What the system's clock is ahead by.
        *offsets, adjusted = (int(found) for found in COMPARED.findall(compared))
        assert len(offsets) == 3 * len(CHANGES_PPB), compared
        assert abs(offsets[-1] - adjusted - 250_000_000) <= READING_NS
        advances = []
        for before, after, later in zip(*(offsets[part::3] for part in range(3)), strict=True):
            assert abs(after - before) <= READING_NS, offsets
            advances.append(after - later)
        # The system's clock has a different rate, by which both differ.
        for ppb, advance in zip(CHANGES_PPB, advances, strict=True):
            asked_ns = PERIOD_S * ppb
            assert abs(advance - advances[0] - asked_ns) <= PERIOD_S * STEP_PPB + READING_NS, (ppb, advances)

    on_cards(session)


def test_a_slave_locks_to_its_master_by_hardware_timestamps(
    on_cards: Callable[[Callable[[Hosts], Awaitable[None]]], None],
) -> None:
    async def session(hosts: Hosts) -> None:
        master = (*PTP4L, "-i", "eth0", "--uds_address=/run/sensor", "--priority1=100")
        slave = ("timeout", "16", *PTP4L, "-i", "eth1", "--uds_address=/run/ecu", "-s")
        await hosts["sensor"].spawn(("sh", "-c", '"$@" >/run/master 2>&1', "sh", *master))
        wrong = ("adj", str(WRONG_NS / 1e9), "freq", str(WRONG_PPB))
        await hosts["ecu"].run(("phc_ctl", "eth1", "--", *wrong))
        said = (await hosts["ecu"].run(slave, check=False)).stdout
        masters = (await hosts["sensor"].run(("cat", "/run/master"))).stdout
        samples = [[int(number) for number in found] for found in SAMPLE.findall(said)]
        assert len(samples) >= SETTLING + SETTLED, said + masters
        offset, _, adjustment, _ = samples[0]
        assert abs(offset - WRONG_NS) < WRONG_NS / 10 and adjustment == -WRONG_PPB
        for offset, state, adjustment, delay in samples[SETTLING:]:
            assert state == 2 and abs(offset) <= 100, said
            # Both clocks count the same instructions, and a frame takes no time in the hub that is the cable.
            assert abs(adjustment) <= 1_000 and abs(delay) <= 100, said
        assert "without timestamp" not in said + masters

    on_cards(session)
