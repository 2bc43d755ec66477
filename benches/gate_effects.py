"""What gates, launch times and credit do for a stream: ratios to the same without them, on an emulated board.

    benches/gate_effects.py [--repeat 3] [--time virtual]

Cells are interleaved in one run. In virtual time the figures are the kernel's own. Of plain emulation (`real`) only the
ratios say something, and not much: its figures have milliseconds of this machine's noise in them.

    launched / sleeping   stddev of arrival_offset, of a sender that hands packets over ahead / one that sleeps
    spacing / theory      of back-to-back frames beneath a cbs of 1 Mbit/s; 1 is exact
    gated, flood / none   p99 latency of a stream with a separate window, with a flood in another / without
    free, flood / none    the same without gates
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import yaml
from bed import need_root

from latlab.run.events import CellEnded, Event
from latlab.run.matrix import run
from latlab.scenario import load_scenario
from latlab.testbed.agent_binary import find_agent
from latlab.testbed.images import build_image

BOARD = "debian-rt-board"
STREAM: dict[str, Any] = {"talker": "sensor", "listener": "ecu", "period": "1ms", "size": "64B"}
CREDIT_BPS = 1_000_000
FRAME_BITS = (64 + 8 + 20 + 14) * 8
"""What the kernel counts of a 64-byte probe: UDP, IPv4 and Ethernet headers."""
LAUNCHING = {
    "kind": "mqprio",
    "map": {7: 0, 6: 1},
    "rest": 2,
    "children": {0: {"kind": "etf", "delta": "200us"}, 1: {"kind": "cbs", "idle_slope": f"{CREDIT_BPS}bit/s"}},
}
GATES = {
    "kind": "taprio",
    "mode": "software",
    "map": {7: 0},
    "rest": 1,
    "gates": [{"open": [0], "for": "300us"}, {"open": [1], "for": "5us"}, {"open": [], "for": "695us"}],
}
FLOOD = {"bulk": {"kind": "flood", "from": "sensor", "to": "ecu", "size": "1000B", "rate": "80Mbit/s"}}
SPACED = 100
"""Packets by which the credit has been used up."""


def scenario(kind: str, repeat: int, **parts: Any) -> str:
    """Its text: two namespaces on a board, a link with four queues between them."""
    whole = {
        "name": "gate-effects",
        "hosts": {
            "board1": {"kind": "board", "time": kind},
            "sensor": {"kind": "netns", "on": "board1"},
            "ecu": {"kind": "netns", "on": "board1"},
        },
        "links": [{"ends": ["sensor.eth0", "ecu.eth0"], "queues": 4}],
        "duration": "1s",
        "warmup": "50ms",
        "repeat": repeat,
    }
    return yaml.safe_dump(whole | parts)


def launching(kind: str, repeat: int) -> str:
    """A sender that sleeps, one that hands its packets over ahead, and frames beneath a cbs, each in a cell."""
    streams = {
        "sleeping": STREAM | {"priority": 5},
        "launched": STREAM | {"priority": 7, "launch_time": {"lead": "5ms"}},
        "spaced": STREAM | {"priority": 6, "period": "700us"},
    }
    return scenario(
        kind,
        repeat,
        streams={"sleeping": STREAM},
        shapers={"sensor.eth0": LAUNCHING},
        tuning={"sensor": {"talker": {"fifo": None, "timer_slack": None}}},
        matrix={"streams": [{name: one} for name, one in streams.items()]},
    )


def flooding(kind: str, repeat: int) -> str:
    """A stream with and without a separate window, with and without a flood."""
    return scenario(
        kind,
        repeat,
        streams={"control": STREAM | {"priority": 7, "offset": "50us"}},
        loads=FLOOD,
        matrix={"shapers": [{}, {"sensor.eth0": GATES}], "loads": ["none", "bulk"]},
    )


async def measured(text: str) -> dict[str, list[pl.DataFrame]]:
    """The packets of each cell after its warm-up, by the cell's slug."""

    def listener(event: Event) -> None:
        if isinstance(event, CellEnded) and event.cell.reason:
            raise SystemExit(event.cell.reason.what)

    found: dict[str, list[pl.DataFrame]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as place:
        path = Path(place, "board.yaml")
        path.write_text(text)
        folder = await run(load_scenario(path), Path(place), listener)
        for cell in folder.cells():
            found[cell.slug].append(cell.packets().filter(~pl.col("warmup")).sort("sequence"))
    return found


def spread(packets: pl.DataFrame) -> float:
    """Standard deviation of arrival − schedule, ns."""
    return float((packets["rx_soft_tai_ns"] - packets["launch_tai_ns"]).drop_nulls().to_numpy().std())


def spacing(packets: pl.DataFrame) -> float:
    """Mean time between arrivals once the credit is used up, by what the credit brings in."""
    arrivals = packets["rx_soft_tai_ns"].drop_nulls().to_numpy()[SPACED:]
    return float(np.diff(arrivals).mean()) / (FRAME_BITS / CREDIT_BPS * 1e9)


def tail(packets: pl.DataFrame) -> float:
    """The 99th percentile of the latency, ns."""
    return float(np.percentile((packets["rx_soft_tai_ns"] - packets["launch_tai_ns"]).drop_nulls().to_numpy(), 99))


def shown(title: str, ratios: list[float]) -> None:
    """Print the least, the median and the largest."""
    print(f"{title:22} {min(ratios):8.3f} {float(np.median(ratios)):8.3f} {max(ratios):8.3f}")


def pairs(found: dict[str, list[pl.DataFrame]], upper: str, lower: str, value: Any) -> list[float]:
    """The ratio of each repetition's value in one cell to that in another, by how their slugs end."""
    (above,) = (cells for slug, cells in found.items() if slug.endswith(upper))
    (below,) = (cells for slug, cells in found.items() if slug.endswith(lower))
    return [value(one) / value(other) for one, other in zip(above, below, strict=True)]


async def main() -> None:
    """Runs the cells and prints the ratios."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--repeat", type=int, default=3, help="how often each cell is run: %(default)s")
    arguments.add_argument("--time", choices=["virtual", "real"], default="virtual", help="the board's: %(default)s")
    given = arguments.parse_args()
    need_root()
    build_image(BOARD, agent=find_agent())
    print(f"{given.time + ' time':22} {'min':>8} {'median':>8} {'max':>8}")
    found = await measured(launching(given.time, given.repeat))
    shown("launched / sleeping", pairs(found, "launched", "sleeping", spread))
    (spaced,) = (cells for slug, cells in found.items() if "spaced" in slug)
    shown("spacing / theory", list(map(spacing, spaced)))
    found = await measured(flooding(given.time, given.repeat))
    for title, gates in (("gated, flood / none", "sensor.eth0"), ("free, flood / none", "without-sensor.eth0")):
        shown(title, pairs(found, f"loads=bulk,shapers={gates}", f"loads=none,shapers={gates}", tail))


if __name__ == "__main__":
    asyncio.run(main())
