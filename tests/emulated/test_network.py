"""What the network does to packets on a kernel with every qdisc, and the facts that report it."""

from __future__ import annotations

import json
from itertools import pairwise

import polars as pl

from support.emulated.hosts import MS, Hosts, Stream, udp

GATES = (
    "qdisc replace dev eth0 parent root handle 100 taprio num_tc 2 map 0 1 0 0 0 0 0 0 0 0 0 0 0 0 0 0"
    " queues 1@0 1@1 base-time 0 sched-entry S 0x1 600000000 sched-entry S 0x3 400000000 clockid CLOCK_TAI"
)
"""Traffic class 1, priority 1, may leave in the last 400 ms of each second."""


def test_a_vlan_interface_tags_udp_with_the_priority_its_map_gives(hosts: Hosts) -> None:
    for host, number in (("sensor", 1), ("ecu", 2)):
        hosts.ip(host, "link add link eth0 name eth0.5 type vlan id 5 egress-qos-map 3:6")
        hosts.ip(host, f"address add 10.78.5.{number}/24 dev eth0.5")
        hosts.ip(host, "link set eth0.5 up")
    hosts.tc("ecu", "qdisc add dev eth0 clsact")
    hosts.tc(
        "ecu",
        "filter add dev eth0 ingress protocol 802.1Q flower vlan_id 5 vlan_prio 6 vlan_ethtype ipv4 action ok",
    )
    found = hosts.measure(Stream(interface="eth0.5", priority=3, transport=udp("10.78.5.1", "10.78.5.2")))
    assert (found.total("received"), found.total("tx_soft"), found.total("stray_stamps")) == (50, 50, 0)
    # The kernel stamps a packet's entry to each device it passes; the packet table has the first.
    entries = found.stamps.filter(pl.col("kind") == 0).group_by("sequence").agg(pl.col("stamp_ns"))
    assert entries["stamp_ns"].list.len().to_list() == [2] * 50
    assert (found.packets["tx_sched_tai_ns"] >= found.packets["submit_tai_ns"]).all()
    filters = json.loads(hosts.tc("ecu", "-s -j filter show dev eth0 ingress"))
    [tagged] = [entry["options"]["actions"][0] for entry in filters if "options" in entry]
    assert tagged["stats"]["packets"] == 50


def test_programs_stamp_a_datagram_behind_a_tag_that_no_card_inserts(hosts: Hosts) -> None:
    """The kernel puts the tag into the frame before the driver has it, as a VLAN's interface is no card."""
    for host, number in (("sensor", 1), ("ecu", 2)):
        hosts.ip(host, "link add link eth0 name outer type vlan id 5")
        hosts.ip(host, "link add link outer name inner type vlan id 6")
        hosts.ip(host, f"address add 10.78.6.{number}/24 dev inner")
        for name in ("outer", "inner"):
            hosts.ip(host, f"link set {name} up")
    found = hosts.measure(Stream(interface="inner", transport=udp("10.78.6.1", "10.78.6.2")), by="ebpf")
    assert [found.total(counter) for counter in ("received", "tx_sched", "tx_soft", "stray_stamps")] == [50, 50, 50, 0]
    for before, after in pairwise(("submit", "tx_sched", "tx_soft", "rx_soft", "rx_user")):
        assert (found.packets[f"{before}_tai_ns"] <= found.packets[f"{after}_tai_ns"]).all()
    assert found.packets["rx_soft_tai_ns"].null_count() == 0


def test_packets_of_a_closed_gate_wait_until_it_opens(hosts: Hosts) -> None:
    hosts.tc("sensor", GATES)
    # The last one may have to wait until the gate opens again.
    found = hosts.measure(Stream(priority=1, period_ns=50 * MS, count=40), settle_ms=700)
    assert (found.total("received"), found.lost.height) == (40, 0)
    phase = found.packets.select(
        (pl.col("tx_sched_tai_ns") % (1000 * MS)).alias("handed_in"),
        (pl.col("rx_soft_tai_ns") % (1000 * MS)).alias("arrived"),
    )
    # The kernel may close the gate late, never open it early.
    closed = pl.col("handed_in").is_between(300 * MS, 600 * MS)
    assert phase.filter(closed).height > 0
    assert phase.filter(pl.col("arrived").is_between(300 * MS, 600 * MS)).is_empty()
    # Not asked for before: until a schedule is in force, iproute2 6.1 prints it as no JSON.
    taprio, *_ = hosts.facts("sensor")["interfaces"]["eth0"]["qdiscs"]
    assert taprio["kind"] == "taprio"
    gates = [(entry["gatemask"], entry["interval"]) for entry in taprio["options"]["schedule"]]
    assert gates == [("0x1", 600 * MS), ("0x3", 400 * MS)]


def test_a_delay_in_the_qdisc_stands_between_its_two_stamps(hosts: Hosts) -> None:
    hosts.tc("sensor", "qdisc replace dev eth0 root netem delay 50ms limit 1000")
    found = hosts.measure(Stream())
    assert (found.total("received"), found.total("tx_soft")) == (50, 50)
    for before, after in (("tx_sched_tai_ns", "tx_soft_tai_ns"), ("launch_tai_ns", "rx_soft_tai_ns")):
        assert found.packets.filter(pl.col(after) - pl.col(before) < 50 * MS).is_empty()


def test_loss_copies_and_overtaking_are_each_counted(hosts: Hosts) -> None:
    hosts.tc("sensor", "qdisc replace dev eth0 root netem delay 40ms reorder 30% loss 30% duplicate 30% limit 1000")
    found = hosts.measure(Stream(count=100))
    assert (found.total("sent"), found.total("tx_sched")) == (100, 100)
    assert 0 < found.arrived.height == found.total("received") < 100
    assert found.arrived.height + found.lost.height == 100
    assert found.total("repeated") > 0
    overtaken = found.arrived.sort("arrival").filter(pl.col("sequence") < pl.col("sequence").cum_max())
    assert found.total("reordered") == overtaken.height > 0
    assert found.arrived["tx_soft_tai_ns"].null_count() == 0
    assert found.lost["tx_soft_tai_ns"].null_count() == found.lost.height


def test_facts_tell_the_kernel_and_a_qdiscs_options(hosts: Hosts) -> None:
    hosts.tc("sensor", "qdisc replace dev eth0 root etf clockid CLOCK_TAI delta 500000 deadline_mode")
    facts = hosts.facts("sensor")
    kernel = facts["kernel"]
    assert kernel["release"] == hosts.machine.run("uname", "-r").strip()
    assert kernel["command_line"] == hosts.machine.run("cat", "/proc/cmdline").strip()
    assert {"sch_etf", "sch_taprio", "8021q", "veth"} <= set(kernel["modules"])
    assert kernel["preempt_rt"] is False
    assert facts["machine"]["hypervisor"]["signature"] == "TCGTCGTCGTCG"
    [etf] = facts["interfaces"]["eth0"]["qdiscs"]
    assert etf["kind"] == "etf"
    assert etf["options"] == {
        "clockid": "TAI",
        "delta": 500000,
        "offload": "off",
        "deadline_mode": "on",
        "skip_sock_check": "off",
    }
