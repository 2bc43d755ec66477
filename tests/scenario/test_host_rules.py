"""What hosts that are other machines cannot be, and what else of the scenario cannot be on them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from latlab.scenario import Problem

Said = Callable[[dict[str, Any]], list[str]]

SSH = {"kind": "ssh"}
BOARD = {"kind": "board"}
ON_BOARD = {
    "hosts.board1": BOARD,
    "hosts.sensor": {"kind": "netns", "on": "board1"},
    "hosts.ecu": {"kind": "netns", "on": "board1"},
}
APART = {"hosts.sensor": SSH, "hosts.ecu": {"kind": "ssh", "ssh": {"destination": "192.0.2.7"}}}
ONE_MACHINE = {
    "hosts.sensor": SSH,
    "hosts.ecu": {"kind": "ssh", "ssh": {"destination": "root@sensor"}},
    "links.0.ends": ["sensor.p1", "ecu.p2"],
}
FRAMES = {"streams.control.transport": "ethernet", "loads": {}}
STREAM = {"talker": "sensor", "listener": "vm1", "period": "1ms", "size": "64B"}
VM = {"host": "ecu", "uplink": "eth0"}
CARD = BOARD | {"nics": 1}
DEVICE = {"bridge": "vfio", "device": "0000:3b:00.0"}


GATES = {"kind": "taprio", "mode": "software", "map": {7: 0}, "rest": 0, "gates": [{"open": [0], "for": "1ms"}]}


def board(**given: object) -> dict[str, Any]:
    """Both hosts on a board with these keys."""
    return ON_BOARD | {"hosts.board1": BOARD | given}


def cards(**given: object) -> dict[str, Any]:
    """Both hosts on a board, each with one of its two cards, and a cable between those."""
    return board(nics=2) | {
        "hosts.sensor.cards": ["eth0"],
        "hosts.ecu.cards": ["eth1"],
        "links.0.ends": ["sensor.eth0", "ecu.eth1"],
        **{key.replace("__", "."): value for key, value in given.items()},
    }


WRONG: list[tuple[dict[str, Any], str]] = [
    # what is put into the base scenario, what is said, all of it
    (
        {"hosts.ecu.on": "board1"},
        "hosts.ecu.on: unknown host of kind ssh or board 'board1'; expected no host of kind ssh or board here",
    ),
    (
        ON_BOARD | {"hosts.ecu.on": "bord1", "hosts.board2": SSH},
        "hosts.ecu.on: unknown host of kind ssh or board 'bord1'; expected board1? (known: board1, board2)",
    ),
    (
        {"hosts.ecu.on": "sensor"},
        "hosts.ecu.on: sensor is of kind netns; expected a host of kind ssh or board: there is none",
    ),
    (
        {"hosts.ecu.on": "gw", "hosts.gw": {"kind": "local"}, "hosts.board1": BOARD, "hosts.board2": SSH},
        "hosts.ecu.on: gw is of kind local; expected a host of kind ssh or board: board1 or board2",
    ),
    (
        {"hosts.ecu.on": "ecu", "hosts.board1": BOARD},
        "hosts.ecu.on: ecu would be made on itself; expected a host of kind ssh or board: board1",
    ),
    (
        APART | {"hosts.ecu.ssh": {"destination": "root@ecu", "user": "root"}},
        "hosts.ecu.ssh.user: a user in addition to the one in destination; expected one of them",
    ),
    (
        {"hosts.sensor.kind": "ssh"},
        "links[0].ends: a cable between sensor and this machine cannot be made; "
        "expected existing interfaces of both machines (kinds local, ssh and board), or both hosts on one",
    ),
    (
        ON_BOARD | {"hosts.ecu": {"kind": "netns"}},
        "links[0].ends: a cable between board1 and this machine cannot be made; "
        "expected existing interfaces of both machines (kinds local, ssh and board), or both hosts on one",
    ),
    (
        ON_BOARD | {"hosts.board2": SSH, "hosts.ecu": {"kind": "netns", "on": "board2"}},
        "links[0].ends: a cable between board1 and board2 cannot be made; "
        "expected existing interfaces of both machines (kinds local, ssh and board), or both hosts on one",
    ),
    (
        ONE_MACHINE | {"loads": {}},
        "streams.control: IP from sensor to ecu, both on sensor, would go over loopback; "
        "expected one of them of kind netns, or transport: ethernet",
    ),
    (
        ONE_MACHINE | FRAMES | {"loads": {"back": {"kind": "iperf3", "from": "ecu", "to": "sensor"}}},
        "loads.back: IP from ecu to sensor, both on sensor, would go over loopback; expected one of them of kind netns",
    ),
    (
        ONE_MACHINE | FRAMES | {"links.0.ends": ["sensor.p1", "ecu.p1"]},
        "links[0].ends[1]: ecu.p1 is already an end of links[0]; expected a different interface for each end",
    ),
    (
        ONE_MACHINE | FRAMES | {"clock.sync": "exchange"},
        "clock.sync: sensor and ecu are both on sensor: they share a clock, and their cable has no addresses; "
        "expected auto",
    ),
    (
        APART | {"streams.control.port": 5556},
        "streams.control.port: port 5556 is used by the clock exchange; expected another port",
    ),
    (
        {"hosts.sensor": BOARD | {"nics": 1}, "hosts.ecu": BOARD},
        "hosts.ecu.nics: ecu has no network cards, and named are eth0; expected 1 or more",
    ),
    (
        {
            "hosts.sensor": BOARD | {"nics": 1},
            "hosts.ecu": BOARD | {"nics": 2},
            "links.1": {"ends": ["sensor.eth1", "ecu.eth1"]},
            "streams.control.via": "sensor.eth0",
            "loads": {},
        },
        "hosts.sensor.nics: sensor has 1 network card, and named are eth0, eth1; expected 2 or more",
    ),
    (
        {"hosts.sensor": CARD, "hosts.ecu": CARD, "links.0.ends": ["sensor.eth0", "ecu.enp1s0"]},
        "links[0].ends[1]: ecu has no card enp1s0; expected eth0",
    ),
    (
        {"hosts.sensor": BOARD | {"nics": 2}, "hosts.ecu": CARD, "links.0.ends": ["sensor.eth2", "ecu.eth0"]},
        "links[0].ends[0]: sensor has no card eth2; expected eth0 or eth1",
    ),
    (
        {"hosts.sensor": CARD, "hosts.ecu": SSH},
        "links[0].ends: a cable from sensor, whose cards are emulated, cannot reach ecu; "
        "expected a board at both ends",
    ),
    (
        {"hosts.sensor": CARD, "hosts.ecu": {"kind": "local"}},
        "links[0].ends: a cable from sensor, whose cards are emulated, cannot reach ecu; "
        "expected a board at both ends",
    ),
    (
        {"hosts.sensor": CARD, "hosts.ecu": CARD | {"time": "virtual"}},
        "hosts.ecu.time: a board in virtual time excludes other machines: sensor is not on ecu; expected every other "
        "host of kind netns with on: ecu, or time: real",
    ),
    (
        board(time="virtual") | {"hosts.gw": {"kind": "netns"}},
        "hosts.board1.time: a board in virtual time excludes other machines: gw is not on board1; expected every other "
        "host of kind netns with on: board1, or time: real",
    ),
    (
        board(time="virtual") | {"hosts.board2": BOARD, "hosts.here": {"kind": "local"}},
        "hosts.board1.time: a board in virtual time excludes other machines: board2, here are not on board1; expected "
        "every other host of kind netns with on: board1, or time: real",
    ),
    (
        ON_BOARD | {"hosts.gw": {"kind": "netns"}, "matrix/hosts.board1.time": ["real", "virtual"]},
        "matrix.hosts.board1.time[1]: in cell hosts.board1.time=virtual: hosts.board1.time: a board in virtual time "
        "excludes other machines: gw is not on board1; expected every other host of kind netns with on: board1, or "
        "time: real",
    ),
    (
        ON_BOARD | {"guests.vm1": VM | {"kernel": "/k", "ssh": {}}},
        "guests.vm1.kernel: your own kernel can be used only on this machine, not on board1; expected an image "
        "instead, or a host of this machine",
    ),
    (
        ON_BOARD | {"guests.vm1": {"host": "board1", "disk": "a.img", "ssh": {}}},
        "guests.vm1.disk: your own disk can be used only on this machine, not on board1; expected an image instead, or "
        "a host of this machine",
    ),
    (
        APART | {"guests.vm1": VM | {"domain": "vm", "ssh": {"destination": "vm"}}},
        "guests.vm1.domain: your own domain can be used only on this machine, not on ecu; expected an image instead, "
        "or a host of this machine",
    ),
    (
        APART | {"guests.vm1": VM | DEVICE, "guests.vm2": VM | DEVICE},
        "guests.vm2.device: 0000:3b:00.0 is passed through to vm1 already; expected another device",
    ),
    (
        APART | {"guests.vm1": {"host": "ecu"}, "streams.in": STREAM},
        "streams.in: no link joins sensor and vm1; expected an uplink of vm1 that a link joins to sensor",
    ),
    (
        board(cpus=2) | {"tuning.ecu.listener.cpus": [1, 2]},
        "tuning.ecu.listener.cpus: ecu has no CPU 2; expected 0 to 1, or more cpus of board1",
    ),
    (
        ON_BOARD | {"guests.vm1": {"host": "board1"}, "tuning.board1.guests": {"vm1": {"vhost": {"cpus": [1]}}}},
        "tuning.board1.guests.vm1.vhost.cpus: board1 has no CPU 1; expected 0, or more cpus of board1",
    ),
    (
        board(cpus=2) | {"clock.ptp": {"ports": {"sensor.eth0": "master", "ecu.eth0": "slave"}, "cpus": [1, 4]}},
        "clock.ptp.cpus: sensor has no CPU 4; expected 0 to 1, or more cpus of board1",
    ),
    (
        board(cpus=2) | {"shapers": {"sensor.eth0": GATES | {"cpu": 2}}},
        "shapers.sensor.eth0.cpu: sensor has no CPU 2; expected 0 to 1, or more cpus of board1",
    ),
    (
        board(cpus=2, append="quiet isolcpus=nohz,domain,managed_irq,2-3"),
        "hosts.board1.append: board1 has no CPU 2-3; expected 0 to 1, or more cpus of board1",
    ),
    (
        board(cpus=2, append="isolcpus=1 nohz_full=1-3 rcu_nocbs=2-3,7 irqaffinity=0,7"),
        "hosts.board1.append: board1 has no CPU 2-3, 7; expected 0 to 1, or more cpus of board1",
    ),
    (
        board() | {"matrix/hosts.board1.append": ["", "isolcpus=1"]},
        "matrix.hosts.board1.append[1]: in cell hosts.board1.append=isolcpus=1: hosts.board1.append: board1 has no CPU "
        "1; expected 0, or more cpus of board1",
    ),
    (
        {"guests.vm1": VM | {"vcpus": 2, "append": "isolcpus=1-2"}},
        "guests.vm1.append: vm1 has no CPU 2; expected 0 to 1, or more vcpus",
    ),
    (
        ON_BOARD | {"tuning.board1.halt_poll": 0, "tuning.ecu.halt_poll": "1us"},
        "tuning.ecu.halt_poll: ecu is on the machine of board1, which has 0ns; "
        "expected the same for both, or one of them",
    ),
    (
        cards(hosts__board1=BOARD),
        "hosts.board1.nics: board1 has no network cards, and named are eth0, eth1; expected 2 or more",
    ),
    (
        cards(hosts__ecu__cards=["eth2"]) | {"links.0.ends": ["sensor.eth0", "ecu.eth2"]},
        "hosts.ecu.cards[0]: board1 has no card eth2; expected eth0 or eth1",
    ),
    (
        cards(hosts__ecu__cards=["eth1", "eth0"]),
        "hosts.ecu.cards[1]: eth0 of board1 is sensor's already; expected a card that is not in use",
    ),
    (
        cards(hosts__ecu__cards=[]) | {"links.0.ends": ["sensor.eth0", "ecu.eth0"]},
        "links[0].ends: sensor.eth0 is a card, and the other end would be made for the run; expected existing "
        "interfaces (cards) at both ends, or at neither",
    ),
    (
        cards() | {"hosts.board1.nics": 3, "links.1": {"ends": ["board1.eth0", "board1.eth2"]}},
        "hosts.sensor.cards[0]: eth0 of board1 is an end of links[1] in board1; expected a card that is not in use",
    ),
    (
        {"hosts.sensor.cards": ["p1"]},
        "hosts.sensor.cards: p1 is an interface of this machine, which is not an emulated board; expected a namespace "
        "on a host of kind board, or a veth pair",
    ),
    (
        {"hosts.gw": SSH, "hosts.sensor.on": "gw", "hosts.ecu.on": "gw", "hosts.ecu.cards": ["p2"]},
        "hosts.ecu.cards: p2 is an interface of gw, which is not an emulated board; expected a namespace on a host of "
        "kind board, or a veth pair",
    ),
    (
        cards() | {"hosts.board2": CARD, "hosts.far": SSH, "links.1": {"ends": ["board2.eth0", "far.eth0"]}},
        "links[1].ends: a cable from board2, whose cards are emulated, cannot reach far; expected a board at both ends",
    ),
    (
        APART | {"tuning.ecu.irq": {"eth9": {"cpus": [0]}}},
        "tuning.ecu.irq.eth9: unknown interface of ecu 'eth9'; expected eth0? (known: eth0)",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("values", "line"), WRONG, ids=[line.split("; ")[0][:70] for _, line in WRONG])
def test_a_mistake_in_a_host_is_one_sentence_where_it_stands(said: Said, values: dict[str, Any], line: str) -> None:
    assert said(values) == [line]


FORMS: list[tuple[dict[str, Any], str, str]] = [
    # a host, the key that is wrong in it, what is said
    ({"kind": "board", "image": "Debian"}, "image", "'Debian' is not a name of an image"),
    ({"kind": "board", "cpus": 0}, "cpus", "0 is too small; expected 1 or more"),
    ({"kind": "board", "cpus": 17}, "cpus", "17 is too large; expected 16 or less"),
    ({"kind": "board", "memory": "64MiB"}, "memory", "64MiB is too small; expected 128MiB or more"),
    ({"kind": "board", "memory": "1GB"}, "memory", "1GB is not a whole number of MiB"),
    ({"kind": "board", "time": "fast"}, "time", "'fast' is not supported; expected real or virtual"),
    ({"kind": "board", "nics": 9}, "nics", "9 is too large; expected 8 or less"),
    ({"kind": "board", "append": 7}, "append", "7 is not text"),
    ({"kind": "board", "on": "sensor"}, "on", "unknown key 'on'"),
    ({"kind": "ssh", "ssh": {"destination": "-oProxyCommand=x"}}, "ssh.destination", "is not a destination"),
    ({"kind": "ssh", "ssh": {"port": 0}}, "ssh.port", "0 is too small; expected 1 or more"),
    ({"kind": "ssh", "ssh": "192.0.2.7"}, "ssh", "'192.0.2.7' is not a mapping"),
    ({"kind": "ssh", "ssh": {"host": "b"}}, "ssh.host", "unknown key 'host'; expected one of destination, user"),
    ({"kind": "ssh", "destination": "192.0.2.7"}, "destination", "unknown key 'destination'; expected one of kind"),
    ({"kind": "netns", "on": 7}, "on", "7 is not text"),
    ({"kind": "netns", "cards": ["lo"]}, "cards[0]", "lo is every host's loopback"),
    ({"kind": "netns", "cards": "eth0"}, "cards", "'eth0' is not a list"),
]  # fmt: skip


@pytest.mark.parametrize(("host", "key", "what"), FORMS, ids=[f"{key}-{what}"[:60] for _, key, what in FORMS])
def test_a_value_of_a_host_of_the_wrong_form_is_reported_with_the_right_one(
    said: Said, host: dict[str, Any], key: str, what: str
) -> None:
    (line,) = said({"hosts.gw": host})
    assert line.startswith(f"hosts.gw.{key}: ")
    assert what in line


FINE: list[dict[str, Any]] = [
    APART,
    APART | {"links.0.ends": ["sensor.enp1s0", "ecu.enp1s0"], "clock.sync": "exchange"},
    ONE_MACHINE | FRAMES,
    {"hosts.sensor": SSH, "hosts.ecu": {"kind": "local"}},
    {"hosts.sensor": SSH, "hosts.ecu": {"kind": "netns", "on": "sensor"}},
    {"hosts.sensor": SSH, "hosts.ecu": {"kind": "ssh", "ssh": {"destination": "sensor", "port": 2222}}},
    {"hosts.sensor": BOARD | {"nics": 1}, "hosts.ecu": BOARD | {"nics": 1, "cpus": 16}},
    {"hosts.sensor": BOARD, "hosts.ecu": {"kind": "netns", "on": "sensor"}},
    {"hosts.ecu": {"kind": "netns", "on": None}},
    ON_BOARD,
    board(time="virtual", cpus=4, memory="2GiB", append="isolcpus=1"),
    board(cpus=2, append="isolcpus=managed_irq,domain,1 nohz_full=all rcu_nocbs=0-N irqaffinity=0 maxcpus=9"),
    board(cpus=2) | {"clock.ptp": {"ports": {"sensor.eth0": "master", "ecu.eth0": "slave"}, "cpus": [1]}},
    {"guests.vm1": VM | {"vcpus": 2, "append": "quiet isolcpus=1"}},
    board(time="virtual") | {"guests.vm1": VM, "guests.vm2": {"host": "board1"}, "streams.in": STREAM},
    board(cpus=2) | {"tuning.ecu.listener.cpus": [1], "tuning.board1.isolated": [1]},
    ON_BOARD | {"guests.vm1": VM | {"append": "quiet"}, "streams.control.port": 5556},
    APART | {"guests.vm1": VM | DEVICE, "guests.vm2": VM | DEVICE | {"host": "sensor"}},
    cards(),
    cards(hosts__board1=BOARD | {"nics": 2, "time": "virtual"}),
    cards() | {"guests.vm1": {"host": "ecu", "uplink": "eth1", "bridge": "vfio"}, "streams.in": STREAM},
    APART | {"guests.vm1": VM, "streams.in": STREAM, "tuning.ecu.guests": {"vm1": {"vcpus": {"cpus": [40]}}}},
    APART | {"tuning.sensor.halt_poll": 0, "tuning.ecu.halt_poll": "1us"},
    {"hosts.board1": SSH, "guests.vm1": VM | {"disk": "a.img", "ssh": {}}},
]  # fmt: skip


@pytest.mark.parametrize("values", FINE)
def test_hosts_may_be_so(said: Said, values: dict[str, Any]) -> None:
    assert said(values) == []


ONE_MISTAKE: list[dict[str, Any]] = [
    # a mistake in a host, of which nothing else follows
    {"hosts.ecu.on": "board1", "hosts.board1": {"kind": "moon"}},
    {"hosts.ecu.on": 7},
    ON_BOARD | {"hosts.ecu.on": "gone"},
    board(time="virtual") | {"hosts.ecu": {"kind": "netns", "on": "gone"}},
    board(time="virtual") | {"hosts.gw": {"kind": "moon"}},
    board(time="virtuall", cpus=2) | {"hosts.gw": {"kind": "netns"}},
    board(cpus=17) | {"tuning.ecu.listener.cpus": [20]},
    board(cpus=17, append="isolcpus=20"),
    board(cpus="two") | {"clock.ptp": {"ports": {"sensor.eth0": "master", "ecu.eth0": "slave"}, "cpus": [4]}},
    APART | {"hosts.ecu": {"kind": "ssh", "ssh": {"destination": "a b"}}},
    APART | {"hosts.ecu": {"kind": "ssh", "ssh": 7}, "guests.vm1": VM, "streams.in": STREAM},
    {"hosts.sensor": BOARD | {"nics": "two"}, "hosts.ecu": CARD},
    {"hosts.sensor": CARD, "hosts.ecu": {"kind": "moon"}},
]


@pytest.mark.parametrize("values", ONE_MISTAKE)
def test_one_mistake_in_a_host_is_reported_once(said: Said, values: dict[str, Any]) -> None:
    assert len(said(values)) == 1


def test_every_mistake_of_several_hosts_is_reported_at_once_each_in_its_line(
    problems: Callable[[str], list[Problem]], base: str
) -> None:
    hosts = """\
  sensor: {kind: netns, on: board1}
  ecu: {kind: netns}
  lost: {kind: netns, on: ecu}
  board1: {kind: board, time: virtual, cpus: 2, memory: 1}
  board2:
    kind: ssh
    ssh:
      destination: a@b
      user: c
      port: 70000
"""
    text = base.replace("  sensor: {kind: netns}\n  ecu: {kind: netns}\n", hosts)
    assert sorted((problem.line, problem.path) for problem in problems(text)) == [
        (5, "hosts.lost.on"),
        (6, "hosts.board1.memory"),
        (6, "hosts.board1.time"),
        (11, "hosts.board2.ssh.user"),
        (12, "hosts.board2.ssh.port"),
        (14, "links[0].ends"),
    ]
