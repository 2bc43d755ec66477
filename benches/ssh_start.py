"""How long an agent takes to start on a machine over ssh: to be put there the first time, to be found there later, and
to be ready.

    benches/ssh_start.py DESTINATION [--ssh-config FILE] [--starts 20]

Over one connection that is kept open, as in a run. `ready`: from the command to the agent's answer that it is set up,
its recordings made. What is promised is 0.5 s after the first copy. The agent of this version is removed there first.
"""

from __future__ import annotations

import argparse
import asyncio
import secrets
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from statistics import median

from bed import need_root

from latlab.run.agent import Agent
from latlab.run.probe_specs import timer_spec
from latlab.scenario import Scenario, parse
from latlab.testbed.apply import TestBed
from latlab.testbed.guests.start import planned_site
from latlab.testbed.machines import machine_steps
from latlab.testbed.machines.ssh import agent_path
from latlab.testbed.makers import make_hosts

HOST, PROBE = "board", "tick"
PROMISED_S = 0.5


def scenario(destination: str, config: str | None) -> Scenario:
    """A machine, and a timer on it."""
    ssh = {"destination": destination} | ({"config": config} if config else {})
    parsed = parse(
        {
            "name": "ssh-start",
            "hosts": {HOST: {"kind": "ssh", "ssh": ssh}},
            "links": [],
            "streams": {},
            "probes": {PROBE: {"probe": "timer", "on": HOST, "period": "1ms"}},
            "duration": "1s",
        }
    )
    if parsed.scenario is None:
        raise SystemExit("; ".join(map(str, parsed.findings)))
    return parsed.scenario


async def measured(scenario: Scenario, logs: str, forget: bool, starts: int) -> tuple[float, list[float]]:
    """Seconds until the machine is set up, and of each start of the agent. forget: it is removed there first."""
    tag = f"bench-{secrets.token_hex(2)}"
    site = replace(planned_site(scenario), tag=tag, logs=logs)
    hosts = make_hosts(scenario, site)
    host = hosts[HOST]
    if forget:
        await host.run(("rm", "-f", agent_path(site)))
    async with TestBed(tag, hosts) as bed:
        began = time.monotonic()
        await bed.apply(list(machine_steps(scenario, site)))
        set_up = time.monotonic() - began
        took = []
        for number in range(starts):
            recording = f"{host.scratch}/start-{number}"
            spec = timer_spec(scenario, PROBE, secrets.token_hex(8), recording)
            began = time.monotonic()
            agent = await Agent.start(bed, host, agent_path(site), "timer", spec)
            took.append(time.monotonic() - began)
            await agent.stop(bed)
    return set_up, took


async def main() -> None:
    """Measure, and print seconds."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("destination")
    arguments.add_argument("--ssh-config", type=Path)
    arguments.add_argument("--starts", type=int, default=20)
    given = arguments.parse_args()
    need_root()
    asked = scenario(given.destination, str(given.ssh_config.resolve()) if given.ssh_config else None)
    with tempfile.TemporaryDirectory() as logs:
        first, _ = await measured(asked, logs, True, 0)
        later, starts = await measured(asked, logs, False, given.starts)
    print(f"set up, the agent copied      {first:6.2f} s")
    print(f"set up, the agent there       {later:6.2f} s")
    print(f"ready: min, median, max       {min(starts):6.3f} {median(starts):6.3f} {max(starts):6.3f} s")
    print(f"promised after the first copy {PROMISED_S:6.2f} s")


if __name__ == "__main__":
    asyncio.run(main())
