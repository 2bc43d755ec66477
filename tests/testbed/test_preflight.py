"""Preflight: every problem at once, each in one line with its remedy, and nothing changed."""

from __future__ import annotations

import socket
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from latlab.model.errors import EXIT_LAB, EXIT_USAGE, LabError, UsageError
from latlab.scenario import BoardHost, Loaded, load_scenario
from latlab.testbed import preflight as preflight_module
from latlab.testbed.guests.start import unbuilt_image
from latlab.testbed.images import Image
from latlab.testbed.machine import (
    CAPABILITIES,
    Machine,
    effective_capabilities,
    parse_cpu_list,
    parse_sockets,
    read_machine,
)
from latlab.testbed.machines.board import BoardMachine
from latlab.testbed.preflight import find_agent, preflight, preflight_cells, raise_problems
from latlab.testbed.site import Site
from latlab.testbed.unavailable import unavailable_here
from support.machine import scenario

ABLE = Machine(frozenset(CAPABILITIES), frozenset({0, 1}), frozenset({"lo", "enp1s0"}), lambda tool: True)
NETNS = {"sensor": "netns", "ecu": "netns"}


@pytest.fixture(autouse=True)
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "latlab-agent"
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    monkeypatch.setenv("LATLAB_AGENT", str(path))
    return path


def problems(machine: Machine = ABLE, hosts: dict[str, str] = NETNS, **parts: Any) -> list[str]:
    return [str(problem) for problem in preflight(scenario(hosts, **parts), machine)]


def test_a_machine_that_has_all_is_fine() -> None:
    assert problems() == []


@pytest.mark.real
def test_this_machine_can_run_a_small_scenario() -> None:
    assert problems(read_machine()) == []


@pytest.mark.parametrize(("user", "remedy"), [(1000, "run with sudo"), (0, "docker run --cap-add IPC_LOCK --cap-add")])
def test_without_root_it_says_so(user: int, remedy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: user)
    (line,) = problems(replace(ABLE, capabilities=frozenset()))
    assert "CAP_NET_ADMIN" in line
    assert "CAP_SYS_ADMIN" in line
    assert remedy in line


def test_an_unknown_interface_is_named_with_those_there_are() -> None:
    stream = {"talker": "a", "listener": "b", "period": "1ms", "size": "64B", "transport": "ethernet"}
    links = [{"ends": ["a.enp1s0", "b.enp7s0"]}]
    (line,) = problems(hosts={"a": "local", "b": "local"}, links=links, streams={"control": stream})
    assert line == "links[0].ends[1]: this machine has no interface enp7s0 (its interfaces: enp1s0)"


def test_an_interface_name_that_is_taken_is_refused() -> None:
    links = [{"ends": ["sensor.eth0", "ecu.enp1s0"]}]
    (line,) = problems(hosts={"sensor": "netns", "ecu": "local"}, links=links)
    assert "has an interface enp1s0 already" in line


def test_a_cpu_that_is_not_there_is_named_with_its_place_in_the_scenario() -> None:
    (line,) = problems(tuning={"sensor": {"talker": {"cpus": [1, 7]}}})
    assert line == "tuning.sensor.talker.cpus: no CPU 7 is online (online: 0, 1)"


def test_a_cpu_of_linuxptp_that_is_not_there_is_named_too() -> None:
    ptp = {"ports": {"sensor.eth0": "master", "ecu.lat0": "slave"}, "cpus": [1, 4]}
    (line,) = problems(clock={"ptp": ptp})
    assert line == "clock.ptp.cpus: no CPU 4 is online (online: 0, 1)"


def test_a_missing_netperf_points_to_the_other_loads() -> None:
    lacking = replace(ABLE, has_tool=lambda tool: tool not in ("netperf", "netserver"))
    load = {"kind": "netperf", "from": "sensor", "to": "ecu"}
    lines = problems(lacking, loads={"netperf3": load})
    assert [line.split()[:2] for line in lines] == [["loads.netperf3:", "netperf"], ["loads.netperf3:", "netserver"]]
    assert all("iperf3 or flood" in line for line in lines)


def test_a_tool_that_only_another_load_needs_is_not_missed() -> None:
    lacking = replace(ABLE, has_tool=lambda tool: tool not in ("netperf", "iperf3", "chrt"))
    assert problems(lacking, loads={"f": {"kind": "flood", "from": "sensor", "to": "ecu"}}) == []


def test_what_sets_up_shapers_here_is_named_if_it_is_missing() -> None:
    lacking = replace(ABLE, has_tool=lambda tool: tool not in ("tc", "ethtool"))
    lines = problems(lacking, shapers={"sensor.eth0": {"kind": "cbs", "idle_slope": "1Mbit/s"}})
    assert [line.split(" (")[0] for line in lines] == [
        "shapers.sensor.eth0: ethtool is missing",
        "shapers.sensor.eth0: tc is missing",
    ]


HERE = {"a": "local", "b": "netns"}
UDP_PORTS = [
    # what listens on this machine, which part of the scenario needs its port
    ({("*", 5557)}, "streams.control: UDP port 5557 of a"),
    ({("10.78.0.1", 5557)}, "streams.control: UDP port 5557 of a"),
    ({("*", 5601)}, "loads.f: UDP port 5601 of a"),
    ({("*", 5556)}, "clock.sync: UDP port 5556 of a"),
    ({("127.0.0.1", 5557), ("10.78.0.2", 5557), ("*", 5602), ("*", 80)}, ""),
]


@pytest.mark.parametrize(("udp", "said"), UDP_PORTS)
def test_a_udp_port_that_is_in_use_here_is_named_with_what_needs_it(udp: set[tuple[str, int]], said: str) -> None:
    stream = {"talker": "b", "listener": "a", "period": "1ms", "size": "64B"}
    lines = problems(
        replace(ABLE, udp=frozenset(udp)),
        HERE,
        streams={"control": stream},
        loads={"f": {"kind": "flood", "from": "b", "to": "a", "flows": 2}},
        clock={"sync": "exchange"},
    )
    assert [line.split(" is in use")[0] for line in lines] == [said][: len(said)]
    assert all("stop the program that uses it" in line for line in lines)


def test_a_namespace_has_all_its_ports_free() -> None:
    assert problems(replace(ABLE, udp=frozenset({("*", 5557)}))) == []


def test_a_udp_socket_of_this_machine_is_seen() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as bound:
        bound.bind(("127.0.0.1", 0))
        assert bound.getsockname() in read_machine().udp


def test_the_kernel_s_table_of_sockets_is_read() -> None:
    def row(address: str) -> str:
        return f"  sl  local_address\n  12: {address}:15B5 00000000:0000 07\n"

    word = int.from_bytes(bytes([10, 78, 0, 1]), sys.byteorder)
    assert list(parse_sockets(row(f"{word:08X}"))) == [("10.78.0.1", 5557)]
    assert list(parse_sockets(row("0" * 8))) == list(parse_sockets(row("0" * 32))) == [("*", 5557)]
    assert list(parse_sockets(row("0" * 31 + "1"))) == []


FILE = """\
name: several
hosts: {a: {kind: netns}, b: {kind: netns}}
links:
  - {ends: [a.eth0, b.eth0]}
streams:
  s: {talker: a, listener: b, period: 1ms, size: 64B}
loads:
  n: {kind: netperf, from: a, to: b}
tuning:
  a: {talker: {cpus: [77]}}
duration: 2s
matrix:
  loads: [none, n]
  tuning.b.listener.cpus:
    - [0]
    - [78]
"""


def test_a_file_s_problems_come_once_each_with_its_line_and_a_matrix_value_s_with_the_matrix_s(tmp_path: Path) -> None:
    path = tmp_path / "several.yaml"
    path.write_text(FILE)
    lacking = replace(ABLE, has_tool=lambda tool: tool != "netperf")
    assert [problem.where for problem in preflight_cells(load_scenario(path), lacking)] == [
        f"{path}:10: tuning.a.talker.cpus",
        f"{path}:16: matrix.tuning.b.listener.cpus[1]",
        f"{path}:8: loads.n",
    ]


def test_a_missing_agent_is_built(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("LATLAB_AGENT")
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    monkeypatch.setattr("sys.executable", str(tmp_path / "nowhere" / "python"))
    (line,) = problems()
    assert "make build" in line


def test_the_agent_is_the_named_one_or_the_one_next_to_python(agent: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_agent() == agent
    monkeypatch.delenv("LATLAB_AGENT")
    monkeypatch.setattr("sys.executable", str(agent.parent / "python"))
    assert find_agent() == agent


def test_all_problems_come_together_and_a_wrong_scenario_decides_the_exit_code() -> None:
    found = preflight(
        scenario(NETNS, tuning={"sensor": {"talker": {"cpus": [9]}}}), replace(ABLE, capabilities=frozenset())
    )
    assert [problem.exit_code for problem in found] == [EXIT_USAGE, EXIT_LAB]
    with pytest.raises(UsageError, match=r"^2 problems:\ntuning.*CPU 9.*\nmissing privilege") as caught:
        raise_problems([*found, *found])
    assert caught.value.as_dict()["problems"] == [problem.as_dict() for problem in found]
    with pytest.raises(LabError, match="missing privilege"):
        raise_problems(found[1:])
    raise_problems([])


def test_the_kernel_s_lists_and_masks_are_read() -> None:
    assert parse_cpu_list("0-2,8\n") == {0, 1, 2, 8}
    assert parse_cpu_list("\n") == set()
    assert effective_capabilities("CapPrm:\t0\nCapEff:\t0000000000001000\n") == {"CAP_NET_ADMIN"}


def test_an_image_that_is_not_there_is_reported_with_the_command_that_builds_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LATLAB_CACHE", str(tmp_path))
    guests = {"vm1": {"host": "ecu"}, "vm2": {"host": "ecu", "image": "mine"}}
    ready_made, mine = problems(guests=guests)
    assert "there is no image debian-cloud (`latlab image build debian-cloud`; those built: none)" in ready_made
    assert "there is no image mine (`latlab image build mine --flavour cloud|standard|rt`; those built: none)" in mine


BOARD = """\
name: x
hosts:
  board1: {kind: board, time: virtual, image: %s}
  sensor: {kind: netns, on: board1, cards: [eth0]}
  ecu: {kind: netns, on: board1, cards: [eth1]}
links:
  - {ends: [sensor.eth0, ecu.eth1], queues: 4}
streams:
  control: {talker: sensor, listener: ecu, period: 1ms, size: 64B}
duration: 1s
matrix:
  streams.control.size: [64B, 128B, 256B]
"""


def board_file(folder: Path, image: str) -> Path:
    path = folder / "board.yaml"
    path.write_text(BOARD.replace("kind: board, ", "kind: board, nics: 2, ") % image)
    return path


WITH_FUNCTIONS = """\
name: board
hosts:
  board1: {kind: board, arch: arm64, image: mine, nics: 2}
  sensor: {kind: netns, on: board1, cards: [eth0]}
  ecu: {kind: netns, on: board1, cards: [eth1]}
links:
  - {ends: [sensor.eth0, ecu.eth1]}
guests:
  vm1: {host: ecu, uplink: eth1, bridge: vf, image: own}
streams:
  control: {talker: sensor, listener: vm1, period: 1ms, size: 64B}
duration: 1s
"""


def test_the_command_for_a_boards_image_has_its_architecture_and_the_emulator_that_its_bridge_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LATLAB_CACHE", str(tmp_path))
    path = tmp_path / "board.yaml"
    path.write_text(WITH_FUNCTIONS)
    found = [str(problem) for problem in preflight_cells(load_scenario(path), ABLE)]
    assert any("`latlab image build mine --arch arm64 --board --emulator-from trixie`" in one for one in found)
    assert any("`latlab image build own --arch arm64 --flavour cloud|standard|rt`" in one for one in found)


@pytest.mark.parametrize(
    ("image", "command"),
    [
        ("null", "debian-rt-board (`latlab image build debian-rt-board`"),
        ("mine", "mine (`latlab image build mine --board`"),
    ],
)
def test_a_boards_image_that_is_not_built_is_one_line_and_nothing_is_said_of_what_it_may_lack(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, image: str, command: str
) -> None:
    monkeypatch.setenv("LATLAB_CACHE", str(tmp_path))
    loaded = load_scenario(board_file(tmp_path, image))
    (problem,) = preflight_cells(loaded, ABLE)
    assert str(problem).startswith(f"{tmp_path}/board.yaml:3: hosts.board1: there is no image {command}")
    assert [unavailable_here(cell.scenario) for cell in loaded.combinations] == [[], [], []]


def test_an_image_that_guests_of_several_cells_lack_is_reported_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LATLAB_CACHE", str(tmp_path))
    path = tmp_path / "guests.yaml"
    path.write_text(
        "name: x\nhosts: {sensor: {kind: netns}, ecu: {kind: netns}}\nlinks: [{ends: [sensor.lat0, ecu.lat0]}]\n"
        "streams: {s: {talker: sensor, listener: ecu, period: 1ms, size: 64B}}\nduration: 1s\nmatrix:\n  guests:\n"
        "    - {vm1: {host: ecu, uplink: lat0, bridge: tap}}\n    - {vm1: {host: ecu, uplink: lat0, bridge: macvtap}}\n"
    )
    (problem,) = preflight_cells(load_scenario(path), ABLE)
    assert "there is no image debian-cloud" in str(problem) and "guests.yaml:8: matrix.guests[0]" in str(problem)


def test_a_guests_image_cannot_be_a_boards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        preflight_module, "images_by_name", lambda: {"mine": replace(unbuilt_image("mine"), digest="1")}
    )
    monkeypatch.setattr(preflight_module, "is_current", lambda image: True)
    (problem,) = preflight_cells(load_scenario(board_file(tmp_path, "mine")), ABLE)
    assert isinstance(problem, UsageError)
    assert "hosts.board1.image: the image mine is for guests, not for boards" in str(problem)
    assert "`latlab image build NAME --board`" in str(problem)


def with_built(monkeypatch: pytest.MonkeyPatch, **images: Image) -> None:
    monkeypatch.setattr(preflight_module, "images_by_name", lambda: images)
    monkeypatch.setattr(preflight_module, "is_current", lambda image: True)


def on_a_board(folder: Path, host: str, matrix: str = "{}") -> Loaded:
    path = folder / "flavours.yaml"
    text = BOARD.replace("image: %s", f"nics: 2, {host}").partition("matrix:")[0]
    path.write_text(f"{text}matrix: {matrix}\n")
    return load_scenario(path)


def test_a_flavour_that_the_named_image_does_not_have_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = replace(unbuilt_image("mine"), digest="1", kind="board", flavour="rt")
    with_built(monkeypatch, mine=mine)
    (problem,) = preflight_cells(on_a_board(tmp_path, "image: mine, flavour: standard"), ABLE)
    assert isinstance(problem, UsageError)
    assert str(problem) == (
        f"{tmp_path}/flavours.yaml:3: hosts.board1.flavour: the image mine is of the flavour rt, not standard "
        "(no `flavour`, or another `image`; without `image`, debian-standard-board)"
    )
    fine = ["image: mine, flavour: rt", "image: mine"]
    assert [preflight_cells(on_a_board(tmp_path, host), ABLE) for host in fine] == [[], []]


def test_a_flavour_that_a_ready_made_image_does_not_have_is_refused_before_that_is_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_built(monkeypatch)
    loaded = on_a_board(tmp_path, "image: debian-rt-board", "{hosts.board1.flavour: [rt, standard]}")
    problems = [str(problem) for problem in preflight_cells(loaded, ABLE)]
    assert len(problems) == 2
    assert "there is no image debian-rt-board" in problems[0]
    assert "matrix.hosts.board1.flavour[1]: the image debian-rt-board is of the flavour rt, not stan" in problems[1]


def test_a_flavour_without_an_image_means_the_ready_made_image_of_that_flavour(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = on_a_board(tmp_path, "cpus: 1", "{hosts.board1.flavour: [rt, standard]}")
    boards = (cell.scenario.hosts["board1"] for cell in loaded.combinations)
    assert [board.image_name for board in boards if isinstance(board, BoardHost)] == [
        "debian-rt-board",
        "debian-standard-board",
    ]
    with_built(monkeypatch)
    assert [
        str(problem).partition("there is no image ")[2].split(" (")[0] for problem in preflight_cells(loaded, ABLE)
    ] == [
        "debian-rt-board",
        "debian-standard-board",
    ]


def test_the_image_of_a_guest_on_a_board_cannot_be_a_boards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    board = replace(unbuilt_image("debian-rt-board"), digest="1", kind="board", flavour="rt")
    with_built(monkeypatch, **{"debian-rt-board": board})
    path = tmp_path / "guest.yaml"
    path.write_text(
        "name: x\nhosts: {board1: {kind: board}, sensor: {kind: netns, on: board1}}\n"
        "links: [{ends: [board1.lat0, sensor.lat0]}]\n"
        "guests: {vm1: {host: board1, uplink: lat0, image: debian-rt-board}}\n"
        "streams: {s: {talker: sensor, listener: vm1, period: 1ms, size: 64B}}\nduration: 1s\n"
    )
    (cell,) = load_scenario(path).combinations
    (problem,) = preflight_cells(load_scenario(path), ABLE)
    assert isinstance(problem, UsageError)
    assert str(problem).startswith(
        f"{path}:4: guests.vm1.image: the image debian-rt-board is for boards, not for guest"
    )
    # Its plan can be printed all the same.
    assert BoardMachine().site(cell.scenario, "board1", Site("t", images={"debian-rt-board": board})).images
