"""An agent that waits for instants comes to every one of them, and says how late."""

from __future__ import annotations

import math
import random
import re
import signal
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from latlab.model.errors import LabError
from latlab.recordings.arrow import read_recording
from support.agent.process import Agent, tai_ns
from support.agent.streams import MS, recording, until_recorded
from support.agent.timers import assert_all_recorded, over, timer_spec, waited

HOUR_NS = 3_600_000 * MS
HELD_UP_NS = 300 * MS
WAYS = {"nanosleep": "CLOCK_TAI", "timerfd": "CLOCK_REALTIME"}


@pytest.fixture
def timer() -> Iterator[Callable[[Any], Agent]]:
    """Starts agents, which end with the test."""
    started = []

    def start(spec: Any) -> Agent:
        started.append(Agent((), "timer", spec))
        return started[-1]

    yield start
    for agent in started:
        agent.kill()


def assert_figures(figures: dict[str, Any], late_ns: pl.Series, threshold_ns: int) -> None:
    """The statistics are those of these latenesses: by exact arithmetic, to the last digits of a double."""
    n = len(late_ns)
    total, squares = sum(late_ns), sum(value * value for value in late_ns)
    assert math.isclose(figures["mean_ns"], Fraction(total, n), rel_tol=1e-15)
    variance = Fraction(squares, n) - Fraction(total, n) ** 2
    assert math.isclose(figures["stddev_ns"], math.sqrt(variance), rel_tol=1e-12, abs_tol=1e-12)
    assert (figures["min_ns"], figures["max_ns"]) == (late_ns.min(), late_ns.max())
    assert figures["above"] == (late_ns > threshold_ns).sum()
    assert figures["threshold_ns"] == threshold_ns


@pytest.mark.parametrize(("how", "clock"), WAYS.items())
def test_every_instant_is_recorded_once_and_in_order(
    timer: Callable[[Any], Agent], tmp_path: Path, how: str, clock: str
) -> None:
    spec = timer_spec(tmp_path, how=how, offset_ns=123_456, period_ns=777_777)
    run = waited(timer(spec), spec)
    assert_all_recorded(run)
    assert run.rows["irq_tai_ns"].null_count() == spec["count"]
    assert run.done["trace_lost"] is None
    found = run.ready["timer"]
    assert (found["clock"], found["traced"], run.ready["trace_problem"]) == (clock, False, None)
    assert found["resolution_ns"] >= 1
    assert found["tick_ns"] is None or 0.05 < found["tick_ns"] < 1000


def test_windows_are_of_what_is_due_in_them_and_add_up_to_the_whole(
    timer: Callable[[Any], Agent], tmp_path: Path
) -> None:
    spec = timer_spec(tmp_path, window_ns=70 * MS, threshold_ns=60_000)
    run = waited(timer(spec), spec)
    windows = run.said("window")
    assert [window["n"] for window in windows] == [70, 70, 70, 70, 20]
    for number, window in enumerate(windows):
        begin = run.start_tai_ns + number * 70 * MS
        assert (window["from_tai_ns"], window["to_tai_ns"]) == (
            begin,
            min(begin + 70 * MS, run.start_tai_ns + 300 * MS),
        )
        due_in_it = run.rows.filter(pl.col("due_tai_ns").is_between(begin, begin + 70 * MS, closed="left"))
        assert window["tai_ns"] >= due_in_it["woke_tai_ns"].max()
        assert_figures(window, due_in_it["late_ns"], 60_000)
    assert_figures(run.done, run.rows["late_ns"], 60_000)
    assert sum(window["above"] for window in windows) == run.done["above"]


@pytest.mark.parametrize("how", WAYS)
def test_after_it_was_held_up_all_that_was_due_is_come_to_at_once(
    timer: Callable[[Any], Agent], tmp_path: Path, how: str
) -> None:
    spec = timer_spec(tmp_path, how=how, count=600)
    agent = timer(spec)
    agent.until("ready")
    start = agent.begin()
    while tai_ns() < start + 100 * MS:
        time.sleep(0.005)
    agent.signal(signal.SIGSTOP)
    agent.wait_until_stopped()
    time.sleep(HELD_UP_NS / 1e9)
    agent.signal(signal.SIGCONT)
    run = over(agent, spec, start)
    assert_all_recorded(run)
    overdue = run.rows.filter(pl.col("overdue"))
    assert overdue.height >= HELD_UP_NS // MS - 2
    # Each is as late as it was, whatever those before it were: it is the schedule that lateness counts from.
    first = run.rows.filter(pl.col("late_ns") >= HELD_UP_NS - 2 * MS).row(0, named=True)
    behind = run.rows.filter(pl.col("sequence").is_between(first["sequence"] + 1, first["sequence"] + 100))
    assert behind["overdue"].all()
    assert (behind["late_ns"] >= HELD_UP_NS - 2 * MS - (behind["sequence"] - first["sequence"]) * MS).all()
    assert run.done["max_ns"] >= HELD_UP_NS - 2 * MS


@pytest.mark.slow
def test_a_period_that_is_too_short_to_be_served_is_said(timer: Callable[[Any], Agent], tmp_path: Path) -> None:
    spec = timer_spec(tmp_path, period_ns=1000, count=1_500_000)
    run = waited(timer(spec), spec)
    done = run.done
    assert_all_recorded(run)
    assert 0 < done["overdue"] <= done["events"]
    # It has told so while it went on.
    counts = [(event["streams"][0]["packets"], event["overdue"]) for event in run.said("progress")]
    assert counts
    assert all(0 < overdue <= events for events, overdue in counts)
    assert sum(window["n"] for window in run.said("window")) == done["events"]
    assert sum(window["overdue"] for window in run.said("window")) == done["overdue"]


@pytest.mark.parametrize("trace", [False, "auto"])
def test_one_that_is_behind_waits_for_its_recording_and_no_row_is_lost(
    timer: Callable[[Any], Agent], tmp_path: Path, trace: bool | str
) -> None:
    spec = timer_spec(tmp_path, period_ns=1000, count=2000, ring_records=64, trace=trace)
    run = waited(timer(spec), spec, tai_ns() - HOUR_NS)
    assert_all_recorded(run)
    gaps = run.rows["woke_tai_ns"].diff().drop_nulls()
    assert gaps.sum() >= run.done["held_up_ns"] >= MS
    assert max(gaps) >= MS


def test_what_was_due_before_it_began_is_overdue(timer: Callable[[Any], Agent], tmp_path: Path) -> None:
    spec = timer_spec(tmp_path)
    run = waited(timer(spec), spec, tai_ns() - HOUR_NS)
    assert_all_recorded(run)
    assert run.done["overdue"] == run.done["above"] == spec["count"]
    assert run.done["min_ns"] >= HOUR_NS - spec["count"] * MS


ENDINGS: dict[str, Callable[[Agent], None]] = {
    "its standard input closes": Agent.hang_up,
    "it is told to stop": lambda agent: agent.tell(stop=True),
    "SIGTERM": lambda agent: agent.signal(signal.SIGTERM),
    "SIGINT": lambda agent: agent.signal(signal.SIGINT),
}


@pytest.mark.parametrize("end", ENDINGS.values(), ids=ENDINGS)
def test_one_that_is_ended_finishes_what_it_has(
    timer: Callable[[Any], Agent], tmp_path: Path, end: Callable[[Agent], None]
) -> None:
    agent = timer(timer_spec(tmp_path, count=3_600_000))
    agent.until("ready")
    agent.begin()
    until_recorded(tmp_path, "timer-irq.timer")
    end(agent)
    assert agent.ended() == 0
    done = agent.events[-1]
    found = recording(tmp_path, "timer-irq.timer")
    assert found.complete
    assert found.table["sequence"].to_list() == list(range(done["events"]))
    assert done["events"] > 0
    assert sum(event["n"] for event in agent.events if event["event"] == "window") == done["events"]


@pytest.mark.parametrize("how", WAYS)
def test_one_that_waits_for_long_ends_soon(timer: Callable[[Any], Agent], tmp_path: Path, how: str) -> None:
    agent = timer(timer_spec(tmp_path, how=how, offset_ns=HOUR_NS, period_ns=HOUR_NS))
    agent.until("ready")
    agent.begin()
    time.sleep(0.1)
    agent.tell(stop=True)
    assert agent.ended() == 0
    assert agent.said == ["ready", "done"]
    done = agent.events[-1]
    nothing = {
        "events": 0,
        "overdue": 0,
        "held_up_ns": 0,
        "above": 0,
        "mean_ns": None,
        "stddev_ns": None,
        "min_ns": None,
        "max_ns": None,
    }
    assert done | nothing == done


def test_after_sigkill_the_recording_reads_up_to_its_last_whole_batch(
    timer: Callable[[Any], Agent], tmp_path: Path
) -> None:
    agent = timer(timer_spec(tmp_path, period_ns=100_000, count=36_000_000))
    agent.until("ready")
    agent.begin()
    until_recorded(tmp_path, "timer-irq.timer")
    agent.signal(signal.SIGKILL)
    assert agent.ended() == -signal.SIGKILL
    found = recording(tmp_path, "timer-irq.timer")
    assert not found.complete
    assert found.table["sequence"].to_list() == list(range(found.table.height))


def test_a_start_that_no_clock_can_say_is_an_error_and_what_there_is_is_finished(
    timer: Callable[[Any], Agent], tmp_path: Path
) -> None:
    agent = timer(timer_spec(tmp_path))
    agent.until("ready")
    agent.tell(start_tai_ns=2**63 - 1)
    assert agent.ended() == 1
    assert [event["event"] for event in agent.events] == ["ready", "error", "done"]
    assert "start_tai_ns" in agent.events[1]["remedy"]
    assert recording(tmp_path, "timer-irq.timer").complete


WRONG: dict[str, tuple[str, Any, str]] = {
    "an unknown field": ("speed", 3, "spec of timer"),
    "a way to wait that does not exist": ("how", "spin", "spec of timer"),
    "a trace that is neither": ("trace", "maybe", "spec of timer"),
    "a period of nothing": ("period_ns", 0, "period_ns"),
    "no instants": ("count", 0, "count"),
    "instants for ever": ("period_ns", 2**62, "count"),
    "an offset into the past": ("offset_ns", -1, "offset_ns"),
    "a threshold below nothing": ("threshold_ns", -1, "threshold_ns"),
    "windows without end": ("window_ns", 0, "window_ns"),
    "a ring of no records": ("ring_records", 0, "ring_records"),
    "a priority that does not exist": ("realtime", {"fifo": 100}, "realtime.fifo"),
    "a CPU that does not exist": ("realtime", {"cpus": [4095]}, "realtime.cpus [4095]"),
    "a folder that does not exist": ("recording", "/nowhere/at/all", "/nowhere/at/all"),
}


@pytest.mark.parametrize(("key", "value", "where"), WRONG.values(), ids=WRONG)
def test_a_spec_that_cannot_be_done_is_one_error_that_says_where(
    timer: Callable[[Any], Agent], tmp_path: Path, key: str, value: Any, where: str
) -> None:
    agent = timer(timer_spec(tmp_path) | {key: value})
    assert agent.ended() == 1
    (error,) = agent.events
    assert set(error) == {"event", "what", "where", "remedy", "errno"}
    assert error["event"] == "error"
    assert error["what"] and error["remedy"]
    assert where in error["where"]
    assert "panicked" not in agent.stderr()


@pytest.mark.slow
def test_a_flipped_bit_of_a_recording_is_seen(timer: Callable[[Any], Agent], tmp_path: Path) -> None:
    agent = timer(timer_spec(tmp_path, period_ns=50_000, count=10_000))
    agent.until("ready")
    agent.begin()
    assert agent.ended() == 0
    whole = recording(tmp_path, "timer-irq.timer")
    assert (whole.table.height, whole.complete, whole.gaps) == (10_000, True, ())
    path = tmp_path / "timer-irq.timer.arrow"
    data = path.read_bytes()
    assert pl.read_ipc_stream(path).equals(whole.table)
    flips = random.Random(3)
    # As many of the headers, which are few bytes, as of the rows.
    headers = [at + n for at in places(data, b"latlab.") for n in range(-400, 40) if at + n >= 0]
    for place in [*flips.sample(range(len(data)), 300), *flips.sample(headers, 300)]:
        flipped = bytearray(data)
        flipped[place] ^= 1 << flips.randrange(8)
        other = tmp_path / f"{place}.arrow"
        other.write_bytes(flipped)
        try:
            found = read_recording(other, "timer")
        except LabError as error:
            assert str(error).startswith(str(other))
            continue
        finally:
            other.unlink()
        assert found.gaps or not found.complete, place
        ends = {gap.first_row: gap.first_row + (gap.rows or whole.table.height) for gap in found.gaps}
        left = [not any(first <= n + 1 < end for first, end in ends.items()) for n in range(whole.table.height)]
        assert found.table.equals(whole.table.filter(pl.Series(left))), place


def places(data: bytes, text: bytes) -> list[int]:
    """Where the text is in the data."""
    return [match.start() for match in re.finditer(re.escape(text), data)]
