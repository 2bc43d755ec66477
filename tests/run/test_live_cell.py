"""A cell that is shown live: what is followed, and what those who follow it hear of packets, clocks and CPUs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from latlab.console import LiveCell
from latlab.recordings.run_folder import RunFolder
from latlab.run.events import CellStarted, ClockBound, Event, Packets
from latlab.run.matrix import followed, run
from latlab.scenario import Scenario, load_scenario
from support.run import BASE

DDS = {"probe": "dds", "from": "ecu", "to": "sensor", "size": "200B", "period": "5ms"}
PARTS: dict[str, Any] = {
    "streams": {"control": {"talker": "sensor", "listener": "ecu", "period": "2ms", "size": "64B"}},
    "probes": {
        "rr": {"probe": "ping", "from": "ecu", "to": "sensor", "size": "64B", "period": "5ms"},
        "dds": DDS,
        "irq": {"probe": "timer", "on": "ecu", "period": "5ms"},
    },
}


def test_streams_round_trips_and_timers_are_followed_and_tools_are_not(scenario: Callable[..., Scenario]) -> None:
    made = scenario(
        **PARTS | {"probes": PARTS["probes"] | {"sock": {"probe": "sockperf", "from": "sensor", "to": "ecu"}}}
    )
    found = list(followed(made))
    assert [(one.name, one.what, one.sender, one.receiver) for one in found] == [
        ("control", "latency", "sensor", "ecu"),
        ("rr", "round trip", "ecu", "ecu"),
        ("dds", "round trip", "ecu", "ecu"),
        ("irq", "lateness", "ecu", "ecu"),
    ]
    assert len({one.stream for one in found}) == len(found)


@pytest.mark.real
@pytest.mark.usefixtures("machine", "journals")
def test_what_a_live_cell_says_is_enough_for_every_row(tmp_path: Path) -> None:
    heard, folder = measured(tmp_path, live=True, duration="4s", clock={"sync": "exchange"}, **PARTS)
    started, *told = heard
    assert isinstance(started, CellStarted)
    cell = LiveCell(started.followed)
    assert [one.name for one in started.followed] == ["control", "rr", "dds", "irq"]
    bounds = [event for event in told if isinstance(event, ClockBound)]
    # One clock it is, and the network between is all that bounds it.
    assert all(bound.lower_ns <= 0 <= bound.upper_ns for bound in bounds)
    assert {frozenset((bound.from_, bound.to)) for bound in bounds} == {frozenset(("sensor", "ecu"))}
    assert {event.order for event in told if isinstance(event, Packets | ClockBound)} == {1}
    for event in told:
        if isinstance(event, Packets | ClockBound):
            cell.take(event)
    for row, one in zip(cell.rows(), started.followed, strict=True):
        assert row.per_s is not None and row.steal is not None, row
        assert (row.lost is None) == (one.name == "irq")
        assert row.clock_ns is not None and (row.clock_ns > 0) == (one.name == "control")
    assert folder.run().live is True


@pytest.mark.real
@pytest.mark.usefixtures("machine", "journals")
def test_agents_of_a_cell_that_is_not_live_say_no_more_than_counts(tmp_path: Path) -> None:
    heard, folder = measured(tmp_path, live=False, duration="1200ms", **PARTS)
    started, *told = heard
    assert isinstance(started, CellStarted) and started.followed == ()
    assert not any(isinstance(event, ClockBound) for event in told)
    packets = [event for event in told if isinstance(event, Packets)]
    assert packets
    assert all((event.seen, event.steal_ns, event.offset_ns) == ({}, None, None) for event in packets)
    assert folder.run().live is False


def measured(path: Path, *, live: bool, **parts: Any) -> tuple[list[Event], RunFolder]:
    """All that was said of a cell with these parts from its beginning, and its run."""
    heard: list[Event] = []
    place = path / "s.yaml"
    place.write_text(yaml.safe_dump(BASE | parts, sort_keys=False))
    folder = asyncio.run(run(load_scenario(place), path / "runs", heard.append, live=live))
    (cell,) = folder.cells()
    assert cell.cell().status == "ok", cell.cell().reason
    begun = next(number for number, event in enumerate(heard) if isinstance(event, CellStarted))
    return heard[begun:], folder
