"""Latency from the intended send to the user's arrival: latlab's talker and listener against `sockperf under-load`.

    benches/latency_sockperf.py [--rounds 5] [--rate 10000] [--size 64]

The two run in turn, round by round, on the same two namespaces, with the same rate and size.

sockperf has no one-way measurement: its figure is half the round trip, counted from just before its send call. Two
things make that comparable. All threads of both run on one CPU, so that every leg, theirs there and back as ours, is
the same work: a send, a softirq, a wake-up of a thread that takes precedence, a switch to it. And what sockperf's
sender was late by is added from its log (send time − schedule), so that both count from the intended send. sockperf's
sender spins all the time, so latlab's spins half of it (a real-time thread that hardly sleeps is throttled).

Each is run twice a round. latlab: as always, with the kernel's transmit timestamps of every packet, which cost the
sender time, and without them, which is what sockperf does. sockperf: as it is installed, and with its
receiving threads under SCHED_FIFO as latlab's is; latlab is compared with the better of the two.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
from bed import TALKER_CPU, Setting, need_root, ours, ratios, two_namespaces
from numpy.typing import NDArray
from rounds import COMPARED, side_by_side

from latlab.testbed.apply import TestBed
from latlab.testbed.supervised import Supervised

PORT = 11111
RECEIVER_FIFO = 95  # above the talker's, so that a packet is taken in as soon as it is there
OURS = ("latlab", "latlab, no tx stamps")
THEIRS = ("sockperf", "sockperf FIFO")


async def sockperf(bed: TestBed, setting: Setting, rate: int, *, fifo: bool) -> NDArray[np.float64]:
    """Half the round trip from the intended send, in ns, of each answered packet."""
    pin = ("taskset", "-c", str(TALKER_CPU))
    server = (*pin, "sockperf", "server", "-i", "10.78.0.2", "-p", str(PORT))
    serving = await Peer.start(bed, "b", server)
    try:
        await asyncio.sleep(0.3)
        with tempfile.TemporaryDirectory() as place:
            log = Path(place) / "log.csv"
            seconds = max(1, round(setting.seconds))
            asking = await Peer.start(
                bed,
                "a",
                (*pin, "sockperf", "under-load", "-i", "10.78.0.2", "-p", str(PORT), "-m", str(setting.size),
                 "-t", str(seconds), "--mps", str(rate), "--reply-every", "1", "--full-rtt", "--full-log", str(log)),
            )  # fmt: skip
            if fifo:
                await asyncio.sleep(0.1)  # its threads are there, and it is still warming up
                serving.make_fifo(RECEIVER_FIFO, main_thread=True)
                asking.make_fifo(RECEIVER_FIFO, main_thread=False)
            await asking.ended(seconds + 30)
            return read_log(log, rate)
    finally:
        await serving.kill()


class Peer:
    """A tool's process on a host of the test bed."""

    def __init__(self, process: Supervised) -> None:
        self._process = process

    @classmethod
    async def start(cls, bed: TestBed, host: str, argv: tuple[str, ...]) -> Peer:
        """The process, journalled like everything on the test bed."""
        return cls(await bed.spawn(bed.hosts[host], argv[3], argv))

    def make_fifo(self, priority: int, *, main_thread: bool) -> None:
        """Make its threads SCHED_FIFO, its first one (which sends, in the client) only if main_thread."""
        assert isinstance(self._process.process, asyncio.subprocess.Process)
        pid = self._process.process.pid
        threads = [int(path.name) for path in Path(f"/proc/{pid}/task").iterdir()]
        for thread in threads:
            if main_thread or thread != pid:
                os.sched_setscheduler(thread, os.SCHED_FIFO, os.sched_param(priority))

    async def ended(self, timeout_s: float) -> str:
        """What the process has printed; it has come to its own end."""
        printed, _ = await asyncio.wait_for(self._process.communicate(), timeout_s)
        self._process.settle()
        return printed.decode()

    async def kill(self) -> None:
        """Kill the process."""
        await self._process.kill()


def read_log(log: Path, rate: int) -> NDArray[np.float64]:
    """From sockperf's full log (packet, txTime, rxTime in s): half the round trip plus the sender's lateness, ns."""
    lines = log.read_text().splitlines()
    first = next((n for n, line in enumerate(lines) if line.startswith("packet,")), len(lines)) + 1
    rows = [line.split(",")[:3] for line in lines[first:] if line.count(",") == 3]
    packet, sent, answered = (np.array([float(row[at]) for row in rows]) for at in range(3))
    # The schedule is the latest one that no send came before: a packet sent on time is late by nothing.
    offset = sent - packet / rate
    late = offset - offset.min()
    return np.asarray(((answered - sent) / 2 + late) * 1e9, np.float64)


async def latlab(bed: TestBed, setting: Setting) -> NDArray[np.int64]:
    """From launch to the user's arrival, in ns, of each packet."""
    return (await ours(bed, setting)).difference("rx_user_tai_ns", "launch_tai_ns")


async def main() -> None:
    """Runs the rounds and prints each figure of each round, then the ratios."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--rate", type=int, default=10_000, help="packets a second; sockperf's own default")
    arguments.add_argument("--size", type=int, default=64, help="bytes of payload")
    given = arguments.parse_args()
    need_root()
    period_ns = 1_000_000_000 // given.rate
    setting = Setting(
        period_ns,
        given.size,
        busy_wait_ns=period_ns // 2,
        listener_cpu=TALKER_CPU,
        listener_fifo=RECEIVER_FIFO,
    )
    bare = replace(setting, tx_stamps=False)
    async with two_namespaces(setting) as bed:
        found = await side_by_side(
            {
                OURS[0]: lambda: latlab(bed, setting),
                THEIRS[0]: lambda: sockperf(bed, setting, given.rate, fifo=False),
                OURS[1]: lambda: latlab(bed, bare),
                THEIRS[1]: lambda: sockperf(bed, setting, given.rate, fifo=True),
            },
            given.rounds,
        )
    print("latlab ÷ the better sockperf of the same round, min / median / max:")
    for label in COMPARED:
        theirs = [min(pair) for pair in zip(*(found[label][name] for name in THEIRS), strict=True)]
        for name in OURS:
            print(f"  {label:7} {name:21} {ratios(found[label][name], theirs)}")


if __name__ == "__main__":
    asyncio.run(main())
