"""Whole runs on machines that are reached over a real sshd."""

from __future__ import annotations

import shutil
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from latlab.testbed.images.packages import Apt, fetch, unpack
from support.command import cells_of, read
from support.ssh import CABLE, Bench

STREAMS = 2
PACKETS = 250
GUEST_PACKETS = 100


def test_streams_between_two_machines_are_counted_exactly_and_nothing_but_the_agent_stays(bench: Bench) -> None:
    before = bench.traces()
    ended = bench.latlab("run", bench.scenario())
    assert ended.status == 0, ended.err
    (cell,) = cells_of(bench.place.only_run()).values()
    received = [
        entry["received"] for agent in cell["agents"] if agent["verb"] == "listen" for entry in agent["done"]["streams"]
    ]
    assert received == [PACKETS] * STREAMS
    assert [clock["source"] for clock in cell["clocks"]] == ["exchange"]
    assert bench.traces() == before
    (agent,) = bench.boards["board1"].inside("ls", "/var/lib/latlab/agents").split()
    assert agent.startswith("latlab-agent-")


def with_recordings(bench: Bench, recordings: str, **parts: Any) -> Path:
    """The scenario with hosts that store, or stream, what they record."""
    (board1,) = read_hosts(bench).values()
    hosts = dict.fromkeys(bench.boards, board1 | {"recordings": recordings})
    return bench.scenario(hosts=hosts, **parts)


def test_recordings_that_are_streamed_need_no_room_on_the_machines(bench: Bench) -> None:
    for board in bench.boards.values():
        board.inside("mount", "-o", "remount,size=4k", "/var/tmp")
    before = bench.traces()
    stored = bench.latlab("run", with_recordings(bench, "stored"))
    assert stored.status == 3 and "cannot write" in stored.err + stored.out
    streamed = bench.latlab("run", with_recordings(bench, "streamed"))
    assert streamed.status == 0, streamed.err
    run = max(bench.place.runs.iterdir(), key=lambda folder: folder.stat().st_ctime)
    (cell,) = read(run / "result.json")["cells"]
    counts = [stream["counts"] for stream in cell["streams"].values()]
    assert [(one["sent"], one["received"]) for one in counts] == [(PACKETS, PACKETS)] * STREAMS
    assert not {reason["id"] for reason in read(run / "result.json")["reasons"]} & {"recordings-whole", "counts-agree"}
    assert bench.traces() == before


def test_a_connection_that_is_cut_ends_recordings_that_are_streamed_and_the_next_cell_is_measured(bench: Bench) -> None:
    before = bench.traces()
    lab = bench.start("run", with_recordings(bench, "streamed", duration="6s", repeat=2), "--verbose")
    lab.until("measuring")
    time.sleep(2)
    bench.boards["board2"].cut_connections()
    assert lab.ended().status == 3
    run = bench.place.only_run()
    first, second = sorted(cells_of(run).values(), key=lambda cell: cell["order"])
    assert (first["status"], second["status"]) == ("failed", "ok")
    (recording,) = run.glob(f"cells/all/r{first['repeat']}/listener-board2.received.arrow")
    assert recording.stat().st_size > 0, "what came before the cut is kept"
    assert bench.traces() == before


@pytest.fixture(scope="session")
def busybox(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """BusyBox, static: what many boards have in the place of iproute2, ethtool and util-linux."""
    folder = tmp_path_factory.mktemp("busybox")
    (package,) = fetch(Apt(folder / "apt").packages(["busybox-static"]), folder)
    unpack(package, folder / "unpacked")
    return next(path for path in (folder / "unpacked").rglob("bin/busybox") if path.is_file())


def test_streams_over_a_cable_need_no_more_than_busyboxs_programs(bench: Bench, busybox: Path) -> None:
    before = bench.traces()
    tools = ("ip", "tc", "ethtool", "chrt", "taskset", "setpriv")
    paths = [str(Path(path).resolve()) for path in map(shutil.which, tools) if path]
    for board in bench.boards.values():
        for path in paths:
            board.inside("mount", "--bind", str(busybox), path)
        assert "BusyBox" in board.inside("sh", "-c", "ip --help 2>&1; :")
    ended = bench.latlab("run", bench.scenario())
    for board in bench.boards.values():
        board.inside("umount", *paths)
    assert ended.status == 0, ended.err
    (cell,) = read(bench.place.only_run() / "result.json")["cells"]
    counts = [stream["counts"] for stream in cell["streams"].values()]
    assert [(one["sent"], one["received"]) for one in counts] == [(PACKETS, PACKETS)] * STREAMS
    assert bench.traces() == before


def test_the_agent_is_copied_once(bench: Bench) -> None:
    path = bench.scenario()
    assert bench.latlab("run", path).status == 0
    look = ("stat", "-c", "%i %Z %n", "/var/lib/latlab/agents/")
    first = [board.inside(*look) for board in bench.boards.values()]
    assert bench.latlab("run", path).status == 0
    assert [board.inside(*look) for board in bench.boards.values()] == first


def test_namespaces_on_a_machine_are_hosts_with_loads_next_to_the_stream(bench: Bench) -> None:
    before = bench.traces()
    hosts = read_hosts(bench) | {"sensor": {"kind": "netns", "on": "board1"}, "ecu": {"kind": "netns", "on": "board1"}}
    path = bench.scenario(
        hosts=hosts,
        links=[{"ends": ["sensor.eth0", "ecu.eth0"]}],
        streams={"control": {"talker": "sensor", "listener": "ecu", "period": "2ms", "size": "64B"}},
        loads={
            "ours": {"kind": "flood", "from": "sensor", "to": "ecu", "rate": "5Mbit/s", "size": "500B"},
            "theirs": {"kind": "iperf3", "from": "ecu", "to": "sensor", "rate": "5Mbit/s"},
        },
    )
    ended = bench.latlab("run", path)
    assert ended.status == 0, ended.err
    (cell,) = cells_of(bench.place.only_run()).values()
    assert [clock["source"] for clock in cell["clocks"]] == ["one kernel"]
    assert [load["received_bps"] > 0 for load in cell["loads"]] == [True, True]
    assert bench.traces() == before


@pytest.mark.long
def test_probes_between_two_machines_are_answered_each_time(bench: Bench) -> None:
    before = bench.traces()
    each = {"from": "board1", "to": "board2", "size": "64B", "period": "4ms"}
    probes = {
        "udp": each | {"probe": "ping"},
        "tcp": each | {"probe": "ping", "transport": "tcp"},
        "dds": each | {"probe": "dds"},
        "peer": each | {"probe": "sockperf", "from": "board2", "to": "board1"},
        "tick": {"probe": "timer", "on": "board2", "period": "2ms"},
    }
    ended = bench.latlab("run", bench.scenario(streams={}, probes=probes, duration="1s"))
    assert ended.status == 0, ended.err
    (cell,) = read(bench.place.only_run() / "result.json")["cells"]
    for name in ("udp", "tcp", "dds"):
        assert cell["streams"][name]["metrics"]["round_trip"]["n"] == PACKETS, name
    assert cell["streams"]["peer"]["metrics"]["round_trip"]["n"] > 0
    assert cell["streams"]["tick"]["counts"]["came"] == 2 * PACKETS
    assert bench.traces() == before


def test_a_guest_on_a_machine_is_measured_through_a_bridge_there(bench: Bench, cache: Path) -> None:
    before = bench.traces()
    path = bench.scenario(
        guests={"vm1": {"host": "board2", "bridge": "xdp", "uplink": CABLE}},
        streams={"control": {"talker": "board1", "listener": "vm1", "period": "5ms", "size": "64B"}},
    )
    ended = bench.latlab("run", path, LATLAB_CACHE=str(cache))
    assert ended.status == 0, ended.err + ended.out
    run = bench.place.only_run()
    (cell,) = cells_of(run).values()
    (listener,) = (agent for agent in cell["agents"] if agent["host"] == "vm1" and agent["verb"] == "listen")
    assert [stream["received"] for stream in listener["done"]["streams"]] == [GUEST_PACKETS]
    assert cell["label"] == "functional only"
    (bridge,) = cell["bridges"]
    assert "redirected" in bridge["detail"]
    (log,) = run.glob("cells/*/*/logs/vm1.log")
    assert "latlab-agent: init: serving" in log.read_text()
    assert bench.traces() == before


def test_a_connection_that_is_cut_fails_its_cell_and_the_recordings_are_fetched(bench: Bench) -> None:
    before = bench.traces()
    lab = bench.start("run", bench.scenario(duration="6s", repeat=2), "--verbose")
    lab.until("measuring")
    bench.boards["board2"].cut_connections()
    ended = lab.ended()
    assert ended.status == 3
    run = bench.place.only_run()
    first, second = sorted(cells_of(run).values(), key=lambda cell: cell["order"])
    assert (first["status"], second["status"]) == ("failed", "ok")
    assert "board2" in first["reason"]["what"] + first["reason"]["where"]
    assert "connection" in first["reason"]["what"]
    (recording,) = run.glob(f"cells/all/r{first['repeat']}/listener-board2.received.arrow")
    assert recording.stat().st_size > 0
    assert bench.traces() == before


def test_a_machine_that_reboots_fails_its_cell_and_the_next_one_is_measured(bench: Bench) -> None:
    before = bench.traces()
    lab = bench.start("run", bench.scenario(duration="6s", repeat=2), "--verbose")
    lab.until("measuring")
    board = bench.boards["board2"]
    # What it had in memory is gone: recordings, the agent, the folders of the run.
    board.end()
    # It boots for longer than it takes until its cell has failed.
    lab.until(": waiting")
    board.start()
    ended = lab.ended()
    assert ended.status == 3
    first, second = sorted(cells_of(bench.place.only_run()).values(), key=lambda cell: cell["order"])
    assert (first["status"], second["status"]) == ("failed", "ok"), ended.err
    assert "board2" in first["reason"]["what"] + first["reason"]["where"]
    assert bench.latlab("clean").status == 0
    assert bench.traces() == before


def test_a_machine_that_is_lost_keeps_its_recordings_until_it_is_reached_again(bench: Bench) -> None:
    before = bench.traces()
    lab = bench.start("run", bench.scenario(duration="8s"), "--verbose")
    lab.until("measuring")
    board = bench.boards["board2"]
    board.lose()
    ended = lab.ended()
    assert ended.status == 3
    assert "to be undone there" in ended.out + ended.err
    cleaned = bench.latlab("clean")
    assert cleaned.status == 3
    assert "board2" in cleaned.err
    run = bench.place.only_run()
    (path,) = run.glob("cells/*/*/listener-board2.received.arrow")
    short = path.stat().st_size
    board.find_again()
    again = bench.latlab("clean")
    assert again.status == 0, again.err
    assert path.stat().st_size > short
    assert bench.latlab("report", run.name, "--json").document["cells"]
    assert bench.traces() == before


def test_a_killed_lab_leaves_nothing_running_and_clean_undoes_the_rest(bench: Bench) -> None:
    before = bench.traces()
    lab = bench.start("run", bench.scenario(duration="20s"), "--verbose")
    lab.until("measuring")
    lab.signal(signal.SIGKILL)
    lab.ended()
    assert bench.latlab("clean").status == 0
    assert bench.traces() == before


@pytest.mark.parametrize(
    ("spoilt", "says"),
    [
        ("key", "add your public key to its authorized_keys"),
        ("known_hosts", "add its host key to your known_hosts"),
    ],
)
def test_a_machine_that_lets_nobody_in_is_one_clear_error(bench: Bench, spoilt: str, says: str) -> None:
    (bench.place.folder / "boards" / spoilt).write_text("")
    ended = bench.latlab("run", bench.scenario())
    assert ended.status == 3
    (cell,) = cells_of(bench.place.only_run()).values()
    assert says in cell["reason"]["remedy"]
    assert cell["reason"]["where"] == "board1"


def test_where_no_program_may_be_run_the_mount_is_named_and_nothing_stays(bench: Bench) -> None:
    before = bench.traces()
    bench.boards["board2"].inside("mount", "-o", "remount,noexec", "/var/lib")
    ended = bench.latlab("run", bench.scenario())
    assert ended.status == 3
    (cell,) = cells_of(bench.place.only_run()).values()
    assert cell["reason"]["where"] == "board2"
    assert cell["reason"]["what"].endswith("cannot be run: /var/lib is mounted noexec")
    assert "mount -o remount,exec /var/lib" in cell["reason"]["remedy"]
    assert bench.traces() == before


def test_an_agent_that_is_not_this_labs_is_replaced_and_recordings_need_no_programs_next_to_them(bench: Bench) -> None:
    board = bench.boards["board2"]
    board.inside("mount", "-o", "remount,noexec", "/var/tmp")
    assert bench.latlab("run", bench.scenario()).status == 0
    (agent,) = board.inside("ls", "/var/lib/latlab/agents").split()
    path = f"/var/lib/latlab/agents/{agent}"
    own = board.inside("sha256sum", path)
    board.inside("sh", "-c", 'printf "#!/bin/sh\necho latlab-agent 0.0.1\n" >"$0"', path)
    assert board.inside("sha256sum", path) != own
    assert bench.latlab("run", bench.scenario()).status == 0
    assert board.inside("sha256sum", path) == own


def test_the_doctor_examines_a_machine_and_changes_nothing_there(bench: Bench) -> None:
    has_types = Path("/sys/kernel/btf/vmlinux").exists()
    before = bench.traces()
    config = bench.place.folder / "boards" / "config"
    ended = bench.latlab("doctor", "--on", "board1", "--ssh-config", config, "--json")
    found = {finding["name"]: finding for finding in ended.document}
    assert found["user"]["found"] == "root"
    assert found["latlab-agent"]["ok"] and found["ip"]["ok"]
    assert found["agents: /var/lib/latlab/agents"]["found"] == "/var/lib is mounted for programs and files"
    assert found["gate schedules (taprio)"]["found"]
    assert found["eBPF: timestamps, losses, watch"]["found"] == (
        "BPF programs can be loaded" if has_types else "missing: /sys/kernel/btf/vmlinux"
    )
    assert bench.traces() == before
    bench.boards["board1"].lose()
    lost = bench.latlab("doctor", "--on", "board1", "--ssh-config", config)
    assert lost.status == 3 and "ssh to board1 failed" in lost.err


def test_a_plan_shows_every_command_and_asks_no_machine(bench: Bench) -> None:
    path = bench.scenario()
    for board in bench.boards.values():
        board.lose()
    ended = bench.latlab("plan", path)
    assert ended.status == 0, ended.err
    assert "ssh -T" in ended.out
    assert "copy the agent to board1" in ended.out


def read_hosts(bench: Bench) -> dict[str, dict[str, object]]:
    config = str(bench.place.folder / "boards" / "config")
    return {"board1": {"kind": "ssh", "ssh": {"config": config}}}
