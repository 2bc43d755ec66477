"""Guests that run on this machine already, whoever started them: a lab that measures now, or libvirt."""

from __future__ import annotations

from pathlib import Path

from latlab.hosts import GuestHost, Host, RemoteHost
from latlab.hosts.tools import install_remedy
from latlab.model.errors import UsageError
from latlab.testbed.machine import Machine
from latlab.testbed.machines.ssh import USER, agent_path, scratch
from latlab.testbed.site import STATE, Site

_FIRST_PORT = "port1.sock"
_SOURCES = ("lease", "agent", "arp")
"""Who may know a domain's address (virsh(1), domifaddr), the surest first."""


def running_guest(name: str, where: str, site: Site, config: str | None, state: Path = Path(STATE)) -> Host:
    """The guest of that name: one that a lab has started here, else a domain of libvirt, which is reached over ssh.

    where: the point that asks for it. config: the configuration of ssh, None: the user's. state: the folder of labs'
    state. UsageError: there is none, there are several, or nobody knows its address.
    """
    folders = [folder for folder in _folders(state) if folder.name == name]
    if len(folders) > 1:
        what = f"{len(folders)} labs have a guest {name!r} now: {', '.join(str(one) for one in folders)}"
        raise UsageError(what, where=where, remedy="watch once one of them has ended")
    if folders:
        return GuestHost(f"guest:{name}", str(folders[0]), site.agent)
    return _domain(name, where, site, config, state)


def _folders(state: Path) -> list[Path]:
    """The folders of guests that labs have started and that run."""
    return sorted(path.parent for path in state.glob(f"*/*/{_FIRST_PORT}") if _is_running(path.parent))


def _is_running(folder: Path) -> bool:
    try:
        return Path("/proc", (folder / "pid").read_text().strip()).is_dir()
    except OSError:
        return False


def _domain(name: str, where: str, site: Site, config: str | None, state: Path) -> RemoteHost:
    machine = site.machine
    said = machine.say(("virsh", "domstate", name)) if machine.has_tool("virsh") else None
    if said is None:
        others = ", ".join(dict.fromkeys(folder.name for folder in _folders(state)))
        what = f"no lab has a guest {name!r} now" + (f"; there is {others}" if others else "")
        if not machine.has_tool("virsh"):
            remedy = f"start the guest first; of a domain of libvirt: {install_remedy('virsh')}"
            raise UsageError(what, where=where, remedy=remedy)
        remedy = f"start the guest first; `virsh domstate {name}` shows whether it is a domain"
        raise UsageError(f"{what}, and libvirt has no such domain", where=where, remedy=remedy)
    if (state_of := said.strip()) != "running":
        raise UsageError(f"domain {name} is {state_of}", where=where, remedy=f"`virsh start {name}`")
    address = next(filter(None, (_address(name, source, machine) for source in _SOURCES)), None)
    if address is None:
        remedy = f"name it: root@ADDRESS{where[where.rfind('/') :]}; `virsh domifaddr {name} --source agent` shows why"
        raise UsageError(f"libvirt does not know the address of domain {name}", where=where, remedy=remedy)
    host = f"guest:{name}"
    return RemoteHost(
        host,
        name,
        config=config,
        agent=agent_path(site),
        options=("-o", f"HostName={address}", "-l", USER),
        control=f"{site.ways}/{name}",
        scratch=scratch(site, name),
        relay=site.agent,
        outlives=True,
    )


def _address(name: str, source: str, machine: Machine) -> str | None:
    """A domain's first IPv4 address but those of its loopback, of what virsh prints: name, MAC, protocol, address/N."""
    rows = (line.split() for line in (machine.say(("virsh", "domifaddr", name, "--source", source)) or "").splitlines())
    found = (row[3].partition("/")[0] for row in rows if len(row) == 4 and row[2] == "ipv4")
    return next((one for one in found if not one.startswith("127.")), None)
