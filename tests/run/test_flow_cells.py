"""Cells with flows: packets are found again at the next interface, with the delay and the losses that were made."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import yaml
from rich.console import Console

from latlab.analysis.around import joined
from latlab.analysis.interrupts import SWITCH
from latlab.evaluation.run import make_result
from latlab.recordings.arrow import read_recording
from latlab.report.build import write_report
from latlab.report.markdown import result_markdown
from latlab.report.sections import default_metrics
from latlab.report.terminal import print_answer
from latlab.report.traces import trace_tables
from latlab.result.types import Result
from latlab.run.events import Event, Listener, Phase
from latlab.run.matrix import plan
from latlab.scenario import load_scenario
from support.agent.bed import SOL_PACKET, inside
from support.agent.relay import Relay, Release, sequence_of
from support.machine import writers
from support.run import BASE, Bench, namespace

pytestmark = [
    pytest.mark.real,
    pytest.mark.usefixtures("machine"),
    pytest.mark.skipif(
        not Path("/sys/kernel/btf/vmlinux").exists(),
        reason="this kernel has no BTF, so no BPF program sees its packets",
    ),
]

MS = 1_000_000
PORT = 5700
HELD_NS = 30 * MS
PACKET_VNET_HDR = 15
HEADERS = 10 + 14 + 20 + 8
"""How much is left to do of a checksum (virtio_net_hdr), Ethernet, IPv4, UDP."""
HOSTS: dict[str, Any] = {
    "hosts": {
        "sensor": {"kind": "netns"},
        "switch": {"kind": "netns", "switch": ["p0", "p1"]},
        "ecu": {"kind": "netns"},
    },
    "links": [{"ends": ["sensor.eth0", "switch.p0"]}, {"ends": ["switch.p1", "ecu.eth0"]}],
}
STREAM: dict[str, Any] = {"talker": "sensor", "listener": "ecu", "period": "5ms", "size": "100B", "port": PORT}
AT = ["sensor.eth0:out", "switch.p0:in", "switch.p1:out", "ecu.eth0:in"]
DURATION = {"duration": "600ms", "warmup": "0ns", "settle": "2s"}
COUNT = 120
ETH_P_IP = 0x0800
GROUP = "01:0c:cd:04:00:01"
"""Of sampled values (IEC 61850-9-2, annex B)."""
SENDER = """
import socket, struct, time
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as talker:
    for number in range({count}):
        talker.sendto(struct.pack("<Q", number) * 8, ("{to}", {port}))
        time.sleep(0.002)
"""
"""A program that knows nothing of latlab."""


def is_lost(sequence: int) -> bool:
    return sequence % 3 == 1


def is_held(sequence: int) -> bool:
    return sequence % 3 == 2


def slow(frame: bytes, came: int) -> list[Release]:
    """What the switch does with a frame on its way to ecu."""
    sequence = sequence_of(frame[HEADERS:])
    return [] if is_lost(sequence) else [(frame, came + HELD_NS * is_held(sequence))]


@pytest.fixture
def slowly() -> Iterator[Listener]:
    """Has a program switch in place of the bridge.

    A queue of the kernel would hold packets until a timer's interrupt, and Linux 6.18 was seen to run no BPF program
    while that interrupted some threads.
    """
    with contextlib.ExitStack() as until_the_end:

        def take_over(event: Event) -> None:
            if isinstance(event, Phase):
                until_the_end.close()
            if switch := namespace(event, "switch"):
                ends = dict[str, socket.socket]()
                shown = ("ip", "-n", switch, "-j", "link", "show", "type", "bridge")
                (bridge,) = json.loads(subprocess.run(shown, check=True, capture_output=True).stdout)
                for port in ("p0", "p1"):
                    change = ("ip", "-n", switch, "link", "set", port)
                    subprocess.run((*change, "nomaster"), check=True)
                    until_the_end.callback(subprocess.run, (*change, "master", bridge["ifname"]), check=True)
                    with inside(switch):
                        end = until_the_end.enter_context(socket.socket(socket.AF_PACKET, socket.SOCK_RAW))
                    end.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
                    end.bind((port, ETH_P_IP))
                    ends[port] = end
                until_the_end.enter_context(Relay(ends["p0"], ends["p1"], slow))

        yield take_over


@pytest.fixture
def measure(tmp_path: Path, journals: Path) -> Bench:
    """Runs the small scenario."""
    return Bench(tmp_path, journals)


def transit(cell: dict[str, Any], first: str, second: str) -> dict[str, Any]:
    name = "seen." + "-to-".join(point.replace(":", "-") for point in (first, second))
    return dict(cell["streams"][name]["metrics"]["transit"])


def test_a_delay_and_losses_are_found_between_the_interfaces_where_they_were_made(
    measure: Bench, slowly: Listener
) -> None:
    cell, _, _ = measure.measured(
        slowly,
        **HOSTS,
        **DURATION,
        streams={"control": STREAM},
        flows={"seen": {"match": f"udp port {PORT}", "at": AT}},
    )
    assert cell["status"] == "ok"
    lost = sum(map(is_lost, range(COUNT)))
    assert cell["streams"]["control"]["metrics"]["latency"]["lost"] == lost
    inside, before, after = (transit(cell, AT[n], AT[n + 1]) for n in (1, 0, 2))
    assert (inside["n"], inside["lost"], inside["uncertainty_ns"]) == (COUNT - lost, lost, 0)
    assert (before["n"], before["lost"]) == (COUNT, 0)
    assert (after["n"], after["lost"]) == (COUNT - lost, 0)
    # Half of what arrives is held.
    assert inside["max"] >= inside["p90"] >= HELD_NS > inside["min"]
    assert before["min"] < HELD_NS
    (flow,) = cell["flows"]
    seen = [COUNT, COUNT, COUNT - lost, COUNT - lost]
    assert flow["packets"] == dict(zip(AT, seen, strict=True))
    # What the stream's own agents measured is the sum of what was seen on the path, and what lies before and after it.
    assert cell["streams"]["control"]["metrics"]["latency"]["min"] > inside["min"]


def test_what_the_kernel_did_around_packets_that_a_trigger_of_a_flow_finds_late_is_kept(
    measure: Bench, slowly: Listener
) -> None:
    limit_ns = HELD_NS // 2
    flow = {"match": f"udp port {PORT}", "at": AT[1:3], "trigger": f"latency > {limit_ns}ns"}
    cell, folder, run = measure.measured(slowly, **HOSTS, **DURATION, streams={"control": STREAM}, flows={"seen": flow})
    assert cell["status"] == "ok"
    packets = pl.read_parquet(folder.flow_packets_path("seen")).drop_nulls("second_point_tai_ns")
    late = packets.filter(pl.col("second_point_tai_ns") - pl.col("first_point_tai_ns") > limit_ns)
    assert late.height >= sum(map(is_held, range(COUNT)))
    (found,) = cell["flows"]
    (flight,) = found["flights"]
    assert flight["judged"] == {"judged": packets.height, "late": late.height, "typical": 0, "unjudged": 0}
    kept = joined(read_recording(folder.path / "flow-seen-switch.kept.arrow", "kept").table)
    for begin, end in late.select(pl.col("first_point_tai_ns") - MS, pl.col("second_point_tai_ns") + MS).iter_rows():
        assert kept.filter((pl.col("from_tai_ns") <= begin) & (pl.col("to_tai_ns") >= end)).height == 1
    trace = read_recording(folder.path / "flow-seen-switch.trace.arrow", "trace").table
    assert trace.filter(pl.col("event") == SWITCH).height > 0
    shown, windows = trace_tables(Result.model_validate(run.result()))
    assert {row[2] for row in (*shown.rows, *windows.rows)} == {"switch, flow seen"}


def test_a_flight_recorder_that_is_killed_costs_a_cell_no_figure(measure: Bench) -> None:
    def kill(event: Event) -> None:
        if namespace(event, "switch"):
            (tracer,) = writers(measure.folder, "flow-seen-switch.trace.arrow")
            os.kill(tracer, signal.SIGKILL)

    flow = {"match": f"udp port {PORT}", "at": AT[1:3], "trigger": "latency > 9s"}
    cell, _, run = measure.measured(kill, **HOSTS, **DURATION, streams={"control": STREAM}, flows={"seen": flow})
    assert cell["status"] == "ok"
    assert (transit(cell, AT[1], AT[2])["n"], transit(cell, AT[1], AT[2])["lost"]) == (COUNT, 0)
    (reason,) = (one for one in make_result(run).document()["reasons"] if one["id"] == "trace-whole")
    assert (reason["severity"], reason["actual"].partition(" with ")[0]) == (
        "suspect",
        "`latlab-agent trace` ended unexpectedly",
    )


def test_a_flow_alone_is_measured_of_packets_that_another_program_sends(measure: Bench) -> None:
    sending: list[subprocess.Popen[bytes]] = []

    def send(event: Event) -> None:
        if sensor := namespace(event, "sensor"):
            script = SENDER.format(count=COUNT, to="10.78.0.2", port=PORT)
            argv = ("ip", "netns", "exec", sensor, sys.executable, "-c", f"import time; time.sleep(0.5){script}")
            sending.append(subprocess.Popen(argv))

    flows = {"seen": {"match": f"udp port {PORT}", "at": ["sensor.eth0:out", "ecu.eth0:in"]}}
    cell, _, run = measure.measured(send, **DURATION | {"duration": "3s"}, flows=flows)
    assert [one.wait() for one in sending] == [0]
    assert cell["status"] == "ok"
    figures = transit(cell, "sensor.eth0:out", "ecu.eth0:in")
    assert (figures["n"], figures["lost"], figures["uncertainty_ns"]) == (COUNT, 0, 0)
    assert cell["flows"][0]["packets"] == {"sensor.eth0:out": COUNT, "ecu.eth0:in": COUNT}
    result = Result.model_validate(run.result())
    with Console(width=200, record=True, file=io.StringIO()) as console:
        print_answer(result, default_metrics(result), console, every=True)
    printed = console.export_text()
    assert "transit = second_point − first_point" in printed and "interarrival" in printed
    assert "no such timestamps" not in printed
    assert "seen.sensor.eth0-out-to-ecu.eth0-in" in result_markdown(result, default_metrics(result))
    assert "seen.at-ecu.eth0-in" in write_report(run, formats=()).read_text(encoding="utf-8")


def test_sampled_values_to_a_group_come_to_who_has_joined_it_and_none_is_missing_by_their_numbers(
    measure: Bench,
) -> None:
    stream = {"talker": "sensor", "listener": "ecu", "payload": "iec61850-sv", "period": "5ms", "size": "64B"}
    flows = {"seen": {"match": f"ether dst {GROUP}", "at": ["sensor.eth0:out", "ecu.eth0:in"]}}
    cell, folder, _ = measure.measured(**DURATION, streams={"sv": stream | {"group": GROUP}}, flows=flows)
    assert (cell["status"], cell["streams"]["sv"]["counts"]["received"]) == ("ok", COUNT)
    assert transit(cell, "sensor.eth0:out", "ecu.eth0:in")["n"] == COUNT
    assert cell["streams"]["seen.at-ecu.eth0-in"]["metrics"]["interarrival"]["lost"] == 0
    steps = {step.title: (step.host, step.ok) for step in folder.cell().steps}
    assert steps[f"eth0 takes frames to the group {GROUP}"] == ("ecu", True)


def test_a_flow_that_comes_nowhere_makes_the_cell_suspect_and_names_what_came_instead(measure: Bench) -> None:
    cell, _, run = measure.measured(
        **DURATION, streams={"control": STREAM}, flows={"seen": {"match": "udp port 9", "at": ["ecu.eth0:in"]}}
    )
    assert cell["status"] == "ok"
    assert list(cell["streams"]) == ["control"]
    (reason,) = (one for one in make_result(run).document()["reasons"] if one["id"] == "packets-arrived")
    assert reason["severity"] == "suspect"
    assert "flow seen" in reason["where"] and f":{PORT}" in reason["actual"]


def test_an_interface_that_is_not_there_fails_the_cell_and_is_named(measure: Bench) -> None:
    hosts = {"hosts": {"sensor": {"kind": "netns"}, "ecu": {"kind": "local"}}}
    cell, _, _ = measure.measured(
        **hosts, **DURATION, streams={"control": STREAM}, flows={"seen": {"match": "udp", "at": ["ecu.eth9"]}}
    )
    assert cell["status"] == "failed"
    assert cell["reason"]["what"] == "there is no interface 'eth9'"
    assert cell["reason"]["where"] == "flows.seen: ecu.eth9"
    assert "eth0" in cell["reason"]["remedy"]


def test_the_plan_has_every_agent_that_watches(tmp_path: Path) -> None:
    path = tmp_path / "planned.yaml"
    flows: dict[str, Any] = {"seen": {"match": "udp", "at": ["sensor.eth0:out", "ecu.eth0:in"]}}
    path.write_text(yaml.safe_dump(BASE | DURATION | {"streams": {"control": STREAM}, "flows": flows}))
    lines = plan(load_scenario(path)).splitlines()
    place = lines.index("# sensor: watches flow seen")
    assert '"ifindex": "IFINDEX of eth0"' in lines[place + 1] and '"netns": "NETNS of ecu"' in lines[place + 1]
    assert '"trigger"' not in lines[place + 1]
    flows["seen"]["trigger"] = "latency > 5ms"
    path.write_text(yaml.safe_dump(BASE | DURATION | {"streams": {"control": STREAM}, "flows": flows}))
    lines = plan(load_scenario(path)).splitlines()
    place = lines.index("# sensor: watches flow seen")
    assert '"to": {"point": 1, "out": false}, "above_ns": 5000000' in lines[place + 1]
    place = lines.index("# sensor: keeps what the kernel does around late packets of flow seen")
    assert '"windows_only": true' in lines[place + 1]
