"""Two emulated ARM boards with a cable between them, reached over ssh: as a user's two boards on the desk.

The lab does not start them and is not told that they are emulated. Their ssh server is Dropbear, as many a board's is,
and they have dpkg.
"""

from __future__ import annotations

import stat
import subprocess
import time
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from latlab.scenario import parse
from latlab.testbed.agent_binary import find_agent
from latlab.testbed.guests.start import planned_site
from latlab.testbed.images import Image
from latlab.testbed.images.archive import DIRECTORY, Entry, archive, file
from latlab.testbed.images.packages import fetch, foreign, unpack
from latlab.testbed.images.store import packages_directory
from latlab.testbed.images.tree import Tree, needed_libraries
from latlab.testbed.machines.board_qemu import board_argv
from support.machine import run

NAMES = ("board1", "board2")
CABLE = "eth1"
BOOT_S = 600
"""Two kernels boot in emulation, next to whatever else the machine does."""
ANSWER_S = 600
IMAGE = "debian-rt-board-arm64"
PROGRAMS = {
    "dropbear-bin": ("dropbear", "dropbearkey"),
    "dpkg": ("dpkg", "dpkg-deb", "dpkg-query", "dpkg-split", "start-stop-daemon"),
    "tar": ("tar",),
    "libc-bin": ("ldconfig",),
}
"""Debian's packages, and of each the programs that the boards have besides their image's. dpkg needs those after it."""

PREPARE = f"""
set -e
mkdir -p /var/tmp /tmp /run
sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1
ip link set lo up
ip addr add "$0/24" dev eth0
ip link set eth0 up
modprobe igb
ip addr add "$1/24" dev {CABLE}
ip link set {CABLE} up
if [ "$2" ]; then echo "$2" | base64 -d >/etc/host-key; else dropbearkey -t ed25519 -f /etc/host-key >/dev/null 2>&1; fi
dropbearkey -y -f /etc/host-key | grep ^ssh-ed25519
base64 -w 0 /etc/host-key
"""
"""What a board's owner has it do at each boot: addresses, and a host key, which is new the first time. Its public half
is printed, then the whole of it."""


@dataclass
class ArmBoard:
    """config: the configuration of ssh that leads to it by its name. console: what its kernel prints. number: is in its
    addresses. ports: the folder of those that lead into it without ssh.
    """

    name: str
    number: int
    config: Path
    console: Path
    ports: Path
    public: str = ""
    _key: str = ""
    _sshd: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    def come_up(self) -> None:
        """It has booted and has its addresses, and its sshd, whose host key is `public`, is started."""
        inside = (str(find_agent()), "in", "--patience", str(BOOT_S), str(self.ports))
        prepare = ("sh", "-c", PREPARE, f"{_address(self.number)}.2", f"10.78.0.{self.number}", self._key)
        done = subprocess.run((*inside, *prepare), capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr + self.console.read_text()
        self.public, self._key = done.stdout.split("\n")
        sshd = (*inside, "dropbear", "-F", "-E", "-s", "-j", "-k", "-r", "/etc/host-key", "-p", "22")
        with self.ports.with_suffix(".sshd").open("ab") as log:
            self._sshd = subprocess.Popen(sshd, stdout=log, stderr=log)

    def answers(self) -> None:
        """It is reached by ssh."""
        until = time.monotonic() + BOOT_S
        argv = ("ssh", "-F", str(self.config), "-o", "BatchMode=yes", self.name, "--", "true")
        while (tried := subprocess.run(argv, capture_output=True, text=True, check=False)).returncode:
            assert time.monotonic() < until, tried.stderr
            time.sleep(0.2)

    def reboot(self) -> None:
        """It restarts at once, as by its watchdog: nothing that ran there ends in order. It is up again."""
        boots = self._boots()
        self.run("(sleep 0.5; echo b >/proc/sysrq-trigger) >/dev/null 2>&1 &")
        until = time.monotonic() + BOOT_S
        while self._boots() == boots:
            assert time.monotonic() < until, self.console.read_text()
            time.sleep(0.05)
        self.end()
        self.come_up()
        self.answers()

    def end(self) -> None:
        """What runs its sshd has ended."""
        if self._sshd:
            self._sshd.terminate()
            self._sshd.wait()

    def _boots(self) -> int:
        return self.console.read_text().count("init: serving")

    def run(self, *command: str, stdin: bytes | None = None) -> str:
        """What the command prints there; the test fails when the command does."""
        argv = ("ssh", "-F", str(self.config), self.name, "--", *command)
        done = subprocess.run(argv, input=stdin, capture_output=True, check=False, timeout=ANSWER_S)
        assert done.returncode == 0, f"{command}: {done.stderr.decode()}{done.stdout.decode()}"
        return done.stdout.decode()

    def left(self) -> str:
        """All that a run could leave there, but for the agent."""
        return self.run("ip -br addr; find /run/netns /var/tmp /run/latlab -mindepth 1 2>/dev/null; :")


def with_sshd(image: Image, folder: Path) -> Path:
    """The initial file system of the board's image, with dpkg, which knows of no package yet, and with Dropbear, which
    lets in who has the key that is then in the folder.
    """
    run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / "key"))
    apt = foreign(packages_directory(), "arm64")
    packages = apt.packages(PROGRAMS)
    unpacked = []
    for path in fetch([*packages, *apt.libraries_of(packages)], packages_directory()):
        unpacked.append(folder / "packages" / path.stem)
        unpacked[-1].mkdir(parents=True)
        unpack(path, unpacked[-1])
    tree = Tree(unpacked)
    programs = {
        path: entry for names in PROGRAMS.values() for name in names for path, entry in tree.program(name).items()
    }
    entries = {
        **programs,
        **needed_libraries(programs, tree),
        "etc/shells": file(b"/bin/sh\n"),
        "root/.ssh/authorized_keys": Entry(stat.S_IFREG | 0o600, (folder / "key.pub").read_bytes()),
        "root/.ssh": Entry(stat.S_IFDIR | 0o700),
        "root": Entry(stat.S_IFDIR | 0o700),
        "etc/dropbear": DIRECTORY,
        "var/lib/dpkg/status": file(b""),
        **dict.fromkeys(("var/lib/dpkg/info", "var/lib/dpkg/updates", "var/lib/dpkg", "var/lib"), DIRECTORY),
    }
    initramfs = folder / "initramfs"
    initramfs.write_bytes(image.initramfs.read_bytes() + archive(entries))
    return initramfs


@contextmanager
def arm_boards(initramfs: Path, folder: Path) -> Iterator[dict[str, ArmBoard]]:
    """The boards, which answer. To be used in a network of the test's own (`private_network`).

    initramfs: as of `with_sshd`, with the same folder.
    """
    cards = {name: {"kind": "board", "arch": "arm64", "nics": 1} for name in NAMES}
    stream = {"talker": NAMES[0], "listener": NAMES[1], "period": "1ms", "size": "64B"}
    parsed = parse(
        {
            "name": "desk",
            "hosts": cards,
            "links": [{"ends": [f"{name}.eth0" for name in NAMES]}],
            "streams": {"any": stream},
            "duration": "1s",
        }
    )
    assert parsed.scenario, parsed.findings
    site = planned_site(parsed.scenario)
    Path(site.ways).mkdir(parents=True, exist_ok=True)
    boards = {
        name: ArmBoard(name, number, folder / "config", folder / f"{name}.console", folder / name)
        for number, name in enumerate(NAMES, start=1)
    }
    with ExitStack() as running:
        for name, board in boards.items():
            run("ip", "tuntap", "add", f"to-{name}", "mode", "tap")
            run("ip", "addr", "add", f"{_address(board.number)}.1/24", "dev", f"to-{name}")
            run("ip", "link", "set", f"to-{name}", "up")
            board.ports.mkdir()
            image = site.images[IMAGE]
            argv = board_argv(parsed.scenario, name, image, site, str(board.ports), str(board.console), None)
            argv = tuple(str(initramfs) if one == str(image.initramfs) else one for one in argv if one != "-no-reboot")
            ssh: tuple[str, ...] = ("-netdev", f"tap,id=ssh,ifname=to-{name},script=no,downscript=no")
            ssh += ("-device", f"virtio-net-pci,netdev=ssh,mac=0e:00:00:00:00:0{board.number},romfile=")
            running.enter_context(_ended(subprocess.Popen((*argv, *ssh))))
        for board in boards.values():
            running.callback(board.end)
            board.come_up()
        _configure_ssh(folder, boards.values())
        for board in boards.values():
            board.answers()
        yield boards


def _address(number: int) -> str:
    return f"192.168.{77 + number}"


def _configure_ssh(folder: Path, boards: Collection[ArmBoard]) -> None:
    known = folder / "known_hosts"
    known.write_text("".join(f"{board.name} {board.public}\n" for board in boards))
    entries = [
        f"Host {board.name}\nHostName {_address(board.number)}.2\nHostKeyAlias {board.name}\nUser root\n"
        for board in boards
    ]
    common = f"Host *\nIdentityFile {folder / 'key'}\nIdentitiesOnly yes\nUserKnownHostsFile {known}\n"
    (folder / "config").write_text("".join(entries) + common)


@contextmanager
def _ended(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Inside, the process runs."""
    with process:
        try:
            yield
        finally:
            process.terminate()
