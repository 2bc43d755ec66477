"""How long emulated boards take: to boot, to start from their snapshot, and for a cell of 2 × 1,000 packets.

    benches/board_times.py [--repeat 2] [--nested]

In either kind of time, next to what each is to take at most. All figures are seconds of this machine's time. With
--nested the packets go to a guest in the board and back: that takes as long as its boot, and nothing is promised of it.
"""

from __future__ import annotations

import argparse
import asyncio
import secrets
import tempfile
import time
from collections import defaultdict
from pathlib import Path

import yaml
from bed import need_root

from latlab.run.events import CellEnded, CellStarted, Event
from latlab.run.matrix import run
from latlab.scenario import load_scenario
from latlab.testbed.agent_binary import find_agent
from latlab.testbed.images import build_image

BOARD = "debian-rt-board"
BOOT, CELL = "boot, and all that a snapshot has", "a cell of 2 × 1,000 packets"
RESTORE = "start from the snapshot"
PROMISED = {"real": {BOOT: 25, RESTORE: 1}, "virtual": {BOOT: 60, RESTORE: 1, CELL: 10}}
"""Kind of time → at most so many seconds."""


def scenario(kind: str, repeat: int, nested: bool) -> str:
    """Its text: two streams of 1,000 packets between two namespaces, or to a guest and back."""
    ends = ("sensor", "vm1" if nested else "ecu")
    stream = {"period": "1ms", "size": "64B"}
    guest = {"host": "ecu", "uplink": "eth0", "bridge": "tap", "acceleration": "kvm"}
    whole = {
        "name": "board-times",
        "hosts": {
            # None was booted with that word before.
            "board1": {"kind": "board", "time": kind, "append": f"once.{secrets.token_hex(4)}"},
            "sensor": {"kind": "netns", "on": "board1"},
            "ecu": {"kind": "netns", "on": "board1"},
        },
        "links": [{"ends": ["sensor.eth0", "ecu.eth0"]}],
        "guests": {"vm1": guest} if nested else {},
        "streams": {
            "down": stream | {"talker": ends[0], "listener": ends[1]},
            "up": stream | {"talker": ends[1], "listener": ends[0], "offset": "500us"},
        },
        "duration": "1s",
        "repeat": repeat,
    }
    return yaml.safe_dump(whole)


async def measured(kind: str, repeat: int, nested: bool) -> dict[str, list[float]]:
    """What it took, each time; the first cell has the boot, and is not among the cells."""
    found: dict[str, list[float]] = defaultdict(list)
    began = 0.0

    def listener(event: Event) -> None:
        nonlocal began
        if isinstance(event, CellStarted):
            began = time.monotonic()
        elif isinstance(event, CellEnded):
            if event.cell.reason:
                raise SystemExit(event.cell.reason.what)
            seconds: dict[str, float] = defaultdict(float)
            for step in event.cell.steps:
                seconds[step.title] += step.seconds or 0
            found[RESTORE].append(seconds["start board1"])
            if booted := sum(took for title, took in seconds.items() if title.startswith(("boot ", "load what "))):
                found[BOOT].append(booted)
            else:
                found[CELL].append(time.monotonic() - began)

    with tempfile.TemporaryDirectory() as place:
        path = Path(place, "board.yaml")
        path.write_text(scenario(kind, 1 + repeat, nested))
        await run(load_scenario(path), Path(place), listener)
    return found


async def main() -> None:
    """Runs the cells and prints what they took."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--repeat", type=int, default=2)
    arguments.add_argument("--nested", action="store_true")
    given = arguments.parse_args()
    need_root()
    build_image(BOARD, agent=find_agent())
    print(f"{'time':8} {'':36} {'min':>6} {'median':>6} {'max':>6}  at most")
    for kind, promised in PROMISED.items():
        for what, values in (await measured(kind, given.repeat, given.nested)).items():
            ordered = sorted(values)
            limit = "" if given.nested else promised.get(what, "")
            low, middle, high = ordered[0], ordered[len(ordered) // 2], ordered[-1]
            print(f"{kind:8} {what:36} {low:6.2f} {middle:6.2f} {high:6.2f}  {limit}")


if __name__ == "__main__":
    asyncio.run(main())
