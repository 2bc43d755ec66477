"""Boards without a measurement: one that outlives what is done on it, and a test bed in virtual time."""

from __future__ import annotations

import subprocess
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path

from latlab.hosts import Host
from latlab.hosts.guest import BoardGuest
from latlab.scenario import Scenario
from latlab.testbed.agent_binary import find_agent
from latlab.testbed.apply import TestBed
from latlab.testbed.guests.start import planned_site
from latlab.testbed.machines import machine_snapshots, machine_steps, seen_sites
from latlab.testbed.machines.board_qemu import board_argv
from latlab.testbed.makers import make_hosts, test_bed_steps
from latlab.testbed.site import Site

BOOT_S = 120
"""Longer than a loaded machine takes."""
STARTS = 3
"""An emulated machine whose timer's interrupt was lost waits for it for ever; that is rare."""


@contextmanager
def kept_board(scenario: Scenario, folder: Path) -> Iterator[tuple[BoardGuest, Site]]:
    """The scenario's board1 once it answers, and the site it was planned for; it ends with the context."""
    site, console = planned_site(scenario), folder / "console"
    argv = board_argv(scenario, "board1", site.images["debian-rt-board"], site, str(folder), str(console), None)
    agent = str(find_agent())
    board = BoardGuest("board1", str(folder), agent)
    board.fleeting = False
    answers = (agent, "in", "--patience", str(BOOT_S), str(folder), "echo", "answers")
    for start in range(1, STARTS + 1):
        with subprocess.Popen(argv) as qemu:
            try:
                answered = subprocess.run(answers, capture_output=True, text=True, check=False)
                if answered.stdout == "answers\n":
                    yield board, site
                    return
                assert start < STARTS, answered.stderr + console.read_text()
            finally:
                qemu.terminate()


@asynccontextmanager
async def virtual_bed(scenario: Scenario, folder: Path) -> AsyncIterator[Mapping[str, Host]]:
    """The scenario's hosts by name, once all is set up; it ends with the context.

    folder: for the board's console and its QEMU's log.
    """
    site = replace(planned_site(scenario), tag="0000", lab="t1", logs=str(folder))
    hosts = make_hosts(scenario, site)
    async with TestBed("t1", hosts) as bed:
        kept = replace(site, snapshots=machine_snapshots(scenario, site))
        await bed.apply(list(machine_steps(scenario, kept)))
        site = replace(site, others=seen_sites(scenario, site, hosts))
        await bed.apply(test_bed_steps(scenario, site))
        yield hosts
