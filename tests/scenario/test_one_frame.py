"""What goes in one frame: the largest size does, and one byte more does not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from latlab.run.entries import frame_count
from latlab.scenario import Loaded, Scenario
from latlab.scenario.models import Room, room

With = Callable[..., Loaded]

PING = {"probe": "ping", "from": "sensor", "to": "ecu"}


def scenario(with_: With, probe: dict[str, Any], mtu: int = 1500) -> Scenario:
    links = [{"ends": ["sensor.eth0", "ecu.eth0"], "mtu": mtu}]
    return with_({"probes.rr": probe, "links": links}).scenario


@pytest.mark.parametrize("mtu", [1500, 9000])
@pytest.mark.parametrize("transport", ["udp", "tcp"])
def test_the_largest_packet_in_one_frame_is_the_last_that_is_sent_in_one(with_: With, transport: str, mtu: int) -> None:
    found = room(scenario(with_, PING | {"transport": transport, "size": "64B"}, mtu), "rr.up")
    assert found is not None and found.is_exact and found.mtu == mtu
    for size, frames in ((found.largest, 1), (found.largest + 1, 2)):
        sent = scenario(with_, PING | {"transport": transport, "size": f"{size}B"}, mtu)
        assert frame_count(sent, sent.flows["rr.up"]) == frames


def test_what_headers_take_is_left_out(with_: With) -> None:
    udp = scenario(with_, PING | {"size": "64B"})
    assert room(udp, "rr") == room(udp, "rr.down") == Room(1500, 1472)
    assert room(scenario(with_, PING | {"size": "64B", "transport": "ethernet"}), "rr") == Room(1500, 1500)
    netperf = {"probe": "netperf", "from": "sensor", "to": "ecu"}
    assert room(scenario(with_, netperf), "rr") == Room(1500, 1448)
    assert room(scenario(with_, netperf | {"test": "UDP_RR"}), "rr") == Room(1500, 1472)


def test_of_a_frame_what_carries_the_probe_and_the_trailer_of_prp_are_left_out(with_: With) -> None:
    goose = {"loads": None, "streams.control.payload": "iec61850-goose"}
    assert room(with_(goose).scenario, "control") == Room(1500, 1500 - 132)
    first = {"talker": "sensor", "listener": "ecu", "period": "1ms", "size": "64B", "group": "01:0c:cd:04:00:01"}
    streams = {"a": first | {"via": "sensor.eth0"}, "b": first | {"via": "sensor.eth1", "prp": "a"}}
    links = [{"ends": [f"sensor.eth{n}", f"ecu.eth{n}"]} for n in (0, 1)]
    pair = with_({"loads": None, "links": links, "streams": streams}).scenario
    assert room(pair, "a") == room(pair, "b") == Room(1500, 1500 - 6)


def test_over_dds_it_is_what_the_protocol_leaves_at_most(with_: With) -> None:
    dds = scenario(with_, PING | {"probe": "dds", "size": "64B"})
    ddsperf = scenario(with_, PING | {"probe": "ddsperf", "size": "64B"})
    assert room(dds, "rr") == Room(1500, 1500 - 28 - 48 - 4, is_exact=False)
    assert room(ddsperf, "rr") == Room(1500, 1500 - 28 - 48, is_exact=False)


def test_what_sends_no_packets_has_no_frame(with_: With) -> None:
    assert room(scenario(with_, {"probe": "timer", "on": "ecu"}), "rr") is None
    assert room(scenario(with_, PING | {"size": "64B"}), "nobody") is None
