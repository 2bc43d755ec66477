"""A scenario names flows and the interfaces where they are watched; what cannot be one is reported in its line."""

from __future__ import annotations

from typing import Any

import pytest

from latlab.scenario import End, parse
from latlab.scenario.watched import LEAST_JUDGED_SNAP, FlowPoint

BASE: dict[str, Any] = {
    "name": "small",
    "hosts": {"sensor": {"kind": "netns"}, "ecu": {"kind": "netns"}},
    "links": [{"ends": ["sensor.eth0", "ecu.eth1"]}],
    "guests": {"vm1": {"host": "ecu", "uplink": "eth1", "runs": "used"}},
    "duration": "2s",
}
STREAM = {"talker": "sensor", "listener": "ecu", "period": "1ms", "size": "64B"}


def of(at: list[str], match: str = "udp port 5000", **more: Any) -> dict[str, Any]:
    return BASE | {"flows": {"seen": {"match": match, "at": at}}} | more


def test_points_are_read_and_written_as_they_are() -> None:
    at = ["sensor.eth0:out", "ecu.eth1", "vm1.tap:out", "vm1.tap:read", "vm1.eth0:in"]
    scenario = parse(of(at)).scenario
    assert scenario
    flow = scenario.watched["seen"]
    assert flow.at[:2] == (FlowPoint(End("sensor", "eth0"), ("out",)), FlowPoint(End("ecu", "eth1"), ("in", "out")))
    written = scenario.model_dump(mode="json", by_alias=True, exclude_unset=True)
    assert written["flows"]["seen"]["at"] == at
    assert parse(written).scenario == scenario


def test_a_taps_packets_are_seen_by_the_kernel_of_its_host() -> None:
    scenario = parse(of(["vm1.tap", "vm1.eth0"])).scenario
    assert scenario
    assert [scenario.watched_on(point) for point in scenario.watched["seen"].at] == ["ecu", "vm1"]


def test_sockets_are_those_of_any_host_and_guest() -> None:
    parsed = parse(of(["sensor.socket:out", "ecu.eth1:in", "vm1.socket:in"]))
    assert parsed.scenario and not parsed.findings
    assert [parsed.scenario.watched_on(point) for point in parsed.scenario.watched["seen"].at] == [
        "sensor",
        "ecu",
        "vm1",
    ]


def test_a_flow_alone_is_something_to_measure_and_numbers_of_its_streams_are_behind_all_others() -> None:
    alone, beside = parse(of(["sensor.eth0"])).scenario, parse(of(["sensor.eth0"], streams={"c": STREAM})).scenario
    assert alone and beside
    assert (alone.first_flow_number, beside.first_flow_number) == (1, 2)
    assert [finding.what for finding in parse(BASE).findings] == ["nothing is measured"]


@pytest.mark.parametrize(
    ("at", "match", "where", "what"),
    [
        (["sensor.eth0:up"], "udp", "at", "'up' is not a direction"),
        (["sensor"], "udp", "at", "'sensor' is not host.interface"),
        (["sensor.eth9"], "udp", "at", "unknown interface of sensor 'eth9'"),
        (["ship.eth0"], "udp", "at", "unknown host 'ship'"),
        (["ship.socket"], "udp", "at", "unknown host 'ship'"),
        (["vm1.ens3"], "udp", "at", "vm1 has no ens3"),
        (["ecu.eth1", "ecu.eth1:in"], "udp", "at", "ecu.eth1 appears twice"),
        (["ecu.eth1"], "udp port", "match", "'udp port': port which?"),
    ],
)
def test_what_is_no_flow_is_one_finding(at: list[str], match: str, where: str, what: str) -> None:
    (found,) = parse(of(at, match)).findings
    assert found.path[:3] == ("flows", "seen", where)
    assert found.what == what


@pytest.mark.parametrize(
    ("more", "what", "expected"),
    [
        ({"at": ["sensor.eth0", "ecu.eth1:in"]}, "sensor.eth0 has two directions", "sensor.eth0:in or sensor.eth0:out"),
        ({"at": ["sensor.eth0:out"]}, "a latency is between two points", "two points"),
        ({"snap": LEAST_JUDGED_SNAP - 1}, "85 bytes of a packet may be headers alone", "86 or more"),
        ({"trigger": "latency > 1min"}, "no packet is found late by latency > 60s", "a duration below 10 s"),
        ({"trigger": "delivery > 1ms"}, "delivery is not judged while packets are watched", "latency, from the first"),
    ],
)
def test_a_trigger_of_what_cannot_be_judged_is_one_finding(more: dict[str, Any], what: str, expected: str) -> None:
    flow = {"match": "udp", "at": ["sensor.eth0:out", "ecu.eth1:in"], "trigger": "latency > 500us"}
    assert not parse(BASE | {"flows": {"seen": flow | {"snap": LEAST_JUDGED_SNAP}}}).findings
    (finding,) = parse(BASE | {"flows": {"seen": flow | more}}).findings
    assert finding.path == ("flows", "seen", "trigger")
    assert what in finding.what and expected in finding.expected


def test_a_trigger_of_a_flow_is_in_real_time() -> None:
    board = {"kind": "board", "time": "virtual"}
    flow = {"match": "udp", "at": ["sensor.eth0:out", "ecu.eth1:in"], "trigger": "latency > 500us"}
    hosts = {"hosts": {"sensor": board, "ecu": board}, "guests": {}}
    found = [one.what for one in parse(BASE | hosts | {"flows": {"seen": flow}}).findings]
    assert any("is in virtual time, which does not wait for requests to keep events" in what for what in found)


def test_a_guest_without_a_tap_has_none_to_watch() -> None:
    guests = {"vm1": {"host": "ecu", "uplink": "eth1", "bridge": "xdp"}}
    (found,) = parse(of(["vm1.tap"], guests=guests)).findings
    assert (found.what, found.expected) == ("bridge xdp has no tap", "vm1.eth0")


def test_a_macvtap_is_read_from_and_sent_by_and_receives_below() -> None:
    guests = {"vm1": {"host": "ecu", "uplink": "eth1", "bridge": "macvtap"}}
    assert not parse(of(["vm1.tap:read", "vm1.tap:out"], guests=guests)).findings
    (found,) = parse(of(["vm1.tap"], guests=guests)).findings
    what = "bridge macvtap: packets that come in are not seen at the guest's macvtap"
    assert (found.what, found.expected) == (what, "vm1.tap:out or vm1.tap:read")


def test_only_from_taps_packets_are_read() -> None:
    (found,) = parse(of(["ecu.eth1:read"])).findings
    assert (found.what, found.expected) == (
        "nothing reads packets from ecu.eth1",
        "in or out; read is of a guest's tap, as in vm1.tap:read",
    )


def test_a_flow_has_a_name_of_its_own() -> None:
    (found,) = parse(of(["sensor.eth0"], streams={"seen": STREAM})).findings
    assert found.what == "seen is a stream already"
