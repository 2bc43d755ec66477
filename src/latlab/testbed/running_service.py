"""A service while it runs: started, waited for until it is ready, watched, and ended."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from latlab.hosts import Host, Lost, Process, signal_group
from latlab.model.errors import LabError
from latlab.testbed.images import mark_used
from latlab.testbed.read_back import read_back
from latlab.testbed.service import Service
from latlab.testbed.step import Check

if TYPE_CHECKING:
    from latlab.hosts.turns import Turns
    from latlab.testbed.apply import TestBed

TERM_S = 2.0
CANCEL_S = 0.5
ENDED_BY_OTHERS = (-signal.SIGTERM, -signal.SIGINT, -signal.SIGKILL)
LAST_LINES = 12
LAST_BYTES = 1 << 16
PANIC = "Kernel panic - not syncing: "


class RunningService:
    """One service on its host; whatever it writes goes to its log."""

    def __init__(self, host: Host, asked: Host, service: Service, process: Process) -> None:
        self._host = host
        self._asked = asked
        self._service = service
        self._process = process
        self._given_up: tuple[Lost, str] | None = None
        """Why it was ended although it ran, and its last words until then."""

    @classmethod
    async def start(cls, bed: TestBed, host: Host, service: Service) -> tuple[RunningService, int | None]:
        """The service, begun, and the number under which it is journalled."""
        log = Path(service.log)
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output:
            process, n = await bed.spawn(
                host, service.title, service.argv, stdout=output.fileno(), stderr=output.fileno()
            )
        if service.incoming:
            mark_used(service.incoming)
        asked = bed.hosts[service.ready.at] if service.ready and service.ready.at else host
        running = cls(host, asked, service, process)
        if service.spec is not None:
            assert process.stdin
            with contextlib.suppress(ConnectionError):
                process.stdin.write(json.dumps(service.spec).encode() + b"\n")
        return running, n

    async def until_ready(self) -> str | None:
        """What its check read at last; None without a check, or when it ended before that."""
        if self._service.ready is None:
            return None
        if self._host.turns and not self._asked.turns:
            return await self._after_each(self._host.turns, self._service.ready)
        reading = asyncio.ensure_future(read_back(self._asked, self._service.ready))
        ended = asyncio.ensure_future(self._process.wait())
        try:
            await asyncio.wait((reading, ended), return_when=asyncio.FIRST_COMPLETED)
            return reading.result() if reading.done() else None
        finally:
            # One may get lost: asyncio.wait_for of Python 3.11 drops it when what it waits for ends at that moment.
            while left := {future for future in (reading, ended) if not future.done()}:
                for future in left:
                    future.cancel()
                await asyncio.wait(left, timeout=CANCEL_S)
            await asyncio.gather(reading, ended, return_exceptions=True)

    async def _after_each(self, turns: Turns, check: Check) -> str | None:
        """What its check reads here at last, which looks after each turn of the machine in virtual time it is on.

        The machine halts meanwhile: by which turn it is ready does not depend on when this machine looked.
        """
        actual = None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._host.patience * check.within_ms / 1000):
                while (actual := await read_back(self._asked, replace(check, within_ms=0))) != check.expected:
                    if self.ended():
                        return None
                    await turns.take_one()
        return actual

    @property
    def passing(self) -> bool:
        """Whether a later step ends it."""
        return self._service.passing

    @property
    def carries(self) -> str | None:
        """The host that ends with it."""
        return self._service.carries

    @property
    def refused(self) -> Path | None:
        """The snapshot from which it did not get ready, unless it was ended; None where it resumes from none."""
        return None if self._process.returncode in ENDED_BY_OTHERS else self._service.incoming

    def passed(self) -> bool:
        """Whether a later step has ended it, as it was to, and nothing of it is left."""
        return self.passing and self._process.returncode == 0

    def ended(self) -> bool:
        """Whether it runs no more."""
        return self._process.returncode is not None

    async def give_up(self, lost: Lost) -> None:
        """End it, as whom it carries is silent forever."""
        self._given_up = lost, self._last_words()
        await self.end()

    def failure(self) -> LabError:
        """Why it ended, by its last words."""
        status = self._process.returncode
        how = f"was ended by signal {-status}" if status is not None and status < 0 else f"ended with status {status}"
        said = self._last_words()
        if self._given_up:
            lost, said = self._given_up
            if lost.remedy:
                return LabError(lost.why, where=str(self.carries), remedy=lost.remedy)
            how = f"runs, but {self.carries} is lost: {lost.why}"
        panic = panic_of(Path(self._service.console)) if self._service.console else None
        cause = f": its kernel panicked: {panic}" if panic else ""
        return LabError(
            f"{self._service.title}: `{self._service.program}` {how}{cause}{said}",
            where=self._host.name,
            remedy=self._remedy(),
        )

    def not_ready(self, actual: str | None) -> LabError:
        """Why it never got ready."""
        check = self._service.ready
        if self.ended() or check is None:
            return self.failure()
        read = self._asked.command_line(check.argv)
        within = f"within {check.within_ms / 1000:g} s"
        return LabError(
            f"{self._service.title}: `{read}` expected {check.expected!r} {within}, actual {actual!r}"
            + self._last_words(),
            where=self._host.name,
            remedy=self._remedy(),
        )

    async def end(self) -> bool:
        """Whether it still ran; it has been stopped, and all of its process group has ended."""
        if self.ended():
            return False
        if self._process.stdin:
            self._process.stdin.close()
        self._signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(TERM_S):
                await self._process.wait()
        except TimeoutError:
            self._signal(signal.SIGKILL)
            await self._process.wait()
        return True

    def _signal(self, number: signal.Signals) -> None:
        signal_group(self._process, number)

    def _remedy(self) -> str:
        said = " and ".join(filter(None, (self._service.console, self._service.log)))
        return f"its whole output is in {said}"

    def _last_words(self) -> str:
        """The last lines of its console and of its log; empty when there are none."""
        said = ""
        for name, path in (("console", self._service.console), ("log", self._service.log)):
            if path and (lines := last_lines(Path(path))):
                said += f"\n  the last lines of its {name}, {path}:\n" + "\n".join(f"    {line}" for line in lines)
        return said


def panic_of(console: Path) -> str | None:
    """What a guest's kernel said as it panicked (kernel: kernel/panic.c); None when it did not."""
    found = [line.partition(PANIC)[2] for line in _lines(console) if _tells_of_panic(line)]
    return found[-1] if found else None


def last_lines(path: Path, count: int = LAST_LINES) -> list[str]:
    """The last lines that say something, of a file that may not be there; control characters are left out.

    A kernel that panics says why and then where it was, which is long: what it said until then is reported.
    """
    lines = _lines(path)
    panics = [at for at, line in enumerate(lines) if _tells_of_panic(line)]
    return lines[: panics[-1] + 1 if panics else None][-count:]


def _tells_of_panic(line: str) -> bool:
    """A kernel that does not start again says it again at the end."""
    return PANIC in line and "end Kernel panic" not in line


def _lines(path: Path) -> list[str]:
    try:
        with path.open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - LAST_BYTES))
            text = file.read().decode(errors="replace")
    except OSError:
        return []
    lines = ("".join(c for c in line if c.isprintable()).rstrip() for line in text.splitlines())
    return [line for line in lines if line]
