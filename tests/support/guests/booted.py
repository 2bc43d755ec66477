"""A guest as its relays see it: a directory of sockets, behind which QEMU may run."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from latlab.testbed.agent_binary import find_agent
from latlab.testbed.images import Image

PORTS = 4
PATIENCE_S = 60.0
"""How long a test waits for what must come: only a broken guest takes so long."""
NAME = "tested"


class BootedGuest:
    """A guest of which QEMU is the process."""

    def __init__(self, process: subprocess.Popen[bytes], directory: Path) -> None:
        self.process = process
        self.directory = directory

    def start(self, *words: str, patience: float = PATIENCE_S, **streams: Any) -> subprocess.Popen[bytes]:
        """A relay of the program in the guest; its three streams are pipes unless told otherwise."""
        pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        argv = relay(self.directory, *words, patience=patience)
        process: subprocess.Popen[bytes] = subprocess.Popen(argv, **(pipes | streams))
        return process

    def run(self, *words: str, said: bytes = b"", patience: float = PATIENCE_S) -> subprocess.CompletedProcess[bytes]:
        """How the program ended, and what it said; it has been said `said`."""
        argv = relay(self.directory, *words, patience=patience)
        return subprocess.run(argv, input=said, capture_output=True, timeout=2 * PATIENCE_S, check=False)

    def told(self, *words: str) -> str:
        """What the program printed. AssertionError: it failed."""
        done = self.run(*words)
        assert done.returncode == 0, f"{words}: {done.returncode}: {done.stderr.decode()}{self.console()}"
        return done.stdout.decode()

    def running(self, words: str) -> int:
        """How many processes in the guest have just these words, one space between them."""
        processes = self.told("sh", "-c", "for p in /proc/[0-9]*; do tr '\\0' ' ' <$p/cmdline; echo; done 2>/dev/null")
        return processes.splitlines().count(f"{words} ")

    def wait_for(self, condition: Callable[[], bool]) -> None:
        """Nothing; the condition holds, after a while. AssertionError: it does not."""
        until = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < until, self.console()
            time.sleep(0.05)

    def console(self) -> str:
        """All of the console."""
        return (self.directory / "console").read_text(errors="replace")

    def monitor(self, command: str, **arguments: Any) -> dict[str, Any]:
        """What QEMU answers to the command (QMP)."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(PATIENCE_S)
            connection.connect(str(self.directory / "monitor.sock"))
            stream = connection.makefile("rw")
            stream.readline()
            answer: dict[str, Any] = {}
            for name, given in (("qmp_capabilities", {}), (command, arguments)):
                stream.write(json.dumps({"execute": name, "arguments": given}) + "\n")
                stream.flush()
                while "return" not in (answer := json.loads(stream.readline())):
                    assert "error" not in answer, answer
            found: dict[str, Any] = answer["return"]
            return found


def relay(directory: Path, *words: str, patience: float = PATIENCE_S) -> list[str]:
    """The command that runs the words in the guest whose ports are in the directory."""
    return [str(find_agent()), "in", "--patience", str(patience), str(directory), *words]


@contextlib.contextmanager
def boot(image: Image, directory: Path, *options: str) -> Iterator[BootedGuest]:
    """The guest, which may still be booting. It ends with the context."""
    with qemu(image, directory, *options) as process:
        guest = BootedGuest(process, directory)
        assert guest.run("true").returncode == 0, guest.console()
        yield guest


@contextlib.contextmanager
def qemu(image: Image, directory: Path, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    """QEMU with that guest, its ports in the directory."""
    ports = [
        option
        for n in range(1, PORTS + 1)
        for option in (
            *("-chardev", f"socket,id=port{n},path={directory}/port{n}.sock,server=on,wait=off"),
            *("-device", f"virtserialport,chardev=port{n},nr={n},name=latlab.{n}"),
        )
    ]
    process = subprocess.Popen(
        [
            *("qemu-system-x86_64", "-M", "q35", "-accel", "tcg", "-cpu", "max", "-m", "256M"),
            *("-nodefaults", "-no-user-config", "-no-reboot", "-display", "none"),
            *("-serial", f"file:{directory}/console"),
            *("-qmp", f"unix:{directory}/monitor.sock,server=on,wait=off"),
            *("-kernel", str(image.kernel), "-initrd", str(image.initramfs)),
            *("-append", f"{image.append} latlab.name={NAME}"),
            *("-device", "virtio-serial-pci", *ports, *options),
        ],
        stdin=subprocess.DEVNULL,
        stderr=(directory / "qemu.log").open("wb"),
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
