"""A lab that kills itself: `killed_bed.py SCENARIO LOGS AT` sends itself SIGKILL while it makes or undoes the test bed.

AT: how far it is then, from 0 to 1 through its steps, from 1 to 2 through undoing them. What a step does has been done
by then; a service has just been started.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from latlab.hosts import Completed, Host
from latlab.hosts.base import Process
from latlab.scenario import load_scenario
from latlab.testbed.agent_binary import find_agent
from latlab.testbed.apply import TestBed
from latlab.testbed.guests.start import images_by_name, start_conditions
from latlab.testbed.makers import make_hosts, test_bed_steps
from latlab.testbed.site import Site
from latlab.testbed.step import Service, Step

TAG = "dead"


def main(path: Path, logs: str, at: float) -> None:
    scenario = load_scenario(path).scenario
    site = Site(TAG, agent=str(find_agent()), images=images_by_name(), logs=logs)
    site = replace(site, **start_conditions(scenario, site))
    steps = test_bed_steps(scenario, site)
    undone = [step for step in reversed(steps) if isinstance(step, Step) and step.undo]
    last = steps[round(at * (len(steps) - 1))] if at <= 1 else undone[round((at - 1) * (len(undone) - 1))]
    deadly = last.argv if isinstance(last, Service) else last.undo if at > 1 else last.do

    def die() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    run, spawn = Host.run, Host.spawn

    async def last_run(host: Host, argv: Sequence[str], **options: Any) -> Completed:
        done = await run(host, argv, **options)
        if tuple(argv) == deadly:
            die()
        return done

    async def last_spawn(host: Host, argv: Sequence[str], **options: Any) -> Process:
        process = await spawn(host, argv, **options)
        if isinstance(last, Service) and tuple(argv) == deadly:
            die()
        return process

    async def session() -> None:
        async with TestBed(TAG, make_hosts(scenario, site)) as bed:
            await bed.apply(steps)
            if not deadly:
                die()

    Host.run, Host.spawn = last_run, last_spawn  # type: ignore[assignment, method-assign]
    asyncio.run(session())


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], float(sys.argv[3]))
