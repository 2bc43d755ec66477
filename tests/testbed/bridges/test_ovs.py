"""Open vSwitch: latlab's switch carries packets between the cable, the host and a guest, and leaves nothing."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from latlab.model.errors import LabError
from latlab.testbed.bridges.base import CHECKSUM_OFFLOADS_OFF
from latlab.testbed.bridges.ovs import MODULE, OvsBridge
from latlab.testbed.bridges.ovs_switch import (
    KERNEL,
    USER_SPACE,
    OvsPort,
    Switch,
    interface_types,
    known_address,
    link_state,
    port_state,
    promiscuous,
    switch_version,
)
from latlab.testbed.machine import Machine
from latlab.testbed.site import Site
from support.machine import alive, dump, run
from support.testbed.bridges import (
    CAPTURED,
    TAG,
    assert_no_trace,
    build,
    joint_of,
    killed,
    lay_cable,
    on_a_cable,
    reaches_its_guest,
    real_site,
    switch_pids,
    with_guest,
)

VERSION = (CAPTURED / "version.txt").read_text()
ASKS = """
import socket, sys
way = socket.socket()
way.settimeout(10)
way.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, sys.argv[2].encode())
way.connect((sys.argv[1], 5601))
print(way.recv(9).decode())
"""
real = pytest.mark.real


def switch_on(*paths: str, interfaces: tuple[str, ...] = (), version: str = VERSION, lacks: str = "") -> Site:
    """A machine with Open vSwitch, with these paths and interfaces."""
    machine = Machine(
        capabilities=frozenset(),
        cpus=frozenset({0}),
        interfaces=frozenset(interfaces),
        has_tool=lambda tool: tool in OvsBridge.kind.tools and tool != lacks,
        exists=lambda path: path in {"/dev/net/tun", *paths},
        say=lambda argv: version,
    )
    return Site(TAG, machine=machine)


@pytest.fixture
def here(tmp_path: Path, machine: None) -> Site:
    """This machine, in a separate network, with Open vSwitch."""
    return real_site("ovs", tmp_path)


@real
def test_packets_pass_between_the_cable_the_host_and_the_guest(here: Site) -> None:
    made = with_guest("ovs")

    async def session() -> None:
        async with await build(made, here) as bed:
            await reaches_its_guest(bed, made)

    asyncio.run(session())


@real
def test_a_connection_of_the_host_passes_the_switch_and_no_copy_of_it_is_answered(here: Site) -> None:
    """The switch in user space reads copies: the kernel would reset what is bound to the bridge's interface."""
    listens = "import socket; s = socket.create_server(('', 5601)); print(flush=True); s.accept()[0].sendall(b'whole')"
    made = with_guest("ovs")
    device = OvsBridge().device(joint_of(made), here)
    assert device

    async def session() -> str:
        async with await build(made, here) as bed:
            (sensor,) = (await bed.hosts["sensor"].run(("hostname", "-I"))).stdout.split()
            serving = await bed.spawn(bed.hosts["sensor"], "the server", (sys.executable, "-c", listens))
            await serving.stdout.readline()
            return (await bed.hosts["ecu"].run((sys.executable, "-c", ASKS, sensor, device))).stdout.strip()

    assert asyncio.run(session()) == "whole"


@real
def test_a_switch_is_undone_without_a_trace(here: Site, journals: Path) -> None:
    before = dump()
    pids: list[int] = []

    async def session() -> None:
        async with await build(with_guest("ovs"), here) as bed:
            pids.extend(switch_pids(bed).values())
            assert all(alive(pid) for pid in pids)

    asyncio.run(session())
    assert len(pids) == 2
    assert not any(alive(pid) for pid in pids)
    assert_no_trace(before, journals)


@real
@pytest.mark.parametrize("with_switch", [False, True], ids=["the lab", "the switch too"])
def test_a_killed_lab_leaves_a_cable_of_others_as_it_was(with_switch: bool, here: Site, journals: Path) -> None:
    lay_cable()
    filtered = ("sysctl", "-n", "net.ipv4.conf.near.rp_filter")
    before = json.loads(run("ip", "-j", "link")), run(*filtered)

    async def session() -> list[str]:
        bed = await build(on_a_cable("ovs"), here)
        assert run(*filtered).strip() == "1" != before[1].strip()
        assert promiscuous(run("ip", "-j", "link", "show", "near")) == {"before": "on"}
        return await killed(bed, with_switch=with_switch)

    assert "ecu: make the bridge in the userspace datapath" in "\n".join(asyncio.run(session()))
    assert (json.loads(run("ip", "-j", "link")), run(*filtered)) == before
    assert list(journals.iterdir()) == []


@real
def test_a_port_that_cannot_be_made_is_reported_in_the_switchs_own_words(here: Site) -> None:
    made = with_guest("ovs")
    switch = Switch(joint_of(made), here, USER_SPACE, "userspace datapath")

    async def session() -> None:
        async with await build(made, here) as bed:
            step = switch.port(OvsPort("nosuch0"))
            assert step.check
            await bed.apply([replace(step, check=replace(step.check, within_ms=0))])

    with pytest.raises(LabError, match="could not open network device nosuch0"):
        asyncio.run(session())


@pytest.mark.parametrize(
    ("paths", "interfaces", "local", "expected"),
    [
        ((), (), False, USER_SPACE),
        ((MODULE,), (), False, KERNEL),
        ((MODULE,), (), True, KERNEL),
        ((MODULE,), ("ovs-system",), False, KERNEL),
        ((MODULE,), ("ovs-system",), True, USER_SPACE),
    ],
    ids=["no module", "a namespace", "this machine", "another's on the machine", "another's in its own network"],
)
def test_the_kernel_carries_where_it_can_and_nobody_elses_switch_is_there(
    paths: tuple[str, ...], interfaces: tuple[str, ...], local: bool, expected: str
) -> None:
    joint, site = replace(joint_of(with_guest("ovs")), local=local), switch_on(*paths, interfaces=interfaces)
    assert OvsBridge().datapath(joint, site) == expected
    assert ("userspace" in OvsBridge().detail(joint, site)) == (expected == USER_SPACE)
    whole = OvsBridge().plug(joint, joint.ports[0], site).device
    assert whole == (CHECKSUM_OFFLOADS_OFF if expected == USER_SPACE else ())
    assert OvsBridge().lacking(joint, site) is None


def test_why_the_kernel_does_not_carry_is_reported() -> None:
    joint = replace(joint_of(with_guest("ovs")), local=True)
    assert "module openvswitch is not loaded" in OvsBridge().detail(joint, switch_on())
    taken = switch_on(MODULE, interfaces=("ovs-system",))
    assert "another Open vSwitch has ovs-system" in OvsBridge().detail(joint, taken)


@pytest.mark.parametrize(
    ("site", "local", "beside", "words"),
    [
        (switch_on(lacks="ovsdb-tool"), False, (), "ovsdb-tool is missing"),
        (switch_on(version="ovs-vswitchd (Open vSwitch) 2.13.8"), False, (), "2.13.8 has no static forwarding entries"),
        (switch_on(interfaces=("ovs-netdev",)), True, (), "another Open vSwitch has ovs-netdev"),
        (switch_on(), False, ("tap", "ovs-afxdp"), "another bridge of kind ovs-afxdp"),
    ],
    ids=["no tool", "too old", "another's datapath", "two of ours on one host"],
)
def test_what_is_missing_is_named(site: Site, local: bool, beside: tuple[str, ...], words: str) -> None:
    joint = replace(joint_of(with_guest("ovs")), local=local, beside=beside)
    missing = OvsBridge().lacking(joint, site)
    assert missing
    assert words in missing.what
    assert missing.remedy


@pytest.mark.parametrize(
    ("read", "file", "expected"),
    [
        (port_state("nic"), "ports.json", "nic: a port"),
        (port_state("nosuch"), "ports.json", "nosuch: could not open network device nosuch (No such device)"),
        (link_state("nic"), "link-states.json", "up"),
        (link_state("tap0"), "link-states.json", "down"),
        (link_state("nosuch"), "link-states.json", "unknown"),
        (interface_types(("internal", "system")), "interface-types.json", "has internal, system"),
        (interface_types(("afxdp-nonpmd", "dpdkvhostuserclient")), "interface-types.json", "has afxdp-nonpmd"),
        (known_address("02:d1:e6:4a:00:00"), "fdb.txt", "02:d1:e6:4a:00:00 static"),
        (known_address("82:6c:9a:67:63:a2"), "fdb.txt", "82:6c:9a:67:63:a2 0"),
        (known_address("02:00:00:00:00:09"), "fdb.txt", "02:00:00:00:00:09 is not known"),
    ],
)
def test_what_the_switch_says_is_read(read: Callable[[str], str], file: str, expected: str) -> None:
    assert read((CAPTURED / file).read_text()) == expected


def test_its_version_is_read() -> None:
    assert switch_version(VERSION) == (3, 1, 0)
    assert switch_version("something else") is None
