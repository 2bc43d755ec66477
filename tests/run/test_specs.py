"""The agents' specs follow from the scenario, in the words of docs/reference/agent.md."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from latlab.run.entries import stream_entries
from latlab.run.specs import (
    BedFacts,
    clock_specs,
    listen_spec,
    listeners,
    talk_spec,
    talkers,
)
from latlab.scenario import Scenario

Make = Callable[..., Scenario]
RUN = "8f3c5e0d12ab34cd"
BED = BedFacts({"sensor.eth0": "02:00:00:00:00:01", "ecu.eth1": "02:00:00:00:00:02"})


def stream(**parts: Any) -> dict[str, Any]:
    return {"talker": "sensor", "listener": "ecu", "period": "1ms", "size": "64B"} | parts


def launched(small: Scenario) -> dict[str, Any]:
    """How the first stream's packets have launch times, as cell.json has it."""
    launch: dict[str, Any] = stream_entries(small)[0].document()["launch_time"]
    return launch


def test_a_talker_is_reported_its_streams_and_how_to_run(scenario: Make) -> None:
    assert talk_spec(scenario(), "sensor", BED, RUN, "/run/talker-sensor") == {
        "run_id": RUN,
        "recording": "/run/talker-sensor",
        "realtime": {
            "fifo": 90,
            "cpus": None,
            "lock_memory": True,
            "cpu_dma_latency_us": 0,
            "timer_slack_ns": 1,
        },
        "busy_wait_ns": 0,
        "stamps": {"sched": True, "software": True, "hardware": False, "key": "auto", "by": "auto"},
        "streams": [
            {
                "stream": 1,
                "name": "control",
                "interface": "eth0",
                "period_ns": 1_006_000,
                "offset_ns": 0,
                "size": 64,
                "count": 1989,
                "priority": 7,
                "batch": 1,
                "launch_time": None,
                "transport": {"kind": "udp", "source": "10.78.0.1:0", "destination": "10.78.0.2:5557"},
            }
        ],
    }


@pytest.mark.parametrize(("by", "taken_by"), [("auto", "socket"), ("ebpf", "ebpf"), ("both", "both")])
def test_on_an_emulated_kernel_programs_take_timestamps_by_request_alone(
    scenario: Make, by: str, taken_by: str
) -> None:
    asked = scenario(timestamps={"by": by})
    bed = replace(BED, emulated=frozenset({"ecu"}))
    assert talk_spec(asked, "sensor", bed, RUN, "")["stamps"]["by"] == by
    assert listen_spec(asked, "ecu", bed, RUN, "")["stamps_by"] == taken_by


def test_both_ends_are_reported_who_takes_the_kernels_timestamps(scenario: Make) -> None:
    asked = scenario(timestamps={"by": "socket"})
    assert talk_spec(asked, "sensor", BED, RUN, "")["stamps"]["by"] == "socket"
    assert listen_spec(asked, "ecu", BED, RUN, "")["stamps_by"] == "socket"


def test_a_listener_is_reported_the_same_streams_from_its_side(scenario: Make) -> None:
    spec = listen_spec(scenario(), "ecu", BED, RUN, "/run/listener-ecu")
    assert {**spec, "realtime": None} == {
        "run_id": RUN,
        "recording": "/run/listener-ecu",
        "realtime": None,
        "mode": "block",
        "busy_poll_us": None,
        "hardware_stamps": False,
        "stamps_by": "auto",
        "streams": [
            {
                "stream": 1,
                "name": "control",
                "interface": "eth1",
                "size": 64,
                "count": 1989,
                "transport": {"kind": "udp", "listen": "10.78.0.2:5557"},
            }
        ],
    }
    assert spec["realtime"]["fifo"] == 80


def test_frames_go_to_the_listener_s_own_address_with_the_stream_s_tag(scenario: Make) -> None:
    small = scenario(streams={"frames": stream(vlan=5, priority=6)})
    (talked,) = talk_spec(small, "sensor", BED, RUN, "")["streams"]
    (listened,) = listen_spec(small, "ecu", BED, RUN, "")["streams"]
    to = {"kind": "ethernet", "destination": "02:00:00:00:00:02"}
    assert talked["transport"] == to | {"ethertype": 0x88B5, "vlan": 5, "pcp": 6}
    assert listened["transport"] == {"kind": "ethernet", "ethertype": 0x88B5, "vlan": 5}


def test_each_host_is_reported_only_what_it_does(scenario: Make) -> None:
    both = {"there": stream(), "back": stream(talker="ecu", listener="sensor"), "more": stream(period="7ms")}
    small = scenario(streams=both)
    assert (talkers(small), listeners(small)) == (["sensor", "ecu"], ["ecu", "sensor"])
    said = {host: talk_spec(small, host, BED, RUN, "")["streams"] for host in talkers(small)}
    assert {host: [one["name"] for one in streams] for host, streams in said.items()} == {
        "sensor": ["there", "more"],
        "ecu": ["back"],
    }
    assert [one["stream"] for one in said["sensor"]] == [1, 3]
    ports = [one["transport"]["destination"].split(":")[1] for one in said["sensor"]]
    assert ports == ["5557", "5559"]
    heard = listen_spec(small, "ecu", BED, RUN, "")["streams"]
    assert [one["transport"]["listen"] for one in heard] == ["10.78.0.2:5557", "10.78.0.2:5559"]


def test_a_launch_time_brings_its_lead_and_its_batch(scenario: Make) -> None:
    launch = {"lead": "500us", "batch": 8, "deadline": True}
    small = scenario(streams={"control": stream(launch_time=launch)})
    (talked,) = talk_spec(small, "sensor", BED, RUN, "")["streams"]
    assert talked["batch"] == 8
    left_to_the_kernel = {"late": "report", "allowed_lateness_ns": 0, "margin_ns": 50_000}
    assert talked["launch_time"] == {"lead_ns": 500_000, "clock": "tai", "deadline": True, **left_to_the_kernel}
    assert launched(small) == talked["launch_time"]


def test_a_stream_by_a_vlan_interface_is_sent_there_and_told_with_its_port_and_its_tag(scenario: Make) -> None:
    links = [{"ends": ["sensor.eth0", "ecu.eth1"], "vlans": {"5": {}}}]
    small = scenario(links=links, streams={"control": stream(via="sensor.eth0.5", priority=7)})
    (talked,) = talk_spec(small, "sensor", BED, RUN, "")["streams"]
    (listened,) = listen_spec(small, "ecu", BED, RUN, "")["streams"]
    assert (talked["interface"], talked["transport"]["destination"]) == ("eth0.5", "10.80.0.2:5557")
    assert (listened["interface"], listened["transport"]["listen"]) == ("eth1.5", "10.80.0.2:5557")
    (entry,) = stream_entries(small)
    assert (entry.interface, entry.port, entry.vlan) == ("eth0.5", "eth0", 5)


def test_a_launch_time_brings_its_clock_and_what_becomes_of_late_packets(scenario: Make) -> None:
    launch = {"lead": "1ms", "clock": "monotonic", "late": "send", "allowed_lateness": "2ms", "margin": "20us"}
    small = scenario(streams={"control": stream(launch_time=launch)})
    (talked,) = talk_spec(small, "sensor", BED, RUN, "")["streams"]
    late = {"late": "send", "allowed_lateness_ns": 2_000_000, "margin_ns": 20_000}
    assert talked["launch_time"] == {"lead_ns": 1_000_000, "clock": "monotonic", "deadline": False, **late}
    assert launched(small) == talked["launch_time"]


def test_tuning_reaches_the_agents_of_its_host(scenario: Make) -> None:
    tuning = {
        "sensor": {"talker": {"fifo": 42, "cpus": [1], "busy_wait": "20us", "cpu_dma_latency": None}},
        "ecu": {"listener": {"fifo": None, "mode": "busy-poll", "busy_poll": "30us", "lock_memory": False}},
    }
    small = scenario(tuning=tuning)
    talked, listened = talk_spec(small, "sensor", BED, RUN, ""), listen_spec(small, "ecu", BED, RUN, "")
    assert talked["busy_wait_ns"] == 20_000
    shared = {"timer_slack_ns": 1}
    assert talked["realtime"] == shared | {
        "fifo": 42,
        "cpus": [1],
        "lock_memory": True,
        "cpu_dma_latency_us": None,
    }
    assert (listened["mode"], listened["busy_poll_us"]) == ("busy-poll", 30)
    assert (listened["realtime"]["fifo"], listened["realtime"]["lock_memory"]) == (None, False)


def test_hardware_timestamps_are_asked_for_only_where_the_interface_makes_them(scenario: Make) -> None:
    bed = BedFacts(BED.macs, frozenset({"ecu.eth1"}))
    assert not talk_spec(scenario(), "sensor", bed, RUN, "")["stamps"]["hardware"]
    assert listen_spec(scenario(), "ecu", bed, RUN, "")["hardware_stamps"]


def test_the_two_sides_of_a_clock_exchange_name_each_other(scenario: Make) -> None:
    small = scenario()
    route = small.route("control")
    asks, answers = clock_specs(route, RUN, "/run/clock-sensor-ecu", 700)
    assert (asks["role"], answers["role"]) == ("initiator", "responder")
    assert (
        (asks["source"], asks["peer"]) == (answers["peer"], answers["listen"]) == ("10.78.0.1:5556", "10.78.0.2:5556")
    )
    assert (asks["count"], asks["recording"], asks["run_id"]) == (700, "/run/clock-sensor-ecu", answers["run_id"])


def test_the_cell_document_lists_every_stream_as_it_is_sent(scenario: Make) -> None:
    small = scenario(streams={"control": stream(period="3ms", offset="1ms"), "frames": stream(vlan=9)})
    entries = stream_entries(small)
    assert [(one.name, one.stream, one.transport, one.vlan) for one in entries] == [
        ("control", 1, "udp", None),
        ("frames", 2, "ethernet", 9),
    ]
    told = talk_spec(small, "sensor", BED, RUN, "")["streams"]
    for entry, said in zip(entries, told, strict=True):
        shared = ("name", "stream", "period_ns", "offset_ns", "size", "count", "priority", "launch_time")
        assert {key: entry.document()[key] for key in shared} == {key: said[key] for key in shared}
        assert (entry.talker, entry.listener) == ("sensor", "ecu")
