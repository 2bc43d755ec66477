"""How many instructions a packet takes on boards of x86-64 and of 64-bit ARM, in virtual time: agent, kernel and all.

    benches/architectures.py [--seconds 2]

The clock of such a board counts instructions, so times are counts, and equal whenever this is run with the same
images. The same scenario runs on both: a stream between two namespaces, and a ping each of whose questions follows the
answer to the one before. What is promised is ARM's round trip within 10 % of x86's.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from collections.abc import Mapping
from pathlib import Path

import yaml
from bed import need_root

from latlab.evaluation.run import make_result
from latlab.run.matrix import run
from latlab.scenario import load_scenario
from latlab.testbed.images import build_image

ARCHITECTURES: Mapping[str, Mapping[str, str]] = {"x86-64": {}, "arm64": {"arch": "arm64"}}
PROMISED = 0.10


def scenario(board: Mapping[str, str], seconds: float) -> str:
    """Its text."""
    whole = {
        "name": "architectures",
        "hosts": {
            "board1": {"kind": "board", "time": "virtual", **board},
            "sensor": {"kind": "netns", "on": "board1"},
            "ecu": {"kind": "netns", "on": "board1"},
        },
        "links": [{"ends": ["sensor.eth0", "ecu.eth0"]}],
        "streams": {"control": {"talker": "sensor", "listener": "ecu", "period": "1009us", "size": "64B"}},
        "probes": {"trip": {"probe": "ping", "from": "sensor", "to": "ecu", "size": "64B"}},
        "duration": f"{round(seconds * 1000)}ms",
    }
    return yaml.safe_dump(whole)


async def measured(board: Mapping[str, str], seconds: float) -> dict[str, float]:
    """Instructions, by what they are of."""
    with tempfile.TemporaryDirectory() as place:
        path = Path(place, "architectures.yaml")
        path.write_text(scenario(board, seconds))
        folder = await run(load_scenario(path), Path(place), lambda event: None)
        result = make_result(folder)
    (cell,) = result.cells
    if cell.status != "ok" or cell.instructions_per_ns is None:
        raise SystemExit(cell.reason.what if cell.reason else f"the cell is {cell.status}, and not of virtual time")
    talker = next(one for one in cell.talkers if one.host == "sensor")
    medians = {
        "round trip, median": cell.figures("trip", "round_trip"),
        "latency of a packet of the stream, median": cell.figures("control", "latency"),
        "between the two kernels, median": cell.figures("control", "path"),
    }
    found = {name: float(figures.p50) for name, figures in medians.items() if figures and figures.p50 is not None}
    found["talker's thread, each packet"] = talker.cpu_ns / talker.packets
    return {name: ns * cell.instructions_per_ns for name, ns in found.items()}


async def main() -> None:
    """Run both, and print instructions and how far ARM's are from x86's."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--seconds", type=float, default=2.0)
    given = arguments.parse_args()
    need_root()
    for architecture in ("amd64", "arm64"):
        build_image("debian-rt-board", architecture=architecture)
    x86, arm = [await measured(board, given.seconds) for board in ARCHITECTURES.values()]
    print(f"{'instructions':44} {'x86-64':>9} {'arm64':>9}  {'arm64':>8}")
    for name, count in x86.items():
        print(f"{name:44} {count:9.0f} {arm[name]:9.0f}  {arm[name] / count - 1:+8.1%}")
    print(f"promised of the round trip: within {PROMISED:.0%}")


if __name__ == "__main__":
    asyncio.run(main())
