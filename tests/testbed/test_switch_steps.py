"""Switches as steps: the bridge, its ports, what is undone, and packets that pass."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from typing import Any

import pytest

from latlab.scenario import Scenario, parse
from latlab.testbed import makers  # by its module: pytest takes a function test_bed_steps for a test
from latlab.testbed.bridges.joints import joints
from latlab.testbed.bridges.offloads import whole_frames
from latlab.testbed.guests import guest_steps
from latlab.testbed.links import link_steps, switch_steps
from latlab.testbed.machine import assumed_machine
from latlab.testbed.machines import planned_sites
from latlab.testbed.plan import PlannedCell, plan_text
from latlab.testbed.ptp import ptp_steps
from latlab.testbed.site import Site, guest_address, hardware_address
from latlab.testbed.step import Step
from support.machine import dump

TAG = "0a9f"
BRIDGE = f"ll{TAG}sw0"
NAT = {"host": "ecu", "uplink": "eth0", "bridge": "user"}
VM = {"vm1": {"host": "ecu", "uplink": "eth0", "bridge": "xdp"}}


def switched(kind: str = "netns", **parts: Any) -> Scenario:
    """Two hosts and a switch between them, all of one kind."""
    raw = {
        "name": "small",
        "hosts": {"sensor": {"kind": kind}, "ecu": {"kind": kind}, "switch": {"kind": kind, "switch": ["p0", "p1"]}},
        "links": [
            {"ends": ["sensor.eth0", "switch.p0"], "mtu": 1400},
            {"ends": ["switch.p1", "ecu.eth0"], "mtu": 1400},
        ],
        "streams": {"control": {"talker": "sensor", "listener": "ecu", "period": "1ms", "size": "64B"}},
        "duration": "1s",
        **parts,
    }
    parsed = parse(raw)
    assert parsed.scenario, parsed.findings
    return parsed.scenario


def site_of(found: Scenario) -> Site:
    site = Site(TAG, machine=assumed_machine())
    return replace(site, others=planned_sites(found, site))


def steps_of(found: Scenario) -> list[Step]:
    return list(switch_steps(found, site_of(found)))


def test_a_bridge_without_a_protocol_or_an_address_has_the_ports() -> None:
    steps = steps_of(switched())
    assert [" ".join(step.do) for step in steps if step.do and step.do[0] == "ip"] == [
        f"ip link add name {BRIDGE} mtu 1400 type bridge stp_state 0 forward_delay 0 mcast_snooping 0",
        f"ip link set dev p0 master {BRIDGE}",
        f"ip link set dev p1 master {BRIDGE}",
        f"ip link set dev {BRIDGE} up",
    ]
    assert {step.host for step in steps} == {"switch"}
    bridge, firewall = (step.undo for step in steps if step.undo)
    assert bridge == ("ip", "link", "del", "dev", BRIDGE)
    assert firewall and firewall[-1] == "{settings}"


def test_it_is_made_once_its_links_are_there_and_before_what_needs_them() -> None:
    order = makers.MAKERS
    assert order.index(link_steps) < order.index(switch_steps) < order.index(guest_steps)
    assert order.index(switch_steps) < order.index(ptp_steps)


def test_it_knows_behind_which_port_each_address_is() -> None:
    known = [" ".join(step.do[3:6]) for step in steps_of(switched(guests=VM | {"nat": NAT})) if "fdb" in step.do]
    sensor, ecu, vm1 = hardware_address(TAG, 0, 0), hardware_address(TAG, 1, 1), guest_address(TAG, 0)
    assert known == [f"{sensor} dev p0", f"{ecu} dev p1", f"{vm1} dev p1"]


def test_what_another_switch_joins_is_behind_the_port_to_it() -> None:
    second = {"kind": "netns", "switch": ["p0", "p1", "p2"]}
    hosts: dict[str, Any] = {name: {"kind": "netns"} for name in ("sensor", "ecu", "third")}
    pairs = ["sensor.eth0 switch.p0", "switch.p1 second.p0", "ecu.eth0 second.p1", "second.p2 third.eth0"]
    found = switched(
        hosts=hosts | {"switch": {"kind": "netns", "switch": ["p0", "p1"]}, "second": second},
        links=[{"ends": pair.split()} for pair in pairs],
    )
    titles = [f"{step.host} {step.do[5]}: {step.title}" for step in steps_of(found) if "fdb" in step.do]
    assert titles == [
        "switch p0: add a static forwarding entry for sensor.eth0",
        "switch p1: add a static forwarding entry for ecu.eth0",
        "switch p1: add a static forwarding entry for third.eth0",
        "second p0: add a static forwarding entry for sensor.eth0",
        "second p1: add a static forwarding entry for ecu.eth0",
        "second p2: add a static forwarding entry for third.eth0",
    ]


def test_each_port_must_forward_until_the_end() -> None:
    *_, last = steps_of(switched())
    assert last.check and last.lasting
    # Of iproute2 6.1, but for what no bridge's port is about.
    said = {"ifname": "p1", "linkinfo": {"info_slave_kind": "bridge", "info_slave_data": {"state": "forwarding"}}}
    assert last.check.read(json.dumps([said])) == last.check.expected == "forwarding"
    assert last.check.read(json.dumps([{"ifname": "p1", "linkinfo": {"info_kind": "veth"}}])) == "no port"


def test_the_hosts_beyond_know_each_other_and_the_ports_have_no_address() -> None:
    titles = [step.title for step in link_steps(switched(), site_of(switched()))]
    assert [title for title in titles if title.startswith(("give", "add the neighbour"))] == [
        "give sensor.eth0 its address",
        "add the neighbour entry of ecu.eth0 on sensor.eth0, so that no ARP is sent between packets",
        "give ecu.eth0 its address",
        "add the neighbour entry of sensor.eth0 on ecu.eth0, so that no ARP is sent between packets",
    ]


def test_cards_that_were_there_before_are_nobody_elses_ports_and_are_given_back() -> None:
    machines = switched("ssh")
    steps = steps_of(machines)
    assert [step.title for step in steps[:2]] == [f"{port} is not a port of another bridge" for port in ("p0", "p1")]
    given_back = [step.undo for step in steps if step.undo and "nomaster" in step.undo]
    assert given_back == [("ip", "link", "set", "dev", port, "nomaster") for port in ("p0", "p1")]
    titles = [step.title for step in link_steps(machines, site_of(machines))]
    assert [title for title in titles if title.startswith("switch.")] == ["switch.p0 is up", "switch.p1 is up"]
    assert any(title.startswith("sensor.eth0 has the address 10.78.0.1/24") for title in titles)


def test_all_that_is_made_on_the_path_to_xdp_sends_whole_frames() -> None:
    found = switched(guests=VM)
    (joint,) = joints(found, TAG)
    assert [f"{step.host} {step.do[2]}" for step in whole_frames(joint)] == ["sensor eth0", "switch p0", "switch p1"]


@pytest.mark.real
@pytest.mark.usefixtures("machine")
def test_the_plan_of_a_switch_can_be_pasted_packets_pass_it_and_it_undoes_itself() -> None:
    before = dump()
    text = plan_text([PlannedCell("all", switched(), Site("RUN", machine=assumed_machine()))])
    set_up, undo = text.split("\n# ---- Undo the test bed")
    ping = "ip netns exec latlab-RUN-sensor ping -c 3 -i 0.2 -w 10 10.78.0.2"
    ran = subprocess.run(["sh", "-e"], input=f"{set_up}\n{ping}\n#{undo}", text=True, check=True, capture_output=True)
    assert "3 received" in ran.stdout
    assert dump() == before
