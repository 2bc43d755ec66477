"""Probes over DDS in cells of a real test bed: ddsperf, and latlab's own."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from latlab.recordings.run_folder import CellFolder
from latlab.report.build import write_report
from latlab.report.rows import PERCENTILES
from latlab.result import Metric
from latlab.testbed.probes.dds import PORTS, configuration
from support.run import Bench, Measure, Measured

pytestmark = [pytest.mark.real, pytest.mark.usefixtures("machine")]
needs_ddsperf = pytest.mark.skipif(
    shutil.which("ddsperf") is None, reason="ddsperf is not installed (Debian package: cyclonedds-tools)"
)

TIMES = {"duration": "1200ms", "warmup": "200ms"}
DDS = {"probe": "dds", "from": "sensor", "to": "ecu", "size": "200B"}
DDSPERF = {"probe": "ddsperf", "from": "sensor", "to": "ecu", "size": "200B"}


@pytest.fixture
def measure(tmp_path: Path, journals: Path) -> Measure:
    """Runs a small scenario with these parts, and makes its report."""

    def measured(**parts: Any) -> Measured:
        cell, folder, whole = Bench(tmp_path, journals).measured(**TIMES | parts)
        write_report(whole, formats=())
        return cell, folder, whole

    return measured


def rows(folder: CellFolder, name: str) -> pl.DataFrame:
    numbers = {stream.name: stream.stream for stream in folder.cell().streams}
    return folder.packets().filter(pl.col("stream") == numbers[name])


@needs_ddsperf
def test_ddsperfs_seconds_are_kept_as_seconds_and_its_halves_are_made_whole(measure: Measure) -> None:
    cell, folder, _ = measure(probes={"loop": DDSPERF, "rate": DDSPERF | {"period": "5ms", "take": "waitset"}})
    assert (cell["status"], cell["reason"]) == ("ok", None)
    for name in ("loop", "rate"):
        block = cell["streams"][name]
        figures = block["metrics"]["round_trip"]
        log = (folder.path / f"tool-{name}.log").read_text()
        (second,) = [line for line in log.splitlines() if " 2.0" in line and " size 200 " in line]
        printed = second.split()
        least, most = (round(1000 * float(printed[printed.index(word) + 1][:-2])) for word in ("min", "max"))
        assert (figures["min"], figures["max"]) == (2 * least, 2 * most)
        assert figures["n"] == int(printed[-1]) > 0
        assert figures["intervals"]["count"] == 1
        median = 2 * round(1000 * float(printed[printed.index("50%") + 1][:-2]))
        assert figures["intervals"]["p50"] == [median, median]
        assert figures["p50"] is None, "there is none of all seconds together"
        assert (figures["from"], figures["to"]) == ("submit", "answered")
        assert "ddsperf prints half of it" in block["probe"]["told"]
        shown = {column.key: column.text(Metric.model_validate(figures)) for column in PERCENTILES}
        assert shown["p50"] == f"{median / 1000:.1f}", "of the one second"
        assert shown["p99_9"] == ""
    assert cell["streams"]["rate"]["metrics"]["round_trip"]["n"] <= 220
    loop, rate = folder.cell().document()["probes"]
    assert loop["version"].startswith("0.") or loop["version"].startswith("1")
    assert "ping size 200 listener" in loop["commands"][1]
    assert "ping 200Hz size 200 waitset" in rate["commands"][1]
    assert "-i 40 " in loop["commands"][0], "each in a domain of its own"
    assert "-i 41 " in rate["commands"][0]


@needs_ddsperf
def test_ddsperf_without_its_peer_fails_the_cell_with_what_to_look_at(
    measure: Measure, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "ddsperf").write_text(
        f"""#!/bin/sh
case "$*" in
*initwait:10*) set -- $(echo "$@" | sed s/initwait:10/initwait:0.3/) ;;  # less patience
*"KS pong"*) shift 2; set -- -i 99 "$@" ;;  # another domain
esac
exec {shutil.which("ddsperf")} "$@"
"""
    )
    (tools / "ddsperf").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    # A server is there once something listens at its first port.
    monkeypatch.setattr("latlab.testbed.probes.ddsperf._DISCOVERY_PORT", (99 - 40) * PORTS + 10)
    cell, _, _ = measure(probes={"loop": DDSPERF})
    assert cell["status"] == "failed"
    assert "found no peer" in cell["reason"]["what"]
    assert "probes.loop" in cell["reason"]["where"]
    assert "firewall" in cell["reason"]["remedy"]


def test_dds_has_both_ways_and_the_round_trip_at_a_rate_and_in_a_closed_loop(measure: Measure) -> None:
    """Both at once: a test bed takes longer than they do."""
    rate = DDS | {"period": "5ms", "threads": {"tev": 31}}
    loop = DDS | {"size": "60kB", "take": "waitset", "reliable": False}
    tuning = {"sensor": {"talker": {"fifo": 45}}, "ecu": {"listener": {"fifo": None}}}
    cell, folder, _ = measure(probes={"rr": rate, "loop": loop}, tuning=tuning, duration="700ms")
    assert (cell["status"], cell["reason"]) == ("ok", None)
    assert list(cell["streams"]) == ["rr", "rr.up", "rr.down", "loop", "loop.up", "loop.down"]
    at_a_rate(cell, folder)
    in_a_closed_loop(cell, folder)
    what_its_agents_said(folder)


def at_a_rate(cell: dict[str, Any], folder: CellFolder) -> None:
    counts = cell["streams"]["rr"]["counts"]
    assert (counts["scheduled"], counts["sent"], counts["answered"], counts["unanswered"]) == (140, 140, 140, 0)
    up, down = rows(folder, "rr.up"), rows(folder, "rr.down")
    assert up["sequence"].to_list() == down["sequence"].to_list() == list(range(140))
    assert (down["launch_tai_ns"] == up["rx_user_tai_ns"]).all(), "an answer is launched when its question is there"
    round_trip = cell["streams"]["rr"]["metrics"]["round_trip"]
    exact = (down["rx_user_tai_ns"] - up["launch_tai_ns"]).to_list()[40:]
    assert (round_trip["n"], round_trip["min"], round_trip["max"]) == (100, min(exact), max(exact))
    assert round_trip["p50"] is not None
    worst = round_trip["worst"]["intervals"]
    assert sum(one["ns"] for one in worst) == round_trip["max"]
    assert [one["to"] for one in worst] == ["wake", "submit", "rx_user", "answer_submit", "answered"]
    for leg in ("rr.up", "rr.down"):
        assert cell["streams"][leg]["metrics"]["latency_user"]["n"] == 100
        assert "latency" not in cell["streams"][leg]["metrics"], "DDS's packets have no timestamps of samples"


def in_a_closed_loop(cell: dict[str, Any], folder: CellFolder) -> None:
    up, down = rows(folder, "loop.up"), rows(folder, "loop.down")
    assert up.height == down.height == cell["streams"]["loop"]["counts"]["sent"] > 20
    due = up["launch_tai_ns"].to_list()[1:]
    answered = down["rx_user_tai_ns"].to_list()[:-1]
    # Of best effort some may be lost: the next question is then due when the one before is given up.
    assert all(one in (None, at) or one > at for one, at in zip(answered, due, strict=True))
    assert sum(one == at for one, at in zip(answered, due, strict=True)) > 20, "each answer starts the next question"
    told = cell["streams"]["loop"]["probe"]
    assert told["period_ns"] is None
    assert "closed loop" in told["told"]
    assert "over Cyclone DDS 11" in told["told"]
    assert "best effort, samples taken by a thread that sleeps in a waitset" in told["told"]


def what_its_agents_said(folder: CellFolder) -> None:
    pong, _, ping, _ = folder.cell().document()["agents"]
    assert [(one["host"], one["verb"], one["probe"]) for one in (pong, ping)] == [
        ("ecu", "pong", "rr"),
        ("sensor", "ping", "rr"),
    ]
    assert ping["ready"]["verb"] == "dds"
    priorities = [{one["name"]: one["priority"] for one in agent["ready"]["threads"]} for agent in (ping, pong)]
    assert [(found["recvUC"], found["tev"]) for found in priorities] == [(45, 31), (0, 31)]
    (entry, _) = folder.cell().document()["probes"]
    assert entry["commands"][0].endswith("latlab-agent dds")
    assert entry["cyclone"].startswith("11.")


def test_dds_that_finds_nobody_fails_the_cell_with_what_to_look_at(
    measure: Measure, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("latlab.testbed.probes.dds.DISCOVERY_NS", 400_000_000)
    elsewhere = ("10.78.0.77",)
    monkeypatch.setattr(
        "latlab.testbed.probes.dds.configuration", lambda one: configuration(replace(one, peers=elsewhere))
    )
    cell, _, _ = measure(probes={"rr": DDS | {"period": "10ms"}}, duration="700ms")
    assert cell["status"] == "failed"
    assert "no peer was found within 0.4 s" in cell["reason"]["what"]
    assert cell["reason"]["where"].startswith("sensor: probes.rr")
    for word in ("interface", "multicast", "domain", "firewall"):
        assert word in cell["reason"]["remedy"]
