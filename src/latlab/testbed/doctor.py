"""What this machine can and cannot do for a measurement, and how to get what is missing."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path

from latlab.hosts import MACHINE, LocalHost
from latlab.hosts.tools import install_remedy
from latlab.model.errors import LabError
from latlab.testbed.agent_binary import find_agent, find_agents, no_agent
from latlab.testbed.architecture import ARCHITECTURES, debian_name
from latlab.testbed.bridge_findings import bridge_findings, guest_findings, tried_bridges
from latlab.testbed.finding import Finding
from latlab.testbed.journal import stale_journals
from latlab.testbed.machine import CAPABILITIES, effective_capabilities, read_machine
from latlab.testbed.permitted import no_real_time, no_sysctls, privilege_remedy
from latlab.testbed.scratch import scratch_findings

REQUIRED_TOOLS = ("ip", "sysctl", "grep", "ss", "kill")
OPTIONAL_TOOLS = (
    *("tc", "ethtool", "chrt", "taskset", "setpriv", "iperf3", "netperf", "netserver", "sockperf", "ddsperf"),
    *("cyclictest", "rtla", "stress-ng", "ping"),
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


def worth_doing(findings: Sequence[Finding]) -> list[str]:
    """At most three lines: what is most worth doing. What keeps runs from working comes first."""
    missing = [finding for finding in findings if finding.ok is False]
    limited = [finding for finding in findings if finding.ok is None and finding.name in WORTH]
    limited.sort(key=lambda finding: WORTH.index(finding.name))
    lines = [f"{finding.name}: {finding.remedy}" for finding in (*missing, *limited)]
    return lines[:WORTH_MOST]


async def doctor() -> list[Finding]:
    """All findings, in the order to read them. What is tried out is tried in a namespace made for it."""
    findings = [finding for check in CHECKS for finding in check()]
    findings += [finding async for finding in _scratch()]
    machine = read_machine()
    findings += guest_findings(machine)
    findings += bridge_findings(machine, {kind: finding async for kind, finding in tried_bridges()})
    findings.append(await _fifo())
    areas = [finding.area for finding in findings]
    return sorted(findings, key=lambda finding: areas.index(finding.area))


def _privilege() -> Iterator[Finding]:
    missing = sorted(set(CAPABILITIES) - effective_capabilities(_read("/proc/self/status")))
    found = f"missing {', '.join(missing)}" if missing else "all capabilities"
    yield Finding("privilege", "capabilities", not missing, found, privilege_remedy(missing) if missing else "")
    forbidden = no_sysctls(read_machine())
    found = "/proc/sys is read-only" if forbidden else "can be written"
    yield Finding("privilege", "sysctls", forbidden is None, found, forbidden.remedy if forbidden else "")


def _kernel() -> Iterator[Finding]:
    yield Finding("kernel", "release", True, os.uname().release)
    realtime = _read("/sys/kernel/realtime") == "1" or "PREEMPT_RT" in os.uname().version
    kernel = f"linux-image-rt-{debian_name(os.uname().machine)}"
    remedy = "" if realtime else f"a kernel with PREEMPT_RT, such as Debian's {kernel}"
    yield Finding("kernel", "PREEMPT_RT", realtime or None, "yes" if realtime else "no", remedy)


def _tools() -> Iterator[Finding]:
    for tool in (*REQUIRED_TOOLS, *OPTIONAL_TOOLS):
        path = shutil.which(tool)
        missing = False if tool in REQUIRED_TOOLS else None
        yield Finding("tools", tool, True if path else missing, path or "missing", "" if path else install_remedy(tool))


def _agent() -> Iterator[Finding]:
    try:
        own = find_agent()
    except LabError as error:
        yield Finding("tools", "latlab-agent", False, error.what, error.remedy)
        return
    yield Finding("tools", "latlab-agent", True, str(own))
    agents = find_agents(own)
    for architecture in ARCHITECTURES:
        if architecture != os.uname().machine:
            problem = no_agent(architecture, agents)
            there = agents.get(architecture, "missing")
            found = problem.what if problem and architecture in agents else there
            remedy = f"{problem.remedy}, for machines over ssh and boards of {architecture}" if problem else ""
            yield Finding("tools", f"latlab-agent for {architecture}", None if problem else True, found, remedy)


def _clocks() -> Iterator[Finding]:
    offset_s = round((time.clock_gettime_ns(time.CLOCK_TAI) - time.clock_gettime_ns(time.CLOCK_REALTIME)) / 1e9)
    remark = "" if offset_s else "; not needed on one machine; between machines linuxptp or chrony sets it"
    yield Finding("clocks", "TAI offset", True, f"{offset_s} s{remark}")
    names = [f"{path.name} {_read(path / 'clock_name')}" for path in sorted(Path("/sys/class/ptp").glob("ptp*"))]
    remedy = "" if names else "hardware timestamps need a NIC with a PTP clock, such as Intel i210 or i225"
    yield Finding("clocks", "PTP hardware clocks", True if names else None, ", ".join(names) or "none", remedy)


def _latency() -> Iterator[Finding]:
    device = Path("/dev/cpu_dma_latency")
    usable = os.access(device, os.W_OK)
    found = "writable" if usable else "not writable" if device.exists() else "missing"
    yield Finding(
        "latency", str(device), usable or None, found, "" if usable else "idle states remain enabled: run with sudo"
    )
    runtime = _read("/proc/sys/kernel/sched_rt_runtime_us") or "unknown"
    off = runtime == "-1"
    remedy = "" if off else "`sudo sysctl kernel.sched_rt_runtime_us=-1` for threads that poll"
    found = "off" if off else f"real-time threads may run {runtime} µs in each period"
    yield Finding("latency", "RT throttling", off or None, found, remedy)
    governor = _read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
    good = governor in ("performance", "")
    remedy = "" if good else "`sudo cpupower frequency-set -g performance`"
    yield Finding("latency", "frequency governor", good or None, governor or "no frequency scaling visible", remedy)
    isolated = _read("/sys/devices/system/cpu/isolated")
    remedy = "" if isolated else "isolcpus=… on the kernel's command line"
    yield Finding("latency", "isolated CPUs", True if isolated else None, isolated or "none", remedy)


def _leftovers() -> Iterator[Finding]:
    journals = stale_journals()
    runs = [journal.run for journal in journals if journal.pending() or journal.unread]
    for journal in journals:
        journal.close()
    found = f"of runs {', '.join(runs)}" if runs else "none"
    yield Finding("leftovers", "journals", None if runs else True, found, "`latlab clean`" if runs else "")


async def _scratch() -> AsyncIterator[Finding]:
    """What namespaces, veth links and qdiscs can be made, tried out."""
    async for name, ok, found, remedy in scratch_findings():
        yield Finding("network", name, ok, found, remedy)


async def _fifo() -> Finding:
    try:
        await LocalHost(MACHINE).run(("chrt", "-f", "1", "true"))
    except LabError as error:
        machine = read_machine()
        missing = {"CAP_SYS_NICE"} - machine.capabilities
        forbidden = None if missing else no_real_time(machine)
        remedy = forbidden.remedy if forbidden else error.remedy or privilege_remedy(missing)
        return Finding("latency", "SCHED_FIFO", False, error.what, remedy)
    return Finding("latency", "SCHED_FIFO", True, "permitted")


def _read(path: str | Path) -> str:
    """The file's stripped text; empty when the kernel offers no such file."""
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


CHECKS: tuple[Callable[[], Iterator[Finding]], ...] = (
    _privilege,
    _kernel,
    _tools,
    _agent,
    _clocks,
    _latency,
    _leftovers,
)
