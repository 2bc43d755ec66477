"""PTP's ports in a scenario: each mistake is reported once, at its place, with what would be right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from latlab.scenario import Loaded
from support.scenario.ptp import BOTH_WAYS, CABLE, EMULATED, PTP, P, cables

With = Callable[..., Loaded]
Said = Callable[[dict[str, Any]], list[str]]

NO_MASTER = "clock.ptp.ports: the ends of links[0] are {}; expected a master and a slave"
KNOWN_ENDS = "(known: sensor.eth0, ecu.eth0)"
GUEST = {"vm1": {"host": "ecu", "uplink": "eth0", "bridge": "tap"}}
BEYOND = "clock.ptp.ports.sensor.eth0.5: sensor.eth0.5 is a VLAN interface, and PTP's packets have no tag"

ONCE: list[tuple[str, dict[str, Any], str]] = [
    ("a role that is none", {P: {"ports": {"sensor.eth0": "mastr", "ecu.eth0": "slave"}}},
     "clock.ptp.ports.sensor.eth0: 'mastr' is not supported; expected master? (known: master, slave)"),
    ("no role", {P: {"ports": {"sensor.eth0": None, "ecu.eth0": "slave"}}},
     "clock.ptp.ports.sensor.eth0: null is not supported; expected master or slave"),
    ("a host that is none", {P: {"ports": {"senso.eth0": "master", "ecu.eth0": "slave"}}},
     "clock.ptp.ports.senso.eth0: unknown host 'senso'; expected sensor? (known: sensor, ecu)"),
    ("an interface that is none", {P: {"ports": {"sensor.eth0": "master", "ecu.eth9": "slave"}}},
     f"clock.ptp.ports.ecu.eth9: unknown end of a link 'ecu.eth9'; expected ecu.eth0? {KNOWN_ENDS}"),
    ("a guest", {"guests": GUEST, P: {"ports": {"sensor.eth0": "master", "vm1.eth0": "slave"}}},
     "clock.ptp.ports.vm1.eth0: unknown host 'vm1'; expected one of sensor, ecu"),
    ("a host alone", {P: {"ports": {"sensor": "master"}}},
     "clock.ptp.ports.sensor: 'sensor' is not host.interface; expected a host and its interface, such as sensor.eth0"),
    ("a socket without a path", {P: {"ports": {"sensor.eth0": "master"}, "observed": {"ecu.eth0": ""}}},
     "clock.ptp.observed.ecu.eth0: '' is not an absolute path; expected the path of ptp4l's socket, such as "
     "/run/ptp4l"),
    ("a VLAN interface", {"links.0.vlans": {5: {}}, "streams.control.via": "sensor.eth0", "loads": None,
                          P: {"ports": {"sensor.eth0.5": "master", "ecu.eth0": "slave"}}},
     f"{BEYOND}; expected sensor.eth0"),
    ("no master", {P: {"ports": {"ecu.eth0": "slave"}}}, NO_MASTER.format("nothing and slave")),
    ("two slaves of a link that is made", {P: {"ports": dict.fromkeys(PTP["ports"], "slave")}},
     NO_MASTER.format("slave and slave")),
    ("an emulated cable without a master", EMULATED | {P: {"ports": {"board2.eth0": "slave"}}},
     NO_MASTER.format("nothing and slave")),
    ("gptp on an emulated card", EMULATED | {P: {"ports": {"board1.eth0": "master", "board2.eth0": "slave"},
                                                "profile": "gptp"}},
     "clock.ptp.profile: board1.eth0 is an emulated card, which stamps one type of message at a time, and gptp needs "
     "three; expected profile: default, or timestamps: software"),
    ("time that goes round", cables("ssh", 2) | {P: {"ports": BOTH_WAYS}},
     "clock.ptp.ports.board2.eth0: its machine's clock would follow itself: board2.eth0 follows board1.eth0, "
     "board1.eth1 follows board2.eth1; expected a machine that has no slave"),
]  # fmt: skip


@pytest.mark.parametrize(("values", "line"), [one[1:] for one in ONCE], ids=[one[0] for one in ONCE])
def test_one_mistake_is_reported_once(said: Said, values: dict[str, Any], line: str) -> None:
    assert said(values) == [line]


HARDWARE = cables("ssh", 2)
CHAIN = {
    "hosts": {name: {"kind": "ssh"} for name in ("b1", "b2", "b3")},
    "links": [{"ends": ["b1.eth0", "b2.eth0"]}, {"ends": ["b2.eth1", "b3.eth0"]}],
    "streams.control": {"talker": "b1", "listener": "b2", "period": "1ms", "size": "64B"},
    "loads": None,
}
IN_A_ROW = {"b1.eth0": "master", "b2.eth0": "slave", "b2.eth1": "master", "b3.eth0": "slave"}
SOFTWARE = {"board1.eth0": "master", "board2.eth0": "slave", "board1.eth1": "master", "board2.eth1": "slave"}
VFIO = {"host": "board2", "uplink": "eth0", "bridge": "vfio", "image": "debian-rt", "acceleration": "kvm"}

RIGHT: list[tuple[str, dict[str, Any]]] = [
    ("a real cable to somebody else's master", CABLE | {P: {"ports": {"board1.eth0": "slave"}}}),
    ("an end that is observed", {P: {"ports": {"sensor.eth0": "master"}, "observed": {"ecu.eth0": "/run/ptp4l"}}}),
    ("a guest that has the other card", EMULATED | {"guests": {"vm1": VFIO}, P: {"ports": {"board1.eth0": "master"}}}),
    ("time that would go round but for a guest that has the card", cables("board", 2) | {
        "guests": {"vm1": VFIO | {"host": "board1", "uplink": "eth1"}}, P: {"ports": BOTH_WAYS}}),
    ("two slaves in software, one of them at a guest's card", cables("board", 2) | {
        "guests": {"vm1": VFIO | {"host": "board2", "uplink": "eth1"}},
        P: {"ports": SOFTWARE, "timestamps": "software"}}),
    ("gptp in software on a board", EMULATED | {P: {
        "ports": {"board1.eth0": "master", "board2.eth0": "slave"}, "profile": "gptp", "timestamps": "software"}}),
    ("gptp on real cards", CABLE | {P: {"ports": {"board1.eth0": "slave"}, "profile": "gptp"}}),
    ("time that is handed on", CHAIN | {P: {"ports": IN_A_ROW}}),
    ("time that is handed on in software", CHAIN | {P: {"ports": IN_A_ROW, "timestamps": "software"}}),
    ("two slaves in hardware", HARDWARE | {P: {"ports": {"board2.eth0": "slave", "board2.eth1": "slave"}}}),
]  # fmt: skip


@pytest.mark.parametrize("values", [one[1] for one in RIGHT], ids=[one[0] for one in RIGHT])
def test_what_is_right_is_reported_nothing(said: Said, values: dict[str, Any]) -> None:
    assert said(values) == []


def test_software_slaves_of_a_machine_between_two_turn_one_clock(said: Said) -> None:
    both = {"b2.eth0": "slave", "b2.eth1": "slave", "b3.eth0": "master"}
    assert said(CHAIN | {P: {"ports": both, "timestamps": "software"}}) == [
        "clock.ptp.ports.b2.eth1: b2.eth0 adjusts the same machine's clock; expected one slave a machine, or "
        "timestamps: hardware"
    ]


def test_the_matrix_varies_roles_and_sockets_of_a_port(with_: With) -> None:
    other_way = {"sensor.eth0": "slave", "ecu.eth0": "master"}
    loaded = with_({P: PTP, "matrix": {"clock.ptp.ports": [PTP["ports"], other_way]}})
    assert len(loaded.combinations) == 2
    keys = {"clock.ptp.observed.ecu.eth0": ["/run/a", "/run/b"], "clock.ptp.domain": [0, 1]}
    cells = with_({P: {"observed": {"ecu.eth0": "/run/ptp4l"}}, "matrix": keys}).combinations
    seen = [cell.scenario.clock.ptp.observed for cell in cells if cell.scenario.clock.ptp]
    assert seen == [{"ecu.eth0": "/run/a"}] * 2 + [{"ecu.eth0": "/run/b"}] * 2
    slaves = CABLE | {
        P: {"ports": {"board1.eth0": "slave"}},
        "matrix": {"clock.ptp.ports.board1.eth0": ["slave", "master"]},
    }
    roles = [cell.scenario.clock.ptp.ports for cell in with_(slaves).combinations if cell.scenario.clock.ptp]
    assert roles == [{"board1.eth0": "slave"}, {"board1.eth0": "master"}]


def test_an_end_with_a_dot_in_its_name_is_one_name_to_the_matrix(with_: With, said: Said) -> None:
    dotted = {
        "links.0": {"ends": ["sensor.eth0", "ecu.eth0.a"]},
        P: {"ports": {"sensor.eth0": "master", "ecu.eth0.a": "slave"}},
    }
    loaded = with_(dotted | {"matrix": {"clock.ptp.ports.ecu.eth0.a": ["slave"]}})
    assert [list(cell.label) for cell in loaded.combinations] == [["clock.ptp.ports.ecu.eth0.a"]]
    (line,) = said(dotted | {"matrix": {"clock.ptp.ports.ecu.eth1": ["slave"]}})
    assert line.startswith("matrix.clock.ptp.ports.ecu.eth1: unknown key 'ecu.eth1' in clock.ptp.ports")
