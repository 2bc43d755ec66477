"""The user's own kernel or disk as a guest: started by QEMU, and reached over ssh through a network card beside."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from ipaddress import IPv4Interface

from latlab.hosts import MACHINE, RemoteHost
from latlab.model.errors import LabError
from latlab.scenario import Guest, Scenario
from latlab.scenario.guests import facts_of
from latlab.testbed.architecture import ARCHITECTURES
from latlab.testbed.bridges.base import GuestPort, Joint, Plug
from latlab.testbed.guests.over_ssh import HERE, connect_steps, interface_step, lacking
from latlab.testbed.guests.qemu import (
    MONITOR,
    clock_page,
    machine_options,
    network_card,
    qemu_program,
    with_descriptors,
)
from latlab.testbed.site import Site
from latlab.testbed.step import Argv, Check, Service, Step

BOOT_S = 180

MANAGEMENT = IPv4Interface("10.0.250.15/24")
"""What the guest gets by DHCP on its second network card, on a network that leads nowhere else."""
MANAGEMENT_MAC = "02:00:00:00:00:02"
"""The same in every guest and run, so that the guest's own configuration can name it."""

BANNER = """
import socket, sys, time
try:
    with socket.create_connection((sys.argv[1], int(sys.argv[2])), 5) as connection:
        print(connection.recv(64).decode(errors="replace"))
except OSError:
    time.sleep(0.5)
"""
"""What an sshd says before any key (RFC 4253, 4.2): one that refuses logins is reported at once, not waited for.
One connection at a time: an sshd counts those that do not log in, and refuses more than a few."""
SET_CLOCK = 'exec "$@" date -u -s "@$(date +%s)"'


def start_own(port: GuestPort, plug: Plug, joint: Joint, site: Site, ssh: RemoteHost) -> Iterator[Step | Service]:
    """The guest runs, lets us in, has the agent, and its clock shows the time of this machine to the second."""
    console = f"{site.logs}/{port.guest}.console"
    yield Service(
        host=joint.host,
        title=f"start {port.guest}",
        argv=own_argv(port, plug, site, console, ssh.port),
        log=site.log(port.guest),
        console=console,
        carries=port.guest,
        ready=Check((sys.executable, "-c", BANNER, HERE, str(ssh.port)), "sshd answers", _answers, BOOT_S * 1000),
    )
    yield from connect_steps(ssh, port.wants, site)
    if not facts_of(port.wants).gives_device:
        yield interface_step(port)
    yield Step(MACHINE, f"set {port.guest}'s clock, to the second", ("sh", "-c", SET_CLOCK, "sh", *ssh.prefix()))


def own_argv(port: GuestPort, plug: Plug, site: Site, console: str, forwarded: int) -> Argv:
    """The whole command that runs the guest in the foreground until it is ended.

    The measured network card is the first, the one for ssh the second. console: the file that gets what the guest
    prints. forwarded: the port of the host's loopback that leads to the guest's sshd.
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
        *_measured_card(port, plug),
        *_management_card(port.wants, forwarded),
        *_origin(port.wants, site),
        *("-device", "virtio-rng-pci"),
        *clock_page(folder, site),
        *plug.more,
    )
    return with_descriptors(plug, argv)


def disk_format(path: str, site: Site) -> str:
    """The format of a disk image: as `qemu-img info` says, else by the name's ending, raw for any it does not know."""
    said = site.machine.say(("qemu-img", "info", "--output=json", path))
    if said:
        return str(json.loads(said)["format"])
    ending = path.rpartition(".")[2]
    return ending if ending in ("qcow2", "vmdk", "vdi", "vhdx") else "raw"


def own_lacking(scenario: Scenario, site: Site) -> Iterator[LabError]:
    """What keeps the guests with a kernel or disk of the user's from running here."""
    for name, guest in scenario.guests.items():
        if guest.is_ours or guest.domain:
            continue
        for key in ("kernel", "initrd", "disk"):
            path = getattr(guest, key)
            if path is not None and not site.machine.exists(path):
                yield LabError(f"there is no file {path}", where=f"guests.{name}.{key}", remedy="correct the path")
        known = ARCHITECTURES.get(site.machine.architecture)
        if guest.disk and not (known and known.starts_disks):
            what = f"a disk image boots with a BIOS, which QEMU for {site.machine.architecture} does not have"
            yield LabError(what, where=f"guests.{name}.disk", remedy="kernel and initrd instead")
        yield from lacking(scenario, site, name)


def _measured_card(port: GuestPort, plug: Plug) -> Iterator[str]:
    if plug.driver:
        yield from plug.driver
        return
    kind, _, options = (plug.netdev or "").partition(",")
    yield from ("-netdev", ",".join(filter(None, (kind, "id=net0", options))))
    yield from ("-device", network_card(port, plug, port.mac))


def _management_card(guest: Guest, forwarded: int) -> Iterator[str]:
    assert guest.ssh
    network = f"net={MANAGEMENT.network},dhcpstart={MANAGEMENT.ip}"
    forward = f"hostfwd=tcp:{HERE}:{forwarded}-{MANAGEMENT.ip}:{guest.ssh.port}"
    yield from ("-netdev", f"user,id=ssh,restrict=on,ipv6=off,{network},{forward}")
    yield from ("-device", f"virtio-net-pci,netdev=ssh,mac={MANAGEMENT_MAC}")


def _origin(guest: Guest, site: Site) -> Iterator[str]:
    if guest.disk:
        # A comma in a value is written twice (qemu(1)).
        path = guest.disk.replace(",", ",,")
        yield from ("-drive", f"file={path},format={disk_format(guest.disk, site)},if=virtio,snapshot=on")
        return
    yield from ("-kernel", guest.kernel or "")
    yield from ("-initrd", guest.initrd) if guest.initrd else ()
    yield from ("-append", guest.append) if guest.append else ()


def _answers(output: str) -> str:
    return "sshd answers" if output.startswith("SSH-") else "no sshd answers"
