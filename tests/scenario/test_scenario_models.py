"""What follows from a scenario: defaults, routes, addresses, numbers, counts, limits."""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import IPv4Interface

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latlab.scenario import AcceptLimit, End, Loaded, parse
from latlab.scenario.streams import Stream, packet_count

With = Callable[..., Loaded]
TWO_LINKS = {
    "links.1": {"ends": ["ecu.eth1", "sensor.eth1"], "subnet": "192.168.7.0/30"},
    "streams.control.via": "sensor.eth1",
    "loads": {},
}


def test_defaults_are_those_of_the_description(with_: With) -> None:
    scenario = with_().scenario
    stream, link = scenario.streams["control"], scenario.links[0]
    assert (scenario.clock.sync, scenario.warmup, scenario.settle, scenario.repeat) == (
        "auto",
        0,
        200_000_000,
        1,
    )
    assert (link.queues, link.mtu, link.subnet) == (1, 1500, None)
    assert (stream.transport, stream.priority, stream.offset, stream.vlan, stream.pcp) == (
        "udp",
        0,
        0,
        None,
        None,
    )
    assert (stream.ethertype, stream.launch_time) == (0x88B5, None)


def test_a_host_without_tuning_has_the_defaults(with_: With) -> None:
    tuning = with_({"tuning.ecu.listener.mode": "busy-poll"}).scenario.tuning_of("sensor")
    assert (tuning.talker.fifo, tuning.talker.busy_wait, tuning.talker.lock_memory) == (90, 0, True)
    assert (tuning.talker.cpu_dma_latency_us, tuning.talker.timer_slack, tuning.talker.cpus) == (0, 1, None)
    assert (tuning.listener.fifo, tuning.listener.mode, tuning.listener.busy_poll_us) == (80, "block", None)
    assert (tuning.load.fifo, tuning.load.cpus) == (None, None)


def test_busy_poll_polls_for_50_us_unless_told_otherwise(with_: With) -> None:
    listener = with_({"tuning.ecu.listener.mode": "busy-poll"}).scenario.tuning_of("ecu").listener
    assert listener.busy_poll_us == 50


def test_a_vlan_makes_a_stream_raw_frames_with_its_priority_in_the_tag(with_: With) -> None:
    stream = with_({"streams.control.vlan": 5, "streams.control.priority": 9}).scenario.streams["control"]
    assert (stream.transport, stream.pcp) == ("ethernet", 7)


@pytest.mark.parametrize(("given", "lead"), [(False, None), (True, 300_000), ({"lead": "1ms"}, 1_000_000)])
def test_launch_time_is_off_on_or_set(with_: With, given: object, lead: int | None) -> None:
    launch_time = with_({"streams.control.launch_time": given}).scenario.streams["control"].launch_time
    assert (launch_time.lead if launch_time else None) == lead


def test_streams_are_numbered_from_1_and_listened_to_on_ports_from_5557(with_: With) -> None:
    second = {"talker": "ecu", "listener": "sensor", "period": "2ms", "size": "40B"}
    scenario = with_({"streams.a": second, "streams.b": second | {"port": 9000}}).scenario
    assert [scenario.stream_number(name) for name in ("control", "a", "b")] == [1, 2, 3]
    assert [scenario.port(name) for name in ("control", "a", "b")] == [5557, 5558, 9000]


def test_a_route_has_the_talkers_end_first_whichever_way_the_link_is_written(with_: With) -> None:
    scenario = with_(TWO_LINKS).scenario
    route = scenario.route("control")
    assert (route.talker_end, route.listener_end) == (End("sensor", "eth1"), End("ecu", "eth1"))
    assert (route.segment.number, route.segment.link) == (1, scenario.links[1])


def test_a_loads_route_goes_from_its_source_to_its_target(with_: With) -> None:
    route = with_().scenario.load_route("back")
    assert (str(route.talker_end), str(route.listener_end)) == ("ecu.eth0", "sensor.eth0")


def test_the_ends_of_a_link_get_the_first_two_addresses_of_its_network(with_: With) -> None:
    scenario = with_(TWO_LINKS).scenario
    assert scenario.address(End("sensor", "eth0")) == IPv4Interface("10.78.0.1/24")
    assert scenario.address(End("ecu", "eth0")) == IPv4Interface("10.78.0.2/24")
    assert scenario.address(End("ecu", "eth1")) == IPv4Interface("192.168.7.1/30")
    with pytest.raises(KeyError, match=r"ecu\.eth9"):
        scenario.address(End("ecu", "eth9"))


@pytest.mark.parametrize(("kinds", "created"), [("netns netns", True), ("netns local", True), ("local local", False)])
def test_a_link_is_created_where_a_host_is(with_: With, kinds: str, created: bool) -> None:
    sensor, ecu = kinds.split()
    values = {"hosts.sensor.kind": sensor, "hosts.ecu.kind": ecu, "links.0.ends": ["sensor.p1", "ecu.p2"]}
    scenario = with_(values | {"loads": {}, "streams.control.transport": "ethernet"}).scenario
    assert scenario.link_is_created(scenario.links[0]) is created


@given(st.integers(1_000, 10**7), st.integers(0, 10**7), st.integers(1, 10**9))
def test_the_packet_count_is_the_number_of_launches_before_the_end(period: int, offset: int, duration: int) -> None:
    stream = Stream.model_validate(
        {"talker": "a", "listener": "b", "period": f"{period}ns", "offset": f"{offset}ns", "size": "64B"}
    )
    count = packet_count(stream, duration)
    assert count == 0 or offset + (count - 1) * period < duration
    assert offset + count * period >= duration


def test_packets_of_the_warm_up_count(with_: With) -> None:
    scenario = with_({"streams.control.period": "1006us", "warmup": "1s"}).scenario
    assert scenario.packet_count("control") == 9941  # ceil(10 s / 1006 us)


def test_limits_carry_the_keys_of_the_result(with_: With) -> None:
    accept = {"accept/control.latency_user.p99.9": "500us", "accept/control.counts.lost": 3}
    assert with_(accept).scenario.limits() == [
        AcceptLimit("control.latency_user.p99.9", "control", "latency_user", "p99_9", 500_000),
        AcceptLimit("control.counts.lost", "control", "counts", "lost", 3),
    ]


def test_a_dumped_scenario_reads_back_as_the_same(with_: With) -> None:
    scenario = with_({"streams.control.launch_time": True, "tuning.ecu.load.cpus": [0]}).scenario
    dumped = scenario.model_dump(mode="json", by_alias=True, exclude_unset=True)
    assert parse(dumped).scenario == scenario
