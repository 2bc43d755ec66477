"""The built-in load: what it was asked for, what it sent, what arrived."""

from __future__ import annotations

import signal
from typing import Any

import pytest

from support.agent.bed import Bed
from support.agent.process import Agent
from support.agent.streams import ECU, SENSOR

pytestmark = pytest.mark.real

PORT = 5600
SIZE = 1000
RATE_BPS = 20_000_000
SECONDS = 2
BATCH = 64
QUIET_S = 0.5
"""Nothing arrives for so long once all has: the last packets are under way still as their sender is done."""


def source(bed: Bed, **changes: Any) -> Agent:
    """A source that is ready; changes replace parts of its spec."""
    spec = {
        "role": "source",
        "source": f"{SENSOR}:0",
        "destination": f"{ECU}:{PORT}",
        "flows": 1,
        "size": SIZE,
        "rate_bps": RATE_BPS,
        "priority": 0,
        "duration_ns": SECONDS * 1_000_000_000,
        "realtime": {},
    }
    agent = bed.agent("sensor", "flood", spec | changes)
    agent.until("ready")
    return agent


def sink(bed: Bed, flows: int = 1) -> Agent:
    """A sink that is ready."""
    spec = {"role": "sink", "listen": f"{ECU}:{PORT}", "flows": flows, "realtime": {}}
    agent = bed.agent("ecu", "flood", spec)
    agent.until("ready")
    return agent


def stopped(agent: Agent) -> dict[str, Any]:
    """Its `done`, after it was told to stop."""
    agent.tell(stop=True)
    done = agent.until("done")
    assert agent.ended() == 0
    return done


@pytest.mark.parametrize("flows", [1, 3])
def test_what_a_source_sends_at_a_modest_rate_arrives_and_is_never_more_than_its_rate_earns(
    bed: Bed, flows: int
) -> None:
    taking = sink(bed, flows)
    sending = source(bed, flows=flows)
    sending.begin()
    sent = sending.until("done")
    assert sending.ended() == 0
    received = stopped(taking)
    assert (received["packets"], received["bytes"]) == (sent["packets"], sent["packets"] * SIZE)
    assert sent["send_errors"] == 0
    earned = RATE_BPS * SECONDS // (8 * SIZE)
    assert 0.9 * earned <= sent["packets"] <= earned
    assert sent["elapsed_ns"] <= SECONDS * 1_000_000_000 + 100_000_000
    assert sent["bits_per_s"] == pytest.approx(8e9 * sent["bytes"] / sent["elapsed_ns"])
    assert sent["packets_per_s"] == pytest.approx(1e9 * sent["packets"] / sent["elapsed_ns"])


def test_each_flow_has_a_port_of_its_own(bed: Bed) -> None:
    flows = 4
    sockets = [bed.udp("ecu", ECU, PORT + number) for number in range(flows + 1)]
    sending = source(bed, flows=flows, duration_ns=200_000_000, rate_bps=16_000_000)
    sending.begin()
    sent = sending.until("done")["packets"]
    received = []
    for one in sockets:
        one.settimeout(QUIET_S)
        received.append(0)
        try:
            while one.recv(2048):
                received[-1] += 1
        except TimeoutError:
            one.close()
    assert received[-1] == 0
    assert min(received[:-1]) > 0
    assert sum(received) == sent


def test_as_fast_as_it_goes_is_faster_than_any_modest_rate_and_stops_when_told(bed: Bed) -> None:
    taking = sink(bed)
    sending = source(bed, rate_bps=None, duration_ns=3600_000_000_000)
    sending.begin()
    seen = sending.until("progress")["streams"][0]["packets"]
    sent = stopped(sending)
    received = stopped(taking)
    assert sent["packets"] >= seen > RATE_BPS // (8 * SIZE)
    assert 0 < received["packets"] <= sent["packets"]


def test_a_source_that_nobody_listens_to_goes_on_and_counts_what_was_refused(bed: Bed) -> None:
    sending = source(bed, duration_ns=300_000_000)
    sending.begin()
    sent = sending.until("done")
    assert sending.ended() == 0
    assert sent["send_errors"] > 0
    assert sent["packets"] + sent["send_errors"] <= RATE_BPS * 0.3 / (8 * SIZE) + BATCH


@pytest.mark.parametrize("how", ["hang up", "signal"])
def test_a_flood_ends_with_its_lab(bed: Bed, how: str) -> None:
    sending = source(bed, duration_ns=3600_000_000_000)
    sending.begin()
    taking = sink(bed)
    for agent in (sending, taking):
        agent.hang_up() if how == "hang up" else agent.signal(signal.SIGTERM)
        assert agent.ended() == 0
        assert agent.events[-1]["event"] == "done"
