"""A machine to change in tests: this one, with its own interfaces and namespaces that no other process sees."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from latlab.scenario import Scenario, parse

CLONE_FS = 0x00000200
CLONE_NEWNS = 0x00020000
CLONE_NEWNET = 0x40000000

PATIENCE_S = 60
"""How long a test waits for what is to come about: the kernel's link watch (net/core/link_watch.c) looks once a second,
and later on a busy machine.
"""

LIBC = ctypes.CDLL(None, use_errno=True)


def run(*argv: str) -> str:
    """What the command printed; the test fails when the command does."""
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout


def until(condition: Callable[[], object]) -> None:
    """Nothing; the condition holds. The test fails if it does not come to that."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def until_it_is(interface: str, state: str = "UP", *, namespace: str | None = None) -> None:
    """Nothing; the kernel's link watch has seen that the interface is in this operational state.

    Packets sent before it has seen an interface to be up are dropped, and nobody is told. It is an ordinary thread, and
    waits where a CPU is held at SCHED_FIFO.
    """
    shown = ("ip", *(("-n", namespace) if namespace else ()), "-j", "link", "show", "dev", interface)
    until(lambda: json.loads(run(*shown))[0]["operstate"] == state)


@contextlib.contextmanager
def private_network() -> Iterator[None]:
    """Inside, this thread and its children have their own interfaces, /sys and named namespaces."""
    directory = os.getcwd()
    saved = [
        (os.open(f"/proc/thread-self/ns/{kind}", os.O_RDONLY), flag)
        for kind, flag in (("net", CLONE_NEWNET), ("mnt", CLONE_NEWNS))
    ]
    _call(LIBC.unshare, CLONE_NEWNS | CLONE_NEWNET)
    try:
        os.makedirs("/run/netns", exist_ok=True)
        run("mount", "--make-rprivate", "/")
        run("mount", "-t", "tmpfs", "tmpfs", "/run/netns")
        run("mount", "-t", "sysfs", "sysfs", "/sys")
        yield
    finally:
        # Threads begun inside share this one's root and directory; while they do, the kernel lets nobody out.
        _call(LIBC.unshare, CLONE_FS)
        for descriptor, flag in saved:
            _call(LIBC.setns, descriptor, flag)
            os.close(descriptor)
        os.chdir(directory)


def writers(folder: Path, name: str) -> set[int]:
    """The processes that have a file of this name open below the folder."""
    found = set()
    for link in Path("/proc").glob("[0-9]*/fd/*"):
        # A process that ends has no links any more.
        with contextlib.suppress(OSError):
            file = link.readlink()
            if file.name == name and file.is_relative_to(folder):
                found.add(int(link.parts[2]))
    return found


def alive(pid: int) -> bool:
    """Whether the process is there, and not only until its parent has taken note of its end."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def dump() -> dict[str, Any]:
    """All interfaces with their addresses and neighbours, here and in every named namespace.

    Interface numbers are left out: the kernel never gives one twice.
    """
    names = [entry["name"] for entry in json.loads(run("ip", "-j", "netns") or "[]")]
    places = {"": ("ip", "-j"), **{name: ("ip", "-n", name, "-j") for name in names}}
    return {place: [_listed(ip, what) for what in ("addr", "neigh")] for place, ip in places.items()}


def settled(before: dict[str, Any]) -> dict[str, Any]:
    """The same as soon as it is as it was before: the kernel finds out by and by which interfaces have a carrier."""
    deadline = time.monotonic() + PATIENCE_S
    while (now := dump()) != before and time.monotonic() < deadline:
        time.sleep(0.05)
    return now


def scenario(hosts: dict[str, str], links: list[dict[str, Any]] | None = None, **parts: Any) -> Scenario:
    """A small scenario: hosts by name and kind, one stream between the first two unless given."""
    first, second = list(hosts)[:2]
    stream = {"talker": first, "listener": second, "period": "1ms", "size": "64B"}
    raw = {
        "name": "small",
        "hosts": {name: {"kind": kind} for name, kind in hosts.items()},
        "links": [{"ends": [f"{first}.eth0", f"{second}.lat0"]}] if links is None else links,
        "streams": {"control": stream},
        "duration": "1s",
        **parts,
    }
    parsed = parse(raw)
    assert parsed.scenario, parsed.findings
    return parsed.scenario


def _listed(ip: tuple[str, ...], what: str) -> list[dict[str, Any]]:
    entries = json.loads(run(*ip, what) or "[]")
    return [{key: value for key, value in entry.items() if key != "ifindex"} for entry in entries]


def _call(function: Any, *arguments: int) -> None:
    if function(*arguments):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


@pytest.fixture(autouse=True)
def journals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The journal directory of this test."""
    directory = tmp_path / "journal"
    monkeypatch.setenv("LATLAB_STATE", str(directory))
    return directory


@pytest.fixture
def machine() -> Iterator[None]:
    """A private network: what the test leaves behind goes with it."""
    with private_network():
        yield
