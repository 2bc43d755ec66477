"""A run as it happens, in plain lines."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console

from latlab.console import RunConsole, cell_line, window_line
from latlab.measure import events

LACKING = {"what": "no IOMMU is in use", "where": "guests.vm1.bridge: vfio", "remedy": "turn it on"}
TALKED = {"verb": "talk", "done": {"streams": [{"sent": 10}]}}
LISTENED = {"verb": "listen", "done": {"streams": [{"received": 9}]}}


def cell(**changes: Any) -> dict[str, Any]:
    return {"status": "ok", "reason": None, "agents": [TALKED, LISTENED], "steps": [], **changes}


def test_a_cell_that_cannot_be_built_says_so_in_its_line() -> None:
    file = io.StringIO()
    with RunConsole(Console(file=file, width=200)) as console:
        console.show(events.RunStarted(Path("runs/x"), 7, 7, 1))
        console.show(events.CellStarted(2, "bridge=vfio", 1, 1, 10**10))
        console.show(events.CellEnded(2, cell(status="unavailable", reason=LACKING, agents=[])))
    last = file.getvalue().splitlines()[-1]
    assert last == "[2/7] bridge=vfio: unavailable: guests.vm1.bridge: vfio: no IOMMU is in use (turn it on)"


def test_several_reasons_are_all_told() -> None:
    reasons = {"what": "2 problems", "where": "", "remedy": "", "problems": [LACKING, {**LACKING, "what": "no card"}]}
    line = cell_line(cell(status="unavailable", reason=reasons))
    assert "no IOMMU is in use (turn it on); guests.vm1.bridge: vfio: no card" in line


def test_what_could_not_be_set_or_kept_is_told_with_the_packets() -> None:
    step = {"title": "vCPU 0 runs at SCHED_FIFO 1", "ok": False}
    assert cell_line(cell(steps=[step | {"ok": True}], rechecks=[step | {"ok": True}])) == "10 sent, 9 received"
    assert cell_line(cell(steps=[step], rechecks=[step])) == (
        "10 sent, 9 received; could not be done: vCPU 0 runs at SCHED_FIFO 1; "
        "no longer so at the end: vCPU 0 runs at SCHED_FIFO 1"
    )


def test_instants_that_had_passed_when_their_turn_came_are_told() -> None:
    done = {"events": 1_000_000, "above": 0, "overdue": 936_635}
    waited = {"verb": "timer", "done": done}
    assert cell_line(cell(agents=[waited])) == "1000000 instants, 0 above the threshold, 936635 overdue"
    served = {"verb": "timer", "done": done | {"overdue": 0}}
    assert cell_line(cell(agents=[served])) == "1000000 instants, 0 above the threshold"
    window = events.Window("ecu", "irq", 0, 10**9, 10**6, 400.0, 90.0, 60, 900, 0, 30_000, 936_635)
    assert "0 above 30 µs (0 %), 936635 overdue; so far 0.06 to 0.90 µs" in window_line(window, 60, 900)
    assert "overdue" not in window_line(replace(window, overdue=0), 60, 900)
