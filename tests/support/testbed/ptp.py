"""Scenarios with PTP: two namespaces of this machine, two emulated boards, two namespaces of one board."""

from __future__ import annotations

from typing import Any

from latlab.scenario import Scenario, parse
from latlab.testbed.site import Site
from support.machine import scenario

SITE = Site("0a9f")
ROLES = {"sensor.eth0": "master", "ecu.lat0": "slave"}
CARDS = {"board1.eth0": "master", "board2.eth0": "slave"}


def made(**ptp: Any) -> Scenario:
    """Two namespaces of this machine."""
    return scenario({"sensor": "netns", "ecu": "netns"}, clock={"ptp": {"ports": ROLES} | ptp})


def boards(**parts: Any) -> Scenario:
    """Two emulated boards and a cable, or two namespaces of one."""
    raw = {
        "name": "small",
        "hosts": {name: {"kind": "board", "nics": 1} for name in ("board1", "board2")},
        "links": [{"ends": ["board1.eth0", "board2.eth0"]}],
        "streams": {"control": {"talker": "board1", "listener": "board2", "period": "1ms", "size": "64B"}},
        "clock": {"ptp": {"ports": CARDS}},
        "duration": "1s",
    }
    parsed = parse(raw | parts)
    assert parsed.scenario, parsed.findings
    return parsed.scenario


ONE_BOARD: dict[str, Any] = {
    "hosts": {
        "board1": {"kind": "board", "nics": 2},
        "sensor": {"kind": "netns", "on": "board1", "cards": ["eth0"]},
        "ecu": {"kind": "netns", "on": "board1", "cards": ["eth1"]},
    },
    "links": [{"ends": ["sensor.eth0", "ecu.eth1"]}],
    "streams": {"control": {"talker": "sensor", "listener": "ecu", "period": "1ms", "size": "64B"}},
    "clock": {"ptp": {"ports": {"sensor.eth0": "master", "ecu.eth1": "slave"}}},
}


def chain(*ports: str, **parts: Any) -> Scenario:
    """Three machines in a row, the one in the middle with two cards; ports: `end role`, in this order."""
    return boards(
        hosts={name: {"kind": "ssh"} for name in ("b1", "b2", "b3")},
        links=[{"ends": ["b1.eth0", "b2.eth0"]}, {"ends": ["b2.eth1", "b3.eth0"]}],
        streams={"control": {"talker": "b1", "listener": "b2", "period": "1ms", "size": "64B"}},
        clock={"ptp": {"ports": dict(port.split() for port in ports), **parts}},
    )
