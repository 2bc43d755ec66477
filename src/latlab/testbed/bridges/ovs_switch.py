"""An Open vSwitch of a bridge's own: its database, its two daemons, one bridge in it, and what is read back of them.

Folder, sockets and logs are the run's, so an Open vSwitch that runs on the machine already, and its bridges, are never
touched (ovs-vswitchd(8), ovsdb-server(1), ovs-vsctl(8)).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from latlab.model.bridges import KINDS
from latlab.model.errors import LabError
from latlab.testbed.bridges.base import Joint, lacking_tools
from latlab.testbed.bridges.kernel import host_address, no_ipv6, up
from latlab.testbed.site import Site
from latlab.testbed.step import Argv, Before, Check, Service, Step

SWITCHD = "ovs-vswitchd"
OLDEST = (2, 16)
"""The first with `ovs-appctl fdb/add`."""

KERNEL, USER_SPACE = "system", "netdev"
ALL_FILTERS = "net.ipv4.conf.all.rp_filter"
SHARED = {KERNEL: "ovs-system", USER_SPACE: "ovs-netdev"}
"""The interface that Open vSwitch itself makes for each datapath: one in a network namespace, whatever its bridges."""

READY_MS = 20_000
WAIT_S = 15
UNDO_WAIT_S = 5
OLDEST_ENTRY_S = 3600
"""The longest that Open vSwitch remembers an address it has learned."""

# The daemons tidy up after `del-br` only: if they are killed, what they made remains.
REMOVE_BRIDGE = """
ovs-vsctl --db="$1" --timeout="$2" --if-exists del-br "$3" || :
[ "$4" != system ] || [ ! -e "/sys/class/net/$3" ] || ovs-dpctl del-dp system@ovs-system
for device in ovs-netdev "$3"; do
  [ ! -e "/sys/class/net/$3" ] || [ ! -e "/sys/class/net/$device" ] || ip link del dev "$device"
done
"""


@dataclass(frozen=True)
class OvsPort:
    """One port of the bridge: an interface that is there, or one the switch makes by the type and options given."""

    device: str
    kind: str = ""
    options: tuple[str, ...] = ()


@dataclass(frozen=True)
class Switch:
    """One joint's Open vSwitch. datapath: KERNEL or USER_SPACE. program: its ovs-vswitchd.

    settings: of its table Open_vSwitch, such as other_config:dpdk-init=true. needs: the types of interfaces that its
    build must have.
    """

    joint: Joint
    site: Site
    datapath: str
    why: str
    program: str = SWITCHD
    settings: tuple[str, ...] = ()
    needs: tuple[str, ...] = ("internal", "system")

    @property
    def bridge(self) -> str:
        """The bridge, and its own interface, which has the host's address."""
        return switch_device(self.joint, self.site)

    @property
    def folder(self) -> str:
        """Database, sockets and whatever else the daemons write."""
        return f"{self.site.state}/ovs{self.joint.number}"

    def before_ports(self) -> list[Step | Service]:
        """The daemons run, and the bridge is there, without ports."""
        return [*self._daemons(), self._bridge()]

    def port(self, entry: OvsPort) -> Step:
        """The interface is a port of the bridge."""
        kind = (f"type={entry.kind}",) if entry.kind else ()
        more = ("--", "set", "interface", entry.device, *kind, *entry.options) if kind or entry.options else ()
        return Step(
            host=self.joint.host,
            title=f"make {entry.device} a port of {self.bridge}",
            do=self._vsctl("add-port", self.bridge, entry.device, *more),
            check=Check(
                self._vsctl("--format=json", "--columns=name,ofport,error", "list", "interface"),
                expected=f"{entry.device}: a port",
                read=port_state(entry.device),
                within_ms=READY_MS,
            ),
        )

    def after_ports(self, ports: Mapping[str, str]) -> list[Step]:
        """The bridge is up with the host's address, and knows where everyone is. ports: guest → its port."""
        return [
            self._mtu(),
            no_ipv6(self.joint, self.bridge),
            up(self.joint, self.bridge),
            *host_address(self.joint, self.bridge),
            *self._known_addresses(ports),
        ]

    def link_is_up(self, device: str, who: str) -> Step:
        """The guest's driver and the switch have found each other."""
        return Step(
            host=self.joint.host,
            title=f"wait until {who} and the switch are connected",
            do=(),
            check=Check(
                self._vsctl("--format=json", "--columns=name,link_state", "list", "interface"),
                expected="up",
                read=link_state(device),
                within_ms=READY_MS,
            ),
        )

    def _daemons(self) -> list[Step | Service]:
        host, number = self.joint.host, self.joint.number
        database = f"{self.folder}/conf.db"
        mark = f"external_ids:latlab={self.site.tag}"
        return [
            Step(host, "make the switch's folder", ("mkdir", "-p", self.folder)),
            Step(host, "make the switch's database", ("ovsdb-tool", "create", database)),
            Service(
                host=host,
                title=f"serve the database of switch {number}",
                argv=self._own(
                    "ovsdb-server", database, f"--remote=p{self._database}", f"--unixctl={self.folder}/ovsdb.ctl"
                ),
                log=self.site.log(f"ovsdb-{number}"),
                ready=Check(
                    ("ovsdb-client", "list-dbs", self._database), "Open_vSwitch", _first_line, within_ms=READY_MS
                ),
            ),
            Step(
                host=host,
                title="configure the switch",
                do=self._vsctl("--no-wait", "init", "--", "set", "Open_vSwitch", ".", mark, *self.settings),
            ),
            Service(
                host=host,
                title=f"run switch {number}",
                argv=self._own(self.program, self._database, f"--unixctl={self._control}"),
                log=self.site.log(switch_log(self.joint)),
                ready=Check(
                    self._vsctl("--format=json", "--columns=iface_types", "list", "Open_vSwitch"),
                    expected="has " + ", ".join(self.needs),
                    read=interface_types(self.needs),
                    within_ms=READY_MS,
                ),
            ),
        ]

    def _bridge(self) -> Step:
        mac = (f"other_config:hwaddr={self.joint.mac}",) if self.joint.mac else ()
        shared = SHARED[self.datapath]
        return Step(
            host=self.joint.host,
            title=f"make the bridge in the {self.why}",
            do=self._vsctl(
                *("add-br", self.bridge, "--", "set", "bridge", self.bridge, f"datapath_type={self.datapath}"),
                *("fail-mode=standalone", f"other_config:mac-aging-time={OLDEST_ENTRY_S}", *mac),
                f"external_ids:latlab={self.site.tag}",
            ),
            undo=(
                *("sh", "-c", REMOVE_BRIDGE, "sh", self._database, str(UNDO_WAIT_S)),
                *(self.bridge, self.datapath),
            ),
            present=("test", "-e", f"/sys/class/net/{self.bridge}"),
            check=Check(
                ("ls", "-d", f"/sys/class/net/{self.bridge}", f"/sys/class/net/{shared}"),
                expected=f"{self.bridge}, {shared}",
                read=_last_names,
                within_ms=READY_MS,
            ),
        )

    def _mtu(self) -> Step:
        mtu = str(self.joint.segment.mtu)
        return Step(
            host=self.joint.host,
            title="give the bridge the segment's MTU",
            do=self._vsctl("set", "interface", self.bridge, f"mtu_request={mtu}"),
            check=Check(("cat", f"/sys/class/net/{self.bridge}/mtu"), expected=mtu, within_ms=READY_MS),
        )

    def _known_addresses(self, ports: Mapping[str, str]) -> list[Step]:
        """Entries that do not age: a guest that only listens would be forgotten, and its packets flooded."""
        known = [(ports[port.guest], port.mac, port.guest) for port in self.joint.ports]
        uplink = self.joint.uplink
        known += [(uplink, other.mac, str(other.end)) for other in self.joint.others if uplink]
        return [
            Step(
                host=self.joint.host,
                title=f"add a static forwarding entry for {who}",
                do=self._appctl("fdb/add", self.bridge, device, "0", mac),
                check=Check(self._appctl("fdb/show", self.bridge), expected=f"{mac} static", read=known_address(mac)),
            )
            for device, mac, who in known
        ]

    @property
    def _database(self) -> str:
        return f"unix:{self.folder}/db.sock"

    @property
    def _control(self) -> str:
        return f"{self.folder}/vswitchd.ctl"

    def _vsctl(self, *words: str) -> Argv:
        return ("ovs-vsctl", f"--db={self._database}", f"--timeout={WAIT_S}", *words)

    def _appctl(self, *words: str) -> Argv:
        return ("ovs-appctl", f"--target={self._control}", *words)

    def _own(self, *argv: str) -> Argv:
        """The daemon with every folder it would share with another one put aside."""
        folders = ("OVS_RUNDIR", "OVS_DBDIR", "OVS_LOGDIR", "RUNTIME_DIRECTORY")
        # libxdp would pin what it loads in /sys/fs/bpf, where it outlives the switch.
        return ("env", *(f"{name}={self.folder}" for name in folders), "LIBXDP_SKIP_DISPATCHER=1", *argv)


def switch_device(joint: Joint, site: Site) -> str:
    """The name of the bridge."""
    return site.device(f"o{joint.number}")


def switch_log(joint: Joint) -> str:
    """The name of what ovs-vswitchd writes, among the services' logs."""
    return f"ovs-vswitchd-{joint.number}"


def lacking_switch(joint: Joint, site: Site, datapath: str) -> LabError | None:
    """What prevents latlab's Open vSwitch from running next to what there is."""
    if missing := lacking_tools(site, *KINDS[joint.kind].tools):
        return missing
    version = switch_version(site.machine.say((SWITCHD, "--version")) or "")
    if version and version < OLDEST:
        return LabError(
            f"Open vSwitch {'.'.join(map(str, version))} has no static forwarding entries (`ovs-appctl fdb/add`)",
            remedy=f"Open vSwitch {'.'.join(map(str, OLDEST))} or newer",
        )
    if others := [kind for kind in joint.beside if KINDS[kind].has_switch]:
        return LabError(
            f"{joint.host} has another bridge of kind {others[0]}, and a network namespace can have only one Open "
            "vSwitch",
            remedy="all its guests on one uplink and kind, or a host of kind netns for each",
        )
    if joint.local and SHARED[datapath] in site.machine.interfaces:
        return LabError(
            f"another Open vSwitch has {SHARED[datapath]} in this network namespace",
            remedy=f"remove its bridges (`ovs-vsctl list-br`), or make {joint.host} a host of kind netns",
        )
    return None


def switch_version(said: str) -> tuple[int, ...] | None:
    """Of `ovs-vswitchd --version`, such as (3, 1, 0); None when it does not say."""
    found = re.search(r"\(Open vSwitch\) (\d+)\.(\d+)\.(\d+)", said)
    return tuple(int(part) for part in found.groups()) if found else None


def uplink_flags(joint: Joint) -> list[Step]:
    """An interface that outlives the run is promiscuous afterwards only if it was: a killed switch leaves it so."""
    if joint.made or not joint.uplink:
        return []
    return [
        Step(
            host=joint.host,
            title=f"record whether {joint.uplink} is promiscuous, to restore it",
            do=(),
            undo=("ip", "link", "set", "dev", joint.uplink, "promisc", "{before}"),
            before=Before(("ip", "-j", "link", "show", "dev", joint.uplink), read=promiscuous),
        )
    ]


def heard_once(joint: Joint) -> list[Step]:
    """The host's own stack takes nothing from the uplink, only from the bridge's interface.

    The switch reads copies from a packet socket, and the frames go up the stack as well. To a socket that is bound to
    the bridge's interface they do not belong there: the kernel would reset its own host's connection. By the strict
    reverse path filter (kernel: Documentation/networking/ip-sysctl.rst) they end before that, as the way back is by
    the bridge.
    """
    if not joint.uplink:
        return []
    key = f"net.ipv4.conf.{joint.uplink.replace('.', '/')}.rp_filter"
    return [
        Step(
            host=joint.host,
            title=f"packets from {joint.uplink} go to the switch, and not also to {joint.host}'s own stack",
            do=("sysctl", "-qw", f"{key}=1"),
            undo=None if joint.made else ("sysctl", "-qw", f"{key}={{before}}"),
            before=None if joint.made else Before(("sysctl", "-n", key)),
            # The larger of the two is in force, and 2 is the loose filter, which lets them pass.
            check=Check(
                ("sysctl", "-n", ALL_FILTERS, key),
                expected="1",
                read=lambda output: max(output.split()),
                remedy=f"`sysctl -w {ALL_FILTERS}=0`, if the loose filter is not needed",
            ),
            optional=True,
        )
    ]


def promiscuous(output: str) -> Mapping[str, str]:
    """`{"before": "on" or "off"}`, of `ip -j link show dev`."""
    return {"before": "on" if "PROMISC" in json.loads(output)[0]["flags"] else "off"}


def port_state(device: str) -> Callable[[str], str]:
    """Of `list interface`: `NAME: a port`, or why it is none."""

    def read(output: str) -> str:
        row = _row(output, device)
        if row["error"]:
            return f"{device}: {row['error']}"
        number = row["ofport"]
        return f"{device}: a port" if isinstance(number, int) and number > 0 else f"{device}: not yet"

    return read


def link_state(device: str) -> Callable[[str], str]:
    """Of `list interface`: `up` or `down`."""
    return lambda output: str(_row(output, device)["link_state"] or "unknown")


def interface_types(needs: Sequence[str]) -> Callable[[str], str]:
    """Of `list Open_vSwitch`: `has A, B` with those of `needs` that the running build has."""

    def read(output: str) -> str:
        found = rows(output)[0]["iface_types"]
        there = found if isinstance(found, list) else [found]
        return "has " + ", ".join(name for name in needs if name in there)

    return read


def known_address(mac: str) -> Callable[[str], str]:
    """Of `ovs-appctl fdb/show`: `MAC static`, `MAC` and its age in seconds, or that untagged frames do not know it."""

    def read(output: str) -> str:
        lines = [line.split() for line in output.splitlines()[1:]]
        ages = [age for _, vlan, known, age in lines if (vlan, known) == ("0", mac)]
        return f"{mac} {ages[0]}" if ages else f"{mac} is not known"

    return read


def rows(output: str) -> list[dict[str, Any]]:
    """The rows of `ovs-vsctl --format=json list`; a set (RFC 7047, 5.1) becomes a list, an empty one None."""
    table = json.loads(output)
    return [dict(zip(table["headings"], map(_value, row), strict=True)) for row in table["data"]]


def _value(cell: Any) -> Any:
    if isinstance(cell, list) and len(cell) == 2 and cell[0] == "set":
        return cell[1] or None
    return cell


def _row(output: str, name: str) -> dict[str, Any]:
    return next(row for row in rows(output) if row["name"] == name)


def _first_line(output: str) -> str:
    return output.partition("\n")[0]


def _last_names(output: str) -> str:
    return ", ".join(line.rpartition("/")[2] for line in output.splitlines())
