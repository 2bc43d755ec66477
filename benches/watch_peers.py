"""`latlab-agent watch` and a pair of tcpdumps on the same flow: what each sees of it, and what it costs each packet.

    benches/watch_peers.py [--rounds 5] [--packets 200000]

The bed is that of watch_sample.py: frames come in at an interface, and a bridge forwards them into another namespace.
Each round has, interleaved: nobody watches; `watch` at both interfaces, alone and with a sample of one in 100; two
tcpdumps that write 128 bytes of each packet to files. Of each the CPU time that a packet takes on the whole path, what
was recorded at both points, and what was not. The last line has the ratios to the rounds in which nobody watches.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from bed import awake, mean_ratio, need_root
from bpf import inside, program_that_numbers, run_live
from watch_sample import NAMESPACES, PAYLOAD_AT, POINTS, PORT, RING, frame, make, points, watching

SAMPLE = 100
SNAP = 128
ENDS = (POINTS[0], POINTS[2])
Seen = list[str]
Row = Callable[[Seen], AbstractContextManager[None]]


@contextmanager
def nobody(seen: Seen) -> Iterator[None]:
    """The path alone."""
    yield
    seen.append("nothing is recorded")


@contextmanager
def watched(seen: Seen, sample: int = 1) -> Iterator[None]:
    """Our agent at both interfaces."""
    with tempfile.TemporaryDirectory() as place:
        both = [points()[0], points()[2]]
        with watching({"recording": f"{place}/watch", "points": both, "snap": SNAP, "sample": sample}) as done:
            yield
        came = [f"{one['in']} of {one['passed_in']}" for one in done["points"]]
        seen.append(f"recorded {' and '.join(came)}, {done['lost'] + done['ring_full']} lost")


@contextmanager
def sampled(seen: Seen) -> Iterator[None]:
    """The same of a sample."""
    with watched(seen, SAMPLE):
        yield


@contextmanager
def dumped(seen: Seen) -> Iterator[None]:
    """A tcpdump at each of them."""
    with tempfile.TemporaryDirectory() as place:
        dumps = []
        for namespace, interface, _ in ENDS:
            words = ["tcpdump", "-i", interface, "-Q", "in", "-s", str(SNAP), "--time-stamp-precision", "nano", "-n"]
            words += [
                "-Z",
                "root",
                "-B",
                str(RING * SNAP >> 10),
                "-w",
                str(Path(place) / namespace),
                f"udp port {PORT}",
            ]
            with inside(namespace):
                dumps.append(subprocess.Popen(words, stderr=subprocess.PIPE, text=True))
        for one in dumps:
            assert one.stderr
            while "listening on" not in (line := one.stderr.readline()):
                if not line:
                    sys.exit(f"tcpdump ended with status {one.wait()}")
        yield
        time.sleep(1)
        found = []
        for one in dumps:
            one.send_signal(signal.SIGINT)
            _, text = one.communicate(timeout=30)
            captured, dropped = (
                int(re.findall(rf"(\d+) packets? {what}", text)[0]) for what in ("captured", "dropped")
            )
            found.append(f"{captured} captured, {dropped} dropped")
        seen.append("; ".join(found))


ROWS: dict[str, Row] = {
    "nobody": nobody,
    "watch": watched,
    f"watch, 1 in {SAMPLE}": sampled,
    "2 tcpdump": dumped,
}


def one_round(name: str, packets: int) -> float:
    """Mean ns that a packet took; what was seen is printed."""
    seen: Seen = []
    with ROWS[name](seen), inside(NAMESPACES[0]):
        program = program_that_numbers(PAYLOAD_AT)
        began = time.thread_time()
        run_live(program, frame(), socket.if_nametoindex("in0"), packets)
        each_ns = (time.thread_time() - began) * 1e9 / packets
        os.close(program)
        time.sleep(0.5)
    print(f"{name:16} {each_ns:7.0f} ns a packet; {seen[0]}", flush=True)
    return each_ns


def main() -> None:
    """Run the rounds and print their rows, then the ratios."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--packets", type=int, default=200_000)
    given = arguments.parse_args()
    need_root()
    took: dict[str, list[float]] = {name: [] for name in ROWS}
    try:
        make()
        with awake():
            for _ in range(given.rounds):
                for name, row in took.items():
                    row.append(one_round(name, given.packets))
    finally:
        for name in NAMESPACES:
            subprocess.run(["ip", "netns", "delete", name], check=False, stderr=subprocess.DEVNULL)
    for name, row in took.items():
        if name != "nobody":
            print(f"{name} ÷ nobody: {mean_ratio(row, took['nobody'])}")


if __name__ == "__main__":
    main()
