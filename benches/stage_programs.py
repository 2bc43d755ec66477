"""What the BPF programs that take timestamps cost a packet, by the kernel's own count (`kernel.bpf_stats_enabled`).

    benches/stage_programs.py [--rounds 5] [--seconds 2]

Two namespaces, one veth pair; a talker and a listener, every packet stamped at each stage. The kernel counts how often
each program ran and for how long, which itself costs 30 to 50 ns a run and is among the figures. Of each round two
rows: `match`, of the stream's own packets; `pass by`, of another program's datagrams between the same interfaces while
the programs are attached and the talker rests.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import secrets
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bed import LAUNCH_LEAD_NS, Setting, awake, namespace_of, need_root, scenario, two_namespaces
from bpf import inside

from latlab.run.agent import Agent
from latlab.run.specs import BedFacts, listen_spec, talk_spec
from latlab.testbed.apply import TestBed
from latlab.testbed.preflight import find_agent

STATS = Path("/proc/sys/kernel/bpf_stats_enabled")
OTHERS = 20_000
PERIOD_NS = 100_000
MATCH_NS, PASS_BY_NS = 200, 60
Costs = dict[str, tuple[int, int]]
"""By program: how often it ran, and for how many ns."""


@contextmanager
def counted() -> Iterator[None]:
    """The kernel counts runs of BPF programs."""
    before = STATS.read_text()
    STATS.write_text("1")
    try:
        yield
    finally:
        STATS.write_text(before)


def costs() -> Costs:
    """Those of the programs that take timestamps, so far."""
    listed = json.loads(subprocess.run(["bpftool", "--json", "prog", "show"], capture_output=True, check=True).stdout)
    found: Costs = {}
    for one in listed:
        if (name := one.get("name", "")).startswith("stage_"):
            runs, ns = found.get(name, (0, 0))
            found[name] = (runs + one.get("run_cnt", 0), ns + one.get("run_time_ns", 0))
    return found


def between(before: Costs, after: Costs) -> dict[str, float]:
    """Mean ns of a run of each program, of the runs between the two readings."""
    spent = {name: (runs - before[name][0], ns - before[name][1]) for name, (runs, ns) in after.items()}
    return {name: ns / runs for name, (runs, ns) in spent.items() if runs}


def others(source_in: str, sink_in: str) -> None:
    """Datagrams that are not measured, from one namespace to the other."""
    with inside(sink_in):
        sink = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sink.bind(("10.78.0.2", 9))
    with inside(source_in):
        source = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    for _ in range(OTHERS):
        source.sendto(b"x" * 64, ("10.78.0.2", 9))
    source.close()
    sink.close()


async def one_round(bed: TestBed, setting: Setting) -> tuple[dict[str, float], dict[str, float]]:
    """Mean ns by program: of packets that match, and of such that do not."""
    wanted, run_id, binary = scenario(setting), secrets.token_hex(8), str(find_agent())
    with tempfile.TemporaryDirectory() as place:
        listen = {**listen_spec(wanted, "b", BedFacts({}), run_id, f"{place}/listen"), "stamps_by": "ebpf"}
        talk = talk_spec(wanted, "a", BedFacts({}), run_id, f"{place}/talk")
        talk = {**talk, "stamps": talk["stamps"] | {"by": "ebpf"}}
        listener = await Agent.start(bed, bed.hosts["b"], binary, "listen", listen)
        talker = await Agent.start(bed, bed.hosts["a"], binary, "talk", talk)
        start = costs()
        others(*(namespace_of(bed.hosts[name]) for name in ("a", "b")))
        rested = latest = costs()
        talker.begin(talker.tai_ns + LAUNCH_LEAD_NS)
        # The kernel forgets a program's count with the program.
        while not talker.done.done():
            await asyncio.sleep(0.2)
            now = costs()
            latest = now if now.keys() == rested.keys() else latest
        await talker.stop(bed)
        await listener.stop(bed)
    return between(rested, latest), between(start, rested)


async def main() -> None:
    """Runs the rounds, prints each program's mean, and whether the largest is within its bound."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--seconds", type=int, default=2)
    given = arguments.parse_args()
    need_root()
    setting = Setting(PERIOD_NS, seconds=given.seconds)
    with awake(), counted():
        async with two_namespaces(setting) as bed:
            for number in range(given.rounds):
                for label, bound, found in zip(
                    ("match", "pass by"), (MATCH_NS, PASS_BY_NS), await one_round(bed, setting), strict=True
                ):
                    each = "  ".join(f"{name} {ns:5.0f} ns" for name, ns in sorted(found.items()))
                    within = "within" if max(found.values(), default=0) <= bound else "ABOVE"
                    print(f"round {number + 1}  {label:8} {each}  ({within} {bound} ns)")


if __name__ == "__main__":
    asyncio.run(main())
