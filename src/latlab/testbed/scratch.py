"""Trying out in a separate namespace which parts of a test bed this kernel can make."""

from __future__ import annotations

import os
import secrets
from collections.abc import AsyncIterator

from latlab.hosts import MACHINE, Host, LocalHost, NetnsHost
from latlab.model.errors import LabError
from latlab.testbed.apply import TestBed
from latlab.testbed.namespaces import namespace_name
from latlab.testbed.step import Argv, Step
from latlab.testbed.timestamping import parse_timestamping
from latlab.testbed.vlans import REMEDY

Tried = tuple[str, bool | None, str, str]
"""Name, ok (False: runs will fail; None: one part of a scenario cannot be used), what was found, remedy."""

HOST = "scratch"
INTERFACE = "scratch0"

QDISCS: dict[str, Argv] = {
    "taprio": (
        *("num_tc", "2", "map", "0", "1", "queues", "1@0", "1@1", "base-time", "0"),
        *("sched-entry", "S", "01", "500000", "sched-entry", "S", "02", "500000", "clockid", "CLOCK_TAI"),
    ),
    "etf": ("clockid", "CLOCK_TAI", "delta", "100000"),
    "mqprio": ("num_tc", "2", "map", "0", "1", "queues", "1@0", "1@1", "hw", "0"),
}
"""The qdiscs of time-sensitive networking, each with arguments that a veth with two queues accepts."""


async def scratch_findings() -> AsyncIterator[Tried]:
    """What was tried and what came of it. All of it is undone, by the journal too if this is killed."""
    tag = f"doctor-{os.getpid()}-{secrets.token_hex(2)}"
    namespace = namespace_name(tag, HOST)
    hosts: dict[str, Host] = {MACHINE: LocalHost(MACHINE), HOST: NetnsHost(HOST, namespace)}
    try:
        async with TestBed(tag, hosts) as bed:
            await bed.apply([_namespace(namespace), _veth(namespace)])
            yield "namespaces and veth", True, "can be made", ""
            yield await _timestamps(hosts[HOST])
            yield await _vlan(hosts[HOST])
            for qdisc, arguments in QDISCS.items():
                yield await _qdisc(hosts[HOST], qdisc, arguments)
    except LabError as error:
        yield (
            "namespaces and veth",
            False,
            str(error),
            error.remedy or "run with sudo, outside a container that forbids it",
        )


def _namespace(namespace: str) -> Step:
    return Step(
        host=MACHINE,
        title="make a scratch namespace",
        do=("ip", "netns", "add", namespace),
        undo=("ip", "netns", "del", namespace),
        present=("test", "-e", f"/run/netns/{namespace}"),
    )


def _veth(namespace: str) -> Step:
    queues = ("numtxqueues", "2", "numrxqueues", "2")
    pair = (*queues, "type", "veth", "peer", "name", f"{INTERFACE}p", *queues)
    return Step(MACHINE, "make a scratch link", ("ip", "-n", namespace, "link", "add", "name", INTERFACE, *pair))


async def _timestamps(host: Host) -> Tried:
    name = "software timestamps"
    try:
        able = parse_timestamping((await host.run(("ethtool", "-T", INTERFACE))).stdout)
    except (LabError, ValueError) as error:
        return name, None, f"unknown: {error}", "`sudo apt install ethtool`"
    both = able.tx_software and able.rx_software
    return (
        name,
        both,
        "on sending and receiving" if both else "not in both directions",
        "" if both else "a newer kernel",
    )


async def _vlan(host: Host) -> Tried:
    name = "VLAN interfaces"
    add = ("ip", "link", "add", "link", INTERFACE, "name", f"{INTERFACE}.5", "type", "vlan", "id", "5")
    if (await host.run(add, check=False)).returncode == 0:
        return name, True, "can be made", ""
    return name, None, "not in this kernel", REMEDY


async def _qdisc(host: Host, qdisc: str, arguments: Argv) -> Tried:
    base = ("tc", "qdisc", "replace", "dev", INTERFACE, "root", "handle", "100:")
    tried = await host.run((*base, qdisc, *arguments), check=False)
    if tried.returncode == 0:
        await host.run(("tc", "qdisc", "del", "dev", INTERFACE, "root"))
        return f"qdisc {qdisc}", True, "can be set", ""
    remedy = f"a kernel with sch_{qdisc} (`modprobe sch_{qdisc}`), and `tc` of iproute2"
    return f"qdisc {qdisc}", None, "not in this kernel", remedy
