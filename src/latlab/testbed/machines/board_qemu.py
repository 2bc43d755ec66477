"""The QEMU command line of a board (qemu-system(1)): a PC or an ARM machine, its CPUs and network cards."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from latlab.hosts.turns import MAILBOX, MAILBOX_BYTES
from latlab.hosts.turns import MONITOR as TURNS_MONITOR
from latlab.scenario import BoardHost, End, Scenario
from latlab.scenario.guests import facts_of
from latlab.testbed.architecture import AARCH64, BY_DEBIAN, X86_64
from latlab.testbed.guests.qemu import (
    BOARD_DEVICES,
    MIB,
    MONITOR,
    acceleration_here,
    qemu_program,
    qemu_version,
    serial_ports,
)
from latlab.testbed.images import Image
from latlab.testbed.images.with_guests import nested_path
from latlab.testbed.machine import Machine
from latlab.testbed.site import STATE, Site, board_address
from latlab.testbed.step import Argv

VIRTUAL_ACCELERATOR = ("-accel", "tcg,thread=single", "-icount", "shift=0,sleep=off")
VIRTUAL_TIME = ("-rtc", "base=2025-01-01T00:00:00,clock=vm", "-global", "migration.announce-rounds=0")
"""A nanosecond is an instruction, of any of its CPUs, which take turns on one thread; while all are idle time goes by
at once. Nothing is random, and the date is always the same (QEMU: docs/devel/tcg-icount.rst).

A QEMU that resumes from a snapshot announces its cards for a second, by timers of this machine's clock. While one is
pending it cuts the turns of the virtual CPUs short (icount_get_limit() in accel/tcg/tcg-accel-ops-icount.c)."""
INSTRUCTIONS_PER_NS = 1


@dataclass(frozen=True)
class Emulated:
    """What boards of one architecture are, by QEMU's options.

    machine: `-machine`. cpu: `-cpu` in emulation. steady_cpu: the same in virtual time, where nothing is random.
    steady_used: what the kernel gets in virtual time. halt: the device by which a board halts there. iommu,
    machine_iommu: what keeps a card that is handed on to a guest from the rest of the board's memory: arguments, and
    what is added to `machine`. iommu_used: what the kernel gets. functions_used: what it gets, too, where guests have
    virtual functions of a card. kvm: the commands that load what KVM for nested guests needs.
    """

    machine: str
    cpu: str
    steady_cpu: str
    halt: str
    steady_used: str = ""
    iommu: tuple[str, ...] = ()
    machine_iommu: str = ""
    iommu_used: str = ""
    functions_used: str = ""
    kvm: str = ""


PC = Emulated(
    machine=X86_64.machine,
    cpu=X86_64.cpu,
    steady_cpu=f"{X86_64.cpu},-rdrand,-rdseed{X86_64.counted}",
    steady_used=X86_64.counted_used,
    halt="pvpanic",
    iommu=("-device", "intel-iommu,intremap=on"),
    # What hands a card on keeps it from the rest of the board's memory; the board's own go there directly
    # (Linux: Documentation/admin-guide/kernel-parameters.txt).
    iommu_used="intel_iommu=on iommu=pt",
    # KVM needs a CPU with virtualisation: QEMU's emulated one has AMD's. The RT kernel wants a constant TSC for it, and
    # what QEMU gets wrong about interrupts that KVM injects has to be got round.
    kvm="grep -q svm /proc/cpuinfo && modprobe -aq constant_tsc kvm_amd svm_inject_once || modprobe -q kvm_intel; :\n",
)
# Of `max` a nested guest would have WFIT, by which its kernel waits in udelay() (arch/arm64/lib/delay.c). QEMU does not
# say in the trap until when (syn_wfx() in target/arm/tcg/op_helper.c has no register), so KVM waits for the guest's
# next interrupt instead (kvm_handle_wfx() in arch/arm64/kvm/handle_exit.c): a card's driver stops its vCPU for 3 ms.
NESTING_ARM = "neoverse-n1,cntfrq=1000000000"
"""An ARMv8.2, which has no WFIT, with the counter of `max`: 1 GHz."""
ARM = Emulated(
    # KVM for nested guests takes EL2, and its GIC the third version. It is built into the kernel.
    machine=f"{AARCH64.machine},gic-version=3,virtualization=on",
    cpu=NESTING_ARM,
    steady_cpu=NESTING_ARM,
    halt="pvpanic-pci",
    machine_iommu=",iommu=smmuv3",
    # Without ACS in its port a card is in one IOMMU group with its functions. Where devices are in a device tree, Linux
    # asks for ACS after it has set the ports up (of_iommu_configure() in drivers/iommu/of_iommu.c): what tells requests
    # apart and keeps them from going from function to function is set by hand, in QEMU's pcie-root-port (Linux:
    # Documentation/admin-guide/kernel-parameters.txt).
    functions_used="pci=config_acs=xx111x1@pci:1b36:000c",
)
EMULATED: Mapping[str | None, Emulated] = {None: PC, AARCH64.debian: ARM}
"""What boards are, by their `arch`."""

IGB_SINCE = (8, 0)
"""The first QEMU with Intel's igb (hw/net/igb.c): its own clock (PHC), and queues."""
FUNCTIONS_SINCE = (10, 0, 13)
"""The first QEMU whose igb was seen to have virtual functions with a link; in 10.0.2 they have none."""


def board_argv(
    scenario: Scenario, name: str, image: Image, site: Site, folder: str, console: str, incoming: Path | None
) -> Argv:
    """The whole command that runs the board in the foreground until it is ended.

    console: the file that gets what it prints. incoming: the snapshot it resumes from.
    """
    kind = emulated(scenario, name)
    return (
        program(image, site.machine, scenario.boards[name].arch),
        *_machine(scenario, name, site),
        *("-name", f"{name},debug-threads=on"),
        *("-nodefaults", "-no-user-config", "-no-reboot", "-display", "none"),
        *("-serial", f"file:{console}"),
        *("-pidfile", f"{folder}/pid"),
        *("-qmp", f"unix:{folder}/{MONITOR},server=on,wait=off"),
        *("-kernel", str(image.kernel), "-initrd", str(initramfs(scenario, name, image, site))),
        *("-append", _command_line(scenario, name, image)),
        *(_turns(folder, kind.halt) if _is_virtual(scenario, name) else serial_ports(folder, BOARD_DEVICES)),
        *(kind.iommu if _hands_on(scenario, name) else ()),
        *_cards(scenario, name, image, site),
        *(("-incoming", f"exec:cat {shlex.quote(str(incoming))}") if incoming else ()),
    )


def emulated(scenario: Scenario, name: str) -> Emulated:
    """What the board is by QEMU's options."""
    return EMULATED[scenario.boards[name].arch]


def program(image: Image, machine: Machine, arch: str | None) -> str:
    """The QEMU that runs the board: its image's, else this machine's."""
    own = BY_DEBIAN[arch].qemu if arch else qemu_program(machine)
    return str(image.emulator_program or own)


def board_acceleration(board: BoardHost, machine: Machine) -> str:
    """`kvm` or `tcg`: what runs a board in real time; KVM runs none of another architecture."""
    foreign = board.arch and BY_DEBIAN[board.arch].name != machine.architecture
    return "tcg" if foreign else acceleration_here(machine)


def version(image: Image, machine: Machine) -> tuple[int, ...]:
    """That QEMU's version, such as (10, 0, 2); empty when it is unknown."""
    if image.emulator:
        return tuple(map(int, image.emulator.split(".")))
    return qemu_version(machine) or ()


def virtual_time_by(scenario: Scenario, site: Site) -> str:
    """The version of the QEMU whose instructions are counted, such as 10.0.2."""
    boards = (board for board in scenario.boards.values() if board.time == "virtual")
    return next((".".join(map(str, version(site.images[board.image_name], site.machine))) for board in boards), "")


def board_key(scenario: Scenario, name: str, image: Image, site: Site) -> str:
    """What two boards must have in common to resume from one snapshot."""
    board, machine = scenario.boards[name], site.machine
    place = list(scenario.hosts).index(name)
    parts = (
        *(board_address(place, number) for number in range(board.nics)),
        *(image.digest, version(image, machine), board_acceleration(board, machine)),
        *(board.cpus, board.memory, board.nics),
        *(card_model(image, machine), _command_line(scenario, name, image), name),
        *(initramfs(scenario, name, image, site).name, board.time),
        *(_hands_on(scenario, name), BOARD_DEVICES, emulated(scenario, name)),
    )
    return "\n".join(map(str, parts))


def initramfs(scenario: Scenario, name: str, image: Image, site: Site) -> Path:
    """The one with QEMU and guests' images in it only where guests are on the board: it takes longer to boot."""
    if not _has_guests(scenario, name):
        return image.initramfs
    return nested_path(image, nested_images(scenario, name, site))


def nested_images(scenario: Scenario, name: str, site: Site) -> list[Image]:
    """latlab's images that guests on the board start from, as they are on this machine."""
    guests = (key for key, guest in scenario.guests.items() if scenario.machine_of(key) == name and guest.is_ours)
    return [site.images[image] for image in sorted({scenario.image_of(key) for key in guests})]


def _machine(scenario: Scenario, name: str, site: Site) -> Iterator[str]:
    board, machine = scenario.boards[name], site.machine
    # With guests in it: where each virtual CPU has a thread, QEMU's emulation of AMD's virtualisation goes wrong under
    # load, and the board or a guest starts again silently.
    threads = "single" if _has_guests(scenario, name) else "multi"
    kind = emulated(scenario, name)
    yield from ("-machine", kind.machine + (kind.machine_iommu if _hands_on(scenario, name) else ""))
    if board.time == "virtual":
        yield from (*VIRTUAL_ACCELERATOR, "-cpu", kind.steady_cpu, *VIRTUAL_TIME, "-seed", str(site.emulator_seed))
    else:
        accelerated = board_acceleration(board, machine)
        yield from ("-accel", "kvm" if accelerated == "kvm" else f"tcg,thread={threads}")
        yield from ("-cpu", "host" if accelerated == "kvm" else kind.cpu)
    yield from ("-smp", str(board.cpus), "-m", f"{board.memory // MIB}M")


def _turns(folder: str, halt: str) -> Iterator[str]:
    """The arguments by which the lab and a board in virtual time take turns (latlab.hosts.turns). halt: the device."""
    mailbox = f"memory-backend-file,id=turns,share=on,mem-path={folder}/{MAILBOX},size={MAILBOX_BYTES}"
    yield from ("-object", mailbox, "-device", "ivshmem-plain,memdev=turns,master=on")
    yield from ("-device", halt, "-action", "panic=pause")
    yield from ("-qmp", f"unix:{folder}/{TURNS_MONITOR},server=on,wait=off")


def _command_line(scenario: Scenario, name: str, image: Image) -> str:
    board = scenario.boards[name]
    kind = emulated(scenario, name)
    virtual = f"latlab.turns nokaslr {kind.steady_used}".rstrip() if board.time == "virtual" else ""
    iommu = kind.iommu_used if _hands_on(scenario, name) else ""
    functions = kind.functions_used if shares_card(scenario, name) else ""
    return " ".join(filter(None, (image.append, f"latlab.name={name}", virtual, iommu, functions, board.append)))


def _has_guests(scenario: Scenario, name: str) -> bool:
    return any(scenario.machine_of(guest) == name for guest in scenario.guests)


def _hands_on(scenario: Scenario, name: str) -> bool:
    """Whether a guest on the board gets one of its cards."""
    given = (key for key, guest in scenario.guests.items() if facts_of(guest).gives_device)
    return any(scenario.machine_of(key) == name for key in given)


def shares_card(scenario: Scenario, name: str) -> bool:
    """Whether a guest on the board gets a virtual function of one of its cards."""
    given = (key for key, guest in scenario.guests.items() if facts_of(guest).takes_functions)
    return any(scenario.machine_of(key) == name for key in given)


def _is_virtual(scenario: Scenario, name: str) -> bool:
    return scenario.boards[name].time == "virtual"


def _cards(scenario: Scenario, name: str, image: Image, site: Site) -> Iterator[str]:
    """Each card on a separate PCIe port. One that a link names is joined to the card at the link's other end."""
    model = card_model(image, site.machine)
    for number in range(scenario.boards[name].nics):
        netdev = ",".join((f"id=nic{number}", *_cable(scenario, End(name, f"eth{number}"), site)))
        yield from ("-netdev", netdev)
        yield from ("-device", f"pcie-root-port,id=port{number},chassis={number + 1}")
        mac = board_address(list(scenario.hosts).index(name), number)
        yield from ("-device", f"{model},bus=port{number},netdev=nic{number},mac={mac},romfile=")


def pci_address(card: int) -> str:
    """Where the board finds its card of that number: the firmware counts the buses in the order of their ports."""
    return f"0000:{card + 1:02x}:00.0"


def _cable(scenario: Scenario, end: End, site: Site) -> Iterator[str]:
    """The values of -netdev: frames as datagrams between two sockets, or within one QEMU through a hub of two ports.

    A card without a cable receives nothing.
    """
    for number, link in enumerate(scenario.links):
        ends = [scenario.on_machine(one) for one in link.ends]
        if end in ends and not scenario.link_is_created(link):
            if ends[0].host == ends[1].host:
                yield f"type=hubport,hubid={number}"
                return
            here = ends.index(end)
            paths = [f"{site.ways}/cable{number}-{side}" for side in (here, 1 - here)]
            yield "type=dgram"
            yield from (f"local.type=unix,local.path={paths[0]}", f"remote.type=unix,remote.path={paths[1]}")
            return
    yield f"type=hubport,hubid={len(scenario.links) + int(end.interface.removeprefix('eth'))}"


QUEUES = {"e1000e": 1, "igb": 8}
"""Model of a card → how many pairs of receive and transmit queues it can have (Linux's drivers of the same names)."""


def card_model(image: Image, machine: Machine) -> str:
    """The model of a board's network cards, which is the name of Linux's driver, too."""
    return "igb" if version(image, machine) >= IGB_SINCE else "e1000e"


# A CPU of this machine for the QEMU of a board in virtual time, which needs one and cannot use two.
#
# Labs find out who has which by locked files. Where there are more boards than CPUs, boards share the last one: they
# take longer, and count the same instructions.


@contextlib.contextmanager
def emulator_cpu() -> Iterator[int]:
    """Keep a CPU of those that this process may use: the last that no other board has."""
    cpus = sorted(os.sched_getaffinity(0), reverse=True)
    Path(STATE).mkdir(parents=True, exist_ok=True)
    for cpu in cpus:
        with (Path(STATE) / f"cpu{cpu}.lock").open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            yield cpu
            return
    yield cpus[0]
