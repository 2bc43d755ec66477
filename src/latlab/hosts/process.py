"""A process that was started on a host, wherever that is."""

from __future__ import annotations

import asyncio
import contextlib
import os
from typing import Protocol, runtime_checkable


class Input(Protocol):
    """A process's standard input."""

    def write(self, data: bytes) -> None:
        """Write it to the process's input."""

    def close(self) -> None:
        """Close the process's input."""


class Process(Protocol):
    """What is common to asyncio's processes, which are this machine's, and those of a machine in virtual time."""

    @property
    def stdin(self) -> Input | None:
        """What it reads; None where that is no pipe."""

    @property
    def stdout(self) -> asyncio.StreamReader | None:
        """What it writes; None where that goes elsewhere."""

    @property
    def stderr(self) -> asyncio.StreamReader | None:
        """The same of its errors."""

    @property
    def returncode(self) -> int | None:
        """The exit status; −n for one that signal n ended; None while it runs."""

    async def wait(self) -> int:
        """The exit status, once it has ended."""

    async def communicate(self, input: bytes | None = None) -> tuple[bytes, bytes]:
        """What it wrote to its pipes, once it has ended. input: all it is to read."""


@runtime_checkable
class Elsewhere(Protocol):
    """A process that is none of this machine's."""

    def signal_group(self, number: int) -> None:
        """Send the signal to its process group."""


def signal_group(process: Process, number: int) -> None:
    """Send the signal to the process's group, if it is still there."""
    if isinstance(process, Elsewhere):
        process.signal_group(number)
        return
    assert isinstance(process, asyncio.subprocess.Process)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)
