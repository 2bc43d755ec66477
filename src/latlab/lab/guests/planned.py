"""The site that a plan is written for, while no run has begun."""

from __future__ import annotations

from dataclasses import replace

from latlab.errors import LatlabError
from latlab.lab.agent_binary import AGENT, find_agent
from latlab.lab.guests.origin import images_by_name, unbuilt_image
from latlab.lab.guests.start import start_conditions
from latlab.lab.machines import planned_sites
from latlab.lab.site import Site
from latlab.scenario import Scenario

TAG = "RUN"
"""Stands for the run's tag: a plan printed before a run is the same each time."""


def planned_site(scenario: Scenario) -> Site:
    """The site a plan is written for: every name a run makes up stands there as RUN, every file as what it is."""
    try:
        agent = str(find_agent())
    except LatlabError:
        agent = AGENT
    built = images_by_name()
    needed = {guest.image_name for guest in scenario.guests.values() if guest.is_ours}
    needed |= {host.image_name for host in scenario.hosts.values() if host.kind == "board"}
    images = {name: built.get(name) or unbuilt_image(name) for name in sorted(needed)}
    site = Site(TAG, agent=agent, images=images)
    site = replace(site, others=planned_sites(scenario, site))
    return replace(site, inward=start_conditions(scenario, site)["inward"])
