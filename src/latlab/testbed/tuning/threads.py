"""Where the threads of a guest run on its host, and how they are scheduled: vCPUs, emulator, vhost.

Their ids are known only once the guest runs, so that each command finds them by name. QEMU names its own with
`debug-threads=on`, a vCPU's `CPU 0/KVM`, one that emulates all of them `ALL CPUs/TCG`. The kernel names vhost's
`vhost-PID` (drivers/vhost/vhost.c): since Linux 6.4 they are tasks of QEMU's process, before that the kernel's own.
QEMU ends with the cell, and its threads with it: nothing is to be undone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from latlab.scenario import Guest, Scenario
from latlab.scenario.tuning import GuestTuning, Threads
from latlab.testbed.bridges.table import BRIDGES
from latlab.testbed.machine import parse_cpu_list
from latlab.testbed.site import Site
from latlab.testbed.step import Argv, Check, Step
from latlab.testbed.tuning.cpus import cpu_list, same_list

SETTLED_MS = 1000
"""A thread that ends between being found and being asked spoils one reading."""

VCPUS = 'grep -lE "^(CPU [0-9]+|ALL CPUs)/" /proc/$p/task/*/comm'
KVM_VCPUS = 'grep -lE "^CPU [0-9]+/KVM" /proc/$p/task/*/comm'
VCPU = 'grep -lE "^CPU {}/" /proc/$p/task/*/comm'
EMULATOR = 'grep -LE "^(CPU |ALL CPUs|vhost-)" /proc/$p/task/*/comm'
EMULATOR_ALONE = 'grep -LE "^(CPU |ALL CPUs|vhost-|IO mon_)" /proc/$p/task/*/comm'
"""Without the thread of its monitors (monitor_init_globals() in monitor/monitor.c of QEMU)."""
ALL = "ls /proc/$p/task/*/comm"
VHOST = "grep -slx vhost-$p /proc/$p/task/*/comm /proc/[0-9]*/comm"

VHOST_NET = "/dev/vhost-net"
NONE = "no such thread"
NO_VHOST = "no vhost-net on this host: QEMU carries the packets of its guest until vhost_net is loaded"

EACH = (
    'p=$(cat "$0") && all=$({} | sed "s,/comm,,; s,.*/,,") && [ "$all" ] || {{ echo "{}" >&2; exit 1; }}; '
    'for t in $all; do "$@" $t || [ ! -e /proc/$t ] || exit; done'
)
"""A command for each thread that is found; one that ends meanwhile is no failure. $0: the file with QEMU's pid."""


def guest_threads_command(pids: str) -> Argv:
    """Prints the ids of the threads that send interrupts into the guest of the QEMU whose pid is in the file `pids`:
    vhost's, then those in which KVM runs its vCPUs, then QEMU's others.
    """
    find = f'p=$(cat "$0") && {{ {VHOST}; {KVM_VCPUS}; {EMULATOR}; }} | sed "s,/comm,,; s,.*/,,"'
    return ("sh", "-c", find, pids)


@dataclass(frozen=True)
class ThreadKind:
    """Threads of one kind: what they are called, the command that lists their `comm` files, what is wanted of them."""

    title: str
    find: str
    wanted: Callable[[GuestTuning], Threads]


KINDS = (
    ThreadKind("vCPUs", VCPUS, lambda tuning: tuning.vcpus),
    ThreadKind("emulator threads", EMULATOR, lambda tuning: tuning.emulator),
    ThreadKind("vhost threads", VHOST, lambda tuning: tuning.vhost),
)


@dataclass(frozen=True)
class Setting:
    """What is set of a thread: in words, the tool that reads it, what more to say to set it, what it then reads."""

    title: str
    tool: Argv
    value: Argv
    expected: str
    read: Callable[[str], str]


def thread_steps(host: str, scenario: Scenario, site: Site) -> Iterator[Step]:
    """The steps for each guest of the host: where its threads run, and how."""
    there = site.on(scenario.machine_of(host))
    for name, tuning in scenario.tuning[host].guests.items():
        guest = scenario.guests[name]
        # A libvirt domain's threads are libvirt's to set (`virsh vcpupin`, `<cputune>`): they are only checked.
        theirs, pids = guest.domain is not None, pid_file(name, guest, site)
        has_vhost = BRIDGES[guest.bridge].may_have_vhost_on(guest, there)
        for kind in (kind for kind in KINDS if has_vhost or kind.find != VHOST):
            for title, find, setting in _settings(kind, kind.wanted(tuning), guest):
                step = thread_step(host, f"{name}'s {title} {setting.title}", find, setting, pids, only_check=theirs)
                yield replace(step, about=name)


def pid_file(name: str, guest: Guest, site: Site) -> str:
    """The file with the pid of the guest's QEMU: ours, or libvirt's for a domain."""
    return f"/run/libvirt/qemu/{guest.domain}.pid" if guest.domain else f"{site.guest_state(name)}/pid"


def _settings(kind: ThreadKind, wanted: Threads, guest: Guest) -> Iterator[tuple[str, str, Setting]]:
    """Title, finder and setting of each step. As many CPUs as vCPUs: one each; else every vCPU on all of them.

    How many a libvirt domain has is not known: they are on all of them together.
    """
    if wanted.cpus and guest.domain:
        yield kind.title, kind.find, replace(on_cpus(wanted.cpus), read=joint_affinity)
    elif wanted.cpus and kind.find == VCPUS and len(wanted.cpus) == guest.vcpus:
        for number, cpu in enumerate(wanted.cpus):
            yield f"vCPU {number}", VCPU.format(number), on_cpus((cpu,))
    elif wanted.cpus:
        yield kind.title, kind.find, on_cpus(wanted.cpus)
    if wanted.fifo:
        yield kind.title, kind.find, at_fifo(wanted.fifo)


def on_cpus(cpus: tuple[int, ...]) -> Setting:
    """The CPUs a thread may run on."""
    wanted = cpu_list(cpus)
    return Setting(f"on CPU {wanted}", ("taskset", "-pc"), (wanted,), wanted, affinity)


def at_fifo(priority: int) -> Setting:
    """SCHED_FIFO of a priority."""
    expected = f"SCHED_FIFO {priority}"
    return Setting(f"at {expected}", ("chrt", "-p"), ("-f", str(priority)), expected, scheduling)


def thread_step(host: str, title: str, find: str, setting: Setting, pids: str, *, only_check: bool = False) -> Step:
    """The threads that `find` lists, of the QEMU whose pid is in the file `pids`, are set so; or only should be."""
    none = f"$([ -e {VHOST_NET} ] && echo {NONE} || echo {NO_VHOST})" if find == VHOST else NONE
    each = ("sh", "-c", EACH.format(find, none), pids, *setting.tool)
    return Step(
        host=host,
        title=title,
        do=() if only_check else (*each, *setting.value),
        check=Check(each, expected=setting.expected, read=setting.read, within_ms=SETTLED_MS),
        optional=True,
        lasting=True,
    )


def affinity(output: str) -> str:
    """The CPUs that `taskset -pc` printed for each thread, each list once."""
    lists = re.findall(r"current affinity list: (\S+)", output)
    return "; ".join(sorted({same_list(found) for found in lists}))


def joint_affinity(output: str) -> str:
    """The CPUs that `taskset -pc` printed for all threads together."""
    lists = re.findall(r"current affinity list: (\S+)", output)
    return cpu_list(cpu for found in lists for cpu in parse_cpu_list(found))


def scheduling(output: str) -> str:
    """Policy and priority that `chrt -p` printed for each thread, each pair once."""
    policies = re.findall(r"scheduling policy: (\w+)", output)
    priorities = re.findall(r"scheduling priority: (\d+)", output)
    return "; ".join(sorted({" ".join(pair) for pair in zip(policies, priorities, strict=True)}))
