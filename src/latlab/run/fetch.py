"""Recordings of hosts whose files are not this machine's: brought here while they grow, and whole at the end."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from latlab.hosts import Host, Process, signal_group
from latlab.model.errors import LabError
from latlab.recordings.run_folder import CellFolder
from latlab.testbed.apply import TestBed

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
FETCH_S = 120.0
STOP_S = 2.0


@dataclass
class _Following:
    host: Host
    there: str
    here: Path
    process: Process
    record: int | None


class Recordings:
    """A cell's recordings, on whichever host they are made.

    A host's own files die with it, as a guest's that is killed: what it has recorded is copied here as it is written, a
    second behind, so that a run that is cut short can be read. At the end every file is fetched whole.
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

    async def follow(self, host: Host, verb: str, here: Path, more: Sequence[str] = ()) -> None:
        """Let what the host's agent records appear next to `here` from now on. more: tables that not all such have."""
        if host.files_are_here:
            return
        for table in (*TABLES[verb], *more):
            there, local = f"{self.prefix(host, here)}.{table}.arrow", here.with_name(f"{here.name}.{table}.arrow")
            with local.open("wb") as file:
                process, record = await self._bed.spawn(
                    host,
                    f"follow {there}",
                    ("tail", "-c", "+1", "-f", there),
                    stdout=file.fileno(),
                    stderr=asyncio.subprocess.DEVNULL,
                )
            self._following.append(_Following(host, there, local, process, record))

    async def fetch(self) -> None:
        """Fetch every file, whole. LabError: a host does not answer any more; what is here stays.

        A host that has ended, or has not answered once, is not asked again.
        """
        failures = []
        await asyncio.gather(*map(self._stop, self._following))
        for one in self._following:
            if self._bed.is_gone(one.host.name) or one.host.name in self.silent:
                continue
            try:
                await self._fetch(one)
            except LabError as error:
                self.silent.add(one.host.name)
                failures.append(error)
        self._following = []
        if failures:
            raise failures[0]

    async def _stop(self, one: _Following) -> None:
        if one.process.returncode is None:
            # The relay passes SIGTERM on, and ends when the guest says that the copying has ended.
            for number in (signal.SIGTERM, signal.SIGKILL):
                signal_group(one.process, number)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(STOP_S):
                        await one.process.wait()
        self._bed.settle(one.record)

    async def _fetch(self, one: _Following) -> None:
        whole = one.here.with_name(f"{one.here.name}.part")
        try:
            with whole.open("wb") as file:
                process, record = await self._bed.spawn(
                    one.host, f"fetch {one.there}", ("cat", one.there), stdout=file.fileno()
                )
            try:
                async with asyncio.timeout(FETCH_S):
                    _, said = await process.communicate()
            except TimeoutError:
                signal_group(process, signal.SIGKILL)
                _, said = await process.communicate()
            self._bed.settle(record)
            if process.returncode != 0:
                raise LabError(
                    f"the recording {one.there} cannot be fetched: {said.decode(errors='replace').strip()}",
                    where=one.host.name,
                    remedy="what was copied during the recording is kept",
                )
            if whole.stat().st_size >= one.here.stat().st_size:
                whole.replace(one.here)
        finally:
            whole.unlink(missing_ok=True)
