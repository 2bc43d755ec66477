"""The site that a plan is written for, while no run has begun."""

from __future__ import annotations

from dataclasses import replace

from latlab.model.errors import LatlabError
from latlab.scenario import BoardHost, Scenario
from latlab.testbed.agent_binary import AGENT, find_agent, find_agents
from latlab.testbed.guests.origin import images_by_name, unbuilt_image
from latlab.testbed.guests.start import start_conditions
from latlab.testbed.machines import planned_sites
from latlab.testbed.site import Site

TAG = "RUN"
"""Stands for the run's tag: a plan printed before a run is the same each time."""


def planned_site(scenario: Scenario) -> Site:
    """The site a plan is written for: every name a run makes up stands there as RUN, every file as what it is."""
    agents: dict[str, str] = {}
    try:
        agents = find_agents(own := find_agent())
        agent = str(own)
    except LatlabError:
        agent = AGENT
    built = images_by_name()
    needed = {scenario.image_of(name) for name, guest in scenario.guests.items() if guest.is_ours}
    needed |= {host.image_name for host in scenario.hosts.values() if isinstance(host, BoardHost)}
    images = {name: built.get(name) or unbuilt_image(name) for name in sorted(needed)}
    site = Site(TAG, agent=agent, agents=agents, images=images)
    site = replace(site, others=planned_sites(scenario, site))
    return replace(site, inward=start_conditions(scenario, site)["inward"])
