"""A machine to change in tests: another kernel than this one's, in QEMU, asked over virtio-serial ports.

It boots the image for guests, with a first process of the tests' own.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

from latlab.testbed.images import Image, build_image
from latlab.testbed.images.archive import archive, file

PORTS = 4
PATIENCE_S = 60.0
CONSOLE_LINES = 25
COMMAND_LINE = "console=ttyS0 panic=-1 mitigations=off nokaslr cryptomgr.notests=1 apparmor=0 audit=0"

IP = "/usr/sbin/ip"
TC = "/usr/sbin/tc"
AGENT = "/bin/latlab-agent"


class Conversation:
    """A program in the machine that reads and answers one JSON object a line, as the agent does."""

    def __init__(self, machine: Machine, port: _Port) -> None:
        self._machine = machine
        self._port = port
        self._ended = False

    def say(self, document: dict[str, Any]) -> None:
        """Nothing; the document is on the program's standard input."""
        self._port.write(json.dumps(document) + "\n")

    def hear(self, event: str) -> dict[str, Any]:
        """The next event of that name; any before it are passed over. AssertionError: it failed or ended instead."""
        while (line := self._line()) is not None:
            document: dict[str, Any] = json.loads(line)
            if document["event"] == event:
                return document
            assert document["event"] != "error", document
        raise AssertionError(f"the program ended before {event!r}\n{self._machine.console()}")

    def end(self) -> None:
        """Nothing; the program was asked to stop if it still ran, and has ended. What it still said is passed over."""
        if not self._ended:
            self.say({"stop": True})
        while self._line() is not None:
            pass

    def _line(self) -> str | None:
        """The next line; None once the program has ended."""
        if not self._ended:
            line = self._port.line()
            self._ended = line.startswith("exit ")
        return None if self._ended else line


class Machine:
    """An emulated machine that runs."""

    def __init__(self, process: subprocess.Popen[bytes], ports: list[socket.socket], console: Path) -> None:
        self._process = process
        self._console = console
        self._asked, *self._free = [_Port(self, port) for port in ports]

    def run(self, *argv: str) -> str:
        """What the command printed. AssertionError: it failed."""
        return self._run(argv).decode()

    def get(self, path: str) -> bytes:
        """The file's bytes. AssertionError: it cannot be read."""
        return self._run(("cat", path))

    def _run(self, argv: tuple[str, ...]) -> bytes:
        self._asked.write(f"run {shlex.join(argv)}\n")
        status, out, err = map(int, self._asked.line().split())
        printed, complained = self._asked.read(out), self._asked.read(err)
        assert status == 0, f"{shlex.join(argv)}: status {status}: {complained.decode()}"
        return printed

    @contextlib.contextmanager
    def speak(self, *argv: str) -> Iterator[Conversation]:
        """A conversation with a program started in the machine; it has ended when the context is left."""
        port = self._free.pop()
        port.write(f"speak {shlex.join(argv)}\n")
        conversation = Conversation(self, port)
        try:
            yield conversation
        finally:
            conversation.end()
            self._free.append(port)

    def console(self) -> str:
        """The console's last lines, and whether the machine still runs."""
        lines = self._console.read_text(errors="replace").splitlines()[-CONSOLE_LINES:]
        ended = self._process.poll()
        state = "is running" if ended is None else f"ended with status {ended}"
        return "\n".join([f"The emulated machine {state}. Its console's last lines:", *lines])


class _Port:
    """One virtio-serial port. Every failure is an AssertionError with the console's last lines."""

    def __init__(self, machine: Machine, connection: socket.socket) -> None:
        connection.settimeout(PATIENCE_S)
        self._machine = machine
        self._stream = connection.makefile("rwb")

    def write(self, text: str) -> None:
        with self._explained():
            self._stream.write(text.encode())
            self._stream.flush()

    def line(self) -> str:
        with self._explained():
            line = self._stream.readline()
        assert line.endswith(b"\n"), self._machine.console()
        return line.decode().rstrip("\n")

    def read(self, size: int) -> bytes:
        with self._explained():
            data = self._stream.read(size)
        assert len(data) == size, self._machine.console()
        return data

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise AssertionError(f"{error}\n{self._machine.console()}") from error


@contextlib.contextmanager
def boot(kernel: Path, initramfs: Path, console: Path) -> Iterator[Machine]:
    """The machine, answering. It ends with the context; when this process dies, it powers itself off."""
    pairs = [socket.socketpair() for _ in range(PORTS)]
    ports = [
        option
        for n, (_, theirs) in enumerate(pairs, start=1)
        for option in (
            *("-chardev", f"socket,id=port{n},fd={theirs.fileno()}"),
            *("-device", f"virtserialport,chardev=port{n},nr={n}"),
        )
    ]
    qemu = [
        *("qemu-system-x86_64", "-M", "q35", "-accel", "tcg", "-m", "384M"),
        *("-nodefaults", "-no-user-config", "-no-reboot", "-display", "none", "-serial", f"file:{console}"),
        *("-kernel", str(kernel), "-initrd", str(initramfs), "-append", COMMAND_LINE),
        *("-device", "virtio-serial-pci", *ports),
    ]
    console.touch()
    process = subprocess.Popen(
        qemu,
        pass_fds=[theirs.fileno() for _, theirs in pairs],
        stdin=subprocess.DEVNULL,
        stderr=console.open("ab"),
    )
    try:
        for _, theirs in pairs:
            theirs.close()
        machine = Machine(process, [ours for ours, _ in pairs], console)
        machine.run("true")
        yield machine
    finally:
        process.kill()
        process.wait()
        for ours, _ in pairs:
            ours.close()


MODULES = (
    "virtio_pci",
    "virtio_console",
    "veth",
    "8021q",
    "sch_etf",
    "sch_taprio",
    "sch_fq",
    "sch_netem",
    "sch_ingress",
    "cls_flower",
    "act_gact",
)
"""What the tests need and a plain kernel may not have."""

INIT = Path(__file__).with_name("init.sh")


def built_image(cache: Path, agent: Path) -> Image:
    """The image, built in the folder `cache` unless it is there. LabError: a package cannot be had."""
    with mock.patch.dict(os.environ, LATLAB_CACHE=str(cache)):
        return build_image("debian-cloud", agent=agent)


def write_initramfs(path: Path, image: Image) -> None:
    """Nothing; `path` is the image's initial file system with init.sh as first process, and the list of its modules."""
    modules = "".join(f"{name}\n" for name in MODULES)
    ours = {"init": file(INIT.read_bytes(), executable=True), "modules": file(modules.encode())}
    # The kernel unpacks one archive after the other: the later one counts.
    path.write_bytes(image.initramfs.read_bytes() + archive(ours))
