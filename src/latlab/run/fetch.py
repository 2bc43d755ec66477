"""Recordings of hosts whose files are not this machine's: brought here while they grow, and whole at the end."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from latlab.hosts import Host
from latlab.model.errors import LabError
from latlab.recordings.run_folder import CellFolder
from latlab.testbed.apply import TestBed
from latlab.testbed.supervised import Supervised

TABLES = {
    "talk": ("sent", "stamps", "clocks"),
    "listen": ("received", "clocks"),
    "ping": ("sent", "stamps", "received", "clocks"),
    "pong": ("sent", "stamps", "received", "clocks"),
    "timer": ("timer", "clocks"),
    "trace": ("trace", "tasks", "clocks"),
    "waking": ("trace", "tasks", "clocks"),
    "entry": ("trace", "tasks", "clocks"),
    "clock": ("exchanges",),
    "ptp": ("ptp",),
    "drops": ("drops",),
    "watch": ("watched",),
}
"""What each verb records (docs/reference/run-folder.md, Recordings)."""
EACH = 'for file; do wc -c <"$file" && cat "$file" || exit; done'
"""Prints files one after the other, the length of each before it."""
RELEASE = 'for pipe; do : <>"$pipe"; done'
"""Opens pipes as their writer would, and closes them: who waits for a writer that never came reads their end."""
FETCH_S = 120.0
STOP_S = 2.0
CUT_REMEDY = "what came before is kept; with `recordings: stored` it is on the host, too"


@dataclass
class _Following:
    host: Host
    there: str
    here: Path
    process: Supervised | None
    streamed: bool = False


class Recordings:
    """A cell's recordings, on whichever host they are made.

    A host's own files die with it, as a guest's that is killed: what it has recorded is copied here as it is written, a
    second behind, so that a run that is cut short can be read. At the end every file is fetched whole. In virtual time
    that is all: a cell can be measured again to the nanosecond, and a copy would take the board's time as it measures.

    A host that streams has pipes in their place: what it records comes here as it is written, and is nowhere else.
    """

    def __init__(self, bed: TestBed, folder: CellFolder) -> None:
        self._bed = bed
        self._folder = folder
        self._following: list[_Following] = []
        self.silent: set[str] = set()
        """Hosts that did not answer when their recordings were fetched."""

    def prefix(self, host: Host, here: Path) -> str:
        """What an agent on the host gets as its recording, for one that is to end up `here`."""
        return str(here) if host.files_are_here else f"{host.scratch}/{here.name}"

    async def receive(self, host: Host, verb: str, here: Path, more: Sequence[str] = ()) -> None:
        """Have pipes for what the host's agent is going to record, if the host streams, and read them; as `follow`, but
        to be called before the agent starts. LabError: there are none to be had.
        """
        if host.files_are_here or not host.streams:
            return
        pipes = {
            f"{self.prefix(host, here)}.{table}.arrow": here.with_name(f"{here.name}.{table}.arrow")
            for table in (*TABLES[verb], *more)
        }
        await host.run(("mkfifo", "-m", "600", *pipes))
        for there, local in pipes.items():
            with local.open("wb") as file:
                process = await self._bed.spawn(
                    host, f"receive {there}", ("cat", there), stdout=file.fileno(), stderr=asyncio.subprocess.DEVNULL
                )
            self._following.append(_Following(host, there, local, process, streamed=True))

    async def follow(self, host: Host, verb: str, here: Path, more: Sequence[str] = ()) -> None:
        """Let what the host's agent records appear next to `here` from now on. more: tables that not all such have."""
        if host.files_are_here or host.streams:
            return
        for table in (*TABLES[verb], *more):
            there, local = f"{self.prefix(host, here)}.{table}.arrow", here.with_name(f"{here.name}.{table}.arrow")
            process = None
            with local.open("wb") as file:
                if not host.turns:
                    process = await self._bed.spawn(
                        host,
                        f"follow {there}",
                        ("tail", "-c", "+1", "-f", there),
                        stdout=file.fileno(),
                        stderr=asyncio.subprocess.DEVNULL,
                    )
            self._following.append(_Following(host, there, local, process))

    async def fetch(self) -> None:
        """Fetch every file, whole. LabError: a host does not answer any more; what is here stays.

        A host that has ended, or has not answered once, is not asked again.
        """
        streamed = [one for one in self._following if one.streamed]
        stored = [one for one in self._following if not one.streamed]
        failures = await self._received(streamed)
        await asyncio.gather(*map(_stop, stored))
        for group in _together(stored):
            host = group[0].host
            if self._bed.is_gone(host.name) or host.name in self.silent:
                continue
            try:
                await self._fetch(group)
            except LabError as error:
                self.silent.add(host.name)
                failures.append(error)
        self._following = []
        if failures:
            raise failures[0]

    async def _received(self, streamed: Sequence[_Following]) -> list[LabError]:
        """Wait until all that was sent is here; why it is not, host by host."""
        failures = []
        for host in {one.host.name: one.host for one in streamed}.values():
            pipes = [one for one in streamed if one.host.name == host.name]
            try:
                if self._bed.is_gone(host.name) or host.name in self.silent:
                    continue
                await host.run(("sh", "-c", RELEASE, "sh", *(one.there for one in pipes)))
                async with asyncio.timeout(FETCH_S):
                    statuses = [await one.process.wait() for one in pipes if one.process]
                if any(statuses):
                    raise LabError("the connection that recordings came by was cut", where=host.name, remedy=CUT_REMEDY)
            except TimeoutError:
                what = f"recordings were still coming {FETCH_S:g} s after their agents had ended"
                failures.append(LabError(what, where=host.name, remedy=CUT_REMEDY))
            except LabError as error:
                self.silent.add(host.name)
                failures.append(error)
            finally:
                await asyncio.gather(*map(_stop, pipes))
        return failures

    async def _fetch(self, group: Sequence[_Following]) -> None:
        """Fetch recordings of one host, by one command."""
        first, names = group[0], [one.there for one in group]
        whole = first.here.with_name(f"{first.here.name}.part")
        argv = ("cat", *names) if len(names) == 1 else ("sh", "-c", EACH, "sh", *names)
        what = f"the recording {names[0]}" if len(names) == 1 else "one of its recordings"
        try:
            with whole.open("wb") as file:
                process = await self._bed.spawn(first.host, f"fetch {', '.join(names)}", argv, stdout=file.fileno())
            try:
                async with asyncio.timeout(FETCH_S):
                    _, said = await process.communicate()
            except TimeoutError:
                process.signal(signal.SIGKILL)
                _, said = await process.communicate()
            process.settle()
            if process.status != 0:
                raise LabError(
                    f"{what} cannot be fetched: {said.decode(errors='replace').strip()}",
                    where=first.host.name,
                    remedy="what was copied during the recording is kept" if first.process else "",
                )
            if len(group) > 1:
                with whole.open("rb") as file:
                    for one in group:
                        one.here.write_bytes(file.read(int(file.readline())))
            elif whole.stat().st_size >= first.here.stat().st_size:
                whole.replace(first.here)
        finally:
            whole.unlink(missing_ok=True)


async def _stop(one: _Following) -> None:
    """End what copies: a relay passes SIGTERM on, and ends when the guest says that the copying has ended."""
    if one.process:
        await one.process.end(STOP_S)
        one.process.settle()


def _together(several: Sequence[_Following]) -> list[list[_Following]]:
    """Those to fetch at once: in virtual time all of a host, as each command there takes the board's time."""
    groups: dict[object, list[_Following]] = {}
    for number, one in enumerate(several):
        groups.setdefault(one.host.name if one.host.turns else number, []).append(one)
    return list(groups.values())
