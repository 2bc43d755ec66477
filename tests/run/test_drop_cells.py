"""Cells that lose packets on purpose: where and why is recorded, and told in every report."""

from __future__ import annotations

import html
import io
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from latlab.recordings.arrow import read_recording
from latlab.recordings.run_folder import CellFolder
from latlab.report.build import write_report
from latlab.report.losses import TITLE, lost_text
from latlab.report.markdown import result_markdown
from latlab.report.sections import default_metrics
from latlab.report.terminal import print_answer, print_result
from latlab.result.types import Losses, Result
from latlab.run.events import Event, Phase
from latlab.testbed.agent_binary import find_agent
from support.run import Bench

pytestmark = [
    pytest.mark.real,
    pytest.mark.usefixtures("machine"),
    pytest.mark.skipif(
        not Path("/sys/kernel/btf/vmlinux").exists(), reason="this kernel has no BTF, so no BPF program sees its drops"
    ),
]

PING: dict[str, Any] = {"probe": "ping", "from": "sensor", "to": "ecu", "size": "64B", "period": "5ms"}
LOSING: dict[str, Any] = {
    "streams": {"control": {"talker": "sensor", "listener": "ecu", "period": "2ms", "size": "1000B"}},
    "probes": {"rr": PING},
    "duration": "600ms",
}


def narrow(event: Event) -> None:
    """Have ecu's end of the cable take no frames of that size, as soon as packets are about to be sent."""
    if event == Phase("measuring", event.order if isinstance(event, Phase) else 0):
        names = subprocess.run(("ip", "netns", "list"), check=True, capture_output=True, text=True).stdout.split()
        (ecu,) = (name for name in names if name.endswith("ecu"))
        subprocess.run(("ip", "-n", ecu, "link", "set", "eth0", "mtu", "500"), check=True)


@pytest.fixture
def measure(tmp_path: Path, journals: Path) -> Bench:
    """Runs the small scenario."""
    return Bench(tmp_path, journals)


def watched(cell: dict[str, Any]) -> dict[str, Any]:
    (one,) = cell["drops_watched"]
    assert isinstance(one, dict)
    return one


def test_lost_packets_have_a_place_and_a_reason_in_every_report(measure: Bench) -> None:
    cell, folder, run = measure.measured(narrow, **LOSING)
    assert cell["status"] == "ok"
    document = folder.cell().document()
    recorded = read_recording(folder.recording("drops", "sensor", "drops"), "drops", run_id=document["run_id"])
    assert recorded.complete
    one = watched(cell)
    assert (one["watched"], one["reasons"], one["unrecorded"], one["missing"]) == (True, True, 0, [])
    assert (one["host"], one["hosts"], one["drops"]) == ("sensor", ["sensor", "ecu"], recorded.table.height)
    losses = cell["streams"]["control"]["losses"]
    assert losses["lost"] > 0
    assert losses["unplaced"] == 0
    (place,) = losses["places"]
    assert place["packets"] == losses["lost"]
    assert (place["device"], place["host"]) in (("eth0", "sensor"), ("eth0", "ecu"))
    assert place["reason"]
    assert place["function"]
    for name in ("rr", "rr.up", "rr.down"):
        assert cell["streams"][name]["losses"] == {"lost": 0, "unplaced": 0, "places": []}
    assert_reports_have_it(run, losses)


def assert_reports_have_it(run: Any, losses: dict[str, Any]) -> None:
    text = lost_text(Losses.model_validate(losses))
    assert text.startswith(f"{losses['lost']} lost: {losses['lost']} at eth0 of ")
    result = Result.model_validate(run.result())
    with Console(width=200, record=True, file=io.StringIO()) as console:
        print_answer(result, default_metrics(result), console)
        print_result(result, console, default_metrics(result))
    printed = console.export_text()
    assert f"control: {text}" in printed
    assert TITLE in printed
    assert TITLE in result_markdown(result, default_metrics(result))
    page = html.unescape(write_report(run, formats=()).read_text(encoding="utf-8"))
    assert TITLE in page
    assert losses["places"][0]["place"] in page
    assert json.loads((run.path / "result.json").read_text())["cells"][0]["streams"]["control"]["losses"] == losses


def test_dropped_frames_of_iec_61850_are_recognised(measure: Bench) -> None:
    frames = {"transport": "ethernet", "payload": "iec61850-goose", "size": "900B"}
    events = {"talker": "sensor", "listener": "ecu", "period": "4ms", **frames}
    cell, folder, _ = measure.measured(narrow, **LOSING | {"streams": {"control": events}, "probes": {}})
    counts = cell["streams"]["control"]["counts"]
    # A packet socket is told that the cable did not take the frame.
    assert counts["send_errors"] > 0
    run_id = folder.cell().document()["run_id"]
    drops = read_recording(folder.recording("drops", "sensor", "drops"), "drops", run_id=run_id).table
    assert drops.height == watched(cell)["drops"] == counts["send_errors"]
    assert set(drops["device"].to_list()) <= {"eth0"}
    assert drops["sequence"].is_unique().all()


def test_a_cell_without_losses_says_who_watched(measure: Bench) -> None:
    cell, _, _ = measure.measured(**LOSING | {"probes": {}})
    assert cell["streams"]["control"]["losses"] == {"lost": 0, "unplaced": 0, "places": []}
    assert watched(cell)["watched"]


def test_nobody_watches_where_that_is_not_wanted(measure: Bench) -> None:
    cell, folder, _ = measure.measured(**LOSING | {"probes": {}, "watch_drops": "never"})
    assert cell["drops_watched"] == []
    assert "losses" not in cell["streams"]["control"]
    assert not drops_in(folder)


@pytest.mark.parametrize(
    ("instead", "told"),
    [
        ('setpriv --bounding-set -sys_admin,-bpf,-perfmon "$AGENT" drops', "it takes root, or CAP_BPF and CAP_PERFMON"),
        ("exit 1", "drops"),
    ],
    ids=["unprivileged", "dead"],
)
def test_a_kernel_that_cannot_be_watched_fails_no_cell_and_says_why(
    measure: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, instead: str, told: str
) -> None:
    agent, stand_in = find_agent(), tmp_path / "latlab-agent"
    stand_in.write_text(f'#!/bin/sh\nAGENT={agent}\n[ "$1" = drops ] || exec "$AGENT" "$@"\nexec {instead}\n')
    if instead.startswith("exit"):
        stand_in.write_text(stand_in.read_text().replace("exec exit", "exit"))
    os.chmod(stand_in, 0o755)
    monkeypatch.setenv("LATLAB_AGENT", str(stand_in))
    cell, _, _ = measure.measured(**LOSING | {"probes": {}})
    assert cell["status"] == "ok"
    assert cell["streams"]["control"]["counts"]["lost"] == 0
    one = watched(cell)
    assert not one["watched"]
    (line,) = one["missing"]
    assert told in line


def drops_in(folder: CellFolder) -> list[Path]:
    """The recordings of drops."""
    return list(folder.path.glob("drops-*"))
