"""Two machines reached over a real sshd, and the lab's machine next to them, with scenarios that use them.

Each has its own network namespace and file systems, and there is a cable between them. They run this machine's
kernel, which the lab is not told: to it they are two machines that answer ssh.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from support.command import Ended, Lab, Place
from support.machine import run

PATIENCE_S = 20.0
NAMES = ("board1", "board2")
CABLE = "eth1"

SSHD = """\
Port 22
ListenAddress {address}
HostKey {folder}/host
AuthorizedKeysFile {folder}/key.pub
StrictModes no
UsePAM no
PasswordAuthentication no
PermitRootLogin prohibit-password
PidFile none
SetEnv HOME={folder}/home
"""
"""A home of its own: what a user's shell reads at its start costs every command as much again."""

START = """\
for hidden in /run /var/tmp /var/lib; do mount -t tmpfs tmpfs "$hidden"; done
mkdir -p /run/sshd /run/netns && exec /usr/sbin/sshd -D -e -f "$0"
"""


@dataclass
class Board:
    """One machine: what leads to it, and its sshd."""

    name: str
    folder: Path
    address: str
    sshd: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    def inside(self, *argv: str) -> str:
        """What the command prints there."""
        return run("ssh", "-F", str(self.folder / "config"), f"root@{self.name}", shlex.join(argv))

    def trace(self) -> list[object]:
        """All that a run could leave there, but for the agent: interfaces, namespaces, folders, marked processes."""
        links = [
            (link["ifname"], link["address"], link["mtu"], [one["local"] for one in link["addr_info"]])
            for link in json.loads(self.inside("ip", "-j", "addr"))
        ]
        left = self.inside("sh", "-c", "find /run/netns /var/tmp /run/latlab -mindepth 1 2>/dev/null; :")
        return [links, left, self.marked()]

    def marked(self) -> list[str]:
        """The command lines of processes there that carry a run's mark. They share the process table with others'."""
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if b"LATLAB_PROCESS=" in (entry / "environ").read_bytes() and self._has(entry):
                    found.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        return found

    def _has(self, process: Path) -> bool:
        assert self.sshd
        return (process / "ns/mnt").readlink() == Path(f"/proc/{self.sshd.pid}/ns/mnt").readlink()

    def start(self) -> None:
        """Its sshd answers."""
        argv = ["ip", "netns", "exec", self.name, "unshare", "-m", "--propagation", "private"]
        argv += ["sh", "-c", START, str(self.folder / f"{self.name}.conf")]
        with (self.folder / f"{self.name}.log").open("ab") as log:
            self.sshd = subprocess.Popen(argv, stdout=log, stderr=log)
        self._wait()

    def lose(self) -> None:
        """It is unreachable, and its connections are cut, as by a switch that loses its power."""
        run("ip", "link", "set", "dev", f"to-{self.name}", "down")

    def find_again(self) -> None:
        """It is reached as before."""
        run("ip", "link", "set", "dev", f"to-{self.name}", "up")

    def cut_connections(self) -> None:
        """Its connections end at once, and new ones are taken."""
        assert self.sshd
        for pid in _children(self.sshd.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def end(self) -> None:
        """Its sshd has ended, with every connection."""
        if self.sshd:
            self.cut_connections()
            self.sshd.kill()
            self.sshd.wait()

    def _wait(self) -> None:
        until = time.monotonic() + PATIENCE_S
        scan = ("ssh-keyscan", "-t", "ed25519", self.address)
        while not subprocess.run(scan, capture_output=True, check=False).stdout:
            log = (self.folder / f"{self.name}.log").read_text()
            assert time.monotonic() < until, f"{self.name} does not answer: {log}"
            time.sleep(0.05)


@contextlib.contextmanager
def own_boards(folder: Path) -> Iterator[dict[str, Board]]:
    """The machines, which answer. To be used in a network of the test's own (`private_network`)."""
    for key in ("host", "key"):
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / key))
    boards = {name: _laid(name, number, folder) for number, name in enumerate(NAMES, start=1)}
    (folder / "home").mkdir()
    public = (folder / "host.pub").read_text()
    (folder / "known_hosts").write_text("".join(f"{board.address} {public}" for board in boards.values()))
    entries = [f"Host {board.name}\nHostName {board.address}\n" for board in boards.values()]
    identity, known = folder / "key", folder / "known_hosts"
    common = f"Host *\nIdentityFile {identity}\nIdentitiesOnly yes\nUserKnownHostsFile {known}\n"
    (folder / "config").write_text("".join(entries) + common)
    left, right = NAMES
    run("ip", "-n", left, "link", "add", CABLE, "type", "veth", "peer", "name", CABLE, "netns", right)
    for number, name in enumerate(NAMES, start=1):
        run("ip", "-n", name, "addr", "add", f"10.78.0.{number}/24", "dev", CABLE)
        run("ip", "-n", name, "link", "set", CABLE, "up")
        # A veth behaves as the card of a real machine then: what comes by XDP is taken, and complete frames are sent.
        run("ip", "netns", "exec", name, "ethtool", "-K", CABLE, "gro", "on", "tx", "off", "txvlan", "off")
    try:
        for board in boards.values():
            board.start()
        yield boards
    finally:
        for board in boards.values():
            board.end()
            run("ip", "netns", "del", board.name)


def _laid(name: str, number: int, folder: Path) -> Board:
    ours, theirs = f"192.168.{77 + number}.1", f"192.168.{77 + number}.2"
    run("ip", "netns", "add", name)
    # Its addresses would appear automatically, some time after.
    quiet = [f"net.ipv6.conf.{which}.disable_ipv6=1" for which in ("all", "default")]
    run("ip", "netns", "exec", name, "sysctl", "-qw", *quiet)
    run("ip", "link", "add", f"to-{name}", "type", "veth", "peer", "name", "eth0", "netns", name)
    run("ip", "addr", "add", f"{ours}/24", "dev", f"to-{name}")
    run("ip", "link", "set", f"to-{name}", "up")
    run("ip", "-n", name, "addr", "add", f"{theirs}/24", "dev", "eth0")
    for interface in ("lo", "eth0"):
        run("ip", "-n", name, "link", "set", interface, "up")
    (folder / f"{name}.conf").write_text(SSHD.format(address=theirs, folder=folder))
    return Board(name, folder, theirs)


def _children(pid: int) -> list[int]:
    """Every process that descends from it, youngest first."""
    try:
        own = [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):  # It has ended.
        return []
    return [found for child in own for found in (*_children(child), child)]


@dataclass(frozen=True)
class Bench:
    """The lab's machine, and the boards by name."""

    place: Place
    boards: dict[str, Board]

    def scenario(self, **parts: Any) -> Path:
        """A file: a stream each way over the cable between the boards; parts of it replaced."""
        config = str(self.place.folder / "boards" / "config")
        stream = {"period": "2ms", "size": "64B"}
        whole: dict[str, Any] = {
            "name": "boards",
            "hosts": {name: {"kind": "ssh", "ssh": {"config": config}} for name in self.boards},
            "links": [{"ends": [f"{name}.{CABLE}" for name in self.boards]}],
            "streams": {
                "there": {"talker": "board1", "listener": "board2", **stream},
                "back": {"talker": "board2", "listener": "board1", **stream},
            },
            "duration": "500ms",
        }
        path = self.place.folder / "boards.yaml"
        path.write_text(yaml.safe_dump(whole | parts))
        return path

    def traces(self) -> dict[str, Any]:
        """What a run could have left on each machine."""
        return {name: board.trace() for name, board in self.boards.items()}

    def latlab(self, *arguments: object, **environment: Any) -> Ended:
        """What came of the command."""
        return self.place.latlab(*arguments, **environment)

    def start(self, *arguments: object) -> Lab:
        """The command, running."""
        return self.place.start(*arguments)
