"""Half a round trip over Cyclone DDS: our agent's `dds` against ddsperf, both in a closed loop with listeners.

    benches/latency_ddsperf.py [--rounds 5] [--size 200] [--seconds 3] [--cpus 0,0]

All measuring threads of who asks run on the first CPU, all of who answers on the second: where a thread may
go to either, the scheduler's choice makes a threefold difference, and a run keeps the one it fell into. The two run in
turn, round by round, on the same two namespaces, over the same interface with the same configuration and bytes on the
wire (ddsperf's sizes count the length of its octets, ours do not: 4 bytes).

ddsperf prints medians of seconds only: its figure is the median of those. Ours is the median of all samples, from just
before the write call, as ddsperf counts, to the return of the take. The first second of ddsperf is dropped; we have
none, as we count from when a sample has been there and back.
"""

from __future__ import annotations

import argparse
import asyncio
import secrets
import signal
import tempfile
from pathlib import Path
from statistics import median

import numpy as np
from bed import LAUNCH_LEAD_NS, Setting, need_root, quantile, ratios, two_namespaces

from latlab.recordings.arrow import read_recording
from latlab.run.agent import Agent
from latlab.testbed.apply import TestBed
from latlab.testbed.loads.base import Cores
from latlab.testbed.preflight import find_agent
from latlab.testbed.probes.base import DdsOptions, ToolPlan
from latlab.testbed.probes.dds import Cyclone, DdsPlan, DdsSide, ping_spec, pong_spec
from latlab.testbed.probes.ddsperf import client, failed, measured, server

ASKER = Cyclone("eth0", ("10.78.0.2",))
ANSWERER = Cyclone("eth0", ("10.78.0.1",))
LENGTH_BYTES = 4


async def ddsperf(bed: TestBed, size: int, seconds: int, cpus: list[int]) -> tuple[int, float]:
    """How many samples, and the median of the seconds' medians in ns."""
    plan = ToolPlan(
        name="bench",
        kind="ddsperf",
        asker="a",
        answerer="b",
        source_address=ANSWERER.peers[0],
        sink_address=ASKER.peers[0],
        listen_address=ASKER.peers[0],
        asker_interface=ASKER.interface,
        answerer_interface=ANSWERER.interface,
        port=0,
        transport="dds",
        size=size,
        period_ns=None,
        seconds=seconds,
        log="",
        asker_cores=Cores(None, (cpus[0],)),
        answerer_cores=Cores(None, (cpus[1],)),
        dds=DdsOptions(0, reliable=True, take="listener"),
    )
    pong, ping = server(plan), client(plan)
    serving = await bed.spawn(bed.hosts["b"], "ddsperf pong", pong.argv)
    try:
        ended = await bed.hosts["a"].run(ping.argv, timeout_s=seconds + 30, check=False)
        if ended.returncode:
            raise failed(plan, ended.returncode, ended.stdout, ended.stderr)
        told = measured(plan, ended.stdout, ended.stderr)
    finally:
        serving.signal(signal.SIGTERM)
        await serving.communicate()
        serving.settle()
    return sum(one.n for one in told), median(one.p50 for one in told)


async def latlab(bed: TestBed, size: int, seconds: int, cpus: list[int]) -> tuple[int, float]:
    """How many samples, and their median in ns."""
    binary, hosts = str(find_agent()), bed.hosts
    with tempfile.TemporaryDirectory() as place:
        asker, answerer = (
            DdsSide(cyclone, f"{place}/{role}", cpus=(cpu,), realtime={"cpus": [cpu]})
            for cyclone, role, cpu in zip((ASKER, ANSWERER), ("ping", "pong"), cpus, strict=True)
        )
        duration_ns = seconds * 1_000_000_000
        plan = DdsPlan("bench", secrets.token_hex(8), asker, answerer, 0, 1, 2, size - LENGTH_BYTES, None, duration_ns)
        pong = await Agent.start(bed, hosts["b"], binary, "dds", pong_spec(plan))
        ping = await Agent.start(bed, hosts["a"], binary, "dds", ping_spec(plan))
        ping.begin(ping.tai_ns + LAUNCH_LEAD_NS)
        await ping.done
        await ping.stop(bed)
        await pong.stop(bed)
        sent, back = (read_recording(Path(f"{place}/ping.{name}.arrow"), name).table for name in ("sent", "received"))
        both = sent.join(back, on="sequence", suffix="_back")
        took = (both["rx_user_tai_ns"] - both["submit_tai_ns"]).to_numpy() / 2
    return len(took), quantile(np.asarray(took), 0.5)


async def main() -> None:
    """Runs the rounds and prints each figure of each round, then the ratios."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--size", type=int, default=200, help="bytes of a sample, as ddsperf counts them")
    arguments.add_argument("--seconds", type=int, default=3)
    arguments.add_argument("--cpus", default="0,0", help="of who asks, and of who answers")
    given = arguments.parse_args()
    cpus = [int(cpu) for cpu in given.cpus.split(",")]
    need_root()
    found: dict[str, list[float]] = {}
    runs = [("latlab dds", latlab), ("ddsperf", ddsperf)]
    async with two_namespaces(Setting(1_000_000)) as bed:
        for number in range(given.rounds):
            # Each round begins with the other one, so that neither always follows.
            for name, measure in runs[:: 1 if number % 2 else -1]:
                n, middle = await measure(bed, given.size, given.seconds, cpus)
                found.setdefault(name, []).append(middle)
                print(f"round {number + 1}  {name:10}  n {n:7}  median {middle / 1000:7.3f} µs", flush=True)
    print("latlab ÷ ddsperf of the same round, min / median / max:")
    print(f"  median  {ratios(found['latlab dds'], found['ddsperf'])}")


if __name__ == "__main__":
    asyncio.run(main())
