"""VLANs of a link: their interfaces, networks and priority maps, what follows from them, and what does not fit."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from latlab.scenario import End, Loaded, Scenario, scenario_schema
from latlab.scenario.shapers import CABLE_BPS, MADE_BPS
from latlab.scenario.sketch import sketch_of

With = Callable[..., Loaded]
Said = Callable[[dict[str, Any]], list[str]]

C = "streams.control."
VIA: dict[str, Any] = {"loads": None, "links.0.vlans": {"5": {}}, C + "via": "sensor.eth0.5"}
"""One VLAN, and the stream in it."""
IDENTITY = {priority: priority for priority in range(8)}
OUT = End("sensor", "eth0.5")
TAPRIO = {
    "kind": "taprio",
    "mode": "software",
    "map": {"7": 1},
    "gates": [{"open": [0], "for": "100us"}, {"open": [0, 1], "for": "100us"}],
}
S = "shapers/sensor.eth0"
GUEST = {"host": "ecu", "uplink": "eth0.5"}
TO_GUEST: dict[str, Any] = {"loads": None, "links.0.vlans": {"5": {}}, "guests": {"vm1": GUEST}, C + "listener": "vm1"}
TWO_LOCAL = {
    "loads": None,
    "hosts": {"sensor": {"kind": "local"}, "ecu": {"kind": "local"}},
    "links.0.ends": ["sensor.eth0", "ecu.eth1"],
}


def scenario(with_: With, *changes: dict[str, Any]) -> Scenario:
    merged: dict[str, Any] = {}
    for change in changes:
        merged |= change
    return with_(merged).scenario


def test_a_link_has_no_vlans_unless_it_is_said(with_: With) -> None:
    assert [segment.vlan for segment in with_().scenario.segments()] == [None]


def test_priorities_are_left_as_they_are_unless_a_map_says_else(with_: With) -> None:
    maps = {"5": {}, "6": {"egress": {"7": 7, "12": 5}, "ingress": {"2": 9}}, "7": {"egress": {}}}
    vlans = scenario(with_, VIA, {"links.0.vlans": maps}).links[0].vlans
    assert [(vlan.egress, vlan.ingress) for vlan in vlans.values()] == [
        (IDENTITY, IDENTITY),
        ({7: 7, 12: 5}, {2: 9}),
        ({}, IDENTITY),
    ]


def test_each_vlan_is_a_segment_of_its_own_with_the_links_ends_in_order(with_: With) -> None:
    links = {"links.0.vlans": {"5": {}, "4094": {"subnet": "10.9.0.0/24"}}}
    plain, five, last = scenario(with_, VIA, links).segments()
    assert (plain.vlan, five.vlan, last.vlan) == (None, 5, 4094)
    assert [str(end) for end in (*five.ends, *last.ends)] == [
        *("sensor.eth0.5", "ecu.eth0.5"),
        *("sensor.eth0.4094", "ecu.eth0.4094"),
    ]
    assert [str(segment.network) for segment in (plain, five, last)] == ["10.78.0.0/24", "10.80.0.0/24", "10.9.0.0/24"]
    assert [str(five.address(end)) for end in five.ends] == ["10.80.0.1/24", "10.80.0.2/24"]
    assert last.path == ("links", 0, "vlans", "4094")


def test_the_networks_of_two_links_vlans_are_apart(with_: With) -> None:
    second = {"ends": ["sensor.eth1", "ecu.eth1"], "vlans": {"5": {}}}
    found = scenario(with_, VIA, {"links.0.vlans": {"5": {}, "6": {}}, "links.1": second}).segments()
    networks = [str(segment.network) for segment in found if segment.vlan]
    assert networks == ["10.80.0.0/24", "10.80.1.0/24", "10.80.16.0/24"]


@pytest.mark.slow
def test_the_last_vlan_of_the_last_link_still_has_a_network_of_its_own(with_: With) -> None:
    links: list[dict[str, Any]] = [{"ends": [f"sensor.e{n}", f"ecu.e{n}"]} for n in range(255)]
    links.append({"ends": ["sensor.eth0", "ecu.eth0"], "vlans": {str(n): {} for n in range(1, 17)}})
    *_, last = scenario(with_, {"loads": None, "links": links, C + "via": "sensor.eth0.16"}).segments()
    assert str(last.network) == "10.95.255.0/24"


def test_a_stream_takes_the_vlan_that_it_names(with_: With) -> None:
    route = scenario(with_, VIA).route("control")
    assert (route.talker_end, route.listener_end) == (OUT, End("ecu", "eth0.5"))
    assert (str(route.source), str(route.destination)) == ("10.80.0.1", "10.80.0.2")


def test_a_guest_may_be_joined_to_a_vlan_and_is_reached_there(with_: With) -> None:
    found = scenario(with_, TO_GUEST)
    route = found.route("control")
    assert (route.talker_end, str(route.destination)) == (OUT, "10.80.0.11")


def test_a_vlan_interface_has_the_shaper_and_the_speed_of_the_interface_it_is_on(with_: With) -> None:
    found = scenario(with_, VIA, {"links.0.queues": 2, S: TAPRIO | {"speed": "1Gbit/s"}})
    port = End("sensor", "eth0")
    assert (found.parent_of(OUT), found.parent_of(port)) == (port, port)
    assert found.shaper_at(OUT) == found.shaper_at(port) == found.shapers["sensor.eth0"]
    assert found.speed_at(OUT) == 10**9
    assert scenario(with_, VIA).speed_at(OUT) == MADE_BPS
    assert scenario(with_, VIA, TWO_LOCAL, {C + "transport": "ethernet"}).speed_at(OUT) == CABLE_BPS


def test_a_sketch_and_its_scenario_know_the_same_parents(with_: With) -> None:
    found = scenario(with_, VIA, {"links.0.vlans": {"5": {}, "6": {}}})
    usable = sketch_of(found)
    interfaces = [OUT, End("ecu", "eth0.6"), End("sensor", "eth0"), End("sensor", "eth0.7")]
    assert [usable.parent_of(end) for end in interfaces] == [found.parent_of(end) for end in interfaces]
    assert [str(end) for end in map(usable.parent_of, interfaces)] == [
        *("sensor.eth0", "ecu.eth0", "sensor.eth0", "sensor.eth0.7")
    ]


def test_a_map_can_be_varied(with_: With) -> None:
    matrix = {"matrix": {"links.0.vlans.5.egress": [{}, {"7": 7}]}}
    loaded = with_(VIA | matrix)
    assert [cell.scenario.links[0].vlans[5].egress for cell in loaded.combinations] == [{}, {7: 7}]


LONG = "sensor.enp0s31f6np0"

WRONG: list[tuple[dict[str, Any], str]] = [
    ({"links.0.vlans": {"0": {}, "5": {}}}, "links[0].vlans.0: '0' is not a VLAN id; expected 1 to 4094"),
    ({"links.0.vlans": {"4095": {}, "5": {}}}, "links[0].vlans.4095: '4095' is not a VLAN id; expected 1 to 4094"),
    ({"links.0.vlans": {"4096": {}, "5": {}}}, "links[0].vlans.4096: '4096' is not a VLAN id; expected 1 to 4094"),
    ({"links.0.vlans": {"five": {}, "5": {}}}, "links[0].vlans.five: 'five' is not a VLAN id; expected 1 to 4094"),
    ({"links.0.vlans": [5]}, "links[0].vlans: [5] is not a mapping"),
    ({"links.0.vlans": {str(n): {} for n in range(1, 18)}}, "links[0].vlans: too many; expected 16 or fewer"),
    ({"links.0.vlans.5.egress": {"16": 1}}, "links[0].vlans.5.egress.16: '16' is too large; expected 15 or less"),
    ({"links.0.vlans.5.egress": {"7": 8}}, "links[0].vlans.5.egress.7: 8 is too large; expected 7 or less"),
    ({"links.0.vlans.5.ingress": {"8": 1}}, "links[0].vlans.5.ingress.8: '8' is too large; expected 7 or less"),
    ({"links.0.vlans.5.ingress": {"7": 16}}, "links[0].vlans.5.ingress.7: 16 is too large; expected 15 or less"),
    ({"links.0.vlans.5": {"egres": {}}}, "links[0].vlans.5.egres: unknown key 'egres'; expected egress?"),
    (
        {"links.0.ends": [LONG, "ecu.eth0"], "links.0.vlans.4000": {}, C + "via": f"{LONG}.5"},
        f"links[0].vlans.4000: the VLAN interface {LONG}.4000 would have 17 characters, the kernel takes 15; expected "
        "a shorter name of the interface that it is on",
    ),
    (
        {"hosts.gw": {"kind": "netns"}, "links.1": {"ends": ["sensor.eth0.5", "gw.eth0"]}},
        "links[0].vlans.5: sensor.eth0.5 is an end of links[1] already; expected another id, or another name",
    ),
    (
        {"links.0.vlans.5.subnet": "10.78.0.0/16"},
        "links[0].vlans.5.subnet: 10.78.0.0/16 overlaps 10.78.0.0/24 of links[0]; expected different networks",
    ),
    (
        {"links.0.vlans.6": {"subnet": "10.80.0.0/24"}},
        "links[0].vlans.6.subnet: 10.80.0.0/24 overlaps 10.80.0.0/24 of links[0].vlans.5",
    ),
    (
        {C + "via": None},
        "streams.control: 2 links and VLANs join sensor and ecu; expected via: sensor.eth0 or sensor.eth0.5",
    ),
    ({C + "via": "sensor.eth0.6"}, "streams.control.via: unknown path 'sensor.eth0.6'; expected sensor.eth0.5?"),
    (
        {C + "transport": "ethernet", C + "vlan": 6},
        "streams.control.vlan: sensor.eth0.5 tags the packets that leave there: with its own vlan a frame would have "
        "two tags; expected no vlan and pcp but transport: ethernet, or via: sensor.eth0",
    ),
    (
        {"shapers/sensor.eth0.5": TAPRIO},
        "shapers.sensor.eth0.5: sensor.eth0.5 is a VLAN interface: its packets pass the shaper of sensor.eth0; "
        "expected sensor.eth0",
    ),
    (
        {"tuning": {"ecu": {"steering": {"eth0.5": {"7": 0}}}}},
        "tuning.ecu.steering.eth0.5: eth0.5 is a VLAN interface: interrupts and queues are those of eth0; expected",
    ),
    (
        {"tuning": {"ecu": {"irq": {"eth0.5": {"cpus": [0]}}}}},
        "tuning.ecu.irq.eth0.5: eth0.5 is a VLAN interface: interrupts and queues are those of eth0; expected eth0",
    ),
    (
        {"links.0.queues": 2, S: TAPRIO | {"gates": [{"open": [0], "for": "1ms"}]}, C + "priority": 7},
        "streams.control: priority 7 is traffic class 1 at sensor.eth0, whose gate never opens",
    ),
    (
        {S: {"kind": "etf"}},
        "streams.control: packets without a launch time are dropped by the etf at sensor.eth0",
    ),
]


@pytest.mark.parametrize(("values", "told"), WRONG, ids=[told[:60] for _, told in WRONG])
def test_what_does_not_fit_is_reported_where_it_stands(said: Said, values: dict[str, Any], told: str) -> None:
    changes = VIA | values
    found = said({path: value for path, value in changes.items() if value is not None or path == "loads"})
    assert len(found) == 1, found
    assert found[0].startswith(told), found


@pytest.mark.parametrize(
    ("guests", "told"),
    [
        (
            {"vm1": GUEST | {"bridge": "vfio"}},
            "guests.vm1.bridge: vfio takes a network card, and ecu.eth0.5 is a VLAN interface on ecu.eth0; expected "
            "another bridge, such as tap",
        ),
        (
            {"vm1": GUEST | {"bridge": "ovs-afxdp"}},
            "guests.vm1.bridge: ovs-afxdp takes a network card, and ecu.eth0.5 is a VLAN interface on ecu.eth0",
        ),
        (
            {"vm1": GUEST, "vm2": {"host": "ecu", "uplink": "eth0", "bridge": "ovs-afxdp"}},
            "guests.vm2.bridge: ovs-afxdp takes all frames from ecu.eth0.5: an AF_XDP socket receives every frame "
            "there, tagged ones, too; expected another bridge, or a link without vlans",
        ),
        (
            {"vm1": GUEST, "vm2": {"host": "ecu", "uplink": "eth0", "bridge": "vfio"}},
            "guests.vm2.bridge: vfio takes all frames from ecu.eth0.5: the card itself is passed to the guest",
        ),
        ({"vm1": GUEST | {"uplink": "eth0.6"}}, "guests.vm1.uplink: unknown end of a link 'eth0.6'; expected eth0.5?"),
    ],
)
def test_a_bridge_that_takes_the_card_is_refused(said: Said, guests: dict[str, Any], told: str) -> None:
    found = said(TO_GUEST | {"guests": guests})
    assert len(found) == 1, found
    assert found[0].startswith(told), found


@pytest.mark.parametrize("bridge", ["user", "tap", "macvtap", "xdp", "ovs"])
def test_other_bridges_may_be_on_a_vlan_interface(with_: With, bridge: str) -> None:
    assert scenario(with_, TO_GUEST, {"guests": {"vm1": GUEST | {"bridge": bridge}}}).guests["vm1"].bridge == bridge


def test_a_network_of_a_vlan_has_room_for_its_guests(said: Said) -> None:
    (found,) = said(TO_GUEST | {"links.0.vlans": {"5": {"subnet": "10.9.0.0/30"}}})
    assert found.startswith("links[0].vlans.5.subnet: 10.9.0.0/30 has no room for 1 guests")


def test_while_the_vlans_are_wrong_nothing_is_said_of_what_is_in_them(said: Said) -> None:
    (found,) = said(TO_GUEST | {"links.0.vlans": 5})
    assert found.startswith("links[0].vlans: 5 is not a mapping")


@pytest.mark.parametrize(("text", "is_one"), [("1", 1), ("4094", 1), ("0", 0), ("4095", 0), ("05", 0), ("a", 0)])
def test_the_schema_takes_the_ids_that_loading_takes(text: str, is_one: int) -> None:
    vlans = scenario_schema()["$defs"]["Link"]["properties"]["vlans"]
    (pattern,) = vlans["patternProperties"]
    assert bool(re.search(pattern, text)) == bool(is_one)
