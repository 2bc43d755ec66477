"""A process that a test bed started: in the journal until it has ended, spoken to by lines of JSON, ended with all of
its process group."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
from collections.abc import Callable
from typing import Any

from latlab.hosts import Host, Process, signal_group


class Supervised:
    """A process on a host of a test bed, leader of its process group.

    record: the number under which it is journalled; None where the journal does not have it. settled: called with that
    once the process has ended.
    """

    def __init__(self, host: Host, process: Process, record: int | None, settled: Callable[[int], None]) -> None:
        self.host = host
        self.record = record
        self.process = process
        self._settled = settled

    @property
    def stdout(self) -> asyncio.StreamReader:
        """What it writes, where that is a pipe."""
        assert self.process.stdout
        return self.process.stdout

    @property
    def stderr(self) -> asyncio.StreamReader:
        """Its errors, where they go into a pipe."""
        assert self.process.stderr
        return self.process.stderr

    @property
    def status(self) -> int | None:
        """The exit status; −n for one that signal n ended; None while it runs."""
        return self.process.returncode

    @property
    def ended(self) -> bool:
        """Whether it runs no more."""
        return self.process.returncode is not None

    async def wait(self) -> int:
        """The exit status, once it has ended."""
        return await self.process.wait()

    async def communicate(self) -> tuple[bytes, bytes]:
        """What it wrote to its pipes, once it has ended."""
        return await self.process.communicate()

    def say(self, message: Any) -> None:
        """Write a line of JSON to its input. One that has ended does not hear it, and reports why by other means."""
        assert self.process.stdin
        with contextlib.suppress(ConnectionError, RuntimeError):
            self.process.stdin.write(json.dumps(message).encode() + b"\n")

    def signal(self, number: int) -> None:
        """Send its process group the signal, unless it has ended: its number may be another process's by then."""
        if not self.ended:
            signal_group(self.process, number)

    async def end(self, within_s: float) -> bool:
        """Whether it still ran; it has been asked to end, and killed where it had not within that many seconds."""
        if self.ended:
            return False
        if self.process.stdin:
            self.process.stdin.close()
        self.signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(within_s):
                await self.process.wait()
        except TimeoutError:
            self.signal(signal.SIGKILL)
            await self.process.wait()
        return True

    async def kill(self) -> None:
        """Kill it, if it has not ended already."""
        self.signal(signal.SIGKILL)
        await self.process.wait()
        self.settle()

    def settle(self) -> None:
        """Note in the journal that it has ended."""
        if self.record is not None:
            self._settled(self.record)
        self.record = None
