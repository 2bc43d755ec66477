"""Guests that are not ours are reached over ssh: how each is, and what is looked at and put there before it is used."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace

from latlab.hosts import RemoteHost
from latlab.hosts.tools import missing_tool
from latlab.model.errors import LabError
from latlab.scenario import Guest, LoadBetween, Scenario
from latlab.testbed.bridges.base import GuestPort
from latlab.testbed.host_setup import namespace_name
from latlab.testbed.site import Site
from latlab.testbed.ssh_steps import agent_put, agent_runs, reached
from latlab.testbed.step import Check, Service, Step, own_folder

USER = "root"
HERE = "127.0.0.1"
FIRST_PORT, PORTS = 20_000, 9_000
"""Below the ports that the kernel assigns automatically (ip_local_port_range)."""

DRIVER_MS = 10_000
"""A network card that is plugged in while a guest runs is there once its driver has found it."""


def ssh_host(scenario: Scenario, site: Site, name: str) -> RemoteHost:
    """The host that stands for a guest which is not ours.

    What latlab starts has its sshd at a port of the host's loopback and is called by its own name there, so that the
    user's ssh configuration can say something of it; a domain is where the scenario says.
    """
    guest = scenario.guests[name]
    assert guest.ssh
    by_name = guest.ssh.destination or name
    user = () if "@" in by_name else ("-l", guest.ssh.user or USER)
    folder = run_folder(site)
    through: tuple[str, ...] = ()
    port, options = guest.ssh.port, user
    if guest.domain is None:
        options = ("-o", f"HostName={HERE}", "-o", f"HostKeyAlias={name}", *user)
        port = forwarded_port(site.tag, list(scenario.guests).index(name))
        if scenario.hosts[guest.host].is_namespace:
            through = ("ip", "netns", "exec", namespace_name(site.tag, guest.host))
    return RemoteHost(
        name,
        by_name,
        port,
        guest.ssh.config,
        agent=f"{folder}/latlab-agent",
        options=options,
        through=through,
        control=f"{site.guest_state(name)}/ssh",
        scratch=folder,
    )


def run_folder(site: Site) -> str:
    """The folder in such a guest that has all of this run's files."""
    return f"/tmp/latlab-{site.tag}"


def forwarded_port(tag: str, number: int) -> int:
    """The port of the host's loopback that leads to a guest's sshd. number: its place among the scenario's guests."""
    return FIRST_PORT + zlib.crc32(tag.encode()) % PORTS + number


def connect_steps(host: RemoteHost, guest: Guest, site: Site) -> Iterator[Step | Service]:
    """The guest lets root in and has the programs; a connection is kept open; the agent is there.

    A domain outlives the run: what is put there is taken away again.
    """
    name, folder = host.name, host.scratch
    stays = guest.domain is not None
    yield from reached(host, guest.host, site)
    made = own_folder(name, f"make the folder of this run's files in {name}", folder)
    yield made if stays else replace(made, undo=None, present=None)
    yield from agent_put(host, site)
    yield agent_runs(host)


def interface_step(port: GuestPort) -> Step:
    """The interface that the scenario names is the card made for it; else the error names what has the card."""
    return Step(
        host=port.guest,
        title=f"the network card with {port.mac} is {port.guest}'s interface {port.end.interface}",
        do=(),
        check=Check(("ip", "-j", "link", "show"), port.end.interface, interface_of(port.mac), DRIVER_MS),
    )


def interface_of(mac: str) -> Callable[[str], str]:
    """Reads, out of what `ip -j link` prints, which interface has the hardware address."""

    def read(output: str) -> str:
        links = {str(link["ifname"]): str(link.get("address", "")) for link in json.loads(output)}
        found = [name for name, address in links.items() if address == mac]
        others = ", ".join(name for name in links if name != "lo") or "none"
        return found[0] if found else f"none of its interfaces, which are {others}"

    return read


def lacking(scenario: Scenario, site: Site, name: str) -> Iterator[LabError]:
    """What keeps a guest from being reached over ssh, as far as it is known before it runs."""
    if not site.machine.has_tool("ssh"):
        yield missing_tool("ssh", f"guests.{name}.ssh")
    for load_name, load in scenario.loads.items():
        ends = (load.from_, load.to) if isinstance(load, LoadBetween) else (load.on,)
        if not load.is_ours and name in ends:
            what = f"{load.kind} is ended by signals, which ssh does not pass on to {name}"
            remedy = "kind: flood" if isinstance(load, LoadBetween) else "kind: busy"
            yield LabError(what, where=f"loads.{load_name}", remedy=remedy)
