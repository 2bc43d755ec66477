"""The fast path next to a kernel bridge that distinguishes VLANs, on a kernel whose bridge can."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from support.emulated.machine import AGENT, IP, Conversation, Machine

BRIDGE = "/usr/sbin/bridge"
SWITCH = "switch"
STATIONS = {"left": "02:00:00:00:00:01", "right": "02:00:00:00:00:02"}
COUNT = 20
PERIOD_NS = 2_000_000
MEMBERS: dict[str, dict[str, tuple[str, ...]]] = {
    "left": {"5": (), "6": (), "7": ()},
    "right": {"5": (), "6": ("untagged",)},
}
"""VLANs of each port next to 1, in which untagged frames are."""


class Switch:
    """`br0` with `vlan_filtering` in namespace `switch`; it knows the station behind each of its two ports."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        lines = ["modprobe bridge"]
        for name in (SWITCH, *STATIONS):
            lines.append(f"{IP} netns add {name}")
            lines.append(f"{IP} netns exec {name} sh -c 'echo 1 >/proc/sys/net/ipv6/conf/default/disable_ipv6'")
        bridge = "br0 type bridge stp_state 0 forward_delay 0 mcast_snooping 0 vlan_filtering 1"
        lines += [f"{IP} -n {SWITCH} link add {bridge}", f"{IP} -n {SWITCH} link set br0 up"]
        for name, mac in STATIONS.items():
            lines += [
                f"{IP} -n {SWITCH} link add {name} type veth peer name eth0 netns {name}",
                f"{IP} netns exec {name} /usr/sbin/ethtool -K eth0 gro on",
                f"{IP} -n {name} link set eth0 address {mac} up",
                f"{IP} -n {SWITCH} link set {name} master br0 up",
                f"{BRIDGE} -n {SWITCH} fdb replace {mac} dev {name} master static vlan 1",
            ]
            for vid, how in MEMBERS[name].items():
                lines.append(f"{BRIDGE} -n {SWITCH} vlan add dev {name} vid {vid} {' '.join(how)}")
                lines.append(f"{BRIDGE} -n {SWITCH} fdb replace {mac} dev {name} master static vlan {vid}")
        # One request instead of thirty: each takes the machine a process more.
        machine.run("sh", "-ec", "; ".join(lines))

    def remove(self) -> None:
        """Nothing; the machine is as it was."""
        self._machine.run("sh", "-ec", "; ".join(f"{IP} netns delete {name}" for name in (SWITCH, *STATIONS)))

    def ip(self, command: str) -> None:
        """Nothing; `ip` did it in the switch's namespace."""
        self._machine.run(IP, "-n", SWITCH, *command.split())

    def bridge(self, command: str) -> None:
        """Nothing; `bridge` did it in the switch's namespace."""
        self._machine.run(BRIDGE, "-n", SWITCH, *command.split())

    def arrive(self, vlan: int | None) -> int:
        """How many of COUNT frames with this tag that `left` sends to `right` arrive there."""
        before = self._received()
        frame = {"kind": "ethernet", "destination": STATIONS["right"], "ethertype": 0x88B5}
        stream = {"stream": 1, "name": "one", "interface": "eth0", "period_ns": PERIOD_NS, "offset_ns": 0, "size": 64,
                  "count": COUNT, "priority": 0, "batch": 1, "launch_time": None,
                  "transport": frame | {"vlan": vlan, "pcp": None if vlan is None else 3}}  # fmt: skip
        spec = {"run_id": "8f3c5e0d12ab34cd", "recording": "/tmp/bridged", "realtime": {}, "busy_wait_ns": 0,
                "stamps": {"sched": False, "software": False, "hardware": False, "key": "auto"},
                "streams": [stream]}  # fmt: skip
        with self._machine.speak(IP, "netns", "exec", "left", AGENT, "talk") as talker:
            talker.say(spec)
            talker.hear("ready")
            talker.say({"start_in_ns": 20_000_000})
            assert talker.hear("done")["streams"][0]["sent"] == COUNT
        return self._received() - before

    def _received(self) -> int:
        return int(self._inside("right", "cat", "/sys/class/net/eth0/statistics/rx_packets"))

    def _inside(self, name: str, *argv: str) -> str:
        return self._machine.run(IP, "netns", "exec", name, *argv)


@pytest.fixture
def switch(machine: Machine) -> Iterator[Switch]:
    """Two stations around a bridge that distinguishes VLANs."""
    built = Switch(machine)
    yield built
    built.remove()


@pytest.fixture(params=["native", "generic"])
def agent(machine: Machine, switch: Switch, request: pytest.FixtureRequest) -> Iterator[Conversation]:
    """The agent next to the bridge; it knows the stations in every VLAN."""
    with machine.speak(IP, "netns", "exec", SWITCH, AGENT, "bridge") as agent:
        agent.say({"bridge": "br0", "ports": list(STATIONS), "mode": request.param, "realtime": {}})
        ready = agent.hear("ready")
        assert {port["mode"] for port in ready["ports"]} == {request.param}
        assert (ready["fdb"], ready["realtime"]["problems"]) == (7, [])
        yield agent


def counted(agent: Conversation) -> dict[str, Any]:
    """What came of the frames of `left`."""
    agent.say({"stop": True})
    left: dict[str, Any] = agent.hear("done")["ports"][0]
    return {key: left[key] for key in ("redirected", "passed", "dropped")}


@pytest.mark.parametrize("vlan", [None, 5])
def test_what_leaves_as_it_came_is_redirected(switch: Switch, agent: Conversation, vlan: int | None) -> None:
    assert switch.arrive(vlan) == COUNT
    assert counted(agent) == {"redirected": COUNT, "passed": 0, "dropped": 0}


def test_a_tag_is_taken_off_by_the_kernel_bridge(switch: Switch, agent: Conversation) -> None:
    assert switch.arrive(6) == COUNT
    assert counted(agent) == {"redirected": 0, "passed": COUNT, "dropped": 0}


@pytest.mark.parametrize("vlan", [7, 9])
def test_no_frame_leaves_by_a_port_that_is_not_in_its_vlan(switch: Switch, agent: Conversation, vlan: int) -> None:
    assert switch.arrive(vlan) == 0
    assert counted(agent) == {"redirected": 0, "passed": COUNT, "dropped": 0}


def test_a_port_that_leaves_a_vlan_and_comes_back_is_noticed(switch: Switch, agent: Conversation) -> None:
    switch.bridge("vlan del dev right vid 5")
    assert switch.arrive(5) == 0
    switch.bridge("vlan add dev right vid 5")
    switch.bridge(f"fdb replace {STATIONS['right']} dev right master static vlan 5")
    assert switch.arrive(5) == COUNT
    assert counted(agent) == {"redirected": COUNT, "passed": COUNT, "dropped": 0}


def test_a_bridge_that_stops_telling_vlans_apart_is_noticed(switch: Switch, agent: Conversation) -> None:
    assert switch.arrive(7) == 0
    switch.ip("link set br0 type bridge vlan_filtering 0")
    for name, mac in STATIONS.items():
        switch.bridge(f"fdb replace {mac} dev {name} master static")
    assert switch.arrive(7) == COUNT
    assert counted(agent) == {"redirected": COUNT, "passed": COUNT, "dropped": 0}
