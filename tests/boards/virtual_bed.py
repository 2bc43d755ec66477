"""A scenario's test bed on a board in virtual time, without a measurement: commands run on its hosts."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from latlab.hosts import Host
from latlab.scenario import Scenario
from latlab.testbed.apply import TestBed
from latlab.testbed.guests.start import planned_site
from latlab.testbed.machines import machine_snapshots, machine_steps, seen_sites
from latlab.testbed.makers import make_hosts, test_bed_steps


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
