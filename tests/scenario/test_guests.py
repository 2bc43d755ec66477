"""Guests in a scenario: the segments they are on, their addresses, the routes that lead to them, their matrix."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from latlab.scenario import BRIDGES, End, Loaded, Scenario, cells, parse

With = Callable[..., Loaded]
Said = Callable[[dict[str, Any]], list[str]]

SECOND = {"period": "1ms", "size": "64B"}
MIXED = {
    "links.1": {"ends": ["ecu.eth1", "sensor.eth1"], "subnet": "192.168.7.0/24"},
    "guests": {
        "vm1": {"host": "ecu", "uplink": "eth0"},
        "vm2": {"host": "ecu", "uplink": "eth1", "bridge": "user"},
        "vm3": {"host": "ecu", "interface": "ens3"},
        "vm4": {"host": "sensor"},
        "vm5": {"host": "sensor", "uplink": "eth1"},
    },
    "loads": {},
    "streams": {
        "in": {"talker": "sensor", "listener": "vm1"} | SECOND,
        "across": {"talker": "vm5", "listener": "vm2"} | SECOND,
        "back": {"talker": "vm2", "listener": "sensor"} | SECOND,
        "inside": {"talker": "ecu", "listener": "vm3"} | SECOND,
        "plain": {"talker": "sensor", "listener": "ecu", "via": "sensor.eth1"} | SECOND,
    },
}


@pytest.fixture
def mixed(with_: With) -> Scenario:
    """Two links, and five guests on two hosts, with and without uplinks."""
    return with_(MIXED).scenario


def test_each_link_is_a_segment_and_so_are_a_hosts_guests_without_an_uplink(mixed: Scenario) -> None:
    found = [(one.number, one.link, [str(end) for end in one.members]) for one in mixed.segments()]
    assert found == [
        (0, mixed.links[0], ["sensor.eth0", "ecu.eth0", "vm1.eth0"]),
        (1, mixed.links[1], ["ecu.eth1", "sensor.eth1", "vm2.eth0", "vm5.eth0"]),
        (0, None, ["ecu.inner", "vm3.ens3"]),
        (1, None, ["sensor.inner", "vm4.eth0"]),
    ]


@pytest.mark.parametrize(
    ("end", "address"),
    [
        (End("sensor", "eth0"), "10.78.0.1/24"),
        (End("ecu", "eth0"), "10.78.0.2/24"),
        (End("vm1", "eth0"), "10.78.0.11/24"),
        (End("ecu", "eth1"), "192.168.7.1/24"),
        (End("sensor", "eth1"), "192.168.7.2/24"),
        (End("vm2", "eth0"), "10.0.2.15/24"),
        (End("vm5", "eth0"), "192.168.7.12/24"),
        (End("ecu", "inner"), "10.79.0.1/24"),
        (End("vm3", "ens3"), "10.79.0.11/24"),
        (End("sensor", "inner"), "10.79.1.1/24"),
        (End("vm4", "eth0"), "10.79.1.11/24"),
    ],
    ids=str,
)
def test_guests_have_addresses_of_their_segment_from_11_on(mixed: Scenario, end: End, address: str) -> None:
    assert str(mixed.address(end)) == address


def test_an_interface_that_is_on_no_segment_has_no_address(mixed: Scenario) -> None:
    with pytest.raises(KeyError, match=r"vm3\.eth0"):
        mixed.address(End("vm3", "eth0"))


@pytest.mark.parametrize(
    ("stream", "ends", "source", "destination", "listen", "translated"),
    [
        ("in", "sensor.eth0 vm1.eth0", "10.78.0.1", "10.78.0.11", "10.78.0.11", False),
        ("across", "vm5.eth0 vm2.eth0", "192.168.7.12", "192.168.7.1", "10.0.2.15", True),
        ("back", "vm2.eth0 sensor.eth1", "10.0.2.15", "192.168.7.2", "192.168.7.2", True),
        ("inside", "ecu.inner vm3.ens3", "10.79.0.1", "10.79.0.11", "10.79.0.11", False),
        ("plain", "sensor.eth1 ecu.eth1", "192.168.7.2", "192.168.7.1", "192.168.7.1", False),
    ],
)
def test_a_route_knows_the_addresses_on_both_sides_of_user_nat(
    mixed: Scenario, stream: str, ends: str, source: str, destination: str, listen: str, translated: bool
) -> None:
    route = mixed.route(stream)
    assert f"{route.talker_end} {route.listener_end}" == ends
    assert (str(route.source), str(route.destination), str(route.listen)) == (source, destination, listen)
    assert route.is_translated is translated


def test_the_guests_at_an_interface_are_those_that_name_it_as_their_uplink(mixed: Scenario) -> None:
    segment = mixed.segments()[1]
    assert list(segment.guests_at(End("ecu", "eth1"))) == [End("vm2", "eth0")]
    assert list(segment.guests_at(End("sensor", "eth1"))) == [End("vm5", "eth0")]


def test_a_guest_is_one_of_latlabs_own_image_on_a_tap_with_256_mib_unless_told_otherwise(mixed: Scenario) -> None:
    guest = mixed.guests["vm1"]
    assert (guest.image_name, guest.is_ours, guest.bridge, guest.interface) == ("debian-cloud", True, "tap", "eth0")
    assert (guest.vcpus, guest.memory, guest.queues) == (1, 256 * 2**20, 1)
    assert (guest.acceleration, guest.vhost, guest.snapshot) == ("auto", "auto", True)


def test_a_guest_of_ones_own_kernel_disk_or_domain_is_not_ours(with_: With) -> None:
    given = {"kernel": "/boot/vmlinuz", "disk": "vm.qcow2", "domain": "vm"}
    for key, value in given.items():
        ssh = {"destination": "root@vm"} if key == "domain" else {"user": "root"}
        assert not with_({"guests.vm1": {"host": "ecu", key: value, "ssh": ssh}}).scenario.guests["vm1"].is_ours


def test_every_bridge_can_be_varied(with_: With) -> None:
    values = {"guests.vm1": {"host": "ecu", "uplink": "eth0", "device": "0000:3b:00.0"}}
    found = cells(with_(values | {"matrix/guests.vm1.bridge": list(BRIDGES)}))
    assert [cell.scenario.guests["vm1"].bridge for cell in found] == list(BRIDGES)
    assert [cell.slug for cell in found] == [f"guests.vm1.bridge={bridge}" for bridge in BRIDGES]


def test_bridges_of_guests_on_one_uplink_are_varied_together_by_their_mapping(with_: With, said: Said) -> None:
    guests = {name: {"host": "ecu", "uplink": "eth0"} for name in ("vm1", "vm2")}
    together = [{name: guest | {"bridge": bridge} for name, guest in guests.items()} for bridge in ("tap", "xdp")]
    assert len(cells(with_({"guests": guests, "matrix.guests": together}))) == 2
    apart = {f"matrix/guests.{name}.bridge": ["tap", "xdp"] for name in guests}
    found = said({"guests": guests} | apart)
    assert len(found) == 2
    assert all("is joined to ecu.eth0 by" in line for line in found)


def test_what_a_guests_matrix_cannot_have_is_reported_in_the_line_of_its_value(said: Said) -> None:
    values = {"guests.vm1": {"host": "ecu"}, "matrix/guests.vm1.bridge": ["tap", "bridge", "macvtap"]}
    assert [line.split("; ")[0] for line in said(values)] == [
        "matrix.guests.vm1.bridge[1]: in cell guests.vm1.bridge=bridge: guests.vm1.bridge: 'bridge' is not supported",
        "matrix.guests.vm1.bridge[2]: in cell guests.vm1.bridge=macvtap: guests.vm1.uplink: "
        "missing: bridge macvtap joins the guest to an interface of ecu",
    ]


def test_the_tuning_of_a_guest_can_be_varied_though_none_is_written(with_: With) -> None:
    values = {"guests.vm1": {"host": "ecu"}, "matrix/tuning.vm1.listener.fifo": [70, None]}
    assert [cell.scenario.tuning_of("vm1").listener.fifo for cell in cells(with_(values))] == [70, None]


def test_a_dumped_scenario_with_guests_reads_back_as_the_same(mixed: Scenario) -> None:
    assert parse(mixed.model_dump(mode="json", by_alias=True, exclude_unset=True)).scenario == mixed
