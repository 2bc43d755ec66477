"""Open vSwitch with AF_XDP: taps where its build has no DPDK, ports for vhost-user where it has."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from pathlib import Path

import pytest

from latlab.testbed.bridges.ovs_afxdp import DPDK_BUILD, LIBRARIES, POOLS, OvsAfxdp, dpdk_build, xdp_mode
from latlab.testbed.machine import Machine, read_machine
from latlab.testbed.site import Site
from latlab.testbed.step import Argv
from support.machine import dump, run
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
    with_guest,
)

real = pytest.mark.real
AFXDP = OvsAfxdp()
PROTOCOLS = "protocol  size sockets\nXDP       1088      0\nPACKET    1536      0\n"
LINKED = "\tlibxdp.so.1 => /lib/x86_64-linux-gnu/libxdp.so.1\n\tlibbpf.so.1 => /lib/x86_64-linux-gnu/libbpf.so.1\n"
MEMORY = "HugePages_Free:      {}\nHugepagesize:       2048 kB\n"


def built(
    *paths: str, dpdk: bool = False, linked: str = LINKED, protocols: str = PROTOCOLS, pools: bool = True, huge: int = 0
) -> Site:
    """A machine with such a build of Open vSwitch and such a kernel, and no KVM."""

    def say(argv: Argv) -> str | None:
        if argv[:3] == ("sh", "-c", LIBRARIES):
            return linked
        if argv == POOLS:
            return "librte_mempool_ring.so.23\n" if pools else None
        return (CAPTURED / ("version-dpdk.txt" if dpdk else "version.txt")).read_text()

    machine = Machine(
        capabilities=frozenset(),
        cpus=frozenset({0}),
        interfaces=frozenset(),
        has_tool=lambda tool: tool in OvsAfxdp.kind.tools,
        exists=lambda path: path in {"/dev/net/tun", *paths},
        read={"/proc/net/protocols": protocols, "/proc/meminfo": MEMORY.format(huge)}.get,
        say=say,
    )
    return Site(TAG, machine=machine)


def without_dpdk(machine: Machine) -> Machine:
    """The machine as it is without openvswitch-switch-dpdk."""
    return replace(machine, exists=lambda path: path != DPDK_BUILD and machine.exists(path))


@pytest.fixture
def taps(tmp_path: Path, machine: None) -> Site:
    """This machine in a separate network, with AF_XDP but no DPDK."""
    return real_site("ovs-afxdp", tmp_path, without_dpdk(read_machine()))


@pytest.fixture
def vhost_user(tmp_path: Path, machine: None) -> Site:
    """This machine in a separate network, with AF_XDP and DPDK."""
    site = real_site("ovs-afxdp", tmp_path)
    assert dpdk_build(site), AFXDP.detail(joint_of(with_guest("ovs-afxdp")), site)
    return site


@real
def test_packets_pass_between_the_cable_the_host_and_the_guest(taps: Site) -> None:
    made = with_guest("ovs-afxdp")

    async def session() -> None:
        async with await build(made, taps) as bed:
            assert "xdp" in (await bed.hosts["ecu"].run(("ip", "link", "show", "dev", "nic"))).stdout
            await reaches_its_guest(bed, made)

    asyncio.run(session())


@real
def test_a_switch_with_vhost_user_is_made_and_undone_without_a_trace(vhost_user: Site, journals: Path) -> None:
    before = dump()

    async def session() -> None:
        async with await build(with_guest("ovs-afxdp"), vhost_user) as bed:
            read = {result.actual for result in bed.results}
            assert {"nic: a port", f"ll{TAG}v0: a port", "has afxdp-nonpmd, dpdkvhostuserclient, internal"} <= read

    asyncio.run(session())
    assert_no_trace(before, journals)


@real
@pytest.mark.parametrize("mode", ["native", "generic"])
def test_the_xdp_mode_that_is_reported_is_the_one_in_force(mode: str, taps: Site) -> None:
    lay_cable()
    if mode == "generic":  # a macvlan has no native XDP
        run("ip", "link", "set", "near", "name", "carrier")
        run("ip", "link", "add", "near", "link", "carrier", "up", "type", "macvlan", "mode", "bridge")
    made = on_a_cable("ovs-afxdp")
    joint = joint_of(made)
    before = AFXDP.detail(joint, taps)

    async def session() -> str:
        async with await build(made, taps):
            assert AFXDP.detail(joint, taps) == f"{before}; near {mode}"
            return run("ovs-appctl", f"--target={taps.state}/ovs0/vswitchd.ctl", "dpif/show")

    assert re.findall(r"near .*xdp-mode-in-use=([\w-]+)", asyncio.run(session())) == [mode]


@real
def test_a_killed_switch_leaves_no_program_on_a_cable_of_others(taps: Site, journals: Path) -> None:
    lay_cable()
    before = dump()

    async def session() -> None:
        bed = await build(on_a_cable("ovs-afxdp"), taps)
        assert "prog/xdp" in run("ip", "link", "show", "dev", "near")
        await killed(bed, with_switch=True)

    asyncio.run(session())
    assert "prog/xdp" not in run("ip", "link", "show", "dev", "near")
    assert_no_trace(before, journals)


@pytest.mark.parametrize(
    ("site", "mtu", "words"),
    [
        (built(protocols="protocol  size sockets\nPACKET    1536      0\n"), 1500, "no AF_XDP sockets"),
        (built(linked="\tlibc.so.6 => /lib/libc.so.6\n"), 1500, "ovs-vswitchd is built without AF_XDP"),
        (built(), 9000, "an MTU of at most 3498"),
    ],
    ids=["kernel", "build", "mtu"],
)
def test_what_is_missing_is_named(site: Site, mtu: int, words: str) -> None:
    joint = joint_of(with_guest("ovs-afxdp"))
    assert joint.segment.link
    segment = replace(joint.segment, link=joint.segment.link.model_copy(update={"mtu": mtu}))
    missing = AFXDP.lacking(replace(joint, segment=segment), site)
    assert missing
    assert words in missing.what


@pytest.mark.parametrize(
    ("site", "form", "words"),
    [
        (built(), "tap", "openvswitch-switch-dpdk is not installed"),
        (built(DPDK_BUILD, pools=False), "tap", "librte-mempool-ring"),
        (built(DPDK_BUILD), "vhost-user", "vhost-user, ordinary pages"),
        (built(dpdk=True), "vhost-user", "vhost-user, ordinary pages"),
        (built(DPDK_BUILD, huge=160), "vhost-user", "vhost-user, huge pages"),
    ],
    ids=["no DPDK", "DPDK without its pools", "a second build", "one build with DPDK", "huge pages"],
)
def test_how_the_guest_is_plugged_in_is_reported(site: Site, form: str, words: str) -> None:
    joint = joint_of(with_guest("ovs-afxdp"))
    assert AFXDP.lacking(joint, site) is None
    assert AFXDP.plug(joint, joint.ports[0], site).form == form
    assert words in AFXDP.detail(joint, site)
    assert bool(AFXDP.after_guests(joint, site)) == (form == "vhost-user")


def test_the_xdp_mode_is_the_last_that_the_switch_told_of_this_port() -> None:
    log = (CAPTURED / "afxdp-log.txt").read_text()
    assert xdp_mode("near", log) == "generic"
    assert xdp_mode("nic", log) == "native"
    assert xdp_mode("near", log.partition("near: generic")[0]) == "native"
    assert xdp_mode("ear", log) is None
    assert xdp_mode("near", "") is None


def test_a_guest_on_vhost_user_shares_all_of_its_memory() -> None:
    joint = joint_of(with_guest("ovs-afxdp", memory="512MiB"))
    plug = AFXDP.plug(joint, joint.ports[0], built(DPDK_BUILD))
    assert plug.memory == ("-object", "memory-backend-memfd,id=mem,size=512M,share=on")
    assert plug.machine == ("memory-backend=mem",)
    assert plug.more == ("-chardev", f"socket,id=vhost,path=/run/latlab/{TAG}/vm1/vhost.sock,server=on")
    assert "vectors=0" in plug.device
