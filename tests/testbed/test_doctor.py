"""The doctor: what this machine can do, found out without a trace."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from latlab.hosts import MACHINE, LocalMachine
from latlab.testbed import doctor as doctors
from latlab.testbed.agent_binary import find_agent
from latlab.testbed.bridges.table import BRIDGES
from latlab.testbed.doctor import (
    WORTH,
    DoctorFinding,
    bridge_findings,
    doctor,
    guest_findings,
    image_findings,
    worth_doing,
)
from latlab.testbed.images import Image
from latlab.testbed.journal import Journal
from latlab.testbed.machine import Machine
from latlab.testbed.program_trial import KERNEL_TYPES, OF_PROGRAMS, PROGRAMS_REMEDY, no_programs
from support.machine import dump

pytestmark = [pytest.mark.real, pytest.mark.usefixtures("machine")]


def found() -> dict[str, DoctorFinding]:
    return {finding.name: finding for finding in asyncio.run(doctor())}


def test_the_doctor_leaves_no_trace(journals: Path) -> None:
    before = dump()
    found()
    assert dump() == before
    assert list(journals.iterdir()) == []


def test_it_knows_what_this_machine_can_do() -> None:
    findings = found()
    assert findings["namespaces and veth"].ok
    assert findings["software timestamps"].ok
    assert findings["SCHED_FIFO"].ok
    assert findings["ip"].ok


class Limited(LocalMachine):
    """This machine, for programs that are started by `before`. is_far: as if its files were not here."""

    def __init__(self, before: Sequence[str], is_far: bool = False) -> None:
        super().__init__(MACHINE)
        self.before = tuple(before)
        self.files_are_here = not is_far

    def command(self, argv: Sequence[str]) -> tuple[str, ...]:
        return (*self.before, *argv)


UNPRIVILEGED = ("setpriv", "--bounding-set", "-sys_admin,-bpf,-perfmon")
SECURITY = "/sys/kernel/security"
LOCKED = f"mount -t tmpfs none {SECURITY} && echo '[confidentiality]' >{SECURITY}/lockdown"
NO_BTF = "mount -t tmpfs none /sys/kernel/btf"


def mounted(script: str) -> tuple[str, ...]:
    return ("unshare", "--mount", "sh", "-c", f'{script} && exec "$@"', "sh")


@pytest.mark.skipif(not Path(KERNEL_TYPES).exists(), reason="this kernel has no BTF, so no BPF program is loaded")
@pytest.mark.parametrize(
    ("before", "why"),
    [
        ((), ""),
        (UNPRIVILEGED, "it takes root, or CAP_BPF and CAP_PERFMON"),
        ((*mounted(LOCKED), *UNPRIVILEGED), "this kernel is locked down (lockdown=confidentiality)"),
        (mounted(NO_BTF), "this kernel has no BTF (CONFIG_DEBUG_INFO_BTF)"),
    ],
)
@pytest.mark.parametrize("is_far", [False, True])
def test_whether_the_kernel_takes_bpf_programs_is_tried_and_nothing_stays(
    before: Sequence[str], why: str, is_far: bool, tmp_path: Path
) -> None:
    refused = asyncio.run(no_programs(Limited(before, is_far), str(find_agent()), str(tmp_path)))
    assert refused == (f"no tx_sched, tx_soft by eBPF: {why}" if why else "")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not Path(KERNEL_TYPES).exists(), reason="this kernel has no BTF, so no BPF program is loaded")
def test_on_a_machine_without_the_folder_it_is_tried_in_the_nearest_one_above(tmp_path: Path) -> None:
    there = str(tmp_path / "var" / "lib")
    assert asyncio.run(no_programs(Limited((), is_far=True), str(find_agent()), there)) == ""
    assert list(tmp_path.iterdir()) == []


def test_a_kernel_that_takes_no_bpf_programs_is_named_with_what_it_cannot_do(monkeypatch: pytest.MonkeyPatch) -> None:
    async def refused(*_: object) -> str:
        return "this kernel is locked down"

    monkeypatch.setattr(doctors, "no_programs", refused)
    limited = found()[OF_PROGRAMS]
    assert (limited.ok, limited.found, limited.remedy) == (None, "this kernel is locked down", PROGRAMS_REMEDY)


def test_where_the_agent_cannot_be_run_it_is_said_that_nothing_was_tried(tmp_path: Path) -> None:
    not_there = asyncio.run(no_programs(LocalMachine(MACHINE), str(tmp_path / "agent"), str(tmp_path)))
    assert not_there.startswith("not tried: ") and "agent: not found" in not_there


def test_whatever_is_not_well_comes_with_a_remedy() -> None:
    assert [finding for finding in found().values() if not finding.ok and not finding.remedy] == []


def test_what_is_most_worth_doing_is_at_most_three_things_and_what_keeps_runs_from_working_first() -> None:
    def of(name: str, ok: bool | None) -> DoctorFinding:
        return DoctorFinding("area", name, ok, "found", f"mend {name}")

    limits = [of("RT throttling", None), of("isolated CPUs", None), of("PREEMPT_RT", None), of("qdisc etf", None)]
    assert worth_doing(limits) == [
        *("isolated CPUs: mend isolated CPUs", "PREEMPT_RT: mend PREEMPT_RT", "RT throttling: mend RT throttling"),
    ]
    assert worth_doing([*limits, of("ip", False)])[0] == "ip: mend ip"
    assert worth_doing([of("ip", True), of("qdisc etf", None)]) == []
    assert set(WORTH) <= set(found())


def test_an_unset_tai_offset_is_no_limit() -> None:
    assert found()["TAI offset"].ok is True


def test_a_qdisc_is_there_or_it_is_not() -> None:
    assert {finding.found for name, finding in found().items() if name.startswith("qdisc ")} <= {
        *("can be set", "not in this kernel"),
    }


def test_a_missing_tool_is_told_apart_from_one_that_would_be_nice(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    findings = found()
    assert (findings["ip"].ok, findings["iperf3"].ok) == (False, None)
    assert findings["namespaces and veth"].ok is False
    assert "iproute2" in findings["ip"].remedy


def test_every_bridge_is_available_or_says_what_is_missing() -> None:
    findings = found()
    assert {name.removeprefix("bridge ") for name in findings if name.startswith("bridge ")} == set(BRIDGES)
    assert findings["bridge user"].found == "available"
    for kind in BRIDGES:
        finding = findings[f"bridge {kind}"]
        assert finding.found.startswith("available" if finding.ok else "not available: "), finding


def test_a_bridge_that_only_the_kernel_can_tell_of_is_tried() -> None:
    assert found()["bridge xdp"].found in {
        f"available: {link} on a veth, {tap} on a tap"
        for link in ("native", "generic")
        for tap in ("native", "generic")
    }


def stand_in(**known: Any) -> Machine:
    nothing: frozenset[Any] = frozenset()
    return Machine(nothing, nothing, nothing, has_tool=known.pop("has_tool", lambda tool: True), **known)


def of_machine(machine: Machine, tried: dict[str, DoctorFinding] | None = None) -> dict[str, DoctorFinding]:
    return {one.name: one for one in (*guest_findings(machine), *bridge_findings(machine, tried or {}))}


QEMU = {("qemu-system-x86_64", "--version"): "QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7)"}


def available(findings: dict[str, DoctorFinding]) -> list[str]:
    return [name for name, one in findings.items() if name.startswith("bridge ") and one.ok]


def test_a_machine_with_qemu_alone_has_user_nat_only() -> None:
    machine = stand_in(has_tool=lambda tool: tool.startswith("qemu-system"), say=QEMU.get)
    assert available(of_machine(machine)) == ["bridge user"]


def test_a_machine_with_nothing_has_no_bridge_and_every_remedy_is_reported() -> None:
    findings = of_machine(stand_in(has_tool=lambda tool: False))
    assert available(findings) == []
    assert findings["bridge tap"].found == "not available: qemu-system-x86_64 is missing, and no guest without it"
    assert "openvswitch-switch" in findings["Open vSwitch"].remedy
    assert "qemu-system-x86" in findings["QEMU"].remedy
    assert [one for one in findings.values() if not one.ok and not one.remedy] == []


def test_what_a_well_kept_machine_has_is_reported_with_its_versions() -> None:
    said = {
        ("qemu-system-x86_64", "--version"): "QEMU emulator version 10.0.2 (Debian 1:10.0.2+ds-2)",
        ("ovs-vswitchd", "--version"): "ovs-vswitchd (Open vSwitch) 3.5.0\nDPDK 24.11.1",
    }
    there = {"/dev/vhost-net", "/dev/net/tun", "/sys/module/openvswitch"}
    groups = ("0", "1", "2")
    machine = stand_in(
        say=said.get, exists=there.__contains__, list=lambda path: groups if path.endswith("iommu_groups") else ()
    )
    findings = of_machine(machine)
    assert (findings["QEMU"].ok, findings["QEMU"].found) == (True, "10.0.2")
    assert findings["vhost-net"].ok
    assert findings["IOMMU"].found == "3 groups"
    assert findings["Open vSwitch"].found == "3.5.0, kernel datapath, with DPDK (vhost-user)"
    assert findings["bridge ovs"].found == "available: kernel datapath"
    assert "vfio" in findings["bridge vfio"].found


def image_of(name: str, kind: str, **parts: Any) -> Image:
    return Image(name, Path("kernel"), Path("initramfs"), "", "rt", "6.12-rt", "00", {}, "", 0, kind=kind, **parts)


def test_images_of_guests_and_of_boards_are_told_apart() -> None:
    machine = stand_in()
    cloud, board = image_of("debian-cloud", "guest"), image_of("mine", "board", lacking={"act_gate": "gates"})
    guests, boards = image_findings([cloud, board], machine)
    assert (guests.name, guests.ok, guests.found) == ("guest images", True, "debian-cloud (6.12-rt); for guests")
    assert (boards.name, boards.ok) == ("board images", True)
    assert boards.found == "mine (6.12-rt, without act_gate); for hosts of kind board"
    guests, boards = image_findings([], machine)
    assert (guests.found, guests.remedy) == ("none", "`latlab image build debian-cloud`, for guests")
    assert (boards.found, boards.remedy) == ("none", "`latlab image build debian-rt-board`, for hosts of kind board")
    _, boards = image_findings([cloud], stand_in(architecture="aarch64"))
    assert boards.ok is None and "none for aarch64" in boards.remedy


def test_a_kernel_that_makes_no_macvtap_has_no_such_bridge() -> None:
    refused = DoctorFinding("bridges", "macvtap", None, "this kernel has no macvtap", "`modprobe macvtap`")
    finding = of_machine(stand_in(say=QEMU.get), {"macvtap": refused})["bridge macvtap"]
    assert (finding.ok, finding.found) == (None, "not available: this kernel has no macvtap")


def test_what_a_dead_run_left_is_named() -> None:
    journal = Journal.create("old-run")
    journal.record(LocalMachine(MACHINE), "something", ("true",), None)
    journal.close()
    finding = found()["journals"]
    assert "old-run" in finding.found
    assert finding.remedy == "`latlab clean`"
