"""Timers in cells of a real test bed, next to streams and tools: waited for, recorded, joined, judged and told."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from rich.console import Console

from latlab.console import window_line
from latlab.hosts import MACHINE, LocalMachine
from latlab.notebook import load
from latlab.recordings.run_folder import CellFolder, RunFolder
from latlab.report.build import write_report
from latlab.report.charts.timers import CHART_TITLE
from latlab.report.markdown import result_markdown
from latlab.report.sections import default_metrics
from latlab.report.terminal import print_result
from latlab.report.view import view
from latlab.result.store import typed
from latlab.run import events
from latlab.run.agent import Agent
from latlab.run.probe_specs import timer_spec
from latlab.scenario import parse
from latlab.testbed.agent_binary import find_agent
from latlab.testbed.apply import TestBed
from latlab.testbed.guests.start import planned_site
from latlab.testbed.host_setup import tracing_steps
from latlab.testbed.undo import clean_stale
from support.machine import run as say
from support.run import BASE, Bench, Measure, Measured

pytestmark = [pytest.mark.real, pytest.mark.usefixtures("machine")]
traces = pytest.mark.skipif("tracefs" not in Path("/proc/filesystems").read_text(), reason="this kernel has no tracefs")
needs_cyclictest = pytest.mark.skipif(shutil.which("cyclictest") is None, reason="cyclictest is not installed")

MS = 1_000_000
TIMES = {"duration": "1s"}
TIMER = {"probe": "timer", "on": "ecu", "period": "2ms", "window": "200ms"}
CONTROL = {"control": {"talker": "sensor", "listener": "ecu", "period": "10ms", "size": "64B"}}


@pytest.fixture
def heard() -> list[events.Event]:
    """What happened during the run."""
    return []


@pytest.fixture
def measure(tmp_path: Path, journals: Path, heard: list[events.Event]) -> Measure:
    """Runs a small scenario with these parts."""

    def measured(**parts: Any) -> Measured:
        return Bench(tmp_path, journals).measured(heard.append, **TIMES | parts)

    return measured


def rows(folder: CellFolder, name: str) -> pl.DataFrame:
    numbers = {stream.name: stream.stream for stream in folder.cell().streams}
    return folder.packets().filter(pl.col("stream") == numbers[name])


def instances() -> set[str]:
    """The kernel's tracing instances that are agents'."""
    script = "T=/sys/kernel/tracing; mountpoint -q $T || mount -t tracefs tracefs $T; ls $T/instances"
    return {name for name in say("unshare", "--mount", "sh", "-c", script).split() if name.startswith("latlab-")}


@traces
def test_timers_of_two_hosts_next_to_a_stream_have_a_row_for_each_instant(
    measure: Measure, heard: list[events.Event], tmp_path: Path
) -> None:
    timers = {"irq": TIMER | {"trace": True}, "other": TIMER | {"on": "sensor", "how": "timerfd", "trace": False}}
    before = instances()
    cell, folder, whole = measure(streams=CONTROL, probes=timers)
    assert (cell["status"], cell["reason"]) == ("ok", None)
    # Other tests may have had some of their own before.
    assert instances() <= before
    assert list(cell["streams"]) == ["control", "irq", "other"]
    assert cell["streams"]["control"]["counts"]["received"] == 100
    start = folder.cell().start_tai_ns
    assert start is not None
    for name in timers:
        found = rows(folder, name)
        assert found["sequence"].to_list() == list(range(500))
        assert found["wake_due_tai_ns"].to_list() == [start + n * 2 * MS for n in range(500)]
        assert (found["wake_tai_ns"] >= found["wake_due_tai_ns"]).all()
        block = cell["streams"][name]
        late = (found["wake_tai_ns"] - found["wake_due_tai_ns"]).to_list()
        wakeup, counts = block["metrics"]["wakeup"], block["counts"]
        assert (wakeup["n"], wakeup["min"], wakeup["max"]) == (450, min(late[50:]), max(late[50:]))
        assert (counts["scheduled"], counts["came"], counts["unrecorded"], counts["warmup"]) == (500, 500, 0, 50)
        assert counts["above"] == sum(one > 30_000 for one in late)
        assert sum(one["n"] for one in block["timer"]["windows"]) == block["timer"]["n"] == 450
    irq = rows(folder, "irq").filter(~pl.col("overdue"))
    assert irq["irq_tai_ns"].null_count() == cell["streams"]["irq"]["counts"]["untold"]
    told = irq.filter(pl.col("irq_tai_ns").is_not_null())
    assert (told["irq_tai_ns"] >= told["wake_due_tai_ns"]).all()
    assert (told["irq_tai_ns"] <= told["wake_tai_ns"]).all()
    parts = cell["streams"]["irq"]["metrics"]
    assert parts["interrupt"]["n"] == parts["dispatch"]["n"] > 0
    assert list(cell["streams"]["other"]["metrics"]) == ["wakeup"]
    _windows_were_told(heard, folder)
    _told_everywhere(whole, tmp_path)


def _windows_were_told(heard: list[events.Event], folder: CellFolder) -> None:
    """Live, each window of either timer, warm-up included; together they are all the instants."""
    windows = [one for one in heard if isinstance(one, events.TimerWindowEnded)]
    for probe, host in (("irq", "ecu"), ("other", "sensor")):
        mine = [one for one in windows if one.probe == probe]
        assert {one.host for one in mine} == {host}
        assert [one.n for one in mine] == [100] * 5
        late = (rows(folder, probe)["wake_tai_ns"] - rows(folder, probe)["wake_due_tai_ns"]).to_list()
        assert [(one.min_ns, one.max_ns) for one in mine] == [
            (min(late[n : n + 100]), max(late[n : n + 100])) for n in range(0, 500, 100)
        ]
    line = window_line(windows[0], 1_000, 2_000)
    assert line.startswith(f"{windows[0].host}, 0.2 s, n 100: mean ")
    assert line.endswith("so far 1.00 to 2.00 µs")


def _told_everywhere(whole: RunFolder, tmp_path: Path) -> None:
    """In the terminal, in Markdown and on the page: the whole, its parts, the threshold, what told of interrupts."""
    result = whole.result()
    with (tmp_path / "said.txt").open("w") as file:
        print_result(typed(result), Console(file=file, width=200), default_metrics(typed(result)))
    page = write_report(whole, formats=()).read_text(encoding="utf-8")
    for text in (
        (tmp_path / "said.txt").read_text(),
        result_markdown(typed(result), default_metrics(typed(result))),
        page,
    ):
        assert "Timers: how late the interrupt" in text
        assert "dispatch" in text
        assert "by a timerfd on CLOCK" in text
        assert "not requested" in text
    assert CHART_TITLE in page
    things = {name: view(whole, typed(result), name, "wakeup").thing for name in ("irq", "control")}
    assert things == {"irq": "instant", "control": "packet"}
    assert set(load(whole.path).metrics["metric"]) >= {"wakeup", "interrupt", "dispatch"}


def test_where_tracing_is_refused_the_whole_is_measured_and_the_reason_is_reported(
    measure: Measure, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unprivileged = tmp_path / "latlab-agent"
    drop = "setpriv --bounding-set -sys_admin,-perfmon"
    unprivileged.write_text(
        f'#!/bin/sh\n[ "$1" = timer ] && exec {drop} {find_agent()} "$@"\nexec {find_agent()} "$@"\n'
    )
    unprivileged.chmod(0o755)
    monkeypatch.setenv("LATLAB_AGENT", str(unprivileged))
    cell, folder, whole = measure(probes={"irq": TIMER})
    assert (cell["status"], list(cell["streams"]["irq"]["metrics"])) == ("ok", ["wakeup"])
    assert rows(folder, "irq")["irq_tai_ns"].null_count() == 500
    reasons = [one for one in whole.result()["reasons"] if one["id"] == "timer-interrupts"]
    assert len(reasons) == 1
    assert "CAP_SYS_ADMIN" in reasons[0]["actual"]
    assert "the time of that interrupt is not known" in cell["streams"]["irq"]["probe"]["told"]


def test_a_period_that_nothing_can_serve_is_reported_and_makes_the_cell_suspect(measure: Measure) -> None:
    cell, folder, whole = measure(probes={"irq": TIMER | {"period": "1us", "trace": False}}, duration="200ms", warmup=0)
    counts = cell["streams"]["irq"]["counts"]
    assert (counts["scheduled"], counts["came"], counts["unrecorded"]) == (200_000, 200_000, 0)
    assert counts["overdue"] == rows(folder, "irq")["overdue"].sum() > 0
    checks = {one["id"] for one in whole.result()["reasons"]}
    assert "timer-kept-up" in checks
    assert "ring-full" not in checks


@traces
def test_what_a_killed_timer_leaves_in_the_kernel_is_gone_after_the_clean_up(tmp_path: Path, journals: Path) -> None:
    """The lab is killed with its agent: the next contact, or `latlab clean`, finds what is left in the journal."""
    scenario = parse(
        BASE | TIMES | {"hosts": {"ecu": {"kind": "local"}}, "links": [], "probes": {"irq": TIMER}}
    ).scenario
    assert scenario
    ecu = LocalMachine("ecu")

    async def killed() -> str:
        bed = TestBed("killed", {"ecu": ecu, MACHINE: LocalMachine(MACHINE)})
        await bed.apply(list(tracing_steps(scenario, planned_site(scenario))))
        spec = {**timer_spec(scenario, "irq", "8f3c5e0d12ab34cd", tmp_path / "timer-irq"), "trace": True}
        agent = await Agent.start(bed, ecu, str(find_agent()), "timer", spec, probe="irq")
        pid = agent.ready.result().document()["pid"]
        await agent.kill()
        bed._journal.close()  # as the kernel does it of a lab that is killed
        return f"latlab-{pid}"

    left = asyncio.run(killed())
    assert left in instances()
    undone = asyncio.run(clean_stale())
    assert any("the tracing of killed agents" in line for line in undone)
    assert left not in instances()
    assert list(journals.iterdir()) == []


@needs_cyclictest
def test_cyclictest_stands_next_to_a_timer_under_the_same_metric(measure: Measure) -> None:
    probes = {"irq": TIMER, "ct": {"probe": "cyclictest", "on": "ecu", "period": "2ms"}}
    cell, folder, whole = measure(probes=probes, duration="1100ms")
    assert (cell["status"], cell["reason"]) == ("ok", None)
    figures = cell["streams"]["ct"]["metrics"]["wakeup"]
    document = json.loads((folder.path / "tool-ct.log").read_text())["thread"]["0"]
    assert (figures["n"], figures["min"], figures["max"]) == (
        *(document["cycles"], document["min"] * 1_000, document["max"] * 1_000),
    )
    ranked = sorted((int(us), count) for us, count in document["histogram"].items())
    below, median = 0, 0
    for us, count in ranked:
        below += count
        if 2 * below >= figures["n"]:
            median = us
            break
    assert (figures["p50"], figures["uncertainty_ns"]) == (median * 1_000, 1_000)
    assert figures["from"] == "wake_due"
    (_, ct) = folder.cell().document()["probes"]
    assert ct["commands"][0].startswith("ip netns exec") or "cyclictest" in ct["commands"][0]
    assert "an expiry every 2 ms" in cell["streams"]["ct"]["probe"]["told"]
    write_report(whole, formats=())


def test_a_cyclictest_that_says_other_things_is_one_clear_error(
    measure: Measure, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    fake = tools / "cyclictest"
    last = 'for last; do :; done; echo "{}" > "${last#--json=}"'
    fake.write_text(f'#!/bin/sh\n[ "$1" = --help ] && {{ echo "cyclictest V 9.90"; exit; }}\n{last}\n')
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", str(tools), prepend=":")
    cell, _, _ = measure(probes={"ct": {"probe": "cyclictest", "on": "ecu"}}, duration="1100ms")
    assert cell["status"] == "failed"
    assert "what cyclictest 9.90 measured cannot be read" in cell["reason"]["what"]
    assert cell["reason"]["where"] == "probes.ct"


def test_what_timerlat_prints_is_read_as_one_cpus_whole_and_interrupt(
    measure: Measure, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stand-in prints what rtla did, of one CPU of a kernel that has the tracer: this one need not have it."""
    printed = Path(__file__).parents[1] / "imports" / "captured" / "rtla-timerlat.txt"
    one_cpu = "".join(_of_first_cpu(line) for line in printed.read_text().splitlines(keepends=True))
    (tmp_path / "rtla.txt").write_text(one_cpu)
    tools = tmp_path / "tools"
    tools.mkdir()
    known = 'echo "rtla version 6.12.0"; echo "   timerlat - measures"; exit'
    (tools / "rtla").write_text(f'#!/bin/sh\n[ "$1" = --help ] && {{ {known}; }}\ncat {tmp_path}/rtla.txt\n')
    (tools / "rtla").chmod(0o755)
    monkeypatch.setenv("PATH", str(tools), prepend=":")
    monkeypatch.setattr("latlab.testbed.probes.timerlat.LOOK", ("echo", "timerlat nop"))
    cell, _, _ = measure(probes={"tl": {"probe": "timerlat", "on": "ecu"}}, duration="1100ms")
    assert (cell["status"], cell["reason"]) == ("ok", None)
    metrics = cell["streams"]["tl"]["metrics"]
    assert list(metrics)[:2] == ["interrupt", "wakeup"]
    assert 0 < metrics["interrupt"]["n"] == metrics["wakeup"]["n"]
    assert metrics["interrupt"]["p50"] <= metrics["wakeup"]["p50"]


def _of_first_cpu(line: str) -> str:
    """A line of a histogram of two CPUs without the second one's columns; any other as it is."""
    words = line.split()
    return f"{' '.join(words[:3])}\n" if len(words) == 5 and not line.startswith("#") else line
