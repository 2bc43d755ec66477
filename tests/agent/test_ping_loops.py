"""What starts questions: in open loops the clock, whatever answers do; in closed ones the answer before, or none."""

from __future__ import annotations

import errno
import os
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from support.agent.bed import Bed, reject
from support.agent.process import Agent, tai_ns
from support.agent.rounds import (
    PORT,
    OwnPong,
    Pair,
    Trips,
    answer,
    assert_no_faster_than_recorded,
    ping_spec,
    stopped,
    trip,
)
from support.agent.streams import ECU, MS, ORDINARY, new_run_id, recording

pytestmark = pytest.mark.real

HELD_S = 0.3
TIMEOUT_NS = 20 * MS


def held_up(agent: Agent, start_tai_ns: int) -> tuple[int, int]:
    """From when to when the agent stopped, CLOCK_TAI ns: after 100 ms of the run, for HELD_S."""
    while tai_ns() < start_tai_ns + 100 * MS:
        time.sleep(0.005)
    agent.signal(signal.SIGSTOP)
    agent.wait_until_stopped()
    stopped_at = tai_ns()
    time.sleep(HELD_S)
    released = tai_ns()
    agent.signal(signal.SIGCONT)
    return stopped_at, released


@pytest.mark.parametrize("mode", ["block", "spin"])
@pytest.mark.parametrize("kind", ["udp", "tcp", "ethernet"])
def test_questions_are_asked_on_time_while_nobody_answers(bed: Bed, tmp_path: Path, kind: str, mode: str) -> None:
    pair = Pair(bed, tmp_path, Trips(kind=kind, count=700), ping={"mode": mode})
    pair.begin()
    stopped_at, released = held_up(pair.pong, pair.start_tai_ns)
    tripped = pair.end()
    assert (tripped.ping["sent"], tripped.ping["answered"]) == (700, 700)
    legs = tripped.legs()
    assert legs["launch_tai_ns"].to_list() == [pair.start_tai_ns + n * MS for n in range(700)]
    silent = legs.filter(pl.col("launch_tai_ns").is_between(stopped_at, released))
    assert silent.height in (299, 300, 301) or released - stopped_at > 301 * MS
    # Those that were due early in the silence had all of it to be asked in, however busy the machine.
    early = silent.filter(pl.col("launch_tai_ns") < stopped_at + 20 * MS)
    assert early.height > 0 and (early["submit_tai_ns"] < released).all()
    # Each counts from when it was due, so the silence is in all of them, less by a period from one to the next.
    trips = (silent["rx_user_tai_ns_back"] - silent["launch_tai_ns"]).to_numpy()
    assert (trips >= released - silent["launch_tai_ns"].to_numpy()).all()
    assert (np.diff(trips) >= -MS).all()


@pytest.mark.parametrize("mode", ["block", "spin"])
def test_a_ping_held_up_asks_every_question_that_came_due(bed: Bed, tmp_path: Path, mode: str) -> None:
    pair = Pair(bed, tmp_path, Trips(count=700), ping={"mode": mode})
    pair.begin()
    stopped_at, released = held_up(pair.ping, pair.start_tai_ns)
    tripped = pair.end()
    assert (tripped.ping["sent"], tripped.ping["answered"]) == (700, 700)
    legs = tripped.legs()
    assert legs["launch_tai_ns"].to_list() == [pair.start_tai_ns + n * MS for n in range(700)]
    missed = legs.filter(pl.col("launch_tai_ns").is_between(stopped_at, released))
    assert missed.height >= 299
    assert (missed["submit_tai_ns"] >= released).all()


def test_in_a_closed_loop_an_answer_s_arrival_is_the_next_question_s_launch(bed: Bed, tmp_path: Path) -> None:
    tripped = trip(bed, tmp_path, Trips(count=None))
    legs = tripped.legs()
    launch, back = legs["launch_tai_ns"], legs["rx_user_tai_ns_back"]
    assert launch[0] == tripped.start_tai_ns
    assert (launch[1:] == back[:-1]).all()
    for same in ("wake_due_tai_ns", "wake_tai_ns"):
        assert (legs[same][1:] == launch[1:]).all()
    # The last was launched before the end, and over after it.
    assert launch[-1] < tripped.start_tai_ns + 200 * MS <= back[-1]


@pytest.mark.parametrize("kind", ["udp", "tcp", "ethernet"])
@pytest.mark.parametrize("slow", ["ping", "pong"])
def test_a_closed_loop_is_no_faster_than_either_side_records(bed: Bed, tmp_path: Path, slow: str, kind: str) -> None:
    # The last quarter of the ring holds a question each 10 ms of all the loop.
    trips = Trips(kind=kind, count=None, duration_ns=150 * MS)
    tripped = trip(bed, tmp_path, trips, **{slow: {"ring_records": 64}})
    assert (tripped.ping["ring_full"], tripped.pong["ring_full"]) == (0, 0)
    legs = tripped.legs()
    assert legs.height == tripped.ping["sent"] > 1
    assert (legs["launch_tai_ns"][1:] >= legs["rx_user_tai_ns_back"][:-1]).all()
    assert_no_faster_than_recorded(legs["launch_tai_ns"], 64)


@pytest.mark.parametrize("there", ["nobody", "somebody who does not answer", "a firewall that rejects"])
def test_a_closed_loop_without_answers_goes_on_after_each_timeout(bed: Bed, tmp_path: Path, there: str) -> None:
    deaf = bed.udp("ecu", ECU, PORT) if there != "nobody" else None
    if "firewall" in there:
        reject("ecu")
    trips = Trips(count=None, duration_ns=300 * MS, timeout_ns=TIMEOUT_NS)
    ping = bed.agent("sensor", "ping", ping_spec(new_run_id(), tmp_path, trips))
    ping.until("ready")
    start = ping.begin()
    done = ping.until("done")
    assert ping.ended() == 0
    launch = recording(tmp_path, "ping.sent").table["launch_tai_ns"]
    assert launch[0] == start
    assert (launch.diff().drop_nulls() >= TIMEOUT_NS).all()
    assert done["sent"] == done["unanswered"] == launch.len() > 1
    assert (done["answered"], done["received"], done["send_errors"]) == (0, 0, 0)
    reported = {"nobody": errno.ECONNREFUSED, "a firewall that rejects": errno.EHOSTUNREACH}.get(there)
    assert (done["rejected"] > 0, done.get("rejected_errno")) == (reported is not None, reported)
    assert recording(tmp_path, "ping.received").table.height == 0
    if deaf:
        deaf.close()


def test_an_open_loop_without_answers_ends_after_its_timeout_and_is_no_error(bed: Bed, tmp_path: Path) -> None:
    ping = bed.agent("sensor", "ping", ping_spec(new_run_id(), tmp_path, Trips(timeout_ns=150 * MS)))
    ping.until("ready")
    start = ping.begin()
    done = ping.until("done")
    assert tai_ns() >= start + 199 * MS + 150 * MS
    assert (done["sent"], done["answered"], done["unanswered"]) == (200, 0, 200)
    assert ping.ended() == 0


def closed(bed: Bed, folder: Path, run_id: str, duration_ns: int = 300 * MS) -> Agent:
    """A ping in a closed loop that has begun."""
    trips = Trips(count=None, duration_ns=duration_ns, timeout_ns=TIMEOUT_NS)
    ping = bed.agent("sensor", "ping", ping_spec(run_id, folder, trips))
    ping.until("ready")
    ping.begin()
    return ping


def test_a_closed_loop_loses_the_answers_it_loses_and_no_more(bed: Bed, tmp_path: Path) -> None:
    run_id = new_run_id()
    rule = lambda n: [] if n % 10 == 3 else [answer(run_id, n)]  # noqa: E731
    with OwnPong(bed.udp("ecu", ECU, PORT), rule) as pong:
        ping = closed(bed, tmp_path, run_id)
        done = ping.until("done")
        assert ping.ended() == 0
    asked = recording(tmp_path, "ping.sent").table["sequence"].to_list()
    heard = recording(tmp_path, "ping.received").table["sequence"].to_list()
    assert asked == pong.asked == list(range(done["sent"]))
    assert heard == [n for n in asked if n % 10 != 3]
    assert (done["answered"], done["unanswered"]) == (len(heard), len(asked) - len(heard))
    assert len(asked) > 10


def test_in_a_closed_loop_an_answer_after_its_timeout_is_recorded_and_starts_no_question(
    bed: Bed, tmp_path: Path
) -> None:
    run_id = new_run_id()

    def rule(n: int) -> list[bytes]:
        # The answer to the third question comes when the fourth has been asked, well before that one's own.
        if n == 3:
            return []
        if n == 4:
            at.sendto(answer(run_id, 3), asker())
            time.sleep(0.005)
        return [answer(run_id, n)]

    at = bed.udp("ecu", ECU, PORT)
    ping = bed.agent("sensor", "ping", ping_spec(run_id, tmp_path, Trips(count=None, timeout_ns=100 * MS)))
    local = ping.until("ready")["local"][0].rpartition(":")

    def asker() -> tuple[str, int]:
        return local[0], int(local[2])

    with OwnPong(at, rule):
        ping.begin()
        done = ping.until("done")
        assert ping.ended() == 0
    sent = recording(tmp_path, "ping.sent").table
    received = recording(tmp_path, "ping.received").table
    assert received["sequence"].to_list() == sent["sequence"].to_list() == list(range(done["sent"]))
    assert (done["received"], done["answered"], done["unanswered"]) == (done["sent"], done["sent"] - 1, 1)
    came, launch = received["rx_user_tai_ns"], sent["launch_tai_ns"]
    assert launch[4] - launch[3] >= 100 * MS
    assert launch[4] < came[3] < came[4] == launch[5]


@pytest.mark.parametrize(
    "trips", [Trips(count=5000), Trips(count=None, duration_ns=5_000_000_000)], ids=["open", "closed"]
)
def test_what_was_asked_for_is_in_force_on_the_threads_that_measure(bed: Bed, tmp_path: Path, trips: Trips) -> None:
    asked: dict[str, Any] = {"realtime": ORDINARY | {"fifo": 42, "cpus": [0]}}
    pair = Pair(bed, tmp_path, trips, ping=asked, pong=asked)
    hot = {
        agent.verb: [t for t in agent.threads() if os.sched_getscheduler(t) == os.SCHED_FIFO]
        for agent in (pair.ping, pair.pong)
    }
    # An open loop asks in one thread and hears in another.
    assert {verb: len(threads) for verb, threads in hot.items()} == {"ping": 2 if trips.count else 1, "pong": 1}
    for threads in hot.values():
        assert {os.sched_getparam(tid).sched_priority for tid in threads} == {42}
        assert all(os.sched_getaffinity(tid) == {0} for tid in threads)
    for agent in (pair.ping, pair.pong):
        stopped(agent)
