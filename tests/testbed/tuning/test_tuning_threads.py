"""A guest's threads on their CPUs and at their priorities: real threads that are called as QEMU calls its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from latlab.scenario import Scenario
from latlab.scenario.hosts import BoardHost, NetnsHost
from latlab.testbed.bridges import ovs_afxdp
from latlab.testbed.site import Site
from latlab.testbed.step import Step
from latlab.testbed.tuning import threads as threads_module
from latlab.testbed.tuning.cpus import cpu_list
from latlab.testbed.tuning.threads import (
    EMULATOR_ALONE,
    affinity,
    on_cpus,
    pid_file,
    scheduling,
    thread_step,
    thread_steps,
)
from support.suite.lanes import CPUS, all_cpus
from support.testbed.tuning import applied, tuned

STAND_IN = """
import os, sys, threading
def called(name):
    open(f"/proc/self/task/{threading.get_native_id()}/comm", "w").write(name)
    ready.wait()
    forever.wait()
forever = threading.Event()
names = [name.replace("PID", str(os.getpid())) for name in sys.argv[1:]]
ready = threading.Barrier(len(names) + 1)
for name in names:
    threading.Thread(target=called, args=(name,), daemon=True).start()
ready.wait()
print("ready", flush=True)
sys.stdin.read()
"""
RENAMED = """
import sys
open("/proc/self/comm", "w").write(sys.argv[1])
print("ready", flush=True)
sys.stdin.read()
"""
NAMES = ("CPU 0/KVM", "CPU 1/KVM", "CPU 10/KVM", "IO mon_iothread", "vhost-PID")
FIRST, LAST = CPUS[0], CPUS[-1]
ALL = set(CPUS)

pytestmark = pytest.mark.skipif(FIRST == LAST, reason="a machine with one CPU: every thread is where it is wanted")


@pytest.fixture(autouse=True)
def _wide() -> Iterator[None]:
    with all_cpus():
        yield


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    """A site whose state is this test's."""
    monkeypatch.setattr("latlab.testbed.site.STATE", str(tmp_path))
    return Site("0a9f")


@pytest.fixture
def qemu(site: Site) -> Iterator[int]:
    """The pid of what stands in for vm1's QEMU."""
    with subprocess.Popen([sys.executable, "-c", STAND_IN, *NAMES], stdin=-1, stdout=-1) as process:
        assert process.stdout
        assert process.stdout.readline() == b"ready\n"
        path = Path(site.guest_state("vm1"), "pid")
        path.parent.mkdir(parents=True)
        path.write_text(f"{process.pid}\n")
        yield process.pid
        process.communicate()


def threads(pid: int) -> dict[str, int]:
    """Name → id of the process's threads."""
    return {(task / "comm").read_text().strip(): int(task.name) for task in Path(f"/proc/{pid}/task").iterdir()}


def guest(**threads: object) -> Scenario:
    """A scenario that tunes vm1's threads so."""
    return tuned(guests={"vm1": threads})


def cpus_by_name(pid: int) -> dict[str, set[int]]:
    return {re.sub("/.*|-[0-9]+$", "", name): os.sched_getaffinity(thread) for name, thread in threads(pid).items()}


def test_each_vcpu_is_on_its_own_cpu_and_nothing_else_is_moved(site: Site, qemu: int) -> None:
    found: list[dict[str, set[int]]] = []
    small = guest(vcpus={"cpus": [LAST, FIRST]})
    outcome = applied(thread_steps("ecu", small, site), lambda: found.append(cpus_by_name(qemu)))
    assert outcome.findings == {}
    (cpus,) = found
    assert (cpus.pop("CPU 0"), cpus.pop("CPU 1")) == ({LAST}, {FIRST})
    assert all(where == ALL for where in cpus.values())


def test_vcpus_share_the_cpus_where_there_are_not_as_many(site: Site, qemu: int) -> None:
    outcome = applied(thread_steps("ecu", guest(vcpus={"cpus": [LAST]}), site))
    assert list(outcome.first) == [f"vm1's vCPUs on CPU {LAST}"]
    assert outcome.findings == {}
    cpus = cpus_by_name(qemu)
    assert {name for name, where in cpus.items() if where == {LAST}} == {"CPU 0", "CPU 1", "CPU 10"}


def test_emulator_threads_are_all_but_vcpus_and_vhost(site: Site, qemu: int) -> None:
    assert applied(thread_steps("ecu", guest(emulator={"cpus": [FIRST]}), site)).findings == {}
    cpus = cpus_by_name(qemu)
    others = {name for name, where in cpus.items() if where == ALL}
    assert others == {"CPU 0", "CPU 1", "CPU 10", "vhost"}


def test_what_emulates_a_board_in_virtual_time_is_all_but_virtual_cpus_and_monitors(site: Site, qemu: int) -> None:
    pids = str(Path(site.guest_state("vm1"), "pid"))
    step = thread_step("ecu", "board1's other threads", EMULATOR_ALONE, on_cpus((LAST,)), pids)
    assert applied([step]).findings == {}
    cpus = cpus_by_name(qemu)
    others = {name for name, where in cpus.items() if where == ALL}
    assert others == {"CPU 0", "CPU 1", "CPU 10", "IO mon_iothread", "vhost"}


@pytest.mark.real
def test_each_kind_has_its_own_priority(site: Site, qemu: int) -> None:
    small = guest(vcpus={"fifo": 1}, emulator={"fifo": 2}, vhost={"fifo": 3})
    assert applied(thread_steps("ecu", small, site)).findings == {}
    found = {
        name: (os.sched_getscheduler(thread), os.sched_getparam(thread).sched_priority)
        for name, thread in threads(qemu).items()
    }
    assert found["CPU 0/KVM"] == found["CPU 10/KVM"] == (os.SCHED_FIFO, 1)
    assert found["IO mon_iothread"] == (os.SCHED_FIFO, 2)
    assert found[f"vhost-{qemu}"] == (os.SCHED_FIFO, 3)


def test_vhost_of_an_older_kernel_is_a_process_of_its_own(site: Site, qemu: int) -> None:
    with subprocess.Popen([sys.executable, "-c", RENAMED, f"vhost-{qemu}"], stdin=-1, stdout=-1) as kernel_thread:
        assert kernel_thread.stdout
        assert kernel_thread.stdout.readline() == b"ready\n"
        outcome = applied(thread_steps("ecu", guest(vhost={"cpus": [LAST]}), site))
        assert outcome.findings == {}
        assert os.sched_getaffinity(kernel_thread.pid) == {LAST}
        kernel_thread.communicate()
    assert cpus_by_name(qemu)["IO mon_iothread"] == ALL


def test_a_thread_moved_behind_our_back_is_found_at_the_end(site: Site, qemu: int) -> None:
    outcome = applied(
        thread_steps("ecu", guest(vcpus={"cpus": [LAST, FIRST], "fifo": 5}), site),
        lambda: os.sched_setaffinity(threads(qemu)["CPU 1/KVM"], {LAST}),
    )
    assert outcome.changed == {f"vm1's vCPU 1 on CPU {FIRST}": str(LAST)}


def test_threads_that_are_not_there_are_a_finding(site: Site, qemu: int, monkeypatch: pytest.MonkeyPatch) -> None:
    process_without = Path(site.guest_state("vm1"), "pid")
    process_without.write_text(f"{os.getpid()}\n")
    title = f"vm1's vhost threads on CPU {FIRST}"
    for device, said in ((process_without, "no such thread"), (process_without / "none", threads_module.NO_VHOST)):
        monkeypatch.setattr(threads_module, "VHOST_NET", str(device))
        outcome = applied(thread_steps("ecu", guest(vhost={"cpus": [FIRST]}), site))
        assert outcome.findings == {title: f"ended with status 1: {said}"}


def test_a_cpu_that_is_not_there_is_a_finding_with_the_answer(site: Site, qemu: int) -> None:
    (why,) = applied(thread_steps("ecu", guest(vcpus={"cpus": [8191]}), site)).findings.values()
    assert "failed to set pid" in str(why)
    assert "Invalid argument" in str(why)
    assert all(where == ALL for where in cpus_by_name(qemu).values())


def test_the_threads_of_a_libvirt_domain_are_checked_and_left_as_they_are(site: Site, qemu: int) -> None:
    domain = {"host": "ecu", "uplink": "lat0", "domain": "win", "ssh": {"destination": "win"}}
    small = tuned(domain, guests={"vm1": {"vcpus": {"cpus": [FIRST]}}})
    assert pid_file("vm1", small.guests["vm1"], site) == "/run/libvirt/qemu/win.pid"
    ours = Path(site.guest_state("vm1"), "pid")
    for thread in threads(qemu).values():
        os.sched_setaffinity(thread, {FIRST})
    os.sched_setaffinity(threads(qemu)["CPU 1/KVM"], {LAST})
    steps = [told_of(step, ours) for step in thread_steps("ecu", small, site)]
    assert applied(steps).findings == {f"vm1's vCPUs on CPU {FIRST}": f"read back: {cpu_list({FIRST, LAST})}"}
    assert os.sched_getaffinity(threads(qemu)["CPU 1/KVM"]) == {LAST}


def told_of(step: Step, pids: Path) -> Step:
    """The same step for a QEMU whose pid is in another file."""
    assert step.check
    argv = tuple(str(pids) if argument.endswith(".pid") else argument for argument in step.check.argv)
    return replace(step, check=replace(step.check, argv=argv))


def test_what_the_tools_print_of_several_threads_is_reported_once_each() -> None:
    assert affinity("pid 7's current affinity list: 0,1\npid 8's current affinity list: 0,1\n") == "0-1"
    assert affinity("pid 7's current affinity list: 0-3\npid 8's current affinity list: 2\n") == "0-3; 2"
    said = "pid 7's current scheduling policy: SCHED_OTHER\npid 7's current scheduling priority: 0\n"
    assert scheduling(said) == "SCHED_OTHER 0"
    assert scheduling(said + said.replace("OTHER", "FIFO").replace("y: 0", "y: 5")) == "SCHED_FIFO 5; SCHED_OTHER 0"


@pytest.mark.parametrize(("bridge", "steps"), [("tap", 2), ("user", 1), ("vfio", 1)])
def test_where_a_bridge_never_has_vhost_none_of_its_threads_is_asked_for(bridge: str, steps: int, site: Site) -> None:
    small = guest(vcpus={"fifo": 1}, vhost={"fifo": 2})
    guests = {name: one.model_copy(update={"bridge": bridge}) for name, one in small.guests.items()}
    found = list(thread_steps("ecu", small.model_copy(update={"guests": guests}), site))
    assert len(found) == steps
    assert {step.about for step in found} == {"vm1"}


@pytest.mark.parametrize(("build", "steps"), [("/usr/sbin/ovs-vswitchd", 0), (None, 1)])
def test_with_vhost_user_there_are_no_vhost_threads(
    build: str | None, steps: int, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ovs_afxdp, "dpdk_build", lambda site: build)
    small = guest(vhost={"fifo": 2})
    guests = {name: one.model_copy(update={"bridge": "ovs-afxdp"}) for name, one in small.guests.items()}
    assert len(list(thread_steps("ecu", small.model_copy(update={"guests": guests}), site))) == steps


def test_whether_there_is_vhost_user_is_asked_of_the_guests_own_machine(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ovs_afxdp, "dpdk_build", lambda where: None if where.name == "board1" else "/here/ovs-vswitchd")
    small = guest(vhost={"fifo": 2})
    guests = {name: one.model_copy(update={"bridge": "ovs-afxdp"}) for name, one in small.guests.items()}
    hosts = {
        "board1": BoardHost(kind="board"),
        **{name: NetnsHost(kind="netns", on="board1") for name in small.hosts},
    }
    on_board = small.model_copy(update={"guests": guests, "hosts": hosts})
    there = replace(site, others={"board1": replace(site, name="board1")})
    (step,) = thread_steps("ecu", on_board, there)
    assert "vhost" in step.title
