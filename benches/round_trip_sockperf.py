"""A UDP round trip in a closed loop: latlab's ping and pong against `sockperf ping-pong`.

    benches/round_trip_sockperf.py [--rounds 5] [--seconds 3] [--size 64] [--cpus 0,0]

All measuring threads of who asks run on the first CPU, all of who answers on the second: where a thread may go to
either, the scheduler's choice makes a manifold difference. The two run in turn, round by round, on the same two
namespaces, with payloads of the same size; both wait in a blocking receive call. Both figures are whole round trips
from just before the send call to the return of the receive call, in ns, of every sample that came back: that latlab
has recorded each is checked.

Each is run in several ways a round. latlab: with the kernel's timestamps of every packet by BPF programs (`timestamps:
{by: ebpf}`); with the socket's; with the socket's, but without those of transmission; and with `timestamps: user`,
without any, which is what sockperf does.
sockperf: as it is installed, and under SCHED_FIFO as latlab is. latlab is compared with either. No CPU sleeps deeply.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import secrets
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from bed import LAUNCH_LEAD_NS, TALKER_FIFO, Setting, awake, mean_ratio, need_root, ratios, two_namespaces
from latency_sockperf import Peer
from numpy.typing import NDArray
from rounds import COMPARED, side_by_side

from latlab.recordings.arrow import read_recording
from latlab.run.agent import Agent
from latlab.run.probe_specs import ping_spec, pong_spec
from latlab.run.specs import BedFacts
from latlab.scenario import Scenario, parse
from latlab.testbed.apply import TestBed
from latlab.testbed.preflight import find_agent

PORT = 11112
OURS = ("latlab", "latlab, socket", "latlab, socket, no tx stamps", "latlab, user")
THEIRS = ("sockperf", "sockperf FIFO")


@dataclass(frozen=True)
class Trips:
    """What both are given: seconds, bytes of payload, a CPU for who asks and one for who answers, and over what."""

    seconds: int
    size: int
    cpus: tuple[int, int]
    transport: str = "udp"


def scenario(trips: Trips, timestamps: str, by: str) -> Scenario:
    """One ping from `a` to `b`, in a closed loop. by: who takes the kernel's timestamps."""
    parsed = parse(
        {
            "name": "bench",
            "hosts": {"a": {"kind": "netns"}, "b": {"kind": "netns"}},
            "links": [{"ends": ["a.eth0", "b.eth0"]}],
            "probes": {
                "trip": {
                    "probe": "ping",
                    "from": "a",
                    "to": "b",
                    "size": f"{trips.size}B",
                    "transport": trips.transport,
                    "timestamps": timestamps,
                }
            },
            "tuning": {
                "a": {"talker": {"fifo": TALKER_FIFO, "cpus": [trips.cpus[0]]}},
                "b": {"listener": {"fifo": TALKER_FIFO, "cpus": [trips.cpus[1]]}},
            },
            "timestamps": {"by": by},
            "duration": f"{trips.seconds}s",
        }
    )
    if parsed.scenario is None:
        raise ValueError(parsed.findings)
    return parsed.scenario


async def latlab(
    bed: TestBed, trips: Trips, timestamps: str, *, outgoing: bool = True, by: str = "socket"
) -> NDArray[np.int64]:
    """Each round trip in ns; outgoing: those of transmission among the timestamps. ValueError: one was not recorded."""
    wanted, run_id, binary = scenario(trips, timestamps, by), secrets.token_hex(8), str(find_agent())
    with tempfile.TemporaryDirectory() as place:
        asks = ping_spec(wanted, "trip", BedFacts({}), run_id, f"{place}/ping")
        answers = pong_spec(wanted, "trip", BedFacts({}), run_id, f"{place}/pong")
        if not outgoing:
            for spec in (asks, answers):
                spec["side"]["stamps"] |= {"sched": False, "software": False}
        pong = await Agent.start(bed, bed.hosts["b"], binary, "pong", answers)
        ping = await Agent.start(bed, bed.hosts["a"], binary, "ping", asks)
        ping.begin(ping.tai_ns + LAUNCH_LEAD_NS)
        said = await ping.done
        await ping.stop(bed)
        await pong.stop(bed)
        sent, back = (read_recording(Path(f"{place}/ping.{name}.arrow"), name).table for name in ("sent", "received"))
    both = sent.join(back, on="sequence", suffix="_back")
    if not len(both) == said.sent == said.received:
        raise ValueError(f"{said.sent} asked, {said.received} answered, {len(both)} recorded both ways")
    found: NDArray[np.int64] = (both["rx_user_tai_ns"] - both["submit_tai_ns"]).to_numpy()
    return found


async def sockperf(bed: TestBed, trips: Trips, *, fifo: bool) -> NDArray[np.float64]:
    """Each round trip in ns, its warm-up left out."""

    def pinned(cpu: int, *argv: str) -> tuple[str, ...]:
        policy = ("chrt", "-f", str(TALKER_FIFO)) if fifo else ("chrt", "-o", "0")
        return ("taskset", "-c", str(cpu), *policy, "sockperf", *argv, "-i", "10.78.0.2", "-p", str(PORT))

    serving = await Peer.start(bed, "b", pinned(trips.cpus[1], "server"))
    try:
        await asyncio.sleep(0.3)
        with tempfile.TemporaryDirectory() as place:
            log = Path(place) / "log.csv"
            asked = ("-m", str(trips.size), "-t", str(trips.seconds), "--full-rtt", "--full-log", str(log))
            asking = await Peer.start(bed, "a", (*pinned(trips.cpus[0], "ping-pong"), *asked))
            await asking.ended(trips.seconds + 30)
            return read_log(log)
    finally:
        await serving.kill()


def read_log(log: Path) -> NDArray[np.float64]:
    """From sockperf's full log (packet, txTime, rxTime in s): the round trips in ns."""
    lines = log.read_text().splitlines()
    first = next((n for n, line in enumerate(lines) if line.startswith("packet,")), len(lines)) + 1
    rows = [line.split(",")[1:3] for line in lines[first:] if line.count(",") == 3]
    sent, answered = (np.array([float(row[at]) for row in rows]) for at in range(2))
    return np.asarray((answered - sent) * 1e9, np.float64)


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
    trips = Trips(given.seconds, given.size, (asker, answerer))
    with awake():
        async with two_namespaces(Setting(1_000_000)) as bed:
            found = await side_by_side(
                {
                    OURS[0]: lambda: latlab(bed, trips, "kernel", by="ebpf"),
                    THEIRS[0]: lambda: sockperf(bed, trips, fifo=False),
                    OURS[1]: lambda: latlab(bed, trips, "kernel"),
                    OURS[2]: lambda: latlab(bed, trips, "kernel", outgoing=False),
                    OURS[3]: lambda: latlab(bed, trips, "user"),
                    THEIRS[1]: lambda: sockperf(bed, trips, fifo=True),
                },
                given.rounds,
            )
    print("latlab ÷ sockperf of the same round, min / median / max, and the geometric mean:")
    for label in COMPARED:
        for name, peer in itertools.product(OURS, THEIRS):
            mine, theirs = found[label][name], found[label][peer]
            print(f"  {label:7} {f'{name} ÷ {peer}':36} {ratios(mine, theirs)}   {mean_ratio(mine, theirs)}")


if __name__ == "__main__":
    asyncio.run(main())
