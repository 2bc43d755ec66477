"""A machine reached over ssh, with the user's keys and configuration: our agent is put there, and all else goes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from latlab.hosts import MACHINE, RemoteHost
from latlab.scenario import Scenario, SshHost
from latlab.testbed.images import Image
from latlab.testbed.machines.base import MachineKind
from latlab.testbed.site import Site
from latlab.testbed.ssh_steps import agent_put, agent_runs, agents_digest, clock_shows_the_time, file_put, reached
from latlab.testbed.step import Service, Step, own_folder

USER = "root"
AGENTS = "/var/lib/latlab/agents"
"""Where agents are put under their digests: they stay for the next run, and two versions never meet."""
IMAGES = "/var/lib/latlab/images"
DIGITS = 16


class SshMachine(MachineKind):
    """A host of kind ssh."""

    tools = ("ssh",)

    def host(self, scenario: Scenario, name: str, site: Site) -> RemoteHost:
        """The user's ssh leads there; lasting processes there are run by our agent."""
        wanted = scenario.hosts[name]
        assert isinstance(wanted, SshHost)
        ssh = wanted.ssh
        destination = ssh.destination or name
        return RemoteHost(
            name,
            destination,
            ssh.port,
            ssh.config,
            agent=agent_path(site),
            options=() if "@" in destination else ("-l", ssh.user or USER),
            control=f"{site.ways}/{name}",
            scratch=scratch(site, name),
            relay=site.agent,
            outlives=True,
            streams=wanted.recordings == "streamed",
        )

    def steps(self, scenario: Scenario, name: str, site: Site) -> Iterator[Step | Service]:
        """A connection is kept open; the agent and a folder for this run's recordings are there."""
        host = self.host(scenario, name, site)
        yield from reached(host, MACHINE, site)
        yield clock_shows_the_time(name)
        yield from agent_put(host, site)
        yield agent_runs(host)
        folder = host.scratch
        title = f"make the folder of this run's recordings on {name}"
        yield own_folder(name, title, folder, rescue=(folder, site.recordings))
        for image in _images(scenario, name, site):
            yield from _image_put(host, image)

    def site(self, scenario: Scenario, name: str, site: Site) -> Site:
        """Its own agent and images; the names of interfaces and folders are those of the run everywhere."""
        images = {image.name: _there(image) for image in _images(scenario, name, site)}
        return Site(site.tag, name=name, machine=site.machine, agent=agent_path(site), images=images)


def agent_path(site: Site) -> str:
    """Where the agent is on such a machine."""
    return f"{AGENTS}/latlab-agent-{agents_digest(site)[:DIGITS]}"


def _images(scenario: Scenario, name: str, site: Site) -> list[Image]:
    """The images that guests on the machine start from, as they are here."""
    guests = (guest for key, guest in scenario.guests.items() if scenario.machine_of(key) == name and guest.is_ours)
    return [site.images[image] for image in dict.fromkeys(guest.image_name for guest in guests)]


def _there(image: Image) -> Image:
    folder = Path(IMAGES) / image.digest[:DIGITS]
    return replace(image, kernel=folder / image.kernel.name, initramfs=folder / image.initramfs.name)


def _image_put(host: RemoteHost, image: Image) -> Iterator[Step]:
    there = _there(image)
    for what, source, target in (
        ("kernel", image.kernel, there.kernel),
        ("initial file system", image.initramfs, there.initramfs),
    ):
        yield file_put(host, f"the {what} of image {image.name}", source, str(target))


def scratch(site: Site, name: str) -> str:
    """The folder on the machine that has this run's recordings; it is there after a reboot, too."""
    return f"/var/tmp/latlab-{site.tag}-{name}"
