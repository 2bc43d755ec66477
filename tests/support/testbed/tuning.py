"""A small test bed to tune: a host on this machine with one guest, whose QEMU need not run."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from latlab.hosts import LocalMachine
from latlab.scenario import Scenario
from latlab.testbed.apply import TestBed
from latlab.testbed.step import Step, StepResult
from support.machine import scenario

HOSTS = {"sensor": "netns", "ecu": "local"}
GUEST = {"host": "ecu", "vcpus": 2, "uplink": "lat0"}


def tuned(guest: dict[str, Any] | None = None, **tuning: Any) -> Scenario:
    """A scenario whose host `ecu`, with interface lat0 and guest vm1, is tuned so."""
    return scenario(HOSTS, guests={"vm1": guest or GUEST}, tuning={"ecu": tuning})


def applied(steps: Iterable[Step], meanwhile: Callable[[], object] = lambda: None) -> Outcome:
    """What became of the steps, and of their checks once `meanwhile` had been called; all has been undone."""

    async def session() -> Outcome:
        async with TestBed("t1", {"ecu": LocalMachine("ecu")}) as bed:
            first = await bed.apply(list(steps))
            meanwhile()
            return Outcome(first, await bed.check_again())

    return asyncio.run(session())


class Outcome:
    """Results of steps, and of their checks at the end, by title."""

    def __init__(self, first: list[StepResult], again: list[StepResult]) -> None:
        self.first = {result.title: result for result in first}
        self.again = {result.title: result for result in again}

    @property
    def findings(self) -> dict[str, str | None]:
        """Title → why, of each step that is not as wanted."""
        return {title: result.why for title, result in self.first.items() if not result.ok}

    @property
    def changed(self) -> dict[str, str | None]:
        """Title → what is read at the end, of each step that did not last."""
        return {title: result.actual for title, result in self.again.items() if not result.ok}


def asked_of_ethtool(folder: Path, printed: str, command: Sequence[str]) -> list[str]:
    """What the command, run with a stand-in for ethtool, asked it to set; to what is only read it answers `printed`."""
    tool, said, asked = folder / "ethtool", folder / "printed", folder / "asked"
    tool.write_text(f'#!/bin/sh\ncase $1 in -[cx]) exec cat {said};; esac\necho "$@" >>{asked}\n')
    tool.chmod(0o755)
    said.write_text(printed)
    asked.touch()
    subprocess.run(command, env={"PATH": f"{folder}:/usr/bin:/bin"}, check=True)
    return asked.read_text().splitlines()


def cover(place: str, files: dict[str, str], made: Path) -> Path:
    """The folder that stands at `place` from now on, in this test's own view of the machine, with these files."""
    for name, text in files.items():
        path = made / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    subprocess.run(["mount", "--bind", made, place], check=True)
    return made
