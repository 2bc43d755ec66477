"""Around late packets, and few others, the kernel's events are kept: they show what a trace of all would show."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from latlab.analysis.interrupt_way import packets_passage
from latlab.recordings.traces import separated, within
from support.agent.bed import Bed
from support.agent.process import Agent
from support.agent.streams import MS, ORDINARY, Measurement, Stream, listen_spec, new_run_id, recording
from support.agent.traces import finished, trace_spec, tracing
from support.busy import BusyCpu, Napping

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif("tracefs" not in Path("/proc/filesystems").read_text(), reason="this kernel has no tracefs"),
]

ABOVE_NS = 6 * MS
TRIGGER = {"metric": "latency_user", "above_ns": ABOVE_NS, "margin_ns": MS, "typical_ns": 100 * MS}


def windows(agent: Agent) -> list[dict[str, int]]:
    """What the listener, which has ended, said is to be kept."""
    return [window for event in agent.events if event["event"] == "late" for window in event["windows"]]


def known(stream: int = 1, **changes: int) -> list[dict[str, int]]:
    """That the listener's clock is the talker's."""
    return [{"stream": stream, "ahead_ns": 0, "off_ns": 0, **changes}]


@pytest.mark.alone
def test_the_late_packets_are_explained_as_by_a_trace_of_all_and_little_is_recorded(bed: Bed, tmp_path: Path) -> None:
    listen = {"trigger": TRIGGER, "realtime": ORDINARY | {"cpus": [0], "fifo": 20}}
    talk = {"realtime": ORDINARY | {"fifo": 60}}
    measurement = Measurement(bed, tmp_path / "cell", [Stream(count=700)], talk, listen)
    measurement.listener.tell(clocks=known())
    reader = next(event for event in measurement.listener.events if event["event"] == "ready")["realtime"]["tid"]
    folders = {"all": tmp_path / "all", "flight": tmp_path / "flight"}
    for folder in folders.values():
        folder.mkdir()
    spec = trace_spec(folders["flight"], threads=[reader], windows_only=True)
    with tracing(trace_spec(folders["all"], threads=[reader])) as whole, tracing(spec) as flight:
        for agent in (whole, flight):
            agent.until("ready")
        with BusyCpu() as busy:
            measurement.begin()
            busy.begin()
            measured = measurement.end()
        flight.tell(keep=windows(measurement.listener))
        traced = {"all": finished(whole, folders["all"]), "flight": finished(flight, folders["flight"])}
    kept = recording(folders["flight"], "trace-ecu.kept").table
    assert kept["whole"].all()
    assert traced["flight"].done["kept"] | {"overwritten": 0} == {
        "windows": kept.height,
        "overran": 0,
        "overwritten": 0,
    }
    packets = measured.packets.sort("arrival")
    took = packets["rx_user_tai_ns"] - packets["launch_tai_ns"]
    inside = within(kept, packets)
    late = took > ABOVE_NS
    judged = measured.listened["judged"]
    assert (judged["judged"], judged["late"], judged["unjudged"]) == (700, late.sum(), 0)
    # Each time the reader had to wait until the CPU was free again.
    assert judged["late"] > 0
    assert inside.filter(late).all()
    assert not inside.all()
    told = {}
    for name, rows in (("all", traced["all"].rows), ("flight", separated(traced["flight"].rows, kept))):
        _, found = packets_passage(packets.filter(inside), rows, reader)
        told[name] = found.filter(late.filter(inside))
    assert told["flight"].select("before", "why").rows() == told["all"].select("before", "why").rows()
    # Each of the two traces has a different instant for the same event.
    for name in ("waking_tai_ns", "run_tai_ns"):
        assert (told["flight"][name] - told["all"][name]).abs().fill_null(0).max() < MS  # type: ignore[operator]
    woken = told["flight"].filter(pl.col("why").is_null() & (pl.col("shared") == 0))
    assert woken.height > 0
    # The time that the busy process took is between its waking and its running.
    assert (woken["run_tai_ns"] - woken["waking_tai_ns"]).max() > ABOVE_NS - 2 * MS  # type: ignore[operator]
    assert traced["flight"].rows.height == traced["flight"].done["events"] < traced["all"].rows.height / 2
    sizes = {name: (folder / "trace-ecu.trace.arrow").stat().st_size for name, folder in folders.items()}
    assert sizes["flight"] < sizes["all"]


def test_events_that_newer_ones_have_replaced_are_counted(tmp_path: Path) -> None:
    events = ["sched:sched_waking", "sched:sched_switch"]
    spec = trace_spec(tmp_path, events=events, windows_only=True, buffer_kib=4)
    with Napping() as naps, tracing(spec) as agent:
        begun = agent.until("ready")["tai_ns"]
        naps.takes(2_000)
        now = time.clock_gettime_ns(time.CLOCK_TAI)
        agent.tell(keep=[{"from_tai_ns": begun, "to_tai_ns": begun + MS}])
        traced = finished(agent, tmp_path)
    kept = recording(tmp_path, "trace-ecu.kept").table
    assert kept.rows() == [(begun, begun + MS, False)]
    assert now > begun
    counted = traced.done["kept"]
    assert (counted["windows"], counted["overran"]) == (1, 1)
    assert counted["overwritten"] > 0
    # That they are overwritten is how it is meant to be: none was lost where it was wanted otherwise.
    assert traced.done["lost"] == 0


def test_nothing_is_recorded_unless_it_is_asked_for(tmp_path: Path) -> None:
    spec = trace_spec(tmp_path, events=["sched:sched_switch"], windows_only=True)
    with Napping() as naps, tracing(spec) as agent:
        agent.until("ready")
        naps.takes(10)
        traced = finished(agent, tmp_path)
    assert (traced.rows.height, traced.tasks.height, traced.done["events"]) == (0, 0, 0)
    assert traced.done["kept"]["windows"] == 0
    assert recording(tmp_path, "trace-ecu.kept").complete


def test_packets_are_not_judged_before_the_clocks_are_known(bed: Bed, tmp_path: Path) -> None:
    listen = {"trigger": TRIGGER | {"above_ns": 0}}
    measurement = Measurement(bed, tmp_path / "cell", [Stream(count=50), Stream(number=2, count=50)], listen=listen)
    # Of the second stream the listener's clock is far ahead: to it, nothing is late.
    measurement.listener.tell(clocks=known(2, ahead_ns=3600 * 1000 * MS))
    measurement.begin()
    judged = measurement.end().listened["judged"]
    assert judged == {"judged": 50, "late": 0, "typical": 1, "unjudged": 50}


@pytest.mark.parametrize(
    ("changes", "where"),
    [
        ({"above_ns": -1}, "trigger.above_ns"),
        ({"margin_ns": -1}, "trigger.margin_ns"),
        ({"typical_ns": 0}, "trigger.typical_ns"),
        ({"typical_ns": 2**62}, "trigger.typical_ns"),
        ({"metric": "path"}, "spec of listen"),
        ({"below_ns": 1}, "spec of listen"),
    ],
)
def test_a_trigger_that_cannot_be_is_named(bed: Bed, tmp_path: Path, changes: dict[str, Any], where: str) -> None:
    spec = listen_spec(new_run_id(), tmp_path, Stream(), trigger=TRIGGER | changes)
    agent = bed.agent("ecu", "listen", spec)
    assert agent.ended() == 1
    (error,) = agent.events
    assert error["event"] == "error"
    assert error["where"].startswith(where)


def test_a_command_that_makes_no_sense_ends_it_with_an_error(tmp_path: Path) -> None:
    with tracing(trace_spec(tmp_path, windows_only=True)) as agent:
        agent.until("ready")
        agent.tell(keep=[{"from_tai_ns": "now", "to_tai_ns": 5}])
        assert agent.ended() == 1
    assert [event["where"] for event in agent.events if event["event"] == "error"] == ["a command on standard input"]
    assert os.path.getsize(tmp_path / "trace-ecu.kept.arrow") > 0
