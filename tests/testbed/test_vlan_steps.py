"""VLAN interfaces as steps: the commands, what is read back, what is taken away again, what a refusal says."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

from latlab.model.errors import LabError
from latlab.scenario import Scenario, parse
from latlab.testbed import makers  # by its module: pytest takes a function test_bed_steps for a test
from latlab.testbed.apply import BY_HAND, TestBed
from latlab.testbed.guests import guest_steps
from latlab.testbed.guests.start import unbuilt_image
from latlab.testbed.links import link_steps
from latlab.testbed.machine import Machine, assumed_machine, read_machine
from latlab.testbed.machines import planned_sites
from latlab.testbed.machines.board import modules_lacking
from latlab.testbed.preflight import preflight
from latlab.testbed.shapers import shaper_steps
from latlab.testbed.site import Site
from latlab.testbed.step import Step
from latlab.testbed.unavailable import unavailable
from latlab.testbed.vlans import REMEDY, group_of, in_words, makes_vlans, refusal, vlan_steps, vlans_lacking
from support.machine import dump, run, scenario

TAG = "0a9f"
GROUP = "1280102269"
ENDS = ("eth0", "eth1")
BOTH = {"sensor": "netns", "ecu": "netns"}
VLANS = {"5": {"egress": {"7": 7, "5": 5, "3": 0}, "ingress": {"7": 6}}}
STREAM = {"talker": "sensor", "listener": "ecu", "period": "1ms", "size": "64B", "via": "sensor.eth0.5"}

PLAIN = {"control": {key: value for key, value in STREAM.items() if key != "via"}}

# Recorded of iproute2 6.1 on kernel 6.12.
ALIKE = ",".join(f'{{"from":{priority},"to":{priority}}}' for priority in range(1, 8))
THERE = (
    '[{"ifindex":3,"link":"eth0","ifname":"eth0.5","flags":["BROADCAST","MULTICAST","UP","LOWER_UP"],"mtu":1500,'
    '"qdisc":"noqueue","operstate":"UP","linkmode":"DEFAULT","group":"1280099442","txqlen":1000,"link_type":"ether",'
    '"address":"02:9b:c4:72:00:00","broadcast":"ff:ff:ff:ff:ff:ff","promiscuity":0,"allmulti":0,"min_mtu":0,'
    '"max_mtu":65535,"linkinfo":{"info_kind":"vlan","info_data":{"protocol":"802.1Q","id":5,"flags":["REORDER_HDR"],'
    f'"ingress_qos":[{ALIKE}],"egress_qos":[{ALIKE}]}}}},"inet6_addr_gen_mode":"eui64","num_tx_queues":1,'
    '"num_rx_queues":1,"gso_max_size":65536,"gso_max_segs":65535,"tso_max_size":524280,"tso_max_segs":65535,'
    '"gro_max_size":65536}]'
)
LISTED = (
    "3: eth0.5@eth0: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 1500 qdisc noqueue state UP mode DEFAULT group 1280099442 "
    "qlen 1000\\    link/ether 02:9b:c4:72:00:00 brd ff:ff:ff:ff:ff:ff promiscuity 0  allmulti 0 minmtu 0 maxmtu 65535 "
    "\\    vlan protocol 802.1Q id 5 <REORDER_HDR> \\      ingress-qos-map { 1:1 2:2 3:3 4:4 5:5 6:6 7:7 } \\      "
    "egress-qos-map { 1:1 2:2 3:3 4:4 5:5 6:6 7:7 } addrgenmode eui64 numtxqueues 1 numrxqueues 1 gso_max_size 65536 "
    "gso_max_segs 65535 tso_max_size 524280 tso_max_segs 65535 gro_max_size 65536\n"
)
IDENTITY = "1:1 2:2 3:3 4:4 5:5 6:6 7:7"


def tagged(hosts: dict[str, str], vlans: dict[str, Any] | None = None, **parts: Any) -> Scenario:
    link = {"ends": ["sensor.eth0", "ecu.eth1"], "vlans": VLANS if vlans is None else vlans}
    return scenario(hosts, [link], **{"streams": {"control": STREAM}} | parts)


def steps_of(hosts: dict[str, str], **parts: Any) -> list[Step]:
    return list(vlan_steps(tagged(hosts, **parts), site_of(tagged(hosts, **parts))))


def site_of(found: Scenario) -> Site:
    site = Site(TAG, machine=assumed_machine())
    return replace(site, others=planned_sites(found, site))


def commands(steps: list[Step]) -> list[str]:
    return [" ".join(step.do) for step in steps if step.do]


def test_an_interface_is_made_at_each_end_with_an_address_and_the_neighbours_of_its_own() -> None:
    inside = f"ip -n latlab-{TAG}-sensor"
    assert [command for command in commands(steps_of(BOTH)) if command.startswith(f"{inside} ")][:3] == [
        f"{inside} link add link eth0 name eth0.5 group {GROUP} type vlan id 5 egress-qos-map 5:5 7:7 "
        "ingress-qos-map 7:6",
        f"{inside} addr add 10.80.0.1/24 dev eth0.5",
        f"{inside} link set dev eth0.5 up",
    ]
    titles = [step.title for step in steps_of(BOTH)]
    assert "add the neighbour entry of ecu.eth1.5 on sensor.eth0.5, so that no ARP is sent between packets" in titles
    assert titles[-2:] == ["wait until sensor.eth0.5 is up", "wait until ecu.eth1.5 is up"]


def test_they_are_made_once_their_link_is_up_and_before_what_needs_them() -> None:
    order = makers.MAKERS
    assert order.index(link_steps) < order.index(vlan_steps) < order.index(guest_steps)
    assert order.index(vlan_steps) < order.index(shaper_steps)


def test_what_the_kernel_says_is_read_back_and_must_last() -> None:
    (made, *_) = steps_of(BOTH, vlans={"5": {}})
    assert made.check
    words = f"VLAN 5 of eth0; egress {IDENTITY}; ingress {IDENTITY}"
    assert (made.check.expected, made.check.read(THERE), made.lasting) == (words, words, True)
    other = json.loads(THERE)
    other[0]["linkinfo"]["info_data"] |= {"egress_qos": [{"from": 7, "to": 5}], "id": 6}
    del other[0]["linkinfo"]["info_data"]["ingress_qos"]
    assert made.check.read(json.dumps(other)) == "VLAN 6 of eth0; egress 7:5; ingress all to 0"
    other[0]["linkinfo"]["info_kind"] = "macvlan"
    assert in_words(json.dumps(other)) == "macvlan"


def test_a_map_of_its_own_defaults_leaves_each_priority_as_it_is() -> None:
    (made, *_) = commands(steps_of(BOTH, vlans={"5": {}}))
    assert made.endswith(f"type vlan id 5 egress-qos-map {IDENTITY} ingress-qos-map {IDENTITY}")


def test_only_what_bears_the_runs_group_is_taken_away() -> None:
    (made, *_) = steps_of(BOTH)
    inside = ("ip", "netns", "exec", f"latlab-{TAG}-sensor")
    assert made.undo == ("ip", "-n", f"latlab-{TAG}-sensor", "link", "del", "dev", "eth0.5")
    assert made.present == (*inside, "grep", "-qx", GROUP, "/sys/class/net/eth0.5/netdev_group")
    assert str(group_of(TAG)) == GROUP
    assert 255 < group_of("ffff") < 2**31


def test_on_a_machine_that_others_use_the_name_must_be_free_and_ipv6_is_off() -> None:
    steps = steps_of({"sensor": "netns", "ecu": "local"})
    free, made, quiet = steps[1:4]
    assert (free.title, free.do) == ("ecu has no interface eth1.5 yet", ())
    assert free.present == ("test", "-e", "/sys/class/net/eth1.5")
    assert made.do[:7] == ("ip", "link", "add", "link", "eth1", "name", "eth1.5")
    assert "net.ipv6.conf.eth1/5.disable_ipv6=1" in quiet.do


def test_a_cable_between_two_machines_has_interfaces_and_addresses_made_at_both_ends() -> None:
    hosts = {"sensor": "ssh", "ecu": "ssh"}
    made = commands(steps_of(hosts))
    assert [command for command in made if "addr add" in command] == [
        "ip addr add 10.80.0.1/24 dev eth0.5",
        "ip addr add 10.80.0.2/24 dev eth1.5",
    ]
    # Whose hardware address is not known before the run is asked for.
    assert not any("neigh" in command for command in made)
    undone = [(step.host, step.undo) for step in steps_of(hosts) if step.undo]
    assert undone == [(host, ("ip", "link", "del", "dev", f"{name}.5")) for host, name in zip(hosts, ENDS, strict=True)]


def test_a_cable_within_one_machine_has_interfaces_without_addresses() -> None:
    stream = STREAM | {"transport": "ethernet"}
    steps = steps_of({"sensor": "local", "ecu": "local"}, streams={"control": stream})
    assert not any("addr" in command for command in commands(steps))
    assert [command for command in commands(steps) if command.endswith(" up")] == [
        f"ip link set dev {name}.5 up" for name in ENDS
    ]


@pytest.mark.parametrize("kind", ["netns", "ssh"])
def test_of_a_vlan_with_a_guest_the_bridge_on_it_has_the_hosts_address(kind: str) -> None:
    guests = {"vm1": {"host": "ecu", "uplink": "eth1.5"}}
    streams = {"control": STREAM | {"listener": "vm1"}}
    found = tagged({"sensor": kind, "ecu": kind}, guests=guests, streams=streams)
    site = Site(TAG, machine=assumed_machine(), images={"debian-cloud": unbuilt_image("debian-cloud")})
    site = replace(site, others=planned_sites(found, site))
    steps = [step for step in makers.test_bed_steps(found, site) if isinstance(step, Step)]
    given = [step.do[-1] for step in steps if "10.80.0.2/24" in step.do]
    assert given == [f"ll{TAG}br0"]
    assert any(step.title == f"make eth1.5 a port of ll{TAG}br0" for step in steps)


def machine_of(has: str = "", loads: bool = False) -> Machine:
    return replace(
        assumed_machine(), exists=lambda path: path == has, say=lambda argv: "" if loads else None, seen=True
    )


@pytest.mark.parametrize(
    ("machine", "can"),
    [(machine_of("/proc/net/vlan"), True), (machine_of(loads=True), True), (machine_of(), False)],
    ids=["loaded", "loaded by itself", "missing"],
)
def test_a_kernel_without_vlans_makes_the_cell_unavailable(machine: Machine, can: bool) -> None:
    found = tagged(BOTH)
    reasons = unavailable(found, Site(TAG, machine=machine))
    told = [(reason.where, reason.what, reason.remedy) for reason in reasons]
    what = "the kernel of this machine has no VLAN interfaces (8021q)"
    assert told == ([] if can else [("links[0].vlans", what, REMEDY)])
    assert makes_vlans(machine) is can
    assert list(vlans_lacking(tagged(BOTH, vlans={}, streams=PLAIN), Site(TAG, machine=machine))) == []


def test_a_boards_image_without_the_module_is_named() -> None:
    hosts: dict[str, Any] = {"board1": {"kind": "board"}, **{name: {"kind": "netns", "on": "board1"} for name in BOTH}}
    links = [{"ends": ["sensor.eth0", "ecu.eth1"], "vlans": {"5": {}}}]
    raw = {"name": "b", "hosts": hosts, "links": links, "streams": {"control": STREAM}, "duration": "1s"}
    found = parse(raw).scenario
    assert found
    image = replace(unbuilt_image("debian-rt-board"), lacking={"8021q": "VLANs"})
    (lacking,) = modules_lacking(found, "board1", image, assumed_machine(), "igb")
    assert (lacking.where, "no kernel module 8021q" in lacking.what) == ("links[0].vlans", True)


def test_an_interface_of_that_name_on_this_machine_is_reported_before_anything_is_done() -> None:
    machine = replace(assumed_machine(), interfaces=frozenset({"lo", "eth1", "eth1.5"}))
    hosts = {"sensor": "local", "ecu": "local"}
    machine = replace(machine, interfaces=machine.interfaces | {"eth0"})
    streams = {"control": STREAM | {"transport": "ethernet"}}
    (told,) = [str(one) for one in preflight(tagged(hosts, streams=streams), machine) if "eth1.5" in str(one)]
    assert told.startswith("links[0].vlans.5: this machine has an interface eth1.5 already (another VLAN id; ")


@pytest.mark.parametrize(
    ("said", "remedy"),
    [
        ("no 8021q\n", REMEDY),
        (LISTED, "eth0 has VLAN 5 already, as eth0.5: another VLAN id, or `ip link del dev eth0.5`"),
        (LISTED.replace("@eth0", "@eth1"), BY_HAND),
        (LISTED.replace("id 5 ", "id 50 "), BY_HAND),
        ("", BY_HAND),
    ],
)
def test_a_refusal_says_what_to_do(said: str, remedy: str) -> None:
    assert refusal(said, "eth0", 5) == remedy


@pytest.mark.real
@pytest.mark.usefixtures("machine")
def test_a_test_bed_with_vlans_is_made_and_undone_or_the_kernel_is_named() -> None:
    found = tagged({"sensor": "netns", "ecu": "local"})

    async def session() -> None:
        async with TestBed("t1", makers.make_hosts(found, Site("t1"))) as bed:
            results = await bed.apply(makers.test_bed_steps(found, Site("t1")))
            assert all(result.ok for result in results)
            assert "10.80.0.2/24" in run("ip", "addr", "show", "dev", "eth1.5")

    before = dump()
    if makes_vlans(read_machine()):
        asyncio.run(session())
    else:
        with pytest.raises(LabError, match=r"make the VLAN interface sensor\.eth0\.5: ") as caught:
            asyncio.run(session())
        assert caught.value.remedy == REMEDY
    assert dump() == before
