"""How many packets/s `latlab-agent watch` records at two points without losing one, and what its BPF programs cost.

    benches/watch_rate.py [--rounds 5] [--seconds 3] [--rate 200000]

Two namespaces, one veth pair; `flood` sends datagrams of 64 bytes at the rate, and both ends of the cable are watched.
Of each round two rows: `match`, the flow is the one that is watched; `pass by`, another is. The kernel counts how often
each program ran and for how long (`kernel.bpf_stats_enabled`), which itself costs 30 to 50 ns a run and is among the
figures.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import secrets
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from bed import LAUNCH_LEAD_NS, Setting, awake, namespace_of, need_root, two_namespaces
from bpf import inside
from stage_programs import counted

from latlab.run.agent import Agent
from latlab.scenario.watched import parse_flow
from latlab.testbed.apply import TestBed
from latlab.testbed.preflight import find_agent

PORT = 5600
SIZE = 64
RING = 1 << 17
REALTIME = {"fifo": None, "cpus": None, "lock_memory": False, "cpu_dma_latency_us": None, "timer_slack_ns": 1}
MATCH_NS, PASS_BY_NS = 200, 60
OURS = ("watch_", "taken_", "dropped_")


def points(bed: TestBed) -> list[dict[str, int]]:
    """Both ends of the cable."""
    found = []
    for name in ("a", "b"):
        with inside(namespace_of(bed.hosts[name])):
            links = json.loads(subprocess.run(["ip", "-j", "link"], capture_output=True, check=True).stdout)
            (ifindex,) = [link["ifindex"] for link in links if link["ifname"] == "eth0"]
            found.append({"netns": os.stat("/proc/thread-self/ns/net").st_ino, "ifindex": ifindex})
    return found


def programs() -> dict[str, float]:
    """Mean ns of a run of each program of `watch`."""
    listed = json.loads(subprocess.run(["bpftool", "--json", "prog", "show"], capture_output=True, check=True).stdout)
    ours = [one for one in listed if one.get("name", "").startswith(OURS) and one.get("run_cnt")]
    return {one["name"]: one["run_time_ns"] / one["run_cnt"] for one in ours}


async def one_round(bed: TestBed, flow: str, given: argparse.Namespace) -> tuple[dict[str, Any], int, dict[str, float]]:
    """What `watch` says at the end, how many packets were sent, and mean ns by program."""
    binary = str(find_agent())
    with tempfile.TemporaryDirectory() as place:
        spec: dict[str, Any] = {
            "run_id": secrets.token_hex(8),
            "recording": str(Path(place) / "watch"),
            "realtime": REALTIME,
        }
        spec |= {"points": points(bed), "flow": parse_flow(flow), "ring_records": RING}
        watch = await Agent.start(bed, bed.hosts["b"], binary, "watch", spec)
        sink = {"role": "sink", "listen": f"10.78.0.2:{PORT}", "flows": 1, "realtime": REALTIME}
        sinking = await Agent.start(bed, bed.hosts["b"], binary, "flood", sink)
        source = {"role": "source", "source": "10.78.0.1:0", "destination": f"10.78.0.2:{PORT}", "flows": 1}
        source |= {"size": SIZE, "rate_bps": given.rate * SIZE * 8, "priority": 0, "realtime": REALTIME}
        source |= {"duration_ns": given.seconds * 1_000_000_000}
        sending = await Agent.start(bed, bed.hosts["a"], binary, "flood", source)
        sending.begin(sending.tai_ns + LAUNCH_LEAD_NS)
        sent = (await sending.done).document()["packets"]
        await asyncio.sleep(0.2)
        found = programs()
        await sinking.stop(bed)
        return (await watch.stop(bed)).document(), sent, found


async def main() -> None:
    """Runs the rounds, prints what was recorded and what each program cost, and whether that is within its bound."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--seconds", type=int, default=3)
    arguments.add_argument("--rate", type=int, default=200_000)
    given = arguments.parse_args()
    need_root()
    rows = (("match", f"udp port {PORT}", MATCH_NS), ("pass by", f"udp port {PORT + 1}", PASS_BY_NS))
    with awake(), counted():
        async with two_namespaces(Setting(1_000_000)) as bed:
            for number in range(given.rounds):
                for label, flow, bound in rows:
                    done, sent, found = await one_round(bed, flow, given)
                    seen = [done["points"][0]["out"], done["points"][1]["in"]]
                    each = "  ".join(f"{name} {ns:5.0f} ns" for name, ns in sorted(found.items()))
                    within = "within" if max(found.values(), default=0) <= bound else "ABOVE"
                    print(
                        f"round {number + 1}  {label:8} {sent / given.seconds:8.0f} packets/s, {sent} sent, recorded "
                        f"{seen}, {(done['lost'] or 0) + done['ring_full']} lost  {each}  ({within} {bound} ns)"
                    )


if __name__ == "__main__":
    asyncio.run(main())
