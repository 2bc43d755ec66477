"""A libvirtd of a test's own, in the test's own namespaces, with one domain that runs the small system."""

from __future__ import annotations

import contextlib
import os
import pwd
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from latlab.testbed.guests.own import MANAGEMENT, MANAGEMENT_MAC
from support.guests.foreign import APPEND, System
from support.machine import run

DOMAIN = "plant"
PORT = 2222
INTERFACE = "eth1"
"""The card for ssh is there first."""
PATIENCE_S = 90.0
KEYSCAN = ("ssh-keyscan", "-T", "30", "-t", "ed25519", "-p", str(PORT), "127.0.0.1")
"""One key at a time, and time enough: an emulated sshd on a busy machine needs seconds for each."""
USER = "libvirt-qemu"

QEMU_CONF = """\
user = "root"
group = "root"
security_driver = "none"
cgroup_controllers = []
namespaces = []
stdio_handler = "file"
remember_owner = 0
dynamic_ownership = 0
"""

DAEMON_CONF = """\
unix_sock_dir = "{folder}/run"
auth_unix_rw = "none"
auth_unix_ro = "none"
"""

DOMAIN_XML = """\
<domain type='qemu' xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'>
  <name>{name}</name><memory unit='MiB'>256</memory><vcpu>1</vcpu>
  <os><type arch='x86_64' machine='pc'>hvm</type><kernel>{kernel}</kernel><initrd>{initrd}</initrd>
  <cmdline>{append}</cmdline></os>
  <features><acpi/></features><cpu mode='maximum'/>
  <devices>
    <emulator>/usr/bin/qemu-system-x86_64</emulator>
    <serial type='file'><source path='{folder}/console'/></serial><memballoon model='none'/>
  </devices>
  <qemu:commandline>
    <qemu:arg value='-netdev'/><qemu:arg value='user,id=ssh,restrict=on,ipv6=off,{network}'/>
    <qemu:arg value='-device'/><qemu:arg value='virtio-net-pci,netdev=ssh,mac={mac},addr=0x10'/>
  </qemu:commandline>
</domain>
"""


@dataclass(frozen=True)
class Libvirt:
    """The running domain. config: an ssh configuration that leads into it."""

    config: Path

    def inside(self, *argv: str) -> str:
        """What the command prints in the domain."""
        reach = ("ssh", "-F", str(self.config), "-o", "BatchMode=yes", "-p", str(PORT), "root@127.0.0.1")
        return run(*reach, *argv)


@contextlib.contextmanager
def own_libvirt(folder: Path, system: System) -> Iterator[Libvirt]:
    """The libvirtd with its domain, which answers. To be used in mount and network namespaces of one's own."""
    for hidden in ("/run", "/var/lib", "/var/log", "/etc/libvirt"):
        run("mount", "-t", "tmpfs", "tmpfs", hidden)
    os.makedirs("/run/netns")
    run("ip", "link", "set", "lo", "up")
    _known_user(folder)
    Path("/etc/libvirt/qemu.conf").write_text(QEMU_CONF)
    (folder / "run").mkdir()
    (folder / "libvirtd.conf").write_text(DAEMON_CONF.format(folder=folder))
    uri = f"qemu:///system?socket={folder}/run/libvirt-sock"
    with (folder / "libvirtd.log").open("wb") as log, mock.patch.dict(os.environ, LIBVIRT_DEFAULT_URI=uri):
        daemon = subprocess.Popen(["libvirtd", "-f", folder / "libvirtd.conf"], stdout=log, stderr=log)
        try:
            _wait_for(("virsh", "uri"), folder / "libvirtd.log")
            definition = folder / "domain.xml"
            definition.write_text(_domain_xml(folder, system))
            run("virsh", "create", str(definition))
            try:
                config = folder / "config"
                config.write_text(f"HostKeyAlias vm1\n{system.config.read_text()}")
                _wait_for(KEYSCAN, folder / "console")
                yield Libvirt(config)
            finally:
                run("virsh", "destroy", DOMAIN)
        finally:
            daemon.terminate()
            daemon.wait()


def _domain_xml(folder: Path, system: System) -> str:
    network = f"net={MANAGEMENT.network},dhcpstart={MANAGEMENT.ip},hostfwd=tcp:127.0.0.1:{PORT}-{MANAGEMENT.ip}:22"
    return DOMAIN_XML.format(
        name=DOMAIN,
        kernel=system.kernel,
        initrd=system.initrd,
        append=APPEND,
        folder=folder,
        network=network,
        mac=MANAGEMENT_MAC,
    )


def _known_user(folder: Path) -> None:
    """Debian's libvirtd asks for this user before it reads which one to take."""
    try:
        pwd.getpwnam(USER)
    except KeyError:
        for name, line in (("passwd", f"{USER}:x:64055:64055::/:/usr/sbin/nologin\n"), ("group", f"{USER}:x:64055:\n")):
            copy = folder / name
            copy.write_text(Path(f"/etc/{name}").read_text() + line)
            run("mount", "--bind", str(copy), f"/etc/{name}")


def _wait_for(argv: tuple[str, ...], log: Path) -> None:
    until = time.monotonic() + PATIENCE_S
    while (tried := subprocess.run(argv, capture_output=True, check=False, text=True)).returncode != 0:
        assert time.monotonic() < until, f"{argv}: {tried.stderr}{log.read_text(errors='replace')}"
        time.sleep(0.2)
