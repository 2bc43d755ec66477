"""Tools as probes: sockperf itself, a stand-in for netperf, and tools that are not what is needed."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from latlab.report.build import write_report
from support.run import Bench, Measure, Measured

pytestmark = [pytest.mark.real, pytest.mark.usefixtures("machine")]
needs_sockperf = pytest.mark.skipif(shutil.which("sockperf") is None, reason="sockperf is not installed")

TIMES = {"duration": "1200ms"}
SOCKPERF = {"probe": "sockperf", "from": "sensor", "to": "ecu", "size": "64B"}
NETPERF = {"probe": "netperf", "from": "sensor", "to": "ecu", "test": "TCP_RR", "size": "64B"}
PRINTED = """\
ELAPSED_TIME=1.00
TRANSACTION_RATE=41234.56
REQUEST_SIZE=64
RESPONSE_SIZE=64
PROTOCOL=TCP
MIN_LATENCY=19
MEAN_LATENCY=23.87
P50_LATENCY=23
P90_LATENCY=26
P99_LATENCY=41
MAX_LATENCY=587
STDDEV_LATENCY=4.11
"""
"""Written from netperf 2.7's sources (src/nettest_omni.c): NAME=VALUE, latencies in µs."""

VERSION = "case \"$*\" in *-V) echo 'Netperf version 2.7.0'; exit ;; esac"

NETSERVER = f"""\
while [ "$1" != -p ]; do shift; done
exec {sys.executable} -c 'import socket, time; s = socket.create_server(("", '$2')); time.sleep(60)'"""
"""Listens on its control port, and says nothing."""


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Puts programs (name → shell script) before all others."""

    def put(**scripts: str) -> None:
        folder = tmp_path / "tools"
        folder.mkdir(exist_ok=True)
        for name, script in scripts.items():
            (folder / name).write_text(f"#!/bin/sh\n{script}\n")
            (folder / name).chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")

    return put


@pytest.fixture
def measure(tmp_path: Path, journals: Path) -> Measure:
    """Runs a small scenario with these parts, and makes its report."""

    def measured(**parts: Any) -> Measured:
        cell, folder, whole = Bench(tmp_path, journals).measured(**TIMES | parts)
        write_report(whole, formats=())
        return cell, folder, whole

    return measured


@needs_sockperf
def test_sockperfs_observations_are_rows_and_its_round_trip_is_reported_with_what_it_means(measure: Measure) -> None:
    cell, folder, _ = measure(probes={"sp": SOCKPERF, "tcp": SOCKPERF | {"transport": "tcp"}})
    assert (cell["status"], cell["reason"]) == ("ok", None)
    numbers = {stream.name: stream.stream for stream in folder.cell().streams}
    for name in ("sp", "tcp"):
        block = cell["streams"][name]
        rows = folder.packets().filter(pl.col("stream") == numbers[name])
        taken = (rows["answered_tai_ns"] - rows["submit_tai_ns"]).to_list()
        figures = block["metrics"]["round_trip"]
        assert (figures["n"], figures["min"], figures["max"]) == (len(taken), min(taken), max(taken))
        assert len(taken) > 100
        assert (figures["from"], figures["to"], figures["uncertainty_ns"]) == ("submit", "answered", 0)
        assert "from just before the client's send call" in block["probe"]["told"]
        assert "closed loop" in block["probe"]["told"]
        assert block["clock"] == "one clock"
    (sp, tcp) = folder.cell().document()["probes"]
    assert sp["version"].startswith("3.")
    assert "server" in sp["commands"][0]
    assert "--full-rtt" in sp["commands"][1]
    assert "--tcp" in tcp["commands"][1]
    assert (folder.path / "tool-sp.log").exists()


@needs_sockperf
def test_sockperf_at_a_rate_sends_that_many(measure: Measure) -> None:
    cell, folder, _ = measure(probes={"ul": SOCKPERF | {"period": "2ms"}})
    figures = cell["streams"]["ul"]["metrics"]["round_trip"]
    # Of its second sockperf leaves out 400 ms of warm-up and 50 ms at the end, and sends later what it had no time for.
    assert 200 <= figures["n"] <= 500
    assert "a message every 2 ms" in cell["streams"]["ul"]["probe"]["told"]
    assert "--mps 500" in folder.cell().document()["probes"][0]["commands"][1]


@pytest.mark.usefixtures("netperf")
@pytest.mark.parametrize("test", ["TCP_RR", "UDP_RR"])
def test_netperfs_round_trips_are_reported_with_what_they_mean(measure: Measure, test: str) -> None:
    cell, folder, _ = measure(probes={"nrr": NETPERF | {"test": test}})
    assert (cell["status"], cell["reason"]) == ("ok", None)
    block = cell["streams"]["nrr"]
    figures = block["metrics"]["round_trip"]
    assert figures["n"] > 100
    assert 0 < figures["min"] <= figures["p50"] <= figures["p99"] <= figures["max"]
    assert figures["min"] <= figures["mean"] <= figures["max"]
    assert "from just before the client's send call" in block["probe"]["told"]
    (nrr,) = folder.cell().document()["probes"]
    assert nrr["version"].startswith("2.")
    log = (folder.path / "tool-nrr.log").read_text()
    assert f"PROTOCOL={test[:3]}\n" in log


def test_netperfs_own_figures_are_kept_as_it_said_them(measure: Measure, tools: Callable[..., None]) -> None:
    tools(
        netserver=NETSERVER,
        netperf=f"{VERSION}\ncat <<'EOF'\n{PRINTED}EOF",
    )
    cell, folder, _ = measure(probes={"nrr": NETPERF})
    assert (cell["status"], cell["reason"]) == ("ok", None)
    figures = cell["streams"]["nrr"]["metrics"]["round_trip"]
    assert (
        figures
        | {
            "n": 41235,
            "min": 19_000,
            "mean": 23_870.0,
            "p50": 23_000,
            "p90": 26_000,
            "p99": 41_000,
            "p99_9": None,
            "max": 587_000,
            "stddev": 4_110,
            "kept": "summary",
        }
        == figures
    )
    (nrr,) = folder.cell().document()["probes"]
    assert nrr["version"] == "2.7.0"
    assert "-d rr -T TCP -r 64,64" in nrr["commands"][1]
    assert "histogram" in cell["streams"]["nrr"]["probe"]["told"]


def test_netperf_is_asked_for_its_period(measure: Measure, tools: Callable[..., None]) -> None:
    tools(netserver=NETSERVER, netperf=f"{VERSION}\ncat <<'EOF'\n{PRINTED}EOF")
    cell, folder, _ = measure(probes={"nrr": NETPERF | {"period": "10ms"}})
    assert (cell["status"], cell["reason"]) == ("ok", None)
    (nrr,) = folder.cell().document()["probes"]
    assert "-w 10000us -b 1" in nrr["commands"][1]
    assert "one transaction each period" in cell["streams"]["nrr"]["probe"]["told"]


@pytest.mark.usefixtures("netperf")
def test_a_netperf_without_intervals_makes_cells_with_a_period_unavailable(measure: Measure) -> None:
    """Debian's netperf is built without; it says so of -w before it prints its version."""
    cell, folder, _ = measure(probes={"nrr": NETPERF | {"period": "10ms"}})
    assert cell["status"] == "unavailable"
    assert cell["reason"]["what"] == "netperf on sensor ignores the period: Packet rate control is not compiled in."
    assert cell["reason"]["where"] == "probes.nrr"
    assert "--enable-intervals" in cell["reason"]["remedy"]
    assert not folder.cell().start_tai_ns
    assert not list(folder.path.glob("*.parquet"))


WRONG = {
    "too old": ("echo 'sockperf, version 3.3-5'", "sockperf on sensor cannot be used: it is version 3.3-5, and 3.4"),
    "no version": ("echo hello", "sockperf on sensor cannot be used: it prints no version, but 'hello'"),
}


@pytest.mark.parametrize("how", WRONG)
def test_a_tool_that_is_not_what_is_needed_makes_its_cells_unavailable(
    measure: Measure, tools: Callable[..., None], how: str
) -> None:
    script, told = WRONG[how]
    tools(sockperf=script)
    cell, _, _ = measure(probes={"sp": SOCKPERF})
    assert cell["status"] == "unavailable"
    assert cell["reason"]["what"].startswith(told)
    assert "another version of sockperf" in cell["reason"]["remedy"]


def test_a_server_that_does_not_start_is_one_clear_error(measure: Measure, tools: Callable[..., None]) -> None:
    tools(sockperf="[ $1 = --version ] && echo 'sockperf, version 3.7-1' || { echo broken >&2; exit 1; }")
    cell, _, _ = measure(probes={"sp": SOCKPERF})
    assert cell["status"] == "failed"
    assert cell["reason"]["what"].startswith("probe sp: `ip netns exec")


def test_a_tool_that_prints_something_else_is_reported_with_where_to_look(
    measure: Measure, tools: Callable[..., None]
) -> None:
    tools(
        netserver=NETSERVER,
        netperf=f"{VERSION}\necho MIN_LATENCY=nan",
    )
    cell, _, _ = measure(probes={"nrr": NETPERF})
    assert cell["status"] == "failed"
    assert "no number for ELAPSED_TIME, TRANSACTION_RATE, MIN_LATENCY" in cell["reason"]["what"]
    assert cell["reason"]["where"] == "probes.nrr"
    assert "tool-nrr.log" in cell["reason"]["remedy"]


@pytest.mark.skipif(shutil.which("netperf") is not None, reason="netperf is installed")
def test_a_tool_that_is_missing_makes_its_cells_unavailable_with_what_provides_it(measure: Measure) -> None:
    cell, _, _ = measure(probes={"nrr": NETPERF})
    assert cell["status"] == "unavailable"
    first = cell["reason"]
    assert "netperf is missing on sensor" in first["what"]
    assert "non-free" in first["remedy"]
