"""Impossible values and combinations: each is refused where it stands, with what was expected."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from latlab.scenario import Loaded

Said = Callable[[dict[str, Any]], list[str]]
C = "streams.control."
SECOND_LINK = {"ends": ["sensor.eth1", "ecu.eth1"]}
SECOND = {"talker": "sensor", "listener": "ecu", "period": "1ms", "size": "64B"}

WRONG: list[tuple[dict[str, Any], str, str]] = [
    # what is put into the base scenario, the path that is named, a part of what is said
    ({"name": "Base"}, "name", "'Base' is not a name"),
    ({"hosts.Ecu2": {"kind": "netns"}}, "hosts.Ecu2", "is not a name"),
    ({"hosts.ecu.kind": "vm"}, "hosts.ecu", "unknown kind 'vm'; expected one of local, netns"),
    ({"hosts.ecu.kind": "netn"}, "hosts.ecu", "unknown kind 'netn'; expected netns? (known: local, netns"),
    ({"hosts.ecu": {}}, "hosts.ecu", "kind is missing"),
    ({"hosts": 3}, "hosts", "3 is not a mapping"),
    ({"links": {}}, "links", "{} is not a list"),
    ({"links.0.ends": ["sensor.eth0"]}, "links[0].ends", "a link has two ends, this one 1"),
    ({"links.0.ends": ["sensor.eth0", "ecu"]}, "links[0].ends[1]", "is not host.interface"),
    ({"links.0.ends": ["sensor.eth0", "sensor.eth0"]}, "links[0].ends[1]", "is already an end"),
    ({"links.0.ends": ["sensor.eth0", "gw.eth0"]}, "links[0].ends[1]", "unknown host 'gw'"),
    (
        {"links.0.ends": ["sensor.eth0", "ecu." + "x" * 16]},
        "links[0].ends[1]",
        "has 16 characters, the kernel takes 15",
    ),
    ({"links.0.ends": ["sensor.eth0", "ecu."]}, "links[0].ends[1]", "the kernel refuses"),
    ({"links.0.ends": ["sensor.eth0", "ecu.a/b"]}, "links[0].ends[1]", "the kernel refuses"),
    ({"links.0.ends": ["sensor.eth0", "ecu.a b"]}, "links[0].ends[1]", "the kernel refuses"),
    ({"links.0.ends": ["sensor.eth0", "ecu.a:b"]}, "links[0].ends[1]", "the kernel refuses"),
    ({"links.0.ends": ["sensor.eth0", "ecu..."]}, "links[0].ends[1]", "the kernel refuses"),
    ({"links.0.ends": ["sensor.eth0", "ecu.lo"]}, "links[0].ends[1]", "loopback"),
    (
        {"links.1": {"ends": ["sensor.eth0", "ecu.eth1"]}},
        "links[1].ends[0]",
        "sensor.eth0 is already an end of links[0]",
    ),
    ({"links.0.queues": 17}, "links[0].queues", "17 is too large; expected 16 or less"),
    ({"links.0.mtu": 67}, "links[0].mtu", "67 is too small; expected 68 or more"),
    ({"links.0.subnet": "10.0.0.0/31"}, "links[0].subnet", "/31 is not a prefix for a link"),
    ({"links.0.subnet": "10.0.0.1/24"}, "links[0].subnet", "expected 10.0.0.0/24"),
    ({"links.0.subnet": "127.0.0.0/8"}, "links[0].subnet", "cannot have addresses"),
    ({"links.0.subnet": "fd00::/64"}, "links[0].subnet", "is not a network"),
    (
        {"links.1": SECOND_LINK | {"subnet": "10.78.0.0/16"}, C + "via": "sensor.eth0"},
        "links[1].subnet",
        "overlaps",
    ),
    ({"clock.sync": "ptp"}, "clock.sync", "expected auto, shared or exchange"),
    ({C + "talker": "sensr"}, "streams.control.talker", "unknown host 'sensr'; expected sensor?"),
    ({C + "listener": "sensor"}, "streams.control.listener", "would send to itself"),
    ({"links": []}, "streams.control", "expected a link such as {ends: [sensor.eth0, ecu.eth0]} in links"),
    ({"links.1": SECOND_LINK}, "streams.control", "expected via: sensor.eth0 or sensor.eth1"),
    ({C + "via": "sensor.eth9"}, "streams.control.via", "unknown path 'sensor.eth9'"),
    ({C + "period": "999ns"}, "streams.control.period", "expected 1us or more"),
    ({C + "offset": "1ms"}, "streams.control.offset", "a period or more; expected less than 1ms"),
    ({C + "size": "39B"}, "streams.control.size", "expected 40B or more"),
    ({C + "size": "65508B"}, "streams.control.size", "expected 65507B or less"),
    ({C + "size": "1473B"}, "streams.control.size", "would be fragmented; expected 1472B or less (mtu 1500)"),
    ({C + "size": "1501B", C + "transport": "ethernet"}, "streams.control.size", "expected 1500B or less"),
    ({C + "priority": 16}, "streams.control.priority", "expected 15 or less"),
    ({C + "priority": True}, "streams.control.priority", "true is not a whole number"),
    ({C + "vlan": 4095}, "streams.control.vlan", "4095 is not a VLAN id; expected 1 to 4094"),
    ({C + "vlan": 0}, "streams.control.vlan", "0 is not a VLAN id; expected 1 to 4094"),
    ({C + "vlan": 5, C + "transport": "udp"}, "streams.control.vlan", "expected transport: ethernet"),
    ({C + "pcp": 5}, "streams.control.pcp", "expected a vlan in addition"),
    ({C + "port": 80, C + "transport": "ethernet"}, "streams.control.port", "raw frames have no port"),
    ({C + "ethertype": 0x88B6}, "streams.control.ethertype", "expected transport: ethernet"),
    (
        {C + "ethertype": 0x5FF, C + "transport": "ethernet"},
        "streams.control.ethertype",
        "expected 1536 or more",
    ),
    ({C + "launch_time": {"clock": "boottime"}}, "streams.control.launch_time.clock", "expected tai, monotonic or"),
    ({C + "launch_time": {"late": "skip"}}, "streams.control.launch_time.late", "expected report, drop or send"),
    ({C + "launch_time": {"late": "send"}}, "streams.control.launch_time.late", "expected an allowed_lateness"),
    (
        {C + "launch_time": {"allowed_lateness": "1ms"}},
        "streams.control.launch_time.allowed_lateness",
        "late: report sends no packet later than asked; expected late: send",
    ),
    (
        {C + "launch_time": {"late": "drop", "margin": "1us"}},
        "streams.control.launch_time.margin",
        "late: drop sends no packet later than asked; expected late: send",
    ),
    (
        {C + "launch_time": {"late": "send", "allowed_lateness": "1ms", "margin": "300us"}},
        "streams.control.launch_time.margin",
        "expected less than the lead, 300us",
    ),
    ({C + "launch_time": {"batch": 65}}, "streams.control.launch_time.batch", "expected 64 or less"),
    ({C + "launch_time": "yes"}, "streams.control.launch_time", "'yes' is not a mapping"),
    (
        {"streams": {}},
        "streams",
        "nothing is measured; expected a stream in streams, a probe in probes, or a flow in flows",
    ),
    (
        {C + "period": "1us", "streams.fast": SECOND | {"period": "1us"}, "streams.more": SECOND},
        "streams.more.period",
        "2001000 packets/s; expected 2000000",
    ),
    (
        {C + "period": "1us", "duration": "2h"},
        "streams.control.period",
        "7200000000 packets; expected 4294967295",
    ),
    ({C + "offset": "900us", "duration": "900us"}, "streams.control", "no packet is launched within 900us"),
    ({"streams.b": SECOND | {"port": 5557}}, "streams.b.port", "port 5557 of ecu is taken by control"),
    ({"loads.none": {"kind": "flood", "from": "sensor", "to": "ecu"}}, "loads.none", "cannot be named none"),
    ({"loads.same.to": "sensor"}, "loads.same.to", "would send to itself"),
    ({"loads.same.from": "gone"}, "loads.same.from", "unknown host 'gone'"),
    ({"loads.same.flows": 0}, "loads.same.flows", "expected 1 or more"),
    ({"loads.same.rate": "100"}, "loads.same.rate", "expected max or a rate such as 100Mbit/s"),
    ({"loads.same.rate": "0bit/s"}, "loads.same.rate", "nothing would be sent"),
    ({"loads.back.protocol": "sctp"}, "loads.back.protocol", "expected udp or tcp"),
    ({"loads.back.instances": 33}, "loads.back.instances", "expected 32 or less"),
    ({"tuning.gone": {}}, "tuning.gone", "unknown host 'gone'"),
    ({"tuning.ecu.talker.fifo": 100}, "tuning.ecu.talker.fifo", "expected 99 or less"),
    ({"tuning.ecu.talker.cpus": []}, "tuning.ecu.talker.cpus", "an empty list of CPUs"),
    ({"tuning.ecu.talker.cpus": [1, 1]}, "tuning.ecu.talker.cpus", "a CPU twice"),
    (
        {"tuning.ecu.talker.cpu_dma_latency": "1500ns"},
        "tuning.ecu.talker.cpu_dma_latency",
        "a whole number of us",
    ),
    ({"tuning.ecu.listener.mode": "spin"}, "tuning.ecu.listener.mode", "on every CPU would stop the machine"),
    (
        {"tuning.ecu.listener": {"mode": "busy-poll", "busy_poll": None}},
        "tuning.ecu.listener.busy_poll",
        "without a time",
    ),
    ({"duration": None}, "duration", "missing; expected how long each cell sends"),
    ({"warmup": "10s"}, "warmup", "no time is left after a warm-up of 10s; expected less than duration, 10s"),
    ({"repeat": 0}, "repeat", "expected 1 or more"),
    ({"repeat": 1001}, "repeat", "expected 1000 or less"),
    ({"seed": -1}, "seed", "expected 0 or more"),
    ({"accept/gone.latency.max": "1us"}, "accept.gone.latency.max", "unknown stream 'gone'"),
    (
        {"accept/control.latensy.max": "1us"},
        "accept.control.latensy.max",
        "unknown metric 'latensy'; expected latency?",
    ),
    ({"accept/control.latency.p98": "1us"}, "accept.control.latency.p98", "unknown statistic 'p98'"),
    ({"accept/control.latency": "1us"}, "accept.control.latency", "does not name a statistic"),
    ({"accept/control.latency.max": 5}, "accept.control.latency.max", "5 has no unit"),
    ({"accept/control.counts.lost": "1us"}, "accept.control.counts.lost", "is not a number of packets"),
    ({"accept/control.counts.sent": 1}, "accept.control.counts.sent", "unknown count 'sent'"),
]


@pytest.mark.parametrize(("values", "path", "what"), WRONG, ids=[f"{path}-{what}"[:60] for _, path, what in WRONG])
def test_what_is_impossible_is_refused_where_it_stands(
    said: Said, values: dict[str, Any], path: str, what: str
) -> None:
    found = said(values)
    assert any(line.startswith(f"{path}: ") and what in line for line in found), found


FINE: list[dict[str, Any]] = [
    {
        "links.1": SECOND_LINK,
        C + "via": "sensor.eth1",
        "loads.same.via": "sensor.eth0",
        "loads.back.via": "ecu.eth1",
    },
    {C + "size": "1472B"},
    {C + "size": "1500B", C + "vlan": 5},
    {C + "transport": "ethernet", C + "vlan": 5, C + "pcp": 3, C + "ethertype": 0x88B6},
    {"hosts.ecu.kind": "local", "links.0.ends": ["sensor.eth0", "ecu.eth0.5"]},
    {"tuning.ecu.listener": {"mode": "spin", "cpus": [1]}},
    {"tuning.ecu.listener": {"mode": "spin", "fifo": None}},
    {"accept/control.latency.p99.99": "1ms", "accept/control.counts.lost": 0, "duration": "37s"},
]


@pytest.mark.parametrize("values", FINE, ids=[",".join(values)[:60] for values in FINE])
def test_what_is_possible_is_accepted(said: Said, values: dict[str, Any]) -> None:
    assert said(values) == []


def test_ip_between_two_local_hosts_is_refused_because_it_never_reaches_the_cable(said: Said) -> None:
    local = {"hosts.sensor.kind": "local", "hosts.ecu.kind": "local", "links.0.ends": ["sensor.p1", "ecu.p2"]}
    found = said(local | {"loads": {}})
    assert found == [
        "streams.control: IP from sensor to ecu, both local, would go over loopback; "
        "expected one of them of kind netns, or transport: ethernet"
    ]
    assert said(local | {"loads": {}, C + "transport": "ethernet"}) == []


def test_two_local_hosts_cannot_share_an_interface(said: Said) -> None:
    found = said({"hosts.sensor.kind": "local", "hosts.ecu.kind": "local"})
    assert any(line.startswith("links[0].ends[1]: ecu.eth0 is already an end") for line in found)


def test_a_broken_link_does_not_make_streams_look_unconnected(said: Said) -> None:
    assert said({"links.0.queues": 0}) == ["links[0].queues: 0 is too small; expected 1 or more"]


def test_a_broken_stream_hides_no_mistake_elsewhere(said: Said) -> None:
    found = said({C + "size": 64, "warmup": "11s", "tuning.ecu.listener.mode": "spin", "loads.same.to": "x"})
    assert sorted(line.split(": ")[0] for line in found) == [
        "loads.same.to",
        "streams.control.size",
        "tuning.ecu.listener.mode",
        "warmup",
    ]


def test_a_scenario_cannot_be_changed_after_loading(with_: Callable[..., Loaded]) -> None:
    scenario = with_().scenario
    with pytest.raises(ValueError, match="frozen"):
        scenario.duration = 1
