"""Labs that kill themselves: for each number N that `killed_lab.py TAG WHEN` reads, one sends itself SIGKILL before or
after its Nth change, and the status it ended with is printed.

Changes are what its steps do and, when it has come that far, what they undo. The status is 0 when it has fewer than N
of them.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any

from latlab.hosts import MACHINE, Completed, LocalMachine, NamespaceHost
from latlab.testbed.apply import TestBed
from latlab.testbed.host_setup import namespace_name
from latlab.testbed.makers import test_bed_steps
from latlab.testbed.site import Site
from latlab.testbed.step import Step

sys.path.append(str(Path(__file__).parents[2]))

from support.machine import scenario


class Death:
    """Counts the changes down, and kills this process before or after the last one."""

    def __init__(self, changes: set[tuple[str, ...]], when: str, at: int) -> None:
        self._changes, self._when, self._left = changes, when, at

    async def at(self, argv: Sequence[str], running: Coroutine[Any, Any, Completed]) -> Completed:
        if tuple(argv) not in self._changes:
            return await running
        self._left -= 1
        if self._left == 0 and self._when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        done = await running
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return done


class KilledLocal(LocalMachine):
    """This machine, until death."""

    death: Death

    async def run(self, argv: Sequence[str], **options: Any) -> Completed:
        return await self.death.at(argv, super().run(argv, **options))


class KilledNetns(NamespaceHost):
    """A namespace, until death."""

    death: Death

    async def run(self, argv: Sequence[str], **options: Any) -> Completed:
        return await self.death.at(argv, super().run(argv, **options))


async def main(tag: str, when: str, at: int) -> None:
    small = scenario({"sensor": "netns", "ecu": "local"})
    steps = test_bed_steps(small, Site(tag))
    changes = {argv for step in steps if isinstance(step, Step) for argv in (step.do, step.undo) if argv}
    KilledLocal.death = KilledNetns.death = Death(changes, when, at)
    hosts = {
        MACHINE: KilledLocal(MACHINE),
        "sensor": KilledNetns("sensor", namespace_name(tag, "sensor")),
        "ecu": KilledLocal("ecu"),
    }
    async with TestBed(tag, hosts) as bed:
        await bed.apply(steps)


if __name__ == "__main__":
    # What each of them imports takes longer than all that it does, and is imported once.
    for number in sys.stdin:
        lab = os.fork()
        if not lab:
            asyncio.run(main(sys.argv[1], sys.argv[2], int(number)))
            sys.exit()
        print(os.waitstatus_to_exitcode(os.waitpid(lab, 0)[1]), flush=True)
