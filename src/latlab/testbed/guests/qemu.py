"""The QEMU command line of a guest (qemu-system(1)): what an engineer would type, nothing hidden."""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from latlab.scenario import Guest
from latlab.testbed.architecture import ARCHITECTURES, BY_DEBIAN
from latlab.testbed.bridges.base import GuestPort, Plug
from latlab.testbed.images import Image
from latlab.testbed.machine import Machine
from latlab.testbed.site import Site
from latlab.testbed.step import Argv

PORTS = 16
"""Programs that can be run in a guest at the same time. A device can have 31 ports, and of more than about as many
QEMU cannot notify the driver: the queue for that has 32 entries (hw/char/virtio-serial-bus.c)."""
BOARD_DEVICES = 6
"""Of so many ports each on a board: agents, switches and guests of all hosts on it, and what runs in those guests."""

CLOCK_PAGE = "clock"
CLOCK_PAGE_SIZE = "1M"
DOORBELL_IO_PORT = 0x4E0
"""The I/O port of doorbell timestamps, unused by QEMU's devices (`info mtree` of q35)."""
DOORBELL_PORTS = (1021, 1022)
"""UDP ports on the host's loopback, of doorbells. Below 1024: only root may pretend to be either end."""
MONITOR = "qmp.sock"
MIB = 2**20
OLDEST_QEMU = (7, 2)


def acceleration(guest: Guest, machine: Machine) -> str:
    """`kvm` or `tcg`: what the guest runs with here."""
    return acceleration_here(machine) if guest.acceleration == "auto" else guest.acceleration


def acceleration_here(machine: Machine) -> str:
    """`kvm` where it works, else `tcg`."""
    return "tcg" if machine.kvm else "kvm"


def qemu_program(machine: Machine) -> str:
    """The QEMU for guests of this machine's own architecture."""
    known = ARCHITECTURES.get(machine.architecture)
    return known.qemu if known else f"qemu-system-{machine.architecture}"


def qemu_version(machine: Machine) -> tuple[int, ...] | None:
    """The version, such as (7, 2, 22); None when it is unknown."""
    said = machine.say((qemu_program(machine), "--version")) or ""
    found = re.search(r"version (\d+)\.(\d+)(?:\.(\d+))?", said)
    return tuple(int(part) for part in found.groups() if part) if found else None


def qemu_lacking(machine: Machine) -> str | None:
    """What is wrong with the machine's QEMU; None when it serves."""
    program = qemu_program(machine)
    if not machine.has_tool(program):
        return f"{program} is missing"
    version = qemu_version(machine)
    if version is None:
        return f"`{program} --version` does not print its version"
    return f"QEMU {'.'.join(map(str, version))} is too old" if version < OLDEST_QEMU else None


def qemu_argv(
    port: GuestPort, plug: Plug, image: Image, site: Site, console: str, incoming: Path | None = None
) -> Argv:
    """The whole command that runs a guest of ours in the foreground until it is ended.

    console: the file that gets what the guest prints. incoming: the snapshot it resumes from.
    """
    folder = site.guest_state(port.guest)
    argv = (
        qemu_program(site.machine),
        *machine_options(port.wants, plug, site.machine),
        *("-name", f"{port.guest},debug-threads=on"),
        *("-nodefaults", "-no-user-config", "-no-reboot", "-display", "none"),
        *("-serial", f"file:{console}"),
        *("-pidfile", f"{folder}/pid"),
        *("-qmp", f"unix:{folder}/{MONITOR},server=on,wait=off"),
        *("-kernel", str(image.kernel), "-initrd", str(image.initramfs)),
        *("-append", command_line(port, image)),
        *serial_ports(folder),
        *clock_page(folder, site),
        *_network(port, plug),
        *plug.more,
        *(("-incoming", f"exec:cat {shlex.quote(str(incoming))}") if incoming else ()),
    )
    return with_descriptors(plug, argv)


def command_line(port: GuestPort, image: Image) -> str:
    """The guest kernel's command line."""
    known = BY_DEBIAN.get(image.architecture)
    counted = known.counted_used if known and port.counted else ""
    return " ".join(filter(None, (image.append, counted, port.wants.append)))


def with_descriptors(plug: Plug, argv: Argv) -> Argv:
    """The command, begun with the file descriptors that the plug needs."""
    if not plug.fds:
        return argv
    opened = " ".join(f'{number}<>"${{{place}}}"' for place, (number, _) in enumerate(plug.fds, start=1))
    nodes = [node for _, node in plug.fds]
    # A shell opens them and becomes QEMU, by whose name it is called.
    script = f'f() {{ exec {opened}; }}; f "$@"; shift {len(nodes)}; exec "$@"'
    return ("sh", "-c", script, argv[0], *nodes, *argv)


def snapshot_key(port: GuestPort, plug: Plug, image: Image, machine: Machine) -> str:
    """What two guests must have in common to resume from one snapshot."""
    wants = port.wants
    accelerated = acceleration(wants, machine)
    parts = (
        *(
            image.digest,
            qemu_version(machine),
            accelerated,
            wants.vcpus,
            wants.memory,
            wants.queues,
            command_line(port, image),
        ),
        *(plug.form, *CARD, *plug.device, _machine(wants, plug, machine), DOORBELL_IO_PORT),
    )
    return "\n".join(map(str, parts))


def machine_options(guest: Guest, plug: Plug, machine: Machine) -> Iterator[str]:
    """The arguments of machine, acceleration, CPUs and memory."""
    accelerated = acceleration(guest, machine)
    known = ARCHITECTURES.get(machine.architecture)
    yield from ("-machine", _machine(guest, plug, machine))
    yield from ("-accel", "kvm" if accelerated == "kvm" else "tcg,thread=multi")
    yield from ("-cpu", "host" if accelerated == "kvm" else known.cpu if known else "max")
    yield from ("-smp", str(guest.vcpus), "-m", f"{guest.memory // MIB}M")
    yield from plug.memory


def _machine(guest: Guest, plug: Plug, machine: Machine) -> str:
    """The machine that QEMU is, with its options."""
    known = ARCHITECTURES.get(machine.architecture)
    more = known.with_kvm if known and acceleration(guest, machine) == "kvm" else ()
    return ",".join((known.machine if known else "virt", *more, *plug.machine))


def serial_ports(folder: str, devices: int = 1) -> Iterator[str]:
    """The arguments of the ports by which our agent is spoken to: PORTS of them at each device."""
    for device in range(devices):
        yield from ("-device", f"virtio-serial-pci,id=serial{device}")
        for nr in range(1, PORTS + 1):
            n = PORTS * device + nr
            yield from ("-chardev", f"socket,id=port{n},path={folder}/port{n}.sock,server=on,wait=off")
            yield from ("-device", f"virtserialport,bus=serial{device}.0,chardev=port{n},nr={nr},name=latlab.{n}")


def clock_page(folder: str, site: Site) -> Iterator[str]:
    """The arguments of the page of memory by which guest and host compare clocks, and of the doorbell port.

    A byte written to the I/O port is sent as a datagram before the guest's next instruction (hw/char/debugcon.c).
    """
    if not site.shares_pages:
        return
    backend = f"memory-backend-file,id=clock,share=on,mem-path={folder}/{CLOCK_PAGE},size={CLOCK_PAGE_SIZE}"
    yield from ("-object", backend, "-device", "ivshmem-plain,memdev=clock,master=on")
    address, (to, source) = doorbell_address(folder), DOORBELL_PORTS
    yield from ("-chardev", f"udp,id=doorbell,host={address},port={to},localaddr={address},localport={source}")
    yield from ("-device", f"isa-debugcon,iobase={DOORBELL_IO_PORT:#x},chardev=doorbell")


def doorbell_address(folder: str) -> str:
    """The loopback address of the guest with this folder: guests on one host have each their own."""
    first, second, third = hashlib.sha256(folder.encode()).digest()[:3]
    return f"127.{1 + first % 254}.{second}.{1 + third % 254}"


def _network(port: GuestPort, plug: Plug) -> Iterator[str]:
    if plug.driver:
        yield from plug.driver
        return
    kind, _, options = (plug.netdev or "").partition(",")
    yield from ("-netdev", ",".join(filter(None, (kind, "id=net0", options))))
    yield from ("-device", network_card(port, plug, FIRST_MAC))


def network_card(port: GuestPort, plug: Plug, mac: str) -> str:
    """The value of -device for the measured network card."""
    queues = port.wants.queues
    several = (f"mq=on,vectors={2 * queues + 2}",) if queues > 1 else ()
    return ",".join(("virtio-net-pci,netdev=net0", f"mac={mac}", *CARD, *several, *plug.device))


FIRST_MAC = "02:00:00:00:00:01"
"""The card's own; the guest gets the one of this run by `ip link set address`, so that a snapshot serves every run."""

CARD = ("ctrl_vlan=off", "romfile=")
"""No guest starts from the network: QEMU need not have the firmware for it. With ctrl_vlan QEMU keeps from the guest
what is tagged with a VLAN it has no interface for (receive_filter in hw/net/virtio-net.c); vhost-net and real cards let
it in."""
