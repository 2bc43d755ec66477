"""A libvirt domain that runs already: it gets a network card for the run, and loses it again after it.

The tap or macvtap of the bridge is made as for every guest, and given to libvirt as it is (formatdomain, Generic
ethernet connection: `managed='no'`), so that a domain's packets take the same way as those of a guest that latlab
starts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from xml.sax.saxutils import quoteattr

from latlab.hosts import RemoteHost
from latlab.hosts.tools import missing_tool
from latlab.model.bridges import KINDS
from latlab.model.errors import LabError
from latlab.scenario import Guest, Scenario
from latlab.testbed.bridges.base import GuestPort, Joint, Plug
from latlab.testbed.bridges.table import BRIDGES
from latlab.testbed.guests.over_ssh import connect_steps, interface_step, lacking, ssh_host
from latlab.testbed.site import Site
from latlab.testbed.step import Check, Service, Step

PROPERTIES = {
    **{name: ("host", name) for name in ("csum", "gso")},
    **{f"{side}_{name}": (side, name) for side in ("guest", "host") for name in ("csum", "tso4", "tso6", "ecn", "ufo")},
}
"""virtio-net-pci's properties → where libvirt's XML has them (formatdomain, NIC driver-specific options)."""

ATTACH = 'printf %s "$1" | virsh attach-device "$0" /dev/stdin --live'
PRESENT = 'virsh domiflist "$0" | grep -qiF "$1"'


def join_domain(port: GuestPort, plug: Plug, joint: Joint, site: Site, ssh: RemoteHost) -> Iterator[Step | Service]:
    """The running domain has the network card, lets us in and has the agent."""
    # Of a bridge that no domain can be joined to there is a plan anyway, without that step.
    device = BRIDGES[joint.kind].port_device(port, site)
    if KINDS[joint.kind].takes_domains and device:
        yield _attach(port, plug, joint, device)
    yield from connect_steps(ssh, port.wants, site)
    yield interface_step(port)


def interface_xml(port: GuestPort, plug: Plug, device: str) -> str:
    """The `<interface>` that libvirt plugs in: a card on a device that is there already."""
    sides: dict[str, list[str]] = {"host": [], "guest": []}
    for given in plug.device:
        name, _, value = given.partition("=")
        side, attribute = PROPERTIES[name]
        sides[side].append(f"{attribute}={quoteattr(value)}")
    offloads = "".join(f"<{side} {' '.join(values)}/>" for side, values in sides.items() if values)
    carrier = "vhost" if plug.form == "vhost" else "qemu"
    return (
        f"<interface type='ethernet'><mac address='{port.mac}'/><target dev='{device}' managed='no'/>"
        f"<model type='virtio'/><driver name='{carrier}'>{offloads}</driver></interface>"
    )


def device_of(mac: str) -> Callable[[str], str]:
    """Reads, out of what `virsh domiflist` prints, the host's device of the domain's card with that address."""

    def read(output: str) -> str:
        rows = [line.split() for line in output.splitlines()]
        found = [row[0] for row in rows if len(row) == 5 and row[4].lower() == mac]
        return found[0] if found else "no such card"

    return read


def domain_lacking(scenario: Scenario, site: Site) -> Iterator[LabError]:
    """What keeps a domain from being a guest of the cell, now: it is asked for, and its sshd is tried."""
    for name, guest in scenario.guests.items():
        if guest.domain:
            yield from _lacking(scenario, site, name, guest, guest.domain)


def _attach(port: GuestPort, plug: Plug, joint: Joint, device: str) -> Step:
    domain = port.wants.domain or ""
    return Step(
        host=joint.host,
        title=f"give domain {domain} a network card on {device}",
        do=("sh", "-c", ATTACH, domain, interface_xml(port, plug, device)),
        undo=("virsh", "detach-interface", domain, "--type", "ethernet", "--mac", port.mac, "--live"),
        present=("sh", "-c", PRESENT, domain, port.mac),
        check=Check(("virsh", "domiflist", domain), expected=device, read=device_of(port.mac)),
    )


def _lacking(scenario: Scenario, site: Site, name: str, guest: Guest, domain: str) -> Iterator[LabError]:
    where = f"guests.{name}"
    if not KINDS[guest.bridge].takes_domains:
        others = ", ".join(name for name, kind in KINDS.items() if kind.takes_domains)
        what = f"a running domain cannot use {guest.bridge}: libvirt takes a tap or macvtap"
        yield LabError(what, where=f"{where}.bridge", remedy=f"one of {others}; or a kernel or disk")
    if not scenario.hosts[guest.host].is_here:
        what = f"libvirt's domains are on this machine itself, and {guest.host} is a namespace"
        yield LabError(what, where=f"{where}.host", remedy="a host of kind local")
    yield from lacking(scenario, site, name)
    if not site.machine.has_tool("virsh"):
        yield missing_tool("virsh", f"{where}.domain")
        return
    said = site.machine.say(("virsh", "domstate", domain))
    if said is None:
        what = f"libvirt does not answer, or has no domain {domain}"
        yield LabError(what, where=f"{where}.domain", remedy=f"`virsh domstate {domain}` shows which")
    elif (state := said.strip()) != "running":
        yield LabError(f"domain {domain} is {state}", where=f"{where}.domain", remedy=f"`virsh start {domain}`")
    else:
        yield from _answers(scenario, site, name)


def _answers(scenario: Scenario, site: Site, name: str) -> Iterator[LabError]:
    ssh = ssh_host(scenario, site, name)
    if site.machine.has_tool("ssh") and site.machine.say(ssh.command(("true",))) is None:
        what, remedy = f"{ssh.destination} refuses latlab's ssh login", ssh.short_line(("true",))
        yield LabError(what, where=f"guests.{name}.ssh", remedy=f"`{remedy}` shows why")
