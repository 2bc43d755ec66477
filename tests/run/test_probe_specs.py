"""What is done for every way that packets take is done for both ways of a probe."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from latlab.evaluation.gates import scenario_ports
from latlab.hosts import LocalMachine
from latlab.model.errors import LabError
from latlab.run.clock_legs import needed_legs
from latlab.run.entries import stream_entries
from latlab.run.probe_specs import ping_spec, pong_spec
from latlab.run.room import check_room
from latlab.run.specs import BedFacts
from latlab.scenario import MatrixCell, Scenario
from latlab.testbed.guests.start import planned_site
from latlab.testbed.guests.steps import reach_steps
from latlab.testbed.loads import plan_loads
from latlab.testbed.machine import Machine
from latlab.testbed.places import Places
from latlab.testbed.preflight import preflight
from latlab.testbed.probes import plan_probes
from latlab.testbed.site import Site
from latlab.testbed.unavailable import unavailable

Make = Callable[..., Scenario]
PING = {"probe": "ping", "from": "sensor", "to": "ecu", "size": "64B", "period": "1ms", "priority": 5}
NETPERF = {"probe": "netperf", "from": "sensor", "to": "ecu"}
GUEST = {"vm1": {"host": "ecu", "uplink": "eth1"}}


def test_ping_and_pong_are_reported_the_same_of_what_they_share(scenario: Make) -> None:
    small = scenario(probes={"rr": PING | {"offset": "250us", "timeout": "50ms"}})
    bed = BedFacts({"ecu.eth1": "02:00:00:00:00:02"})
    ping = ping_spec(small, "rr", bed, "8f3c5e0d12ab34cd", "/r/ping-rr")
    pong = pong_spec(small, "rr", bed, "8f3c5e0d12ab34cd", "/r/pong-rr")
    shared = ("run_id", "up", "down", "name", "size", "priority", "stamps")
    asks, answers = ping["side"], pong["side"]
    assert {key: asks[key] for key in shared} == {key: answers[key] for key in shared}
    assert (asks["up"], asks["down"], asks["interface"], answers["interface"]) == (2, 3, "eth0", "eth1")
    assert [ping[key] for key in ("period_ns", "offset_ns", "count", "duration_ns", "timeout_ns")] == [
        *(1_000_000, 250_000, 2000, 2_000_000_000, 50_000_000)
    ]
    assert ping["transport"] == {"kind": "udp", "source": "10.78.0.1:0", "destination": "10.78.0.2:5558"}
    assert pong["transport"] == {"kind": "udp", "listen": "10.78.0.2:5558"}
    assert (asks["realtime"]["fifo"], answers["realtime"]["fifo"]) == (90, 80)


def test_the_kernel_is_asked_for_the_timestamps_that_the_scenario_wants_of_it(scenario: Make) -> None:
    bed = BedFacts({}, hardware=frozenset({"sensor.eth0", "ecu.eth1"}))
    asked = {}
    for way in ({}, {"timestamps": "kernel"}, {"timestamps": "user"}, {"transport": "tcp"}):
        small = scenario(probes={"rr": PING | way})
        sides = [spec(small, "rr", bed, "8f3c5e0d12ab34cd", "/r/x")["side"] for spec in (ping_spec, pong_spec)]
        keys = ("sched", "software", "hardware")
        found = {
            (*(side["stamps"][key] for key in keys), side["hardware_stamps"], side["software_stamps"]) for side in sides
        }
        asked[tuple(way.values())] = found
    all_of_them, none = {(True,) * 5}, {(False,) * 5}
    assert asked == {(): all_of_them, ("kernel",): all_of_them, ("user",): none, ("tcp",): none}


def test_a_closed_loop_has_neither_period_nor_count(scenario: Make) -> None:
    loop = {key: value for key, value in PING.items() if key != "period"}
    small = scenario(probes={"loop": loop | {"transport": "tcp"}})
    ping = ping_spec(small, "loop", BedFacts({}), "8f3c5e0d12ab34cd", "/r/ping-loop")
    assert (ping["period_ns"], ping["count"], ping["transport"]["kind"]) == (None, None, "tcp")
    assert [(leg.period_ns, leg.count) for leg in stream_entries(small) if leg.leg] == [(None, None)] * 2


def test_frames_of_a_ping_go_to_the_answerers_address_and_back_to_the_askers(scenario: Make) -> None:
    small = scenario(probes={"rr": PING | {"vlan": 5}})
    bed = BedFacts({"ecu.eth1": "02:00:00:00:00:02"})
    ping, pong = (spec(small, "rr", bed, "8f3c5e0d12ab34cd", "/r/x") for spec in (ping_spec, pong_spec))
    tag = {"kind": "ethernet", "ethertype": 0x88B5, "vlan": 5, "pcp": 5}
    assert ping["transport"] == tag | {"destination": "02:00:00:00:00:02"}
    assert pong["transport"] == tag


@pytest.mark.parametrize(
    ("transport", "size", "frames"),
    [
        *(("udp", "1472B", 1), ("udp", "1473B", 2), ("udp", "2952B", 2), ("udp", "2953B", 3), ("udp", "65507B", 45)),
        *(("tcp", "1448B", 1), ("tcp", "1449B", 2), ("ethernet", "1500B", 1)),
    ],
)
def test_a_packet_goes_in_so_many_frames(scenario: Make, transport: str, size: str, frames: int) -> None:
    small = scenario(probes={"rr": PING | {"transport": transport, "size": size}})
    assert [leg.frames for leg in stream_entries(small) if leg.leg] == [frames, frames]


def test_the_way_of_a_probe_to_a_guest_is_tried_and_let_in_through_its_bridge(scenario: Make) -> None:
    probes = {"rr": PING | {"to": "vm1"}, "nrr": NETPERF | {"to": "vm1"}}
    small = scenario(streams={}, guests=GUEST, probes=probes)
    (reached,) = reach_steps(small, planned_site(small))
    assert {*reached.title.split(" reaches ")} == {"sensor.eth0", "vm1.eth0"}, "once for both ways"
    behind = scenario(streams={}, guests={"vm1": GUEST["vm1"] | {"bridge": "user"}}, probes=probes)
    ports = behind.port("rr.up"), behind.port("nrr.up")
    assert planned_site(behind).inward["vm1"] == (
        ("udp", ports[0]),
        *((kind, port) for port in (ports[1], ports[1] + 1) for kind in ("tcp", "udp")),
    )


def test_clocks_are_compared_between_the_ends_of_a_ping_and_not_of_a_tool(scenario: Make) -> None:
    hosts = {name: LocalMachine(name) for name in ("sensor", "ecu")}
    both = {"rr": PING, "back": PING | {"from": "ecu", "to": "sensor"}}
    site = Site("0a9f")
    assert [(leg.here, leg.there) for leg in needed_legs(scenario(streams={}, probes=both), site, hosts, ())] == [
        ("sensor", "ecu")
    ], "once, whichever way it is gone"
    assert needed_legs(scenario(streams={}, probes={"nrr": NETPERF}), site, hosts, ()) == []


def test_frames_of_a_probe_through_user_nat_make_its_cell_unavailable(scenario: Make) -> None:
    guests = {"vm1": GUEST["vm1"] | {"bridge": "user"}}
    small = scenario(streams={}, guests=guests, probes={"rr": PING | {"to": "vm1", "transport": "ethernet"}})
    reasons = [str(reason) for reason in unavailable(small, planned_site(small))]
    assert any("probes.rr: " in one and "carries no Ethernet frames" in one for one in reasons)


def test_a_closed_loop_needs_room_for_as_many_as_there_may_be(scenario: Make, tmp_path: Path) -> None:
    loop = {key: value for key, value in PING.items() if key != "period"}
    long = scenario(probes={"loop": loop}, duration="24h")
    with pytest.raises(LabError, match=r"\d+ packets need about .* of (disk|memory)"):
        check_room([MatrixCell({}, "all", long)], 100, tmp_path)


def test_loads_take_no_port_of_a_tool(scenario: Make) -> None:
    small = scenario(
        streams={},
        probes={f"n{number}": NETPERF for number in range(6)},
        loads={"same": {"kind": "flood", "from": "sensor", "to": "ecu"}},
    )
    tools = {port for plan in plan_probes(small, Places()) for port in (plan.port, plan.port + 1)}
    assert len(tools) == 12
    (load,) = plan_loads(small, 10**9, Places())
    assert not tools & {load.port, load.port + 1}


def test_gates_know_what_questions_and_answers_leave_by(scenario: Make) -> None:
    gates = [{"open": [0, 1], "for": "1ms"}]
    shaper = {"kind": "taprio", "mode": "software", "map": {5: 1}, "gates": gates}
    links = [{"ends": ["sensor.eth0", "ecu.eth1"], "queues": 2}]
    small = scenario(links=links, streams={}, probes={"rr": PING}, shapers={"sensor.eth0": shaper, "ecu.eth1": shaper})
    asks, answers = scenario_ports(small)
    assert [(flow.name, flow.traffic_class, flow.period_ns) for flow in asks.flows] == [("rr.up", 1, 1_000_000)]
    assert answers.flows == ()
    assert [(load.title, load.traffic_class, load.endless) for load in answers.loads] == [("rr.down", 1, False)]


def test_a_raw_ping_needs_the_privilege_of_raw_frames(scenario: Make) -> None:
    nobody = Machine(frozenset({"CAP_NET_ADMIN", "CAP_SYS_ADMIN"}), frozenset({0}), frozenset(), lambda tool: True)
    told: list[Any] = [str(one) for one in preflight(scenario(probes={"rr": PING | {"transport": "ethernet"}}), nobody)]
    assert any("CAP_NET_RAW" in one and "CAP_SYS_NICE" in one for one in told)
