"""What this machine can and cannot do for a measurement, and how to get what is missing."""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from latlab.hosts import MACHINE, Host, LocalMachine, NamespaceHost
from latlab.hosts.tools import install_remedy
from latlab.model.bridges import KINDS
from latlab.model.errors import LabError, LatlabError
from latlab.model.units import SECOND_NS
from latlab.scenario import parse
from latlab.testbed.agent_binary import find_agent, find_agents, no_agent
from latlab.testbed.apply import TestBed
from latlab.testbed.architecture import ARCHITECTURES, debian_name, iommu_remedy
from latlab.testbed.bridges.base import BridgeMaker, Joint, ScratchBridge
from latlab.testbed.bridges.joints import joints
from latlab.testbed.bridges.ovs import MODULE
from latlab.testbed.bridges.ovs_afxdp import dpdk_build
from latlab.testbed.bridges.ovs_switch import SWITCHD, switch_version
from latlab.testbed.bridges.table import BRIDGES
from latlab.testbed.bridges.vfio import GROUPS
from latlab.testbed.guests.qemu import OLDEST_QEMU, qemu_lacking, qemu_program, qemu_version
from latlab.testbed.host_setup import namespace_name
from latlab.testbed.images import BOARD_KIND, DEFAULTS, GUEST_KIND, Image, list_images
from latlab.testbed.journal import stale_journals
from latlab.testbed.kernel_parts import load_remedy
from latlab.testbed.loads import LOAD_TOOLS
from latlab.testbed.machine import (
    CAPABILITIES,
    Machine,
    effective_capabilities,
    no_real_time,
    no_sysctls,
    privilege_remedy,
    read_machine,
)
from latlab.testbed.probes import PROBE_TOOLS
from latlab.testbed.program_trial import LOADED, OF_PROGRAMS, PROGRAMS_REMEDY, no_programs
from latlab.testbed.shapers import KINDS as SHAPERS
from latlab.testbed.site import Site
from latlab.testbed.step import Argv, Step
from latlab.testbed.timestamping import parse_timestamping
from latlab.testbed.vlans import REMEDY

REQUIRED_TOOLS = ("ip", "sysctl", "grep", "ss", "kill")
OPTIONAL_TOOLS = (
    *("tc", "ethtool", "chrt", "taskset", "setpriv"),
    *dict.fromkeys((*LOAD_TOOLS, *PROBE_TOOLS, "ping")),
    *("hwstamp_ctl", "ptp4l", "phc2sys", "phc_ctl"),
)


WORTH = (
    "journals",
    "KVM",
    "isolated CPUs",
    "PREEMPT_RT",
    "frequency governor",
    "/dev/cpu_dma_latency",
    "RT throttling",
    "PTP hardware clocks",
    "iperf3",
)
"""What only limits a measurement, by how much better it gets without that limit."""
WORTH_MOST = 3


def worth_doing(findings: Sequence[DoctorFinding]) -> list[str]:
    """At most three lines: what is most worth doing. What keeps runs from working comes first."""
    missing = [finding for finding in findings if finding.ok is False]
    limited = [finding for finding in findings if finding.ok is None and finding.name in WORTH]
    limited.sort(key=lambda finding: WORTH.index(finding.name))
    lines = [f"{finding.name}: {finding.remedy}" for finding in (*missing, *limited)]
    return lines[:WORTH_MOST]


async def doctor() -> list[DoctorFinding]:
    """All findings, in the order to read them. What is tried out is tried in a namespace made for it."""
    findings = [finding for check in CHECKS for finding in check()]
    findings += [finding async for finding in _scratch()]
    machine = read_machine()
    findings += guest_findings(machine)
    findings += bridge_findings(machine, {kind: finding async for kind, finding in tried_bridges()})
    findings += [await _fifo(), await _programs()]
    areas = [finding.area for finding in findings]
    return sorted(findings, key=lambda finding: areas.index(finding.area))


def _privilege() -> Iterator[DoctorFinding]:
    missing = sorted(set(CAPABILITIES) - effective_capabilities(_read("/proc/self/status")))
    found = f"missing {', '.join(missing)}" if missing else "all capabilities"
    yield DoctorFinding("privilege", "capabilities", not missing, found, privilege_remedy(missing) if missing else "")
    forbidden = no_sysctls(read_machine())
    found = "/proc/sys is read-only" if forbidden else "can be written"
    yield DoctorFinding("privilege", "sysctls", forbidden is None, found, forbidden.remedy if forbidden else "")


def _kernel() -> Iterator[DoctorFinding]:
    yield DoctorFinding("kernel", "release", True, os.uname().release)
    realtime = _read("/sys/kernel/realtime") == "1" or "PREEMPT_RT" in os.uname().version
    kernel = f"linux-image-rt-{debian_name(os.uname().machine)}"
    remedy = "" if realtime else f"a kernel with PREEMPT_RT, such as Debian's {kernel}"
    yield DoctorFinding("kernel", "PREEMPT_RT", realtime or None, "yes" if realtime else "no", remedy)


def _tools() -> Iterator[DoctorFinding]:
    for tool in (*REQUIRED_TOOLS, *OPTIONAL_TOOLS):
        path = shutil.which(tool)
        missing = False if tool in REQUIRED_TOOLS else None
        yield DoctorFinding(
            "tools", tool, True if path else missing, path or "missing", "" if path else install_remedy(tool)
        )


def _agent() -> Iterator[DoctorFinding]:
    try:
        own = find_agent()
    except LabError as error:
        yield DoctorFinding("tools", "latlab-agent", False, error.what, error.remedy)
        return
    yield DoctorFinding("tools", "latlab-agent", True, str(own))
    agents = find_agents(own)
    for architecture in ARCHITECTURES:
        if architecture != os.uname().machine:
            problem = no_agent(architecture, agents)
            there = agents.get(architecture, "missing")
            found = problem.what if problem and architecture in agents else there
            remedy = f"{problem.remedy}, for machines over ssh and boards of {architecture}" if problem else ""
            yield DoctorFinding("tools", f"latlab-agent for {architecture}", None if problem else True, found, remedy)


def _clocks() -> Iterator[DoctorFinding]:
    offset_s = round((time.clock_gettime_ns(time.CLOCK_TAI) - time.clock_gettime_ns(time.CLOCK_REALTIME)) / SECOND_NS)
    remark = "" if offset_s else "; not needed on one machine; between machines linuxptp or chrony sets it"
    yield DoctorFinding("clocks", "TAI offset", True, f"{offset_s} s{remark}")
    names = [f"{path.name} {_read(path / 'clock_name')}" for path in sorted(Path("/sys/class/ptp").glob("ptp*"))]
    remedy = "" if names else "hardware timestamps need a NIC with a PTP clock, such as Intel i210 or i225"
    yield DoctorFinding("clocks", "PTP hardware clocks", True if names else None, ", ".join(names) or "none", remedy)


def _latency() -> Iterator[DoctorFinding]:
    device = Path("/dev/cpu_dma_latency")
    usable = os.access(device, os.W_OK)
    found = "writable" if usable else "not writable" if device.exists() else "missing"
    yield DoctorFinding(
        "latency", str(device), usable or None, found, "" if usable else "idle states remain enabled: run with sudo"
    )
    runtime = _read("/proc/sys/kernel/sched_rt_runtime_us") or "unknown"
    off = runtime == "-1"
    remedy = "" if off else "`sudo sysctl kernel.sched_rt_runtime_us=-1` for threads that poll"
    found = "off" if off else f"real-time threads may run {runtime} µs in each period"
    yield DoctorFinding("latency", "RT throttling", off or None, found, remedy)
    governor = _read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
    good = governor in ("performance", "")
    remedy = "" if good else "`sudo cpupower frequency-set -g performance`"
    yield DoctorFinding(
        "latency", "frequency governor", good or None, governor or "no frequency scaling visible", remedy
    )
    isolated = _read("/sys/devices/system/cpu/isolated")
    remedy = "" if isolated else "isolcpus=… on the kernel's command line"
    yield DoctorFinding("latency", "isolated CPUs", True if isolated else None, isolated or "none", remedy)


def _leftovers() -> Iterator[DoctorFinding]:
    journals = stale_journals()
    runs = [journal.run for journal in journals if journal.pending() or journal.unread]
    for journal in journals:
        journal.close()
    found = f"of runs {', '.join(runs)}" if runs else "none"
    yield DoctorFinding("leftovers", "journals", None if runs else True, found, "`latlab clean`" if runs else "")


async def _scratch() -> AsyncIterator[DoctorFinding]:
    """What namespaces, veth links and qdiscs can be made, tried out."""
    async for name, ok, found, remedy in scratch_findings():
        yield DoctorFinding("network", name, ok, found, remedy)


async def _fifo() -> DoctorFinding:
    try:
        await LocalMachine(MACHINE).run(("chrt", "-f", "1", "true"))
    except LabError as error:
        machine = read_machine()
        missing = {"CAP_SYS_NICE"} - machine.capabilities
        forbidden = None if missing else no_real_time(machine)
        remedy = forbidden.remedy if forbidden else error.remedy or privilege_remedy(missing)
        return DoctorFinding("latency", "SCHED_FIFO", False, error.what, remedy)
    return DoctorFinding("latency", "SCHED_FIFO", True, "permitted")


async def _programs() -> DoctorFinding:
    """Whether BPF programs can be loaded, tried out."""
    try:
        agent = str(find_agent())
    except LabError as error:
        return DoctorFinding("kernel", OF_PROGRAMS, None, f"not tried: {error.what}", error.remedy)
    why = await no_programs(LocalMachine(MACHINE), agent, tempfile.gettempdir())
    return DoctorFinding("kernel", OF_PROGRAMS, None if why else True, why or LOADED, PROGRAMS_REMEDY if why else "")


def _read(path: str | Path) -> str:
    """The file's stripped text; empty when the kernel offers no such file."""
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


CHECKS: tuple[Callable[[], Iterator[DoctorFinding]], ...] = (
    _privilege,
    _kernel,
    _tools,
    _agent,
    _clocks,
    _latency,
    _leftovers,
)

# One thing that the doctor found.


@dataclass(frozen=True)
class DoctorFinding:
    """One thing found.

    ok: True it is as it should be, False runs will fail, None runs work but measure less well or less.
    """

    area: str
    name: str
    ok: bool | None
    found: str
    remedy: str = ""


# Trying out in a separate namespace which parts of a test bed this kernel can make.


Tried = tuple[str, bool | None, str, str]
"""Name, ok (False: runs will fail; None: one part of a scenario cannot be used), what was found, remedy."""

SCRATCH_HOST = "scratch"
INTERFACE = "scratch0"


async def scratch_findings() -> AsyncIterator[Tried]:
    """What was tried and what came of it. All of it is undone, by the journal too if this is killed."""
    tag = f"doctor-{os.getpid()}-{secrets.token_hex(2)}"
    namespace = namespace_name(tag, SCRATCH_HOST)
    hosts: dict[str, Host] = {MACHINE: LocalMachine(MACHINE), SCRATCH_HOST: NamespaceHost(SCRATCH_HOST, namespace)}
    try:
        async with TestBed(tag, hosts) as bed:
            await bed.apply([_namespace(namespace), _veth(namespace)])
            yield "namespaces and veth", True, "can be made", ""
            yield await _timestamps(hosts[SCRATCH_HOST])
            yield await _vlan(hosts[SCRATCH_HOST])
            for qdisc, shaper in SHAPERS.items():
                if shaper.tried:
                    yield await _qdisc(hosts[SCRATCH_HOST], qdisc, shaper.tried)
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
    remedy = f"{load_remedy(f'sch_{qdisc}')}, and `tc` of iproute2"
    return f"qdisc {qdisc}", None, "not in this kernel", remedy


# Which guests and virtual bridges this machine can have, and what is missing for the others.


TAG = "0000"
BOARD_ARCHITECTURES = ("x86_64",)
"""As uname(2) names them."""
CARDS = "/sys/class/net"
BRIDGES_HOST, UPLINK, TAP, BRIDGE = "bridges", "up0", "tap0", "br0"


def guest_findings(machine: Machine) -> Iterator[DoctorFinding]:
    """What guests start and run by."""
    why = machine.kvm or (None if os.access("/dev/kvm", os.R_OK | os.W_OK) else "no access to /dev/kvm")
    remedy = "enable virtualisation in the firmware, load kvm, run with sudo; without it guests are emulated"
    yield DoctorFinding("guests", "KVM", None if why else True, why or "usable", remedy if why else "")
    yield _qemu(machine)
    carried = machine.vhost_net
    found = "/dev/vhost-net" if carried else "missing: QEMU carries the packets"
    yield DoctorFinding("guests", "vhost-net", carried or None, found, "" if carried else load_remedy("vhost_net"))
    yield from image_findings(list_images(), machine)


def image_findings(images: Sequence[Image], machine: Machine) -> Iterator[DoctorFinding]:
    """What guests start from, and what emulated boards do: they are no substitutes for each other."""
    for kind, whose in ((GUEST_KIND, "guests"), (BOARD_KIND, "hosts of kind board")):
        default = DEFAULTS[kind]
        remedy = f"`latlab image build {default}`, for {whose}"
        if kind == BOARD_KIND and machine.architecture not in BOARD_ARCHITECTURES:
            remedy = f"none for {machine.architecture}: boards need {' or '.join(BOARD_ARCHITECTURES)}"
        found = ", ".join(map(_described, (image for image in images if image.kind == kind)))
        told = f"{found}; for {whose}" if found else "none"
        yield DoctorFinding("guests", f"{kind} images", True if found else None, told, "" if found else remedy)


def _described(image: Image) -> str:
    """Its name and its kernel, and the modules that this does not have."""
    lacking = f", without {', '.join(image.lacking)}" if image.lacking else ""
    return f"{image.name} ({image.kernel_version}{lacking})"


def bridge_findings(machine: Machine, tried: Mapping[str, DoctorFinding]) -> Iterator[DoctorFinding]:
    """Each virtual bridge: available, or what is missing. tried: kind → what came of trying the kernel's part of it."""
    site = Site(TAG, machine=machine)
    yield _open_vswitch(site)
    groups = len(machine.list(GROUPS))
    remedy = iommu_remedy(machine.architecture)
    found = f"{groups} groups" if groups else "not in use"
    yield DoctorFinding("bridges", "IOMMU", True if groups else None, found, "" if groups else remedy)
    no_guests = qemu_lacking(machine)
    for kind, bridge in BRIDGES.items():
        name = f"bridge {kind}"
        if no_guests:
            remedy = install_remedy(qemu_program(machine))
            yield DoctorFinding("bridges", name, None, f"not available: {no_guests}, and no guest without it", remedy)
            continue
        lackings = [(bridge.lacking(joint, site), joint) for joint in _joints(kind, machine)]
        lacking, joint = next((one for one in lackings if one[0] is None), lackings[0])
        kernel = tried.get(kind)
        if lacking:
            yield DoctorFinding("bridges", name, None, f"not available: {lacking.what}", lacking.remedy)
        elif kernel and not kernel.ok:
            yield DoctorFinding("bridges", name, None, f"not available: {kernel.found}", kernel.remedy)
        else:
            detail = kernel.found if kernel else bridge.detail(joint, site)
            yield DoctorFinding("bridges", name, True, f"available{': ' if detail else ''}{detail}")


async def tried_bridges() -> AsyncIterator[tuple[str, DoctorFinding]]:
    """Kind → what came of trying what only the kernel knows, in a namespace made for it; all of it is undone."""
    tried = {kind: bridge for kind, bridge in BRIDGES.items() if bridge.is_tried}
    tag = f"doctor-{os.getpid()}-{secrets.token_hex(2)}"
    namespace = namespace_name(tag, BRIDGES_HOST)
    hosts: dict[str, Host] = {MACHINE: LocalMachine(MACHINE), BRIDGES_HOST: NamespaceHost(BRIDGES_HOST, namespace)}
    try:
        async with TestBed(tag, hosts) as bed:
            await bed.apply(_scratch_bridge(namespace))
            for kind, bridge in tried.items():
                yield kind, await _tried(kind, bridge, hosts[BRIDGES_HOST])
    except LabError as error:
        remedy = error.remedy or "run with sudo, outside a container that forbids it"
        for kind in tried:
            yield kind, DoctorFinding("bridges", kind, None, f"the test failed: {error.what}", remedy)


async def _tried(kind: str, bridge: BridgeMaker, host: Host) -> DoctorFinding:
    try:
        found = await bridge.tried(host, ScratchBridge(BRIDGE, UPLINK, TAP, f"{UPLINK}p"))
    except LatlabError as error:
        return DoctorFinding("bridges", kind, None, error.what, error.remedy)
    return DoctorFinding("bridges", kind, True, found)


def _qemu(machine: Machine) -> DoctorFinding:
    program, oldest = qemu_program(machine), ".".join(map(str, OLDEST_QEMU))
    version = qemu_version(machine)
    if not machine.has_tool(program) or version is None:
        return DoctorFinding("guests", "QEMU", None, "missing", install_remedy(program))
    good = version >= OLDEST_QEMU
    remedy = "" if good else f"QEMU {oldest} or newer"
    return DoctorFinding("guests", "QEMU", good or None, ".".join(map(str, version)), remedy)


def _open_vswitch(site: Site) -> DoctorFinding:
    """Its version, and which of its parts are there."""
    name, said = "Open vSwitch", site.machine.say((SWITCHD, "--version")) or ""
    version = switch_version(said)
    if version is None:
        return DoctorFinding("bridges", name, None, "missing", install_remedy(SWITCHD))
    kernel, dpdk = site.machine.exists(MODULE), dpdk_build(site)
    parts = (
        f"{'kernel' if kernel else 'no kernel'} datapath",
        f"{'with' if dpdk else 'without'} DPDK (vhost-user)",
    )
    remedies = [
        *([] if kernel else [f"{load_remedy('openvswitch')}, for the kernel's datapath"]),
        *([] if dpdk else ["`sudo apt install openvswitch-switch-dpdk` for vhost-user"]),
    ]
    found = f"{'.'.join(map(str, version))}, {', '.join(parts)}"
    return DoctorFinding("bridges", name, None if remedies else True, found, "; ".join(remedies))


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


def _scratch_bridge(namespace: str) -> list[Step]:
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
    return [made, *(Step(BRIDGES_HOST, "make a scratch bridge", ("ip", *command)) for command in commands)]
