"""Namespaces and cables for the agent, sockets of the test's own in them, and the agents that run there."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import socket
from collections.abc import Iterator
from typing import Any, Self

from support.agent.process import PATIENCE_S, Agent
from support.machine import CLONE_NEWNET, LIBC, run, until, until_it_is

ETH_P_ALL = 3
SOL_PACKET = 263
PACKET_AUXDATA = 8
SO_TIMESTAMPING = 37
RX_SOFTWARE, SOFTWARE = 1 << 3, 1 << 4


class Bed:
    """Cables between namespaces. Cable n has 10.78.n.1 at its first end and 10.78.n.2 at its second.

    Its interface is called after the namespace at the other end. Neighbours are known and IPv6 is off, so nothing but
    what is sent on purpose is on a cable.
    """

    def __init__(self, *cables: tuple[str, str]) -> None:
        self._agents: list[Agent] = []
        for name in dict.fromkeys(name for cable in cables for name in cable):
            run("ip", "netns", "add", name)
            # No limit on how many ports are said to be unreachable: one is shared by all that happens on a machine.
            settings = ("net.ipv6.conf.default.disable_ipv6=1", "net.ipv4.icmp_ratemask=0")
            run("ip", "netns", "exec", name, "sysctl", "-qw", *settings)
            run("ip", "-n", name, "link", "set", "lo", "up")
        for number, (first, second) in enumerate(cables):
            ends = ((first, second, f"10.78.{number}.1"), (second, first, f"10.78.{number}.2"))
            veth = ("type", "veth", "peer", "name", first, "netns", second)
            run("ip", "-n", first, "link", "add", "name", second, *veth)
            for (here, there, address), (*_, other) in zip(ends, reversed(ends), strict=True):
                run("ip", "-n", here, "addr", "add", f"{address}/24", "dev", there)
                run("ip", "-n", here, "link", "set", there, "address", mac(address), "up")
                run("ip", "-n", here, "neigh", "replace", other, "lladdr", mac(other), "dev", there)
        for first, second in cables:
            until_it_is(second, namespace=first)
            until_it_is(first, namespace=second)
        self._stamped = [self.udp(first, "127.0.0.1") for first, _ in cables[:1]]
        for own in self._stamped:
            until_stamped(own)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        for agent in self._agents:
            agent.kill()
        for own in self._stamped:
            own.close()

    def agent(self, namespace: str, verb: str, spec: Any, *, before: tuple[str, ...] = ()) -> Agent:
        """The agent, told its spec (an object, or the line itself). before: a command that starts it, as setpriv."""
        agent = Agent(("ip", "netns", "exec", namespace, *before), verb, spec)
        self._agents.append(agent)
        return agent

    def udp(self, namespace: str, address: str, port: int = 0) -> socket.socket:
        """A UDP socket bound in the namespace."""
        with inside(namespace):
            made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        made.setsockopt(socket.SOL_SOCKET, 33, 32 << 20)  # SO_RCVBUFFORCE
        made.settimeout(PATIENCE_S)
        made.bind((address, port))
        return made

    def tap(self, namespace: str, interface: str) -> socket.socket:
        """A socket that sees every frame that comes in at the interface, with what the kernel took off it."""
        with inside(namespace):
            made = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
        made.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
        made.setsockopt(socket.SOL_SOCKET, 33, 32 << 20)
        made.settimeout(PATIENCE_S)
        made.bind((interface, ETH_P_ALL))
        return made

    def sent(self, namespace: str, interface: str) -> int:
        """How many packets have left the namespace by the interface."""
        path = f"/sys/class/net/{interface}/statistics/tx_packets"
        return int(run("ip", "netns", "exec", namespace, "cat", path))


def reject(host: str) -> None:
    """Nothing; from now on the host's firewall refuses each datagram that comes in, and says so (ICMP, code 13)."""
    enter = ("ip", "netns", "exec", host, "nft", "add")
    run(*enter, "table", "inet", "closed")
    run(*enter, "chain", "inet", "closed", "input", "{ type filter hook input priority 0 ; }")
    run(
        *enter,
        *[
            "rule",
            "inet",
            "closed",
            "input",
            "meta",
            "l4proto",
            "udp",
            "reject",
            "with",
            "icmp",
            "type",
            "admin-prohibited",
        ],
    )


def until_stamped(own: socket.socket) -> None:
    """Nothing; the kernel takes timestamps of what comes in, and will as long as this socket is there.

    It begins to once a work item has run (net_enable_timestamp() of net/core/dev.c), which waits where a CPU is held at
    SCHED_FIFO. What comes in before that has none.
    """
    own.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPING, RX_SOFTWARE | SOFTWARE)

    def is_stamped() -> bool:
        own.sendto(b"", own.getsockname())
        return bool(own.recvmsg(1, 128)[1])

    until(is_stamped)


def mac(address: str) -> str:
    """The MAC address of the cable's end that has this IPv4 address."""
    _, _, cable, end = address.split(".")
    return f"02:00:00:00:{int(cable):02x}:{int(end):02x}"


@contextlib.contextmanager
def inside(namespace: str) -> Iterator[None]:
    """Sockets that this thread makes are the namespace's."""
    back = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    there = os.open(f"/run/netns/{namespace}", os.O_RDONLY)
    try:
        _enter(there)
        yield
    finally:
        _enter(back)
        os.close(there)
        os.close(back)


def _enter(descriptor: int) -> None:
    if LIBC.setns(descriptor, CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def refused(bed: Bed, verb: str, spec: Any, where: str) -> dict[str, Any]:
    """The error of an agent told this spec: all it said, with every part a person needs; nothing was sent."""
    agent = bed.agent("ecu" if verb in ("listen", "pong") else "sensor", verb, spec)
    if spec == b"":
        agent.hang_up()
    error = only_error(agent)
    assert set(error) == {"event", "what", "where", "remedy", "errno"}
    assert where in error["where"], json.dumps(error)
    assert bed.sent("sensor", "ecu") == bed.sent("ecu", "sensor") == 0
    return error


def only_error(agent: Agent) -> dict[str, Any]:
    """The error that is all the agent said before it ended."""
    assert agent.ended() == 1, agent.events
    (error,) = agent.events
    assert error["event"] == "error"
    assert error["what"] and error["remedy"]
    assert "panicked" not in agent.stderr()
    return error
