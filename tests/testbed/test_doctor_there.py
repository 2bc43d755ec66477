"""What a machine over ssh can do, by what any shell there answers; BusyBox's is enough."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from latlab.model.bridges import KINDS
from latlab.model.errors import LabError
from latlab.testbed.doctor import DoctorFinding
from latlab.testbed.doctor_there import There, findings, question, read
from latlab.testbed.images.packages import Apt, fetch, unpack
from latlab.testbed.links import printed_addresses
from latlab.testbed.ssh_steps import TOOLS, mount_of

AGENTS = {"x86_64": "/lab/latlab-agent", "aarch64": "/lab/latlab-agent-aarch64"}
NOW_S = 1_764_115_200.0
BOARD = """\
architecture=aarch64
release=6.6.23-vendor
version=#1 SMP PREEMPT Tue Mar 4
user=0
time=1764115201
model=Two ports and a core
clocksource=arch_sys_counter
realtime=
isolated=3
clock=ptp0 stmmac ptp
mount=/dev/root / ext4 rw,relatime 0 0
mount=tmpfs /var/tmp tmpfs rw,nosuid,noexec 0 0
free=tmpfs 500000 100000 400000 20% /var/tmp
modules=/lib/modules/6.6.23-vendor
module=veth
module=sch_etf
file=/dev/net/tun
tool=ip /usr/sbin/ip
tool=tc /usr/sbin/tc
"""


def judged(said: str, agents: Mapping[str, str] = AGENTS) -> dict[str, DoctorFinding]:
    """What the answer means, by name."""
    return {finding.name: finding for finding in findings(read(said), agents, NOW_S)}


def test_a_board_is_judged_by_what_it_answers() -> None:
    found = judged(BOARD)
    assert found["model"].found == "Two ports and a core"
    assert (found["latlab-agent"].ok, found["latlab-agent"].found) == (True, "aarch64: /lab/latlab-agent-aarch64")
    assert found["PREEMPT_RT"].ok is None
    assert found["PTP hardware clocks"].found == "ptp0 stmmac ptp"
    assert (found["time"].ok, found["isolated CPUs"].ok) == (True, True)
    assert found["recordings: /var/tmp"].found == "390 MB free"
    assert found["agents: /var/lib/latlab/agents"].ok
    assert found["ip"].ok and found["gzip"].ok is False


def test_what_a_scenario_may_ask_for_is_listed_with_what_is_missing_there() -> None:
    found = judged(BOARD)
    assert found["namespaces (kind: netns)"].ok and found["launch times (etf)"].ok
    gates = found["gate schedules (taprio)"]
    assert (gates.ok, gates.found) == (None, "missing: module sch_taprio")
    assert gates.remedy == "a kernel with CONFIG_NET_SCH_TAPRIO"
    assert found["guests"].found == "missing: qemu-system-aarch64, module vhost_net, /dev/kvm"
    assert "qemu-system-arm" in found["guests"].remedy
    assert "/sys/kernel/btf/vmlinux" in found["eBPF: timestamps, losses, watch"].found


def test_each_bridge_is_listed_with_what_is_missing_there_for_it() -> None:
    found = judged(BOARD)
    assert {f"bridge {kind}" for kind in KINDS} <= {*found}
    assert found["bridge user"].found == "can be used"
    assert found["bridge macvtap"].found == "missing: mknod, module macvtap"
    assert found["bridge macvtap"].remedy.endswith("a kernel with CONFIG_MACVTAP")
    assert found["bridge vfio"].found == "missing: module vfio_pci, module vfio_iommu_type1"
    tools = "".join(f"tool={tool} /usr/bin/{tool}\n" for tool in KINDS["ovs"].tools)
    switch = judged(f"{BOARD}module=tun\n{tools}")["bridge ovs"]
    assert (switch.ok, switch.found, switch.remedy) == (True, "can be used, without module openvswitch", "")


@pytest.mark.parametrize(
    ("said", "missing"),
    [
        ("configuration=/proc/config.gz\nconfig=CONFIG_NET_SCH_TAPRIO=y\n", ""),
        (
            "configuration=/proc/config.gz\nconfig=CONFIG_NET_SCH_TAPRIO=m\n",
            "module sch_taprio, which is not installed",
        ),
        ("configuration=/proc/config.gz\n", "CONFIG_NET_SCH_TAPRIO, which is off"),
    ],
)
def test_where_the_configuration_can_be_read_its_symbol_says_why(said: str, missing: str) -> None:
    found = judged(f"{BOARD}configuration=/proc/config.gz\n{said}")
    assert found["gate schedules (taprio)"].found == (f"missing: {missing}" if missing else "can be used")
    assert "configuration" not in found


def test_without_a_configuration_it_goes_by_modules_and_says_so() -> None:
    assert judged(BOARD)["configuration"].ok is None


def test_of_a_kernel_without_configuration_and_modules_it_is_unknown_what_it_has() -> None:
    found = judged(BOARD.replace("modules=/lib/modules/6.6.23-vendor\n", ""))
    gates = found["gate schedules (taprio)"]
    assert (gates.ok, gates.remedy.partition(" ")[0]) == (None, "look")
    assert gates.found == "unknown: whether the kernel has CONFIG_NET_SCH_TAPRIO cannot be read there"
    # It has this one.
    assert found["launch times (etf)"].found == "can be used"
    assert found["configuration"].found == "cannot be read, nor any modules"


@pytest.mark.parametrize(
    ("kilobytes", "ok", "says"), [(1_000_000, True, "976 MB available"), (200_000, None, "195 MB available")]
)
def test_the_memory_that_guests_may_have_is_told(kilobytes: int, ok: bool | None, says: str) -> None:
    found = judged(f"{BOARD}memory={kilobytes} kB\n")["memory"]
    assert (found.ok, found.found) == (ok, says)


@pytest.mark.parametrize(
    ("compatible", "symbol"),
    [
        ("renesas,etheravb-r8a7795 renesas,etheravb-rcar-gen3 ", "CONFIG_RAVB"),
        ("renesas,r8a779f0-ether-switch ", "CONFIG_RENESAS_ETHER_SWITCH"),
        ("nxp,sja1105t ", "CONFIG_NET_DSA_SJA1105, CONFIG_NET_DSA_SJA1105_PTP and CONFIG_NET_DSA_SJA1105_TAS"),
        ("fsl,imx8mm-fec fsl,imx8mq-fec fsl,imx6sx-fec ", "CONFIG_FEC"),
        ("nxp,imx8mp-dwmac-eqos snps,dwmac-5.10a ", "CONFIG_DWMAC_IMX8"),
        ("marvell,armada-7k-pp22 ", "CONFIG_MVPP2"),
    ],
)
def test_a_network_card_without_a_driver_is_named_with_its_symbol(compatible: str, symbol: str) -> None:
    found = judged(BOARD + f"undriven={compatible}\nundriven=arm,pl011 arm,primecell \n")
    (card,) = (name for name in found if name.startswith("network card"))
    assert card == f"network card {compatible.split()[0]}"
    assert (found[card].ok, found[card].remedy) == (None, f"a kernel with {symbol}")


@pytest.mark.parametrize(
    ("said", "missing", "remedy"),
    [
        ("sriov=0\n", "CONFIG_PCI_IOV, which is off", "a kernel with CONFIG_PCI_IOV"),
        ("configuration=/proc/config.gz\n", "CONFIG_PCI_IOV, which is off", "a kernel with CONFIG_PCI_IOV"),
        ("sriov=1\n", "a network card with SR-IOV", "82576"),
        ("configuration=/proc/config.gz\nconfig=CONFIG_PCI_IOV=y\n", "a network card with SR-IOV", "82576"),
        ("sriov=\n", "a network card with SR-IOV", "and a kernel with CONFIG_PCI_IOV"),
        ("sriov=1\nfunctions=0 0000:02:00.0\n", "SR-IOV of 0000:02:00.0, which can have 0", "firmware"),
        ("sriov=1\nfunctions=7 0000:02:00.0\n", "", ""),
    ],
)
def test_a_board_without_sr_iov_is_told_whether_its_kernel_or_its_card_has_none(
    said: str, missing: str, remedy: str
) -> None:
    found = judged(f"{BOARD}module=vfio_pci\nmodule=vfio_iommu_type1\n{said}")["bridge vf"]
    assert (found.found == "can be used") is (missing == "")
    assert missing in found.found and remedy in found.remedy
    assert ("CONFIG_PCI_IOV" in found.remedy) is ("CONFIG_PCI_IOV" in missing + remedy)


def test_cpus_of_two_kinds_are_named_with_their_capacities() -> None:
    said = "".join(f"capacity={cpu} {446 if cpu < 4 else 1024}\n" for cpu in range(6))
    found = judged(BOARD + said)["kinds of CPUs"]
    assert (found.ok, found.found) == (None, "CPUs of different speed, by capacity: 0-3: 446, 4-5: 1024")
    assert "tuning" in found.remedy
    assert "kinds of CPUs" not in judged(BOARD + said.replace("446", "1024"))


def test_a_clock_at_1970_is_reported_with_what_to_do() -> None:
    found = judged(BOARD.replace("time=1764115201", "time=90"))["time"]
    assert found.ok is None
    assert found.found == "1970-01-01 00:01:30 UTC, 1764115110 s before here"
    assert "date -s" in found.remedy


@pytest.mark.parametrize(
    ("mount", "says", "remedy"),
    [
        ("/dev/mmcblk0p3 /var/lib ext4 rw,noexec 0 0", "/var/lib is mounted noexec", "remount,exec /var/lib"),
        ("/dev/root / squashfs ro 0 0", "/ is mounted read-only", "remount,rw /"),
    ],
)
def test_a_folder_from_which_nothing_runs_is_named_with_its_mount(mount: str, says: str, remedy: str) -> None:
    found = judged(f"{BOARD}mount={mount}\n")["agents: /var/lib/latlab/agents"]
    assert (found.ok, found.found) == (False, says)
    assert remedy in found.remedy


def test_little_flash_is_reported() -> None:
    found = judged(BOARD.replace("400000 20%", "20000 20%"))["recordings: /var/tmp"]
    assert (found.ok, found.found) == (None, "19 MB free")


@pytest.mark.parametrize(("architecture", "says"), [("armv7l", "32-bit ARM"), ("aarch64_be", "big-endian")])
def test_an_architecture_without_an_agent_is_named(architecture: str, says: str) -> None:
    found = judged(BOARD.replace("=aarch64", f"={architecture}"))["latlab-agent"]
    assert found.ok is False and says in found.found


def test_another_user_than_root_cannot_measure() -> None:
    found = judged(BOARD.replace("user=0", "user=1000"))["user"]
    assert (found.ok, found.found) == (False, "user 1000")


def test_the_mount_that_counts_is_the_nearest_and_the_last() -> None:
    mounts = ["/dev/root / ext4 rw 0 0", "a /var ext4 rw,noexec 0 0", "b /var ext4 rw 0 0", "c /var/lib2 ext4 ro 0 0"]
    assert mount_of("/var/lib/latlab", mounts) == ("/var", ("rw",))
    assert mount_of("/srv", mounts) == ("/", ("rw",))


def answered(*shell: str, path: str | None = None) -> There:
    """What this machine answers by that shell."""
    command = [*shell, *question()[1:]]
    environment = {"PATH": path} if path else None
    ended = subprocess.run(command, check=True, capture_output=True, text=True, env=environment, timeout=120)
    assert ended.stderr == ""
    return read(ended.stdout)


@pytest.mark.parametrize(
    ("printed", "addresses"),
    [
        # iproute2 6.1 and BusyBox 1.35: `ip addr show dev eth1`.
        (
            "2: eth1@if2: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 1500 qdisc noqueue state UP group default qlen 1000\n"
            "    link/ether 02:00:00:00:00:01 brd ff:ff:ff:ff:ff:ff link-netns board2\n"
            "    inet 10.78.0.1/24 scope global eth1\n       valid_lft forever preferred_lft forever\n"
            "    inet6 fe80::1/64 scope link \n",
            ["10.78.0.1/24"],
        ),
        (
            "2: eth1@if2: <BROADCAST,MULTICAST,UP,LOWER_UP,M-DOWN> mtu 1500 qdisc noqueue qlen 1000\n"
            "    link/ether 02:00:00:00:00:01 brd ff:ff:ff:ff:ff:ff\n"
            "    inet 10.78.0.1/24 scope global eth1\n    inet 192.0.2.1 peer 192.0.2.2/32 scope global eth1\n"
            "       valid_lft forever preferred_lft forever\n",
            ["10.78.0.1/24", "192.0.2.1/32"],
        ),
        ("3: eth2: <BROADCAST> mtu 1500 qdisc noop qlen 1000\n", []),
    ],
)
def test_addresses_are_read_of_what_either_ip_prints(printed: str, addresses: list[str]) -> None:
    assert printed_addresses(printed) == addresses


def test_this_machine_answers() -> None:
    there = answered("sh")
    assert there.one["release"] and there.mounts
    assert {"cat", "ip"} <= {*there.tools}
    assert all(finding.found for finding in findings(there, AGENTS, NOW_S))


@pytest.mark.slow
def test_busybox_is_enough_to_answer_and_its_ip_is_not_enough_to_measure(tmp_path: Path) -> None:
    try:
        (package,) = fetch(Apt(tmp_path / "apt").packages(["busybox-static"]), tmp_path)
    except LabError as error:
        pytest.skip(f"BusyBox is not to be had: {error.what}")
    unpack(package, tmp_path / "unpacked")
    busybox = next(path for path in (tmp_path / "unpacked").rglob("bin/busybox") if path.is_file())
    applets = tmp_path / "applets"
    applets.mkdir()
    subprocess.run((busybox, "--install", "-s", applets), check=True)
    there = answered(str(busybox), "sh", path=str(applets))
    assert there.one["architecture"] and there.one["free"]
    found = {finding.name: finding for finding in findings(there, AGENTS, NOW_S)}
    assert all(found[tool].ok for tool in TOOLS if tool != "ip")
    assert found["ip"].ok is None
    assert found["ip"].found.startswith("BusyBox's, enough for streams over existing cables only: ")
    assert "tc is BusyBox's" in found["gate schedules (taprio)"].found
