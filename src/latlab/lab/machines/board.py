"""A machine that QEMU emulates, with a kernel and tools of its own: it is started for each cell, and gone after it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from latlab.errors import LabError
from latlab.host import MACHINE, GuestHost, Host, TurnsHost
from latlab.host.guest import GUEST_AGENT
from latlab.host.turns import HALTED, IDENTITY, MAILBOX, MAILBOX_BYTES
from latlab.lab.guests.monitor import MONITOR_MODULE
from latlab.lab.guests.qemu import MONITOR, qemu_lacking
from latlab.lab.images import Image, snapshot_path
from latlab.lab.machines.base import MachineKind
from latlab.lab.machines.board_qemu import QUEUES, board_argv, board_key, card_model
from latlab.lab.service import Service
from latlab.lab.site import Site
from latlab.lab.step import Check, Step
from latlab.lab.tuning.threads import ALL, VCPUS, at_fifo, on_cpus, thread_step
from latlab.scenario import BoardHost, Scenario

BOOT_S = 240
"""Plain emulation on a busy machine boots a whole kernel slowly."""
NESTED = "/usr/share/latlab/images"
"""Where an image of a board has the images of its guests."""
LOAD = """\
modprobe -a tun vhost_net bridge veth macvtap 8021q openvswitch vfio-pci
grep -q svm /proc/cpuinfo && { modprobe -q constant_tsc; modprobe -q kvm_amd; } || modprobe -q kvm_intel; :
"""
"""KVM needs a CPU with virtualisation: QEMU's emulated one has AMD's. The RT kernel wants a constant TSC for it."""
REFINED = "sleep 3"
"""A board in virtual time has its clock's rate refined in its first seconds: before they are over no two are alike."""
ANSWERS = ("echo", "answers")
SET_CLOCK = 'exec "$0" in "$1" date -u -s "@$(date +%s)"'


class BoardMachine(MachineKind):
    """A host of kind board."""

    def host(self, scenario: Scenario, name: str, site: Site) -> Host:
        """Its first process is our agent, which is spoken to as in a guest of ours, or in turns."""
        if _is_virtual(scenario, name):
            return TurnsHost(name, folder(site, name))
        return GuestHost(name, folder(site, name), site.agent)

    def lacking(self, scenario: Scenario, name: str, site: Site) -> Iterator[LabError]:
        """QEMU, and the board's image."""
        if what := qemu_lacking(site.machine):
            remedy = "QEMU 7.2 or newer: `sudo apt install qemu-system-x86`"
            yield LabError(what, where=f"hosts.{name}", remedy=remedy)
        model = card_model(site.machine)
        for number, link in enumerate(scenario.links):
            is_cable = not scenario.link_is_created(link)
            # Of both its boards the first tells it.
            if is_cable and link.ends[0].host == name and link.queues > QUEUES[model]:
                what = f"{link.queues} queues: the boards' cards are of the model {model}, which has {QUEUES[model]}"
                remedy = "fewer queues" + (", or QEMU 8 or newer, which has igb" if model != "igb" else "")
                yield LabError(what, where=f"links.{number}.queues", remedy=remedy)
        nested = [guest for guest in scenario.guests if scenario.machine_of(guest) == name]
        if nested and _is_virtual(scenario, name):
            what = f"{', '.join(nested)}: guests on a board in virtual time are not in this version"
            yield LabError(what, where=f"hosts.{name}.time", remedy="time: real")

    def steps(self, scenario: Scenario, name: str, site: Site) -> Iterator[Step | Service]:
        """It runs and answers, from a snapshot of its first boot, and its clock tells the time to the second."""
        image = _image(scenario, name, site)
        virtual = _is_virtual(scenario, name)
        load = LOAD + _cards_driver(scenario, name, site) + (REFINED if virtual else "")
        snapshot = snapshot_path(image, board_key(scenario, name, image, site.machine) + load)
        yield Step(MACHINE, f"make the folder of {name}'s ports", ("mkdir", "-p", folder(site, name)))
        if virtual:
            mailbox = f"{folder(site, name)}/{MAILBOX}"
            made = f"printf {IDENTITY.decode()} >{mailbox} && truncate -s {MAILBOX_BYTES} {mailbox}"
            yield Step(MACHINE, f"make the memory by which the lab and {name} take turns", ("sh", "-c", made))
        if not snapshot.exists():
            yield _qemu(scenario, name, site, None, f"boot {name} for its snapshot", passing=True)
            # In a snapshot they cost no cell anything.
            yield Step(name, f"load what bridges and guests on {name} need", ("sh", "-c", load))
            keep = (sys.executable, "-m", MONITOR_MODULE, "snapshot", f"{folder(site, name)}/{MONITOR}", str(snapshot))
            yield Step(MACHINE, f"keep {name} as it is now to start from, here and ever after", keep)
        yield _qemu(scenario, name, site, snapshot, f"start {name}")
        if virtual:
            yield from _alone(name, site)
        else:
            yield Step(
                host=MACHINE,
                title=f"set {name}'s clock, to the second",
                do=("sh", "-c", SET_CLOCK, site.agent, folder(site, name)),
            )

    def site(self, scenario: Scenario, name: str, site: Site) -> Site:
        """The agent and the guests' images are those of the board's image."""
        images = {key: _nested(image) for key, image in site.images.items() if image.kind == "guest"}
        return Site(site.tag, name=name, machine=site.machine, agent=GUEST_AGENT, images=images)


def folder(site: Site, name: str) -> str:
    """Where the board's ports and its monitor are, on this machine."""
    return f"{site.ways}/{name}"


def _qemu(
    scenario: Scenario, name: str, site: Site, snapshot: Path | None, title: str, *, passing: bool = False
) -> Service:
    image, at = _image(scenario, name, site), folder(site, name)
    console = f"{site.logs}/{name}.console"
    ready = Check((site.agent, "in", "--patience", str(BOOT_S), at, *ANSWERS), "answers", within_ms=(BOOT_S + 5) * 1000)
    if _is_virtual(scenario, name):
        state = (sys.executable, "-m", MONITOR_MODULE, "state", f"{at}/{MONITOR}", HALTED, str(BOOT_S))
        ready = Check(state, HALTED, within_ms=(BOOT_S + 5) * 1000)
    return Service(
        host=MACHINE,
        title=title,
        argv=board_argv(scenario, name, image, site, at, console, snapshot),
        log=site.log(name),
        console=console,
        ready=ready,
        passing=passing,
        carries=name,
    )


def _alone(name: str, site: Site) -> Iterator[Step]:
    """QEMU's threads share one CPU, where none runs beside the virtual CPU's.

    Its main thread runs timers, too: when it does depends on this machine, unless it only ever gets to run while the
    virtual CPU stands still.
    """
    pids = f"{folder(site, name)}/pid"
    shared, ahead = on_cpus((max(site.machine.cpus),)), at_fifo(1)
    yield thread_step(MACHINE, f"{name}'s threads {shared.title}", ALL, shared, pids)
    yield thread_step(MACHINE, f"{name}'s virtual CPU {ahead.title}", VCPUS, ahead, pids)


def _cards_driver(scenario: Scenario, name: str, site: Site) -> str:
    """The line that makes eth0, eth1, … of the board's cards, in the order of their PCIe ports; empty without cards."""
    return f"modprobe {card_model(site.machine)}\n" if _wanted(scenario, name).nics else ""


def _is_virtual(scenario: Scenario, name: str) -> bool:
    return _wanted(scenario, name).time == "virtual"


def _wanted(scenario: Scenario, name: str) -> BoardHost:
    wanted = scenario.hosts[name]
    assert isinstance(wanted, BoardHost)
    return wanted


def _image(scenario: Scenario, name: str, site: Site) -> Image:
    return site.images[_wanted(scenario, name).image]


def _nested(image: Image) -> Image:
    at = Path(NESTED) / image.name
    return replace(image, kernel=at / image.kernel.name, initramfs=at / image.initramfs.name)
