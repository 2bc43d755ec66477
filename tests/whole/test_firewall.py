"""A firewall that rejects what the lab sends is named, with the port, whichever side notices it first."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.command import SMALL, Place
from support.machine import private_network, run

pytestmark = pytest.mark.real

PLACES: dict[str, Any] = {
    "hosts": {"sensor": {"kind": "netns"}, "me": {"kind": "local"}},
    "links": [{"ends": ["sensor.eth0", "me.cable0"]}],
    "streams": None,
    "loads": None,
    "matrix": None,
    "duration": "500ms",
    "warmup": "100ms",
}
STREAMS = {"control": SMALL["streams"]["control"] | {"listener": "me"}}


@pytest.fixture
def walled(tmp_path: Path) -> Iterator[Place]:
    """A machine that answers all that comes in by cable0 with ICMP, as a firewall does that rejects."""
    with private_network(), Place(tmp_path) as place:
        run("ip", "rule", "add", "pref", "10", "lookup", "local")
        run("ip", "rule", "del", "pref", "0")
        run("ip", "rule", "add", "pref", "5", "iif", "cable0", "ipproto", "udp", "prohibit")
        run("ip", "rule", "add", "pref", "6", "iif", "cable0", "ipproto", "tcp", "prohibit")
        # Only a host that forwards answers with ICMP where a route forbids a packet.
        run("sysctl", "-qw", "net.ipv4.conf.all.forwarding=1", "net.ipv4.conf.default.forwarding=1")
        yield place


REJECTED: dict[str, tuple[dict[str, Any], str]] = {
    "a probe": (
        {"probes": {"rr": {"probe": "ping", "from": "sensor", "to": "me", "period": "1ms", "size": "64B"}}},
        "a firewall rejects UDP port 5557 of 10.78.0.2: allow it there",
    ),
    "a probe over TCP": (
        {"probes": {"rr": {"probe": "ping", "from": "sensor", "to": "me", "size": "64B", "transport": "tcp"}}},
        "a firewall rejects TCP port 5557 of 10.78.0.2: allow it there",
    ),
    "iperf3": (
        {
            "streams": STREAMS,
            "loads": {"tcp": {"kind": "iperf3", "from": "sensor", "to": "me", "protocol": "tcp", "rate": "10Mbit/s"}},
        },
        "a firewall rejects TCP port 5600 of me: allow it there",
    ),
}


@pytest.mark.parametrize(("parts", "remedy"), REJECTED.values(), ids=REJECTED)
def test_a_probe_or_a_load_that_is_rejected_fails_its_cell_and_names_the_port(
    walled: Place, parts: dict[str, Any], remedy: str
) -> None:
    ended = walled.latlab("run", walled.scenario(**PLACES | parts))
    assert ended.status == 3
    assert remedy in ended.out


def test_of_a_stream_that_is_rejected_the_errno_and_the_port_are_named(walled: Place) -> None:
    ended = walled.latlab("run", walled.scenario(**PLACES | {"streams": STREAMS}), "--json")
    assert ended.status == 4
    reasons = {reason["id"]: reason for reason in ended.document["reasons"]}
    rejected = reasons["icmp-rejected"]
    assert re.fullmatch(r"at least [1-9]\d* packets: No route to host \(113\)", rejected["actual"])
    (stream,) = ended.document["cells"][0]["streams"].values()
    assert (stream["counts"]["sent"], stream["counts"]["send_errors"]) == (500, 0)
    assert rejected["remedy"].startswith("a firewall rejects UDP port 5557 of me: allow it there")
    assert "that the firewall on me accepts UDP port 5557 of me" in reasons["packets-arrived"]["remedy"]
