"""The QEMU command line of a board (qemu-system(1)): a PC with as many CPUs and network cards as it is to have."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

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

IGB_SINCE = (8, 0)
"""The first QEMU with Intel's igb (hw/net/igb.c): a clock of its own (PHC), and queues."""


def board_argv(
    scenario: Scenario, name: str, image: Image, site: Site, folder: str, console: str, incoming: Path | None
) -> Argv:
    """The whole command that runs the board in the foreground until it is ended.

    console: the file that gets what it prints. incoming: the snapshot it goes on from.
    """
    return (
        qemu_program(site.machine),
        *_machine(_board(scenario, name), site.machine),
        *("-name", f"{name},debug-threads=on"),
        *("-nodefaults", "-no-user-config", "-no-reboot", "-display", "none"),
        *("-serial", f"file:{console}"),
        *("-pidfile", f"{folder}/pid"),
        *("-qmp", f"unix:{folder}/{MONITOR},server=on,wait=off"),
        *("-kernel", str(image.kernel), "-initrd", str(_initramfs(scenario, name, image))),
        *("-append", _command_line(_board(scenario, name), name, image)),
        *serial_ports(folder),
        *_cards(scenario, name, site),
        *(("-incoming", f"exec:cat {shlex.quote(str(incoming))}") if incoming else ()),
    )


def board_key(scenario: Scenario, name: str, image: Image, machine: Machine) -> str:
    """What two boards must have in common to go on from one snapshot."""
    board = _board(scenario, name)
    parts = (
        *(image.digest, qemu_version(machine), acceleration_here(machine), board.cpus, board.memory, board.nics),
        *(_card(machine), board.append, name, _initramfs(scenario, name, image).name),
    )
    return "\n".join(map(str, parts))


def _initramfs(scenario: Scenario, name: str, image: Image) -> Path:
    """The one with QEMU and a guest's image in it only where guests are on the board: it takes longer to boot."""
    nested = any(scenario.machine_of(guest) == name for guest in scenario.guests)
    return image.nested_initramfs if nested and image.nested_initramfs else image.initramfs


def _machine(board: BoardHost, machine: Machine) -> Iterator[str]:
    accelerated = acceleration_here(machine)
    yield from ("-machine", MACHINES.get(machine.architecture, "virt"))
    yield from ("-accel", "kvm" if accelerated == "kvm" else "tcg,thread=multi")
    yield from ("-cpu", "host" if accelerated == "kvm" else "max")
    yield from ("-smp", str(board.cpus), "-m", f"{board.memory // MIB}M")


def _command_line(board: BoardHost, name: str, image: Image) -> str:
    return " ".join(filter(None, (image.append, f"latlab.name={name}", board.append)))


def _cards(scenario: Scenario, name: str, site: Site) -> Iterator[str]:
    """Each card on a PCIe port of its own. One that a link names is joined to the card at the link's other end."""
    for number in range(_board(scenario, name).nics):
        netdev = ",".join((f"id=nic{number}", *_cable(scenario, End(name, f"eth{number}"), site)))
        yield from ("-netdev", netdev)
        yield from ("-device", f"pcie-root-port,id=port{number},chassis={number + 1}")
        mac = board_address(list(scenario.hosts).index(name), number)
        yield from ("-device", f"{_card(site.machine)},bus=port{number},netdev=nic{number},mac={mac}")


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


def _card(machine: Machine) -> str:
    return "igb" if (qemu_version(machine) or (0,)) >= IGB_SINCE else "e1000e"


def _board(scenario: Scenario, name: str) -> BoardHost:
    board = scenario.hosts[name]
    assert isinstance(board, BoardHost)
    return board
