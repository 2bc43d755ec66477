"""How much of a flow of the highest rate `latlab-agent watch` records, whole and as a sample, and what is lost of it.

    benches/watch_sample.py [--rounds 3] [--packets 1000000] [--samples 1 10 100 1000] [--flows FLOW …] [--count]

Frames come in at an interface as fast as the kernel can make them (XDP live frames), and a bridge forwards them into
another namespace: watched where they come in, where they leave the bridge and where they come in again. Each has
another payload. Of each flow and sample a row a round, interleaved: packets/s, what each point recorded of what passed
it, records for which the ring had no room, and packets of the sample that one point has and another has not. With
--count the kernel also counts for how long each program ran (`kernel.bpf_stats_enabled`), which itself takes 30 to
50 ns a run: these are among the figures, and slow the flow.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from itertools import product
from pathlib import Path
from typing import Any

import polars as pl
from bed import awake, need_root
from bpf import inside, program_that_numbers, run_live
from stage_programs import counted
from watch_rate import programs

from latlab.recordings.arrow import read_recording
from latlab.scenario.watched import parse_flow
from latlab.testbed.preflight import find_agent

PORT = 5600
FLOW = f"udp port {PORT}"
RING = 1 << 18
PAYLOAD_AT = 14 + 20 + 8
SENSOR, ECU = "02:00:00:00:00:01", "02:00:00:00:00:02"
NAMESPACES = ("watch-switch", "watch-sink")
POINTS = (("watch-switch", "in0", "in"), ("watch-switch", "out0", "out"), ("watch-sink", "eth0", "in"))


def ip(*words: str) -> None:
    """Run ip."""
    subprocess.run(["ip", *words], check=True)


def make() -> None:
    """A switch with a port where frames come in and one to a sink, which has no use for them."""
    switch, sink = NAMESPACES
    for name in NAMESPACES:
        ip("netns", "add", name)
        quiet = ("sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=1", "net.ipv6.conf.default.disable_ipv6=1")
        subprocess.run(["ip", "netns", "exec", name, *quiet], check=True)
    ip("-n", switch, "link", "add", "in0", "type", "veth", "peer", "name", "other-end")
    ip("-n", switch, "link", "add", "out0", "type", "veth", "peer", "name", "eth0", "netns", sink)
    ip("-n", switch, "link", "add", "br0", "type", "bridge", "mcast_snooping", "0")
    for port in ("in0", "out0"):
        ip("-n", switch, "link", "set", port, "master", "br0")
    for port in ("in0", "other-end", "out0", "br0"):
        ip("-n", switch, "link", "set", port, "up")
    ip("-n", sink, "link", "set", "eth0", "up")
    subprocess.run(["bridge", "-n", switch, "fdb", "replace", ECU, "dev", "out0", "master", "static"], check=True)


def frame() -> bytes:
    """A datagram of 64 bytes; its payload's first 8 are written over."""
    macs = bytes.fromhex(ECU.replace(":", "") + SENSOR.replace(":", ""))
    udp = struct.pack(">HHHH", PORT, PORT, 8 + 64, 0) + bytes(64)
    addresses = socket.inet_aton("10.78.0.1") + socket.inet_aton("10.78.0.2")
    header = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(udp), 0, 0x4000, 9, 17, 0) + addresses
    words = sum(struct.unpack(">10H", header))
    checksum = ~(words + (words >> 16)) & 0xFFFF
    return macs + b"\x08\x00" + header[:10] + struct.pack(">H", checksum) + header[12:] + udp


def points() -> list[dict[str, int]]:
    """The points as the agent has them."""
    found = []
    for namespace, interface, _ in POINTS:
        with inside(namespace):
            inode = os.stat("/proc/thread-self/ns/net").st_ino
            found.append({"netns": inode, "ifindex": socket.if_nametoindex(interface)})
    return found


@contextmanager
def watching(spec: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The agent watches the flow, as the spec has it besides; its `done` is what is yielded, once it has ended."""
    done: dict[str, Any] = {}
    whole = {
        "run_id": secrets.token_hex(8),
        "realtime": {},
        "flow": parse_flow(FLOW),
        "ring_records": RING,
    }
    words = [str(find_agent()), "watch"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as agent:
        assert agent.stdin
        assert agent.stdout
        agent.stdin.write(json.dumps({**whole, **spec}) + "\n")
        agent.stdin.flush()
        said(agent.stdout, "ready")
        yield done
        agent.stdin.write(json.dumps({"stop": True}) + "\n")
        agent.stdin.flush()
        done |= said(agent.stdout, "done")


def one_round(flow: str, sample: int, packets: int) -> str:
    """A row: what came of these packets."""
    with tempfile.TemporaryDirectory() as place:
        asked = {"flow": parse_flow(flow), "points": points(), "sample": sample}
        with watching({"recording": f"{place}/watch", **asked}) as done:
            with inside("watch-switch"):
                ifindex, program = socket.if_nametoindex("in0"), program_that_numbers(PAYLOAD_AT)
                began = time.monotonic()
                run_live(program, frame(), ifindex, packets)
                took_s = time.monotonic() - began
                os.close(program)
            time.sleep(0.5)
            costs = "".join(f"  {name} {ns:.0f} ns" for name, ns in sorted(programs().items()))
        rows = read_recording(Path(f"{place}/watch.watched.arrow"), "watched").table
    seen = [(done["points"][n][way], done["points"][n][f"passed_{way}"]) for n, (_, _, way) in enumerate(POINTS)]
    own = rows.with_columns(pl.col("bytes").bin.slice(PAYLOAD_AT, 8).alias("own"))
    sets = [set(own.filter(point=number)["own"].to_list()) for number in range(len(POINTS))]
    told = ", ".join(f"{recorded} of {passed}" for recorded, passed in seen)
    return (
        f"{flow}  sample {sample:5}  {packets / took_s:9.0f} packets/s  recorded {told}  "
        f"{done['lost'] + done['ring_full']} lost  {len(sets[0] ^ sets[1])} and {len(sets[0] ^ sets[2])} at one only"
        f"{costs}"
    )


def said(lines: Any, event: str) -> dict[str, Any]:
    """The event of this name, once the agent says it."""
    for line in lines:
        found: dict[str, Any] = json.loads(line)
        if found["event"] == event:
            return found
        if found["event"] == "error":
            sys.exit(line)
    sys.exit(f"the agent ended without {event}")


def main() -> None:
    """Run the rounds and print their rows."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--packets", type=int, default=1_000_000)
    arguments.add_argument("--samples", type=int, nargs="+", default=[1, 10, 100, 1000])
    arguments.add_argument("--flows", nargs="+", default=[FLOW])
    arguments.add_argument("--count", action="store_true")
    given = arguments.parse_args()
    need_root()
    try:
        make()
        with awake(), counted() if given.count else nullcontext():
            for _ in range(given.rounds):
                for flow, sample in product(given.flows, given.samples):
                    print(one_round(flow, sample, given.packets), flush=True)
    finally:
        for name in NAMESPACES:
            subprocess.run(["ip", "netns", "delete", name], check=False, stderr=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
