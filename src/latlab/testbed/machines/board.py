"""A machine that QEMU emulates, with its own kernel and tools: it is started for each cell, and ended after it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from latlab.hosts import MACHINE, Host, TurnsHost
from latlab.hosts.guest import GUEST_AGENT, BoardGuest
from latlab.hosts.turns import HALTED, IDENTITY, MAILBOX, MAILBOX_BYTES
from latlab.model.bridges import KINDS
from latlab.model.errors import LabError
from latlab.scenario import Scenario, image_for
from latlab.scenario.guests import facts_of
from latlab.testbed.architecture import BY_DEBIAN, debian_name
from latlab.testbed.guests.monitor import MONITOR_MODULE
from latlab.testbed.guests.qemu import MONITOR, acceleration_here, qemu_lacking
from latlab.testbed.images import Image, is_whole, snapshot_path
from latlab.testbed.images.emulator import PACKAGES
from latlab.testbed.images.modules import COMPILER, OWN_MODULES
from latlab.testbed.images.put_together import words_for
from latlab.testbed.images.with_guests import PUT_TOGETHER_MODULE
from latlab.testbed.machine import Machine, assumed_machine
from latlab.testbed.machines.base import MachineKind
from latlab.testbed.machines.board_qemu import (
    FUNCTIONS_SINCE,
    QUEUES,
    board_argv,
    board_key,
    card_model,
    emulated,
    initramfs,
    nested_images,
    pci_address,
    shares_card,
    version,
)
from latlab.testbed.site import Site
from latlab.testbed.step import WITH_ITS_LAB, Check, Service, Step
from latlab.testbed.tuning.threads import ALL, EMULATOR_ALONE, VCPUS, at_fifo, on_cpus, thread_step

BOOT_S = 240
"""Plain emulation on a busy machine boots a whole kernel slowly, and loads modules slowly."""
NESTED = "/usr/share/latlab/images"
"""Where an image of a board has the images of its guests."""
LOADED = dict.fromkeys(("vhost_net", "veth", "8021q", *(module for kind in KINDS.values() for module in kind.kernel)))
LOAD = f"modprobe -a {' '.join(LOADED)}\n"
"""What the test bed is made with, on boards of every architecture."""
SETTLED = 'until [ "$(cut -d. -f1 /proc/uptime)" -ge 12 ]; do sleep 1; done\n'
"""In its first seconds a board's clock has its rate refined, and no two in virtual time are alike before that is over.
Open vSwitch takes a machine up for less than 10 s for one without CPUs (count_cpu_cores() in its lib/ovs-thread.c), and
then needs no decision about a frame."""
WITH_FUNCTIONS = "vf-board"
"""What remedies call an image by whose QEMU cards have virtual functions."""
ANSWERS = ("echo", "answers")
SET_CLOCK = 'exec "$0" in "$1" date -u -s "@$(date +%s)"'


class BoardMachine(MachineKind):
    """A host of kind board."""

    tools = ("setpriv",)

    def host(self, scenario: Scenario, name: str, site: Site) -> Host:
        """Its first process is our agent, which is spoken to as in a guest of ours, or in turns."""
        if _is_virtual(scenario, name):
            return TurnsHost(name, folder(site, name))
        return BoardGuest(name, folder(site, name), site.agent)

    def lacking(self, scenario: Scenario, name: str, site: Site) -> Iterator[LabError]:
        """QEMU, where the board's image has none, and the kernel modules that the image does not have."""
        image = _image(scenario, name, site)
        if not image.is_built:
            # That is a separate problem; which QEMU and which modules there will be is not known before.
            return
        arch = scenario.boards[name].arch or debian_name(site.machine.architecture)
        if image.architecture and image.architecture != arch:
            other = f"the image {image.name} is for {image.architecture}, and the board is of {arch}"
            yield LabError(other, where=f"hosts.{name}.image", remedy="another image, or another `arch`")
            return
        known = BY_DEBIAN.get(arch)
        emulating = replace(site.machine, architecture=known.name if known else arch)
        if not image.emulator and (what := qemu_lacking(emulating)):
            remedy = f"QEMU 7.2 or newer: `sudo apt install {PACKAGES.get(arch, PACKAGES['amd64'])}`"
            yield LabError(what, where=f"hosts.{name}", remedy=remedy)
        model = card_model(image, site.machine)
        yield from modules_lacking(scenario, name, image, site.machine, model)
        yield from _undriven(scenario, name, site, model)
        yield from _without_functions(scenario, name, image, site.machine)
        for number, link in enumerate(scenario.links):
            is_cable = not scenario.link_is_created(link)
            # It is reported once, for the first of its two boards.
            if is_cable and scenario.on_machine(link.ends[0]).host == name and link.queues > QUEUES[model]:
                what = f"{link.queues} queues: the boards' cards are of the model {model}, which has {QUEUES[model]}"
                remedy = "fewer queues" + (", or QEMU 8 or newer, which has igb" if model != "igb" else "")
                yield LabError(what, where=f"links[{number}].queues", remedy=remedy)

    def snapshot(self, scenario: Scenario, name: str, site: Site) -> Path:
        """It has booted, and what the test bed needs is loaded."""
        image = _image(scenario, name, site)
        return snapshot_path(image, board_key(scenario, name, image, site) + _load(scenario, name, site))

    def can_be_kept(self, scenario: Scenario, name: str) -> bool:
        """Whether its cards have no virtual functions, of which QEMU keeps nothing: hw/net/igbvf.c has no VMState."""
        return not shares_card(scenario, name)

    def steps(self, scenario: Scenario, name: str, site: Site) -> Iterator[Step | Service]:
        """It runs and answers, from a snapshot of its first boot, and its clock shows the time to the second."""
        image = _image(scenario, name, site)
        virtual = _is_virtual(scenario, name)
        # In a snapshot it costs no cell anything.
        load = Step(
            name,
            f"load what bridges and guests on {name} need",
            ("sh", "-c", _load(scenario, name, site)),
            within_s=BOOT_S,
        )
        snapshot = site.snapshots.get(name)
        yield Step(MACHINE, f"make the folder of {name}'s ports", ("mkdir", "-p", folder(site, name)))
        if virtual:
            mailbox = f"{folder(site, name)}/{MAILBOX}"
            made = f"printf {IDENTITY.decode()} >{mailbox} && truncate -s {MAILBOX_BYTES} {mailbox}"
            yield Step(MACHINE, f"make the memory through which the lab and {name} run in lockstep", ("sh", "-c", made))
        if not initramfs(scenario, name, image, site).exists():
            nested = nested_images(scenario, name, site)
            yield Step(
                MACHINE,
                f"assemble {name}'s initial file system, with {', '.join(one.name for one in nested)} for its guests",
                (sys.executable, "-m", PUT_TOGETHER_MODULE, *words_for(image, *nested)),
            )
        if snapshot and not is_whole(snapshot):
            yield _qemu(scenario, name, site, None, f"boot {name} for its snapshot", passing=True)
            yield load
            keep = (sys.executable, "-m", MONITOR_MODULE, "snapshot", f"{folder(site, name)}/{MONITOR}", str(snapshot))
            yield Step(MACHINE, f"save {name} as it is now: this and later runs start from this snapshot", keep)
        yield _qemu(scenario, name, site, snapshot, f"start {name}")
        if not snapshot:
            yield load
        if virtual:
            yield from _alone(name, site)
        else:
            yield Step(
                host=MACHINE,
                title=f"set {name}'s clock, to the second",
                do=("sh", "-c", SET_CLOCK, site.agent, folder(site, name)),
            )

    def planned(self, scenario: Scenario, name: str) -> Machine:
        """Its network cards are where its ports for them are."""
        cards = scenario.boards[name].cards
        devices = {f"/sys/class/net/{card}/device": pci_address(number) for number, card in enumerate(cards)}
        assumed = replace(assumed_machine(), link=devices.get)
        arch = scenario.boards[name].arch
        return replace(assumed, architecture=BY_DEBIAN[arch].name) if arch else assumed

    def site(self, scenario: Scenario, name: str, site: Site) -> Site:
        """The agent and the guests' images are those of the board's image."""
        # A guest goes by its image's plain name: on an ARM board that is the one for ARM.
        arch = scenario.boards[name].arch
        images = {key: _nested(site.images.get(image_for(key, arch), image)) for key, image in site.images.items()}
        images |= {key.removesuffix(f"-{arch}"): _nested(image) for key, image in site.images.items()} if arch else {}
        place = Site(site.tag, name=name, machine=site.machine, agent=GUEST_AGENT, images=images)
        # Its guests take turns with it on the same CPUs.
        return replace(place, clock_pages=False)


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
        # It would never be continued or inspected.
        argv=(*WITH_ITS_LAB, "KILL", *board_argv(scenario, name, image, site, at, console, snapshot)),
        log=site.log(name),
        console=console,
        ready=ready,
        passing=passing,
        carries=name,
        incoming=snapshot,
    )


def _alone(name: str, site: Site) -> Iterator[Step]:
    """QEMU's threads share one CPU, where the thread of the virtual CPUs never runs next to another.

    Its main thread runs timers, too. When it does would depend on this machine, were it not woken only by the virtual
    CPUs' thread, which it then goes before: at the same instruction each time. (Some timers only it can run, and the
    virtual CPUs wait for them without sleeping.) Both are real-time threads: when the kernel gives others their share
    (sched_rt_runtime_us), it takes it from both. The monitors' thread is an ordinary one: each timer of the board wakes
    it, as it might have timers too, and it has nothing to do before the machine halts.
    """
    pids = f"{folder(site, name)}/pid"
    shared = on_cpus((site.emulator_cpu,))
    steps = [thread_step(MACHINE, f"{name}'s threads {shared.title}", ALL, shared, pids)]
    for who, find, priority in (("other threads", EMULATOR_ALONE, 2), ("virtual CPUs", VCPUS, 1)):
        ahead = at_fifo(priority)
        steps.append(thread_step(MACHINE, f"{name}'s {who} {ahead.title}", find, ahead, pids))
    yield from (replace(step, about=name) for step in steps)


def _undriven(scenario: Scenario, name: str, site: Site, model: str) -> Iterator[LabError]:
    """Guests that get a card of the board's, and a kernel that drives none but virtual ones."""
    for key, guest in scenario.guests.items():
        if not facts_of(guest).gives_device or not guest.is_ours or scenario.machine_of(key) != name:
            continue
        if site.images[scenario.image_of(key)].flavour == "cloud":
            what = f"the kernel of {scenario.image_of(key)} has no driver for {model}, the board's card that {key} gets"
            remedy = "image: debian-rt, once `latlab image build debian-rt` has made it; or debian-standard"
            yield LabError(what, where=f"guests.{key}.image", remedy=remedy)


def _without_functions(scenario: Scenario, name: str, image: Image, machine: Machine) -> Iterator[LabError]:
    """Guests that get a virtual function of the board's card, and a QEMU whose cards have none that work."""
    has, since = (".".join(map(str, one)) for one in (version(image, machine), FUNCTIONS_SINCE))
    arch = scenario.boards[name].arch
    named, build = f"{WITH_FUNCTIONS}-{arch}" if arch else WITH_FUNCTIONS, build_options(scenario, name)
    for key, guest in scenario.guests.items():
        wants = KINDS[guest.bridge].takes_functions and scenario.machine_of(key) == name
        if wants and version(image, machine) < FUNCTIONS_SINCE:
            what = f"the cards of boards have virtual functions with a link by QEMU {since}, and {image.name} has {has}"
            remedy = f"an image such as `latlab image build {named} {build}` makes, and `image: {named}`"
            yield LabError(what, where=f"guests.{key}.bridge", remedy=remedy)


def build_options(scenario: Scenario, name: str) -> str:
    """The options of `latlab image build` with which an image serves the board: with a QEMU that does what it asks."""
    arch = scenario.boards[name].arch
    emulator = "--emulator-from trixie" if shares_card(scenario, name) else ""
    return " ".join(filter(None, (f"--arch {arch}" if arch else "", "--board", emulator)))


def _load(scenario: Scenario, name: str, site: Site) -> str:
    """What is loaded once it has booted. Cards become eth0, eth1, … by their driver, in the order of their ports."""
    model = card_model(_image(scenario, name, site), site.machine)
    load = LOAD + emulated(scenario, name).kvm
    return load + (f"modprobe {model}\n" if scenario.boards[name].nics else "") + SETTLED


def _is_virtual(scenario: Scenario, name: str) -> bool:
    return scenario.boards[name].time == "virtual"


def _image(scenario: Scenario, name: str, site: Site) -> Image:
    return site.images[scenario.boards[name].image_name]


def _nested(image: Image) -> Image:
    at = Path(NESTED) / image.name
    return replace(image, kernel=at / image.kernel.name, initramfs=at / image.initramfs.name)


# The kernel modules that a scenario needs on a board, and those that the board's image does not have.


KVM = {"AuthenticAMD": "kvm_amd", "GenuineIntel": "kvm_intel"}


@dataclass(frozen=True)
class Need:
    """A module, where in the scenario it is asked for, and what asks for less."""

    module: str
    where: str
    remedy: str


def modules_lacking(scenario: Scenario, name: str, image: Image, machine: Machine, card: str) -> Iterator[LabError]:
    """Each module that the scenario needs on that board and the image does not have.

    machine: the one that the board runs on; card: the model of its network cards.
    """
    for need in _needs(scenario, name, machine, card):
        if feature := image.lacking.get(need.module):
            what = (
                f"the image {image.name} has no kernel module {need.module}, so it is without this feature: {feature}"
            )
            yield LabError(what, where=need.where, remedy=f"{_mended(need.module, image)}; or {need.remedy}")


def _needs(scenario: Scenario, name: str, machine: Machine, card: str) -> Iterator[Need]:
    board = scenario.boards[name]
    if board.nics:
        yield Need(card, f"hosts.{name}.nics", "links between namespaces instead")
    for number, link in enumerate(scenario.links):
        if link.vlans and name in {scenario.machine_of(end.host) for end in link.ends}:
            yield Need("8021q", f"links[{number}].vlans", "separate links instead of VLANs")
    for key, guest in scenario.guests.items():
        if scenario.machine_of(key) != name:
            continue
        for module in facts_of(guest).modules:
            yield Need(module, f"guests.{key}.bridge", "bridge: tap")
        if guest.vhost == "on":
            yield Need("vhost_net", f"guests.{key}.vhost", "vhost: auto")
        if guest.acceleration == "kvm":
            for module in _kvm(machine, board.arch):
                yield Need(module, f"guests.{key}.acceleration", "acceleration: auto")


def _kvm(machine: Machine, arch: str | None) -> tuple[str, ...]:
    """What it takes for KVM: the emulated CPU is of AMD's kind, and does not say that its clock is constant."""
    if arch:
        return ("kvm",)
    if acceleration_here(machine) == "tcg":
        return "kvm", "kvm_amd", *OWN_MODULES
    said = machine.read("/proc/cpuinfo") or ""
    return ("kvm", *(module for maker, module in KVM.items() if maker in said))


def _mended(module: str, image: Image) -> str:
    build = f"`{image.build_command()}`"
    if module in OWN_MODULES:
        return f"install {', '.join(COMPILER)} (`sudo apt install gcc make binutils`), then {build}"
    return f"refresh apt's package lists (`sudo apt-get update`): another kernel may have it; then {build}"
