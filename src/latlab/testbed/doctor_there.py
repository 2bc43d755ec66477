"""What a machine over ssh can and cannot do for a measurement: asked by one command that any POSIX shell runs.

BusyBox's shell and programs are enough to ask, and nothing is changed there. A BusyBox shell may run its own programs
whatever is on the PATH: it then names them without a path. To try whether its kernel takes BPF programs, the agent is
copied into a new folder, which is removed again.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import Final

from latlab.hosts import RemoteHost
from latlab.hosts.tools import install_remedy
from latlab.model.bridges import KINDS
from latlab.model.errors import LabError
from latlab.scenario import Guest
from latlab.testbed.agent_binary import AGENT, find_agent, find_agents, no_agent
from latlab.testbed.bridges.vf import CARD_WITH_SRIOV, COUNT_SRIOV, HAS_SRIOV, SWITCH_ON, SYMBOL
from latlab.testbed.doctor import DoctorFinding
from latlab.testbed.kernel_parts import kernel_parts, load_remedy
from latlab.testbed.loads import LOAD_TOOLS
from latlab.testbed.machines.ssh import AGENTS, USER
from latlab.testbed.probes import PROBE_TOOLS
from latlab.testbed.program_trial import (
    FOLDER,
    KERNEL_TYPES,
    LOADED,
    OF_PROGRAMS,
    PROGRAMS_REMEDY,
    WITH_TYPES,
    no_programs,
)
from latlab.testbed.shapers import KINDS as SHAPERS
from latlab.testbed.ssh_steps import CLOCK_S, TOOLS, clock_apart, mount_of
from latlab.testbed.tuning.cpus import cpu_list

RECORDINGS: Final = "/var/tmp"
BUSYBOX: Final = "busybox"
TOO_SMALL: Final = ("ip", "tc")
"""Programs that BusyBox has without what latlab uses: JSON, namespaces, qdiscs."""
FREE_MB: Final = 64
"""A minute of a stream at 1 kHz takes about 10 MB."""
GUEST_NEEDS: Final[int] = Guest.model_fields["memory"].default
"""Bytes, of a guest whose scenario names none."""
ASKED_S: Final = 60.0
ASK: Final = r"""
say() { printf '%s=%s\n' "$1" "$2"; }
first() { cat "$1" 2>/dev/null | head -n 1; }
say architecture "$(uname -m)"
say release "$(uname -r)"
say version "$(uname -v)"
say user "$(id -u)"
say time "$(date +%s)"
say model "$(first /proc/device-tree/model | tr -d '\000')"
say clocksource "$(first /sys/devices/system/clocksource/clocksource0/current_clocksource)"
say realtime "$(first /sys/kernel/realtime)"
say isolated "$(first /sys/devices/system/cpu/isolated)"
for cpu in /sys/devices/system/cpu/cpu[0-9]*; do
    [ -r "$cpu/cpu_capacity" ] && say capacity "${cpu##*/cpu} $(first "$cpu/cpu_capacity")"
done
for clock in /sys/class/ptp/*; do [ -e "$clock" ] && say clock "${clock##*/} $(first "$clock/clock_name")"; done
for device in /sys/bus/platform/devices/* /sys/bus/spi/devices/*; do
    [ -e "$device/driver" ] || [ ! -e "$device/of_node/compatible" ] ||
        say undriven "$(tr '\000' ' ' <"$device/of_node/compatible")"
done
while read -r line; do say mount "$line"; done </proc/mounts
for file in $3; do [ -e "$file" ] && say file "$file"; done
say memory "$(sed -n 's/^MemAvailable: *//p' /proc/meminfo)"
say free "$(df -Pk "$4" 2>/dev/null | tail -n 1)"
for device in /sys/bus/pci/devices/*; do
    case $(first "$device/class") in 0x02*) ;; *) continue ;; esac
    [ -e "$device/sriov_totalvfs" ] && say functions "$(first "$device/sriov_totalvfs") ${device##*/}"
done
say sriov "$(sh -c "$6")"
there=/lib/modules/$(uname -r)
[ -e "$there/modules.dep" ] && say modules "$there"
for module in $2; do
    written=$(echo "$module" | sed 's/[-_]/[-_]/g')
    if grep -qs "/$written\.ko" "$there/modules.dep" "$there/modules.builtin"; then say module "$module"
    elif [ -d "/sys/module/$(echo "$module" | tr - _)" ]; then say module "$module"; fi
done
for tool in $1; do
    path=$(command -v "$tool") || continue
    case $path in /*) path=$(readlink -f "$path") ;; *) path=busybox ;; esac
    say tool "$tool $path"
done
config=/boot/config-$(uname -r)
[ -r /proc/config.gz ] && config=/proc/config.gz
[ -r "$config" ] && say configuration "$config"
{ zcat -f "$config" || cat "$config"; } 2>/dev/null | grep -E "^($5)=" | while read -r line; do say config "$line"; done
"""


@dataclass(frozen=True)
class Use:
    """Something that a scenario may ask of a machine, and what that takes there.

    kernel: module → the kernel's symbol; optional: those that it can do without. files: with what is to be done without
    them. functions: a network card with virtual functions.
    """

    name: str
    tools: tuple[str, ...] = ()
    kernel: Mapping[str, str] = field(default_factory=dict)
    optional: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    functions: bool = False


KVM: Final = {"/dev/kvm": "a kernel with CONFIG_KVM, on a processor that starts it at EL2 or shows vmx or svm"}
TUN: Final = {"/dev/net/tun": load_remedy("tun")}
USES: Final = (
    Use("namespaces (kind: netns)", ("ip",), kernel_parts("veth")),
    Use("priorities and CPUs of loads and PTP", ("chrt", "taskset", "setpriv")),
    Use("what cards can do", ("ethtool",)),
    *(Use(f"{shaper.use} ({kind})", ("tc",), kernel_parts(f"sch_{kind}")) for kind, shaper in SHAPERS.items()),
    Use("VLANs", ("ip",), kernel_parts("8021q")),
    Use("PTP (clock.ptp)", ("ptp4l", "phc_ctl", "phc2sys")),
    Use(OF_PROGRAMS, files={KERNEL_TYPES: WITH_TYPES}),
    Use("guests", (), kernel_parts("vhost_net"), files=KVM | TUN),
    *(
        Use(f"bridge {kind.name}", kind.tools, kind.modules, kind.optional_modules, functions=kind.takes_functions)
        for kind in KINDS.values()
    ),
    Use("loads", LOAD_TOOLS),
    Use("probes", PROBE_TOOLS),
)
EMULATOR: Final = "qemu-system-"
CARDS: Final = {
    "fsl,*-fec": "CONFIG_FEC",
    "marvell,armada-*-pp2*": "CONFIG_MVPP2",
    "nxp,imx*-dwmac-eqos": "CONFIG_DWMAC_IMX8",
    "nxp,sja11*": "CONFIG_NET_DSA_SJA1105, CONFIG_NET_DSA_SJA1105_PTP and CONFIG_NET_DSA_SJA1105_TAS",
    "renesas,*-ether-switch": "CONFIG_RENESAS_ETHER_SWITCH",
    "renesas,*-ethertsn": "CONFIG_RTSN",
    "renesas,etheravb-*": "CONFIG_RAVB",
    "ti,am*-cpsw-nuss": "CONFIG_TI_K3_AM65_CPSW_NUSS",
}
"""Network cards and switches of boards by a device tree's `compatible`, and the symbol of the kernel's driver.

Some distributions' kernels have some of them off: Debian's those of Renesas and the sja1105.
"""


@dataclass(frozen=True)
class There:
    """What the machine has answered.

    capacities: CPU → its speed, 1024 being the fastest's; of machines whose kernel states it. undriven: of each device
    without a driver what its device tree says it is compatible with. functions: PCI address of each network card with
    SR-IOV → how many virtual functions it can have. config: None if its kernel's configuration is nowhere to be read.
    """

    one: Mapping[str, str]
    tools: Mapping[str, str]
    files: frozenset[str]
    modules: frozenset[str]
    capacities: Mapping[int, int]
    clocks: tuple[str, ...]
    functions: Mapping[str, int]
    undriven: tuple[str, ...]
    mounts: tuple[str, ...]
    config: Mapping[str, str] | None


async def doctor_there(destination: str, ssh_config: str | None = None) -> list[DoctorFinding]:
    """All findings about the machine, in the order to read them. LabError: it is not reached.

    destination: host or user@host. ssh_config: the configuration of ssh, None: the user's.
    """
    options = () if "@" in destination else ("-l", USER)
    host = RemoteHost(destination, destination, config=ssh_config, options=options)
    said = (await host.run(question(), timeout_s=ASKED_S)).stdout
    try:
        agents: Mapping[str, str] = find_agents(find_agent())
    except LabError:
        agents = {}
    found = list(findings(read(said), agents, time.time()))
    fit = {one.name for one in found if one.ok}
    if {OF_PROGRAMS, AGENT, "user"} <= fit:
        why = await no_programs(host, agents[read(said).one["architecture"]], FOLDER)
        tried = DoctorFinding(
            "scenarios", OF_PROGRAMS, None if why else True, why or LOADED, PROGRAMS_REMEDY if why else ""
        )
        found = [tried if one.name == OF_PROGRAMS else one for one in found]
    return found


def question() -> tuple[str, ...]:
    """The command that is run on the machine."""
    parts = {module: symbol for use in USES for module, symbol in {**use.kernel, **use.optional}.items()}
    files = dict.fromkeys(path for use in USES for path in use.files)
    symbols = dict.fromkeys((SYMBOL, *parts.values()))
    words = (" ".join(_asked_tools()), " ".join(parts), " ".join(files), RECORDINGS, "|".join(symbols), COUNT_SRIOV)
    return ("sh", "-c", ASK, "sh", *words)


def read(said: str) -> There:
    """What ASK has printed."""
    rows = [line.partition("=")[::2] for line in said.splitlines()]
    each = {key: [text for name, text in rows if name == key] for key, _ in rows}
    capacities = (text.partition(" ")[::2] for text in each.get("capacity", ()))
    functions = (text.partition(" ")[::2] for text in each.get("functions", ()))
    config = dict(text.partition("=")[::2] for text in each.get("config", ()))
    return There(
        one={key: texts[0].strip() for key, texts in each.items()},
        tools=dict(text.partition(" ")[::2] for text in each.get("tool", ())),
        files=frozenset(each.get("file", ())),
        modules=frozenset(each.get("module", ())),
        capacities={int(cpu): int(speed) for cpu, speed in capacities if speed.isdigit()},
        clocks=tuple(text.strip() for text in each.get("clock", ())),
        functions={address: int(most) for most, address in functions if most.isdigit()},
        undriven=tuple(each.get("undriven", ())),
        mounts=tuple(each.get("mount", ())),
        config=config if "configuration" in each else None,
    )


def findings(there: There, agents: Mapping[str, str], now_s: float) -> Iterator[DoctorFinding]:
    """What the answer means. agents: what find_agents found. now_s: this machine's time."""
    yield from _machine(there, agents)
    yield from _kernel(there)
    yield from _clocks(there, now_s)
    yield from _folders(there)
    for tool in TOOLS:
        yield _program(there, tool)
    for use in USES:
        yield _use(there, use)


def _machine(there: There, agents: Mapping[str, str]) -> Iterator[DoctorFinding]:
    if model := there.one.get("model"):
        yield DoctorFinding("machine", "model", True, model)
    architecture = there.one.get("architecture", "")
    problem = no_agent(architecture, agents)
    found = problem.what if problem else f"{architecture}: {agents[architecture]}"
    yield DoctorFinding("machine", AGENT, problem is None, found, problem.remedy if problem else "")
    user = there.one.get("user")
    remedy = "" if user == "0" else "let root log in by key, and name root@HOST"
    yield DoctorFinding("machine", "user", user == "0", "root" if user == "0" else f"user {user}", remedy)
    kilobytes, *_ = there.one.get("memory", "").split() or ("",)
    if kilobytes.isdigit():
        enough = int(kilobytes) * 1024 >= GUEST_NEEDS
        remedy = "" if enough else "`memory: 128MiB` for guests, or measure without guests"
        yield DoctorFinding("machine", "memory", enough or None, f"{int(kilobytes) // 1024} MB available", remedy)


def _kernel(there: There) -> Iterator[DoctorFinding]:
    yield DoctorFinding("kernel", "release", True, there.one.get("release", "unknown"))
    realtime = there.one.get("realtime") == "1" or "PREEMPT_RT" in there.one.get("version", "")
    yield DoctorFinding(
        "kernel", "PREEMPT_RT", realtime or None, "yes" if realtime else "no", "" if realtime else "a PREEMPT_RT kernel"
    )
    isolated = there.one.get("isolated", "")
    remedy = "" if isolated else "isolcpus=… on the kernel's command line"
    yield DoctorFinding("kernel", "isolated CPUs", True if isolated else None, isolated or "none", remedy)
    kinds = sorted({*there.capacities.values()})
    if len(kinds) > 1:
        each = (f"{cpu_list(cpu for cpu, one in there.capacities.items() if one == kind)}: {kind}" for kind in kinds)
        remedy = "tuning: keep the streams' threads, vCPUs and interrupts on CPUs of one kind"
        yield DoctorFinding(
            "kernel", "kinds of CPUs", None, f"CPUs of different speed, by capacity: {', '.join(each)}", remedy
        )
    if there.config is None:
        by_modules = "; the next lines are based on its modules" if there.one.get("modules") else ", nor any modules"
        found = f"cannot be read{by_modules}"
        yield DoctorFinding("kernel", "configuration", None, found, "a kernel with CONFIG_IKCONFIG_PROC")
    for names in map(str.split, there.undriven):
        known = (CARDS[pattern] for name in names for pattern in CARDS if fnmatchcase(name, pattern))
        if symbols := next(known, None):
            found = "no driver: no interface, and no PTP clock of it"
            yield DoctorFinding("kernel", f"network card {names[0]}", None, found, f"a kernel with {symbols}")


def _clocks(there: There, now_s: float) -> Iterator[DoctorFinding]:
    yield DoctorFinding("clocks", "clocksource", True, there.one.get("clocksource") or "unknown")
    stands_at = float(there.one.get("time") or 0)
    apart_s = stands_at - now_s
    near = abs(apart_s) <= CLOCK_S
    found = clock_apart(stands_at, now_s)
    yield DoctorFinding("clocks", "time", near or None, found, "" if near else "set it: chrony, ntpd or `date -s`")
    remedy = "" if there.clocks else "hardware timestamps need a card and a driver with a PTP clock"
    shown = ", ".join(there.clocks) or "none"
    yield DoctorFinding("clocks", "PTP hardware clocks", True if there.clocks else None, shown, remedy)


def _folders(there: There) -> Iterator[DoctorFinding]:
    point, options = mount_of(AGENTS, there.mounts)
    noexec, read_only = "noexec" in options, "ro" in options
    found = f"{point} is mounted {'noexec' if noexec else 'read-only' if read_only else 'for programs and files'}"
    remedy = f"`mount -o remount,{'exec' if noexec else 'rw'} {point}`" if noexec or read_only else ""
    yield DoctorFinding("folders", f"agents: {AGENTS}", not (noexec or read_only), found, remedy)
    point, options = mount_of(RECORDINGS, there.mounts)
    words = there.one.get("free", "").split()
    free_mb = int(words[3]) // 1024 if len(words) > 3 and words[3].isdigit() else None
    if "ro" in options:
        remedy = f"`mount -o remount,rw {point}`"
        yield DoctorFinding("folders", f"recordings: {RECORDINGS}", False, f"{point} is mounted read-only", remedy)
        return
    enough = free_mb is None or free_mb >= FREE_MB
    found = "free space is unknown" if free_mb is None else f"{free_mb} MB free"
    remedy = "" if enough else "`recordings: streamed` for this host; shorter cells, or fewer packets"
    yield DoctorFinding("folders", f"recordings: {RECORDINGS}", enough or None, found, remedy)


def _program(there: There, tool: str) -> DoctorFinding:
    path = there.tools.get(tool)
    if path is None:
        return DoctorFinding("every run", tool, False, "missing", install_remedy(tool))
    if _is_too_small(there, tool):
        found = f"BusyBox's, enough for streams over existing cables only: {path}"
        return DoctorFinding("every run", tool, None, found, install_remedy(tool))
    return DoctorFinding("every run", tool, True, path)


def _use(there: There, use: Use) -> DoctorFinding:
    """Whether a scenario can ask for that, with all that is missing."""
    missing: list[str] = []
    remedies: list[str] = []
    tools = use.tools if use.name != "guests" else (f"{EMULATOR}{there.one.get('architecture', '')}",)
    for tool in tools:
        if tool not in there.tools or _is_too_small(there, tool):
            missing.append(f"{tool} is BusyBox's" if tool in there.tools else tool)
            remedies.append(install_remedy(tool))
    for module, symbol in use.kernel.items():
        if problem := _not_in_kernel(there, module, symbol):
            missing.append(problem)
            remedies.append(f"a kernel with {symbol}")
    if use.functions and (lacking := _no_functions(there)):
        missing.append(lacking[0])
        remedies.append(lacking[1])
    for path, remedy in use.files.items():
        if path not in there.files:
            missing.append(path)
            remedies.append(remedy)
    unknown = [] if missing else [symbol for module, symbol in use.kernel.items() if _is_unknown(there, module)]
    if unknown:
        found = f"unknown: whether the kernel has {', '.join(unknown)} cannot be read there"
        remedies.append("look into the configuration it was built with, or build it with CONFIG_IKCONFIG_PROC")
    else:
        without = list(filter(None, (_not_in_kernel(there, *part) for part in use.optional.items())))
        usable = f"can be used, without {', '.join(without)}" if without else "can be used"
        found = f"missing: {', '.join(missing)}" if missing else usable
    is_there = None if missing or unknown else True
    return DoctorFinding("scenarios", use.name, is_there, found, "; ".join(dict.fromkeys(remedies)))


def _no_functions(there: There) -> tuple[str, str] | None:
    """Why no network card there can have virtual functions, and what to do; None: one can."""
    if any(there.functions.values()):
        return None
    if there.functions:
        return f"SR-IOV of {', '.join(there.functions)}, which can have 0 virtual functions", SWITCH_ON
    said = "y" if there.one.get("sriov", "") > "0" else there.config and there.config.get(SYMBOL)
    if said == "y":
        return "a network card with SR-IOV", CARD_WITH_SRIOV
    if there.config is not None or there.one.get("sriov") == "0":
        return f"{SYMBOL}, which is off", f"a kernel with {SYMBOL}"
    return "a network card with SR-IOV", HAS_SRIOV


def _not_in_kernel(there: There, module: str, symbol: str) -> str:
    """What of it is missing in the kernel; empty: nothing, or unknown."""
    if module in there.modules:
        return ""
    if there.config is None:
        return f"module {module}" if there.one.get("modules") else ""
    said = there.config.get(symbol)
    if said == "y":
        return ""
    return f"module {module}, which is not installed" if said == "m" else f"{symbol}, which is off"


def _is_unknown(there: There, module: str) -> bool:
    """Whether nothing says if the kernel has it: it may be built in, and nothing there lists what is."""
    return module not in there.modules and there.config is None and not there.one.get("modules")


def _is_too_small(there: There, tool: str) -> bool:
    return tool in TOO_SMALL and PurePosixPath(there.tools.get(tool, "")).name == BUSYBOX


def _asked_tools() -> list[str]:
    emulators = (f"{EMULATOR}{one}" for one in ("x86_64", "aarch64"))
    return [*dict.fromkeys((*TOOLS, *(tool for use in USES for tool in use.tools), *emulators))]
