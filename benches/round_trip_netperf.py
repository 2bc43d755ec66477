"""A TCP round trip in a closed loop: latlab's ping and pong against netperf's TCP_RR.

    benches/round_trip_netperf.py [--rounds 5] [--seconds 3] [--size 64] [--cpus 0,0]

All measuring threads of who asks run on the first CPU, all of who answers on the second, latlab's and netperf's alike
under SCHED_FIFO, and no CPU sleeps deeply; they run in turn, round by round, on the same two namespaces. netperf keeps
sums and a coarse histogram, so what is compared is the mean; and the time a transaction takes altogether, which is
the run's length by how many there were, regardless of who reads which clock when. Over TCP neither has timestamps of
the kernel's. That latlab has recorded each transaction is checked.

Where netperf is not installed Debian's is fetched, and unpacked beside.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import tempfile
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

from bed import TALKER_FIFO, Setting, awake, mean_ratio, need_root, ratios, two_namespaces
from latency_sockperf import Peer
from round_trip_sockperf import Trips, latlab

from latlab.imports.netperf import read_round_trips
from latlab.testbed.apply import TestBed
from latlab.testbed.images.packages import fetch, other_components, unpack
from latlab.testbed.probes.netperf import SELECTORS

PORT = 11113
OURS, THEIRS = "latlab", "netperf"
FIGURES = ("mean", "a transaction")


async def ours(bed: TestBed, trips: Trips) -> tuple[float, float]:
    """The mean round trip, and the time a transaction took altogether, µs."""
    taken = await latlab(bed, trips, "user")
    return float(taken.mean()) / 1000, trips.seconds * 1e6 / len(taken)


async def theirs(bed: TestBed, trips: Trips) -> tuple[float, float]:
    """The same of netperf."""

    def pinned(cpu: int, *argv: str) -> tuple[str, ...]:
        return ("taskset", "-c", str(cpu), "chrt", "-f", str(TALKER_FIFO), *argv)

    serving = await Peer.start(bed, "b", pinned(trips.cpus[1], "netserver", "-D", "-4", "-p", str(PORT)))
    try:
        await asyncio.sleep(0.3)
        asked = ("-H", "10.78.0.2", "-p", str(PORT), "-t", "omni", "-l", str(trips.seconds), "-j", "-P", "0")
        what = ("--", "-d", "rr", "-T", "TCP", "-r", f"{trips.size},{trips.size}", "-k", ",".join(SELECTORS))
        asking = await Peer.start(bed, "a", (*pinned(trips.cpus[0], "netperf"), *asked, *what))
        read = read_round_trips(await asking.ended(trips.seconds + 30), "netperf", "a", "b", "")
    finally:
        await serving.kill()
    (figures,) = read.figures
    assert figures.mean is not None and figures.n
    return figures.mean / 1000, float(read.facts["ELAPSED_TIME"]) * 1e6 / figures.n


async def main() -> None:
    """Runs the rounds and prints each figure of each round, then the ratios."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--seconds", type=int, default=3)
    arguments.add_argument("--size", type=int, default=64, help="bytes of payload")
    arguments.add_argument("--cpus", default="0,0", help="of who asks, and of who answers")
    given = arguments.parse_args()
    need_root()
    asker, answerer = (int(cpu) for cpu in given.cpus.split(","))
    trips = Trips(given.seconds, given.size, (asker, answerer), "tcp")
    found: dict[str, dict[str, list[float]]] = {figure: {name: [] for name in (OURS, THEIRS)} for figure in FIGURES}
    with tempfile.TemporaryDirectory() as place, awake():
        provide(Path(place))
        async with two_namespaces(Setting(1_000_000)) as bed:
            runs: dict[str, Callable[[], Awaitable[tuple[float, float]]]] = {
                OURS: partial(ours, bed, trips),
                THEIRS: partial(theirs, bed, trips),
            }
            names = list(runs)
            for number in range(given.rounds):
                first = number % len(names)
                for name in names[first:] + names[:first]:
                    for figure, value in zip(FIGURES, await runs[name](), strict=True):
                        found[figure][name].append(value)
                    shown = "  ".join(f"{figure} {found[figure][name][-1]:8.2f} µs" for figure in FIGURES)
                    print(f"round {number + 1}  {name:{max(map(len, names))}}  {shown}", flush=True)
    print("latlab ÷ netperf of the same round, min / median / max, and the geometric mean:")
    for figure in FIGURES:
        mine, other = found[figure][OURS], found[figure][THEIRS]
        print(f"  {figure:13} {ratios(mine, other)}   {mean_ratio(mine, other)}")


def provide(place: Path) -> None:
    """Put netperf on the PATH. LabError: it cannot be had."""
    if shutil.which("netperf") and shutil.which("netserver"):
        return
    for file in fetch(other_components(place).packages(["netperf"]), place):
        unpack(file, place / "unpacked")
    os.environ["PATH"] += f":{place}/unpacked/usr/bin"


if __name__ == "__main__":
    asyncio.run(main())
