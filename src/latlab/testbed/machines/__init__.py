"""The machines of a cell next to this one: how each is reached, made ready for the test bed, and looked at.

A kind of machine is one file and one line in KINDS.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from latlab.hosts import MACHINE, Host
from latlab.model.errors import LabError
from latlab.scenario import Scenario
from latlab.testbed.machine import machine_at
from latlab.testbed.machines.base import MachineKind
from latlab.testbed.machines.board import BoardMachine
from latlab.testbed.machines.ssh import SshMachine
from latlab.testbed.site import Site
from latlab.testbed.step import Service, Step

KINDS: Mapping[str, MachineKind] = {"ssh": SshMachine(), "board": BoardMachine()}


def machine_hosts(scenario: Scenario, site: Site) -> dict[str, Host]:
    """The hosts that are separate machines, by name."""
    return {name: kind.host(scenario, name, site) for name, kind in _kinds(scenario)}


def machine_snapshots(scenario: Scenario, site: Site) -> dict[str, Path]:
    """What each machine that is started for the cell resumes from, by its host's name."""
    found = {name: kind.snapshot(scenario, name, site) for name, kind in _kinds(scenario)}
    return {name: path for name, path in found.items() if path}


def can_be_kept(scenario: Scenario) -> bool:
    """Whether every machine of a test bed can be kept once that was made, for other cells to go on from."""
    return all(kind.can_be_kept(scenario, name) for name, kind in _kinds(scenario))


def machine_steps(scenario: Scenario, site: Site) -> Iterator[Step | Service]:
    """Every machine is reached and has what the test bed needs of it, before that is made."""
    if not scenario.machines():
        return
    yield ways_step(site)
    for name, kind in _kinds(scenario):
        yield from kind.steps(scenario, name, site)


def ways_step(site: Site) -> Step:
    """Make the folder, on this machine, of the connections to the others."""
    return Step(
        host=MACHINE,
        title="make the folder of the connections to other machines",
        do=("mkdir", "-p", "-m", "700", site.ways),
        undo=("rm", "-r", site.ways),
        present=("test", "-d", site.ways),
    )


def machines_lacking(scenario: Scenario, site: Site) -> Iterator[LabError]:
    """What keeps a machine from being used, as far as this one shows. Reads only."""
    for name, kind in _kinds(scenario):
        yield from kind.lacking(scenario, name, site)


def planned_sites(scenario: Scenario, site: Site) -> dict[str, Site]:
    """The places on the other machines before they are inspected: each is assumed to have everything."""
    return {
        name: replace(kind.site(scenario, name, site), machine=kind.planned(scenario, name))
        for name, kind in _kinds(scenario)
        if name in scenario.machines()
    }


def seen_sites(scenario: Scenario, site: Site, hosts: Mapping[str, Host]) -> dict[str, Site]:
    """The same with each machine as it is now. Reads only; LabError: one cannot be read."""
    return {
        name: replace(place, machine=machine_at(hosts[name])) for name, place in planned_sites(scenario, site).items()
    }


def _kinds(scenario: Scenario) -> list[tuple[str, MachineKind]]:
    return [(name, KINDS[host.kind]) for name, host in scenario.hosts.items() if host.kind in KINDS]
