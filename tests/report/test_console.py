"""A run as it happens, in plain lines."""

from __future__ import annotations

import io
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from latlab import console as shown
from latlab.console import RunConsole, cell_line, timer_lines, told_while, window_line
from latlab.recordings.cell import RecordedCell
from latlab.run import events
from support.results import partial

LACKING = {"what": "no IOMMU is in use", "where": "guests.vm1.bridge: vfio", "remedy": "turn it on"}
TALKED = {"verb": "talk", "done": {"streams": [{"sent": 10}]}}
LISTENED = {"verb": "listen", "done": {"streams": [{"received": 9}]}}


def cell(**changes: Any) -> RecordedCell:
    return partial(RecordedCell, {"status": "ok", "agents": [TALKED, LISTENED], **changes})


def test_a_cell_that_cannot_be_built_says_so_in_its_line() -> None:
    file = io.StringIO()
    with RunConsole(Console(file=file, width=200)) as console:
        console.show(events.RunStarted(Path("runs/x"), 7, 7, 1))
        console.show(events.CellStarted(2, "bridge=vfio", 1, 1, 10**10))
        console.show(events.CellEnded(2, cell(status="unavailable", reason=LACKING, agents=[])))
    last = file.getvalue().splitlines()[-1]
    assert last == "[2/7] bridge=vfio: unavailable: guests.vm1.bridge: vfio: no IOMMU is in use (turn it on)"


def test_what_a_cell_waits_for_is_a_line_with_its_phase_and_what_was_counted() -> None:
    file = io.StringIO()
    with RunConsole(Console(file=file, width=200)) as console:
        console.show(events.RunStarted(Path("runs/x"), 1, 1, 1, ("nothing else runs on board1",)))
        console.show(events.CellStarted(1, "bridge=tap", 1, 1, 10**9))
        console.show(events.Phase("setting up", 1))
        console.show(events.Waiting("start board1", 10.04, 1))
        console.show(events.Phase("measuring", 1))
        console.show(events.Packets("sensor", "talk", {0: 7}, order=1))
        console.show(events.Waiting("talkers and tools finish", 40.2, 1))
        # Of a cell that is not shown there is nothing to say.
        console.show(events.Waiting("start board1", 10.0, 2))
    assert file.getvalue().splitlines()[1:] == [
        "warning: nothing else runs on board1",
        "[1/1] bridge=tap, 1 s",
        "[1/1] bridge=tap: setting up: start board1, 10 s so far",
        "[1/1] bridge=tap: measuring: talkers and tools finish, 40 s so far; 7 sent",
    ]


def test_work_that_takes_long_is_named_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shown, "FIRST_S", 0.01)
    monkeypatch.setattr(shown, "AGAIN_S", 0.01)
    file = io.StringIO()
    with told_while("analysing", Console(file=file, width=200)):
        for _ in range(1000):
            if file.getvalue().count("\n") >= 3:
                break
            time.sleep(0.01)
    assert set(file.getvalue().splitlines()) == {"analysing, 0 s so far"}


def test_several_reasons_are_all_told() -> None:
    reasons = {"what": "2 problems", "where": "", "remedy": "", "problems": [LACKING, {**LACKING, "what": "no card"}]}
    line = cell_line(cell(status="unavailable", reason=reasons))
    assert "no IOMMU is in use (turn it on); guests.vm1.bridge: vfio: no card" in line


def test_what_could_not_be_set_or_kept_is_reported_with_the_packets() -> None:
    step = {"title": "vCPU 0 runs at SCHED_FIFO 1", "ok": False}
    assert cell_line(cell(steps=[step | {"ok": True}], rechecks=[step | {"ok": True}])) == "10 sent, 9 received"
    assert cell_line(cell(steps=[step], rechecks=[step])) == (
        "10 sent, 9 received; could not be set: vCPU 0 runs at SCHED_FIFO 1; "
        "changed at the end: vCPU 0 runs at SCHED_FIFO 1"
    )


def test_instants_that_had_passed_when_their_turn_came_are_reported() -> None:
    done = {"events": 1_000_000, "above": 0, "overdue": 936_635}
    waited = {"verb": "timer", "done": done}
    assert cell_line(cell(agents=[waited])) == "1000000 instants, 0 above the threshold, 936635 overdue"
    served = {"verb": "timer", "done": done | {"overdue": 0}}
    assert cell_line(cell(agents=[served])) == "1000000 instants, 0 above the threshold"
    window = events.TimerWindowEnded("ecu", "irq", 0, 10**9, 10**6, 400.0, 90.0, 60, 900, 0, 30_000, 936_635)
    assert "0 above 30 µs (0 %), 936635 overdue; so far 0.06 to 0.90 µs" in window_line(window, 60, 900)
    assert "overdue" not in window_line(replace(window, overdue=0), 60, 900)


def test_all_instants_of_a_timer_are_reported_at_its_end_in_ticks_too_where_its_counter_is_known() -> None:
    done = {"events": 400, "mean_ns": 3120.5, "stddev_ns": 410.0, "min_ns": 2514, "max_ns": 38120, "above": 3}
    done |= {"threshold_ns": 30_000, "overdue": 1}
    timer = {"verb": "timer", "probe": "irq", "host": "vm1", "ready": {"timer": {"tick_ns": 10.0}}, "done": done}
    unknown = timer | {"host": "ecu", "ready": {"timer": {"tick_ns": None}}}
    dead, none = timer | {"done": None}, timer | {"done": done | {"events": 0}}
    assert timer_lines(cell(agents=[timer, unknown, dead, none])) == [
        "irq on vm1, in all, n 400: mean 3.12 µs (312 ticks), stddev 0.41 µs (41 ticks), min 2.51 µs (251 ticks), "
        "max 38.12 µs (3812 ticks), 3 above 30 µs (0.75 %), 1 overdue",
        "irq on ecu, in all, n 400: mean 3.12 µs, stddev 0.41 µs, min 2.51 µs, max 38.12 µs, 3 above 30 µs (0.75 %), "
        "1 overdue",
    ]
