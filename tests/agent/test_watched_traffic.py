"""`latlab watch` as a whole: real packets whose delays and losses are known, between interfaces of namespaces."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from rich.console import Console

from latlab.analysis.around import joined
from latlab.evaluation.run import make_result
from latlab.model.errors import LabError, UsageError
from latlab.recordings.arrow import read_recording
from latlab.recordings.run_folder import RunFolder
from latlab.report.rows import between_hops
from latlab.report.terminal import print_answer
from latlab.report.where import where_tables
from latlab.run.watch import finish_watch, is_unfinished_watch
from latlab.scenario.load import trigger_given
from support.agent.bed import Bed, inside
from support.agent.relay import Relay, Rule, double, drop, hold, sequence_of
from support.agent.watch import (
    ATTACHED,
    COUNT,
    FLOW,
    MACS,
    PORT,
    cell_of,
    payload,
    programs,
    reasons,
    send,
    transit,
    watching,
)
from support.imports.frames import sampled
from support.machine import run, writers
from support.recordings import rewrite_run

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(
        not Path("/sys/kernel/btf/vmlinux").exists(),
        reason="this kernel has no BTF, so no BPF program sees its packets",
    ),
]

MS = 1_000_000


def through(relay_bed: Bed, folder: Path, rule: Rule) -> RunFolder:
    """COUNT datagrams from `sensor` to a relay, which sends them on to `ecu` from another socket."""
    at = ("ns:sensor/relay:out", "ns:relay/sensor:in", "ns:relay/ecu:out", "ns:ecu/relay:in")
    return relayed(relay_bed, folder, rule, at)[0]


def relayed(
    relay_bed: Bed,
    folder: Path,
    rule: Rule,
    at: tuple[str, ...] = ("ns:relay/sensor:in", "ns:relay/ecu:out"),
    **asked: Any,
) -> tuple[RunFolder, int]:
    """The run, and the relay's thread."""
    threads = []
    with (
        relay_bed.udp("sensor", "10.78.0.1") as talker,
        relay_bed.udp("relay", "10.78.0.2", PORT) as source,
        relay_bed.udp("relay", "10.78.1.1") as sink,
        relay_bed.udp("ecu", "10.78.1.2", PORT),
    ):
        sink.connect(("10.78.1.2", PORT))

        def act() -> None:
            with Relay(source, sink, rule) as relay:
                threads.append(relay.thread)
                send(talker, ("10.78.0.2", PORT))
                while len(relay.came) < COUNT:
                    time.sleep(0.01)

        found = watching(folder, act, at, **asked)
    return found, threads[0]


def late(unlucky: Callable[[int], bool], for_ns: int) -> Rule:
    """Packets with an unlucky sequence number go on after this time, all others at once."""
    return lambda packet, came: [(packet, came + (for_ns if unlucky(sequence_of(packet)) else 0))]


FROM_TO = "ns-relay-sensor-in-to-ns-relay-ecu-out"
LATE_NS = 10 * MS


def flights_of(cell: dict[str, Any]) -> dict[str, Any]:
    """What was kept of the one kernel that was watched."""
    (flight,) = cell["imported"]["flights"]
    return dict(flight)


def transit_rows(folder: RunFolder) -> pl.Series:
    """How long each packet took in the relay, ns."""
    (cell,) = folder.cells()
    (number,) = (one.stream for one in cell.cell().streams if one.name == FROM_TO)
    rows = cell.packets().filter(pl.col("stream") == number)
    return rows["second_point_tai_ns"] - rows["first_point_tai_ns"]


def windows_around(folder: RunFolder) -> list[tuple[int, int]]:
    """From 1 ms before to 1 ms after each packet that took longer than LATE_NS in the relay; what meets is one."""
    (cell,) = folder.cells()
    (number,) = (one.stream for one in cell.cell().streams if one.name == FROM_TO)
    rows = cell.packets().filter(
        (pl.col("stream") == number) & (pl.col("second_point_tai_ns") - pl.col("first_point_tai_ns") > LATE_NS)
    )
    found: list[tuple[int, int]] = []
    for begin, end in (
        rows.select(pl.col("first_point_tai_ns") - MS, pl.col("second_point_tai_ns") + MS)
        .sort("first_point_tai_ns")
        .iter_rows()
    ):
        if found and begin <= found[-1][1]:
            found[-1] = found[-1][0], max(end, found[-1][1])
        else:
            found.append((begin, end))
    return found


def recorded_windows(folder: RunFolder) -> pl.DataFrame:
    """Those of the trace, in order, of which parts that meet are one."""
    return joined(read_recording(folder.path / "watch" / "watch-0.kept.arrow", "kept").table)


def test_around_packets_above_the_threshold_alone_is_kept_what_the_process_that_delays_them_did(
    relay_bed: Bed, tmp_path: Path
) -> None:
    # Others may be late on a busy machine, too: those that were are in the packet table.
    unlucky = {20, 21, 45}
    trigger = trigger_given("latency > 10ms")
    folder, relay = relayed(relay_bed, tmp_path, late(unlucky.__contains__, 20 * MS), trigger=trigger)
    expected, kept = windows_around(folder), recorded_windows(folder)
    assert kept.select("from_tai_ns", "to_tai_ns").rows() == expected
    assert len(expected) >= 1
    trace = read_recording(folder.path / "watch" / "watch-0.trace.arrow", "trace").table
    assert kept["whole"].all()
    inside = [trace.filter(pl.col("tai_ns").is_between(begin, end)) for begin, end in expected]
    # Nothing else is recorded.
    assert sum(one.height for one in inside) == trace.height
    for events in inside:
        switched = events.filter((pl.col("event") == 12) & ((pl.col("pid") == relay) | (pl.col("subject") == relay)))
        assert switched.height > 0
    cell = cell_of(folder)
    flight = flights_of(cell)
    number_late = int((transit_rows(folder) > LATE_NS).sum())
    assert number_late >= len(unlucky)
    assert flight["judged"] == {"judged": COUNT, "late": number_late, "typical": 0, "unjudged": 0}
    assert (flight["trigger"], flight["kept"]["overran"]) == ("latency > 10ms", 0)
    assert sum(one["events"] for one in flight["windows"]) == trace.height
    assert cell["verdict"] == "trusted"


def test_without_a_packet_above_the_threshold_nothing_is_kept_and_copies_are_not_judged(
    relay_bed: Bed, tmp_path: Path
) -> None:
    doubled = {5, 25}
    trigger = trigger_given("latency > 9s")
    folder, _ = relayed(relay_bed, tmp_path, double(doubled.__contains__), trigger=trigger)
    assert recorded_windows(folder).is_empty()
    assert read_recording(folder.path / "watch" / "watch-0.trace.arrow", "trace").table.is_empty()
    flight = flights_of(cell_of(folder))
    assert flight["judged"] == {"judged": COUNT, "late": 0, "typical": 0, "unjudged": len(doubled)}
    assert flight["windows"] == []
    assert reasons(folder)["trace-whole"] == f"{len(doubled)} of {COUNT + len(doubled)} not judged"
    said = f"{trigger.text}: 0 of {COUNT} packets late from the first point to the last, 2 not judged"
    assert any(note.startswith(said) for note in cell_of(folder)["imported"]["notes"])


def test_a_flight_recorder_that_is_killed_costs_no_figure_of_packets(relay_bed: Bed, tmp_path: Path) -> None:
    killed = list[int]()

    def rule(packet: bytes, came: int) -> list[tuple[bytes, int]]:
        if not killed:
            (tracer,) = writers(tmp_path, "watch-0.trace.arrow")
            killed.append(tracer)
            os.kill(killed[0], signal.SIGKILL)
        return hold(20 * MS)(packet, came)

    folder, _ = relayed(relay_bed, tmp_path, rule, trigger=trigger_given("latency > 10ms"))
    cell = cell_of(folder)
    assert (transit(cell, FROM_TO)["n"], transit(cell, FROM_TO)["lost"]) == (COUNT, 0)
    assert flights_of(cell)["judged"] == {"judged": COUNT, "late": COUNT, "typical": 0, "unjudged": 0}
    assert flights_of(cell)["kept"] is None
    assert cell["verdict"] == "suspect"
    assert reasons(folder)["trace-whole"].startswith("`latlab-agent trace` ended unexpectedly with status -9")


def test_a_cable_between_two_namespaces(bed: Bed, tmp_path: Path) -> None:
    with bed.udp("sensor", "10.78.0.1") as talker, bed.udp("ecu", "10.78.0.2", PORT):
        folder = watching(tmp_path, lambda: send(talker, ("10.78.0.2", PORT)), ("ns:sensor/ecu", "ns:ecu/sensor"))
    cell = cell_of(folder)
    assert list(cell["streams"]) == [
        "ns-sensor-ecu-out-to-ns-ecu-sensor-in",
        "at-ns-sensor-ecu-out",
        "at-ns-ecu-sensor-in",
    ]
    figures = transit(cell, "ns-sensor-ecu-out-to-ns-ecu-sensor-in")
    assert (figures["n"], figures["lost"], figures["uncertainty_ns"]) == (COUNT, 0, 0)
    assert 0 < figures["min"] <= figures["p50"] <= figures["max"]
    gaps = cell["streams"]["at-ns-sensor-ecu-out"]["metrics"]["interarrival"]
    # Without the sender's numbers it is unknown what a point has not seen.
    assert (gaps["n"], gaps["lost"], gaps["uncertainty_ns"]) == (COUNT - 1, None, 0)
    assert gaps["min"] >= 2 * MS
    assert (cell["verdict"], cell["label"], reasons(folder)) == ("trusted", "measured", {})
    assert cell["imported"]["facts"]["packets"] == {"ns:sensor/ecu:out": COUNT, "ns:ecu/sensor:in": COUNT}


def test_a_relay_that_changes_addresses_and_holds_every_packet(relay_bed: Bed, tmp_path: Path) -> None:
    folder = through(relay_bed, tmp_path, hold(20 * MS))
    cell = cell_of(folder)
    for name in ("ns-relay-sensor-in-to-ns-relay-ecu-out", "ns-sensor-relay-out-to-ns-ecu-relay-in"):
        figures = transit(cell, name)
        assert (figures["n"], figures["lost"]) == (COUNT, 0)
        assert figures["min"] >= 20 * MS
    parts = [
        transit(cell, name)["min"]
        for name in (
            "ns-sensor-relay-out-to-ns-relay-sensor-in",
            "ns-relay-sensor-in-to-ns-relay-ecu-out",
            "ns-relay-ecu-out-to-ns-ecu-relay-in",
        )
    ]
    assert sum(parts) <= transit(cell, "ns-sensor-relay-out-to-ns-ecu-relay-in")["min"]
    assert cell["verdict"] == "trusted"
    result = make_result(folder)
    assert between_hops(result) == {"ns-sensor-relay-out-to-ns-relay-ecu-out", "ns-relay-sensor-in-to-ns-ecu-relay-in"}
    with (tmp_path / "said.txt").open("w") as file:
        print_answer(result, ("transit",), Console(file=file, width=200))
    told = [line.split()[0] for line in (tmp_path / "said.txt").read_text().splitlines() if "-to-" in line]
    # Each hop, in the order of the path, and then the whole.
    assert told == [
        "ns-sensor-relay-out-to-ns-relay-sensor-in",
        "ns-relay-sensor-in-to-ns-relay-ecu-out",
        "ns-relay-ecu-out-to-ns-ecu-relay-in",
        "ns-sensor-relay-out-to-ns-ecu-relay-in",
    ]
    assert "2 pairs of points with others between them: latlab show cells" in (tmp_path / "said.txt").read_text()


def test_packets_that_a_relay_holds_lost_their_time_between_its_two_interfaces(relay_bed: Bed, tmp_path: Path) -> None:
    def held(packet: bytes, came: int) -> list[tuple[bytes, int]]:
        return [(packet, came + (20 * MS if sequence_of(packet) % 25 == 7 else 0))]

    folder = through(relay_bed, tmp_path, held)
    (cell,) = make_result(folder).cells
    chain = cell.streams["ns-sensor-relay-out-to-ns-ecu-relay-in"].metrics["transit"].chain
    assert chain and chain.worst
    relay = ("ns:relay/sensor:in", "ns:relay/ecu:out")
    assert chain.stops == ["ns:sensor/relay:out", *relay, "ns:ecu/relay:in"]
    assert (chain.packets, chain.split, chain.clocks) == (COUNT, COUNT, ["one clock"] * 3)
    late = [one for one in chain.worst.each if one.value_ns >= 20 * MS]
    assert {one.sequence for one in late} == {number for number in range(COUNT) if number % 25 == 7}
    assert all(one.ns[1] >= 20 * MS > one.value_ns - one.ns[1] for one in late)
    most = max(chain.worst.grew, key=lambda one: one.share)
    assert (most.from_, most.to) == relay and most.share > 0.9
    (table,) = where_tables(make_result(folder), "transit")
    assert [row[0] for row in table.rows][1] == " → ".join(relay)


def test_what_a_relay_drops_is_lost_between_its_two_interfaces_and_nowhere_else(relay_bed: Bed, tmp_path: Path) -> None:
    # The last ones, too: behind them nothing shows that the far point still watched.
    cell = cell_of(through(relay_bed, tmp_path, drop(lambda number: number % 10 == 3 or number >= COUNT - 4)))
    lost = {name: transit(cell, name)["lost"] for name in cell["streams"] if "-to-" in name}
    dropped = len({number for number in range(COUNT) if number % 10 == 3 or number >= COUNT - 4})
    assert lost == {
        "ns-sensor-relay-out-to-ns-relay-sensor-in": 0,
        "ns-sensor-relay-out-to-ns-relay-ecu-out": dropped,
        "ns-sensor-relay-out-to-ns-ecu-relay-in": dropped,
        "ns-relay-sensor-in-to-ns-relay-ecu-out": dropped,
        "ns-relay-sensor-in-to-ns-ecu-relay-in": dropped,
        "ns-relay-ecu-out-to-ns-ecu-relay-in": 0,
    }
    # A program took them in, and no kernel dropped them.
    losses = cell["streams"]["ns-relay-sensor-in-to-ns-relay-ecu-out"]["losses"]
    assert (losses["lost"], losses["unplaced"], losses["places"]) == (dropped, dropped, [])
    assert cell["verdict"] == "trusted"


def test_a_flow_that_comes_nowhere_is_named_next_to_the_others(bed: Bed, tmp_path: Path) -> None:
    run("ip", "-n", "ecu", "link", "set", "sensor", "mtu", "500")
    with bed.udp("sensor", "10.78.0.1", 6000) as talker, bed.udp("sensor", "10.78.0.1", 6001) as larger:

        def act() -> None:
            send(talker, ("10.78.0.2", PORT))
            for number in range(7):
                larger.sendto(payload(number) + bytes(800), ("10.78.0.2", PORT))

        folder = watching(tmp_path, act, ("ns:sensor/ecu:out", "ns:ecu/sensor:in"))
    cell = cell_of(folder)
    assert transit(cell, "ns-sensor-ecu-out-to-ns-ecu-sensor-in")["lost"] == 0
    (lost,) = (one for one in cell["imported"]["left_out"] if "did not see them" in one["why"])
    assert (lost["what"], lost["count"]) == ("packets of ns:sensor/ecu:out", 7)
    assert lost["why"].startswith("UDP 10.78.0.1:6001 → 10.78.0.2:5000: ns:ecu/sensor:in did not see them: lost")
    # Of a flow that no other point saw the first one knows what became of it.
    losses = {name: one["losses"] for name, one in cell["streams"].items() if one["losses"]}
    (place,) = losses.pop("at-ns-sensor-ecu-out.flow-2")["places"]
    assert (place["packets"], place["place"], place["reason"]) == (7, "at ecu of ns:sensor", "NOT_SPECIFIED")
    # Nobody listens where the others arrive.
    (place,) = losses.pop("at-ns-ecu-sensor-in")["places"]
    assert (place["packets"], place["reason"]) == (COUNT, "NO_SOCKET")
    assert losses == {}


def test_a_flow_of_which_no_packet_arrives_has_a_place_and_a_reason(relay_bed: Bed, tmp_path: Path) -> None:
    # Nobody listens at the relay: its kernel drops all of them, and no other point sees one.
    with relay_bed.udp("sensor", "10.78.0.1") as talker:
        at = ("ns:relay/sensor:in", "ns:relay/ecu:out")
        folder = watching(tmp_path, lambda: send(talker, ("10.78.0.2", PORT)), at)
    cell = cell_of(folder)
    (stream,) = cell["streams"].values()
    (place,) = stream["losses"]["places"]
    assert (place["packets"], place["reason"], place["host"]) == (COUNT, "NO_SOCKET", "ns:relay")
    assert (stream["losses"]["lost"], stream["losses"]["unplaced"]) == (COUNT, 0)
    assert "a point saw no packet of the flow" in str(make_result(folder).document()["reasons"])


def test_a_single_packet_that_is_dropped_is_said_where(relay_bed: Bed, tmp_path: Path) -> None:
    # One packet has no latency and no interval; two from one port are a flow.
    def say() -> None:
        for number in range(4):
            with relay_bed.udp("sensor", "10.78.0.1", PORT + 1 + number) as talker:
                send(talker, ("10.78.0.2", PORT), 1 if number else 2)

    cell = cell_of(watching(tmp_path, say, ("ns:sensor/relay:out", "ns:relay/sensor:in")))
    where = "3 at sensor of ns:relay (NO_SOCKET)"
    assert f"ns:relay/sensor:in: 3 flows of a single packet dropped: {where}" in cell["imported"]["notes"]


TCP_ENDS = ("ns:sensor/ecu:out", "ns:ecu/sensor:in", "ns:ecu/sensor:out", "ns:sensor/ecu:in")


def tcp(namespace: str) -> socket.socket:
    """A TCP socket of the namespace's."""
    with inside(namespace):
        return socket.socket(socket.AF_INET, socket.SOCK_STREAM)


def dropped(folder: RunFolder) -> dict[str, int]:
    """{reason: packets}, of all streams."""
    losses = (stream["losses"] for stream in cell_of(folder)["streams"].values())
    return {str(place["reason"]): place["packets"] for one in losses if one for place in one["places"]}


def test_a_connection_that_ends_has_lost_nothing(bed: Bed, tmp_path: Path) -> None:
    def talk() -> None:
        for _ in range(20):
            with tcp("sensor") as asks:
                asks.connect(("10.78.0.2", PORT))
                with listener.accept()[0] as answers:
                    asks.sendall(b"question")
                    answers.sendall(answers.recv(100))
                    assert asks.recv(100) == b"question"

    with tcp("ecu") as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("10.78.0.2", PORT))
        listener.listen()
        folder = watching(tmp_path, talk, TCP_ENDS, flow=f"tcp port {PORT}")
    assert dropped(folder) == {}


def test_a_connection_that_nobody_takes_is_a_loss(bed: Bed, tmp_path: Path) -> None:
    def knock() -> None:
        for _ in range(3):
            with tcp("sensor") as asks:
                asks.bind(("10.78.0.1", PORT + 1))
                with pytest.raises(ConnectionRefusedError):
                    asks.connect(("10.78.0.2", PORT))

    assert dropped(watching(tmp_path, knock, TCP_ENDS, flow=f"tcp port {PORT}")) == {"NO_SOCKET": 3}


def test_packets_are_recognised_through_the_kernels_nat(relay_bed: Bed, tmp_path: Path) -> None:
    run("ip", "netns", "exec", "relay", "sysctl", "-qw", "net.ipv4.ip_forward=1")
    run("ip", "-n", "sensor", "route", "add", "10.78.1.0/24", "via", "10.78.0.2")
    run("ip", "netns", "exec", "relay", "nft", "add", "table", "ip", "nat")
    chain = ("chain", "ip", "nat", "out")
    run("ip", "netns", "exec", "relay", "nft", "add", *chain, "{ type nat hook postrouting priority srcnat ; }")
    run("ip", "netns", "exec", "relay", "nft", "add", "rule", *chain[1:], "oifname", "ecu", "masquerade")
    at = ("ns:relay/sensor:in", "ns:relay/ecu:out", "ns:ecu/relay:in")
    with relay_bed.udp("sensor", "10.78.0.1") as talker, relay_bed.udp("ecu", "10.78.1.2", PORT) as receiver:
        folder = watching(tmp_path, lambda: send(talker, ("10.78.1.2", PORT)), at)
        assert receiver.recvfrom(2000)[1][0] == "10.78.1.1"
    cell = cell_of(folder)
    for name in (FROM_TO, "ns-relay-ecu-out-to-ns-ecu-relay-in"):
        assert (transit(cell, name)["n"], transit(cell, name)["lost"]) == (COUNT, 0)
    assert reasons(folder) == {}


def test_copies_cannot_be_told_apart_and_are_counted_and_never_guessed(relay_bed: Bed, tmp_path: Path) -> None:
    folder = through(relay_bed, tmp_path, double(lambda number: number % 20 == 5))
    cell = cell_of(folder)
    copied = len(range(5, COUNT, 20))
    figures = transit(cell, "ns-relay-sensor-in-to-ns-relay-ecu-out")
    assert (figures["n"], figures["lost"]) == (COUNT - copied, 0)
    left_out = {one["what"]: one["count"] for one in cell["imported"]["left_out"]}
    assert left_out["packets at ns:relay/ecu:out"] == 2 * copied
    assert left_out["packets at ns:relay/sensor:in"] == copied
    assert (cell["verdict"], list(reasons(folder))) == ("suspect", ["packets-distinct"])
    assert f"{2 * copied} of {COUNT + copied} at ns:relay/ecu:out" in reasons(folder)["packets-distinct"]


def test_the_same_payload_again_and_again_is_told_apart_by_the_identification_of_ip(bed: Bed, tmp_path: Path) -> None:
    with bed.udp("sensor", "10.78.0.1") as talker, bed.udp("ecu", "10.78.0.2", PORT):
        talker.setsockopt(socket.IPPROTO_IP, 10, 0)  # IP_MTU_DISCOVER, IP_PMTUDISC_DONT
        talker.connect(("10.78.0.2", PORT))

        def act() -> None:
            for _ in range(COUNT):
                talker.send(payload(7))

        folder = watching(tmp_path, act, ("ns:sensor/ecu:out", "ns:ecu/sensor:in"))
    cell = cell_of(folder)
    figures = transit(cell, "ns-sensor-ecu-out-to-ns-ecu-sensor-in")
    assert (figures["n"], figures["lost"], cell["verdict"]) == (COUNT, 0, "trusted")


def test_what_a_sender_leaves_out_of_its_own_numbers_is_missing_from_the_first_point_on(
    bed: Bed, tmp_path: Path
) -> None:
    with bed.udp("sensor", "10.78.0.1") as talker, bed.udp("ecu", "10.78.0.2", PORT):

        def act() -> None:
            for number in range(COUNT):
                if number not in (20, 21, 40):
                    rtp = struct.pack(">BBHII", 0x80, 96, number, 160 * number, 1)
                    talker.sendto(rtp + bytes(40), ("10.78.0.2", PORT))

        folder = watching(tmp_path, act, ("ns:sensor/ecu:out", "ns:ecu/sensor:in"))
    cell = cell_of(folder)
    for name in ("at-ns-sensor-ecu-out", "at-ns-ecu-sensor-in"):
        assert cell["streams"][name]["metrics"]["interarrival"]["lost"] == 3
        note = f"{name}: by the RTP sequence numbers of 1 source 3 are missing here, 0 came again and 0 late"
        assert note in cell["imported"]["notes"]
    assert transit(cell, "ns-sensor-ecu-out-to-ns-ecu-sensor-in")["lost"] == 0


def test_samples_that_a_merging_unit_leaves_out_are_missing_from_the_first_point_on(bed: Bed, tmp_path: Path) -> None:
    with bed.tap("sensor", "ecu") as talker:

        def act() -> None:
            for number in range(COUNT):
                if number not in (20, 21, 40):
                    talker.send(sampled(number))

        folder = watching(tmp_path, act, ("ns:sensor/ecu:out", "ns:ecu/sensor:in"), flow="ether proto sv and vlan 10")
    cell = cell_of(folder)
    for name in ("at-ns-sensor-ecu-out", "at-ns-ecu-sensor-in"):
        assert cell["streams"][name]["metrics"]["interarrival"]["lost"] == 3
        (note,) = [one for one in cell["imported"]["notes"] if one.startswith(f"{name}: by the smpCnt")]
        assert "3 are missing here, 0 came again and 0 late" in note
    assert transit(cell, "ns-sensor-ecu-out-to-ns-ecu-sensor-in")["lost"] == 0


def test_what_is_missing_of_numbers_that_all_packets_of_a_node_share_is_not_taken_for_lost(
    bed: Bed, tmp_path: Path
) -> None:
    head = bytes.fromhex("0200004e0002 0200004e0001 88b6")
    with bed.tap("sensor", "ecu") as talker:

        def act() -> None:
            for number in range(COUNT):
                # Supervision frames take numbers between them.
                body = struct.pack(">I", number) + bytes(56) + struct.pack(">HH", number + number // 10, 0xA000 | 66)
                talker.send(head + body + b"\x88\xfb")

        folder = watching(tmp_path, act, ("ns:sensor/ecu:out", "ns:ecu/sensor:in"), flow="ether proto 0x88b6")
    cell = cell_of(folder)
    for name in ("at-ns-sensor-ecu-out", "at-ns-ecu-sensor-in"):
        assert cell["streams"][name]["metrics"]["interarrival"]["lost"] is None
        note = (
            f"{name}: by the PRP sequence numbers of 1 source that all packets of a node share, 0 came again and 0 late"
        )
        assert note in cell["imported"]["notes"]
    assert transit(cell, "ns-sensor-ecu-out-to-ns-ecu-sensor-in")["lost"] == 0


def test_the_cycle_counter_of_profinet_shows_losses_and_jitter_at_the_source(bed: Bed, tmp_path: Path) -> None:
    sent = [number for number in range(COUNT) if number not in (20, 21, 40)]
    macs = bytes.fromhex("0200004e0002 0200004e0001")
    with bed.tap("sensor", "ecu") as talker:

        def act() -> None:
            for number in sent:
                status = 0x31 if number == 50 else 0x35
                apdu = struct.pack(">HBB", 128 * number % 65536, status, 0)
                talker.send(macs + struct.pack(">HH", 0x8892, 0x8001) + bytes(40) + apdu)
                time.sleep(0.004)

        folder = watching(tmp_path, act, ("ns:sensor/ecu:out", "ns:ecu/sensor:in"), flow="ether proto profinet")
    cell = cell_of(folder)
    (written,) = folder.cells()
    number_of = {one.name: one.stream for one in written.cell().streams}
    for name in ("at-ns-sensor-ecu-out", "at-ns-ecu-sensor-in"):
        metrics = cell["streams"][name]["metrics"]
        jitter = metrics["jitter"]
        assert (metrics["interarrival"]["lost"], jitter["lost"]) == (COUNT - len(sent), COUNT - len(sent))
        assert (jitter["n"], jitter["missing"], jitter["uncertainty_ns"]) == (len(sent) - 1, 0, 0)
        packets = written.packets(number_of[name]).sort("sequence")
        # A frame behind missing ones is due as much later as its sender has counted.
        due_ns = packets["counted_tai_ns"] - packets["previous_tai_ns"]
        assert due_ns.to_list() == [4 * MS * (after - before) for before, after in pairwise(sent)]
        late_ns = packets["first_point_tai_ns"] - packets["counted_tai_ns"]
        assert (jitter["min"], jitter["max"]) == (late_ns.min(), late_ns.max())
        note = (
            f"{name}: by the cycle counter of PROFINET of 1 source, one every 4000 µs, 3 are missing here, "
            "0 came again and 0 late; 1 with: data not valid"
        )
        assert note in cell["imported"]["notes"]
    assert transit(cell, "ns-sensor-ecu-out-to-ns-ecu-sensor-in")["lost"] == 0
    assert cell["verdict"] == "trusted"


def test_a_full_ring_is_counted_and_what_is_lost_on_the_path_is_not_known_then(bed: Bed, tmp_path: Path) -> None:
    def act() -> None:
        (agent,) = [int(pid) for pid in run("pgrep", "-f", "latlab-agent watch", "-P", str(os.getpid())).split()]
        os.kill(agent, signal.SIGSTOP)
        send(talker, ("10.78.0.2", PORT), 2000, 0)
        os.kill(agent, signal.SIGCONT)
        time.sleep(0.2)
        send(talker, ("10.78.0.2", PORT), 2010)

    with bed.udp("sensor", "10.78.0.1") as talker, bed.udp("ecu", "10.78.0.2", PORT):
        folder = watching(tmp_path, act, ("ns:sensor/ecu:out", "ns:ecu/sensor:in"), ring=1)
    cell = cell_of(folder)
    assert cell["verdict"] == "untrusted"
    watch = folder.run().watch
    assert watch
    lost = watch.kernels[0].totals.lost or 0
    assert lost > 1000
    assert reasons(folder)["ring-full"].startswith(f"{lost} records lost")


SOCKETS = ("ns:sensor/socket:out", "ns:sensor/ecu:out", "ns:ecu/sensor:in", "ns:ecu/socket:in")


def test_what_programs_send_and_receive_has_points_of_its_own(bed: Bed, tmp_path: Path) -> None:
    wait_s, never = 0.02, 5
    with bed.udp("sensor", "10.78.0.1") as talker, bed.udp("ecu", "10.78.0.2", PORT) as listener:

        def act() -> None:
            for number in range(COUNT):
                talker.sendto(payload(number), ("10.78.0.2", PORT))
                # It lies in the socket until it is asked for; the last ones are never.
                if number < COUNT - never:
                    time.sleep(wait_s)
                    listener.recv(100)

        folder = watching(tmp_path, act, SOCKETS)
    cell = cell_of(folder)
    calls = transit(cell, "ns-sensor-socket-out-to-ns-sensor-ecu-out")
    assert (calls["n"], calls["lost"], calls["min"] > 0, calls["uncertainty_ns"]) == (COUNT, 0, True, 0)
    taken = transit(cell, "ns-ecu-sensor-in-to-ns-ecu-socket-in")
    assert (taken["n"], taken["lost"], taken["min"] > wait_s * 1e9) == (COUNT - never, never, True)
    # Until the packet comes to the socket nothing waits.
    assert transit(cell, "ns-sensor-socket-out-to-ns-ecu-sensor-in")["p50"] < wait_s * 1e9
    whole = transit(cell, "ns-sensor-socket-out-to-ns-ecu-socket-in")
    assert (whole["n"], whole["min"] > taken["min"]) == (COUNT - never, True)
    gaps = cell["streams"]["at-ns-ecu-socket-in"]["metrics"]["interarrival"]
    assert (gaps["n"], gaps["min"] > wait_s * 1e9) == (COUNT - never - 1, True)
    assert cell["verdict"] == "trusted"


def test_each_packet_that_queues_up_in_a_socket_has_the_moment_of_its_own_receive_call(
    bed: Bed, tmp_path: Path
) -> None:
    called_ns = []
    with bed.udp("sensor", "10.78.0.1") as talker, bed.udp("ecu", "10.78.0.2", PORT) as listener:

        def act() -> None:
            for number in range(COUNT):
                talker.sendto(payload(number), ("10.78.0.2", PORT))
            for number in range(COUNT):
                # What is only looked at has not been received.
                assert listener.recv(100, socket.MSG_PEEK) == payload(number)
                before_ns = time.clock_gettime_ns(time.CLOCK_TAI)
                assert listener.recv(100) == payload(number)
                called_ns.append((before_ns, time.clock_gettime_ns(time.CLOCK_TAI)))

        folder = watching(tmp_path, act, ("ns:ecu/sensor:in", "ns:ecu/socket:in"))
    cell = cell_of(folder)
    taken = transit(cell, "ns-ecu-sensor-in-to-ns-ecu-socket-in")
    assert (taken["n"], taken["lost"], cell["verdict"]) == (COUNT, 0, "trusted")
    rows = read_recording(folder.path / "watch" / "watch-0.watched.arrow", "watched").table.filter(pl.col("point") == 1)
    numbers = [struct.unpack("<Q", row["bytes"][58:66])[0] for row in rows.iter_rows(named=True)]
    assert numbers == list(range(COUNT))
    assert all(first <= at <= last for at, (first, last) in zip(rows["tai_ns"], called_ns, strict=True))


def test_of_sockets_what_was_not_seen_is_said(bed: Bed, tmp_path: Path) -> None:
    with bed.udp("sensor", "10.78.0.1") as talker, bed.udp("ecu", "10.78.0.2", PORT) as listener:

        def act() -> None:
            send(talker, ("10.78.0.2", PORT))
            for _ in range(COUNT - 1):
                listener.recv(100)

        folder = watching(tmp_path, act, ("ns:ecu/sensor:in", "ns:ecu/socket:in"))
    assert transit(cell_of(folder), "ns-ecu-sensor-in-to-ns-ecu-socket-in")["lost"] == 1
    # As a program leaves it that takes packets faster than they are read, and a kernel that shows no calls that send.
    line = "what programs send is not seen: this kernel has no tracepoint sys_enter"
    watch = folder.run().document()["watch"]
    kernel = watch["kernels"][0]
    kernel["ready"]["watch"]["missing"] = [line]
    kernel["done"]["points"][1]["unread"] = 1
    rewrite_run(folder, "order", watch=watch)
    run("rm", "-r", str(folder.path / "cells"))
    finish_watch(folder)
    cell = cell_of(folder)
    # Whether it was lost or taken is not known.
    assert transit(cell, "ns-ecu-sensor-in-to-ns-ecu-socket-in")["lost"] is None
    assert reasons(folder)["events-seen"].startswith("1 packet without a record")
    assert cell["verdict"] == "suspect"
    assert [one for one in cell["imported"]["notes"] if one.endswith(line)]


def test_sockets_are_those_of_their_namespace_and_of_the_flow(relay_bed: Bed, tmp_path: Path) -> None:
    with (
        relay_bed.udp("sensor", "10.78.0.1") as talker,
        relay_bed.udp("relay", "10.78.0.2", PORT) as relay,
        relay_bed.udp("relay", "10.78.1.1") as stranger,
        relay_bed.udp("ecu", "10.78.1.2", PORT) as listener,
        relay_bed.udp("ecu", "10.78.1.2", PORT + 1) as other,
    ):

        def act() -> None:
            for number in range(COUNT):
                talker.sendto(payload(number), ("10.78.0.2", PORT))
                relay.recv(100)
                stranger.sendto(payload(COUNT + number), ("10.78.1.2", PORT))
                listener.recv(100)
                stranger.sendto(payload(number), ("10.78.1.2", PORT + 1))
                other.recv(100)

        folder = watching(tmp_path, act, ("ns:sensor/socket", "ns:ecu/socket:in"))
    packets = cell_of(folder)["imported"]["facts"]["packets"]
    assert packets == {"ns:sensor/socket:out": COUNT, "ns:ecu/socket:in": COUNT}


def test_frames_of_packet_sockets_are_sent_and_received(bed: Bed, tmp_path: Path) -> None:
    sv = 0x88BA
    with bed.tap("sensor", "ecu") as talker, bed.tap("ecu", "sensor") as listener:

        def act() -> None:
            for number in range(COUNT):
                talker.send(MACS + struct.pack(">H", sv) + payload(number))
                listener.recv(100)

        folder = watching(tmp_path, act, SOCKETS, flow="ether proto sv")
    cell = cell_of(folder)
    for name in ("ns-sensor-socket-out-to-ns-sensor-ecu-out", "ns-ecu-sensor-in-to-ns-ecu-socket-in"):
        assert (transit(cell, name)["n"], transit(cell, name)["lost"]) == (COUNT, 0)


def test_of_both_ways_round_a_ring_the_first_copies_are_a_point(relay_bed: Bed, tmp_path: Path) -> None:
    # The relay stands for a node whose two ports receive a frame from either side.
    cut = range(40, COUNT)
    with relay_bed.tap("sensor", "relay") as one, relay_bed.tap("ecu", "relay") as other:

        def act() -> None:
            for number in range(COUNT):
                for path, talker in ((2, one), (3, other)):
                    if path == 2 or number not in cut:
                        tag = struct.pack(">HHHH", 0x892F, path << 12 | 46, number, 0x88B5)
                        talker.send(MACS + tag + payload(number))
                time.sleep(0.002)

        at = ("ns:sensor/relay:out", "ns:relay/sensor:in", "ns:relay/ecu:in")
        folder = watching(tmp_path, act, at, flow="ether proto 0x88b5")
    cell = cell_of(folder)
    (note,) = (one for one in cell["imported"]["notes"] if one.startswith("ns:relay/hsr:in: HSR, "))
    passed = f"{COUNT - len(cut)} passed in both copies, {len(cut)} by path 2 only and 0 by path 3 only"
    assert f"of {COUNT} frames {passed}; second copies passed " in note
    assert cell["streams"]["at-ns-relay-hsr-in"]["metrics"]["interarrival"]["lost"] is None
    assert transit(cell, "ns-sensor-relay-out-to-ns-relay-sensor-in")["lost"] == 0


FILTERED = range(10, 15)
TC_DROP = f"""
static long (*load)(const void *, unsigned, void *, unsigned) = (void *)26;
__attribute__((section("tc"), used)) int drop(void *skb) {{
	unsigned char number = 0;
	load(skb, 14 + 20 + 8 + 16, &number, 1);
	return number >= {FILTERED.start} && number < {FILTERED.stop} ? 2 : -1;
}}
char LICENSE[] __attribute__((section("license"), used)) = "GPL";
"""
"""A filter that drops the packets of these numbers (TC_ACT_SHOT)."""


def lost_at(cell: dict[str, Any], name: str) -> dict[tuple[str, str], int]:
    """{(place, reason): packets} of a stream, all of whose lost packets have a place."""
    losses = cell["streams"][name]["losses"]
    assert losses["unplaced"] == 0
    assert losses["lost"] == transit(cell, name)["lost"] == sum(one["packets"] for one in losses["places"])
    return {(one["place"], one["reason"]): one["packets"] for one in losses["places"]}


def forwarding(relay_bed: Bed) -> None:
    """Have the relay's kernel forward what `sensor` sends to `ecu`."""
    run("ip", "netns", "exec", "relay", "sysctl", "-qw", "net.ipv4.ip_forward=1")
    run("ip", "-n", "sensor", "route", "add", "10.78.1.0/24", "via", "10.78.0.2")


@pytest.mark.skipif(shutil.which("clang") is None, reason="clang makes the filter")
def test_packets_that_a_filter_drops_have_its_interface_and_reason(relay_bed: Bed, tmp_path: Path) -> None:
    forwarding(relay_bed)
    (tmp_path / "drop.c").write_text(TC_DROP)
    compiled = str(tmp_path / "drop.o")
    run("clang", "-O2", "-target", "bpf", "-c", str(tmp_path / "drop.c"), "-o", compiled)
    run("tc", "-n", "relay", "qdisc", "add", "dev", "ecu", "clsact")
    filtered = (
        "filter",
        "add",
        "dev",
        "ecu",
        "egress",
        "bpf",
        "direct-action",
        "object-file",
        compiled,
        "section",
        "tc",
    )
    run("tc", "-n", "relay", *filtered)
    with relay_bed.udp("sensor", "10.78.0.1") as talker, relay_bed.udp("ecu", "10.78.1.2", PORT):
        at = ("ns:sensor/relay:out", "ns:relay/sensor:in", "ns:ecu/relay:in")
        folder = watching(tmp_path, lambda: send(talker, ("10.78.1.2", PORT)), at)
    cell = cell_of(folder)
    for name in ("ns-relay-sensor-in-to-ns-ecu-relay-in", "ns-sensor-relay-out-to-ns-ecu-relay-in"):
        assert lost_at(cell, name) == {("at ecu of ns:relay", "TC_EGRESS"): len(FILTERED)}
    assert cell["streams"]["ns-sensor-relay-out-to-ns-relay-sensor-in"]["losses"] is None
    assert cell["verdict"] == "trusted"


def test_packets_that_a_full_queue_drops_are_placed_at_its_interface(relay_bed: Bed, tmp_path: Path) -> None:
    forwarding(relay_bed)
    # Each is larger than the queue.
    full = ("tbf", "rate", "200kbit", "burst", "200", "limit", "20")
    with relay_bed.udp("sensor", "10.78.0.1") as talker, relay_bed.udp("ecu", "10.78.1.2", PORT):

        def act() -> None:
            for number in range(COUNT):
                if number == COUNT // 3:
                    run("tc", "-n", "relay", "qdisc", "add", "dev", "ecu", "root", *full)
                talker.sendto(payload(number), ("10.78.1.2", PORT))

        folder = watching(
            tmp_path, act, ("ns:sensor/relay:out", "ns:relay/sensor:in", "ns:relay/ecu:out", "ns:ecu/relay:in")
        )
    cell = cell_of(folder)
    lost = transit(cell, "ns-relay-sensor-in-to-ns-relay-ecu-out")["lost"]
    assert lost == COUNT - COUNT // 3
    for name in ("ns-relay-sensor-in-to-ns-relay-ecu-out", "ns-sensor-relay-out-to-ns-ecu-relay-in"):
        ((place, reason), packets), *others = lost_at(cell, name).items()
        assert (place, reason.partition("_")[0], packets, others) == ("at ecu of ns:relay", "QDISC", lost, [])
    assert cell["streams"]["ns-relay-ecu-out-to-ns-ecu-relay-in"]["losses"] is None


def test_of_a_sample_losses_are_found_behind_a_relay_that_changes_addresses(relay_bed: Bed, tmp_path: Path) -> None:
    sent = 4000
    with (
        relay_bed.udp("sensor", "10.78.0.1") as talker,
        relay_bed.udp("relay", "10.78.0.2", PORT) as source,
        relay_bed.udp("relay", "10.78.1.1") as sink,
        relay_bed.udp("ecu", "10.78.1.2", PORT),
    ):
        sink.connect(("10.78.1.2", PORT))

        def act() -> None:
            with Relay(source, sink, drop(lambda number: number % 2 == 1)) as relay:
                send(talker, ("10.78.0.2", PORT), sent, 0.0001)
                while len(relay.came) < sent:
                    time.sleep(0.01)

        at = ("ns:sensor/relay:out", "ns:relay/sensor:in", "ns:relay/ecu:out", "ns:ecu/relay:in")
        folder = watching(tmp_path, act, at, sample=10)
    cell = cell_of(folder)
    packets = cell["imported"]["facts"]["packets"]
    sampled = packets["ns:sensor/relay:out"]
    assert abs(sampled - sent / 10) < 5 * (sent / 10) ** 0.5
    assert packets["ns:relay/sensor:in"] == sampled
    for first, second in (("ns:sensor/relay:out", "ns:ecu/relay:in"), ("ns:relay/sensor:in", "ns:relay/ecu:out")):
        name = f"{first}-to-{second}".replace(":", "-").replace("/", "-")
        figures = transit(cell, name)
        assert (figures["n"], figures["lost"]) == (packets[second], sampled - packets[second])
        assert abs(figures["lost"] - sent / 20) < 5 * (sent / 20) ** 0.5
    # No gap between packets of a sample is one between packets.
    assert [name for name in cell["streams"] if name.startswith("at-")] == []
    (note,) = [one for one in cell["imported"]["notes"] if one.startswith("a sample: ")]
    assert f"{sampled} of {sent} at ns:sensor/relay:out" in note
    assert f"{packets['ns:ecu/relay:in']} of {sent // 2} at ns:ecu/relay:in" in note
    assert cell["verdict"] == "trusted"


def test_a_sample_that_no_packet_is_in_is_one_error(bed: Bed, tmp_path: Path) -> None:
    def act() -> None:
        for _ in range(COUNT):
            talker.sendto(payload(7), ("10.78.0.2", PORT))

    with (
        bed.udp("sensor", "10.78.0.1") as talker,
        bed.udp("ecu", "10.78.0.2", PORT),
        pytest.raises(LabError) as refused,
    ):
        watching(tmp_path, act, ("ns:sensor/ecu:out",), sample=1_000_000)
    said = str(refused.value)
    assert f"{COUNT} packets of the flow passed, none of the sample" in said
    assert "--sample" in said


def test_without_a_packet_of_the_flow_the_busiest_flows_are_listed(bed: Bed, tmp_path: Path) -> None:
    with (
        bed.udp("sensor", "10.78.0.1", 6000) as talker,
        bed.udp("ecu", "10.78.0.2", 6001),
        pytest.raises(LabError) as refused,
    ):
        watching(tmp_path, lambda: send(talker, ("10.78.0.2", 6001)), ("ns:sensor/ecu:out", "ns:ecu/sensor:out"))
    said = str(refused.value)
    assert f"{COUNT} packets of UDP 10.78.0.1:6000 → 10.78.0.2:6001" in said
    assert "ns:ecu/sensor:out: no other packets either" in said
    assert list((tmp_path / "runs").iterdir()) == []


@pytest.mark.parametrize(
    ("point", "what", "where"),
    [
        ("ns:sensor/eth9", "there is no interface 'eth9'", "ns:sensor/eth9"),
        ("ns:nowhere/eth0", "there is no network namespace 'nowhere'", "ns:nowhere/eth0"),
        ("ns:sensor/ecu:sideways", "'sideways' is not a direction", "--at"),
    ],
)
def test_a_place_that_is_not_there_is_one_error(bed: Bed, tmp_path: Path, point: str, what: str, where: str) -> None:
    with pytest.raises(UsageError) as refused:
        watching(tmp_path, lambda: None, (point,))
    assert what in str(refused.value)
    assert refused.value.where == where
    assert not list(tmp_path.glob("runs/*"))


def test_what_comes_in_by_an_interface_that_stands_on_another_is_looked_for_below_it(bed: Bed, tmp_path: Path) -> None:
    kinds = (("vlan", "id", "10"), ("macvlan",), ("ipvlan",))
    for kind, *options in kinds:
        above = ("link", "add", "link", "sensor", "name", "above", "type", kind, *options)
        if subprocess.run(("ip", "-n", "ecu", *above), check=False, capture_output=True).returncode == 0:
            break
    else:
        pytest.skip("this kernel makes no interface that stands on another")
    with pytest.raises(UsageError, match=r"receives packets of ns:ecu/above .* at the interface below it"):
        watching(tmp_path, lambda: None, ("ns:ecu/above:in",))


@pytest.mark.parametrize(
    ("change", "became"),
    [
        (("-n", "ecu", "link", "set", "sensor", "down", "name", "other"), "its name is 'other' now"),
        (("-n", "ecu", "link", "delete", "sensor"), "the interface no longer exists"),
        (("-n", "ecu", "link", "set", "sensor", "netns", "sensor"), "the interface no longer exists"),
        (("netns", "delete", "ecu"), "the network namespace 'ecu' no longer exists"),
    ],
)
def test_an_interface_that_does_not_stay_is_a_reason(
    bed: Bed, tmp_path: Path, change: tuple[str, ...], became: str
) -> None:
    with bed.udp("sensor", "10.78.0.1") as talker, bed.udp("ecu", "10.78.0.2", PORT):

        def act() -> None:
            send(talker, ("10.78.0.2", PORT))
            run("ip", *change)

        folder = watching(tmp_path, act, ("ns:sensor/ecu:out", "ns:ecu/sensor:in"))
    cell = cell_of(folder)
    assert transit(cell, "ns-sensor-ecu-out-to-ns-ecu-sensor-in")["n"] == COUNT
    assert cell["verdict"] == "suspect"
    assert reasons(folder)["points-stayed"].startswith(became)


def test_fragments_and_segments_are_named_for_what_they_are(bed: Bed, tmp_path: Path) -> None:
    with bed.udp("sensor", "10.78.0.1") as talker, bed.udp("ecu", "10.78.0.2", PORT):

        def act() -> None:
            send(talker, ("10.78.0.2", PORT), 20)
            talker.sendto(bytes(range(256)) * 10, ("10.78.0.2", PORT))
            talker.setsockopt(socket.SOL_UDP, 103, 100)  # UDP_SEGMENT
            talker.sendto(bytes(range(250)), ("10.78.0.2", PORT))

        folder = watching(tmp_path, act, ("ns:sensor/ecu:out", "ns:ecu/sensor:in"), flow="udp")
    notes = cell_of(folder)["imported"]["notes"]
    assert [one for one in notes if one.startswith("4 records of fragments of IP packets")]
    assert [one for one in notes if "ns:sensor/ecu:out: of 23 packets 1 stands for 3 of the wire" in one]


def test_a_run_whose_lab_was_killed_is_analysed_later(bed: Bed, tmp_path: Path) -> None:
    with bed.udp("sensor", "10.78.0.1") as talker, bed.udp("ecu", "10.78.0.2", PORT):
        folder = watching(
            tmp_path, lambda: send(talker, ("10.78.0.2", PORT), gap_s=0.02), ("ns:sensor/ecu:out", "ns:ecu/sensor:in")
        )
    # As the lab leaves it that is killed while packets are recorded: no cell, and no agent's last word.
    watch = folder.run().document()["watch"]
    watch["kernels"][0].pop("until_tai_ns")
    watch["kernels"][0]["done"] = None
    rewrite_run(folder, "order", "ended", "status", watch=watch)
    run("rm", "-r", str(folder.path / "cells"))
    for recording in (folder.path / "watch").iterdir():
        recording.write_bytes(recording.read_bytes()[:-8])
    assert is_unfinished_watch(folder)
    finish_watch(folder)
    assert not is_unfinished_watch(folder)
    cell = cell_of(folder)
    figures = transit(cell, "ns-sensor-ecu-out-to-ns-ecu-sensor-in")
    # For the last half second it is unknown whether packets would still have come.
    assert (0 < figures["n"] < COUNT, figures["lost"]) == (True, 0)
    assert (cell["verdict"], list(reasons(folder))) == ("suspect", ["recordings-whole"])


def test_a_lab_that_is_killed_leaves_nothing_attached_and_a_run_to_report(bed: Bed, tmp_path: Path) -> None:
    latlab = str(Path(sys.executable).with_name("latlab"))
    at = ("--at", "ns:sensor/socket", "--at", "ns:sensor/ecu:out", "--at", "ns:ecu/sensor:in")
    words = ("watch", "--flow", FLOW, *at, "--runs", str(tmp_path))
    before = programs()
    with (
        bed.udp("sensor", "10.78.0.1") as talker,
        bed.udp("ecu", "10.78.0.2", PORT),
        subprocess.Popen((latlab, *words), stdout=subprocess.PIPE, text=True) as lab,
    ):
        assert lab.stdout
        assert lab.stdout.readline() == f"Watching {FLOW} until Ctrl-C\n"
        own = programs().items() - before.items()
        # A recording has its first batch after a second.
        send(talker, ("10.78.0.2", PORT), gap_s=0.05)
        lab.kill()
    deadline = time.monotonic() + 20
    while own & programs().items() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert {name for _, name in own} >= ATTACHED
    assert not own & programs().items()
    said = subprocess.run(
        (latlab, "report", "--runs", str(tmp_path), "--picture", "none", "--json"), capture_output=True, check=False
    )
    (cell,) = json.loads(said.stdout)["cells"]
    figures = transit(cell, "ns-sensor-ecu-out-to-ns-ecu-sensor-in")
    assert (figures["n"] > 0, figures["lost"], said.returncode) == (True, 0, 0)
