"""Booting an image in emulation, and running commands in it."""

from __future__ import annotations

import contextlib
import platform
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from latlab.testbed.agent_binary import find_agent
from latlab.testbed.images import Image

PATIENCE_S = "60"
WITHIN_S = 600
"""A command that hangs fails its test, and not the whole suite."""

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@contextlib.contextmanager
def booted(
    image: Image, folder: Path, *more: str, memory: str = "256M", initramfs: Path | None = None
) -> Iterator[Run]:
    """Runs a command in a machine that has booted the image, for as long as the context lasts.

    folder: for sockets and console; more: of QEMU's command line; initramfs: another one than that of guests.
    """
    if platform.machine() != "x86_64":
        pytest.skip(f"the command line here is for x86_64, and this machine is {platform.machine()}")
    qemu = [
        *("qemu-system-x86_64", "-machine", "q35", "-accel", "tcg", "-m", memory),
        *("-nodefaults", "-no-user-config", "-no-reboot", "-display", "none", "-serial", f"file:{folder}/console"),
        *("-kernel", str(image.kernel), "-initrd", str(initramfs or image.initramfs), "-append", image.append),
        *("-device", "virtio-serial-pci", "-chardev", f"socket,id=port1,path={folder}/port1.sock,server=on,wait=off"),
        *("-device", "virtserialport,chardev=port1,nr=1,name=latlab.1"),
        *more,
    ]

    def run(*argv: str) -> subprocess.CompletedProcess[str]:
        command = (str(find_agent()), "in", "--patience", PATIENCE_S, str(folder), *argv)
        try:
            return subprocess.run(
                command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, timeout=WITHIN_S
            )
        except subprocess.TimeoutExpired:
            pytest.fail(f"`{' '.join(argv)}` did not end within {WITHIN_S} s; the console: {_console(folder)}")

    process = subprocess.Popen(qemu, stdin=subprocess.DEVNULL)
    try:
        answer = run("uname", "-r")
        assert answer.stdout.strip() == image.kernel_version, (answer.stderr, _console(folder))
        yield run
    finally:
        process.kill()
        process.wait()


def _console(folder: Path) -> str:
    console = folder / "console"
    return console.read_text(errors="replace")[-2000:] if console.exists() else ""
