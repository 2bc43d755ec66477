"""What `latlab watch` costs an application that it watches: round trips of sockperf and ddsperf, with and without.

    benches/watch_application.py [--rounds 8] [--seconds 2] [--size 64] [--cpus 0,0]

A round trip passes four points: out of one namespace, into the other, and back. Each round has, interleaved: nobody
watches; our agent at both interfaces; at both interfaces and at the sockets of both programs; two tcpdumps that write
128 bytes of each packet. sockperf is under SCHED_FIFO; of ddsperf, which tells medians of seconds only, half a round
trip with and without our agent at both interfaces. The last lines have the ratios to nobody's rounds.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from bed import Setting, awake, namespace_of, need_root, ratios, two_namespaces
from bpf import inside
from latency_ddsperf import ddsperf
from numpy.typing import NDArray
from round_trip_sockperf import PORT, Trips, sockperf
from rounds import COMPARED, side_by_side
from watch_sample import RING, watching

from latlab.scenario.watched import parse_flow
from latlab.testbed.apply import TestBed

SNAP = 128
INTERFACE = "eth0"
SOCKETS = 0
"""Their number among the interfaces, as src/latlab/run/watching.py has it."""
NOBODY, DDS = "nobody", "ddsperf"
DDS_SIZE, DDS_S = 200, 3
"""Bytes of a sample; its first second is dropped."""


@contextmanager
def watched(bed: TestBed, *, sockets: bool) -> Iterator[None]:
    """Our agent at both ends. ValueError: a record was lost, or a point saw nothing."""
    points = []
    for host in ("a", "b"):
        with inside(namespace_of(bed.hosts[host])):
            netns = os.stat("/proc/thread-self/ns/net").st_ino
            points.append({"netns": netns, "ifindex": socket.if_nametoindex(INTERFACE)})
            points += [{"netns": netns, "ifindex": SOCKETS}] * sockets
    with tempfile.TemporaryDirectory() as place:
        spec = {"recording": f"{place}/watch", "points": points, "snap": SNAP, "flow": parse_flow("udp")}
        with watching(spec) as done:
            yield
    if done["lost"] or done["ring_full"] or not all(one["in"] and one["out"] for one in done["points"]):
        raise ValueError(done)


@contextmanager
def dumped(bed: TestBed) -> Iterator[None]:
    """A tcpdump at each end."""
    with tempfile.TemporaryDirectory() as place:
        dumps = []
        for host in ("a", "b"):
            words = ["tcpdump", "-i", INTERFACE, "-s", str(SNAP), "--time-stamp-precision", "nano", "-n", "-Z", "root"]
            words += ["-B", str(RING * SNAP >> 10), "-w", f"{place}/{host}", f"udp port {PORT}"]
            with inside(namespace_of(bed.hosts[host])):
                dumps.append(subprocess.Popen(words, stderr=subprocess.PIPE, text=True))
        for one in dumps:
            assert one.stderr
            while "listening on" not in one.stderr.readline():
                pass
        yield
        for one in dumps:
            one.terminate()
            one.wait(30)


async def main() -> None:
    """Measure, and print each round and the ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--seconds", type=int, default=2)
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--cpus", default="0,0")
    asked = parser.parse_args()
    need_root()
    first, second = map(int, asked.cpus.split(","))
    trips = Trips(asked.seconds, asked.size, (first, second))
    with awake():
        async with two_namespaces(Setting(period_ns=1_000_000)) as bed:

            async def alone() -> NDArray[np.float64]:
                return await sockperf(bed, trips, fifo=True)

            async def at_interfaces() -> NDArray[np.float64]:
                with watched(bed, sockets=False):
                    return await alone()

            async def at_sockets() -> NDArray[np.float64]:
                with watched(bed, sockets=True):
                    return await alone()

            async def tcpdumps() -> NDArray[np.float64]:
                with dumped(bed):
                    return await alone()

            async def dds() -> NDArray[np.float64]:
                _, half_ns = await ddsperf(bed, DDS_SIZE, max(DDS_S, asked.seconds), [first, second])
                return np.array([half_ns])

            async def watched_dds() -> NDArray[np.float64]:
                with watched(bed, sockets=False):
                    return await dds()

            rows = {
                NOBODY: alone,
                "watch": at_interfaces,
                "watch, with sockets": at_sockets,
                "2 tcpdump": tcpdumps,
                DDS: dds,
                f"{DDS}, watch": watched_dds,
            }
            found = await side_by_side(rows, asked.rounds)
    for figure in COMPARED:
        for name in list(rows)[1:4]:
            print(f"{name} ÷ {NOBODY}, {figure}: {ratios(found[figure][name], found[figure][NOBODY])}")
    print(f"{DDS}, watch ÷ {DDS}, median: {ratios(found['median'][f'{DDS}, watch'], found['median'][DDS])}")


if __name__ == "__main__":
    asyncio.run(main())
