"""A small system that knows nothing of latlab: Debian's kernel, busybox, iproute2 and an sshd that takes one key;
and a scenario with one guest that runs it.
"""

from __future__ import annotations

import os
import stat
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from latlab.testbed.guests.own import MANAGEMENT_MAC
from latlab.testbed.images import build_image
from latlab.testbed.images.archive import Entry, archive, file
from latlab.testbed.images.packages import Apt, Package, fetch, unpack
from latlab.testbed.images.store import packages_directory
from support.command import Place

NAME = "with-sshd"
APPEND = "console=ttyS0 panic=-1 quiet mitigations=off nokaslr cryptomgr.notests=1 net.ifnames=0"

INIT = f"""#!/bin/sh
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
mount -t proc proc /proc; mount -t sysfs sysfs /sys; mount -t devtmpfs dev /dev
mkdir -p /dev/pts /run /tmp; mount -t devpts devpts /dev/pts; mount -t tmpfs tmpfs /tmp
while read -r module parameters; do insmod $module $parameters; done </etc/latlab/modules
modprobe -a af_packet virtio_rng 2>/dev/null
ip link set lo up
for card in /sys/class/net/*; do
    [ "$(cat $card/address)" = {MANAGEMENT_MAC} ] || continue
    ip link set ${{card##*/}} up; udhcpc -q -n -t 60 -T 1 -i ${{card##*/}} -s /etc/dhcp >/dev/console 2>&1
done
{{ ip addr; echo "ready for ssh"; }} >/dev/console 2>&1
exec dropbear -F -s -j -k -r /etc/host-key -p 22
"""
"""The system's own set-up: modules, an address by DHCP on the card for ssh, no passwords, no forwarding."""

DHCP = '#!/bin/sh\n[ "$1" = bound ] && ip addr add $ip/24 dev $interface\nexit 0\n'


@dataclass(frozen=True)
class System:
    """Its files. config: an ssh configuration that has its key, and its host key under the name vm1."""

    kernel: Path
    initrd: Path
    config: Path


def make_system(folder: Path, agent: Path) -> System:
    """The system's kernel and initial file system, and what one needs to log in."""
    image = build_image(NAME, flavour="cloud", packages=["dropbear-bin"], agent=agent)
    for key in ("key", "host"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / key], check=True)
    converted = _dropbear_key(folder / "host", folder)
    secret = stat.S_IFREG | 0o600
    entries = {
        "init": file(INIT.encode(), executable=True),
        "etc/dhcp": file(DHCP.encode(), executable=True),
        "etc/shells": file(b"/bin/sh\n"),
        "etc/host-key": Entry(secret, converted),
        "root/.ssh/authorized_keys": Entry(secret, (folder / "key.pub").read_bytes()),
        "root/.ssh": Entry(stat.S_IFDIR | 0o700),
        "root": Entry(stat.S_IFDIR | 0o700),
    }
    initrd = folder / "initrd"
    initrd.write_bytes((image.folder / "base").read_bytes() + archive(entries))
    known = folder / "known_hosts"
    known.write_text("vm1 " + (folder / "host.pub").read_text())
    config = folder / "config"
    config.write_text(f"IdentityFile {folder / 'key'}\nIdentitiesOnly yes\nUserKnownHostsFile {known}\n")
    return System(image.kernel, initrd, config)


def make_disk(folder: Path, system: System) -> Path:
    """A disk that starts that system by its own boot loader (syslinux on a FAT file system)."""
    tools = _unpacked(folder / "tools", ("syslinux", "mtools", "dosfstools"))
    disk, settings = folder / "disk.img", folder / "syslinux.cfg"
    settings.write_text(f"SERIAL 0\nDEFAULT own\nLABEL own\n KERNEL kernel\n INITRD initrd\n APPEND {APPEND}\n")
    apt = Apt(folder / "cache")
    # The image's own is unpacked, which a boot loader cannot start.
    (packed,) = _files(tools, [apt.kernel("linux-image-cloud-amd64")], "boot/vmlinuz-*")
    with disk.open("wb") as file:
        file.truncate(256 << 20)
    environment = {**os.environ, "PATH": f"{tools}/usr/bin:{tools}/usr/sbin:{tools}/sbin:{os.environ['PATH']}"}
    for argv in (
        ("mkfs.vfat", "-F", "32", disk),
        ("mcopy", "-i", disk, packed, "::kernel"),
        ("mcopy", "-i", disk, system.initrd, "::initrd"),
        ("mcopy", "-i", disk, settings, "::syslinux.cfg"),
        ("syslinux", "--install", disk),
    ):
        subprocess.run(argv, check=True, env=environment, stdout=subprocess.DEVNULL)
    return disk


def _dropbear_key(key: Path, folder: Path) -> bytes:
    tools = _unpacked(folder / "tools", ("dropbear-bin", "libtomcrypt1", "libtommath1"))
    convert = tools / "usr/lib/dropbear/dropbearconvert"
    libraries = {**os.environ, "LD_LIBRARY_PATH": f"{tools}/usr/lib/x86_64-linux-gnu"}
    made = folder / "host.dropbear"
    subprocess.run([convert, "openssh", "dropbear", key, made], check=True, env=libraries, stderr=subprocess.DEVNULL)
    return made.read_bytes()


def _unpacked(folder: Path, packages: tuple[str, ...]) -> Path:
    """The folder, with the files of the packages."""
    folder.mkdir(exist_ok=True)
    _files(folder, Apt(folder / "cache").packages(packages))
    return folder


def _files(folder: Path, packages: list[Package], pattern: str = "") -> list[Path]:
    """What matches in the folder, with the files of the packages."""
    for path in fetch(packages, packages_directory()):
        unpack(path, folder)
    return list(folder.glob(pattern)) if pattern else []


PACKETS = {"control": 750, "status": 300}
"""What is counted after the warm-up."""


def scenario(place: Place, vm1: dict[str, Any], **parts: Any) -> Path:
    """A file: packets in both directions between a namespace and the guest, for 2 s."""
    streams = {
        "control": {"talker": "sensor", "listener": "vm1", "period": "2ms", "size": "64B"},
        "status": {"talker": "vm1", "listener": "sensor", "period": "5ms", "size": "64B"},
    }
    written = {key: value for key, value in vm1.items() if value is not None}
    whole = {"guests": {"vm1": written}, "streams": streams, "duration": "2s", "warmup": "500ms"}
    return place.scenario(**{**whole, "loads": None, "matrix": None, **parts})


def counted(ended: Any) -> dict[str, tuple[int, int]]:
    """Of each stream how many packets were measured and lost."""
    (cell,) = ended.document["cells"]
    streams = cell["streams"].items()
    return {name: (stream["metrics"]["latency"]["n"], stream["counts"]["lost"]) for name, stream in streams}
