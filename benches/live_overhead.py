"""What `latlab run --live` costs what is measured: a stream and round trips, each alternately with it and without.

    benches/live_overhead.py [--rounds 10] [--seconds 10] [--period 1000] [--cpus 0,1]

Each measurement is a run of one cell between two namespaces, its ends pinned and SCHED_FIFO, with a terminal that
progress is drawn on; with --live the table of figures is drawn there, too, on this same machine. Printed: median, p99.9
and maximum of each run, of the stream's latency up to its application (rx_user − launch) and of round trips (answered −
launch); then for median and p99.9 the geometric mean of with ÷ without over the rounds, with its 95 % interval.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
from functools import partial
from pathlib import Path
from typing import Any, Final

import polars as pl
from bed import TALKER_FIFO, mean_ratio, need_root
from numpy.typing import NDArray
from rich.console import Console
from rounds import COMPARED, side_by_side

from latlab.console import RunConsole
from latlab.recordings.arrow import read_recording
from latlab.run.matrix import run
from latlab.scenario import load_scenario

MEASURED: Final = {
    "latency": "streams: {one: {talker: sensor, listener: ecu, size: 64B, period: PERIOD}}",
    "round trip": "probes: {one: {probe: ping, from: sensor, to: ecu, size: 64B, period: PERIOD}}",
}


def scenario(what: str, period_us: int, seconds: float, cpus: tuple[str, str]) -> str:
    """Its text: a stream from `sensor` to `ecu`, or round trips."""
    asks, answers = cpus
    return f"""
name: live
hosts: {{sensor: {{kind: netns}}, ecu: {{kind: netns}}}}
links: [{{ends: [sensor.eth0, ecu.eth0]}}]
{MEASURED[what].replace("PERIOD", f"{period_us}us")}
tuning:
  sensor: {{talker: {{fifo: {TALKER_FIFO}, cpus: [{asks}]}}, listener: {{fifo: 80, cpus: [{asks}]}}}}
  ecu: {{listener: {{fifo: 80, cpus: [{answers}]}}}}
duration: {round(seconds * 1000)}ms
"""


async def measured(text: str, *, live: bool) -> NDArray[Any]:
    """How long each packet, or each round trip, took in one run, ns."""
    with tempfile.TemporaryDirectory() as place, Path(os.devnull).open("w", encoding="utf-8") as nobody:
        path = Path(place, "live.yaml")
        path.write_text(text)
        terminal = Console(file=nobody, force_terminal=True, width=140)
        with RunConsole(terminal, live=live) as console:
            folder = await run(load_scenario(path), Path(place), console.show, live=live)
        (cell,) = folder.cells()
        found = cell.cell()
        if found.status != "ok":
            raise SystemExit(str(found.reason))
        return took(cell.path)


def took(folder: Path) -> NDArray[Any]:
    """Of each packet of the stream from its launch until it was received, or of each question until it was answered."""
    if (asked := folder / "ping-one.sent.arrow").exists():
        answers = read_recording(folder / "ping-one.received.arrow", "received").table
        questions = read_recording(asked, "sent").table.select("sequence", asked_tai_ns="launch_tai_ns")
        both = questions.join(answers, on="sequence").select(pl.col("rx_user_tai_ns") - pl.col("asked_tai_ns"))
    else:
        received = read_recording(next(folder.glob("listener-*.received.arrow")), "received").table
        both = received.select(pl.col("rx_user_tai_ns") - pl.col("launch_tai_ns"))
    return both.to_series().to_numpy()


async def main() -> None:
    """Runs the rounds and prints each, then the ratios."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rounds", type=int, default=10)
    arguments.add_argument("--seconds", type=float, default=10, help="of each measurement")
    arguments.add_argument("--period", type=int, default=1000, help="µs")
    arguments.add_argument("--cpus", default="0,1", help="of who sends or asks, and of who receives or answers")
    given = arguments.parse_args()
    need_root()
    asks, answers = given.cpus.split(",")
    for what in MEASURED:
        text = scenario(what, given.period, given.seconds, (asks, answers))
        runs = {"with": partial(measured, text, live=True), "without": partial(measured, text, live=False)}
        print(f"{what}:", flush=True)
        found = await side_by_side(runs, given.rounds)
        for figure in COMPARED:
            ratio = mean_ratio(found[figure]["with"], found[figure]["without"])
            print(f"  {figure:7}  with --live ÷ without  {ratio}", flush=True)


if __name__ == "__main__":
    asyncio.run(main())
