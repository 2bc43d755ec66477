"""However ping or pong ends, or the other one does: what is recorded is on disk, and the other side continues."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.agent.bed import Bed
from support.agent.process import PATIENCE_S, Agent
from support.agent.rounds import TABLES, Pair, Trips, ping_spec, stopped
from support.agent.streams import ECU, MS, new_run_id, recording, until_recorded
from support.machine import run

pytestmark = pytest.mark.real

ENDLESS = {
    "open": Trips(count=3_600_000),
    "closed": Trips(count=None, duration_ns=3600_000_000_000),
}
ENDINGS: dict[str, Callable[[Agent], None]] = {
    "its standard input closes": Agent.hang_up,
    "it is told to stop": lambda agent: agent.tell(stop=True),
    "SIGTERM": lambda agent: agent.signal(signal.SIGTERM),
}


def endless(loop: str, kind: str) -> Trips:
    """Round trips that continue until they are ended."""
    trips = ENDLESS[loop]
    return Trips(kind=kind, count=trips.count, duration_ns=trips.duration_ns, timeout_ns=100 * MS)


@pytest.mark.parametrize("kind", ["udp", "tcp"])
@pytest.mark.parametrize("loop", ENDLESS)
@pytest.mark.parametrize("end", ENDINGS.values(), ids=ENDINGS)
def test_one_that_is_ended_in_mid_run_finishes_its_recordings(
    bed: Bed, tmp_path: Path, end: Callable[[Agent], None], loop: str, kind: str
) -> None:
    pair = Pair(bed, tmp_path, endless(loop, kind))
    pair.begin()
    until_recorded(tmp_path, "ping.received")
    done = {}
    for agent in (pair.ping, pair.pong):
        end(agent)
        assert agent.ended() == 0
        time.sleep(0.1)  # for what is still in flight to pong
        done[agent.verb] = agent.events[-1]
        assert done[agent.verb]["event"] == "done"
    found = {f"{side}.{name}": recording(tmp_path, f"{side}.{name}") for side in ("ping", "pong") for name in TABLES}
    assert all(one.complete for one in found.values())
    sent = found["ping.sent"].table["sequence"].to_list()
    assert sent == list(range(done["ping"]["sent"]))
    assert found["pong.received"].table["sequence"].to_list() == found["pong.sent"].table["sequence"].to_list() == sent
    # What was under way when ping was ended has no answer.
    heard = found["ping.received"].table["sequence"].to_list()
    assert heard == sent[: len(heard)] and len(heard) == done["ping"]["received"] > 0
    for side in ("ping", "pong"):
        assert done[side]["recorded"] == sum(found[f"{side}.{name}"].table.height for name in TABLES)


@pytest.mark.parametrize("end", ENDINGS.values(), ids=ENDINGS)
def test_one_that_is_ended_before_its_start_says_it_did_nothing(
    bed: Bed, tmp_path: Path, end: Callable[[Agent], None]
) -> None:
    pair = Pair(bed, tmp_path, ENDLESS["open"])
    for agent in (pair.ping, pair.pong):
        end(agent)
        assert agent.ended() == 0
        assert agent.said == ["ready", "done"]
        assert agent.events[-1]["answered"] == 0
    assert bed.sent("sensor", "ecu") == bed.sent("ecu", "sensor") == 0
    assert all(recording(tmp_path, f"{side}.{name}").complete for side in ("ping", "pong") for name in TABLES)


@pytest.mark.parametrize("kind", ["udp", "tcp"])
@pytest.mark.parametrize("loop", ENDLESS)
def test_after_sigkill_the_recordings_read_up_to_their_last_whole_batch(
    bed: Bed, tmp_path: Path, loop: str, kind: str
) -> None:
    pair = Pair(bed, tmp_path, endless(loop, kind))
    pair.begin()
    names = ("ping.sent", "ping.received", "pong.sent", "pong.received")
    until_recorded(tmp_path, *names)
    for agent in (pair.pong, pair.ping):
        agent.signal(signal.SIGKILL)
    assert pair.pong.ended() == -signal.SIGKILL
    pair.ping.ended()
    for name in names:
        found = recording(tmp_path, name)
        assert not found.complete or name.startswith("ping")
        sequence = found.table["sequence"].to_list()
        assert sequence == list(range(len(sequence)))


@pytest.mark.parametrize("loop", ENDLESS)
def test_a_pong_that_is_started_again_is_asked_on_over_udp(bed: Bed, tmp_path: Path, loop: str) -> None:
    pair = Pair(bed, tmp_path, endless(loop, "udp"))
    pair.begin()
    until_recorded(tmp_path, "pong.received")
    pair.pong.signal(signal.SIGKILL)
    assert pair.pong.ended() == -signal.SIGKILL
    time.sleep(0.3)
    again = pair.another_pong("again")
    time.sleep(0.3)
    done = stopped(pair.ping)
    last = stopped(again)
    assert done["send_errors"] == 0
    assert done["unanswered"] > 0
    asked = recording(tmp_path, "ping.sent").table["sequence"].to_list()
    assert asked == list(range(done["sent"]))
    later = recording(tmp_path, "again.received").table["sequence"].to_list()
    assert later and later == recording(tmp_path, "again.sent").table["sequence"].to_list()
    assert (last["answered"], last["repeated"], last["reordered"]) == (len(later), 0, 0)
    heard = recording(tmp_path, "ping.received").table["sequence"].to_list()
    assert len(set(heard) & set(later)) >= len(later) - 1
    assert min(later) > max(recording(tmp_path, "pong.received").table["sequence"].to_list())


@pytest.mark.parametrize("mode", ["block", "spin"])
@pytest.mark.parametrize("loop", ENDLESS)
def test_a_connection_that_ends_in_mid_run_is_one_error_and_all_that_was_recorded_is_there(
    bed: Bed, tmp_path: Path, loop: str, mode: str
) -> None:
    pair = Pair(bed, tmp_path, endless(loop, "tcp"), ping={"mode": mode})
    pair.begin()
    until_recorded(tmp_path, "ping.received")
    pair.pong.signal(signal.SIGKILL)
    assert pair.ping.ended() == 1
    (error,) = [event for event in pair.ping.events if event["event"] == "error"]
    assert error is pair.ping.events[-1]
    assert error["where"] == "probe rr on ecu"
    assert "connection" in error["what"].lower()
    assert "other end" in error["remedy"]
    found = {name: recording(tmp_path, f"ping.{name}") for name in TABLES}
    assert all(one.complete for one in found.values())
    sent = found["sent"].table
    assert sent["sequence"].to_list() == list(range(sent.height))
    heard = found["received"].table["sequence"].to_list()
    assert heard == list(range(len(heard))) and heard


def test_pong_serves_one_connection_after_the_other(bed: Bed, tmp_path: Path) -> None:
    pair = Pair(bed, tmp_path, Trips(kind="tcp", count=3_600_000))
    waiting = bed.agent(
        "sensor", "ping", ping_spec(pair.run_id, tmp_path, Trips(kind="tcp"), recording=str(tmp_path / "second"))
    )
    waiting.until("ready")
    pair.begin()
    waiting.begin()
    until_recorded(tmp_path, "ping.received")
    assert recording(tmp_path, "second.received").table.height == 0
    pair.ping.signal(signal.SIGKILL)
    # Its questions have waited in the connection, and are answered now.
    done = waiting.until("done")
    assert waiting.ended() == 0
    assert (done["sent"], done["answered"], done["repeated"]) == (200, 200, 0)
    counted = stopped(pair.pong)
    assert counted["repeated"] == 0
    assert recording(tmp_path, "pong.received").table["sequence"].to_list()[-200:] == list(range(200))


def test_nobody_listening_is_reported_at_once_before_anything_is_asked(bed: Bed, tmp_path: Path) -> None:
    began = time.monotonic()
    ping = bed.agent("sensor", "ping", ping_spec(new_run_id(), tmp_path, Trips(kind="tcp")))
    assert ping.ended() == 1
    (error,) = ping.events
    assert (error["event"], error["errno"], error["where"]) == ("error", 111, "probe rr on ecu")
    assert "pong" in error["remedy"]
    assert time.monotonic() - began < PATIENCE_S / 2


def test_a_connection_that_nobody_answers_is_given_up_after_five_seconds(bed: Bed, tmp_path: Path) -> None:
    # What goes to a stranger's MAC address is nothing to anybody on this cable.
    run("ip", "-n", "sensor", "neigh", "replace", ECU, "lladdr", "02:00:00:00:00:99", "dev", "ecu")
    began = time.monotonic()
    ping = bed.agent("sensor", "ping", ping_spec(new_run_id(), tmp_path, Trips(kind="tcp")))
    assert ping.ended() == 1
    (error,) = ping.events
    assert (error["event"], error["errno"]) == ("error", 110)
    assert time.monotonic() - began >= 5.0


@pytest.mark.parametrize("side", ["ping", "pong"])
def test_a_full_disk_is_an_error_that_says_what_is_safe(bed: Bed, tmp_path: Path, side: str) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    run("mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(disk))
    there: dict[str, Any] = {side: {"recording": str(disk / side)}}
    pair = Pair(bed, tmp_path, Trips(count=3_600_000, period_ns=100_000), **there)
    pair.begin()
    agent = pair.ping if side == "ping" else pair.pong
    assert agent.ended() == 1
    error = agent.events[-1]
    assert (error["event"], error["errno"]) == ("error", 28)
    rows = recording(disk, Path(error["where"]).name.removesuffix(".arrow")).table.height
    assert f"; {rows} rows before it are safe" in error["what"]


def test_a_ring_too_small_loses_rows_and_counts_every_one_of_them(bed: Bed, tmp_path: Path) -> None:
    tiny = {"ring_records": 4}
    pair = Pair(bed, tmp_path, Trips(count=4000, period_ns=50_000), ping=tiny, pong=tiny)
    pair.begin()
    tripped = pair.end()
    for side, done in (("ping", tripped.ping), ("pong", tripped.pong)):
        heights = {name: tripped.table(f"{side}.{name}").height for name in TABLES}
        sent = done["sent"] if side == "ping" else done["answered"]
        pushed = sent + done["tx_sched"] + done["tx_soft"] + done["received"] + heights["clocks"]
        assert done["recorded"] + done["ring_full"] == pushed
        assert done["recorded"] == sum(heights.values())
        assert done["ring_full"] > 0
        assert sent == done["received"] == 4000
