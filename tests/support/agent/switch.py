"""A kernel bridge with stations around it, the agent's fast path next to it, and frames between the stations."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import socket
import struct
from typing import Any

from support.agent.bed import ETH_P_ALL, PACKET_AUXDATA, SOL_PACKET, Bed, inside
from support.agent.process import PATIENCE_S, Agent
from support.machine import run, until, until_it_is

SWITCH = "switch"
BRIDGE = "br0"
ETHERTYPE = 0x88B5
TYPE_8021Q = 0x8100
EVERYBODY = "ff:ff:ff:ff:ff:ff"
QUIET_S = 0.3
"""Nothing more comes once nothing has come for so long."""

PACKET_OUTGOING = 4
TP_STATUS_VLAN_VALID = 1 << 4
TUNSETIFF = 0x400454CA
IFF_TAP, IFF_NO_PI = 2, 0x1000


class Switch(Bed):
    """Bridge `br0` in namespace `switch`. Each station is a namespace with `eth0`, behind the port of the same name."""

    def __init__(self, *stations: str) -> None:
        super().__init__()
        self._ears: dict[str, socket.socket] = {}
        self._taps: dict[str, int] = {}
        run("ip", "netns", "add", SWITCH)
        run("ip", "netns", "exec", SWITCH, "sysctl", "-qw", "net.ipv6.conf.default.disable_ipv6=1")
        self.ip("link", "add", BRIDGE, "type", "bridge", "stp_state", "0", "forward_delay", "0", "mcast_snooping", "0")
        self.ip("link", "set", BRIDGE, "up")
        for name in stations:
            self.add_station(name)

    def __exit__(self, *exception: object) -> None:
        super().__exit__(*exception)
        for ear in self._ears.values():
            ear.close()
        for descriptor in self._taps.values():
            os.close(descriptor)

    def ip(self, *arguments: str) -> str:
        """What `ip` printed in the switch's namespace."""
        return run("ip", "-n", SWITCH, *arguments)

    def fdb(self, *arguments: str) -> str:
        """What `bridge` printed in the switch's namespace."""
        return run("bridge", "-n", SWITCH, *arguments)

    def add_station(self, name: str, *, napi: bool = True) -> None:
        """Nothing; the station is there and its port forwards. napi: it can take natively redirected frames."""
        run("ip", "netns", "add", name)
        run("ip", "netns", "exec", name, "sysctl", "-qw", "net.ipv6.conf.default.disable_ipv6=1")
        self.ip("link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", name)
        if napi:
            run("ip", "netns", "exec", name, "ethtool", "-K", "eth0", "gro", "on")
        run("ip", "-n", name, "link", "set", "eth0", "up")
        self.ip("link", "set", name, "master", BRIDGE, "up")
        with inside(name):
            ear = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
        ear.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
        ear.setsockopt(socket.SOL_SOCKET, 33, 32 << 20)
        ear.setblocking(False)
        ear.bind(("eth0", ETH_P_ALL))
        self._ears[name] = ear
        until_it_is("eth0", namespace=name)
        self.wait_until_forwarding(name)

    def add_tap(self, name: str, *, queue: int = 1000) -> None:
        """Nothing; the tap is a port, held by the test as by a guest. queue: frames that wait in it at most."""
        with inside(SWITCH):
            self._taps[name] = descriptor = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
            fcntl.ioctl(descriptor, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TAP | IFF_NO_PI))
        self.ip("link", "set", name, "txqueuelen", str(queue))
        self.ip("link", "set", name, "master", BRIDGE, "up")
        self.wait_until_forwarding(name)

    def wait_until_forwarding(self, port: str) -> None:
        """Nothing; the kernel bridge forwards what comes in at the port."""
        until(lambda: json.loads(self.fdb("-j", "link", "show", "dev", port))[0]["state"] == "forwarding")

    def place(self, mac: str, port: str, *more: str) -> None:
        """Nothing; the kernel bridge knows the MAC address behind the port, and does not forget it."""
        self.fdb("fdb", "replace", mac, "dev", port, "master", "static", *more)

    def send(self, station: str, *frames: bytes) -> None:
        """Nothing; the frames have left the station, or the guest that holds the tap."""
        for frame in frames:
            if station in self._taps:
                os.write(self._taps[station], frame)
            else:
                self._ears[station].send(frame)

    def heard(self, station: str, expected: int | None = None) -> list[bytes]:
        """Our frames that came to the station since the last call, with their tags: `expected`, or while any come."""
        found: list[bytes] = []
        source: Any = self._taps.get(station, self._ears.get(station))
        while expected is None or len(found) < expected:
            patience = QUIET_S if expected is None else PATIENCE_S
            if not select.select([source], [], [], patience)[0]:
                break
            with contextlib.suppress(BlockingIOError):
                frame = os.read(source, 65536) if station in self._taps else _received(source)
                if frame is not None and frame[12:] != b"" and ETHERTYPE.to_bytes(2) in (frame[12:14], frame[16:18]):
                    found.append(frame)
        return found

    def bridging(self, *ports: str, before: tuple[str, ...] = (), **changes: Any) -> Agent:
        """The agent next to the kernel bridge, ready; changes replace parts of its spec."""
        agent = self.unready(*ports, before=before, **changes)
        agent.until("ready")
        return agent

    def unready(self, *ports: str, before: tuple[str, ...] = (), **changes: Any) -> Agent:
        """The agent, told its spec."""
        spec = {"bridge": BRIDGE, "ports": list(ports), "mode": "auto", "realtime": {}}
        return self.agent(SWITCH, "bridge", spec | changes, before=before)

    def programs(self) -> dict[str, int]:
        """How each port's XDP program is attached (1 native, 2 generic), for those that have one."""
        links = json.loads(self.ip("-j", "link"))
        return {link["ifname"]: link["xdp"]["mode"] for link in links if "xdp" in link}


def mac(station: int) -> str:
    """The MAC address of a station by number."""
    return f"02:00:00:00:00:{station:02x}"


def frame(source: str, destination: str, number: int = 0, *, vlan: int | None = None) -> bytes:
    """An Ethernet frame of 64 bytes, or 68 with a tag; the number is in it."""
    addresses = bytes.fromhex((destination + source).replace(":", ""))
    tag = b"" if vlan is None else struct.pack(">HH", TYPE_8021Q, vlan)
    return addresses + tag + struct.pack(">HI", ETHERTYPE, number).ljust(52, b"\0")


def frames(source: str, destination: str, count: int, *, vlan: int | None = None) -> list[bytes]:
    """So many frames, numbered."""
    return [frame(source, destination, number, vlan=vlan) for number in range(count)]


def stopped(agent: Agent) -> dict[str, dict[str, Any]]:
    """What the agent counted, by port, after it was told to stop."""
    agent.tell(stop=True)
    counted = agent.until("done")["ports"]
    assert agent.ended() == 0
    return by_port(counted)


def by_port(counted: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Counters without the port's name in them."""
    return {port["interface"]: {key: port[key] for key in port if key != "interface"} for port in counted}


def _received(ear: socket.socket) -> bytes | None:
    """The frame as it was on the wire; None if it is one that the station sent."""
    taken, beside, _, address = ear.recvmsg(65536, socket.CMSG_SPACE(20))
    if address[2] == PACKET_OUTGOING:
        return None
    for level, kind, data in beside:
        if (level, kind) == (SOL_PACKET, PACKET_AUXDATA):
            status, *_, tci, _ = struct.unpack("IIIHHHH", data)
            if status & TP_STATUS_VLAN_VALID:
                return taken[:12] + struct.pack(">HH", TYPE_8021Q, tci) + taken[12:]
    return taken
