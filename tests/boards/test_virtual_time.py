"""Boards whose clock counts instructions: the lab and the board take turns."""

from __future__ import annotations

import re
import sys
from statistics import median
from typing import Any

import polars as pl
import pytest

import latlab
from support.boards.place import HANG, PANIC, BoardPlace, received
from support.busy import busy_machine
from support.command import cells_of, read
from support.programs import PROGRAMS

HOSTS: dict[str, Any] = {
    "board1": {"kind": "board", "time": "virtual"},
    "sensor": {"kind": "netns", "on": "board1"},
    "ecu": {"kind": "netns", "on": "board1"},
}
CARDS: dict[str, Any] = {
    "board1": {"kind": "board", "time": "virtual", "nics": 2, "memory": "1536MiB"},
    "sensor": {"kind": "netns", "on": "board1", "cards": ["eth0"]},
    "ecu": {"kind": "netns", "on": "board1", "cards": ["eth1"]},
}
STREAM = {"talker": "sensor", "listener": "ecu", "period": "1ms", "size": "64B"}
APART = STREAM | {"period": "4093us"}
"""The guest shares the board's one CPU: each packet of both streams has it to itself for two milliseconds. The ticks of
board and guest come each 4 ms: in step with them, every packet of a stream would meet the same one, or none."""
PACKETS, APART_PACKETS = 1000, 250
REPEATS_WITHIN_NS = 100
PROGRAM_LATER_NS = {"tx_sched": (0, 2000), "tx_soft": (-2000, 0), "rx_soft": (0, 1000)}
"""{a kernel timestamp: between these a program's minus the socket's is}: so many instructions at most are between their
places in the kernel."""
INTERRUPTED_NS = 50_000
READING_NS = 100
"""From the least to the greatest offset that one reading of KVM's clock allows: 50 ns either way."""


def test_a_cell_is_measured_twice_and_repeats_on_a_busy_machine(place: BoardPlace) -> None:
    before = place.trace()
    with busy_machine():
        ended = place.latlab(
            "run", place.board_scenario(hosts=HOSTS, streams={"control": STREAM}), "--check-repeat", "--jobs", "1"
        )
    assert ended.status == 0, ended.err + ended.out
    assert place.trace() == before
    folder = place.only_run()
    first, second = cells_of(folder).values()
    assert (first["start_tai_ns"] - second["start_tai_ns"]) % 10**9 == 0
    assert {first["label"], second["label"]} == {"virtual time"}
    assert "virtual time: reproducible, compares configurations, says nothing about this machine's speed" in ended.out
    assert "1 a nanosecond" in " ".join(ended.out.split())
    alone = [step for cell in (first, second) for step in cell["steps"] if step["title"].startswith("board1's ")]
    assert all(step["ok"] for step in alone)
    assert [step["actual"] for step in alone if "SCHED" in step["title"]] == ["SCHED_FIFO 2", "SCHED_FIFO 1"] * 2
    assert len({step["actual"] for step in alone if "on CPU" in step["title"]}) == 1
    packets = (
        latlab.load(folder).packets("all").with_columns(latency=pl.col("rx_soft_tai_ns") - pl.col("launch_tai_ns"))
    )
    medians = {median(part["latency"]) for part in packets.partition_by("repeat")}
    assert packets["latency"].null_count() == 0 and packets.height == 2 * PACKETS
    # A board has one idealised CPU of 10^9 instructions a second: a packet takes it some ten thousand of them.
    (middle,) = medians
    assert 5_000 < middle < 30_000
    (alike,) = read(folder / "result.json")["repeats"]
    assert (alike["packets"], alike["only_in_one"], alike["repetitions"]) == (PACKETS, 0, 2)
    assert alike["largest_ns"] <= REPEATS_WITHIN_NS
    assert first["qemu"] == second["qemu"] and int(first["qemu"].partition(".")[0]) >= 10
    assert f"{PACKETS} packets, at most {alike['largest_ns']} ns apart" in ended.out


def test_a_load_runs_next_to_the_stream_in_virtual_time_and_programs_stamp_its_packets_as_the_socket_does(
    place: BoardPlace,
) -> None:
    load = {"kind": "flood", "from": "sensor", "to": "ecu", "size": "1000B", "rate": "8Mbit/s"}
    parts: dict[str, Any] = {"streams": {"control": STREAM}, "loads": {"bulk": load}, "timestamps": {"by": "both"}}
    ended = place.latlab("run", place.board_scenario(hosts=HOSTS, **parts, repeat=2))
    assert ended.status == 0, ended.err + ended.out
    folder = place.only_run()
    for cell in read(folder / "result.json")["cells"]:
        (found,) = cell["loads"]
        assert found["sent_bps"] == pytest.approx(found["asked_bps"], rel=0.1)
        assert cell["streams"]["control"]["counts"]["received"] == PACKETS
    first, second = cells_of(folder).values()
    assert (first["seed"], second["seed"]) == (1, 2)
    assert (first["start_tai_ns"] - second["start_tai_ns"]) % 10**9, "each repetition has phases of its own"
    latencies = [
        part.select(pl.col("rx_soft_tai_ns") - pl.col("launch_tai_ns")).to_series()
        for part in latlab.load(folder).packets().partition_by("repeat")
    ]
    assert latencies[0].to_list() != latencies[1].to_list()
    for cell in (first, second):
        compared = {
            one["stamp"]: one for agent in cell["agents"] for one in agent["done"].get("stages", {}).get("compared", ())
        }
        assert {stamp: one["n"] for stamp, one in compared.items()} == dict.fromkeys(PROGRAM_LATER_NS, PACKETS)
        # From one to the other the kernel executes the same instructions, a nanosecond each; what interrupts it adds.
        for stamp, (least_ns, largest_ns) in PROGRAM_LATER_NS.items():
            assert least_ns < compared[stamp]["p1_ns"] <= compared[stamp]["p50_ns"] < largest_ns, compared
            assert abs(compared[stamp]["p99_ns"]) < INTERRUPTED_NS


FORGETFUL_LAB = (sys.executable, str(PROGRAMS / "forgetful_lab.py"))


def test_cells_that_share_a_test_bed_measure_what_each_measures_by_itself(place: BoardPlace) -> None:
    parts: dict[str, Any] = {"hosts": HOSTS, "streams": {"control": STREAM}, "duration": "200ms"}
    load = {"kind": "flood", "from": "sensor", "to": "ecu", "size": "1000B", "rate": "8Mbit/s"}
    # What agents are told: beds with them go on from one without, and so does a cell that shares its agents with none.
    small, large = "64B", "100B"
    before = place.trace()
    packets = dict[str, dict[str, bytes]]()
    for name, values, sizes, seeds, by in (
        ("together", ["none", "bulk"], [small, large], {"seed": 4, "repeat": 2}, ()),
        ("alone", ["bulk"], [small], {"seed": 5}, ()),
        ("apart", ["bulk"], [large], {"seed": 5}, ()),
        ("mistaken", ["none", "bulk"], [small, large], {"seed": 5}, FORGETFUL_LAB),
    ):
        matrix = {"loads": values, "streams.control.size": sizes}
        few = {"exclude": [{"loads": "none", "streams.control.size": large}]} if "none" in values else {}
        path = place.board_scenario(**parts, **seeds, **few, name=name, loads={"bulk": load}, matrix=matrix)
        ended = place.latlab("run", path, before=by)
        assert ended.status == 0, ended.err + ended.out
        (folder,) = place.runs.glob(f"*-{name}-*")
        found = cells_of(folder)
        assert [cell["shared_bed"] for cell in found.values()] == [name == "together"] * len(found)
        packets[name] = {
            cell.partition("size=")[2].split("/")[0]: (folder / "cells" / cell / "packets.parquet").read_bytes()
            for cell, one in found.items()
            if "bulk" in cell and one["seed"] == 5
        }
    assert packets["together"] == packets["alone"] | packets["apart"] == packets["mistaken"]
    assert len(packets["together"]) == 2
    assert place.trace() == before


@pytest.mark.parametrize(
    ("command", "how"),
    [(PANIC, "ended with status 0"), (HANG, "runs, but board1 is lost: its clock has not advanced for")],
    ids=["panics", "hangs"],
)
def test_a_board_in_virtual_time_that(place: BoardPlace, command: str, how: str) -> None:
    why = place.struck(command, hosts=HOSTS)
    assert why.startswith(f"start board1: `qemu-system-x86_64` {how}")
    assert ": its kernel panicked: sysrq triggered crash\n" in why
    assert why.endswith("Kernel panic - not syncing: sysrq triggered crash")


def test_a_board_in_virtual_time_whose_ordinary_threads_starve_says_who_holds_its_cpu(place: BoardPlace) -> None:
    why = place.struck("exec chrt -f 20 sh -c 'while :; do :; done'", hosts=HOSTS)
    assert re.fullmatch(
        r"its ordinary threads starve: CPU 0 is occupied by sh \(thread \d+\) at SCHED_FIFO 20, for \d+ % of 2 s", why
    )


def test_a_board_in_virtual_time_that_is_killed_fails_its_cell_and_leaves_nothing(place: BoardPlace) -> None:
    before = place.trace()
    lab = place.start("run", place.board_scenario(hosts=HOSTS, duration="600s", warmup="1s"), "--verbose")
    assert len(place.killed(lab)) == 1
    assert place.trace() == before


def test_a_killed_lab_leaves_nothing_of_a_board_in_virtual_time_once_cleaned_up(place: BoardPlace) -> None:
    place.killed_lab_leaves_nothing(hosts=HOSTS, duration="600s", warmup="1s")


def test_a_guest_nested_in_a_board_in_virtual_time_is_measured_and_repeats(place: BoardPlace) -> None:
    guest = {"host": "ecu", "acceleration": "kvm", "image": "debian-rt", "memory": "256MiB"}
    # The board of tsn-bridges: whichever of its tests comes first makes the snapshot of both.
    hosts = CARDS | {"board1": CARDS["board1"] | {"cpus": 4, "append": "isolcpus=nohz,domain,managed_irq,2-3"}}
    path = place.board_scenario(
        hosts=hosts,
        tuning={"ecu": {"isolated": [2, 3], "guests": {"vm1": {"vcpus": {"cpus": [3], "fifo": 1}}}}},
        links=[{"ends": ["sensor.eth0", "ecu.eth1"]}],
        guests={"vm1": guest | {"uplink": "eth1", "bridge": "ovs", "vhost": "on"}},
        streams={
            "down": APART | {"listener": "vm1"},
            "up": APART | {"talker": "vm1", "listener": "sensor", "offset": "2ms"},
        },
        duration="1023250us",
    )
    ended = place.start("run", path, "--check-repeat").ended()
    assert ended.status == 0, ended.err + ended.out
    folder = place.only_run()
    for cell in cells_of(folder).values():
        assert received(cell) == [APART_PACKETS] * 2
        (bridge,) = cell["bridges"]
        assert "kernel datapath" in bridge["detail"]
        clocks = {clock["source"]: clock for clock in cell["clocks"]}
        assert set(clocks) == {"one kernel", "ptp_kvm"}
        # Both clocks are read at one value of the counter that both are made from.
        shared = clocks["ptp_kvm"]["bound"]
        # No wider than a reading; its ends are whole nanoseconds, rounded outwards.
        assert 0 < shared["upper_ns"] - shared["lower_ns"] <= READING_NS + 1
        assert clocks["ptp_kvm"]["upper_ns"] - clocks["ptp_kvm"]["lower_ns"] < 1_000
    recordings = sorted(folder.glob("cells/*/*/clock-ecu-vm1.exchanges.arrow"))
    assert len(recordings) == 2
    for recording in recordings:
        read_at = pl.read_ipc_stream(recording)
        widths = (read_at["t2_tai_ns"] - read_at["t1_tai_ns"]) - (read_at["t3_tai_ns"] - read_at["t4_tai_ns"])
        assert set(widths) == {READING_NS}
    logs = sorted(folder.glob("cells/*/*/logs/vm1.log"))
    assert logs
    for log in logs:
        assert "latlab-agent: init: serving" in log.read_text()  # what the guest prints, also where its bed was kept
    result = read(folder / "result.json")
    (alike,) = result["repeats"]
    assert (alike["packets"], alike["only_in_one"]) == (2 * APART_PACKETS, 0)
    assert alike["largest_ns"] <= REPEATS_WITHIN_NS
    for way in ("down", "up"):
        (median,) = {cell["streams"][way]["metrics"]["latency"]["p50"] for cell in result["cells"]}
        # The way through vhost and an exit of the guest is longer than the one between namespaces.
        assert 10_000 < median < 150_000


def test_a_cpu_that_is_busy_waits_for_another_for_microseconds_and_not_until_its_next_tick(place: BoardPlace) -> None:
    scenario = place.board_scenario(
        # The board of irq-latency-board without guests: they have one snapshot.
        hosts=HOSTS | {"board1": HOSTS["board1"] | {"cpus": 2, "memory": "1536MiB"}},
        streams={},
        probes={"timer": {"probe": "timer", "on": "ecu", "period": "1006us"}},
        loads={"calls": {"kind": "busy", "on": "ecu", "what": "calls", "workers": 4}},
        duration="300ms",
    )
    ended = place.latlab("run", scenario)
    assert ended.status == 0, ended.err + ended.out
    (cell,) = read(place.only_run() / "result.json")["cells"]
    wakeup = cell["streams"]["timer"]["metrics"]["wakeup"]
    # CPUs change places each 10 µs. The tick of the other one, until which it executed otherwise, comes each 4 ms.
    assert wakeup["n"] > 250 and wakeup["max"] < 100_000, wakeup
