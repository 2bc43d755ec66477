"""Probes in cells of a real test bed: asked, answered, recorded on both sides, joined, and what is reported of it."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from rich.console import Console

from latlab.recordings.run_folder import CellFolder
from latlab.report.build import write_report
from latlab.report.markdown import result_markdown
from latlab.report.sections import default_metrics
from latlab.report.terminal import print_result
from latlab.result.store import typed
from latlab.testbed import unavailable
from latlab.testbed.agent_binary import find_agent
from support.programs import PROGRAMS
from support.run import Bench, Measure, Measured

pytestmark = [pytest.mark.real, pytest.mark.usefixtures("machine")]

PING = {"probe": "ping", "from": "sensor", "to": "ecu", "size": "64B"}
RATE = PING | {"period": "5ms", "timeout": "200ms"}


@pytest.fixture
def measure(tmp_path: Path, journals: Path, monkeypatch: pytest.MonkeyPatch) -> Measure:
    """Runs a small scenario with these parts.

    how: in which way `asking_agent` is to misbehave in the place of our agent.
    """
    stand_in = tmp_path / "latlab-agent"
    script = PROGRAMS / "asking_agent.py"
    stand_in.write_text(f'#!/bin/sh\nexec {sys.executable} {script} "$@"\n')
    stand_in.chmod(0o755)

    def measured(how: str = "", **parts: Any) -> Measured:
        if how:
            monkeypatch.setenv("REAL_AGENT", str(find_agent()))
            monkeypatch.setenv("LATLAB_AGENT", str(stand_in))
            monkeypatch.setenv("ASKING_AGENT", how)
        return Bench(tmp_path, journals).measured(**{"duration": "1s"} | parts)

    return measured


def rows(folder: CellFolder, name: str) -> pl.DataFrame:
    numbers = {stream.name: stream.stream for stream in folder.cell().streams}
    return folder.packets().filter(pl.col("stream") == numbers[name])


def test_a_ping_at_a_rate_has_both_ways_and_the_round_trip(measure: Measure) -> None:
    cell, folder, _ = measure(probes={"rr": RATE})
    assert (cell["status"], cell["reason"]) == ("ok", None)
    assert list(cell["streams"]) == ["rr", "rr.up", "rr.down"]
    counts = cell["streams"]["rr"]["counts"]
    assert (counts["scheduled"], counts["sent"], counts["answered"], counts["unanswered"]) == (200, 200, 200, 0)
    for leg in ("rr.up", "rr.down"):
        assert cell["streams"][leg]["counts"]["received"] == 200
        assert cell["streams"][leg]["metrics"]["latency_user"]["n"] == 180
    up, down = rows(folder, "rr.up"), rows(folder, "rr.down")
    assert up["sequence"].to_list() == down["sequence"].to_list() == list(range(200))
    assert (down["launch_tai_ns"] == up["rx_user_tai_ns"]).all(), "an answer is launched when its question is there"
    start = folder.cell().streams[0].start_tai_ns
    assert start is not None
    assert up["launch_tai_ns"].to_list() == [start + n * 5_000_000 for n in range(200)]
    round_trip = cell["streams"]["rr"]["metrics"]["round_trip"]
    exact = (down["rx_user_tai_ns"] - up["launch_tai_ns"]).to_list()[20:]
    assert (round_trip["n"], round_trip["min"], round_trip["max"]) == (180, min(exact), max(exact))
    assert round_trip["uncertainty_ns"] == 0
    sent, turn = (cell["streams"]["rr"]["metrics"][name] for name in ("round_trip_sent", "turn"))
    assert sent["from"] == "submit"
    assert sent["max"] <= round_trip["max"]
    assert 0 <= turn["min"] <= turn["max"] < sent["max"]


def test_the_worst_round_trip_is_a_chain_over_both_legs_that_adds_up(measure: Measure) -> None:
    cell, _, _ = measure(probes={"rr": RATE})
    round_trip = cell["streams"]["rr"]["metrics"]["round_trip"]
    worst = round_trip["worst"]["intervals"]
    assert sum(one["ns"] for one in worst) == round_trip["max"]
    assert [one["to"] for one in worst] == [
        *("wake", "submit", "tx_sched", "tx_soft", "rx_soft", "rx_user"),
        *("answer_submit", "answer_tx_sched", "answer_tx_soft", "answer_rx_soft", "answered"),
    ]
    chain = round_trip["chain"]
    assert chain["stops"] == ["launch", *(one["to"] for one in worst)]
    assert [place for place, clocks in enumerate(chain["clocks"]) if clocks == "two hosts"] == [4, 9]
    assert all(sum(one["ns"]) == one["value_ns"] for one in chain["worst"]["each"])
    assert {"confidence", "tail"} <= round_trip.keys()


def test_a_closed_loop_has_a_row_for_each_question_that_was_asked(measure: Measure) -> None:
    cell, folder, _ = measure(probes={"loop": PING | {"transport": "tcp"}})
    assert (cell["status"], cell["reason"]) == ("ok", None)
    loop = cell["streams"]["loop"]
    up, down = rows(folder, "loop.up"), rows(folder, "loop.down")
    assert up.height == down.height == loop["counts"]["sent"] > 100
    assert loop["counts"]["unanswered"] == 0
    waits = up["launch_tai_ns"][1:] - down["rx_user_tai_ns"][:-1]
    assert (waits[:1000] == 0).all() and (waits >= 0).all(), "each answer starts the next question"
    assert "latency" not in cell["streams"]["loop.up"]["metrics"], "a byte stream has no kernel timestamps"
    assert "arrival_offset" not in cell["streams"]["loop.up"]["metrics"]
    start = folder.cell().start_tai_ns
    assert start is not None
    early = up.filter(pl.col("launch_tai_ns") < start + 100_000_000).height
    assert loop["counts"]["warmup"] == early > 0
    assert loop["metrics"]["round_trip"]["n"] == up.height - early
    assert loop["probe"]["period_ns"] is None
    assert "closed loop" in loop["probe"]["told"]


def test_a_ping_that_the_kernel_does_not_stamp_is_whole_but_for_the_stages(measure: Measure) -> None:
    cell, folder, result_folder = measure(probes={"rr": RATE | {"timestamps": "user"}})
    assert (cell["status"], cell["reason"]) == ("ok", None)
    counts = cell["streams"]["rr"]["counts"]
    assert (counts["sent"], counts["answered"]) == (200, 200)
    for leg in ("rr.up", "rr.down"):
        packets = rows(folder, leg)
        stamped = [name for name in packets.columns if name.startswith(("tx_", "rx_")) and packets[name].count()]
        assert stamped == ["rx_user_tai_ns"]
        assert "latency" not in cell["streams"][leg]["metrics"]
    worst = cell["streams"]["rr"]["metrics"]["round_trip"]["worst"]["intervals"]
    assert [one["to"] for one in worst] == ["wake", "submit", "rx_user", "answer_submit", "answered"]
    assert sum(one["ns"] for one in worst) == cell["streams"]["rr"]["metrics"]["round_trip"]["max"]
    assert "without the kernel's timestamps" in cell["streams"]["rr"]["probe"]["told"]
    assert "timestamps-there" not in {reason["id"] for reason in result_folder.result()["reasons"]}


def test_streams_and_probes_are_measured_side_by_side(measure: Measure) -> None:
    streams = {"control": {"talker": "sensor", "listener": "ecu", "period": "10ms", "size": "64B"}}
    cell, folder, _ = measure(streams=streams, probes={"rr": RATE, "back": RATE | {"from": "ecu", "to": "sensor"}})
    assert list(cell["streams"]) == ["control", "rr", "rr.up", "rr.down", "back", "back.up", "back.down"]
    assert cell["streams"]["control"]["counts"]["received"] == 100
    assert cell["streams"]["back"]["counts"]["answered"] == 200
    document = folder.cell().document()
    agents = [(one["host"], one["verb"], one.get("probe")) for one in document["agents"]]
    assert agents == [
        ("ecu", "listen", None),
        ("ecu", "pong", "rr"),
        ("sensor", "pong", "back"),
        ("sensor", "talk", None),
        ("sensor", "ping", "rr"),
        ("ecu", "ping", "back"),
    ]
    assert [(one["name"], one["probe"], one["from"], one["to"]) for one in document["probes"]] == [
        ("rr", "ping", "sensor", "ecu"),
        ("back", "ping", "ecu", "sensor"),
    ]
    assert all(one["version"] for one in document["probes"])


def test_limits_on_probes_are_compared_with_them(measure: Measure) -> None:
    accept = {"rr.round_trip.max": "1h", "rr.up.latency_user.p50": "1ns", "rr.counts.unanswered": 0}
    _, _, folder = measure(probes={"rr": RATE}, accept=accept)
    kept = {one["path"]: (one["ok"], one["reason"]) for one in folder.result()["accept"]}
    assert kept == {
        "rr.round_trip.max": (True, None),
        "rr.up.latency_user.p50": (False, "over the limit"),
        "rr.counts.unanswered": (True, None),
    }


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ("silent", "no answer came: 200 of 200 questions reached ecu, and none of its answers returned"),
        ("deaf", "no answer came: none of 200 questions reached ecu"),
    ],
)
def test_a_peer_that_never_answers_fails_the_cell_with_one_reason(measure: Measure, how: str, told: str) -> None:
    cell, folder, _ = measure(how, probes={"rr": RATE})
    assert cell["status"] == "failed"
    assert (cell["reason"]["what"], cell["reason"]["where"]) == (told, "probes.rr")
    assert cell["streams"]["rr"]["counts"]["unanswered"] == 200
    assert rows(folder, "rr.down").height == 200
    assert rows(folder, "rr.down")["launch_tai_ns"].null_count() == 200, "no answer was ever due"


def test_a_ping_that_cannot_connect_fails_the_cell_with_its_own_words(measure: Measure) -> None:
    cell, _, _ = measure("gone", probes={"rr": PING | {"transport": "tcp"}})
    assert cell["status"] == "failed"
    assert cell["reason"]["what"] == "connection refused"
    assert cell["reason"]["where"].startswith("sensor: probes.rr: ping: ")


def test_a_large_datagram_says_in_how_many_frames_it_goes(measure: Measure) -> None:
    cell, folder, _ = measure(probes={"rr": RATE | {"size": "4kB", "period": "20ms"}})
    assert cell["streams"]["rr"]["counts"]["answered"] == 50
    assert [stream.frames for stream in folder.cell().streams] == [3, 3]
    assert "in 3 frames" in cell["streams"]["rr"]["probe"]["told"]


def test_a_cell_whose_probe_nothing_runs_is_unavailable(measure: Measure, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unavailable, "OURS", ("ping", "timer"))
    cell, _, _ = measure(probes={"dds": {"probe": "dds", "from": "sensor", "to": "ecu", "size": "64B"}})
    assert cell["status"] == "unavailable"
    assert cell["reason"]["what"] == "there is no probe dds"
    assert cell["reason"]["where"] == "probes.dds"


def test_the_report_says_next_to_the_figures_whether_it_was_a_closed_loop_or_at_which_rate(measure: Measure) -> None:
    probes = {"rr": RATE, "loop": PING | {"transport": "tcp"}}
    _, _, folder = measure(probes=probes)
    write_report(folder, formats=())
    page = folder.report_path.read_text(encoding="utf-8")
    result = folder.result()
    terminal = Console(record=True, width=200, file=io.StringIO())
    print_result(typed(result), terminal, default_metrics(typed(result)))
    markdown = result_markdown(typed(result), ("round_trip", "latency_user"))
    rate = (
        "rr: ping UDP; a question every 5 ms, independent of the answers: a round trip counts from the instant at "
        "which its question was due"
    )
    loop = "loop: ping TCP; closed loop: each answer triggers the next question, so a stall counts once"
    for said in (page, terminal.export_text(), markdown.replace("\\", "")):
        assert rate in said
        assert loop in said


@pytest.mark.parametrize("transport", ["udp", "tcp", "ethernet"])
def test_nothing_of_a_probe_makes_its_cell_untrusted(measure: Measure, transport: str) -> None:
    probes: dict[str, dict[str, Any]] = {
        "rr": RATE | {"transport": transport},
        "loop": PING | {"transport": transport, "port": None},
    }
    if transport == "ethernet":
        probes["loop"] |= {"ethertype": 0x88B6}
    cell, _, folder = measure(probes=probes)
    assert cell["status"] == "ok"
    assert cell["verdict"] != "untrusted", folder.result()["reasons"]
    assert cell["streams"]["rr"]["counts"]["answered"] == 200
    ours = {"counts-agree", "timestamps-matched", "recordings-whole"}
    assert not ours & {reason["id"] for reason in folder.result()["reasons"]}
