"""What a trace of the listener's thread adds to a round trip: its tracepoints switched on and off within one run.

    benches/trace_overhead.py [--guest] [--seconds 60] [--interval 0.1] [--period 1000] [--seed 1] [--parts]

A ping at a rate between two namespaces, each end pinned to a separate CPU and SCHED_FIFO, while the agent traces the
thread that answers, as `tuning.HOST.listener.trace` has it; with --guest a guest behind tap and bridge asks, not a
namespace. Each is one cell of `latlab run`. Every interval its events are switched on or off,
so that what else happens on the machine is in both alike; each interval with them is compared with the two without that
surround it. Printed: the median of those ratios of medians, with its 95 % interval (bootstrap over intervals), and the
medians in µs; and the same of intervals in which nothing is switched on, which shows the precision of such a ratio on
this machine. With --parts sets of events are switched on alone, too, to see what each costs.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import numpy as np
import polars as pl
from bed import need_root
from numpy.typing import NDArray

from latlab.model.errors import LabError
from latlab.recordings.arrow import read_recording
from latlab.run.events import CellEnded, Event, Phase
from latlab.run.matrix import run
from latlab.run.specs import EVENTS, THREADS
from latlab.scenario import load_scenario

PARTS: dict[str, Sequence[str]] = {
    "all": EVENTS,
    "nothing": (),
    "threads": THREADS,
    "softirqs": tuple(event for event in EVENTS if "softirq" in event),
    "interrupts": tuple(event for event in EVENTS if "irq_handler" in event),
}
SETTLED_NS = 12_000_000
"""After a switch: the kernel has changed its code by then, and the interrupted threads continue."""
ROUNDS = 4000


@dataclass(frozen=True)
class Stretch:
    """What was switched on, and between which two instants of CLOCK_TAI."""

    name: str
    begin_ns: int
    end_ns: int


def scenario(period_us: int, seconds: float, *, guest: bool) -> str:
    """Its text: one ping to `sensor`, of a guest on `ecu` or of `ecu` itself."""
    asks = "vm1" if guest else "ecu"
    return f"""
name: overhead
hosts: {{sensor: {{kind: netns}}, ecu: {{kind: netns}}}}
links: [{{ends: [sensor.eth0, ecu.eth0]}}]
{"guests: {vm1: {host: ecu, uplink: eth0, bridge: tap}}" if guest else ""}
probes: {{rr: {{probe: ping, from: {asks}, to: sensor, size: 64B, period: {period_us}us}}}}
tuning:
  {asks}: {{talker: {{fifo: 90, cpus: [0]}}}}
  sensor: {{listener: {{fifo: 80, cpus: [1], trace: true}}}}
duration: {round(seconds * 1000)}ms
"""


async def measured(text: str, names: Sequence[str], stretch_s: float) -> tuple[pl.DataFrame, list[Stretch]]:
    """When each question came and how long its round trip took (`at_tai_ns`, `took_ns`), and what was on when."""
    measuring, ended = threading.Event(), threading.Event()
    ended_as: dict[str, object] = {}

    def listener(event: Event) -> None:
        if isinstance(event, Phase) and event.name == "measuring":
            measuring.set()
        if isinstance(event, CellEnded):
            ended_as.update(event.cell)
            ended.set()

    async def cell(path: Path) -> None:
        try:
            await run(load_scenario(path), path.parent, listener)
        finally:
            ended.set()
            measuring.set()

    def switches() -> list[Stretch]:
        measuring.wait()
        return [] if ended.is_set() else list(switched(instance(), names, stretch_s, ended))

    with tempfile.TemporaryDirectory() as place:
        path = Path(place, "overhead.yaml")
        path.write_text(text)
        _, stretches = await asyncio.gather(cell(path), asyncio.to_thread(switches))
        if not stretches:
            raise SystemExit(str(ended_as["reason"]))
        return answered(next(Path(place).rglob("ping-rr.sent.arrow")).parent), stretches


def answered(cell: Path) -> pl.DataFrame:
    """When each question came, by the clock of the machine that answered, and how long its round trip took, by the
    clock of who asked.
    """
    asked, returned, came = (
        read_recording(cell / f"{name}.arrow", name.partition(".")[2]).table
        for name in ("ping-rr.sent", "ping-rr.received", "pong-rr.received")
    )
    return (
        asked.select("sequence", "submit_tai_ns")
        .join(returned.select("sequence", back_tai_ns="rx_user_tai_ns"), on="sequence")
        .join(came.select("sequence", at_tai_ns="rx_user_tai_ns"), on="sequence")
        .select("at_tai_ns", took_ns=pl.col("back_tai_ns") - pl.col("submit_tai_ns"))
    )


def instance() -> Path:
    """The tracing instance of the agent that traces, by the mount that it holds open.

    It is there: agents are ready before anything is measured.
    """
    for process in Path("/proc").glob("[0-9]*"):
        try:
            program, verb, *_ = (process / "cmdline").read_bytes().split(b"\0")
            if program.endswith(b"latlab-agent") and verb == b"trace":
                for descriptor in (process / "fd").iterdir():
                    found = descriptor / "instances" / f"latlab-{process.name}"
                    if found.is_dir():
                        return found
        except (OSError, ValueError):
            continue
    raise SystemExit("no agent traces")


def switched(place: Path, names: Sequence[str], stretch_s: float, ended: threading.Event) -> Iterator[Stretch]:
    """Stretches alternately without events and with those of each name, until the cell has ended, or its agent."""
    order = [part for name in names for part in ("off", name)]
    for number in count():
        name = order[number % len(order)]
        try:
            for event in EVENTS:
                enable = place / "events" / event.replace(":", "/") / "enable"
                enable.write_text("1" if event in PARTS.get(name, ()) else "0")
        except OSError:
            return
        begin_ns = time.clock_gettime_ns(time.CLOCK_TAI)
        if ended.wait(stretch_s):
            return
        yield Stretch(name, begin_ns + SETTLED_NS, time.clock_gettime_ns(time.CLOCK_TAI))


def medians(both: pl.DataFrame, stretches: Sequence[Stretch]) -> list[tuple[str, float]]:
    """The name and the median round trip, ns, of each interval that has any."""
    at_ns, took_ns = both["at_tai_ns"].to_numpy(), both["took_ns"].to_numpy()
    inside = ((one.name, took_ns[(at_ns >= one.begin_ns) & (at_ns < one.end_ns)]) for one in stretches)
    return [(name, float(np.median(values))) for name, values in inside if len(values)]


def against_neighbours(found: Sequence[tuple[str, float]], name: str) -> NDArray[np.float64]:
    """Logarithms of the ratios of intervals of this name to the mean of the two without events next to each."""
    trios = zip(found, found[1:], found[2:], strict=False)
    ratios = [
        2 * middle[1] / (before[1] + after[1])
        for before, middle, after in trios
        if middle[0] == name and before[0] == after[0] == "off"
    ]
    return np.asarray(np.log(ratios), np.float64)


def main() -> None:
    """Runs once and prints."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--guest", action="store_true", help="a guest asks, through tap and bridge")
    arguments.add_argument("--seconds", type=float, default=60)
    arguments.add_argument("--stretch", type=float, default=0.1, help="s")
    arguments.add_argument("--period", type=int, default=1000, help="µs")
    arguments.add_argument("--seed", type=int, default=1, help="of the bootstrap")
    arguments.add_argument("--parts", action="store_true")
    given = arguments.parse_args()
    need_root()
    names = list(PARTS) if given.parts else ["all", "threads", "nothing"]
    text = scenario(given.period, given.seconds, guest=given.guest)
    try:
        both, stretches = asyncio.run(measured(text, names, given.stretch))
    except LabError as error:
        raise SystemExit(str(error)) from None
    found = medians(both, stretches)
    generator = np.random.default_rng(given.seed)
    print(f"{both.height} round trips, {len(found)} intervals, load {os.getloadavg()[0]:.1f}")
    for name in ["off", *names]:
        own = [value for one, value in found if one == name]
        line = f"{name:10}  {len(own):4} intervals  median {np.median(own) / 1000:7.2f} µs"
        logs = against_neighbours(found, name)
        if len(logs):
            again = np.median(generator.choice(logs, (ROUNDS, len(logs))), axis=1)
            low, high = np.exp(np.quantile(again, [0.025, 0.975]))
            line += f"  with ÷ without {np.exp(np.median(logs)):.4f} ({low:.4f} to {high:.4f})"
        print(line)


if __name__ == "__main__":
    main()
