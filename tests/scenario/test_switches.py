"""Hosts that are switches: which interfaces reach each other through them, and what does not fit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from latlab.scenario import End, Loaded, Scenario

With = Callable[..., Loaded]
Said = Callable[[dict[str, Any]], list[str]]

C = "streams.control."
SWITCH = {"kind": "netns", "switch": ["p0", "p1"]}
LINKS = [{"ends": ["sensor.eth0", "switch.p0"]}, {"ends": ["switch.p1", "ecu.eth0"]}]
SWITCHED = {"hosts.switch": SWITCH, "links": LINKS}
"""A switch between the two hosts of the base scenario."""
VM = {"guests.vm1": {"host": "ecu", "uplink": "eth0"}, C + "listener": "vm1"}
CHAIN = {
    "hosts.switch": SWITCH,
    "hosts.second": {"kind": "netns", "switch": ["p0", "p1", "p2"]},
    "hosts.third": {"kind": "netns"},
    "links": [
        LINKS[0],
        {"ends": ["second.p0", "switch.p1"]},
        {"ends": ["second.p1", "ecu.eth0"]},
        {"ends": ["third.eth0", "second.p2"]},
    ],
}
"""Two switches in a row, and a third host at the second."""
PTP = {"ports": {"sensor.eth0": "master", "ecu.eth0": "slave"}, "profile": "default"}
TAPRIO = {"kind": "taprio", "mode": "software", "map": {"7": 0}, "gates": [{"open": [0], "for": "100us"}]}


def scenario(with_: With, *changes: dict[str, Any]) -> Scenario:
    merged: dict[str, Any] = {}
    for change in changes:
        merged |= change
    return with_(merged).scenario


def text(ends: tuple[End, ...]) -> list[str]:
    return [str(end) for end in ends]


def test_links_that_a_switch_joins_are_one_segment_and_its_ports_have_no_address(with_: With) -> None:
    (segment,) = scenario(with_, SWITCHED).segments()
    assert (segment.number, str(segment.network)) == (0, "10.78.0.0/24")
    assert text(segment.ends) == ["sensor.eth0", "ecu.eth0"]
    assert text(segment.ports) == ["switch.p0", "switch.p1"]
    assert [str(segment.address(end)) for end in segment.ends] == ["10.78.0.1/24", "10.78.0.2/24"]


def test_a_stream_takes_the_switch_without_being_told(with_: With) -> None:
    route = scenario(with_, SWITCHED).route("control")
    assert text((route.talker_end, route.listener_end)) == ["sensor.eth0", "ecu.eth0"]
    assert (str(route.source), str(route.destination)) == ("10.78.0.1", "10.78.0.2")


def test_a_guest_is_reached_through_the_switch(with_: With) -> None:
    assert str(scenario(with_, SWITCHED, VM).route("control").destination) == "10.78.0.11"


def test_switches_in_a_row_join_all_that_is_at_any_of_them(with_: With) -> None:
    (segment,) = scenario(with_, CHAIN).segments()
    assert text(segment.ends) == ["sensor.eth0", "ecu.eth0", "third.eth0"]
    assert text(segment.ports) == ["switch.p0", "second.p0", "switch.p1", "second.p1", "second.p2"]


def test_a_link_that_no_switch_joins_to_another_stays_alone(with_: With) -> None:
    beside = {"links": [*LINKS, {"ends": ["sensor.eth1", "switch.p2"]}]}
    joined, alone = scenario(with_, SWITCHED, beside).segments()
    assert (joined.number, alone.number, text(alone.ends), alone.ports) == (0, 2, ["sensor.eth1", "switch.p2"], ())
    assert str(alone.network) == "10.78.2.0/24"


def test_a_vlan_of_one_of_the_links_is_on_every_end_and_on_no_port(with_: With) -> None:
    links = {"links": [LINKS[0], LINKS[1] | {"vlans": {"5": {}}}], C + "via": "sensor.eth0.5", "loads": None}
    found = scenario(with_, SWITCHED, links)
    _, five = found.segments()
    assert (text(five.ends), five.ports, five.path) == (["sensor.eth0.5", "ecu.eth0.5"], (), ("links", 1, "vlans", "5"))
    assert found.parent_of(End("sensor", "eth0.5")) == End("sensor", "eth0")
    assert found.parent_of(End("switch", "p1.5")) == End("switch", "p1.5")
    assert str(found.route("control").destination) == str(five.address(End("ecu", "eth0.5")).ip)


def test_the_switch_is_between_ptps_master_and_its_slave(with_: With) -> None:
    found = scenario(with_, SWITCHED, {"clock": {"ptp": PTP}})
    assert found.ptp_master_of(End("ecu", "eth0")) == End("sensor", "eth0")


def test_more_than_ten_hosts_at_a_switch_leave_the_guests_their_addresses(with_: With) -> None:
    ports = [f"p{number}" for number in range(13)]
    far = {f"hosts.h{number}": {"kind": "netns"} for number in range(2, 13)}
    links = [
        {"ends": ["sensor.eth0", "switch.p0"]},
        {"ends": ["switch.p1", "ecu.eth0"]},
        *({"ends": [f"h{number}.eth0", f"switch.p{number}"]} for number in range(2, 13)),
    ]
    found = scenario(with_, VM, far, {"hosts.switch": SWITCH | {"switch": ports}, "links": links})
    (segment,) = found.segments()
    addresses = [str(segment.address(member).ip) for member in segment.members]
    assert addresses[-2:] == ["10.78.0.13", "10.78.0.14"]
    assert len(set(addresses)) == len(addresses)


WRONG: list[tuple[dict[str, Any], str]] = [
    # what is put into the base scenario, what is said, all of it
    (
        SWITCHED | {"hosts.switch": SWITCH | {"switch": ["p0"]}, "links": LINKS[:1], C + "listener": "switch"},
        "hosts.switch.switch: a switch of ['p0']; expected two interfaces or more, each once",
    ),
    (
        SWITCHED | {"hosts.switch": SWITCH | {"switch": ["p0", "p1", "p0"]}},
        "hosts.switch.switch: a switch of ['p0', 'p1', 'p0']; expected two interfaces or more, each once",
    ),
    (
        SWITCHED | {"hosts.switch": SWITCH | {"switch": ["p0", "p1", "q7"]}},
        "hosts.switch.switch[2]: unknown end of a link 'q7'; expected one of p0, p1",
    ),
    (
        SWITCHED | {"hosts.switch": SWITCH | {"switch": ["p0", "eth/1"]}},
        "hosts.switch.switch[1]: the kernel refuses the interface name 'eth/1'; "
        "expected no white space, '/', ':' or '%' in it",
    ),
    (
        SWITCHED | {"guests.vm1": {"host": "switch", "uplink": "p1"}, C + "listener": "vm1"},
        "guests.vm1.uplink: p1 is a port of switch's switch, and an interface is a port of one bridge; expected an "
        "end of a link that is not a port of it",
    ),
    (
        CHAIN
        | {"links": [*CHAIN["links"], {"ends": ["switch.p2", "second.p3"]}]}  # type: ignore[misc]
        | {"hosts.switch": SWITCH | {"switch": ["p0", "p1", "p2"]}}
        | {"hosts.second": SWITCH | {"switch": ["p0", "p1", "p2", "p3"]}},
        "hosts.second.switch[3]: second.p0 and second.p3 are joined by links[0] and links[1] and links[4] already: "
        "frames would circulate forever; expected one path between any two switches",
    ),
    (
        SWITCHED
        | {"links": [*LINKS, {"ends": ["switch.p2", "switch.p3"]}]}
        | {"hosts.switch": SWITCH | {"switch": ["p0", "p1", "p2", "p3"]}},
        "hosts.switch.switch[3]: switch.p2 and switch.p3 are joined by links[2] already: frames would circulate "
        "forever; expected one path between any two switches",
    ),
    (
        SWITCHED | {"links": [LINKS[0], LINKS[1] | {"mtu": 9000}]},
        "links[1].mtu: links[0], which a switch joins to it, has 1500; expected the same MTU for both",
    ),
    (
        SWITCHED | {"links": [LINKS[0], LINKS[1] | {"subnet": "10.9.0.0/24"}]},
        "links[1].subnet: it has the network of links[0], which a switch joins to it; "
        "expected no subnet, or links[0].subnet",
    ),
    (
        SWITCHED | {"links": [one | {"vlans": {"5": {}}} for one in LINKS], C + "via": "sensor.eth0", "loads": None},
        "links[1].vlans.5: links[0], which a switch joins to it, has VLAN 5; expected each VLAN at only one of the two",
    ),
    (
        CHAIN | {"links": [LINKS[0] | {"subnet": "10.9.0.0/30"}, *CHAIN["links"][1:]]},  # type: ignore[index]
        "links[0].subnet: 10.9.0.0/30 has no room for 3 hosts; expected a network such as 10.78.0.0/24",
    ),
    (
        SWITCHED | {"shapers": {"switch.p1": TAPRIO}},
        "shapers.switch.p1: switch.p1 is a port of switch's switch: forwarded packets have no priority there; expected "
        "a shaper at the end where packets are sent",
    ),
    (
        SWITCHED | {"clock": {"ptp": PTP | {"ports": {"sensor.eth0": "master", "switch.p0": "slave"}}}},
        "clock.ptp.ports.switch.p0: switch.p0 is a port of switch's switch, which forwards PTP's packets; expected an "
        "end of a link that is not a port of it",
    ),
    (
        SWITCHED | {"clock": {"ptp": PTP | {"profile": "automotive"}}},
        "clock.ptp.profile: automotive measures the delay to the next port, and the switch at sensor.eth0 is not a PTP "
        "port; expected profile: default, whose packets a switch forwards",
    ),
    (
        SWITCHED | {"clock": {"ptp": PTP | {"ports": {"ecu.eth0": "slave"}}}},
        "clock.ptp.ports: the ends of links[0] and of those that switches join to it are nothing and slave; "
        "expected a master and a slave",
    ),
]


@pytest.mark.parametrize(("change", "what"), WRONG, ids=[what[:70] for _, what in WRONG])
def test_a_mistake_in_a_switch_is_one_sentence_where_it_stands(said: Said, change: dict[str, Any], what: str) -> None:
    assert said(change) == [what]


def test_a_network_of_ones_own_may_be_that_which_a_joined_link_would_have_alone(with_: With) -> None:
    links = {"links": [LINKS[0] | {"subnet": "10.78.1.0/24"}, LINKS[1]]}
    (segment,) = scenario(with_, SWITCHED, links).segments()
    assert str(segment.network) == "10.78.1.0/24"
