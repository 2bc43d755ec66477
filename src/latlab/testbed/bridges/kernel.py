"""A kernel bridge with a tap for each guest: bridge `tap`, and what bridge `xdp` has next to it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence

from latlab.model import bridges
from latlab.model.errors import LabError
from latlab.testbed.bridges.base import (
    BridgeMaker,
    GuestPort,
    Joint,
    Neighbour,
    Plug,
    lacking_tools,
    lacking_tun,
    lacking_vhost,
    vhost,
)
from latlab.testbed.site import Site
from latlab.testbed.step import Before, Check, Service, Step

NO_BRIDGE = "no bridge"
NO_FILTER = ("iptables", "ip6tables", "arptables")


def bridge_device(joint: Joint, site: Site) -> str:
    """The name of the bridge."""
    return site.device(f"br{joint.number}")


def tap_device(port: GuestPort, site: Site) -> str:
    """The name of a guest's tap."""
    return site.device(f"t{port.number}")


class TapBridge(BridgeMaker):
    """The uplink and the guests' taps are ports of one kernel bridge."""

    kind = bridges.TAP

    def lacking(self, joint: Joint, site: Site) -> LabError | None:
        """Its programs and /dev/net/tun."""
        return lacking_tun(site) or lacking_tools(site, *self.kind.tools) or lacking_vhost(joint, site)

    def before_guests(self, joint: Joint, site: Site) -> Sequence[Step | Service]:
        """The bridge, the uplink in it, a tap for each guest in it, and every known address in its FDB."""
        bridge = bridge_device(joint, site)
        steps = [] if joint.made or not joint.uplink else [free_port(joint.host, joint.uplink)]
        steps += [make_bridge(joint.host, bridge, joint.segment.mtu, joint.mac), no_filters(joint.host)]
        if joint.uplink:
            steps.append(enslave(joint, joint.uplink, bridge))
        for port in joint.ports:
            steps += tap_steps(joint, port, site)
            steps.append(enslave(joint, tap_device(port, site), bridge))
        steps.append(up(joint, bridge))
        steps += host_address(joint, bridge)
        return [*steps, *_known_addresses(joint, site)]

    def plug(self, joint: Joint, port: GuestPort, site: Site) -> Plug:
        """The guest's tap, with vhost-net where there is one."""
        return tap_plug(port, site)

    def device(self, joint: Joint, site: Site) -> str | None:
        """The bridge itself."""
        return bridge_device(joint, site)

    def port_device(self, port: GuestPort, site: Site) -> str | None:
        """The bridge's port."""
        return tap_device(port, site)


def tap_plug(port: GuestPort, site: Site, device: tuple[str, ...] = ()) -> Plug:
    """A tap made before."""
    kernel = vhost(port.wants, site)
    queues = f",queues={port.wants.queues}" if port.wants.queues > 1 else ""
    netdev = f"tap,ifname={tap_device(port, site)},script=no,downscript=no,vhost={'on' if kernel else 'off'}{queues}"
    return Plug(netdev, device, form="vhost" if kernel else "tap")


def tap_steps(joint: Joint, port: GuestPort, site: Site) -> list[Step]:
    """The guest's tap, up."""
    tap = tap_device(port, site)
    queues = ("multi_queue",) if port.wants.queues > 1 else ()
    return [
        Step(
            host=joint.host,
            title=f"make {port.guest}'s tap",
            do=("ip", "tuntap", "add", "dev", tap, "mode", "tap", "vnet_hdr", *queues),
            undo=("ip", "link", "del", "dev", tap),
            present=("test", "-e", f"/sys/class/net/{tap}"),
        ),
        Step(
            host=joint.host,
            title=f"give {port.guest}'s tap the segment's MTU",
            do=("ip", "link", "set", "dev", tap, "mtu", str(joint.segment.mtu)),
        ),
        no_ipv6(joint, tap),
        up(joint, tap),
    ]


def no_ipv6(joint: Joint, device: str) -> Step:
    """No packets of IPv6's own in the measured path."""
    from latlab.testbed.host_setup import ipv6_off

    return ipv6_off(joint.host, device)


def up(joint: Joint, device: str) -> Step:
    """The device is up."""
    return Step(joint.host, f"bring {device} up", ("ip", "link", "set", "dev", device, "up"))


def enslave(joint: Joint, device: str, master: str) -> Step:
    """The device is a port of the bridge; an interface that outlives the run is taken out again."""
    return port_step(joint.host, device, master, made=joint.made or device != joint.uplink)


def port_step(host: str, device: str, master: str, *, made: bool) -> Step:
    """The device is a port of the bridge. made: for the run; an interface that outlives it is taken out again."""
    return Step(
        host=host,
        title=f"make {device} a port of {master}",
        do=("ip", "link", "set", "dev", device, "master", master),
        undo=None if made else ("ip", "link", "set", "dev", device, "nomaster"),
        present=None if made else ("test", "-e", f"/sys/class/net/{device}/brport"),
        check=Check(("ip", "-j", "link", "show", "dev", device), expected=master, read=_master),
    )


def host_address(joint: Joint, device: str) -> list[Step]:
    """The host's address on the segment, on the device that stands for it there, and its neighbours'."""
    if not joint.has_host:
        return []
    addressed = Step(
        host=joint.host,
        title=f"give {joint.host} its address",
        do=("ip", "addr", "add", str(joint.address), "dev", device),
    )
    known = [Neighbour(port.end, port.address, port.mac) for port in joint.ports] + list(joint.others)
    return [addressed, *(neighbour_step(joint.host, device, neighbour) for neighbour in known)]


def neighbour_step(host: str, device: str, neighbour: Neighbour) -> Step:
    """The neighbour's hardware address is known and stays so."""
    address = str(neighbour.address.ip)
    return Step(
        host=host,
        title=f"add the neighbour entry of {neighbour.end} on {host}, so that no ARP is sent between packets",
        do=("ip", "neigh", "replace", address, "lladdr", neighbour.mac, "dev", device, "nud", "permanent"),
    )


def free_port(host: str, device: str) -> Step:
    """An interface that others use as a port is theirs: the kernel would move it silently."""
    return Step(
        host=host,
        title=f"{device} is not a port of another bridge",
        do=(),
        check=Check(
            ("ip", "-j", "link", "show", "dev", device),
            expected=NO_BRIDGE,
            read=_master,
            remedy=f"remove it from that bridge: `ip link set dev {device} nomaster`, or choose another interface",
        ),
    )


def make_bridge(host: str, bridge: str, mtu: int, mac: str = "") -> Step:
    """The bridge, without a port. mac: its own address; that of a port if not given."""
    address = ("address", mac) if mac else ()
    options = ("stp_state", "0", "forward_delay", "0", "mcast_snooping", "0")
    return Step(
        host=host,
        title="make the bridge",
        do=("ip", "link", "add", "name", bridge, *address, "mtu", str(mtu), "type", "bridge", *options),
        undo=("ip", "link", "del", "dev", bridge),
        present=("test", "-e", f"/sys/class/net/{bridge}"),
    )


def no_filters(host: str) -> Step:
    """Where br_netfilter is loaded, bridged packets would go through the firewall's rules as well."""
    keys = [f"net.bridge.bridge-nf-call-{name}" for name in NO_FILTER]
    return Step(
        host=host,
        title="no firewall rules on the bridge's path",
        # A kernel without br_netfilter has no such key: -e passes over it.
        do=("sysctl", "-qew", *(f"{key}=0" for key in keys)),
        undo=("sh", "-c", '[ -z "$0" ] || sysctl -qew $0', "{settings}"),
        before=Before(("sysctl", "-e", *keys), read=former_settings),
        check=Check(("sysctl", "-ne", *keys), expected="", read=lambda output: output.replace("0", "").strip()),
    )


def former_settings(output: str) -> Mapping[str, str]:
    """`{"settings": "KEY=1 KEY=1"}`: what `sysctl` prints, for it to set again; empty where there are no such keys."""
    return {"settings": output.replace(" = ", "=").strip().replace("\n", " ")}


def _known_addresses(joint: Joint, site: Site) -> list[Step]:
    """Entries that do not age: a guest that only listens would be forgotten, and its packets flooded."""
    known = [(tap_device(port, site), port.mac, port.guest) for port in joint.ports]
    known += [(joint.uplink, other.mac, str(other.end)) for other in joint.others if joint.uplink]
    return [known_address(joint.host, device, mac, who) for device, mac, who in known]


def known_address(host: str, device: str, mac: str, who: str) -> Step:
    """The bridge that the device is a port of knows that the address is there."""
    return Step(
        host=host,
        title=f"add a static forwarding entry for {who}",
        do=("bridge", "fdb", "replace", mac, "dev", device, "master", "static"),
        check=Check(("bridge", "-j", "fdb", "show", "dev", device), expected=mac, read=_has_address(mac)),
    )


def _master(output: str) -> str:
    return str(json.loads(output)[0].get("master", NO_BRIDGE))


def _has_address(mac: str) -> Callable[[str], str]:
    def read(output: str) -> str:
        found = [entry["mac"] for entry in json.loads(output)]
        return mac if mac in found else ", ".join(found) or "none"

    return read
