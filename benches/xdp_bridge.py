"""Forwarding from a veth to a guest's tap: latlab's XDP bridge against the kernel bridge alone.

    benches/xdp_bridge.py [--rounds 7] [--seconds 2] [--size 64]

The two run in turn, round by round, on the same interfaces, in two ways:

driver  The kernel hands frames to the XDP program as a NIC's driver does, before they are packets of its own. latlab's
        program redirects them; one that passes everything leaves them to the kernel bridge. A burst goes into the tap's
        empty queue and is taken out afterwards, so the figure is forwarding alone. Every frame has to arrive.
sender  With the agent at the bridge, and without: a process sends by a veth as fast as it can, and forwards itself,
        as is the way of a veth; the other CPU empties the tap. Counted is what came out of it. A veth makes packets
        of the kernel first and frames for XDP of those, so it shows what XDP costs where no NIC spares that work. "cpu"
        is the sending CPU's time for each packet: sending and forwarding, not taking in.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import os
import secrets
import select
import struct
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bed import need_root, quantile, ratios, tool
from bpf import inside, program_by_id, program_that_passes, run_live

from latlab.testbed.agent_binary import find_agent

NAMES = ("xdp bridge", "kernel bridge")
SENDER_CPU, READER_CPU = 0, 1
QUEUE = 16_384
BURST = 8_192  # a queue just emptied has not all its places free at once
GUEST_MAC, GUEST, SENDER = "02:00:00:00:00:02", "10.78.0.2", "10.78.0.1"
TUNSETIFF, IFF_TAP, IFF_NO_PI = 0x400454CA, 2, 0x1000
BURSTS = 40
WARM_S = 0.3


@dataclass(frozen=True)
class Measured:
    """Of one run: packets out of the tap, in how many ns, and the sending CPU's ns meanwhile."""

    packets: int
    elapsed_ns: int
    busy_ns: int
    agent: dict[str, Any] | None

    @property
    def per_s(self) -> float:
        """Packets a second."""
        return self.packets * 1e9 / self.elapsed_ns

    @property
    def ns(self) -> float:
        """ns for each packet."""
        return self.elapsed_ns / self.packets


class Agent:
    """`latlab-agent VERB` in a namespace, ready."""

    def __init__(self, namespace: str, verb: str, spec: dict[str, Any]) -> None:
        self._process = subprocess.Popen(
            ["ip", "netns", "exec", namespace, str(find_agent()), verb],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.say(spec)
        self.hear("ready")

    def say(self, document: dict[str, Any]) -> None:
        """Send it to the agent."""
        assert self._process.stdin
        self._process.stdin.write(json.dumps(document) + "\n")
        self._process.stdin.flush()

    def hear(self, event: str) -> dict[str, Any]:
        """The next event of that name; ends the benchmark with the agent's words if it failed."""
        assert self._process.stdout
        for line in self._process.stdout:
            said: dict[str, Any] = json.loads(line)
            if said["event"] == event:
                return said
            if said["event"] == "error":
                sys.exit(str(said))
        sys.exit(f"the agent ended before {event!r}")

    def stop(self) -> dict[str, Any]:
        """What it counted; it has ended."""
        self.say({"stop": True})
        done = self.hear("done")
        self._process.wait()
        return done


class Bed:
    """A namespace that sends, one with a bridge between a veth from there and a tap, which this process reads."""

    def __init__(self, tag: str) -> None:
        self.sender, self.switch = f"bench-{tag}-a", f"bench-{tag}-b"
        for name in (self.sender, self.switch):
            tool(["ip", "netns", "add", name], 10)
            tool(["ip", "netns", "exec", name, "sysctl", "-qw", "net.ipv6.conf.default.disable_ipv6=1"], 10)
        self.ip("link", "add", "br0", "type", "bridge", "stp_state", "0", "forward_delay", "0", "mcast_snooping", "0")
        self.ip("link", "add", "eth0", "type", "veth", "peer", "name", "eth0", "netns", self.sender)
        self.tap = self._open_tap()
        self.ip("link", "set", "tap0", "txqueuelen", str(QUEUE))
        for port in ("eth0", "tap0"):
            self.ip("link", "set", port, "master", "br0", "up")
        self.ip("link", "set", "br0", "up")
        # What netfilter would cost the kernel bridge is not what is compared.
        with contextlib.suppress(FileNotFoundError):
            self._write_in_switch("/proc/sys/net/bridge/bridge-nf-call-iptables", "0")
        a = ("ip", "-n", self.sender)
        tool([*a, "addr", "add", f"{SENDER}/24", "dev", "eth0"], 10)
        tool(["ip", "netns", "exec", self.sender, "ethtool", "-K", "eth0", "tx", "off"], 10)
        tool([*a, "link", "set", "eth0", "up"], 10)
        tool([*a, "neigh", "replace", GUEST, "lladdr", GUEST_MAC, "dev", "eth0"], 10)
        self.mac = json.loads(tool([*a, "-j", "link", "show", "eth0"], 10))[0]["address"]
        for mac, port in ((GUEST_MAC, "tap0"), (self.mac, "eth0")):
            tool(["bridge", "-n", self.switch, "fdb", "replace", mac, "dev", port, "master", "static"], 10)

    def ip(self, *arguments: str) -> None:
        """Run `ip` in the bridge's namespace."""
        tool(["ip", "-n", self.switch, *arguments], 10)

    def remove(self) -> None:
        """Remove all of it."""
        os.close(self.tap)
        for name in (self.sender, self.switch):
            tool(["ip", "netns", "del", name], 10)

    def _open_tap(self) -> int:
        with inside(self.switch):
            tap = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
            fcntl.ioctl(tap, TUNSETIFF, struct.pack("16sH22x", b"tap0", IFF_TAP | IFF_NO_PI))
        return tap

    def _write_in_switch(self, path: str, text: str) -> None:
        with inside(self.switch):
            Path(path).write_text(text)


def busy_ns(cpu: int) -> int:
    """How long the CPU was not idle since boot."""
    line = next(line for line in Path("/proc/stat").read_text().splitlines() if line.startswith(f"cpu{cpu} "))
    user, nice, system, _idle, _iowait, irq, softirq, *_ = map(int, line.split()[1:])
    return (user + nice + system + irq + softirq) * 1_000_000_000 // os.sysconf("SC_CLK_TCK")


def empty(tap: int, most: int) -> int:
    """How many packets have been taken out of the tap: all, or `most`."""
    for taken in range(most):
        try:
            os.read(tap, 2048)
        except BlockingIOError:
            return taken
    return most


def take_in(tap: int, seconds: float) -> tuple[int, int, int]:
    """Packets out of the tap, in how many ns, and the sending CPU's ns meanwhile, after a start that is not counted."""
    begin = time.monotonic() + WARM_S
    end = begin + seconds
    packets = started = busy = 0
    while True:
        came = empty(tap, 256)
        packets += came
        if came < 256:
            select.select([tap], [], [], 0.01)
        now = time.monotonic()
        if now < begin:
            packets = 0
        elif not started:
            packets, started, busy = 0, time.monotonic_ns(), busy_ns(SENDER_CPU)
        elif now >= end:
            return packets, time.monotonic_ns() - started, busy_ns(SENDER_CPU) - busy


def beside(bed: Bed) -> Agent:
    """The agent next to the kernel bridge."""
    return Agent(bed.switch, "bridge", {"bridge": "br0", "ports": ["eth0", "tap0"], "mode": "native", "realtime": {}})


def forward(bed: Bed, name: str, size: int) -> float:
    """ns for each frame of all bursts; ends the benchmark if one did not arrive."""
    agent = beside(bed) if name == NAMES[0] else None
    link = json.loads(tool(["ip", "-n", bed.switch, "-j", "link", "show", "eth0"], 10))[0]
    program = program_by_id(link["xdp"]["prog"]["id"]) if agent else program_that_passes()
    payload = b"\x88\xb5" + bytes(size + 28)  # as long as the UDP packet of this payload
    frame = bytes.fromhex((GUEST_MAC + bed.mac).replace(":", "")) + payload
    empty(bed.tap, 2 * QUEUE)
    took = arrived = 0
    try:
        for _ in range(BURSTS):
            with inside(bed.switch):
                took += run_live(program, frame, link["ifindex"], BURST)
            arrived += empty(bed.tap, 2 * QUEUE)
    finally:
        os.close(program)
    counted = agent.stop()["ports"][0] if agent else {"redirected": arrived, "dropped": 0}
    if {arrived, counted["redirected"]} != {BURSTS * BURST}:
        sys.exit(f"{name}: {arrived} of {BURSTS * BURST} frames arrived; the agent counted {counted}")
    return took / BURSTS


def measure(bed: Bed, name: str, size: int, seconds: float) -> Measured:
    """One run."""
    agent = beside(bed) if name == NAMES[0] else None
    source = Agent(bed.sender, "flood", {
        "role": "source", "source": f"{SENDER}:0", "destination": f"{GUEST}:5600", "flows": 1, "size": size,
        "rate_bps": None, "priority": 0, "duration_ns": 3600_000_000_000, "realtime": {"cpus": [SENDER_CPU]},
    })  # fmt: skip
    source.say({"start_in_ns": 0})
    found = take_in(bed.tap, seconds)
    source.stop()
    return Measured(*found, agent.stop() if agent else None)


def main() -> None:
    """Runs the rounds and prints each, then the ratios."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rounds", type=int, default=7)
    arguments.add_argument("--seconds", type=float, default=2.0)
    arguments.add_argument("--size", type=int, default=64, help="bytes of UDP payload")
    given = arguments.parse_args()
    need_root()
    os.sched_setaffinity(0, {READER_CPU})
    found: dict[str, list[Measured]] = {name: [] for name in NAMES}
    alone: dict[str, list[float]] = {name: [] for name in NAMES}
    bed = Bed(secrets.token_hex(2))
    try:
        for number in range(given.rounds):
            # Each round begins with the other one, so that none always follows the same.
            for name in sorted(NAMES, reverse=bool(number % 2)):
                alone[name].append(forward(bed, name, given.size))
                ns = alone[name][-1]
                print(f"round {number + 1}  driver  {name:13}  {1e9 / ns:11,.0f} packets/s  {ns:6.0f} ns a packet")
            for name in sorted(NAMES, reverse=bool(number % 2)):
                run = measure(bed, name, given.size, given.seconds)
                found[name].append(run)
                counted = f"  dropped {run.agent['ports'][0]['dropped']}" if run.agent else ""
                print(
                    f"round {number + 1}  sender  {name:13}  {run.per_s:11,.0f} packets/s  {run.ns:6.0f} ns a packet  "
                    f"cpu {run.busy_ns / run.packets:6.0f} ns{counted}",
                    flush=True,
                )
    finally:
        bed.remove()
    print("xdp bridge ÷ kernel bridge, min / median / max:")
    series = {"driver": alone, "sender": {name: [run.ns for run in runs] for name, runs in found.items()}}
    for way, times in series.items():
        ours, theirs = (times[name] for name in NAMES)
        rates = [[1e9 / ns for ns in one] for one in (ours, theirs)]
        print(f"  {way}  packets/s    {ratios(*rates)}")
        medians = " and ".join(f"{quantile(times[name], 0.5):.0f} ns" for name in NAMES)
        print(f"  {way}  ns a packet  {ratios(ours, theirs)}   medians {medians}")


if __name__ == "__main__":
    main()
