"""The ports of a scenario that have a gate schedule, and what leaves by each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from latlab.evaluation.gates import scenario_ports, schedules
from latlab.model.errors import UsageError
from support.report.gated import NETPERF, SCENARIO, STREAM, TAPRIO, cells_of


def test_what_takes_a_vlan_interface_leaves_by_the_port_it_is_on_four_bytes_longer(tmp_path: Path) -> None:
    links = [SCENARIO["links"][0] | {"vlans": {5: {}}}]
    tagged = {"via": "sensor.eth0.5"}
    flood = {"kind": "flood", "from": "sensor", "to": "ecu", "size": "64B"}
    (cell,) = cells_of(
        tmp_path,
        links=links,
        streams={"plain": STREAM | {"via": "sensor.eth0"}, "tagged": STREAM | tagged},
        loads={"flood": flood | tagged, "netperf": NETPERF | tagged},
    )
    (port,) = scenario_ports(cell.scenario)
    assert port.interface == "sensor.eth0"
    assert [(flow.name, flow.traffic_class, flow.frame.size) for flow in port.flows] == [
        ("plain", 0, 110),
        ("tagged", 0, 114),
    ]
    assert [(load.name, load.traffic_class, load.frame.size) for load in port.loads] == [
        ("flood", 3, 114),
        ("netperf", 3, 1522),
    ]


def test_a_frame_is_longer_by_what_carries_the_probe_and_by_the_trailer_of_prp(tmp_path: Path) -> None:
    links = [*SCENARIO["links"], {"ends": ["sensor.eth1", "ecu.eth1"]}]
    sampled = STREAM | {"payload": "iec61850-sv", "group": "01:0c:cd:04:00:01", "via": "sensor.eth0"}
    streams = {"sv": sampled, "sv-b": sampled | {"via": "sensor.eth1", "prp": "sv"}, "alone": sampled}
    (cell,) = cells_of(tmp_path, links=links, streams=streams)
    (port,) = scenario_ports(cell.scenario)
    # 14 of the header, 44 and 64 of the sampled values, 6 of the trailer, 4 of the checksum
    assert [(flow.name, flow.frame.size) for flow in port.flows] == [("alone", 126), ("sv", 132)]


def test_a_port_has_the_streams_and_loads_that_leave_by_it(tmp_path: Path) -> None:
    back = STREAM | {"talker": "ecu", "listener": "sensor"}
    (cell,) = cells_of(tmp_path, streams={"control": STREAM, "back": back}, loads={"netperf": NETPERF})
    (port,) = scenario_ports(cell.scenario)
    assert (port.interface, port.speed_bps, port.schedule.cycle_ns) == ("sensor.eth0", 10**10, 503_000)
    assert [(flow.name, flow.traffic_class, flow.frame.size) for flow in port.flows] == [("control", 0, 110)]
    assert [(load.name, load.traffic_class, load.frame.size) for load in port.loads] == [("netperf", 3, 1518)]
    assert port.shared == {1, 3}


GUEST = {"host": "ecu", "uplink": "eth0"}
AT_THE_HOST: dict[str, Any] = {"shapers": {"ecu.eth0": TAPRIO}}


def test_what_guests_send_leaves_by_the_hosts_port_without_a_schedule_in_the_class_of_priority_0(
    tmp_path: Path,
) -> None:
    streams = {
        "up": STREAM | {"talker": "vm1", "listener": "sensor"},
        "own": STREAM | {"talker": "ecu", "listener": "sensor"},
    }
    flood = {"kind": "flood", "from": "vm1", "to": "sensor", "size": "64B"}
    guests = {"vm1": GUEST, "vm2": GUEST}
    inside = {"between": STREAM | {"talker": "vm1", "listener": "vm2"}}
    (cell,) = cells_of(tmp_path, guests=guests, streams=streams | inside, loads={"flood": flood}, **AT_THE_HOST)
    (port,) = scenario_ports(cell.scenario)
    assert [(flow.name, flow.traffic_class) for flow in port.flows] == [("own", 0)]
    assert [(load.name, load.traffic_class, load.endless) for load in port.loads] == [
        ("up", 3, False),
        ("flood", 3, True),
    ]


@pytest.mark.parametrize("bridge", ["xdp", "vfio"])
def test_what_passes_no_queue_of_the_host_is_not_at_its_port(tmp_path: Path, bridge: str) -> None:
    guests = {"vm1": GUEST | {"bridge": bridge}}
    links = [SCENARIO["links"][0], {"ends": ["sensor.eth1", "ecu.eth1"], "queues": 4}]
    streams = {"up": STREAM | {"talker": "vm1", "listener": "sensor"}}
    shapers = {"ecu.eth0" if bridge == "xdp" else "ecu.eth1": TAPRIO}
    (cell,) = cells_of(tmp_path, guests=guests, links=links, streams=streams, shapers=shapers)
    (port,) = scenario_ports(cell.scenario)
    assert (port.flows, port.loads) == ((), ())


@pytest.mark.parametrize(
    ("load", "endless"),
    [
        ({"kind": "iperf3", "protocol": "tcp"}, [True]),
        ({"kind": "iperf3"}, [False]),
        ({"kind": "flood"}, []),
    ],
    ids=["tcp", "control", "flood"],
)
def test_what_goes_back_to_who_sends_a_load_leaves_by_the_receivers_port(
    tmp_path: Path, load: dict[str, Any], endless: list[bool]
) -> None:
    loads = {"one": load | {"from": "sensor", "to": "ecu"}}
    (cell,) = cells_of(tmp_path, loads=loads, **AT_THE_HOST)
    (port,) = scenario_ports(cell.scenario)
    assert [(one.name, one.traffic_class, one.endless) for one in port.loads] == [("one", 3, each) for each in endless]


def test_frames_of_iec_61850_and_prp_are_as_large_as_they_are_sent(tmp_path: Path) -> None:
    raw = STREAM | {"transport": "ethernet", "vlan": 5}
    two = [SCENARIO["links"][0], {"ends": ["sensor.eth1", "ecu.eth1"], "queues": 4}]
    streams = {
        "plain": raw | {"via": "sensor.eth0"},
        "sv": raw | {"payload": "iec61850-sv", "via": "sensor.eth0"},
        "a": raw | {"via": "sensor.eth0", "group": "01:0c:cd:04:00:01"},
        "b": raw | {"via": "sensor.eth1", "group": "01:0c:cd:04:00:01", "prp": "a"},
    }
    (cell,) = cells_of(tmp_path, links=two, streams=streams)
    (port,) = scenario_ports(cell.scenario)
    # 22 bytes of Ethernet; 44 of 9-2 before the probe (agent/wire/src/iec61850.rs); PRP's trailer of 6.
    assert {flow.name: flow.frame.size for flow in port.flows} == {"plain": 86, "sv": 130, "a": 92}


@pytest.mark.parametrize(("speed", "expected"), [(None, 10**10), ("100Mbit/s", 10**8)])
def test_a_port_is_as_fast_as_the_scenario_says_or_as_a_veth(tmp_path: Path, speed: Any, expected: int) -> None:
    shaper = TAPRIO | ({"speed": speed} if speed else {})
    (cell,) = cells_of(tmp_path, shapers={"sensor.eth0": shaper})
    assert scenario_ports(cell.scenario)[0].speed_bps == expected


def test_a_cable_that_is_there_is_taken_for_a_gigabit(tmp_path: Path) -> None:
    hosts = {"sensor": {"kind": "ssh"}, "ecu": {"kind": "local"}}
    (cell,) = cells_of(tmp_path, hosts=hosts, links=[{"ends": ["sensor.eth0", "ecu.eth0"]}])
    assert scenario_ports(cell.scenario)[0].speed_bps == 10**9


def test_cells_with_the_same_schedules_and_streams_are_reported_once(tmp_path: Path) -> None:
    matrix = {"loads": ["none", "netperf"], "shapers.sensor.eth0.mode": ["software", "offload"]}
    found = schedules(cells_of(tmp_path, loads={"netperf": NETPERF}, matrix=matrix))
    assert [len(group.cells) for group in found] == [2, 2]
    assert [[load.name for load in port.loads] for group in found for port in group.ports] == [["netperf"]] * 2
    assert [port.mode for group in found for port in group.ports] == ["software", "offload"]


def test_without_a_schedule_it_is_said_where_to_look(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no interface has a gate schedule .*docs/reference/scenario\.md"):
        schedules(cells_of(tmp_path, shapers={}))
