"""Hosts that are other machines, reached over ssh or emulated: their settings, and which machine a host is on."""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import IPv4Interface
from typing import Any

import pytest

from latlab.scenario import BoardHost, End, Loaded, NetnsHost, Scenario, Ssh, SshHost, cells, parse

With = Callable[..., Loaded]

STREAM = {"period": "1ms", "size": "64B"}
EVERY_KIND: dict[str, Any] = {
    "hosts": {
        "here": {"kind": "local"},
        "sensor": {"kind": "netns"},
        "inside": {"kind": "netns", "on": "board1"},
        "board1": {"kind": "ssh", "ssh": {"destination": "admin@192.0.2.7", "port": 2222}},
        "board2": {"kind": "ssh"},
        "emulated": {"kind": "board", "nics": 1},
        "part": {"kind": "netns", "on": "emulated"},
        "other-nic": {"kind": "ssh", "ssh": {"destination": "192.0.2.7", "user": "root", "port": 2222}},
    },
    "links": [
        {"ends": ["here.p1", "board1.enp1s0"]},
        {"ends": ["sensor.eth0", "here.veth0"]},
        {"ends": ["inside.eth0", "board1.veth0"]},
        {"ends": ["board2.enp1s0", "here.enp2s0"], "subnet": "10.20.0.0/24"},
        {"ends": ["board1.enp3s0", "other-nic.enp4s0"]},
        {"ends": ["part.eth0", "emulated.veth0"]},
    ],
    "guests": {
        "vm1": {"host": "inside", "uplink": "eth0"},
        "vm2": {"host": "emulated"},
        "vm3": {"host": "board2"},
        "vm4": {"host": "sensor"},
    },
    "streams": {
        "cable": {"talker": "board2", "listener": "here"} | STREAM,
        "frames": {"talker": "board1", "listener": "other-nic", "transport": "ethernet"} | STREAM,
        "pair": {"talker": "inside", "listener": "board1"} | STREAM,
        "guest": {"talker": "board1", "listener": "vm1"} | STREAM,
    },
    "loads": {},
}
CREATED = [False, True, True, False, False, True]
VIRTUAL: dict[str, Any] = {
    "hosts": {
        "board1": {"kind": "board"},
        "sensor": {"kind": "netns", "on": "board1"},
        "ecu": {"kind": "netns", "on": "board1"},
    },
}


@pytest.fixture
def every_kind(with_: With) -> Scenario:
    """Hosts of every kind on four machines, this one among them, with links and guests."""
    return with_(EVERY_KIND).scenario


def test_a_machine_over_ssh_needs_no_more_than_its_kind_or_its_destination(every_kind: Scenario) -> None:
    bare, told = every_kind.hosts["board2"], every_kind.hosts["board1"]
    assert isinstance(bare, SshHost)
    assert bare.ssh == Ssh(destination=None, user=None, port=22, config=None)
    assert isinstance(told, SshHost)
    assert (told.ssh.destination, told.ssh.port) == ("admin@192.0.2.7", 2222)


def test_a_board_has_one_cpu_1_gib_and_no_card_and_runs_in_real_time_unless_told_otherwise(with_: With) -> None:
    board = with_(VIRTUAL).scenario.hosts["board1"]
    assert isinstance(board, BoardHost)
    assert (board.image_name, board.cpus, board.memory, board.nics) == ("debian-rt-board", 1, 2**30, 0)
    assert (board.time, board.append) == ("real", None)


def test_a_namespace_is_made_on_this_machine_unless_told_otherwise(every_kind: Scenario) -> None:
    places = {name: host.on for name, host in every_kind.hosts.items() if isinstance(host, NetnsHost)}
    assert places == {"sensor": None, "inside": "board1", "part": "emulated"}


@pytest.mark.parametrize(
    ("host", "machine"),
    [
        ("here", None),
        ("sensor", None),
        ("vm4", None),
        ("board1", "board1"),
        ("inside", "board1"),
        ("vm1", "board1"),
        ("other-nic", "board1"),
        ("board2", "board2"),
        ("vm3", "board2"),
        ("emulated", "emulated"),
        ("part", "emulated"),
        ("vm2", "emulated"),
    ],
)
def test_hosts_and_guests_are_on_the_machine_their_host_is(
    every_kind: Scenario, host: str, machine: str | None
) -> None:
    assert every_kind.machine_of(host) == machine


def test_a_host_there_is_not_is_on_no_machine(every_kind: Scenario) -> None:
    with pytest.raises(KeyError, match="board9"):
        every_kind.machine_of("board9")


def test_each_machine_is_listed_once_however_many_hosts_lead_to_it(every_kind: Scenario, with_: With) -> None:
    assert every_kind.machines() == ("board1", "board2", "emulated")
    assert with_().scenario.machines() == ()


@pytest.mark.parametrize(
    ("ssh", "same"),
    [
        ({"destination": "board1"}, True),
        ({"destination": "admin@board1"}, True),
        ({"destination": "board1", "user": "admin"}, True),
        ({"destination": "board1", "port": 2222}, False),
        ({"destination": "board1", "config": "lab/ssh_config"}, False),
        ({}, False),
    ],
    ids=str,
)
def test_ssh_hosts_are_one_machine_where_configuration_destination_and_port_are_the_same(
    with_: With, ssh: dict[str, Any], same: bool
) -> None:
    hosts = {"board1": {"kind": "ssh"}, "board2": {"kind": "ssh", "ssh": ssh}}
    links = {"links.0.ends": ["board1.p1", "board2.p2"], "loads": {}}
    streams = {"control": {"talker": "board1", "listener": "board2", "transport": "ethernet"} | STREAM}
    scenario = with_({"hosts": hosts, "streams": streams} | links).scenario
    assert (scenario.machine_of("board2") == "board1") is same


def test_a_link_is_made_where_an_end_is_in_a_namespace_and_else_is_a_cable(every_kind: Scenario) -> None:
    assert [every_kind.link_is_created(link) for link in every_kind.links] == CREATED


def test_a_cable_between_machines_has_the_addresses_of_its_subnet(every_kind: Scenario) -> None:
    route = every_kind.route("cable")
    assert (route.talker_end, route.listener_end) == (End("board2", "enp1s0"), End("here", "enp2s0"))
    assert every_kind.address(route.listener_end) == IPv4Interface("10.20.0.2/24")


def test_the_time_of_a_board_can_be_varied_though_it_is_not_written(with_: With) -> None:
    found = cells(with_(VIRTUAL | {"matrix/hosts.board1.time": ["real", "virtual"]}))
    assert [cell.slug for cell in found] == ["hosts.board1.time=real", "hosts.board1.time=virtual"]
    times = [host.time for cell in found if isinstance(host := cell.scenario.hosts["board1"], BoardHost)]
    assert times == ["real", "virtual"]


def test_the_machine_of_all_namespaces_can_be_varied_and_how_it_is_reached(with_: With) -> None:
    boards = {"board2": {"kind": "ssh"}}
    values = VIRTUAL["hosts"] | boards
    together = [
        values | {name: {"kind": "netns", "on": on} for name in ("sensor", "ecu")} for on in ("board1", "board2")
    ]
    found = cells(with_({"hosts": values, "matrix.hosts": together}))
    assert [cell.scenario.machine_of("ecu") for cell in found] == ["board1", "board2"]
    ports = cells(with_({"hosts": values, "matrix/hosts.board2.ssh.port": [22, 2222]}))
    assert [host.ssh.port for cell in ports if isinstance(host := cell.scenario.hosts["board2"], SshHost)] == [22, 2222]


def test_a_dumped_scenario_with_other_machines_reads_back_as_the_same(every_kind: Scenario) -> None:
    assert parse(every_kind.model_dump(mode="json", by_alias=True, exclude_unset=True)).scenario == every_kind
