"""Cells with a trigger: what made packets late is found, without recording all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from latlab.recordings.arrow import read_recording
from latlab.report import traces
from latlab.report.markdown import result_markdown
from latlab.report.sections import default_metrics
from latlab.result.store import typed
from latlab.run.events import Event, LatePackets, Phase
from support.busy import BusyCpu
from support.run import Bench

pytestmark = [
    pytest.mark.real,
    pytest.mark.usefixtures("machine"),
    pytest.mark.skipif("tracefs" not in Path("/proc/filesystems").read_text(), reason="this kernel has no tracefs"),
]

ABOVE_NS = 6_000_000
STREAMED: dict[str, Any] = {
    "streams": {"control": {"talker": "sensor", "listener": "ecu", "period": "2ms", "size": "64B"}},
    # On the CPU that is kept from it.
    "tuning": {"ecu": {"listener": {"fifo": 20, "cpus": [0]}}},
    "trigger": "latency_user > 6ms",
    "duration": "1200ms",
}


def test_late_packets_are_explained_and_what_is_kept_is_reported(tmp_path: Path, journals: Path) -> None:
    said: list[Event] = []
    with BusyCpu() as busy:

        def tell(event: Event) -> None:
            said.append(event)
            if isinstance(event, Phase) and event.name == "measuring":
                busy.begin()

        cell, folder, run = Bench(tmp_path, journals).measured(tell, **STREAMED)
    assert (cell["status"], cell["reason"]) == ("ok", None)
    # It is between the agents, and nothing for who watches the run.
    assert not any(isinstance(event, LatePackets) for event in said)
    recorded = folder.cell()
    assert recorded.trigger == "latency_user > 6ms"
    told = cell["streams"]["control"]["trace"]
    flight = told["flight"]
    packets = folder.packets()
    took = packets["rx_user_tai_ns"] - packets["launch_tai_ns"]
    late = (took > ABOVE_NS).sum()
    assert late > 0
    assert (flight["trigger"], flight["judged"], flight["late"]) == ("latency_user > 6ms", packets.height, late)
    assert (flight["unjudged"], flight["overran"]) == (0, 0)
    kept = read_recording(folder.recording("trace", "ecu", "kept"), "kept", run_id=recorded.run_id)
    assert kept.complete
    assert kept.table.height == flight["windows"]
    # Of 600 packets the late ones, one in ten, and those near them.
    assert 0 < told["n"] < 400
    assert told["events"] == read_recording(folder.recording("trace", "ecu", "trace"), "trace").table.height
    # Of those that it was woken for: it had to wait for its CPU.
    waits = [one for one in told["intervals"] if (one["from"], one["to"]) == ("waking", "run")]
    assert waits and waits[0]["max"] > ABOVE_NS - 3_000_000, told["intervals"]
    text = result_markdown(typed(run.result()), default_metrics(typed(run.result()))).replace("\\", "")
    assert traces.FLIGHT_TITLE in text


def test_a_trigger_that_nothing_exceeds_keeps_what_is_typical(tmp_path: Path, journals: Path) -> None:
    cell, _folder, _ = Bench(tmp_path, journals).measured(
        **STREAMED | {"trigger": "latency > 10s", "duration": "600ms"}
    )
    assert cell["status"] == "ok"
    flight = cell["streams"]["control"]["trace"]["flight"]
    # One in 20 ms.
    assert (flight["judged"], flight["late"], flight["overran"]) == (300, 0, 0)
    assert 20 <= flight["typical"] <= 31
