"""Programs that a part of the scenario needs on a host; missing ones are reported with their packages."""

from __future__ import annotations

from collections.abc import Iterator

from latlab.hosts.tools import PACKAGES, install_remedy
from latlab.model.errors import LabError
from latlab.scenario import Scenario
from latlab.testbed.site import Site


def program_missing(scenario: Scenario, site: Site, host: str, program: str, where: str) -> Iterator[LabError]:
    """A program that is not on a host, or not in the image that a guest starts from, once it is built; for others it is
    not known before.
    """
    guest = scenario.guests.get(host)
    if guest is None:
        if not site.on(scenario.machine_of(host)).machine.has_tool(program):
            yield LabError(f"{program} is missing on {host}", where=where, remedy=install_remedy(program))
    elif guest.is_ours:
        image = site.on(scenario.machine_of(host)).images.get(guest.image_name)
        package = PACKAGES.get(program, program)
        if image is not None and image.packages and package not in image.packages:
            yield LabError(
                f"{program} is not in {guest.image_name}, which {host} starts from",
                where=where,
                remedy=f"`{image.build_command(package)}`",
            )
