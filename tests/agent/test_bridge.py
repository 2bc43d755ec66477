"""The fast path beside a kernel bridge: what it forwards, what it leaves to the bridge, what it counts, how it ends."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.agent.process import Agent
from support.agent.switch import BRIDGE, EVERYBODY, Switch, by_port, frame, frames, mac, stopped
from support.machine import private_network, run, until

pytestmark = pytest.mark.real

LEFT, RIGHT, OTHER = mac(1), mac(2), mac(3)
MODES = {"native": 1, "generic": 2}
NOTHING = {"redirected": 0, "passed": 0, "dropped": 0}


@pytest.fixture
def switch() -> Iterator[Switch]:
    """Stations `left` and `right`, whom the bridge knows."""
    with private_network(), Switch("left", "right") as built:
        built.place(LEFT, "left")
        built.place(RIGHT, "right")
        yield built


def counted(redirected: int = 0, passed: int = 0, dropped: int = 0) -> dict[str, int]:
    return {"redirected": redirected, "passed": passed, "dropped": dropped}


@pytest.mark.parametrize("mode", MODES)
def test_known_unicast_is_redirected_both_ways_whole_and_in_order(switch: Switch, mode: str) -> None:
    agent = switch.bridging("left", "right", mode=mode)
    ready = agent.events[-1]
    assert [port["interface"] for port in ready["ports"]] == ["left", "right"]
    assert {port["mode"] for port in ready["ports"]} == {mode}
    assert (ready["verb"], ready["fdb"], ready["realtime"]["problems"]) == ("bridge", 2, [])
    assert switch.programs() == {"left": MODES[mode], "right": MODES[mode]}
    there, back = frames(LEFT, RIGHT, 200), frames(RIGHT, LEFT, 100)
    switch.send("left", *there)
    switch.send("right", *back)
    assert switch.heard("right", 200) == there
    assert switch.heard("left", 100) == back
    assert stopped(agent) == {"left": counted(redirected=200), "right": counted(redirected=100)}


def test_a_guests_tap_sends_and_takes_redirected_frames(switch: Switch) -> None:
    switch.add_tap("tap0")
    switch.place(OTHER, "tap0")
    agent = switch.bridging("left", "tap0")
    assert [port["mode"] for port in agent.events[-1]["ports"]] == ["native", "native"]
    there, back = frames(LEFT, OTHER, 100), frames(OTHER, LEFT, 50)
    switch.send("left", *there)
    assert switch.heard("tap0", 100) == there
    switch.send("tap0", *back)
    assert switch.heard("left", 50) == back
    assert stopped(agent) == {"left": counted(redirected=100), "tap0": counted(redirected=50)}


def test_progress_tells_the_counters_so_far(switch: Switch) -> None:
    agent = switch.bridging("left", "right")
    switch.send("left", *frames(LEFT, RIGHT, 10))
    assert by_port(agent.until("progress")["ports"]) == {"left": counted(redirected=10), "right": NOTHING}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("destination", [EVERYBODY, "01:00:5e:00:00:07", mac(9)], ids=["all", "group", "unknown"])
def test_what_is_for_many_or_for_an_unknown_one_goes_through_the_kernel_bridge(
    switch: Switch, mode: str, destination: str
) -> None:
    agent = switch.bridging("left", "right", mode=mode)
    sent = frames(LEFT, destination, 20)
    switch.send("left", *sent)
    assert switch.heard("right", 20) == sent
    assert stopped(agent) == {"left": counted(passed=20), "right": NOTHING}


def test_a_source_the_bridge_does_not_know_is_shown_to_it_and_redirected_once_learnt(switch: Switch) -> None:
    agent = switch.bridging("left", "right")
    sent = 0

    def redirected() -> bool:
        nonlocal sent
        switch.send("left", frame(OTHER, RIGHT))
        sent += 1
        assert len(switch.heard("right", 1)) == 1
        return OTHER in switch.fdb("fdb", "show", "br", BRIDGE) and sent > 30

    until(redirected)
    found = stopped(agent)["left"]
    assert found["redirected"] + found["passed"] == sent
    assert found["passed"] >= 1
    assert found["redirected"] >= 1


def test_a_frame_for_the_bridge_itself_is_not_redirected(switch: Switch) -> None:
    agent = switch.bridging("left", "right")
    for interface in (BRIDGE, "right"):
        address = json.loads(switch.ip("-j", "link", "show", interface))[0]["address"]
        switch.send("left", frame(LEFT, address))
    assert switch.heard("right") == []
    assert stopped(agent)["left"] == counted(passed=2)


def test_a_frame_never_goes_back_by_the_port_it_came_in(switch: Switch) -> None:
    switch.place(OTHER, "left")
    agent = switch.bridging("left", "right")
    switch.send("left", *frames(LEFT, OTHER, 5))
    assert (switch.heard("left"), switch.heard("right")) == ([], [])
    assert stopped(agent)["left"] == counted(passed=5)


def test_a_port_the_agent_was_not_given_is_served_by_the_kernel_bridge(switch: Switch) -> None:
    switch.add_station("other")
    switch.place(OTHER, "other")
    agent = switch.bridging("left", "right")
    sent = frames(LEFT, OTHER, 10)
    switch.send("left", *sent)
    assert switch.heard("other", 10) == sent
    assert stopped(agent)["left"] == counted(passed=10)


def test_a_bridge_that_ignores_vlans_redirects_tagged_frames_by_address_alone(switch: Switch) -> None:
    agent = switch.bridging("left", "right")
    sent = [frame(LEFT, RIGHT, number, vlan=vlan) for number, vlan in enumerate((0, 5, 5, 4094, (7 << 13) | 6))]
    switch.send("left", *sent)
    assert switch.heard("right", 5) == sent
    assert stopped(agent)["left"] == counted(redirected=5)


def test_a_station_that_moves_is_reached_at_its_new_port(switch: Switch) -> None:
    switch.add_station("other")
    switch.fdb("fdb", "del", RIGHT, "dev", "right", "master")
    switch.send("right", frame(RIGHT, EVERYBODY))
    assert len(switch.heard("left", 1)) == len(switch.heard("other", 1)) == 1
    agent = switch.bridging("left", "right", "other")
    switch.send("left", frame(LEFT, RIGHT))
    assert len(switch.heard("right", 1)) == 1
    switch.send("other", frame(RIGHT, LEFT))
    assert len(switch.heard("left", 1)) == 1
    until(lambda: _arrivals(switch, frame(LEFT, RIGHT), "other") == 1)
    switch.heard("right")
    switch.send("left", *frames(LEFT, RIGHT, 50))
    assert switch.heard("other", 50) == frames(LEFT, RIGHT, 50)
    assert switch.heard("right") == []
    found = stopped(agent)
    assert found["other"] == counted(passed=1)
    assert found["left"]["redirected"] >= 51


def test_a_port_the_spanning_tree_blocks_is_left_to_the_bridge_until_it_forwards(switch: Switch) -> None:
    agent = switch.bridging("left", "right")
    switch.ip("link", "set", BRIDGE, "type", "bridge", "stp_state", "1", "forward_delay", "200")
    switch.ip("link", "set", "right", "down")
    switch.ip("link", "set", "right", "up")
    until(lambda: _arrivals(switch, frame(LEFT, RIGHT)) == 0)
    switch.wait_until_forwarding("right")
    until(lambda: _arrivals(switch, frame(LEFT, RIGHT)) == 1)
    found = stopped(agent)["left"]
    assert found["passed"] >= 1
    assert found["redirected"] >= 1


def test_isolated_ports_do_not_reach_each_other(switch: Switch) -> None:
    for port in ("left", "right"):
        switch.fdb("link", "set", "dev", port, "isolated", "on")
    agent = switch.bridging("left", "right")
    switch.send("left", *frames(LEFT, RIGHT, 5))
    assert switch.heard("right") == []
    assert stopped(agent)["left"] == counted(passed=5)


def test_stations_that_send_are_remembered_and_those_that_do_not_are_forgotten(switch: Switch) -> None:
    for address, port in ((LEFT, "left"), (RIGHT, "right")):
        switch.fdb("fdb", "del", address, "dev", port, "master")
        switch.send(port, frame(address, EVERYBODY))
    switch.send("right", frame(OTHER, EVERYBODY))
    switch.ip("link", "set", BRIDGE, "type", "bridge", "ageing_time", "300")
    agent = switch.bridging("left", "right")
    assert agent.events[-1]["fdb"] == 3
    sent = 0

    def forgotten() -> bool:
        nonlocal sent
        switch.send("left", frame(LEFT, RIGHT))
        switch.send("right", frame(RIGHT, LEFT))
        sent += 1
        return OTHER not in switch.fdb("fdb", "show", "br", BRIDGE)

    until(forgotten)
    for _ in range(100):
        forgotten()
        subprocess.run(["sleep", "0.04"], check=True)
    known = switch.fdb("fdb", "show", "br", BRIDGE)
    assert LEFT in known
    assert RIGHT in known
    assert stopped(agent) == {"left": counted(redirected=sent), "right": counted(redirected=sent)}


def test_a_station_without_napi_takes_nothing_natively_and_all_of_it_is_counted(switch: Switch) -> None:
    switch.add_station("other", napi=False)
    switch.place(OTHER, "other")
    agent = switch.bridging("left", "other", mode="native")
    switch.send("left", *frames(LEFT, OTHER, 50))
    assert switch.heard("other") == []
    assert stopped(agent)["left"] == counted(redirected=50, dropped=50)


@pytest.mark.parametrize("mode", MODES)
def test_what_a_full_tap_refuses_is_counted(switch: Switch, mode: str) -> None:
    switch.add_tap("tap0", queue=16)
    switch.place(OTHER, "tap0")
    agent = switch.bridging("left", "tap0", mode=mode)
    switch.send("left", *frames(LEFT, OTHER, 100))
    assert switch.heard("tap0") == frames(LEFT, OTHER, 16)
    assert stopped(agent)["left"] == counted(redirected=100, dropped=84)


@pytest.mark.parametrize("mode", MODES)
def test_a_frame_too_long_for_the_other_port_is_counted_as_dropped(switch: Switch, mode: str) -> None:
    switch.ip("link", "set", "right", "mtu", "1000")
    agent = switch.bridging("left", "right", mode=mode)
    switch.send("left", frame(LEFT, RIGHT).ljust(1400, b"\0"), frame(LEFT, RIGHT))
    assert switch.heard("right") == [frame(LEFT, RIGHT)]
    assert stopped(agent)["left"] == counted(redirected=2, dropped=1)


def test_drops_elsewhere_are_not_counted(switch: Switch) -> None:
    switch.add_tap("tap0", queue=4)
    switch.place(OTHER, "tap0")
    agent = switch.bridging("left", "right", mode="generic")
    switch.send("left", *frames(LEFT, RIGHT, 5), *frames(LEFT, OTHER, 20))
    assert stopped(agent)["left"] == counted(redirected=5, passed=20)


def test_without_the_kernels_types_drops_are_unknown_and_that_is_said(switch: Switch) -> None:
    blind = ("sh", "-c", 'mount -t tmpfs tmpfs /sys/kernel/btf && exec "$@"', "sh")
    agent = switch.bridging("left", "right", before=blind)
    (problem,) = agent.events[-1]["realtime"]["problems"]
    assert "refused frames are not counted" in problem
    switch.send("left", *frames(LEFT, RIGHT, 5))
    assert stopped(agent)["left"] == {"redirected": 5, "passed": 0, "dropped": None}


@pytest.mark.parametrize("how", ["told", "hang up", "signal", "kill"])
def test_no_program_stays_behind(switch: Switch, how: str) -> None:
    agent = switch.bridging("left", "right")
    switch.send("left", *frames(LEFT, RIGHT, 5))
    assert set(switch.programs()) == {"left", "right"}
    switch.heard("right", 5)
    if how == "kill":
        agent.signal(signal.SIGKILL)
        assert agent.ended() == -signal.SIGKILL
    else:
        ends: dict[str, Callable[[], object]] = {
            "told": lambda: agent.tell(stop=True),
            "hang up": agent.hang_up,
            "signal": lambda: agent.signal(15),
        }
        ends[how]()
        assert agent.ended() == 0
        assert by_port(agent.events[-1]["ports"])["left"] == counted(redirected=5)
    until(lambda: switch.programs() == {})
    switch.send("left", frame(LEFT, RIGHT))
    assert switch.heard("right", 1) == [frame(LEFT, RIGHT)]


@pytest.mark.parametrize("theirs", ["xdpdrv", "xdpgeneric"])
def test_a_port_with_a_foreign_program_is_refused_and_the_program_stays(
    switch: Switch, tmp_path: Path, theirs: str
) -> None:
    source, compiled = tmp_path / "pass.c", tmp_path / "pass.o"
    source.write_text('__attribute__((section("xdp"), used)) int let_by(void *frame) { return 2; }\n')
    run("clang", "-O2", "-target", "bpf", "-c", str(source), "-o", str(compiled))
    switch.ip("link", "set", "dev", "right", theirs, "obj", str(compiled), "sec", "xdp")
    before = switch.programs()
    error = refused(switch.unready("left", "right"))
    assert error["where"] == "right"
    assert "has an XDP program already" in error["what"]
    assert switch.programs() == before


def test_two_agents_do_not_share_a_port(switch: Switch) -> None:
    switch.bridging("left", "right")
    error = refused(switch.unready("right", "left", mode="generic"))
    assert (error["where"], switch.programs()) == ("right", {"left": 1, "right": 1})


@pytest.mark.parametrize(
    ("how", "what"),
    [(("del", "right"), "gone"), (("set", "right", "nomaster"), "no port of br0 any more"), (("del", BRIDGE), "gone")],
    ids=["gone", "left the bridge", "bridge gone"],
)
def test_a_port_that_goes_away_is_named_and_the_others_are_freed(switch: Switch, how: Any, what: str) -> None:
    agent = switch.bridging("left", "right")
    switch.ip("link", *how)
    error = refused(agent)
    assert error["where"] in how
    assert what in error["what"]
    until(lambda: switch.programs() == {})


def test_a_driver_without_xdp_makes_all_ports_generic(switch: Switch) -> None:
    switch.ip("link", "add", "plain0", "type", "vxlan", "id", "5", "dstport", "4789")
    switch.ip("link", "set", "plain0", "master", BRIDGE, "up")
    agent = switch.bridging("left", "plain0")
    assert [port["mode"] for port in agent.events[-1]["ports"]] == ["generic", "generic"]
    stopped(agent)
    error = refused(switch.unready("left", "plain0", mode="native"))
    assert (error["where"], switch.programs()) == ("plain0", {})
    assert "no native XDP" in error["what"]


def test_a_port_that_cannot_be_native_now_is_generic_next_to_a_native_one(switch: Switch) -> None:
    run("ip", "-n", "right", "link", "set", "eth0", "mtu", "9000")
    agent = switch.bridging("left", "right")
    assert [port["mode"] for port in agent.events[-1]["ports"]] == ["native", "generic"]
    switch.send("left", *frames(LEFT, RIGHT, 20))
    switch.send("right", *frames(RIGHT, LEFT, 20))
    assert switch.heard("right", 20) == frames(LEFT, RIGHT, 20)
    assert switch.heard("left", 20) == frames(RIGHT, LEFT, 20)
    assert stopped(agent) == {"left": counted(redirected=20), "right": counted(redirected=20)}


WRONG: dict[str, tuple[dict[str, Any], str, str]] = {
    "a bridge that does not exist": ({"bridge": "br9"}, "br9", "No such device"),
    "a name that no interface can have": ({"bridge": "a" * 300}, "a" * 300, "it is the name of no interface"),
    "no bridge": ({"bridge": "left"}, "left", "no bridge"),
    "a port that does not exist": ({"ports": ["left", "eth9"]}, "eth9", "No such device"),
    "a port of nothing": ({"ports": ["left", "lo"]}, "lo", "no port of br0"),
    "one port": ({"ports": ["left"]}, "ports", "expected 2 to 64"),
    "a port twice": ({"ports": ["left", "left"]}, "ports[1]", "twice"),
    "an unknown mode": ({"mode": "offload"}, "spec of bridge", "offload"),
    "an unknown field": ({"speed": 3}, "spec of bridge", "speed"),
}


@pytest.mark.parametrize(("changes", "where", "what"), WRONG.values(), ids=WRONG)
def test_a_spec_that_cannot_be_done_is_one_error_that_says_where(
    switch: Switch, changes: dict[str, Any], where: str, what: str
) -> None:
    error = refused(switch.unready("left", "right", **changes))
    assert where in error["where"]
    assert what in error["what"]
    assert error["remedy"]
    assert switch.programs() == {}


def refused(agent: Agent) -> dict[str, Any]:
    """The one error with which the agent ended."""
    assert agent.ended() == 1
    (error,) = [event for event in agent.events if event["event"] == "error"]
    return error


def _arrivals(switch: Switch, sent: bytes, at: str = "right") -> int:
    switch.heard(at)
    switch.send("left", sent)
    return len(switch.heard(at))
