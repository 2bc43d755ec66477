"""However an agent ends, what it has recorded is on disk and readable."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from support.agent.bed import Bed
from support.agent.process import Agent
from support.agent.streams import MS, Stream, listen_spec, measure, new_run_id, recording, talk_spec, until_recorded
from support.machine import run

pytestmark = pytest.mark.real

ENDINGS: dict[str, Callable[[Agent], None]] = {
    "its standard input closes": Agent.hang_up,
    "it is told to stop": lambda agent: agent.tell(stop=True),
    "SIGTERM": lambda agent: agent.signal(signal.SIGTERM),
    "SIGINT": lambda agent: agent.signal(signal.SIGINT),
}
ENDLESS = Stream(period_ns=MS, count=3_600_000)
FAST = Stream(period_ns=50_000, count=3_600_000)
RECORDINGS = [
    *("talker-sensor.sent", "talker-sensor.stamps", "talker-sensor.clocks"),
    *("listener-ecu.received", "listener-ecu.clocks"),
]


def both(bed: Bed, folder: Path, stream: Stream) -> tuple[Agent, Agent]:
    """A talker that has begun and a listener that hears it."""
    run_id = new_run_id()
    listener = bed.agent("ecu", "listen", listen_spec(run_id, folder, stream))
    listener.until("ready")
    talker = bed.agent("sensor", "talk", talk_spec(run_id, folder, stream))
    talker.until("ready")
    talker.begin()
    return talker, listener


@pytest.mark.parametrize("end", ENDINGS.values(), ids=ENDINGS)
def test_an_agent_that_is_ended_in_mid_run_finishes_its_recordings(
    bed: Bed, tmp_path: Path, end: Callable[[Agent], None]
) -> None:
    talker, listener = both(bed, tmp_path, ENDLESS)
    until_recorded(tmp_path, "listener-ecu.received")
    for agent in (talker, listener):
        end(agent)
        assert agent.ended() == 0
        assert agent.events[-1]["event"] == "done"
    talked, listened = talker.events[-1], listener.events[-1]
    found = {name: recording(tmp_path, name) for name in RECORDINGS}
    assert all(one.complete for one in found.values())
    sent = found["talker-sensor.sent"].table["sequence"].to_list()
    assert sent == list(range(talked["streams"][0]["sent"]))
    assert found["listener-ecu.received"].table["sequence"].to_list() == sent
    assert listened["streams"][0]["received"] == len(sent) > 0
    assert talked["recorded"] == sum(found[name].table.height for name in RECORDINGS[:3])
    assert listened["recorded"] == sum(found[name].table.height for name in RECORDINGS[3:])


@pytest.mark.parametrize("end", ENDINGS.values(), ids=ENDINGS)
def test_an_agent_that_is_ended_before_its_start_says_it_did_nothing(
    bed: Bed, tmp_path: Path, end: Callable[[Agent], None]
) -> None:
    talker = bed.agent("sensor", "talk", talk_spec(new_run_id(), tmp_path, ENDLESS))
    talker.until("ready")
    end(talker)
    assert talker.ended() == 0
    assert talker.said == ["ready", "done"]
    assert talker.events[-1]["streams"][0]["sent"] == 0
    assert bed.sent("sensor", "ecu") == 0
    assert all(recording(tmp_path, name).complete for name in RECORDINGS[:3])


def test_after_sigkill_the_recordings_read_up_to_their_last_whole_batch(bed: Bed, tmp_path: Path) -> None:
    agents = both(bed, tmp_path, FAST)
    tables = ("talker-sensor.sent", "talker-sensor.stamps", "listener-ecu.received")
    until_recorded(tmp_path, *tables)
    for agent in agents:
        agent.signal(signal.SIGKILL)
        assert agent.ended() == -signal.SIGKILL
    for name in tables:
        found = recording(tmp_path, name)
        assert not found.complete
        sequence = found.table["sequence"]
        assert sequence.unique().sort().to_list() == list(range(sequence.n_unique()))


@pytest.fixture
def small_disk(bed: Bed, tmp_path: Path) -> Path:
    """A folder on a file system of half a megabyte."""
    disk = tmp_path / "disk"
    disk.mkdir()
    run("mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(disk))
    return disk


def test_a_full_disk_ends_a_talker_with_an_error_that_says_what_is_safe(bed: Bed, small_disk: Path) -> None:
    talker = bed.agent("sensor", "talk", talk_spec(new_run_id(), small_disk, FAST))
    talker.until("ready")
    talker.begin()
    assert_ended_by_a_full_disk(talker, small_disk)


def test_a_full_disk_ends_a_listener_with_an_error_that_says_what_is_safe(
    bed: Bed, tmp_path: Path, small_disk: Path
) -> None:
    run_id = new_run_id()
    listener = bed.agent("ecu", "listen", listen_spec(run_id, small_disk, FAST))
    listener.until("ready")
    talker = bed.agent("sensor", "talk", talk_spec(run_id, tmp_path, FAST))
    talker.until("ready")
    talker.begin()
    assert_ended_by_a_full_disk(listener, small_disk)


def assert_ended_by_a_full_disk(agent: Agent, disk: Path) -> None:
    """The agent said once that the disk is full, and as many rows are on it as it said."""
    assert agent.ended() == 1
    (error,) = [event for event in agent.events if event["event"] == "error"]
    assert error is agent.events[-1]
    assert error["errno"] == 28
    assert error["remedy"]
    path = Path(error["where"])
    assert path.parent == disk
    rows = recording(disk, path.name.removesuffix(".arrow")).table.height
    assert f"; {rows} rows before it are safe" in error["what"]
    assert rows > 0


def test_a_disk_that_is_full_from_the_start_is_reported_before_anything_is_sent(bed: Bed, small_disk: Path) -> None:
    (small_disk / "other").write_bytes(bytes(512 << 10))
    talker = bed.agent("sensor", "talk", talk_spec(new_run_id(), small_disk, ENDLESS))
    assert talker.ended() == 1
    (error,) = talker.events
    assert (error["event"], error["errno"]) == ("error", 28)
    assert bed.sent("sensor", "ecu") == 0


def test_a_ring_too_small_loses_rows_and_counts_every_one_of_them(bed: Bed, tmp_path: Path) -> None:
    tiny = {"ring_records": 4}
    measured = measure(bed, tmp_path, Stream(period_ns=20_000, count=10_000), talk=tiny, listen=tiny)
    heights = {name: recording(tmp_path, name).table.height for name in RECORDINGS}
    (talked,), (listened,) = measured.talked["streams"], measured.listened["streams"]
    pushed = talked["sent"] + talked["tx_sched"] + talked["tx_soft"] + heights["talker-sensor.clocks"]
    assert measured.talked["recorded"] + measured.talked["ring_full"] == pushed
    assert measured.talked["recorded"] == sum(heights[name] for name in RECORDINGS[:3])
    pushed = listened["received"] + heights["listener-ecu.clocks"]
    assert measured.listened["recorded"] + measured.listened["ring_full"] == pushed
    assert measured.listened["recorded"] == sum(heights[name] for name in RECORDINGS[3:])
    assert measured.talked["ring_full"] > 0 and measured.listened["ring_full"] > 0
    # What the counters say is the whole truth, whatever could be recorded.
    assert talked["sent"] == listened["received"] == 10_000
