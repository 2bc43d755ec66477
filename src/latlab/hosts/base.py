"""What every host can do: run a command to its end, start a process, and say what it is."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shlex
import signal
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from latlab.hosts.tools import install_remedy, missing_tool
from latlab.hosts.turns import LostMachine, Turns
from latlab.model.errors import LabError, UnreachedError

STDERR_LINES = 5


Description = dict[str, object]
"""A host as the journal has it: all that it takes to reach it again (`host_from`)."""


@dataclass(frozen=True)
class Completed:
    """A command that has ended: what was run, its exit status, and both outputs as text."""

    argv: tuple[str, ...]
    returncode: int
    stdout: str
    stderr: str


class Host(ABC):
    """A place where commands run. One small interface; a kind of host is one file."""

    kind: str
    agent: str | None = None
    """The path of latlab-agent there, where it is not the one that runs on this machine."""
    files_are_here = True
    scratch = "/run"
    """Whether its files are this machine's: if not, recordings are made in `scratch` there and have to be fetched."""
    streams = False
    """Whether recordings made there come here as they are written, by pipes, and no file of them is made there."""
    fleeting = False
    """Whether all changes there end with the host, so that nothing has to be undone."""
    patience = 1.0
    """By how much longer than usual it is waited for what is done there."""

    def __init__(self, name: str) -> None:
        self.name = name

    @abstractmethod
    def describe(self) -> Description:
        """The host as plain JSON values, from which `host_from` makes it again in another process."""

    @property
    @abstractmethod
    def shared_kernel(self) -> str:
        """The identity of the running kernel (its boot id): hosts with the same one share their clocks."""

    @property
    def machine(self) -> Host:
        """The host whose process table and file system this one shares; itself, unless it lies on another."""
        return self

    @abstractmethod
    def command(self, argv: Sequence[str]) -> tuple[str, ...]:
        """The whole command: run on the machine the lab runs on, it runs argv there."""

    def lasting(self, argv: Sequence[str], env: Mapping[str, str]) -> tuple[str, ...]:
        """The same for a process that is ended by signals: it gets them, and ends there when this command ends here.

        env: what is added to its environment there, where this machine's is not inherited.
        """
        return self.command(argv)

    def passing(self, argv: Sequence[str], env: Mapping[str, str]) -> tuple[str, ...]:
        """The same for a command that ends on its own. env: as of `lasting`."""
        return self.command(argv)

    @property
    def turns(self) -> Turns | None:
        """How it is spoken to, where it is a machine in virtual time or on one; None elsewhere."""
        return None if self.machine is self else self.machine.turns

    def waiting(self) -> contextlib.AbstractContextManager[None]:
        """Within, something is waited for that happens there: a machine in virtual time runs only then."""
        return self.turns.waiting() if self.turns else contextlib.nullcontext()

    @property
    def ways(self) -> Sequence[Host]:
        """The machines on which a process of this host leaves traces: those it is reached by, then its own."""
        return (self.machine,)

    @property
    def lost(self) -> LostMachine | None:
        """Why it no longer answers, where that is known already."""
        return self.turns.lost if self.turns else None

    async def silence(self) -> LostMachine | None:
        """Why a machine whose QEMU runs no longer answers; None if it answers, or it is not known."""
        return await self.turns.silence() if self.turns else None

    def command_line(self, argv: Sequence[str]) -> str:
        """The whole command as one would paste it into a shell on this machine; or there, in virtual time."""
        return self._line(self.command(argv))

    def _line(self, command: Sequence[str]) -> str:
        line = shlex.join(command)
        return f"{self.turns.name}: {line}" if self.turns else line

    async def spawn(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        stdin: int | None = asyncio.subprocess.PIPE,
        stdout: int | None = asyncio.subprocess.PIPE,
        stderr: int | None = asyncio.subprocess.PIPE,
        lasting: bool = True,
    ) -> Process:
        """The started process, leader of a new session; LabError when the program is missing.

        Its own session keeps a Ctrl-C at the terminal from it: the lab decides when and how it ends. Its pid
        is also its process group. env is added to the environment it inherits. lasting: as of `lasting`, else of
        `passing`.
        """
        if self.turns:
            return self.turns.start(self.command(argv), stdin, stdout, stderr)
        env = env or {}
        command = self.lasting(argv, env) if lasting else self.passing(argv, env)
        try:
            return await asyncio.create_subprocess_exec(
                *command,
                env={**os.environ, **env},
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
                limit=1 << 24,  # a line of an agent's facts is longer than the 64 KiB that asyncio allows
            )
        except FileNotFoundError as error:
            raise missing_tool(str(error.filename), self.name) from None
        except PermissionError as error:
            what = f"{error.filename} is not executable"
            raise LabError(
                what, where=self.name, remedy=f"chmod +x {error.filename}, or a file system without noexec"
            ) from None

    async def run(
        self,
        argv: Sequence[str],
        *,
        input: bytes | None = None,
        output: int = asyncio.subprocess.PIPE,
        timeout_s: float = 30,
        check: bool = True,
        env: Mapping[str, str] | None = None,
    ) -> Completed:
        """The ended command. LabError when it is missing, takes too long, or ends with another status than 0.

        output: a file descriptor that gets what it prints, which is then not in Completed. check=False returns any exit
        status. env is added to its environment. UnreachedError: the host was not reached, whatever check says. Whoever
        cancels this takes the command down with it.
        """
        stdin = asyncio.subprocess.DEVNULL if input is None else asyncio.subprocess.PIPE
        timeout_s *= self.patience
        process = await self.spawn(argv, env=env, stdin=stdin, stdout=output, lasting=False)
        try:
            async with asyncio.timeout(timeout_s):
                stdout, stderr = await process.communicate(input)
        except TimeoutError:
            raise self._endless(argv, timeout_s) from None
        finally:
            if process.returncode is None:
                await _kill_group(process)
        completed = Completed(
            tuple(argv),
            process.returncode or 0,
            (stdout or b"").decode(errors="replace"),
            stderr.decode(errors="replace"),
        )
        if failure := self.unreached(completed):
            raise failure
        if check and completed.returncode != 0:
            raise self._failed(completed)
        return completed

    async def is_gone(self) -> bool:
        """Whether it was removed from its machine, and all that had been changed in it with it."""
        return False

    async def pause(self, seconds: float) -> None:
        """Let so much time pass: for a machine in virtual time, its time, which runs then."""
        if self.turns:
            await self.machine.run(("sleep", f"{seconds:.9f}"))  # busybox reads no exponent
        else:
            await asyncio.sleep(seconds)

    def ask(self, argv: Sequence[str], *, timeout_s: float = 30) -> str | None:
        """What the command writes, once it has ended well; None otherwise. It blocks: for looking at a machine.

        LabError: it has not ended by then; on a machine whose CPUs are all in use that says nothing about the machine.
        A machine in virtual time gives None then, too.
        """
        command = self.command(argv)
        if self.turns:
            return self.turns.ask(command, timeout_s * self.patience)
        try:
            done = subprocess.run(
                command, capture_output=True, encoding="utf-8", errors="replace", timeout=timeout_s, check=False
            )
        except subprocess.TimeoutExpired:
            raise self._endless(argv, timeout_s, "try it again once its CPUs are less busy") from None
        except OSError:
            return None
        return done.stdout if done.returncode == 0 else None

    def unreached(self, completed: Completed) -> UnreachedError | None:
        """Why the command was not run, where that is because the host was not reached; None where it was."""
        return None

    def by_hand(self, argv: Sequence[str]) -> tuple[str, ...]:
        """The whole command as one would type it: without options that only latlab needs."""
        return self.command(argv)

    def short_line(self, argv: Sequence[str]) -> str:
        """The command in an error's line, as one would type it: of a script its first line."""
        first, more, _ = self._line(self.by_hand(argv)).partition("\n")
        return first + " …" if more else first

    def _endless(self, argv: Sequence[str], timeout_s: float, remedy: str = "") -> LabError:
        what = f"`{self.short_line(argv)}` did not end within {timeout_s:g} s"
        return LabError(what, where=self.name, remedy=remedy)

    def _failed(self, completed: Completed) -> LabError:
        lines = [line for line in completed.stderr.strip().splitlines() if line.strip()]
        said = "; ".join(lines[-STDERR_LINES:]) or "nothing on stderr"
        # `ip netns exec` reports a program it cannot find by its own exit status 255, a shell over ssh by 127.
        program = completed.argv[0]
        missing = completed.returncode == 255 and f'exec of "{program}" failed' in completed.stderr
        unknown = re.search(rf"\b{re.escape(program)}: (command )?not found", completed.stderr)
        missing |= completed.returncode == 127 and unknown is not None
        return LabError(
            f"`{self.short_line(completed.argv)}` ended with status {completed.returncode}: {said}",
            where=self.name,
            remedy=install_remedy(program) if missing else "",
        )


async def _kill_group(process: Process) -> None:
    signal_group(process, signal.SIGKILL)
    await process.wait()


# A process that was started on a host, wherever that is.


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
