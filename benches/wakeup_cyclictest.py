"""Wake-up latency: latlab's timer and talker against `cyclictest`, same period, priority and CPU.

    benches/wakeup_cyclictest.py [--rounds 5] [--period 1000]

The three run in turn, round by round; each round begins with another one. The timer does what cyclictest does, waits
and records, and that it recorded every instant is checked; no trace is asked for, as cyclictest has none. The talker
does its work meanwhile: it sends a packet after each wake-up. All figures are from the planned wake-up to the thread
running, in ns.
"""

from __future__ import annotations

import argparse
import asyncio
import secrets
import tempfile
from pathlib import Path

import numpy as np
from bed import (
    LAUNCH_LEAD_NS,
    TALKER_CPU,
    TALKER_FIFO,
    Setting,
    mean_ratio,
    need_root,
    ours,
    ratios,
    tool,
    two_namespaces,
)
from numpy.typing import NDArray
from rounds import COMPARED, side_by_side

from latlab.recordings.arrow import read_recording
from latlab.run.agent import Agent
from latlab.run.probe_specs import timer_spec
from latlab.scenario import Scenario, parse
from latlab.testbed.apply import TestBed
from latlab.testbed.preflight import find_agent

PEER = "cyclictest"
OURS = ("latlab timer", "latlab talker")


def cyclictest(setting: Setting) -> NDArray[np.int64]:
    """The latency of each cycle, in ns."""
    command = ["cyclictest", "--verbose", "--nsecs", "--mlockall", "--threads=1", f"--affinity={TALKER_CPU}",
               f"--priority={TALKER_FIFO}", "--policy=fifo", f"--interval={setting.period_ns // 1000}",
               f"--loops={setting.packets}"]  # fmt: skip
    printed = tool(command, setting.seconds + 30)
    rows = [line.split(":") for line in printed.splitlines() if line.count(":") == 2]
    return np.array([int(value) for _, cycle, value in rows if int(cycle) > 0], dtype=np.int64)


def timer_scenario(setting: Setting) -> Scenario:
    """One timer on `a`, pinned as the talker is."""
    parsed = parse(
        {
            "name": "bench",
            "hosts": {"a": {"kind": "netns"}},
            "probes": {"timer": {"probe": "timer", "on": "a", "period": f"{setting.period_ns}ns", "trace": False}},
            "tuning": {"a": {"talker": {"fifo": TALKER_FIFO, "cpus": [TALKER_CPU]}}},
            "duration": f"{setting.packets * setting.period_ns}ns",
        }
    )
    if parsed.scenario is None:
        raise ValueError(parsed.findings)
    return parsed.scenario


async def timer(bed: TestBed, setting: Setting) -> NDArray[np.int64]:
    """How late the timer's thread came to each instant, in ns. ValueError: one was not recorded."""
    with tempfile.TemporaryDirectory() as place:
        spec = timer_spec(timer_scenario(setting), "timer", secrets.token_hex(8), f"{place}/timer")
        agent = await Agent.start(bed, bed.hosts["a"], str(find_agent()), "timer", spec)
        agent.begin(agent.tai_ns + LAUNCH_LEAD_NS)
        await agent.done
        await agent.stop(bed)
        rows = read_recording(Path(f"{place}/timer.timer.arrow"), "timer").table
    if rows["sequence"].to_list() != list(range(setting.packets)):
        raise ValueError(f"{rows.height} instants recorded of {setting.packets}")
    found: NDArray[np.int64] = (rows["woke_tai_ns"] - rows["due_tai_ns"]).to_numpy()
    return found


async def talker(bed: TestBed, setting: Setting) -> NDArray[np.int64]:
    """How late the talker's thread woke for each packet, in ns."""
    return (await ours(bed, setting)).difference("wake_tai_ns", "wake_due_tai_ns")


async def main() -> None:
    """Runs the rounds and prints each figure of each round, then the ratios."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--period", type=int, default=1000, help="µs")
    given = arguments.parse_args()
    need_root()
    setting = Setting(given.period * 1000)
    async with two_namespaces(setting) as bed:
        found = await side_by_side(
            {
                OURS[0]: lambda: timer(bed, setting),
                PEER: lambda: asyncio.to_thread(cyclictest, setting),
                OURS[1]: lambda: talker(bed, setting),
            },
            given.rounds,
        )
    print("latlab ÷ cyclictest of the same round, min / median / max, and the geometric mean:")
    for label in COMPARED:
        theirs = found[label][PEER]
        for name in OURS:
            mine = found[label][name]
            print(f"  {label:7} {name:13} {ratios(mine, theirs)}   {mean_ratio(mine, theirs)}")


if __name__ == "__main__":
    asyncio.run(main())
