"""Which guests and virtual bridges this machine can have, and what is missing for the others."""

from __future__ import annotations

import json
import os
import re
import secrets
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import replace

from latlab.hosts import MACHINE, Host, LocalHost, NetnsHost
from latlab.hosts.tools import install_remedy
from latlab.model.bridges import KINDS
from latlab.model.errors import LabError, LatlabError
from latlab.scenario import parse
from latlab.testbed.agent_binary import find_agent
from latlab.testbed.apply import TestBed
from latlab.testbed.architecture import iommu_remedy
from latlab.testbed.bridges.base import Joint
from latlab.testbed.bridges.joints import joints
from latlab.testbed.bridges.ovs import MODULE
from latlab.testbed.bridges.ovs_afxdp import dpdk_build
from latlab.testbed.bridges.ovs_switch import SWITCHD, switch_version
from latlab.testbed.bridges.table import BRIDGES
from latlab.testbed.bridges.vfio import GROUPS
from latlab.testbed.finding import Finding
from latlab.testbed.guests.qemu import OLDEST_QEMU, qemu_lacking, qemu_program, qemu_version
from latlab.testbed.images import BOARD_KIND, DEFAULTS, GUEST_KIND, Image, list_images
from latlab.testbed.machine import Machine
from latlab.testbed.namespaces import namespace_name
from latlab.testbed.site import Site
from latlab.testbed.step import Step

TAG = "0000"
BOARD_ARCHITECTURES = ("x86_64",)
"""As uname(2) names them."""
CARDS = "/sys/class/net"
HOST, UPLINK, TAP, BRIDGE = "bridges", "up0", "tap0", "br0"


def guest_findings(machine: Machine) -> Iterator[Finding]:
    """What guests start and run by."""
    why = machine.kvm or (None if os.access("/dev/kvm", os.R_OK | os.W_OK) else "no access to /dev/kvm")
    remedy = "enable virtualisation in the firmware, load kvm, run with sudo; without it guests are emulated"
    yield Finding("guests", "KVM", None if why else True, why or "usable", remedy if why else "")
    yield _qemu(machine)
    carried = machine.vhost_net
    found = "/dev/vhost-net" if carried else "missing: QEMU carries the packets"
    yield Finding("guests", "vhost-net", carried or None, found, "" if carried else "`sudo modprobe vhost_net`")
    yield from image_findings(list_images(), machine)


def image_findings(images: Sequence[Image], machine: Machine) -> Iterator[Finding]:
    """What guests start from, and what emulated boards do: they are no substitutes for each other."""
    for kind, whose in ((GUEST_KIND, "guests"), (BOARD_KIND, "hosts of kind board")):
        default = DEFAULTS[kind]
        remedy = f"`latlab image build {default}`, for {whose}"
        if kind == BOARD_KIND and machine.architecture not in BOARD_ARCHITECTURES:
            remedy = f"none for {machine.architecture}: boards need {' or '.join(BOARD_ARCHITECTURES)}"
        found = ", ".join(map(_described, (image for image in images if image.kind == kind)))
        told = f"{found}; for {whose}" if found else "none"
        yield Finding("guests", f"{kind} images", True if found else None, told, "" if found else remedy)


def _described(image: Image) -> str:
    """Its name and its kernel, and the modules that this does not have."""
    lacking = f", without {', '.join(image.lacking)}" if image.lacking else ""
    return f"{image.name} ({image.kernel_version}{lacking})"


def bridge_findings(machine: Machine, tried: Mapping[str, Finding]) -> Iterator[Finding]:
    """Each virtual bridge: available, or what is missing. tried: kind → what came of trying the kernel's part of it."""
    site = Site(TAG, machine=machine)
    yield _open_vswitch(site)
    groups = len(machine.list(GROUPS))
    remedy = iommu_remedy(machine.architecture)
    found = f"{groups} groups" if groups else "not in use"
    yield Finding("bridges", "IOMMU", True if groups else None, found, "" if groups else remedy)
    no_guests = qemu_lacking(machine)
    for kind, bridge in BRIDGES.items():
        name = f"bridge {kind}"
        if no_guests:
            remedy = install_remedy(qemu_program(machine))
            yield Finding("bridges", name, None, f"not available: {no_guests}, and no guest without it", remedy)
            continue
        lackings = [(bridge.lacking(joint, site), joint) for joint in _joints(kind, machine)]
        lacking, joint = next((one for one in lackings if one[0] is None), lackings[0])
        kernel = tried.get(kind)
        if lacking:
            yield Finding("bridges", name, None, f"not available: {lacking.what}", lacking.remedy)
        elif kernel and not kernel.ok:
            yield Finding("bridges", name, None, f"not available: {kernel.found}", kernel.remedy)
        else:
            detail = kernel.found if kernel else bridge.detail(joint, site)
            yield Finding("bridges", name, True, f"available{': ' if detail else ''}{detail}")


async def tried_bridges() -> AsyncIterator[tuple[str, Finding]]:
    """Kind → what came of trying what only the kernel knows, in a namespace made for it; all of it is undone."""
    tag = f"doctor-{os.getpid()}-{secrets.token_hex(2)}"
    namespace = namespace_name(tag, HOST)
    hosts: dict[str, Host] = {MACHINE: LocalHost(MACHINE), HOST: NetnsHost(HOST, namespace)}
    try:
        async with TestBed(tag, hosts) as bed:
            await bed.apply(_scratch(namespace))
            yield "macvtap", await _macvtap(hosts[HOST])
            yield "xdp", await _xdp(hosts[HOST])
    except LabError as error:
        remedy = error.remedy or "run with sudo, outside a container that forbids it"
        for kind in ("macvtap", "xdp"):
            yield kind, Finding("bridges", kind, None, f"the test failed: {error.what}", remedy)


def _qemu(machine: Machine) -> Finding:
    program, oldest = qemu_program(machine), ".".join(map(str, OLDEST_QEMU))
    version = qemu_version(machine)
    if not machine.has_tool(program) or version is None:
        return Finding("guests", "QEMU", None, "missing", install_remedy(program))
    good = version >= OLDEST_QEMU
    remedy = "" if good else f"QEMU {oldest} or newer"
    return Finding("guests", "QEMU", good or None, ".".join(map(str, version)), remedy)


def _open_vswitch(site: Site) -> Finding:
    """Its version, and which of its parts are there."""
    name, said = "Open vSwitch", site.machine.say((SWITCHD, "--version")) or ""
    version = switch_version(said)
    if version is None:
        return Finding("bridges", name, None, "missing", install_remedy(SWITCHD))
    kernel, dpdk = site.machine.exists(MODULE), dpdk_build(site)
    parts = (
        f"{'kernel' if kernel else 'no kernel'} datapath",
        f"{'with' if dpdk else 'without'} DPDK (vhost-user)",
    )
    remedies = [
        *([] if kernel else ["`sudo modprobe openvswitch` for the kernel's datapath"]),
        *([] if dpdk else ["`sudo apt install openvswitch-switch-dpdk` for vhost-user"]),
    ]
    found = f"{'.'.join(map(str, version))}, {', '.join(parts)}"
    return Finding("bridges", name, None if remedies else True, found, "; ".join(remedies))


def _joints(kind: str, machine: Machine) -> list[Joint]:
    """A bridge of this kind as a scenario would have it; of one that needs a card one for each there is."""
    scenario = parse(
        {
            "name": "doctor",
            "hosts": {"sensor": {"kind": "netns"}, "ecu": {"kind": "netns"}},
            "links": [{"ends": ["sensor.eth0", "ecu.eth0"]}],
            "guests": {"vm1": {"host": "ecu", "uplink": "eth0", "bridge": kind}},
            "streams": {"down": {"talker": "sensor", "listener": "vm1", "period": "1ms", "size": "64B"}},
            "duration": "1s",
        }
    ).scenario
    assert scenario, kind
    (joint,) = joints(scenario, TAG)
    if not KINDS[kind].needs_card:
        return [joint]
    cards = [name for name in machine.list(CARDS) if machine.link(f"{CARDS}/{name}/device")]
    return [replace(joint, uplink=card, card=card, made=False, local=True) for card in cards] or [joint]


def _scratch(namespace: str) -> list[Step]:
    """A namespace with a bridge, and a tap and one end of a link in it."""
    link = (UPLINK, "type", "veth", "peer", "name", f"{UPLINK}p")
    commands = (
        ("link", "add", "name", *link),
        ("tuntap", "add", "dev", TAP, "mode", "tap"),
        ("link", "add", "name", BRIDGE, "type", "bridge"),
        ("link", "set", "dev", UPLINK, "master", BRIDGE),
        ("link", "set", "dev", TAP, "master", BRIDGE),
        ("link", "set", "dev", UPLINK, "up"),
        ("link", "set", "dev", f"{UPLINK}p", "up"),
        ("link", "set", "dev", TAP, "up"),
        ("link", "set", "dev", BRIDGE, "up"),
    )
    made = Step(
        host=MACHINE,
        title="make a scratch namespace",
        do=("ip", "netns", "add", namespace),
        undo=("ip", "netns", "del", namespace),
        present=("test", "-e", f"/run/netns/{namespace}"),
    )
    return [made, *(Step(HOST, "make a scratch bridge", ("ip", *command)) for command in commands)]


async def _macvtap(host: Host) -> Finding:
    add = ("ip", "link", "add", "link", f"{UPLINK}p", "name", "mv0", "type", "macvtap", "mode", "bridge")
    if (await host.run(add, check=False)).returncode == 0:
        return Finding("bridges", "macvtap", True, "")
    return Finding(
        "bridges", "macvtap", None, "this kernel has no macvtap", "a kernel with macvtap: `modprobe macvtap`"
    )


async def _xdp(host: Host) -> Finding:
    """Our own XDP bridge: it ends as soon as its standard input does."""
    spec = {"bridge": BRIDGE, "ports": [UPLINK, TAP], "mode": "auto", "realtime": {}}
    remedy = "a kernel with CONFIG_BPF_SYSCALL and CONFIG_XDP_SOCKETS, and a link that accepts an XDP program"
    try:
        agent = str(find_agent())
    except LatlabError as error:
        return Finding("bridges", "xdp", None, error.what, error.remedy)
    said = await host.run((agent, "bridge"), input=json.dumps(spec).encode() + b"\n", check=False)
    events = {event["event"]: event for line in said.stdout.splitlines() if (event := json.loads(line))}
    if ready := events.get("ready"):
        modes = {port["interface"]: port["mode"] for port in ready["ports"]}
        return Finding("bridges", "xdp", True, f"{modes[UPLINK]} on a veth, {modes[TAP]} on a tap")
    refused = events.get("error", {"what": re.sub(r"\s+", " ", said.stderr) or "no answer", "remedy": remedy})
    return Finding("bridges", "xdp", None, refused["what"], refused["remedy"] or remedy)
