"""Cells whose listener is traced: recorded, told in every report, and failing or suspect for a reason that is said."""

from __future__ import annotations

import html
import io
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from rich.console import Console

from latlab.recordings.arrow import read_recording
from latlab.recordings.run_folder import RunFolder
from latlab.report import traces
from latlab.report.build import write_report
from latlab.report.markdown import result_markdown
from latlab.report.sections import default_metrics
from latlab.report.terminal import print_result
from latlab.result.store import typed
from latlab.testbed.agent_binary import find_agent
from support.programs import PROGRAMS
from support.run import Bench, Measure, Measured

pytestmark = [
    pytest.mark.real,
    pytest.mark.usefixtures("machine"),
    pytest.mark.skipif("tracefs" not in Path("/proc/filesystems").read_text(), reason="this kernel has no tracefs"),
]

STREAMED: dict[str, Any] = {
    "streams": {"control": {"talker": "sensor", "listener": "ecu", "period": "2ms", "size": "64B"}},
    "tuning": {"ecu": {"listener": {"trace": True}}},
    # No CPU is idle: there are kernels that do not always report the switch from a CPU's idle thread to another.
    "loads": {"calls": {"kind": "busy", "on": "ecu", "what": "calls", "workers": 2}},
    "matrix": {"loads": ["calls"]},
    "duration": "600ms",
}


@pytest.fixture
def measure(tmp_path: Path, journals: Path, monkeypatch: pytest.MonkeyPatch) -> Measure:
    """Runs the small scenario. how: in which way `tracing_agent` is to misbehave in the place of our agent."""
    stand_in = tmp_path / "latlab-agent"
    script = PROGRAMS / "tracing_agent.py"
    stand_in.write_text(f'#!/bin/sh\nexec {sys.executable} {script} "$@"\n')
    stand_in.chmod(0o755)

    def measured(how: str = "", **parts: Any) -> Measured:
        if how:
            monkeypatch.setenv("REAL_AGENT", str(find_agent()))
            monkeypatch.setenv("LATLAB_AGENT", str(stand_in))
            monkeypatch.setenv("TRACING_AGENT", how)
        return Bench(tmp_path, journals).measured(**STREAMED | parts)

    return measured


def test_a_run_has_the_way_of_each_packet(measure: Measure) -> None:
    cell, folder, run = measure()
    assert (cell["status"], cell["reason"]) == ("ok", None)
    document = folder.cell().document()
    trace, tasks = (
        read_recording(folder.recording("trace", "ecu", table), table, run_id=document["run_id"])
        for table in ("trace", "tasks")
    )
    assert trace.complete
    assert tasks.complete
    told = cell["streams"]["control"]["trace"]
    (agent,) = (agent for agent in document["agents"] if agent["verb"] == "trace")
    assert (told["host"], told["events"], told["lost"]) == ("ecu", agent["done"]["events"], 0)
    # 600 ms at 2 ms, of which 100 ms are warm-up.
    assert told["n"] == told["told"] + told["awake"] + told["untold"] == 250
    assert told["told"] > 150
    packets = folder.packets().filter(~pl.col("warmup"))
    took = (packets["rx_user_tai_ns"] - packets["rx_soft_tai_ns"]).sort(descending=True)
    chain = told["chain"]
    assert chain["stops"][0] == "rx_soft"
    assert chain["worst"]["each"][0]["value_ns"] in took
    for one in chain["worst"]["each"]:
        assert sum(one["ns"]) == one["value_ns"]
    assert_reports_have_it(run, "latlab-agent")


def test_a_pings_questions_have_the_way_to_who_answers(measure: Measure) -> None:
    ping = {"probe": "ping", "from": "sensor", "to": "ecu", "size": "64B", "period": "2ms"}
    cell, _, _ = measure(probes={"rr": ping})
    streams = cell["streams"]
    assert [name for name, block in streams.items() if "trace" in block] == ["control", "rr.up"]
    for name in ("control", "rr.up"):
        told = streams[name]["trace"]
        assert told["n"] == 250
        assert told["told"] > 150
        assert {"waking", "run"} <= {one["to"] for one in told["intervals"]}


def test_a_timers_instants_have_the_way_from_the_interrupt_to_its_thread(measure: Measure) -> None:
    cell, folder, run = measure(
        streams={}, tuning={}, probes={"late": {"probe": "timer", "on": "ecu", "period": "2ms", "trace": "threads"}}
    )
    assert (cell["status"], cell["reason"]) == ("ok", None)
    block = cell["streams"]["late"]
    told = block["trace"]
    (agent,) = (agent for agent in folder.cell().document()["agents"] if agent["verb"] == "waking")
    assert (told["host"], told["events"], told["lost"]) == ("ecu", agent["done"]["events"], 0)
    assert read_recording(folder.recording("waking", "late", "trace"), "trace").complete
    # 600 ms at 2 ms, of which 100 ms are warm-up; for one that was overdue no timer was set.
    assert told["n"] == told["told"] + told["awake"] + told["untold"] == block["metrics"]["interrupt"]["n"] > 150
    assert told["told"] > 150
    chain = told["chain"]
    assert (chain["stops"][0], chain["stops"][-1]) == ("wake_due", "wake")
    assert {"irq", "waking", "run"} < set(chain["stops"]), (told["intervals"], told["interrupted"])
    rows = folder.packets().filter(~pl.col("warmup") & ~pl.col("overdue"))
    late = dict(zip(rows["sequence"], rows["wake_tai_ns"] - rows["wake_due_tai_ns"], strict=True))
    for one in chain["worst"]["each"]:
        assert sum(one["ns"]) == one["value_ns"] == late[one["sequence"]]
    assert sum(one["n"] for one in told["interrupted"]) > 150
    assert_reports_have_it(run, "late")


def test_threads_alone_have_no_softirq_and_whoever_woke_them_is_not_asked_for(measure: Measure) -> None:
    cell, _, _ = measure(tuning={"ecu": {"listener": {"trace": "threads"}}})
    told = cell["streams"]["control"]["trace"]
    assert told["told"] > 150
    assert {one["from"] for one in told["intervals"]} <= {"rx_soft", "waking", "run"}
    assert (told["interrupted"], told["raised_by"]) == ([], [])


def assert_reports_have_it(run: RunFolder, who: str) -> None:
    result = run.result()
    write_report(run, formats=())
    terminal = Console(record=True, width=400, file=io.StringIO())
    print_result(typed(result), terminal, default_metrics(typed(result)))
    page, markdown = (
        run.report_path.read_text(encoding="utf-8"),
        result_markdown(typed(result), default_metrics(typed(result))),
    )
    for said in (page, terminal.export_text(), markdown.replace("\\", "")):
        text = html.unescape(said)
        assert traces.TITLE in text
        assert traces.INTERVAL_TITLE in text
        assert who in text


def test_a_kernel_that_does_not_let_itself_be_traced_fails_the_cell_and_says_why(measure: Measure) -> None:
    cell, _, _ = measure("unprivileged")
    assert cell["status"] == "failed"
    assert cell["reason"]["what"].startswith("the kernel's tracepoints cannot be heard")
    assert cell["reason"]["where"].startswith("ecu: trace: ")
    assert "CAP_SYS_ADMIN" in cell["reason"]["remedy"]


def test_lost_events_are_counted_and_what_they_would_tell_is_not_guessed(measure: Measure) -> None:
    # The tracer stands still for 1.5 s of it, whenever its recording has come so far.
    cell, _, run = measure("overrun", duration="5s")
    assert cell["status"] == "ok"
    told = cell["streams"]["control"]["trace"]
    assert told["lost"] > 0
    assert told["untold"] > 100
    assert told["n"] == told["told"] + told["awake"] + told["untold"]
    assert cell["verdict"] != "trusted"
    assert "trace-whole" in {reason["id"] for reason in run.result()["reasons"]}
