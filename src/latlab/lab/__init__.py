"""How a test bed is made: what a scenario asks for, as hosts and steps.

A new part of a test bed is one module that turns a scenario into steps, and one line in MAKERS.
"""

from __future__ import annotations

from collections.abc import Callable

from latlab.host import MACHINE, Host, LocalHost, NetnsHost
from latlab.lab.links import link_steps
from latlab.lab.namespaces import namespace_name, namespace_steps
from latlab.lab.step import Step
from latlab.scenario import Scenario

MAKERS: tuple[Callable[[Scenario, str], list[Step]], ...] = (namespace_steps, link_steps)

HOST_KINDS: dict[str, Callable[[str, str], Host]] = {
    "local": lambda name, tag: LocalHost(name),
    "netns": lambda name, tag: NetnsHost(name, namespace_name(tag, name)),
}


def test_bed_steps(scenario: Scenario, tag: str) -> list[Step]:
    """All steps of the scenario's test bed, in the order to apply them; tag marks what one run makes."""
    return [step for maker in MAKERS for step in maker(scenario, tag)]


def make_hosts(scenario: Scenario, tag: str) -> dict[str, Host]:
    """The scenario's hosts by name, and the machine they all lie on as MACHINE."""
    hosts: dict[str, Host] = {MACHINE: LocalHost(MACHINE)}
    for name, host in scenario.hosts.items():
        hosts[name] = HOST_KINDS[host.kind](name, tag)
    return hosts
