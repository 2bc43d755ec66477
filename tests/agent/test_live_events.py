"""Progress that says more: figures of the last second are those of the rows that are recorded of it."""

from __future__ import annotations

import os
import signal
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from support.agent.bed import Bed
from support.agent.process import Agent
from support.agent.rounds import DOWN, UP, Pair, Trips
from support.agent.streams import ECU, MS, SENSOR, Measurement, Probe, Stream, new_run_id, recording
from support.agent.timers import STREAM, timer_spec, waited

pytestmark = pytest.mark.real

LIVE = {"live": True}
PACKETS = 3000
FIGURES = ("n", "p50_ns", "p99_ns", "max_ns")


def said(agent: Agent, number: int) -> list[dict[str, Any]]:
    """What each progress said of a stream that comes in."""
    streams = [stream for event in progress(agent) for stream in event["streams"]]
    return [stream for stream in streams if stream["stream"] == number]


def progress(agent: Agent) -> list[dict[str, Any]]:
    return [event for event in agent.events if event["event"] == "progress"]


def figures(late_ns: pl.Series) -> dict[str, int]:
    """Of these latencies, whose percentiles are by the nearest rank."""
    ordered, n = late_ns.sort(), len(late_ns)
    ranks = [-(-percent * n // 100) - 1 for percent in (50, 99)]
    return dict(zip(FIGURES, (n, *(ordered[rank] for rank in ranks), ordered[-1]), strict=True))


def assert_of_the_rows(reports: list[dict[str, Any]], late_ns: pl.Series) -> None:
    """Each report is of the rows that follow those of the one before; late_ns: in the order in which they came."""
    begin = 0
    for report in reports:
        if latest := report["since_last"]:
            assert latest == figures(late_ns[begin : begin + latest["n"]])
            begin += latest["n"]
    assert 0 < begin <= len(late_ns)


def test_a_listener_says_how_late_packets_were_on_the_clocks_as_they_are(bed: Bed, tmp_path: Path) -> None:
    streams = Stream(count=PACKETS), Stream(2, count=PACKETS // 2, period_ns=2 * MS)
    measurement = Measurement(bed, tmp_path, streams, talk=LIVE, listen=LIVE)
    measurement.begin()
    measurement.end()
    rows = recording(tmp_path, "listener-ecu.received").table
    for stream in streams:
        own = rows.filter(stream=stream.number)
        reports = said(measurement.listener, stream.number)
        assert_of_the_rows(reports, own["rx_user_tai_ns"] - own["launch_tai_ns"])
        assert {report["missing"] for report in reports} == {0}
        # Of what goes out there is a count and no more.
        assert all(report.keys() == {"stream", "packets"} for report in said(measurement.talker, stream.number))
    for agent in (measurement.talker, measurement.listener):
        steals = [event["steal_ns"] for event in progress(agent)]
        assert all(earlier <= later for earlier, later in pairwise(steals))
        assert steals[0] <= steal_ns()


def steal_ns() -> int:
    """The machine's steal time since boot."""
    fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()
    return int(fields[8]) * 1_000_000_000 // os.sysconf("SC_CLK_TCK")


def test_packets_with_a_later_one_before_them_are_missing_until_they_come(bed: Bed, tmp_path: Path) -> None:
    stream = Stream(count=100)
    measurement = Measurement(bed, tmp_path, [stream], listen=LIVE)
    listener = measurement.listener
    with bed.udp("sensor", SENSOR, 0) as socket:
        for sequences, missing in (([0, 1, 5, 6], 3), ([3], 2), ([2, 4], 0)):
            for sequence in sequences:
                socket.sendto(Probe(measurement.run_id, sequence).bytes(), (ECU, stream.port))
            listener.until("progress")
            assert listener.until("progress")["streams"][0]["missing"] == missing
    listener.tell(stop=True)
    listener.until("done")


@pytest.mark.parametrize("closed", [False, True], ids=["at a rate", "in a closed loop"])
def test_a_ping_says_how_long_round_trips_took_from_the_questions_launch(
    bed: Bed, tmp_path: Path, closed: bool
) -> None:
    pair = Pair(bed, tmp_path, Trips(count=None if closed else PACKETS, duration_ns=PACKETS * MS), LIVE, LIVE)
    pair.begin()
    tripped = pair.end()
    legs = tripped.legs()
    took = set(legs["rx_user_tai_ns_back"] - legs["launch_tai_ns"])
    reports = said(pair.ping, DOWN)
    found = [report["since_last"] for report in reports if report["since_last"]]
    assert 0 < sum(latest["n"] for latest in found) <= legs.height
    assert {latest[name] for latest in found for name in FIGURES[1:]} <= took
    assert {report["missing"] for report in reports} == {0}
    assert all(report.keys() == {"stream", "packets"} for report in (*said(pair.ping, UP), *said(pair.pong, UP)))
    assert all("steal_ns" in event for event in (*progress(pair.ping), *progress(pair.pong)))


def test_a_timer_says_how_late_instants_were_come_to(tmp_path: Path) -> None:
    spec = timer_spec(tmp_path, count=PACKETS) | LIVE
    agent = Agent((), "timer", spec)
    try:
        run = waited(agent, spec)
    finally:
        agent.kill()
    assert_of_the_rows(said(agent, STREAM), run.rows["late_ns"])
    assert all("steal_ns" in event and "overdue" in event for event in run.said("progress"))


def test_who_compares_clocks_says_what_the_latest_comparisons_prove(bed: Bed, tmp_path: Path) -> None:
    shared = {"run_id": new_run_id(), "realtime": {}}
    here, there = f"{SENSOR}:5556", f"{ECU}:5556"
    responder = bed.agent("ecu", "clock", shared | {"role": "responder", "listen": there, "peer": here})
    responder.until("ready")
    asks = {"role": "initiator", "source": here, "peer": there, "period_ns": 10 * MS, "count": 100_000}
    told = shared | asks | {"recording": str(tmp_path / "clock")}
    initiator = bed.agent("sensor", "clock", told | LIVE)
    initiator.until("ready")
    for _ in range(2):
        bound = initiator.until("progress")["bound"]
        assert bound["lower_ns"] <= 0 <= bound["upper_ns"]
        assert 0 < bound["span_ns"] < 60_000 * MS
    initiator.tell(stop=True)
    assert initiator.until("done")["bound"]["lower_ns"] <= 0
    responder.signal(signal.SIGTERM)
    responder.until("done")


def test_nothing_more_is_said_where_it_is_not_asked_for(bed: Bed, tmp_path: Path) -> None:
    measurement = Measurement(bed, tmp_path, [Stream(count=2200)])
    measurement.begin()
    measurement.end()
    for agent in (measurement.talker, measurement.listener):
        assert progress(agent)
        for event in progress(agent):
            assert event.keys() == {"event", "tai_ns", "streams"}
            assert all(stream.keys() == {"stream", "packets"} for stream in event["streams"])
