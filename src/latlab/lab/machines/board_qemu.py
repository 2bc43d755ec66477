"""The QEMU command line of a board (qemu-system(1)): a PC with as many CPUs and network cards as it is to have."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

from latlab.host.turns import MAILBOX, MAILBOX_BYTES
from latlab.host.turns import MONITOR as TURNS_MONITOR
from latlab.lab.guests.qemu import (
    MACHINES,
    MIB,
    MONITOR,
    acceleration_here,
    qemu_program,
    qemu_version,
    serial_ports,
)
from latlab.lab.hardware import board_address
from latlab.lab.images import Image
from latlab.lab.machine import Machine
from latlab.lab.site import Site
from latlab.lab.step import Argv
from latlab.scenario import BoardHost, End, Scenario

VIRTUAL_TIME = (
    *("-accel", "tcg,thread=single", "-icount", "shift=0,sleep=off"),
    *("-cpu", "max,-rdrand,-rdseed", "-seed", "1", "-rtc", "base=2025-01-01T00:00:00,clock=vm"),
)
"""A nanosecond is an instruction, and an idle CPU's time goes by at once; nothing is random, and the date is always the
same (QEMU: docs/devel/tcg-icount.rst)."""
INSTRUCTIONS_PER_NS = 1

IGB_SINCE = (8, 0)
"""The first QEMU with Intel's igb (hw/net/igb.c): a clock of its own (PHC), and queues."""


def board_argv(
    scenario: Scenario, name: str, image: Image, site: Site, folder: str, console: str, incoming: Path | None
) -> Argv:
    """The whole command that runs the board in the foreground until it is ended.

    console: the file that gets what it prints. incoming: the snapshot it goes on from.
    """
    return (
        program(image, site.machine),
        *_machine(_board(scenario, name), site.machine),
        *("-name", f"{name},debug-threads=on"),
        *("-nodefaults", "-no-user-config", "-no-reboot", "-display", "none"),
        *("-serial", f"file:{console}"),
        *("-pidfile", f"{folder}/pid"),
        *("-qmp", f"unix:{folder}/{MONITOR},server=on,wait=off"),
        *("-kernel", str(image.kernel), "-initrd", str(_initramfs(scenario, name, image))),
        *("-append", _command_line(_board(scenario, name), name, image)),
        *(_turns(folder) if _is_virtual(scenario, name) else serial_ports(folder)),
        *_cards(scenario, name, image, site),
        *(("-incoming", f"exec:cat {shlex.quote(str(incoming))}") if incoming else ()),
    )


def program(image: Image, machine: Machine) -> str:
    """The QEMU that runs the board: its image's, else this machine's."""
    return str(image.emulator_program or qemu_program(machine))


def version(image: Image, machine: Machine) -> tuple[int, ...]:
    """That QEMU's version, such as (10, 0, 2); empty when it cannot be told."""
    if image.emulator:
        return tuple(map(int, image.emulator.split(".")))
    return qemu_version(machine) or ()


def virtual_time_by(scenario: Scenario, site: Site) -> str:
    """The version of the QEMU whose instructions are counted, such as 10.0.2."""
    boards = (host for host in scenario.hosts.values() if isinstance(host, BoardHost) and host.time == "virtual")
    return next((".".join(map(str, version(site.images[board.image], site.machine))) for board in boards), "")


def board_key(scenario: Scenario, name: str, image: Image, machine: Machine) -> str:
    """What two boards must have in common to go on from one snapshot."""
    board = _board(scenario, name)
    place = list(scenario.hosts).index(name)
    parts = (
        *(board_address(place, number) for number in range(board.nics)),
        *(image.digest, version(image, machine), acceleration_here(machine), board.cpus, board.memory, board.nics),
        *(card_model(image, machine), board.append, name, _initramfs(scenario, name, image).name, board.time),
    )
    return "\n".join(map(str, parts))


def _initramfs(scenario: Scenario, name: str, image: Image) -> Path:
    """The one with QEMU and a guest's image in it only where guests are on the board: it takes longer to boot."""
    nested = any(scenario.machine_of(guest) == name for guest in scenario.guests)
    return image.nested_initramfs if nested and image.nested_initramfs else image.initramfs


def _machine(board: BoardHost, machine: Machine) -> Iterator[str]:
    yield from ("-machine", MACHINES.get(machine.architecture, "virt"))
    if board.time == "virtual":
        yield from VIRTUAL_TIME
    else:
        accelerated = acceleration_here(machine)
        yield from ("-accel", "kvm" if accelerated == "kvm" else "tcg,thread=multi")
        yield from ("-cpu", "host" if accelerated == "kvm" else "max")
    yield from ("-smp", str(board.cpus), "-m", f"{board.memory // MIB}M")


def _turns(folder: str) -> Iterator[str]:
    """The arguments by which the lab and a board in virtual time take turns (latlab.host.turns)."""
    mailbox = f"memory-backend-file,id=turns,share=on,mem-path={folder}/{MAILBOX},size={MAILBOX_BYTES}"
    yield from ("-object", mailbox, "-device", "ivshmem-plain,memdev=turns,master=on")
    yield from ("-device", "pvpanic", "-action", "panic=pause")
    yield from ("-qmp", f"unix:{folder}/{TURNS_MONITOR},server=on,wait=off")


def _command_line(board: BoardHost, name: str, image: Image) -> str:
    virtual = "latlab.turns nokaslr" if board.time == "virtual" else ""
    return " ".join(filter(None, (image.append, f"latlab.name={name}", virtual, board.append)))


def _is_virtual(scenario: Scenario, name: str) -> bool:
    return _board(scenario, name).time == "virtual"


def _cards(scenario: Scenario, name: str, image: Image, site: Site) -> Iterator[str]:
    """Each card on a PCIe port of its own. One that a link names is joined to the card at the link's other end."""
    model = card_model(image, site.machine)
    for number in range(_board(scenario, name).nics):
        netdev = ",".join((f"id=nic{number}", *_cable(scenario, End(name, f"eth{number}"), site)))
        yield from ("-netdev", netdev)
        yield from ("-device", f"pcie-root-port,id=port{number},chassis={number + 1}")
        mac = board_address(list(scenario.hosts).index(name), number)
        yield from ("-device", f"{model},bus=port{number},netdev=nic{number},mac={mac},romfile=")


def _cable(scenario: Scenario, end: End, site: Site) -> Iterator[str]:
    """The values of -netdev: frames as datagrams between two sockets; a card without a cable hears nobody."""
    for number, link in enumerate(scenario.links):
        if end in link.ends:
            here = link.ends.index(end)
            paths = [f"{site.ways}/cable{number}-{side}" for side in (here, 1 - here)]
            yield "type=dgram"
            yield from (f"local.type=unix,local.path={paths[0]}", f"remote.type=unix,remote.path={paths[1]}")
            return
    yield f"type=hubport,hubid={100 + int(end.interface.removeprefix('eth'))}"


QUEUES = {"e1000e": 1, "igb": 8}
"""Model of a card → how many pairs of receive and transmit queues it can have (Linux's drivers of the same names)."""


def card_model(image: Image, machine: Machine) -> str:
    """The model of a board's network cards, which is the name of Linux's driver, too."""
    return "igb" if version(image, machine) >= IGB_SINCE else "e1000e"


def _board(scenario: Scenario, name: str) -> BoardHost:
    board = scenario.hosts[name]
    assert isinstance(board, BoardHost)
    return board
